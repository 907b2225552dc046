"""NarrativeQA without learning: the nearest question's answer in this story's words, and the likeliest span."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log

from grue.lookups.alignment import GAP, Frames, Terms, matched, moved, plain, terms
from grue.lookups.nearest import Lookup
from grue.lookups.retrieval import Index
from grue.records import Example
from grue.tasks import Task

MOST_QUESTIONS = 12_000  # of training; more hardly changes the answers
MOST_SENTENCES = 10  # of a story: those with the most of the question's words
NEIGHBOURS = 40
ALIGNED = 4  # sentences of a story that are compared with one of another story, word by word
LONGEST = 12  # words of an answer
FITTING = 0.4  # how much of two sentences' frames agree at least
BEGINNING = 0.3  # share of near answers that begin alike, if this one is to begin so
SMOOTH = 2.0  # neighbours' worth of faith in what spans are like in general
MARKS = frozenset(".,;:?!")


@dataclass(frozen=True, slots=True)
class Page:
    """A question and the sentences of its story, as words."""

    question: Terms
    sentences: tuple[Terms, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """Words in a row, with two on either side, and the sentence that they are from."""

    words: Terms
    left: Terms
    right: Terms
    sentence: Terms


@dataclass(frozen=True, slots=True)
class KnownAnswers:
    """Training questions with answers, found by their frames."""

    examples: Sequence[Example]
    frames: Frames
    index: Index


@lru_cache(maxsize=1 << 17)
def read(prompt: str) -> Page:
    """Split a prompt into the question and the sentences of the story that have most to do with it."""
    question, _, story = prompt.partition(r" \n ")
    asked = terms(question)
    sentences = [sentence for text in re.split(r"(?<=[.!?]) ", story) if (sentence := terms(text))]
    if len(sentences) > MOST_SENTENCES:
        sentences = sorted(sentences, key=lambda words: len(set(asked) & set(words)), reverse=True)[:MOST_SENTENCES]
    return Page(asked, tuple(sentences))


def _known(train: Sequence[Example]) -> KnownAnswers:
    examples = [example for example in train if example.references]
    examples = examples[:: max(len(examples) // MOST_QUESTIONS, 1)]
    examples = [example for example in examples if read(example.prompt).sentences]
    pages = [read(example.prompt) for example in examples]
    texts = ([word for sentence in (page.question, *page.sentences) for word in sentence] for page in pages)
    frames = Frames(texts)
    return KnownAnswers(examples, frames, Index([frames.of(page.question) for page in pages]))


def _near(here: Page, known: KnownAnswers) -> Iterator[tuple[Example, float]]:
    """Yield the training examples with the nearest questions, and how much their frames agree, 0 to 1."""
    frame = known.frames.of(here.question)
    for number, _ in known.index.nearest(frame, NEIGHBOURS):
        example = known.examples[number]
        yield example, matched(frame, known.frames.of(read(example.prompt).question)).ratio()


# --- nearest ---------------------------------------------------------------------------------------------------------


def nearest(task: Task, train: Sequence[Example], asked: Sequence[Example], seed: int) -> list[str]:
    """Return the answers of the nearest questions, put into the words of this story: the one most agreed upon."""
    known = _known(train)
    return [_mended(read(example.prompt), known) for example in asked]


def _mended(here: Page, known: KnownAnswers) -> str:
    """Align the sentence that answered each near question with those of this story, and carry the answer over.

    A sentence that has names or things of the question counts more.
    """
    votes: dict[str, float] = defaultdict(float)
    for example, likeness in _near(here, known):
        sentences = read(example.prompt).sentences
        for reference in example.references:
            answer = terms(reference.rstrip("."))
            source = max(sentences, key=lambda sentence: (sum(word in sentence for word in answer), -len(sentence)))
            frame = known.frames.of(source)
            for sentence in _likeliest(here.sentences, frame, known.frames):
                match = matched(frame, known.frames.of(sentence))
                if (fit := match.ratio()) > FITTING:
                    named = len(set(here.question) & set(sentence) - set(source))
                    text = plain(moved(answer, source, sentence, match)[:LONGEST])
                    votes[text] += (1 + named) * likeness**6 * fit**6
    return max(votes, key=lambda text: votes[text]) if votes else plain((here.sentences or (here.question,))[0])


def _likeliest(sentences: Sequence[Terms], frame: Terms, frames: Frames) -> list[Terms]:
    """Return the sentences that share the most words with a frame."""
    wanted = set(frame)
    return sorted(sentences, key=lambda words: len(wanted & set(frames.of(words))) / len(words), reverse=True)[:ALIGNED]


# --- extract ---------------------------------------------------------------------------------------------------------


def extract(task: Task, train: Sequence[Example], asked: Sequence[Example], seed: int) -> list[str]:
    """Return the span of the story that is most like the answers to such questions: by words, neighbours and length."""
    known = _known(train)
    answers = {example.prompt: _found(example, known.frames) for example in known.examples}
    general: Counter[str] = Counter()
    for example in known.examples[:: max(len(known.examples) // 400, 1)]:
        for span in _spans(read(example.prompt)):
            general.update(_marks(span, known.frames))
    return [_extracted(read(example.prompt), known, answers, general) for example in asked]


def _found(example: Example, frames: Frames) -> tuple[Span, Terms] | None:
    """Return the span of the story that says the most of the first answer, and the answer's words before it."""
    answer = terms(example.references[0].rstrip("."))
    best, span = 0.0, None
    for sentence in read(example.prompt).sentences:
        for start, there, size in matched(answer, sentence).get_matching_blocks():
            if (worth := sum(frames.rarity(word) for word in answer[start : start + size])) > best:
                best, span = worth, (_span(sentence, there, there + size), answer[:start])
    return span


def _span(sentence: Terms, start: int, end: int) -> Span:
    return Span(sentence[start:end], sentence[max(start - 2, 0) : start], sentence[end : end + 2], sentence)


def _spans(page: Page) -> Iterator[Span]:
    for sentence in page.sentences:
        for start in range(len(sentence)):
            for end in range(start + 1, min(start + LONGEST, len(sentence)) + 1):
                if sentence[end - 1] in MARKS:
                    break
                yield _span(sentence, start, end)


def _marks(span: Span, frames: Frames) -> tuple[str, ...]:
    """Return what spans are told apart by."""
    left, right, words = ("^", *frames.of(span.left)), (*frames.of(span.right), "$"), frames.of(span.words)
    return (
        "",
        f"first {words[0]}",
        f"second {' '.join(words[:2])}",
        f"last {words[-1]}",
        f"length {len(words)}",
        f"left {left[-1]}",
        f"lefter {' '.join(left[-2:])}",
        f"right {right[0]}",
        f"all {' '.join(span.words)}",
    )


def _extracted(
    here: Page, known: KnownAnswers, answers: Mapping[str, tuple[Span, Terms] | None], general: Counter[str]
) -> str:
    """Return the likeliest span, after the words with which answers to such questions begin."""
    seen: dict[str, float] = defaultdict(float)
    nearby: dict[str, float] = defaultdict(float)
    beginnings: dict[Terms, float] = defaultdict(float)
    for example, likeness in _near(here, known):
        if answer := answers[example.prompt]:
            weight = likeness**4
            beginnings[answer[1]] += weight
            for mark in _marks(answer[0], known.frames):
                seen[mark] += weight
            for word in set(known.frames.of(answer[0].sentence)):
                nearby[word] += weight
    total = max(seen[""], 1e-9)
    named = {word for word in here.question if word[0].isalnum()}

    def fitting(sentence: Terms) -> float:
        """Compare a sentence with those that had near answers, and with the question."""
        words = set(known.frames.of(sentence)) - {GAP}
        return len(named & set(sentence)) + sum(log((nearby[word] + 1) / (0.2 * total + 1)) for word in words) / 4

    def worth(span: Span) -> float:
        """Compare how often near answers and spans in general have the marks; its sentence counts as well."""
        value = 0.0
        for mark in _marks(span, known.frames)[1:]:
            share = (general[mark] + 0.5) / (general[""] + 1)
            value += log((seen[mark] / share + SMOOTH) / (total + SMOOTH))
        return value + context[span.sentence] - 2 * len(named & set(span.words))

    context = {sentence: fitting(sentence) for sentence in here.sentences}
    best = max(_spans(here), key=worth, default=_span(here.question, 0, 1))
    before = max(beginnings, key=lambda words: beginnings[words], default=())
    return plain((*before, *best.words) if before and beginnings[before] > BEGINNING * total else best.words)


LOOKUPS: Mapping[str, Lookup] = {"nearest": nearest, "extract": extract}
