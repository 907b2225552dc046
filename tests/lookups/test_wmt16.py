"""WMT16's lookups: words find their translations by counting, and order comes from phrases."""

import math

import pytest

from grue.errors import DataError
from grue.lookups.translation import Fluency, decode, phrase_table
from grue.lookups.wmt16 import LOOKUPS
from grue.lookups.word_links import link
from grue.records import Example
from grue.task_files import load_task

PEOPLE = {
    "dog": ("der", "ein", "Hund"), "cat": ("die", "eine", "Katze"), "horse": ("das", "ein", "Pferd"), "boy": ("der", "ein", "Junge"),
    "woman": ("die", "eine", "Frau"), "child": ("das", "ein", "Kind"),
}  # fmt: skip
DEEDS = {
    "sleep": ("schläft", "schlafen"),
    "eat": ("isst", "essen"),
    "dance": ("tanzt", "tanzen"),
    "cook": ("kocht", "kochen"),
}
LEFT_OUT = {("horse", "sleep"), ("dog", "eat")}
PAIRS = [
    pair
    for one, (the, a, noun) in PEOPLE.items()
    for deed, (does, do) in DEEDS.items()
    if (one, deed) not in LEFT_OUT
    for pair in (
        (f"The {one} {deed}s.", f"{the.capitalize()} {noun} {does}."),
        (f"Today, a {one} {deed}s.", f"Heute {does} {a} {noun}."),
        (f"A {one} will {deed} here.", f"{a.capitalize()} {noun} wird hier {do}."),
    )
] + [("The horse eats 1,500 apples.", "Das Pferd isst 1.500 Äpfel.")]


def example(number: int, english: str, german: str = "") -> Example:
    references = (german,) if german else ()
    return Example(f"wmt16-{number}", f"translate English to German: {english}", references)


TRAIN = [example(number, *pair) for number, pair in enumerate(PAIRS)]


def answer(name: str, *sentences: str) -> list[str]:
    asked = [example(100 + number, sentence) for number, sentence in enumerate(sentences)]
    return LOOKUPS[name](load_task("wmt16"), TRAIN, asked, 0)


def test_words_are_linked_to_their_translations() -> None:
    english, german = ([pair[side].rstrip(".").split() for pair in PAIRS] for side in (0, 1))
    linked = dict(zip(PAIRS, link(english, german), strict=True))
    assert linked["The woman cooks.", "Die Frau kocht."] == {(0, 0), (1, 1), (2, 2)}
    assert linked["Today, a child dances.", "Heute tanzt ein Kind."] == {(0, 0), (1, 2), (2, 3), (3, 1)}


def test_a_sentence_of_known_parts_is_put_together_in_the_order_of_its_phrases() -> None:
    assert answer("lexicon", "The horse sleeps.", "Today, a dog eats.", "A dog will eat here.") == [
        "Das Pferd schläft.",
        "Heute isst ein Hund.",
        "Ein Hund wird hier essen.",
    ]


def test_what_training_lacks_is_kept_and_a_number_is_written_as_in_german() -> None:
    assert answer("lexicon", "The horse eats 2,300 tulips.")[0].split()[-2:] == ["2.300", "tulips."]


def test_the_nearest_translation_is_mended() -> None:
    assert answer("nearest", "The horse eats 2,700 apples.", "The dog sleeps.") == [
        "Das Pferd isst 2.700 Äpfel.",
        "Der Hund schläft.",
    ]


@pytest.mark.parametrize("name", ["lexicon", "nearest"])
def test_an_answer_depends_neither_on_the_seed_nor_on_the_others_asked(name: str) -> None:
    both = answer(name, "The dog sleeps.", "The cat will cook.")
    assert both[1:] == answer(name, "The cat will cook.")
    assert LOOKUPS[name](load_task("wmt16"), TRAIN, [example(1, "The cat will cook.")], 7) == both[1:]


def test_fluency_prefers_what_it_has_read() -> None:
    fluency = Fluency([["der", "Hund", "schläft"], ["der", "Hund", "frisst"]])
    assert fluency(("der", "Hund"), ("schläft",)) == fluency(("der", "Hund"), ("frisst",))
    assert fluency(("<s>", "<s>"), ("der", "Hund")) > fluency(("<s>", "<s>"), ("Hund", "der"))
    one, both = fluency(("<s>", "<s>"), ("der",)), fluency(("<s>", "<s>"), ("der", "Hund"))
    assert both == pytest.approx(one + fluency(("<s>", "der"), ("Hund",))) and 0 < math.exp(both) < math.exp(one) < 1


def test_the_search_translates_every_word_once() -> None:
    english, german = [["a", "b"], ["b", "a"], ["c"]], [["A", "B"], ["B", "A"], ["C"]]
    table, fluency = phrase_table(english, german), Fluency(german)
    assert sorted(decode(["a", "c", "b", "x"], table, fluency, str.upper)) == ["A", "B", "C", "X"]


@pytest.mark.parametrize("name", LOOKUPS)
def test_an_example_without_a_reference_is_skipped(name: str) -> None:
    asked = [example(100, "The dog sleeps.")]
    found = LOOKUPS[name](load_task("wmt16"), [example(99, "The dog sleeps."), *TRAIN], asked, 0)
    assert found == answer(name, "The dog sleeps.")


@pytest.mark.parametrize("name", LOOKUPS)
def test_nothing_is_translated_by_nothing(name: str) -> None:
    assert answer(name, "", "The dog sleeps.", " ") == ["", *answer(name, "The dog sleeps."), ""]


@pytest.mark.parametrize("name", LOOKUPS)
def test_training_without_a_pair_of_sentences_is_an_error(name: str) -> None:
    train = [example(0, "The dog sleeps."), example(1, "The dog " * 40, "Der Hund " * 40), example(2, "", "Ja.")]
    with pytest.raises(DataError) as caught:
        LOOKUPS[name](load_task("wmt16"), train, TRAIN[:1], 0)
    assert str(caught.value) == (
        "No training example of mini/wmt16 has a sentence and a reference of 1 to 40 words, which translations are "
        "counted in; mend the data, or take another baseline, such as copy."
    )
