"""Checks of a model's folder before transformers opens it, since anyone may have made it.

transformers would ask on the terminal whether to run code that a configuration names, load an adapter beside the
weights, unpickle weights and fetch kernels. Such folders are refused here. Only JSON and the headers of safetensors are
read. How much memory and time a model takes is not checked.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from safetensors import SafetensorError, safe_open

from grue import files
from grue.errors import DataError, Unavailable, escaped
from grue.lm import gguf, packaged
from grue.mini import assets
from grue.shapes import shown

CONFIG, TOKENIZER_CONFIG = "config.json", "tokenizer_config.json"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
JSON = (CONFIG, TOKENIZER_CONFIG, INDEX, "generation_config.json", "special_tokens_map.json", "added_tokens.json")
PICKLE_ENDINGS = (".bin", ".pt", ".pth", ".pkl", ".ckpt", ".pickle")

REFUSED_KEYS = {
    "auto_map": "names Python code, which is never run; without the key it must be one of transformers' own models",
    "quantization_config": "asks for quantised weights, which are not read; save the model dequantised",
    "compression_config": "asks for compressed weights, which are not read; save the model decompressed",
    "use_kernels": "asks for kernels from the hub, which are never run; remove it",
    "kernel_config": "asks for kernels from the hub, which are never run; remove it",
    "use_pretrained_backbone": "asks for the weights of another model; remove it",
    "use_timm_backbone": "asks for the weights of another model; remove it",
    "fusion_config": "asks for modules other than the architecture's; remove it",
    "distributed_config": "asks for several devices; remove it",
    "transformers_weights": f"names weights other than {WEIGHTS}; remove it",
    "configuration_files": f"names configurations other than {CONFIG}; remove it",
    "fast_tokenizer_files": "names files other than tokenizer.json; remove it",
}
IMPLEMENTATIONS = ("eager", "sdpa", "batched_mm", "grouped_mm")
"""Ways of computing attention and experts that are part of transformers; any other may come from the hub."""

Shapes = Mapping[str, tuple[int, ...]]


def locate_model(name: str) -> str:
    """Return the folder that transformers loads a model from, or the hub id unchanged.

    Models of packages and GGUF files are unpacked into grue's cache on first use.

    Args:
        name: `mini:<asset>`, `small:<model>` of a package, the path of a saved model, of a run's folder with its
            `checkpoint/` or of a GGUF file, or a hub id.

    Raises:
        UnknownName: There is no such small model.
        DataError: A model's file is damaged, or the name is a path that does not exist.
        Unavailable: The package is not installed.
    """
    if name.startswith("mini:"):
        return str(assets.locate(name.removeprefix("mini:")))
    if name.startswith(packaged.PREFIX):
        return str(packaged.locate(name))
    if Path(name).is_dir():
        inner = Path(name) / "checkpoint"
        return str(inner) if inner.is_dir() and not (Path(name) / "config.json").exists() else name
    if name.endswith(gguf.ENDING):
        return str(gguf.locate(name))
    if not _is_hub_id(name):
        raise DataError(
            f"There is no folder {name!r}: give the folder of a saved model, a GGUF file, a hub id, mini:<name> or "
            "small:<name>."
        )
    return name


def check_name(name: str) -> None:
    """Refuse a name that cannot be a model's, like `locate_model`, but without unpacking a file."""
    if name.startswith(packaged.PREFIX):
        packaged.packaged_model(name)
    elif name.endswith(gguf.ENDING) and not Path(name).is_dir():
        gguf.file_sha256(name)
    else:
        locate_model(name)


def source_sha256(name: str) -> str:
    """Return the sha256 of the one file that a model was unpacked from; empty for a folder and a hub id.

    The other files that transformers writes of it differ between releases; this does not.
    """
    if name.startswith(packaged.PREFIX):
        return packaged.packaged_model(name).source
    return gguf.file_sha256(name) if name.endswith(gguf.ENDING) and not Path(name).is_dir() else ""


def _is_hub_id(name: str) -> bool:
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # exported, but not listed

    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return True


def check_folder(name: str, folder: Path) -> None:
    """Refuse a model's folder that asks transformers for something unsafe: code, kernels, other weights, an adapter.

    Raises:
        DataError: It has an adapter, or a configuration is not a JSON object or asks for something unsafe.
    """
    if (folder / "adapter_config.json").exists():
        raise DataError(
            f"{name}: {folder / 'adapter_config.json'} would add an adapter to the weights. Merge it into them "
            "(merge_and_unload of peft) and save the result, or remove it."
        )
    for path in (folder / file for file in JSON):
        if path.exists():
            _check_configuration(path, read_object(path))


def contents(folder: Path) -> set[str]:
    """Return the names of a model's files, those of its folders included; a DataError for a link, say."""
    names = set()
    for path in folder.rglob("*"):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise DataError(f"{escaped(path)}: a link or a special file, which is not read; replace it by a file.")
        if path.is_file():
            names.add(path.relative_to(folder).as_posix())
    return names


def check_listed(folder: Path, listed: Mapping[str, str], manifest: str, inert: Callable[[str], object]) -> None:
    """Refuse a folder whose files are not those that its manifest lists, name → sha256.

    Files whose names are `inert` need not be listed.
    """
    held = contents(folder)
    strangers = sorted(name for name in held - listed.keys() if not inert(name))
    if strangers:
        raise DataError(
            f"{folder}: damaged: it holds {named(strangers)}, which {manifest} does not list: it could change what is "
            "loaded. Remove what does not belong there, or copy the whole folder again."
        )
    for name, expected in listed.items():
        fault = "" if name in held else "is missing"
        if fault or gguf.sha256_of(folder / name) != expected:
            raise DataError(
                f"{folder}: damaged: {escaped(name)} {fault or 'differs from the saved file'}. Train again, or copy "
                "the whole folder."
            )


def named(names: Sequence[str]) -> str:
    """Return the first few names, for a message."""
    return escaped(", ".join(names[:3])) + (f" and {len(names) - 3} more" if names[3:] else "")


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file of a model; a DataError if it is not one in strict JSON."""
    value = files.read_json(path)
    if not isinstance(value, dict):
        raise DataError(f"{path}: expected an object, found {shown(value)}.")
    return value


# --- configurations --------------------------------------------------------------------------------------------------


def _check_configuration(path: Path, config: dict[str, Any]) -> None:
    for key, value in _items(config):
        if key in REFUSED_KEYS and value:
            raise DataError(f"{path}: `{key}` {REFUSED_KEYS[key]}.")
        if key.endswith(("attn_implementation", "experts_implementation")):
            for implementation in value.values() if isinstance(value, dict) else (value,):
                if implementation not in (None, *IMPLEMENTATIONS):
                    raise DataError(
                        f"{path}: `{key}` is {implementation!r:.80}, which may be code of the hub and is never run; "
                        f"remove the key, or use one of {', '.join(IMPLEMENTATIONS)}."
                    )
        if key == "__float__" and value == "NaN":  # how transformers writes NaN
            raise DataError(f"{path}: a value is not a number (NaN); correct it.")


def _items(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of an object and of all within it."""
    pending: list[Any] = [config]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            yield from value.items()
            pending += value.values()
        elif isinstance(value, list):
            pending += value


# --- weights ---------------------------------------------------------------------------------------------------------


def weight_shapes(name: str, folder: Path, auto: str) -> Shapes:
    """Return the shapes of the weights that transformers will read, from the headers of their files.

    `name` and `auto`, the class of transformers that loads the model, are for messages.

    Raises:
        DataError: There are none in safetensors, or a file is incomplete or differs from the index.
        Unavailable: There are none in safetensors in the cached folder of a hub model.
    """
    sharded = [path.name for path in folder.glob("shard-*-model-*-of-*.safetensors")]
    if sharded:
        raise DataError(f"{name}: {escaped(sharded[0])} is a distributed checkpoint's; save the model whole.")
    if (folder / WEIGHTS).exists():
        return header(folder / WEIGHTS)
    if (folder / INDEX).exists():
        return _sharded(folder)
    raise no_safetensors(name, [path.name for path in folder.iterdir()], auto, Path(name).is_dir())


def _sharded(folder: Path) -> Shapes:
    listed = read_object(folder / INDEX).get("weight_map")
    if not isinstance(listed, dict) or not all(_is_shard(shard) for shard in listed.values()):
        raise DataError(f"{folder / INDEX}: `weight_map` must map weights to safetensors files of this folder.")
    shards = {shard: header(folder / shard) for shard in sorted(set(listed.values()))}
    held = {key: (shard, shape) for shard, shapes in shards.items() for key, shape in shapes.items()}
    moved = sorted(key for key, shard in listed.items() if held.get(key, ("",))[0] != shard)
    if moved:
        raise DataError(f"{folder / INDEX}: {escaped(moved[0])} is not in the file that `weight_map` names.")
    return {key: shape for key, (_, shape) in held.items()}


def _is_shard(shard: Any) -> bool:
    return isinstance(shard, str) and Path(shard).name == shard and shard.endswith(".safetensors")


def header(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes in a safetensors file; a DataError if its header does not describe the bytes after it."""
    try:
        with safe_open(path, "pt") as opened:
            return {key: tuple(opened.get_slice(key).get_shape()) for key in opened.keys()}  # noqa: SIM118
    except OSError as error:
        raise DataError(f"{escaped(path)}: cannot be read: {error.strerror or error}.") from error
    except SafetensorError as error:
        raise DataError(f"{escaped(path)}: not a complete safetensors file: {escaped(error)}.") from error


def no_safetensors(name: str, held: list[str], auto: str, local: bool) -> DataError:
    """Return the error for a model without safetensors, whose folder has the files `held`.

    `auto` is the class of transformers that loads it, `local` whether the name is that of a folder.
    """
    pickled = sorted(file for file in held if file.endswith(PICKLE_ENDINGS))
    if not pickled:
        kind = DataError if local else Unavailable
        return kind(f"{name}: it has no {WEIGHTS}. A model's folder is written by save_pretrained, in safetensors.")
    read = "import sys; from transformers import {} as M; M.from_pretrained(sys.argv[1]).save_pretrained(sys.argv[2])"
    target = name if local else "FOLDER"
    named = escaped(", ".join(pickled[:3]))
    message = (
        f"{name}: its weights are pickled ({named}), which can run code; only safetensors are read. "
        f'If you trust them, convert them once: python -c "{read.format(auto)}" {quote(name)} {quote(target)}'
    )
    if local:
        return DataError(message)
    return Unavailable(
        f"{message}; save its tokenizer there likewise (AutoTokenizer), and give the folder. "
        "A task's own model is converted by `grue data fetch TASK --models`."
    )
