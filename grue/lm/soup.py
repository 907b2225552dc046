"""Model soups: the mean of the weights of models trained from the same initial model (Wortsman et al. 2022)."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch
from torch import Tensor
from transformers import PreTrainedModel

from grue.errors import DataError, escaped
from grue.lm.adapters import fuse_activations
from grue.lm.load import LoadedModel, load_language_model
from grue.tasks import Family


def soup(family: Family, folders: Sequence[Path], start: LoadedModel) -> PreTrainedModel:
    """Return the mean of the weights of checkpoints, in float32, frozen; two are in memory at a time.

    Tied weights are averaged once. The mean of equal weights is exactly those. Checkpoints have their adapters merged,
    so that products are averaged, not their factors. `start` is the initial model of the run, without adapters.

    Raises:
        DataError: One cannot be loaded, or differs in more than its weights.
    """
    first = load_language_model(family, str(folders[0]))
    _check_alike("the initial model", start, folders[0], first)
    mean = first[0]
    for count, folder in enumerate(folders[1:], start=2):
        checkpoint = load_language_model(family, str(folder))
        _check_alike(str(folders[0]), first, folder, checkpoint)
        theirs = _weights(checkpoint[0])
        with torch.no_grad():
            for name, mine in _weights(mean).items():
                if mine.is_floating_point():
                    mine.add_((theirs[name] - mine) / count)
    fuse_activations(mean)
    return cast(PreTrainedModel, mean.requires_grad_(False).eval())


def _weights(model: PreTrainedModel) -> dict[str, Tensor]:
    """Return parameters and buffers by name, tied ones once."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _check_alike(name: str, first: LoadedModel, folder: Path, second: LoadedModel) -> None:
    """Raise a DataError if two models differ in architecture, shapes or tokens, and so cannot be averaged."""
    fault = _difference(first, second)
    if fault is not None:
        raise DataError(
            f"reference: {escaped(folder)} and {escaped(name)} do not match: {fault}. Give checkpoints trained from "
            "this run's initial model."
        )


def _difference(first: LoadedModel, second: LoadedModel) -> str | None:
    models, tokenizers = (second[0], first[0]), (second[1], first[1])
    if type(models[0]) is not type(models[1]):
        return f"one is a {type(models[0]).__name__}, the other a {type(models[1]).__name__}"
    vocabularies = [(tokenizer.get_vocab(), tokenizer.all_special_ids) for tokenizer in tokenizers]
    if vocabularies[0] != vocabularies[1]:
        return "their tokenizers differ"
    shapes = [{key: list(value.shape) for key, value in _weights(model).items()} for model in models]
    for key in sorted(shapes[0].keys() | shapes[1].keys()):
        pair = [named.get(key, "absent") for named in shapes]
        if pair[0] != pair[1]:
            return f"{escaped(key)} is {pair[0]} in one and {pair[1]} in the other"
    heads = [getattr(model.config, "num_attention_heads", None) for model in models]
    return None if heads[0] == heads[1] else f"one has {heads[0]} attention heads, the other {heads[1]}"
