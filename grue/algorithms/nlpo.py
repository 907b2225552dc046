"""Natural language policy optimisation: PPO that samples inside the nucleus of a masking policy.

Ramamurthy et al. (2023), §4 and Algorithm 1. The masking policy is a copy of the policy, refreshed every μ updates;
RL4LMs' own never was (`mask_source = "frozen"`). The mask of each drawn token is stored and replayed in the update,
so that the ratio is one of the restricted, renormalised policies.
"""

from collections.abc import Callable
from functools import partial

from torch import Tensor

from grue.algorithms.ppo import one_update
from grue.lm import distributions
from grue.lm.model import freeze
from grue.lm.sampling import Mask
from grue.lm.sharding import whole
from grue.rl.optimisation import set_learning_rate
from grue.rl.settings import NLPOConfig
from grue.rl.state import Learner, make_learner
from grue.runs.recipes import ALGORITHMS
from grue.runs.train import Run


@ALGORITHMS.register("nlpo")
def train(run: Run, config: NLPOConfig) -> None:
    """Train `run.policy` in place."""
    learner = make_learner(run.policy, config)
    if config.mask != "top_k":
        # A frozen mask is the initial policy, of which the reference is a copy already, where there is one.
        frozen = config.mask_source == "frozen" and learner.reference is not None
        learner.mask_model = learner.reference if frozen else freeze(run.policy)
    always_open = tuple(run.tokenizer.all_special_ids) if config.always_open == "special" else ()
    for update in range(run.resume(learner, config.updates), config.updates):
        set_learning_rate(learner.optimizer, config, update, config.updates)
        refresh_mask(learner, config)
        # A masking policy that was just refreshed is the policy itself, and need not be run beside it.
        masking = learner.mask_model if learner.mask_age else None
        line = one_update(run, learner, config, update, Mask(masking, mask_rule(config), always_open))
        line["mask/age"] = float(learner.mask_age)
        learner.mask_age += 1
        run.end_update(update + 1, config.updates, line, learner)


def refresh_mask(learner: Learner, config: NLPOConfig) -> None:
    """Copy the policy into the masking policy once it is μ updates old (Algorithm 1, line 9)."""
    if config.mask_source == "periodic" and learner.mask_model is not None and learner.mask_age >= config.mask_updates:
        learner.mask_model.load_state_dict(whole(learner.policy.state_dict()))
        learner.mask_age = 0


def mask_rule(config: NLPOConfig) -> Callable[[Tensor], Tensor]:
    """Return the rule that turns logits [B, V] into what stays open, [B, V] bool."""
    if config.mask == "learned_top_p":
        return partial(distributions.top_p_support, p=config.top_p, min_tokens_to_keep=config.min_tokens_to_keep)
    return partial(distributions.top_k_support, k=max(config.top_k, config.min_tokens_to_keep))
