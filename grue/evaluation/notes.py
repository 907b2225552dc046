"""What a table of scores does not say of itself: references that are blank, and metrics that see nothing of them."""

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
"""Beginning of a metric's name → why it may see nothing, and what to do."""


def notes_on_references(examples: Sequence[Example]) -> Iterator[str]:
    """Yield how many examples have blank references, beside others or alone."""
    some = sum(len(usable(one.references)) < len(one.references) for one in examples)
    if some:
        yield (
            f"{some:,} of {len(examples):,} examples have a blank reference beside others: it counts as missing, "
            "as in sacreBLEU."
        )
    none = sum(bool(one.references) and not any(map(str.strip, usable(one.references))) for one in examples)
    if none:
        yield f"{none:,} of {len(examples):,} examples have only blank references, which no text can match."


def notes_on_metric(
    score: Score, metric: Metric, examples: Sequence[Example], values: Sequence[float] | None
) -> Iterator[str]:
    """Yield if a metric gave its lowest value, and gives it to exact copies of the references, too.

    That is told where it does so for all examples together, or for some whose references are mostly of another script
    than a–z; not where single texts are too short for its n-grams.

    Args:
        score: What it gave.
        metric: Prepared on the examples.
        values: What it gave each example, on its own scale.
    """
    card = CARDS.get(score.metric)
    if card is None or "references" not in card.terms or card.direction == "lower" or values is None:
        return
    low, blind = card.range[0], 0
    written = [(one, value) for one, value in zip(examples, values, strict=True) if "".join(one.references).strip()]
    foreign = [(one, value) for one, value in written if _is_of_another_script(one.references[0])]
    if score.value == low and written and metric.corpus(_of_copies(metric, [one for one, _ in written])) == low:
        blind = len(written)
    elif isinstance(metric, Average):
        some = [one for one, value in foreign if value == low]
        blind = int((metric.per_example(_of_copies(metric, some)) == low).sum()) if some else 0
    elif not isinstance(metric, Subset):  # n-grams are counted over the corpus, and a sentence without blanks is a word
        some = [one for one, _ in foreign if len(one.references[0].split()) == 1]
        blind = len(some) if some and metric.corpus(_of_copies(metric, some)) == low else 0
    if blind:
        cure = next((f" {cure}" for name, cure in CURES.items() if score.metric.startswith(name)), "")
        yield (
            f"{score.metric} sees nothing of the references of {blind:,} of {len(examples):,} examples: exact copies "
            f"of them get {low:g}, too.{cure}"
        )


def _of_copies(metric: Metric, examples: Sequence[Example]) -> FloatArray:
    """Return the statistics of exact copies of the examples' references, [N, K]."""
    return metric.statistics(examples, [one.references[0] for one in examples])


def _is_of_another_script(text: str) -> bool:
    """Whether a text is not blank, and at most half of its letters are a–z."""
    letters = [sign for sign in text if sign.isalpha()]
    return bool(text.strip()) and 2 * sum(map(str.isascii, letters)) <= len(letters)
