"""The critic: a value head on a trunk of its own or on the policy's; and the linear fit of values to states.

B = batch, T = response time, M = states, H = size of a state.
"""

import copy
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from grue.lm.forward import trunk_states
from grue.lm.model import hidden_size
from grue.lm.tokens import Tokens


class Critic(nn.Module):
    """A value head, on a trunk of its own that starts from the policy's weights, or `shared` on the policy's trunk.

    Weights that are frozen in the policy (an encoder, all but the adapters) are frozen in the trunk, too.
    """

    def __init__(self, model: PreTrainedModel, shared: bool) -> None:
        super().__init__()
        self.trunk = None if shared else copy.deepcopy(model)
        # Created on the policy's device, without using the global generator, since it starts at 0.
        self.head = nn.Linear(hidden_size(model), 1, device="meta").to_empty(device=model.device)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(
        self, prompts: Tokens, responses: Tokens, policy_states: Tensor | None, encoded: Tensor | None = None
    ) -> Tensor:
        """Return V(s_t), [B, T], of the states before each response token."""
        states = policy_states if self.trunk is None else trunk_states(self.trunk, prompts, responses, encoded)
        assert states is not None, "a shared critic needs the policy's states"
        with torch.autocast(states.device.type, enabled=False):  # in bfloat16, values would have only 8 bits
            values: Tensor = self.head(states.float()).squeeze(-1)
        return values


FOLDS = 5
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
"""Ridge penalties, in units of a feature's variance; the last one leaves little more than the mean."""


def ridge(features: Tensor, targets: Tensor, groups: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Fit a linear function by ridge regression, with the penalty chosen by cross-validation over groups.

    Args:
        features: [M, H].
        targets: [M].
        groups: [M], the number of each row's group, which is held out as a whole.

    Returns:
        Weight [1, H], bias [1], and the predictions [M] of fits without the group. With a single group, the function
        and the predictions are the mean.
    """
    folds = torch.unique(groups, return_inverse=True)[1] % FOLDS
    if not folds.any():
        mean = targets.mean()
        return torch.zeros_like(features[:1]), mean.reshape(1), mean.expand_as(targets)
    held_out = [torch.empty_like(targets) for _ in STRENGTHS]
    for fold in folds.unique():
        here = folds == fold
        inside = features[here]
        fits = _fits(features[~here], targets[~here], STRENGTHS)
        for predicted, (weight, bias) in zip(held_out, fits, strict=True):
            predicted[here] = inside @ weight + bias
    errors = [float((predicted - targets).square().mean()) for predicted in held_out]
    best = errors.index(min(errors))
    weight, bias = next(_fits(features, targets, STRENGTHS[best:]))
    return weight.unsqueeze(0), bias.reshape(1), held_out[best]


def _fits(features: Tensor, targets: Tensor, strengths: Sequence[float]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield weight [H] and bias of the fit with each penalty; the products of the features are computed once."""
    centre, scale = features.mean(0), features.std(0, correction=0).clamp(min=1e-6)
    scaled, mean = (features - centre) / scale, targets.mean()
    products, wanted = scaled.T @ scaled / len(scaled), scaled.T @ (targets - mean) / len(scaled)
    for strength in strengths:
        held = products + strength * torch.eye(len(products), dtype=products.dtype, device=products.device)
        weight = torch.linalg.solve(held, wanted) / scale
        yield weight, mean - centre @ weight
