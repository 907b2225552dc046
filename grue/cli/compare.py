"""`grue compare`: which of two systems is better, task by task, with its uncertainty."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from grue import files
from grue.api import score as api
from grue.cli import completion, options
from grue.cli.console import data_console, evaluation_progress, print_json, printable, shortened, table
from grue.errors import ConfigError
from grue.evaluation.comparison import Disagreement
from grue.exchange.logged_scores import ScoreCompared, compare_logs, is_log
from grue.leaderboard.compare import Comparison, TaskComparison
from grue.render.figures import UNKNOWN, ends, figure, p_value
from grue.stats.paired import DRAWS, LEVEL, Difference, MeanDifference

ROOMY = 92  # least terminal width for two spaces between a table's columns
LONGEST = 4  # lines of a prompt, a reference or an output
LABEL = 13  # columns of the labels before them


@click.command()
@click.argument("a", shell_complete=completion.SYSTEM)
@click.argument("b", shell_complete=completion.SYSTEM)
@options.suite
@options.option("--task", "tasks", multiple=True, help="Compare on this task only, by name or file; may repeat.")
@options.option(
    "--axis", type=click.Choice(["preference", "naturalness"]), default="preference", help="Score to compare."
)
@options.runs
@options.submissions
@options.option("--draws", type=click.IntRange(min=100), default=DRAWS, help="Draws of the randomisation test.")
@options.option("--seed", type=int, default=0, help="Seed of those draws.")
@click.option(  # no variable: GRUE_EXAMPLES is the file of `grue score --examples`
    "--examples",
    "show",
    type=click.IntRange(min=0),
    default=3,
    help="Examples to show of each task, largest differences first.",
)
@click.option("--score", "scores", multiple=True, help="Of logs: this score only; may repeat. [default: all of both]")
@click.option("--cluster", help="Of logs: the key of metadata that examples of one cluster share.")
@click.option("--common", is_flag=True, help="Of logs: leave out examples that only one has.")
@options.offline
@options.as_json
@click.pass_context
def compare(
    context: click.Context,
    /,
    a: str,
    b: str,
    tasks: tuple[str, ...],
    seed: int,
    scores: tuple[str, ...],
    cluster: str | None,
    common: bool,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Compare two systems, task by task, from their predictions.

    A and B are names of systems under --submissions or --runs, the --algo that made one, or folders with results;
    submissions:NAME and runs:NAME tell apart what is in both places. Predictions are rescored. Both seeds and examples
    count as chance; docs/background/statistics.md explains the test. Two logs of inspect_ai (.eval, .json) or of
    lm-evaluation-harness (samples_….jsonl) are compared on the scores in them, paired by example.

    \b
    grue compare supervised zero-shot
    grue compare nlpo ppo --task commongen --task totto --examples 10
    grue compare submissions:ppo runs:ppo
    grue compare runs/mini/imdb/ppo ../theirs/imdb/ppo --axis naturalness --json
    grue compare a.eval b.eval --score choice --cluster subject
    """  # noqa: D301 (click reads the escape)
    if is_log(a) and is_log(b):
        if strays := options.given(context, "a", "b", "scores", "cluster", "common", "offline", "as_json"):
            raise ConfigError(f"{', '.join(strays)}: of systems on a task, not of two logs; leave it out.")
        found = compare_logs(Path(a), Path(b), scores=scores, cluster=cluster, common=common)
        if as_json:
            print_json({"a": a, "b": b, "scores": files.plain(found)})
        else:
            show_logs(a, b, found, data_console())
        return
    if scores or cluster or common:
        raise ConfigError("--score, --cluster and --common are of two logs: A.eval B.eval, or two samples_….jsonl.")
    with evaluation_progress("Rescoring") as progress:
        compared = api.compare(a, b, tasks=tasks or None, seed=seed, progress=progress, **arguments)
    if as_json:
        print_json({**files.plain(compared), "seed": seed})
        return
    show_comparison(compared, data_console())


def show_logs(a: str, b: str, found: Sequence[ScoreCompared], console: Console) -> None:
    """Print the comparison of two logs."""
    for letter, name in (("A", a), ("B", b)):
        console.print(Text.assemble((f"{letter}  ", "bold"), printable(name)), soft_wrap=True)
    rows = table("score", "A", "B", "A − B", "95% interval", "p", "Holm p", "examples", "verdict", left=(0, 8))
    for one in found:
        sure = one.p_holm < 1 - LEVEL
        verdict = Text(
            ("A is higher" if one.value > 0 else "B is higher") if sure else "too close to call", "bold" * sure
        )
        count = f"{one.examples:,}" if one.clusters is None else f"{one.examples:,} in {one.clusters:,} clusters"
        figures = (f"{one.a:.4g}", f"{one.b:.4g}", f"{one.value:+.3g}", ends(one.interval, "+.3g"))
        rows.add_row(one.name, *figures, p_value(one.p), p_value(one.p_holm), count, verdict)
    console.print(rows)
    for one in found:
        paired = f" ({one.unpaired:.2g} if they had answered different ones)" if one.unpaired > one.error else ""
        error = f"{one.name}: standard error {one.error:.2g}{paired}; a difference of {one.found:.2g} would be found"
        console.print(Text(f"· {error} four times in five.", "dim"), soft_wrap=True)


def show_comparison(compared: Comparison, console: Console) -> None:
    """Print a comparison: differences, sources of their uncertainty, notes, and examples."""
    console.print(Text(f"GRUE comparison: suite {compared.suite}, {compared.axis} (0–100)", style="bold"))
    for letter, name, origin in (("A", compared.a, compared.origin_a), ("B", compared.b, compared.origin_b)):
        console.print(Text.assemble((f"{letter}  ", "bold"), printable(name), (f"  in {printable(origin)}", "dim")))
    for rows in (_differences(compared, console.width), _errors(compared.tasks, console.width)):
        console.print()
        console.print(rows)
    console.print()
    for line in _legend(compared):
        _print_hanging(console, Text("· "), line, "dim")
    for task in compared.tasks:
        for example in task.examples:
            _show_example(console, task, example)


# --- tables ----------------------------------------------------------------------------------------------------------


def _differences(compared: Comparison, width: int) -> Table:
    headers = ("task", "A", "B", "A − B", f"{compared.level:.0%} interval", "p", "Holm p", "verdict")
    rows = table(*headers, left=(0, len(headers) - 1), close=width < ROOMY)
    for task in compared.tasks:
        style = "bold" if task.verdict in ("A better", "B better", "equal") else ""
        rows.add_row(task.task, *_figures(task.difference), p_value(task.p_holm), Text(task.verdict, style))
    if len(compared.tasks) > 1:
        rows.add_section()
        rows.add_row(f"mean of {len(compared.tasks)}", *_figures(compared.mean), "", "", style="bold")
    return rows


def _figures(difference: Difference | MeanDifference) -> Iterator[str]:
    yield f"{difference.a:.1f}"
    yield f"{difference.b:.1f}"
    yield f"{difference.value:+.1f}"
    yield ends(difference.interval, "+.1f")
    yield p_value(difference.p)


def _errors(tasks: Sequence[TaskComparison], width: int) -> Table:
    headers = ("task", "seeds A", "seeds B", "sd A", "sd B", "error: seeds", "error: examples", "examples")
    rows = table(*headers, close=width < ROOMY)
    for task in tasks:
        of_task = task.difference
        spreads = (of_task.sd_a, of_task.sd_b, of_task.seed_error, of_task.test_set_error)
        seeds = str(of_task.seeds_a), str(of_task.seeds_b)
        rows.add_row(task.task, *seeds, *(figure(value, ".2f") for value in spreads), f"{of_task.examples:,}")
    return rows


def _legend(compared: Comparison) -> Iterator[str]:
    """Yield the meaning of the figures, and the notes on this comparison."""
    count = len(compared.tasks)
    chance = f"p: how often chance alone gives such a difference, in {compared.draws:,} draws"
    yield f"{chance}. Holm p: corrected for {count} tasks; the verdict follows it." if count > 1 else f"{chance}."
    yield (
        "sd: between seeds. error: standard error of A − B, from seeds and from the examples of the test set. "
        f"{UNKNOWN}: unknown from one seed."
    )
    if paired := [task.task for task in compared.tasks if task.difference.paired]:
        where = "" if len(paired) == count else f" on {', '.join(paired)}"
        yield f"Seeds are paired{where}: seed k of both began from the same weights."
    for name, tasks in ((compared.a, compared.only_a), (compared.b, compared.only_b)):
        if tasks:
            yield f"Only {name} has {', '.join(tasks)}: not compared."
    yield from compared.notes
    if any(task.examples for task in compared.tasks):
        yield "Below, where they differ most: what an example is worth to each, seeds averaged, and a typical text."


# --- examples --------------------------------------------------------------------------------------------------------


def _show_example(console: Console, task: TaskComparison, example: Disagreement) -> None:
    gap = f"A − B = {example.a.mean - example.b.mean:+.1f}"
    console.print()
    console.print(Text.assemble((f"{task.task}  {printable(example.id)}", "bold"), "  ", (gap, "cyan")))
    _print_text(console, "prompt", example.prompt, "dim")
    more = f" (and {len(example.references) - 1} more)" if len(example.references) > 1 else ""
    if example.references:
        _print_text(console, "reference", example.references[0], "", more)
    for letter, side, seeds in (("A", example.a, task.seeds_a), ("B", example.b, task.seeds_b)):
        known = f" (seed {side.seed}: {side.value:.1f})" if len(seeds) > 1 else ""
        remark = " (no run finished)" if side.seed is None else known
        _print_text(console, f"{letter} {side.mean:7.1f}", side.text, "", remark)


def _print_text(console: Console, label: str, text: str, style: str, remark: str = "") -> None:
    """Print a text in a few lines, shortened in the middle; control characters are made visible."""
    room = (console.width - LABEL - 2) * LONGEST - len(remark)
    shown = Text(shortened(printable(text).strip(), room) or "(empty)", style if text.strip() else "dim")
    shown.append(remark, "dim")
    _print_hanging(console, Text(f"  {label}".ljust(LABEL), "cyan"), shown)


def _print_hanging(console: Console, head: Text, text: Text | str, style: str = "") -> None:
    """Print a text with `head` before its first line, and the other lines indented accordingly."""
    body = Text(printable(text), style) if isinstance(text, str) else text
    for number, line in enumerate(body.wrap(console, console.width - head.cell_len)):
        line.rstrip()
        console.print(Text.assemble(head if number == 0 else " " * head.cell_len, line))
