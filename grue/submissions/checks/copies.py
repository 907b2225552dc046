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
from grue.submissions.problems import Problem, problem

NEAR = 90.0
"""Similarity of two texts, 0–100, from which they are near-copies: the share of letters that an edit script keeps."""
COPIED = 0.98
"""Share of a run's texts from which it is a copy.

Honest runs of mini have up to .95 near-copies of one another (two seeds of WMT16), and up to .79 of references.
"""
_AT_ONCE = 100  # texts compared before a run that cannot be a copy any more is left


@dataclass(frozen=True, slots=True)
class RunTexts:
    """The predictions of a run, its result if that can be read, and its texts, bare, by example and draw."""

    path: Path
    result: Result | None
    predictions: Sequence[Prediction]
    texts: Mapping[tuple[str, int], str]

    @classmethod
    def of(cls, path: Path, result: Result | None, predictions: Sequence[Prediction]) -> "RunTexts":
        """Return the texts of predictions; another order of several draws hides nothing."""
        texts = {
            (prediction.id, number): text
            for prediction in predictions
            for number, text in enumerate(sorted(bare(draw.text) for draw in prediction.draws))
        }
        return cls(path, result, predictions, texts)

    def kept(self, other: "RunTexts") -> bool:
        """Whether the results state that training kept its start, which the other run is or kept, too."""
        ours, theirs = (run.result.system if run.result else {} for run in (self, other))
        is_start = theirs.get("algorithm") in (SUPERVISED, "zero-shot") or theirs.get("update") == 0
        same = ours.get("weights") == theirs.get("weights") not in (None, "")
        return ours.get("update") == 0 and is_start and (same or theirs.get("algorithm") == "zero-shot")


def bare(text: str) -> str:
    """Return a text's letters and digits in lower case without accents, a space between words."""
    if not text.isascii():
        parts = unicodedata.normalize("NFKD", text)
        text = "".join(sign for sign in parts if unicodedata.category(sign) not in ("Mn", "Mc", "Me", "Cf"))
    return re.sub(r"[\W_]+", " ", text.casefold()).strip()


def are_copies(texts: Sequence[str], sources: Sequence[Sequence[str]]) -> bool:
    """Whether nearly all texts are near-copies of one of the sources in their place."""
    from rapidfuzz import fuzz, process

    misses = 0
    for start in range(0, len(texts), _AT_ONCE):
        part, known = texts[start : start + _AT_ONCE], sources[start : start + _AT_ONCE]
        near = np.zeros(len(part), bool)
        for column in zip_longest(*known):
            near |= process.cpdist(part, column, scorer=fuzz.ratio, score_cutoff=NEAR) > 0
        misses += int((~near).sum())
        if misses > (1 - COPIED) * len(texts):
            return False
    return bool(texts)


def check_copies(run: RunTexts, earlier: Sequence[RunTexts], others: Sequence[RunTexts]) -> Iterator[Problem]:
    """Yield the earlier seed, and the run of another system, whose texts a run has."""
    for number, sources in ((17, earlier), (18, others)):
        for source in sources:
            texts = [[source.texts[key]] if key in source.texts else [] for key in run.texts]
            if not (run.kept(source) or source.kept(run)) and are_copies(list(run.texts.values()), texts):
                name = source.path.name if number == 17 else f"{source.path.parent.parent.name}, {source.path.name}"
                yield problem(number, run.path, f"has the same texts as {name}, or nearly.")
                break


def check_references(run: RunTexts, examples: Sequence[Example]) -> Iterator[Problem]:
    """Yield if a run's texts are its examples' references."""
    references = {example.id: tuple(map(bare, example.references)) for example in examples}
    if are_copies(list(run.texts.values()), [references.get(name, ()) for name, _ in run.texts]):
        yield problem(33, run.path, f"at least {COPIED:.0%} of its texts are a reference, or nearly.")
