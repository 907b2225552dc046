"""The mask of NLPO, a restriction of the sampler: which tokens a masking policy leaves open.

Ramamurthy et al. (2023), §4 and Algorithm 1. The masking policy is a copy of the policy, refreshed every μ updates;
RL4LMs' own never was (`mask_source = "frozen"`). Any algorithm that samples can have one.
"""

from collections.abc import Callable
from functools import partial

from torch import Tensor
from transformers import PreTrainedModel

from grue.lm import distributions
from grue.lm.sampling import Mask
from grue.lm.sharding import whole
from grue.rl.settings import RewardedConfig
from grue.rl.trainer import Trainer, TrainState


def mask_of_update(trainer: Trainer, state: TrainState, config: RewardedConfig) -> Mask | None:
    """Return the mask that an update samples the policy with, refreshed where it is due; None where nothing is."""
    if config.mask is None:
        return None
    refresh(state, config)
    # A masking policy that was just refreshed is the policy itself, and need not be run beside it.
    return _mask(trainer, config, None if not state.mask_age else state.mask_model)


def mask_of_start(trainer: Trainer, config: RewardedConfig) -> Mask | None:
    """Return the mask that the start samples with, which is its own masking policy; None where nothing is masked."""
    return None if config.mask is None else _mask(trainer, config, None)


def _mask(trainer: Trainer, config: RewardedConfig, masking: PreTrainedModel | None) -> Mask:
    always_open = tuple(trainer.tokenizer.all_special_ids) if config.always_open == "special" else ()
    return Mask(masking, mask_rule(config), always_open)


def refresh(state: TrainState, config: RewardedConfig) -> None:
    """Copy the policy into the masking policy once it is μ updates old (Algorithm 1, line 9)."""
    if config.mask_source == "periodic" and state.mask_model is not None and state.mask_age >= config.mask_updates:
        state.mask_model.load_state_dict(whole(state.policy.state_dict()))
        state.mask_age = 0


def mask_rule(config: RewardedConfig) -> Callable[[Tensor], Tensor]:
    """Return the rule that turns logits [B, V] into what stays open, [B, V] bool."""
    if config.mask == "learned_top_p":
        return partial(distributions.top_p_support, p=config.top_p, min_tokens_to_keep=config.min_tokens_to_keep)
    return partial(distributions.top_k_support, k=max(config.top_k, config.min_tokens_to_keep))
