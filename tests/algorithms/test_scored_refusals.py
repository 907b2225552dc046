"""Bad luck and bad input for the methods that learn from scored responses: one clear error, or a run that goes on."""

import copy
import dataclasses
import json
import math
from types import SimpleNamespace

import pytest
from support.late import lates

from grue import files
from grue.algorithms.cards.grpo import GRPOConfig
from grue.data.scored_lines import RewardedLine, ScoredResponse, as_records
from grue.errors import ConfigError, DataError, TrainingError
from grue.runs.algorithms import find_card
from grue.runs.recipes import make_config

torch, tiny, scored, gradient, algorithms, checkpoint = lates(
    "torch support.tiny support.scored grue.rl.optimize grue.runs.algorithms grue.lm.checkpoint"
)


def unmoved(run):
    return torch.equal(tiny.weights(run.trainer.policy), tiny.weights(tiny.model("causal")))


def short(algorithm, folder, **settings):
    return tiny.run("causal", algorithm, folder, **{"epochs": 1, **tiny.SMALL.get(algorithm, {}), **settings})


def constant(score):
    return lambda examples, texts: [score] * len(texts)


def without_references(run):
    run.trainer.examples = [type(one)(one.id, one.prompt, ()) for one in tiny.examples()]
    return run


@pytest.mark.parametrize("algorithm", ["alol", "dpo", "pro", "rft", "tpo"])
def test_equal_rewards_make_no_step_and_the_run_goes_on(algorithm, tmp_path):
    run = short(algorithm, tmp_path, reward=scored.flat)
    (line,) = tiny.updated(run)
    assert (line["policy/steps"], line["objective/flat_groups"]) == (0.0, 1.0)
    assert all(math.isfinite(value) for value in line.values()) and unmoved(run)


def test_no_rounding_of_the_expected_reward_is_an_advantage(tmp_path):
    for score in (0.1, 1 / 3, -7.77, 1e6):
        (line,) = tiny.updated(short("alol", tmp_path, reward=constant(score)))
        assert (line["objective/used"], line["policy/steps"]) == (0.0, 0.0)


@pytest.mark.parametrize("algorithm", ["reinforce", "reinforce_plus_plus", "rloo", "grpo:dapo"])
def test_without_an_advantage_or_a_penalty_momentum_moves_nothing(algorithm, tmp_path):
    """The first update fills Adam's moments; in the second all rewards are equal."""

    def rewarded_once(examples, texts, step):
        return scored.fine(examples, texts) if step == 0 else scored.flat(examples, texts)

    name, _, preset = algorithm.partition(":")
    settings = {**find_card(name).presets.get(preset, {}), "weight_decay": 0.1, "kl_coefficient": 0.0}
    run, learner = short(name, tmp_path, reward=rewarded_once, **settings), algorithms.find_algorithm(name)
    state = learner.start(run.trainer, run.plan.config)
    assert learner.update(run.trainer, state, run.plan.config, 0)["policy/steps"] > 0
    weights, moments = tiny.weights(state.policy), copy.deepcopy(state.optimizer.state_dict())
    assert learner.update(run.trainer, state, run.plan.config, 1)["policy/steps"] == 0
    assert not unmoved(run) and torch.equal(tiny.weights(state.policy), weights)
    torch.testing.assert_close(state.optimizer.state_dict(), moments, rtol=0, atol=0)


def test_a_minibatch_without_a_gradient_is_no_step_and_the_others_are(tmp_path):
    """Only one prompt's rewards differ, and each response is a minibatch: as many steps as it has advantages."""
    special, expected = tiny.examples()[0].id, []

    def of_one(examples, texts):
        fine = scored.fine(examples, texts)
        given = [value * (example.id == special) for example, value in zip(examples, fine, strict=True)]
        rows = [given[i : i + 3] for i in range(0, len(given), 3)]
        expected.append(sum(2 * value != sum(row) - value for row in rows for value in row))
        return given

    lines = tiny.updated(short("rloo", tmp_path, reward=of_one, minibatch_size=1, kl_coefficient=0.0), 3)
    steps = [line["policy/steps"] for line in lines]
    assert steps == expected and 0 < sum(steps) < 3 * 12
    assert all((line["policy/grad_norm"] > 0) == (line["policy/steps"] > 0) for line in lines)


@pytest.mark.parametrize("others", [0.0, 0.5])
def test_processes_step_or_rest_together(others):
    """This process has no gradient of its own; what counts is the sum over all of them."""
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    optimizer = torch.optim.AdamW([weight], lr=0.1, weight_decay=0.1)
    weight.grad = torch.zeros(1)
    world = SimpleNamespace(sum_gradients=lambda parameters: weight.grad.add_(others))
    norm = gradient.step(SimpleNamespace(sharded=None, distributed=world), optimizer, GRPOConfig(), "update 0")
    assert (float(norm), weight.item() == 1.0, not optimizer.state) == (others, not others, not others)


def test_equal_rewards_leave_the_others_where_they_are(tmp_path):
    """REINFORCE++ steps along 0, CoPG along rounding: from the start, all log-ratios are equal already."""
    run = short("reinforce_plus_plus", tmp_path, reward=scored.flat, kl_coefficient=0.0)
    tiny.updated(run)
    assert unmoved(run)
    run = short("copg", tmp_path, reward=scored.flat, adam_epsilon=1e-2)
    (line,) = tiny.updated(run)
    assert line["objective/flat_groups"] == 1.0 and line["policy/grad_norm"] < 1e-4
    assert torch.allclose(tiny.weights(run.trainer.policy), tiny.weights(tiny.model("causal")), atol=1e-5)


def test_groups_without_a_pair_make_no_step(tmp_path):
    path = scored.write_file(tmp_path / "alone.jsonl", {"e0": [("a dog", 1.0)], "e1": [("the cat", 0.5)]})
    for algorithm in ("dpo", "copg", "pro", "tpo", "rft"):
        run = short(algorithm, tmp_path, data=path)
        (line,) = tiny.updated(run)
        assert line["policy/steps"] == 0.0 and unmoved(run)
        assert "objective/flat_groups" not in line  # nothing to compare


def test_examples_without_references_leave_triples_their_pair(tmp_path):
    (line,) = tiny.updated(without_references(short("tpo", tmp_path, reward=scored.fine)))
    assert line["policy/supervised_loss"] == 0.0 and line["policy/pair_loss"] > 0.0


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("dpo", {"reward": constant(None)}),
        ("mdpo", {"reward": constant(None)}),
        ("dpo", {"supervised_coefficient": 0.1}),
        ("alol", {"reward": constant(-0.5), "variant": "r_lol"}),
    ],
    ids=["no score at all", "no score for an actor", "no reference", "negative weights"],
)
def test_an_update_with_nothing_to_learn_from_is_an_error(algorithm, settings, tmp_path, refused):
    with refused(TrainingError):
        tiny.updated(without_references(short(algorithm, tmp_path, **settings)))


@pytest.mark.parametrize("line", [{"chosen": "a dog", "rejected": "the dog"}, {"ranking": ["a dog", "the dog", "red"]}])
def test_an_order_is_no_reward(line, tmp_path, refused):
    path = tmp_path / "order.jsonl"
    path.write_text(json.dumps({"id": "e1", **line}) + "\n")
    for algorithm in ("copg", "alol", "pro"):
        with refused(DataError):
            tiny.updated(short(algorithm, tmp_path, data=str(path)))
    for algorithm in ("dpo", "pro", "tpo", "rft"):
        ranked = {"temperature": "constant"} if algorithm == "pro" else {}  # by rewards, it needs some
        run = short(algorithm, tmp_path, data=str(path), **ranked)
        assert tiny.updated(run)[0]["policy/steps"] > 0 and not unmoved(run)


def test_a_run_keeps_its_identity_while_its_file_changes(tmp_path):
    path = tmp_path / "data.jsonl"
    for changed in (lambda: path.write_text("edited\n"), lambda: path.unlink(missing_ok=True)):
        scored.write_file(path)
        run = short("dpo", tmp_path / "run", data=str(path), updates=1, stop=lambda done=changed: done() is False)
        before = files.sha256_json(run.plan.record())
        tiny.train(run)
        for kept in ("checkpoint", "final"):
            assert checkpoint.read_manifest(tmp_path / "run" / kept).config_sha256 == before


def test_files_that_cannot_be_are_refused_before_the_first_update(tmp_path, refused):
    foreign, other, task = tmp_path / "foreign.jsonl", tmp_path / "other.jsonl", tiny.task("causal")
    foreign.write_text(json.dumps({"id": "x7", "chosen": "a dog", "rejected": "the dog"}) + "\n")
    sizes = {"samples": 2, "prompts": 1, "responses": 2, "generated_tokens": 9, "reward_calls": 2}
    made = scored.header(dataclasses.replace(task, suite="mini", name="imdb"), **sizes)
    line = RewardedLine((ScoredResponse("a dog", 1.0), ScoredResponse("red", 0.0)), id="e1")
    files.write_jsonl(other, as_records(made, [line]))
    for path in (tmp_path / "missing.jsonl", other, foreign):
        run = short("tpo", tmp_path / "run", data=str(path))
        with refused(DataError):
            algorithms.find_algorithm("tpo").start(run.trainer, run.plan.config)


def test_longer_responses_are_cut_where_the_task_ends_them(tmp_path):
    text = " ".join(["the dog"] * 9)
    path = scored.write_file(tmp_path / "long.jsonl", {"e0": [(text, 1.0), ("a dog", 0.0)]})
    run = short("dpo", tmp_path, data=path, rollouts=3, minibatch_size=3)
    groups = algorithms.find_algorithm("dpo").start(run.trainer, run.plan.config).fixed.groups
    assert groups.responses.lists() == [[3, 5] * 4, [4, 5, 1]], "no end token where there is no room"
    assert groups.reference.shape == (1, 2, 8)


FEW, LONE = {"rollouts": 1, "minibatch_size": 1}, {"samples_per_prompt": 1}
REFUSED = {
    "a2c": [{"dropout": 1.0}],
    "alol": [{"samples_per_prompt": 0}, {"reward_scale": "running"}],
    "copg": [LONE, {"beta": 0.0}],
    "dapo_advantage": [{"beta": 0.0}, {"value_prompts": 0}, {"reward_scale": "running"}],
    "dpo": [LONE, {"beta": 0.0}, {"rollouts": 12, "samples_per_prompt": 8, "minibatch_size": 4}],
    "es": [
        *({"rollouts": 24}, {"perturbations": 5}, {"perturbations": 0}, {"noise": 0.0}, {"sharded": True}),
        *({"samples_per_prompt": 4}, {"rollout_top_k": 4}, {"mask": "top_k"}, {"supervised_coefficient": 0.1}),
    ],
    "grpo": [
        *({"kl_estimator": "k1"}, {"mass_coefficient": 0.1}, {"calibration_samples": 4, "normalize_terms": True}),
        *({"ratio_of": "responses", "loss_over": over} for over in ("tokens", "constant")),
        *({"rollouts": 60, "minibatch_size": 10}, {"samples_per_prompt": 0}),
        {"scale_by": "nothing", "normalize_terms": True},
    ],
    "mdpo": [{"step_size": 0.0}],
    "ppo": [
        *({"redraws": 2}, {**FEW, "normalize_terms": True}, {"dropout": -0.1}),
        *({"rollout_temperature": 0.0}, {"rollout_top_k": -1}),
    ],
    "pro": [LONE],
    "props": [{"rounds": 1}, {"rounds": 65}, {"sharded": True}, {"redraws": 1, "samples_per_prompt": 2}],
    "reinforce_plus_plus": [{"whiten_advantages": True}],
    "rft": [LONE, {"train_from": "start", "lora_rank": 2}],
    "rloo": [LONE, {"rollouts": 30, "minibatch_size": 10}],
    "supervised": [{"train_share": 0.0}, {"train_share": 1.5}, {"dropout": 0.1}],
    "tpo": [LONE],
    "trpo": [{"dropout": 0.1}],
}


@pytest.mark.parametrize(
    ("algorithm", "settings"), [(name, one) for name, settings in REFUSED.items() for one in settings], ids=str
)
def test_settings_that_cannot_be_are_refused(algorithm, settings, refused):
    with refused(ConfigError):
        make_config(tiny.task("causal"), algorithm, settings)


UNREAD = {
    "reward_scale": "running", "reward_clip": 1.0, "calibration_samples": 4, "calibration_tilt": 1.0, "redraws": 3,
    "missing_eos_penalty": 1.0, "overlong_buffer": 5, "overlong_penalty": 2.0, "mask": "learned_top_p",
    "rollout_temperature": 0.3, "rollout_top_k": 5, "sample_from": "start", "normalize_terms": True,
}  # fmt: skip
OF_V_0 = {"rollout_temperature", "rollout_top_k", "calibration_samples", "calibration_tilt", "missing_eos_penalty"}
OF_V_0 |= {"overlong_buffer", "overlong_penalty", "reward_clip"}


@pytest.mark.parametrize("name", UNREAD)
def test_what_a_file_leaves_unread_is_refused(name, refused):
    task, given = tiny.task("causal"), {name: UNREAD[name], "data": "data.jsonl"}
    for algorithm in ("copg", "dpo", "pro", "rft", "tpo"):
        with pytest.raises(ConfigError) as caught:
            make_config(task, algorithm, given)
        assert f"{name} applies to drawn samples, and the responses come from data" in str(caught.value)
    if name in OF_V_0:  # which is fitted to samples
        switches = {"overlong_penalty": {"overlong_buffer": 5}, "calibration_tilt": {"calibration_samples": 4}}
        assert getattr(make_config(task, "alol", given | switches.get(name, {})), name) == UNREAD[name]
    given |= {"variant": "r_lol", **({"sample_from": "policy"} if name == "sample_from" else {})}
    with refused(ConfigError):
        make_config(task, "alol", given)


def test_a_recipe_of_samples_does_not_refuse_a_file(refused):
    recipes = {"rl": {"rollout_temperature": 1.0, "learning_rate": 1e-4}, "dpo": {"redraws": 2}}
    task = dataclasses.replace(tiny.task("causal"), recipes=recipes)
    made = make_config(task, "dpo", {"data": "data.jsonl"})
    assert (made.rollout_temperature, made.redraws, made.learning_rate) == (None, 0, 1e-4)
    assert make_config(task, "alol", {"data": "data.jsonl"}).rollout_temperature == 1.0
    with refused(ConfigError):
        make_config(task, "dpo", {"data": "data.jsonl", "rollout_temperature": 1.0})
