"""Output of commands: consoles, progress bars, tables, figures and JSON; and how commands are stopped."""

import json
import math
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

import click
from rich import progress
from rich.console import Console
from rich.table import Table
from rich.text import Text

from grue import files

PIPED = 120  # columns without a terminal
Moved = Callable[[int, int], None]
"""Moves a bar; called with (done, total)."""


def error_console(quiet: bool = False) -> Console:
    """Return the console for everything but data; rich honours NO_COLOR and detects a terminal.

    It is `quiet` in all but the main one of several processes.
    """
    return Console(stderr=True, highlight=False, quiet=quiet, force_terminal=False if quiet else None)


def data_console() -> Console:
    """Return the console for a command's data."""
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else PIPED)


def print_json(value: Any) -> None:
    """Print records, or containers of them, as JSON, in which an infinite number, or NaN, is null."""
    click.echo(json.dumps(_finite(files.plain(value)), indent=2, ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def warn(message: str) -> None:
    """Print a warning."""
    click.echo(f"Warning: {message}", err=True)


# --- progress --------------------------------------------------------------------------------------------------------


def evaluation_progress(title: str) -> AbstractContextManager[Moved]:
    """Yield a function of (done, total) that moves a bar; silent if stderr is not a terminal."""
    return _bar(
        title,
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
    )


def download_progress(title: str) -> AbstractContextManager[Moved]:
    """Yield the same for bytes."""
    return _bar(title, progress.DownloadColumn(), progress.TransferSpeedColumn(), progress.TimeRemainingColumn())


@contextmanager
def _bar(title: str, *columns: progress.ProgressColumn) -> Iterator[Moved]:
    console = error_console()
    first = progress.TextColumn("[bold]{task.description}"), progress.BarColumn(bar_width=24)
    with progress.Progress(*first, *columns, console=console, disable=not console.is_terminal) as bar:
        job = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(job, completed=done, total=total or None)  # 0: unknown


# --- Ctrl-C ----------------------------------------------------------------------------------------------------------


@contextmanager
def stop_on_signal(
    message: str = "Stopping after this update; press Ctrl-C again to stop at once.",
) -> Iterator[list[int]]:
    """Collect the first Ctrl-C or SIGTERM instead of ending; a second Ctrl-C interrupts at once."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        if received:
            return  # a cluster signals the launcher and every process; the state must still be saved
        received.append(number)
        # Not click.echo: it writes past the progress bar, which would then draw over it.
        print(message, file=sys.stderr)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- tables and figures ----------------------------------------------------------------------------------------------


def table(
    *headers: str, rows: Iterable[Sequence[str | Text]] = (), left: Collection[int] = (0,), close: bool = False
) -> Table:
    """Return a table without lines.

    Args:
        left: Places of the columns that are left-aligned; the others hold figures.
        close: One space between columns instead of two.
    """
    made = Table(box=None, padding=(0, 1 if close else 2, 0, 0), pad_edge=False, header_style="dim")
    for place, header in enumerate(headers):
        justify = "left" if place in left else "right"
        made.add_column(Text(header), justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        made.add_row(*row)
    return made


def clock(seconds: float) -> str:
    """Return seconds as 45 s, 12 min or 3 h 20 min."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def printable(text: str) -> str:
    """Return text that cannot move the cursor: whitespace becomes a space, other control characters become �."""
    return "".join(sign if sign.isprintable() else " " if sign.isspace() else "�" for sign in text)


def shortened(text: str, width: int) -> str:
    """Return a text that fits `width` columns, shortened in the middle, since both ends of a prompt matter."""
    if len(text) <= width:
        return text
    tail = (width - len(" … ")) // 2
    return f"{text[: width - len(' … ') - tail].rstrip()} … {text[-tail:].lstrip()}"
