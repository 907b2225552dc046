"""NarrativeQA's lookups: answers of near questions in this story's words, and spans like those that answer them."""

from itertools import product

import pytest

from grue.lookups.narrativeqa import LOOKUPS
from grue.records import Example
from grue.task_files import load_task

PLACES = ("behind the stove", "under a rusty bed", "inside the old piano")


def example(name, place, thing, *answers):
    story = f"{name} lives by the sea. one day {name} hides the {thing} {place}. nobody ever comes there."
    return Example(f"{name} {place} {thing}", rf"where does {name} hide the {thing}? \n {story}", answers)


FACTS = product(("anna", "bob", "carl", "dora"), PLACES, ("ring", "violin", "map"))
TRAIN = [example(*facts, facts[1]) for facts in FACTS]
EMIL = example("emil", "under the broken stove", "ring")


@pytest.mark.parametrize("name", LOOKUPS)
def test_a_place_that_was_never_an_answer_is_found_in_the_story(name):
    def answers(train, *asked):
        return LOOKUPS[name](load_task("narrativeqa"), train, asked, 0)

    found = answers(TRAIN, EMIL, example("dora", "behind a piano", "coin"))
    assert found == ["under the broken stove", "behind a piano"]
    unlike = [Example("1", r"why? \n it rained. so they stayed.", ()), Example("2", r"why? \n ", ())]
    found = answers(TRAIN, *unlike)
    assert len(found) == 2 and all(found), "a question like no other gets some answer"
    bare = [Example("1", r"where does emil hide the ring? \n ", ("nowhere",)), Example("2", "", ("no",))]
    assert answers([*bare, *TRAIN], EMIL) == ["under the broken stove"], "without a story it is skipped"
    assert answers(bare, EMIL, Example("3", "", ()))[1] == ""
