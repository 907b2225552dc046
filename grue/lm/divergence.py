"""How far one policy is from another, over the whole vocabulary and exactly at every token."""

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

    The mean over responses that the policy drew at temperature 1 is unbiased for the KL of whole responses. It is never
    negative and varies less than the sum of the drawn tokens' log-ratios, since only the places are drawn.

    Args:
        other: Lends the model to compare with for as long as it is needed: it may be the policy without its adapter.
    """
    now, _ = forward(policy, prompts, responses)
    with other as model:
        before, _ = forward(model, prompts, responses)
    return distributions.kl_divergence(now, before).masked_fill(~responses.mask, 0.0).sum(1)
