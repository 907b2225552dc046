"""The table of `grue leaderboard --pairs`: every two of several systems."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from grue import files
from grue.cli.console import data_console, print_json, printable, table
from grue.leaderboard.pairs import POWER, all_pairs, common_tasks, rank_ranges
from grue.render.figures import UNKNOWN, ends, p_value

if TYPE_CHECKING:
    from grue.leaderboard.board import Board, Row


def show_pairs(board: "Board", rows: "Sequence[Row]", as_json: bool) -> None:
    """Print how every two of the rows differ on the tasks that all have, and how firm their order is."""
    pairs, ranges, tasks = all_pairs(board.rows, rows), rank_ranges(rows), common_tasks(rows)
    if as_json:
        listed = [files.plain(pair) | {"decided": pair.is_decided} for pair in pairs]
        print_json({"suite": board.suite, "tasks": tasks, "pairs": listed, "ranks": ranges})
        return
    console = data_console()
    console.print(Text(f"GRUE pairs: suite {board.suite}, preference (0–100), {', '.join(tasks)}", style="bold"))
    console.print()
    shown = table("A", "B", "A − B", "95% interval", "p", "p, signs", "Holm p", "seeds to decide", left=(0, 1))
    for pair in pairs:
        shown.add_row(
            printable(pair.a),
            printable(pair.b),
            f"{pair.value:+.1f}",
            ends(pair.interval, "+.1f"),
            p_value(pair.p),
            UNKNOWN if pair.p_signs is None else p_value(pair.p_signs),
            p_value(pair.p_holm),
            UNKNOWN if pair.seeds is None else str(pair.seeds),
            style="bold" if pair.is_decided else "",
        )
    console.print(shown)
    console.print()
    if len(tasks) > 1:
        shown = table("system", "mean", "rank by mean", "without one task", "with other tasks", left=(0,))
        for place in sorted(ranges, key=lambda each: each.rank):
            without = sorted(place.without.values())
            shown.add_row(
                printable(place.system),
                f"{place.mean:.1f}",
                str(place.rank),
                _span(without[0], without[-1]),
                UNKNOWN if place.low is None or place.high is None else _span(place.low, place.high),
            )
        console.print(shown)
        console.print()
    decided = sum(pair.is_decided for pair in pairs)
    for line in (
        f"{decided} of {len(pairs)} pairs are decided (bold): Holm p, corrected for all of them, is below .05.",
        "p: Student's t over seeds, the examples as given. p, signs: the exact sign-flip test where seeds are pairs.",
        f"Seeds to decide: with so many, a true difference of this size is decided {POWER:.0%} of the time.",
    ):
        console.print(Text(f"· {line}", style="dim"))
    if len(tasks) > 1:
        console.print(Text("· With other tasks: in 95% of draws of as many tasks, with replacement.", style="dim"))


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}–{high}"
