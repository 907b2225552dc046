"""Finding and loading language models and classifiers: the small ones that ship, local folders, pinned hub models.

Everything is float32, in evaluation mode and free of dropout, also should someone call `.train()`.

Padding. A tokenizer without a pad token (GPT-2) pads with its end-of-text token; the vocabulary is never resized. This
is safe here because masks are carried by position from where a batch is made, never recovered from ids. The small
models of the mini suite have a pad token of their own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from grue import files
from grue.errors import DataError
from grue.mini import assets

Family = Literal["causal", "seq2seq"]
Loaded = tuple[PreTrainedModel, PreTrainedTokenizerBase]

_PURPOSE = {
    AutoModelForCausalLM: "a causal language model",
    AutoModelForSeq2SeqLM: "an encoder-decoder language model",
    AutoModelForSequenceClassification: "a text classifier",
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


def load_language_model(family: Family, name: str, revision: str = "") -> Loaded:
    """Load a fresh copy of a language model and its tokenizer.

    Args:
        family: "causal" pads on the left, "seq2seq" on the right.
        name: See `locate_model`.
        revision: Commit or tag of a hub model; empty means the newest. Ignored for folders.

    Raises:
        DataError: The model is missing, unreachable, incomplete or of another kind.
    """
    auto = AutoModelForCausalLM if family == "causal" else AutoModelForSeq2SeqLM
    model, tokenizer = _load(auto, name, revision)
    tokenizer.padding_side = "left" if family == "causal" else "right"
    if tokenizer.eos_token_id is None:
        raise DataError(f"{name}: its tokenizer has no end-of-text token, so a generation could not end.")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    model.config.pad_token_id = tokenizer.pad_token_id
    if model.generation_config is not None:
        model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model, tokenizer


@cache
def load_scoring_model(family: Family, name: str, revision: str = "") -> Loaded:
    """Load a language model for scoring: shared by the whole process, not to be trained.

    Args and errors as in `load_language_model`.
    """
    model, tokenizer = load_language_model(family, name, revision)
    return model.requires_grad_(False), tokenizer


@cache
def load_classifier(name: str, revision: str = "") -> Loaded:
    """Load a text classifier for scoring: shared by the whole process, not to be trained.

    Its tokenizer pads on the right and cuts long texts on the left, where a continuation matters least.

    Args and errors as in `load_language_model`.
    """
    model, tokenizer = _load(AutoModelForSequenceClassification, name, revision)
    if tokenizer.pad_token_id is None:
        raise DataError(f"{name}: its tokenizer has no pad token, so texts cannot be classified in batches.")
    tokenizer.padding_side = "right"
    tokenizer.truncation_side = "left"
    return model.requires_grad_(False), tokenizer


def _load(auto: Any, name: str, revision: str) -> Loaded:
    where = locate_model(name)
    origin: dict[str, Any] = {} if Path(where).is_dir() else {"revision": revision or "main"}
    try:
        with quiet():
            config = _without_dropout(AutoConfig.from_pretrained(where, **origin))
            model, info = auto.from_pretrained(
                where, config=config, dtype=torch.float32, output_loading_info=True, **origin
            )
            tokenizer = AutoTokenizer.from_pretrained(where, **origin)
    except (OSError, ValueError, SafetensorError) as error:
        raise _unloadable(auto, name, revision, error) from error
    absent = sorted({*info["missing_keys"], *(str(key) for key in info["mismatched_keys"])})
    if absent:
        raise DataError(
            f"{name} is not {_PURPOSE[auto]}: weights are missing or misshapen ({', '.join(absent[:3])}"
            f"{', …' if len(absent) > 3 else ''}); give a model that was saved as one."
        )
    _check_tokenizer(name, model, tokenizer)
    return model.eval(), tokenizer


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


def _unloadable(auto: Any, name: str, revision: str, error: Exception) -> DataError:
    detail = str(error).strip().splitlines()[0].rstrip(".")
    if name.startswith("mini:") or Path(name).is_dir():
        return DataError(
            f"{name} cannot be loaded as {_PURPOSE[auto]}: {detail}. "
            "The folder must hold config.json, model.safetensors and the tokenizer's files, as save_pretrained does it."
        )
    pinned = f" at revision {revision}" if revision else ""
    return DataError(
        f"{name}{pinned} is neither a local folder nor to be had from the hub: {detail}. Fetch it once with a "
        f"connection (`hf download {name}`), give the path of a folder, or use the mini suite, whose models ship."
    )


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
