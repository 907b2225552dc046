"""A real server: `transformers serve` with a small model, asked by `grue evaluate --endpoint` and answered as `--chat` is."""

import pytest
from support.commands import printed_json
from support.late import late

from grue import files

chat_models, served = late("support.chat_models"), late("support.served")


def evaluated(runs, *options):
    (result,) = printed_json("evaluate", *options, "--limit", 3, "--runs", runs)
    (predictions,) = runs.rglob("predictions.jsonl")
    return result, [line for _, line in files.read_jsonl(predictions)]


@pytest.mark.slow
def test_a_served_model_answers_as_it_does_here(tmp_path):
    model = chat_models.chat_model(tmp_path / "tiny")
    options = ("--task", chat_models.greedy_task(tmp_path / "greedy.toml"), "--model", model)
    here, local = evaluated(tmp_path / "local", *options, "--chat")
    with served.served(model, tmp_path / "server") as address:
        there, answers = evaluated(tmp_path / "served", *options, "--endpoint", address, "--concurrency", 2)
        completed, texts = evaluated(tmp_path / "plain", *options, "--endpoint", address, "--completions")
    assert answers == local
    said, counted = there["system"]["endpoint"], here["generation"]["prompting"].pop("prompt_tokens")
    assert here["generation"]["prompting"] == there["generation"]["prompting"]
    assert said["tokens"]["prompt"] == counted and len({one["text"] for one in answers}) == 3
    assert (said["requests"], said["retries"], said["answers_without_usage"]) == (3, 0, 0)
    assert said["tokens"]["prompt"] > 3 * 40 and 0 < said["tokens"]["completion"] <= 3 * 24
    assert there["counts"]["truncated"] == said["finish_reasons"].get("length", 0)
    assert completed["system"]["name"] == "tiny+completions" and "prompting" not in completed["generation"]
    assert len(texts) == 3
