"""Models that metrics use: language models, text classifiers and encoders.

Each is loaded once per process and state of its files, stays on the scoring device and is never trained.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from torch import nn
from transformers import AutoModel, AutoModelForSequenceClassification

from grue.errors import ConfigError, DataError
from grue.lm.device import scoring_device
from grue.lm.folder import source_sha256
from grue.lm.load import FolderState, LoadedModel, load_language_model, load_pretrained, state_of, weights_id
from grue.tasks import Family

KEPT = 16  # models of a kind that a process keeps, the most recently used


def model_signature(name: str, revision: str = "") -> str:
    """Return the model's part of a metric's signature, `model:…|revision:…`, the same wherever a folder lies.

    A hub model is named with its revision, a local folder or file by its last part and the sha256 of its content.
    """
    is_local = not name.startswith("mini:") and (Path(name).is_dir() or bool(source_sha256(name)))
    if not is_local:
        return f"model:{name}|revision:{revision}"
    return f"model:{Path(name).resolve().name}|revision:sha256-{weights_id(name)[:16]}"


def load_scoring_model(family: Family, name: str, revision: str = "") -> LoadedModel:
    """Load a language model for scoring; arguments and errors as in `load_language_model` and `scoring_device`."""
    return _loaded(family, name, revision, state_of(name))


def load_classifier(name: str, revision: str = "", cut: Literal["left", "right"] = "left") -> LoadedModel:
    """Load a text classifier for scoring; its tokenizer pads on the right.

    A long text is cut on the `cut` side: "left" drops its beginning. Other arguments and errors as for `load_encoder`.
    """
    return _loaded("classifier", name, revision, state_of(name), cut=cut)


def load_encoder(name: str, revision: str = "", layers: int = 0) -> LoadedModel:
    """Load a model's encoder for scoring; its tokenizer pads and cuts long texts on the right.

    Args:
        name: See `locate_model`.
        revision: As in `load_language_model`.
        layers: Keep this many of its layers, the lowest ones; 0 keeps all.

    Raises:
        DataError: As `load_language_model`; or its tokenizer cannot pad.
        ConfigError: It has fewer layers or cannot be cut; or as `scoring_device`.
    """
    return _loaded("encoder", name, revision, state_of(name), layers, "right")


@lru_cache(maxsize=3 * KEPT)
def _loaded(
    kind: Family | Literal["classifier", "encoder"],
    name: str,
    revision: str,
    state: FolderState,
    layers: int = 0,
    cut: str = "",
) -> LoadedModel:
    if kind == "causal" or kind == "seq2seq":
        model, tokenizer = load_language_model(kind, name, revision)
    else:
        auto = AutoModel if kind == "encoder" else AutoModelForSequenceClassification
        model, tokenizer = load_pretrained(auto, name, revision)
        if tokenizer.pad_token_id is None:
            raise DataError(f"{name}: its tokenizer has no pad token, so texts cannot be read in batches.")
        tokenizer.padding_side, tokenizer.truncation_side = "right", cut
    scorer: Any = model
    if kind == "encoder":
        scorer = model.encoder if hasattr(model, "encoder") and hasattr(model, "decoder") else model
        if layers:
            _keep_layers(name, scorer, layers)
    return scorer.requires_grad_(False).to(scoring_device()), tokenizer


def _keep_layers(name: str, encoder: Any, layers: int) -> None:
    """Drop the upper layers in place, so that the output is the hidden state of layer number `layers`.

    The result equals that of bert-score's `get_model`, which finds the layers by attribute names.
    """
    depth = encoder.config.num_hidden_layers
    if not 0 < layers <= depth:
        raise ConfigError(f"{name} has the layers 1 to {depth}, not {layers}; give one of them.")
    if layers == depth:
        return
    stacks = [each for each in encoder.modules() if isinstance(each, nn.ModuleList) and len(each) == depth]
    if hasattr(encoder, "n_layers"):  # XLM keeps the parts of its layers in several lists
        encoder.n_layers = layers
    elif stacks:
        del stacks[0][layers:]  # the outermost list comes first
    elif encoder.config.model_type == "albert":  # one layer, run many times
        encoder.config.num_hidden_layers = layers
    else:
        raise ConfigError(
            f"{name}, a model of type {encoder.config.model_type}, cannot be cut at a layer; use another."
        )
