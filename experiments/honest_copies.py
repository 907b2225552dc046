"""How alike honest rows are, beside the limits from which `grue submit check` has a person look.

    python experiments/honest_copies.py [--task wmt16]

For each task, over the runs of the rows that compete: the fewest distinct texts; the most near-copies between a run
and another system's that is no relative; the texts, but those of its start, that stand word for word in one or another
run of other systems; and of the texts in which a run left its start, those that another system's run from there has,
too. Behind each comes its limit, which follows from what the other rows have.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from rich.console import Console
from rich.table import Table

from grue.evaluation.predictions import read_predictions
from grue.submissions.checks.likeness import SAME_STEPS, SketchedRun, agreement, elsewhere, limit, same_steps
from grue.submissions.checks.sketch import alike, sketch
from grue.submissions.checks.texts import FEW_DISTINCT
from grue.submissions.folder import does_not_compete, predictions_of, read_result, read_submission
from grue.task_files import task_names

COLUMNS = ("task", "distinct", "limit", "near-copies", "limit", "elsewhere", "limit", "same steps", "limit")


@dataclass(frozen=True)
class Row:
    """A system's runs on a task.

    Attributes:
        distinct: The fewest distinct texts of a run for each example, 0–1.
    """

    competes: bool
    runs: Sequence[SketchedRun]
    distinct: float


def read_row(folder: Path) -> Row:
    """Read a system's runs on a task."""
    runs, distinct, competes = [], [], not read_submission(folder.parent).deterministic
    for path in sorted(folder.glob("seed-*.result.json")):
        result, predictions = read_result(path), read_predictions(predictions_of(path))
        runs.append(SketchedRun(predictions_of(path), sketch(predictions), result, is_checked=False))
        distinct.append(len({one.text for one in predictions}) / len(predictions))
        competes = competes and not does_not_compete(result)
    return Row(competes, runs, min(distinct))


def cells(task: str, rows: Sequence[Row]) -> list[str]:
    """Return a line of the table; shares in percent, a range where a limit depends on the row."""
    competing = [row for row in rows if row.competes]
    near, steps, gathered = [], [0.0], {}
    for row in competing:
        others = [run for other in rows if other is not row for run in other.runs]
        gathered[id(row)] = [elsewhere(run, others) for run in row.runs]
        for run, other in product(row.runs, others):
            steps.append(same_steps(run, other, others))
            if not run.related(other):
                near.append(alike(run.sketch, other.sketch))

    def limits(shares: Sequence[Sequence[float]]) -> list[float]:
        """Return each row's limit, from the most that the rows beside it have."""
        return [limit(max(max(one) for one in shares[:k] + shares[k + 1 :])) for k in range(len(shares))]

    return [
        task,
        _range([min(row.distinct for row in competing)]),
        _range([FEW_DISTINCT]),
        _range([max(near)]),
        _range(limits([[agreement(row.runs)] for row in competing])),
        _range([share for shares in gathered.values() for share in shares]),
        _range(limits(list(gathered.values()))),
        _range([max(steps)]),
        _range([SAME_STEPS]),
    ]


def _range(shares: Sequence[float]) -> str:
    low, high = f"{100 * min(shares):.0f}", f"{100 * max(shares):.0f}"
    return low if low == high else f"{low}–{high}"


def main() -> None:
    """Print a line for each task, all shares in percent."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--suite", default="mini")
    parser.add_argument("--task", help="[default: every task]")
    parser.add_argument("--submissions", type=Path, default=Path("submissions"))
    chosen = parser.parse_args()
    table = Table(*COLUMNS)
    for name in [chosen.task] if chosen.task else task_names(chosen.suite):
        folders = sorted((chosen.submissions / chosen.suite).glob(f"*/{name}"))
        table.add_row(*cells(name, [read_row(folder) for folder in folders]))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
