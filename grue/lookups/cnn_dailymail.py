"""CNN/DailyMail without learning: the likeliest sentences by counting, and what was made of sentences like them."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt

from grue.lookups.alignment import GAP, Frames, Terms, matched, moved, plain, terms
from grue.lookups.nearest import Lookup
from grue.lookups.retrieval import Index
from grue.records import Example
from grue.tasks import Task

MOST_ARTICLES = 12_000  # of training; more hardly changes the counts
MOST_SENTENCES = 40  # of an article
NEIGHBOURS = 12
FITTING = 0.55  # how much of two frames agree at least, if what was said of one is to be said of the other
END = re.compile(r'(?<=[.!?]) (?=["A-Z0-9$])|(?<=[.!?]") (?=["A-Z0-9$])')


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence of an article and the highlight that reports it."""

    sentence: Terms
    highlight: Terms


@dataclass(frozen=True, slots=True)
class KnownHighlights:
    """What the training split tells: frames, the odds that a sentence is reported, pairs, and lines a summary."""

    frames: Frames
    odds: Mapping[str, float]
    pairs: Sequence[Pair]
    lines: int


def sentences(example: Example) -> list[str]:
    """Return the first sentences of the article."""
    article = str(example.meta.get("document", example.prompt.removeprefix("Summarize: ")))
    return [sentence for sentence in END.split(article) if sentence][:MOST_SENTENCES]


def extract(task: Task, train: Sequence[Example], asked: Sequence[Example], seed: int) -> list[str]:
    """Return the sentences of the article that are likeliest to be reported, by naive Bayes over their frames."""
    known = _known(train)
    return ["\n".join(_chosen(sentences(example), known)) for example in asked]


def nearest(task: Task, train: Sequence[Example], asked: Sequence[Example], seed: int) -> list[str]:
    """Return what the highlights made of the training sentences most like these, in the words of this article."""
    known = _known(train)
    index = Index([known.frames.of(pair.sentence) for pair in known.pairs])
    return [
        "\n".join(_retold(sentence, index, known) for sentence in _chosen(sentences(example), known))
        for example in asked
    ]


def _known(train: Sequence[Example]) -> KnownHighlights:
    answered = [example for example in train if example.references][:: max(len(train) // MOST_ARTICLES, 1)]
    articles = [example for example in answered if sentences(example)]
    frames = Frames([word for sentence in sentences(example) for word in terms(sentence)] for example in articles)
    reported: Counter[str] = Counter()
    other: Counter[str] = Counter()
    pairs: list[Pair] = []
    lines = 0
    for example in articles:
        texts = sentences(example)
        chosen = set()
        for line in example.references[0].split("\n"):
            best = max(range(len(texts)), key=lambda i: _shared(terms(texts[i]), terms(line), frames))
            chosen.add(best)
            pairs.append(Pair(terms(texts[best]), terms(line)))
            lines += 1
        for position, sentence in enumerate(texts):
            (reported if position in chosen else other).update(_marks(sentence, position, frames))
    totals = reported[""], other[""]
    odds = {
        mark: log((reported[mark] + 0.5) / (totals[0] + 1)) - log((other[mark] + 0.5) / (totals[1] + 1))
        for mark in reported.keys() | other.keys()
    }
    return KnownHighlights(frames, odds, pairs, round(lines / max(len(articles), 1)))


def _shared(sentence: Terms, line: Terms, frames: Frames) -> float:
    """Return how many words a sentence shares with a highlight; what belongs to the article counts thrice."""
    words, others = ({word.lower() for word in text if word[0].isalnum()} for text in (sentence, line))
    return sum(1.0 if word in frames.common else 3.0 for word in words & others) / sqrt(len(words) + 8)


def _marks(sentence: str, position: int, frames: Frames) -> Iterator[str]:
    """Yield what sentences are told apart by, each once: frames of one and two words, and the place in the article."""
    frame = ("^", *frames.of(terms(sentence)), "$")
    yield from {"", f"place {min(position, 9)}", *frame, *(f"{a} {b}" for a, b in zip(frame, frame[1:], strict=False))}


def _chosen(texts: list[str], known: KnownHighlights) -> list[str]:
    """Return the likeliest sentences, the likeliest first."""

    def worth(position: int) -> float:
        marks = list(_marks(texts[position], position, known.frames))
        return sum(known.odds.get(mark, 0.0) for mark in marks) / sqrt(len(marks))

    best = sorted(range(len(texts)), key=worth, reverse=True)[: known.lines]
    return [texts[position] for position in sorted(best)]


def _retold(sentence: str, index: Index, known: KnownHighlights) -> str:
    """Return the highlight of the sentence that is most like this one, in this one's words, or the sentence itself."""
    words = terms(sentence)
    frame = known.frames.of(words)
    best, text = FITTING, sentence
    for number, _ in index.nearest([word for word in frame if word != GAP], NEIGHBOURS):
        pair = known.pairs[number]
        match = matched(known.frames.of(pair.sentence), frame)
        if (fit := match.ratio()) > best:
            best, text = fit, plain(moved(pair.highlight, pair.sentence, words, match))
    return text[:1].upper() + text[1:]


LOOKUPS: Mapping[str, Lookup] = {"extract": extract, "nearest": nearest}
