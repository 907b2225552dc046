"""A real server: `transformers serve` with a small model, asked by `grue evaluate --endpoint` and answered as `--chat` is."""

import json

import pytest
from click.testing import CliRunner
from support.chat_models import chat_model, greedy_task
from support.served import served

from grue.cli.main import main

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return chat_model(tmp_path_factory.mktemp("served") / "tiny")


@pytest.fixture(scope="module")
def server(model, tmp_path_factory):
    with served(model, tmp_path_factory.mktemp("log") / "server") as address:
        yield address


def evaluated(runs, *options):
    result = CliRunner().invoke(main, ["evaluate", *map(str, options), "--limit", "3", "--runs", str(runs), "--json"])
    assert result.exit_code == 0, result.output
    folder = next(path.parent for path in runs.rglob("result.json"))
    lines = (folder / "predictions.jsonl").read_text().splitlines()
    return json.loads(result.stdout)[0], [json.loads(line) for line in lines]


def test_a_served_model_answers_as_it_does_here(server, model, tmp_path):
    options = ("--task", greedy_task(tmp_path / "greedy.toml"), "--model", model)
    here, local = evaluated(tmp_path / "local", *options, "--chat")
    there, served = evaluated(tmp_path / "served", *options, "--endpoint", server, "--concurrency", 2)
    assert served == local
    said, counted = there["system"]["endpoint"], here["generation"]["prompting"].pop("prompt_tokens")
    assert here["generation"]["prompting"] == there["generation"]["prompting"]
    assert said["tokens"]["prompt"] == counted and len({one["text"] for one in served}) == 3
    assert (said["requests"], said["retries"], said["answers_without_usage"]) == (3, 0, 0)
    assert said["tokens"]["prompt"] > 3 * 40 and 0 < said["tokens"]["completion"] <= 3 * 24
    assert there["counts"]["truncated"] == said["finish_reasons"].get("length", 0)


def test_plain_prompts_are_completed(server, model, tmp_path):
    found, texts = evaluated(tmp_path, "--task", "commongen", "--model", model, "--endpoint", server, "--completions")
    assert found["system"]["name"] == "tiny+completions" and "prompting" not in found["generation"]
    assert len(texts) == 3
