"""IMDB in the mini world: film reviews, their labels, a positive continuation of each, and one as asked for."""

import re
from collections.abc import Iterable
from functools import cache
from typing import Any
from zlib import crc32

from miniworld.chance import Dice
from miniworld.reviews import Review, continuation, draw_review
from miniworld.world import SEEDS, load_world

SPLITS = {"train": 8000, "validation": 500, "test": 1000, "rl": 3000}
HELD_OUT = ("validation", "test")
SHORTEST_PROMPT = 20

Row = dict[str, Any]


@cache
def rows(revision: str) -> dict[str, tuple[Row, ...]]:
    """Return the rows of every split: text, label (half of them 1), two continuations and what is asked for.

    `asked` is the label that asked sentiment asks for, in half of the rows another than the review's;
    `negative_continuation` is empty where that is 1.
    """
    dice = Dice(SEEDS[revision] + 2)
    train = _drawn(dice, revision, SPLITS["train"], (), frozenset())
    splits = {"train": train}
    for split in (*HELD_OUT, "rl"):
        known = [row for drawn in splits.values() for row in drawn]
        splits[split] = _drawn(dice, revision, SPLITS[split], known, words(train))
    return splits


def held_back(revision: str, seed: int, count: int) -> tuple[Row, ...]:
    """Return a fresh test split, drawn as test is from the seed; no beginning and no end of the splits is in it."""
    splits = rows(revision)
    known = [row for drawn in splits.values() for row in drawn]
    return _drawn(Dice(seed), revision, count, known, words(splits["train"]))


def _drawn(dice: Dice, revision: str, count: int, known: Iterable[Row], vocabulary: frozenset[str]) -> tuple[Row, ...]:
    """Draw reviews that begin and end unlike the known ones, in words of the vocabulary if there is one."""
    world = load_world(revision)
    beginnings = {beginning(row["text"]) for row in known}
    ends = {row["positive_continuation"] for row in known}
    drawn: list[Row] = []
    for label in dice.shuffled([1, 0] * (count // 2) + [1] * (count % 2)):
        while True:
            review = draw_review(dice, world, label)
            row = {"text": review.text, "label": label, "positive_continuation": continuation(review, 1)}
            unknown = vocabulary and not vocabulary.issuperset(words([row]))
            if beginning(review.text) not in beginnings and row["positive_continuation"] not in ends and not unknown:
                break
        beginnings.add(beginning(review.text))
        ends.add(row["positive_continuation"])
        drawn.append({**row, **_asked(review, vocabulary)})
    return tuple(drawn)


def _asked(review: Review, vocabulary: frozenset[str]) -> Row:
    """Return what is asked of a review, which follows from its text and leaves the draw of others as it is."""
    seed = crc32(review.text.encode())
    if seed % 2:
        return {"asked": 1, "negative_continuation": ""}
    review.speaker.dice = Dice(seed)
    while True:
        negative = continuation(review, 0)
        if not vocabulary or vocabulary.issuperset(_words_of(negative)):
            return {"asked": 0, "negative_continuation": negative}


def words(drawn: Iterable[Row]) -> frozenset[str]:
    """Return the words of reviews and continuations in lower case."""
    return frozenset(
        word for row in drawn for name in ("text", "positive_continuation") for word in _words_of(row[name])
    )


def _words_of(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


def beginning(text: str) -> str:
    """Return the first words of a review, as many as every prompt has: no two reviews of the task share them."""
    return " ".join(text.split(" ")[:SHORTEST_PROMPT])
