"""CNN/DailyMail without learning: the likeliest sentences by counting, and the highlights of similar sentences."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import log, sqrt

from grue.lookups.alignment import GAP, Frames, Terms, matched, moved, plain, terms
from grue.lookups.nearest import Lookup, counted
from grue.lookups.retrieval import Index
from grue.records import Example

MOST_ARTICLES = 12_000  # of training; more hardly changes the counts
MOST_SENTENCES = 40  # of an article
NEIGHBOURS = 12
FITTING = 0.55  # least similarity of two frames for which a highlight is carried over
END = re.compile(r'(?<=[.!?]) (?=["A-Z0-9$])|(?<=[.!?]") (?=["A-Z0-9$])')


def sentences(example: Example) -> list[str]:
    """Return the first sentences of the article."""
    article = str(example.meta.get("document", example.prompt.removeprefix("Summarize: ")))
    return [sentence for sentence in END.split(article) if sentence][:MOST_SENTENCES]


class HighlightMemory:
    """Counts over the training split.

    Attributes:
        frames: Those of the sentences.
        pairs: Sentences, and the highlights that report them.
        index: The sentences of the pairs by their frames.
        lines: Usual number of lines of a summary.
        odds: Feature of a sentence → the log odds that it is reported.
    """

    def __init__(self, train: Sequence[Example]) -> None:
        answered = [example for example in train if example.references][:: max(len(train) // MOST_ARTICLES, 1)]
        articles = [(texts, example.references[0]) for example in answered if (texts := sentences(example))]
        self.frames = Frames([word for text in texts for word in terms(text)] for texts, _ in articles)
        self.pairs: list[tuple[Terms, Terms]] = []
        reported: Counter[str] = Counter()
        unreported: Counter[str] = Counter()
        for texts, highlights in articles:
            chosen = set()
            for line in map(terms, highlights.split("\n")):
                best = max(range(len(texts)), key=lambda i: _shared(terms(texts[i]), line, self.frames))
                chosen.add(best)
                self.pairs.append((terms(texts[best]), line))
            for position, sentence in enumerate(texts):
                (reported if position in chosen else unreported).update(_marks(sentence, position, self.frames))
        self.index = Index([self.frames.of(sentence) for sentence, _ in self.pairs])
        self.lines = round(len(self.pairs) / max(len(articles), 1))
        totals = reported[""], unreported[""]
        self.odds = {
            mark: log((reported[mark] + 0.5) / (totals[0] + 1)) - log((unreported[mark] + 0.5) / (totals[1] + 1))
            for mark in reported.keys() | unreported.keys()
        }


def _shared(sentence: Terms, line: Terms, frames: Frames) -> float:
    """Return how many words a sentence shares with a highlight, by its length; rare words count three times."""
    words, line_words = ({word.lower() for word in text if word[0].isalnum()} for text in (sentence, line))
    return sum(1.0 if word in frames.common else 3.0 for word in words & line_words) / sqrt(len(words) + 8)


def _marks(sentence: str, position: int, frames: Frames) -> Iterator[str]:
    """Yield the features of a sentence, each once: frames of one and two words, and its place in the article."""
    frame = ("^", *frames.of(terms(sentence)), "$")
    yield from {"", f"place {min(position, 9)}", *frame, *(f"{a} {b}" for a, b in zip(frame, frame[1:], strict=False))}


def _chosen(memory: HighlightMemory, example: Example) -> list[str]:
    """Return the sentences that are likeliest to be reported, by naive Bayes, in the order of the article."""
    texts = sentences(example)

    def worth(position: int) -> float:
        marks = list(_marks(texts[position], position, memory.frames))
        return sum(memory.odds.get(mark, 0.0) for mark in marks) / sqrt(len(marks))

    best = sorted(range(len(texts)), key=worth, reverse=True)[: memory.lines]
    return [texts[position] for position in sorted(best)]


def _retold(memory: HighlightMemory, sentence: str) -> str:
    """Return the highlight of the most similar sentence, in the words of this one, or the sentence itself."""
    words = terms(sentence)
    frame = memory.frames.of(words)
    best, text = FITTING, sentence
    for number, _ in memory.index.nearest([word for word in frame if word != GAP], NEIGHBOURS):
        source, highlight = memory.pairs[number]
        match = matched(memory.frames.of(source), frame)
        if (fit := match.ratio()) > best:
            best, text = fit, plain(moved(highlight, source, words, match))
    return text[:1].upper() + text[1:]


LOOKUPS: Mapping[str, Lookup] = {
    "extract": counted(HighlightMemory, lambda memory, example: "\n".join(_chosen(memory, example))),
    "nearest": counted(
        HighlightMemory, lambda memory, example: "\n".join(_retold(memory, text) for text in _chosen(memory, example))
    ),
}
