"""IMDB's lookups: endings of other reviews, the one that the sentiment scorer likes most."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from grue.errors import ConfigError
from grue.lookups import imdb
from grue.records import Example
from grue.task_files import load_task

TASK = load_task("imdb")
TRAIN = [
    Example("1", "I saw it last night. The cast is", ("weak and slow. Still, I loved every minute.",)),
    Example("2", "My sister liked it. The cast is", ("fine and fresh. It was great from start to end.",)),
    Example("3", "Nobody liked this one. The cast is", ("fine. Nobody makes it like Anna Brook, a great name.",)),
    Example("4", "This one is bad. I left", ()),
]


@pytest.fixture
def answer(monkeypatch):
    """What is answered to a prompt by a scorer that counts how often a text says "great"."""
    scorer = SimpleNamespace(
        statistics=lambda examples, texts: [text.count("great") for text in texts], per_example=lambda found: found
    )
    monkeypatch.setattr(imdb, "make_metric", lambda *_, **options: scorer)
    return lambda prompt: imdb.LOOKUPS["best-of-n"](TASK, TRAIN, [Example("9", prompt, ())], 0)[0]


def test_the_ending_goes_on_from_the_last_words_and_pleases_most(answer):
    assert answer("I do not know why. The cast is") == "fine and fresh. It was great from start to end."
    assert "Anna" not in answer("Well, who knows? The cast is"), "a name that the prompt lacks"
    assert len(answer("Unheard syllables and strange new noises").split()) in range(3, 10), "no common words"
    assert answer("") == "", "no ending is of a fitting length"


def test_reviews_without_a_positive_ending_are_not_used(answer):
    endings = [word for example in TRAIN for text in example.references for word in text.split()]
    assert set(answer("This one is bad. I left").split()) <= {*endings, *"The cast is it. one.".split()}


def test_a_task_without_a_metric_of_preference_is_told(refused):
    with refused(ConfigError):
        imdb.best_of_n(replace(TASK, metrics=TASK.metrics[:0]), [], [], 1)
