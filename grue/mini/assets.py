"""The small models that ship with the mini suite: their manifest, and where they lie once known to be whole."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from grue import files
from grue.errors import DataError, UnknownName, did_you_mean

MODELS = Path(__file__).parent / "models"
MANIFEST = "manifest.json"
SCHEMA = 1

Family = Literal["causal", "seq2seq", "classifier", "encoder"]
Text = Literal["paragraphs", "reviews", "german", "translations", "acts", "claims", "likenesses"]
"""The texts of the world, each named as the function of `grue.mini.text` that draws it."""


@dataclass(frozen=True, slots=True)
class TrainingData:
    """The world text that a model was trained on.

    Attributes:
        text: What was drawn.
        revision: Revision of the world.
        seed: Seed of the draw.
        count: How many of them.
    """

    text: Text
    revision: str
    seed: int
    count: int


@dataclass(frozen=True, slots=True)
class Asset:
    """One model of the manifest.

    Attributes:
        family: Which of transformers' automatic classes loads the folder.
        parameters: Trained numbers, tied ones counted once.
        training: The text it read, or the first of several.
        besides: The other texts that it read.
        steps: Optimiser steps.
        held_out: Figures of the shipped (rounded) weights on world text of another seed.
        made_with: Versions of the libraries, and the number of threads, which decide the last bits of the weights.
        files: File name → sha256.
    """

    description: str
    family: Family
    architecture: str
    parameters: int
    training: TrainingData
    seed: int
    steps: int
    held_out: Mapping[str, float]
    made_with: Mapping[str, str]
    licence: str
    files: Mapping[str, str]
    besides: tuple[TrainingData, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """What lies beside it: one folder an asset, loadable by transformers alone."""

    schema: int
    assets: Mapping[str, Asset]


def read_manifest(models: Path = MODELS) -> Manifest:
    """Read the manifest of a folder of models.

    Raises:
        DataError: There is none.
        ConfigError: It has another shape.
    """
    return files.load_json(models / MANIFEST, Manifest)


def write_manifest(models: Path, manifest: Manifest) -> None:
    """Write the manifest, its assets sorted by name."""
    assets = {name: manifest.assets[name] for name in sorted(manifest.assets)}
    files.write_json(models / MANIFEST, Manifest(manifest.schema, assets))


@cache
def locate(name: str, models: Path = MODELS) -> Path:
    """Return the folder of a small model, its files checked against the manifest once per process.

    Raises:
        UnknownName: The manifest has no such model.
        DataError: A file is missing or is not the one that shipped.
    """
    known = read_manifest(models).assets
    if name not in known:
        raise UnknownName(
            f"There is no small model {name!r}.{did_you_mean(name, known)} Known: {', '.join(sorted(known))}."
        )
    folder = models / name
    for file, expected in known[name].files.items():
        path = folder / file
        if not path.is_file():
            raise _damaged(name, f"{path} is missing")
        if files.sha256_file(path) != expected:
            raise _damaged(name, f"the sha256 of {path} is not the manifest's")
    return folder


def _damaged(name: str, what: str) -> DataError:
    return DataError(
        f"The small model {name!r} is damaged: {what}. Reinstall grue to get the shipped weights back "
        f"(`grue mini build --only {name}` makes new ones, whose scores do not compare with published ones)."
    )
