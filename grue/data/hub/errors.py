"""Translating errors of the hub into one that says what failed, why, and what to do."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from grue.errors import DataError, escaped


@contextmanager
def translate_hub_errors(subject: str) -> Iterator[None]:
    """Translate the errors of huggingface_hub and of its transport.

    Args:
        subject: What is fetched, for messages: "the data set imdb".

    Raises:
        DataError: The hub refuses, lacks or does not deliver it. Errors of the disk are not changed.
    """
    from huggingface_hub import errors as hub

    try:
        yield
    except hub.GatedRepoError as error:
        cure = f"accept its conditions at {_page(error)}, then log in with `hf auth login` or set HF_TOKEN"
        raise DataError(f"{subject} is gated: {cure}.") from error
    except hub.RepositoryNotFoundError as error:
        cure = "check the name; if it is private, log in with `hf auth login` or set HF_TOKEN"
        raise DataError(f"{subject} is not on the hub ({_page(error)}): {cure}.") from error
    except hub.RevisionNotFoundError as error:
        raise DataError(f"{subject}: the hub has no such revision; see {_page(error)}.") from error
    except (hub.OfflineModeIsEnabled, hub.LocalEntryNotFoundError) as error:
        if error.__cause__ is not None and not isinstance(error.__cause__, hub.OfflineModeIsEnabled):
            raise DataError(f"{subject}: the hub cannot be reached: {_first_line(error.__cause__)}.") from error
        raise DataError(
            f"{subject} is not on this machine. Fetch it with a connection: `grue data fetch`, without --offline and "
            "HF_HUB_OFFLINE."
        ) from error
    except hub.HfHubHTTPError as error:
        status = error.response.status_code
        reason = {401: "requires a login (`hf auth login` or HF_TOKEN)", 403: "denies access"}.get(status, "failed")
        raise DataError(f"{subject}: the hub {reason}: {_first_line(error)}.") from error
    except (transport_error(), hub.EntryNotFoundError, ConnectionError, TimeoutError) as error:
        reason = f"{type(error).__name__}: {_first_line(error)}"
        raise DataError(f"{subject}: the hub cannot be reached: {reason}.") from error
    except OSError as error:
        if error.errno is not None:
            raise  # the disk's, not the library's
        raise DataError(f"{subject}: {_first_line(error)}. Rerun the command to try again.") from error


def transport_error() -> type[Exception]:
    """Return the base class of the transport's errors, from httpx or httpx2 as huggingface_hub's version uses."""
    from huggingface_hub.errors import HfHubHTTPError

    return HfHubHTTPError.__bases__[0]


def _page(error: Any) -> str:
    from huggingface_hub import constants

    repository = re.search(r"/(?:api/)?(datasets/|models/)?([^/]+/[^/?]+)", error.response.request.url.path)
    kind = "datasets/" if repository and repository[1] == "datasets/" else ""
    return f"{constants.ENDPOINT}/{kind}{escaped(repository[2])}" if repository else str(constants.ENDPOINT)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return escaped(lines[0].rstrip("."), 400) if lines else type(error).__name__
