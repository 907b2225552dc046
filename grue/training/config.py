"""What can be set of an algorithm: its configuration, with the paper's values where the paper gives one.

A recipe in a task file, `--config FILE` and `--set key=value` fill these dataclasses, in that order of rising weight.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from grue.errors import ConfigError, UnknownName, did_you_mean
from grue.files import from_dict, plain
from grue.tasks import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What every algorithm knows.

    Attributes:
        learning_rate: Peak of the schedule.
        schedule: How the learning rate goes on after the warm-up.
        warmup: Share of all optimiser steps in which the learning rate rises from 0.
        micro_batch_size: Sequences in one forward pass; gradients are accumulated exactly, so it changes only memory.
        max_grad_norm: Clipping norm, over policy and critic jointly.
        validation_examples: Examples of the validation split that checkpoints are compared on.
        validate_every: Updates (reinforcement learning) or epochs (supervised) between two validations.
        save_every: Updates or epochs between two saved states, from which an interrupted run goes on.
    """

    learning_rate: float
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup: float = 0.0
    weight_decay: float = 0.0
    adam_epsilon: float = 1e-8
    max_grad_norm: float = 0.5
    micro_batch_size: int = 64
    validation_examples: int = 200
    validate_every: int = 10
    save_every: int = 10


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
class PPOConfig(Common):
    """Proximal policy optimisation (Schulman et al. 2017) with a KL penalty against the initial policy.

    Attributes:
        updates: How often rollouts are collected and learnt from.
        rollouts: Sequences of one update.
        epochs: Passes over the rollouts of one update.
        minibatch_size: Sequences of one optimiser step.
        gamma: Discount a token; the paper's tables say 0.99, its text 0.95.
        clip: ε of the policy ratio.
        value_clip: Widest step of a value, or none.
        value_model: "separate" starts a critic from the policy's weights, as the paper does; "shared" puts a value
            head on the policy's own trunk.
        kl_coefficient: First value of β; 0 turns the penalty off.
        kl_target: Nats that the controller steers to, in the controller's unit; none keeps β fixed.
        kl_controller: "rl4lms": per token, small steps; "ziegler": per sequence, with a horizon.
        kl_over: "support": both policies renormalised over what the sampler could draw; "vocabulary": the full softmax,
            as RL4LMs. The two differ only where sampling is truncated, and there the latter can be gamed.
        ratio_over: The same choice for the policy ratio.
        stop_kl: Approximate KL of a minibatch to the rollout policy at which the update stops early, or none.
        missing_eos_penalty: Taken off the score of a response that never ended.
    """

    learning_rate: float = 1e-6
    updates: int = 50
    rollouts: int = 64
    epochs: int = 5
    minibatch_size: int = 64
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    value_clip: float | None = None
    value_coefficient: float = 0.5
    entropy_coefficient: float = 0.0
    value_model: Literal["separate", "shared"] = "separate"
    whiten_advantages: bool = True
    kl_coefficient: float = 0.1
    kl_target: float | None = None
    kl_controller: Literal["rl4lms", "ziegler"] = "rl4lms"
    kl_horizon: int = 10_000
    kl_over: Literal["support", "vocabulary"] = "support"
    ratio_over: Literal["support", "vocabulary"] = "support"
    stop_kl: float | None = None
    missing_eos_penalty: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NLPOConfig(PPOConfig):
    """Natural language policy optimisation: PPO with a sampler restricted by a masking policy (paper §4, Algorithm 1).

    Attributes:
        mask: "learned_top_p" and "learned_top_k" take the mask from the masking policy, "top_k" from the policy itself.
        top_p: The nucleus of the mask (Eq. 6).
        top_k: Tokens a top-k mask keeps.
        min_tokens_to_keep: Likeliest tokens that stay open whatever the mask says; RL4LMs keeps 100.
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
    mask_updates: int = 5
    mask_source: Literal["periodic", "frozen"] = "periodic"
    mass_coefficient: float = 0.0


CONFIGS: Mapping[str, type[Common]] = {"supervised": SupervisedConfig, "ppo": PPOConfig, "nlpo": NLPOConfig}

# The published code, as it really ran: facts that a preset changes on top of the recipe.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {"mask_source": "periodic", "mass_coefficient": 0.0, "kl_over": "vocabulary", "ratio_over": "support"},
    "rl4lms": {
        "mask_source": "frozen",
        "mass_coefficient": 0.0,
        "min_tokens_to_keep": 100,
        "kl_over": "vocabulary",
        "ratio_over": "vocabulary",
    },
    "stable": {"mask_source": "periodic", "mass_coefficient": 0.1, "kl_over": "support", "ratio_over": "support"},
}


def split_algorithm(name: str) -> tuple[str, ...]:
    """Split `supervised+nlpo` into its stages.

    Raises:
        UnknownName: A stage is no algorithm.
        ConfigError: A warm start that is not supervised.
    """
    stages = tuple(name.split("+"))
    for stage in stages:
        if stage not in CONFIGS:
            known = [*CONFIGS, *(f"supervised+{other}" for other in CONFIGS if other != "supervised")]
            raise UnknownName(
                f"There is no algorithm {stage!r}.{did_you_mean(stage, known)} Known: {', '.join(known)}."
            )
    if len(stages) > 2 or (len(stages) == 2 and (stages[0] != "supervised" or stages[1] == "supervised")):
        raise ConfigError(f"{name!r} is no chain of stages; write supervised+ALGORITHM, such as supervised+nlpo.")
    return stages


def make_config(task: Task, algorithm: str, overrides: Mapping[str, Any], preset: str | None = None) -> Common:
    """Return the configuration of an algorithm on a task: default < recipe < preset < overrides.

    The recipe of a warm start, `[recipes."supervised+ppo"]`, is laid over that of its last stage, `[recipes.ppo]`.

    Raises:
        ConfigError: A key that the algorithm does not have, or a value that cannot be.
    """
    stage = split_algorithm(algorithm)[-1]
    recipe: dict[str, Any] = {**task.recipes.get(stage, {}), **task.recipes.get(algorithm, {})}
    if preset is not None:
        if preset not in PRESETS:
            raise UnknownName(
                f"There is no preset {preset!r}.{did_you_mean(preset, PRESETS)} Known: {', '.join(PRESETS)}."
            )
        if stage != "nlpo":
            raise ConfigError(f"The preset {preset!r} is one of NLPO's; {algorithm!r} has none.")
        recipe |= PRESETS[preset]
    config = from_dict(CONFIGS[stage], {**recipe, **overrides}, f"{algorithm} on {task.suite}/{task.name}")
    _validate(config, f"{algorithm} on {task.suite}/{task.name}")
    return config


def _validate(config: Common, where: str) -> None:
    positive = {"learning_rate", "epochs", "updates", "rollouts", "batch_size", "minibatch_size", "micro_batch_size"}
    positive |= {"validate_every", "save_every", "validation_examples", "mask_updates", "max_grad_norm"}
    unit = {"gamma", "gae_lambda", "warmup", "top_p"}
    for key, value in plain(config).items():
        if key in positive and value <= 0:
            raise ConfigError(f"{where}: {key} must be above 0, found {value}.")
        if key in unit and not 0.0 <= value <= 1.0:
            raise ConfigError(f"{where}: {key} must lie between 0 and 1, found {value}.")
        if key in ("kl_target", "stop_kl", "value_clip") and value is not None and value <= 0:
            raise ConfigError(f"{where}: {key} must be above 0, found {value}; leave it out to turn it off.")
    if isinstance(config, PPOConfig) and config.minibatch_size > config.rollouts:
        raise ConfigError(f"{where}: minibatch_size {config.minibatch_size} exceeds rollouts {config.rollouts}.")
