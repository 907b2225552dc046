"""The manifest of the mini suite: what ships, how it was made, and the sha256 of all of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grue import files

HERE = Path(__file__).parent
MANIFEST = "manifest.json"
SCHEMA = 2

Family = Literal["causal", "seq2seq", "classifier", "encoder"]
Text = Literal[
    "paragraphs", "reviews", "german", "translations", "acts", "claims", "likenesses", "contrasts", "german_contrasts"
]
"""The kinds of training text, each named after the function of `miniworld.text` that draws it."""


@dataclass(frozen=True, slots=True)
class SplitRows:
    """The rows of one split.

    Attributes:
        sha256: Of the unpacked file, since another version of the library may pack it into other bytes.
    """

    rows: int
    sha256: str


@dataclass(frozen=True, slots=True)
class TaskRows:
    """The rows of one task, drawn from a revision of the mini world with its seed."""

    revision: str
    seed: int
    splits: Mapping[str, SplitRows]


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Text of the mini world that a model was trained on: kind, the world's revision, seed and number of texts."""

    text: Text
    revision: str
    seed: int
    count: int


@dataclass(frozen=True, slots=True)
class SmallModel:
    """One model.

    Attributes:
        family: Which of transformers' automatic classes loads the folder.
        parameters: Trained numbers; tied ones count once.
        training: The text it was trained on, or the first of several.
        held_out: Figures of the shipped (rounded) weights on world text of another seed.
        made_with: Versions of the libraries and the number of threads, which decide the last bits of the weights.
        files: File name → sha256.
        besides: The other texts it was trained on.
        chapters: In how many parts the text was read; part n was drawn from 1000·seed + n.
        ships: Whether it is in the package; one that is not is in a checkout alone, or found by `GRUE_MINI_MODELS`.
        grown_from: The model whose computation it began with, widened and deepened; none began at random.
        minutes: How long making it took, in minutes; 0 where nobody has measured it.
    """

    description: str
    family: Family
    architecture: str
    parameters: int
    training: TrainingData
    seed: int
    held_out: Mapping[str, float]
    made_with: Mapping[str, str]
    licence: str
    files: Mapping[str, str]
    besides: tuple[TrainingData, ...] = ()
    chapters: int = 1
    ships: bool = True
    grown_from: str = ""
    minutes: float = 0.0


@dataclass(frozen=True, slots=True)
class MiniManifest:
    """What lies beside it: `rows/<task>/<split>.jsonl.xz`, and `models/<name>`, which transformers loads alone."""

    schema: int
    rows: Mapping[str, TaskRows]
    models: Mapping[str, SmallModel]


def read_manifest(folder: Path = HERE) -> MiniManifest:
    """Read the manifest of a folder of rows and models; a DataError if it is missing, damaged or of another shape."""
    return files.load_json(folder / MANIFEST, MiniManifest)
