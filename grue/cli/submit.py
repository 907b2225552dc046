"""`grue submit`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from grue import files
from grue.cli import options
from grue.cli.console import error_console, evaluation_progress
from grue.cli.pack_sweep import pack_sweep
from grue.cli.trust import retrain, verify
from grue.errors import ConfigError, DataError, SubmissionError, Unavailable
from grue.records import check_system_name
from grue.render.problems import REPORTS, summary
from grue.submissions.checks import changes
from grue.submissions.checks.check import check
from grue.submissions.folder import SUBMISSION, Submission, place_of, systems
from grue.submissions.packing import collect
from grue.submissions.packing.pack import configurations, describe, pack
from grue.submissions.problems import Problem
from grue.task_files import SUITES

SEED = 0  # of the randomisation tests for regressions: equal files give equal reports


@click.group()
def submit() -> None:
    """Pack runs into a submission, and check submissions."""


@submit.command("check", short_help="Check submissions: recompute every score from the predictions.")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=options.PATH)
@options.option(
    "--against",
    metavar="REF",
    help="Also compare with the submissions at this commit: what is committed since may change no other file, and no "
    "row may get worse. Without PATH, only changed submissions are checked.",
)
@options.option("--maintainer", is_flag=True, help="With --against: other files may change.")
@options.option("--report", type=click.Choice(["text", "json", "github"]), default="text", help="Format of the report.")
@options.output("File to write the report to instead of printing it.")
@options.option(
    "--sample",
    metavar="TEXT",
    help="Recompute the scores of one seed of each system and task only, drawn by TEXT (a commit, say); all else is "
    "checked of every seed.",
)
def check_submissions(
    paths: tuple[Path, ...],
    against: str | None,
    maintainer: bool,
    report: str,
    output: Path | None,
    sample: str | None,
) -> None:
    """Check submissions: structure, frozen ids, and every score recomputed from the predictions.

    PATH is `submissions` (the default), a suite's folder in it, or a system's.
    """
    if sample is not None and against is not None:
        raise ConfigError("--sample is for submissions that stand; of what is handed in (--against) all is recomputed.")
    for path in paths:
        if not systems(path):
            raise DataError(f"{path}: holds no submission; name `submissions`, or a system's folder in it.")
    paths = tuple(map(_spelled_out, paths))
    if against is None:
        checked, problems = _check(paths or (Path("submissions"),), sample=sample)
        if sample is not None:
            note = "Scores were recomputed for one seed of each system and task, and taken as stated for the others."
            click.echo(note, err=True)
    else:
        checked, problems = _check_against(paths, against, maintainer)
    _report(problems, checked, report, output)


def _spelled_out(path: Path) -> Path:
    """Return a path that ends in its system, suite or `submissions`; absolute if the given one does not, as `.`."""
    place, parts = place_of(path), 2 if systems(path) == [path] else 1
    return path if path.parts[-parts:] == place.parts[-parts:] else place


def _check(
    paths: Sequence[Path], before: Path | None = None, sample: str | None = None
) -> tuple[list[Path], list[Problem]]:
    checked = list(dict.fromkeys(system for path in paths for system in systems(path)))
    if not checked:
        return [], []
    with error_console().status(f"Rescoring {', '.join(ascii(str(path))[1:-1] for path in paths)} …"):
        return checked, check(paths, others=before, sample=sample)


def _check_against(paths: Sequence[Path], ref: str, maintainer: bool) -> tuple[list[Path], list[Problem]]:
    """Check submissions, the other changes, and whether a row got worse."""
    import numpy as np

    home = _home(paths[0]) if paths else Path("submissions")
    changed = changes.changed_since(home, ref)
    problems = [] if maintainer else changes.check_paths(home, changed)
    folders = paths or [home / name for name in changes.systems_in(changed) if (home / name).is_dir()]
    with changes.rows_at(home, ref) as before:
        checked, faults = _check(folders, before=before)
        problems += faults
        for system in checked:
            row = before.joinpath(*place_of(system).parts[-2:])
            broken = any(p.severity == "error" and Path(p.path).is_relative_to(system) for p in faults)
            if row.is_dir() and not broken:
                problems += () if maintainer else changes.check_authors(system, row)
                with error_console().status("Comparing with the row on the board …"):
                    problems += changes.check_regression(system, row, np.random.default_rng(SEED))
    return checked, sorted(problems, key=lambda problem: (problem.path, problem.id, problem.message))


def _home(path: Path) -> Path:
    """Return the folder `submissions/` of a path, which is that folder, a suite's or a system's."""
    if (path / SUBMISSION).is_file():
        return path.parent.parent
    return path.parent if path.name in SUITES else path


def _report(problems: Sequence[Problem], checked: Sequence[Path], report: str, output: Path | None) -> None:
    """Print or write the report; raise a SubmissionError if there is an error, Unavailable if not all was checked."""
    text = REPORTS[report](problems, checked)
    if output is None:
        click.echo(text, nl=False)
    else:
        files.write_text(output, text)
        click.echo(f"{summary(problems, checked)} → {output}", err=True)
    errors = sum(problem.severity == "error" for problem in problems)
    if errors:
        raise SubmissionError(f"{errors} error{'s' if errors > 1 else ''} to fix before this can be merged.")
    if any(problem.id == "GRUE-S039" for problem in problems):
        raise Unavailable("This machine could not check everything; see GRUE-S039 in the report.")


@submit.command("pack", short_help="Pack runs, or predictions made elsewhere, into a submission.")
@click.argument("run_paths", metavar="[RUN]...", nargs=-1, type=options.PATH)
@options.option(
    "--sweep",
    metavar="RUNS",
    type=options.PATH,
    help="Instead of RUN: every system of the sweep in this folder, each as its own submission; with --system "
    "one of them.",
)
@options.option("--system", help="Instead of RUN: every run of this system under --runs.")
@options.runs
@options.option(
    "--predictions",
    type=options.PATH,
    help="Instead of RUN: a folder of predictions made elsewhere, <task>/seed-<n>.jsonl. Needs --name.",
)
@options.suite
@options.option("--failed", metavar="TASK:SEED", multiple=True, help="A run that failed; repeat for several.")
@options.option("--name", help="Name on the board. [default: the runs' system]")
@options.option("--authors", help="Separated by commas.")
@options.option("--licence", help="Of the predictions, such as CC-BY-4.0.")
@options.option("--algorithm", help="[default: from the results]")
@options.option("--backbone", help="[default: from the results]")
@options.option("--training-data", help="Training data beyond the tasks' training splits, or none.")
@options.option("--budget", help="Training in tokens, hours and devices. [default: from the results]")
@options.option("--link", help="Address of a page about the system.")
@options.option("--contact", help="How to reach the authors.")
@options.option(
    "--checkpoints",
    metavar="PLACE",
    help="Where they are, for those who verify the row: a hub id or the https address of an archive, with {task} and "
    "{seed}; or config.json, to train them again.",
)
@options.option("--deterministic", is_flag=True, help="Its output depends on no seed: it has one seed and no rank.")
@options.option("--regression", help="Why it is worse than the row that it replaces.")
@options.output("Folder of submissions; the pack is written into SUITE/NAME in it.", default=Path("submissions"))
@options.option("--force", is_flag=True, help="Replace a submission of that name.")
@options.option("--no-check", is_flag=True, help="Do not check the packed submission.")
@options.offline
def pack_runs(
    run_paths: tuple[Path, ...],
    sweep: Path | None,
    system: str | None,
    runs: Path,
    predictions: Path | None,
    suite: str,
    failed: tuple[str, ...],
    output: Path,
    force: bool,
    no_check: bool,
    offline: bool,
    **details: Any,
) -> None:
    """Pack evaluated runs, or predictions made elsewhere, into a submission, and check it.

    RUN is a run's folder, or a system's folder with all its seeds.

    \b
    grue submit pack runs/mini/*/ppo --name my-ppo --authors "A. Author" --licence CC-BY-4.0 --training-data none
    grue submit pack --predictions answers --name mine --algorithm ppo --backbone my/model \\
        --budget "3 hours, one GPU" --authors "A. Author" --licence CC-BY-4.0 --training-data none
    grue submit pack --sweep runs --authors "A. Author" --licence CC-BY-4.0 --training-data none
    """  # noqa: D301 (click reads the escape)
    for given_name in (system, details["name"]):
        if given_name is not None:
            check_system_name(given_name)
    named = system is not None and sweep is None
    if sum([bool(run_paths), named, predictions is not None, sweep is not None]) != 1:
        raise ConfigError("Choose what to pack: one of RUN..., --system NAME, --predictions FOLDER or --sweep RUNS.")
    details["authors"] = [*options.names_of(details["authors"])]
    if sweep is not None:
        if failed:
            raise ConfigError(f"--failed {failed[0]}: the sweep records which of its runs failed; leave it out.")
        packed = pack_sweep(sweep, system, details)
    else:
        if predictions is not None:
            collected = _score(predictions, suite, details, offline)
        else:
            collected = _collect(run_paths, system, runs, suite, failed)
        collected += _failed(failed, collected)
        packed = [(collected, describe(collected, details))]
    folders = _write(packed, output, force)
    if not no_check:
        checked, problems = _check(folders)
        _report(problems, checked, "text", None)


def _write(packed: Sequence[tuple[list[collect.PackedRun], Submission]], output: Path, force: bool) -> list[Path]:
    folders = []
    for runs, submission in packed:
        folder = pack(runs, submission, output, force)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        tasks = len({run.result.task for run in runs})
        click.echo(
            f"{folder}: {len(runs)} run{'s' * (len(runs) > 1)}, {tasks} task{'s' * (tasks > 1)}, {size / 1000:,.0f} kB"
        )
        _print_withheld(runs)
        folders.append(folder)
    return folders


def _print_withheld(runs: Sequence[collect.PackedRun]) -> None:
    """Print which trained tasks are submitted without a configuration."""
    for task, configuration in configurations(runs).items():
        why = [run.withheld for run in runs if run.result.task == task and run.withheld]
        trained = any(run.configuration for run in runs if run.result.task == task)
        if configuration is None and (why or trained):
            reason = why[0] if why else "its seeds were trained with different ones"
            click.echo(f"{task} is packed without its configuration, and cannot be retrained: {reason}.", err=True)


def _collect(
    paths: Sequence[Path], system: str | None, runs: Path, suite: str, failed: Sequence[str]
) -> list[collect.PackedRun]:
    """Read runs; a run that is declared failed need not have a result."""
    folders = collect.find_runs(paths) if system is None else collect.runs_of(system, runs, suite)
    declared = {folder: f"{folder.parent.parent.name}:{folder.name.removeprefix('seed-')}" for folder in folders}
    return [
        collect.read_run(folder)
        for folder in folders
        if declared[folder] not in failed or (folder / "result.json").exists()
    ]


def _score(folder: Path, suite: str, details: Mapping[str, Any], offline: bool) -> list[collect.PackedRun]:
    missing = [f"--{key}" for key in ("name", "algorithm", "backbone") if not details[key]]
    if missing:
        raise ConfigError(f"--predictions: name the system that wrote them: {', '.join(missing)}.")
    system = {key: details[key] for key in ("name", "algorithm", "backbone")}
    files_found = collect.find_predictions(folder, suite)
    scored = []
    with evaluation_progress("Scoring") as progress:
        for done, (task, seed, path) in enumerate(files_found):
            progress(done, len(files_found))
            scored.append(collect.score_run(task, seed, path, system, offline))
            for problem in scored[-1].result.errors:
                click.echo(f"Not scored by {problem}", err=True)
        progress(len(files_found), len(files_found))
    return scored


def _failed(failed: Sequence[str], finished: Sequence[collect.PackedRun]) -> list[collect.PackedRun]:
    """Return the results of failed runs, of the same system as the other runs, of which there must be one."""
    if not finished:
        raise ConfigError("Every run failed: there is no result to submit.")
    results = [run.result for run in finished]
    return [collect.failed_beside(results, *collect.parse_failed(text, results[0].suite)) for text in failed]


submit.add_command(verify)
submit.add_command(retrain)
