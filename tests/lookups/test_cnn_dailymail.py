"""CNN/DailyMail's lookups: which sentences are reported, and what becomes of them."""

from itertools import product

import pytest

from grue.lookups.cnn_dailymail import LOOKUPS
from grue.records import Example
from grue.task_files import load_task

TASK = load_task("cnn_dailymail")


def example(name, town, thing, told=True):
    text = (
        f"It was a quiet night. On Monday the {thing} that {name} owns in {town} was reduced to ashes. "
        "The weather will stay dry. Nobody was seen."
    )
    highlight = f"Fire destroyed the {thing} of {name} in {town}."
    return Example(f"{name} {town} {thing}", f"Summarize: {text}", (highlight,) if told else (), {"document": text})


NAMES = ("Anna Hale", "Bob Marsh", "Carl Moss", "Dora Quinn")
TRAIN = [example(*facts) for facts in product(NAMES, ("Harlow", "Marlow", "Westport"), ("barn", "mill", "inn"))]
ASKED = [example("Emil Frost", "Eastbay", "mill", told=False)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("extract", "On Monday the mill that Emil Frost owns in Eastbay was reduced to ashes."),
        ("nearest", "Fire destroyed the mill of Emil Frost in Eastbay."),
    ],
)
def test_the_sentence_that_is_always_reported_is_extracted_or_retold(name, text):
    assert LOOKUPS[name](TASK, TRAIN, ASKED, 0) == [text]


@pytest.mark.parametrize("name", LOOKUPS)
def test_an_empty_article_is_skipped_in_training_and_has_no_summary(name):
    empty = Example("e", "Summarize: ", ("A fire.", "Ash."), {"document": ""})
    whole = LOOKUPS[name](TASK, TRAIN, ASKED, 0)
    assert LOOKUPS[name](TASK, [empty, *TRAIN, empty], [*ASKED, empty], 0) == [*whole, ""]
    assert LOOKUPS[name](TASK, [empty], ASKED, 0) == [""]
