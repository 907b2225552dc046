"""Read pairs to train or evaluate a reward model: the part of each prompt, and contradictory judgements."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grue.data.pairs import PARTS, SHARES, PairsHeader, Part, contradictions, part_of
from grue.data.scored import read_scored
from grue.errors import DataError
from grue.records import Example
from grue.tasks import Task


@dataclass(frozen=True, slots=True)
class PreferencePair:
    """Two texts to a prompt.

    Attributes:
        target: Target probability that `first` is better: 1, or ½ for a tie.
    """

    prompt: str
    first: str
    second: str
    target: float
    part: Part


@dataclass(frozen=True, slots=True)
class PairsFile:
    """The pairs of a file.

    Attributes:
        contradictions: Pairs of texts that were judged both ways.
        named_parts: Whether the file itself assigns prompts to parts.
    """

    pairs: tuple[PreferencePair, ...]
    sha256: str
    header: PairsHeader | None
    contradictions: int
    named_parts: bool

    def of(self, part: Part) -> list[PreferencePair]:
        """Return the pairs of one part."""
        return [pair for pair in self.pairs if pair.part == part]


def read_pairs(path: Path, task: Task, examples: Sequence[Example], seed: int, *, split: str) -> PairsFile:
    """Read a file of pairs of a split's `examples`; prompts without a part are divided by the seed: 60, 20 and 20 %."""
    data = read_scored(path, task, examples, split)
    if not data.rewards and any(len(group.texts) > 2 for group in data.groups):
        raise DataError(
            f"{path}: holds rankings, and a reward model learns from pairs: write each two of a ranking as a line with "
            '"chosen" and "rejected".'
        )
    if data.rewards or any(len(group.texts) != 2 for group in data.groups):
        raise DataError(
            f"{path}: holds no pairs; `grue tools pairs from-samples {path.name} --output PAIRS` makes some of it."
        )
    named = data.groups[0].part is not None
    pairs = []
    for group in data.groups:
        prompt, (first, second), scores = group.example.prompt, group.texts, group.scores
        part = group.part or part_of(prompt, seed, SHARES)
        pairs.append(PreferencePair(prompt, first, second, 0.5 if scores[0] == scores[1] else 1.0, part))
    both = contradictions((pair.prompt, pair.first, pair.second) for pair in pairs if pair.target != 0.5)
    header = data.made if isinstance(data.made, PairsHeader) else None
    return PairsFile(tuple(pairs), data.sha256, header, len(both), named)


def require_parts(pairs: PairsFile, path: Path) -> None:
    """Raise a DataError if the part to learn from, or to validate on, is empty or has only ties."""
    for part in PARTS[:2]:
        of_part = pairs.of(part)
        if not of_part or all(pair.target == 0.5 for pair in of_part):
            fault = "holds no pairs" if not of_part else "holds nothing but ties"
            counts = ", ".join(f"{len(pairs.of(name))} {name}" for name in PARTS)
            raise DataError(
                f"{path}: its part {part!r} {fault} (pairs: {counts}). Make more pairs of more prompts, or divide them "
                "otherwise with `grue tools pairs … --shares`."
            )
