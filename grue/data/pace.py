"""When a server is too slow: the least that it must send within a window of time."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """The least speed of a transfer, beyond which it is given up and resumed.

    A timeout of a connection is for each piece of data: a byte now and then would keep it for ever.

    Attributes:
        seconds: The window, and how long a connection may be silent.
        least: Bytes that must arrive in a window.
    """

    seconds: float = 60.0
    least: int = 60_000

    def watch(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield chunks as they arrive.

        Raises:
            TimeoutError: Too few bytes arrived in a window.
        """
        begun, received = time.monotonic(), 0
        for chunk in chunks:
            received += len(chunk)
            now = time.monotonic()
            if now - begun >= self.seconds:
                if received < self.least:
                    raise TimeoutError(f"the server sent {received:,} bytes in {now - begun:.0f} s, which is too slow")
                begun, received = now, 0
            yield chunk


PACE = Pace()
