"""Time our metrics beside their reference libraries, in one run, on the same texts.

    python benchmarks/metrics.py

Texts are drawn from a fixed seed: 400 candidates of about 15 words, 4 references each. Times are microseconds a text,
the best of three passes; "reward" has the references prepared, as in training.
"""

import random
import time
from collections.abc import Callable

from nltk.translate.meteor_score import meteor_score
from pycocoevalcap.cider.cider import Cider
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics import BLEU

from grue.metrics.base import make_metric
from grue.metrics.tokens import words
from grue.metrics.wordnet import synonyms
from grue.records import Example

VOCABULARY = (
    "a the one two tired happy young old farmer doctor painter pilot dog horse child leads carries paints sells opened "
    "watching running cleaned hides two red broken shiny quiet basket bridge boat window garden barn market river near "
    "behind toward under in on at with while because after before slowly carefully today and , ."
).split()


def sentence(generator: random.Random) -> str:
    """Return about 15 words, frequent ones more often."""
    length = 10 + int(generator.random() * 11)
    return " ".join(VOCABULARY[int(len(VOCABULARY) * generator.random() ** 1.5)] for _ in range(length))


class Lemma:
    """A word as nltk's METEOR asks for it."""

    def __init__(self, word: str) -> None:
        self.word = word

    def name(self) -> str:
        """Return the word."""
        return self.word


class Synset:
    """Our synonyms of a word as one synset, so that nltk's METEOR needs no download."""

    def __init__(self, word: str) -> None:
        self.word = word

    def lemmas(self) -> list[Lemma]:
        """Return the synonyms."""
        return [Lemma(word) for word in synonyms(self.word)]


class OurWordNet:
    """The one method of nltk's WordNet that its METEOR calls."""

    def synsets(self, word: str) -> list[Synset]:
        """Return all synonyms as one synset."""
        return [Synset(word)]


def best_time(work: Callable[[], object]) -> float:
    """Return the seconds of the fastest of three passes."""
    passes = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        passes.append(time.perf_counter() - start)
    return min(passes)


def main() -> None:
    """Print one line a metric."""
    generator = random.Random(1)
    examples = [Example(str(i), "", tuple(sentence(generator) for _ in range(4))) for i in range(400)]
    texts = [sentence(generator) for _ in examples]
    pairs = list(zip(examples, texts, strict=True))
    scorers = {name: RougeScorer([name], use_stemmer=True) for name in ("rouge1", "rouge2", "rougeL", "rougeLsum")}
    sacrebleu = BLEU(effective_order=True)
    captions = {e.id: list(e.references) for e in examples}, {e.id: [text] for e, text in pairs}
    split = [([words(reference) for reference in e.references], words(text)) for e, text in pairs]
    references: dict[str, Callable[[], object]] = {
        name: (lambda scorer=scorer: [scorer.score_multi(e.references, text) for e, text in pairs])
        for name, scorer in scorers.items()
    }
    references["cider"] = lambda: Cider().compute_score(*captions)
    references["meteor"] = lambda: [meteor_score(r, text, wordnet=OurWordNet()) for r, text in split]
    references["sacrebleu"] = lambda: [sacrebleu.sentence_score(text, e.references).score for e, text in pairs]

    print(
        f"{'metric':10} {'library':>9} {'report':>9} {'ratio':>6} {'reward':>9} {'ratio':>6}   us a text, 4 references"
    )
    for name, reference in references.items():
        metric = make_metric(name, **({"tokenizer": "whitespace"} if name == "cider" else {}))

        def report(metric=metric) -> None:  # type: ignore[no-untyped-def]
            metric.prepare(examples)
            metric.corpus(metric.statistics(examples, texts))

        def reward(metric=metric) -> None:  # type: ignore[no-untyped-def]
            metric.per_example(metric.statistics(examples, texts))

        library, ours, prepared = (1e6 * best_time(work) / len(examples) for work in (reference, report, reward))
        print(f"{name:10} {library:9.1f} {ours:9.1f} {library / ours:6.1f} {prepared:9.1f} {library / prepared:6.1f}")


if __name__ == "__main__":
    main()
