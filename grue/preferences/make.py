"""Make a file of pairs from scored samples, from two systems' predictions, or from people's answers.

The choice of pairs, the annotator's judgements and the parts of the prompts depend only on seed and content: of the
same samples, the first 100 pairs of 1,000 are those of a file of 100, and are judged alike.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, get_args

from grue import files
from grue.data.pairs import KIND, SCHEMA_VERSION, SHARES, PairsHeader, check_shares, contradictions, part_of
from grue.data.scored import read_scored
from grue.data.scored_lines import PairLine, ScoredHeader, ScoredResponse, as_records, check_text
from grue.errors import ConfigError, DataError, SubmissionError, escaped
from grue.evaluation.predictions import match, read_predictions
from grue.evaluation.rewards import Reward, make_reward
from grue.preferences.answers import JudgedItem, read_judged_items, who_answered
from grue.records import Example, check_number, check_seed, legible
from grue.tasks import Task

Ties = Literal["drop", "keep"]
WRITTEN = "none, flip:P with P from 0 to 0.5, or bradley-terry:T with a temperature T above 0"


@dataclass(frozen=True, slots=True)
class SyntheticAnnotator:
    """A synthetic annotator.

    Attributes:
        kind: "none" never errs; "flip" errs with probability `value`, whatever the difference; "bradley-terry" prefers
            a text with probability σ(difference of the rewards / `value`): nearly equal texts are a coin toss.
    """

    kind: Literal["none", "flip", "bradley-terry"]
    value: float = 0.0

    def __str__(self) -> str:
        return self.kind if self.kind == "none" else f"{self.kind}:{self.value:g}"

    def prefers_first(self, first: float, second: float) -> float:
        """Return the probability that the first of two texts is preferred, by their rewards, which differ."""
        if self.kind == "bradley-terry":
            return 0.5 * (1.0 + math.tanh(0.5 * (first - second) / self.value))
        return 1.0 - self.value if first > second else self.value


def parse_noise(text: str) -> SyntheticAnnotator:
    """Return the annotator that `--noise` names; a ConfigError if it is invalid."""
    kind, colon, value = text.partition(":")
    if text == "none":
        return SyntheticAnnotator("none")
    try:
        number = float(value) if colon else math.nan
    except ValueError:
        number = math.nan
    if kind == "flip" and 0 <= number <= 0.5:
        return SyntheticAnnotator("flip", number)
    if kind == "bradley-terry" and 0 < number < math.inf:
        return SyntheticAnnotator("bradley-terry", number)
    raise ConfigError(f"noise {text!r}: write {WRITTEN}.")


@dataclass(frozen=True, slots=True)
class Choice:
    """Which pairs are made, and how they are judged.

    Attributes:
        pairs: How many; None takes all.
        noise: See `parse_noise`.
        ties: Whether pairs without a better text are left out or recorded as ties.
        shares: Part → share of the prompts.
    """

    pairs: int | None = None
    noise: str = "none"
    ties: Ties = "drop"
    seed: int = 1
    shares: Mapping[str, float] = field(default_factory=lambda: SHARES)

    def check(self) -> SyntheticAnnotator:
        """Return the annotator; a ConfigError if an argument is invalid."""
        if self.pairs is not None:
            check_number("pairs", self.pairs)
        if self.ties not in (options := get_args(Ties)):
            raise ConfigError(f"ties {self.ties!r}: write one of {', '.join(options)}.")
        check_seed(self.seed)
        check_shares(self.shares)
        return parse_noise(self.noise)


Candidate = tuple[Example, ScoredResponse, ScoredResponse]
"""Two different texts to a prompt, with the rewards that an annotator judges by."""


# --- from samples ----------------------------------------------------------------------------------------------------


def from_samples(
    path: Path, task: Task, examples: Sequence[Example], choice: Choice, output: Path, *, split: str
) -> PairsHeader:
    """Write pairs of the responses of a file with rewards, which `grue generate --samples N --score` writes.

    Raises:
        ConfigError: The choice is invalid, or there are fewer pairs than requested; or the output holds something else.
        DataError: The file cannot be read, or states only an order.
    """
    annotator = choice.check()
    data = read_scored(path, task, examples, split)
    if not data.rewards:
        raise DataError(f"{path}: states no rewards, but an order already: learn from it as it is.")
    source, budget = data.made if isinstance(data.made, ScoredHeader) else None, data.budget
    candidates: list[Candidate] = []
    for group in data.groups:
        different = {response.text: response for response in reversed(group.responses)}  # of equal texts the first
        texts = dict.fromkeys(group.texts)
        candidates += [(group.example, different[a], different[b]) for a, b in combinations(texts, 2)]
    lines, dropped = _judged(candidates, choice, annotator, path)
    return _write(
        output,
        lines,
        task,
        choice,
        made="samples",
        split=split,
        reward=source.reward if source else "",
        noise=str(annotator),
        sources={path.name: data.sha256},
        dropped_ties=dropped,
        generated_tokens=budget.generated_tokens,
        reward_calls=budget.reward_calls,
        seconds=budget.seconds,
    )


# --- from predictions ------------------------------------------------------------------------------------------------


def from_predictions(
    a: Path,
    b: Path,
    task: Task,
    examples: Sequence[Example],
    train: Sequence[Example],
    choice: Choice,
    output: Path,
    *,
    split: str,
    reward: str | None = None,
) -> PairsHeader:
    """Write pairs of two systems' predictions for a split, judged by a reward.

    Args:
        train: The examples that policies learn from, on which the reward is prepared.
        reward: As for training. [default: the task's]

    Errors are as for `from_samples`, and SubmissionError if an example has no prediction or two, or a prediction none.
    """
    annotator, judged_by = choice.check(), reward or task.reward
    function = make_reward(judged_by, task, train)
    scored = [_rewarded(path, examples, function) for path in (a, b)]
    candidates = (
        (example, first, second)
        for example, first, second in zip(examples, *scored, strict=True)
        if first is not None and second is not None and first.text != second.text
    )
    lines, dropped = _judged(candidates, choice, annotator, a)
    return _write(
        output,
        lines,
        task,
        choice,
        made="predictions",
        split=split,
        reward=judged_by,
        noise=str(annotator),
        sources={f"a: {a.name}": files.sha256_file(a), f"b: {b.name}": files.sha256_file(b)},
        dropped_ties=dropped,
        reward_calls=2 * len(examples),
    )


def _rewarded(path: Path, examples: Sequence[Example], reward: Reward) -> list[ScoredResponse | None]:
    """Return a system's predictions, without invisible characters, with their rewards; None where it has none."""
    predictions = read_predictions(path)
    try:
        predictions = match(examples, predictions)
    except SubmissionError as error:
        raise SubmissionError(f"{path}: {error}") from error
    texts = [legible(prediction.text) for prediction in predictions]
    truncated = [prediction.truncated for prediction in predictions]
    rewarded = zip(texts, reward(examples, texts, truncated=truncated), truncated, strict=True)
    return [None if worth is None else ScoredResponse(text, worth, cut) for text, worth, cut in rewarded]


# --- from people -----------------------------------------------------------------------------------------------------


def from_study(
    path: Path, task: Task, examples: Sequence[Example], choice: Choice, output: Path, *, split: str
) -> PairsHeader:
    """Write pairs by the majority of the people who answered a study; equal numbers are a tie.

    Texts are written without invisible characters. Errors are as for `from_samples`.
    """
    choice.check()
    verdicts = read_judged_items(path)
    by_id = {example.id: example for example in examples}
    by_prompt = {example.prompt: example for example in reversed(examples)}
    different: list[tuple[Example, JudgedItem, ScoredResponse, ScoredResponse]] = []
    for item in verdicts:
        shown = item.shown
        example = by_prompt.get(shown.prompt) if shown.id is None else by_id.get(shown.id)
        if example is None or example.prompt != shown.prompt:
            named = escaped(repr(shown.prompt[:60] if shown.id is None else shown.id))
            raise DataError(
                f"{item.where}: {named} is no prompt of the split {split!r} of {task.suite}/{task.name}; name the "
                "split that the study is of with --split, and its task."
            )
        a, b = (ScoredResponse(legible(text), 0.0) for text in (shown.a, shown.b))
        if a != b:
            different.append((example, item, a, b))
    eligible = [each for each in different if each[1].lead or choice.ties == "keep"]
    _refuse_few(choice, len(eligible), path)
    chosen = sorted(eligible, key=lambda each: _place(choice.seed, "item", each[1].shown.item))[: choice.pairs]
    lines = [_line(example, a, b, item.lead, choice) for example, item, a, b in chosen]
    return _write(
        output,
        lines,
        task,
        choice,
        made="study",
        split=split,
        reward="",
        noise=who_answered(verdicts),
        sources={path.name: files.sha256_file(path)},
        judgements=sum(sum(item.votes) for item in verdicts),
        dropped_ties=len(different) - len(eligible),
    )


# --- judging and writing ---------------------------------------------------------------------------------------------


def _judged(
    candidates: Iterable[Candidate], choice: Choice, annotator: SyntheticAnnotator, source: Path
) -> tuple[list[PairLine], int]:
    """Return the chosen pairs as lines, and how many ties were left out."""
    eligible, ties = list[tuple[str, int, Candidate]](), 0
    for number, (example, first, second) in enumerate(candidates):
        if first.reward == second.reward and choice.ties == "drop":
            ties += 1
            continue
        place = _place(choice.seed, "pair", example.id, first.text, second.text)
        eligible.append((place, number, (example, first, second)))
    _refuse_few(choice, len(eligible), source)
    lines = []
    for *_, (example, first, second) in sorted(eligible, key=lambda ordered: ordered[:2])[: choice.pairs]:
        toss = int(_place(choice.seed, "annotator", example.id, first.text, second.text)[:13], 16) / 16**13
        lead = 0
        if first.reward != second.reward:
            lead = 1 if toss < annotator.prefers_first(first.reward, second.reward) else -1
        lines.append(_line(example, first, second, lead, choice))
    return lines, ties


def _line(example: Example, first: ScoredResponse, second: ScoredResponse, lead: int, choice: Choice) -> PairLine:
    better, worse = (second, first) if lead < 0 else (first, second)
    return PairLine(
        better.text,
        worse.text,
        example.id,
        tie=lead == 0,
        part=part_of(example.prompt, choice.seed, choice.shares),
        chosen_truncated=better.truncated,
        rejected_truncated=worse.truncated,
        chosen_token_ids=better.token_ids,
        rejected_token_ids=worse.token_ids,
    )


def _place(*purpose: str | int) -> str:
    """Return a pseudo-random place in an order that depends only on `purpose`."""
    return files.sha256_json(list(purpose))


def _refuse_few(choice: Choice, available: int, source: Path) -> None:
    if not available:
        ties = " Draw more samples." if choice.ties == "keep" else " Draw more samples, or keep ties with --ties keep."
        why = "no two different texts to a prompt, or all are equally good."
        raise DataError(f"{source}: no pair can be made of it: {why}{ties}")
    if choice.pairs is not None and available < choice.pairs:
        raise ConfigError(
            f"pairs {choice.pairs:,}: {source} gives {available:,}; ask for fewer, or draw more samples to more "
            "prompts."
        )


def _write(output: Path, lines: Sequence[PairLine], task: Task, choice: Choice, **made: Any) -> PairsHeader:
    """Write a file of pairs; an existing file is kept if it is equal, and never replaced."""
    if output.suffix == ".gz":
        raise ConfigError(f"{output}: pairs are written as plain JSON lines; choose a name without .gz.")
    for line in lines:
        for text in (line.chosen, line.rejected):
            check_text(text, f"{output}, the pair of {escaped(line.id or '')}")
    costs = {"judgements": len(lines), "generated_tokens": None, "reward_calls": 0, "seconds": None}
    header = PairsHeader(
        grue=KIND,
        schema=SCHEMA_VERSION,
        suite=task.suite,
        task=task.name,
        task_hash=task.hash,
        seed=choice.seed,
        shares=dict(choice.shares),
        prompts=len({line.id for line in lines}),
        pairs=len(lines),
        ties=sum(line.tie for line in lines),
        contradictions=len(contradictions((line.id, line.chosen, line.rejected) for line in lines if not line.tie)),
        **{**costs, **made},
    )
    text = "".join(f"{files.canonical_json(record)}\n" for record in as_records(header, lines))
    if output.exists():
        if not output.is_file() or output.read_bytes() != text.encode():
            raise ConfigError(f"{output}: holds something else; write elsewhere with --output, or remove it.")
        return header
    files.write_text(output, text)
    return header
