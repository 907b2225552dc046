"""Notes on a table of scores: blank references, and metrics that cannot read the references."""

import re
from collections.abc import Iterator, Sequence

from grue.metrics.card import CARDS
from grue.metrics.metric import Average, FloatArray, Metric, Subset
from grue.records import Example, Score, usable

CURES = {
    "rouge": "It reads only a–z and 0–9, and ROUGE-2 pairs of words; for other scripts and single words take chrf.",
    "cider": "An n-gram that all examples have weighs nothing; score several that differ.",
    "bleu": "A corpus needs as long n-grams between blanks; for short texts, or scripts without blanks, take chrf.",
    "sacrebleu": "It needs four words in a row; for Chinese set sacrebleu.tokenize=zh, for short texts take chrf.",
}
"""Prefix of a metric's name → why it may see nothing, and what to do."""
OF_WORDS = ("meteor", "cider", "bleu", "ter")
"""Prefixes of metrics that compare words between blanks, even if they see them."""
UNDIVIDED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]{8}")
"""Letters without blanks in scripts that write them so: Thai to Khmer, kana, Chinese."""


def notes_on_references(examples: Sequence[Example]) -> Iterator[str]:
    """Yield how many examples have some blank references, and how many have no other."""
    some = sum(len(usable(example.references)) < len(example.references) for example in examples)
    if some:
        yield (
            f"{some:,} of {len(examples):,} examples have a blank reference beside others: it counts as missing, "
            "as in sacreBLEU."
        )
    none = sum(bool(example.references) and not any(map(str.strip, usable(example.references))) for example in examples)
    if none:
        yield f"{none:,} of {len(examples):,} examples have only blank references, which no text can match."


def notes_on_metric(
    score: Score, metric: Metric, examples: Sequence[Example], values: Sequence[float] | None
) -> Iterator[str]:
    """Yield a note if a metric cannot read references.

    It gave its lowest value and also gives it to exact copies of all references together, or of some that are mostly in
    another script than a–z, but not if single texts are too short for its n-grams; or it is a ROUGE, and some are in
    another script; or it is of words, and no blanks divide those of some references.
    """
    card = CARDS.get(score.metric)
    if card is None or "references" not in card.terms or values is None:
        return
    written = [
        (example, value) for example, value in zip(examples, values, strict=True) if "".join(example.references).strip()
    ]
    low = card.range[0]
    blind = 0 if card.direction == "lower" else _unseen(score, metric, written, low)
    if blind:
        cure = next((f" {cure}" for name, cure in CURES.items() if score.metric.startswith(name)), "")
        yield (
            f"{score.metric} sees nothing of the references of {blind:,} of {len(examples):,} examples: exact copies "
            f"of them get {low:g}, too.{cure}"
        )
    if score.metric.startswith("rouge"):
        written_otherwise = sum(map(_is_in_other_letters, (example.references[0] for example, _ in written)))
        if written_otherwise > blind:
            yield (
                f"{score.metric} reads only a–z and 0–9 and leaves out most letters of {written_otherwise:,} of "
                f"{len(examples):,} references: what it compares is the rest, such as numbers. Take chrf."
            )
    elif not blind and score.metric.startswith(OF_WORDS):
        undivided = sum(bool(UNDIVIDED.search(example.references[0])) for example, _ in written)
        if undivided:
            yield (
                f"{score.metric} compares words between blanks, and {undivided:,} of {len(examples):,} references lack "
                "these: another letter makes another word. Take chrf, or divide the words of all texts by blanks."
            )


def _unseen(score: Score, metric: Metric, written: Sequence[tuple[Example, float]], low: float) -> int:
    """Return how many examples get the lowest value for exact copies of their references, which are not blank."""
    if score.value == low and written and metric.corpus(_of_copies(metric, [example for example, _ in written])) == low:
        return len(written)
    foreign = [(example, value) for example, value in written if _is_of_another_script(example.references[0])]
    if isinstance(metric, Average):
        lowest = [example for example, value in foreign if value == low]
        return int((metric.per_example(_of_copies(metric, lowest)) == low).sum()) if lowest else 0
    if isinstance(metric, Subset):
        return 0
    # n-grams of the corpus, where a sentence without blanks is one word
    single = [example for example, _ in foreign if len(example.references[0].split()) == 1]
    return len(single) if single and metric.corpus(_of_copies(metric, single)) == low else 0


def _of_copies(metric: Metric, examples: Sequence[Example]) -> FloatArray:
    """Return the statistics of exact copies of the examples' references, [N, K]."""
    return metric.statistics(examples, [example.references[0] for example in examples])


def _is_in_other_letters(text: str) -> bool:
    """Whether a text has letters, at most half of them a–z."""
    return _is_of_another_script(text) and any(map(str.isalpha, text))


def _is_of_another_script(text: str) -> bool:
    """Whether a text is not blank, and at most half of its letters are a–z."""
    letters = [sign for sign in text if sign.isalpha()]
    return bool(text.strip()) and 2 * sum(map(str.isascii, letters)) <= len(letters)
