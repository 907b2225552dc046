"""A reward model's tokens of prompts and texts, and its logits."""

from collections.abc import Sequence

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from grue.lm.reward_folder import Pooling
from grue.lm.reward_model import RewardModel
from grue.lm.tokens import padded
from grue.metrics.metric import FloatArray
from grue.metrics.neural.batching import BLOCK, batches, seam, window
from grue.metrics.tokens import without_surrogates


def room(model: RewardModel, tokenizer: PreTrainedTokenizerBase, most: int) -> int:
    """Return how many tokens of prompt and text are read: at most `most`, and what the backbone has room for."""
    limit = window(model.backbone, tokenizer)
    return most if limit is None else min(most, limit)


def token_ids(
    tokenizer: PreTrainedTokenizerBase, pooling: Pooling, most: int, prompts: Sequence[str], texts: Sequence[str]
) -> list[list[int]]:
    """Return the tokens of each prompt with its text, at least one each; the prompt's beginning is cut.

    For a model that pools the last token, each row ends in the end token, so that the model sees the end.
    """
    joined = [without_surrogates("".join(seam(*pair))) for pair in zip(prompts, texts, strict=True)]
    end = tokenizer.eos_token_id
    ends = pooling == "last" and end is not None
    rows = tokenizer(joined, truncation=True, max_length=most - ends, verbose=False)["input_ids"]
    if ends:
        rows = [[*(row[:-1] if row and row[-1] == end else row), end] for row in rows]
    return [row or [tokenizer.pad_token_id] for row in rows]


def text_lengths(tokenizer: PreTrainedTokenizerBase, pooling: Pooling, texts: Sequence[str]) -> list[int]:
    """Return how many tokens each text has by itself, with its end as `token_ids` reads it."""
    end = tokenizer.eos_token_id if pooling == "last" else None
    rows = tokenizer([without_surrogates(text) for text in texts], verbose=False)["input_ids"]
    return [len(row) + (end is not None and (not row or row[-1] != end)) for row in rows]


@torch.inference_mode()
def logits(
    model: RewardModel, tokenizer: PreTrainedTokenizerBase, rows: Sequence[Sequence[int]], size: int
) -> FloatArray:
    """Return the logits [N] of tokenised texts, `size` at a time."""
    scores = np.zeros(len(rows))
    for start in range(0, len(rows), BLOCK * size):
        block = rows[start : start + BLOCK * size]
        for batch in batches([len(row) for row in block], size):
            tokens = padded([block[index] for index in batch], tokenizer.pad_token_id, model.head.weight.device)
            scores[[start + index for index in batch]] = model(tokens.ids, tokens.mask).double().cpu().numpy()
    return scores
