"""Progress on stderr: a live bar on a terminal, plain lines elsewhere."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from grue.records import Example

if TYPE_CHECKING:
    from grue.training.plan import Plan


def error_console() -> Console:
    """Return the console that everything but data goes to; rich honours NO_COLOR and knows a terminal."""
    return Console(stderr=True, highlight=False)


class TrainingProgress:
    """Shows a run as it goes: the bar, the last update's figures, and a line at each validation."""

    def __init__(self) -> None:
        self.console = error_console()
        self.bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._job: TaskID | None = None
        self._sample = ""

    def __enter__(self) -> Self:
        self.bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.__exit__(kind, error, trace)

    def announce(self, plan: "Plan") -> None:
        """Say what comes next."""
        where = escape(f"suite {plan.task.suite}, reward {plan.reward} → {plan.folder}")
        self.console.print(f"[bold]{plan.title}[/bold]  {where}", soft_wrap=True)

    def finished(self, plan: "Plan") -> None:
        """Say that a stage is over."""
        if self._job is None:
            next_step = escape(f"grue evaluate --checkpoint {plan.checkpoint}")
            self.console.print(f"  finished before; nothing to do. Evaluate it: {next_step}", soft_wrap=True)
        else:
            self.bar.remove_task(self._job)
            self._job = None

    def started(self, plan: "Plan", done: int, total: int) -> None:
        """Open the bar."""
        if done:
            self.console.print(f"  going on after update {done} of {total}")
        self._job = self.bar.add_task(plan.title, total=total, completed=done, figures="")

    def updated(self, done: int, total: int, line: Mapping[str, float]) -> None:
        """Move the bar."""
        parts = [("reward", "objective/reward", ".3f"), ("KL", "objective/kl", ".3f"), ("loss", "loss/total", ".3f")]
        shown = [f"{label} {line[key]:{form}}" for label, key, form in parts if key in line]
        if line["seconds"] > 0:
            shown.append(f"{line['tokens'] / line['seconds']:,.0f} tokens/s")
        if self._job is not None:
            self.bar.update(self._job, completed=done, figures="  ".join(shown))

    def sampled(self, example: Example, text: str, score: float) -> None:
        """Keep one response to show at the next validation."""
        self._sample = f"{example.prompt}  →  {text}  ({score:.3f})"

    def validated(self, done: int, figures: Mapping[str, float], best: bool) -> None:
        """Print the validation's figures, and a response of the last rollout."""
        shown = "  ".join(f"{name} {value:.3f}" for name, value in figures.items())
        mark = "  [green]best so far, kept[/green]" if best else ""
        self.console.print(f"  update {done:>4}  validation: {shown}{mark}", soft_wrap=True)
        if self._sample:
            self.console.print(f"    [dim]{escape(self._sample)}[/dim]", soft_wrap=True)
            self._sample = ""


@contextmanager
def evaluation_progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that takes (done, total) and moves a bar; silent where stderr is no terminal."""
    console = error_console()
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, TextColumn("left"), TimeRemainingColumn(), console=console, disable=not console.is_terminal
    ) as bar:
        job = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(job, completed=done, total=total)
