"""Finding and loading models and their tokenizers: the small ones that ship, local folders, pinned hub models.

Every model is float32, in evaluation mode and without dropout, which `.train()` does not bring back. It is loaded on
the CPU; the caller moves it. Code that a model's folder brings along is never run, nor asked about.

Padding. A tokenizer without a pad token (GPT-2) pads with its end-of-text token; the vocabulary is never resized. This
is safe because masks are made with a batch and carried by position, never recovered from ids. The small models of the
mini suite have a pad token of their own.
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
from grue.errors import DataError, Unavailable
from grue.lm.model import start_id
from grue.mini import assets

Family = Literal["causal", "seq2seq"]
LoadedModel = tuple[PreTrainedModel, PreTrainedTokenizerBase]

_PURPOSE = {
    AutoModelForCausalLM: "a causal language model",
    AutoModelForSeq2SeqLM: "an encoder-decoder language model",
    AutoModelForSequenceClassification: "a text classifier",
    AutoModel: "an encoder",
}


def locate_model(name: str) -> str:
    """Return the folder or hub id that transformers loads a model from.

    Args:
        name: `mini:<asset>`, the path of a saved model or of a run's folder with its `checkpoint/`, or a hub id.

    Returns:
        The path of the model's folder, or the hub id unchanged.

    Raises:
        UnknownName: There is no such small model.
        DataError: A small model is damaged, or the name is a path without a folder.
    """
    if name.startswith("mini:"):
        return str(assets.locate(name.removeprefix("mini:")))
    if Path(name).is_dir():
        inner = Path(name) / "checkpoint"
        return str(inner) if inner.is_dir() and not (Path(name) / "config.json").exists() else name
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise DataError(f"There is no folder {name!r}: give the folder of a saved model, a hub id or mini:<name>.")
    return name


@cache
def weights_id(name: str, revision: str = "") -> str:
    """Return what identifies a model's weights: the sha256 of a folder's files, or a hub id and its revision.

    Args:
        name: See `locate_model`.
        revision: Commit or tag of a hub model.
    """
    where = Path(locate_model(name))
    if not where.is_dir():
        return f"{name}@{revision or 'main'}"
    return files.sha256_json({path.name: files.sha256_file(path) for path in where.iterdir() if path.is_file()})


def load_language_model(family: Family, name: str, revision: str = "") -> LoadedModel:
    """Load a fresh copy of a language model and its tokenizer.

    The checkpoint's own decoding settings (forced tokens, banned n-grams, minimum lengths, beams) are dropped:
    transformers' `generate` would apply them wherever a task's settings give no value.

    Args:
        family: "causal" pads on the left, "seq2seq" on the right.
        name: See `locate_model`.
        revision: Commit or tag of a hub model; empty means the newest. Ignored for folders.

    Raises:
        DataError: The model is missing, incomplete or of another kind.
        Unavailable: It is a hub model, not in the local cache, and the hub cannot be reached.
    """
    auto = AutoModelForCausalLM if family == "causal" else AutoModelForSeq2SeqLM
    model, tokenizer = load_pretrained(auto, name, revision)
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
        decoder_start_token_id=start_id(model) if family == "seq2seq" else None,
    )
    return model, tokenizer


def load_tokenizer(name: str, revision: str = "") -> PreTrainedTokenizerBase:
    """Load a tokenizer without its model.

    Args and errors as in `load_language_model`.
    """
    where = locate_model(name)
    origin: dict[str, Any] = {} if Path(where).is_dir() else {"revision": revision or "main"}
    try:
        with quiet():
            tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(where, trust_remote_code=False, **origin)
    except (OSError, ValueError) as error:
        raise _unloadable("a tokenizer", name, revision, error) from error
    return tokenizer


def load_pretrained(auto: Any, name: str, revision: str) -> LoadedModel:
    """Load a model with one of transformers' Auto classes, and its tokenizer.

    Args:
        auto: AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification or AutoModel.
        name: See `locate_model`.
        revision: As in `load_language_model`.

    Raises:
        DataError: As `load_language_model`.
    """
    where = locate_model(name)
    origin: dict[str, Any] = {} if Path(where).is_dir() else {"revision": revision or "main"}
    try:
        with quiet():
            config = _without_dropout(AutoConfig.from_pretrained(where, trust_remote_code=False, **origin))
            _check_family(auto, name, config)
            model, info = auto.from_pretrained(
                where,
                config=config,
                dtype=torch.float32,
                output_loading_info=True,
                trust_remote_code=False,
                **origin,
            )
    except (OSError, ValueError, SafetensorError) as error:
        raise _unloadable(_PURPOSE[auto], name, revision, error) from error
    absent = sorted({*info["missing_keys"], *(str(key) for key in info["mismatched_keys"])})
    if auto is AutoModel:  # many checkpoints lack the pooler, which no layer's output needs
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
    """Refuse an encoder-decoder as a causal model, which transformers would load in part, and vice versa."""
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
    """Set every dropout rate in the configuration to 0: some architectures read it there at each step."""
    for key, value in vars(config).items():
        if "drop" in key and isinstance(value, float):
            setattr(config, key, 0.0)
    return config


def _unloadable(purpose: str, name: str, revision: str, error: Exception) -> DataError:
    detail = str(error).strip().splitlines()[0].rstrip(".")
    if name.startswith("mini:") or Path(name).is_dir():
        return DataError(
            f"{name} cannot be loaded as {purpose}: {detail}. "
            "The folder must hold config.json, model.safetensors and the tokenizer's files, written by save_pretrained."
        )
    pinned = f" at revision {revision}" if revision else ""
    return Unavailable(
        f"{name}{pinned} is neither a local folder nor available from the hub: {detail}. Download it once while "
        f"online (`hf download {name}`), give the path of a folder, or use the mini suite, whose models ship with grue."
    )


def fetch_model(name: str, revision: str = "") -> Path:
    """Download a model into the hub's cache: weights in one format, safetensors if available, tokenizer, configuration.

    Raises:
        DataError: It cannot be downloaded.
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
    """Silence transformers' progress bars and loading reports; `load_pretrained` checks what they report."""
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
