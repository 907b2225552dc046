"""Ask a model behind an HTTP address one question, by OpenAI's library, which waits and retries.

Only the client holds the API key, and removes it from everything the server says, before that is cut. Redirections
are refused, since they would carry the key elsewhere.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any
from urllib.parse import quote, urlsplit

from grue import __version__
from grue.errors import DataError, Unavailable, escaped
from grue.evaluation.endpoint import Endpoint, api_key, is_local
from grue.evaluation.prompting import Question, content_text

ATTEMPTS = 7  # the waits between them double, or are what the server asks for
FIRST_WAIT = 0.5  # seconds
SECONDS = 300.0  # timeout
HIDDEN = "***"
SHORTEST_SECRET = 8  # characters; a shorter key is a placeholder, which an answer may well contain

RENAMED = {"max_tokens": "max_completion_tokens"}
"""Settings that some servers know only by another name."""
OPTIONAL = ("temperature", "seed", "stop")
"""Settings that are left out if a server refuses them; the result says so."""
_REFUSAL = re.compile(r"unsupported|not support|unexpected|unknown|unrecognized|not permitted|not allowed|extra", re.I)
_FILTERED = ("content_filter", "content_policy_violation", "invalid_prompt", "data_inspection_failed")
"""Codes by which services (Azure, OpenAI's old and new, Alibaba's) refuse a single prompt, and not the others."""
_FAILED = ("error", "abort")
"""Finish reasons of a reply that the server, or one behind it, could not finish, although the status is 200."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A server's answer.

    Attributes:
        text: The reply; empty if there is none, or if a filter blocked it.
        finish: The server's finish reason: "stop", "length".
        model, fingerprint: The model and the state of the server, as it reports them.
        prompt_tokens, completion_tokens: The server's counts; None if it reports none.
        url: The base address of the server.
    """

    text: str
    finish: str
    model: str
    fingerprint: str
    prompt_tokens: int | None
    completion_tokens: int | None
    requests: int
    sent: Mapping[str, Any]
    url: str


class GivenUp(Exception):
    """Asking was stopped because of another question."""


class Unfinished(Exception):
    """The status is 200, but the answer is incomplete: a server under load may cut it, or send an error instead."""


@dataclass(slots=True)
class Client:
    """Asks one endpoint; several threads may share it.

    Attributes:
        settings: Sent with every question: length limit, temperature, seed.
        warn: Called if the server refuses a setting.
        stop: Set to stop asking.

    Raises:
        Unavailable: The package openai is not installed.
    """

    endpoint: Endpoint
    settings: dict[str, Any]
    warn: Callable[[str], None]
    seconds: float = SECONDS
    stop: Event = field(default_factory=Event)
    _key: str = field(init=False, repr=False, default="")
    _headers: dict[str, Any] = field(init=False, repr=False)
    _server: Any = field(init=False, repr=False)
    _lock: Lock = field(init=False, repr=False, default_factory=Lock)

    def __post_init__(self) -> None:
        try:
            import openai
        except ImportError as error:
            raise Unavailable("--endpoint needs the package openai: pip install 'grue[endpoint]'.") from error
        if self.endpoint.key_env:
            self._key = api_key(self.endpoint.key_env)
        hidden = ["OpenAI-Organization", "OpenAI-Project", *([] if self._key else ["Authorization"])]
        self._headers = {"User-Agent": f"grue/{__version__}", **dict.fromkeys(hidden, openai.Omit())}
        local = is_local(urlsplit(self.endpoint.url).hostname or "")  # then no proxy is used
        self._server = openai.OpenAI(
            api_key=self._key or "none",
            base_url=self.endpoint.url,
            max_retries=ATTEMPTS - 1,
            http_client=openai.DefaultHttpxClient(follow_redirects=False, trust_env=not local, timeout=self.seconds),
        )

    def ask(self, question: Question) -> Reply:
        """Return the reply to a question, retrying after transient failures.

        Raises:
            DataError: The server refuses the question or the key, or speaks another protocol.
            Unavailable: It cannot be reached, is too slow, or fails repeatedly.
            GivenUp: `stop` was set.
        """
        import openai

        completions, server = self.endpoint.completions, self._server
        calls, field = (server.completions, "prompt") if completions else (server.chat.completions, "messages")
        named, requests, unfinished = {"model": self.endpoint.model, field: question}, 0, 0
        while not self.stop.is_set():
            with self._lock:
                sent = dict(self.settings)
            refusal: Any = None
            try:
                answer = calls.with_raw_response.create(**named, **sent, extra_headers=self._headers)
            except openai.APIStatusError as error:
                refusal = error.response  # read below: an error raised here would have this one's text as context
            except openai.APIConnectionError as error:  # or a timeout
                why = self._quoted(error.__cause__ or error) or type(error.__cause__).__name__
                raise self._given_up(why, requests + _sent_for(error.request)) from None
            if refusal is not None:
                requests += _sent_for(refusal.request)
                if (finish := self._fault(refusal, sent, requests)) is not None:
                    return Reply("", finish, "", "", None, None, requests, sent, self.endpoint.url)
                continue
            requests += 1 + answer.retries_taken
            try:
                return self._read(answer.content, sent, requests)
            except Unfinished as fault:
                unfinished += 1
                if unfinished == ATTEMPTS:
                    raise self._given_up(str(fault), requests) from None
                self.stop.wait(FIRST_WAIT * 2**unfinished)
        raise GivenUp

    def _given_up(self, why: str, requests: int) -> Unavailable:
        counted = "1 request" if requests == 1 else f"{requests} requests"
        return Unavailable(f"{self._where}: gave up after {counted}: {why}.")

    @property
    def _where(self) -> str:
        return f"{self.endpoint.url}/{self.endpoint.path}"

    def _fault(self, response: Any, sent: Mapping[str, Any], requests: int) -> str | None:
        """Raise the error that a status means; return the finish reason if the server's filter blocked the reply.

        Return None if a setting was refused that can be left out or renamed.
        """
        status, error = response.status_code, _error_of(response.content)
        text = self._quoted(error.get("message") or response.content.decode("utf-8", "replace") or "nothing more")
        if status in (408, 409, 429) or status >= 500:
            later = response.headers.get("Retry-After")
            wait = f". It asks to wait {escaped(later, 40)} s" if later else ""
            raise self._given_up(f"the server answered {status}: {text}{wait}", requests)
        if status in (400, 422):
            if error.get("code") in _FILTERED:
                return "content_filter"
            for setting in (*RENAMED, *OPTIONAL):
                named = error.get("param") == setting or re.search(rf"\b{setting}\b", text)
                if setting in sent and named and _REFUSAL.search(text):
                    self._do_without(setting)
                    return None
        raise DataError(f"{self._where}: the server answered {status}: {text}. {self._cure(status)}")

    def _do_without(self, setting: str) -> None:
        """Rename or leave out a setting that the server refuses, for this question and all later ones."""
        with self._lock:
            if setting not in self.settings:  # another thread removed it
                return
            value = self.settings.pop(setting)
            if setting in RENAMED:
                self.settings[RENAMED[setting]] = value
                return
        self.warn(
            f"{self._where}: the server refuses {setting} = {value!r}; asking without it, and the result says so."
        )

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
        start = self._quoted(content.decode("utf-8", "replace"), 100)
        if content.lstrip().startswith((b"data:", b"event:", b":")):
            raise DataError(f"{self._where}: the server streams, which it was not asked for: {start}. Turn it off.")
        answer = _object_of(content)
        if answer is None:
            raise Unfinished(f"the answer is no JSON object: {start}")
        choices, reason = answer.get("choices"), _error_of(content).get("message", "")
        if not choices and (reason or "choices" in answer):
            raise Unfinished(f"the answer has no choices: {self._quoted(reason)}".rstrip(": "))
        first = choices[0] if isinstance(choices, list) and choices else None
        choice = first if isinstance(first, dict) else {}
        if choice.get("error") or choice.get("finish_reason") in _FAILED:
            reason = self._quoted(_error_in(choice.get("error")).get("message", ""))
            raise Unfinished(f"the server could not finish its answer: {reason}".rstrip(": "))
        message, at = (choice, "text") if self.endpoint.completions else (choice.get("message"), "content")
        text = message.get(at) if isinstance(message, dict) else None
        if (text is None and at == "content" and isinstance(message, dict)) or _is_of_parts(text):
            text = content_text(text)  # a message without content counts as empty
        if not isinstance(text, str):
            raise DataError(
                f"{self._where}: the answer has no text where OpenAI's protocol has one: {start}. "
                "Check the address. Nothing was asked again, since the answer would be the same."
            )
        usage = answer.get("usage")
        counted = usage if isinstance(usage, dict) else {}
        return Reply(
            text=self._without_key(_whole(text)) if len(self._key) >= SHORTEST_SECRET else _whole(text),
            finish=self._quoted(choice.get("finish_reason") or "", 40),
            model=self._quoted(answer.get("model") or ""),
            fingerprint=self._quoted(answer.get("system_fingerprint") or ""),
            prompt_tokens=_count(counted.get("prompt_tokens")),
            completion_tokens=_count(counted.get("completion_tokens")),
            requests=requests,
            sent=sent,
            url=self.endpoint.url,
        )

    def _quoted(self, text: object, longest: int = 200) -> str:
        """Return a server's text on one line, without the key."""
        return escaped(self._without_key(_whole(str(text)).strip()), longest).rstrip(".")

    def _without_key(self, text: str) -> str:
        for spelled in {self._key, quote(self._key, safe="")} - {""}:
            text = re.sub(re.escape(spelled), HIDDEN, text, flags=re.IGNORECASE)
        return text


def _sent_for(request: Any) -> int:
    """Return how often a request was sent; OpenAI's library does not repeat one for which it would wait too long."""
    return 1 + int(request.headers.get("x-stainless-retry-count", 0))


def _error_of(content: bytes) -> Mapping[str, Any]:
    """Return a server's description of an error: `error`, an object or a text; or FastAPI's `detail`."""
    answer = _object_of(content) or {}
    return _error_in(answer.get("error") or answer.get("detail") or answer.get("message"))


def _error_in(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {"message": value} if value else {}


def _object_of(content: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _is_of_parts(text: Any) -> bool:
    return isinstance(text, list) and all(isinstance(part, dict) for part in text)


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**40 else None


def _whole(text: str) -> str:
    """Return a text that UTF-8 can encode: JSON may hold lone surrogates."""
    return text.encode("utf-8", "replace").decode()
