"""Whether a run that was made again is the one of the row: texts compared, and scores with those of the other seeds."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from grue.errors import SubmissionError
from grue.records import Prediction
from grue.stats.intervals import Interval, prediction_interval
from grue.submissions.trust.draw import NEARLY_ALL
from grue.submissions.trust.rows import Scores, Target, scores_of, weights_of

Verdict = Literal["equal weights", "equal texts", "nearly equal texts", "inside", "different", "outside", "undecided"]
PASSING = ("equal weights", "equal texts", "nearly equal texts", "inside")
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


# --- what is printed -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MadeAgain:
    """A run that was made again beside that of the row.

    Attributes:
        equal_texts: Share of the predictions that are the same, 0–1.
        scores: Of the run that was made again.
        weights: What identifies its checkpoint.
        intervals: Axis → where a further seed is expected; empty where the texts decide.
    """

    target: Target
    verdict: Verdict
    equal_texts: float
    scores: Scores
    weights: str
    intervals: Mapping[str, Interval] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return it as a line."""
        before, parts = scores_of(self.target.result), []
        if recorded := weights_of(self.target):
            parts.append("equal weights" if recorded == self.weights else "other weights")
        parts.append(f"{self.equal_texts:.1%} equal texts")
        for axis in ("preference", "naturalness"):
            old, new = getattr(before, axis), getattr(self.scores, axis)
            if old is not None and new is not None:
                interval = self.intervals.get(axis)
                expected = f", expected {interval.low:.2f} to {interval.high:.2f}" if interval else ""
                parts.append(f"{axis} {old:.2f} → {new:.2f}{expected}")
        return f"{self.target}: {self.verdict} ({'; '.join(parts)})"


def refuse_failed(compared: Sequence[MadeAgain], rung: str) -> None:
    """Refuse a row of which a run did not pass.

    Raises:
        SubmissionError: One did not.
    """
    failed = [f"{one.target} is {one.verdict}" for one in compared if one.verdict not in PASSING]
    if failed:
        raise SubmissionError(f"Not {rung}: {'; '.join(failed)}.")
