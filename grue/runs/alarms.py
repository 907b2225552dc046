"""Warnings that training has gone wrong, computed from a run's log, each with a remedy.

They depend on the log alone: a resumed run warns where it would have warned without the stop. An alarm is given when
its condition sets in, and again only after it was quiet for `QUIET` updates.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grue.rl.scored_settings import ScoredConfig
from grue.rl.settings import ActorCriticConfig, Common, RewardedConfig, RolloutConfig

Line = Mapping[str, float]
Check = Callable[[Line, Sequence[Line], Any], str | None]

# Updates without the condition before it is reported again, so that a flickering one is reported once.
QUIET = 20
# Consecutive updates over which a condition must hold: one batch of 64 responses is too noisy.
PATIENCE = 3
# The same for clipping, which is high for some updates after every refresh of a mask or change of the reward.
CLIP_PATIENCE = 5
# Nats a token. The estimate of a small KL may be below 0 by chance, by some thousandths over a thousand tokens.
NEGATIVE_KL = -0.01
# Share of the first update's entropy. Learning a task costs some; at a tenth, all answers are nearly the same.
COLLAPSED_ENTROPY = 0.1
# Probability inside the mask. It was .26 to .51 in runs that then produced garbage, above .9 in the others.
LOW_MASS = 0.5
# Shares of responses that end before the limit: hardly any now, though a good part did at first.
FEW_ENDED = 0.05
SOME_ENDED = 0.2
# Standard deviation of equal rewards, by rounding of their mean.
NO_SPREAD = 1e-6
# Share of tokens whose ratio leaves the clip range; healthy runs have .05 to .2.
MUCH_CLIPPED = 0.3
# Updates in which a critic must have been worse than a constant, and by how much; a new one is about as good.
CRITIC_PATIENCE = 5
WORSE_THAN_A_CONSTANT = -0.05
# Lines that `alarms` reads.
RECENT = QUIET + CLIP_PATIENCE


@dataclass(frozen=True, slots=True)
class Alarm:
    """A warning.

    Attributes:
        message: What happened, what it means, and what to do about it.
    """

    code: str
    message: str


def alarms(first: Line, recent: Sequence[Line], config: Common) -> list[Alarm]:
    """Return the alarms that the latest line of a run's log raises.

    Args:
        first: Line of the run's first update.
        recent: Lines of the updates up to now, the latest last; more than the last `RECENT` are not looked at. Lines
            of validations are not among them.
        config: The run's settings; supervised training has no alarms.
    """
    if not isinstance(config, RewardedConfig):
        return []
    recent = recent[-RECENT:]
    raised = []
    checks = {**REWARDED, **ROLLOUTS} if isinstance(config, RolloutConfig) else REWARDED
    for code, check in checks.items():
        message = check(first, recent, config)
        before = range(max(1, len(recent) - QUIET), len(recent))
        if message and not any(check(first, recent[:end], config) for end in before):
            raised.append(Alarm(code, message))
    return raised


def _latest(recent: Sequence[Line], name: str, count: int) -> list[float] | None:
    """Return a figure's last `count` values, or None where they are not all there and finite."""
    values = [line[name] for line in recent[-count:] if math.isfinite(line.get(name, math.nan))]
    return values if len(values) == count else None


def _negative_kl(first: Line, recent: Sequence[Line], config: RolloutConfig) -> str | None:
    values = _latest(recent, "objective/kl", PATIENCE)
    if values is None or max(values) >= NEGATIVE_KL:
        return None
    if config.kl_over == "vocabulary":
        why = (
            "The sampler is truncated (top-k, top-p, a minimum length or a mask) while the penalty counts the whole "
            'vocabulary, so moving mass out of what can be sampled pays. Set kl_over = "support".'
        )
    else:
        why = (
            "Sampling and scoring see different policies, or the batch is too small to tell. "
            'Set precision = "float32", or raise rollouts.'
        )
    return f"the mean KL has been negative for {PATIENCE} updates (now {values[-1]:.3f} nats a token). {why}"


def _collapsed_entropy(first: Line, recent: Sequence[Line], config: RolloutConfig) -> str | None:
    values, start = _latest(recent, "objective/entropy", PATIENCE), first.get("objective/entropy", 0.0)
    if values is None or max(values) >= COLLAPSED_ENTROPY * start:
        return None
    return (
        f"entropy has fallen to {values[-1]:.3f} nats a token, from {start:.3f} in the first update: "
        "the policy says nearly the same every time. Lower learning_rate, or raise kl_coefficient or "
        "entropy_coefficient."
    )


def _falling_mass(first: Line, recent: Sequence[Line], config: RolloutConfig) -> str | None:
    values, start = _latest(recent, "mask/mass", PATIENCE), first.get("mask/mass", 0.0)
    if values is None or max(values) >= LOW_MASS or start < LOW_MASS:
        return None
    mass = f"of the policy's probability lies inside what can be sampled, {start:.0%} did in the first update"
    if config.mask is None:
        cure = "Lower learning_rate, or widen top_k and top_p of the task's rollout."
    else:
        more = f"Raise mass_coefficient above {config.mass_coefficient:g}"
        cure = f"{more if config.mass_coefficient else 'Set mass_coefficient = 0.1'}{_shorter_refresh(config)}."
    return f"only {values[-1]:.0%} {mass}; tokens outside get no gradient and may drift. {cure}"


def _shorter_refresh(config: RolloutConfig) -> str:
    if config.mask == "top_k" or (config.mask_source == "periodic" and config.mask_updates == 1):
        return ""
    if config.mask_source == "frozen":
        return ', or refresh the mask: mask_source = "periodic"'
    return f", or refresh the mask more often: mask_updates below {config.mask_updates}"


def _endless_responses(first: Line, recent: Sequence[Line], config: RewardedConfig) -> str | None:
    values, start = _latest(recent, "objective/ended", PATIENCE), first.get("objective/ended", 0.0)
    if values is None or max(values) >= FEW_ENDED or start < SOME_ENDED:
        return None
    penalty = config.missing_eos_penalty
    return (
        f"{values[-1]:.0%} of the responses end by themselves, {start:.0%} did in the first update; the others are "
        f"cut at the limit. {f'Raise missing_eos_penalty above {penalty:g}' if penalty else 'Set missing_eos_penalty'},"
        f" or {'raise kl_coefficient' if isinstance(config, RolloutConfig) else 'lower learning_rate'}."
    )


def _flat_reward(first: Line, recent: Sequence[Line], config: RewardedConfig) -> str | None:
    values = _latest(recent, "objective/reward_sd", 1)
    if values is None or values[0] > NO_SPREAD:
        return None
    cure = "Take a --reward that tells them apart, or raise rollouts"
    if isinstance(config, ScoredConfig) and config.data is not None:
        cure = "Take a file whose rewards tell responses apart"
    return (
        f"all responses have the same reward ({recent[-1].get('objective/reward', 0.0):.3f}), so there is nothing to "
        f"learn from them. {cure}; if it is the highest reward there is, stop."
    )


def _flat_groups(first: Line, recent: Sequence[Line], config: RewardedConfig) -> str | None:
    values, spread = _latest(recent, "objective/flat_groups", PATIENCE), _latest(recent, "objective/reward_sd", 1)
    if values is None or min(values) < 1.0 or spread is None or spread[0] <= NO_SPREAD:
        return None
    cure = "Raise samples_per_prompt or rollout_temperature, set redraws, or take a --reward that tells responses"
    if isinstance(config, ScoredConfig) and config.data is not None:
        cure = "Take a file whose rewards tell responses"
    return (
        f"in {PATIENCE} updates no prompt had responses with different rewards, so nothing was learnt from comparing "
        f"them. {cure} to one prompt apart."
    )


def _much_clipping(first: Line, recent: Sequence[Line], config: RolloutConfig) -> str | None:
    values = _latest(recent, "policy/clip_fraction", CLIP_PATIENCE)
    if values is None or min(values) <= MUCH_CLIPPED:
        return None
    lower = "learning_rate or epochs" if config.epochs > 1 else "learning_rate"
    stop = "set stop_kl = 0.02" if config.stop_kl is None else f"set stop_kl below {config.stop_kl:g}"
    return (
        f"the ratio of more than {MUCH_CLIPPED:.0%} of the tokens has been clipped for {CLIP_PATIENCE} updates (now "
        f"{values[-1]:.0%}): the steps are too large. Lower {lower}, or {stop}."
    )


def _useless_critic(first: Line, recent: Sequence[Line], config: RolloutConfig) -> str | None:
    values = _latest(recent, "critic/explained_variance", CRITIC_PATIENCE)
    if values is None or max(values) >= WORSE_THAN_A_CONSTANT or not isinstance(config, ActorCriticConfig):
        return None
    begin = "" if config.value_start == "regression" else 'Set value_start = "regression", '
    lower = f"{'lower' if begin else 'Lower'} value_learning_rate"
    return (
        f"the critic has been worse than a constant for {CRITIC_PATIENCE} updates (explained variance now "
        f"{values[-1]:.2f}), which makes advantages noisier. {begin}{lower}, or raise rollouts."
    )


REWARDED: Mapping[str, Check] = {
    "endless-responses": _endless_responses,
    "flat-reward": _flat_reward,
    "flat-groups": _flat_groups,
}
"""For all algorithms that learn from rewards."""
ROLLOUTS: Mapping[str, Check] = {
    "negative-kl": _negative_kl,
    "collapsed-entropy": _collapsed_entropy,
    "falling-mass": _falling_mass,
    "much-clipping": _much_clipping,
    "useless-critic": _useless_critic,
}
"""For algorithms that follow the gradient of their own samples' reward."""
