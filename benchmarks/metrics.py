"""Time our metrics against their reference libraries, in one run, on the same texts.

    python benchmarks/metrics.py

Texts are sentences and paragraphs of the mini world with words exchanged, left out or moved, like a system's outputs.
Every pass has its own texts, so that no cache holds the answers; caches of single words are warm, as in any long run,
after three thousand other texts. A "report" reads the references and scores once; a "reward" has its references
prepared, as in training. Times are microseconds per text, medians of five alternating passes. The run fails if values
differ by more than 1e-9 of a metric's scale. sacreBLEU itself computes chrF and chrF++.
"""

import gc
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from nltk.tokenize import NLTKWordTokenizer
from nltk.translate.meteor_score import meteor_score
from pycocoevalcap.cider.cider import Cider
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics import BLEU, TER

from grue.metrics.metric import Metric
from grue.metrics.registry import make_metric
from grue.metrics.tokens import sentences, tokens_13a
from grue.metrics.wordnet import synonyms
from grue.mini.assets import read_rows
from grue.records import Example

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support import oracles

from miniworld.text import paragraphs

PASSES = 5
KINDS = ("sentences", "sentences, 4 references", "summaries")
WARM = 1  # texts 1,000 to 2,000, which no pass measures
ROUGE = ("rouge1", "rouge2", "rougeL", "rougeLsum")
LEXICAL = (*ROUGE, "bleu1", "bleu2", "bleu3", "bleu4", "sacrebleu", "chrf", "chrfpp", "ter", "meteor", "cider")
Texts = tuple[list[Example], list[str]]
Library = Callable[[list[Example], list[str]], list[float]]


# --- texts -----------------------------------------------------------------------------------------------------------


@cache
def captions() -> list[tuple[str, ...]]:
    """Return sets of four sentences of about 14 words that describe the same event."""
    return [tuple(row["targets"]) for row in read_rows("commongen", "train", "2")]


@cache
def summaries() -> list[str]:
    """Return texts of four lines and about 60 words."""
    found: list[str] = []
    parts = iter(sentence for text in paragraphs(30_000, seed=7) for sentence in sentences(text))
    while True:
        lines: list[str] = []
        while sum(len(line.split()) for line in lines) < 54:
            line = next(parts, None)
            if line is None:
                return found
            lines.append(line)
        found.append("\n".join(lines))


def disturbed(generator: random.Random, text: str, words: Sequence[str]) -> str:
    """Return the text with a block moved, one word in five exchanged, one in ten left out; its last sign stays."""
    sign = text[-1] if text[-1] in ".!?" else ""
    found = [
        words[int(len(words) * generator.random())] if generator.random() < 0.2 else word
        for word in text.removesuffix(sign).split(" ")
    ]
    found = [word for word in found if generator.random() > 0.1]
    start = int(len(found) * generator.random() * 0.7)
    block = found[start : start + max(2, len(found) // 5)]
    rest = found[:start] + found[start + len(block) :]
    place = int((len(rest) + 1) * generator.random())
    return " ".join(rest[:place] + block + rest[place:]) + sign


def draw(kind: str, seed: int, count: int) -> Texts:
    """Return `count` examples and candidates that no other seed has."""
    generator = random.Random(seed)
    if kind == "sentences, 4 references":
        chosen = captions()[seed * count : (seed + 1) * count]
    elif kind == "sentences":
        chosen = [four[:1] for four in captions()[seed * count : (seed + 1) * count]]
    else:
        chosen = [(text,) for text in summaries()[seed * count : (seed + 1) * count]]
    assert len(chosen) == count, "not enough texts"
    words = [word for references in chosen for word in references[0].rstrip(".!?").split()]
    examples = [Example(f"{seed}-{i}", "", references) for i, references in enumerate(chosen)]
    return examples, [disturbed(generator, references[0], words) for references in chosen]


def draw_tables(cells: int, seed: int, count: int) -> Texts:
    """Return examples with tables of that many cells beside one reference, and candidates."""
    generator = random.Random(seed)
    examples, texts = draw("sentences, 4 references", seed, count)
    words = [word for text in texts for word in text.split()]
    tabled = []
    for example in examples:
        values = [" ".join(generator.choices(words, k=1 + int(3 * generator.random()))) for _ in range(cells - 3)]
        values += [" ".join(example.references[0].split()[:2]), *example.references[0].split()[-2:]]
        tabled.append(Example(example.id, "", example.references[:3], {"table": values, "highlighted": values[-4:]}))
    return tabled, texts


# --- libraries -------------------------------------------------------------------------------------------------------


class Lemma:
    """A word as nltk's METEOR asks for it."""

    def __init__(self, word: str) -> None:
        self.word = word

    def name(self) -> str:
        """Return the word."""
        return self.word


class Synset:
    """Our synonyms of a word as one synset: nltk's own reader of WordNet is slower and needs a download."""

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


def rouge_library(examples: list[Example], texts: list[str]) -> list[float]:
    """Return the sum of the four F1 of each text."""
    scorer = RougeScorer(list(ROUGE), use_stemmer=True)
    scores = (scorer.score_multi(e.references, text) for e, text in zip(examples, texts, strict=True))
    return [sum(each[name].fmeasure for name in ROUGE) for each in scores]


def meteor_library(examples: list[Example], texts: list[str]) -> list[float]:
    """Return METEOR, words split by nltk."""
    tokenizer, wordnet = NLTKWordTokenizer(), OurWordNet()

    def split(text: str) -> list[str]:
        return [token for sentence in sentences(text) for token in tokenizer.tokenize(sentence)]

    return [
        meteor_score([split(r) for r in e.references], split(text), wordnet=wordnet)
        for e, text in zip(examples, texts, strict=True)
    ]


def cider_library(examples: list[Example], texts: list[str]) -> list[float]:
    """Return CIDEr of each text."""
    references = {e.id: list(e.references) for e in examples}
    return list(Cider().compute_score(references, {e.id: [t] for e, t in zip(examples, texts, strict=True)})[1])


def parent_library(examples: list[Example], texts: list[str]) -> list[float]:
    """Return PARENT's F1 by plain loops."""

    def split(text: str) -> list[str]:
        return tokens_13a(text.lower())

    return [
        oracles.parent(
            split(text),
            [split(reference) for reference in e.references],
            [split(value) for value in e.meta["table"]],
            [split(value) for value in e.meta["highlighted"]],
        )[2]
        for e, text in zip(examples, texts, strict=True)
    ]


def sentence_scores(library: BLEU | TER) -> Library:
    """Return what scores each text by itself with a metric of sacrebleu."""
    return lambda examples, texts: [
        library.sentence_score(text, e.references).score for e, text in zip(examples, texts, strict=True)
    ]


# --- measuring -------------------------------------------------------------------------------------------------------


def timed(work: Callable[[], list[float]]) -> tuple[float, list[float]]:
    """Return the CPU seconds that `work` takes, and what it returns."""
    gc.collect()
    start = time.process_time()
    values = work()
    return time.process_time() - start, values


def values_of(metrics: Sequence[Metric], examples: list[Example], texts: list[str]) -> list[float]:
    """Return the sum of the metrics for each text."""
    columns = [metric.per_example(metric.statistics(examples, texts)).tolist() for metric in metrics]
    return [sum(row) for row in zip(*columns, strict=True)]


def warm_up(metrics: Sequence[Metric]) -> None:
    """Score three thousand texts that are not measured."""
    for kind in KINDS:
        examples, texts = draw(kind, WARM, 1000)
        tabled = [replace(e, meta={"table": e.references, "highlighted": e.references}) for e in examples]
        for metric in metrics:
            metric.prepare(tabled)
            metric.statistics(tabled, texts)


def compare(
    name: str, kind: str, make: Callable[[], list[Metric]], library: Library, texts: Iterator[Texts], scale: float
) -> None:
    """Print a row of the table."""
    times: dict[str, list[float]] = {"library": [], "report": [], "reward": []}
    largest = 0.0
    warm_up(make())
    for turn, (examples, candidates) in enumerate(texts):

        def report(examples: list[Example] = examples, candidates: list[str] = candidates) -> list[float]:
            metrics = make()
            for metric in metrics:
                metric.prepare(examples)
            return values_of(metrics, examples, candidates)

        prepared = make()
        seconds, expected = timed(lambda e=examples, c=candidates: library(e, c))
        reported, found = timed(report)
        for metric in prepared:
            metric.prepare(examples)
        # Other texts for the same references, so that nothing of them is cached.
        fresh = [f"again {text}" for text in candidates]
        rewarded, _ = timed(lambda p=prepared, e=examples, f=fresh: values_of(p, e, f))
        largest = max([largest, *(abs(a - b) for a, b in zip(expected, found, strict=True))])
        if turn:  # the first pass warms up
            for key, value in (("library", seconds), ("report", reported), ("reward", rewarded)):
                times[key].append(1e6 * value / len(candidates))
    assert largest <= 1e-9 * scale, f"{name} differs by {largest}"
    theirs, ours, reward = (statistics.median(times[key]) for key in ("library", "report", "reward"))
    print(
        f"{name:22} {kind:24} {theirs:10.0f} {ours:9.0f} {theirs / ours:7.1f} {reward:9.0f} {theirs / reward:7.1f}"
        f"   {largest:.0e}"
    )


def table() -> None:
    """Print each metric beside its library."""
    print(
        f"{'metric':22} {'texts':24} {'library us':>10} {'report us':>9} {'ratio':>7} {'reward us':>9} {'ratio':>7}"
        "   largest difference"
    )
    rows_ = [
        ("rouge, 4 types", ROUGE, {}, rouge_library, KINDS, 4.0),
        ("meteor", ("meteor",), {}, meteor_library, KINDS, 1.0),
        ("cider", ("cider",), {"tokenizer": "whitespace"}, cider_library, KINDS, 10.0),
        ("sentence bleu", ("sacrebleu",), {}, sentence_scores(BLEU(effective_order=True)), KINDS, 100.0),
        ("ter, blocks moved", ("ter",), {}, sentence_scores(TER()), KINDS, 100.0),
    ]
    for name, metrics, options, library, of, scale in rows_:
        for kind in of:
            count = 20 if name.startswith("ter") and kind == "summaries" else 100
            compare(
                name,
                kind,
                lambda metrics=metrics, options=options: [make_metric(each, **options) for each in metrics],
                library,
                (draw(kind, seed, count) for seed in range(PASSES + 1)),
                scale,
            )
    for cells in (30, 200):
        compare(
            "parent",
            f"{cells} cells, 3 references",
            lambda: [make_metric("parent")],
            parent_library,
            (draw_tables(cells, seed, 100) for seed in range(PASSES + 1)),
            1.0,
        )


def rewards() -> None:
    """Print how long a batch of 64 texts takes as a reward."""
    print("\na reward batch of 64 sentences, references prepared")
    for names in (("meteor",), ("rougeL",), ROUGE, ("cider",), ("sacrebleu",), ("spice_lite",)):
        metrics = [make_metric(name) for name in names]
        passes = []
        for seed in range(PASSES + 1):
            examples, texts = draw("sentences, 4 references", seed, 64)
            for metric in metrics:
                metric.prepare(examples)
            passes.append(timed(lambda m=metrics, e=examples, t=texts: values_of(m, e, t))[0])
        print(f"  {' + '.join(names):40} {1e3 * statistics.median(passes[1:]):6.1f} ms")


def whole_split(count: int = 11_490) -> None:
    """Print how long all lexical metrics take on as many summaries as CNN/DailyMail's test split has."""
    examples, texts = draw("summaries", 0, count)
    print(f"\n{count:,} summaries of about 60 words, one reference, as a report")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    total = 0.0
    for name in LEXICAL:
        seconds, _ = timed(lambda name=name: report_of(name, examples, texts))
        total += seconds
        print(f"  {name:12} {seconds:7.1f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"  {'all':12} {total:7.1f} s, peak memory {before / 1024:.0f} → {peak / 1024:.0f} MiB")


def report_of(name: str, examples: list[Example], texts: list[str]) -> list[float]:
    """Return a metric's values and corpus value."""
    metric = make_metric(name)
    metric.prepare(examples)
    computed = metric.statistics(examples, texts)
    return [*metric.per_example(computed).tolist(), metric.corpus(computed)]


def main() -> None:
    """Print all tables."""
    table()
    rewards()
    whole_split()


if __name__ == "__main__":
    main()
