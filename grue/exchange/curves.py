"""Learning curves of two versions of a trainer: has the newer one learned worse?

A curve is what a log says of one figure at each step; a log is a seed. Two numbers sum it up: its mean over all steps
but the first, which training has not changed yet, and its end. Both are compared over seeds by Student's t, and Holm
corrects for the two. An unchanged trainer is called worse in at most 2.5 % of the cases, and better as often. Where
seeds do not differ there is no noise to go by, and p is that of a permutation of the seeds.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from glob import glob
from itertools import count
from pathlib import Path
from typing import Any, Literal

from grue import files
from grue.data.archives import parsed
from grue.errors import DataError, UnknownName, instead
from grue.exchange import foreign_json
from grue.leaderboard.pairs import seeds_to_decide, smallest_difference
from grue.stats.intervals import Interval, mean
from grue.stats.paired import LEVEL, Contrast, holm, judge_seeds

Curve = Mapping[float, float]
"""Step → value."""

STEPS = ("step", "update", "global_step", "_step", "Step")
"""What logs call the number of a step, the first of them that a line has."""
LOGS = ("train.jsonl", "figures.jsonl", "trainer_state.json")
"""The logs in a folder: those of `grue train`, of `grue.callbacks`, of transformers; the first kind with the figure."""


@dataclass(frozen=True, slots=True)
class CurveTest:
    """One number of the curves, compared over seeds.

    Attributes:
        name: "whole curve" or "end".
        value: The new mean minus the old one.
        p: Of Student's t, two-sided; `p_holm` is corrected for the two numbers, or for more.
        found: The true difference that so many seeds would find four times in five, at as much noise; 0 where seeds do
            not differ.
        seeds: The seeds a side that would find `value`; None if there are too many to say.
    """

    name: str
    old: float
    new: float
    value: float
    interval: Interval
    p: float
    p_holm: float
    found: float
    seeds: int | None

    @property
    def is_decided(self) -> bool:
        """Whether the corrected p is below 1 - level."""
        return self.p_holm < 1 - LEVEL


@dataclass(frozen=True, slots=True)
class CurvesCompared:
    """What two sets of curves say.

    Attributes:
        old, new: The logs, one a seed.
        steps: The steps that all logs have.
        means: Mean over seeds at each step, of the old logs and of the new ones.
        paired: Whether the n-th logs of both sides are a pair.
        lower: Whether less is better.
    """

    figure: str
    old: tuple[str, ...]
    new: tuple[str, ...]
    steps: tuple[float, ...]
    means: tuple[tuple[float, ...], tuple[float, ...]]
    paired: bool
    tests: tuple[CurveTest, ...]
    lower: bool

    @property
    def verdict(self) -> Literal["worse", "better", "no difference found"]:
        """What is decided of the new curves, at the level of 5 %."""
        signs = {math.copysign(1, test.value) * (-1 if self.lower else 1) for test in self.tests if test.is_decided}
        return "worse" if -1 in signs else "better" if 1 in signs else "no difference found"


def compare_curves(
    old: Mapping[str, Curve], new: Mapping[str, Curve], figure: str, *, lower: bool = False, paired: bool = False
) -> CurvesCompared:
    """Compare curves, each of a seed.

    Args:
        old: Log → its curve. Likewise `new`.
        lower: Whether less is better, as of a loss.
        paired: Whether the n-th logs of both began from the same weights, with the same seed.
    """
    for side, logs in (("old", old), ("new", new)):
        if len(logs) < 2:
            raise DataError(
                f"The {side} side has one log, {next(iter(logs), 'none')}: whether trainers differ shows over seeds. "
                "Give two at least, better five."
            )
    if paired and len(old) != len(new):
        raise DataError(f"{len(old)} old and {len(new)} new logs are no pairs; leave --paired out.")
    first, steps = next(iter(old.items()))
    for name, curve in {**old, **new}.items():
        if odd := sorted(curve.keys() ^ steps.keys()):
            raise DataError(
                f"{first} has {figure} at {len(steps)} steps and {name} at {len(curve)}; step {odd[0]:g} is in one of "
                "them alone. Log both at the same steps, and let both finish."
            )
    ordered = sorted(steps)
    if len(ordered) < 2:
        raise DataError(f"{first} has {figure} at one step: that is no curve.")
    judged = []
    for name, counted in (("whole curve", ordered[1:]), ("end", ordered[-1:])):
        values = [tuple(mean([curve[step] for step in counted]) for curve in side.values()) for side in (new, old)]
        contrast = Contrast(values[0], values[1], paired=paired)
        each = judge_seeds([contrast])
        if each.value and not contrast.seed_variance > 0:
            each = replace(each, p=_permuted(len(old), len(new), paired))
        judged.append((name, contrast, each))
    corrected = holm([each.p for *_, each in judged])
    tests = []
    for (name, contrast, each), p in zip(judged, corrected, strict=True):
        found, seeds = smallest_difference([contrast], len(contrast.scores_a)), seeds_to_decide([contrast], each.value)
        if each.value and not contrast.seed_variance > 0:
            seeds = next(n for n in count(2) if len(judged) * _permuted(n, n, paired) < 1 - LEVEL)
        tests.append(CurveTest(name, each.b, each.a, each.value, each.interval, each.p, p, found, seeds))
    means = [tuple(mean([curve[step] for curve in side.values()]) for step in ordered) for side in (old, new)]
    both = (means[0], means[1])
    return CurvesCompared(figure, tuple(old), tuple(new), tuple(ordered), both, paired, tuple(tests), lower)


def _permuted(old: int, new: int, paired: bool) -> float:
    """Return p of seeds that differ only by their side: of all permutations, two are so far."""
    return 2.0 ** (1 - new) if paired else min(1.0, 2 / math.comb(old + new, new))


# --- reading ---------------------------------------------------------------------------------------------------------


def read_curves(place: Path, figure: str) -> dict[str, Curve]:
    """Return the curves of a figure in all logs below a folder, in a file, or in the files that a pattern names.

    Args:
        place: "runs/old", "old/seed-1.csv" or "old/*.jsonl".
    """
    found: dict[Path, Curve] = {}
    unknown: UnknownName | None = None
    for logs in _logs(place):
        try:
            curves = {path: _curve(path, figure) for path in logs}
        except UnknownName as error:
            unknown = unknown or error
            continue
        if found and {path.parent for path in curves} != {path.parent for path in found}:
            kinds = " and ".join(sorted({path.name for path in (*found, *curves)}))
            raise DataError(
                f"{place}: {kinds} have {figure}, and may mean different things: name files, '{place}/*/…'."
            )
        found = found or curves
    if unknown and not found:
        raise unknown
    return {str(path): curve for path, curve in found.items()}


def _logs(place: Path) -> list[list[Path]]:
    if place.is_dir():
        kinds = [found for name in LOGS if (found := _latest(place.rglob(name)))]
        if kinds:
            return kinds
        raise DataError(f"{place}: holds no log ({', '.join(LOGS)}); name files, such as '{place}/*.csv'.")
    if place.is_file():
        return [[place]]
    found = [path for path in map(Path, glob(str(place))) if path.is_file()]
    if not found:
        raise DataError(f"{place}: there is no such file or folder.")
    return [sorted(found, key=_by_numbers)]


def _latest(logs: Iterable[Path]) -> list[Path]:
    """Return the logs, of each run of transformers its own or else that of the last checkpoint."""
    latest: dict[Path, tuple[float, Path]] = {}
    for path in logs:
        step = re.fullmatch(r"checkpoint-(\d+)", path.parent.name)
        run = path if path.name != LOGS[-1] else path.parent.parent if step else path.parent
        latest[run] = max(latest.get(run, (-1, path)), (int(step[1]) if step else math.inf, path))
    return sorted((path for _, path in latest.values()), key=_by_numbers)


def _by_numbers(path: Path) -> list[tuple[bool, int, str]]:
    """Return what puts seed-2 before seed-10."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", str(path))]


def _curve(path: Path, figure: str) -> Curve:
    curve: dict[float, float] = {}
    figures: set[str] = set()
    for line in _lines(path):
        figures |= line.keys()
        step = next((line[name] for name in STEPS if name in line), None)
        value = line.get(figure)
        if value in (None, "") or step in (None, ""):
            continue
        try:
            at, number = float(step), float(value)
        except (TypeError, ValueError):
            at = number = math.nan
        if not (math.isfinite(at) and math.isfinite(number)):
            raise DataError(f"{path}: {figure} is {value!r} at step {step!r}; a curve needs finite numbers.")
        if at in curve:
            raise DataError(f"{path}: {figure} has two values at step {at:g}: give each run a log of its own.")
        curve[at] = number
    if not curve:
        known = sorted(figures - {*STEPS})
        raise UnknownName(f"{path} has no {figure!r} with a step ({', '.join(STEPS[:3])}).{instead(figure, known)}")
    return curve


def _lines(path: Path) -> Sequence[Mapping[str, Any]]:
    """Return the lines of a log; NaN, which trainers log of other figures, is no error."""
    if path.suffix.lower() == ".json":
        state = foreign_json.read(path)
        history = state.get("log_history") if isinstance(state, dict) else None
        if not isinstance(history, list) or not all(isinstance(line, dict) for line in history):
            raise DataError(f"{path}: has no log_history, as the trainer_state.json of transformers has.")
        return history
    text = files.read_text(path).removeprefix(files.MARK)
    if path.suffix.lower() == ".csv":
        lines: list[Any] = list(csv.DictReader(io.StringIO(text, newline="")))
        if None in set().union(*lines):
            raise DataError(f"{path}: a row has more columns than the first; a decimal comma, perhaps.")
        return lines
    *whole, last = text.split("\n")
    lines = [parsed(line, f"{path}, line {number}") for number, line in enumerate(whole, start=1) if line.strip()]
    with suppress(DataError):  # it is being written
        lines.append(parsed(last, ""))
    if not all(isinstance(line, dict) for line in lines):
        raise DataError(f"{path}: a line is no JSON object.")
    return lines
