"""Whether a run that was made again is the one of the row: texts compared, and scores with those of the other seeds."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from grue.records import Prediction
from grue.stats.intervals import Interval, prediction_interval
from grue.submissions.trust.ladder import Scores, Verdict

NEARLY_ALL = 0.99  # of the texts: another machine rounds differently, and seldom draws another token for it
LEVEL = 0.95  # of all axes together
FEWEST = 2  # other seeds, below which there is no interval
ROUNDING = 1e-6  # points of 100, by which a score may lie outside


@dataclass(frozen=True, slots=True)
class Retrained:
    """How a run that was trained again compares with its row.

    Attributes:
        intervals: Axis → where a further seed is expected; empty where the texts decide.
    """

    verdict: Verdict
    intervals: Mapping[str, Interval]


def equal_share(then: Sequence[Prediction], now: Sequence[Prediction]) -> float:
    """Return the share of the examples whose predictions are the same; both are in the order of the examples."""
    return sum(one == other for one, other in zip(then, now, strict=True)) / len(then)


def judge_reproduced(share: float) -> Verdict:
    """Say whether predictions that were drawn again, by the same weights and seed, are those of the row."""
    if share == 1:
        return "equal texts"
    return "nearly equal texts" if share >= NEARLY_ALL else "different"


def judge_retrained(same_weights: bool, share: float, now: Scores, others: Collection[Scores]) -> Retrained:
    """Say whether a run that was trained again is that of the row, or is one as its other seeds are.

    Equal texts decide. Else each axis must lie in the prediction interval of the row's other seeds, at 95 % for all
    axes together (Bonferroni). Fewer than two other seeds decide nothing.

    Args:
        others: The scores of the row's other seeds on the task, those of the seed itself left out.
    """
    if share == 1:
        return Retrained("equal weights" if same_weights else "equal texts", {})
    axes = {axis: value for axis in ("preference", "naturalness") if (value := getattr(now, axis)) is not None}
    intervals = {}
    for axis in axes:
        known = [value for one in others if (value := getattr(one, axis)) is not None]
        interval = prediction_interval(known, 1 - (1 - LEVEL) / len(axes)) if len(known) >= FEWEST else None
        if interval is None:
            return Retrained("undecided", {})
        intervals[axis] = interval
    inside = all(
        interval.low - ROUNDING <= axes[axis] <= interval.high + ROUNDING for axis, interval in intervals.items()
    )
    return Retrained("inside" if axes and inside else "outside" if axes else "undecided", intervals)
