"""What can be set of an algorithm: one frozen dataclass each, with the paper's values where the paper gives one.

`recipes.py` fills them from a task's recipe, a preset, a file and the command line. Nothing here needs torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What every algorithm knows.

    Attributes:
        learning_rate: Peak of the schedule.
        schedule: How the learning rate goes on after the warm-up.
        warmup: Share of all optimiser steps in which the learning rate rises from 0.
        optimizer: "adamw", or "rmsprop" with A2C's decay of 0.99.
        weight_decay: On matrices; biases and norms have none.
        micro_batch_size: Sequences in one forward pass; gradients are accumulated exactly, so it changes only memory.
        max_grad_norm: Clipping norm, over policy and critic jointly.
        precision: Of the models' forward passes; weights, softmax, KL and advantages are float32 in any case.
        gradient_checkpointing: Compute activations again in the backward pass instead of keeping them.
        lora_rank: Rank of low-rank adapters that are trained in place of the weights; 0 trains all weights.
        lora_alpha: Scale of the adapters: their output counts lora_alpha / lora_rank times.
        freeze_encoder: Leave the encoder as it is, and run it once a rollout for policy, critic, reference and mask.
        log_prob_chunk: Tokens whose logits are held at once; 0 holds those of a whole micro-batch.
        sharded: Split the weights that learn, their gradients and moments over the processes of the run, which may be
            another number each time it goes on; one process has them whole.
        train_share: Share of the training examples that are learnt from, above 0; none takes all. The seed draws them,
            and those of a smaller share are among those of a larger one. A metric's own model keeps its data.
        validation_examples: Examples of the validation split that checkpoints are compared on.
        validate_every: Updates (reinforcement learning) or epochs (supervised) between two validations.
        save_every: Updates or epochs between two saved states, from which an interrupted run goes on.
        keep_last: Saved states that are kept.
    """

    learning_rate: float
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup: float = 0.0
    optimizer: Literal["adamw", "rmsprop"] = "adamw"
    weight_decay: float = 0.0
    adam_epsilon: float = 1e-8
    max_grad_norm: float = 0.5
    micro_batch_size: int = 64
    precision: Literal["float32", "bfloat16"] = "float32"
    gradient_checkpointing: bool = False
    lora_rank: int = 0
    lora_alpha: float = 16.0
    freeze_encoder: bool = False
    log_prob_chunk: int = 0
    sharded: bool = False
    train_share: float | None = None
    validation_examples: int = 200
    validate_every: int = 10
    save_every: int = 10
    keep_last: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisedConfig(Common):
    """Maximum likelihood of the references, over the response only."""

    learning_rate: float = 1e-5
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    epochs: int = 4
    batch_size: int = 32
    max_grad_norm: float = 1.0
    validate_every: int = 1
    save_every: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutConfig(Common):
    """What every algorithm knows that learns from its own samples, rewarded and held near the initial policy.

    Attributes:
        updates: How often rollouts are collected and learnt from.
        rollouts: Sequences of one update.
        samples_per_prompt: Sequences drawn for the same prompt; `rollouts` is a multiple of it.
        rollout_temperature: Temperature of the rollouts' sampler; none takes the task's.
        rollout_top_k: Top-k of the rollouts' sampler, 0 for none at all; none takes the task's.
        epochs: Passes over the rollouts of one update.
        minibatch_size: Sequences of one optimiser step.
        dropout: Rate of every dropout layer of the policy while it learns, and only then; below 1. The paper saw
            training diverge with it (§5.4).
        entropy_coefficient: Weight of the entropy over what the sampler could draw.
        kl_coefficient: First value of β; 0 turns the penalty off.
        kl_target: Nats that the controller steers to, in the controller's unit; none keeps β fixed.
        kl_controller: "rl4lms": per token, small steps; "ziegler": per sequence, with a horizon.
        kl_gain: K_β of "rl4lms"; the paper says 0.2, its code 0.1.
        kl_horizon: Samples over which "ziegler" closes a gap.
        kl_over: "support": both policies renormalised over what the sampler could draw; "vocabulary": the full softmax,
            as RL4LMs. The two differ only where sampling is truncated, and there the latter can be gamed.
        ratio_over: The same choice for the policy ratio.
        stop_kl: Approximate KL of a minibatch to the rollout policy at which the update stops early, or none.
        missing_eos_penalty: Taken off the score of a response that never ended.
        reward_scale: "running" divides the scores by their standard deviation so far; none leaves them as they are.
        reward_clip: Largest absolute value of a scaled score, or none.
    """

    learning_rate: float = 1e-6
    updates: int = 50
    rollouts: int = 64
    samples_per_prompt: int = 1
    rollout_temperature: float | None = None
    rollout_top_k: int | None = None
    epochs: int = 5
    minibatch_size: int = 64
    dropout: float | None = None
    entropy_coefficient: float = 0.0
    kl_coefficient: float = 0.1
    kl_target: float | None = None
    kl_controller: Literal["rl4lms", "ziegler"] = "rl4lms"
    kl_gain: float = 0.1
    kl_horizon: int = 10_000
    kl_over: Literal["support", "vocabulary"] = "support"
    ratio_over: Literal["support", "vocabulary"] = "support"
    stop_kl: float | None = None
    missing_eos_penalty: float = 0.0
    reward_scale: Literal["running"] | None = None
    reward_clip: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorCriticConfig(RolloutConfig):
    """What the algorithms with a critic know.

    Attributes:
        gamma: Discount a token; the paper's tables say 0.99, its text 0.95.
        value_model: "separate" starts a critic from the policy's weights, as the paper does; "shared" puts a value
            head on the policy's own trunk.
        value_clip: Widest step of a value within an update, or none.
        whiten_advantages: Give the advantages mean 0 and standard deviation 1 over the tokens that count.
        normalize_rewards: Give the tokens' rewards, the penalty included, mean 0 and standard deviation 1
            (RL4LMs' `norm_reward`).
    """

    gamma: float = 0.99
    gae_lambda: float = 0.95
    value_model: Literal["separate", "shared"] = "separate"
    value_coefficient: float = 0.5
    value_clip: float | None = None
    whiten_advantages: bool = True
    normalize_rewards: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PPOConfig(ActorCriticConfig):
    """Proximal policy optimisation (Schulman et al. 2017) with a KL penalty against the initial policy.

    Attributes:
        clip: ε of the policy ratio.
        dual_clip: Bound on a token's loss, in units of its advantage, where the advantage is negative (Ye et al. 2020,
            who take 3), or none.
    """

    clip: float = 0.2
    dual_clip: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NLPOConfig(PPOConfig):
    """Natural language policy optimisation: PPO with a sampler restricted by a masking policy (paper §4, Algorithm 1).

    Attributes:
        mask: "learned_top_p" and "learned_top_k" take the mask from the masking policy, "top_k" from the policy itself.
        top_p: The nucleus of the mask (Eq. 6).
        top_k: Tokens a top-k mask keeps.
        min_tokens_to_keep: Likeliest tokens that stay open whatever the mask says; RL4LMs keeps 100.
        always_open: Tokens that no mask closes: the end token, or every special token, as in RL4LMs.
        mask_updates: μ, the updates between two refreshes of the masking policy.
        mask_source: "periodic" refreshes the masking policy from the policy every μ updates, as the paper says;
            "frozen" keeps the initial policy, as RL4LMs really did.
        mass_coefficient: Weight of −log(probability inside the mask) in the loss. 0 in the paper; a little of it keeps
            the tokens outside, which get no gradient, from drifting up until the next refresh lets them in.
    """

    mask: Literal["learned_top_p", "learned_top_k", "top_k"] = "learned_top_p"
    top_p: float = 0.9
    top_k: int = 50
    min_tokens_to_keep: int = 1
    always_open: Literal["end", "special"] = "end"
    mask_updates: int = 5
    mask_source: Literal["periodic", "frozen"] = "periodic"
    mass_coefficient: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class A2CConfig(ActorCriticConfig):
    """Advantage actor-critic (Mnih et al. 2016): one step of the plain policy gradient on each update's rollouts.

    RL4LMs' values: λ = 1, RMSprop, advantages as they are.
    """

    gae_lambda: float = 1.0
    epochs: int = 1
    optimizer: Literal["adamw", "rmsprop"] = "rmsprop"
    adam_epsilon: float = 1e-5
    whiten_advantages: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TRPOConfig(ActorCriticConfig):
    """Trust region policy optimisation (Schulman et al. 2015), with sb3-contrib's values, which RL4LMs took over.

    Attributes:
        learning_rate: Of the critic; the policy's step comes from the trust region.
        trust_region: δ, the largest mean KL of a token between the policy before and after a step, in nats.
        cg_steps: Iterations of the conjugate gradient.
        cg_damping: Added to the Fisher matrix' diagonal.
        line_search_shrink: What the step is multiplied by until it improves and stays inside the region.
        line_search_steps: Attempts before the update is given up.
        critic_epochs: Passes of the critic over an update's rollouts.
        fisher_share: Share of the rollouts that the Fisher matrix is estimated on.
    """

    learning_rate: float = 1e-3
    minibatch_size: int = 64
    trust_region: float = 0.01
    cg_steps: int = 15
    cg_damping: float = 0.1
    line_search_shrink: float = 0.8
    line_search_steps: int = 10
    critic_epochs: int = 10
    fisher_share: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReinforceConfig(RolloutConfig):
    """REINFORCE on whole responses (Williams 1992), with the mean of the batch as baseline.

    The KL penalty is part of a response's score, as in RLOO. Ratios are clipped where `epochs` or minibatches
    leave the policy that was sampled.
    """

    epochs: int = 1
    clip: float = 0.2
    whiten_advantages: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RLOOConfig(ReinforceConfig):
    """REINFORCE leave-one-out (Kool et al. 2019; Ahmadian et al. 2024).

    A response's baseline is the mean score of the other responses to its prompt.
    """

    samples_per_prompt: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GRPOConfig(RolloutConfig):
    """Group relative policy optimisation (Shao et al. 2024): scores are standardised within a prompt's group.

    Attributes:
        clip: ε below 1.
        clip_high: ε above 1 (DAPO's clip-higher); none takes `clip`.
        scale_by: What an advantage is divided by: the group's standard deviation, or nothing (Dr. GRPO).
        loss_over: Mean over all tokens of the batch (DAPO), or of each response's mean (the paper's).
        kl_coefficient: Weight of the k3 estimate against the reference in the loss; scores carry no penalty.
    """

    samples_per_prompt: int = 8
    epochs: int = 1
    kl_coefficient: float = 0.04
    clip: float = 0.2
    clip_high: float | None = None
    scale_by: Literal["group", "nothing"] = "group"
    loss_over: Literal["tokens", "responses"] = "responses"


# What a controller of the KL penalty counts, and so the unit of its `kl_target`.
KL_UNITS: Mapping[str, str] = {"rl4lms": "nats a token", "ziegler": "nats a sequence"}

CONFIGS: Mapping[str, type[Common]] = {
    "supervised": SupervisedConfig,
    "ppo": PPOConfig,
    "nlpo": NLPOConfig,
    "a2c": A2CConfig,
    "trpo": TRPOConfig,
    "reinforce": ReinforceConfig,
    "rloo": RLOOConfig,
    "grpo": GRPOConfig,
}
