"""Retrying what huggingface_hub asks only once.

The library retries listings, ranges and dropped connections itself. It does not retry questions about a repository,
nor downloads that the hub answers with 5xx, and it waits however long the hub asks.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from grue.data.backoff import LONGEST_WAIT, TRANSIENT, requested_wait, waits
from grue.data.hub.errors import transport_error

T = TypeVar("T")


def retrying(call: Callable[[], T]) -> T:
    """Return what `call` returns, calling it again after dropped connections, 429 and 5xx.

    The wait is the one that the hub asks for, up to a limit, else it doubles with each attempt.

    Raises:
        Exception: Whatever the last call raised.
    """
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    for pause in waits():
        try:
            return call()
        except OfflineModeIsEnabled:
            raise
        except HfHubHTTPError as error:
            wait = requested_wait(error.response.headers.get("Retry-After"), pause)
            if error.response.status_code not in TRANSIENT or wait > LONGEST_WAIT:
                raise
        except (transport_error(), ConnectionError, TimeoutError):
            wait = pause
        time.sleep(wait)
    return call()
