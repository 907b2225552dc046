"""One question to a server that fails in every way it can: what is asked again, what is refused, and what is never told."""

import json
import threading
from urllib.parse import quote

import pytest
from support import openai_server as server
from support.scripted_server import answer, scripted

from grue.errors import ConfigError, DataError, Unavailable
from grue.evaluation.client import Client, GivenUp, Passing, without_key
from grue.evaluation.endpoint import Endpoint, checked, checked_url

KEY = "sk-very-secret-0123456789"
CHAT = [{"role": "user", "content": "Hello?"}]


class Time:
    """A clock that only waiting moves."""

    def __init__(self):
        self.now, self.waits = 0.0, []

    def sleep(self, seconds):
        self.waits.append(seconds)
        self.now += seconds


def client(served, time=None, **how):
    """A client without jitter, that waits in no time."""
    time = time or Time()
    told = how.pop("told", [])
    settings = {"max_tokens": 7, "temperature": 0, "seed": 3}
    seconds = how.pop("seconds", 5.0)
    endpoint = checked(Endpoint(served if isinstance(served, str) else served.url, "m", **how))
    return Client(
        endpoint, settings, told.append, seconds, sleep=time.sleep, clock=lambda: time.now, chance=lambda: 0.5
    )


def test_a_question_and_its_reply():
    with server.serving() as served:
        reply = client(served).ask(CHAT)
        completed = client(served, completions=True).ask("Once upon")
    assert (reply.text, reply.finish, reply.model, reply.fingerprint) == ("A dog runs.", "stop", "m-0613", "fp_1")
    assert (reply.prompt_tokens, reply.completion_tokens, reply.requests) == (10, 3, 1)
    assert served.asked == [
        ("/v1/chat/completions", {"model": "m", "messages": CHAT, "max_tokens": 7, "temperature": 0, "seed": 3}),
        ("/v1/completions", {"model": "m", "prompt": "Once upon", "max_tokens": 7, "temperature": 0, "seed": 3}),
    ]
    assert "Authorization" not in served.headers[0] and completed.text == "A dog runs."


PASSING = {
    "429": server.error(429, "slow down"),
    "500": server.error(500),
    "502 with a page": (502, b"<html>Bad gateway</html>", {}),
    "529": server.error(529, "overloaded"),
    "a cut body": server.cut,
    "a cut body of a length that is no number": server.announce_nothing,
    "a closed connection": server.hang_up,
    "no JSON": (200, b"OK", {}),
    "JSON of another kind": (200, b"[1]", {}),
    "JSON without end": (200, b"[" * 100_000, {}),
    "an error that says 200": (200, b'{"error": {"message": "overloaded"}}', {}),
    "no choices": (200, b'{"choices": []}', {}),
    "no list of choices": (200, b'{"choices": null}', {}),
    "an error in the choice": (
        200,
        b'{"choices": [{"finish_reason": "stop", "error": {"message": "no"}, "message": {"content": ""}}]}',
        {},
    ),
    "a choice that ended by an error": (
        200,
        b'{"choices": [{"finish_reason": "error", "message": {"content": ""}}]}',
        {},
    ),
    "a choice that was aborted": (200, b'{"choices": [{"finish_reason": "abort", "message": {"content": "A d"}}]}', {}),
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING.keys())
def test_what_may_pass_is_asked_again(fault):
    time = Time()
    with server.serving(faults=[fault, fault]) as served:
        reply = client(served, time).ask(CHAT)
    assert (reply.text, reply.requests) == ("A dog runs.", 3)
    assert time.waits == [1.0, 2.0]  # half to one and a half of it, by chance


def test_the_wait_that_a_server_asks_for_is_kept():
    time = Time()
    with server.serving(faults=[server.error(429, headers={"Retry-After": "20"}), server.error(503)]) as served:
        assert client(served, time).ask(CHAT).requests == 3
        assert time.waits == [25.0, 2.0]  # never less than asked for
        served.faults = [server.error(429, "tomorrow", headers={"Retry-After": "86400"})]
        with pytest.raises(Unavailable, match=r"429: tomorrow. It asks to wait 86400 s\.$"):
            client(served, time).ask(CHAT)


def test_where_one_is_told_to_wait_all_do():
    time = Time()
    with server.serving() as served:
        asking = client(served, time)
        asking._pause(Passing("full", "8", crowded=True), 1.0, 1)  # what another thread was told
        asking.ask(CHAT)
    assert time.waits == [10.0]


def test_who_waits_goes_on_waiting_where_another_is_told_to_wait_longer():
    time = Time()
    with server.serving() as served:
        asking = client(served, time)
        asking._pause(Passing("full", "8", crowded=True), 1.0, 1)

        def sleep(seconds):
            if not time.waits:  # while this one waits, the answer to another's request comes in
                asking._pause(Passing("full", "16", crowded=True), 1.0, 1)
            time.sleep(seconds)

        asking.sleep = sleep
        asking.ask(CHAT)
    assert time.waits == [10.0, 10.0]  # 20 s in all, as the other was told


def test_it_is_given_up_after_seven_requests():
    time = Time()
    with server.serving(faults=[server.error(500, "broken")] * 9) as served:
        with pytest.raises(Unavailable, match=r"gave up after 7 requests: the server answered 500: broken\.$"):
            client(served, time).ask(CHAT)
        assert len(served.asked) == 7
    assert time.waits == [1, 2, 4, 8, 16, 32]


def test_a_slow_server_is_given_up_each_time_even_if_it_drips():
    with server.serving(faults=[server.drip]) as served:
        reply = client(served, seconds=2.0).ask(CHAT)
    assert reply.requests == 2
    none = answer("200 OK", b'{"choices": []}')
    with scripted(lambda connection: threading.Event().wait(5), none) as (url, requests):
        with pytest.raises(Unavailable, match="gave up after 7 requests: the answer has no choices"):
            client(url, seconds=2.0).ask(CHAT)
        assert len(requests) == 7


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (server.error(401, f"Incorrect API key provided: {KEY}."), "401: Incorrect API key provided: ***. Check the key in THE_KEY."),
        (server.error(403, "no"), "403: no. Check the key in THE_KEY."),
        (server.error(404, "no such model"), "404: no such model. Check the address, and whether the server has the model m."),
        (server.error(400, "context too long"), "400: context too long. Nothing was asked again"),
        (server.error(429, "pay first", code="insufficient_quota"), "429: pay first. Nothing was asked again"),
        ((302, b"", {"Location": "http://elsewhere.example/"}), "302: nothing more. It redirects, which is not followed"),
        ((422, b'{"detail": "\\u001b[31mno"}', {}), r"422: \x1b[31mno. Nothing was asked again"),
        ((200, b'data: {"choices": []}\n\ndata: [DONE]\n\n', {}), 'the server streams, which it was not asked for: data: {"choices": []}'),
        ((200, b'{"message": {"content": "A dog runs."}}', {}), "the answer has no text where OpenAI's protocol has one: {\"message\""),
        ((200, b'{"choices": [7]}', {}), "the answer has no text where OpenAI's protocol has one"),
        ((200, b'{"choices": [{"finish_reason": "stop"}]}', {}), "the answer has no text where OpenAI's protocol has one"),
        ((200, b'{"choices": [{"message": {"content": 5}}]}', {}), "the answer has no text where OpenAI's protocol has one"),
    ],
)  # fmt: skip
def test_what_cannot_pass_is_told_at_once(monkeypatch, fault, told):
    monkeypatch.setenv("THE_KEY", KEY)
    with server.serving(faults=[fault]) as served:
        with pytest.raises(DataError) as caught:
            client(served, key_env="THE_KEY").ask(CHAT)
        assert len(served.asked) == 1
        assert served.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert told in str(caught.value) and KEY not in str(caught.value)
    assert KEY not in repr(caught.value.__context__) + repr(caught.value.__cause__)


def test_a_server_that_is_not_there_is_told_at_once():
    time = Time()
    with pytest.raises(Unavailable, match="gave up after 1 request: .*[Cc]onnection refused"):
        client("http://127.0.0.1:9/v1", time).ask(CHAT)
    assert time.waits == []


def test_settings_that_a_server_does_not_know():
    told = []
    refused = [
        server.error(400, "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", param="max_tokens"),
        server.error(400, "Unsupported value: 'temperature' does not support 0 with this model.", param="temperature"),
        (422, b'{"detail": "Unexpected fields in the request: {\'seed\'}"}', {}),
    ]  # fmt: skip
    with server.serving(faults=refused) as served:
        asking = client(served, told=told)
        reply = asking.ask(CHAT)
        assert reply.sent == {"max_completion_tokens": 7} and reply.requests == 4
        assert asking.ask(CHAT).requests == 1  # what was learnt stays
        served.faults = [server.error(400, "max_completion_tokens is not supported", param="max_completion_tokens")]
        with pytest.raises(DataError, match="400: max_completion_tokens is not supported"):  # never without a limit
            asking.ask(CHAT)
    assert [line.partition(": ")[2] for line in told] == [
        "the server refuses temperature = 0; asking without it, and the result says so.",
        "the server refuses seed = 3; asking without it, and the result says so.",
    ]
    with server.serving(faults=[server.error(400, "max_tokens is too large: 7")]) as served, pytest.raises(DataError):
        client(served).ask(CHAT)  # not the name is refused, but the value


def test_replies_without_a_text():
    said = {
        "choices": [
            {"message": {"role": "assistant", "content": None, "reasoning_content": "hm"}, "finish_reason": "length"}
        ]
    }
    filtered = server.error(400, "filtered", code="content_filter")
    lone = (
        200,
        b'{"choices": [{"message": {"content": "a \\ud800 b"}}], "usage": {"prompt_tokens": -1, "completion_tokens": true}}',
        {},
    )
    with server.serving(faults=[(200, json.dumps(said).encode(), {}), filtered, lone]) as served:
        asking = client(served)
        thought, kept_back, broken = (asking.ask(CHAT) for _ in range(3))
    assert (thought.text, thought.finish, thought.prompt_tokens) == ("", "length", None)
    assert (kept_back.text, kept_back.finish) == ("", "content_filter")
    assert (broken.text, broken.prompt_tokens, broken.completion_tokens) == ("a ? b", None, None)


def test_a_reply_in_parts_is_read_without_its_thoughts():
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "A dog"},
        {"type": "text", "text": " runs."},
    ]
    with server.serving() as served:
        served.reply = lambda body: parts
        assert client(served).ask(CHAT).text == "A dog runs."
        served.reply = lambda body: parts[:1]
        assert client(served).ask(CHAT).text == ""


def test_what_failed_behind_the_server_is_told_and_no_answer():
    said = {"choices": [{"finish_reason": "error", "error": {"code": 502, "message": "upstream"}, "message": {}}]}
    with (
        server.serving(faults=[(200, json.dumps(said).encode(), {})] * 7) as served,
        pytest.raises(Unavailable, match=r"7 requests: the server could not finish its answer: upstream\.$"),
    ):
        client(served).ask(CHAT)


def test_a_key_that_a_server_repeats_is_taken_out(monkeypatch):
    monkeypatch.setenv("THE_KEY", KEY)
    with server.serving(reply=lambda body: f"Your key is {KEY}.") as served:
        assert client(served, key_env="THE_KEY").ask(CHAT).text == "Your key is ***."
    monkeypatch.setenv("THE_KEY", "EMPTY")  # a placeholder is no secret, and may be said
    with server.serving(reply=lambda body: "EMPTY rooms") as served:
        assert client(served, key_env="THE_KEY").ask(CHAT).text == "EMPTY rooms"
    monkeypatch.setenv("THE_KEY", "sk-no-key-required")  # as llama.cpp has it
    with server.serving(reply=lambda body: "It is required.") as served:
        assert client(served, key_env="THE_KEY").ask(CHAT).text == "It is required."


LONG_KEY = "sk-proj-AbC/dEf_GhI.jKl~MnO=QrStUvW7x8+wxyz!"


@pytest.mark.parametrize(
    "spelled",
    [
        LONG_KEY,
        LONG_KEY.upper(),
        quote(LONG_KEY, safe=""),
        quote(quote(LONG_KEY, safe=""), safe="").lower(),
        "".join(f"%{ord(sign):02X}" for sign in LONG_KEY),
        "".join(f"\\u{ord(sign):04x}" for sign in LONG_KEY),
        "".join(f"&#x{ord(sign):02x};" for sign in LONG_KEY),
        LONG_KEY.replace("/", "\\/"),
        f"{LONG_KEY[:20]}\n  {LONG_KEY[20:]}",
        LONG_KEY[:38],
        LONG_KEY[7:],
    ],
)
def test_a_key_is_taken_out_however_it_is_spelled(spelled):
    assert without_key(f"Bad key {spelled}, no {spelled}", LONG_KEY) == "Bad key ***, no ***"
    assert without_key("sk-prof and jKl~MnO", LONG_KEY) == "sk-prof and jKl~MnO"


@pytest.mark.parametrize("before", range(40, 110, 3))
def test_a_key_is_taken_out_before_a_text_is_cut(monkeypatch, before):
    monkeypatch.setenv("THE_KEY", LONG_KEY)
    content = json.dumps({"error": "x" * before + LONG_KEY, "choices": [7]}).encode()
    for fault in ((200, content, {}), (200, b"<p>" + content, {}), (418, b"y" * 95 + content, {})):
        with server.serving(faults=[fault] * 7) as served, pytest.raises(DataError) as caught:
            client(served, key_env="THE_KEY").ask(CHAT)
        assert not any(LONG_KEY[i : i + 4] in str(caught.value) for i in range(len(LONG_KEY) - 3))


def test_a_key_in_a_broken_header_is_taken_out(monkeypatch):
    monkeypatch.setenv("THE_KEY", LONG_KEY)
    broken = f"authorization: Bearer {LONG_KEY}\r\n\r\n".encode()
    with scripted(*[broken] * 7) as (url, _), pytest.raises(Unavailable, match=r"7 requests: .*Bearer \*\*\*"):
        client(url, key_env="THE_KEY").ask(CHAT)


def test_an_answer_beyond_all_bounds_is_refused():
    with server.serving(reply=lambda body: "x" * 1_100_000) as served:
        with pytest.raises(DataError, match="more than 1,000,000 bytes for one answer"):
            client(served).ask(CHAT)
        assert len(served.asked) == 1


def test_waiting_ends_when_asking_is_given_up():
    with server.serving(faults=[server.error(500)] * 3) as served:
        asking = client(served)
        asking.sleep = lambda seconds: asking.stop.set()
        with pytest.raises(GivenUp):
            asking.ask(CHAT)
        assert len(served.asked) == 1


def test_no_proxy_is_asked_for_this_machine(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with server.serving() as served:
        assert client(served).ask(CHAT).requests == 1


# --- addresses and keys ----------------------------------------------------------------------------------------------


def test_addresses_in_one_form():
    for given, url in {
        "http://localhost:8000": "http://localhost:8000/v1",
        "http://localhost:8000/v1/": "http://localhost:8000/v1",
        "https://api.example.org/openai/v1": "https://api.example.org/openai/v1",
        "http://[::1]:80/": "http://[::1]:80/v1",
    }.items():
        assert checked_url(given) == url
    for given, told in {
        "localhost:8000": "does not begin with http:// or https://",
        "ftp://x/v1": "does not begin with",
        "file:///etc/passwd": "does not begin with",
        "http:///v1": "names no host",
        "http://a:b:c/v1": "give the server's base address",
        "http://a:99999/v1": "Port out of range",
        "http://a b/v1": "does not begin with",
        "http://exämple.org": "does not begin with",
        "http://a\r\nX-Y: z": "does not begin with",
        "https://me:pass@api.example.org/v1": "https://…@api.example.org/v1: a password, a query or a fragment",
        "https://api.example.org/v1?api-key=pass": "https://api.example.org/v1: a password, a query or a fragment",
        "https://api.example.org/v1#pass": "a password, a query or a fragment",
        "https://api.example.org/v1/chat/completions": "is the address of one function",
    }.items():
        with pytest.raises(ConfigError) as caught:
            checked_url(given)
        assert told in str(caught.value) and "pass" not in str(caught.value).replace("a password", "").replace(
            "passwd", ""
        ), given


def test_a_key_does_not_leave_this_machine_unencrypted(monkeypatch):
    monkeypatch.setenv("THE_KEY", KEY)
    for url in (
        "http://api.example.org/v1",
        "http://10.0.0.7:8000/v1",
        "http://127.0.0.1.example.org/v1",
        "http://0.0.0.0/v1",
    ):
        with pytest.raises(ConfigError, match="would travel unencrypted"):
            checked(Endpoint(url, "m", key_env="THE_KEY"))
        assert checked(Endpoint(url, "m", key_env="THE_KEY", unencrypted=True)).url == url
        assert checked(Endpoint(url, "m")).url == url
    for url in ("http://localhost:1/v1", "http://127.0.0.1/v1", "http://[::1]/v1", "https://api.example.org/v1"):
        assert checked(Endpoint(url, "m", key_env="THE_KEY")).url == url


def test_keys_that_no_header_can_carry_are_not_shown(monkeypatch):
    monkeypatch.delenv("THE_KEY", raising=False)
    endpoint = Endpoint("http://localhost/v1", "m", key_env="THE_KEY")
    for given in ("THE_KEY", KEY):  # the key in place of its name
        with pytest.raises(ConfigError, match="of the name given there is not set.*never the key") as caught:
            checked(Endpoint("http://localhost/v1", "m", key_env=given))
        assert given not in str(caught.value)
    for value in ("two words", "line\nX-Other: header", "clé"):
        monkeypatch.setenv("THE_KEY", value)
        with pytest.raises(ConfigError, match="its value is no API key") as caught:
            checked(endpoint)
        assert value not in str(caught.value)


def test_what_else_cannot_be():
    for changes, told in (
        ({"model": " "}, "--endpoint needs --model NAME"),
        ({"concurrency": 0}, "--concurrency 0: choose 1 to 256"),
        ({"prices": (1.0, float("nan"))}, "--price-in and --price-out"),
    ):
        with pytest.raises(ConfigError, match=told):
            checked(Endpoint(**({"url": "http://localhost/v1", "model": "m"} | changes)))
