"""Metrics that compare words with a reference's words: BLEU, sacreBLEU, chrF, TER, ROUGE and METEOR, by name."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from grue.errors import ConfigError
from grue.metrics import meteor, rouge, wordnet
from grue.metrics.base import METRICS, Average, references_of
from grue.metrics.bleu import Bleu, SacreBleu
from grue.metrics.chrf import Chrf
from grue.metrics.ter import Ter
from grue.records import Example

T = TypeVar("T")


class BestReference(Generic[T]):
    """Values of texts against the best of each example's references.

    Args:
        name: Registered name of the metric, for messages.
        read: Turns a text, reference or candidate, into what `compare` needs; done once for prepared references.
        compare: Value of (reference, candidate).
    """

    def __init__(self, name: str, read: Callable[[str], T], compare: Callable[[T, T], float]) -> None:
        self._name = name
        self._read = read
        self._compare = compare
        self._prepared: dict[tuple[str, ...], list[T]] = {}

    def prepare(self, examples: Sequence[Example]) -> None:
        """Read the references once."""
        self._prepared = {example.references: self._read_references(example) for example in examples}

    def values(self, examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        """Return the highest value that each text reaches."""
        return [self._best(example, text) for example, text in zip(examples, texts, strict=True)]

    def _best(self, example: Example, text: str) -> float:
        references = self._prepared.get(example.references) or self._read_references(example)
        candidate = self._read(text)
        return max(self._compare(reference, candidate) for reference in references)

    def _read_references(self, example: Example) -> list[T]:
        return [self._read(reference) for reference in references_of(example, self._name)]


def best_of_references(name: str, details: str, read: Callable[[str], T], compare: Callable[[T, T], float]) -> Average:
    """Return the metric `name` of values against the best reference."""
    best = BestReference(name, read, compare)
    return Average(f"{name}|{details}|refs:best", best.values, best.prepare)


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


@METRICS.register("rougeL")
def rouge_l(stem: bool = True) -> Average:
    """Return ROUGE-L F1 over the whole text, 0–1; `stem` as for `rouge1`."""
    return best_of_references("rougeL", _rouge_details(stem), partial(rouge.sequence, stem=stem), rouge.lcs_f1)


@METRICS.register("rougeLmax")
def rouge_l_max(stem: bool = True) -> Average:
    """Return ROUGE-L F1 against the best reference, 0–1; `stem` as for `rouge1`."""
    return best_of_references("rougeLmax", _rouge_details(stem), partial(rouge.sequence, stem=stem), rouge.lcs_f1)


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
    details = f"version:nltk3.10.4|case:lower|tok:treebank|stem:porter|synonyms:{wordnet.DATA}"
    return best_of_references("meteor", details, meteor.read, meteor.meteor)
