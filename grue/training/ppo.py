"""Proximal policy optimisation with a KL penalty: rollouts, advantages, a few epochs of clipped updates, again.

Schulman et al. (2017); for text as in Ramamurthy et al. (2023), §3 and App. A. NLPO (`nlpo.py`) is this with a
restricted sampler and shares every function below.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from grue.errors import TrainingError
from grue.training import functional as rl
from grue.training.config import NLPOConfig, PPOConfig
from grue.training.optimisation import make_optimizer, set_learning_rate, step
from grue.training.policy import Critic, assert_no_dropout, decode_responses, encode_prompts, eos_id, freeze
from grue.training.rollout import (
    Experience,
    Mask,
    draw_examples,
    evaluate_rollout,
    generator,
    length_batches,
    sample_responses,
    score_tokens,
)
from grue.training.run import ALGORITHMS, Run

# The first minibatch meets the very policy that was sampled: its ratio is 1 up to the rounding of other batch shapes.
RATIO_TOLERANCE = 1e-3


@dataclass
class Learner:
    """What changes while the algorithm runs; the reference, made from the initial policy, does not.

    Attributes:
        mask_model: NLPO's masking policy, if it has one of its own.
        mask_age: Updates since the masking policy was last equal to the policy.
    """

    policy: PreTrainedModel
    critic: Critic
    reference: PreTrainedModel
    optimizer: torch.optim.Optimizer
    kl_coefficient: float
    mask_model: PreTrainedModel | None = None
    mask_age: int = 0

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on, but the reference, which is where the run began."""
        return {
            "policy": self.policy.state_dict(),
            "critic": self.critic.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "kl_coefficient": self.kl_coefficient,
            "mask_model": None if self.mask_model is None else self.mask_model.state_dict(),
            "mask_age": self.mask_age,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to a saved state."""
        self.policy.load_state_dict(state["policy"])
        self.critic.load_state_dict(state["critic"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.kl_coefficient, self.mask_age = state["kl_coefficient"], state["mask_age"]
        if self.mask_model is not None:
            self.mask_model.load_state_dict(state["mask_model"])


def make_learner(policy: PreTrainedModel, config: PPOConfig) -> Learner:
    """Return the learner at update 0: reference and critic are copies of the policy as it comes."""
    critic = Critic(policy, shared=config.value_model == "shared")
    assert_no_dropout(policy)
    return Learner(
        policy=policy,
        critic=critic,
        reference=freeze(policy),
        optimizer=make_optimizer([policy, critic], config),
        kl_coefficient=config.kl_coefficient,
    )


@ALGORITHMS.register("ppo")
def train(run: Run, config: PPOConfig) -> None:
    """Train `run.policy` in place."""
    learner = make_learner(run.policy, config)
    for update in range(run.resume(learner, config.updates), config.updates):
        set_learning_rate(learner.optimizer, config, update, config.updates)
        experience = collect(run, learner, config, update, mask=None)
        losses = improve(learner, config, experience, run, update)
        line = describe(experience, learner) | losses
        learner.kl_coefficient = next_kl_coefficient(learner.kl_coefficient, experience, config)
        run.end_update(update + 1, config.updates, line, learner)


def collect(run: Run, learner: Learner, config: PPOConfig, update: int, mask: Mask | None) -> Experience:
    """Sample responses to the update's prompts, reward them and work out the advantages."""
    examples = draw_examples(run.examples, config.rollouts, run.seed, update)
    prompts = encode_prompts(learner.policy, run.tokenizer, [example.prompt for example in examples], run.task.prompt)
    settings = run.task.rollout
    uniforms = torch.rand(len(examples), settings.max_new_tokens, generator=generator(run.seed, "rollout", update))
    eos = eos_id(learner.policy, run.tokenizer)
    rollout = sample_responses(learner.policy, prompts, settings, uniforms, eos, mask)
    texts = decode_responses(run.tokenizer, rollout.responses)
    scores = torch.tensor(run.reward(examples, texts), dtype=torch.float32)
    run.observer.sampled(examples[0], texts[0], float(scores[0]))
    return evaluate_rollout(
        learner.policy,
        learner.critic,
        learner.reference,
        rollout,
        scores,
        learner.kl_coefficient,
        settings.temperature,
        config,
    )


def improve(learner: Learner, config: PPOConfig, experience: Experience, run: Run, update: int) -> dict[str, float]:
    """Take the optimiser steps of one update; return the means of what was measured on the way.

    Raises:
        TrainingError: The first minibatch does not find the policy that was sampled, or a gradient is not finite.
    """
    size = len(experience.scores)
    chance = generator(run.seed, "minibatches", update)
    seen: list[dict[str, Tensor]] = []
    for _ in range(config.epochs):
        for rows in torch.randperm(size, generator=chance).split(config.minibatch_size):
            measured = minibatch_gradient(learner, config, experience, rows, run.task.rollout.temperature)
            if not seen and measured["policy/ratio_error"] > RATIO_TOLERANCE:
                raise TrainingError(
                    f"update {update}: the first policy ratio is off 1 by {float(measured['policy/ratio_error']):.2g}: "
                    "sampling and training see different policies. This is a bug; please report it with config.toml."
                )
            if config.stop_kl is not None and seen and measured["policy/approx_kl"] > config.stop_kl:
                learner.optimizer.zero_grad(set_to_none=True)
                return _means(seen)
            measured["policy/grad_norm"] = step(learner.optimizer, config, f"update {update}")
            seen.append(measured)
    return _means(seen)


def _means(seen: Sequence[dict[str, Tensor]]) -> dict[str, float]:
    means = {name: float(torch.stack([one[name].detach().float() for one in seen]).mean()) for name in seen[0]}
    return means | {"policy/ratio_error": float(seen[0]["policy/ratio_error"]), "policy/steps": float(len(seen))}


def minibatch_gradient(
    learner: Learner, config: PPOConfig, experience: Experience, rows: Tensor, temperature: float
) -> dict[str, Tensor]:
    """Accumulate the gradient of the mean loss over the tokens of a minibatch, exactly, in micro-batches."""
    mask = experience.rollout.responses.mask
    tokens = mask[rows].sum()
    totals: dict[str, Tensor] = {}
    for part in length_batches(mask, rows, config.micro_batch_size):
        sums = token_losses(learner, config, experience, part, temperature)
        # Each micro-batch adds its sum over the whole minibatch's count; a mean of means would favour short responses.
        (sums["loss"] / tokens).backward()
        for name, value in sums.items():
            value = value.detach()
            worst = name == "ratio_error"
            totals[name] = (
                torch.maximum(totals[name], value) if worst and name in totals else totals.get(name, 0) + value
            )
    names = {"loss": "loss/total", "policy_loss": "loss/policy", "value_loss": "loss/value"}
    return {
        names.get(name, f"policy/{name}"): value if name == "ratio_error" else value / tokens
        for name, value in totals.items()
    }


def token_losses(
    learner: Learner, config: PPOConfig, experience: Experience, rows: Tensor, temperature: float
) -> dict[str, Tensor]:
    """Return sums over the tokens of some rows: the loss, its parts and what is logged of the ratio."""
    wants_entropy = config.entropy_coefficient != 0.0
    scored = score_tokens(learner.policy, learner.critic, experience.rollout, rows, temperature, wants_entropy)
    width = scored.plain.shape[1]
    mask = experience.rollout.responses.mask[rows, :width]
    old, advantages = experience.log_probs[rows, :width], experience.advantages[rows, :width]
    new = scored.restricted if config.ratio_over == "support" else scored.plain
    assert scored.values is not None
    policy_loss = rl.clipped_policy_loss(new, old, advantages, config.clip)
    value_loss = rl.value_loss(
        scored.values, experience.returns[rows, :width], experience.values[rows, :width], config.value_clip
    )
    loss = policy_loss + config.value_coefficient * value_loss
    if scored.entropy is not None:
        loss = loss - config.entropy_coefficient * scored.entropy
    if isinstance(config, NLPOConfig) and config.mass_coefficient:
        loss = loss - config.mass_coefficient * scored.log_mass
    ratio_error = ((new - old).exp() - 1.0).abs() * mask
    return {
        "loss": (loss * mask).sum(),
        "policy_loss": (policy_loss * mask).sum(),
        "value_loss": (value_loss * mask).sum(),
        "approx_kl": (rl.kl_k3(old, new) * mask).sum(),
        "clip_fraction": (ratio_error > config.clip).float().sum(),
        "ratio_error": ratio_error.max(),
    }


def next_kl_coefficient(coefficient: float, experience: Experience, config: PPOConfig) -> float:
    """Return β for the next update; it stays where it is without a target."""
    if config.kl_target is None:
        return coefficient
    if config.kl_controller == "rl4lms":
        return rl.rl4lms_kl_step(coefficient, _mean(experience.kl, experience), config.kl_target)
    sequence_kl = float(experience.kl.sum(1).mean())
    return rl.ziegler_kl_step(coefficient, sequence_kl, config.kl_target, len(experience.kl), config.kl_horizon)


def describe(experience: Experience, learner: Learner) -> dict[str, float]:
    """Return the figures of a rollout under the names that the field knows."""
    mask = experience.rollout.responses.mask
    return {
        "objective/reward": float(experience.scores.mean()),
        "objective/reward_sd": float(experience.scores.std(correction=0)),
        "objective/kl": _mean(experience.kl, experience),
        "objective/kl_vocabulary": _mean(experience.kl_vocabulary, experience),
        "objective/kl_sequence": float(experience.kl.sum(1).mean()),
        "objective/kl_coefficient": learner.kl_coefficient,
        "objective/entropy": _mean(experience.entropy, experience),
        "objective/length": float(mask.sum(1).float().mean()),
        "objective/ended": 1.0 - float(experience.rollout.truncated.float().mean()),
        "mask/size": experience.rollout.mask_size,
        "mask/mass": _mean(experience.log_mass.exp(), experience),
        "tokens": float(mask.sum()),
        "episodes": float(len(mask)),
    }


def _mean(values: Tensor, experience: Experience) -> float:
    return float(rl.masked_mean(values, experience.rollout.responses.mask))
