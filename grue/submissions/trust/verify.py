"""Verifying: a row's checkpoints on the public test, and those that the draw names on rows that did not exist then."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import numpy as np

from grue.data.load import load_examples
from grue.errors import SubmissionError, Unavailable
from grue.evaluation.comparison import Worth, axis_metrics, worth
from grue.evaluation.evaluate import evaluate
from grue.evaluation.folder import PREDICTIONS
from grue.evaluation.predictions import read_predictions
from grue.evaluation.systems import System
from grue.files import sha256_file
from grue.lm.device import scoring_device
from grue.provenance import code_version, machine, package_versions
from grue.records import SCORED
from grue.submissions.folder import place_of, systems
from grue.submissions.trust.draw import EXAMPLES, GENERATED, Gap, compared, draw, most_inflation
from grue.submissions.trust.models import Place, Target, answer_again, batch_size, load, targets
from grue.submissions.trust.record import (
    Fresh,
    Rerun,
    Trust,
    faults,
    manifest_sha256,
    read_trust,
    standing_of,
)

TRIES = (1, 100, 10_000)
"""Numbers of checkpoints handed in, for which a bound on the gain is printed."""


def choose(runs: Sequence[Target], salt: str = "", drawn_alone: bool = False) -> list[tuple[Target, int | None]]:
    """Return a row's complete runs, and the seed of the fresh draw for the one that is drawn of each task."""
    drawn = draw((run.result for run in runs), salt)
    chosen = []
    for run in runs:
        of_task = drawn[run.task.name]
        is_drawn = run.seed == of_task.seed
        if is_drawn or not drawn_alone:
            chosen.append((run, of_task.rows_seed if is_drawn and run.task.suite in GENERATED else None))
    return chosen


@dataclass(frozen=True, slots=True)
class Verified:
    """A verified row's run of a task: the target, and what was seen of it on its own fresh draw."""

    target: Target
    gaps: Mapping[str, Gap]


def verified_beside(system: Path, submissions: Path | None = None) -> list[Verified]:
    """Return the runs behind the records of the verified rows in a row's suite, the row of that name left out.

    Args:
        submissions: Where those rows are; they and their records decide about the row. [default: beside it]
    """
    place = place_of(system)
    beside = []
    for path in systems(submissions / place.parent.name if submissions else place.parent):
        if path.name == place.name or (trust := read_trust(path)) is None:
            continue
        runs = {(run.task.name, run.seed): run for run in targets(path)}
        if standing_of(path, path.parent.name, [run.result for run in runs.values()]).rung == "verified":
            beside += [Verified(runs[run.task, run.seed], run.fresh.gaps) for run in trust.reruns if run.fresh]
    return beside


def rerun(
    target: Target,
    rows_seed: int | None,
    model: Place,
    verified: Iterable[Verified],
    progress: Callable[[int, int], None],
) -> Rerun:
    """Run a checkpoint on the public test, and on the fresh draw of a seed; raises as `load`.

    Args:
        verified: The runs whose lead is judged, as `verified_beside` returns them; those of other tasks are left out.

    Raises:
        Unavailable: The generator is not installed.
    """
    system = load(target, model)
    with TemporaryDirectory() as place:
        share, _ = answer_again(target, system, Path(place) / "public", progress)
        beside = [other for other in verified if other.target.task.name == target.task.name]
        fresh = None if rows_seed is None else _fresh(target, system, rows_seed, beside, Path(place), progress)
    return Rerun(target.task.name, target.seed, system.weights, share, fresh)


def _fresh(
    target: Target,
    system: System,
    seed: int,
    verified: Sequence[Verified],
    place: Path,
    progress: Callable[[int, int], None],
) -> Fresh:
    try:
        from miniworld.ship import write_held_back
    except ImportError as error:
        raise Unavailable(
            "The generator of the mini suite (miniworld) is not installed; verify in a checkout of grue's repository."
        ) from error
    task, rows = target.task, place / "fresh.jsonl"
    write_held_back(rows, task.name, seed, EXAMPLES)
    size = batch_size(target)
    evaluate(task, system, place / "answers", split=str(rows), batch_size=size, search=False, progress=progress)
    answers = read_predictions(place / "answers" / PREDICTIONS)
    examples = load_examples(task, str(rows)).examples
    public = load_examples(task, task.data.evaluation).examples
    gaps: dict[str, Gap] = {}
    leads: dict[str, Gap] = {}
    for axis in (axis for axis in SCORED if any(spec.axis == axis for spec in task.metrics)):
        metrics = axis_metrics(task, public, axis)
        there = worth(metrics, public, target.read())
        here = worth(axis_metrics(task, examples, axis), examples, answers)
        gaps[axis] = Gap(there.score, here.score, there.error or 0.0, here.error or 0.0)
        if verified:
            others = [worth(metrics, public, other.target.read()) for other in verified]
            leads[axis] = lead(there, others, gaps[axis], [other.gaps[axis] for other in verified])
    seeds = {other.target.system.name: other.target.seed for other in verified}
    return Fresh(seed, sha256_file(rows), len(examples), gaps, leads, seeds)


def lead(run: Worth, others: Sequence[Worth], gap: Gap, gaps: Sequence[Gap]) -> Gap:
    """Return by how much a run is above the mean of others on both splits.

    The public test is the same for all, so that its error is that of paired examples; each fresh draw is another one.
    """
    public, error = run.gain_on(Worth(fmean(o.score for o in others), np.mean([o.values for o in others], axis=0)))
    fresh_error = math.hypot(gap.fresh_error, math.hypot(*(other.fresh_error for other in gaps)) / len(gaps))
    return Gap(public, gap.fresh - fmean(other.fresh for other in gaps), error or 0.0, fresh_error)


def record(system: Path, reruns: Sequence[Rerun], salt: str, by: str, date: str) -> Trust:
    """Return what is recorded of a row whose runs were made again here, by whom and when (ISO 8601)."""
    import torch

    code = code_version()
    return Trust(
        schema=4,
        manifest=manifest_sha256(system),
        salt=salt,
        by=by,
        date=date,
        grue={key: code[key] for key in ("version", "commit")},
        machine=machine(str(scoring_device()), torch.get_num_threads()),
        packages=package_versions(),
        reruns=tuple(reruns),
    )


def refuse_faulty(reruns: Sequence[Rerun]) -> None:
    """Refuse a row whose runs do not vouch for it, with a SubmissionError that lists all `faults`."""
    if lines := faults(reruns):
        raise SubmissionError("\n  ".join(["Not verified:", *lines]))


def describe(run: Rerun) -> str:
    """Return what was seen of a run as a line."""
    gaps = {**run.fresh.gaps, **run.fresh.judged} if run.fresh else {}
    axes = [f"{axis} {gap.public:.2f} public, {gap.fresh:.2f} fresh (± {gap.error:.2f})" for axis, gap in gaps.items()]
    return f"{run.task} seed {run.seed}: {'; '.join([f'{run.equal_texts:.1%} equal texts', *axes])}"


def describe_bound(reruns: Sequence[Rerun]) -> list[str]:
    """Return what a submitter can gain by handing in checkpoint after checkpoint until one passes, as lines."""
    named = compared({run.task: run.fresh.judged for run in reruns if run.fresh})
    lines = []
    for name, gap in named.items():
        if name.endswith("preference") and (name.startswith("mean") or len({run.task for run in reruns}) == 1):
            bounds = [f"{most_inflation(gap, len(named), tries):.2f} in {tries:,}" for tries in TRIES]
            lines.append(
                f"{name}: {gap.value:+.2f} on the public test against the fresh draw (± {gap.error:.2f}). An inflation "
                f"beyond this many points passes with a probability below 5 %: {', '.join(bounds)} tries."
            )
    return lines
