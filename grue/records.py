"""The records that the package passes around and writes to files: examples, predictions, scores, results."""

import operator
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, SupportsIndex, get_args

from grue.bounds import FIGURE, NON_NEGATIVE, PERCENT
from grue.errors import ConfigError
from grue.shapes import LATER

SCHEMA_VERSION = 1
BOARD_SCHEMA = 6

Direction = Literal["higher", "lower"]
ScoredAxis = Literal["preference", "naturalness"]
Axis = Literal[ScoredAxis, "diversity", "none"]
SCORED: tuple[ScoredAxis, ...] = ("preference", "naturalness")
Status = Literal["local", "reported", "recomputed", "rescored", "reproduced", "verified"]

BASELINES: Mapping[str, str] = {
    "null": "the same sentence for every input: the first reference of the first training example",
    "copy": "the prompt itself",
    "lead": "the first three sentences of the document, or of the prompt if there is none",
    "nearest": "the answer of the most similar training prompt, adapted to this one if the data set defines how",
    "template": "a template of training answers, filled from the prompt",
    "lexicon": "word by word, by counts over the training split",
    "extract": "the sentences of the document that score best by counts over the training split",
    "mbr": "of the adapted answers of several similar training prompts, the one most like the others",
    "best-of-n": "of several random training answers, the one with the highest reward of the task",
    "zero-shot": "the task's backbone as it is, before any training",
    "few-shot": "the same, with some training examples before the prompt",
    "oracle": "the first reference, if there is one",
}
"""Baseline → what it answers; tables show baselines in this order."""
LOOKUPS = ("nearest", "template", "lexicon", "extract", "mbr", "best-of-n")
"""The baselines of `grue/lookups`: no model and no training, only the training split and the prompt."""
EXTERNAL = "external"
"""The algorithm of models made elsewhere, in an unknown way."""
SEEDLESS = ("null", "copy", "lead", "nearest", "template", "lexicon", "extract", "mbr", "oracle")
"""The baselines whose output does not depend on a seed, so that one run is enough."""

SYSTEM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*(?<!\.json)(?<!\.toml)")
LONGEST_NAME = 60
"""Characters of a requested name; additions of grue, as in `ppo+best-of-8`, may make it longer."""
LAST = "+last"
"""Suffix of a system's name for the last policies of its runs, if the system is those that validation chose."""
UNFINISHED = "unfinished"
"""The key of a result's system if its run was still training; such a result does not count."""

LARGEST_SEED = 2**32 - 1
UNSEEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")  # categories of Unicode
FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # letters and marks by their category, but invisible
SOFT_HYPHEN = "\u00ad"
JOINERS = f"\u200c\u200d{SOFT_HYPHEN}"  # format characters that are visible in some places
VIRAMA = 9
"""The combining class of characters that join the consonants of Indic scripts."""
_SELECTORS = "".join(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))
_MAY_SHOW = re.compile(f"[{JOINERS}\ufe00-\ufe0f\U000e0100-\U000e01ef]+")  # ranges, which are searched faster

Cost = Literal["tokens", "episodes", "seconds", "prompts", "generated_tokens", "reward_calls", "steps"]
COSTS: tuple[Cost, ...] = get_args(Cost)
"""The costs of training, added up over a run's updates and those of the checkpoint it started from: tokens of responses
(or of references), learnt from or not; sequences; seconds; prompts of drawn responses (or pairs read); tokens drawn;
texts that the reward scored; optimiser steps."""

LIKELIHOOD, CONSENSUS = "likelihood", "consensus"
"""Ways to pick one of several samples without a reward."""


@dataclass(frozen=True, slots=True)
class Example:
    """One input of a task.

    Attributes:
        id: Unique within the task, stable between versions of the code.
        prompt: The text a model sees, before tokenisation and truncation.
        references: Texts by people; empty if the task has none for this input.
        meta: Values that only some metrics need: concepts, a label, a table.
    """

    id: str
    prompt: str
    references: tuple[str, ...]
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Draw:
    """A further text drawn for an example; `truncated` as in `Prediction`."""

    text: str
    truncated: bool = field(default=False, metadata=LATER)


@dataclass(frozen=True, slots=True)
class Prediction:
    """A system's output for the example `id`; `truncated` if it reached the length limit before its end.

    Attributes:
        text: The first drawn text, or the only one.
        more: Further ones, in the order of their draws; each draw of all examples is scored as a corpus.
    """

    id: str
    text: str
    truncated: bool = False
    more: tuple[Draw, ...] = field(default=(), metadata=LATER)

    @property
    def draws(self) -> "tuple[Prediction | Draw, ...]":
        """All texts, the first one first."""
        return (self, *self.more)


def legible(text: str) -> str:
    r"""Return a text without invisible characters: control, format and private ones, and fillers.

    They may deceive readers and pad texts. New lines and tabs stay, "\r\n" becomes a new line, and other white space a
    blank. Joiners stay where letters or emoji join, soft hyphens where a word may be divided, variation selectors after
    characters with variants: at most one in each place. The function is idempotent.
    """
    if text.isascii() and text.isprintable():  # much faster, and the common case
        return text
    text = text.replace("\r\n", "\n")
    hidden = {ord(sign): " " if sign.isspace() else None for sign in set(text) if _is_hidden(sign)}
    return _MAY_SHOW.sub(_what_shows, text.translate(hidden) if hidden else text)


def unseen(text: str) -> set[str]:
    """Return the characters that `legible` removes from a text; submitted predictions must not have any."""
    clean = legible(text)
    return set() if clean == text else {sign for sign in set(text) if text.count(sign) > clean.count(sign)}


def usable(references: Sequence[str]) -> tuple[str, ...]:
    """Return references made `legible`, like answers, so that an exact answer equals one.

    Blank ones beside others count as missing, as sacreBLEU documents, and are left out.
    """
    clean = tuple(map(legible, references))
    return tuple(text for text in clean if text.strip()) or clean


def as_scored(example: Example) -> Example:
    """Return an example with the references that are `usable`."""
    references = usable(example.references)
    return example if references == example.references else replace(example, references=references)


def _is_hidden(sign: str) -> bool:
    if sign in "\n\t" or _MAY_SHOW.match(sign):
        return False
    # The Arabic signs that enclose a number are format characters, but visible.
    return sign in FILLERS or (unicodedata.category(sign) in UNSEEN and unicodedata.bidirectional(sign) != "AN")


def _what_shows(run: re.Match[str]) -> str:
    """Return the visible part of a run of joiners, soft hyphens and selectors: at most a selector and one other."""
    before, after = run.string[max(0, run.start() - 2) : run.start()], run.string[run.end() : run.end() + 2]
    last, first = before[-1:], after[:1]
    selector = run[0][0] if run[0][0] in _SELECTORS and last.strip() and last.lower() == last.upper() else ""
    joiner = next((sign for sign in run[0] if sign not in _SELECTORS), "")
    if joiner == SOFT_HYPHEN:  # a word is not divided after or before a single letter
        shows = len(after) == 2 and after.isalpha() and (not last.isalpha() or (len(before) == 2 and before.isalpha()))
    else:
        emoji = _category(first) == "So" and _category(last) in ("So", "Sk")
        shows = emoji or _joins(last) or _joins(first) or bool(last and unicodedata.combining(last) == VIRAMA)
    return selector + (joiner if shows else "")


def _joins(sign: str) -> bool:
    """Whether a sign is of a script whose letters may join: without capitals, and not as wide as Chinese."""
    return _category(sign) == "Lo" and unicodedata.east_asian_width(sign) not in "WF"


def _category(sign: str) -> str:
    return unicodedata.category(sign) if sign else ""


@dataclass(frozen=True, slots=True)
class Score:
    """One metric's value over a split.

    Attributes:
        metric: Name in the task file.
        axis: What the metric counts towards; "none" if the task does not list it.
        value: Corpus value on the metric's own scale.
        scaled: `value` mapped to 0–100 by the task file; None for a metric outside the score.
        n: Number of examples scored.
        direction: Whether higher or lower is better.
        signature: Everything that decides the value: tokeniser, stemming, reference handling, model revision.
    """

    metric: str
    axis: Axis
    value: Annotated[float, FIGURE]
    scaled: Annotated[float | None, PERCENT]
    n: Annotated[int, NON_NEGATIVE]
    direction: Direction
    signature: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Searched:
    """The scores of answers decoded by a task's `[search]`, shown beside a result's score but not part of it.

    Attributes:
        generation: How they were decoded.
        scores: Metric → corpus value on the metric's own scale.
        preference, naturalness: As in `Result`.
        counts: As in `Result`.
        predictions: sha256 of the answers.
    """

    generation: Mapping[str, Any] = field(repr=False)
    scores: Mapping[str, float] = field(repr=False)
    preference: Annotated[float | None, PERCENT]
    naturalness: Annotated[float | None, PERCENT]
    counts: Mapping[str, int]
    predictions: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Result:
    """A run's scores and everything needed to reproduce them: the content of `result.json`.

    Attributes:
        preference: Mean of the scaled preference metrics, 0–100; None if the task has none.
        naturalness: Mean of the scaled naturalness metrics, 0–100; None if the task has none.
        system: Name, algorithm, backbone and revision, parameters, the cost of training (`COSTS`) until the kept
            update, and under "last" of the whole run.
        data: The source that was read, its revision, rows and the hash of the ids.
        hashes: sha256 of the examples (ids, prompts, references, meta; in order), of the references with their ids, and
            of prompts and predictions. Results by reference have only that of the references.
        counts: Numbers of expected and scored examples, of empty and truncated texts, and, if several were drawn per
            example, of `samples`.
        limited: Whether only a part of the split, or a file of rows (`--split FILE`), was scored; such a result is
            never ranked and cannot be submitted.
        errors: Metrics that could not be computed, and why.
        notes: Caveats about the scores, such as blank references.
        searched: Scores of the answers decoded by the task's `[search]`; None without it.
    """

    schema: int
    status: Literal["complete", "failed"]
    grue: Mapping[str, Any] = field(repr=False)
    suite: str
    task: str
    task_version: int
    task_hash: str = field(repr=False)
    split: str
    seed: int
    system: Mapping[str, Any] = field(repr=False)
    data: Mapping[str, Any] = field(repr=False)
    generation: Mapping[str, Any] = field(repr=False)
    determinism: Mapping[str, Any] = field(repr=False)
    scores: tuple[Score, ...] = field(repr=False)
    preference: Annotated[float | None, PERCENT]
    naturalness: Annotated[float | None, PERCENT]
    hashes: Mapping[str, str] = field(repr=False)
    counts: Mapping[str, int]
    timing: Mapping[str, float] = field(repr=False)
    packages: Mapping[str, str] = field(repr=False)
    limited: bool
    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    searched: Searched | None = field(default=None, metadata=LATER)

    @property
    def steering(self) -> Mapping[str, Any]:
        """What chose among its texts or tokens, `best_of` or `guided` of its decoding; empty if nothing did."""
        stated = (self.generation.get(key) for key in ("best_of", "guided"))
        return next((each for each in stated if isinstance(each, Mapping)), {})


def other_examples(hashes: Mapping[str, str], other_hashes: Mapping[str, str]) -> str | None:
    """Return in words which hash shows that two results are of different examples; None if no hash of both differs."""
    for key in ("references", "examples"):
        mine, theirs = hashes.get(key), other_hashes.get(key)
        if mine and theirs and mine != theirs:
            return f"hashes.{key} {mine[:12]}…, not {theirs[:12]}…"
    return None


@dataclass(frozen=True, slots=True)
class About:
    """A system's description beside its scores; a submission's is written by its authors.

    Attributes:
        parameters: Their number; None if unknown or if there are none.
        licence: The licence of the predictions.
        training_data: What it was trained on beside the tasks' own training splits.
        budget: Training in tokens, hours and devices, in words.
        deterministic: Whether its output does not depend on a seed, so that one result is enough.
        log: Path in the repository of the record behind its status; empty if there is none.
    """

    algorithm: str = ""
    backbone: str = ""
    parameters: int | None = None
    authors: tuple[str, ...] = ()
    licence: str = ""
    training_data: str = ""
    budget: str = ""
    link: str = ""
    deterministic: bool = False
    log: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A result for the board, with its file and its status.

    Attributes:
        status: "local" for the runs of this machine, "reported" without predictions, "recomputed" from published
            outputs kept elsewhere, "rescored" if the scores were recomputed from submitted predictions, "reproduced" if
            a checkpoint also gave the predictions again, "verified" if it held its lead on a test split that did not
            exist when the row was submitted.
        preset: Of its algorithm's settings (`grue.runs.algorithms.preset_of`); empty if unknown.
        unverified: Whether its row has no rank until it is verified.
        is_rerun: Whether the record behind the status drew this run's predictions again.
    """

    result: Result
    path: Path
    status: Status
    about: About = About()
    preset: str = ""
    unverified: bool = False
    is_rerun: bool = False


def model_word(model: str) -> str:
    """Return the last part of a folder, a hub id or `mini:<name>`, as part of a system's name."""
    last = re.split("[/:]", model.rstrip("/"))[-1]
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", last).strip("_.+-")


def with_backbone(system: str, backbone: str | None) -> str:
    """Return the default name of a system, with the backbone that it starts from instead of the task's.

    Args:
        backbone: A folder, a hub id or `mini:<name>`; None, or empty, for the task's own.
    """
    if not backbone:
        return system
    model = str(Path(backbone).resolve()) if Path(backbone).is_dir() else backbone
    return f"{system}-{model_word(model)}"[:LONGEST_NAME].rstrip("_.+-")


def check_system_name(name: str) -> str:
    """Return a system's name, which is also that of its folder; a ConfigError if the name is invalid."""
    if len(name) > LONGEST_NAME or not SYSTEM_NAME.fullmatch(name):
        shown = ascii(name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…")
        raise ConfigError(
            f"The system name {shown}: use at most {LONGEST_NAME} letters (a to z), digits and _ . + -, and "
            "begin with a letter or a digit."
        )
    return name


def is_seed(text: str) -> bool:
    """Whether a text is a seed as in file names: digits without leading zeros, up to `LARGEST_SEED`."""
    return bool(re.fullmatch("0|[1-9][0-9]{0,9}", text)) and int(text) <= LARGEST_SEED


def check_seed(seed: int) -> int:
    """Return a seed as a Python integer, even if it is numpy's; a ConfigError if it is none, or too large."""
    number = _whole(seed)
    if number is None or not 0 <= number <= LARGEST_SEED:
        raise ConfigError(f"seed {seed!r}: choose a whole number from 0 to {LARGEST_SEED}.")
    return number


def check_number(name: str, number: int, least: int = 1) -> int:
    """Return a number of things as a Python integer, even if it is numpy's."""
    whole = _whole(number)
    if whole is None or whole < least:
        raise ConfigError(f"{name} {number!r}: give a whole number of at least {least}.")
    return whole


def _whole(number: object) -> int | None:
    """Return a whole number as a Python integer; None for anything else, including True."""
    return None if isinstance(number, bool) or not isinstance(number, SupportsIndex) else operator.index(number)
