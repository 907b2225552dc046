"""Measure the mini world: prints the figures of docs/background/mini.md as a plain table."""

import math
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

from grue.data.load import load_examples
from grue.metrics.registry import make_metric
from grue.metrics.tags import tag
from grue.metrics.tokens import sentences, words
from grue.mini.assets import read_rows
from grue.records import Example
from grue.task_files import load_task, task_names

sys.path.insert(0, str(Path(__file__).parent.parent))
from miniworld.lexicon import load_lexicon
from miniworld.news import load_kinds
from miniworld.plots import load_plots
from miniworld.tables import KINDS
from miniworld.talk import load_situations
from miniworld.text import german, paragraphs, reviews
from miniworld.world import REVISION, load_world

SPLITS = ("train", "validation", "test")


@cache
def rows(task: str, split: str) -> list[dict[str, Any]]:
    """Return the rows of a split as they ship."""
    return read_rows(task, split, REVISION)


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-zäöüß-]+", text.lower())


def describe(name: str, texts: Sequence[str]) -> None:
    counts = Counter(word for text in texts for word in words_of(text))
    total = sum(counts.values())
    entropy = -sum(count / total * math.log2(count / total) for count in counts.values())
    lengths = sorted(len(text.split()) for text in texts)
    low, middle, high = (lengths[int(share * (len(lengths) - 1))] for share in (0.05, 0.5, 0.95))
    print(f"{name:34} {len(texts):6} {len(counts):6} {entropy:8.2f} {low:5} {middle:5} {high:5}")


def describe_task(name: str) -> None:
    """Print the figures of a task's prompts and references, and what its splits share."""
    splits = {split: load_examples(load_task(name), split).examples for split in SPLITS}
    prompts = {split: {example.prompt for example in examples} for split, examples in splits.items()}
    references = {split: [r for e in examples for r in e.references] for split, examples in splits.items()}
    for split in ("train", "test"):
        describe(f"{name} prompts, {split}", [example.prompt for example in splits[split]])
        describe(f"{name} references, {split}", references[split])
    again = sum(text in set(references["train"]) for text in references["test"])
    shared = [len(prompts[one] & prompts[other]) for one, other in combinations(prompts, 2)]
    print(f"  prompts that two splits share: {sum(shared)}; test references that training has: {again}")
    known = {
        split: {word for text in (*prompts[split], *references[split]) for word in words_of(text)} for split in splits
    }
    new = [f"{len(known[split] - known['train'])} of {len(known[split])}" for split in ("validation", "test")]
    print(f"  examples: {' / '.join(str(len(examples)) for examples in splits.values())}; ", end="")
    print(f"words that training lacks: {new[0]} in validation, {new[1]} in test")


def describe_world() -> None:
    """Print how much of each thing there is in the world."""
    world = load_world()
    counts = {
        "nouns": len(load_lexicon().nouns), "activities": len(world.activities), "people": len(world.people),
        "towns": len(world.towns), "films": len(world.films), "kinds of news": len(load_kinds()),
        "kinds of plot": len(load_plots().arcs), "kinds of table": len(KINDS), "situations": len(load_situations()),
    }  # fmt: skip
    print("the world: " + ", ".join(f"{count} {name}" for name, count in counts.items()))


def describe_rows() -> None:
    """Print the shape of the rows of all splits, which docs/background/mini.md describes."""
    every = {name: [row for split in SPLITS for row in rows(name, split)] for name in task_names("mini")}
    news, tables = every["cnn_dailymail"], every["totto"]
    shapes = {
        "commongen, words of a reference": [len(t.split()) for row in every["commongen"] for t in row["targets"]],
        "imdb, words of a review": [len(row["text"].split()) for row in every["imdb"]],
        "cnn_dailymail, sentences": [len(sentences(row["article"])) for row in news],
        "cnn_dailymail, highlights": [len(row["highlights"].splitlines()) for row in news],
        "narrativeqa, words of a plot": [
            len(row["document"]["summary"]["text"].split()) for row in every["narrativeqa"]
        ],
        "totto, highlighted cells": [len(row["highlighted_cells"]) for row in tables],
    }
    print("rows of all splits, least to most:")
    for name, sizes in shapes.items():
        print(f"  {name:34} {min(sizes)} to {max(sizes)}")
    subsets = Counter(row["overlap_subset"] for row in tables)
    print(f"totto tables with cells that span several: {sum(map(spans, tables)) / len(tables):.0%}")
    new = subsets["False"] / (subsets["False"] + subsets["True"])
    print(f"totto validation and test, kinds of page that training lacks: {new:.0%}")


def spans(row: Mapping[str, Any]) -> bool:
    """Return whether a cell of a table spans several."""
    return any(max(cell["column_span"], cell["row_span"]) > 1 for cells in row["table"] for cell in cells)


def bayes_accuracy(size: int, order: int, part: Callable[[str], str] = str) -> float:
    """Return the held-out accuracy of naive Bayes over n-grams up to `order` on a part of `size` training reviews."""

    def grams(text: str) -> set[str]:
        words = re.findall(r"[a-z]+|[.,;:?]", part(text).lower())
        return {" ".join(words[i : i + n]) for n in range(1, order + 1) for i in range(len(words) - n + 1)}

    seen: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for text, label in reviews(size, seed=101):
        seen[label].update(grams(text))
    held_out = reviews(2000, seed=102)
    right = 0
    for text, label in held_out:
        vote = sum(math.log((seen[1][gram] + 0.5) / (seen[0][gram] + 0.5)) for gram in grams(text))
        right += int(vote > 0) == label
    return right / len(held_out)


def first_half(text: str) -> str:
    words = text.split(" ")
    return " ".join(words[: len(words) // 2])


def spice_lite_of(disturb: Callable[[str, random.Random], str]) -> float:
    """Return the mean spice_lite of the test references, disturbed, each against the other three of its set."""
    generator = random.Random(1)
    examples, texts = [], []
    for number, row in enumerate(rows("commongen", "test")):
        for index, text in enumerate(row["targets"]):
            others = tuple(other for place, other in enumerate(row["targets"]) if place != index)
            examples.append(Example(f"{number}-{index}", "", others))
            texts.append(disturb(text, generator))
    metric = make_metric("spice_lite")
    return metric.corpus(metric.statistics(examples, texts))


def with_nouns_exchanged(text: str, generator: random.Random) -> str:
    """Return the text with its first and its last different noun exchanged."""
    tokens = words(text)
    lowered = [token.lower() for token in tokens]
    nouns = [place for place, found in enumerate(tag(lowered)) if found == "noun"]
    if nouns and lowered[nouns[0]] != lowered[nouns[-1]]:
        tokens[nouns[0]], tokens[nouns[-1]] = tokens[nouns[-1]], tokens[nouns[0]]
    return " ".join(tokens)


def with_words_shuffled(text: str, generator: random.Random) -> str:
    """Return the text's words in another order."""
    found = text.split()
    generator.shuffle(found)
    return " ".join(found)


def of_another_set(text: str, generator: random.Random) -> str:
    """Return any reference of the test split."""
    split = rows("commongen", "test")
    return split[int(len(split) * generator.random())]["targets"][0]


def main() -> None:
    describe_world()
    describe_rows()
    print(f"{'text':34} {'n':>6} {'types':>6} {'entropy':>8} {'p5':>5} {'p50':>5} {'p95':>5}")
    started = time.perf_counter()
    plain = paragraphs(20_000, seed=1)
    rate = 20_000 / (time.perf_counter() - started)
    describe("plain paragraphs", plain)
    describe("german paragraphs", german(5000, seed=1))
    for name in task_names("mini"):
        describe_task(name)
    test, train = rows("commongen", "test"), rows("commongen", "train")
    bags = [[set(words_of(text)) for text in row["targets"]] for row in test]
    shared = [len(a & b) / len(a | b) for four in bags for a, b in combinations(four, 2)]
    sets = [frozenset(row["concepts"]) for row in train]
    inside = sum(any(frozenset(row["concepts"]) < other for other in sets) for row in test)
    print(f"words that two references of a test set share (Jaccard, mean): {sum(shared) / len(shared):.2f}")
    print(f"test sets that are part of a larger training set: {inside} of {len(test)}")
    print(f"concept lemmas in training: {len(frozenset().union(*sets))}")
    print("spice_lite of a test reference against the other three of its set:")
    print(f"  as it is                          {spice_lite_of(lambda text, generator: text):.3f}")
    print(f"  first and last noun exchanged     {spice_lite_of(with_nouns_exchanged):.3f}")
    print(f"  words shuffled                    {spice_lite_of(with_words_shuffled):.3f}")
    print(f"  a reference of another set        {spice_lite_of(of_another_set):.3f}")
    for order in (1, 2):
        print(f"naive Bayes on n-grams up to {order}, 8,000 reviews: {bayes_accuracy(8000, order):.1%} held out")
    print(f"naive Bayes on n-grams up to 2, 8,000 first halves: {bayes_accuracy(8000, 2, first_half):.1%} held out")
    print(f"paragraphs a second, one core: {rate:.0f}")


if __name__ == "__main__":
    main()
