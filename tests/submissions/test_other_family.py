"""A decoder-only model on a task whose backbone is an encoder-decoder, and the other way round: trained, evaluated, packed,
reproduced and trained again as the task's own."""

import re
from dataclasses import replace

import pytest
from support import commands
from support.late import late

import grue
from grue import files
from grue.errors import ConfigError
from grue.submissions.checks.check import check

tiny_row, collect, packing = (
    late("support.tiny_row"),
    late("grue.submissions.packing.collect"),
    late("grue.submissions.packing.pack"),
)
plan, checkpoint, load = late("grue.runs.plan"), late("grue.lm.checkpoint"), late("grue.lm.load")
TASK, OTHER = "narrativeqa", "mini:causal"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a run of PPO and its packed row."""
    home = tmp_path_factory.mktemp("other")
    with tiny_row.few_examples():
        more = {"backbone": OTHER, "runs": home / "runs", "system": "ours"}
        grue.evaluate(grue.train(TASK, "supervised+ppo", **more, **tiny_row.SETTINGS))
        runs = [collect.read_run(folder) for folder in collect.find_runs([home / f"runs/mini/{TASK}/ours"])]
        packing.pack(runs, replace(tiny_row.SAID, seeds=(1,)), home / "submissions")
        yield home


def test_the_result_and_the_card_say_which_family_it_is_and_the_checkpoint_has_it(made):
    folder = made / f"runs/mini/{TASK}/ours/seed-1"
    result = files.read_json(folder / "result.json")
    assert (result["system"]["family"], result["system"]["backbone"]) == ("causal", OTHER)
    assert load.family_of(str(folder / "checkpoint")) == "causal"
    assert "AutoModelForCausalLM" in (folder / "checkpoint/README.md").read_text()
    config = files.read_json(made / f"submissions/mini/ours/{TASK}/config.json")["stages"][-1]
    assert config["config"]["freeze_encoder"] is False and config["config"]["value_model"] == "shared"


def test_its_row_passes_the_checks_and_is_made_again(made, tmp_path):
    row = made / "submissions/mini/ours"
    assert [one for one in check(row) if one.severity == "error" and "narrativeqa" in str(one.path)] == []
    for command in (
        ["verify", row, "--seed", 1, "--checkpoint", made / "runs"],
        ["retrain", row, "--seed", 1, "--runs", tmp_path],
    ):
        done = commands.grue("submit", *command)
        assert re.match("narrativeqa seed 1: (100.0% equal texts\n|equal texts \\(equal weights)", done.stdout)


def test_the_other_way_round_a_model_made_elsewhere_answers_and_is_trained(tmp_path):
    few = {key: tiny_row.SETTINGS[key] for key in ("learning_rate", "updates", "rollouts", "validation_examples")}
    few |= {"minibatch_size": 8, "samples_per_prompt": 4, "freeze_encoder": True}
    with tiny_row.few_examples():
        assert grue.evaluate("mini:seq2seq", "imdb", runs=tmp_path).system["family"] == "seq2seq"
        assert "family" not in grue.evaluate("null", "imdb", runs=tmp_path).system
        made = grue.train("imdb", "grpo", backbone="mini:seq2seq", runs=tmp_path, system="ours", **few)
        assert grue.evaluate(made).counts["scored"] == tiny_row.FEW
        said = replace(tiny_row.SAID, algorithm="grpo", backbone="mini:seq2seq", seeds=(1,))
        packing.pack([collect.read_run(made.folder)], said, tmp_path / "rows")
        row = tmp_path / "rows/mini/ours"
        done = commands.grue("submit", "retrain", row, "--seed", 1, "--runs", tmp_path / "again")
    assert re.match("imdb seed 1: (100.0% equal texts\n|equal texts \\(equal weights)", done.stdout)


def test_a_fixed_encoder_cannot_be_asked_of_a_model_without_one(refused):
    from grue.runs.request import RunRequest
    from grue.task_files import load_task

    task = load_task(TASK)
    fixed = replace(task, recipes={**task.recipes, "rl": {**task.recipes["rl"], "freeze_encoder": True}})
    request = RunRequest(task=fixed, algorithm="ppo", backbone=OTHER)
    (usual,) = plan.stages_of(request)
    assert usual.config.freeze_encoder is False and usual.start.family == "causal"
    (own,) = plan.stages_of(replace(request, backbone=None))
    assert own.config.freeze_encoder is True and own.start.family == "seq2seq"
    with refused(ConfigError):
        plan.stages_of(replace(request, settings={"freeze_encoder": True}))
