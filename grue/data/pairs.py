"""Files of preference pairs: their header, the parts of their prompts, and contradictory pairs.

A prompt belongs to one part with all its pairs: prompts are held out, never single pairs of a training prompt.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from grue import files
from grue.errors import ConfigError, DataError, escaped

KIND: Final = "preference pairs"
SCHEMA_VERSION: Final = 1
MAKE = "`grue tools pairs from-samples FILE --output PAIRS` writes such a file"

Part = Literal["train", "validation", "test"]
PARTS: tuple[Part, ...] = ("train", "validation", "test")
SHARES: Mapping[str, float] = {"train": 0.6, "validation": 0.2, "test": 0.2}
"""Shares of the prompts, as in the paper (App. B.4.4)."""

Judged = tuple[Hashable, str, str]
"""A judged pair: the prompt's key, the better text, the worse text."""


@dataclass(frozen=True, slots=True)
class PairsHeader:
    """The first line of a file of pairs: how they were made, who judged them, and the cost.

    Attributes:
        made: The origin of the texts: scored samples, two systems' predictions, or a study.
        reward: The reward that the synthetic annotator used, as for training; empty for a study.
        noise: Of that annotator: "none", "flip:0.1", "bradley-terry:0.5"; of a study, who answered: "people",
            "programs", or "people and programs".
        seed: Of the choice of pairs, of the annotator and of the parts.
        sources: File → its sha256.
        shares: Part → expected share of the prompts.
        judgements: Number of judgements requested: the pairs, times the annotators of each.
        pairs: Number of pairs in the file, including ties.
        contradictions: Pairs of texts that were judged both ways.
        generated_tokens: Tokens generated for the whole sources; None if unknown.
        reward_calls: Texts that the sources' reward scored.
        seconds: For generating and scoring; None if unknown.
    """

    grue: Literal["preference pairs"]
    schema: Literal[1]
    suite: str
    task: str
    task_hash: str
    split: str
    made: Literal["samples", "predictions", "study"]
    reward: str
    noise: str
    seed: int
    sources: Mapping[str, str]
    shares: Mapping[str, float]
    judgements: int
    prompts: int
    pairs: int
    ties: int
    dropped_ties: int
    contradictions: int
    generated_tokens: int | None
    reward_calls: int
    seconds: float | None

    @property
    def judge(self) -> str:
        """The judge: a reward, or for a study as in `noise`; empty if the source does not say."""
        return self.noise if self.made == "study" else self.reward


def check_shares(shares: Mapping[str, float]) -> None:
    """Raise a ConfigError unless shares are those of the parts, from 0 to 1 with the sum 1, and "train" has some."""
    values = [shares.get(part, -1.0) for part in PARTS]
    if len(shares) != len(PARTS) or min(values) < 0 or not abs(sum(values) - 1) <= 1e-9 or not values[0]:
        listed = ",".join(f"{value:g}" for value in shares.values())
        raise ConfigError(
            f"shares {listed}: give three of train, validation and test with the sum 1, such as 0.6,0.2,0.2."
        )


def part_of(prompt: str, seed: int, shares: Mapping[str, float] = SHARES) -> Part:
    """Return the part of a prompt, which depends only on its text, the seed and the shares.

    So a prompt held out in one file is held out in every file with that seed and those shares.
    """
    place = int(files.sha256_json([seed, "part", prompt])[:15], 16) / 16**15
    for part in PARTS[:-1]:
        if place < shares[part]:
            return part
        place -= shares[part]
    return PARTS[-1] if shares[PARTS[-1]] else PARTS[0]  # rounding may leave a remainder to a part without a share


def check_parts(lines: Iterable[tuple[str, str, Part | None]]) -> None:
    """Raise a DataError if lines (place, prompt, part) put a prompt into two parts, or only some name a part."""
    first_by_prompt: dict[str, tuple[str, Part | None]] = {}
    first: tuple[str, Part | None] | None = None
    for where, prompt, part in lines:
        first = first or (where, part)
        if (part is None) != (first[1] is None):
            raise DataError(f"{where}: only some lines name their part. Name it on every line, or on none.")
        before = first_by_prompt.setdefault(prompt, (where, part))
        if before[1] != part:
            raise DataError(
                f"{where}: the prompt {escaped(repr(prompt[:60]))} is in the part {part!r} here and in {before[1]!r} "
                f"at {before[0]}; held-out prompts must not be learned from. Put all pairs of a prompt into one part."
            )


def contradictions(judged: Iterable[Judged]) -> set[tuple[Hashable, frozenset[str]]]:
    """Return the pairs of texts, each with its prompt, that were judged both ways."""
    winners: dict[tuple[Hashable, frozenset[str]], str] = {}
    both_ways = set()
    for prompt, better, worse in judged:
        key = prompt, frozenset((better, worse))
        if winners.setdefault(key, better) != better:
            both_ways.add(key)
    return both_ways
