"""The table of `grue leaderboard --pairs`: every two of several systems."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from grue import files
from grue.cli.console import UNKNOWN, data_console, ends, p_value, print_json, printable, table
from grue.leaderboard.pairs import POWER, all_pairs, common_tasks

if TYPE_CHECKING:
    from grue.leaderboard.board import Board, Row


def show_pairs(board: "Board", rows: "Sequence[Row]", as_json: bool) -> None:
    """Print how every two of the rows differ on the tasks that all have, and which differences are decided."""
    pairs, tasks = all_pairs(board.rows, rows), common_tasks(rows)
    if as_json:
        listed = [files.plain(pair) | {"decided": pair.is_decided} for pair in pairs]
        print_json({"suite": board.suite, "tasks": tasks, "pairs": listed})
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
    decided = sum(pair.is_decided for pair in pairs)
    for line in (
        f"{decided} of {len(pairs)} pairs are decided (bold): Holm p, corrected for all of them, is below .05.",
        "p: Student's t over seeds, the examples as given. p, signs: the exact sign-flip test where seeds are pairs.",
        f"Seeds to decide: with so many, a true difference of this size is found {POWER:.0%} of the time, uncorrected.",
    ):
        console.print(Text(f"· {line}", style="dim"))
