"""Settings that algorithms share; each algorithm's file extends one of these classes with its own.

Defaults are the paper's values where it states one. `runs/recipes.py` fills a class from a task's recipe, a preset, a
file and the command line; bounds stand on the fields.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from grue.bounds import NON_NEGATIVE, POSITIVE, RATE, SHARE, UNIT, Paper
from grue.lm.settings import ModelSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Common(ModelSettings):
    """Settings of every algorithm.

    Attributes:
        learning_rate: Peak of the schedule.
        schedule: Course of the learning rate after the warm-up.
        warmup: Share of all optimiser steps in which the learning rate rises from 0.
        optimizer: "adamw", or "rmsprop" with A2C's decay of 0.99.
        weight_decay: On matrices; biases and norms have none.
        adam_epsilon: Added to the denominator of AdamW and RMSprop.
        max_grad_norm: Clipping norm, over policy and critic jointly.
        micro_batch_size: Sequences in one forward pass; gradients are accumulated exactly, so it changes only memory.
        train_share: Share of the training examples to learn from; none takes all. The seed draws them, and those of a
            smaller share are among those of a larger one. A metric's own model keeps its data.
        validation_examples: Examples of the validation split that checkpoints are compared on.
        validate_every: Updates (reinforcement learning) or epochs (supervised) between two validations.
        save_every: Updates between two saved states, from which an interrupted run resumes.
        keep_last: Saved states that are kept.
    """

    learning_rate: Annotated[float, POSITIVE]
    schedule: Annotated[Literal["constant", "linear", "cosine"], Paper("constant")] = "constant"
    warmup: Annotated[float, UNIT] = 0.0
    optimizer: Annotated[Literal["adamw", "rmsprop"], Paper("adamw")] = "adamw"
    weight_decay: Annotated[float, NON_NEGATIVE, Paper("1e-6")] = 0.0
    adam_epsilon: Annotated[float, POSITIVE] = 1e-8
    max_grad_norm: Annotated[float, POSITIVE, Paper("0.5")] = 0.5
    micro_batch_size: Annotated[int, POSITIVE] = 64
    train_share: Annotated[float | None, SHARE] = None
    validation_examples: Annotated[int, POSITIVE] = 200
    validate_every: Annotated[int, POSITIVE] = 10
    save_every: Annotated[int, POSITIVE] = 10
    keep_last: Annotated[int, POSITIVE] = 2

    @property
    def length(self) -> int:
        """How long a run is, in updates (reinforcement learning) or epochs (supervised)."""
        raise NotImplementedError(f"{type(self).__name__} must define length")

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with values together, each with its cure; bounds of single values are on the fields."""
        if self.sharded and self.lora_rank:
            yield "sharded does not go with lora_rank; set sharded = false."


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutConfig(Common):
    """Settings of the algorithms that learn from their own samples, rewarded and held near the initial policy.

    Attributes:
        updates: How often rollouts are collected and learnt from.
        rollouts: Sequences of one update.
        samples_per_prompt: Sequences drawn for the same prompt; `rollouts` is a multiple of it.
        rollout_temperature: Temperature of the rollouts' sampler; none takes the task's.
        rollout_top_k: Top-k of the rollouts' sampler, 0 for no truncation; none takes the task's.
        epochs: Passes over the rollouts of one update.
        minibatch_size: Sequences of one optimiser step.
        dropout: Rate of every dropout layer of the policy while it learns, and only then. The paper saw training
            diverge with it (§5.4).
        entropy_coefficient: Weight of the entropy over what the sampler could draw.
        kl_coefficient: First value of β; 0 turns the penalty off.
        kl_target: Nats that the controller steers to, in the controller's unit; none keeps β fixed. Not the
            `target_kl` of CleanRL and SB3, which is `stop_kl` here.
        kl_controller: "rl4lms": per token, small steps; "ziegler": per sequence, with a horizon.
        kl_gain: K_β of "rl4lms".
        kl_horizon: Samples over which "ziegler" closes a gap.
        kl_over: "support": both policies renormalised over what the sampler could draw; "vocabulary": the full softmax,
            as RL4LMs. The two differ only where sampling is truncated, and there the latter can be gamed.
        ratio_over: The same choice for the policy ratio.
        stop_kl: Approximate KL of a minibatch to the rollout policy at which the update stops early (`target_kl` in
            CleanRL and SB3); none never stops.
        missing_eos_penalty: Subtracted from the score of a response that never ended.
        normalize_terms: Standardise each term of the reward before they are added, and then their sum over the batch
            (GDPO: Liu et al. 2026). A term is compared within the samples to a prompt if there are several and no
            critic, else over the batch. Rewards of single tokens count by their sum.
        reward_scale: "running" divides the scores by their standard deviation so far; none leaves them as they are.
        reward_clip: Largest absolute value of a scaled score; none does not clip.
    """

    learning_rate: Annotated[float, POSITIVE] = 1e-6
    updates: Annotated[int, POSITIVE] = 50
    rollouts: Annotated[int, POSITIVE] = 64
    samples_per_prompt: Annotated[int, POSITIVE] = 1
    rollout_temperature: Annotated[float | None, POSITIVE] = None
    rollout_top_k: Annotated[int | None, NON_NEGATIVE] = None
    epochs: Annotated[int, POSITIVE, Paper("5")] = 5
    minibatch_size: Annotated[int, POSITIVE, Paper("64 tokens")] = 64
    dropout: Annotated[float | None, RATE, Paper("none")] = None
    entropy_coefficient: float = 0.0
    kl_coefficient: Annotated[float, NON_NEGATIVE] = 0.1
    kl_target: Annotated[float | None, POSITIVE] = None
    kl_controller: Annotated[Literal["rl4lms", "ziegler"], Paper("rl4lms")] = "rl4lms"
    kl_gain: Annotated[float, Paper("0.2; its code 0.1")] = 0.1
    kl_horizon: Annotated[int, POSITIVE] = 10_000
    kl_over: Annotated[Literal["support", "vocabulary"], Paper("vocabulary")] = "support"
    ratio_over: Literal["support", "vocabulary"] = "support"
    stop_kl: Annotated[float | None, POSITIVE] = None
    missing_eos_penalty: float = 0.0
    normalize_terms: bool = False
    reward_scale: Literal["running"] | None = None
    reward_clip: Annotated[float | None, POSITIVE] = None

    @property
    def length(self) -> int:
        """How many updates a run has."""
        return self.updates

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with values together; see `Common.problems`."""
        yield from Common.problems(self)
        if self.minibatch_size > self.rollouts:
            yield f"minibatch_size {self.minibatch_size} exceeds rollouts {self.rollouts}."
        if self.rollouts % self.samples_per_prompt:
            yield f"rollouts {self.rollouts} is no multiple of samples_per_prompt {self.samples_per_prompt}."
        if self.normalize_terms and self.rollouts < 2:
            yield "normalize_terms needs at least 2 rollouts to compare; raise rollouts."


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorCriticConfig(RolloutConfig):
    """Settings of the algorithms with a critic.

    Attributes:
        gamma: Discount a token.
        gae_lambda: λ of generalised advantage estimation; 1 takes the whole return.
        value_model: "separate" starts a critic from the policy's weights, as the paper does; "shared" puts a value
            head on the policy's own trunk.
        value_start: What the value head starts from: "zero", or "regression" on the states and returns of the first
            rollouts.
        value_learning_rate: Peak learning rate of the critic's own weights; none takes `learning_rate`.
        value_coefficient: Weight of the critic's loss.
        value_clip: Widest step of a value within an update; none does not clip.
        whiten_advantages: Give the advantages mean 0 and standard deviation 1 over the tokens that count.
        normalize_rewards: Give the tokens' rewards, the penalty included, mean 0 and standard deviation 1
            (RL4LMs' `norm_reward`).
    """

    gamma: Annotated[float, UNIT, Paper("0.99; its text 0.95")] = 0.99
    gae_lambda: Annotated[float, UNIT, Paper("0.95")] = 0.95
    value_model: Annotated[Literal["separate", "shared"], Paper("separate")] = "separate"
    value_start: Literal["zero", "regression"] = "zero"
    value_learning_rate: Annotated[float | None, POSITIVE] = None
    value_coefficient: Annotated[float, Paper("0.5")] = 0.5
    value_clip: Annotated[float | None, POSITIVE] = None
    whiten_advantages: bool = True
    normalize_rewards: bool = False

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with values together; see `Common.problems`."""
        yield from RolloutConfig.problems(self)
        if self.sharded and self.value_start == "regression":
            yield 'value_start = "regression" does not go with sharded weights; set value_start = "zero".'


# What a controller of the KL penalty counts, and so the unit of its `kl_target`.
KL_UNITS: Mapping[str, str] = {"rl4lms": "nats a token", "ziegler": "nats a sequence"}
