"""Plain text of the mini world for language models, and labelled reviews for classifiers.

Nothing here contains a validation or test text of a task.
"""

import re
from functools import cache

from grue.mini import commongen, imdb
from grue.mini.chance import Dice
from grue.mini.reviews import draw_review
from grue.mini.stories import draw_paragraph
from grue.mini.world import load_world

REVIEWS = 1 / 3
WORDS = range(15, 81)
HELD_OUT = ("validation", "test")


def paragraphs(count: int, seed: int, revision: str = "1") -> list[str]:
    """Return paragraphs of 15 to 80 words, about a third of them film reviews."""
    dice, world, held_out = Dice(seed), load_world(revision), _held_out_sentences(revision)
    found: list[str] = []
    while len(found) < count:
        if dice.chance(REVIEWS):
            text = _unseen_review(dice, int(dice.chance(0.5)), revision)
        else:
            text = draw_paragraph(dice, world)
            if len(text.split()) not in WORDS or not held_out.isdisjoint(sentences(text)):
                continue
        found.append(text)
    return found


def reviews(count: int, seed: int, revision: str = "1") -> list[tuple[str, int]]:
    """Return reviews with their label, 1 for positive, half of them; none is in validation or test."""
    dice = Dice(seed)
    return [(_unseen_review(dice, index % 2, revision), index % 2) for index in range(count)]


def sentences(text: str) -> list[str]:
    """Split a text after each full stop that ends a sentence."""
    return re.split(r"(?<=[.!?]) (?=[A-Z])", text)


def _unseen_review(dice: Dice, label: int, revision: str) -> str:
    beginnings, ends = _held_out_reviews(revision)
    while True:
        text = draw_review(dice, load_world(revision), label).text
        if imdb.beginning(text) not in beginnings and not text.endswith(ends.get(_tail(text), ())):
            return text


@cache
def _held_out_sentences(revision: str) -> frozenset[str]:
    splits = commongen.rows(revision)
    return frozenset(text for split in HELD_OUT for row in splits[split] for text in row["targets"])


@cache
def _held_out_reviews(revision: str) -> tuple[frozenset[str], dict[str, tuple[str, ...]]]:
    """Return the beginnings of the held-out reviews, and how they end or would end, by their last words."""
    splits = imdb.rows(revision)
    held_out = [row for split in HELD_OUT for row in splits[split]]
    ends: dict[str, tuple[str, ...]] = {}
    for row in held_out:
        words = row["text"].split(" ")
        for end in (" ".join(words[len(words) // 2 :]), row["positive_continuation"]):
            ends[_tail(end)] = (*ends.get(_tail(end), ()), end)
    return frozenset(imdb.beginning(row["text"]) for row in held_out), ends


def _tail(text: str) -> str:
    return text[-24:]
