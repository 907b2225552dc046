"""Those who watch a run: the protocol, several at once, and TensorBoard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from grue.records import Example
from grue.training.plan import Plan

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class Observer(Protocol):
    """Someone who watches a run: the command line's progress bar, a tracker, a test."""

    def started(self, plan: Plan, done: int, total: int) -> None:
        """A run begins, or goes on after `done` of its `total` updates."""

    def updated(self, done: int, total: int, line: Mapping[str, float]) -> None:
        """An update is over; `line` is what train.jsonl keeps of it."""

    def sampled(self, example: Example, text: str, score: float) -> None:
        """One of the update's responses."""

    def validated(self, done: int, figures: Mapping[str, float], best: bool) -> None:
        """The policy was validated, and is the best so far or not."""


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


class TensorBoard:
    """Writes a run's figures to `<run>/tensorboard`, for `tensorboard --logdir runs`."""

    def __init__(self) -> None:
        self._writer: SummaryWriter | None = None

    def started(self, plan: Plan, done: int, total: int) -> None:
        """Open the run's event file; one that goes on replaces what an interrupted run logged after `done`."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(plan.folder / "tensorboard"), purge_step=done + 1)

    def updated(self, done: int, total: int, line: Mapping[str, float]) -> None:
        """Write an update's figures."""
        self._write(line, done)

    def sampled(self, example: Example, text: str, score: float) -> None:
        """Leave texts to train.jsonl's readers."""

    def validated(self, done: int, figures: Mapping[str, float], best: bool) -> None:
        """Write a validation's figures."""
        self._write({f"validation/{name}": value for name, value in figures.items()}, done)

    def _write(self, figures: Mapping[str, float], step: int) -> None:
        if self._writer is not None:
            for name, value in figures.items():
                self._writer.add_scalar(name, value, step)
            self._writer.flush()


def tensorboard_installed() -> bool:
    """Whether the `tensorboard` extra is there."""
    return find_spec("tensorboard") is not None
