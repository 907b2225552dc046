"""IMDB's lookups: endings of other reviews, the one that the sentiment scorer likes most."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from grue.errors import ConfigError
from grue.lookups import imdb
from grue.lookups.imdb import LOOKUPS
from grue.records import Example
from grue.task_files import load_task

TRAIN = [
    Example("1", "I saw it last night. The cast is", ("weak and slow. Still, I loved every minute.",)),
    Example("2", "My sister liked it. The cast is", ("fine and fresh. It was great from start to end.",)),
    Example("3", "Nobody liked this one. The cast is", ("fine. Nobody makes it like Anna Brook, a great name.",)),
    Example("4", "This one is bad. I left", ()),
]


class Great:
    """A scorer that counts how often a text says "great"."""

    def statistics(self, examples: Sequence[Example], texts: Sequence[str]) -> list[int]:
        return [text.count("great") for text in texts]

    def per_example(self, statistics: list[int]) -> list[int]:
        return statistics


@pytest.fixture(autouse=True)
def great(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imdb, "make_metric", lambda *_, **options: Great())


def answer(prompt: str, seed: int = 0) -> str:
    return LOOKUPS["best-of-n"](load_task("imdb"), TRAIN, [Example("9", prompt, ())], seed)[0]


def test_the_ending_goes_on_from_the_last_words_and_pleases_most() -> None:
    assert answer("I do not know why. The cast is") == "fine and fresh. It was great from start to end."


def test_a_name_that_the_prompt_lacks_is_avoided_where_it_can_be() -> None:
    assert "Anna" not in answer("Well, who knows? The cast is")


def test_without_common_words_some_ending_is_taken() -> None:
    assert len(answer("Unheard syllables and strange new noises").split()) in range(3, 10)


def test_reviews_without_a_positive_ending_are_not_used() -> None:
    endings = [word for example in TRAIN for text in example.references for word in text.split()]
    assert set(answer("This one is bad. I left").split()) <= {*endings, *"The cast is it. one.".split()}


def test_where_no_ending_is_of_a_fitting_length_there_is_none() -> None:
    assert answer("") == ""


def test_a_task_without_a_metric_of_preference_is_told() -> None:
    task = load_task("imdb")
    task = replace(task, metrics=tuple(spec for spec in task.metrics if spec.axis != "preference"))
    with pytest.raises(
        ConfigError, match="mini/imdb has no metric of preference, by which best-of-n picks; take another"
    ):
        imdb.best_of_n(task, [], [], 1)
