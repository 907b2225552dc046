"""Metrics of sentences that describe a table: PARENT, and the two halves of ToTTo.

PARENT (Dhingra et al. 2019) also rewards n-grams that a reference lacks but the table backs, and measures how much of
the table a text states. This is ToTTo's version: entailment is the share of an n-gram's tokens that occur in the table,
and the weight of the table's recall depends on how much of the table the reference repeats.

An example's `meta["table"]` lists the values of all cells, the titles and the text around the table;
`meta["highlighted"]` those of the highlighted cells and the titles; `meta["overlap"]` whether training has its
headers.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from rapidfuzz.distance import LCSseq

from grue.errors import DataError
from grue.metrics.bleu import sacrebleu
from grue.metrics.metric import Average, MetricFactory, Prepared, Subset, meta_of, references_of
from grue.metrics.tokens import Tokenizer, tokens_13a
from grue.metrics.treebank import TOKENIZERS, TokenizerName
from grue.records import Example

ORDERS = 4
SMOOTHING = 1e-5
MOST_PREPARED = 1 << 12  # a table of 150 cells takes some 140 KB
Part = Literal["precision", "recall", "f1"]
Ngram = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference as PARENT sees it.

    Attributes:
        counts: For each order the reference's n-grams and their counts.
        backed: For each order the n-grams' entailment times count, and last the sum.
        table_weight: Weight of the table's recall, 0–1: the part of the table that the reference leaves out.
    """

    counts: list[Counter[Ngram]]
    backed: list[tuple[dict[Ngram, float], float]]
    table_weight: float


@dataclass(frozen=True, slots=True)
class ReadTable:
    """A prepared example: the table's words, its highlighted values, and the references."""

    words: frozenset[str]
    highlighted: list[list[str]]
    references: list[Reference]


def scores_of(table: ReadTable, tokens: Sequence[str]) -> dict[Part, float]:
    """Return precision, recall and F1 of a text in lower case at the reference with the highest F1, 0–1 each."""
    counts = count_by_order(tokens)
    backing = {ngram: backing_of(ngram, table.words) for order in counts for ngram in order}
    mentioned = mention(table.highlighted, tokens) or SMOOTHING
    scores: list[dict[Part, float]] = []
    for reference in table.references:
        precision = mean_precision(counts, backing, reference)
        weight = reference.table_weight
        recall = mean_recall(counts, reference) ** (1 - weight) * mentioned**weight
        f1 = 2 * precision * recall / (precision + recall + 1e-8)
        scores.append({"precision": precision, "recall": recall, "f1": f1})
    return max(scores, key=lambda each: each["f1"])


def read_table(example: Example, tokenize: Tokenizer, filled_up_to: int) -> ReadTable:
    """Read an example's table, which is always split by sacreBLEU's 13a, and its references."""
    cells, highlighted = values_of(example, "table"), values_of(example, "highlighted")
    words = frozenset(token for value in cells for token in value)
    texts = list(references_of(example, "parent"))
    references = []
    for text in [*texts, *["<null>"] * (filled_up_to - len(texts))]:
        tokens = tokenize(text.lower())
        counts, backed = count_by_order(tokens), []
        for order in counts:
            weighed = {ngram: count * backing_of(ngram, words) for ngram, count in order.items()}
            backed.append((weighed, math.fsum(weighed.values())))
        references.append(Reference(counts, backed, 1 - mention(highlighted, tokens)))
    return ReadTable(words, highlighted, references)


def values_of(example: Example, key: str) -> list[list[str]]:
    """Return the values of a table in the example's meta as lists of 13a tokens in lower case; empty ones are left out.

    It raises a DataError if there is no such table, it is not a list, or it has no words.
    """
    values = meta_of(example, key, "parent", list)
    tokenized = [tokens for value in values if (tokens := tokens_13a(str(value).lower()))]
    if not tokenized:
        raise DataError(
            f"The example {example.id!r} has no values under {key!r} in its meta, which parent needs; "
            "use another metric."
        )
    return tokenized


def count_by_order(tokens: Sequence[str]) -> list[Counter[Ngram]]:
    """Return the counts of the n-grams of 1 to 4 tokens."""
    later = [tokens[start:] for start in range(ORDERS)]
    return [Counter(zip(*later[:order], strict=False)) for order in range(1, ORDERS + 1)]


def backing_of(ngram: Ngram, words: frozenset[str]) -> float:
    """Return the share of an n-gram's tokens that the table has."""
    return sum([token in words for token in ngram]) / len(ngram)


def mention(values: Sequence[Sequence[str]], tokens: Sequence[str]) -> float:
    """Return the mean share of each value that the text repeats in order."""
    return sum([LCSseq.similarity(value, tokens) / len(value) for value in values]) / len(values)


def mean_precision(counts: list[Counter[Ngram]], backing: Mapping[Ngram, float], reference: Reference) -> float:
    """Return the geometric mean over orders of the share of n-grams that reference or table back; 0 without a word."""
    shares = []
    for order, reference_counts in zip(counts, reference.counts, strict=True):
        # Matches with the reference count in full, the rest to the extent that the table backs them.
        matched = order & reference_counts
        backed = [matched[ngram] + (count - matched[ngram]) * backing[ngram] for ngram, count in order.items()]
        shares.append(math.fsum(backed) / order.total() if order else 0.0)
    return geometric_mean(shares)


def mean_recall(counts: list[Counter[Ngram]], reference: Reference) -> float:
    """Return the geometric mean over orders of the share of the reference's table-backed n-grams that the text has."""
    shares = []
    for order, reference_counts, (backed, total) in zip(counts, reference.counts, reference.backed, strict=True):
        shared = order.keys() & reference_counts.keys()
        matched = math.fsum([backed[ngram] * min(1.0, order[ngram] / reference_counts[ngram]) for ngram in shared])
        shares.append(matched / total if total else 1.0)
    return geometric_mean(shares) or SMOOTHING


def geometric_mean(shares: Sequence[float]) -> float:
    """Return the geometric mean, a 0 of an order above 1 smoothed; 0 if that of order 1 is 0."""
    if not shares[0]:
        return 0.0
    return math.exp(math.fsum([math.log(share or SMOOTHING) for share in shares]) / len(shares))


# --- the metrics -----------------------------------------------------------------------------------------------------


def parent(name: str, part: Part, filled_up_to: int, tokenizer: TokenizerName = "13a") -> Average:
    """Return a part of PARENT, 0–1.

    Args:
        name: Registered name.
        filled_up_to: Number of references to which "<null>" fills up an example's, as the official script does.
        tokenizer: "13a", or "whitespace" as the official unit test splits texts.
    """
    tokenize = TOKENIZERS[tokenizer]
    tables = Prepared(lambda example: read_table(example, tokenize, filled_up_to), MOST_PREPARED)

    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        pairs = zip(examples, texts, strict=True)
        return [scores_of(tables(example), tokenize(text.lower()))[part] for example, text in pairs]

    references = f"<null> up to {filled_up_to}" if filled_up_to else "as given"
    signature = f"{name}|case:lower|tok:{tokenizer}|lambda:auto|smooth:{SMOOTHING:g}|refs:best of {references}"
    return Average(signature, values, tables.prepare)


def parent_half(name: str, overlap: bool, tokenizer: TokenizerName = "13a") -> Subset:
    """Return PARENT over the examples with, or without, overlap; `tokenizer` as for `parent`."""
    return Subset(name, parent("parent", "f1", 0, tokenizer), "overlap", overlap)


def sacrebleu_half(name: str, overlap: bool, tokenize: str = "13a", lowercase: bool = False) -> Subset:
    """Return sacreBLEU over the examples with, or without, overlap; options as for `sacrebleu`."""
    return Subset(name, sacrebleu(tokenize, lowercase), "overlap", overlap)


METRICS: dict[str, MetricFactory] = {
    "parent": partial(parent, "parent", "f1", 0),
    "parent_precision": partial(parent, "parent_precision", "precision", 0),
    "parent_recall": partial(parent, "parent_recall", "recall", 0),
    "parent_overlap": partial(parent_half, "parent_overlap", True),
    "parent_nonoverlap": partial(parent_half, "parent_nonoverlap", False),
    "sacrebleu_overlap": partial(sacrebleu_half, "sacrebleu_overlap", True),
    "sacrebleu_nonoverlap": partial(sacrebleu_half, "sacrebleu_nonoverlap", False),
}
