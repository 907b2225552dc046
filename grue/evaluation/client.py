"""How one question is asked of a model behind an address.

The standard library transfers, as in `grue/data/download.py`. The API key is held by the client alone, and is taken out
of whatever the server says, before that is cut. Redirections are refused, since they would carry it elsewhere.
"""

import http.client
import json
import math
import random
import re
import socket
import ssl
import time
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import urlsplit

from grue import __version__
from grue.data.backoff import requested_wait, waits
from grue.errors import DataError, Unavailable, escaped
from grue.evaluation.endpoint import Endpoint, api_key, is_local
from grue.evaluation.prompting import Question, content_text

ATTEMPTS = 7  # the waits between them double from one second on
LONGEST_WAIT = 300.0  # seconds; a server that asks for more is given up
LONGEST_ANSWER = 1_000_000  # bytes
SECONDS = 300.0  # that a server may take to answer
HIDDEN = "***"
SHORTEST_SECRET = 8  # characters; a shorter key is a placeholder, which an answer may well contain

RENAMED = {"max_tokens": "max_completion_tokens"}
"""Settings that some servers know by another name only."""
OPTIONAL = ("temperature", "seed", "stop")
"""Settings that some servers refuse; they are then left out, and the result says so."""
_REFUSAL = re.compile(r"unsupported|not support|unexpected|unknown|unrecognized|not permitted|not allowed|extra", re.I)
_SPELLED = re.compile(r"(?:%(?:25)*|\\+u00|\\+x|&#x)([0-9a-f]{2});?|\\+(/)|\s+|(.)", re.IGNORECASE | re.DOTALL)
"""A character as it is, percent-encoded (once or more), or escaped as in JSON and HTML; white space is none."""
_FILTERED = ("content_filter", "content_policy_violation")
_FAILED = ("error", "abort")
"""Why a reply ended that the server, or one behind it, could not finish; the answer is a 200 all the same."""
_STREAMED = (b"data:", b"event:", b":")
"""What server-sent events begin with."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered.

    Attributes:
        text: The reply; empty where it wrote nothing, or its filter let nothing through.
        finish: Why it ended, in the server's words: "stop", "length".
        model, fingerprint: The model and the state of the server, as it says.
        prompt_tokens, completion_tokens: As it counted them; None where it does not say.
        requests: How often it was asked until it answered.
        sent: The settings that were sent.
        url: The base address of the server; empty in replies that were kept without it.
    """

    text: str
    finish: str
    model: str
    fingerprint: str
    prompt_tokens: int | None
    completion_tokens: int | None
    requests: int
    sent: Mapping[str, Any]
    url: str = ""


class GivenUp(Exception):
    """Asking was given up elsewhere; nothing is wrong with this question."""


class Passing(Exception):
    """A fault that may pass.

    Args:
        retry_after: The server's header.
        crowded: Whether it has too much to do, so that all should wait.
        unreached: Whether no connection came about.
    """

    def __init__(
        self, why: str, retry_after: str | None = None, *, crowded: bool = False, unreached: bool = False
    ) -> None:
        super().__init__(why)
        self.retry_after, self.crowded, self.unreached = retry_after, crowded, unreached


@dataclass(slots=True)
class Client:
    """Asks one endpoint; several threads may share it.

    Attributes:
        settings: What is sent with every question: length limit, temperature, seed.
        warn: Called where the server refuses a setting.
        seconds: How long it may take to answer.
        stop: Set to end all waiting.
        sleep, clock, chance: The waiting, the time and the jitter.
    """

    endpoint: Endpoint
    settings: dict[str, Any]
    warn: Callable[[str], None]
    seconds: float = SECONDS
    stop: Event = field(default_factory=Event)
    sleep: Callable[[float], object] | None = None
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = random.random
    _key: str = field(init=False, repr=False, default="")
    _open_again: float = field(init=False, default=-math.inf)
    _reached: bool = field(init=False, default=False)
    _lock: Lock = field(init=False, repr=False, default_factory=Lock)

    def __post_init__(self) -> None:
        if self.endpoint.key_env:
            self._key = api_key(self.endpoint.key_env)

    def ask(self, question: Question) -> Reply:
        """Return the reply to a question, asked again after what may pass.

        The wait is the one that the server asks for, else it doubles with each attempt; both vary by chance, so that
        the requests do not come back all at once. Where the server has too much to do, all wait.

        Raises:
            DataError: The server refuses the question or the key, or is no such server.
            Unavailable: It cannot be reached, is too slow, or fails again and again.
            GivenUp: Asking was given up.
        """
        pauses, requests = waits(ATTEMPTS), 0
        while True:
            while (left := self._open_again - self.clock()) > 0:  # another thread may move it meanwhile
                self._wait(left)
            with self._lock:
                sent = dict(self.settings)
            requests += 1
            try:
                return self._once(question, sent, requests)
            except _Refused as refused:
                self._do_without(refused.setting)
            except Passing as fault:
                hopeless = fault.unreached and not self._reached  # a wrong address, or a server that is not running
                self._pause(fault, None if hopeless else next(pauses, None), requests)

    def _pause(self, fault: Passing, pause: float | None, requests: int) -> None:
        wait = None if pause is None else requested_wait(fault.retry_after, pause)
        if wait is None or wait > LONGEST_WAIT:
            later = f" It asks to wait {wait:.0f} s." if wait else ""
            raise Unavailable(
                f"{self._where}: gave up after {requests} request{'s' if requests > 1 else ''}: {fault}.{later}"
            )
        wait = wait * (1 + self.chance() / 2) if fault.retry_after else wait * (0.5 + self.chance())
        if fault.crowded:
            self._open_again = max(self._open_again, self.clock() + wait)
        else:
            self._wait(wait)

    def _wait(self, seconds: float) -> None:
        if seconds > 0:
            (self.sleep or self.stop.wait)(seconds)
        if self.stop.is_set():
            raise GivenUp

    def _do_without(self, setting: str) -> None:
        """Rename or leave out a setting that the server refuses, for this question and all later ones."""
        with self._lock:
            if setting not in self.settings:  # another thread did so
                return
            value = self.settings.pop(setting)
            if (name := RENAMED.get(setting)) is not None:
                self.settings[name] = value
                return
        self.warn(
            f"{self._where}: the server refuses {setting} = {value!r}; asking without it, and the result says so."
        )

    @property
    def _where(self) -> str:
        return f"{self.endpoint.url}/{self.endpoint.path}"

    def _once(self, question: Question, sent: dict[str, Any], requests: int) -> Reply:
        asked = {"prompt": question} if self.endpoint.completions else {"messages": question}
        body = json.dumps({"model": self.endpoint.model, **asked, **sent}).encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"grue/{__version__}",
            "Accept-Encoding": "identity",
        }
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = urllib.request.Request(self._where, data=body, headers=headers, method="POST")
        status, retry_after, content = _within(self.seconds, lambda: _transfer(request, self.seconds), self._quoted)
        self._reached = True
        if status != 200:
            finish = self._fault(status, retry_after, content, sent)
            return Reply("", finish, "", "", None, None, requests, sent, self.endpoint.url)
        return self._read(content, sent, requests)

    def _fault(self, status: int, retry_after: str | None, content: bytes, sent: Mapping[str, Any]) -> str:
        """Raise what an answer that is not 200 means; return why the reply ended where the server's filter kept it."""
        error = _error_of(content)
        told = self._quoted(error.get("message") or content.decode("utf-8", "replace").strip() or "nothing more")
        paid = "insufficient_quota" not in (error.get("code"), error.get("type"))
        if paid and (status in (408, 409, 425, 429) or status >= 500):
            raise Passing(f"the server answered {status}: {told}", retry_after, crowded=status in (429, 503, 529))
        if status in (400, 422):
            if error.get("code") in _FILTERED:
                return "content_filter"
            if (setting := _refused_setting(error, told, sent)) is not None:
                raise _Refused(setting)
        raise DataError(f"{self._where}: the server answered {status}: {told}. {self._cure(status)}")

    def _cure(self, status: int) -> str:
        if status in (401, 403):
            variable = self.endpoint.key_env
            return f"Check the key in {variable}." if variable else "Name the variable with the key: --api-key-env."
        if 300 <= status < 400:
            return (
                "It redirects, which is not followed, since the key would go along: give the address that it leads to."
            )
        if status == 404:
            return f"Check the address, and whether the server has the model {escaped(self.endpoint.model)}."
        return "Nothing was asked again, since the answer would be the same."

    def _read(self, content: bytes, sent: Mapping[str, Any], requests: int) -> Reply:
        """Return the reply in the body of an answer.

        Raises:
            Passing: It is not one; a server under load cuts its answers, or sends errors as if they were none.
            DataError: The server streams, or its answers are of another protocol.
        """
        if content.lstrip().startswith(_STREAMED):
            raise DataError(
                f"{self._where}: the server streams, which it was not asked for: {self._beginning(content)}. "
                "Turn it off."
            )
        found = _object_of(content)
        if found is None:
            raise Passing(f"the answer is no JSON object: {self._beginning(content)}")
        choices, told = found.get("choices"), self._told(_error_of(content))
        if not choices and (told or "choices" in found):
            raise Passing(f"the answer has no choices{told}")
        first = choices[0] if isinstance(choices, list) and choices else None
        choice = first if isinstance(first, dict) else {}
        if choice.get("error") or choice.get("finish_reason") in _FAILED:
            raise Passing(f"the server could not finish its answer{self._told(_error_in(choice.get('error')))}")
        text = _text_of(choice, self.endpoint.completions)
        if text is None:
            raise DataError(
                f"{self._where}: the answer has no text where OpenAI's protocol has one: {self._beginning(content)}. "
                "Check the address. Nothing was asked again, since the answer would be the same."
            )
        usage = found.get("usage")
        counted = usage if isinstance(usage, dict) else {}
        return Reply(
            text=self._answer(_whole(text)),
            finish=self._quoted(choice.get("finish_reason") or "", 40),
            model=self._quoted(found.get("model") or ""),
            fingerprint=self._quoted(found.get("system_fingerprint") or ""),
            prompt_tokens=_count(counted.get("prompt_tokens")),
            completion_tokens=_count(counted.get("completion_tokens")),
            requests=requests,
            sent=sent,
            url=self.endpoint.url,
        )

    def _told(self, error: Mapping[str, Any]) -> str:
        return f": {self._quoted(error['message'])}" if error.get("message") else ""

    def _quoted(self, text: object, longest: int = 200) -> str:
        """Return what a server says in one line, without the key."""
        return escaped(without_key(_whole(str(text)), self._key), longest).rstrip(".")

    def _beginning(self, content: bytes) -> str:
        return self._quoted(content.decode("utf-8", "replace"), 100)

    def _answer(self, text: str) -> str:
        """Return what a model says, without the whole key: an answer may well contain a word of it."""
        return without_key(text, self._key, len(self._key)) if len(self._key) >= SHORTEST_SECRET else text


def without_key(text: str, key: str, longest: int = SHORTEST_SECRET) -> str:
    """Return a text without an API key, however its characters are spelled.

    Args:
        longest: So many characters in a row of a longer key are taken out, too.
    """
    signs, places = _spelled(text)
    known, _ = _spelled(key)
    size = min(len(known), longest)
    pieces = {known[i : i + size] for i in range(len(known) - size + 1)} - {""}
    kept, end = [], 0
    for i in range(len(signs) - size + 1):
        if signs[i : i + size] in pieces:
            if places[i][0] >= end:
                kept += [text[end : places[i][0]], HIDDEN]
            end = places[i + size - 1][1]
    return "".join([*kept, text[end:]])


def _spelled(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Return what a text spells, in small letters and without white space, and the place of each character in it."""
    found = [
        ((chr(int(sign[1], 16)) if sign[1] else sign[2] or sign[3]).lower()[:1], sign.span())
        for sign in _SPELLED.finditer(text)
        if sign.lastindex
    ]
    return "".join(sign for sign, _ in found), [place for _, place in found]


class _Refused(Exception):
    """The server does not know a setting."""

    def __init__(self, setting: str) -> None:
        super().__init__(setting)
        self.setting = setting


def _refused_setting(error: Mapping[str, Any], told: str, sent: Mapping[str, Any]) -> str | None:
    """Return the setting that a server refuses, if that is what its error says, and something can be done about it."""
    for setting in (*RENAMED, *OPTIONAL):
        named = error.get("param") == setting or re.search(rf"\b{setting}\b", told)
        if setting in sent and named and _REFUSAL.search(told):
            return setting
    return None


def _error_of(content: bytes) -> Mapping[str, Any]:
    """Return what a server says of an error: `error`, an object or a text; FastAPI's `detail`."""
    found = _object_of(content) or {}
    return _error_in(found.get("error") or found.get("detail") or found.get("message"))


def _error_in(said: Any) -> Mapping[str, Any]:
    return said if isinstance(said, dict) else {"message": said} if said else {}


def _object_of(content: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _text_of(choice: Mapping[str, Any], completions: bool) -> str | None:
    """Return the text of a choice; None if it has none. A message may have no content: all was thought, or filtered."""
    message = choice if completions else choice.get("message")
    text = message.get("text" if completions else "content") if isinstance(message, dict) else None
    if text is None and isinstance(message, dict) and not completions:
        return ""
    if isinstance(text, list) and all(isinstance(part, dict) for part in text):
        return content_text(text)
    return text if isinstance(text, str) else None


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**40 else None


def _whole(text: str) -> str:
    """Return a text that UTF-8 can encode: JSON may hold halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode()


# --- the transfer ----------------------------------------------------------------------------------------------------


def _within(
    seconds: float, call: Callable[[], tuple[int, str | None, bytes]], quoted: Callable[[object], str]
) -> tuple[int, str | None, bytes]:
    """Return what a call returns within a time, which covers all of it: a connection's timeout is for each piece.

    Args:
        quoted: Returns what a server said, as a message may show it.

    Raises:
        Passing: It takes longer, or the connection breaks.
        DataError: What is answered is beyond all bounds.
    """
    found: Future[tuple[int, str | None, bytes]] = Future()

    def run() -> None:
        try:
            found.set_result(call())
        except BaseException as error:  # handed on to who waits
            found.set_exception(error)

    Thread(target=run, daemon=True).start()
    try:
        return found.result(seconds)
    except TimeoutError:
        raise Passing(f"no answer within {seconds:g} s") from None
    except (http.client.HTTPException, OSError) as error:  # URLError is one of these
        reason = getattr(error, "reason", None) or error
        told = quoted(reason) or type(error).__name__
        if isinstance(reason, ssl.SSLCertVerificationError):
            raise DataError(f"The server's certificate is refused: {told}. Nothing was sent to it.") from None
        raise Passing(told, unreached=isinstance(reason, ConnectionRefusedError | socket.gaierror)) from None


def _transfer(request: urllib.request.Request, seconds: float) -> tuple[int, str | None, bytes]:
    """Send a request; return status, Retry-After and body."""
    with _opener(is_local(urlsplit(request.full_url).hostname or "")).open(request, timeout=seconds) as response:
        content = response.read(LONGEST_ANSWER + 1)
        if len(content) > LONGEST_ANSWER:
            raise DataError(
                f"{request.full_url}: the server sent more than {LONGEST_ANSWER:,} bytes for one answer; it is not one "
                "that keeps to max_tokens."
            )
        announced = re.fullmatch("[0-9]{1,18}", response.headers.get("Content-Length") or "")
        if announced and len(content) < int(announced[0]):
            raise http.client.IncompleteRead(b"", int(announced[0]) - len(content))
        return response.status, response.headers.get("Retry-After"), content


def _opener(local: bool) -> urllib.request.OpenerDirector:
    """Return an opener that follows nothing and raises at no status; a proxy is not asked for this machine."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler({} if local else None),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener
