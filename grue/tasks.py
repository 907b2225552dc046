"""Tasks: what a task file says, where task files are, and the hash that is a task's identity."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Any, Literal

from grue import files
from grue.records import Axis, Direction

PROSE = (
    ("title",),
    ("description",),
    ("changelog",),
    ("recipes",),
    ("data", "licence"),
    ("data", "citation"),
    ("backbone", "warm_start"),
    ("folder",),
)
"""What a task file says that can change no score."""


@dataclass(frozen=True, slots=True)
class Source:
    """One place that a task's data can come from.

    Attributes:
        kind: "mini" reads the rows that ship with grue, "hub" parquet from the Hugging Face hub, "files" the official
            files by their addresses, "local" files of one's own.
        name: The mini task, the hub's data set id, the layout that official files have, or a title of local files.
        config: The data set's configuration on the hub.
        revision: Pinned commit or branch, or revision of the mini world. Empty where it could not be known offline.
        files: Split → pattern of parquet files within the hub's repository; or of local files, split → path of a
            .jsonl, .csv or .parquet file.
        columns: The columns to read, nested ones with dots ("document.summary.text"); empty means all.
        urls: Addresses of the official files.
        sha256: Address → sha256 of the file, where it is known.
    """

    kind: Literal["mini", "hub", "files", "local"]
    name: str
    config: str = ""
    revision: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    sha256: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Split:
    """One split: which rows, how many, and the hash that freezes their ids.

    Attributes:
        source: The split's name at the source.
        rows: Rows at the source; another count is an error. 0 where it could not be known offline.
        examples: Examples after grouping and selection. 0 where it could not be known offline.
        ids_sha256: sha256 of the example ids, one a line; empty where it could not be known offline.
        begin, end: The share of the examples that belongs to the split, in the order of the hash of their ids: that
            order does not depend on the source's, and two splits with shares apart never meet.
        without: Splits of this task whose examples, told by their ids, are left out of this one.
    """

    source: str
    rows: int = 0
    examples: int = 0
    ids_sha256: str = ""
    begin: float = 0.0
    end: float = 1.0
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Data:
    """Where the examples come from and how a row becomes one."""

    format: str
    language: str
    licence: str
    sources: tuple[Source, ...]
    splits: Mapping[str, Split]
    evaluation: str
    citation: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """How prompts are cut: at most `max_tokens`, the excess taken off the side `truncation`."""

    max_tokens: int
    truncation: Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Generation:
    """Decoding settings, in the terms of Hugging Face's `GenerationConfig`; `top_k = 0` means no truncation."""

    max_new_tokens: int
    min_new_tokens: int = 0
    do_sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    num_beams: int = 1
    length_penalty: float = 1.0


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric of a task's mix.

    Attributes:
        name: Registered metric name.
        axis: What it counts towards; "diversity" is reported and never scored.
        range: The raw values mapped to 0 and 100, worst first; clipped. None for the diversity set.
        reference: For perplexity: the perplexity of the references, so that 100·min(1, reference/value) is the score.
        options: Keyword arguments of the metric.
    """

    name: str
    axis: Axis
    range: tuple[float, float] | None = None
    reference: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def scale(self, value: float) -> float | None:
        """Map a raw corpus value to 0–100, or None for a metric outside the score."""
        if self.reference is not None:
            return 100.0 * min(1.0, self.reference / value)
        if self.range is None:
            return None
        worst, best = self.range
        return 100.0 * min(1.0, max(0.0, (value - worst) / (best - worst)))

    @property
    def direction(self) -> Direction:
        """Whether higher or lower raw values are better, as the scaling says."""
        lower = self.reference is not None or (self.range is not None and self.range[0] > self.range[1])
        return "lower" if lower else "higher"


@dataclass(frozen=True, slots=True)
class Backbone:
    """The model that training starts from: a hub id, a local folder, or `mini:<asset>`.

    Attributes:
        warm_start: A published model that was trained on the task by maximum likelihood, where there is one; what
            `grue train --warm-start` starts from. It changes no score, and is no part of a task's identity.
    """

    family: Literal["causal", "seq2seq"]
    model: str
    revision: str = ""
    warm_start: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """A task file.

    Attributes:
        rollout: Decoding during reinforcement learning.
        decoding: Decoding in evaluation.
        reward: The default reward: a metric's name, a weighted sum of such names, or `module:function`.
        recipes: Algorithm → values of its configuration; "rl" is every reinforcement learner's, "supervised+…" a warm
            start's.
        folder: What the paths of local files are relative to: the task file's own folder, where it has any.
    """

    schema: int
    name: str
    suite: str
    version: int
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
    folder: str = ""

    @property
    def hash(self) -> str:
        """sha256 of everything in the file that can change a score: all but `PROSE`.

        A value that is its key's default does not count either, so that a new key leaves every task what it was. In
        return, a default never changes.
        """
        identity = _without_defaults(self)
        for *path, key in PROSE:
            place = identity[path[0]] if path else identity
            place.pop(key, None)
        return files.sha256_json(identity)


def _without_defaults(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        pairs = ((f, getattr(value, f.name)) for f in fields(value))
        return {f.name: _without_defaults(item) for f, item in pairs if item != _default(f)}
    if isinstance(value, Mapping):
        return {key: _without_defaults(item) for key, item in value.items()}
    return [_without_defaults(item) for item in value] if isinstance(value, tuple) else value


def _default(key: Field[Any]) -> Any:
    return key.default if key.default_factory is MISSING else key.default_factory()
