"""The algorithms' invariants, on tiny random models of both families."""

import json
from types import SimpleNamespace

import pytest
import torch
from support import oracles, tiny

from grue.algorithms.cards.nlpo import NLPOConfig
from grue.algorithms.cards.ppo import PPOConfig
from grue.errors import TrainingError
from grue.lm.forward import forward, next_logits
from grue.lm.sampling import Mask, sample_responses
from grue.lm.seeds import generator
from grue.lm.tokens import encode_prompts
from grue.rl import experience, values
from grue.rl.masking import mask_rule
from grue.rl.responses import draw_positions, redraw_positions
from grue.runs import train as training
from grue.runs.algorithms import find_algorithm
from grue.runs.train import Interrupted

FAMILIES = ["causal", "seq2seq"]


@pytest.mark.parametrize(
    ("family", "truncation"),
    [
        ("causal", {}),
        ("causal", {"top_k": 9}),
        ("causal", {"top_p": 0.8}),
        ("causal", {"min_new_tokens": 3}),
        ("seq2seq", {"top_k": 9}),
    ],
)
def test_nlpo_with_an_open_mask_is_ppo_bit_for_bit(family, truncation, tmp_path):
    task, length = tiny.task(family, **truncation), {"updates": 3, "save_every": 9}
    plain = tiny.train(tiny.run(family, "ppo", tmp_path / "ppo", task_=task, **length))
    masked = tiny.train(tiny.run(family, "nlpo", tmp_path / "nlpo", task_=task, top_p=1.0, mask_updates=2, **length))
    assert torch.equal(tiny.weights(plain.trainer.policy), tiny.weights(masked.trainer.policy))
    assert not torch.equal(tiny.weights(plain.trainer.policy), tiny.weights(tiny.model(family)))
    shared = [{k: v for k, v in line.items() if not k.startswith("mask/")} for line in tiny.logged(tmp_path / "nlpo")]
    assert shared == [
        {k: v for k, v in line.items() if not k.startswith("mask/")} for line in tiny.logged(tmp_path / "ppo")
    ]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("algorithm", ["ppo", "nlpo"])
@pytest.mark.parametrize("over", ["support", "vocabulary"])
def test_the_first_minibatch_has_ratio_one_and_clips_nothing(family, algorithm, over, tmp_path):
    task = tiny.task(family, top_k=9, min_new_tokens=2)
    settings = {"updates": 3, "save_every": 9, "epochs": 1, "minibatch_size": 12, "ratio_over": over, "kl_over": over}
    run = tiny.train(tiny.run(family, algorithm, tmp_path, task_=task, **settings))
    for line in run.observer.lines:
        assert line["policy/ratio_error"] < 1e-5
        assert line["policy/clip_fraction"] == 0
        assert abs(line["policy/approx_kl"]) < 1e-6


@pytest.mark.parametrize("family", FAMILIES)
def test_the_first_update_has_no_divergence_from_the_reference(family, tmp_path):
    run = tiny.train(tiny.run(family, "ppo", tmp_path, updates=2, save_every=9))
    assert run.observer.lines[0]["objective/kl"] == 0
    assert run.observer.lines[-1]["objective/kl"] != 0


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("algorithm", ["supervised", "ppo", "nlpo"])
def test_an_interrupted_run_goes_on_bit_for_bit(family, algorithm, tmp_path):
    length = {"epochs": 3} if algorithm == "supervised" else {"updates": 3, "kl_target": 0.05}
    length["validate_every"] = 1
    if algorithm == "nlpo":  # the mask is one update old when the run stops, and is refreshed after the next
        length |= {"mask_updates": 2, "mass_coefficient": 0.1}
    whole = tiny.train(tiny.run(family, algorithm, tmp_path / "whole", **length))
    first = tiny.run(family, algorithm, tmp_path / "stopped", **length)
    first.stop = lambda: len(first.observer.lines) >= 1
    with pytest.raises(Interrupted, match="stopped after update 1 of 3; the same command resumes"):
        tiny.train(first)
    second = tiny.train(tiny.run(family, algorithm, tmp_path / "stopped", **length))
    assert second.observer.begin == (1, 3)
    assert torch.equal(tiny.weights(second.trainer.policy), tiny.weights(whole.trainer.policy))
    assert tiny.logged(tmp_path / "stopped") == tiny.logged(tmp_path / "whole")
    kept = [json.loads((tmp_path / f / "checkpoint" / "grue.json").read_text()) for f in ("whole", "stopped")]
    assert kept[0]["files"] == kept[1]["files"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("algorithm", ["supervised", "ppo", "nlpo"])
def test_accumulated_gradients_are_those_of_the_whole_minibatch(family, algorithm, tmp_path):
    """One step, so that Adam's division by tiny second moments cannot blow rounding up."""
    steps = (
        {"epochs": 1, "batch_size": 24}
        if algorithm == "supervised"
        else {"updates": 1, "epochs": 1, "minibatch_size": 12}
    )
    runs = [
        tiny.train(tiny.run(family, algorithm, tmp_path / str(size), micro_batch_size=size, **steps))
        for size in (64, 5, 1)
    ]
    lines = [run.observer.lines[0] for run in runs]
    for line in lines[1:]:
        assert line["policy/grad_norm"] == pytest.approx(lines[0]["policy/grad_norm"], rel=1e-4)
        assert line["loss/total"] == pytest.approx(lines[0]["loss/total"], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_equal_seeds_train_equal_policies_and_other_seeds_others(family, tmp_path):
    settings = {"updates": 2, "mask_updates": 1, "save_every": 9}
    runs = [
        tiny.train(tiny.run(family, "nlpo", tmp_path / str(i), seed=seed, **settings))
        for i, seed in enumerate((1, 1, 2))
    ]
    assert torch.equal(tiny.weights(runs[0].trainer.policy), tiny.weights(runs[1].trainer.policy))
    assert not torch.equal(tiny.weights(runs[0].trainer.policy), tiny.weights(runs[2].trainer.policy))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [("ppo", {"value_model": "separate"}), ("nlpo", {"value_model": "shared", "top_p": 0.98, "mask_updates": 1})],
)
def test_the_reward_is_learnt(family, algorithm, settings, tmp_path):
    settings = settings | {"updates": 8, "learning_rate": 1e-2, "kl_coefficient": 0.0, "validate_every": 8}
    settings |= {"rollouts": 24, "minibatch_size": 24, "save_every": 8}
    run = tiny.train(tiny.run(family, algorithm, tmp_path, **settings))
    rewards = [line["objective/reward"] for line in run.observer.lines]
    assert rewards[-1] > rewards[0] + 0.3


@pytest.mark.parametrize("family", FAMILIES)
def test_supervised_training_learns_the_references(family, tmp_path):
    run = tiny.train(tiny.run(family, "supervised", tmp_path, epochs=40, learning_rate=5e-3, validate_every=40))
    losses = [line["loss/total"] for line in run.observer.lines]
    assert losses[-1] < 0.5 * losses[0]
    assert run.observer.validations[-1][1]["preference"] > run.observer.validations[0][1]["preference"] + 20


def test_supervised_loss_is_over_the_response_only(tmp_path):
    run = tiny.run("causal", "supervised", tmp_path, epochs=1, batch_size=24, learning_rate=1e-12)
    tiny.train(run)
    total, tokens = 0.0, 0
    model, tokenizer = tiny.model("causal"), tiny.tokenizer("causal")
    for example in run.trainer.examples:
        for reference in example.references:
            prompt, said = tokenizer(example.prompt)["input_ids"], [*tokenizer(reference)["input_ids"], 1][:8]
            with torch.no_grad():
                rows = model(torch.tensor([prompt + said])).logits[0, len(prompt) - 1 : -1].tolist()
            total -= sum(oracles.token_log_prob(row, token) for row, token in zip(rows, said, strict=True))
            tokens += len(said)
    assert run.observer.lines[0]["loss/total"] == pytest.approx(total / tokens, rel=1e-5)
    assert run.observer.lines[0]["tokens"] == tokens


def test_a_high_kl_coefficient_holds_the_policy_back(tmp_path):
    settings = {"updates": 8, "learning_rate": 3e-3, "validate_every": 8, "rollouts": 24, "minibatch_size": 24}
    settings |= {"save_every": 8}
    free = tiny.train(tiny.run("causal", "ppo", tmp_path / "free", kl_coefficient=0.0, **settings))
    held = tiny.train(tiny.run("causal", "ppo", tmp_path / "held", kl_coefficient=1.0, **settings))
    assert held.observer.lines[-1]["objective/kl"] < 0.5 * free.observer.lines[-1]["objective/kl"]


def test_the_kl_coefficient_follows_its_controller(tmp_path):
    run = tiny.train(tiny.run("causal", "ppo", tmp_path, kl_target=0.01, kl_coefficient=0.2, updates=4, save_every=9))
    lines = run.observer.lines
    for before, after in zip(lines, lines[1:], strict=False):
        error = max(-0.2, min(0.2, (before["objective/kl"] - 0.01) / 0.01))
        assert after["objective/kl_coefficient"] == pytest.approx(
            before["objective/kl_coefficient"] * (1 + 0.1 * error)
        )


def test_stop_kl_ends_an_update_early(tmp_path):
    settings = {"updates": 2, "epochs": 6, "learning_rate": 1e-2}
    free = tiny.train(tiny.run("causal", "ppo", tmp_path / "free", **settings))
    stopped = tiny.train(tiny.run("causal", "ppo", tmp_path / "stopped", stop_kl=1e-4, **settings))
    assert free.observer.lines[0]["policy/steps"] == 12
    assert 1 <= stopped.observer.lines[0]["policy/steps"] < 12


def test_a_run_warns_once_and_alike_when_it_is_resumed(tmp_path):
    """Equal rewards teach nothing; the alarm is read off the log, so that a resumed run does not repeat it."""

    def flat(examples, texts):
        return [0.5] * len(texts)

    whole = tiny.train(tiny.run("causal", "ppo", tmp_path / "whole", reward=flat, updates=6))
    ((update, message),) = whole.observer.warnings
    assert "reward" in message
    first = tiny.run("causal", "ppo", tmp_path / "stopped", reward=flat, updates=6)
    first.stop = lambda: len(first.observer.lines) >= update
    with pytest.raises(Interrupted):
        tiny.train(first)
    assert first.observer.warnings == [(update, message)]
    assert tiny.train(tiny.run("causal", "ppo", tmp_path / "stopped", reward=flat, updates=6)).observer.warnings == []


# --- NLPO's mask -----------------------------------------------------------------------------------------------------


def masking_logits(run, count):
    """What the masking policy says of the first response token at each update, on a fixed set of prompts."""
    seen = []
    original = experience.mask_of_update

    def spying(trainer, state, config):
        mask = original(trainer, state, config)
        asked = [e.prompt for e in trainer.examples]
        prompts = encode_prompts(state.policy, trainer.tokenizer, asked, trainer.task.prompt)
        with torch.no_grad():
            seen.append(next_logits(mask.model or state.policy, prompts)(None)[0])
        return mask

    experience.mask_of_update = spying
    try:
        tiny.train(run)
    finally:
        experience.mask_of_update = original
    assert len(seen) == count
    return seen


@pytest.mark.parametrize("family", FAMILIES)
def test_the_mask_is_refreshed_every_mu_updates_and_only_then(family, tmp_path):
    settings = {
        "updates": 7,
        "mask_updates": 3,
        "top_p": 0.7,
        "learning_rate": 3e-2,
        "validate_every": 7,
        "save_every": 7,
    }
    seen = masking_logits(tiny.run(family, "nlpo", tmp_path, **settings), 7)
    same = [torch.allclose(before, after, atol=1e-5) for before, after in zip(seen, seen[1:], strict=False)]
    assert same == [True, True, False, True, True, False]
    nuclei = [[oracles.nucleus(row, 0.7) for row in logits.tolist()] for logits in (seen[2], seen[3])]
    assert nuclei[0] != nuclei[1]


def test_a_frozen_mask_never_changes(tmp_path):
    settings = {"updates": 6, "mask_updates": 1, "mask_source": "frozen", "learning_rate": 3e-2, "validate_every": 6}
    seen = masking_logits(tiny.run("causal", "nlpo", tmp_path, **settings), 6)
    assert all(torch.allclose(seen[0], later, atol=1e-5) for later in seen)


def test_a_top_k_mask_follows_the_policy_itself(tmp_path):
    settings = {"updates": 3, "mask": "top_k", "top_k": 5, "learning_rate": 3e-2, "validate_every": 3}
    seen = masking_logits(tiny.run("causal", "nlpo", tmp_path, **settings), 3)
    rule = mask_rule(NLPOConfig(mask="top_k", top_k=5))
    assert all((rule(logits).sum(-1) == 5).all() for logits in seen)
    assert not torch.equal(seen[0], seen[-1])


@pytest.mark.parametrize("family", FAMILIES)
def test_sampled_tokens_lie_in_the_nucleus_of_the_masking_policy(family):
    policy, masking = tiny.model(family, seed=0), tiny.model(family, seed=1)
    task = tiny.task(family)
    prompts = encode_prompts(policy, tiny.tokenizer(family), [e.prompt for e in tiny.examples()], task.prompt)
    uniforms = torch.rand(12, 8, generator=generator(1, "test"))
    rule = mask_rule(NLPOConfig(top_p=0.6))
    rollout = sample_responses(policy, prompts, task.rollout, uniforms, 1, Mask(masking, rule))
    with torch.no_grad():
        logits, _ = forward(masking, prompts, rollout.responses)
    support = rollout.open_vocabulary(torch.arange(12), rollout.responses.ids.shape[1], policy.config.vocab_size)
    outside = 0
    for b, t in rollout.responses.mask.nonzero().tolist():
        nucleus = oracles.nucleus(logits[b, t].tolist(), 0.6) | {1}
        assert int(rollout.responses.ids[b, t]) in nucleus
        assert set(support[b, t].nonzero().flatten().tolist()) == nucleus
        outside += len(nucleus) < policy.config.vocab_size
    assert outside > 0


def test_a_mask_of_nothing_but_a_closed_end_token_still_leaves_something():
    model = tiny.model("causal")
    task = tiny.task("causal", min_new_tokens=4)
    prompts = encode_prompts(model, tiny.tokenizer("causal"), ["the dog"], task.prompt)

    def only_the_end(logits):
        wished = torch.zeros_like(logits)
        wished[:, 1] = 100.0
        return mask_rule(NLPOConfig(top_p=0.5))(wished.masked_fill(logits.isinf(), float("-inf")))

    rollout = sample_responses(model, prompts, task.rollout, torch.full((1, 8), 0.5), 1, Mask(None, only_the_end))
    assert not (rollout.responses.ids[0, :4] == 1).any()


# --- what is refused -------------------------------------------------------------------------------------------------


def test_a_policy_that_is_not_the_one_sampled_is_noticed(tmp_path, monkeypatch):
    original = values.collect

    def tampered(*arguments):
        found = original(*arguments)
        found.log_probs.add_(0.5)
        return found

    monkeypatch.setattr(values, "collect", tampered)
    with pytest.raises(TrainingError, match="the first policy ratio is off 1 by 0.39"):
        tiny.train(tiny.run("causal", "ppo", tmp_path))


def test_a_gradient_that_is_not_finite_ends_the_run_and_keeps_the_weights(tmp_path):
    run = tiny.run("causal", "ppo", tmp_path, value_coefficient=1e38, updates=1)
    with pytest.raises(TrainingError, match=r"update 0: the gradient is not finite. Lower learning_rate"):
        tiny.train(run)
    assert torch.equal(tiny.weights(run.trainer.policy), tiny.weights(tiny.model("causal")))


def test_training_without_references_is_refused(tmp_path):
    run = tiny.run("causal", "supervised", tmp_path)
    run.trainer.examples = [type(e)(e.id, e.prompt, ()) for e in run.trainer.examples]
    with pytest.raises(TrainingError, match="no training example has a reference"):
        tiny.train(run)


def test_every_example_comes_once_before_any_comes_twice():
    drawn = [at for update in range(5) for at in draw_positions(10, 4, seed=3, n=update).tolist()]
    assert sorted(drawn[:10]) == sorted(drawn[10:]) == list(range(10))
    assert drawn[:10] != drawn[10:]
    assert draw_positions(10, 4, seed=3, n=2).tolist() == drawn[8:12]
    assert len(draw_positions(10, 25, seed=3, n=0)) == 25


def test_what_is_drawn_again_is_none_of_the_updates_prompts_nor_drawn_before():
    first = draw_positions(20, 4, seed=3, n=1)
    again = [redraw_positions(first, 20, seed=3, n=1, attempt=attempt).tolist() for attempt in range(1, 9)]
    drawn = [at for places in again for at in places]
    others = sorted(set(range(20)) - set(first.tolist()))
    assert sorted(drawn[:16]) == sorted(drawn[16:]) == others and drawn[:16] != drawn[16:]
    assert redraw_positions(first, 20, seed=3, n=1, attempt=2).tolist() == drawn[4:8], "whatever was drawn before"
    assert redraw_positions(first, 20, seed=3, n=2, attempt=1).tolist() != drawn[:4]
    whole = draw_positions(4, 6, seed=3, n=0)  # an update that has all of the examples
    assert set(redraw_positions(whole, 4, seed=3, n=0, attempt=1).tolist()) == set(range(4))


def test_an_epochs_order_is_drawn_once(monkeypatch):
    drawn, permutation = [], torch.randperm
    monkeypatch.setattr(torch, "randperm", lambda *given, **more: drawn.append(1) or permutation(*given, **more))
    found = [at for n in range(250) for at in draw_positions(500, 4, seed=12345, n=n).tolist()]
    assert sorted(found[:500]) == sorted(found[500:]) == list(range(500))
    assert len(drawn) == 2


def test_the_defaults_are_the_papers():
    config = PPOConfig()
    paper = {
        "clip": 0.2,
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "epochs": 5,
        "minibatch_size": 64,
        "value_coefficient": 0.5,
    }
    assert {key: getattr(config, key) for key in paper} == paper
    assert (NLPOConfig().top_p, NLPOConfig().mask_updates, NLPOConfig().mask_source) == (0.9, 5, "periodic")


def test_validating_and_making_the_state_are_no_part_of_an_updates_seconds(tmp_path, monkeypatch):
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    validate = training.validate

    def slow(*arguments):
        clock.now += 100.0
        return validate(*arguments)

    monkeypatch.setattr(training, "time", clock)
    monkeypatch.setattr(training, "validate", slow)
    run = tiny.train(tiny.run("causal", "reinforce", tmp_path, updates=3))
    assert clock.now >= 200
    assert [line["seconds"] for line in run.observer.lines] == [0.0, 0.0, 0.0]
    assert run.training["seconds"] == 0.0


@pytest.mark.filterwarnings("ignore:for .*copying from a non-meta parameter")
def test_what_an_algorithm_keeps_is_where_the_policy_is(tmp_path):
    """States are read into the CPU's memory; a device without data stands for a GPU."""
    run = tiny.run("causal", "alol", tmp_path)
    state = find_algorithm("alol").start(run.trainer, run.plan.config)
    state.memory = {"value_weight": torch.ones(3)}
    saved = state.state_dict()
    state.policy.to("meta")
    state.load_state_dict(saved)
    assert state.policy.device == state.memory["value_weight"].device == torch.device("meta")
