"""Observers of a run: the protocol, and several as one. `trackers.py` implements trackers as observers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from grue.records import Example
from grue.runs.plan import Plan


class Observer(Protocol):
    """Receives a run's events: the command line's progress bar, a tracker, a test."""

    def planned(self, plan: Plan) -> None:
        """A run is about to be loaded; it may turn out to be finished."""

    def started(self, plan: Plan, done: int, total: int) -> None:
        """A run starts, or resumes after `done` of its `total` updates."""

    def updated(self, done: int, total: int, line: Mapping[str, float]) -> None:
        """An update is over; `line` is its line of train.jsonl."""

    def sampled(self, example: Example, text: str, score: float) -> None:
        """One of the responses of the current update; called for a few, before `updated`."""

    def validated(self, done: int, figures: Mapping[str, float], best: bool) -> None:
        """The policy was validated, and is the one to keep so far (`keep`: the best, or the last) or not."""

    def warned(self, done: int, message: str) -> None:
        """Something looks wrong after `done` updates; the message says what, and what to do."""

    def finished(self, plan: Plan) -> None:
        """A run is over, now or since an earlier command."""


def _to_all(event: str) -> Callable[..., None]:
    def pass_on(observers: "Observers", *values: Any) -> None:
        for member in observers.members:
            getattr(member, event)(*values)

    return pass_on


@dataclass(frozen=True)
class Observers:
    """Several observers as one, called in order."""

    members: Sequence[Observer]

    planned = _to_all("planned")
    started = _to_all("started")
    updated = _to_all("updated")
    sampled = _to_all("sampled")
    validated = _to_all("validated")
    warned = _to_all("warned")
    finished = _to_all("finished")
