"""Stop strings: a response ends with the first token that completes one, and the text before it is the answer.

Like the end-of-text token, that token is part of the response, so that the policy can learn to stop. References are
learnt with the end-of-text token; either ends a response.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from grue.tasks import before_stop


@dataclass(frozen=True, slots=True)
class Stops:
    """The stop strings of a task, for one tokenizer.

    Attributes:
        ids: The tokens whose text contains one, so that they end a response wherever they are.
        spread: Whether one may also be spelled by several tokens, which only a response's whole text shows.
    """

    texts: tuple[str, ...]
    ids: tuple[int, ...]
    spread: bool
    tokenizer: PreTrainedTokenizerBase

    def spelled(self, ids: Tensor) -> Tensor:
        """Return which responses, [B, T] without prompts, contain a stop string: [B]."""
        if not self.spread:
            return torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
        return torch.tensor([self._holds(row) for row in ids.tolist()], device=ids.device)

    def completed(self, ids: Tensor) -> Tensor:
        """Return which tokens of responses [B, T] contain a stop string or are the first to complete one: [B, T]."""
        ends = torch.isin(ids, torch.tensor(self.ids, device=ids.device, dtype=ids.dtype))
        if self.spread:
            for row, row_ends in zip(ids.tolist(), ends, strict=True):
                if self._holds(row):
                    row_ends[next(t for t in range(len(row)) if self._holds(row[: t + 1]))] = True
        return ends

    def _holds(self, ids: list[int]) -> bool:
        return before_stop(str(self.tokenizer.decode(ids, skip_special_tokens=True)), self.texts) is not None


@lru_cache(maxsize=8)
def find_stops(tokenizer: PreTrainedTokenizerBase, texts: tuple[str, ...]) -> Stops | None:
    """Return stop strings for a tokenizer; None without any. The whole vocabulary is read once."""
    if not texts:
        return None
    alone = tokenizer.batch_decode([[i] for i in range(len(tokenizer))], skip_special_tokens=True)
    ids = tuple(i for i, text in enumerate(alone) if before_stop(str(text), texts) is not None)
    # A single ASCII character lies within one token; a blank may be lost when a token is decoded alone.
    spread = not all(len(text) == 1 and text.isascii() and text != " " for text in texts)
    return Stops(texts, ids, spread, tokenizer)
