"""How long to wait before a server is asked again, and when to give up."""

import email.utils
import time
from collections.abc import Iterator
from contextlib import suppress

ATTEMPTS = 5
LONGEST_WAIT = 60.0  # seconds; a server that asks for more is given up
TRANSIENT = (408, 425, 429, 500, 502, 503, 504)  # HTTP statuses worth another attempt


def waits(attempts: int = ATTEMPTS) -> Iterator[float]:
    """Yield the seconds to wait after each failed attempt: 1, 2, 4, …; ends when there is no further attempt."""
    yield from (2.0**attempt for attempt in range(attempts - 1))


def requested_wait(retry_after: str | None, otherwise: float) -> float:
    """Return the seconds to wait: those of the header Retry-After, a number or a date, else `otherwise`."""
    if not retry_after:
        return otherwise
    if retry_after.isascii() and retry_after.strip().isdigit():
        return float(retry_after)
    with suppress(ValueError, OverflowError):
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    return otherwise
