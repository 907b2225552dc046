"""Figure 2 of the paper, computed from the figures that its tables print."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from grue.submissions.reported import Reported

PAPER = "ramamurthy2023"


@dataclass(frozen=True, slots=True)
class _Mean:
    """Which columns of which table Figure 2 averages; `without` is a variant of the table that is missing there."""

    table: str
    columns: tuple[str, ...]
    doubt: str = ""
    without: str | None = None


_ROUGES = ("rouge1", "rouge2", "rougeL", "rougeLsum")
_MEANS: Mapping[str, _Mean] = {
    "imdb": _Mean(
        "Table 5",
        ("sentiment",),
        "The bars of PPO and Supervised + PPO are in no table; Table 5 is of the validation split.",
        without="target KL ∞",
    ),
    "commongen": _Mean(
        "Table 12",
        ("cider", "rouge2", "rougeL", "bleu3", "bleu4", "meteor", "coverage"),
        "The mix that was drawn is not identified; this is the mean of Table 1's list.",
    ),
    "cnn_dailymail": _Mean(
        "Table 17",
        ("summac", *_ROUGES, "meteor", "bleu4"),
        "The mix that was drawn is not identified; this is the mean of Table 1's list.",
    ),
    "totto": _Mean("Table 23", ("sacrebleu", "parent")),
    "narrativeqa": _Mean(
        "Table 28",
        (*_ROUGES, "rougeLmax", "bleu4"),
        "Identified in part: Table 1 lists METEOR and SacreBLEU, too; without them the mean comes nearest.",
    ),
    "wmt16": _Mean("Table 30", ("ter", "chrf", *_ROUGES, "meteor", "sacrebleu", "bleu4")),
    "dailydialog": _Mean("Table 33", ("meteor", "intent")),
}
"""What Figure 2 seems to average: Table 1's preference metrics, as far as they are printed and the bars fit."""


DOUBTS = {task: mean.doubt for task, mean in _MEANS.items() if mean.doubt}
"""Task → why Figure 2 may show another mean."""


def paper_scores(reported: Reported) -> dict[str, dict[str, float]]:
    """Compute Figure 2 of the paper from its tables: for each algorithm and task the best row's mean of raw metrics.

    TER counts as 1 − TER, percentages as shares, and CIDEr, printed ten times too large, as a share of its maximum, 10.

    Returns:
        Algorithm → task → mean, 0–1, in the order of the tables; empty for another source than `PAPER`.
    """
    best: dict[str, dict[str, float]] = {}
    for table in reported.tables if reported.source.key == PAPER else ():
        mean = _MEANS[table.task]
        for row in table.rows if table.table == mean.table else ():
            if row.variant != mean.without:
                score = fmean(_raw(column, row.figures[column].mean) for column in mean.columns)
                of_algorithm = best.setdefault(row.algorithm, {})
                of_algorithm[table.task] = max(score, of_algorithm.get(table.task, score))
    return best


def _raw(column: str, printed: float) -> float:
    """Return a printed value as a share of 1, higher being better."""
    return {"ter": 1 - printed, "coverage": printed / 100, "cider": printed / 100}.get(column, printed)
