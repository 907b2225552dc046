"""WMT16's lookups: words find their translations by counting, and order comes from phrases."""

import pytest

from grue.errors import DataError
from grue.lookups.wmt16 import LOOKUPS
from grue.lookups.word_links import link
from grue.records import Example
from grue.task_files import load_task

PEOPLE = {"dog": "der ein Hund", "cat": "die eine Katze", "horse": "das ein Pferd", "boy": "der ein Junge"}
PEOPLE |= {"woman": "die eine Frau", "child": "das ein Kind"}
DEEDS = {"sleep": "schläft schlafen", "eat": "isst essen", "dance": "tanzt tanzen", "cook": "kocht kochen"}
PAIRS = [
    pair
    for one, (the, a, noun) in ((one, said.split()) for one, said in PEOPLE.items())
    for deed, (does, do) in ((deed, said.split()) for deed, said in DEEDS.items())
    if (one, deed) not in {("horse", "sleep"), ("dog", "eat")}
    for pair in (
        (f"The {one} {deed}s.", f"{the.capitalize()} {noun} {does}."),
        (f"Today, a {one} {deed}s.", f"Heute {does} {a} {noun}."),
        (f"A {one} will {deed} here.", f"{a.capitalize()} {noun} wird hier {do}."),
    )
] + [("The horse eats 1,500 apples.", "Das Pferd isst 1.500 Äpfel.")]


def example(english, *german):
    return Example(english, f"translate English to German: {english}", german)


TASK, TRAIN = load_task("wmt16"), [example(*pair) for pair in PAIRS]


def answer(name, *sentences, train=TRAIN, seed=0):
    return LOOKUPS[name](TASK, train, [example(sentence) for sentence in sentences], seed)


def test_words_are_linked_to_their_translations():
    english, german = ([pair[side].rstrip(".").split() for pair in PAIRS] for side in (0, 1))
    linked = dict(zip(PAIRS, link(english, german), strict=True))
    assert linked["The woman cooks.", "Die Frau kocht."] == {(0, 0), (1, 1), (2, 2)}
    assert linked["Today, a child dances.", "Heute tanzt ein Kind."] == {(0, 0), (1, 2), (2, 3), (3, 1)}


def test_a_sentence_of_known_parts_is_put_together_in_the_order_of_its_phrases():
    known = {"The horse sleeps.": "Das Pferd schläft.", "Today, a dog eats.": "Heute isst ein Hund."}
    known |= {"A dog will eat here.": "Ein Hund wird hier essen."}
    assert answer("lexicon", *known) == [*known.values()]
    (unknown,) = answer("lexicon", "The horse eats 2,300 tulips.")
    assert unknown.split()[-2:] == ["2.300", "tulips."], "a number is written as in German"
    near = {"The horse eats 2,700 apples.": "Das Pferd isst 2.700 Äpfel.", "The dog sleeps.": "Der Hund schläft."}
    assert answer("nearest", *near) == [*near.values()], "the nearest is mended"


@pytest.mark.parametrize("name", LOOKUPS)
def test_an_answer_depends_on_its_sentence_and_on_whole_training_examples_alone(name, refused):
    first, second = "The dog sleeps.", "The cat will cook."
    one, both = answer(name, second), answer(name, first, second)
    assert both[1:] == one == answer(name, second, seed=7), "neither on the seed nor on the others asked"
    assert answer(name, second, train=[example(first), *TRAIN]) == one, "nor on what has no reference"
    assert answer(name, "", first, " ") == ["", both[0], ""]
    with refused(DataError):
        answer(name, first, train=[example(first), example("The dog " * 40, "Der Hund " * 40), example("", "Ja.")])
