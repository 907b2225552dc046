"""CNN/DailyMail's lookups: which sentences are reported, and what becomes of them."""

from itertools import product

import pytest

from grue.lookups.cnn_dailymail import LOOKUPS
from grue.records import Example
from grue.task_files import load_task

NAMES = ("Anna Hale", "Bob Marsh", "Carl Moss", "Dora Quinn")
TOWNS = ("Harlow", "Marlow", "Westport")
THINGS = ("barn", "mill", "inn")


def article(name: str, town: str, thing: str) -> str:
    return (
        f"It was a quiet night. On Monday the {thing} that {name} owns in {town} was reduced to ashes. "
        "The weather will stay dry. Nobody was seen."
    )


def example(name: str, town: str, thing: str, told: bool = True) -> Example:
    text = article(name, town, thing)
    highlight = f"Fire destroyed the {thing} of {name} in {town}."
    return Example(f"{name} {town} {thing}", f"Summarize: {text}", (highlight,) if told else (), {"document": text})


TRAIN = [example(*facts) for facts in product(NAMES, TOWNS, THINGS)]
ASKED = [example("Emil Frost", "Eastbay", "mill", told=False)]


def test_the_sentence_that_is_always_reported_is_extracted() -> None:
    assert LOOKUPS["extract"](load_task("cnn_dailymail"), TRAIN, ASKED, 0) == [
        "On Monday the mill that Emil Frost owns in Eastbay was reduced to ashes."
    ]


def test_it_is_retold_as_training_retells_it() -> None:
    assert LOOKUPS["nearest"](load_task("cnn_dailymail"), TRAIN, ASKED, 0) == [
        "Fire destroyed the mill of Emil Frost in Eastbay."
    ]


@pytest.mark.parametrize("name", LOOKUPS)
def test_an_empty_article_is_skipped_in_training_and_has_no_summary(name: str) -> None:
    task, empty = load_task("cnn_dailymail"), Example("e", "Summarize: ", ("A fire.", "Ash."), {"document": ""})
    whole = LOOKUPS[name](task, TRAIN, ASKED, 0)
    assert LOOKUPS[name](task, [empty, *TRAIN, empty], [*ASKED, empty], 0) == [*whole, ""]
    assert LOOKUPS[name](task, [empty], ASKED, 0) == [""]
