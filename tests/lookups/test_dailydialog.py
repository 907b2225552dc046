"""DailyDialog's lookups: the reply of the most similar talk, with its facts exchanged."""

import pytest

from grue.lookups.dailydialog import LOOKUPS, utterances
from grue.records import Example
from grue.task_files import load_task


def talk(*said: str) -> str:
    return " ".join(f"{utterance} <EOU>" for utterance in said)


TRAIN = [
    Example("1", talk("Hello, Tom.", "On Monday I have to work.", "Then on Friday.", "Good, at six.", "What day was it?"),
            ("On Friday, Tom.",)),
    Example("2", talk("Hello, Tom.", "The red one is ten dollars.", "And the blue one?", "Twenty.", "I take the red one."),
            ("Then pay ten dollars over there.",)),
    Example("3", talk("Hello.", "Is it far?", "No.", "Thanks.", "Goodbye."), ()),
]  # fmt: skip


@pytest.mark.parametrize("name", sorted(LOOKUPS))
def test_names_and_facts_are_exchanged(name: str) -> None:
    prompt = talk("Hello, Ann.", "On Tuesday I have to work.", "Then on Sunday.", "Good, at six.", "What day was it?")
    assert LOOKUPS[name](load_task("dailydialog"), TRAIN[:1], [Example("9", prompt, ())], 0) == ["On Sunday, Ann."]


def test_a_phrase_is_exchanged_as_a_whole_and_capitals_are_set() -> None:
    prompt = talk(
        "Hello, Tom.", "The red one is two hundred dollars.", "And the blue one?", "Twenty.", "I take the red one."
    )
    answers = LOOKUPS["nearest"](load_task("dailydialog"), TRAIN, [Example("9", prompt, ())], 0)
    assert answers == ["Then pay two hundred dollars over there."]


def test_an_empty_prompt_has_an_answer() -> None:
    assert utterances("") == [[]]
    assert len(LOOKUPS["mbr"](load_task("dailydialog"), TRAIN, [Example("9", "", ())], 0)) == 1
