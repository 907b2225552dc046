"""`grue tools check`: whether results reach their requirements, for the CI of your own repository."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from grue import files
from grue.api import score as api
from grue.cli import options
from grue.cli.console import evaluation_progress, print_json, warn
from grue.cli.score import has_all
from grue.data.load import load_examples
from grue.errors import ConfigError, DataError, GrueError, SubmissionError, of_the_system, visible
from grue.evaluation.predictions import match, read_predictions
from grue.evaluation.scoring import chosen_metrics
from grue.leaderboard import bars
from grue.leaderboard.bars import FileFigures, HeldAgainst
from grue.leaderboard.published import shipped
from grue.leaderboard.systems import entries_in
from grue.records import SCORED, Direction, Entry
from grue.render.figures import p_value
from grue.render.layout import plain_table
from grue.render.markdown import markdown_table
from grue.submissions.folder import read_result
from grue.task_files import load_task
from grue.tasks import Task

ANY_SUITE = "mini"  # default of --suite for predictions


@click.command()
@click.argument("paths", metavar="FILE…", type=options.PATH, nargs=-1, required=True)
@options.option("--task", "task_name", help="Task of predictions. [default: the results']")
@options.suite
@options.option(
    "--baseline",
    "baselines",
    multiple=True,
    type=options.PATH,
    help="Results of your own to compare with: a file or a folder, as FILE; repeat for several seeds. Fails what is "
    "significantly worse.",
)
@options.option(
    "--at-least",
    multiple=True,
    metavar="FIGURE=VALUE",
    help="preference, naturalness or a metric of the task; VALUE is a number or a row of the board. "
    "Repeat for several.",
)
@options.option("--at-most", multiple=True, metavar="FIGURE=VALUE", help="The same, for metrics that are better lower.")
@options.option(
    "--tolerance",
    metavar="N[sd]",
    help="By how much a figure may miss a row's mean, in its own unit, or in standard deviations over the row's seeds, "
    "as 2sd. With --baseline, this takes the place of the test.",
)
@options.option("--junit", type=options.PATH, help="Write the verdicts to this file, as JUnit's XML.")
@options.option("--markdown", type=options.PATH, help="Write them to this file, as a table in Markdown.")
@options.data
@options.as_json
@click.pass_context
def check(
    context: click.Context,
    /,
    paths: tuple[Path, ...],
    task_name: str | None,
    suite: str,
    baselines: tuple[Path, ...],
    at_least: tuple[str, ...],
    at_most: tuple[str, ...],
    tolerance: str | None,
    junit: Path | None,
    markdown: Path | None,
    as_json: bool,
    **places: Any,
) -> None:
    """Check that results are not worse than a baseline, a threshold or a row of the board; exit code 1 if one is.

    FILE is a result.json, whose figures are taken as they stand, a folder of results, or predictions, which are scored
    again; - is predictions from standard input. Several of a task are seeds of one system: their mean is checked.

    \b
    grue tools check runs/mini/imdb/ppo --baseline results/last
    grue tools check runs/mini/imdb/ppo --at-least preference=60
    grue tools check predictions.jsonl --task commongen --at-least preference=supervised --tolerance 2sd
    """  # noqa: D301 (click reads the escape)
    for report in filter(None, (junit, markdown)):
        if report == files.STDIN:
            raise ConfigError("A report cannot be written to -; name a file, or /dev/stdout.")
        files.refuse_input(report, [*paths, *baselines])
    named = context.get_parameter_source("suite") is ParameterSource.COMMANDLINE or suite != ANY_SUITE
    asked = (task_name, suite if named else None)
    try:
        verdicts, lines, warnings = _check(paths, baselines, asked, at_least, at_most, tolerance, places)
    except Exception as error:  # else the files would still show the verdicts of an earlier run
        _write_reports(junit, markdown, (), (), str(of_the_system(error) or error))
        if isinstance(error, GrueError) and error.exit_code == 1:  # 1 is for a missed bar alone
            raise DataError(str(error)) from error
        raise
    _write_reports(junit, markdown, verdicts, warnings)
    for warning in warnings:
        warn(warning)
    if as_json:
        print_json(verdicts)
    else:
        click.echo("\n".join(lines))
    if not all(verdict.passed for verdict in verdicts):
        context.exit(1)


# --- what is checked -------------------------------------------------------------------------------------------------


def _check(
    paths: Sequence[Path],
    baselines: Sequence[Path],
    asked: tuple[str | None, str | None],
    at_least: Sequence[str],
    at_most: Sequence[str],
    tolerance: str | None,
    places: Mapping[str, Any],
) -> tuple[list[HeldAgainst], list[str], list[str]]:
    """Hold results and predictions against bars and baselines; `asked` are --task and --suite, where given.

    Returns the verdicts, what is printed, and what makes a verdict doubtful.
    """
    import numpy as np

    required = [bars.parse_bar(text, "at least") for text in at_least]
    required += [bars.parse_bar(text, "at most") for text in at_most]
    allowed = bars.parse_tolerance(tolerance or "0")
    if not required and not baselines:
        raise ConfigError("Nothing to check: give --baseline PATH, or --at-least such as --at-least preference=60.")
    if allowed.size and not baselines and all(bar.number is not None for bar in required):
        raise ConfigError(
            "--tolerance is how far behind a row or a baseline a figure may be; there is no --baseline, and no bar "
            "names a row."
        )
    if [*paths, *baselines].count(files.STDIN) > 1:
        raise ConfigError("- is named twice, but standard input can be read once; name a file for one of them.")
    name = ", ".join(map(str, baselines))
    groups = _by_task(paths, *asked)
    before = {group.task.name: group for group in _by_task(baselines, *asked)} if baselines else {}
    if lacking := [group.task.name for group in groups if before and group.task.name not in before]:
        raise DataError(f"{name}: has no result on {', '.join(lacking)}, to compare with.")
    limits = [bars.limits(required, group.known, group.task, shipped(group.task.suite), allowed) for group in groups]
    # So far, nothing was scored: a wrong name, and a file that cannot be used, is refused at once.
    read = [(group.read(places), before[group.task.name].read(places) if before else []) for group in groups]
    bare = [of_file.source for sides in read for side in sides for of_file in side if not of_file.has_texts]
    if before and tolerance is None and bare:
        raise ConfigError(
            f"{bare[0]}: has no predictions beside it to test by examples. Keep predictions.jsonl beside result.json, "
            "or give --tolerance, such as 2sd or 1."
        )
    verdicts: list[HeldAgainst] = []
    tests: list[HeldAgainst] = []
    warnings: list[str] = []
    with evaluation_progress("tasks") as progress:
        for done, (group, of_task, sides) in enumerate(zip(groups, limits, read, strict=True)):
            progress(done, len(groups))
            task = group.task
            figures, earlier = ([_scored(of_file, task, places) for of_file in side] for side in sides)
            bars.refuse_other_examples([*figures, *earlier], task, shipped(task.suite))
            warnings += _copies(figures, earlier)
            if earlier and tolerance is not None:
                reached = bars.from_baseline(earlier, name, allowed)
                axes, held = {spec.axis for spec in task.metrics}, {limit.bar.figure for limit in reached}
                unchecked = [axis for axis in SCORED if axis in axes and axis not in held]
                warnings += [f"{name}: has no {axis} on {task.name}, which is not checked." for axis in unchecked]
                of_task = [*of_task, *reached]
            verdicts += bars.check(figures, of_task, task)
            if earlier and tolerance is None:
                examples = load_examples(task, task.data.evaluation, **places).examples
                tests += bars.axis_tests(figures, earlier, name, task, examples, np.random.default_rng(0))
    verdicts += bars.not_worse(tests)
    lines = list(_lines(groups, verdicts))
    if left := [other for other in before if other not in {group.task.name for group in groups}]:
        lines.append(f"Not checked: {', '.join(left)}, which only {name} has.")
    by_place = dict(zip(("FILE", "--baseline"), zip(*read, strict=True), strict=True))
    if single := [place for place, of_tasks in by_place.items() if any(len(side) == 1 for side in of_tasks)]:
        meant = (
            "a test covers the examples, not what another seed would give."
            if tests
            else "chance alone may decide a close verdict. Several seeds say more."
        )
        lines.append(f"One seed in {' and in '.join(single)}: {meant}")
    return verdicts, lines, warnings


@dataclass(frozen=True, slots=True)
class _Group:
    """What is to be checked on a task: results, or files of predictions."""

    task: Task
    sources: Sequence[Entry | Path]

    @property
    def known(self) -> Mapping[str, Direction]:
        """The figures that they have or will have, with their directions."""
        first = self.sources[0]
        if isinstance(first, Path):
            specs = chosen_metrics(self.task)
            axes = [axis for axis in SCORED if any(spec.axis == axis for spec in specs)]
            return {spec.name: spec.direction for spec in specs} | dict.fromkeys(axes, "higher")
        figures = bars.of_result(first, self.task)
        return {name: figures.directions.get(name, "higher") for name in figures.values}

    def read(self, places: Mapping[str, Any]) -> list[FileFigures]:
        """Return the figures of results; of predictions, which are not scored yet, the texts alone."""
        return [
            _texts(source, self.task, places) if isinstance(source, Path) else bars.of_result(source, self.task)
            for source in self.sources
        ]


def _by_task(paths: Sequence[Path], task_name: str | None, suite: str | None) -> list[_Group]:
    """Return what files and folders hold, by task."""
    task = None if task_name is None else load_task(task_name, suite or ANY_SUITE)
    sources = [source for path in paths for source in _sources(path, task)]
    predictions = [source for source in sources if isinstance(source, Path)]
    entries = [source for source in sources if not isinstance(source, Path)]
    if len({path.resolve() for path in (*predictions, *(entry.path for entry in entries))}) < len(sources):
        raise ConfigError("A file is named twice; each counts once.")
    if predictions and entries:
        raise ConfigError("Give results or predictions, not both: a run's predictions would count as another seed.")
    if predictions:
        if task is None:
            raise ConfigError("Predictions need --task NAME: what should they be scored against?")
        return [_Group(task, predictions)]
    by_task: dict[tuple[str, str], list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: entry.result.seed):
        by_task.setdefault((entry.result.suite, entry.result.task), []).append(entry)
    groups = []
    for (of_suite, name), of_task in sorted(by_task.items()):
        bars.refuse_mixture(of_task)
        groups.append(_Group(task or load_task(name, suite or of_suite), of_task))  # another's is refused with it
    return groups


def _sources(path: Path, task: Task | None) -> list[Path] | list[Entry]:
    """Return the results that a path holds, a folder's of the task alone, or its predictions."""
    if path.is_dir():
        entries = entries_in(path)
        predictions = sorted(file for file in path.iterdir() if file.name.endswith((".jsonl", ".jsonl.gz")))
        if predictions and not entries:
            return predictions
        wanted = (task.suite, task.name) if task else None
        entries = [entry for entry in entries if wanted in (None, (entry.result.suite, entry.result.task))]
        if not entries:
            of_task = f" of {task.suite}/{task.name}" if task else ""
            raise DataError(f"{path}: holds no result.json{of_task}; `grue evaluate` writes it. Or name predictions.")
        return entries
    if path.suffix != ".json":
        return [path]
    data = files.read_json(path)
    if isinstance(data, dict) and "scores" not in data:
        raise DataError(
            f"{path}: not a result.json that `grue evaluate` writes: it has no 'scores'. Name a run's result.json, or "
            "predictions (.jsonl) with --task."
        )
    return [Entry(read_result(path), path, "local")]


def _texts(path: Path, task: Task, places: Mapping[str, Any]) -> FileFigures:
    """Read predictions, one for each example of the task's evaluation split; if they do not fit, raise a DataError."""
    predictions = read_predictions(path, DataError)
    examples = load_examples(task, task.data.evaluation, **places).examples
    if not has_all(task, [example.id for example in examples]):
        where = places["data_dir"]
        raise DataError(f"{where}: has other examples than the task's, on which no row of the board was scored.")
    try:
        match(examples, predictions)
    except SubmissionError as error:
        raise DataError(f"{path}: {error}") from error
    return bars.FileFigures(path, {}, {}, {}, predictions)


def _scored(of_file: FileFigures, task: Task, places: Mapping[str, Any]) -> FileFigures:
    """Score predictions; a result has its figures."""
    if isinstance(of_file.made, Entry):
        return of_file
    return bars.measured(of_file.source, api.score(of_file.made, task, **places), of_file.made)


def _copies(figures: Sequence[FileFigures], baseline: Sequence[FileFigures]) -> Iterator[str]:
    """Yield what is wrong with files that hold the same."""
    for (place, a), (other, b) in combinations(enumerate([*figures, *baseline]), 2):
        if a.content == b.content:
            if place < len(figures) <= other:
                yield f"{b.source}, the baseline, holds the same as {a.source}: was it overwritten?"
            else:
                yield f"{b.source} holds the same as {a.source}: a copy is no further seed."


# --- what is said of it ----------------------------------------------------------------------------------------------


def _lines(groups: Sequence[_Group], verdicts: Sequence[HeldAgainst]) -> Iterator[str]:
    for group in groups:
        count = len(group.sources)
        yield f"{group.task.suite}/{group.task.name}, {count} file{'s' if count > 1 else ''}"
        for verdict in verdicts:
            if verdict.task == group.task.name:
                yield f"{'ok  ' if verdict.passed else 'FAIL'} {verdict.bar.figure} {sentence(verdict)}"


def sentence(verdict: HeldAgainst) -> str:
    """Return a verdict after the name of its figure: `26.23, below the required 60`."""
    value, limit = _apart(verdict.value, verdict.limit)
    low, high = (f"{end:.4g}" for end in verdict.spread)
    over = f" ({low} to {high})" if low != high else ""
    why = f" ({verdict.why})" if verdict.why else ""
    if verdict.p_holm is None:
        missed = "below" if verdict.bar.side == "at least" else "above"
        return f"{value}{over}, {verdict.bar.side if verdict.passed else missed} the required {limit}{why}"
    level = "at least" if verdict.value >= verdict.limit else f"{'not ' * verdict.passed}significantly below"
    return f"{value}{over}, {level} the baseline's {limit}{why[:-1]}, Holm p {p_value(verdict.p_holm)})"


def _apart(value: float, limit: float) -> tuple[str, str]:
    """Return two numbers with four digits, or as many as tell them apart."""
    for digits in range(4, 17):
        texts = f"{value:.{digits}g}", f"{limit:.{digits}g}"
        if value == limit or texts[0] != texts[1]:
            break
    return texts


def _write_reports(
    junit: Path | None, markdown: Path | None, verdicts: Sequence[HeldAgainst], warnings: Sequence[str], error: str = ""
) -> None:
    """Write verdicts, or why there are none, to the files that are asked for."""
    error = visible(" ".join(error.split()))
    if junit is not None:
        files.write_text(junit, _junit(verdicts, error))
    if markdown is not None:
        files.write_text(markdown, _markdown(verdicts, warnings, error))


def _junit(verdicts: Sequence[HeldAgainst], error: str) -> str:
    """Return the verdicts, or an error, as a test suite in JUnit's XML."""
    from xml.etree import ElementTree

    failed, errors = sum(not verdict.passed for verdict in verdicts), 1 if error else 0
    counts = {"tests": len(verdicts) + errors, "failures": failed, "errors": errors}
    named = {name: str(count) for name, count in counts.items()}
    suite = ElementTree.Element("testsuite", {"name": "grue tools check", **named})
    if error:
        case = ElementTree.SubElement(suite, "testcase", {"classname": "grue", "name": "check"})
        ElementTree.SubElement(case, "error", {"message": error})
    for verdict in verdicts:
        name = f"{verdict.bar.figure} {verdict.bar.side} {verdict.bar.wanted}"
        case = ElementTree.SubElement(suite, "testcase", {"classname": verdict.task, "name": name})
        if not verdict.passed:
            ElementTree.SubElement(case, "failure", {"message": f"{verdict.bar.figure} {sentence(verdict)}"})
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _markdown(verdicts: Sequence[HeldAgainst], warnings: Sequence[str], error: str) -> str:
    """Return the verdicts as a table in Markdown, after an error, warnings and what failed."""
    failed = sum(not verdict.passed for verdict in verdicts)
    title = f"{failed} of {len(verdicts)} checks failed" if failed else f"All {len(verdicts)} checks passed"
    rows = [("ERROR", "", error)] if error else [("warning", "", visible(text)) for text in warnings]
    strong = [(place, 0) for place in range(len(rows) + failed)]
    rows += [
        ("ok" if verdict.passed else "FAIL", verdict.task, f"{verdict.bar.figure} {sentence(verdict)}")
        for verdict in sorted(verdicts, key=lambda verdict: verdict.passed)
    ]
    table = markdown_table(plain_table(("", "task", "figure"), rows, left=(0, 1, 2), strong=strong))
    return f"### grue: {'Nothing was checked' if error else title}\n\n{table}\n"
