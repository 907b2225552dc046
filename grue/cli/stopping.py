"""Ctrl-C and SIGTERM: a command saves its progress before it ends."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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
