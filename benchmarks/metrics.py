"""Time our metrics beside their reference libraries, in one run, on the same texts.

    python benchmarks/metrics.py

Texts are drawn from a fixed seed: 400 candidates of about 15 words, 4 references each. Times are microseconds a text,
the best of three passes; "reward" has the references prepared, as in training.
"""

import random
import time
from collections.abc import Callable
from functools import partial

from nltk.translate.meteor_score import meteor_score
from pycocoevalcap.cider.cider import Cider
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics.bleu import BLEU

from grue.metrics.base import Metric, make_metric
from grue.metrics.tokens import words
from grue.metrics.wordnet import synonyms
from grue.records import Example

WORDS = """
the a and , . in on at with two one while because before after near behind toward under dog horse child farmer doctor
painter pilot basket bridge boat window garden barn market river tired happy young old red broken shiny quiet leads
carries paints sells opened watching running cleaned hides slowly carefully today
"""
VOCABULARY = WORDS.split()


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


def libraries(examples: list[Example], texts: list[str]) -> dict[str, Callable[[], object]]:
    """Return metric → what scores all texts with the metric's reference library."""
    pairs = list(zip(examples, texts, strict=True))
    split = [([words(reference) for reference in example.references], words(text)) for example, text in pairs]
    captions = {e.id: list(e.references) for e in examples}, {e.id: [text] for e, text in pairs}
    bleu = BLEU(effective_order=True)

    def rouge(name: str) -> list[object]:
        scorer = RougeScorer([name], use_stemmer=True)
        return [scorer.score_multi(example.references, text) for example, text in pairs]

    return {
        **{name: partial(rouge, name) for name in ("rouge1", "rouge2", "rougeL", "rougeLsum")},
        "meteor": lambda: [meteor_score(references, text, wordnet=OurWordNet()) for references, text in split],
        "cider": lambda: Cider().compute_score(*captions),
        "sacrebleu": lambda: [bleu.sentence_score(text, example.references) for example, text in pairs],
    }


def main() -> None:
    """Print one line a metric."""
    generator = random.Random(1)
    examples = [Example(str(i), "", tuple(sentence(generator) for _ in range(4))) for i in range(400)]
    texts = [sentence(generator) for _ in examples]
    print(
        f"{'metric':10} {'library':>9} {'report':>9} {'ratio':>6} {'reward':>9} {'ratio':>6}   us a text, 4 references"
    )
    for name, library in libraries(examples, texts).items():
        metric = make_metric(name, **({"tokenizer": "whitespace"} if name == "cider" else {}))

        def reward(metric: Metric = metric) -> object:
            return metric.per_example(metric.statistics(examples, texts))

        def report(metric: Metric = metric) -> object:
            metric.prepare(examples)
            return metric.corpus(metric.statistics(examples, texts))

        theirs, ours, prepared = (1e6 * best_time(work) / len(texts) for work in (library, report, reward))
        print(f"{name:10} {theirs:9.1f} {ours:9.1f} {theirs / ours:6.1f} {prepared:9.1f} {theirs / prepared:6.1f}")


if __name__ == "__main__":
    main()
