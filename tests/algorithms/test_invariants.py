"""What every algorithm owes: a tiny run of each is trained once, and asked what must not change it."""

import math
from types import SimpleNamespace

import pytest
from support.late import late, lates

from grue.algorithms import BUILT_IN
from grue.algorithms.cards.nlpo import NLPOConfig
from grue.errors import TrainingError
from grue.files import read_json
from grue.rl.settings import RolloutConfig
from grue.runs.algorithms import find_card

torch, tiny, golden, oracles, scored = lates("torch support.tiny support.golden support.oracles support.scored")
learning, experience, responses = lates("grue.runs.train grue.rl.experience grue.rl.responses")
adapters, lm, sampling, forward = lates("adapters model sampling forward", "grue.lm.")
algorithms = late("grue.runs.algorithms")

ROLLOUT = {"temperature": 1.3, "top_k": 9, "min_new_tokens": 2}
# What of each algorithm has a state or chance of its own; after its first update a mask of two is one old.
RUNS = {
    "supervised": ("causal", {"epochs": 2, "batch_size": 24}),
    "a2c": ("seq2seq", {"reward_scale": "running", "ratio_over": "vocabulary", "kl_over": "vocabulary"}),
    "alol": ("causal", {}),
    "copg": ("causal", {"file": True, "supervised_coefficient": 0.1}),
    "dapo_advantage": ("causal", {}),
    "dpo": ("seq2seq", {"mask": "learned_top_p", "mask_updates": 2, "updates": 3, "reward_scale": "running"}),
    "es": ("seq2seq", {"perturbations": 3, "weight_decay": 0.01, "reward_scale": "running"}),
    "grpo": ("causal", {"redraws": 2, "calibration_samples": 4}),
    "mdpo": ("causal", {}),
    "nlpo": ("causal", {"mask_updates": 2, "mass_coefficient": 0.1, "updates": 3}),
    "ppo": ("seq2seq", {"ratio_over": "vocabulary", "kl_over": "vocabulary"}),
    "pro": ("seq2seq", {}),
    "props": ("causal", {"mask": "learned_top_p", "mask_updates": 2, "updates": 3, "calibration_samples": 2}),
    "reinforce": ("causal", {"reward_scale": "running"}),
    "reinforce_plus_plus": ("causal", {}),
    "rft": ("causal", {"train_from": "start", "sample_from": "start", "dropout": 0.2, "micro_batch_size": 4}),
    "rloo": ("seq2seq", {"reward_scale": "running"}),
    "tpo": ("seq2seq", {"file": True}),
    "trpo": ("causal", {"fisher_share": 0.5, "critic_epochs": 2, "cg_steps": 3}),
}
RATIO = [name for name in BUILT_IN if issubclass(find_card(name).settings, RolloutConfig)]
WHOLE = {"epochs": 1, "minibatch_size": 12}


def settings_of(algorithm):
    family, more = RUNS[algorithm]
    if algorithm == "supervised":
        return family, {**more, "validate_every": 1}
    settings = {"updates": 2, "validate_every": 1, **WHOLE, **tiny.SMALL.get(algorithm, {}), **more}
    return family, settings | ({"kl_target": 0.05} if algorithm in RATIO else {})


def trace(algorithm, **more):
    family, settings = settings_of(algorithm)
    return golden.trace(family, algorithm, reward="fine", rollout=ROLLOUT, **{**settings, **more})


def again(algorithm, folder, **more):
    """The same run, untrained, with further settings."""
    family, settings = settings_of(algorithm)
    settings = {key: value for key, value in {**settings, **more}.items() if key != "file"}
    if RUNS[algorithm][1].get("file"):
        settings["data"] = scored.write_file(folder / "data.jsonl")
    task = tiny.task(family, **ROLLOUT)
    return tiny.run(family, algorithm, folder / "again", task_=task, reward=scored.fine, **settings)


def start(algorithm):
    return tiny.weights(tiny.model(RUNS[algorithm][0]))


@pytest.mark.parametrize("algorithm", sorted(BUILT_IN))
def test_an_interrupted_run_goes_on_bit_for_bit(algorithm):
    whole, resumed = trace(algorithm), trace(algorithm, stop_after=1)
    assert resumed.begin == (1, whole.begin[1])
    assert torch.equal(resumed.weights, whole.weights) and not torch.equal(whole.weights, start(algorithm))
    assert resumed.logged == whole.logged and resumed.samples == whole.samples[-len(resumed.samples) :]
    kept = [read_json(one.folder / "checkpoint" / "grue.json")["files"] for one in (whole, resumed)]
    assert kept[0] == kept[1]
    assert all(math.isfinite(value) for line in whole.lines for value in line.values())


@pytest.mark.parametrize("algorithm", RATIO)
def test_the_first_minibatch_has_ratio_one_and_the_first_update_no_divergence(algorithm):
    lines = trace(algorithm).lines
    assert all(line["policy/ratio_error"] < 1e-5 for line in lines)
    assert all(line.get("policy/clip_fraction", 0) == 0 for line in lines)
    assert all(abs(line.get("policy/approx_kl", 0)) < 1e-6 for line in lines)
    assert lines[0]["objective/kl"] == 0 != lines[-1]["objective/kl"]
    assert ("objective/flat_groups" in lines[0]) == (algorithm == "grpo")
    assert all(line["policy/steps"] == 1 for line in lines if algorithm != "trpo")


@pytest.mark.parametrize("algorithm", RATIO)
def test_the_kl_coefficient_follows_its_controller(algorithm):
    lines = trace(algorithm).lines
    for before, after in zip(lines, lines[1:], strict=False):
        error = max(-0.2, min(0.2, (before["objective/kl"] - 0.05) / 0.05))
        expected = before["objective/kl_coefficient"] * (1 + 0.1 * error)
        assert after["objective/kl_coefficient"] == pytest.approx(expected) != before["objective/kl_coefficient"]


def test_other_seeds_train_other_policies():
    one, two = trace("nlpo"), trace("nlpo", seed=2)
    assert not torch.equal(one.weights, two.weights) and one.samples != two.samples


def test_a_run_warns_once_and_alike_when_it_is_resumed():
    """Equal rewards teach nothing; the alarm is read off the log, so that a resumed run does not repeat it."""
    flat = {"reward": "flat", "updates": 6}
    ((update, message),) = golden.trace("causal", "ppo", **flat).warnings
    assert "reward" in message and update < 6
    assert golden.trace("causal", "ppo", stop_after=update, **flat).warnings == []


@pytest.mark.parametrize("algorithm", ["supervised", "dpo", "grpo", "ppo", "trpo"])
def test_accumulated_gradients_are_those_of_the_whole_minibatch(algorithm, tmp_path):
    """In micro-batches, with recomputed activations and logits in chunks; of one step, which blows no rounding up."""
    saving = {"micro_batch_size": 5, "gradient_checkpointing": True, "log_prob_chunk": 5}
    (found,) = tiny.updated(again(algorithm, tmp_path, **saving))
    plain, rel = trace(algorithm).lines[0], 1e-3 if algorithm == "trpo" else 1e-4
    assert plain["policy/grad_norm"] > 0
    names = ("grad_norm", "approx_kl", "step_size", "kl_after")
    for name in ("loss/total", "loss/policy", "loss/value", *(f"policy/{name}" for name in names)):
        assert name not in plain or found[name] == pytest.approx(plain[name], rel=rel, abs=1e-6), name


@pytest.mark.parametrize("algorithm", ["copg", "es", "ppo", "props", "trpo"])
def test_adapters_learn_and_nothing_else_does(algorithm, tmp_path):
    run = again(algorithm, tmp_path, lora_rank=2, validate_every=2, updates=2)
    adapters.adapt(run.trainer.policy, run.plan.config)
    lines = tiny.train(run).observer.lines
    before = dict(tiny.model(RUNS[algorithm][0]).named_parameters())
    named = dict(run.trainer.policy.named_parameters())
    assert any("lora_B" in name and value.abs().sum() > 0 for name, value in named.items())
    for name, value in named.items():
        assert "lora" in name or torch.equal(value, before[name.replace(".base_layer", "")]), name
    (_, first, _), (_, last, _) = run.observer.validations
    assert first["kl"] == pytest.approx(0.0, abs=1e-6) and last["kl"] != 0.0
    if algorithm in RATIO:
        assert lines[0]["objective/kl"] == pytest.approx(0.0, abs=1e-6)
        assert lines[-1]["objective/kl"] != 0.0


@pytest.mark.parametrize("algorithm", ["supervised", "dapo_advantage", "dpo", "es", "ppo", "props", "trpo"])
def test_half_precision_keeps_whole_weights_and_a_frozen_encoder_stays(algorithm, tmp_path):
    more = {"epochs": 1, "batch_size": 24} if algorithm == "supervised" else {**WHOLE, **tiny.SMALL.get(algorithm, {})}
    run = tiny.run(
        "seq2seq", algorithm, tmp_path, reward=scored.fine, precision="bfloat16", freeze_encoder=True, **more
    )
    (line,) = tiny.updated(run)
    before = dict(tiny.model("seq2seq").named_parameters())
    named = dict(run.trainer.policy.named_parameters())
    assert {value.dtype for value in named.values()} == {torch.float32}
    changed = {name for name, value in named.items() if not torch.equal(value, before[name])}
    assert changed and all(name.startswith("decoder.") for name in changed)
    assert all(math.isfinite(value) for value in line.values())
    assert 0 < line.get("policy/kl_after", 0.001) <= 0.01


@pytest.mark.parametrize("algorithm", ["dpo", "ppo", "trpo"])
def test_a_sampler_of_ones_own_is_the_same_as_the_tasks(algorithm, tmp_path):
    """Whoever asks for the temperature asks in the same place: else policies would part, or ratios leave 1."""
    own, wide = {"temperature": 3.0, "top_k": 15}, {"temperature": 0.7, "top_k": 3}
    settings = {"updates": 1, **WHOLE, **tiny.SMALL.get(algorithm, {}), "reward": scored.fine, "validate_every": 2}
    theirs = tiny.train(tiny.run("causal", algorithm, tmp_path / "a", task_=tiny.task("causal", **own), **settings))
    settings |= {f"rollout_{key}": value for key, value in own.items()}
    ours = tiny.train(tiny.run("causal", algorithm, tmp_path / "b", task_=tiny.task("causal", **wide), **settings))
    assert torch.equal(tiny.weights(ours.trainer.policy), tiny.weights(theirs.trainer.policy))
    assert not torch.equal(tiny.weights(ours.trainer.policy), tiny.weights(tiny.model("causal")))
    assert ours.observer.samples == theirs.observer.samples
    assert ours.observer.validations != theirs.observer.validations, "answers are drawn as the task says"


@pytest.mark.parametrize("algorithm", ["dpo", "ppo"])
def test_dropout_changes_what_is_learnt_and_not_what_is_sampled(algorithm, tmp_path):
    plain = trace(algorithm)
    run = again(algorithm, tmp_path, dropout=0.2)
    before, (after,) = plain.lines[0], tiny.updated(run)
    sampled = [key for key in before if key.startswith(("objective/", "mask/"))]
    assert {key: after[key] for key in sampled} == {key: before[key] for key in sampled}
    assert after["policy/grad_norm"] != pytest.approx(before["policy/grad_norm"], rel=1e-3)
    if "policy/ratio_error" in before:
        assert before["policy/ratio_error"] < 1e-4 < 1e-2 < after["policy/ratio_error"]
        (off,) = tiny.updated(again(algorithm, tmp_path, dropout=0.0))
        assert off == {key: before[key] for key in off}, "a rate of 0 is none"
    lm.assert_no_dropout(run.trainer.policy.train())


def test_the_reward_is_learnt(tmp_path):
    sizes = {"updates": 8, "learning_rate": 1e-2, "kl_coefficient": 0.0, "rollouts": 24, "minibatch_size": 24}
    sizes |= {"value_model": "shared", "top_p": 0.98, "mask_updates": 1}
    rewards = [line["objective/reward"] for line in tiny.updated(tiny.run("causal", "nlpo", tmp_path, **sizes), 8)]
    assert rewards[-1] > rewards[0] + 0.3


def test_stop_kl_ends_an_update_early(tmp_path):
    settings = {"epochs": 6, "learning_rate": 1e-2}
    (free,), (stopped,) = (
        tiny.updated(tiny.run("causal", "ppo", tmp_path, **settings, stop_kl=most)) for most in (None, 1e-4)
    )
    assert free["policy/steps"] == 12 > stopped["policy/steps"] >= 1


def test_nlpo_is_ppo_with_a_mask_bit_for_bit(tmp_path):
    nlpo = trace("nlpo")
    family, settings = settings_of("nlpo")
    settings = {"mask": "learned_top_p", **settings}
    ppo = tiny.run(family, "ppo", tmp_path, task_=tiny.task(family, **ROLLOUT), reward=scored.fine, **settings)
    lines = tiny.updated(ppo, 3)
    assert torch.equal(nlpo.weights, tiny.weights(ppo.trainer.policy))
    assert lines == [{key: line[key] for key in lines[0]} for line in nlpo.lines]
    assert all(line["mask/size"] < 0.9 for line in lines)


@pytest.mark.parametrize(
    ("family", "truncation"),
    [("causal", {}), ("causal", {"top_p": 0.8, "min_new_tokens": 3}), ("seq2seq", {"top_k": 9})],
)
def test_nlpo_with_an_open_mask_is_ppo_bit_for_bit(family, truncation, tmp_path):
    task = tiny.task(family, **truncation)
    plain = tiny.run(family, "ppo", tmp_path, task_=task)
    masked = tiny.run(family, "nlpo", tmp_path, task_=task, top_p=1.0, mask_updates=2)
    lines = [
        [{key: value for key, value in line.items() if not key.startswith("mask/")} for line in tiny.updated(run, 3)]
        for run in (plain, masked)
    ]
    assert torch.equal(tiny.weights(plain.trainer.policy), tiny.weights(masked.trainer.policy))
    assert not torch.equal(tiny.weights(plain.trainer.policy), tiny.weights(tiny.model(family)))
    assert lines[0] == lines[1]


def masking_logits(monkeypatch, folder, count, **settings):
    """What the masking policy says of the first response token at each update, on a fixed set of prompts."""
    seen, original = [], experience.mask_of_update

    def spying(trainer, state, config):
        mask = original(trainer, state, config)
        asked = [example.prompt for example in trainer.examples]
        prompts = responses.encode_prompts(state.policy, trainer.tokenizer, asked, trainer.task.prompt)
        with torch.no_grad():
            seen.append(forward.Steps(mask.model or state.policy, prompts)(None)[0])
        return mask

    monkeypatch.setattr(experience, "mask_of_update", spying)
    tiny.updated(tiny.run("causal", "nlpo", folder, learning_rate=3e-2, **settings), count)
    return seen


def test_the_mask_is_refreshed_every_mu_updates_and_only_then(tmp_path, monkeypatch):
    seen = masking_logits(monkeypatch, tmp_path, 7, mask_updates=3, top_p=0.7, **WHOLE)
    same = [torch.allclose(before, after, atol=1e-5) for before, after in zip(seen, seen[1:], strict=False)]
    assert same == [True, True, False, True, True, False]
    nuclei = [[oracles.nucleus(row, 0.7) for row in logits.tolist()] for logits in (seen[2], seen[3])]
    assert nuclei[0] != nuclei[1]


def test_a_mask_of_top_k_follows_the_policy_itself(tmp_path, monkeypatch):
    seen = masking_logits(monkeypatch, tmp_path, 3, mask="top_k", top_k=5)
    trainer = tiny.run("causal", "nlpo", tmp_path).trainer
    rule = responses.own_mask(trainer, NLPOConfig(mask="top_k", top_k=5)).rule
    assert all((rule(logits).sum(-1) == 5).all() for logits in seen)
    assert not torch.equal(seen[0], seen[-1])


def test_a_gradient_that_is_not_finite_ends_the_run_and_keeps_the_weights(tmp_path, refused):
    run = tiny.run("causal", "ppo", tmp_path, value_coefficient=1e38, updates=1)
    with refused(TrainingError):
        tiny.updated(run)
    assert torch.equal(tiny.weights(run.trainer.policy), tiny.weights(tiny.model("causal")))


def test_every_example_comes_once_before_any_comes_twice():
    draw = responses.draw_positions
    drawn = [at for update in range(5) for at in draw(10, 4, seed=3, n=update).tolist()]
    assert sorted(drawn[:10]) == sorted(drawn[10:]) == list(range(10))
    assert drawn[:10] != drawn[10:]
    assert draw(10, 4, seed=3, n=2).tolist() == drawn[8:12]
    assert len(draw(10, 25, seed=3, n=0)) == 25


def test_what_is_drawn_again_is_none_of_the_updates_prompts_nor_drawn_before():
    draw, redraw = responses.draw_positions, responses.redraw_positions
    first = draw(20, 4, seed=3, n=1)
    again = [redraw(first, 20, seed=3, n=1, attempt=attempt).tolist() for attempt in range(1, 9)]
    drawn = [at for places in again for at in places]
    others = sorted(set(range(20)) - set(first.tolist()))
    assert sorted(drawn[:16]) == sorted(drawn[16:]) == others and drawn[:16] != drawn[16:]
    assert redraw(first, 20, seed=3, n=1, attempt=2).tolist() == drawn[4:8], "whatever was drawn before"
    assert redraw(first, 20, seed=3, n=2, attempt=1).tolist() != drawn[:4]
    whole = draw(4, 6, seed=3, n=0)  # an update that has all of the examples
    assert set(redraw(whole, 4, seed=3, n=0, attempt=1).tolist()) == set(range(4))


def test_validating_and_making_the_state_are_no_part_of_an_updates_seconds(tmp_path, monkeypatch):
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    validate = learning.validate

    def slow(*arguments):
        clock.now += 100.0
        return validate(*arguments)

    monkeypatch.setattr(learning, "time", clock)
    monkeypatch.setattr(learning, "validate", slow)
    run = tiny.train(tiny.run("causal", "reinforce", tmp_path, updates=3, **WHOLE))
    assert clock.now >= 200
    assert [line["seconds"] for line in run.observer.lines] == [0.0, 0.0, 0.0]
    assert run.training["seconds"] == 0.0


@pytest.mark.filterwarnings("ignore:for .*copying from a non-meta parameter")
def test_what_an_algorithm_keeps_is_where_the_policy_is(tmp_path):
    """States are read into the CPU's memory; a device without data stands for a GPU."""
    run = tiny.run("causal", "alol", tmp_path)
    state = algorithms.find_algorithm("alol").start(run.trainer, run.plan.config)
    state.memory = {"value_weight": torch.ones(3)}
    saved = state.state_dict()
    state.policy.to("meta")
    state.load_state_dict(saved)
    assert state.policy.device == state.memory["value_weight"].device == torch.device("meta")
