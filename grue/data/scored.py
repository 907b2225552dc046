"""Reading files of scored responses strictly: JSON lines with rewards, pairs or rankings."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from grue import claims, files
from grue.data.pairs import PairsHeader, Part, check_parts, contradictions
from grue.data.scored_lines import (
    FORMS,
    HEADERS,
    KIND,
    LARGEST_REWARD,
    SCHEMA_VERSION,
    WRITTEN,
    Header,
    Line,
    PairLine,
    RewardedLine,
    ScoredResponse,
    check_text,
)
from grue.errors import ConfigError, DataError, escaped
from grue.records import Example
from grue.shapes import from_dict, shown
from grue.task_files import command_name
from grue.tasks import Task

MAKE = "`grue generate --samples 8 --score` writes such a file"


@dataclass(frozen=True, slots=True)
class ScoredGroup:
    """The responses of a line, to one prompt.

    Attributes:
        example: The task's example that they answer.
        responses: At least one; in pairs and rankings only the order of the scores is meaningful.
        part: The part that the line names for its prompt; None if it names none.
    """

    example: Example
    responses: tuple[ScoredResponse, ...]
    part: Part | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """The responses' texts."""
        return tuple(response.text for response in self.responses)

    @property
    def scores(self) -> tuple[float, ...]:
        """The responses' scores."""
        return tuple(response.reward for response in self.responses)


@dataclass(frozen=True, slots=True)
class ScoredBudget:
    """The cost of a file's responses; None where unknown."""

    prompts: int
    generated_tokens: int | None
    reward_calls: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class ScoredData:
    """The content of a file of scored responses.

    Attributes:
        groups: One for each line, in order; several may answer the same example.
        rewards: False if the file has only an order (pairs, rankings): methods that need values refuse it.
        made: The header; None in a file without one.
    """

    path: Path
    sha256: str
    groups: tuple[ScoredGroup, ...]
    rewards: bool
    made: Header | None

    @property
    def learned(self) -> tuple[ScoredGroup, ...]:
        """The groups that may be learned from: all that are not held out."""
        return tuple(group for group in self.groups if group.part in (None, "train"))

    @property
    def contradictions(self) -> int:
        """How many pairs of texts were judged both ways; counted only for files of pairs."""
        orders = ((g.example.id, *g.texts) for g in self.groups if len(g.texts) == 2 and g.scores[0] > g.scores[1])
        return len(contradictions(orders))

    @property
    def budget(self) -> ScoredBudget:
        """The header's budget; without one, the least possible: one prompt per line, one judgement per response."""
        made = self.made
        if made is not None:
            return ScoredBudget(made.prompts, made.generated_tokens, made.reward_calls, made.seconds)
        return ScoredBudget(len(self.groups), None, sum(len(group.texts) for group in self.groups), None)


def read_scored(path: Path, task: Task, examples: Sequence[Example], split: str | None = None) -> ScoredData:
    """Read scored responses to prompts of a task.

    Args:
        examples: Those of the split: each line must answer one of them. If a line has only a prompt, the first example
            with that prompt is used.
        split: The split of the prompts. [default: the one that policies learn from with a reward]
    """
    made, located = _read(path)
    if made is not None:
        _check_task(made, f"{path}, line 1", task)
    example_of = _finder(task, examples, made, [line for _, line in located], split or task.data.reward_split)
    groups = tuple(
        ScoredGroup(example_of(line, where), tuple(line.judged()), line.part if isinstance(line, PairLine) else None)
        for where, line in located
    )
    places = zip(located, groups, strict=True)
    check_parts((where, group.example.prompt, group.part) for (where, _), group in places)
    if made is not None:
        _check_counts(made, path, groups)
    return ScoredData(path, files.sha256_file(path), groups, isinstance(located[0][1], RewardedLine), made)


def read_header(path: Path) -> Header | None:
    """Return the header of a file of scored responses or of pairs; None if it has none."""
    where, first = next(_records(path), ("", {}))
    return _header(first, where) if "grue" in first else None


# --- lines -----------------------------------------------------------------------------------------------------------


def _read(path: Path) -> tuple[Header | None, list[tuple[str, Line]]]:
    """Return the header and the lines of a file with their places: at least one line, and all of the same form."""
    records, made = _records(path), None
    where, first = next(records, ("", None))
    if first is not None and "grue" in first:
        made, (where, first) = _header(first, where), next(records, ("", None))
    if first is None:
        raise DataError(f"{path}: holds no responses; {MAKE}.")
    form, began = _form(first, where), where.removeprefix(f"{path}, ")
    lines: list[tuple[str, Line]] = []
    for place, record in chain([(where, first)], records):
        if _form(record, place) is not form:
            raise DataError(
                f"{place}: has another form than {began}, {WRITTEN[form]}; put lines of each form into their own file."
            )
        lines.append((place, _line(form, record, place)))
    return made, lines


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place, object) of a plain file's lines; a line that cannot be read has a cure."""
    if not path.exists():
        begun = claims.unfinished(path).is_dir()
        fault = "not finished; rerun the `grue generate` that was interrupted" if begun else f"no such file; {MAKE}"
        raise DataError(f"{path}: {fault}.")
    if not path.is_file() or path.suffix == ".gz":
        raise DataError(f"{path}: not a plain file of JSON lines; unpack or copy it into one.")
    try:
        for number, record in files.read_jsonl(path):
            yield f"{path}, line {number}", record
    except DataError as error:
        if not str(error).startswith(f"{path}, line "):
            raise  # the whole file cannot be read
        *lines, rest = path.read_bytes().split(b"\n")
        cure = "Write one JSON object per line, or make the file again."
        if rest and str(error).startswith(f"{path}, line {len(lines) + 1}:"):
            cut = "It is the last line and is incomplete: the file was cut off."
            cure = f"{cut} Copy or make it again, or remove that line."
        raise DataError(f"{error} {cure}") from error


def _header(record: Mapping[str, Any], where: str) -> Header:
    kind = HEADERS.get(record["grue"]) if isinstance(record["grue"], str) else None
    if kind is None:
        raise DataError(f"{where}: a file of {escaped(shown(record['grue']))}, not of {KIND!r}; {MAKE}.")
    if record.get("schema") != SCHEMA_VERSION:
        version = escaped(shown(record.get("schema")))
        raise DataError(
            f"{where}: schema: this version of grue reads {SCHEMA_VERSION}, found {version}; upgrade grue, or make the "
            "file again."
        )
    try:
        return from_dict(kind, record, where)
    except ConfigError as error:
        cure = "Restore the header; or remove it, and the responses' cost is unknown."
        raise DataError(f"{escaped(error, 600)} {cure}") from error


def _form(record: Mapping[str, Any], where: str) -> type[Line]:
    if "grue" in record:
        raise DataError(
            f"{where}: a second header, as in concatenated files; learn from one of them, or remove all headers: the "
            "responses' cost is then unknown."
        )
    forms = {FORMS[key] for key in record if key in FORMS}
    if len(forms) != 1:
        keys = escaped(", ".join(record) or "none")
        many = "is of several forms" if forms else "holds no scored responses"
        raise DataError(f"{where}: {many} (its keys: {keys}). Write one of {', '.join(WRITTEN.values())}.")
    return forms.pop()


def _line(form: type[Line], record: Mapping[str, Any], where: str) -> Line:
    """Read a line, and refuse one that cannot be learned from."""
    try:
        line = from_dict(form, record, where)
    except ConfigError as error:
        cure = f'Lines of this form are {WRITTEN[form]}, with "prompt" in addition to or instead of "id".'
        raise DataError(f"{escaped(error, 600)} {cure}") from error
    if line.id is None and line.prompt is None:
        raise DataError(f"{where}: has neither id nor prompt; name the training example that it answers.")
    judged = line.judged()
    texts = [response.text for response in judged]
    if len(texts) < (1 if form is RewardedLine else 2):
        content = "no response" if form is RewardedLine else f"a ranking of {len(texts)}"
        raise DataError(f"{where}: {content}; add responses, or leave the line out.")
    if form is not RewardedLine and len(set(texts)) < len(texts):
        twin = Counter(texts).most_common(1)[0][0]
        raise DataError(
            f"{where}: the text {escaped(shown(twin))} is better than itself; leave out one of the two, or the line."
        )
    for response in judged:
        check_text(response.text, where)
        if abs(response.reward) > LARGEST_REWARD:
            raise DataError(
                f"{where}: a reward of {response.reward:g}; at most {LARGEST_REWARD:g} is allowed. Scale the rewards."
            )
    return line


# --- the examples of lines -------------------------------------------------------------------------------------------


def _finder(
    task: Task, examples: Sequence[Example], made: Header | None, lines: Sequence[Line], split: str
) -> Callable[[Line, str], Example]:
    """Return the function that finds the example that a line answers, by id or prompt."""
    ids, prompts = {line.id for line in lines}, {line.prompt for line in lines if line.id is None}
    by_id = {example.id: example for example in examples if example.id in ids}
    by_prompt: dict[str | None, Example] = {}
    for example in examples:
        if example.prompt in prompts:
            by_prompt.setdefault(example.prompt, example)

    def example_of(line: Line, where: str) -> Example:
        if line.id is None:
            example, subject = by_prompt.get(line.prompt), f"the prompt {escaped(shown(line.prompt))}"
        else:
            example, subject = by_id.get(line.id), f"the id {escaped(repr(line.id))}"
        if example is None:
            missing = "no training example" if split == "train" else f"no example of the split {escaped(repr(split))}"
            stated = split if made is None else made.split
            note = "" if stated == split else f" The header says that the split {escaped(repr(stated))} was answered."
            raise DataError(
                f"{where}: {subject} is of {missing} of {task.suite}/{task.name}. `grue data export "
                f"{command_name(task)} --split {escaped(split)} -o prompts.jsonl` writes them all.{note}"
            )
        if line.prompt is not None and line.prompt != example.prompt:
            raise DataError(
                f"{where}: the prompt {escaped(shown(line.prompt))} is not that of {subject}, "
                f"{escaped(shown(example.prompt))}. Correct one, or leave one out."
            )
        return example

    return example_of


# --- checks of the header --------------------------------------------------------------------------------------------


def _check_task(made: Header, where: str, task: Task) -> None:
    if (made.suite, made.task) != (task.suite, task.name):
        raise DataError(
            f"{where}: responses to {escaped(made.suite)}/{escaped(made.task)}, not to {task.suite}/{task.name}; "
            f"choose that task, or another file: {MAKE}."
        )
    if made.task_hash != task.hash:
        raise DataError(
            f"{where}: made for another version of {task.suite}/{task.name} (hash {escaped(made.task_hash, 12)}, here "
            f"{escaped(task.hash, 12)}); draw the responses again; {MAKE}."
        )


def _check_counts(made: Header, path: Path, groups: Sequence[ScoredGroup]) -> None:
    """Refuse a header that does not match the lines: lines are missing or added, or its counts are too low."""
    held = sum(len(group.texts) for group in groups)
    prompts = len({group.example.id for group in groups})
    cure = "Make or copy the file again; or remove the header, and the responses' cost is unknown."
    if isinstance(made, PairsHeader):
        stated, count, noun = made.pairs, len(groups), "pairs"
        ties = sum(group.scores[0] == group.scores[-1] for group in groups)
        least = {"prompts": prompts, "judgements": count, "ties": ties, "dropped_ties": 0, "reward_calls": 0}
    else:
        stated, count, noun = made.responses, held, "responses"
        written = sum(bool(text) for group in groups for text in group.texts)
        least = {"prompts": prompts, "reward_calls": held, "generated_tokens": written, "samples": 1, "seconds": 0}
    if stated != count:
        raise DataError(f"{path}: holds {count:,} {noun}, but its header says {stated:,}: it was cut or edited. {cure}")
    for key, count in least.items():
        if getattr(made, key) < count:
            raise DataError(
                f"{path}, line 1: {key} is {getattr(made, key):,}, but the file shows at least {count:,}. {cure}"
            )


# --- the summary of a file -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RewardSummary:
    """The rewards of a file.

    Attributes:
        spread: Standard deviation of all of them.
        within: Mean over groups of their standard deviation, the spread that learning from groups can use.
    """

    mean: float
    spread: float
    least: float
    most: float
    within: float


@dataclass(frozen=True, slots=True)
class ScoredSummary:
    """The summary of a file of scored responses.

    Attributes:
        form: "rewards", "pairs" or "rankings".
        groups: Number of lines.
        repeated: Number of responses equal to an earlier one of their group.
        flat: Share of the groups whose scores are all equal.
        words: Mean and largest number of words of a response.
        rewards: None if the file has only an order.
        contradictions: Pairs of texts that were judged both ways.
    """

    form: str
    prompts: int
    groups: int
    responses: int
    empty: int
    repeated: int
    flat: float
    words: tuple[float, int]
    rewards: RewardSummary | None
    sha256: str
    made: Header | None
    budget: ScoredBudget
    contradictions: int = 0
    held_out: int = 0


def summarise(data: ScoredData) -> ScoredSummary:
    """Return the summary of a file."""
    groups = data.groups
    texts = [text for group in groups for text in group.texts]
    scores = [score for group in groups for score in group.scores]
    lengths = [len(text.split()) for text in texts]
    ordered = "pairs" if all(len(group.texts) == 2 for group in groups) else "rankings"
    return ScoredSummary(
        form="rewards" if data.rewards else ordered,
        prompts=len({group.example.id for group in groups}),
        groups=len(groups),
        responses=len(texts),
        empty=sum(not text.strip() for text in texts),
        repeated=sum(len(group.texts) - len(set(group.texts)) for group in groups),
        flat=sum(len(set(group.scores)) == 1 for group in groups) / len(groups),
        words=(fmean(lengths), max(lengths)),
        rewards=RewardSummary(
            mean=fmean(scores),
            spread=pstdev(scores),
            least=min(scores),
            most=max(scores),
            within=fmean(pstdev(group.scores) for group in groups),
        )
        if data.rewards
        else None,
        sha256=data.sha256,
        made=data.made,
        budget=data.budget,
        contradictions=0 if data.rewards else data.contradictions,
        held_out=len(groups) - len(data.learned),
    )
