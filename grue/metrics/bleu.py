"""BLEU (Papineni et al. 2002) in two versions: RL4LMs' and nmt's, 0–1, and sacreBLEU's, 0–100.

The statistics of an example are integers that add up over a corpus: candidate length, reference length, then matched
n-grams of each order, then possible n-grams of each order.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from grue.errors import ConfigError, Unavailable, did_you_mean
from grue.metrics.card import Card
from grue.metrics.metric import FloatArray, Prepared, references_of
from grue.metrics.tokenizers import TOKENIZERS
from grue.records import Direction, Example

Ngrams = Counter[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class References:
    """An example's references: their lengths, and for each n-gram its highest count in any of them."""

    lengths: list[int]
    counts: Ngrams


def read_references(references: Sequence[Sequence[str]], order: int) -> References:
    """Read references that are already tokenised."""
    union = count_ngrams(references[0], order)
    for tokens in references[1:]:
        counts = count_ngrams(tokens, order)
        for ngram in counts.keys() & union.keys():
            if union[ngram] > counts[ngram]:
                counts[ngram] = union[ngram]
        dict.update(union, counts)  # a counter's own update would add
    return References([len(tokens) for tokens in references], union)


def count_ngrams(tokens: Sequence[str], longest: int) -> Ngrams:
    """Return the counts of all n-grams of 1 to `longest` tokens."""
    later = [tokens[start:] for start in range(longest)]
    return Counter(chain.from_iterable(zip(*later[:order], strict=False) for order in range(1, longest + 1)))


def count_matches(tokens: Sequence[str], references: References, order: int) -> list[int]:
    """Return the matched n-grams of each order, then the possible ones."""
    matches = [0] * order
    counts = count_ngrams(tokens, order)
    for ngram in counts.keys() & references.counts.keys():
        matches[len(ngram) - 1] += min(counts[ngram], references.counts[ngram])
    return [*matches, *(max(0, len(tokens) - extra) for extra in range(order))]


class Bleu:
    """BLEU-n, 0–1: a corpus is not smoothed, and the shortest reference gives the reference length.

    A single example is smoothed after Lin & Och (2004), one more match and one more possible n-gram for each order
    above 1, so that an exact copy of any length scores 1 and a text without a common word 0.

    Args:
        order: Longest n-gram.
        tokenizer: "whitespace", as in the published numbers, "words" or "treebank".
    """

    direction: Direction = "higher"

    def __init__(self, order: int, tokenizer: str = "whitespace") -> None:
        self.order = order
        self.signature = f"bleu{order}|case:mixed|tok:{tokenizer}|smooth:none|refs:clipped-union|reflen:shortest"
        self._tokenize = TOKENIZERS[tokenizer]
        self._references = Prepared(self._read_references)

    def prepare(self, examples: Sequence[Example]) -> None:
        """Count the references' n-grams in advance."""
        self._references.prepare(examples)

    def statistics(self, examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        """Return [N, 2 + 2·order] counts; see the module's docstring."""
        rows = [self._row(example, text) for example, text in zip(examples, texts, strict=True)]
        return np.array(rows, dtype=np.float64).reshape(len(rows), 2 + 2 * self.order)

    def per_example(self, statistics: FloatArray) -> FloatArray:
        """Return [N] smoothed sentence BLEU."""
        smoothed = statistics.copy()
        smoothed[:, 3 : 2 + self.order] += 1  # matches of orders 2, 3, …
        smoothed[:, 3 + self.order :] += 1
        return np.array([self._value(row) for row in smoothed], dtype=np.float64)

    def corpus(self, statistics: FloatArray) -> float:
        """Return BLEU of the summed counts."""
        return self._value(statistics.sum(axis=0))

    def _value(self, row: FloatArray) -> float:
        candidate_length, reference_length = row[:2]
        matches, possible = row[2 : 2 + self.order], row[2 + self.order :]
        if not matches.all():
            return 0.0
        shortfall = min(0.0, 1.0 - reference_length / candidate_length)
        return math.exp(shortfall + float(np.log(matches / possible).mean()))

    def _row(self, example: Example, text: str) -> list[int]:
        references = self._references(example)
        tokens = self._tokenize(text)
        return [len(tokens), min(references.lengths), *count_matches(tokens, references, self.order)]

    def _read_references(self, example: Example) -> References:
        texts = references_of(example, f"bleu{self.order}")
        return read_references([self._tokenize(text) for text in texts], self.order)


class SacreBleu:
    """BLEU by the library sacrebleu, 0–100: its tokenizers, its formula and its smoothing, over our counts.

    A single example counts only the n-gram orders it is long enough for (sacrebleu's effective order).

    Args:
        tokenize: The library's tokenizer: "13a", "intl", "char", "none", …
        lowercase: Whether case is ignored, as ToTTo's official script does.

    Raises:
        ConfigError: The library has no such tokenizer.
        Unavailable: The tokenizer needs a package that is not installed.
    """

    direction: Direction = "higher"
    order = 4

    def __init__(self, tokenize: str = "13a", lowercase: bool = False) -> None:
        from sacrebleu.metrics.bleu import BLEU  # slow to import, and most metrics do not need it

        if tokenize not in BLEU.TOKENIZERS:
            raise ConfigError(
                f"sacrebleu has no tokenizer {tokenize!r}.{did_you_mean(tokenize, BLEU.TOKENIZERS)} "
                f"Known: {', '.join(sorted(BLEU.TOKENIZERS))}."
            )
        try:
            self._library = BLEU(tokenize=tokenize)
        except (ImportError, OSError, RuntimeError) as error:  # some tokenizers need another package
            reason = " ".join(str(error).split())
            raise Unavailable(f"sacrebleu's tokenizer {tokenize!r} cannot run here: {reason}") from error
        self._lowercase = lowercase
        case = "lower" if lowercase else "mixed"
        self.signature = f"sacrebleu|case:{case}|tok:{tokenize}|smooth:exp|eff:no|reflen:closest"
        self._references = Prepared(self._read_references)

    def prepare(self, examples: Sequence[Example]) -> None:
        """Count the references' n-grams in advance."""
        self._references.prepare(examples)

    def statistics(self, examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        """Return [N, 10] counts; see the module's docstring."""
        rows = [self._row(example, text) for example, text in zip(examples, texts, strict=True)]
        return np.array(rows, dtype=np.float64).reshape(len(rows), 2 + 2 * self.order)

    def per_example(self, statistics: FloatArray) -> FloatArray:
        """Return [N] sentence BLEU with effective order."""
        return np.array([_sentence_value(row.tolist(), self.order) for row in statistics], dtype=np.float64)

    def corpus(self, statistics: FloatArray) -> float:
        """Return BLEU of the summed counts."""
        candidate_length, reference_length, *counts = map(int, statistics.sum(axis=0))
        score = self._library.compute_bleu(
            correct=counts[: self.order],
            total=counts[self.order :],
            sys_len=candidate_length,
            ref_len=reference_length,
            smooth_method="exp",
            effective_order=False,
        )
        return float(score.score)

    def _row(self, example: Example, text: str) -> list[int]:
        references = self._references(example)
        tokens = self._split(text)
        closest = min(references.lengths, key=lambda length: (abs(length - len(tokens)), length))
        return [len(tokens), closest, *count_matches(tokens, references, self.order)]

    def _read_references(self, example: Example) -> References:
        return read_references([self._split(text) for text in references_of(example, "sacrebleu")], self.order)

    def _split(self, text: str) -> list[str]:
        found: str = self._library.tokenizer((text.lower() if self._lowercase else text).rstrip())
        return found.split()


def _sentence_value(row: Sequence[float], order: int) -> float:
    """Return sacreBLEU's sentence BLEU of one row of counts; the library's own function also builds a report."""
    candidate_length, reference_length = row[:2]
    matches, possible = row[2 : 2 + order], row[2 + order :]
    if not any(matches):
        return 0.0
    logs = []
    halves = 1.0
    for matched, total in zip(matches, possible, strict=True):
        if not total:
            break
        if not matched:  # counts as half a match, the next such order as a quarter, and so on
            halves *= 2
        logs.append(math.log(100.0 * matched / total if matched else 100.0 / (halves * total)))
    brevity = 1.0 if candidate_length >= reference_length else math.exp(1 - reference_length / candidate_length)
    return brevity * math.exp(sum(logs) / len(logs))


def _card(order: int) -> Card:
    words = "Clipped precision of words"
    ngrams = f"Geometric mean of clipped precisions of n-grams of 1 to {order} words"
    return Card(
        partial(Bleu, order),
        family="overlap",
        range=(0, 1),
        definition=f"{ngrams if order > 1 else words}, times the brevity penalty against the shortest reference; words "
        "are separated by white space, a corpus is not smoothed. A single text is smoothed by one for orders above 1.",
        source="Papineni et al. 2002; tensorflow/nmt and RL4LMs' bleu",
    )


CARDS = {
    **{f"bleu{order}": _card(order) for order in (1, 2, 3, 4)},
    "sacrebleu": Card(
        SacreBleu,
        family="overlap",
        range=(0, 100),
        definition="BLEU of the library sacrebleu: its tokenizers, exponential smoothing, the closest reference "
        "length. A single text counts only the n-gram orders it is long enough for.",
        source="Post 2018; sacrebleu 2.6",
    ),
}
