"""DailyDialog's lookups: the reply of the most similar talk, with its facts exchanged."""

import pytest

from grue.lookups.dailydialog import LOOKUPS, utterances
from grue.records import Example
from grue.task_files import load_task


def talk(said, *replies):
    """A talk whose utterances end with a stroke."""
    return Example(said, " ".join(f"{utterance.strip()} <EOU>" for utterance in said.split("|") if said), replies)


DAY = "Hello, {}. | On {} I have to work. | Then on {}. | Good, at six. | What day was it?"
PAY = "Hello, Tom. | The red one is {} dollars. | And the blue one? | Twenty. | I take the red one."
TRAIN = [
    talk(DAY.format("Tom", "Monday", "Friday"), "On Friday, Tom."),
    talk(PAY.format("ten"), "Then pay ten dollars over there."),
    talk("Hello. | Is it far? | No. | Thanks. | Goodbye."),
]


def answer(name, asked, train=TRAIN):
    return LOOKUPS[name](load_task("dailydialog"), train, [talk(asked)], 0)


@pytest.mark.parametrize("name", sorted(LOOKUPS))
def test_names_and_facts_are_exchanged(name):
    assert answer(name, DAY.format("Ann", "Tuesday", "Sunday"), TRAIN[:1]) == ["On Sunday, Ann."]


def test_a_phrase_is_exchanged_as_a_whole_and_an_empty_prompt_has_an_answer():
    assert answer("nearest", PAY.format("two hundred")) == ["Then pay two hundred dollars over there."]
    assert utterances("") == [[]] and len(answer("mbr", "")) == 1
