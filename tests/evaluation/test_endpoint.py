"""One question to a server that fails in every way it can: what is asked again, what is refused, and what is never told."""

import json
import sys
import threading
from urllib.parse import quote

import pytest
from support import openai_server as server
from support.scripted_server import scripted

from grue.errors import ConfigError, DataError, Unavailable
from grue.evaluation.client import Client, GivenUp
from grue.evaluation.endpoint import Endpoint, checked, checked_url

KEY = "sk-very/secret-0123456789"
CHAT = [{"role": "user", "content": "Hello?"}]


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    """The seconds that the library would have waited."""
    waited = []
    monkeypatch.setattr("time.sleep", waited.append)
    monkeypatch.setattr("grue.evaluation.client.FIRST_WAIT", 0.0)
    return waited


def client(served, warned=None, seconds=5.0, **how):
    endpoint = checked(Endpoint(served if isinstance(served, str) else served.url, "m", **how))
    settings, warned = {"max_tokens": 7, "temperature": 0, "seed": 3}, [] if warned is None else warned
    return Client(endpoint, settings, warned.append, seconds)


def said(**body):
    return 200, json.dumps(body).encode(), {}


def choice(**first):
    return said(choices=[first])


def test_a_question_and_its_reply(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)  # of no concern here
    monkeypatch.setenv("OPENAI_ORG_ID", "ours")
    with server.serving() as served:
        reply = client(served).ask(CHAT)
        completed = client(served, completions=True).ask("Once upon")
    assert (reply.text, reply.finish, reply.model, reply.fingerprint) == ("A dog runs.", "stop", "m-0613", "fp_1")
    assert (reply.prompt_tokens, reply.completion_tokens, reply.requests) == (10, 3, 1)
    assert served.asked == [
        ("/v1/chat/completions", {"model": "m", "messages": CHAT, "max_tokens": 7, "temperature": 0, "seed": 3}),
        ("/v1/completions", {"model": "m", "prompt": "Once upon", "max_tokens": 7, "temperature": 0, "seed": 3}),
    ]
    assert not {"Authorization", "Openai-Organization"} & served.headers[0].keys()
    assert served.headers[0]["User-Agent"].startswith("grue/") and completed.text == "A dog runs."


def test_without_the_library(monkeypatch, refused):
    monkeypatch.setitem(sys.modules, "openai", None)
    with refused(Unavailable):
        client("http://localhost:1/v1")


# --- what may pass ---------------------------------------------------------------------------------------------------

PASSING = {
    "429": server.error(429, "slow down"),
    "502 with a page": (502, b"<html>Bad gateway</html>", {}),
    "a cut body": server.cut,
    "a closed connection": server.hang_up,
    "no JSON": (200, b"OK", {}),
    "JSON of another kind": (200, b"[1]", {}),
    "JSON without end": (200, b"[" * 10_000, {}),
    "an error that says 200": said(error={"message": "overloaded"}),
    "no choices": said(choices=[]),
    "an error in the choice": choice(finish_reason="stop", error={"message": "no"}, message={"content": ""}),
    "a choice that ended by an error": choice(finish_reason="error", message={"content": ""}),
    "a choice that was aborted": choice(finish_reason="abort", message={"content": "A d"}),
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING.keys())
def test_what_may_pass_is_asked_again(fault):
    with server.serving(faults=[fault, fault]) as served:
        reply = client(served).ask(CHAT)
    assert (reply.text, reply.requests) == ("A dog runs.", 3)


def test_the_wait_that_a_server_asks_for_is_kept(waits):
    with server.serving(faults=[server.error(429, headers={"Retry-After": "20"})]) as served:
        assert client(served).ask(CHAT).requests == 2
        assert waits == [20.0]
        served.faults = [server.error(429, "tomorrow", headers={"Retry-After": "86400"})]
        with pytest.raises(Unavailable, match=r"after 1 request: .* 429: tomorrow. It asks to wait 86400 s\.$"):
            client(served).ask(CHAT)


def test_it_is_given_up_after_seven_requests(waits):
    for fault, why in (
        (server.error(500, "broken"), "the server answered 500: broken"),
        (choice(finish_reason="error", error={"message": "upstream"}, message={}), "not finish its answer: upstream"),
        (said(choices=[]), "the answer has no choices"),
        (server.hang_up, ".*"),
    ):
        with server.serving(faults=[fault] * 9) as served:
            with pytest.raises(Unavailable, match=rf"gave up after 7 requests: .*{why}\.$"):
                client(served).ask(CHAT)
            assert len(served.asked) == 7
    with pytest.raises(Unavailable, match="gave up after 7 requests: .*[Cc]onnection refused"):
        client("http://127.0.0.1:9/v1").ask(CHAT)
    assert waits and max(waits) <= 8


def test_a_silent_server_is_given_up():
    with scripted(lambda connection: threading.Event().wait(2)) as (url, requests):
        with pytest.raises(Unavailable, match="gave up after 7 requests: .*timed out"):
            client(f"{url}/v1", seconds=0.1).ask(CHAT)
        assert len(requests) == 7


def test_nothing_is_asked_once_asking_is_given_up():
    with server.serving() as served:
        asking = client(served)
        asking.stop.set()
        with pytest.raises(GivenUp):
            asking.ask(CHAT)
        assert not served.asked


# --- what cannot -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (server.error(401, f"Incorrect API key provided: {KEY}."), "401: Incorrect API key provided: ***. Check the key in THE_KEY."),
        (server.error(403, "no"), "403: no. Check the key in THE_KEY."),
        (server.error(404, "no such model"), "404: no such model. Check the address, and whether the server has the model m."),
        (server.error(400, "context too long"), "400: context too long. Nothing was asked again"),
        ((302, b"", {"Location": "http://elsewhere.example/"}), "302: nothing more. It redirects, which is not followed"),
        ((422, b'{"detail": "\\u001b[31mno"}', {}), r"422: \x1b[31mno. Nothing was asked again"),
        ((200, b'data: {"choices": []}\n\ndata: [DONE]\n\n', {}), 'the server streams, which it was not asked for: data: {"choices": []}'),
        (said(message={"content": "A dog runs."}), "the answer has no text where OpenAI's protocol has one: {\"message\""),
        (said(choices=[7]), "the answer has no text where OpenAI's protocol has one"),
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
        asking = client(served, warned=told)
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


@pytest.mark.parametrize(
    "code", ["content_filter", "content_policy_violation", "invalid_prompt", "data_inspection_failed"]
)
def test_a_prompt_that_a_service_refuses_is_an_empty_reply_and_ends_no_evaluation(code):
    with server.serving(faults=[server.error(400, "Invalid prompt: it was flagged", code=code)]) as served:
        found = client(served).ask(CHAT)
    assert (found.text, found.finish, found.requests) == ("", "content_filter", 1)


# --- the key ---------------------------------------------------------------------------------------------------------


def test_a_key_that_a_server_repeats_is_taken_out(monkeypatch):
    for key, reply, answered in (
        (KEY, f"Your key is {KEY}.", "Your key is ***."),
        ("EMPTY", "EMPTY rooms", "EMPTY rooms"),  # a placeholder is no secret, and may be said
        ("sk-no-key-required", "It is required.", "It is required."),  # as llama.cpp has it
    ):
        monkeypatch.setenv("THE_KEY", key)
        with server.serving(reply=lambda body, reply=reply: reply) as served:
            assert client(served, key_env="THE_KEY").ask(CHAT).text == answered
    monkeypatch.setenv("THE_KEY", KEY)
    with server.serving() as served:
        asking = client(served, key_env="THE_KEY")
        for spelled in (KEY, KEY.upper(), quote(KEY, safe="")):
            for before in range(60, 110, 7):  # taken out before a text is cut
                content = json.dumps({"error": "x" * before + f"{spelled}, no", "choices": [7]}).encode()
                for fault in ((200, content, {}), (418, b"y" * 95 + content, {})):
                    served.faults = [fault]
                    with pytest.raises(DataError) as caught:
                        asking.ask(CHAT)
                    assert not any(spelled[i : i + 6] in str(caught.value) for i in range(len(spelled) - 5))


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
