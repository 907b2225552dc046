"""Bad luck and bad input for the methods that learn from scored responses: one clear error, or a run that goes on."""

import copy
import dataclasses
import json
import math
from types import SimpleNamespace

import pytest
import torch
from support import scored, tiny

from grue import files
from grue.algorithms.grpo import GRPOConfig
from grue.data.scored_lines import RewardedLine, ScoredHeader, ScoredResponse, as_records
from grue.errors import ConfigError, DataError, TrainingError
from grue.lm.checkpoint import read_manifest
from grue.rl.gradient import step
from grue.runs.algorithms import find_algorithm
from grue.runs.recipes import make_config


def unmoved(run):
    return torch.equal(tiny.weights(run.trainer.policy), tiny.weights(tiny.model("causal")))


def short(algorithm, folder, **settings):
    settings = {"updates": 2, "validate_every": 2, **scored.SMALL.get(algorithm, {}), **settings}
    return tiny.run("causal", algorithm, folder, **settings)


# --- what teaches nothing --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["alol", "dpo", "pro", "rft", "tpo"])
def test_equal_rewards_make_no_step_and_the_run_goes_on(algorithm, tmp_path):
    run = tiny.train(short(algorithm, tmp_path, reward=scored.flat))
    assert [line["policy/steps"] for line in run.observer.lines] == [0.0, 0.0]
    assert unmoved(run)
    assert all(line["objective/flat_groups"] == 1.0 for line in run.observer.lines)
    assert all(math.isfinite(value) for line in run.observer.lines for value in line.values())


def test_no_rounding_of_the_expected_reward_is_an_advantage(tmp_path):
    for score in (0.1, 1 / 3, -7.77, 1e6):
        run = short("alol", tmp_path, reward=lambda examples, texts, score=score: [score] * len(texts))
        state = find_algorithm("alol").start(run.trainer, run.plan.config)
        figures = find_algorithm("alol").update(run.trainer, state, run.plan.config, 0)
        assert (figures["objective/used"], figures["policy/steps"]) == (0.0, 0.0)


@pytest.mark.parametrize(
    "algorithm", ["reinforce", "reinforce_plus_plus", "rloo", "grpo", "grpo:dr_grpo", "grpo:dapo", "grpo:gspo"]
)
def test_without_an_advantage_or_a_penalty_momentum_moves_nothing(algorithm, tmp_path):
    """The first update fills Adam's moments; in the second all rewards are equal."""

    def rewarded_once(examples, texts, step):
        return scored.fine(examples, texts) if step == 0 else scored.flat(examples, texts)

    name, _, preset = algorithm.partition(":")
    settings = {**find_algorithm(name).presets.get(preset, {}), "weight_decay": 0.1, "kl_coefficient": 0.0}
    run = short(name, tmp_path, reward=rewarded_once, **settings)
    state = find_algorithm(name).start(run.trainer, run.plan.config)
    before = []
    for n in range(2):
        moments = copy.deepcopy(state.optimizer.state_dict())
        before.append((tiny.weights(state.policy), moments))
        figures = find_algorithm(name).update(run.trainer, state, run.plan.config, n)
        assert (figures["policy/steps"] > 0) == (n == 0)
    weights, moments = before[1]
    assert not torch.equal(weights, before[0][0])
    assert torch.equal(tiny.weights(state.policy), weights)
    torch.testing.assert_close(state.optimizer.state_dict(), moments, rtol=0, atol=0)


def test_a_minibatch_without_a_gradient_is_no_step_and_the_others_are(tmp_path):
    """Only one prompt's rewards differ, and each response is a minibatch: as many steps as it has advantages."""
    special, expected = tiny.examples()[0].id, []

    def of_one(examples, texts):
        fine = scored.fine(examples, texts)
        given = [value * (example.id == special) for example, value in zip(examples, fine, strict=True)]
        rows = [given[i : i + 3] for i in range(0, len(given), 3)]
        if len(texts) == 12:  # an update's, and not a validation's
            expected.append(sum(2 * value != sum(row) - value for row in rows for value in row))
        return given

    settings = {"updates": 4, "minibatch_size": 1, "epochs": 1, "kl_coefficient": 0.0}
    run = tiny.train(short("rloo", tmp_path, reward=of_one, **settings))
    steps = [line["policy/steps"] for line in run.observer.lines]
    assert steps == expected
    assert 0 < sum(steps) < 4 * 12
    assert all((line["policy/grad_norm"] > 0) == (line["policy/steps"] > 0) for line in run.observer.lines)


@pytest.mark.parametrize("others", [0.0, 0.5])
def test_processes_step_or_rest_together(others):
    """This process has no gradient of its own; what counts is the sum over all of them."""
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    optimizer = torch.optim.AdamW([weight], lr=0.1, weight_decay=0.1)
    weight.grad = torch.zeros(1)
    world = SimpleNamespace(sum_gradients=lambda parameters: weight.grad.add_(others))
    norm = step(SimpleNamespace(sharded=None, distributed=world), optimizer, GRPOConfig(), "update 0")
    assert (float(norm), weight.item() == 1.0, not optimizer.state) == (others, not others, not others)


def test_equal_rewards_leave_the_others_where_they_are(tmp_path):
    """REINFORCE++ steps along 0, CoPG along rounding: from the start, all log-ratios are equal already."""
    run = tiny.train(short("reinforce_plus_plus", tmp_path / "one", reward=scored.flat, kl_coefficient=0.0))
    assert unmoved(run)
    run = tiny.train(short("copg", tmp_path / "two", reward=scored.flat, adam_epsilon=1e-2))
    assert all(line["objective/flat_groups"] == 1.0 for line in run.observer.lines)
    assert all(line["policy/grad_norm"] < 1e-4 for line in run.observer.lines)
    assert torch.allclose(tiny.weights(run.trainer.policy), tiny.weights(tiny.model("causal")), atol=1e-5)


def test_groups_without_a_pair_make_no_step(tmp_path):
    path = scored.write_file(tmp_path / "alone.jsonl", {"e0": [("a dog", 1.0)], "e1": [("the cat", 0.5)]})
    for algorithm in ("dpo", "copg", "pro", "tpo", "rft"):
        run = tiny.train(short(algorithm, tmp_path / algorithm, data=path))
        assert [line["policy/steps"] for line in run.observer.lines] == [0.0, 0.0]
        assert not any("objective/flat_groups" in line for line in run.observer.lines)  # nothing to compare
        assert unmoved(run)


def test_examples_without_references_leave_triples_their_pair(tmp_path):
    run = short("tpo", tmp_path, reward=scored.fine)
    run.trainer.examples = [type(one)(one.id, one.prompt, ()) for one in tiny.examples()]
    algorithm = find_algorithm("tpo")
    state = algorithm.start(run.trainer, run.plan.config)
    figures = algorithm.update(run.trainer, state, run.plan.config, 0)
    assert figures["policy/supervised_loss"] == 0.0 and figures["policy/pair_loss"] > 0.0


@pytest.mark.parametrize("algorithm", scored.NEW)
def test_a_reward_that_applies_to_nothing_is_an_error(algorithm, tmp_path):
    run = short(algorithm, tmp_path, reward=lambda examples, texts: [None] * len(texts))
    state = find_algorithm(algorithm).start(run.trainer, run.plan.config)
    with pytest.raises(TrainingError, match=r"update 0: the reward applies to none of 12 responses \(None for all"):
        find_algorithm(algorithm).update(run.trainer, state, run.plan.config, 0)


def test_references_to_learn_beside_must_be_there(tmp_path):
    run = short("dpo", tmp_path, reward=scored.fine, supervised_coefficient=0.1)
    run.trainer.examples = [type(one)(one.id, one.prompt, ()) for one in tiny.examples()]
    state = find_algorithm("dpo").start(run.trainer, run.plan.config)
    with pytest.raises(TrainingError, match="tests/tiny: no training example has a reference to learn from"):
        find_algorithm("dpo").update(run.trainer, state, run.plan.config, 0)


def test_weights_must_not_be_negative(tmp_path):
    run = short("alol", tmp_path, reward=lambda examples, texts: [-0.5] * len(texts), variant="r_lol")
    with pytest.raises(TrainingError, match="update 0: r_lol weighs responses by their reward, and one is negative"):
        tiny.train(run)


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [{"chosen": "a dog", "rejected": "the dog"}, {"ranking": ["a dog", "the dog", "red"]}])
def test_an_order_is_no_reward(line, tmp_path):
    path = tmp_path / "order.jsonl"
    path.write_text(json.dumps({"id": "e1", **line}) + "\n")
    for algorithm in ("copg", "alol", "pro"):
        with pytest.raises(DataError, match="order.jsonl: states which response is better, and no rewards"):
            tiny.train(short(algorithm, tmp_path / algorithm, data=str(path)))
    for algorithm in ("dpo", "pro", "tpo", "rft"):
        ranked = {"temperature": "constant"} if algorithm == "pro" else {}  # by rewards, it needs some
        run = tiny.train(short(algorithm, tmp_path / algorithm, data=str(path), **ranked))
        assert run.observer.lines[0]["policy/steps"] > 0 and not unmoved(run)


@pytest.mark.parametrize(
    "changed", [lambda path: path.write_text("edited\n"), lambda path: path.unlink(missing_ok=True)]
)
def test_a_run_keeps_its_identity_while_its_file_changes(changed, tmp_path):
    path = tmp_path / "data.jsonl"
    scored.write_file(path)
    run = short("dpo", tmp_path / "run", data=str(path), stop=lambda: changed(path) is False)
    before = files.sha256_json(run.plan.record())
    tiny.train(run)
    for kept in ("checkpoint", "final"):
        assert read_manifest(tmp_path / "run" / kept).config_sha256 == before


def test_files_that_cannot_be_are_refused_before_the_first_update(tmp_path):
    foreign = tmp_path / "foreign.jsonl"
    foreign.write_text(json.dumps({"id": "x7", "chosen": "a dog", "rejected": "the dog"}) + "\n")
    task, other = tiny.task("causal"), tmp_path / "other.jsonl"
    made = ScoredHeader(
        grue="scored responses", schema=1, suite="mini", task="imdb", task_hash=task.hash, split="train", reward="rouge1",
        checkpoint="sha", system="ppo", seed=1, samples=2, generation=task.rollout, prompts=1, responses=2,
        generated_tokens=9, reward_calls=2, seconds=1.5,
    )  # fmt: skip
    line = RewardedLine((ScoredResponse("a dog", 1.0), ScoredResponse("red", 0.0)), id="e1")
    other.write_text("".join(json.dumps(record) + "\n" for record in as_records(made, [line])))
    for path, message in (
        (tmp_path / "missing.jsonl", "missing.jsonl: no such file"),
        (other, "line 1: responses to mini/imdb, not to tests/tiny"),
        (foreign, "line 1: the id 'x7' is of no training example of tests/tiny"),
    ):
        for algorithm in scored.SCORED:
            run = short(algorithm, tmp_path / "run", data=str(path))
            with pytest.raises(DataError, match=message):
                find_algorithm(algorithm).start(run.trainer, run.plan.config)


def test_longer_responses_are_cut_where_the_task_ends_them(tmp_path):
    text = " ".join(["the dog"] * 9)
    path = scored.write_file(tmp_path / "long.jsonl", {"e0": [(text, 1.0), ("a dog", 0.0)]})
    run = short("dpo", tmp_path, data=path, rollouts=3, minibatch_size=3)
    groups = find_algorithm("dpo").start(run.trainer, run.plan.config).fixed.groups
    assert groups.responses.lists() == [[3, 5] * 4, [4, 5, 1]], "no end token where there is no room"
    assert groups.reference.shape == (1, 2, 8)


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "settings", "message"),
    [
        *((name, {"samples_per_prompt": 1}, "samples_per_prompt must be at least 2") for name in scored.SCORED[1:]),
        ("alol", {"samples_per_prompt": 0}, "samples_per_prompt must be above 0, found 0"),
        ("rft", {"train_from": "start", "lora_rank": 2}, 'train_from = "start" needs a whole copy'),
        ("grpo", {"kl_estimator": "k1"}, 'kl_estimator = "k1" has no gradient on average'),
        ("grpo", {"mass_coefficient": 0.1}, "mass_coefficient is about the mask, and there is none"),
        ("grpo", {"calibration_samples": 4, "normalize_terms": True}, "calibration_samples does not go with"),
        ("grpo", {"ratio_of": "responses", "loss_over": "tokens"}, 'set loss_over = "responses"'),
        ("grpo", {"ratio_of": "responses", "loss_over": "constant"}, 'set loss_over = "responses"'),
        ("ppo", {"redraws": 2}, "redraws is about groups whose rewards are all equal"),
        ("alol", {"reward_scale": "running"}, "change what V_0 predicts from update to update"),
        ("dpo", {"beta": 0.0}, "beta must be above 0"),
        ("copg", {"beta": 0.0}, "beta must be above 0"),
        ("mdpo", {"step_size": 0.0}, "step_size must be above 0"),
        ("dpo", {"rollouts": 12, "samples_per_prompt": 8, "minibatch_size": 4}, "rollouts 12 is no multiple"),
        ("reinforce_plus_plus", {"whiten_advantages": True}, "whiten_advantages"),
    ],
)
def test_settings_that_cannot_be_are_refused(algorithm, settings, message):
    with pytest.raises(ConfigError, match=message):
        make_config(tiny.task("causal"), algorithm, settings)


UNREAD = {
    "reward_scale": "running", "reward_clip": 1.0, "calibration_samples": 4, "calibration_tilt": 1.0, "redraws": 3,
    "missing_eos_penalty": 1.0, "overlong_buffer": 5, "overlong_penalty": 2.0, "mask": "learned_top_p",
    "rollout_temperature": 0.3, "rollout_top_k": 5, "sample_from": "start", "normalize_terms": True,
}  # fmt: skip
OF_V_0 = {"rollout_temperature", "rollout_top_k", "calibration_samples", "calibration_tilt", "missing_eos_penalty"}
OF_V_0 |= {"overlong_buffer", "overlong_penalty", "reward_clip"}


@pytest.mark.parametrize("name", UNREAD)
def test_what_a_file_leaves_unread_is_refused(name):
    given = {name: UNREAD[name], "data": "data.jsonl"}
    for algorithm in ("copg", "dpo", "pro", "rft", "tpo"):
        with pytest.raises(ConfigError, match=f"{name} is about samples that are drawn, and data has its own"):
            make_config(tiny.task("causal"), algorithm, given)
    if name in OF_V_0:  # which is fitted to samples
        switch = {"overlong_penalty": {"overlong_buffer": 5}, "calibration_tilt": {"calibration_samples": 4}}.get(
            name, {}
        )
        assert getattr(make_config(tiny.task("causal"), "alol", given | switch), name) == UNREAD[name]
    given |= {"variant": "r_lol", **({"sample_from": "policy"} if name == "sample_from" else {})}
    with pytest.raises(ConfigError, match=name):
        make_config(tiny.task("causal"), "alol", given)


def test_a_recipe_of_samples_does_not_refuse_a_file():
    recipes = {"rl": {"rollout_temperature": 1.0, "learning_rate": 1e-4}, "dpo": {"redraws": 2}}
    task = dataclasses.replace(tiny.task("causal"), recipes=recipes)
    made = make_config(task, "dpo", {"data": "data.jsonl"})
    assert (made.rollout_temperature, made.redraws, made.learning_rate) == (None, 0, 1e-4)
    assert make_config(task, "alol", {"data": "data.jsonl"}).rollout_temperature == 1.0
    with pytest.raises(ConfigError, match="rollout_temperature is about samples"):
        make_config(task, "dpo", {"data": "data.jsonl", "rollout_temperature": 1.0})


def test_what_is_refused_alone_goes_with_its_cure():
    for algorithm, settings in (
        ("grpo", {"kl_estimator": "k1", "kl_corrected": True}),
        ("grpo", {"kl_estimator": "k1", "kl_coefficient": 0.0}),
        ("grpo", {"mass_coefficient": 0.1, "mask": "learned_top_p"}),
        ("alol", {"samples_per_prompt": 1}),
    ):
        made = make_config(tiny.task("causal"), algorithm, settings)
        assert {key: getattr(made, key) for key in settings} == settings
