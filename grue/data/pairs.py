"""What a file of preference pairs says of itself: its header, the part that a line belongs to, what contradicts itself.

A prompt, with all its pairs, belongs to one part: what is held out is prompts, never pairs of prompts that were seen.
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
"""Of the prompts; the paper's (App. B.4.4)."""

Judged = tuple[Hashable, str, str]
"""A pair that was judged: what names its prompt, the better text, the worse."""


@dataclass(frozen=True, slots=True)
class PairsHeader:
    """The first line of a file of pairs: how they were made, who judged them, and what that took.

    Attributes:
        split: Whose prompts were answered.
        made: What the texts are: scored samples, two systems' predictions, or what people were shown in a study.
        reward: What the synthetic annotator judged by, as for training; empty for a study.
        noise: Of that annotator: "none", "flip:0.1", "bradley-terry:0.5"; of a study, who answered: "people",
            "programs", or "people and programs".
        seed: Of the choice of pairs, of the annotator and of the parts.
        sources: File → its sha256.
        shares: Part → the share of the prompts that chance gave it.
        judgements: Asked for: the pairs, times the annotators of each.
        prompts: Different ones.
        pairs: In the file, ties included.
        ties: Pairs in the file of which neither text is better.
        dropped_ties: Ties that were left out.
        contradictions: Pairs of texts that were judged both ways.
        generated_tokens: That the sources took as a whole; None where unknown, as the following.
        reward_calls: Texts that the sources' reward scored.
        seconds: For both.
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
        """Who judged: a reward, or as `noise` says of a study; empty where the source did not say."""
        return self.noise if self.made == "study" else self.reward


def check_shares(shares: Mapping[str, float]) -> None:
    """Refuse shares that are none.

    Raises:
        ConfigError: They are not of the three parts, from 0 to 1, with a sum of 1; or nothing is left to learn from.
    """
    values = [shares.get(part, -1.0) for part in PARTS]
    if len(shares) != len(PARTS) or min(values) < 0 or not abs(sum(values) - 1) <= 1e-9 or not values[0]:
        listed = ",".join(f"{value:g}" for value in shares.values())
        raise ConfigError(
            f"shares {listed}: give three of train, validation and test with the sum 1, such as 0.6,0.2,0.2."
        )


def part_of(prompt: str, seed: int, shares: Mapping[str, float] = SHARES) -> Part:
    """Return the part of a prompt, which depends on its text, the seed and the shares alone.

    A prompt that is held out in one file is therefore held out in every file of that seed and those shares.
    """
    place = int(files.sha256_json([seed, "part", prompt])[:15], 16) / 16**15
    for part in PARTS[:-1]:
        if place < shares[part]:
            return part
        place -= shares[part]
    return PARTS[-1] if shares[PARTS[-1]] else PARTS[0]  # rounding may leave a rest to a part without a share


def check_parts(lines: Iterable[tuple[str, str, Part | None]]) -> None:
    """Refuse lines, each with its place, prompt and part, that put a prompt into two parts, or only some into any.

    Raises:
        DataError: They do; names the first.
    """
    known: dict[str, tuple[str, Part | None]] = {}
    first: tuple[str, Part | None] | None = None
    for where, prompt, part in lines:
        first = first or (where, part)
        if (part is None) != (first[1] is None):
            raise DataError(f"{where}: only some lines name their part. Name it on every line, or on none.")
        before = known.setdefault(prompt, (where, part))
        if before[1] != part:
            raise DataError(
                f"{where}: the prompt {escaped(repr(prompt[:60]))} is in the part {part!r} here and in {before[1]!r} "
                f"at {before[0]}; what is held out must not be learned from. Put a prompt's pairs into one part."
            )


def contradictions(judged: Iterable[Judged]) -> set[tuple[Hashable, frozenset[str]]]:
    """Return the pairs of texts, each with its prompt, that were judged both ways."""
    seen: dict[tuple[Hashable, frozenset[str]], str] = {}
    both_ways = set()
    for prompt, better, worse in judged:
        key = prompt, frozenset((better, worse))
        if seen.setdefault(key, better) != better:
            both_ways.add(key)
    return both_ways
