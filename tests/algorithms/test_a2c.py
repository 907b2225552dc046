"""A2C against the textbook: the plain policy gradient by loops over unpadded rows, on tiny models of both families."""

import copy

import pytest
from support.late import lates

from grue.algorithms.cards.ppo import PPOConfig

torch, tiny, oracles, losses, exactness = lates("torch support.tiny support.oracles support.losses support.exactness")
experience, optimisation, trainer = lates("experience optimize trainer", "grue.rl.")


def begun(family, folder, top_k=0, **settings):
    """A learner whose critic says something, and its first experience."""
    run = tiny.run(family, "a2c", folder, task_=tiny.task(family, top_k=top_k), **settings)
    learner = trainer.start(run.trainer, run.plan.config)
    torch.nn.init.normal_(learner.critic.head.weight, generator=torch.Generator().manual_seed(3))
    return run, learner, experience.collect(run.trainer, learner, run.plan.config, 0)


def gradient(modules):
    parts = [p.grad if p.grad is not None else torch.zeros_like(p) for m in modules for p in m.parameters()]
    return torch.cat([part.flatten().double() for part in parts])


def gradient_of(losses_of, run, learner, found, config):
    """The gradient that an update would step along."""
    advantages, returns = experience.advantages_and_returns(found, config)
    learner.optimizer.zero_grad()
    optimisation.minibatch_gradient(
        run.trainer,
        torch.arange(len(found.mask)),
        found.mask.float(),
        lambda rows: losses_of(run, learner, config, found, advantages, returns, rows),
        config.micro_batch_size,
    )
    return gradient([learner.policy, learner.critic])


def textbook_gradient(learner, found, top_k, gamma, value_coefficient, entropy_coefficient):
    policy, critic = copy.deepcopy(learner.policy).double(), copy.deepcopy(learner.critic).double()
    policy.zero_grad()
    critic.zero_grad()
    rollout, total, tokens = found.rollout, 0.0, 0
    for b in range(len(found.mask)):
        prompt, said = exactness.real(rollout.prompts, b), exactness.real(rollout.responses, b)
        logits, states = exactness.plain(policy, prompt, said)
        if critic.trunk is not None:
            _, states = exactness.plain(critic.trunk, prompt, said)
        values = critic.head(states).squeeze(-1)
        rewards = [0.0] * (len(said) - 1) + [float(found.responses.raw_scores[b])]  # π is π_0 yet: no penalty
        advantages = oracles.gae(rewards, values.tolist(), gamma, 1.0)
        for t in range(len(said)):
            allowed = range(len(logits[t]))
            if top_k:
                allowed = sorted(allowed, key=lambda v: -logits[t, v].item())[:top_k]
            kept = logits[t, list(allowed)]
            log_p = kept - torch.log(torch.exp(kept).sum())
            chosen = log_p[list(allowed).index(said[t])]
            gap = values[t] - (advantages[t] + values[t].item())
            total = total - chosen * advantages[t] + value_coefficient * gap**2
            total = total + entropy_coefficient * (log_p.exp() * log_p).sum()
            tokens += 1
    (total / tokens).backward()
    return gradient([policy, critic])


@pytest.mark.parametrize(
    ("family", "value_model", "top_k"), [("causal", "separate", 9), ("seq2seq", "shared", 0), ("causal", "shared", 0)]
)
def test_the_gradient_is_that_of_the_textbook_and_ppos_first_without_whitening(family, value_model, top_k, tmp_path):
    settings = {"value_model": value_model, "entropy_coefficient": 0.02, "micro_batch_size": 5, "gamma": 0.9}
    run, learner, seen = begun(family, tmp_path, top_k, **settings)
    found = gradient_of(losses.of_a2c, run, learner, seen, run.plan.config)
    expected = textbook_gradient(learner, seen, top_k, 0.9, 0.5, 0.02)
    assert float(expected.norm()) > 0.01
    assert float((found - expected).norm()) < 1e-4 * float(expected.norm())
    ppo = {**settings, "gae_lambda": 1.0, "whiten_advantages": False}
    clipped = gradient_of(losses.of_ppo, run, learner, seen, PPOConfig(**ppo))
    assert float((found - clipped).norm()) < 1e-5 * float(clipped.norm())


def test_an_update_is_one_step_of_the_policy_that_was_sampled(tmp_path):
    settings = {"epochs": 3, "minibatch_size": 4, "stop_kl": 1e-9}
    lines = tiny.updated(tiny.run("causal", "a2c", tmp_path, **settings), 2)
    assert [line["policy/steps"] for line in lines] == [1.0] * 2
    assert all(line["policy/ratio_error"] < 1e-5 for line in lines)
