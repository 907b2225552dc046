"""Verifying: the checkpoints that the draw names, run on the public test and on rows that did not exist before."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from grue.data.load import load_examples
from grue.errors import SubmissionError, Unavailable
from grue.evaluation.comparison import axis_metrics, worth
from grue.evaluation.evaluate import evaluate
from grue.evaluation.folder import PREDICTIONS
from grue.evaluation.predictions import read_predictions
from grue.evaluation.scoring import SCORED
from grue.evaluation.systems import System
from grue.files import sha256_file
from grue.lm.device import scoring_device
from grue.provenance import code_version, machine, package_versions
from grue.records import Example, Prediction
from grue.submissions.trust.draw import EXAMPLES, GENERATED, Gap, compared, draw, most_inflation
from grue.submissions.trust.models import Place, Target, answer_again, batch_size, load
from grue.submissions.trust.record import SCHEMA_VERSION, Fresh, Rerun, Trust, faults, manifest_sha256
from grue.tasks import Task

TRIES = (1, 100, 10_000)
"""Numbers of checkpoints handed in, for which a bound on the gain is printed."""


def choose(runs: Sequence[Target], salt: str = "") -> list[tuple[Target, int | None]]:
    """Return which of a row's complete runs are made again, one a task, and the seed of the fresh draw if there is one.

    Raises as `draw`.
    """
    drawn = draw((run.result for run in runs), salt)
    by_run = {(run.task.name, run.seed): run for run in runs}
    chosen = [(by_run[task, run.seed], run.rows_seed) for task, run in drawn.items()]
    return [(target, rows_seed if target.task.suite in GENERATED else None) for target, rows_seed in chosen]


def rerun(target: Target, rows_seed: int | None, model: Place, progress: Callable[[int, int], None]) -> Rerun:
    """Run a checkpoint on the public test, and on the fresh draw of a seed; raises as `load`.

    Raises:
        Unavailable: The generator is not installed.
    """
    system = load(target, model)
    with TemporaryDirectory() as place:
        share, _ = answer_again(target, system, Path(place) / "public", progress)
        fresh = None if rows_seed is None else _fresh(target, system, rows_seed, Path(place), progress)
    return Rerun(target.task.name, target.seed, system.weights, share, fresh)


def _fresh(target: Target, system: System, seed: int, place: Path, progress: Callable[[int, int], None]) -> Fresh:
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
    return Fresh(seed, sha256_file(rows), len(examples), _gaps(task, (public, target.read()), (examples, answers)))


Answered = tuple[Sequence[Example], Iterable[Prediction]]


def _gaps(task: Task, public: Answered, fresh: Answered) -> dict[str, Gap]:
    """Return axis → the scores of two splits, of those axes that the task has."""
    gaps: dict[str, Gap] = {}
    for axis in SCORED:
        if any(spec.axis == axis for spec in task.metrics):
            there, here = (
                worth(axis_metrics(task, examples, axis), examples, texts) for examples, texts in (public, fresh)
            )
            gaps[axis] = Gap(there.score, here.score, there.error or 0.0, here.error or 0.0)
    return gaps


def record(system: Path, reruns: Sequence[Rerun], salt: str, by: str, date: str) -> Trust:
    """Return what is recorded of a row whose runs were made again here, by whom and when (ISO 8601)."""
    import torch

    code = code_version()
    return Trust(
        schema=SCHEMA_VERSION,
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
    gaps = run.fresh.gaps if run.fresh else {}
    axes = [f"{axis} {gap.public:.2f} public, {gap.fresh:.2f} fresh (± {gap.error:.2f})" for axis, gap in gaps.items()]
    return f"{run.task} seed {run.seed}: {'; '.join([f'{run.equal_texts:.1%} equal texts', *axes])}"


def describe_bound(reruns: Sequence[Rerun]) -> list[str]:
    """Return what a submitter can gain by handing in checkpoint after checkpoint until one passes, as lines."""
    named = compared({run.task: run.fresh.gaps for run in reruns if run.fresh})
    lines = []
    for name, gap in named.items():
        if name.endswith("preference") and (name.startswith("mean") or len(reruns) == 1):
            bounds = [f"{most_inflation(gap, len(named), tries):.2f} in {tries:,}" for tries in TRIES]
            lines.append(
                f"{name}: {gap.value:+.2f} on the public test against the fresh draw (± {gap.error:.2f}). An inflation "
                f"beyond this many points passes with a probability below 5 %: {', '.join(bounds)} tries."
            )
    return lines
