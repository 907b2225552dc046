"""Damaged text: every way changes a text, adds no word of its own but glue, and repeats for equal dice."""

import pytest

from miniworld import damage
from miniworld.chance import Dice

TEXT = "In the evening, a farmer led two white horses into the barn with a rope."
WAYS = (*damage.WORTH, damage.cut)


def words(text):
    return [word.strip(".,:!").lower() for word in text.split() if word.strip(".,:!")]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", [TEXT, "Tom.", "No way!", "...", ""])
def test_a_damaged_text_is_another_of_the_same_words(way, text):
    for seed in range(50):
        found = way(Dice(seed), text)
        assert found == way(Dice(seed), text)
        assert found.strip()
        if way is damage.garbled:
            assert sorted(word[::-1] for word in words(found)) == sorted(words(text) or ["the"])
        elif way is not damage.glued:
            assert set(words(found)) <= {*words(text), "and", "the"}
        if text == TEXT:
            assert found != text


def test_a_loop_says_its_phrase_at_least_three_times():
    for seed in range(50):
        found = words(damage.looped(Dice(seed), TEXT))
        assert min(found.count(word) for word in found) >= 3
        assert len(set(found)) <= 4


def test_what_is_cut_off_is_a_beginning():
    lengths = set()
    for seed in range(200):
        found = damage.cut(Dice(seed), TEXT)
        assert TEXT.startswith(found)
        lengths.add(len(found.split()))
    assert lengths == set(range(1, len(TEXT.split())))


def test_a_list_keeps_what_carries_meaning():
    for seed in range(20):
        found = set(words(damage.bared(Dice(seed), TEXT))) - {"and"}
        assert found == {"evening", "farmer", "led", "two", "white", "horses", "barn", "rope"}


def test_a_glued_sentence_is_one_with_two_words_of_the_text_at_least():
    for seed in range(50):
        found = damage.glued(Dice(seed), TEXT)
        assert found.endswith(".")
        assert "{" not in found
        assert set(words(found)) & {"evening", "farmer", "led", "two", "white", "horses", "barn", "rope"}


def test_all_worths_are_losses():
    assert all(0 <= worth < 1 for worth in damage.WORTH.values())
    assert set(damage.SENSELESS) < set(damage.WORTH)
    assert max(damage.WORTH[way] for way in damage.SENSELESS) <= 0.3
