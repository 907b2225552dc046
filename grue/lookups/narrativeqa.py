"""NarrativeQA without learning: the nearest question's answer in this story's words, and the likeliest span."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log

from grue.lookups.alignment import GAP, Frames, Terms, matched, moved, plain, terms
from grue.lookups.nearest import Lookup, counted
from grue.lookups.retrieval import Index
from grue.records import Example
from grue.tasks import Task

MOST_QUESTIONS = 12_000  # of training; more hardly changes the answers
MOST_SENTENCES = 10  # of a story: those with the most of the question's words
NEIGHBOURS = 40
ALIGNED = 4  # sentences of a story that are compared with one of another story, word by word
LONGEST = 12  # words of an answer
FITTING = 0.4  # least similarity of two sentences' frames
BEGINNING = 0.3  # share of near answers with the same beginning, above which it is used
SMOOTH = 2.0  # weight of spans in general, in neighbours
MARKS = frozenset(".,;:?!")


@dataclass(frozen=True, slots=True)
class Page:
    """A question and the sentences of its story, as words."""

    question: Terms
    sentences: tuple[Terms, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive words, the two words on either side, and their sentence."""

    words: Terms
    left: Terms
    right: Terms
    sentence: Terms


@lru_cache(maxsize=1 << 17)
def read(prompt: str) -> Page:
    """Split a prompt into the question and the most relevant sentences of the story."""
    question, _, story = prompt.partition(r" \n ")
    words_asked = terms(question)
    sentences = [sentence for text in re.split(r"(?<=[.!?]) ", story) if (sentence := terms(text))]
    if len(sentences) > MOST_SENTENCES:
        sentences.sort(key=lambda words: len(set(words_asked) & set(words)), reverse=True)
    return Page(words_asked, tuple(sentences[:MOST_SENTENCES]))


class AnswerMemory:
    """Training questions with answers, indexed by their frames."""

    def __init__(self, train: Sequence[Example]) -> None:
        answered = [example for example in train if example.references]
        answered = answered[:: max(len(answered) // MOST_QUESTIONS, 1)]
        self.examples = [example for example in answered if read(example.prompt).sentences]
        pages = [read(example.prompt) for example in self.examples]
        self.frames = Frames([word for text in (page.question, *page.sentences) for word in text] for page in pages)
        self.index = Index([self.frames.of(page.question) for page in pages])


def _near(page: Page, memory: AnswerMemory) -> Iterator[tuple[Example, float]]:
    """Yield the training examples with the nearest questions, and the similarity of their frames, 0 to 1."""
    frame = memory.frames.of(page.question)
    for number, _ in memory.index.nearest(frame, NEIGHBOURS):
        example = memory.examples[number]
        yield example, matched(frame, memory.frames.of(read(example.prompt).question)).ratio()


# --- nearest ---------------------------------------------------------------------------------------------------------


def _mended(memory: AnswerMemory, example: Example) -> str:
    """Return, among the nearest questions' answers in the words of this story, the one with the most votes.

    The sentence that answered each near question is aligned with those of this story, and the answer carried over. A
    sentence that has names or things of the question counts more.
    """
    page = read(example.prompt)
    votes: dict[str, float] = defaultdict(float)
    for near, likeness in _near(page, memory):
        sentences = read(near.prompt).sentences
        for reference in near.references:
            answer = terms(reference.rstrip("."))
            source = max(sentences, key=lambda sentence: (sum(word in sentence for word in answer), -len(sentence)))
            frame = memory.frames.of(source)
            for sentence in _likeliest(page.sentences, frame, memory.frames):
                match = matched(frame, memory.frames.of(sentence))
                if (fit := match.ratio()) > FITTING:
                    named = len(set(page.question) & set(sentence) - set(source))
                    text = plain(moved(answer, source, sentence, match)[:LONGEST])
                    votes[text] += (1 + named) * likeness**6 * fit**6
    return max(votes, key=lambda text: votes[text]) if votes else plain((page.sentences or (page.question,))[0])


def _likeliest(sentences: Sequence[Terms], frame: Terms, frames: Frames) -> list[Terms]:
    """Return the sentences that share the most words with a frame."""
    shared = {words: len({*frame} & {*frames.of(words)}) / len(words) for words in sentences}
    return sorted(sentences, key=shared.__getitem__, reverse=True)[:ALIGNED]


# --- extract ---------------------------------------------------------------------------------------------------------


def extract(task: Task, train: Sequence[Example], examples: Sequence[Example], seed: int) -> list[str]:
    """Return the span of the story most like the answers to similar questions, by words, neighbours and length."""
    memory = AnswerMemory(train)
    answers = {example.prompt: _found(example, memory.frames) for example in memory.examples}
    general: Counter[str] = Counter()
    for example in memory.examples[:: max(len(memory.examples) // 400, 1)]:
        for span in _spans(read(example.prompt)):
            general.update(_marks(span, memory.frames))
    return [_extracted(read(example.prompt), memory, answers, general) for example in examples]


def _found(example: Example, frames: Frames) -> tuple[Span, Terms] | None:
    """Return the span of the story that covers most of the first answer, and the answer's words before it."""
    answer = terms(example.references[0].rstrip("."))
    best, span = 0.0, None
    for sentence in read(example.prompt).sentences:
        for start, place, size in matched(answer, sentence).get_matching_blocks():
            if (worth := sum(frames.rarity(word) for word in answer[start : start + size])) > best:
                best, span = worth, (_span(sentence, place, place + size), answer[:start])
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
    """Return the features of a span."""
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
    page: Page, memory: AnswerMemory, answers: Mapping[str, tuple[Span, Terms] | None], general: Counter[str]
) -> str:
    """Return the likeliest span, after the usual first words of answers to similar questions."""
    mark_weights: dict[str, float] = defaultdict(float)
    nearby: dict[str, float] = defaultdict(float)
    beginnings: dict[Terms, float] = defaultdict(float)
    for example, likeness in _near(page, memory):
        if answer := answers[example.prompt]:
            weight = likeness**4
            beginnings[answer[1]] += weight
            for mark in _marks(answer[0], memory.frames):
                mark_weights[mark] += weight
            for word in set(memory.frames.of(answer[0].sentence)):
                nearby[word] += weight
    total = max(mark_weights[""], 1e-9)
    named = {word for word in page.question if word[0].isalnum()}

    def fitting(sentence: Terms) -> float:
        """Compare a sentence with those that had near answers, and with the question."""
        words = set(memory.frames.of(sentence)) - {GAP}
        return len(named & set(sentence)) + sum(log((nearby[word] + 1) / (0.2 * total + 1)) for word in words) / 4

    def worth(span: Span) -> float:
        """Compare how often near answers and spans in general have the features; the sentence counts, too."""
        value = 0.0
        for mark in _marks(span, memory.frames)[1:]:
            share = (general[mark] + 0.5) / (general[""] + 1)
            value += log((mark_weights[mark] / share + SMOOTH) / (total + SMOOTH))
        return value + context[span.sentence] - 2 * len(named & set(span.words))

    context = {sentence: fitting(sentence) for sentence in page.sentences}
    best = max(_spans(page), key=worth, default=_span(page.question, 0, 1))
    before = max(beginnings, key=lambda words: beginnings[words], default=())
    return plain((*before, *best.words) if before and beginnings[before] > BEGINNING * total else best.words)


LOOKUPS: Mapping[str, Lookup] = {"nearest": counted(AnswerMemory, _mended), "extract": extract}
