"""chrF (Popović 2015, 2017) as the library sacrebleu 2.6 defines it: F2 of character and word n-grams, 0–100."""

import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from grue.metrics.bleu import count_ngrams
from grue.metrics.metric import FloatArray, Prepared, references_of
from grue.records import Direction, Example

CHARACTERS = 6
BETA = 2
MOST_PREPARED = 1 << 10  # a text's character n-grams take a hundred times its own room


@dataclass(frozen=True, slots=True)
class Ngrams:
    """A text as n-grams.

    Attributes:
        characters: String of 1 to 6 characters → how often it occurs.
        words: Tuple of words → how often it occurs; empty for chrF.
        totals: Number of n-grams of each order, characters first.
    """

    characters: Counter[str]
    words: Counter[tuple[str, ...]]
    totals: list[int]


class Chrf:
    """chrF, or chrF++ with words.

    The statistics of an example are three numbers an order, summed over a corpus: n-grams of the text, of the reference
    and shared; of several references the one with the best score counts.

    Args:
        name: Registered name.
        words: Longest word n-gram: 0 for chrF, 2 for chrF++.
    """

    direction: Direction = "higher"

    def __init__(self, name: str, words: int) -> None:
        self._name = name
        self._words = words
        self.signature = f"{name}|case:mixed|eff:yes|nc:{CHARACTERS}|nw:{words}|space:no|beta:{BETA}|refs:best"
        self._references = Prepared(self._read_references, MOST_PREPARED)

    def prepare(self, examples: Sequence[Example]) -> None:
        """Count the references' n-grams ahead."""
        self._references.prepare(examples)

    def statistics(self, examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        """Return [N, 3·orders] counts; see the class's docstring."""
        rows = [self._row(example, text) for example, text in zip(examples, texts, strict=True)]
        return np.array(rows, dtype=np.float64).reshape(len(rows), 3 * (CHARACTERS + self._words))

    def per_example(self, statistics: FloatArray) -> FloatArray:
        """Return [N] values of the single examples."""
        return np.array([f_score(row.tolist()) for row in statistics], dtype=np.float64)

    def corpus(self, statistics: FloatArray) -> float:
        """Return the value of the summed counts."""
        return f_score(statistics.sum(axis=0).tolist())

    def _row(self, example: Example, text: str) -> list[int]:
        candidate = self._read(text)
        rows = [compare(candidate, reference) for reference in self._references(example)]
        return max(rows, key=f_score) if len(rows) > 1 else rows[0]

    def _read_references(self, example: Example) -> list[Ngrams]:
        return [self._read(reference) for reference in references_of(example, self._name)]

    def _read(self, text: str) -> Ngrams:
        letters = "".join(text.split())
        length = len(letters)
        characters = Counter(
            [letters[i : i + order] for order in range(1, CHARACTERS + 1) for i in range(length - order + 1)]
        )
        found = words_and_punctuation(text) if self._words else []
        totals = [max(0, length - extra) for extra in range(CHARACTERS)]
        totals += [max(0, len(found) - extra) for extra in range(self._words)]
        return Ngrams(characters, count_ngrams(found, self._words), totals)


def words_and_punctuation(text: str) -> list[str]:
    """Split text at white space, and one sign of punctuation from each word's end or else from its start."""
    found: list[str] = []
    for word in text.split():
        if len(word) > 1 and word[-1] in string.punctuation:
            found += [word[:-1], word[-1]]
        elif len(word) > 1 and word[0] in string.punctuation:
            found += [word[0], word[1:]]
        else:
            found.append(word)
    return found


def compare(candidate: Ngrams, reference: Ngrams) -> list[int]:
    """Return n-grams of the candidate, of the reference and shared, order by order.

    The candidate's do not count for an order of which the reference has none.
    """
    shared = [0] * len(candidate.totals)
    for piece in candidate.characters.keys() & reference.characters.keys():
        ours, theirs = candidate.characters[piece], reference.characters[piece]
        shared[len(piece) - 1] += ours if ours < theirs else theirs
    for ngram in candidate.words.keys() & reference.words.keys():
        shared[CHARACTERS + len(ngram) - 1] += min(candidate.words[ngram], reference.words[ngram])
    row: list[int] = []
    for found, wanted, both in zip(candidate.totals, reference.totals, shared, strict=True):
        row += [found if wanted else 0, wanted, both]
    return row


def f_score(row: Sequence[float]) -> float:
    """Return F2 of the mean precision and the mean recall over the orders that both texts have, 0–100."""
    precision = recall = 0.0
    orders = 0
    for found, wanted, both in zip(row[0::3], row[1::3], row[2::3], strict=True):
        if found and wanted:
            precision += both / found
            recall += both / wanted
            orders += 1
    if not precision + recall:
        return 0.0
    precision, recall = precision / orders, recall / orders
    weight = BETA**2
    return 100 * (1 + weight) * precision * recall / (weight * precision + recall)
