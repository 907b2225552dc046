"""Those who watch a run: the protocol, and several at once. The trackers among them are in `trackers.py`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from grue.records import Example
from grue.runs.plan import Plan


class Observer(Protocol):
    """Someone who watches a run: the command line's progress bar, a tracker, a test."""

    def started(self, plan: Plan, done: int, total: int) -> None:
        """A run begins, or goes on after `done` of its `total` updates."""

    def updated(self, done: int, total: int, line: Mapping[str, float]) -> None:
        """An update is over; `line` is what train.jsonl keeps of it."""

    def sampled(self, example: Example, text: str, score: float) -> None:
        """One of the responses of the update under way; told of a few, before the update is over."""

    def validated(self, done: int, figures: Mapping[str, float], best: bool) -> None:
        """The policy was validated, and is the best so far or not."""

    def warned(self, done: int, message: str) -> None:
        """Something looks wrong after so many updates; the message says what, and what to do."""


@dataclass(frozen=True, slots=True)
class Observers:
    """Several observers as one; each is told everything, in order."""

    members: Sequence[Observer]

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
