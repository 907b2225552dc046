"""Natural language policy optimisation: PPO that samples inside the nucleus of a masking policy.

Ramamurthy et al. (2023), §4 and Algorithm 1. The masking policy is a copy of the policy, refreshed every μ updates;
RL4LMs' own never was (`mask_source = "frozen"`). The mask of each drawn token is stored and replayed in the update,
so that the ratio is one of the restricted, renormalised policies. What differs from PPO is marked with (NLPO).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from torch import Tensor

from grue.algorithms import ppo
from grue.bounds import NON_NEGATIVE, POSITIVE, UNIT, Paper
from grue.lm import distributions
from grue.lm.model import freeze
from grue.lm.sampling import Mask
from grue.lm.sharding import whole
from grue.rl import trainer as base
from grue.rl.experience import ScoredTokens
from grue.rl.trainer import Algorithm, Trainer, TrainState


@dataclass(frozen=True, slots=True, kw_only=True)
class NLPOConfig(ppo.PPOConfig):
    """Natural language policy optimisation: PPO with a sampler restricted by a masking policy (paper §4, Algorithm 1).

    Attributes:
        mask: "learned_top_p" and "learned_top_k" take the mask from the masking policy, "top_k" from the policy itself.
        top_p: The nucleus of the mask (Eq. 6).
        top_k: Tokens a top-k mask keeps.
        min_tokens_to_keep: Likeliest tokens that stay open in any case; RL4LMs keeps 100.
        always_open: Tokens that no mask closes: the end token, or every special token, as in RL4LMs.
        mask_updates: μ, the updates between two refreshes of the masking policy.
        mask_source: "periodic" refreshes the masking policy from the policy every μ updates, as the paper says;
            "frozen" keeps the initial policy, as RL4LMs really did.
        mass_coefficient: Weight of −log(probability inside the mask) in the loss. 0 in the paper; a little of it keeps
            the tokens outside, which get no gradient, from drifting up until the next refresh lets them in.
    """

    mask: Annotated[Literal["learned_top_p", "learned_top_k", "top_k"], Paper("learned_top_p")] = "learned_top_p"
    top_p: Annotated[float, UNIT] = 0.9
    top_k: int = 50
    min_tokens_to_keep: Annotated[int, Paper("1; its code 100")] = 1
    always_open: Literal["end", "special"] = "end"
    mask_updates: Annotated[int, POSITIVE] = 5
    mask_source: Annotated[Literal["periodic", "frozen"], Paper("periodic; its code frozen")] = "periodic"
    mass_coefficient: Annotated[float, NON_NEGATIVE] = 0.0


def start(trainer: Trainer, config: NLPOConfig) -> TrainState:
    """Return the state before the first update, with a masking policy where the mask is learned (NLPO)."""
    state = base.start(trainer, config)
    if config.mask != "top_k":
        # A frozen mask is the initial policy, of which the reference is a copy already, where there is one.
        frozen = config.mask_source == "frozen" and state.reference is not None
        state.mask_model = state.reference if frozen else freeze(trainer.policy)
    return state


def update(trainer: Trainer, state: TrainState, config: NLPOConfig, n: int) -> dict[str, float]:
    """Carry out update `n`; return its figures for the log."""
    refresh_mask(state, config)  # (NLPO)
    # A masking policy that was just refreshed is the policy itself, and need not be run beside it.
    masking = state.mask_model if state.mask_age else None
    always_open = tuple(trainer.tokenizer.all_special_ids) if config.always_open == "special" else ()
    figures = ppo.improve(
        trainer,
        state,
        config,
        n,
        partial(ppo.clipped_loss, config),
        mask=Mask(masking, mask_rule(config), always_open),  # (NLPO)
        term=partial(mass_loss, config.mass_coefficient) if config.mass_coefficient else None,  # (NLPO)
        vocabulary=config.ratio_over != "support" or config.mass_coefficient != 0.0,
    )
    figures["mask/age"] = float(state.mask_age)
    state.mask_age += 1
    return figures


def refresh_mask(state: TrainState, config: NLPOConfig) -> None:
    """Copy the policy into the masking policy once it is μ updates old (Algorithm 1, line 9)."""
    if config.mask_source == "periodic" and state.mask_model is not None and state.mask_age >= config.mask_updates:
        state.mask_model.load_state_dict(whole(state.policy.state_dict()))
        state.mask_age = 0


def mask_rule(config: NLPOConfig) -> Callable[[Tensor], Tensor]:
    """Return the rule that turns logits [B, V] into what stays open, [B, V] bool."""
    if config.mask == "learned_top_p":
        return partial(distributions.top_p_support, p=config.top_p, min_tokens_to_keep=config.min_tokens_to_keep)
    return partial(distributions.top_k_support, k=max(config.top_k, config.min_tokens_to_keep))


def mass_loss(coefficient: float, now: ScoredTokens) -> Tensor:
    """Return −c·log(probability inside the support) of each token, [b, T]."""
    return -(coefficient * now.log_mass)


# NLPO as the paper describes it, as the published code really ran it, and as it is stable.
PRESETS = {
    "paper": {"mask_source": "periodic", "mass_coefficient": 0.0, "kl_over": "vocabulary", "ratio_over": "support"},
    "rl4lms": {
        "mask_source": "frozen",
        "mass_coefficient": 0.0,
        "min_tokens_to_keep": 100,
        "always_open": "special",
        "kl_over": "vocabulary",
        "ratio_over": "vocabulary",
    },
    "stable": {"mask_source": "periodic", "mass_coefficient": 0.1, "kl_over": "support", "ratio_over": "support"},
}

ALGORITHM = Algorithm(settings=NLPOConfig, update=update, start=start, presets=PRESETS)
