"""The critic: a value head on a trunk of its own or on the policy's.

B = batch, T = response time.
"""

import copy

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
