"""Finding and loading models and their tokenizers: the small ones that ship, local folders, pinned hub models.

Everything is float32, in evaluation mode and free of dropout, also should someone call `.train()`. Models that score
are loaded once a process and stand on the scoring device; a language model for training is the caller's to place.

Padding. A tokenizer without a pad token (GPT-2) pads with its end-of-text token; the vocabulary is never resized. This
is safe here because masks are carried by position from where a batch is made, never recovered from ids. The small
models of the mini suite have a pad token of their own.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from torch import nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    GenerationConfig,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from grue import files
from grue.data.hub.errors import translate_hub_errors
from grue.data.hub.retry import retrying
from grue.errors import ConfigError, DataError, Unavailable
from grue.mini import assets

Family = Literal["causal", "seq2seq"]
Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]

_PURPOSE = {
    AutoModelForCausalLM: "a causal language model",
    AutoModelForSeq2SeqLM: "an encoder-decoder language model",
    AutoModelForSequenceClassification: "a text classifier",
    AutoModel: "an encoder",
}


def locate_model(name: str) -> str:
    """Turn a model's name into what transformers loads.

    Args:
        name: `mini:<asset>`, the path of a folder, or a hub id.

    Returns:
        The path of a folder, or the hub id as it is.

    Raises:
        UnknownName: There is no such small model.
        DataError: A small model is damaged, or the name is a path and there is no such folder.
    """
    if name.startswith("mini:"):
        return str(assets.locate(name.removeprefix("mini:")))
    if Path(name).is_dir():
        return name
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise DataError(f"There is no folder {name!r}: give the folder of a saved model, a hub id or mini:<name>.")
    return name


@cache
def weights_id(name: str, revision: str = "") -> str:
    """Return what tells a model's weights from others': the sha256 of a folder's files, or a hub id and its revision.

    Args:
        name: See `locate_model`.
        revision: Commit or tag of a hub model.
    """
    where = Path(locate_model(name))
    if not where.is_dir():
        return f"{name}@{revision or 'main'}"
    return files.sha256_json({path.name: files.sha256_file(path) for path in where.iterdir() if path.is_file()})


def scoring_device() -> torch.device:
    """Return where models score: what the environment variable GRUE_DEVICE says, else the GPU if there is one.

    Raises:
        ConfigError: torch cannot use the device that GRUE_DEVICE names.
    """
    wanted = os.environ.get("GRUE_DEVICE", "")
    if not wanted:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(wanted)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ImportError) as error:  # what torch raises for devices that it lacks
        raise ConfigError(
            f"GRUE_DEVICE is {wanted!r}, which torch cannot use here: {str(error).splitlines()[0].rstrip('.')}. "
            "Set it to cpu, cuda or cuda:<number>, or unset it."
        ) from error
    return device


def signed(name: str, revision: str = "") -> str:
    """Return what a metric's signature says of its model: `model:…|revision:…`, alike wherever a folder lies.

    A hub model is named with its revision, a local folder by its last part and the sha256 of its files.
    """
    if name.startswith("mini:") or not Path(name).is_dir():
        return f"model:{name}|revision:{revision}"
    return f"model:{Path(name).resolve().name}|revision:sha256-{weights_id(name)[:16]}"


def load_language_model(family: Family, name: str, revision: str = "") -> Loaded:
    """Load a fresh copy of a language model and its tokenizer.

    How a checkpoint would like to be decoded (forced tokens, banned n-grams, least lengths, beams) is left behind:
    transformers' `generate` would lay it over a task's settings wherever these are silent.

    Args:
        family: "causal" pads on the left, "seq2seq" on the right.
        name: See `locate_model`.
        revision: Commit or tag of a hub model; empty means the newest. Ignored for folders.

    Raises:
        DataError: The model is missing, incomplete or of another kind.
        Unavailable: It is a hub model and neither here nor to be reached.
    """
    auto = AutoModelForCausalLM if family == "causal" else AutoModelForSeq2SeqLM
    model, tokenizer = _load(auto, name, revision)
    tokenizer.padding_side = "left" if family == "causal" else "right"
    if tokenizer.eos_token_id is None:
        raise DataError(f"{name}: its tokenizer has no end-of-text token, so a generation could not end.")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    model.config.pad_token_id = tokenizer.pad_token_id
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        decoder_start_token_id=getattr(model.config, "decoder_start_token_id", None),
    )
    return model, tokenizer


def load_tokenizer(name: str, revision: str = "") -> PreTrainedTokenizerBase:
    """Load a tokenizer alone.

    Args and errors as in `load_language_model`.
    """
    where = locate_model(name)
    origin: dict[str, Any] = {} if Path(where).is_dir() else {"revision": revision or "main"}
    try:
        with quiet():
            tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(where, **origin)
    except (OSError, ValueError) as error:
        raise _unloadable("a tokenizer", name, revision, error) from error
    return tokenizer


@cache
def load_scoring_model(family: Family, name: str, revision: str = "") -> Loaded:
    """Load a language model for scoring: shared by the whole process, on the scoring device, not to be trained.

    Args and errors as in `load_language_model` and `scoring_device`.
    """
    model, tokenizer = load_language_model(family, name, revision)
    return _to_score(model), tokenizer


@cache
def load_classifier(name: str, revision: str = "", cut: Literal["left", "right"] = "left") -> Loaded:
    """Load a text classifier for scoring: shared by the whole process, on the scoring device, not to be trained.

    Its tokenizer pads on the right.

    Args:
        name: See `locate_model`.
        revision: As in `load_language_model`.
        cut: Where its tokenizer cuts long texts: "left", where what stands before a continuation begins, or "right".

    Raises:
        DataError: As `load_language_model`; or its tokenizer cannot pad.
        ConfigError: As `scoring_device`.
    """
    model, tokenizer = _load(AutoModelForSequenceClassification, name, revision)
    return _to_score(model), _padding_right(name, tokenizer, cut)


@cache
def load_encoder(name: str, revision: str = "", layers: int = 0) -> Loaded:
    """Load the encoder of a model for scoring: shared by the whole process, on the scoring device, not to be trained.

    Its tokenizer pads and cuts long texts on the right.

    Args:
        name: See `locate_model`.
        revision: As in `load_language_model`.
        layers: Keep this many of its layers, the lowest ones; 0 keeps all.

    Raises:
        DataError: As `load_language_model`; or its tokenizer cannot pad.
        ConfigError: It has fewer layers or cannot be cut; or as `scoring_device`.
    """
    model, tokenizer = _load(AutoModel, name, revision)
    encoder = model.encoder if hasattr(model, "encoder") and hasattr(model, "decoder") else model
    if layers:
        _keep_layers(name, encoder, layers)
    return _to_score(encoder), _padding_right(name, tokenizer, "right")


def _to_score(model: Any) -> PreTrainedModel:
    found: PreTrainedModel = model.requires_grad_(False).to(scoring_device())
    return found


def _padding_right(name: str, tokenizer: PreTrainedTokenizerBase, cut: str) -> PreTrainedTokenizerBase:
    if tokenizer.pad_token_id is None:
        raise DataError(f"{name}: its tokenizer has no pad token, so texts cannot be read in batches.")
    tokenizer.padding_side = "right"
    tokenizer.truncation_side = cut
    return tokenizer


def _keep_layers(name: str, encoder: Any, layers: int) -> None:
    """Drop the upper layers in place, so that the output is the hidden state of layer number `layers`.

    The same models are left as by bert-score's `get_model`, which finds the layers by the names of attributes.
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
    elif encoder.config.model_type == "albert":  # one layer, run through many times
        encoder.config.num_hidden_layers = layers
    else:
        raise ConfigError(
            f"{name}, a model of type {encoder.config.model_type}, cannot be cut at a layer; take another."
        )


def _load(auto: Any, name: str, revision: str) -> Loaded:
    where = locate_model(name)
    origin: dict[str, Any] = {} if Path(where).is_dir() else {"revision": revision or "main"}
    try:
        with quiet():
            config = _without_dropout(AutoConfig.from_pretrained(where, **origin))
            _check_family(auto, name, config)
            model, info = auto.from_pretrained(
                where, config=config, dtype=torch.float32, output_loading_info=True, **origin
            )
    except (OSError, ValueError, SafetensorError) as error:
        raise _unloadable(_PURPOSE[auto], name, revision, error) from error
    absent = sorted({*info["missing_keys"], *(str(key) for key in info["mismatched_keys"])})
    if auto is AutoModel:  # many checkpoints come without the pooler, which no layer's output needs
        absent = [key for key in absent if not key.startswith("pooler.")]
    if absent:
        raise DataError(
            f"{name} is not {_PURPOSE[auto]}: weights are missing or misshapen ({', '.join(absent[:3])}"
            f"{', …' if len(absent) > 3 else ''}); give a model that was saved as one."
        )
    tokenizer = load_tokenizer(name, revision)
    _check_tokenizer(name, model, tokenizer)
    return model.eval(), tokenizer


def _check_family(auto: Any, name: str, config: PretrainedConfig) -> None:
    """Refuse an encoder-decoder as a causal model, of which transformers would load half, and the reverse."""
    wanted = {AutoModelForCausalLM: False, AutoModelForSeq2SeqLM: True}.get(auto)
    if wanted is not None and bool(config.is_encoder_decoder) != wanted:
        kind, fitting = ("a causal model", "causal") if wanted else ("an encoder-decoder", "seq2seq")
        raise DataError(
            f"{name} cannot be loaded as {_PURPOSE[auto]}: it is {kind} ({config.model_type}). Choose another model, "
            f'or a task whose backbone is of the family "{fitting}".'
        )


def _check_tokenizer(name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    embedding: Any = model.get_input_embeddings()
    rows = embedding.weight.shape[0]
    words = tokenizer.get_vocab().keys() - set(tokenizer.all_special_tokens)
    if len(words) < 2:  # transformers makes an empty tokenizer for a folder that has none
        raise DataError(f"{name} has no tokenizer: save the tokenizer beside the model.")
    if len(tokenizer) > rows:
        raise DataError(
            f"{name}: its tokenizer knows {len(tokenizer)} tokens and its model {rows}; "
            "save the tokenizer it was trained with."
        )


def _without_dropout(config: PretrainedConfig) -> PretrainedConfig:
    """Set every dropout rate to 0, in the configuration: some architectures read it at each step, not from a module."""
    for key, value in vars(config).items():
        if "drop" in key and isinstance(value, float):
            setattr(config, key, 0.0)
    return config


def _unloadable(purpose: str, name: str, revision: str, error: Exception) -> DataError:
    detail = str(error).strip().splitlines()[0].rstrip(".")
    if name.startswith("mini:") or Path(name).is_dir():
        return DataError(
            f"{name} cannot be loaded as {purpose}: {detail}. "
            "The folder must hold config.json, model.safetensors and the tokenizer's files, as save_pretrained does it."
        )
    pinned = f" at revision {revision}" if revision else ""
    return Unavailable(
        f"{name}{pinned} is neither a local folder nor to be had from the hub: {detail}. Fetch it once with a "
        f"connection (`hf download {name}`), give the path of a folder, or use the mini suite, whose models ship."
    )


def fetch_model(name: str, revision: str = "") -> Path:
    """Bring a model into the hub's cache: weights once, in the best format there is, with tokenizer and configuration.

    Raises:
        DataError: It cannot be had.
    """
    from huggingface_hub import HfApi, snapshot_download

    def fetch() -> str:
        info = HfApi().model_info(name, revision=revision or None, timeout=30)
        names = [file.rfilename for file in info.siblings or ()]
        safe = any(file.endswith(".safetensors") and "/" not in file for file in names)
        skipped = ["*/*", "*.h5", "*.msgpack", "*.ot", "*.onnx", "*.tflite", "*.gguf", "*.md"]
        skipped += ["*.bin", "*.pt", "*.pth"] if safe else []
        return snapshot_download(name, revision=revision or None, ignore_patterns=skipped)

    with translate_hub_errors(f"the model {name}" + (f" at {revision}" if revision else "")):
        return Path(retrying(fetch))


@contextmanager
def quiet() -> Iterator[None]:
    """Hold back transformers' progress bars and loading reports; what they say is checked here and raised."""
    switches: Any = logging
    verbosity, bars = switches.get_verbosity(), switches.is_progress_bar_enabled()
    switches.set_verbosity_error()
    switches.disable_progress_bar()
    try:
        yield
    finally:
        switches.set_verbosity(verbosity)
        if bars:
            switches.enable_progress_bar()
