"""CNN/DailyMail in the mini world: articles of local news, their highlights, and claims about them."""

import re
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from typing import Any

from miniworld.chance import Dice
from miniworld.news import (
    NewsFact,
    NewsLine,
    Speak,
    Story,
    change,
    draw_story,
    fill,
    framed,
    headline,
    is_plain,
    reporter,
    tell,
    told_words,
    write_article,
    write_brief,
    write_highlights,
)
from miniworld.settled import Settled, mentioned, settled
from miniworld.world import SEEDS

SPLITS = {"train": 8000, "validation": 500, "test": 1000, "rl": 3000}
OFFSET = 3
HELD_OUT = ("validation", "test")
BRIEFS = 0.5  # share of plain text that is a sentence of an article and what highlights would make of it
DENIALS = 0.15  # share of contradictions whose premise denies the hypothesis
ENTAILED, NEUTRAL, CONTRADICTED = 2, 1, 0

Row = dict[str, Any]


@cache
def rows(revision: str) -> dict[str, tuple[Row, ...]]:
    """Return the rows of every split: article, highlights (one a line) and id.

    No article and no first highlight comes twice. Training never has the sentences in which the articles of validation
    and test tell what their highlights report; all other words of validation and test are in training.
    """
    dice = Dice(SEEDS[revision] + OFFSET)
    splits: dict[str, tuple[Row, ...]] = {}
    for split, count in SPLITS.items():
        splits[split] = _drawn(dice, revision, split, count, splits)
    return splits


def held_back(revision: str, seed: int, count: int) -> tuple[Row, ...]:
    """Return another test split of `count` rows, none of them in a split of the revision."""
    return _drawn(Dice(seed), revision, "test", count, rows(revision))


def _drawn(dice: Dice, revision: str, split: str, count: int, before: Mapping[str, tuple[Row, ...]]) -> tuple[Row, ...]:
    seen = {text for rows in before.values() for row in rows for text in (row["article"], _first(row["highlights"]))}
    known = told_words().union(word for row in before.get("train", ()) for word in _words(row))
    drawn: list[Row] = []
    while len(drawn) < count:
        story = draw_story(dice, revision)
        article, highlights = write_article(dice, story, split), "\n".join(write_highlights(dice, story))
        row = {"article": article, "highlights": highlights, "id": sha256(article.encode()).hexdigest()[:40]}
        new = seen.isdisjoint((article, _first(highlights)))
        if new and (split == "train" or known.issuperset(_words(row))):
            seen |= {article, _first(highlights)}
            drawn.append({**row, "facts": _settled(story, article, highlights)})
    return tuple(drawn)


def _settled(story: Story, article: str, highlights: str) -> Settled:
    """Return the people and values that the highlights report; those that only the article names are not asked for."""
    people = [[person.name, person.family] for person in story.people.values()]
    values = [[story.values[slot]] for slot in (*story.kind.values, "town", "town2", "title")]
    words = [text for wordings in (*people, *values) for text in wordings]
    told, reported = mentioned(article, words), mentioned(highlights, words)
    expected = [wordings for wordings in (*people, *values) if not reported.isdisjoint(map(str.lower, wordings))]
    right = [text for wordings in expected for text in wordings]
    return settled(expected, [text for text in words if text.lower() in told and text not in right], closed=True)


def _first(highlights: str) -> str:
    return highlights.partition("\n")[0]


def _words(row: Row) -> list[str]:
    return re.findall(r"[\w'$,-]*\w", f"{row['article']} {row['highlights']}")


def draw_text(dice: Dice, revision: str) -> str:
    """Return an article without highlights that is not held out, or a fact in brief: told and as a highlight.

    No brief has a first highlight of validation or test, or a sentence of one of their articles that states a fact.
    """
    while True:
        story = draw_story(dice, revision)
        if dice.chance(BRIEFS):
            told, point, other = write_brief(dice, story)
            if told not in _held_out_text(revision) and point not in _held_out_firsts(revision):
                texts = [text for text in (told, other) if text]
                return " ".join([point, *texts] if dice.chance(0.5) else [*texts, point])
        elif (text := write_article(dice, story)) not in _held_out(revision):
            return text


@cache
def _held_out(revision: str) -> frozenset[str]:
    splits = rows(revision)
    return frozenset(row["article"] for split in HELD_OUT for row in splits[split])


@cache
def _held_out_firsts(revision: str) -> frozenset[str]:
    splits = rows(revision)
    return frozenset(_first(row["highlights"]) for split in HELD_OUT for row in splits[split])


def claims(dice: Dice, revision: str) -> tuple[str, str, int]:
    """Return a premise, a hypothesis and a label: 2 for entailed, 1 for neutral, 0 for contradicted.

    The premise is one or two sentences of an article, the hypothesis a sentence of highlights. An entailed one states
    the fact of the premise; a neutral one states another fact that the premise does not mention; a contradicted one
    has a name, number, day, place or outcome changed. No premise is from a held-out article.
    """
    while True:
        story = draw_story(dice, revision)
        fact = dice.pick(story.facts)
        label = dice.pick((CONTRADICTED, NEUTRAL, ENTAILED))
        if label == CONTRADICTED and dice.chance(DENIALS) and (point := _deniable(dice, fact)):
            line, hypothesis = framed(dice, story.kind, point, "denied"), fill(dice, point, headline(story))
        elif label == CONTRADICTED:
            line, hypothesis = tell(dice, story, fact), _contradicted(dice, story, fact, revision)
        else:
            line = tell(dice, story, fact)
            hypothesis = _say(dice, story, fact if label == ENTAILED else _unrelated(dice, story, fact))
        speak = reporter(dice, story)
        told = fill(dice, line, speak)
        if hypothesis and told not in _held_out_text(revision):
            return _beside(dice, story, told, speak), hypothesis, label


def near_miss(dice: Dice, revision: str) -> tuple[str, str, str]:
    """Return a sentence of an article, a highlight that says the same, and the highlight with one detail changed."""
    while True:
        story = draw_story(dice, revision)
        fact = dice.pick(story.facts)
        point = dice.pick(fact.points)
        own = sorted(point.slots & {*story.people, *story.kind.values, "town", "town2", "title"})
        changed = change(dice, story, dice.pick(own), revision) if own else None
        told = fill(dice, tell(dice, story, fact), reporter(dice, story))
        if changed is None or told in _held_out_text(revision):
            continue
        seed = int(dice.random() * 4294967296)
        same, other = (fill(Dice(seed), point, headline(each)) for each in (story, changed))
        if len({told, same, other}) == 3:
            return told, same, other


def _beside(dice: Dice, story: Story, told: str, speak: Speak) -> str:
    """Return the sentence, half of the time followed by one that states no fact."""
    if dice.chance(0.5):
        return told
    part = dice.pick(("town", "voices", "colour", "bystander", "also"))
    return f"{told} {fill(dice, dice.pick(story.kind.lines[part]), speak)}"


def _deniable(dice: Dice, fact: NewsFact) -> NewsLine | None:
    """Return a highlight of the fact that can be part of a sentence, if there is one."""
    points = [point for point in fact.points if is_plain(point)]
    return dice.pick(points) if points else None


def _say(dice: Dice, story: Story, fact: NewsFact) -> str:
    return fill(dice, dice.pick(fact.points), headline(story))


def _unrelated(dice: Dice, story: Story, fact: NewsFact) -> NewsFact:
    """Return another fact of the kind, in the story or not; facts of different groups are independent."""
    return dice.pick([other for other in (story.kind.core, *story.kind.facts) if other.group != fact.group])


def _contradicted(dice: Dice, story: Story, fact: NewsFact, revision: str) -> str:
    """Return a sentence that excludes the fact, or the fact with one slot changed, or "" if neither exists."""
    rivals = [other for other in story.kind.facts if other is not fact and other.group == fact.group]
    if rivals and fact.group[0] != "~" and dice.chance(0.5):
        return _say(dice, story, dice.pick(rivals))
    point = dice.pick(fact.points)
    settled = frozenset() if fact is story.kind.core else story.kind.core.tells[0].slots
    own = sorted((point.slots - settled) & {*story.people, *story.kind.values, "town", "town2", "title"})
    changed = change(dice, story, dice.pick(own), revision) if own else None
    return fill(dice, point, headline(changed)) if changed else ""


@cache
def _held_out_text(revision: str) -> str:
    return "\n".join(row["article"] for split in HELD_OUT for row in rows(revision)[split])
