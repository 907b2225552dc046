"""BLEU (Papineni et al. 2002) in two versions: RL4LMs' and nmt's, 0–1, and sacreBLEU's, 0–100.

The statistics of an example are integers that add up over a corpus: candidate length, reference length, then matched
n-grams of each order, then possible n-grams of each order.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import chain
from operator import or_
from weakref import WeakValueDictionary

import numpy as np

from grue.errors import ConfigError, Unavailable, instead
from grue.metrics.metric import FloatArray, Latest, MetricFactory, Prepared, Summed, require_references
from grue.metrics.tokens import Tokenizer
from grue.metrics.treebank import TOKENIZERS
from grue.records import Example

Ngrams = Counter[tuple[str, ...]]
ORDER = 4  # the longest n-gram of sacreBLEU, and of any BLEU here


def count_ngrams(tokens: Sequence[str]) -> Ngrams:
    """Return the counts of all n-grams of 1 to 4 tokens."""
    later = [tokens[start:] for start in range(ORDER)]
    return Counter(chain.from_iterable(zip(*later[:order], strict=False) for order in range(1, ORDER + 1)))


class Counts:
    """The n-gram counts of BLEU under one tokenizer, shared by metrics of several orders."""

    def __init__(self, split: Tokenizer) -> None:
        self._split = split
        self._references = Prepared(self._read)
        self._latest = Latest(lambda *pairs: [self._compare(*pair) for pair in zip(*pairs, strict=True)])

    def _read(self, example: Example) -> tuple[list[int], Ngrams]:
        """Return the lengths of an example's references, and for each n-gram its highest count in any of them."""
        texts = list(map(self._split, example.references))
        return list(map(len, texts)), reduce(or_, map(count_ngrams, texts))

    def _compare(self, example: Example, text: str) -> tuple[int, list[int]]:
        """Return a text's length and how many n-grams of each order it shares with its references, clipped."""
        tokens, (_, highest) = self._split(text), self._references(example)
        matches, counts = [0] * ORDER, count_ngrams(tokens)
        for ngram in counts.keys() & highest.keys():
            matches[len(ngram) - 1] += min(counts[ngram], highest[ngram])
        return len(tokens), matches

    def prepare(self, metric: str, examples: Sequence[Example]) -> None:
        """Count the references' n-grams in advance; `metric` is named if there is none."""
        require_references(examples, metric)
        self._references.prepare(examples)

    def statistics(
        self,
        metric: str,
        longest: int,
        reference_length: Callable[[Sequence[int], int], int],
        examples: Sequence[Example],
        texts: Sequence[str],
    ) -> FloatArray:
        """Return [N, 2 + 2·longest] counts; see the module's docstring.

        Args:
            reference_length: (lengths of the references, length of the text) → the reference length to use.
        """
        require_references(examples, metric)
        rows = []
        for example, (length, matches) in zip(examples, self._latest(examples, texts), strict=True):
            possible = [max(0, length - extra) for extra in range(longest)]
            wanted = reference_length(self._references(example)[0], length)
            rows.append([length, wanted, *matches[:longest], *possible])
        return np.array(rows, dtype=np.float64).reshape(len(rows), 2 + 2 * longest)


def shortest(lengths: Sequence[int], length: int) -> int:
    """Return the shortest reference's length."""
    return min(lengths)


def closest(lengths: Sequence[int], length: int) -> int:
    """Return the reference length closest to the text's; of two equally close, the shorter."""
    return min(lengths, key=lambda reference_length: (abs(reference_length - length), reference_length))


LENGTHS = {"shortest": shortest, "closest": closest}
"""Reference lengths by name: RL4LMs and tensorflow/nmt take the shortest, pycocoevalcap and sacreBLEU the closest."""

_COUNTS: WeakValueDictionary[str, Counts] = WeakValueDictionary()  # tokenizer → the counts that its BLEU metrics share


def bleu(order: int, tokenizer: str = "whitespace", reference_length: str = "shortest") -> Summed:
    """Return BLEU-n, 0–1: a corpus is not smoothed.

    A single example is smoothed after Lin & Och (2004), one more match and one more possible n-gram for each order
    above 1, so that an exact copy of any length scores 1 and a text without a common word 0.

    Args:
        order: Longest n-gram.
        tokenizer: "whitespace", as in the published numbers, "words" or "treebank".
        reference_length: Which reference the brevity penalty compares with: the "shortest", as RL4LMs does, or the
            "closest", as pycocoevalcap and with it CommonGen's official scorer do.

    Raises:
        UnknownName: There is no such tokenizer.
        ConfigError: `reference_length` is neither.
    """
    name = f"bleu{order}"
    if reference_length not in LENGTHS:
        raise ConfigError(f"{name}: reference_length is {reference_length!r}.{instead(reference_length, LENGTHS)}")
    counts = _COUNTS.setdefault(tokenizer, Counts(TOKENIZERS[tokenizer]))

    def value(row: FloatArray) -> float:
        candidate_length, wanted_length = row[:2]
        matches, possible = row[2 : 2 + order], row[2 + order :]
        if not matches.all():
            return 0.0
        shortfall = min(0.0, 1.0 - wanted_length / candidate_length)
        return math.exp(shortfall + float(np.log(matches / possible).mean()))

    def smoothed(row: FloatArray) -> float:
        row = row.copy()
        row[3 : 2 + order] += 1  # matches of orders 2, 3, …
        row[3 + order :] += 1
        return value(row)

    return Summed(
        f"{name}|case:mixed|tok:{tokenizer}|smooth:none|refs:clipped-union|reflen:{reference_length}",
        partial(counts.statistics, name, order, LENGTHS[reference_length]),
        value,
        partial(counts.prepare, name),
        single=smoothed,
    )


def sacrebleu(tokenize: str = "13a", lowercase: bool = False) -> Summed:
    """Return BLEU by the library sacrebleu, 0–100: its tokenizers, its formula and its smoothing, over our counts.

    A single example counts only the n-gram orders it is long enough for (sacrebleu's effective order).

    Args:
        tokenize: The library's tokenizer: "13a", "intl", "char", "none", …
        lowercase: Whether case is ignored, as ToTTo's official script does.

    Raises:
        ConfigError: The library has no such tokenizer.
        Unavailable: The tokenizer needs a package that is not installed.
    """
    from sacrebleu.metrics.bleu import BLEU  # slow to import, and most metrics do not need it

    if tokenize not in BLEU.TOKENIZERS:
        raise ConfigError(f"sacrebleu has no tokenizer {tokenize!r}.{instead(tokenize, sorted(BLEU.TOKENIZERS))}")
    try:
        library = BLEU(tokenize=tokenize)
    except (ImportError, OSError, RuntimeError) as error:  # some tokenizers need another package
        reason = " ".join(str(error).split())
        raise Unavailable(f"sacrebleu's tokenizer {tokenize!r} cannot run here: {reason}") from error

    def split(text: str) -> list[str]:
        tokenized: str = library.tokenizer((text.lower() if lowercase else text).rstrip())
        return tokenized.split()

    def value(row: FloatArray) -> float:
        candidate_length, reference_length, *counts = map(int, row)
        score = library.compute_bleu(
            correct=counts[:ORDER],
            total=counts[ORDER:],
            sys_len=candidate_length,
            ref_len=reference_length,
            smooth_method="exp",
            effective_order=False,
        )
        return float(score.score)

    counts = Counts(split)
    return Summed(
        f"sacrebleu|case:{'lower' if lowercase else 'mixed'}|tok:{tokenize}|smooth:exp|eff:no|reflen:closest",
        partial(counts.statistics, "sacrebleu", ORDER, closest),
        value,
        partial(counts.prepare, "sacrebleu"),
        single=_sentence_value,
    )


def _sentence_value(row: FloatArray) -> float:
    """Return sacreBLEU's sentence BLEU of one row of counts; the library's own function also builds a report."""
    candidate_length, reference_length, *counts = row.tolist()
    if not any(counts[:ORDER]):
        return 0.0
    logs = []
    halves = 1.0
    for matched, total in zip(counts[:ORDER], counts[ORDER:], strict=True):
        if not total:
            break
        if not matched:  # counts as half a match, the next such order as a quarter, and so on
            halves *= 2
        logs.append(math.log(100.0 * matched / total if matched else 100.0 / (halves * total)))
    brevity = 1.0 if candidate_length >= reference_length else math.exp(1 - reference_length / candidate_length)
    return brevity * math.exp(sum(logs) / len(logs))


METRICS: dict[str, MetricFactory] = {
    **{f"bleu{order}": partial(bleu, order) for order in (1, 2, 3, 4)},
    "sacrebleu": sacrebleu,
}
