"""A model behind an address that speaks OpenAI's protocol, and the checks of its address and key.

The API key is read from the environment when it is needed. `grue/evaluation/client.py` sends the requests.
"""

import ipaddress
import os
import re
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from grue.errors import ConfigError, escaped

MOST_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model answers over HTTP, and how it is asked; `checked` refuses invalid values.

    Attributes:
        url: The base address, without /chat/completions; without a path, /v1 is added.
        model: The model's name at the server; empty if a call names it, as `grue.evaluate` does.
        completions: Whether the plain prompt is completed (/completions) instead of using the chat prompt.
        key_env: The environment variable that holds the API key; empty for a server that needs none.
        prices: Of a million tokens of prompts and of answers, in any currency; None if unknown.
        unencrypted: Whether the key may travel over plain HTTP to another machine.
    """

    url: str
    model: str = ""
    completions: bool = False
    key_env: str = ""
    concurrency: int = 4
    prices: tuple[float, float] | None = None
    unencrypted: bool = False

    @property
    def path(self) -> str:
        """The path of requests below the base address."""
        return "completions" if self.completions else "chat/completions"


def checked(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint with its address normalised."""
    url = checked_url(endpoint.url)
    if not endpoint.model.strip() or not endpoint.model.isprintable():
        raise ConfigError("--endpoint needs --model NAME, the model's name at the server (GET /v1/models lists them).")
    if not 1 <= endpoint.concurrency <= MOST_AT_ONCE:
        raise ConfigError(f"--concurrency {endpoint.concurrency}: choose 1 to {MOST_AT_ONCE} requests at once.")
    if endpoint.prices is not None and not all(0 <= price < float("inf") for price in endpoint.prices):
        raise ConfigError("--price: a price per million tokens is a number from 0 on.")
    if endpoint.key_env:
        api_key(endpoint.key_env)
        parts = urlsplit(url)
        if parts.scheme == "http" and not is_local(parts.hostname or "") and not endpoint.unencrypted:
            raise ConfigError(
                f"{url}: the API key would travel unencrypted to another machine, where anyone on the way can read it. "
                "Give an https:// address; or, in a network of your own, add --key-over-http."
            )
    return replace(endpoint, url=url)


def checked_url(url: str) -> str:
    """Return the base address of a server without a trailing "/"."""
    cure = "give the server's base address, such as http://localhost:8000/v1"
    if not (url.isascii() and url.isprintable()) or " " in url or not url.startswith(("http://", "https://")):
        raise ConfigError(f"--endpoint: {_without_secrets(url)} does not begin with http:// or https://; {cure}.")
    try:
        parts = urlsplit(url)
        has_host, _ = bool(parts.hostname), parts.port
    except ValueError as error:
        raise ConfigError(f"--endpoint: {_without_secrets(url)}: {error}; {cure}.") from None
    if not has_host:
        raise ConfigError(f"--endpoint: {_without_secrets(url)} names no host; {cure}.")
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise ConfigError(
            f"--endpoint: {_without_secrets(url)}: a password, a query or a fragment is not sent; {cure}, and an API "
            "key by --api-key-env."
        )
    path = parts.path.rstrip("/")
    if path.endswith("/completions"):
        raise ConfigError(f"--endpoint: {url} is the address of one function; {cure}.")
    return f"{parts.scheme}://{parts.netloc}{path or '/v1'}"


def _without_secrets(url: str) -> str:
    """Return an address for a message, without what may be a password or a key."""
    return escaped(re.sub(r"//[^/@]*@", "//…@", re.sub(r"[?#].*", "", url, flags=re.S)))


def is_local(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def api_key(variable: str) -> str:
    """Return the API key in an environment variable."""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigError(  # the name is not shown: it may be the key itself
            "--api-key-env: the environment variable of the name given there is not set. Export it first, and give its "
            "name, never the key."
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ConfigError(f"--api-key-env {escaped(variable)}: its value is no API key: it has spaces or other signs.")
    return key
