"""Converting published weights that exist only pickled into safetensors.

Some models of the paper were published before safetensors. `grue data fetch --models` reads them with torch's
restricted unpickler, which creates only tensors; loading a model reads only the converted copy.
"""

import pickle
import shutil
import warnings
from pathlib import Path

import torch
from safetensors.torch import save_file

from grue.data.cache import cache_folder, writing
from grue.errors import DataError, escaped
from grue.lm.folder import WEIGHTS

PICKLED = "pytorch_model*.bin"


def converted_folder(name: str, revision: str = "") -> Path:
    """Return the folder of the converted copy of a hub model, which may not exist."""
    return cache_folder() / "converted" / name.replace("/", "--") / (revision or "main").replace("/", "--")


def convert(name: str, revision: str, snapshot: Path) -> Path:
    """Write a model's pickled weights as safetensors, beside its other files, and return that folder.

    `snapshot` is its folder in the hub's cache, with the pickled weights.

    Raises:
        DataError: There are none, or they hold something other than tensors.
    """
    parts = sorted(snapshot.glob(PICKLED))
    if not parts:
        raise DataError(f"{name}: has neither {WEIGHTS} nor {PICKLED}; choose another model.")
    tensors: dict[str, torch.Tensor] = {}
    for part in parts:
        tensors |= _tensors(name, part)
    folder = converted_folder(name, revision)
    folder.mkdir(parents=True, exist_ok=True)
    for path in snapshot.iterdir():
        if path.is_file() and not path.match(PICKLED):
            shutil.copyfile(path, folder / path.name)
    with writing(folder / WEIGHTS) as temporary:  # last, so that a folder with weights is complete
        save_file(tensors, temporary, metadata={"format": "pt"})
    return folder


def _tensors(name: str, part: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a file, each with memory of its own, as safetensors needs them."""
    try:
        with warnings.catch_warnings(action="ignore"):  # torch's, about the protocol
            tensors = torch.load(part, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, OSError) as error:
        raise DataError(f"{name}: {part.name} holds more than weights, or is damaged: {escaped(error)}") from error
    if not isinstance(tensors, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in tensors.values()):
        raise DataError(f"{name}: {part.name} is not a table of weights.")
    return {str(key): tensor.detach().clone().contiguous() for key, tensor in tensors.items()}
