"""What changes while an algorithm learns: models, optimiser, penalty, mask; and all of it in a state to go on from."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from grue.lm.adapters import adapter_off
from grue.lm.model import assert_no_dropout, freeze
from grue.lm.sharding import load_whole
from grue.rl.critic import Critic
from grue.rl.optimisation import make_optimizer
from grue.rl.settings import ActorCriticConfig, RolloutConfig


@dataclass
class Moments:
    """Count, mean and sum of squared deviations of all scores so far (Welford's recurrence, batch by batch)."""

    count: float = 0.0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, values: Tensor) -> None:
        """Take a batch of scores [B] into account."""
        count, mean = float(len(values)), float(values.double().mean())
        squares = float((values.double() - mean).square().sum())
        total, gap = self.count + count, mean - self.mean
        self.squares += squares + gap * gap * self.count * count / total
        self.mean += gap * count / total
        self.count = total

    @property
    def deviation(self) -> float:
        """The standard deviation, or 1 where there is none to speak of."""
        deviation = math.sqrt(self.squares / self.count) if self.count else 0.0
        return deviation if deviation > 1e-8 else 1.0


@dataclass
class Learner:
    """What changes while the algorithm runs; the reference, made from the initial policy, does not.

    Attributes:
        critic: None for algorithms without one.
        reference: The initial policy; None where it is the policy with its adapter switched off.
        kl_coefficient: β.
        moments: Of the scores, for `reward_scale = "running"`.
        mask_model: NLPO's masking policy, if it has one of its own.
        mask_age: Updates since the masking policy was last equal to the policy.
    """

    policy: PreTrainedModel
    critic: Critic | None
    reference: PreTrainedModel | None
    optimizer: torch.optim.Optimizer
    kl_coefficient: float
    moments: Moments = field(default_factory=Moments)
    mask_model: PreTrainedModel | None = None
    mask_age: int = 0

    def trained(self) -> list[nn.Module]:
        """Return the modules that the optimiser trains."""
        return [self.policy] if self.critic is None else [self.policy, self.critic]

    @contextmanager
    def initial_policy(self) -> Iterator[PreTrainedModel]:
        """Lend the model that the KL penalty is taken against."""
        if self.reference is not None:
            yield self.reference
        else:
            with adapter_off(self.policy):
                yield self.policy

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on, but the reference, which is where the run began."""
        return {
            "policy": self.policy.state_dict(),
            "critic": None if self.critic is None else self.critic.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "kl_coefficient": self.kl_coefficient,
            "moments": [self.moments.count, self.moments.mean, self.moments.squares],
            "mask_model": None if self.mask_model is None else self.mask_model.state_dict(),
            "mask_age": self.mask_age,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to a saved state."""
        load_whole(self.policy, state["policy"])
        if self.critic is not None:
            load_whole(self.critic, state["critic"])
        load_whole(self.optimizer, state["optimizer"])
        self.kl_coefficient, self.mask_age = state["kl_coefficient"], state["mask_age"]
        self.moments = Moments(*state["moments"])
        if self.mask_model is not None:
            self.mask_model.load_state_dict(state["mask_model"])


def make_learner(policy: PreTrainedModel, config: RolloutConfig) -> Learner:
    """Return the learner at update 0: reference and critic are copies of the policy as it comes."""
    assert_no_dropout(policy)
    critic = Critic(policy, shared=config.value_model == "shared") if isinstance(config, ActorCriticConfig) else None
    return Learner(
        policy=policy,
        critic=critic,
        reference=None if config.lora_rank else freeze(policy),
        optimizer=make_optimizer([policy] if critic is None else [policy, critic], config),
        kl_coefficient=config.kl_coefficient,
    )
