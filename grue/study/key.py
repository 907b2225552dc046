"""The key of a study: what was shown to whom, and which system wrote it. Keep it private to the study's organiser."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from grue import files
from grue.errors import DataError
from grue.records import Direction
from grue.study.template import Template

KEY = "key.json"
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class StudySystem:
    """A system whose texts are judged.

    Attributes:
        origin: "submissions", "runs", or a path.
        files: Seed → sha256 of the file of predictions; "" if the file has no seed.
    """

    name: str
    origin: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Item:
    """An example of the study.

    Attributes:
        texts: One by each system, in the key's order.
        seeds: The seeds of the texts, as in `StudySystem.files`.
        scores: Metric → the values of the texts.
    """

    id: str
    prompt: str
    texts: tuple[str, ...]
    seeds: tuple[str, ...]
    scores: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Screen:
    """One screen of a page: one text, or two to compare.

    Attributes:
        id: A random name, the only one that the page knows.
        item: Its place in the key's items.
        systems: Places in the key's systems; of a pair, the first text's system first.
    """

    id: str
    item: int
    systems: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Annotator:
    """An annotator and the screens, in order."""

    name: str
    screens: tuple[Screen, ...]


@dataclass(frozen=True, slots=True)
class Key:
    """A study: the content of `key.json`.

    Attributes:
        study: Hash of everything else. Pages and answers carry it.
        grue: Version that made it.
        seed: Of the draws of items, orders and names of screens.
        metrics: Metric → its direction, for the metrics in the items' scores.
    """

    schema: int
    study: str
    grue: str
    suite: str
    task: str
    task_hash: str
    split: str
    seed: int
    template: Template
    metrics: Mapping[str, Direction]
    systems: tuple[StudySystem, ...]
    items: tuple[Item, ...]
    annotators: tuple[Annotator, ...]


def signed(key: Key) -> Key:
    """Return the key with its hash."""
    return replace(key, study=files.sha256_json(replace(key, study=""))[:16])


def read_key(folder: Path) -> Key:
    """Read the key in the folder of a study."""
    path = folder / KEY
    if not path.is_file():
        raise DataError(
            f"{path}: there is no such file: name the folder that `grue tools study make` wrote, with its key."
        )
    key = files.load_json(path, Key)
    if signed(key).study != key.study:
        raise DataError(
            f"{path}: was changed after the study was made, so that it does not say who wrote what. Restore it."
        )
    return key
