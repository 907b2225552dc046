"""Finding and loading models and their tokenizers: the small ones that ship, local folders, pinned hub models.

Every model is float32, in evaluation mode and without dropout, even after `.train()`. It is loaded on the CPU; the
caller moves it.

Padding. A tokenizer without a pad token (GPT-2) pads with its end-of-text token; the vocabulary is never resized. This
is safe because masks are made with a batch and carried by position, never recovered from ids. The small models of the
mini suite have a pad token of their own.

Trust. `lm/folder.py` checks every folder, also that of a hub model, before transformers reads it. No code of a model is
run, no pickle is opened, and nothing is asked on the terminal.
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.initialization import no_init_weights

from grue import files
from grue.data.hub.errors import translate_hub_errors
from grue.errors import DataError, GrueError, Unavailable, escaped
from grue.lm.checkpoint import MANIFEST, read_manifest
from grue.lm.constraints import own_decoding
from grue.lm.convert import PICKLED, convert, converted_folder
from grue.lm.endings import append_nothing
from grue.lm.folder import (
    CONFIG,
    WEIGHTS,
    Shapes,
    check_folder,
    locate_model,
    named,
    no_safetensors,
    read_object,
    source_sha256,
    weight_shapes,
)
from grue.lm.gguf import sha256_of
from grue.lm.plain_text import read_as_text
from grue.lm.quiet import quiet
from grue.tasks import Family

FolderState = tuple[tuple[Path, int, int], ...]
"""Path, size and time of change of each file of a folder."""
LoadedModel = tuple[PreTrainedModel, PreTrainedTokenizerBase]

_AUTO: Mapping[str, Any] = {"causal": AutoModelForCausalLM, "seq2seq": AutoModelForSeq2SeqLM}
_PURPOSE = {
    AutoModelForCausalLM: "a causal language model",
    AutoModelForSeq2SeqLM: "an encoder-decoder language model",
    AutoModelForSequenceClassification: "a text classifier",
    AutoModel: "an encoder",
}
TEXT_FILES = ("*.json", "*.txt", "*.model", "*.tiktoken", "*.jinja")
EXTRA_OUTPUTS = ("output_attentions", "output_hidden_states", "output_router_logits")


def weights_id(name: str, revision: str = "") -> str:
    """Return what identifies a model's weights: the sha256 of a file or a folder, or a hub id and its commit.

    A file or folder is reread once it has changed. `name` is as in `locate_model`. Of a hub model that can neither be
    found here nor reached, which can be planned but not loaded, it has the branch in place of the commit.
    """
    if source := source_sha256(name):
        return source
    state = state_of(name)
    if not state:
        return f"{name}@{_commit(name, revision) or revision or 'main'}"
    return files.sha256_json({path.name: sha256_of(path) for path, _, _ in state})


def _commit(name: str, revision: str) -> str:
    try:
        folder = model_folder(name, revision, weights=False)
    except Unavailable:
        return ""
    return folder.name if folder.parent.name == "snapshots" else ""


def state_of(name: str) -> FolderState:
    """Return path, size and time of change of the files of a model's folder; nothing for a hub model."""
    where = Path(locate_model(name)).resolve()
    paths = sorted(path for path in where.iterdir() if path.is_file()) if where.is_dir() else []
    return tuple((path, path.stat().st_size, path.stat().st_mtime_ns) for path in paths)


def family_of(name: str, revision: str = "") -> Family:
    """Return a model's family by its configuration; errors as in `load_language_model`.

    Without a configuration it counts as causal, and loading it is refused.
    """
    path = model_folder(name, revision, weights=False) / CONFIG
    return "seq2seq" if path.exists() and read_object(path).get("is_encoder_decoder") is True else "causal"


def load_language_model(family: Family, name: str, revision: str = "") -> LoadedModel:
    """Load a fresh copy of a language model and its tokenizer.

    Of the model's own decoding settings only those of `grue.lm.constraints` are kept: transformers' `generate` would
    apply the others (minimum lengths, beams) wherever a task sets no value.

    Args:
        family: "causal" pads on the left, and its tokenizer appends nothing to a text; "seq2seq" pads on the right.
        name: See `locate_model`.
        revision: Commit or tag of a hub model; empty means the newest. Ignored for folders.

    Raises:
        DataError: The model is missing, incomplete or of another kind.
        Unavailable: It is a hub model, not in the local cache, and the hub cannot be reached.
    """
    model, tokenizer = load_pretrained(_AUTO[family], name, revision, family)
    tokenizer.padding_side = "left" if family == "causal" else "right"
    if tokenizer.eos_token_id is None:
        raise DataError(
            f"{name}: its tokenizer has no end-of-text token, so a generation could not end; set `eos_token` in its "
            "tokenizer_config.json."
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    model.config.pad_token_id = tokenizer.pad_token_id
    with _reading(_PURPOSE[_AUTO[family]], name, "its generation settings"):
        model.generation_config = own_decoding(name, model, tokenizer)
    return model, tokenizer


def load_tokenizer(name: str, revision: str = "", family: Family | None = None) -> PreTrainedTokenizerBase:
    """Load a tokenizer without its model.

    Args and errors as in `load_language_model`; without a family it is unchanged.
    """
    folder = model_folder(name, revision, weights=False)
    check_folder(name, folder)
    return _read_tokenizer(name, folder, family)


def load_pretrained(auto: Any, name: str, revision: str, family: Family | None = None) -> LoadedModel:
    """Load a model with one of transformers' Auto classes in `_PURPOSE`, and its tokenizer.

    Other arguments and errors as in `load_language_model`; without a family the tokenizer appends what it does.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)  # from Hopper on it plans anew for each shape: at every token drawn
    folder, purpose = model_folder(name, revision), _PURPOSE[auto]
    config, shapes, misshapen = _described(auto, name, folder, weights=True)
    with _reading(purpose, name, f"the weights ({', '.join(misshapen[:3])})" if misshapen else "the weights"):
        model, info = auto.from_pretrained(
            folder,
            config=config,
            dtype=torch.float32,
            output_loading_info=True,
            trust_remote_code=False,
            use_safetensors=True,
        )
    _check_weights(auto, name, model, info, len(shapes))
    _check_finite(name, model)
    tokenizer = _read_tokenizer(name, folder, family)
    _check_tokenizer(name, model, tokenizer)
    model.name_or_path = model.config.name_or_path = locate_model(name)
    return model.eval(), tokenizer


def check_language_model(family: Family, name: str, revision: str = "") -> PretrainedConfig:
    """Refuse what `load_language_model` would, as far as possible without reading weights; return the configuration.

    Of a hub model that is not on this machine, configuration and tokenizer are fetched. Arguments and errors as there.
    """
    return _checked(family, name, revision, state_of(name))


@lru_cache(maxsize=64)
def _checked(family: Family, name: str, revision: str, state: FolderState) -> PretrainedConfig:
    auto, folder = _AUTO[family], model_folder(name, revision, weights=False)
    has_weights = bool(state) or any(folder.glob("*.safetensors"))
    config, _, misshapen = _described(auto, name, folder, has_weights)
    if misshapen:
        raise _unloadable(_PURPOSE[auto], name, f"the weights ({', '.join(misshapen[:3])})")
    _read_tokenizer(name, folder, family)
    return config


def is_here(name: str, revision: str = "") -> bool:
    """Whether a model is on this machine, weights included."""
    return bool(state_of(name)) or _cached(name, revision, weights=True) is not None


def _described(auto: Any, name: str, folder: Path, weights: bool) -> tuple[PretrainedConfig, Shapes, list[str]]:
    """Return a model's configuration, the shapes of its weights, and the weights whose shapes contradict it.

    Without `weights`, which are then not on this machine, there are no shapes.
    """
    if Path(locate_model(name)).is_dir() and (folder / MANIFEST).exists():
        read_manifest(folder)
    check_folder(name, folder)
    if not (folder / CONFIG).exists():
        raise _unloadable(_PURPOSE[auto], name, f"it has no {CONFIG}")
    shapes = weight_shapes(name, folder, auto.__name__) if weights else {}
    with _reading(_PURPOSE[auto], name, CONFIG):
        config = _plain(AutoConfig.from_pretrained(folder, trust_remote_code=False))
        _check_family(auto, name, config)
        return config, shapes, _misshapen(auto, config, shapes) if weights else []


def _read_tokenizer(name: str, folder: Path, family: Family | None = None) -> PreTrainedTokenizerBase:
    with _reading("a tokenizer", name, "its files"):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        tokenizer.name_or_path = locate_model(name)
        read_as_text(name, tokenizer)
        if family == "causal":
            append_nothing(tokenizer)
    return tokenizer


def _misshapen(auto: Any, config: PretrainedConfig, shapes: Shapes) -> list[str]:
    """Return the weights whose shapes differ from the configuration's, each with both shapes, for an error message."""
    with torch.device("meta"), no_init_weights():
        model = auto.from_config(copy.deepcopy(config), trust_remote_code=False)
    expected = {key: tuple(value.shape) for key, value in model.named_parameters(remove_duplicate=False)}
    prefix = f"{model.base_model_prefix}."
    faults = []
    for key, shape in shapes.items():
        expected_shape = next(
            (expected[each] for each in (key, prefix + key, key.removeprefix(prefix)) if each in expected), shape
        )
        if expected_shape != shape:
            faults.append(f"{escaped(key)} is {list(shape)}, {CONFIG} says {list(expected_shape)}")
    return faults


def _check_weights(auto: Any, name: str, model: PreTrainedModel, info: dict[str, Any], held: int) -> None:
    """Refuse a model whose files lack some of its weights or hold more layers than it has."""
    absent = sorted({*info["missing_keys"], *(str(key) for key in info["mismatched_keys"])})
    if auto is AutoModel:  # many checkpoints lack the pooler, which is not used
        absent = [key for key in absent if not key.startswith("pooler.")]
    if absent:
        raise DataError(
            f"{name} is not {_PURPOSE[auto]}: weights are missing or misshapen ({named(absent)}); give a model that "
            "was saved as one."
        )
    kinds = {_without_numbers(key) for key in model.state_dict()}
    unread = sorted(info["unexpected_keys"])  # a head that is not needed here, such as BERT's, is fine
    further = [key for key in unread if _without_numbers(key) in kinds] or (unread if 2 * len(unread) > held else [])
    if further:
        raise DataError(
            f"{name}: its files hold weights that {CONFIG} does not describe ({named(further)}); give the {CONFIG} "
            "that they were saved with."
        )


def _check_finite(name: str, model: PreTrainedModel) -> None:
    """Refuse weights that are not finite; minus infinity in a bias of the logits closes a token."""
    bias = getattr(model.get_output_embeddings(), "bias", None)
    for key, value in model.state_dict(keep_vars=True).items():
        closes = value is bias or key == "final_logits_bias"
        require_finite(name, key, value.masked_fill(value.isneginf(), 0.0) if closes else value)


def require_finite(name: str, key: str, weight: torch.Tensor) -> None:
    """Raise a DataError if a weight holds NaN or an infinite number."""
    if weight.sum().isfinite():  # one pass over the memory; the exact count only where this overflows
        return
    broken = ~weight.isfinite()
    if broken.any():
        raise DataError(
            f"{name}: {int(broken.sum()):,} of {weight.numel():,} numbers in its weight {key} are NaN or infinite: the "
            "file is damaged, or training had diverged when it was saved. Use another copy or an earlier checkpoint."
        )


def _without_numbers(key: str) -> str:
    return re.sub(r"\d+", "#", key)


def _check_family(auto: Any, name: str, config: PretrainedConfig) -> None:
    """Refuse an encoder-decoder as a causal model, of which transformers would load a part, and vice versa."""
    fitting = "seq2seq" if config.is_encoder_decoder else "causal"
    if auto in _AUTO.values() and auto is not _AUTO[fitting]:
        kind = "an encoder-decoder" if config.is_encoder_decoder else "a causal model"
        raise DataError(
            f"{name} cannot be loaded as {_PURPOSE[auto]}: it is {kind} ({escaped(config.model_type)}). Choose another "
            f'model, or a task whose backbone is of the family "{fitting}".'
        )


def _check_tokenizer(name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    embedding: Any = model.get_input_embeddings()
    rows = embedding.weight.shape[0]
    words = tokenizer.get_vocab().keys() - set(tokenizer.all_special_tokens)
    if len(words) < 2:  # transformers creates an empty tokenizer for a folder that has none
        raise DataError(f"{name} has no tokenizer: save the tokenizer beside the model.")
    if len(tokenizer) > rows:
        raise DataError(
            f"{name}: its tokenizer knows {len(tokenizer)} tokens and its model {rows}; "
            "save the tokenizer it was trained with."
        )


def _plain(config: PretrainedConfig) -> PretrainedConfig:
    """Switch off dropout, which some architectures read from the configuration at each step, and extra outputs.

    Nested configurations are changed, too. A router's outputs would add a loss to each pass, and fail with a cache.
    """
    for key, value in list(vars(config).items()):
        if isinstance(value, PretrainedConfig):
            _plain(value)
        elif "drop" in key and isinstance(value, float):
            setattr(config, key, 0.0)
    for key in EXTRA_OUTPUTS:
        if getattr(config, key, False):
            setattr(config, key, False)
    config.return_dict = True
    return config


@contextmanager
def _reading(purpose: str, name: str, source: str) -> Iterator[None]:
    """Let transformers read quietly, and translate whatever it raises: a damaged file can make it raise anything."""
    try:
        with quiet():
            yield
    except GrueError:
        raise
    except Exception as error:
        lines = " ".join(str(error).split()).partition(" Model type should be one of ")[0].rstrip(".")
        kind = "" if isinstance(error, OSError | ValueError) and lines else f"{type(error).__name__}: "
        raise _unloadable(purpose, name, f"{source}: {kind}{escaped(lines, 400)}") from error


def _unloadable(purpose: str, name: str, detail: str) -> DataError:
    return DataError(
        f"{name} cannot be loaded as {purpose}: {detail}. "
        f"The folder must hold {CONFIG}, model.safetensors and the tokenizer's files, written by save_pretrained."
    )


# --- hub models ------------------------------------------------------------------------------------------------------


def model_folder(name: str, revision: str = "", weights: bool = True) -> Path:
    """Return the folder of a model; a hub model is fetched into the hub's cache if needed.

    Without `weights`, only configuration and tokenizer are. Other arguments as for `load_language_model`.

    Raises:
        DataError: As `locate_model`.
        Unavailable: It is a hub model, not in the local cache, and the hub cannot be reached or has it only pickled.
    """
    where = Path(locate_model(name))
    if where.is_dir():
        return where
    if (converted_folder(name, revision) / WEIGHTS).is_file():
        return converted_folder(name, revision)
    try:
        with quiet():
            return fetch_model(name, revision, weights)
    except DataError as error:
        cached = _cached(name, revision, weights)
        if cached is not None:
            return cached
        if isinstance(error, Unavailable):
            raise
        pinned = f" at revision {revision}" if revision else ""
        raise Unavailable(
            f"{name}{pinned} is neither a local folder nor available from the hub: {str(error).rstrip('.')}. Download "
            f"it once while online (`hf download {name}`), give the path of a folder, or use the mini suite, whose "
            "models ship with grue."
        ) from error


def _cached(name: str, revision: str, weights: bool) -> Path | None:
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return _snapshot(name, revision, weights, local=True)
    except (LocalEntryNotFoundError, ValueError):  # ValueError: a name that no repository can have
        return None


def fetch_model(name: str, revision: str = "", weights: bool = True, pickled: bool = False) -> Path:
    """Download a model into the hub's cache: its safetensors, tokenizer and configuration.

    Weights that exist only pickled are converted if `pickled`; see `grue.lm.convert`.

    Raises:
        DataError: It cannot be downloaded or converted.
        Unavailable: Its weights are not in safetensors; says how to convert them.
    """
    from huggingface_hub import HfApi

    with translate_hub_errors(f"the model {name}" + (f" at {revision}" if revision else "")):
        info = HfApi().model_info(name, revision=revision or None, timeout=30)
        held = [file.rfilename for file in info.siblings or () if "/" not in file.rfilename]
        if not weights or any(file.endswith(".safetensors") for file in held):
            return _snapshot(name, revision, weights)
        if not pickled:
            raise no_safetensors(name, held, "AutoModel", local=False)
        if not (converted_folder(name, revision) / WEIGHTS).is_file():
            convert(name, revision, _snapshot(name, revision, weights, also=(PICKLED,)))
        return converted_folder(name, revision)


def _snapshot(name: str, revision: str, weights: bool, local: bool = False, also: Sequence[str] = ()) -> Path:
    from huggingface_hub import snapshot_download

    patterns = [*TEXT_FILES, *(["*.safetensors"] if weights else []), *also]
    folder = snapshot_download(
        name, revision=revision or None, allow_patterns=patterns, ignore_patterns=["*/*"], local_files_only=local
    )
    return Path(folder)
