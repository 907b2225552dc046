"""Synonyms and inflected forms by WordNet 3.0, from tables that ship with the package.

`tools/build_wordnet.py` and `tools/build_wordnet_uses.py` make the tables. Words are looked up by WordNet's own
morphology (morphy(7WN), each rule applied once), for all parts of speech.
"""

import gzip
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources

from grue.metrics.tokens import CachedByWord

DATA = "wordnet:3.0"

PARTS_OF_SPEECH = "nvar"
_ENDINGS = {
    "n": (
        ("s", ""),
        ("ses", "s"),
        ("ves", "f"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    "v": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}

Table = dict[str, dict[str, list[str]]]


@CachedByWord
def lemmas(word: str) -> frozenset[str]:
    """Return the words of WordNet that `word`, in lower case, can be a form of: leaves → leaf, leave."""
    return frozenset(lemma for part in PARTS_OF_SPEECH for lemma in _lemmas_as(part, word))


@CachedByWord
def synonyms(word: str) -> frozenset[str]:
    """Return `word` and the single words that share a synset with one of its lemmas, spelt as in WordNet."""
    words = {word}
    for part in PARTS_OF_SPEECH:
        for lemma in _lemmas_as(part, word):
            for synset in _synsets()[part][lemma]:
                words.update(synset.split(" "))
    return frozenset(words)


@CachedByWord
def readings(word: str) -> Mapping[str, tuple[str, int]]:
    """Return part of speech → (lemma, uses) for all that `word`, in lower case, can be: barks → n bark, v bark.

    Of several lemmas the most used one is taken, saw → v see; a verb stays itself unless another is used more than ten
    times as often, lay → v lay. Uses are counted in WordNet's own tagged texts and are 0 for many a rare word.
    """
    by_part: dict[str, tuple[str, int]] = {}
    for part in PARTS_OF_SPEECH:
        uses = {lemma: _uses().get((part, lemma), 0) for lemma in _lemmas_as(part, word)}
        if uses:
            best = max(uses, key=uses.__getitem__)
            is_itself = part == "v" and 10 * uses.get(word, -1) >= uses[best]
            by_part[part] = (word if is_itself else best, uses[best])
    return by_part


def _lemmas_as(part: str, word: str) -> Iterator[str]:
    irregular = exceptions()[part].get(word)
    if irregular is None:
        candidates = [word[: -len(old)] + new for old, new in _ENDINGS[part] if word.endswith(old)]
    else:
        candidates = irregular
    return (lemma for lemma in dict.fromkeys([word, *candidates]) if lemma in _synsets()[part])


@cache
def _synsets() -> Table:
    """Return part of speech → lemma in lower case → its synsets, each the words of one line."""
    table: Table = {part: {} for part in PARTS_OF_SPEECH}
    for part, words in _lines("wordnet_synsets.txt.gz"):
        for word in words.lower().split(" "):
            table[part].setdefault(word, []).append(words)
    return table


@cache
def exceptions() -> Table:
    """Return part of speech → irregular form → its lemmas."""
    table: Table = {part: {} for part in PARTS_OF_SPEECH}
    for part, words in _lines("wordnet_exceptions.txt.gz"):
        form, *bases = words.split(" ")
        table[part][form] = bases
    return table


@cache
def _uses() -> dict[tuple[str, str], int]:
    """Return (part of speech, lemma) → how often it is used."""
    counted = ((part, line.split(" ")) for part, line in _lines("wordnet_uses.txt.gz"))
    return {(part, lemma): int(count) for part, (lemma, count) in counted}


def _lines(name: str) -> Iterator[tuple[str, str]]:
    packed = (resources.files("grue.metrics") / "data" / name).read_bytes()
    for line in gzip.decompress(packed).decode("utf-8").splitlines():
        part, _, words = line.partition(" ")
        yield part, words
