"""The KL divergence of two policies, exact over the whole vocabulary at every token."""

from contextlib import AbstractContextManager

import torch
from torch import Tensor
from transformers import PreTrainedModel

from grue.lm import distributions
from grue.lm.forward import forward
from grue.lm.tokens import Tokens


@torch.no_grad()
def kl_divergence(
    policy: PreTrainedModel, other: AbstractContextManager[PreTrainedModel], prompts: Tokens, responses: Tokens
) -> Tensor:
    """Return KL(policy ‖ other) of each response, [B] in nats: the sum over its tokens of Σ_v π(v) log π(v)/π₀(v).

    The mean over responses that the policy drew at temperature 1 is an unbiased estimate of the KL of whole responses.
    It is never negative and has less variance than the sum of the drawn tokens' log-ratios, since only the contexts are
    sampled. `other` yields the model to compare with, which may be the policy without its adapter.
    """
    now, _ = forward(policy, prompts, responses)
    with other as model:
        before, _ = forward(model, prompts, responses)
    return distributions.kl_divergence(now, before).masked_fill(~responses.mask, 0.0).sum(1)
