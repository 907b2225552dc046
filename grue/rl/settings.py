"""Settings that algorithms share; the file of each algorithm extends one of these classes.

Defaults are the paper's values where it states one. `runs/recipes.py` fills a class from a task's recipe, a preset, a
file and the command line; the fields carry their bounds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Generic, Literal, TypeVar

from grue.bounds import NON_NEGATIVE, POSITIVE, RATE, SHARE, UNIT, Bounds, Paper
from grue.lm.settings import ModelSettings
from grue.tasks import Generation, Task

MaskName = Literal["learned_top_p", "learned_top_k", "top_k"]


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
        micro_batch_size: Sequences in one forward pass of scoring and training, whole groups of scored responses; it
            affects only memory. The samples of an update are drawn as one batch.
        train_share: Share of the training examples to learn from, drawn with the seed; none takes all. A smaller share
            is a subset of a larger one.
        validation_examples: Examples of the validation split that checkpoints are compared on, drawn by the hash of
            their ids.
        validate_on: Which answers are compared: "decoding", drawn as in evaluation, or "rollouts", sampled like
            rollouts, without a mask.
        validate_every: Updates (reinforcement learning) or epochs (supervised) between two validations.
        keep: Which policy becomes the run's checkpoint: the "best" on validation, including the initial policy (of
            equals, the earlier), or the "last".
        save_every: Updates between two saved states, from which an interrupted run resumes.
        keep_last: How many saved states are kept.
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
    validate_on: Literal["decoding", "rollouts"] = "decoding"
    validate_every: Annotated[int, POSITIVE] = 10
    keep: Literal["best", "last"] = "best"
    save_every: Annotated[int, POSITIVE] = 10
    keep_last: Annotated[int, POSITIVE] = 2

    @property
    def length(self) -> int:
        """The length of a run, in updates (reinforcement learning) or epochs (supervised)."""
        raise NotImplementedError(f"{type(self).__name__} must define length")

    def problems(self) -> Iterator[str]:
        """Yield invalid combinations of values, each with its cure; bounds of single values are on the fields."""
        if self.sharded and self.lora_rank:
            yield "sharded cannot be combined with lora_rank; set sharded = false."

    def idle(self) -> Iterator[tuple[str, str]]:
        """Yield settings that the others make ineffective, by name, each with its cure.

        They are refused if a user sets them, but not if a recipe or a preset does.
        """
        if not self.lora_rank:
            yield "lora_alpha", "lora_alpha does nothing where lora_rank is 0; set lora_rank, or leave it out."


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardedConfig(Common):
    """Settings of algorithms with a reward.

    Attributes:
        updates: How many times responses are collected and learnt from.
        rollouts: Sequences of one update.
        samples_per_prompt: Sequences drawn for the same prompt; `rollouts` is a multiple of it.
        select: Which training prompts to learn from; none takes all. "hard:K": the K on which the initial policy's
            answers have the lowest rewards (BLEUBERI: Chang et al. 2025). "limr:THETA:RUN": those whose rewards
            followed the mean of the finished run in the folder RUN, with an impact above THETA (LIMR: Li et al. 2025).
            Its cost counts as training.
        reference: What the KL penalty and other terms of the loss compare the policy with; none takes the initial
            policy. "soup:A,B" takes the mean of the weights of two or more runs or checkpoints (SALSA: Chegini et al.
            2024), one more model in memory. Validation's KL is still from the initial policy.
        rollout_temperature: Temperature of the rollouts' sampler; none takes the task's.
        rollout_top_k: Top-k of the rollouts' sampler, 0 for no truncation; none takes the task's.
        mask: Restricts the sampler as in NLPO: "learned_top_p" and "learned_top_k" take the mask from the masking
            policy, "top_k" from the policy itself; none uses no mask.
        top_p: The nucleus of the mask.
        top_k: Tokens that a top-k mask keeps.
        min_tokens_to_keep: How many of the likeliest tokens stay open in any case; RL4LMs keeps 100.
        always_open: Tokens that no mask closes: the end token, or every special token, as in RL4LMs.
        mask_updates: μ, the updates between two refreshes of the masking policy.
        mask_source: "periodic" refreshes the masking policy from the policy every μ updates, as the paper says;
            "frozen" keeps the initial policy, as RL4LMs' code did.
        redraws: How many times a group whose rewards are all equal is redrawn, with another prompt if there is one
            (DAPO's dynamic sampling: Yu et al. 2025, §3.2); one that stays flat teaches a KL penalty alone.
        calibration_samples: Samples of the initial policy per prompt. The reward becomes the share of them that score
            lower, ties counting half (InfAlign: Balashankar et al. 2024); 0 leaves it as it is.
        calibration_tilt: t of InfAlign's transformation of that share u, sign(t)·exp(t·u): above 0 for best-of-n,
            below 0 for worst-of-n; 0 leaves u.
        epochs: Passes over the rollouts of one update.
        minibatch_size: Sequences of one optimiser step; of scored responses, whole groups, such as pairs, at least one.
        dropout: Rate of every dropout layer of the policy while it learns from responses, and only then. In the paper,
            training diverged with it (§5.4).
        supervised_coefficient: Weight of the references' negative log-likelihood, a mean over tokens (PPO-ptx: Ouyang
            et al. 2022).
        missing_eos_penalty: Subtracted from the score of a response that never ended.
        overlong_buffer: Tokens before the rollouts' length limit over which a response's score falls by up to
            `overlong_penalty`, linearly (DAPO: Yu et al. 2025, Eq. 13); 0 turns it off.
        overlong_penalty: Subtracted from the score of a response that fills the limit.
        normalize_terms: Standardise each term of the reward before they are added, and then their sum over the batch
            (GDPO: Liu et al. 2026). A term is standardised within the samples of a prompt if there are several and no
            critic, else over the batch.
        reward_scale: "running" divides the scores by their standard deviation so far; none leaves them as they are.
        reward_clip: Largest absolute value of a scaled score; none does not clip.
    """

    learning_rate: Annotated[float, POSITIVE] = 1e-6
    updates: Annotated[int, POSITIVE] = 50
    rollouts: Annotated[int, POSITIVE] = 64
    samples_per_prompt: Annotated[int, POSITIVE] = 1
    select: str | None = None
    reference: str | None = None
    rollout_temperature: Annotated[float | None, POSITIVE] = None
    rollout_top_k: Annotated[int | None, NON_NEGATIVE] = None
    mask: Annotated[MaskName | None, Paper("learned_top_p, of NLPO")] = None
    top_p: Annotated[float, UNIT] = 0.9
    top_k: Annotated[int, POSITIVE] = 50
    min_tokens_to_keep: Annotated[int, POSITIVE, Paper("1; its code 100")] = 1
    always_open: Literal["end", "special"] = "end"
    mask_updates: Annotated[int, POSITIVE] = 5
    mask_source: Annotated[Literal["periodic", "frozen"], Paper("periodic; its code frozen")] = "periodic"
    redraws: Annotated[int, NON_NEGATIVE] = 0
    calibration_samples: Annotated[int, NON_NEGATIVE] = 0
    calibration_tilt: float = 0.0
    epochs: Annotated[int, POSITIVE, Paper("5")] = 5
    minibatch_size: Annotated[int, POSITIVE, Paper("64 tokens")] = 64
    dropout: Annotated[float | None, RATE, Paper("none")] = None
    supervised_coefficient: Annotated[float, NON_NEGATIVE] = 0.0
    missing_eos_penalty: float = 0.0
    overlong_buffer: Annotated[int, NON_NEGATIVE] = 0
    overlong_penalty: Annotated[float, NON_NEGATIVE] = 1.0
    normalize_terms: bool = False
    reward_scale: Literal["running"] | None = None
    reward_clip: Annotated[float | None, POSITIVE] = None

    @property
    def length(self) -> int:
        """Number of updates of a run."""
        return self.updates

    @property
    def prompts(self) -> int:
        """Prompts of one update."""
        return self.rollouts // self.samples_per_prompt

    @property
    def greedy(self) -> bool:
        """Whether rollouts always take the likeliest token."""
        return False

    def problems(self) -> Iterator[str]:
        """Yield invalid combinations of values; see `Common.problems`."""
        yield from Common.problems(self)
        if self.freeze_encoder and self.reference is not None:
            yield "reference cannot be combined with freeze_encoder, under which all models use the initial encoder."
        if self.minibatch_size > self.rollouts:
            yield f"minibatch_size {self.minibatch_size} exceeds rollouts {self.rollouts}."
        if self.rollouts % self.samples_per_prompt:
            yield f"rollouts {self.rollouts} is not a multiple of samples_per_prompt {self.samples_per_prompt}."
        if self.normalize_terms and self.rollouts < 2:
            yield "normalize_terms needs at least 2 rollouts to compare; raise rollouts."
        if self.normalize_terms and self.calibration_samples:
            yield "calibration_samples cannot be combined with normalize_terms: each compares rewards in its own way."
        defaults = {setting.name: setting.default for setting in fields(RewardedConfig)}
        for name in OF_A_MASK if self.mask is None else ():
            if getattr(self, name) != defaults[name]:
                yield f"{name} applies only to a mask; set mask, or leave it out."
        for name, switch in OF_A_SWITCH.items():
            read = name not in getattr(self, "unread", ())  # `problems` of ScoredConfig refuses the unread ones
            if read and getattr(self, name) != defaults[name] and not getattr(self, switch):
                yield f"{name} does nothing where {switch} is 0; set {switch}, or leave it out."
        if self.redraws and self.samples_per_prompt == 1:
            yield "redraws needs groups of several samples; set samples_per_prompt to 2 or more."

    def idle(self) -> Iterator[tuple[str, str]]:
        """Yield settings that do nothing; see `Common.idle`."""
        yield from Common.idle(self)
        for name in UNREAD_BY_MASK.get(self.mask or "", ()):
            yield name, f'{name} does nothing with mask = "{self.mask}"; set another mask, or leave it out.'
        if self.mask in ("learned_top_p", "learned_top_k") and self.mask_source == "frozen":
            yield (
                "mask_updates",
                'mask_updates does nothing with mask_source = "frozen"; set mask_source = "periodic", or leave it out.',
            )


OF_A_MASK = ("top_p", "top_k", "min_tokens_to_keep", "always_open", "mask_updates", "mask_source")
"""Settings without effect if there is no mask."""
UNREAD_BY_MASK = {
    "learned_top_p": ("top_k",),
    "learned_top_k": ("top_p",),
    "top_k": ("top_p", "mask_updates", "mask_source"),
}
"""Mask → the mask settings that it does not read."""
OF_A_SWITCH = {"overlong_penalty": "overlong_buffer", "calibration_tilt": "calibration_samples"}
"""Setting → the setting that enables it."""


def rollout_settings(task: Task, config: RewardedConfig) -> Generation:
    """Return how rollouts are sampled: by the task's settings, overridden by the algorithm's.

    If the algorithm is greedy, equally likely tokens stay open, and uniforms of 0 take the first.
    """
    if config.greedy:
        return replace(task.rollout, temperature=1.0, top_k=1, top_p=1.0)
    overrides = {"temperature": config.rollout_temperature, "top_k": config.rollout_top_k}
    return replace(task.rollout, **{key: value for key, value in overrides.items() if value is not None})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutConfig(RewardedConfig):
    """Settings of policy-gradient algorithms.

    Attributes:
        entropy_coefficient: Weight of the entropy over the tokens that the sampler could draw; TRPO's is over the set
            of its ratio, the whole vocabulary with `ratio_over = "vocabulary"`.
        mass_coefficient: Weight of −log(probability inside the mask) in the loss. It keeps the tokens outside, which
            get no gradient, from becoming likelier. 0 in the paper.
        kl_coefficient: Initial value of β; 0 turns the penalty off.
        kl_target: KL that the controller aims for, in nats per token or sequence as it counts; none keeps β fixed. Not
            the `target_kl` of CleanRL and SB3, which is `stop_kl` here.
        kl_controller: "rl4lms": per token, small steps; "ziegler": per sequence, with a horizon.
        kl_gain: K_β of "rl4lms".
        kl_horizon: Samples over which "ziegler" closes a gap.
        kl_over: "support": both policies renormalised over the tokens that the sampler could draw; "vocabulary": the
            full softmax, as in RL4LMs, which can be gamed if sampling is truncated.
        ratio_over: The same choice for the policy ratio.
        importance_cap: Largest weight of a token's policy loss in truncated importance sampling, min(π/π_sampler, cap),
            with π of the training pass before the first step (Yao et al. 2025; TRL's `token_truncate`, verl's
            `rollout_is = "token"`); none does not weight. In float32 all weights are 1.
        stop_kl: Approximate KL of a minibatch to the rollout policy at which the update stops early (`target_kl` in
            CleanRL and SB3); none never stops.
    """

    entropy_coefficient: float = 0.0
    mass_coefficient: Annotated[float, NON_NEGATIVE] = 0.0
    kl_coefficient: Annotated[float, NON_NEGATIVE] = 0.1
    kl_target: Annotated[float | None, POSITIVE] = None
    kl_controller: Annotated[Literal["rl4lms", "ziegler"], Paper("rl4lms")] = "rl4lms"
    kl_gain: Annotated[float, Bounds(least=0.0, below=5.0), Paper("0.2; its code 0.1")] = 0.1
    kl_horizon: Annotated[int, POSITIVE] = 10_000
    kl_over: Annotated[Literal["support", "vocabulary"], Paper("vocabulary")] = "support"
    ratio_over: Literal["support", "vocabulary"] = "support"
    importance_cap: Annotated[float | None, Bounds(least=1.0)] = 2.0
    stop_kl: Annotated[float | None, POSITIVE] = None

    def problems(self) -> Iterator[str]:
        """Yield invalid combinations of values; see `Common.problems`."""
        yield from RewardedConfig.problems(self)
        if self.mass_coefficient and self.mask is None:
            yield "mass_coefficient applies only to a mask; set mask, or leave it out."
        ziegler = self.kl_target is not None and self.kl_controller == "ziegler"
        if ziegler and self.rollouts >= 5 * self.kl_horizon:  # an update changes β by up to a fifth of their ratio
            yield (
                f"kl_horizon {self.kl_horizon} is so short for {self.rollouts} rollouts that kl_coefficient could fall "
                f"to 0 or below in one update; set kl_horizon above {self.rollouts // 5}."
            )

    def idle(self) -> Iterator[tuple[str, str]]:
        """Yield settings that do nothing; see `Common.idle`."""
        yield from RewardedConfig.idle(self)
        if not self.kl_coefficient:
            yield "kl_target", "kl_target does nothing where kl_coefficient is 0; set kl_coefficient, or leave it out."
        for name in ("kl_controller", "kl_gain", "kl_horizon") if self.kl_target is None else ():
            yield name, f"{name} does nothing without kl_target; set kl_target, or leave it out."
        unread = "kl_horizon" if self.kl_controller == "rl4lms" else "kl_gain"
        if self.precision == "float32":
            yield "importance_cap", 'importance_cap does nothing with precision = "float32"; leave it out.'
        yield unread, f'{unread} does nothing with kl_controller = "{self.kl_controller}"; leave it out.'


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorCriticConfig(RolloutConfig):
    """Settings of algorithms with a critic.

    Attributes:
        gamma: Discount per token.
        gae_lambda: λ of generalised advantage estimation; 1 uses the whole return.
        value_model: "separate" starts a critic from the policy's weights, as the paper does; "shared" puts a value
            head on the policy's own trunk.
        value_start: How the value head is initialised: "zero", or "regression" on the states and returns of the first
            rollouts.
        value_learning_rate: Peak learning rate of the critic's own weights; none takes `learning_rate`.
        value_coefficient: Weight of the critic's loss.
        value_clip: Largest change of a value within an update; none does not clip.
        whiten_advantages: Give the advantages mean 0 and standard deviation 1 over the tokens that count.
        normalize_rewards: Give the tokens' rewards, the penalty included, mean 0 and standard deviation 1
            (RL4LMs' `norm_reward`).
    """

    gamma: Annotated[float, UNIT, Paper("0.99; its text 0.95")] = 0.99
    gae_lambda: Annotated[float, UNIT, Paper("0.95")] = 0.95
    value_model: Annotated[Literal["separate", "shared"], Paper("separate")] = "separate"
    value_start: Literal["zero", "regression"] = "zero"
    value_learning_rate: Annotated[float | None, POSITIVE] = None
    value_coefficient: Annotated[float, NON_NEGATIVE, Paper("0.5")] = 0.5
    value_clip: Annotated[float | None, POSITIVE] = None
    whiten_advantages: bool = True
    normalize_rewards: bool = False

    def problems(self) -> Iterator[str]:
        """Yield invalid combinations of values; see `Common.problems`."""
        yield from RolloutConfig.problems(self)
        if self.sharded and self.value_start == "regression":
            yield 'value_start = "regression" cannot be combined with sharded; set value_start = "zero".'


# Controller of the KL penalty → the unit of its `kl_target`.
KL_UNITS: Mapping[str, str] = {"rl4lms": "nats a token", "ziegler": "nats a sequence"}


# --- cards ------------------------------------------------------------------------------------------------------------


C = TypeVar("C", bound=Common)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlgorithmCard(Generic[C]):
    """`CARD` of a module of `grue/algorithms/cards`; the fields are those of `grue.rl.trainer.Algorithm`."""

    settings: type[C]
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    without_effect: frozenset[str] = frozenset()
