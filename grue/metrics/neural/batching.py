"""Inputs of metrics that use a model: cleaned, cut to the model's limit, in batches that do not change the values."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from grue.errors import ConfigError, DataError
from grue.lm.tokens import padded
from grue.metrics.metric import FloatArray
from grue.metrics.tokens import without_surrogates
from grue.records import Example

BLOCK = 64
"""Batches whose inputs are encoded and sorted by length together: little padding, constant memory."""
CHARACTERS = 32
"""Characters of each text of a pair that are read per token that fits, far more than an average token has.

To cut a pair, a tokenizer builds all pairs of pieces: two texts of 100,000 characters would exhaust memory.
"""


def seam(prompt: str, text: str) -> tuple[str, str]:
    """Split prompt + text so that the text starts with the white space, as byte-level tokenizers cut words.

    One space separates the two unless the prompt ends or the text starts with white space, or either is empty.
    """
    context = prompt.rstrip()
    if not context or not text or text[0].isspace():
        return context, text
    return context, (prompt[len(context) :] or " ") + text


def window(model: Any, tokenizer: Any) -> int | None:
    """Return how many tokens the model reads at most, or None if it has no limit."""
    limits = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None)]
    limits += [
        module.num_embeddings - module.padding_idx - 1  # RoBERTa counts positions from after its padding's
        for name, module in model.named_modules()
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding) and module.padding_idx is not None
    ]
    finite = [int(limit) for limit in limits if limit is not None and limit < 1_000_000]  # transformers' "none" is 1e30
    return min(finite, default=None)


def require_batch_size(size: int) -> None:
    """Raise a ConfigError if a batch size is below 1."""
    if size < 1:
        raise ConfigError(f"The option batch_size must be at least 1, found {size}.")


def batches(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Yield the indices of inputs in batches of similar length, longest first."""
    require_batch_size(size)
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    for start in range(0, len(order), size):
        yield order[start : start + size]


def logits(
    model: Any, tokenizer: Any, inputs: Iterable[tuple[str, ...]], size: int, longest: int | None = None
) -> FloatArray:
    """Return the logits of a text classifier for each input, [N, labels].

    Args:
        tokenizer: Decides on which side long inputs are cut.
        inputs: Tuples of one text, or of two to read as a pair, of which the longer is cut first.
        size: Inputs at a time; does not change the values.
        longest: Maximum number of tokens of an input, if lower than the model's own limit.
    """
    require_batch_size(size)
    limits = [limit for limit in (longest, window(model, tokenizer)) if limit is not None]
    stream = iter(inputs)
    outputs: list[FloatArray] = []
    while block := list(islice(stream, BLOCK * size)):
        outputs.append(_block_logits(model, tokenizer, block, size, min(limits, default=None)))
    return np.concatenate(outputs) if outputs else np.zeros((0, model.config.num_labels))


@torch.inference_mode()
def _block_logits(
    model: Any, tokenizer: Any, block: list[tuple[str, ...]], size: int, longest: int | None
) -> FloatArray:
    columns = [[without_surrogates(text) for text in texts] for texts in zip(*block, strict=True)]
    if longest is not None and len(columns) > 1:
        columns = [[text[: CHARACTERS * longest] for text in texts] for texts in columns]
    typed = (getattr(model.config, "type_vocab_size", None) or 0) > 1  # the model decides, not the tokenizer's class
    encoded = tokenizer(
        *columns, truncation=longest is not None, max_length=longest, return_token_type_ids=typed, verbose=False
    )
    scores = np.zeros((len(block), model.config.num_labels))
    left = tokenizer.padding_side == "left"
    for batch in batches([len(ids) for ids in encoded["input_ids"]], size):
        tokens = padded([encoded["input_ids"][index] for index in batch], tokenizer.pad_token_id, model.device, left)
        inputs = {"input_ids": tokens.ids, "attention_mask": tokens.mask.long()}
        if typed:
            types = [encoded["token_type_ids"][index] for index in batch]
            inputs["token_type_ids"] = padded(types, tokenizer.pad_token_type_id, model.device, left).ids
        scores[batch] = model(**inputs).logits.double().cpu()
    return scores


def require_finite(metric: str, model: str, examples: Sequence[Example], values: ArrayLike) -> FloatArray:
    """Return the values, one or more per example; a DataError for the first example that has one that is not finite."""
    array = np.asarray(values, dtype=np.float64)
    broken = ~np.isfinite(array).all(axis=tuple(range(1, array.ndim)))
    if broken.any():
        raise DataError(
            f"The metric {metric!r}: {model} gave a value that is not a finite number for the example "
            f"{examples[int(broken.argmax())].id!r}; its weights are damaged, or it does not work in float32. "
            "Use another copy or another model."
        )
    return array
