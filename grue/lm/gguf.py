"""Models in GGUF files: dequantised once, by transformers, into a folder of grue's cache.

The folder is named by the sha256 of the file, so that a file has one copy wherever it is. The numbers are exactly those
of the file: a float16 scale times a small integer fits into float32, but into nothing smaller.
"""

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

from grue import files
from grue.data.cache import cache_folder, locked, size_text, translate_disk_errors
from grue.errors import DataError, Unavailable, escaped

ENDING = ".gguf"
EXTRA = "pip install 'grue[small]'"
WHOLE = "model.safetensors"  # its presence means that the folder is complete
NOT_CAUSAL = {
    "t5": "an encoder-decoder",
    "t5encoder": "an encoder",
    "bert": "an encoder",
    "clip": "not a language model",
}
"""GGUF architectures that are not causal language models."""


def locate(name: str) -> Path:
    """Return the folder of a GGUF file's model in the cache; creating it takes a minute and 4 bytes per weight.

    Raises:
        DataError: There is no such file, it is damaged, of an architecture that cannot be read, or the cache cannot be
            written.
        Unavailable: A package that reads such files is not installed.
    """
    folder = folder_of(file_sha256(name))
    if not (folder / WHOLE).is_file():
        dequantise(name, Path(name), folder)
    return folder


def folder_of(sha256: str) -> Path:
    """Return the folder for the model of the file with this sha256; it may not exist."""
    return cache_folder() / "gguf" / sha256


def file_sha256(name: str) -> str:
    """Return the sha256 of a file, reread once it has changed; a DataError if it cannot be read."""
    path = Path(name)
    if not path.is_file():
        raise DataError(f"There is no file {name!r}: give the path of a GGUF file, a folder or a hub id.")
    return sha256_of(path)


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file, reread once it has changed."""
    stat = path.stat()
    return _sha256_of(path.resolve(), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)  # nobody can set the last


@lru_cache(maxsize=1024)
def _sha256_of(path: Path, size: int, changed: int, touched: int) -> str:
    return files.sha256_file(path)


def dequantise(name: str, path: Path, folder: Path, expected: str = "") -> None:
    """Write a GGUF file's weights, configuration and tokenizer into a folder, which appears once it is complete.

    Errors are those of `locate`. The weights must have the sha256 `expected`, if given, since releases of transformers
    may read a file differently.
    """
    absent = [package for package in ("gguf", "accelerate") if find_spec(package) is None]
    if absent:
        raise Unavailable(f"{name}: reading a GGUF file needs the package {absent[0]}: {EXTRA}.")
    with appearing(folder) as temporary:
        if temporary is not None:
            _check_file(name, path)
            _write(name, path, temporary)
            if expected and files.sha256_file(temporary / WHOLE) != expected:
                raise DataError(
                    f"{name}: the weights that transformers {version('transformers')} and gguf {version('gguf')} read "
                    f"from it differ from those of the published scores. Install the versions of the extra: {EXTRA}."
                )


@contextmanager
def appearing(folder: Path) -> Iterator[Path | None]:
    """Yield a folder to write into, which becomes `folder` if the block succeeds; None if `folder` exists.

    It raises a DataError if the cache cannot be written, or the disk is full; nothing is left behind.
    """
    with locked(folder.with_name(f"{folder.name}.lock")), translate_disk_errors(folder):
        if folder.is_dir():
            yield None
            return
        with files.replacing_folder(folder) as new:
            yield new


def _check_file(name: str, path: Path) -> None:
    """Refuse a file that is not GGUF, is cut short, or holds another kind of model."""
    from gguf import GGUFReader

    size = size_text(path.stat().st_size)
    with path.open("rb") as handle:
        if handle.read(4) != b"GGUF":
            raise DataError(f"{name}: not a GGUF file ({size}): it does not begin with GGUF. Use another copy.")
    try:
        reader = GGUFReader(path)
        ends = [int(tensor.data_offset) + int(tensor.n_bytes) for tensor in reader.tensors]
        architecture = str(reader.fields["general.architecture"].contents())
        if max(ends, default=0) > path.stat().st_size:
            raise EOFError
    except Exception as error:  # the reader checks nothing, so a damaged file can raise anything
        raise DataError(f"{name}: the GGUF file ({size}) is damaged or cut short. Use another copy.") from error
    if architecture in NOT_CAUSAL:
        raise DataError(
            f"{name}: the GGUF file holds {NOT_CAUSAL[architecture]} ({escaped(architecture)}); only causal language "
            "models are read from GGUF. Give a folder or a hub id of the model in safetensors."
        )


def _write(name: str, path: Path, folder: Path) -> None:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    from grue.lm.quiet import quiet

    where: dict[str, Any] = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    try:
        with quiet(), redirect_stderr(StringIO()):  # its progress bar ignores transformers' switches
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                **where,
                trust_remote_code=False,
                dtype=torch.float32,
                quantization_config=GgufConfig(dequantize=True),
                output_loading_info=True,
            )
            tokenizer = AutoTokenizer.from_pretrained(**where, trust_remote_code=False)
    except Exception as error:  # unknown architectures, quantisations and tokenizers raise anything
        reason = escaped(" ".join(str(error).split()).rstrip(".") or type(error).__name__, 400)
        raise DataError(f"{name}: transformers cannot read this GGUF file: {reason}. Give a folder.") from error
    model, report = loaded
    if strange := sorted({*report["missing_keys"], *report["unexpected_keys"]}):
        raise DataError(f"{name}: the GGUF file is incomplete: {escaped(', '.join(strange[:3]))}. Use another copy.")
    config = model.config
    vars(config).pop("quantization_config", None)
    config._name_or_path, config.architectures = "", [type(model).__name__]
    config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    tied = set(model.all_tied_weights_keys)
    weights = {key: value.contiguous() for key, value in model.state_dict().items() if key not in tied}
    try:
        save_file(weights, folder / WHOLE, metadata={"format": "pt"})
    except SafetensorError as error:
        raise DataError(f"{folder}: cannot be written: {escaped(error)}. Name another with GRUE_CACHE.") from error
