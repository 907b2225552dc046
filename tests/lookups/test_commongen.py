"""CommonGen's lookups: frames, their concepts exchanged, and two clauses joined."""

from itertools import product

import pytest

from grue.lookups.commongen import LOOKUPS, bases, concepts_of, count, divided, filled, fitted, frame, inflection
from grue.records import Example
from grue.task_files import load_task

TASK = load_task("commongen")


def example(concepts, *references):
    return Example(concepts, f"generate a sentence with: {concepts}.", references)


# Who makes what, and who does it while someone else sings; nobody bakes a cake while a girl sings.
ALONE = [
    example(f"{who} {what} bake", f"A {who} bakes some {what} in the oven.")
    for who, what in product(("baker", "cook", "girl"), ("bread", "soup", "cake"))
    if (who, what) != ("girl", "cake")
]
KITCHEN = ALONE + [
    example(f"bake {what} sing {who}", f"A cook bakes some {what} while a {who} sings.")
    for what, who in product(("bread", "soup"), ("baker", "cook"))
]


def test_a_frame_knows_where_its_concepts_are():
    sentence = frame("Two dogs were running after the leaves.", ["leaf", "dog", "run", "cat"])
    assert sentence.words[:2] == ("two", "dogs") and sentence.words[-1] == "."
    found = {concept: sentence.words[place] for place, concept in zip(sentence.places, sentence.concepts, strict=True)}
    assert found == {"dog": "dogs", "run": "running", "leaf": "leaves"}
    for word, kind in (("runs", "s"), ("ran", "ed"), ("run", "")):
        assert "run" in bases(word) and inflection(word, "run") == kind


def test_a_frame_is_divided_where_both_sides_have_concepts():
    sentence = frame("A cook and his son bake bread while a girl sings.", ["bake", "girl", "bread"])
    (first, joint), (second, other) = divided(sentence)
    assert joint == other == "while"
    assert first.concepts == ("bake", "bread") and second.concepts == ("girl",)
    assert second.words == ("a", "girl", "sings")
    assert not list(divided(frame("A girl sings well.", ["girl", "sing"])))


def test_a_concept_takes_the_place_of_its_like_and_what_has_none_stands_at_the_end():
    known = count(KITCHEN)
    sentence = known.frames[0][0]
    fit, _, taken = fitted(known, sentence, ("cake", "girl", "bake"))
    assert fit > fitted(known, sentence, ("cake", "girl", "sing"))[0]
    assert filled(known, sentence, ("cake", "girl", "bake"), taken) == "A girl bakes some cake in the oven."
    more = filled(known, frame("A girl sings.", ["girl"]), ("girl", "moon"), {1: "girl"})
    assert more == "A girl sings and the moon."


@pytest.mark.parametrize("name", LOOKUPS)
def test_lookups_use_every_concept_and_read_no_reference(name):
    asked = [example(concepts) for concepts in ("girl cake bake", "sing girl bake cake", "moon bake sun")]
    found = LOOKUPS[name](TASK, KITCHEN, asked, 1)
    peeked = [example(" ".join(concepts_of(each)), "Peeked.") for each in asked]
    assert found == LOOKUPS[name](TASK, KITCHEN, peeked, 1)
    for each, text in zip(asked, found, strict=True):
        words = frozenset().union(*(bases(word) for word in text.rstrip(".").split()))
        assert words.issuperset(concepts_of(each)), text
    one = LOOKUPS[name](TASK, [example("dog run", "A dog runs.")], [example("cat run")], 1)
    assert one == ["A cat runs."], "a single training example is enough"
    assert LOOKUPS[name](TASK, KITCHEN, [example("girl bread bake bake")], 1), "a concept may be asked for twice"


def test_two_clauses_are_joined():
    (text,) = LOOKUPS["mbr"](TASK, KITCHEN, [example("girl sing cake bake")], 1)
    assert text == "A cook bakes some cake while a girl sings."
