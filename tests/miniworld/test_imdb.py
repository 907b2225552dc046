"""Mini IMDB: verdicts come back to what was said before, and test uses known words."""

import re
from collections import Counter

from miniworld.chance import Dice
from miniworld.imdb import beginning, held_back, rows, words
from miniworld.reviews import draw_review, load_phrases
from miniworld.world import load_world

SIZES = {"train": 8000, "validation": 500, "test": 1000}


def test_rows_are_reviews_half_of_them_positive() -> None:
    for split, size in SIZES.items():
        drawn = rows("2")[split]
        assert len(drawn) == size and Counter(row["label"] for row in drawn) == {0: size // 2, 1: size // 2}
        assert all(list(row) == ["text", "label", "positive_continuation"] for row in drawn)


def test_no_review_begins_and_none_ends_like_another() -> None:
    drawn = [row for split in SIZES for row in rows("2")[split]]
    assert (
        len({beginning(row["text"]) for row in drawn})
        == len({row["positive_continuation"] for row in drawn})
        == len(drawn)
    )


def test_validation_and_test_use_words_of_training() -> None:
    trained = words(rows("2")["train"])
    assert all(words(rows("2")[split]) <= trained for split in ("validation", "test")) and len(trained) > 1500


def test_a_fresh_test_split_is_drawn_as_test_is() -> None:
    fresh = held_back("2", 999, 41)
    assert fresh == held_back("2", 999, 41) and fresh != held_back("2", 998, 41)
    assert Counter(row["label"] for row in fresh) == {0: 20, 1: 21}
    known = [row for split in SIZES for row in rows("2")[split]]
    assert {beginning(row["text"]) for row in fresh}.isdisjoint(beginning(row["text"]) for row in known)
    assert {row["positive_continuation"] for row in fresh}.isdisjoint(row["positive_continuation"] for row in known)
    assert words(fresh) <= words(rows("2")["train"])


def test_a_verdict_recalls_an_aspect_of_its_own_review() -> None:
    names = "|".join(aspect.name for aspect in load_phrases().aspects)
    recall = re.compile(rf"(?:in spite of|too (?:hard|kind) on|Not even|Even|said about|Who cares about) the ({names})")
    dice, world, found = Dice(3), load_world("2"), 0
    for number in range(600):
        review = draw_review(dice, world, number % 2)
        for said in recall.finditer(review.verdict):
            found += 1
            assert len(re.findall(rf"\b{said[1]}\b", review.text)) >= 2, review.text
    assert found > 30
