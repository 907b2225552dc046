"""Whether the hub can be reached from here."""

import socket
from urllib.parse import urlsplit

from huggingface_hub import constants, get_token

PATIENCE = 3.0  # seconds to wait for a connection


def describe() -> tuple[bool, str]:
    """Return whether the hub can be reached, and a description with its address and whether there is a token."""
    if constants.HF_HUB_OFFLINE:
        return False, "not asked: HF_HUB_OFFLINE is set"
    place = urlsplit(constants.ENDPOINT)
    token = "with a token" if get_token() else "without a token"
    try:
        port = place.port or (80 if place.scheme == "http" else 443)
        socket.create_connection((place.hostname, port), PATIENCE).close()
    except OSError as error:
        return False, f"{constants.ENDPOINT} cannot be reached ({error}); the suite mini needs no hub"
    return True, f"{constants.ENDPOINT} answers, {token}"
