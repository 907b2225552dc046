"""The critic: which states it reads, what it starts with, and that it learns."""

import pytest
import torch
from support import tiny, tiny_models

from grue.lm.critic import Critic
from grue.lm.forward import forward
from grue.lm.model import hidden_size

ALL = tiny_models.ALL
WIDTH = {"opt": 20}  # OPT's head reads states narrower than its layers' 32


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("shared", [True, False])
def test_a_critic_reads_states_of_the_right_width_and_learns(kind, shared):
    model, prompts, responses = tiny_models.batch(kind)
    assert hidden_size(model) == WIDTH.get(kind, 32)
    critic = Critic(model, shared)
    _, states = forward(model, prompts, responses, states=True)
    assert (critic(prompts, responses, states if shared else None) == 0).all()
    torch.nn.init.ones_(critic.head.weight)
    values = critic(prompts, responses, states if shared else None)
    assert torch.allclose(values[responses.mask], states.sum(-1)[responses.mask], atol=1e-4)
    values[responses.mask].square().sum().backward()
    learning = model if shared else critic.trunk
    assert sum(float(p.grad.abs().sum()) for p in learning.parameters() if p.grad is not None) > 0


def test_a_separate_critic_starts_from_the_policy_and_says_zero():
    model, prompts, responses = tiny_models.batch("t5")
    critic = Critic(model, shared=False)
    assert torch.equal(tiny.weights(critic.trunk), tiny.weights(model))
    assert (critic(prompts, responses, None) == 0).all()
