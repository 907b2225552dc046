"""Lookups that put a near text's words into another: news, talks, stories and reviews."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import pytest

from grue.errors import ConfigError
from grue.lookups import cnn_dailymail, dailydialog, imdb, narrativeqa
from grue.records import Example
from grue.task_files import load_task


def news(name, town, thing, told=True):
    text = (
        f"It was a quiet night. On Monday the {thing} that {name} owns in {town} was reduced to ashes. "
        "The weather will stay dry. Nobody was seen."
    )
    highlight = f"Fire destroyed the {thing} of {name} in {town}."
    return Example(f"{name} {town} {thing}", f"Summarize: {text}", (highlight,) if told else (), {"document": text})


OWNERS, TOWNS = ("Anna Hale", "Bob Marsh", "Carl Moss", "Dora Quinn"), ("Harlow", "Marlow", "Westport")
NEWS = [news(*facts) for facts in product(OWNERS, TOWNS, ("barn", "mill", "inn"))]


EMPTY = Example("e", "Summarize: ", ("A fire.", "Ash."), {"document": ""})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("extract", "On Monday the mill that Emil Frost owns in Eastbay was reduced to ashes."),
        ("nearest", "Fire destroyed the mill of Emil Frost in Eastbay."),
    ],
)
def test_the_sentence_that_is_always_reported_is_extracted_or_retold(name, text):
    def answers(train, *asked):
        return cnn_dailymail.LOOKUPS[name](load_task("cnn_dailymail"), train, asked, 0)

    emil = news("Emil Frost", "Eastbay", "mill", told=False)
    assert answers(NEWS, emil) == [text]
    assert answers([EMPTY, *NEWS, EMPTY], emil, EMPTY) == [text, ""], "an empty article is skipped, and has no summary"
    assert answers([EMPTY], emil) == [""]


def talk(said, *replies):
    """A talk whose utterances end with a stroke."""
    return Example(said, " ".join(f"{utterance.strip()} <EOU>" for utterance in said.split("|") if said), replies)


DAY = "Hello, {}. | On {} I have to work. | Then on {}. | Good, at six. | What day was it?"
PAY = "Hello, Tom. | The red one is {} dollars. | And the blue one? | Twenty. | I take the red one."
TALKS = [
    talk(DAY.format("Tom", "Monday", "Friday"), "On Friday, Tom."),
    talk(PAY.format("ten"), "Then pay ten dollars over there."),
    talk("Hello. | Is it far? | No. | Thanks. | Goodbye."),
]


@pytest.mark.parametrize("name", sorted(dailydialog.LOOKUPS))
def test_names_and_facts_of_a_reply_are_exchanged(name):
    def reply(asked, train=TALKS):
        return dailydialog.LOOKUPS[name](load_task("dailydialog"), train, [talk(asked)], 0)

    assert reply(DAY.format("Ann", "Tuesday", "Sunday"), TALKS[:1]) == ["On Sunday, Ann."]
    if name == "nearest":
        assert reply(PAY.format("two hundred")) == ["Then pay two hundred dollars over there."], "as a whole"
    assert dailydialog.utterances("") == [[]] and len(reply("")) == 1


def story(name, place, thing, *answers):
    told = f"{name} lives by the sea. one day {name} hides the {thing} {place}. nobody ever comes there."
    return Example(f"{name} {place} {thing}", rf"where does {name} hide the {thing}? \n {told}", answers)


PLACES = ("behind the stove", "under a rusty bed", "inside the old piano")
FACTS = product(("anna", "bob", "carl", "dora"), PLACES, ("ring", "violin", "map"))
STORIES = [story(*facts, facts[1]) for facts in FACTS]


@pytest.mark.parametrize("name", narrativeqa.LOOKUPS)
def test_a_place_that_was_never_an_answer_is_found_in_the_story(name):
    def answers(train, *asked):
        return narrativeqa.LOOKUPS[name](load_task("narrativeqa"), train, asked, 0)

    emil = story("emil", "under the broken stove", "ring")
    found = answers(STORIES, emil, story("dora", "behind a piano", "coin"))
    assert found == ["under the broken stove", "behind a piano"]
    found = answers(STORIES, *(Example(q, q, ()) for q in (r"why? \n it rained. so they stayed.", r"why? \n ")))
    assert len(found) == 2 and all(found), "a question like no other gets some answer"
    bare = [Example("1", r"where does emil hide the ring? \n ", ("nowhere",)), Example("2", "", ("no",))]
    assert answers([*bare, *STORIES], emil) == ["under the broken stove"], "without a story it is skipped"
    assert answers(bare, emil, Example("3", "", ()))[1] == ""


REVIEWS = [
    Example("1", "I saw it last night. The cast is", ("weak and slow. Still, I loved every minute.",)),
    Example("2", "My sister liked it. The cast is", ("fine and fresh. It was great from start to end.",)),
    Example("3", "Nobody liked this one. The cast is", ("fine. Nobody makes it like Anna Brook, a great name.",)),
    Example("4", "This one is bad. I left", ()),
]


def test_a_review_goes_on_from_its_last_words_as_pleases_most(monkeypatch, refused):
    """The scorer counts how often a text says "great"."""
    scorer = SimpleNamespace(statistics=lambda given, texts: [t.count("great") for t in texts], per_example=list)
    monkeypatch.setattr(imdb, "make_metric", lambda *_, **options: scorer)
    task = load_task("imdb")

    def answer(prompt):
        return imdb.LOOKUPS["best-of-n"](task, REVIEWS, [Example("9", prompt, ())], 0)[0]

    assert answer("I do not know why. The cast is") == "fine and fresh. It was great from start to end."
    assert "Anna" not in answer("Well, who knows? The cast is"), "a name that the prompt lacks"
    assert len(answer("Unheard syllables and strange new noises").split()) in range(3, 10), "no common words"
    assert answer("") == "", "no ending is of a fitting length"
    endings = [word for example in REVIEWS for text in example.references for word in text.split()]
    assert set(answer("This one is bad. I left").split()) <= {*endings, *"The cast is it. one.".split()}
    with refused(ConfigError):
        imdb.best_of_n(replace(task, metrics=()), [], [], 1)
