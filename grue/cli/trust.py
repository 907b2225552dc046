"""`grue submit reproduce` and `grue submit retrain`: rows of the board, made again."""

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from grue.cli import options
from grue.errors import ConfigError

if TYPE_CHECKING:
    from grue.submissions.trust.again import Witness
    from grue.submissions.trust.ladder import Seen
    from grue.submissions.trust.rows import Target

F = TypeVar("F", bound=Callable[..., Any])


def _of_the_record(function: F) -> F:
    """Add --record, --by and --date."""
    function = options.option("--date", "day", help="When, as 2026-01-31. [default: today]")(function)
    function = options.option("--by", default="", help="Who makes it again; needed with --record.")(function)
    return options.option("--record", is_flag=True, help="Write what was seen beside the row, as NAME.trust.json.")(
        function
    )


def _of_the_row(function: F) -> F:
    """Add SUBMISSION and --task."""
    function = options.option("--task", "tasks", multiple=True, help="Only this task; repeat for several.")(function)
    return click.argument("submission", type=click.Path(path_type=Path))(function)


@click.command(short_help="Draw a row's predictions again from its checkpoints.")
@_of_the_row
@options.option("--seed", "seeds", type=int, multiple=True, help="Only this seed; repeat for several.")
@options.option(
    "--checkpoint",
    help="A run or checkpoint; a folder of runs; a path with {task} and {seed}; or a hub id. Baselines need none.",
)
@options.option("--threads", type=click.IntRange(min=1), help="CPU threads of torch. [default: the row's]")
@_of_the_record
@options.offline
def reproduce(
    submission: Path,
    tasks: tuple[str, ...],
    seeds: tuple[int, ...],
    checkpoint: str | None,
    threads: int | None,
    record: bool,
    by: str,
    day: str | None,
    offline: bool,
) -> None:
    """Draw a row's predictions again from the checkpoints behind it, and compare.

    The checkpoint's weights must be those that the row records, and at least 99 % of the texts the same.

    \b
    grue submit reproduce submissions/mini/my-ppo --checkpoint runs
    grue submit reproduce submissions/mini/my-ppo --checkpoint 'me/my-ppo-{task}-{seed}' --task imdb
    """  # noqa: D301 (click reads the escape)
    from grue.cli.console import evaluation_progress
    from grue.submissions.trust.again import threads_of
    from grue.submissions.trust.reproduce import find_models, reproduce
    from grue.submissions.trust.rows import targets

    chosen = targets(submission, tasks, seeds)
    by_whom = _witness(record, by, day, threads or threads_of(chosen))

    def found() -> "Iterator[tuple[Target, Seen]]":
        for model in find_models(chosen, checkpoint):
            with evaluation_progress(str(model.target)) as progress:
                seen = reproduce(model, by_whom, progress)
            yield model.target, seen

    _tell(found(), record)


@click.command(short_help="Train a row again from its configuration.")
@_of_the_row
@options.option("--seed", "seeds", type=int, multiple=True, required=True, help="Which seed; repeat for several.")
@click.option(  # no variable: GRUE_RUNS is the folder of one's own runs
    "--runs", type=click.Path(path_type=Path), default=Path("runs/retrained"), help="Folder of what is trained."
)
@options.option(
    "--at-most",
    type=click.IntRange(min=1),
    callback=None,  # no library takes this number, which may be beyond 32 bits
    help="Texts that a run may take. [default: 2,000,000]",
)
@options.option("--allow-download", is_flag=True, help="Load a model of the hub that the configuration names.")
@options.option("--threads", type=click.IntRange(min=1), help="CPU threads of torch. [default: the row's]")
@options.option("--dry-run", is_flag=True, help="Print what would be trained, and do nothing.")
@_of_the_record
@options.offline
def retrain(
    submission: Path,
    tasks: tuple[str, ...],
    seeds: tuple[int, ...],
    runs: Path,
    at_most: int | None,
    allow_download: bool,
    threads: int | None,
    dry_run: bool,
    record: bool,
    by: str,
    day: str | None,
    offline: bool,
) -> None:
    """Train runs of a row again from their configuration, evaluate them, and compare.

    Equal texts are the same run. Other scores must lie where the row's other seeds lead one to expect a further one.
    The same command resumes what was interrupted.

    \b
    grue submit retrain submissions/mini/my-ppo --task imdb --seed 1
    """  # noqa: D301 (click reads the escape)
    from grue.cli.console import error_console, evaluation_progress
    from grue.cli.progress import TrainingProgress
    from grue.cli.stopping import stop_on_signal
    from grue.cli.train import describe
    from grue.submissions.trust.again import threads_of
    from grue.submissions.trust.retrain import MOST_TEXTS, compare, plan_retraining, train_again
    from grue.submissions.trust.rows import targets

    chosen = targets(submission, tasks, seeds)
    planned = [plan_retraining(target, runs, allow_download, at_most or MOST_TEXTS) for target in chosen]
    for one in planned:
        click.echo(str(one), err=True)
    if dry_run:
        click.echo("\n".join(describe(stage) for one in planned for stage in one.stages))
        return
    by_whom = _witness(record, by, day, threads or threads_of(chosen))

    def found() -> "Iterator[tuple[Target, Seen]]":
        for one in planned:
            with stop_on_signal() as stopped, TrainingProgress(error_console()) as watching:
                train_again(one, by_whom, watching, lambda: bool(stopped))
            with evaluation_progress(str(one.target)) as progress:
                seen = compare(one, by_whom, progress)
            yield one.target, seen

    _tell(found(), record)


def _witness(record: bool, by: str, day: str | None, threads: int | None) -> "Witness":
    """Return who looks.

    Raises:
        ConfigError: A record would not say who made it, when, or with what code.
    """
    import torch

    from grue.provenance import code_is_changed
    from grue.submissions.trust.again import witness

    if threads:
        torch.set_num_threads(threads)
    if record and not by.strip():
        raise ConfigError("--record: say who made it again, with --by NAME.")
    if record and code_is_changed():
        raise ConfigError("--record: the code has uncommitted changes, so that no commit would name it; commit first.")
    try:
        when = date.fromisoformat(day) if day else date.today()
    except ValueError as error:
        raise ConfigError(f"--date {day}: write it as 2026-01-31.") from error
    return witness(by.strip(), when.isoformat())


def _tell(found: "Iterator[tuple[Target, Seen]]", record: bool) -> None:
    """Print what is seen, and record it as it comes.

    Raises:
        SubmissionError: A run did not pass.
    """
    from grue.submissions.trust import ladder as trust
    from grue.submissions.trust.again import describe, refuse_failed

    all_seen = []
    for target, seen in found:
        click.echo(describe(seen))
        if record:
            click.echo(f"→ {trust.record(target.system, seen)}", err=True)
        all_seen.append(seen)
    refuse_failed(all_seen)
