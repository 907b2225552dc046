"""A diagnosis in words: each figure, what it means, and what to do if it is bad."""

from collections.abc import Iterator
from dataclasses import dataclass

from grue.algorithms.cards.a2c import A2CConfig
from grue.algorithms.cards.grpo import GRPOConfig
from grue.algorithms.cards.rloo import RLOOConfig
from grue.algorithms.cards.trpo import TRPOConfig
from grue.rl.settings import ActorCriticConfig, RolloutConfig
from grue.runs.alarms import FEW_ENDED, MUCH_CLIPPED, NO_SPREAD, WORSE_THAN_A_CONSTANT
from grue.runs.diagnose import Diagnosis

# Share of the rewards' variance within prompts; below it, most of what a baseline blind to prompts leaves is noise.
MOSTLY_PROMPTS = 0.5
# Share of prompts whose samples all have one reward.
MANY_FLAT = 0.5
# Nats a token that an update may move; PPO's usual bounds (`stop_kl`, TRPO's δ) are 0.01 to 0.1.
FAR = 0.1
# Nats a response that a run should be able to reach; KL grows with the square of the distance if all updates agree.
NEAR = 0.1
# Nats a token; samples to a prompt are nearly the same.
LOW_ENTROPY = 0.05


@dataclass(frozen=True, slots=True)
class Remark:
    """A figure of a diagnosis.

    Attributes:
        about: "gradient", "reward", "critic", "update", "responses" or "time".
        seen: The figure, in words.
        cure: What to do; None if nothing is wrong.
    """

    about: str
    seen: str
    meaning: str
    cure: str | None = None


def remarks(diagnosis: Diagnosis) -> list[Remark]:
    """Return the remarks on a diagnosis."""
    config = diagnosis.settings
    return [
        _gradient(diagnosis, config),
        _reward(diagnosis, config),
        *_critic(diagnosis, config),
        _update(diagnosis, config),
        _responses(diagnosis),
        _time(diagnosis),
    ]


def _gradient(diagnosis: Diagnosis, config: RolloutConfig) -> Remark:
    signal = diagnosis.gradient
    total = config.updates * config.rollouts
    meaning = "|G|² over a batch's noise; it is 1 at the gradient noise scale, tr(Σ)/|G|² (McCandlish et al. 2018)."
    if signal.ratio is None or signal.low is None or signal.high is None:
        finding = "0 in every batch" if not signal.norm else "the same in every batch"
        cure = None if signal.norm else "Take a --reward that tells responses apart."
        return Remark("gradient", finding, "There is no noise to compare with.", cure)
    ratio = f"{signal.ratio:.2g} (95 % interval {signal.low:.2g} to {signal.high:.2g})"
    each = f"{signal.batches} batches of {signal.batch} rollouts"
    if signal.noise_scale is None:
        least = "" if signal.fewest is None else f"; 1 at {_round(signal.fewest)} rollouts or more"
        return Remark(
            "gradient",
            f"cannot be told from noise: signal-to-noise {ratio} from {each}{least}",
            meaning,
            f"Raise --batches above {signal.batches} to see smaller signals; for the run, raise rollouts, or take a "
            "reward that varies more between samples to a prompt.",
        )
    assert signal.fewest is not None and signal.most is not None
    within = f"({_round(signal.fewest)} to {_round(signal.most)})"
    finding = f"signal-to-noise {ratio} from {each}; 1 at {_round(signal.noise_scale)} rollouts {within}"
    if total >= signal.noise_scale:
        return Remark("gradient", finding, f"{meaning} The whole run has {total:,} rollouts.")
    cure = f"The whole run has fewer rollouts, {total:,}: raise rollouts or updates."
    return Remark("gradient", finding, meaning, cure)


def _round(rollouts: float) -> str:
    """Return a number of rollouts with two digits: more are never certain."""
    return f"{float(f'{rollouts:.2g}'):,.0f}" if rollouts >= 1 else "less than 1"


def _reward(diagnosis: Diagnosis, config: RolloutConfig) -> Remark:
    spread = diagnosis.rewards
    finding = f"{spread.mean:.3f}, standard deviation {spread.sd:.3f}"
    drawn = f"{spread.prompts} prompts with {spread.samples} samples each"
    if spread.within is None or spread.sd <= NO_SPREAD:
        cure = "Take a --reward that tells responses apart; if there is no higher one, nothing is left to learn."
        return Remark("reward", f"{finding}, from {drawn}", "All responses have the same reward.", cure)
    return Remark(
        "reward",
        f"{finding}; {spread.within:.0%} of the variance is within prompts, {spread.flat:.0%} of the groups are flat "
        f"({drawn})",
        "Only differences between samples to the same prompt can be learnt; a flat group has none.",
        _reward_cure(diagnosis, config),
    )


def _reward_cure(diagnosis: Diagnosis, config: RolloutConfig) -> str | None:
    spread = diagnosis.rewards
    assert spread.within is not None
    if spread.flat > MANY_FLAT:
        return "Take a finer reward, raise rollout_temperature, or raise samples_per_prompt."
    critic_helps = (diagnosis.explained_variance or 0.0) >= (1 - spread.within) / 2
    if spread.within < MOSTLY_PROMPTS and not critic_helps and not isinstance(config, RLOOConfig | GRPOConfig):
        return "Most of it is between prompts and only adds noise: take rloo or grpo, whose baseline is the prompt's."
    return None


def _critic(diagnosis: Diagnosis, config: RolloutConfig) -> Iterator[Remark]:
    explained = diagnosis.explained_variance
    if explained is None or not isinstance(config, ActorCriticConfig):
        return
    meaning = "Of the returns, on rollouts that it was not fitted to; 0 is as good as a constant."
    cure = None
    if config.value_start == "zero":
        cure = 'It starts from 0 and knows nothing yet: set value_start = "regression".'
    elif explained < WORSE_THAN_A_CONSTANT:
        cure = "It makes advantages noisier: raise rollouts, or take an algorithm without a critic."
    yield Remark("critic", f"explains {explained:.0%} of the variance", meaning, cure)


def _update(diagnosis: Diagnosis, config: RolloutConfig) -> Remark:
    move = diagnosis.move
    parts = [f"{move.kl_token:.2g} nats a token, {move.kl_response:.2g} a response"]
    if move.clipped is not None:
        parts.append(f"{move.clipped:.0%} of the ratios clipped")
    if move.steps is not None:
        parts.append(f"{move.steps} of {move.planned} steps" if move.steps < move.planned else f"{move.steps} steps")
    meaning = "The KL of the policy after one update from the one before, on new rollouts, at the full learning rate."
    if move.steps is not None and move.steps < move.planned and config.stop_kl is not None:
        meaning += f" stop_kl = {config.stop_kl:g} ended it, by the rollouts that it learnt from."
    size = "trust_region" if isinstance(config, TRPOConfig) else "learning_rate"
    farthest = config.updates**2 * move.kl_response
    cure = None
    if farthest < NEAR:
        cure = f"{config.updates} such updates reach {farthest:.2g} nats a response at most: raise {size}."
    elif move.kl_token > FAR or (move.clipped is not None and move.clipped > MUCH_CLIPPED):
        cure = f"The rollouts say little about a policy so far from theirs: lower {size}"
        if not isinstance(config, A2CConfig | TRPOConfig):  # these take one step
            cure += f", or set stop_kl {'= 0.02' if config.stop_kl is None else f'below {config.stop_kl:g}'}"
        cure += "."
    return Remark("update", "; ".join(parts), meaning, cure)


def _responses(diagnosis: Diagnosis) -> Remark:
    ended = "all of one length" if diagnosis.fixed_length else f"{diagnosis.ended:.0%} end by themselves"
    finding = f"{diagnosis.length:.1f} tokens, {ended}; entropy {diagnosis.entropy:.2f} nats a token"
    cure = None
    if diagnosis.entropy < LOW_ENTROPY:
        cure = "The samples hardly differ, so that nothing can be found among them: raise rollout_temperature."
    elif diagnosis.ended < FEW_ENDED and not diagnosis.fixed_length:
        cure = "Nearly all are cut at the limit: raise the task's max_new_tokens, or set missing_eos_penalty."
    return Remark("responses", finding, "As the sampler of the rollouts draws them.", cure)


def _time(diagnosis: Diagnosis) -> Remark:
    minutes = diagnosis.seconds / 60
    whole = f"{minutes:.1f} minutes" if minutes < 90 else f"{minutes / 60:.1f} hours"
    finding = f"{diagnosis.move.seconds:.1f} s an update, {whole} for {diagnosis.settings.updates}"
    return Remark("time", finding, "On this machine as it is now, without validation.")
