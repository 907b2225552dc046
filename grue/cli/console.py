"""The consoles on stderr, and the bar of an evaluation."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def error_console() -> Console:
    """Return the console for everything but data; rich honours NO_COLOR and detects a terminal."""
    return Console(stderr=True, highlight=False)


def no_console() -> Console:
    """Return a silent console, for all but one of several processes that train together."""
    return Console(quiet=True, force_terminal=False)


@contextmanager
def evaluation_progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function of (done, total) that moves a bar; silent if stderr is not a terminal."""
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
