"""Whether a run's texts are copies, or nearly: of the references, of another seed, of another system's run.

This finds careless copies. Changing more of each text, or mixing sources, passes: on a suite with a generator only the
fresh draw (`grue.submissions.trust.draw`) tells whether a system can do what its texts show.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np

from grue.algorithms import SUPERVISED
from grue.records import Example, Prediction, Result
from grue.submissions.problems import Problem, error

NEAR = 90.0
"""Similarity of two texts, 0–100, from which they are near-copies: the share of letters that an edit script keeps."""
COPIED = 0.98
"""Share of a run's texts from which it is a copy.

Honest runs of mini have up to .95 near-copies of one another (two seeds of WMT16), and up to .79 of references.
"""
_AT_ONCE = 100  # texts compared before a run that cannot be a copy any more is left


@dataclass(frozen=True, slots=True)
class RunTexts:
    """A run's texts as a reader takes them in, by example and draw.

    Attributes:
        path: Its predictions.
        result: None if it cannot be read.
    """

    path: Path
    result: Result | None
    texts: Mapping[tuple[str, int], str]

    @classmethod
    def of(cls, path: Path, result: Result | None, predictions: Sequence[Prediction]) -> "RunTexts":
        """Return the texts of predictions; another order of several draws hides nothing."""
        texts = {
            (prediction.id, number): text
            for prediction in predictions
            for number, text in enumerate(sorted(bare(draw.text) for draw in prediction.draws))
        }
        return cls(path, result, texts)

    def said(self, key: str) -> object:
        """Return what the result states of its system under a key."""
        return None if self.result is None else self.result.system.get(key)

    def kept(self, other: "RunTexts") -> bool:
        """Whether the results state that training kept its start, which the other run is or kept, too."""
        is_start = other.said("algorithm") in (SUPERVISED, "zero-shot") or other.said("update") == 0
        same = self.said("weights") == other.said("weights") not in (None, "")
        return self.said("update") == 0 and is_start and (same or other.said("algorithm") == "zero-shot")


def bare(text: str) -> str:
    """Return a text's letters and digits in lower case without accents, a space between words."""
    if not text.isascii():
        parts = unicodedata.normalize("NFKD", text)
        text = "".join(sign for sign in parts if unicodedata.category(sign) not in ("Mn", "Mc", "Me", "Cf"))
    return re.sub(r"[\W_]+", " ", text.casefold()).strip()


def are_copies(texts: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Whether nearly all texts are near-copies of one of the `others` in their place."""
    from rapidfuzz import fuzz, process

    misses = 0
    for start in range(0, len(texts), _AT_ONCE):
        part, known = texts[start : start + _AT_ONCE], others[start : start + _AT_ONCE]
        near = np.zeros(len(part), bool)
        for column in zip_longest(*known):
            near |= process.cpdist(part, column, scorer=fuzz.ratio, score_cutoff=NEAR) > 0
        misses += int((~near).sum())
        if misses > (1 - COPIED) * len(texts):
            return False
    return bool(texts)


def check_copies(run: RunTexts, earlier: Sequence[RunTexts], others: Sequence[RunTexts]) -> Iterator[Problem]:
    """Yield the earlier seed, and the runs of other systems, whose texts a run has."""
    for seed in earlier:
        if not (run.kept(seed) or seed.kept(run)) and _copies(run, seed):
            yield error(17, run.path, f"has the same texts as {seed.path.name}, or nearly.")
            break
    for other in others:
        if not (run.kept(other) or other.kept(run)) and _copies(run, other):
            system = other.path.parent.parent.name
            yield error(18, run.path, f"has the same texts as {system}, {other.path.name}, or nearly.")
            break


def check_references(run: RunTexts, examples: Sequence[Example]) -> Iterator[Problem]:
    """Yield if a run's texts are its examples' references."""
    references = {example.id: tuple(map(bare, example.references)) for example in examples}
    if are_copies(list(run.texts.values()), [references.get(name, ()) for name, _ in run.texts]):
        yield error(33, run.path, f"at least {COPIED:.0%} of its texts are a reference, or nearly.")


def _copies(run: RunTexts, other: RunTexts) -> bool:
    return are_copies(list(run.texts.values()), [[other.texts[key]] if key in other.texts else [] for key in run.texts])
