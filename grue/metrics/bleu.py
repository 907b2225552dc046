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
from typing import Literal

import numpy as np

from grue.errors import ConfigError, Unavailable, instead
from grue.metrics.metric import FloatArray, MetricFactory, Prepared, Summed, require_references
from grue.metrics.tokens import Tokenizer
from grue.metrics.treebank import TOKENIZERS, TokenizerName
from grue.records import Example

ORDER = 4  # of sacreBLEU
Length = Literal["shortest", "closest"]
Ngrams = Counter[tuple[str, ...]]
Statistics = Callable[[Sequence[Example], Sequence[str]], FloatArray]


def count_ngrams(tokens: Sequence[str], longest: int) -> Ngrams:
    """Return the counts of all n-grams of 1 to `longest` tokens."""
    later = [tokens[start:] for start in range(longest)]
    return Counter(chain.from_iterable(zip(*later[:order], strict=False) for order in range(1, longest + 1)))


def counting(
    metric: str, split: Tokenizer, longest: int, reference_length: Length
) -> tuple[Statistics, Callable[[Sequence[Example]], None]]:
    """Return what counts n-grams, [N, 2 + 2·longest] (see the module's docstring), and what counts those of references.

    Args:
        metric: Its name, for the message where there is no reference.
        reference_length: That of the shortest, or the closest to the text's; of two equally close, the shorter.
    """

    def read(example: Example) -> tuple[list[int], Ngrams]:
        """Return the lengths of an example's references, and for each n-gram its highest count in any of them."""
        texts = list(map(split, example.references))
        return list(map(len, texts)), reduce(or_, [count_ngrams(tokens, longest) for tokens in texts])

    references = Prepared(read)

    def prepare(examples: Sequence[Example]) -> None:
        require_references(examples, metric)
        references.prepare(examples)

    def statistics(examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        require_references(examples, metric)
        rows = []
        for example, text in zip(examples, texts, strict=True):
            tokens, (lengths, highest) = split(text), references(example)
            matches, counts = [0] * longest, count_ngrams(tokens, longest)
            for ngram in counts.keys() & highest.keys():
                matches[len(ngram) - 1] += min(counts[ngram], highest[ngram])
            possible = [max(0, len(tokens) - extra) for extra in range(longest)]
            wanted = min(lengths)
            if reference_length == "closest":
                wanted = min((abs(length - len(tokens)), length) for length in lengths)[1]
            rows.append([len(tokens), wanted, *matches, *possible])
        return np.array(rows, dtype=np.float64).reshape(len(rows), 2 + 2 * longest)

    return statistics, prepare


def bleu(order: int, tokenizer: TokenizerName = "whitespace", reference_length: Length = "shortest") -> Summed:
    """Return BLEU-n, 0–1: a corpus is not smoothed.

    A single example is smoothed after Lin & Och (2004), one more match and one more possible n-gram for each order
    above 1, so that an exact copy of any length scores 1 and a text without a common word 0.

    Args:
        order: Longest n-gram.
        tokenizer: "whitespace", as in the published numbers, "words" or "treebank".
        reference_length: Which reference the brevity penalty compares with: the "shortest", as RL4LMs and
            tensorflow/nmt do, or the "closest", as pycocoevalcap and with it CommonGen's official scorer do.
    """
    name = f"bleu{order}"
    statistics, prepare = counting(name, TOKENIZERS[tokenizer], order, reference_length)

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
        statistics,
        value,
        prepare,
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

    def value(row: FloatArray, effective_order: bool = False) -> float:
        candidate_length, reference_length, *counts = map(int, row)
        score = library.compute_bleu(
            correct=counts[:ORDER],
            total=counts[ORDER:],
            sys_len=candidate_length,
            ref_len=reference_length,
            smooth_method="exp",
            effective_order=effective_order,
        )
        return float(score.score)

    statistics, prepare = counting("sacrebleu", split, ORDER, "closest")
    return Summed(
        f"sacrebleu|case:{'lower' if lowercase else 'mixed'}|tok:{tokenize}|smooth:exp|eff:no|reflen:closest",
        statistics,
        value,
        prepare,
        single=partial(value, effective_order=True),
    )


METRICS: dict[str, MetricFactory] = {
    **{f"bleu{order}": partial(bleu, order) for order in (1, 2, 3, 4)},
    "sacrebleu": sacrebleu,
}
