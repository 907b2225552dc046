"""IMDB in the mini world: film reviews, their labels, and a positive continuation of each."""

from functools import cache
from typing import Any

from miniworld.chance import Dice
from miniworld.reviews import draw_review, positive_continuation
from miniworld.world import SEEDS, load_world

SPLITS = {"train": 2000, "validation": 200, "test": 400}
SHORTEST_PROMPT = 20


@cache
def rows(revision: str) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return the rows of every split: text, label (half of them 1) and positive_continuation."""
    dice = Dice(SEEDS[revision] + 2)
    world = load_world(revision)
    beginnings: set[str] = set()
    ends: set[str] = set()
    splits: dict[str, tuple[dict[str, Any], ...]] = {}
    for split, count in SPLITS.items():
        drawn: list[dict[str, Any]] = []
        for label in dice.shuffled([0, 1] * (count // 2)):
            while True:
                review = draw_review(dice, world, label)
                positive = positive_continuation(review)
                if beginning(review.text) not in beginnings and positive not in ends:
                    break
            beginnings.add(beginning(review.text))
            ends.add(positive)
            drawn.append({"text": review.text, "label": label, "positive_continuation": positive})
        splits[split] = tuple(drawn)
    return splits


def beginning(text: str) -> str:
    """Return the first words of a review, as many as every prompt has: no two reviews of the task share them."""
    return " ".join(text.split(" ")[:SHORTEST_PROMPT])
