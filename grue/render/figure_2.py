"""Figure 2 of the paper, computed from the figures that its tables print."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from grue.submissions.reported import Reported

PAPER = "ramamurthy2023"


@dataclass(frozen=True, slots=True)
class PaperScore:
    """The mean, 0–1, of what the paper prints for a task in an algorithm's best row, beside the bar in its Figure 2.

    `drawn` is read off the figure to about 0.005, if it is there; `doubt` says why it may show another mean.
    """

    task: str
    algorithm: str
    reward: str
    variant: str
    score: float
    drawn: float | None
    doubt: str


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


def paper_scores(reported: Reported) -> tuple[PaperScore, ...]:
    """Compute Figure 2 of the paper from its tables: for each task and algorithm the best row's mean of raw metrics.

    TER counts as 1 − TER, percentages as shares, and CIDEr, printed ten times too large, as a share of its maximum, 10.

    Returns:
        One score for each task and algorithm, in the order of the tables; empty for another source than `PAPER`.
    """
    if reported.source.key != PAPER:
        return ()
    drawn = {
        (table.task, row.algorithm): row.figures["preference"].mean
        for table in reported.tables
        for row in table.rows
        if table.table == "Figure 2"
    }
    best: dict[tuple[str, str], PaperScore] = {}
    for table in reported.tables:
        mean = _MEANS[table.task]
        for row in table.rows if table.table == mean.table else ():
            key = table.task, row.algorithm
            score = fmean(_raw(column, row.figures[column].mean) for column in mean.columns)
            if row.variant != mean.without and (key not in best or score > best[key].score):
                best[key] = PaperScore(*key, row.reward, row.variant, score, drawn.get(key), mean.doubt)
    return tuple(best.values())


def _raw(column: str, printed: float) -> float:
    """Return a printed value as a share of 1, higher being better."""
    return {"ter": 1 - printed, "coverage": printed / 100, "cider": printed / 100}.get(column, printed)
