"""How far one policy is from another, over the whole vocabulary and exactly at every token."""

from contextlib import AbstractContextManager

import torch
from torch import Tensor
from transformers import PreTrainedModel

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
    now = forward(policy, prompts, responses)[0].float().log_softmax(-1)
    with other as model:
        before = forward(model, prompts, responses)[0].float().log_softmax(-1)
    return ((now.exp() * (now - before)).sum(-1) * responses.mask).sum(1)
