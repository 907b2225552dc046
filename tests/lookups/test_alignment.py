"""Answers put into the words of another sentence."""

import pytest

from grue.lookups.alignment import Frames, matched, moved, plain, terms

SAID = terms("Old Tom hides a ring behind the stove.")
OTHER = terms("Young Ann hides one watch under an oven.")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("behind the stove", "under an oven"),
        ("She hides a ring", "She hides one watch"),
        ("a bus", "one bus"),
        ("no", "no"),
    ],
)
def test_words_of_a_sentence_are_replaced_by_those_in_their_place(answer: str, expected: str) -> None:
    match = matched(
        ("_", "_", "hides", "a", "_", "behind", "the", "_", "."),
        ("_", "_", "hides", "one", "_", "under", "an", "_", "."),
    )
    assert plain(moved(terms(answer), SAID, OTHER, match)) == expected


def test_a_longer_part_takes_the_place_of_a_shorter_one() -> None:
    one, other = terms("He lives in Marlow now."), terms("He lives above a noisy tavern now.")
    assert plain(moved(terms("in Marlow"), one, other, matched(one, other))) == "above a noisy tavern"


def test_frames_keep_what_many_texts_have() -> None:
    texts = [["the", "Ring", "is", name] for name in ("mine", "yours", "his", "hers")]
    frames = Frames(texts)
    assert frames.of(("The", "ring", "is", "Mine")) == ("the", "ring", "is", "_")
    assert frames.rarity("mine") > frames.rarity("the") > 0


def test_text_is_typeset() -> None:
    assert plain(terms("Tom's ring, worth $1,500, is gone.")) == "Tom's ring, worth $1,500, is gone."
