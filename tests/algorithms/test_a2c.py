"""A2C against the textbook: the plain policy gradient by loops over unpadded rows, on tiny models of both families."""

import copy
import json

import pytest
import torch
from support import oracles, tiny
from support.losses import of_a2c, of_ppo

from grue.algorithms.cards.a2c import A2CConfig
from grue.algorithms.cards.ppo import PPOConfig
from grue.lm.adapters import adapt
from grue.rl.experience import advantages_and_returns, collect
from grue.rl.gradient import minibatch_gradient
from grue.rl.trainer import start
from grue.runs.train import Interrupted

FAMILIES = ["causal", "seq2seq"]


def begun(family, folder, top_k=0, **settings):
    """A learner whose critic says something, and its first experience."""
    run = tiny.run(family, "a2c", folder, task_=tiny.task(family, top_k=top_k), **settings)
    learner = start(run.trainer, run.plan.config)
    torch.nn.init.normal_(learner.critic.head.weight, generator=torch.Generator().manual_seed(3))
    return run, learner, collect(run.trainer, learner, run.plan.config, 0)


def gradient(modules):
    parts = [p.grad if p.grad is not None else torch.zeros_like(p) for m in modules for p in m.parameters()]
    return torch.cat([part.flatten().double() for part in parts])


def gradient_of(losses_of, run, learner, experience, config):
    """The gradient that an update would step along."""
    advantages, returns = advantages_and_returns(experience, config)
    learner.optimizer.zero_grad()
    minibatch_gradient(
        run.trainer,
        torch.arange(len(experience.mask)),
        experience.mask.float(),
        lambda rows: losses_of(run, learner, config, experience, advantages, returns, rows),
        config.micro_batch_size,
    )
    return gradient([learner.policy, learner.critic])


def logits_and_states(model, prompt, said):
    """What a model says before each token of one response, without any padding."""
    if model.config.is_encoder_decoder:
        out = model(
            input_ids=prompt[None], decoder_input_ids=torch.cat([torch.tensor([0]), said[:-1]])[None],
            output_hidden_states=True,
        )  # fmt: skip
        return out.logits[0], out.decoder_hidden_states[-1][0]
    out = model(torch.cat([prompt, said])[None], output_hidden_states=True)
    first = len(prompt) - 1
    return out.logits[0, first:-1], out.hidden_states[-1][0, first:-1]


def textbook_gradient(learner, experience, top_k, gamma, lam, value_coefficient, entropy_coefficient):
    policy, critic = copy.deepcopy(learner.policy).double(), copy.deepcopy(learner.critic).double()
    policy.zero_grad()
    critic.zero_grad()
    rollout, total, tokens = experience.rollout, 0.0, 0
    for b in range(len(experience.mask)):
        prompt = rollout.prompts.ids[b][rollout.prompts.mask[b]]
        said = rollout.responses.ids[b][rollout.responses.mask[b]]
        logits, states = logits_and_states(policy, prompt, said)
        if critic.trunk is not None:
            _, states = logits_and_states(critic.trunk, prompt, said)
        values = critic.head(states).squeeze(-1)
        rewards = [0.0] * (len(said) - 1) + [float(experience.raw_scores[b])]  # π is π_0 yet: no penalty
        advantages = oracles.gae(rewards, values.tolist(), gamma, lam)
        for t in range(len(said)):
            allowed = range(len(logits[t]))
            if top_k:
                allowed = sorted(allowed, key=lambda v: -logits[t, v].item())[:top_k]
            kept = logits[t, list(allowed)]
            log_p = kept - torch.log(torch.exp(kept).sum())
            chosen = log_p[list(allowed).index(int(said[t]))]
            gap = values[t] - (advantages[t] + values[t].item())
            total = total - chosen * advantages[t] + value_coefficient * gap**2
            total = total + entropy_coefficient * (log_p.exp() * log_p).sum()
            tokens += 1
    (total / tokens).backward()
    return gradient([policy, critic])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("value_model", ["separate", "shared"])
@pytest.mark.parametrize("top_k", [0, 9])
def test_the_gradient_is_that_of_the_textbook(family, value_model, top_k, tmp_path):
    settings = {"value_model": value_model, "entropy_coefficient": 0.02, "micro_batch_size": 5, "gamma": 0.9}
    run, learner, experience = begun(family, tmp_path, top_k, **settings)
    found = gradient_of(of_a2c, run, learner, experience, run.plan.config)
    expected = textbook_gradient(learner, experience, top_k, 0.9, 1.0, 0.5, 0.02)
    assert float(expected.norm()) > 0.01
    assert float((found - expected).norm()) < 1e-4 * float(expected.norm())


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_ppos_first_gradient_without_whitening(family, tmp_path):
    run, learner, experience = begun(family, tmp_path, top_k=9, entropy_coefficient=0.01)
    plain = gradient_of(of_a2c, run, learner, experience, run.plan.config)
    config = PPOConfig(gae_lambda=1.0, whiten_advantages=False, entropy_coefficient=0.01)
    clipped = gradient_of(of_ppo, run, learner, experience, config)
    assert float((plain - clipped).norm()) < 1e-5 * float(clipped.norm())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("over", ["support", "vocabulary"])
def test_an_update_is_one_step_of_the_policy_that_was_sampled(family, over, tmp_path):
    settings = {"epochs": 3, "minibatch_size": 4, "stop_kl": 1e-9, "ratio_over": over, "kl_over": over}
    settings |= {"updates": 2, "save_every": 9}
    run = tiny.train(tiny.run(family, "a2c", tmp_path, task_=tiny.task(family, top_k=9, min_new_tokens=2), **settings))
    assert [line["policy/steps"] for line in run.observer.lines] == [1.0] * 2
    assert all(line["policy/ratio_error"] < 1e-5 for line in run.observer.lines)
    assert not torch.equal(tiny.weights(run.trainer.policy), tiny.weights(tiny.model(family)))


@pytest.mark.parametrize("family", FAMILIES)
def test_accumulated_gradients_are_those_of_all_rollouts(family, tmp_path):
    whole, *others = [
        tiny.train(tiny.run(family, "a2c", tmp_path / str(size), micro_batch_size=size, updates=1)).observer.lines[0]
        for size in (64, 5, 1)
    ]
    for line in others:
        assert line["policy/grad_norm"] == pytest.approx(whole["policy/grad_norm"], rel=1e-4)
        assert line["loss/total"] == pytest.approx(whole["loss/total"], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_interrupted_run_goes_on_bit_for_bit(family, tmp_path):
    settings = {"updates": 3, "kl_target": 0.05, "reward_scale": "running"}
    whole = tiny.train(tiny.run(family, "a2c", tmp_path / "whole", **settings))
    first = tiny.run(family, "a2c", tmp_path / "stopped", **settings)
    first.stop = lambda: len(first.observer.lines) >= 2
    with pytest.raises(Interrupted, match="stopped after update 2 of 3"):
        tiny.train(first)
    second = tiny.train(tiny.run(family, "a2c", tmp_path / "stopped", **settings))
    assert second.observer.begin == (2, 3)
    assert torch.equal(tiny.weights(second.trainer.policy), tiny.weights(whole.trainer.policy))
    kept = [json.loads((tmp_path / f / "checkpoint" / "grue.json").read_text()) for f in ("whole", "stopped")]
    assert kept[0]["files"] == kept[1]["files"]


@pytest.mark.parametrize(("family", "value_model"), [("causal", "separate"), ("seq2seq", "shared")])
def test_the_reward_is_learnt(family, value_model, tmp_path):
    settings = {"updates": 15, "learning_rate": 3e-3, "kl_coefficient": 0.0, "rollouts": 24}
    settings |= {"validate_every": 15, "save_every": 15}
    run = tiny.train(tiny.run(family, "a2c", tmp_path, value_model=value_model, **settings))
    rewards = [line["objective/reward"] for line in run.observer.lines]
    assert rewards[-1] > rewards[0] + 0.3


@pytest.mark.parametrize("family", FAMILIES)
def test_checkpointing_changes_only_memory(family, tmp_path):
    lines = []
    for checkpointing in (False, True):
        settings = {"gradient_checkpointing": checkpointing, "updates": 1}
        run = tiny.run(family, "a2c", tmp_path / str(checkpointing), **settings)
        adapt(run.trainer.policy, run.plan.config)
        lines.append(tiny.train(run).observer.lines[0])
    assert lines[1]["policy/grad_norm"] == pytest.approx(lines[0]["policy/grad_norm"], rel=1e-4)


def test_the_defaults_are_those_of_rl4lms():
    config = A2CConfig()
    found = (config.gae_lambda, config.gamma, config.value_coefficient, config.max_grad_norm, config.adam_epsilon)
    assert found == (1.0, 0.99, 0.5, 0.5, 1e-5)
    assert (config.optimizer, config.whiten_advantages) == ("rmsprop", False)
