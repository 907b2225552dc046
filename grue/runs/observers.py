"""Observers of a run: the protocol, and several as one. `trackers.py` implements trackers as observers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

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


@dataclass(frozen=True, slots=True)
class Observers:
    """Several observers as one, called in order."""

    members: Sequence[Observer]

    def planned(self, plan: Plan) -> None:
        """Pass it on."""
        for member in self.members:
            member.planned(plan)

    def started(self, plan: Plan, done: int, total: int) -> None:
        """Pass it on."""
        for member in self.members:
            member.started(plan, done, total)

    def updated(self, done: int, total: int, line: Mapping[str, float]) -> None:
        """Pass it on."""
        for member in self.members:
            member.updated(done, total, line)

    def sampled(self, example: Example, text: str, score: float) -> None:
        """Pass it on."""
        for member in self.members:
            member.sampled(example, text, score)

    def validated(self, done: int, figures: Mapping[str, float], best: bool) -> None:
        """Pass it on."""
        for member in self.members:
            member.validated(done, figures, best)

    def warned(self, done: int, message: str) -> None:
        """Pass it on."""
        for member in self.members:
            member.warned(done, message)

    def finished(self, plan: Plan) -> None:
        """Pass it on."""
        for member in self.members:
            member.finished(plan)
