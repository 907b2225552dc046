"""NarrativeQA in the mini world: stories, questions about them, and two answers to each, as two people might give."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

from miniworld.chance import Dice
from miniworld.lexicon import capitalise
from miniworld.plots import Ask, Facts, PlotSlot, StoryPlot, draw_plot, fill, parse_line, piece_text, tell
from miniworld.template import Tense
from miniworld.world import SEEDS, load_world

SPLITS = {"train": 2000, "validation": 200, "test": 400}
OFFSET = 5
QUESTIONS = 5
WORDS = range(60, 111)
SHORT = range(45, 91)
BEATS = (4, 5)  # how much of a plot is a short story
HELD_OUT = ("validation", "test")
TELLING = 10  # words that make a sentence a piece of its own story
ALIAS = 0.2  # how often a question speaks of a person by trade, which only the person's first sentence explains
LONG_ANSWER = 4


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a story: what kind it is, its text and two different answers."""

    kind: str
    text: str
    answers: tuple[str, str]


@cache
def rows(revision: str) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return the rows of every split, five a story: document (id and summary), question and two answers."""
    dice = Dice(SEEDS[revision] + OFFSET)
    stories: set[str] = set()
    vocabulary: set[str] = set()
    splits: dict[str, tuple[dict[str, Any], ...]] = {}
    for split, count in SPLITS.items():
        drawn: list[dict[str, Any]] = []
        while len(drawn) < count:
            story, asked = _draw_story(dice, revision)
            words = set(_words(story, asked))
            if story in stories or (split != "train" and not vocabulary >= words):
                continue
            stories.add(story)
            if split == "train":
                vocabulary |= words
            drawn += _rows_of(f"{split}-{len(drawn) // QUESTIONS + 1}", story, asked)
        splits[split] = tuple(drawn)
    return splits


def _draw_story(dice: Dice, revision: str) -> tuple[str, list[Question]]:
    """Draw a story of the right length and as many questions as a story has."""
    while True:
        plot = draw_plot(dice, load_world(revision))
        story = " ".join(tell(dice, plot))
        if len(story.split()) in WORDS:
            asked = list(islice(draw_questions(dice, plot), QUESTIONS))
            if len(asked) == QUESTIONS:
                return story, asked


def _words(story: str, asked: list[Question]) -> Iterator[str]:
    for text in (story, *(text for question in asked for text in (question.text, *question.answers))):
        yield from re.findall(r"[\w'-]+", text.lower())


def _rows_of(name: str, story: str, asked: list[Question]) -> Iterator[dict[str, Any]]:
    for question in asked:
        yield {
            "document": {"id": name, "summary": {"text": story}},
            "question": {"text": question.text},
            "answers": [{"text": answer} for answer in question.answers],
        }


# --- questions -------------------------------------------------------------------------------------------------------


def draw_questions(dice: Dice, plot: StoryPlot) -> Iterator[Question]:
    """Yield every question that the story answers, in a random order, each in one wording."""
    told = {slot for lines in plot.lines for line in lines for slot in line.slots}
    for ask in dice.shuffled([ask for beat in plot.beats for ask in beat.asks]):
        if question := _question(dice, plot.facts, ask, told):
            yield question


def _question(dice: Dice, facts: Facts, ask: Ask, told: set[str]) -> Question | None:
    """Return a question in words, or None if the story lacks what it needs."""
    tense: Tense = dice.pick(("present", "past"))
    asking = parse_line(dice.pick(ask.questions))
    if not told.issuperset(asking.slots):
        return None
    words = []
    for piece in asking.pieces:
        person = isinstance(piece, PlotSlot) and piece.form == "" and "the_job" in facts[piece.name]
        if person and isinstance(piece, PlotSlot) and dice.chance(ALIAS):
            words.append(facts[piece.name]["the_job"])
        else:
            words.append(piece_text(piece, facts, tense))
    answers = _answers(dice, facts, ask, told, tense, "hero" in asking.slots)
    return Question(ask.kind, capitalise("".join(words)), answers) if answers else None


def _answers(
    dice: Dice, facts: Facts, ask: Ask, told: set[str], tense: Tense, hero_asked: bool
) -> tuple[str, str] | None:
    """Return an answer and the one least like it, or None if the story does not say enough."""
    found: list[str] = []
    for answer in dice.shuffled(ask.answers):
        if answer.startswith("@"):
            found += _namings(dice, facts, answer[1:], hero_asked) if answer[1:] in told else ()
        elif told.issuperset(parse_line(answer).slots):
            text = fill(parse_line(answer), facts, tense)
            found.append(text)
    others = [text for text in found if text != found[0]]
    if not others:
        return None
    first = found[0]  # people who answer the same question say it differently
    return _typeset(first), _typeset(min(others, key=lambda text: _shared(first, text)))


def _typeset(answer: str) -> str:
    return capitalise(answer) + ("." if len(answer.split()) >= LONG_ANSWER else "")


def _shared(one: str, other: str) -> float:
    """Return the share of words that two answers have in common, 0 to 1."""
    words, others = set(one.split()), set(other.split())
    return len(words & others) / len(words | others)


def _namings(dice: Dice, facts: Facts, role: str, hero_asked: bool) -> tuple[str, str]:
    """Name somebody twice: once by name, once in another way."""
    who, hero = facts[role], facts["hero"]
    whose = hero["his"] if hero_asked else f"{hero['first']}'s"
    ways = [who["first"], f"{whose} {who['tie']} {who['first']}" if who["tie"] else who["name"]]
    others = [f"{whose} {who['tie']}"] if who["tie"] else []
    if "job" in who:
        others += [who["the_job"], f"{who['first']}, {who['the_job']}", f"the {who['job']} {who['first']}"]
    named = dice.pick(ways)
    other = dice.pick([way for way in (*ways, *others) if way != named])
    return (named, other) if dice.chance(0.5) else (other, named)


# --- plain text ------------------------------------------------------------------------------------------------------


def draw_text(dice: Dice, revision: str) -> str:
    """Draw a page of a school reader: a short story, mostly with a question or two and their answers after it.

    Half of the pages are in lower case. None holds a longer sentence of a validation or test story.
    """
    held_out = _held_out_sentences(revision)
    while True:
        plot = draw_plot(dice, load_world(revision), most=dice.pick(BEATS))
        text = " ".join(tell(dice, plot))
        if len(text.split()) in SHORT and held_out.isdisjoint(_sentences(text)):
            break
    if dice.chance(2 / 3):
        for question in islice(draw_questions(dice, plot), dice.pick((1, 2))):
            text += f" {question.text} {dice.pick(question.answers).rstrip('.')}."
    return text.lower() if dice.chance(0.5) else text


@cache
def _held_out_sentences(revision: str) -> frozenset[str]:
    splits = rows(revision)
    texts = {row["document"]["summary"]["text"] for split in HELD_OUT for row in splits[split]}
    return frozenset(said for text in texts for said in _sentences(text) if len(said.split()) >= TELLING)


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=\.) (?=[A-Z])", text)
