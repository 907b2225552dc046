"""CNN/DailyMail in the mini world: articles of local news, their highlights, and claims about them."""

from functools import cache
from hashlib import sha256
from typing import Any

from miniworld.chance import Dice
from miniworld.news import (
    NewsFact,
    Speak,
    Story,
    change,
    draw_story,
    fill,
    headline,
    reporter,
    write_article,
    write_highlights,
)
from miniworld.world import SEEDS

SPLITS = {"train": 2000, "validation": 200, "test": 400}
HELD_OUT = ("validation", "test")
ENTAILED, NEUTRAL, CONTRADICTED = 2, 1, 0


@cache
def rows(revision: str) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return the rows of every split: article, highlights (one a line) and id.

    No article and no first highlight comes twice; every word of validation and test is in training.
    """
    dice = Dice(SEEDS[revision] + 3)
    seen: set[str] = set()
    trained: set[str] = set()
    splits: dict[str, tuple[dict[str, Any], ...]] = {}
    for split, count in SPLITS.items():
        drawn: list[dict[str, Any]] = []
        while len(drawn) < count:
            story = draw_story(dice, revision)
            article, highlights = write_article(dice, story), write_highlights(dice, story)
            words = set(" ".join([article, *highlights]).split())
            if highlights[0] in seen or article in seen or (split != "train" and not words <= trained):
                continue
            seen |= {highlights[0], article}
            trained |= words if split == "train" else set()
            digest = sha256(article.encode()).hexdigest()[:40]
            drawn.append({"article": article, "highlights": "\n".join(highlights), "id": digest})
        splits[split] = tuple(drawn)
    return splits


def draw_text(dice: Dice, revision: str) -> str:
    """Return an article without highlights that is not held out."""
    while True:
        text = write_article(dice, draw_story(dice, revision))
        if text not in _held_out(revision):
            return text


@cache
def _held_out(revision: str) -> frozenset[str]:
    splits = rows(revision)
    return frozenset(row["article"] for split in HELD_OUT for row in splits[split])


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
        if label == CONTRADICTED:
            hypothesis = _contradicted(dice, story, fact, revision)
        else:
            hypothesis = _say(dice, story, fact if label == ENTAILED else _unrelated(dice, story, fact))
        speak = reporter(dice, story)
        told = fill(dice, dice.pick(fact.tells), speak)
        if hypothesis and told not in _held_out_text(revision):
            return _beside(dice, story, told, speak), hypothesis, label


def _beside(dice: Dice, story: Story, told: str, speak: Speak) -> str:
    """Return the sentence, half of the time followed by one that states no fact."""
    if dice.chance(0.5):
        return told
    part = dice.pick(("town", "voices", "colour", "bystander", "also"))
    return f"{told} {fill(dice, dice.pick(story.kind.lines[part]), speak)}"


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
