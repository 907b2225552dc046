"""What tests of metrics share: which metrics there are, texts that are drawn by a seed, and the value of a text."""

import random
from functools import cache

from grue.metrics.card import CARDS
from grue.metrics.registry import make_metric
from grue.records import Example

LEXICAL = [
    name
    for name, card in CARDS.items()
    if card.family in ("overlap", "captions", "tables", "rl4lms")
    and name not in ("spice", "perplexity:policy_on_references")
]
DIVERSITY = [name for name, card in CARDS.items() if card.family == "diversity"]
PRINTED = ["meteor:rl4lms", "rouge1:rl4lms", "rouge2:rl4lms", "rougeL:rl4lms", "rougeLsum:rl4lms"]
FREE = ("coverage", "facts")
"""Metrics that need no reference."""
PARENT = [name for name in LEXICAL if name.startswith("parent")]

VOCABULARY = """
the a of in on with and but while before near two dog dogs horse horses child children farmer's doctor painter pilots
basket bridge boats window garden barn markets river tired happily happy young old red broken shiny quietly leads led
carries carried painting sells opened watching ran running cleaned hides automobile car big large leaf leaves went go
""".split()
SIGNS = """
. , ! ? ; : ... -- - ' '' " ` ( ) [ ] « » “ ” ’ ‘ $ % & # 's n't don't isn't 3.5 1,000 10:30 U.S. Mr. I'm we'll
""".split()
SPACES = ["\n", "\r", "\r\n", *"\t\x0b\x0c\x1c\x1f\x85\u00a0\u2028\u2029\u3000", "  "]
BLANK = ["", " ", "\n\t", "\r\n", "\x1c", "\x85", "\u00a0", "\u2028", "\u3000"]
ODD_WORDS = [*"größte Straße 東京 café 😀 👩‍🚀 שלום مرحبا Ω İ".split(), "x" * 60, "\x00", "\x07", "\ud800", *SPACES]
META = {
    "concepts": ["dog", "run"],
    "facts": {"expected": [["dog"], ["runs", "ran"]]},
    "table": ["the dog", "field", "3.5"],
    "highlighted": ["the dog", "field"],
}


def prepared(name, examples, **options):
    metric = make_metric(name, **options)
    metric.prepare(examples)
    return metric


def scored(name, examples, texts, **options):
    """Return the values of the texts, and that of all, by a metric that half of the examples were prepared for."""
    metric = prepared(name, examples if name == "cider" else examples[::2], **options)
    statistics = metric.statistics(examples, texts)
    return metric.per_example(statistics).tolist(), metric.corpus(statistics)


def value(name, references, text, meta=META, **options):
    """Return the value of one text; for CIDEr there are two examples more, else no n-gram is rare."""
    example = Example("x7", "", tuple(references), {"overlap": "nonoverlap" not in name} | meta)
    others = [Example("o", "", ("a big car ran",)), Example("p", "", ("happy dogs",))] if name == "cider" else []
    metric = prepared(name, [example, *others], **options)
    return float(metric.per_example(metric.statistics([example], [text]))[0])


@cache
def drawn(count, seed=20):
    """Return examples of one to four references, and a text each: ordinary, shuffled, cut, repeated and adversarial."""
    generator, of_tables = random.Random(seed), random.Random(seed + 1)
    examples, texts = [], []
    for index in range(count):
        references = tuple(_text(generator) for _ in range(generator.choice((1, 1, 2, 4))))
        cells = [" ".join(of_tables.choices(VOCABULARY, k=of_tables.randrange(1, 5))) for _ in range(12)]
        cells += of_tables.choice(references).split()[:3]
        meta = {"table": cells, "highlighted": cells[-6:], "overlap": index % 3 > 0, "concepts": ["dog", "run"]}
        examples.append(Example(str(index), "", references, meta))
        related = generator.random() < 0.7
        texts.append(_disturbed(generator, generator.choice(references)) if related else _text(generator))
    return examples, texts


def _text(generator):
    kind = generator.random()
    longest = 60 if generator.random() < 0.05 else 22
    if kind < 0.02:
        return generator.choice(["", " ", "\n", ".", "a", *ODD_WORDS])
    vocabulary = list("abcde") if kind < 0.15 else VOCABULARY
    words = [generator.choice(vocabulary) for _ in range(generator.randrange(1, longest))]
    if kind > 0.6:
        for _ in range(generator.randrange(4)):
            words.insert(generator.randrange(len(words) + 1), generator.choice(SIGNS))
    if kind > 0.9:
        words.insert(generator.randrange(len(words) + 1), generator.choice(ODD_WORDS))
    glue = (" ", " ", " ", " ", " ", "  ", "\n", "") if kind > 0.9 else (" ", " ", "\n") if kind < 0.15 else (" ",)
    text = "".join(word + generator.choice(glue) for word in words).rstrip(" ")
    return text.capitalize() + "." if kind > 0.5 else text


def _disturbed(generator, text):
    """A candidate that has to do with its reference: cut, shuffled, moved or with some words changed."""
    words = text.split(" ")
    kind = generator.randrange(5)
    if kind == 0:
        generator.shuffle(words)
    elif kind == 1:
        words = words[: generator.randrange(len(words) + 1)]
    elif kind == 2:
        words = moved(generator, words)
    elif kind == 3:
        words = [generator.choice(VOCABULARY) if generator.random() < 0.3 else word for word in words]
    else:
        words += words[: generator.randrange(len(words) + 1)]
    return " ".join(words)


def moved(generator, words):
    """The same words, one block of them elsewhere."""
    start, end = sorted(generator.randrange(len(words) + 1) for _ in range(2))
    block, rest = words[start:end], words[:start] + words[end:]
    place = generator.randrange(len(rest) + 1)
    return rest[:place] + block + rest[place:]
