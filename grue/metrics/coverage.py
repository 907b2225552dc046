"""The coverage of given concepts (Lin et al. 2020, CommonGen)."""

from collections.abc import Sequence
from operator import contains
from unicodedata import normalize

from grue.errors import DataError
from grue.metrics import wordnet
from grue.metrics.metric import Average, listed
from grue.metrics.tokens import words
from grue.records import Example

IRREGULAR = {"shorn": frozenset({"shear"})}  # common forms that WordNet's own lists lack


def coverage() -> Average:
    """Return the share of an example's concepts that a text uses in any inflection, 0–1.

    A word uses a concept if it is the concept, or if WordNet knows the concept as one of the word's lemmas for any
    part of speech: "leaves" uses both leaf and leave. A hyphenated word also counts by its parts. A concept of several
    words is used where all of them are, in a row: "hot dogs" uses hot dog. Letters and accents are composed (NFC).

    Of the 4,018 human references of CommonGen's development set, 99.9 % of the concepts count as used.
    """

    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        return [covered(concepts_of(example), text) for example, text in zip(examples, texts, strict=True)]

    def prepare(examples: Sequence[Example]) -> None:
        for example in examples:
            concepts_of(example)

    return Average(f"coverage|lemmas:{wordnet.DATA}|pos:any|case:lower|tok:words", values, prepare)


def concepts_of(example: Example) -> frozenset[str]:
    """Return the distinct concepts of an example, in lower case and composed.

    Raises:
        DataError: The example has none, or something that is no list.
    """
    concepts = frozenset(_plain(str(concept)) for concept in listed(example, "concepts", "coverage"))
    if not concepts:
        raise DataError(
            f"The example {example.id!r} has no concepts in its meta, which coverage needs; take another metric."
        )
    return concepts


def covered(concepts: frozenset[str], text: str) -> float:
    """Return the share of `concepts` that `text` uses."""
    found = words(_plain(text))
    used = _uses(found)
    rows = [wanted for concept in concepts - used if len(wanted := words(concept)) > 1]
    parts = [part for word in found for part in word.split("-")] if rows else []
    return (len(concepts & used) + sum(_in_a_row(row, found) or _in_a_row(row, parts) for row in rows)) / len(concepts)


def _plain(text: str) -> str:
    """Return a text in lower case, its letters and accents composed, without outer white space."""
    return normalize("NFC", text.lower()).strip()


def _uses(found: Sequence[str]) -> set[str]:
    """Return words, their hyphenated parts, and what any of these can be a form of."""
    used = {part for word in found for part in (word, *word.split("-"))}
    return used.union(*map(lemmas_of, used))


def _in_a_row(wanted: Sequence[str], found: Sequence[str]) -> bool:
    """Return whether words that were found in a row use the wanted ones, in their order."""
    used = [_uses([word]) for word in found]
    rows = (used[start : start + len(wanted)] for start in range(len(used) - len(wanted) + 1))
    return any(all(map(contains, row, wanted)) for row in rows)


def lemmas_of(word: str) -> frozenset[str]:
    """Return what a word in lower case can be a form of; a word unknown to WordNet may end in an s of inflection."""
    return IRREGULAR.get(word) or wordnet.lemmas(word) or frozenset([word.removesuffix("s")])


METRICS = {"coverage": coverage}
