"""Model soups: the mean of the weights of models that were trained from one start (Wortsman et al. 2022)."""

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

    Weights that a model uses twice, such as a head that is its embedding, are averaged once. Equal weights give just
    those. Checkpoints have their adapters merged, so that products are averaged and not their factors.

    Args:
        folders: Of two or more checkpoints.
        start: The model that the mean will be compared with, without adapters.

    Raises:
        DataError: One cannot be loaded, or differs in more than its weights.
    """
    first = load_language_model(family, str(folders[0]))
    _check_alike("the model that training starts from", start, folders[0], first)
    mean = first[0]
    for count, folder in enumerate(folders[1:], start=2):
        other = load_language_model(family, str(folder))
        _check_alike(str(folders[0]), first, folder, other)
        theirs = _weights(other[0])
        with torch.no_grad():
            for name, mine in _weights(mean).items():
                if mine.is_floating_point():
                    mine.add_((theirs[name] - mine) / count)
    fuse_activations(mean)
    return cast(PreTrainedModel, mean.requires_grad_(False).eval())


def _weights(model: PreTrainedModel) -> dict[str, Tensor]:
    """Return parameters and buffers by name, those that are used twice once."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _check_alike(what: str, one: LoadedModel, folder: Path, other: LoadedModel) -> None:
    """Refuse two models that cannot be averaged or compared: of other architecture, shapes or tokens.

    Raises:
        DataError: They differ; names both.
    """
    fault = _difference(one, other)
    if fault is not None:
        raise DataError(
            f"reference: {escaped(folder)} and {escaped(what)} do not go together: {fault}. Give checkpoints that were "
            "trained from the model that this run was."
        )


def _difference(one: LoadedModel, other: LoadedModel) -> str | None:
    (mine, words), (theirs, others) = one, other
    if type(mine) is not type(theirs):
        return f"one is a {type(theirs).__name__}, the other a {type(mine).__name__}"
    if words.get_vocab() != others.get_vocab() or words.all_special_ids != others.all_special_ids:
        return "their tokenizers differ"
    here, there = ({key: list(value.shape) for key, value in _weights(m).items()} for m in (theirs, mine))
    for key in sorted(here.keys() | there.keys()):
        if here.get(key) != there.get(key):
            shapes = [one.get(key, "absent") for one in (here, there)]
            return f"{escaped(key)} is {shapes[0]} in one and {shapes[1]} in the other"
    heads = [getattr(model.config, "num_attention_heads", None) for model in (theirs, mine)]
    return None if heads[0] == heads[1] else f"one has {heads[0]} attention heads, the other {heads[1]}"
