"""What the other systems of the board have in common, so that nothing is suspected that is usual on a task."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from grue.records import Prediction, Result
from grue.submissions.checks.likeness import SketchedRun, agreement
from grue.submissions.checks.sketch import anywhere
from grue.submissions.checks.texts import Known, Sources


@dataclass(frozen=True, slots=True)
class Usual:
    """What one system, or the most that several systems, have on a task.

    Attributes:
        agreement: Mean share of near-copies between two seeds, 0–1.
        moved: Mean share of texts that two seeds share, for whatever example, 0–1.
        sources: Shares of the texts that come from references.
        preference: Mean over the seeds as their results state it, 0–100; None if none of them does.
    """

    agreement: float
    moved: float
    sources: Sources
    preference: float | None


def of_system(
    sketched: Sequence[SketchedRun], first: Sequence[Prediction], results: Iterable[Result | None], known: Known
) -> Usual:
    """Return what a system has.

    Args:
        first: The predictions of its first run; empty if none can be read.
    """
    stated = [result.preference for result in results if result is not None and result.preference is not None]
    preference = fmean(stated) if stated else None
    return Usual(agreement(sketched), agreement(sketched, anywhere), known.sources(first), preference)


def most(found: Iterable[Usual]) -> Usual:
    """Return the most of each that several systems have."""
    systems = list(found)
    return Usual(
        agreement=max((one.agreement for one in systems), default=0.0),
        moved=max((one.moved for one in systems), default=0.0),
        sources=Sources(
            copied=max((one.sources.copied for one in systems), default=0.0),
            memorised=max((one.sources.memorised for one in systems), default=0.0),
        ),
        preference=max((one.preference for one in systems if one.preference is not None), default=None),
    )
