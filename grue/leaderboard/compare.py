"""Compare two systems over the tasks of a suite: score their predictions again, and test the differences.

Of a `result.json`, only task, split and seed are used, not its scores.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import NormalDist
from typing import Literal

import numpy as np

from grue.data.load import load_examples
from grue.errors import DataError, SubmissionError, Unavailable
from grue.evaluation.comparison import Disagreement, ScoredRun, Worth, axis_metrics, contrast_of, disagreements, worth
from grue.evaluation.folder import PREDICTIONS, RESULT
from grue.evaluation.predictions import match, read_predictions
from grue.evaluation.prompting import prompting_of
from grue.evaluation.scoring import example_hashes
from grue.leaderboard.budgets import unlike_calls
from grue.leaderboard.lineage import line, share_starts
from grue.leaderboard.notes import misfit
from grue.leaderboard.pairs import POWER, SystemPair, with_holm
from grue.leaderboard.systems import FoundSystem
from grue.records import Axis, Entry, Example, Prediction, other_examples
from grue.stats.intervals import Interval
from grue.stats.paired import DRAWS, LEVEL, Contrast, Difference, MeanDifference, Noise, draw, holm, judge, judge_mean
from grue.submissions import folder as submitted
from grue.tasks import Task

Verdict = Literal["A better", "B better", "equal", "too close to call", "one seed: no verdict"]
Progress = Callable[[int, int], None]
MOST_EXAMPLES = 10**6
FEWEST_PAIRS = 3
"""Least number of seeds for a paired test: two differences say too little about their variance."""


@dataclass(frozen=True, slots=True)
class TaskComparison:
    """Two systems on a task.

    Attributes:
        seeds_a: A's seeds, failed ones included. Likewise `seeds_b`.
        verdict: Follows `p_holm`; "equal" if the difference and its interval are 0. There is none if a system that
            depends on its seed has only one.
    """

    task: str
    seeds_a: tuple[int, ...]
    seeds_b: tuple[int, ...]
    difference: Difference
    p_holm: float
    verdict: Verdict
    examples: tuple[Disagreement, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems on the tasks that both have.

    Attributes:
        a: A's name. Likewise `b`; `origin_a` and `origin_b` are where they were found.
        level: Level of the intervals; a verdict needs a corrected p value below 1 - level.
        mean: The mean of the differences, each task with the same weight.
        only_a: Tasks that only A has. Likewise `only_b`.
        notes: Remarks on the results: what failed, what was left out, what the intervals do not cover.
    """

    suite: str
    axis: Axis
    level: float
    draws: int
    a: str
    b: str
    origin_a: str
    origin_b: str
    tasks: tuple[TaskComparison, ...]
    mean: MeanDifference
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    notes: tuple[str, ...]


def _asked_differently(a: FoundSystem, b: FoundSystem) -> Iterator[str]:
    """Yield a note if two systems had different prompts, so that these are compared, too."""
    promptings = [
        {prompting_of(entry.result) for of in system.entries.values() for entry in of.values()} for system in (a, b)
    ]
    if promptings[0] != promptings[1]:
        how_prompted = [
            f"{system.name} by {'/'.join(sorted(how))} prompts" for system, how in zip((a, b), promptings, strict=True)
        ]
        yield f"{' and '.join(how_prompted)}: the difference is also one of the prompts."


def _other_backbones(a: FoundSystem, b: FoundSystem, tasks: Sequence[Task]) -> Iterator[str]:
    """Yield a note for the tasks on which two systems began from different models."""
    tasks_of: dict[tuple[str, ...], list[str]] = {}
    for task in tasks:
        results = [[entry.result for entry in system.entries[task.name].values()] for system in (a, b)]
        tasks_of.setdefault(tuple(submitted.stated(of, "backbone") for of in results), []).append(task.name)
    for (first, second), names in tasks_of.items():
        if first and second and first != second:
            began = f"{a.name} began from {first} and {b.name} from {second}"
            yield f"{', '.join(names)}: {began}; the difference is also one of the backbones."


def compare_systems(
    a: FoundSystem,
    b: FoundSystem,
    tasks: Sequence[Task],
    generator: np.random.Generator,
    *,
    axis: Axis = "preference",
    draws: int = DRAWS,
    show: int = 0,
    offline: bool = False,
    progress: Progress = lambda done, total: None,
) -> Comparison:
    """Compare two systems on the tasks that both have.

    A task that this machine cannot score, or whose data it lacks, is left out with a note, unless it is the only one.

    Raises:
        DataError: There is no common task; a result is not of the whole current evaluation split, or of other examples
            than it has here; or its predictions cannot be read.
        SubmissionError: There is not one prediction for each example, or a submission lacks a seed that it declares.
        ConfigError: A task has no metric of the axis.
        Unavailable: This machine can score none of the tasks, or has the data of none.
    """
    both = [task for task in tasks if task.name in a.entries and task.name in b.entries]
    if not both:
        have = "; ".join(f"{system.name} has {', '.join(system.entries) or 'none'}" for system in (a, b))
        raise DataError(f"The systems have no task in common: {have}. Evaluate what is missing with `grue evaluate`.")
    for task in both:
        refuse_unfit(a, task)
        refuse_unfit(b, task)
    total = sum(len(system.entries[task.name]) for task in both for system in (a, b))
    done = iter(range(1, total + 1))
    met: list[tuple[Task, Contrast, Noise, list[Disagreement]]] = []
    left_out = []
    progress(0, total)
    for task in both:
        try:
            contrast, examples = _meet(task, a, b, axis, show, offline, lambda: progress(next(done), total))
        except Unavailable as error:
            left_out.append(f"{task.name} is left out: {error}")
        else:
            met.append((task, contrast, draw(contrast, generator, draws), examples))
    if not met:
        raise Unavailable(
            "\n".join(left_out) + "\nNo task is left to compare on. Means over seeds need neither data nor metrics: "
            f"`grue leaderboard --suite {both[0].suite} --pairs A,B`."
        )
    differences = [judge(contrast, noise, generator) for _, contrast, noise, _ in met]
    corrected = holm([difference.p for difference in differences])
    compared = []
    for (task, _, _, examples), difference, p in zip(met, differences, corrected, strict=True):
        seeds_a, seeds_b = tuple(a.entries[task.name]), tuple(b.entries[task.name])
        one_seed = any(len(of) == 1 and not system.deterministic for of, system in ((seeds_a, a), (seeds_b, b)))
        verdict = _verdict(difference, p, one_seed)
        compared.append(TaskComparison(task.name, seeds_a, seeds_b, difference, p, verdict, tuple(examples)))
    by_task = {task.name: ([*a.entries[task.name].values()], [*b.entries[task.name].values()]) for task in both}
    return Comparison(
        suite=both[0].suite,
        axis=axis,
        level=LEVEL,
        draws=draws,
        a=a.name,
        b=b.name,
        origin_a=a.origin,
        origin_b=b.origin,
        tasks=tuple(compared),
        mean=judge_mean([contrast for _, contrast, _, _ in met], [noise for _, _, noise, _ in met], generator),
        only_a=_only(a, b, tasks),
        only_b=_only(b, a, tasks),
        notes=(
            *filter(None, (a.renamed, b.renamed)),
            *_asked_differently(a, b),
            *_other_backbones(a, b, both),
            *left_out,
            *_notes_on(a, both),
            *_notes_on(b, both),
            *_unpaired(a, b, both),
            *unlike_calls(a.name, b.name, by_task),
        ),
    )


def pairs_over_examples(
    systems: Sequence[FoundSystem],
    tasks: Sequence[Task],
    generator: np.random.Generator,
    *,
    axis: Axis = "preference",
    data_dir: Path | None = None,
    offline: bool = False,
    progress: Progress = lambda done, total: None,
) -> list[SystemPair]:
    """Return every two of several systems on tasks that all have, with seeds and examples both as random draws.

    The test is that of `compare_systems`, for what has no seeds: models that were made elsewhere.
    """
    worths: dict[tuple[str, str], list[Worth]] = {}
    total = len(systems) * len(tasks)
    for task in tasks:
        examples = load_examples(task, task.data.evaluation, data_dir, offline).examples
        metrics = axis_metrics(task, examples, axis)
        for system in systems:
            progress(len(worths), total)
            entries = system.entries[task.name].values()
            worths[system.name, task.name] = [worth(metrics, examples, predictions_of(e, examples)) for e in entries]
    count, pairs = math.comb(len(systems), 2), []
    quantiles = NormalDist().inv_cdf(1 - (1 - LEVEL) / 2 / count) + NormalDist().inv_cdf(POWER)
    for a, b in combinations(systems, 2):
        contrasts = []
        for name in (task.name for task in tasks):
            paired = are_paired(a.entries[name], b.entries[name])
            contrasts.append(contrast_of(worths[a.name, name], worths[b.name, name], paired))
        judged = judge_mean(contrasts, [draw(each, generator) for each in contrasts], generator)
        variances = sum(each.test_set_variance * len(each.examples) for each in contrasts) / len(contrasts) ** 2
        needed = variances * (quantiles / judged.value) ** 2 if judged.value else math.inf
        examples_needed = math.ceil(needed) if needed < MOST_EXAMPLES else None
        found = (judged.value, judged.interval, judged.p)
        pairs.append(SystemPair(a.name, b.name, *found, None, 1.0, seeds=None, examples=examples_needed))
    return with_holm(pairs)


def refuse_misfit(entry: Entry, task: Task) -> None:
    """Refuse a result that is not of the whole current evaluation split."""
    part = "on a part of the split, or on other rows" if entry.result.limited else None
    if (reason := part or misfit(entry.result, task, task.hash)) is not None:
        raise DataError(f"{entry.path}: was made {reason}; evaluate it again with `grue evaluate --force`.")


def refuse_unfit(system: FoundSystem, task: Task) -> None:
    """Refuse results that are not of the whole current evaluation split, or that lack a declared seed."""
    entries = system.entries[task.name]
    for entry in entries.values():
        refuse_misfit(entry, task)
        folder = entry.path.parent.parent
        if entry.status != "local" and (missing := set(submitted.read_submission(folder).seeds) - set(entries)):
            raise SubmissionError(
                f"{folder}: declares seeds without a result on {task.name}: {', '.join(map(str, sorted(missing)))}; "
                "`grue submit check` lists what else is wrong."
            )


def _meet(
    task: Task, a: FoundSystem, b: FoundSystem, axis: Axis, show: int, offline: bool, tick: Callable[[], None]
) -> tuple[Contrast, list[Disagreement]]:
    """Score two systems on a task; return their contrast, and the examples on which they disagree most."""
    try:
        examples = load_examples(task, task.data.evaluation, offline=offline).examples
    except DataError as error:
        raise Unavailable(str(error)) from error
    metrics = axis_metrics(task, examples, axis)

    def runs(system: FoundSystem) -> Iterator[ScoredRun]:
        for seed, entry in system.entries[task.name].items():
            predictions = predictions_of(entry, examples)
            yield ScoredRun(seed, predictions, worth(metrics, examples, predictions))
            tick()

    runs_a, runs_b = list(runs(a)), list(runs(b))
    paired = are_paired(a.entries[task.name], b.entries[task.name])
    contrast = contrast_of([run.worth for run in runs_a], [run.worth for run in runs_b], paired)
    return contrast, list(disagreements(examples, runs_a, runs_b, show))


def are_paired(a: Mapping[int, Entry], b: Mapping[int, Entry]) -> bool:
    """Whether a test pairs the results of two systems on a task by their seeds."""
    lines = ({seed: frozenset(line(entry.result)) for seed, entry in of.items()} for of in (a, b))
    return len(a) >= FEWEST_PAIRS and share_starts(*lines)


def texts_of(result: Path) -> Path | None:
    """Return the path of a result's predictions; None if its name does not give one."""
    path = result.with_name(PREDICTIONS) if result.name == RESULT else submitted.predictions_of(result)
    return None if path == result else path


def predictions_of(entry: Entry, examples: Sequence[Example]) -> list[Prediction] | None:
    """Return a run's predictions in the split's order; None if it failed."""
    if entry.result.status == "failed":
        return None
    if difference := other_examples(entry.result.hashes, example_hashes(examples)):
        raise DataError(
            f"{entry.path}: was scored on other examples than those of {entry.result.suite}/{entry.result.task} here "
            f"({difference}); evaluate it again on these, with `grue evaluate --force`."
        )
    path = texts_of(entry.path)
    if path is None:
        raise DataError(f"{entry.path}: its predictions are not beside it; name it result.json, beside {PREDICTIONS}.")
    predictions = read_predictions(path)
    try:
        return match(examples, predictions)
    except SubmissionError as error:
        raise SubmissionError(f"{path}: {error}") from error


def _verdict(difference: Difference, p: float, one_seed: bool) -> Verdict:
    if difference.interval == Interval(0.0, 0.0):
        return "equal"
    if one_seed:
        return "one seed: no verdict"
    if p >= 1 - LEVEL:
        return "too close to call"
    return "A better" if difference.value > 0 else "B better"


def _only(system: FoundSystem, other: FoundSystem, tasks: Sequence[Task]) -> tuple[str, ...]:
    return tuple(task.name for task in tasks if task.name in system.entries and task.name not in other.entries)


def _unpaired(a: FoundSystem, b: FoundSystem, tasks: Sequence[Task]) -> Iterator[str]:
    """Yield where seeds would be pairs, but that one system has more of them."""
    for task in tasks:
        of_a, of_b = a.entries[task.name], b.entries[task.name]
        common = sorted(of_a.keys() & of_b.keys())
        if of_a.keys() != of_b.keys() and are_paired(*({seed: of[seed] for seed in common} for of in (of_a, of_b))):
            more, alike = (", ".join(map(str, seeds)) for seeds in (sorted(of_a.keys() ^ of_b.keys()), common))
            yield (
                f"{task.name}: seeds are not paired, since one system alone has seed {more}; {a.name} and {b.name} "
                f"began alike with seed {alike}. With the same seeds the test tells smaller differences."
            )


def _notes_on(system: FoundSystem, tasks: Sequence[Task]) -> Iterator[str]:
    """Yield which runs failed or are unfinished, and which tasks have a single seed."""
    for task in tasks:
        failed = [seed for seed, entry in system.entries[task.name].items() if entry.result.status == "failed"]
        if failed:
            yield f"{task.name}: {system.name} failed with seed {', '.join(map(str, failed))}, which counts as 0."
        for name, seed in system.unfinished:
            if name == task.name:
                yield f"{name}: {seed} of {system.name} has no result yet and is left out."
    single = [task.name for task in tasks if len(system.entries[task.name]) == 1]
    if system.deterministic:
        yield f"{system.name} depends on no seed: one result is complete."
    elif single:
        yield (
            f"{system.name} has one seed on {', '.join(single)}: p and intervals do not cover what other seeds "
            "would give."
        )
