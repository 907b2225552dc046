"""The coverage of an example's concepts (Lin et al. 2020, CommonGen)."""

from collections.abc import Sequence
from operator import contains
from unicodedata import normalize

from grue.metrics import wordnet
from grue.metrics.metric import Average, Prepared, meta_of
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
    concepts = Prepared(concepts_of)

    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        return [covered(concepts(example), text) for example, text in zip(examples, texts, strict=True)]

    return Average(f"coverage|lemmas:{wordnet.DATA}|pos:any|case:lower|tok:words", values, concepts.prepare)


def concepts_of(example: Example) -> frozenset[str]:
    """Return the distinct concepts of an example, in lower case and composed; a DataError if it has none."""
    return frozenset(_plain(str(concept)) for concept in meta_of(example, "concepts", "coverage", list))


def covered(concepts: frozenset[str], text: str) -> float:
    """Return the share of `concepts` that `text` uses."""
    tokens = words(_plain(text))
    used = _uses(tokens)
    phrases = [phrase for concept in concepts - used if len(phrase := words(concept)) > 1]
    parts = [part for word in tokens for part in word.split("-")] if phrases else []
    used_phrases = sum(_in_a_row(phrase, tokens) or _in_a_row(phrase, parts) for phrase in phrases)
    return (len(concepts & used) + used_phrases) / len(concepts)


def _plain(text: str) -> str:
    """Return a text in lower case, its letters and accents composed, without outer white space."""
    return normalize("NFC", text.lower()).strip()


def _uses(tokens: Sequence[str]) -> set[str]:
    """Return words, their hyphenated parts, and the lemmas of both."""
    used = {part for word in tokens for part in (word, *word.split("-"))}
    return used.union(*map(lemmas_of, used))


def _in_a_row(phrase: Sequence[str], tokens: Sequence[str]) -> bool:
    """Return whether successive tokens use the words of a phrase, in order."""
    used = [_uses([word]) for word in tokens]
    rows = (used[start : start + len(phrase)] for start in range(len(used) - len(phrase) + 1))
    return any(all(map(contains, row, phrase)) for row in rows)


def lemmas_of(word: str) -> frozenset[str]:
    """Return the lemmas of a word in lower case; of a word unknown to WordNet, the word without a final s."""
    return IRREGULAR.get(word) or wordnet.lemmas(word) or frozenset([word.removesuffix("s")])


METRICS = {"coverage": coverage}
