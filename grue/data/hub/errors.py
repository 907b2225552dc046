"""What goes wrong between here and the hub, as one error that says what, why, and what to do."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from grue.errors import DataError, escaped


@contextmanager
def translate_hub_errors(what: str) -> Iterator[None]:
    """Raise the errors of huggingface_hub and of its transport as one of ours.

    Args:
        what: What is asked for, for messages: "the data set imdb".

    Raises:
        DataError: The hub refuses, lacks or does not deliver it. Errors of the disk stay as they are.
    """
    from huggingface_hub import errors as hub

    try:
        yield
    except hub.GatedRepoError as error:
        cure = f"accept its conditions at {_page(error)}, then log in with `hf auth login` or set HF_TOKEN"
        raise DataError(f"{what} is gated: {cure}.") from error
    except hub.RepositoryNotFoundError as error:
        cure = "check the name; if it is private, log in with `hf auth login` or set HF_TOKEN"
        raise DataError(f"{what} is not on the hub ({_page(error)}): {cure}.") from error
    except hub.RevisionNotFoundError as error:
        raise DataError(f"{what}: the hub has no such revision; see {_page(error)}.") from error
    except (hub.OfflineModeIsEnabled, hub.LocalEntryNotFoundError) as error:
        if error.__cause__ is not None and not isinstance(error.__cause__, hub.OfflineModeIsEnabled):
            raise DataError(f"{what}: the hub cannot be reached: {_first_line(error.__cause__)}.") from error
        raise DataError(
            f"{what} is not on this machine. Fetch it with a connection: `grue data fetch`, without --offline and "
            "HF_HUB_OFFLINE."
        ) from error
    except hub.HfHubHTTPError as error:
        status = error.response.status_code
        reason = {401: "requires a login (`hf auth login` or HF_TOKEN)", 403: "denies access"}.get(status, "failed")
        raise DataError(f"{what}: the hub {reason}: {_first_line(error)}.") from error
    except (transport_error(), hub.EntryNotFoundError, ConnectionError, TimeoutError) as error:
        raise DataError(f"{what}: the hub cannot be reached: {type(error).__name__}: {_first_line(error)}.") from error
    except OSError as error:
        if error.errno is not None:
            raise  # of the disk, not of the library
        raise DataError(f"{what}: {_first_line(error)}. Rerun the command to try again.") from error


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
