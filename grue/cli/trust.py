"""`grue submit verify` and `retrain`: run rows of the board again."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grue import files, provenance
from grue.cli import options
from grue.cli.console import error_console, evaluation_progress, stop_on_signal
from grue.cli.progress import TrainingProgress
from grue.errors import ConfigError, SubmissionError
from grue.submissions.folder import CONFIG, read_submission
from grue.submissions.trust.record import record_of

if TYPE_CHECKING:
    from grue.submissions.trust.models import Place, Target
    from grue.submissions.trust.retrain import Retraining

_of_a_row = options.together(
    click.argument("submission", type=options.PATH),
    options.option("--task", "tasks", multiple=True, help="Only this task; repeat for several."),
    click.option(  # no variable: GRUE_RUNS is the folder of one's own runs
        "--runs", type=options.PATH, default=Path("runs/retrained"), help="Folder of what is trained."
    ),
    options.option(
        "--at-most",
        type=options.COUNT,
        callback=None,  # no library takes this number, which may be beyond 32 bits
        help="Texts that a training may take. [default: 2,000,000]",
    ),
    options.option("--allow-download", is_flag=True, help="Load a model of the hub that the configuration names."),
    options.option("--threads", type=options.COUNT, help="CPU threads of torch. [default: the row's]"),
    options.offline,
)


@click.command(short_help="Run a row's checkpoints, also on a test split that did not exist when it was handed in.")
@_of_a_row
@options.option(
    "--seed",
    "seeds",
    type=int,
    multiple=True,
    help="Run this seed alone, on the public test; repeat for several.",
)
@options.option("--drawn", is_flag=True, help="Run only the drawn checkpoints; texts of other seeds are not seen.")
@options.option(
    "--checkpoint",
    help="A run or checkpoint; a folder of runs; a path, a hub id or the address of an archive with {task} and {seed}; "
    "or config.json, to train the runs again. Baselines need none. [default: `checkpoints` of submission.toml]",
)
@options.option("--salt", default="", help="What nobody knew when the row was handed in; the draw depends on it, too.")
@options.option(
    "--beside",
    type=options.PATH,
    help="Folder of submissions with the verified rows over which its lead is judged, such as the base branch's. "
    "[default: the row's own]",
)
@options.option("--record", is_flag=True, help="Write what was seen beside the row, as NAME.trust.json.")
@options.option("--by", default="", help="Who runs it; needed with --record.")
@options.option("--date", "day", help="When, as 2026-01-31. [default: today]")
def verify(
    submission: Path,
    tasks: tuple[str, ...],
    seeds: tuple[int, ...],
    drawn: bool,
    checkpoint: str | None,
    runs: Path,
    at_most: int | None,
    allow_download: bool,
    salt: str,
    beside: Path | None,
    threads: int | None,
    record: bool,
    by: str,
    day: str | None,
    offline: bool,
) -> None:
    """Run a row's checkpoints again on the public test, and one of each task on a fresh draw of its generator.

    The hashes of the row's checkpoints decide which training seeds are drawn, and which rows. The public texts must
    come out again, and its lead over the verified rows (without any, its score) must not be higher on the public test
    than on the fresh draws by more than examples explain.

    \b
    grue submit verify submissions/mini/my-ppo --checkpoint runs
    """  # noqa: D301 (click reads the escape)
    from grue.submissions.trust import verify as verifying
    from grue.submissions.trust.models import find_models, targets

    when = _date(record, by, day)
    if record and (tasks or seeds):
        raise ConfigError("--record: a record is of the whole draw; leave out --task and --seed.")
    if seeds and drawn:
        raise ConfigError("--drawn: the draw names the seeds; leave out --seed.")
    requested = targets(submission, tasks, seeds)
    chosen = [(target, None) for target in requested] if seeds else verifying.choose(targets(submission), salt, drawn)
    chosen = [(target, rows_seed) for target, rows_seed in chosen if not tasks or target.task.name in tasks]
    picked = [target for target, _ in chosen]
    _use_threads(threads, picked)
    where = checkpoint or read_submission(submission).checkpoints or None
    models = _trained(picked, runs, allow_download, at_most) if where == CONFIG else find_models(picked, where)
    verified = [] if seeds else verifying.verified_beside(submission, beside)
    reruns = []
    for (target, rows_seed), model in zip(chosen, models, strict=True):
        with evaluation_progress(str(target)) as progress:
            reruns.append(verifying.rerun(target, rows_seed, model, verified, progress))
        click.echo(verifying.describe(reruns[-1]))
    for line in verifying.describe_bound(reruns):
        click.echo(line)
    trust = verifying.record(submission, reruns, salt, by.strip(), when)
    if record:
        files.write_json(record_of(submission), trust)
        click.echo(f"→ {record_of(submission)}", err=True)
    verifying.refuse_faulty(reruns)
    of_the_row = (
        f"{trust.rung}." if not (tasks or seeds) else "these runs vouch for it; the others were not made again."
    )
    click.echo(f"{submission}: {of_the_row}")


def _trained(picked: "Sequence[Target]", runs: Path, download: bool, at_most: int | None) -> "list[Place]":
    from grue.submissions.trust.retrain import MOST_TEXTS, plan_retraining

    planned = [plan_retraining(target, runs, download, at_most or MOST_TEXTS) for target in picked]
    for retraining in planned:
        click.echo(str(retraining), err=True)
        _train(retraining)
    return [retraining.checkpoint for retraining in planned]


def _train(planned: "Retraining") -> None:
    from grue.submissions.trust.retrain import train_again

    with stop_on_signal() as stopped, TrainingProgress(error_console()) as watching:
        train_again(planned, watching, lambda: bool(stopped))


@click.command(short_help="Train a row again from its configuration.")
@_of_a_row
@options.option("--seed", "seeds", type=int, multiple=True, required=True, help="Which seed; repeat for several.")
@options.option("--dry-run", is_flag=True, help="Print what would be trained, and do nothing.")
def retrain(
    submission: Path,
    tasks: tuple[str, ...],
    seeds: tuple[int, ...],
    runs: Path,
    at_most: int | None,
    allow_download: bool,
    threads: int | None,
    dry_run: bool,
    offline: bool,
) -> None:
    """Train runs of a row again from their configuration, evaluate them, and compare.

    Equal texts are the same run. Other scores must lie where the row's other seeds lead one to expect a further one.
    The same command resumes what was interrupted.

    \b
    grue submit retrain submissions/mini/my-ppo --task imdb --seed 1
    """  # noqa: D301 (click reads the escape)
    from grue.cli.train import describe
    from grue.submissions.trust.models import targets
    from grue.submissions.trust.retrain import MOST_TEXTS, compare, plan_retraining

    chosen = targets(submission, tasks, seeds)
    planned = [plan_retraining(target, runs, allow_download, at_most or MOST_TEXTS) for target in chosen]
    for retraining in planned:
        click.echo(str(retraining), err=True)
    if dry_run:
        click.echo("\n".join(describe(stage) for retraining in planned for stage in retraining.stages))
        return
    _use_threads(threads, chosen)
    failed = []
    for retraining in planned:
        _train(retraining)
        with evaluation_progress(str(retraining.target)) as progress:
            passed, line = compare(retraining, progress)
        click.echo(line)
        failed += [] if passed else [line]
    if failed:
        raise SubmissionError(f"Not the runs of the row: {'; '.join(failed)}.")


def _use_threads(threads: int | None, runs: "Sequence[Target]") -> None:
    import torch

    from grue.submissions.trust.models import threads_of

    if count := threads or threads_of(runs):
        torch.set_num_threads(count)


def _date(record: bool, by: str, day: str | None) -> str:
    """Return the date of a record, which must say who made it, when, and with which code."""
    if record and not by.strip():
        raise ConfigError("--record: say who runs it, with --by NAME.")
    if record and provenance.code_is_changed():
        raise ConfigError("--record: the code has uncommitted changes, so that no commit would name it; commit first.")
    try:
        return (date.fromisoformat(day) if day else date.today()).isoformat()
    except ValueError as error:
        raise ConfigError(f"--date {day}: write it as 2026-01-31.") from error
