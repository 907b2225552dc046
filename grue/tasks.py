"""Tasks: the content of a task file, and the hash that identifies a task."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Annotated, Any, Literal

from grue import files
from grue.bounds import COUNT, NON_NEGATIVE, POSITIVE, SHARE, Bounds
from grue.errors import DataError, did_you_mean
from grue.records import Axis, Direction
from grue.shapes import LATER

PROSE = (
    ("title",),
    ("description",),
    ("changelog",),
    ("recipes",),
    ("families",),
    ("data", "licence"),
    ("data", "citation"),
    ("backbone", "warm_start"),
    ("prompt", "chat"),
    ("folder",),
)
"""The keys of a task file that cannot change a score; they are not in its hash.

`prompt.chat` changes only the scores of systems prompted by it, which are marked wherever they are shown: it has its
own version and hash (`Task.chat_hash`), so that no other result is affected.
"""

FILE_ENDINGS = (".jsonl", ".jsonl.gz")
"""Endings of a split that is a file of rows."""


@dataclass(frozen=True, slots=True)
class Source:
    """One place that a task's data can come from.

    Attributes:
        kind: "mini" reads the embedded rows, "hub" reads parquet from the Hugging Face hub, "files" the official
            files from their addresses, "local" your own files, or a folder in the data set's original layout.
        name: The mini task, the hub's data set id, the layout of official files (a name in `grue/data/sets`), or a
            title for local files.
        config: The data set's configuration on the hub.
        revision: Commit or branch; for the mini suite, the revision of its world. Empty if unknown.
        files: Split → pattern of parquet files in the hub's repository; for local files, split → path of a .jsonl,
            .csv or .parquet file.
        columns: The columns to read, nested ones with dots ("document.summary.text"); empty means all.
        urls: Addresses of the official files.
        sha256: Address → sha256 of the file, if known.
        folder: Of a local source, a folder to read instead of `files`, as with `--data-dir`.
    """

    kind: Literal["mini", "hub", "files", "local"]
    name: str
    config: str = ""
    revision: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    sha256: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""


@dataclass(frozen=True, slots=True)
class Split:
    """One split: which rows, how many, and the hash of their ids.

    Attributes:
        source: The split's name at the source.
        rows: Rows at the source; another count is an error. 0 means unknown.
        examples: Examples after grouping and selection; another count is an error. 0 means unknown.
        ids_sha256: sha256 of the sorted example ids, one per line; another hash is an error. Empty means unknown.
        begin, end: The share of the examples that belongs to the split, from 0 to 1, ordered by the hash of their ids:
            the order does not depend on the source, and disjoint shares have no example in common.
        without: Splits of this task whose examples, identified by their ids, are left out of this one.
        most: Largest number of examples of the split, the first ones in that order; 0 keeps all.
    """

    source: str
    rows: int = 0
    examples: int = 0
    ids_sha256: str = ""
    begin: float = 0.0
    end: float = 1.0
    without: tuple[str, ...] = ()
    most: Annotated[int, NON_NEGATIVE] = field(default=0, metadata=LATER)

    def fits(self, examples: object, ids_sha256: object) -> bool:
        """Whether data with this number of examples and hash of ids can be this split.

        None, for what a result does not state, fits.
        """
        pairs = ((examples, self.examples), (ids_sha256, self.ids_sha256))
        return all(actual is None or not expected or actual == expected for actual, expected in pairs)


@dataclass(frozen=True, slots=True)
class Data:
    """Where the examples come from and how rows become examples.

    Attributes:
        format: A name in `grue/data/sets` or of an installed plug-in.
        language: ISO 639-1 code of the references.
        sources: Tried in order; the first that can be read is used.
        splits: Name → split.
        evaluation: The split that results are measured on.
        facts: Whether examples keep their facts, which the metric `facts` reads: of ToTTo, and of four mini tasks.
    """

    format: str
    language: str
    licence: str
    sources: tuple[Source, ...]
    splits: Mapping[str, Split]
    evaluation: str
    citation: str = ""
    facts: bool = False

    @property
    def reward_split(self) -> str:
        """The split whose prompts are learned from by reward alone: `rl` if the task has one, else `train`."""
        return "rl" if "rl" in self.splits else "train"


@dataclass(frozen=True, slots=True)
class Shot:
    """An example in a chat prompt: a prompt and its answer."""

    prompt: str
    answer: str


@dataclass(frozen=True, slots=True)
class Chat:
    """How a chat model is prompted for a task, and which part of its reply is the answer.

    Attributes:
        version: Raised with every change of this table.
        user: The question, with `{prompt}` for the example's prompt; `{{` and `}}` are braces.
        system: The system message; empty for none.
        examples: Examples before the question, as turns of the conversation, in this order.
        shots: How many examples of the training split, with their first references, follow those.
        seed: Selects them, by the hashes of seed and example id, so that they do not depend on the order of the rows.
        marker: The answer is the text after the last occurrence of this text in the reply, or the whole reply.
        pattern: The answer is the first group, or else the whole, of the first match of this regular expression; the
            whole reply if nothing matches.
        lines: How many non-empty lines of the answer are kept; 0 keeps all.
    """

    version: Annotated[int, COUNT]
    user: str
    system: str = ""
    examples: tuple[Shot, ...] = ()
    shots: Annotated[int, Bounds(least=0, most=32)] = 0
    seed: Annotated[int, NON_NEGATIVE] = 0
    marker: str = ""
    pattern: str = ""
    lines: Annotated[int, NON_NEGATIVE] = 0


@dataclass(frozen=True, slots=True)
class Prompt:
    """How prompts are truncated: to `max_tokens` tokens, removing the excess on the side `truncation`.

    Attributes:
        chat: How chat models are prompted; None if the task has no such prompt.
    """

    max_tokens: Annotated[int, COUNT]
    truncation: Literal["left", "right"]
    chat: Chat | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """Decoding settings, named as in Hugging Face's `GenerationConfig`; `top_k = 0` means no truncation.

    Attributes:
        stop: Texts that end a response, which is the text before the first of them. Tokens that contain one are closed
            before `min_new_tokens`, like end tokens; chat models ignore them.
        samples: How many responses evaluation draws per prompt. Each draw of all prompts is scored as a corpus, and
            the mean counts.
    """

    max_new_tokens: Annotated[int, COUNT]
    min_new_tokens: Annotated[int, NON_NEGATIVE] = 0
    do_sample: bool = False
    temperature: Annotated[float, POSITIVE] = 1.0
    top_k: Annotated[int, NON_NEGATIVE] = 0
    top_p: Annotated[float, SHARE] = 1.0
    num_beams: Annotated[int, COUNT] = 1
    length_penalty: float = 1.0
    stop: tuple[str, ...] = field(default=(), metadata=LATER)
    samples: Annotated[int, COUNT] = field(default=1, metadata=LATER)

    def in_words(self) -> str:
        """Return how texts are drawn: "sampling at temperature 0.7, up to 52 tokens"."""
        if self.do_sample:
            cuts = [f"the {self.top_k} likeliest tokens"] if self.top_k else []
            cuts += [f"the likeliest tokens that make up {self.top_p:g}"] if self.top_p < 1 else []
            way = f"sampling at temperature {self.temperature:g}" + "".join(f", from {cut}" for cut in cuts)
        elif self.num_beams > 1:
            penalty = f" and a length penalty of {self.length_penalty:g}" if self.length_penalty != 1 else ""
            way = f"beam search with {self.num_beams} beams{penalty}"
        else:
            way = "the likeliest token at each step"
        most, least = self.max_new_tokens, self.min_new_tokens
        length = f"exactly {most}" if most == least else f"{least} to {most}" if least else f"up to {most}"
        stop = f", cut before the first {' or '.join(map(repr, self.stop))}" if self.stop else ""
        draws = f", {self.samples} texts for each prompt" if self.samples > 1 else ""
        return f"{way}, {length} tokens{stop}{draws}"


def before_stop(text: str, stops: Sequence[str]) -> str | None:
    """Return the text before the first stop string; None if there is none."""
    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(places)] if places else None


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric of a task's mix.

    Attributes:
        name: A registered metric.
        axis: What it counts towards; "diversity" is reported and never scored.
        range: The raw values mapped to 0 and 100, worst first; values beyond are clipped. None for diversity.
        reference: For perplexity, that of the references: the score is 100·min(1, reference/value), 100 at 0.
        options: Keyword arguments of the metric.
    """

    name: str
    axis: Axis
    range: tuple[float, float] | None = None
    reference: Annotated[float | None, POSITIVE] = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def scale(self, value: float) -> float | None:
        """Map a raw corpus value to 0–100, or None for a metric outside the score."""
        if self.reference is not None:
            return 100.0 * min(1.0, self.reference / value) if value > 0 else 100.0
        if self.range is None:
            return None
        worst, best = self.range
        return 100.0 * min(1.0, max(0.0, (value - worst) / (best - worst)))

    @property
    def direction(self) -> Direction:
        """Whether higher or lower raw values are better, which follows from the scale."""
        lower = self.reference is not None or (self.range is not None and self.range[0] > self.range[1])
        return "lower" if lower else "higher"


Family = Literal["causal", "seq2seq"]


@dataclass(frozen=True, slots=True)
class Backbone:
    """The model that training starts from: a hub id, a local folder, or `mini:<asset>`.

    Attributes:
        family: "causal" or "seq2seq", an encoder-decoder. Another backbone (`--backbone`) may be of the other family.
        revision: Commit or tag of a hub model; empty means the newest.
        warm_start: A published model trained on the task by maximum likelihood, if there is one, from which `grue train
            --warm-start` starts. It is not in the task's hash.
    """

    family: Family
    model: str
    revision: str = ""
    warm_start: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """The content of a task file.

    Attributes:
        schema: Version of the file's format.
        name, suite: As in commands: "imdb", "mini".
        version: Raised with every change that affects scores.
        rollout: Decoding during reinforcement learning.
        decoding: Decoding in evaluation.
        reward: The default reward: a metric's name, a weighted sum of such names, or `module:function`.
        recipes: Algorithm → values of its settings; "rl" applies to every reinforcement learner, "supervised+…" to
            runs with a warm start.
        changelog: One line for each version.
        families: Groups of metrics that move together, so that a reward of one raises the others; see
            `experiments/relatives.py`.
        folder: The folder that paths are relative to: the task file's; empty without relative paths.
        search: How evaluation decodes a second time, by beam search or greedily, for a figure beside the score; None if
            it does not.
    """

    schema: int
    name: str
    suite: str
    version: Annotated[int, COUNT]
    title: str
    description: str
    data: Data
    prompt: Prompt
    rollout: Generation
    decoding: Generation
    backbone: Backbone
    reward: str
    metrics: tuple[MetricSpec, ...]
    recipes: Mapping[str, Mapping[str, Any]]
    changelog: tuple[str, ...] = ()
    families: tuple[tuple[str, ...], ...] = ()
    folder: str = ""
    search: Generation | None = None

    @property
    def hash(self) -> str:
        """sha256 of everything in the file that can change a score: all keys except `PROSE`.

        Values equal to their default do not count either, so that new keys change no task's hash; so a default must
        never change.
        """
        identity = without_defaults(self)
        for *path, key in PROSE:
            table = identity[path[0]] if path else identity
            table.pop(key, None)
        return files.sha256_json(_as_written(identity, f"{self.folder}/") if self.folder else identity)

    @property
    def chat_hash(self) -> str:
        """sha256 of the chat prompt, computed like `hash`; empty for a task without one."""
        return "" if self.prompt.chat is None else files.sha256_json(without_defaults(self.prompt.chat))


def with_relatives(metrics: Iterable[str], families: Iterable[Sequence[str]]) -> frozenset[str]:
    """Return metrics with those of a family with one of them, which move together."""
    named = frozenset(metrics)
    return named.union(*(family for family in families if not named.isdisjoint(family)))


def split_of(task: Task, split: str) -> Split:
    """Return a split of a task; a DataError if there is no such split."""
    if split not in task.data.splits:
        close = did_you_mean(split, task.data.splits)
        known = ", ".join(task.data.splits)
        cure = " Name a file for it in the task file, or a share of another under data.splits." if task.folder else ""
        if "." in split:
            cure += f" A file of rows ends in {' or '.join(FILE_ENDINGS)}."
        raise DataError(f"{task.suite}/{task.name} has no split {split!r}.{close} It has {known}.{cure}")
    return task.data.splits[split]


def without_defaults(value: Any) -> Any:
    """Return a task, or a part of one, as plain tables and lists, without values equal to their defaults."""
    if is_dataclass(value) and not isinstance(value, type):
        pairs = ((f, getattr(value, f.name)) for f in fields(value))
        return {f.name: without_defaults(item) for f, item in pairs if item != _default(f)}
    if isinstance(value, Mapping):
        return {key: without_defaults(item) for key, item in value.items()}
    return [without_defaults(item) for item in value] if isinstance(value, tuple) else value


def _as_written(value: Any, folder: str) -> Any:
    """Return tables and lists with the paths in them made relative to the task file again."""
    if isinstance(value, dict):
        return {key: _as_written(item, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_written(item, folder) for item in value]
    return value.replace(folder, "") if isinstance(value, str) else value


def _default(key: Field[Any]) -> Any:
    return key.default if key.default_factory is MISSING else key.default_factory()
