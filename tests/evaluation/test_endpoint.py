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


def client(served, time=None, told=None, seconds=5.0, **how):
    """A client without jitter, that waits in no time."""
    time = time or Time()
    endpoint = checked(Endpoint(served if isinstance(served, str) else served.url, "m", **how))
    settings, told = {"max_tokens": 7, "temperature": 0, "seed": 3}, [] if told is None else told
    return Client(
        endpoint, settings, told.append, seconds, sleep=time.sleep, clock=lambda: time.now, chance=lambda: 0.5
    )


def said(**body):
    return 200, json.dumps(body).encode(), {}


def choice(**first):
    return said(choices=[first])


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


# --- what may pass ---------------------------------------------------------------------------------------------------

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
    "JSON without end": (200, b"[" * 10_000, {}),
    "an error that says 200": said(error={"message": "overloaded"}),
    "no choices": said(choices=[]),
    "no list of choices": said(choices=None),
    "an error in the choice": choice(finish_reason="stop", error={"message": "no"}, message={"content": ""}),
    "a choice that ended by an error": choice(finish_reason="error", message={"content": ""}),
    "a choice that was aborted": choice(finish_reason="abort", message={"content": "A d"}),
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


@pytest.mark.parametrize("longer", [False, True])
def test_where_one_is_told_to_wait_all_do(longer):
    time = Time()
    with server.serving() as served:
        asking = client(served, time)
        asking._pause(Passing("full", "8", crowded=True), 1.0, 1)  # what another thread was told

        def sleep(seconds):
            if longer and not time.waits:  # while this one waits, the answer to another's request comes in
                asking._pause(Passing("full", "16", crowded=True), 1.0, 1)
            time.sleep(seconds)

        asking.sleep = sleep
        asking.ask(CHAT)
    assert time.waits == ([10.0, 10.0] if longer else [10.0])


def test_it_is_given_up_after_seven_requests_and_where_nobody_is_at_once():
    for fault, told in (
        (server.error(500, "broken"), "the server answered 500: broken"),
        (choice(finish_reason="error", error={"message": "upstream"}, message={}), "not finish its answer: upstream"),
    ):
        time = Time()
        with server.serving(faults=[fault] * 9) as served:
            with pytest.raises(Unavailable, match=rf"gave up after 7 requests: .*{told}\.$"):
                client(served, time).ask(CHAT)
            assert len(served.asked) == 7
        assert time.waits == [1, 2, 4, 8, 16, 32]
    time = Time()
    with pytest.raises(Unavailable, match="gave up after 1 request: .*[Cc]onnection refused"):
        client("http://127.0.0.1:9/v1", time).ask(CHAT)
    assert time.waits == []


def test_a_slow_server_is_given_up_each_time_even_if_it_drips():
    with server.serving(faults=[server.drip]) as served:
        assert client(served, seconds=2.0).ask(CHAT).requests == 2
    none = answer("200 OK", b'{"choices": []}')
    with scripted(lambda connection: threading.Event().wait(5), none) as (url, requests):
        with pytest.raises(Unavailable, match="gave up after 7 requests: the answer has no choices"):
            client(url, seconds=2.0).ask(CHAT)
        assert len(requests) == 7


def test_waiting_ends_when_asking_is_given_up():
    with server.serving(faults=[server.error(500)] * 3) as served:
        asking = client(served)
        asking.sleep = lambda seconds: asking.stop.set()
        with pytest.raises(GivenUp):
            asking.ask(CHAT)
        assert len(served.asked) == 1


# --- what cannot -----------------------------------------------------------------------------------------------------


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
        (said(message={"content": "A dog runs."}), "the answer has no text where OpenAI's protocol has one: {\"message\""),
        (said(choices=[7]), "the answer has no text where OpenAI's protocol has one"),
        (choice(finish_reason="stop"), "the answer has no text where OpenAI's protocol has one"),
        (choice(message={"content": 5}), "the answer has no text where OpenAI's protocol has one"),
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


def test_settings_that_a_server_does_not_know():
    told = []
    refused = [
        server.error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens'.", param="max_tokens"),
        server.error(400, "Unsupported value: 'temperature' does not support 0 with this model.", param="temperature"),
        (422, b'{"detail": "Unexpected fields in the request: {\'seed\'}"}', {}),
    ]
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


def test_replies_without_a_text_or_in_parts():
    thought = choice(message={"content": None, "reasoning_content": "hm"}, finish_reason="length")
    filtered = server.error(400, "filtered", code="content_filter")
    usage = b'"usage": {"prompt_tokens": -1, "completion_tokens": true}'
    lone = (200, b'{"choices": [{"message": {"content": "a \\ud800 b"}}], ' + usage + b"}", {})
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]
    parts += [{"type": "text", "text": "A dog"}, {"type": "text", "text": " runs."}]
    faults = [thought, filtered, lone, choice(message={"content": parts}), choice(message={"content": parts[:1]})]
    with server.serving(faults=faults) as served:
        found = [client(served).ask(CHAT) for _ in range(5)]
    assert [one.text for one in found] == ["", "", "a ? b", "A dog runs.", ""]
    assert [one.finish for one in found[:2]] == ["length", "content_filter"]
    assert [(one.prompt_tokens, one.completion_tokens) for one in found] == [(None, None)] * 5


def test_an_answer_beyond_all_bounds_is_refused():
    with server.serving(reply=lambda body: "x" * 1_100_000) as served:
        with pytest.raises(DataError, match="more than 1,000,000 bytes for one answer"):
            client(served).ask(CHAT)
        assert len(served.asked) == 1


# --- the key ---------------------------------------------------------------------------------------------------------

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


def test_a_key_that_a_server_repeats_is_taken_out(monkeypatch):
    for key, reply, answered in (
        (KEY, f"Your key is {KEY}.", "Your key is ***."),
        ("EMPTY", "EMPTY rooms", "EMPTY rooms"),  # a placeholder is no secret, and may be said
        ("sk-no-key-required", "It is required.", "It is required."),  # as llama.cpp has it
    ):
        monkeypatch.setenv("THE_KEY", key)
        with server.serving(reply=lambda body, reply=reply: reply) as served:
            assert client(served, key_env="THE_KEY").ask(CHAT).text == answered
    monkeypatch.setenv("THE_KEY", LONG_KEY)
    broken = f"authorization: Bearer {LONG_KEY}\r\n\r\n".encode()
    with scripted(*[broken] * 7) as (url, _), pytest.raises(Unavailable, match=r"7 requests: .*Bearer \*\*\*"):
        client(url, key_env="THE_KEY").ask(CHAT)


def test_a_key_is_taken_out_before_a_text_is_cut(monkeypatch):
    monkeypatch.setenv("THE_KEY", LONG_KEY)
    with server.serving() as served:
        for before in range(40, 110, 3):
            content = json.dumps({"error": "x" * before + LONG_KEY, "choices": [7]}).encode()
            for fault in ((200, content, {}), (200, b"<p>" + content, {}), (418, b"y" * 95 + content, {})):
                served.faults = [fault] * 7
                with pytest.raises(DataError) as caught:
                    client(served, key_env="THE_KEY").ask(CHAT)
                assert not any(LONG_KEY[i : i + 4] in str(caught.value) for i in range(len(LONG_KEY) - 3))


def test_a_key_does_not_leave_this_machine_unencrypted(monkeypatch, refused):
    monkeypatch.setenv("THE_KEY", KEY)
    for host in ("api.example.org", "10.0.0.7:8000", "127.0.0.1.example.org", "0.0.0.0"):
        url = f"http://{host}/v1"
        with refused(ConfigError):
            checked(Endpoint(url, "m", key_env="THE_KEY"))
        assert checked(Endpoint(url, "m", key_env="THE_KEY", unencrypted=True)).url == url
        assert checked(Endpoint(url, "m")).url == url
    for url in ("http://localhost:1/v1", "http://127.0.0.1/v1", "http://[::1]/v1", "https://api.example.org/v1"):
        assert checked(Endpoint(url, "m", key_env="THE_KEY")).url == url


def test_keys_that_no_header_can_carry_are_not_shown(monkeypatch, refused):
    monkeypatch.delenv("THE_KEY", raising=False)
    for given in ("THE_KEY", KEY):  # the key in place of its name
        with refused(ConfigError) as caught:
            checked(Endpoint("http://localhost/v1", "m", key_env=given))
        assert given not in str(caught.value)
    for value in ("two words", "line\nX-Other: header", "clé"):
        monkeypatch.setenv("THE_KEY", value)
        with refused(ConfigError) as caught:
            checked(Endpoint("http://localhost/v1", "m", key_env="THE_KEY"))
        assert value not in str(caught.value)


# --- addresses -------------------------------------------------------------------------------------------------------


def test_no_proxy_is_asked_for_this_machine(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with server.serving() as served:
        assert client(served).ask(CHAT).requests == 1


def test_addresses_in_one_form(refused):
    for given, url in {
        "http://localhost:8000": "http://localhost:8000/v1",
        "http://localhost:8000/v1/": "http://localhost:8000/v1",
        "https://api.example.org/openai/v1": "https://api.example.org/openai/v1",
        "http://[::1]:80/": "http://[::1]:80/v1",
    }.items():
        assert checked_url(given) == url
    for given in (
        *("localhost:8000", "ftp://x/v1", "file:///etc/shadow", "http:///v1", "http://a:b:c/v1", "http://a:99999/v1"),
        *("http://a b/v1", "http://exämple.org", "http://a\r\nX-Y: z", "https://me:secret@api.example.org/v1"),
        *("https://api.example.org/v1?api-key=secret", "https://api.example.org/v1#secret"),
        "https://api.example.org/v1/chat/completions",
    ):
        with refused(ConfigError) as caught:
            checked_url(given)
        assert "secret" not in str(caught.value)
    for changes in ({"model": " "}, {"concurrency": 0}, {"prices": (1.0, float("nan"))}):
        with refused(ConfigError):
            checked(Endpoint(**({"url": "http://localhost/v1", "model": "m"} | changes)))
