"""NarrativeQA in the mini world: stories, questions about them, and two answers to each, as two people might give.

Validation and test ask what training never asks: of each thing that can be asked, one way of telling it and a third of
its values are held back. Training has these sentences, these values and these questions, but never one asked of the
other. And whatever validation and test ask for, the story tells something else of the same kind, of somebody else.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any
from zlib import crc32

from miniworld.chance import Dice
from miniworld.lexicon import capitalise
from miniworld.plots import (
    Ask,
    Beat,
    Facts,
    PlotSlot,
    StoryPlot,
    draw_plot,
    fill,
    parse_line,
    piece_text,
    pool_of,
    tell,
)
from miniworld.settled import Settled, settled
from miniworld.template import Tense
from miniworld.world import SEEDS, load_world

SPLITS = {"train": 8000, "validation": 500, "test": 1000, "rl": 3000}
OFFSET = 5
QUESTIONS = {"train": 5, "validation": 2, "test": 2, "rl": 2}  # of a story
WORDS = range(75, 119)
SHORT = range(45, 91)
BEATS = (4, 5)  # how much of a plot is a short story
HELD_OUT = ("validation", "test")
TENSES: tuple[Tense, ...] = ("present", "past")
TELLING = 10  # words that make a sentence a piece of its own story
ALIAS = 0.35  # how often a question speaks of a person by trade, which only the person's first sentence explains
LONG_ANSWER = 4
HELD_VALUES = 3  # of so many values of a fact, one is asked about in validation and test only
ALIKE = (
    {"town", "far"},
    {"spot", "outdoors"},
    {"treasure", "present", "message", "shop", "invention", "luggage"},
    {"motive", "excuse", "clue", "escape", "hush", "objection", "flaw"},
    {"purpose", "wish"},
    {"doing", "method", "cheat", "mischief", "aid", "deed", "cure"},
)  # pools whose facts can be mistaken for one another; others only for facts of the same pool
EXERCISES = 0.6  # share of the reader's pages that ask about a single sentence


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a story.

    Attributes:
        kind: What is asked for.
        text: Its words.
        answers: Two different answers.
        facts: What the story settles of them.
        trained: Whether training may ask it.
        held_out: Whether validation and test may; some questions are neither's.
    """

    kind: str
    text: str
    answers: tuple[str, str]
    facts: Settled
    trained: bool
    held_out: bool


@cache
def rows(revision: str) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return the rows of every split, some a story: document (id and summary), question and two answers."""
    dice = Dice(SEEDS[revision] + OFFSET)
    splits: dict[str, tuple[dict[str, Any], ...]] = {}
    for split, count in SPLITS.items():
        splits[split] = tuple(_drawn(dice, revision, split, count, splits))
    return splits


def held_back(revision: str, seed: int, count: int) -> tuple[dict[str, Any], ...]:
    """Return another test split of `count` rows, whose stories are in no split of the revision."""
    return tuple(_drawn(Dice(seed), revision, "test", count, rows(revision)))


def _drawn(
    dice: Dice, revision: str, split: str, count: int, before: dict[str, tuple[dict[str, Any], ...]]
) -> list[dict[str, Any]]:
    """Draw rows of new stories; of those for validation and test, every word is in training."""
    seen = {row["document"]["summary"]["text"] for drawn in before.values() for row in drawn}
    known = {word for row in before.get("train", ()) for word in _words(row)}
    drawn: list[dict[str, Any]] = []
    while len(drawn) < count:
        story, asked = _draw_story(dice, revision, split)
        found = list(_rows_of(f"{split}-{len(drawn) // QUESTIONS[split] + 1}", story, asked))
        if story not in seen and (split == "train" or all(known.issuperset(_words(row)) for row in found)):
            seen.add(story)
            drawn += found
    return drawn[:count]


def _draw_story(dice: Dice, revision: str, split: str) -> tuple[str, list[Question]]:
    """Draw a story of the right length and as many questions of the split as a story has."""
    while True:
        plot = draw_plot(dice, load_world(revision))
        story = " ".join(tell(dice, plot))
        if len(story.split()) in WORDS:
            fitting = (q for q in draw_questions(dice, plot) if (q.trained if split == "train" else q.held_out))
            asked = list(islice(fitting, QUESTIONS[split]))
            if len(asked) == QUESTIONS[split]:
                return story, asked


def _words(row: dict[str, Any]) -> list[str]:
    texts = (row["document"]["summary"]["text"], row["question"]["text"], *(a["text"] for a in row["answers"]))
    return re.findall(r"[\w'-]+", " ".join(texts).lower())


def _rows_of(name: str, story: str, asked: list[Question]) -> Iterator[dict[str, Any]]:
    for question in asked:
        yield {
            "document": {"id": name, "summary": {"text": story}},
            "question": {"text": question.text},
            "answers": [{"text": answer} for answer in question.answers],
            "facts": question.facts,
        }


# --- questions -------------------------------------------------------------------------------------------------------


def draw_questions(dice: Dice, plot: StoryPlot) -> Iterator[Question]:
    """Yield every question that the story answers, in a random order, each in one wording."""
    told = {slot for lines in plot.lines for line in lines for slot in line.slots}
    asks = [(beat, ask) for beat in plot.beats for ask in beat.asks]
    for asked, ask in dice.shuffled(asks):
        if question := _question(dice, plot, asked, ask, told):
            yield question


def _question(dice: Dice, plot: StoryPlot, beat: Beat, ask: Ask, told: set[str]) -> Question | None:
    """Return a question in words, or None if the story lacks what it needs."""
    facts = plot.facts
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
    answers = _answers(facts, ask, told, tense)
    if not answers:
        return None
    new_telling, new_value = _is_new_telling(plot, beat, ask), _is_new_value(facts, ask)
    trained = not new_telling and new_value is not True
    held_out = new_telling and new_value is not False and _has_rival(facts, ask, told)
    return Question(
        ask.kind, capitalise("".join(words)), answers, _settled(facts, ask, told, answers), trained, held_out
    )


def _settled(facts: Facts, ask: Ask, told: set[str], answers: tuple[str, str]) -> Settled:
    """Return the wordings of the fact asked for, and those of others in the story that could be taken for it."""
    asked = _asked_slot(facts, ask)
    wordings: Callable[[Facts, str], list[str]]
    if "he" not in facts[asked]:
        others, wordings = [slot for slot in told if _alike(pool_of(slot), pool_of(asked))], _wordings
    else:
        others = [slot for slot in told if "he" in facts[slot]]
        wordings = _names if f"@{asked}" in ask.answers else _trades
    wrong = [wording for slot in sorted(others) if slot != asked for wording in wordings(facts, slot)]
    return settled([[*wordings(facts, asked), *answers]], wrong, closed=False)


def _wordings(facts: Facts, slot: str) -> list[str]:
    """Return a fact in each of its forms and both tenses."""
    forms = [text for form, text in facts[slot].items() if form not in ("source", "size")]
    return [fill(parse_line(text), facts, tense) for text in forms for tense in TENSES]


def _names(facts: Facts, role: str) -> list[str]:
    """Return what somebody can be called: by names, by trade, and by the tie to the hero beside a name."""
    who = facts[role]
    names = [*_namings(facts, role), who["name"], who["first"], who["name"].rpartition(" ")[2], *_trades(facts, role)]
    if who["tie"]:
        tie = f"{facts['hero']['first']}'s {who['tie']}"
        names += [f"{tie} {who['first']}", f"{who['first']}, {tie}"]
    return names


def _trades(facts: Facts, role: str) -> list[str]:
    return [facts[role]["job"]] if "job" in facts[role] else []


def _is_new_telling(plot: StoryPlot, beat: Beat, ask: Ask) -> bool:
    """Return whether the story tells the answer in the way that training does not ask about."""
    asked = _asked_slot(plot.facts, ask)
    fitting = [lines for lines in beat.tell if any(asked in line.slots for line in lines)]
    if len(fitting) < 2:
        return False
    return plot.lines[plot.beats.index(beat)] == fitting[crc32(f"{beat.name} {ask.kind}".encode()) % len(fitting)]


def _is_new_value(facts: Facts, ask: Ask) -> bool | None:
    """Return whether the answer is one that training does not ask for, or None where every answer is a new one."""
    forms = facts[_asked_slot(facts, ask)]
    value = forms.get("source", forms.get("noun"))
    return crc32(f"{ask.kind} {value}".encode()) % HELD_VALUES == 0 if value else None


def _has_rival(facts: Facts, ask: Ask, told: set[str]) -> bool:
    """Return whether the story tells something else that could be the answer, by its kind."""
    asked = _asked_slot(facts, ask)
    if "he" in facts[asked]:
        return True
    return any(slot != asked and _alike(pool_of(slot), pool_of(asked)) for slot in told)


def _alike(one: str, other: str) -> bool:
    return one == other or any(one in pools and other in pools for pools in ALIKE)


def _asked_slot(facts: Facts, ask: Ask) -> str:
    """Return the name of the fact that the first answer states."""
    if ask.answers[0].startswith("@"):
        return ask.answers[0][1:]
    slots = parse_line(ask.answers[0]).slots
    return next((slot for slot in slots if "he" not in facts.get(slot, {"he": ""})), slots[0])


def _answers(facts: Facts, ask: Ask, told: set[str], tense: Tense) -> tuple[str, str] | None:
    """Return the first answer and the one least like it, or None if the story does not say enough."""
    found: list[str] = []
    for answer in ask.answers:
        if answer.startswith("@"):
            found += _namings(facts, answer[1:]) if answer[1:] in told else ()
        elif told.issuperset(parse_line(answer).slots):
            found.append(fill(parse_line(answer), facts, tense))
    others = [text for text in found if text != found[0]]
    if not others:
        return None
    least = min(others, key=lambda text: (_shared(found[0], text), -len(text)))
    return _typeset(found[0]), _typeset(least)


def _typeset(answer: str) -> str:
    return capitalise(answer) + ("." if len(answer.split()) >= LONG_ANSWER else "")


def _shared(one: str, other: str) -> float:
    """Return the share of words that two answers have in common, 0 to 1."""
    words, others = set(one.split()), set(other.split())
    return len(words & others) / len(words | others)


def _namings(facts: Facts, role: str) -> tuple[str, str]:
    """Name somebody twice: by name and trade, and by the full name or what ties the person to the hero."""
    who, hero = facts[role], facts["hero"]
    tie = f"{hero['first']}'s {who['tie']}" if who["tie"] else ""
    if "job" not in who:
        return f"{tie} {who['first']}", who["first"]
    return f"the {who['job']} {who['first']}", f"{who['first']}, {tie}" if tie else who["name"]


# --- plain text ------------------------------------------------------------------------------------------------------


def draw_text(dice: Dice, revision: str) -> str:
    """Draw a page of a school reader: a sentence of a story or a short story, mostly with questions and answers.

    Half of the pages are in lower case. None holds a longer sentence of a validation or test story.
    """
    held_out = _held_out_sentences(revision)
    while True:
        exercise = dice.chance(EXERCISES)
        plot = draw_plot(dice, load_world(revision), most=99 if exercise else dice.pick(BEATS))
        said = tell(dice, plot)
        text = _exercise(dice, plot, said) if exercise else _reading(dice, plot, " ".join(said))
        if text and held_out.isdisjoint(sentence for line in said for sentence in _sentences(line)):
            return text.lower() if dice.chance(0.5) else text


def _exercise(dice: Dice, plot: StoryPlot, said: list[str]) -> str:
    """Write a few sentences in a row that tell one thing, with a question about it before or after, and its answer."""
    ends = [sum(len(lines) for lines in plot.lines[: index + 1]) for index in range(len(plot.lines))]
    index = dice.pick([index for index, beat in enumerate(plot.beats) if beat.asks])
    told = {slot for line in plot.lines[index] for slot in line.slots}
    beat = plot.beats[index]
    asked = [_question(dice, plot, beat, ask, told | {"hero", "town"}) for ask in dice.shuffled(beat.asks)]
    question = next(filter(None, asked), None)
    if not question:
        return ""
    first = ends[index] - len(plot.lines[index])
    story = " ".join(said[first - (1 if first and dice.chance(0.3) else 0) : ends[index]])
    answer = dice.pick(question.answers).rstrip(".")
    return dice.pick((f"{story} {question.text} {answer}.", f"{question.text} {story} {answer}."))


def _reading(dice: Dice, plot: StoryPlot, story: str) -> str:
    """Write a short story, mostly with questions and answers after it, or nothing if it is too long."""
    if len(story.split()) not in SHORT:
        return ""
    if dice.chance(5 / 6):
        for question in islice(draw_questions(dice, plot), dice.pick((1, 2, 3))):
            story += f" {question.text} {dice.pick(question.answers).rstrip('.')}."
    return story


@cache
def _held_out_sentences(revision: str) -> frozenset[str]:
    splits = rows(revision)
    texts = {row["document"]["summary"]["text"] for split in HELD_OUT for row in splits[split]}
    return frozenset(said for text in texts for said in _sentences(text) if len(said.split()) >= TELLING)


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=\.) (?=[A-Z])", text)
