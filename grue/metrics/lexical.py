"""Metrics that compare words with a reference's words: BLEU, sacreBLEU, chrF, TER, ROUGE and METEOR, by name."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from grue.errors import ConfigError
from grue.metrics import meteor, rouge, wordnet
from grue.metrics.bleu import Bleu, SacreBleu
from grue.metrics.chrf import Chrf
from grue.metrics.metric import METRICS, Average, Prepared, references_of
from grue.metrics.ter import Ter
from grue.records import Example

R = TypeVar("R")
C = TypeVar("C")


def best_of_references(
    name: str,
    details: str,
    read: Callable[[str], R],
    compare: Callable[[R, C], float],
    read_candidate: Callable[[str], C] | None = None,
) -> Average:
    """Return a metric whose value is the highest that a text reaches with any of its example's references.

    Args:
        name: Registered name of the metric.
        details: The rest of its signature.
        read: Turns a reference into what `compare` needs; done once for prepared ones.
        compare: Value of (reference, candidate).
        read_candidate: The same for a candidate; None where both are read alike.
    """
    read_text = read_candidate or cast(Callable[[str], C], read)
    references = Prepared(lambda example: [read(reference) for reference in references_of(example, name)])

    def best(example: Example, text: str) -> float:
        candidate = read_text(text)
        return max([compare(reference, candidate) for reference in references(example)])

    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        return [best(example, text) for example, text in zip(examples, texts, strict=True)]

    return Average(f"{name}|{details}|refs:best", values, references.prepare)


for _order in (1, 2, 3, 4):
    METRICS.register(f"bleu{_order}")(partial(Bleu, _order))

METRICS.register("sacrebleu")(SacreBleu)
METRICS.register("chrf")(partial(Chrf, "chrf", 0))
METRICS.register("chrfpp")(partial(Chrf, "chrfpp", 2))
METRICS.register("ter")(Ter)


# --- ROUGE -----------------------------------------------------------------------------------------------------------


def _rouge_details(stem: bool) -> str:
    return f"tok:a-z0-9|stem:{'porter' if stem else 'no'}"


@METRICS.register("rouge1")
def rouge1(stem: bool = True) -> Average:
    """Return ROUGE-1 F1, 0–1.

    Args:
        stem: Whether words of more than three letters are stemmed (Porter).
    """
    return best_of_references("rouge1", _rouge_details(stem), rouge.ngrams(1, stem), rouge.ngram_f1)


@METRICS.register("rouge2")
def rouge2(stem: bool = True) -> Average:
    """Return ROUGE-2 F1, 0–1; `stem` as for `rouge1`."""
    return best_of_references("rouge2", _rouge_details(stem), rouge.ngrams(2, stem), rouge.ngram_f1)


def _sequences(stem: bool) -> tuple[Any, ...]:
    return partial(rouge.sequence, stem=stem), rouge.lcs_f1, partial(rouge.rouge_tokens, stem=stem)


@METRICS.register("rougeL")
def rouge_l(stem: bool = True) -> Average:
    """Return ROUGE-L F1 over the whole text, 0–1; `stem` as for `rouge1`."""
    return best_of_references("rougeL", _rouge_details(stem), *_sequences(stem))


@METRICS.register("rougeLmax")
def rouge_l_max(stem: bool = True) -> Average:
    """Return ROUGE-L F1 against the best reference, 0–1; `stem` as for `rouge1`."""
    return best_of_references("rougeLmax", _rouge_details(stem), *_sequences(stem))


@METRICS.register("rougeLsum")
def rouge_lsum(split: str = "newline", stem: bool = True) -> Average:
    """Return ROUGE-L F1 of the union over lines, 0–1; equal to ROUGE-L where every text is one line.

    Args:
        split: "newline", or "sentences" where a system's texts do not have the references' line ends.
        stem: As for `rouge1`.

    Raises:
        ConfigError: `split` is neither.
    """
    if split not in ("newline", "sentences"):
        raise ConfigError(f"The metric 'rougeLsum': split must be 'newline' or 'sentences', found {split!r}.")
    details = f"split:{split}|{_rouge_details(stem)}"
    return best_of_references("rougeLsum", details, rouge.lines(split, stem), rouge.union_lcs_f1)


# --- METEOR ----------------------------------------------------------------------------------------------------------


@METRICS.register("meteor")
def meteor_nltk() -> Average:
    """Return METEOR in nltk's version, 0–1."""
    details = f"version:nltk3.10.4|case:lower|tok:treebank|sentences:rules|stem:porter|synonyms:{wordnet.DATA}"
    return best_of_references("meteor", details, meteor.read, meteor.meteor)
