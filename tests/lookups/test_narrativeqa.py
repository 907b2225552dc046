"""NarrativeQA's lookups: answers of near questions in this story's words, and spans like those that answer them."""

from itertools import product

import pytest

from grue.lookups.narrativeqa import LOOKUPS
from grue.records import Example
from grue.task_files import load_task

NAMES = ("anna", "bob", "carl", "dora")
PLACES = ("behind the stove", "under a rusty bed", "inside the old piano")
THINGS = ("ring", "violin", "map")


def example(name: str, place: str, thing: str, answer: str = "") -> Example:
    story = f"{name} lives by the sea. one day {name} hides the {thing} {place}. nobody ever comes there."
    return Example(
        f"{name} {place} {thing}", rf"where does {name} hide the {thing}? \n {story}", (answer,) if answer else ()
    )


TRAIN = [example(*facts, answer=facts[1]) for facts in product(NAMES, PLACES, THINGS)]


@pytest.mark.parametrize("name", LOOKUPS)
def test_a_place_that_was_never_an_answer_is_found_in_the_story(name: str) -> None:
    asked = [example("emil", "under the broken stove", "ring"), example("dora", "behind a piano", "coin")]
    assert LOOKUPS[name](load_task("narrativeqa"), TRAIN, asked, 0) == ["under the broken stove", "behind a piano"]


@pytest.mark.parametrize("name", LOOKUPS)
def test_a_question_like_no_other_gets_some_answer(name: str) -> None:
    asked = [Example("1", r"why? \n it rained. so they stayed.", ()), Example("2", r"why? \n ", ())]
    answers = LOOKUPS[name](load_task("narrativeqa"), TRAIN, asked, 0)
    assert len(answers) == 2 and all(answers)


@pytest.mark.parametrize("name", LOOKUPS)
def test_a_training_question_without_a_story_is_skipped(name: str) -> None:
    asked = [example("emil", "under the broken stove", "ring")]
    train = [Example("1", r"where does emil hide the ring? \n ", ("nowhere",)), Example("2", "", ("no",)), *TRAIN]
    assert LOOKUPS[name](load_task("narrativeqa"), train, asked, 0) == ["under the broken stove"]
    assert LOOKUPS[name](load_task("narrativeqa"), train[:2], [*asked, Example("3", "", ())], 0)[1] == ""
