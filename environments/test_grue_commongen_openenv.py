"""The package grue-commongen-openenv, without doubles: a server process, and OpenEnv's client on localhost."""

import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from openenv.core.generic_client import GenericEnvClient

import grue

FOLDER = Path(__file__).parent / "grue_commongen_openenv"


@pytest.fixture(scope="module")
def address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = "grue_commongen_openenv.server.app:app"
    server = subprocess.Popen([sys.executable, "-m", "uvicorn", app, "--port", str(port), "--log-level", "warning"])
    try:
        for _ in range(120):
            assert server.poll() is None, "the server has ended"
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health").read()
                break
            except OSError:
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def client(address):
    with GenericEnvClient(base_url=address).sync() as client:
        yield client


def test_an_episode(client):
    """Known answers: a reference is worth almost 1, nothing of it 0."""
    example = grue.examples("commongen", "validation")[7]
    for reply, worth in ((example.references[0], pytest.approx(1, abs=0.01)), ("?", 0)):
        asked = client.reset(split="validation", index=7)
        assert asked.observation["prompt"] == example.prompt and asked.observation["id"] == example.id
        assert not asked.done and asked.reward is None
        done = client.step({"text": reply})
        assert done.done and done.reward == worth and done.observation["terms"]["reward/coverage"] == round(done.reward)
        assert done.reward == pytest.approx(sum(done.observation["terms"].values()) / 2)


def test_a_seed_draws_a_prompt_to_learn_from(client):
    prompts = {example.prompt for example in grue.examples("commongen", "rl")}
    drawn = [client.reset(seed=seed).observation["prompt"] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2] and {*drawn} <= prompts


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"split": "test"}, "The split 'test' is not one of rl and validation"),
        ({"split": "validation", "index": 500}, "index is 500, but validation has the prompts 0 to 499."),
    ],
)
def test_prompts_that_there_are_not(client, asked, said):
    with pytest.raises(RuntimeError, match=said):
        client.reset(**asked)


def test_a_step_needs_a_prompt_that_has_no_response(client):
    with pytest.raises(RuntimeError, match=r"call reset\(\) for the next prompt"):
        client.step({"text": "too early"})
    client.reset(seed=1)
    client.step({"text": "a dog"})
    with pytest.raises(RuntimeError, match=r"call reset\(\) for the next prompt"):
        client.step({"text": "once more"})


def test_sessions_do_not_share_a_prompt(client, address):
    other = GenericEnvClient(base_url=address).sync()
    with other:
        client.reset(split="validation", index=0)
        other.reset(split="validation", index=1)
        first, second = (grue.examples("commongen", "validation")[row].references[0] for row in (0, 1))
        assert client.step({"text": first}).reward == pytest.approx(1, abs=0.01)
        assert other.step({"text": second}).reward == pytest.approx(1, abs=0.01)


def test_the_task_api(address):
    def call(method, **arguments):
        request = urllib.request.Request(
            f"{address}/mini_commongen/{method}",
            data=json.dumps(arguments).encode() if arguments else None,
            headers={"Content-Type": "application/json"},
        )
        return json.loads(urllib.request.urlopen(request).read())

    assert [split["name"] for split in call("splits")] == ["rl", "validation"]
    assert call("num_tasks", split="validation") == {"num_tasks": 500}
    assert grue.examples("commongen", "validation")[3].prompt in json.dumps(call("task", split="validation", index=3))


def test_openenv_finds_nothing_wrong():
    said = subprocess.run(
        [Path(sys.executable).with_name("openenv"), "validate", FOLDER, "--level", "static", "--skip-build"],
        capture_output=True,
        text=True,
    )
    assert said.returncode == 0 and "Verdict: PASS" in said.stdout, said.stdout + said.stderr
