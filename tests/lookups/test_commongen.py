"""CommonGen's lookups: frames, their concepts exchanged, and two clauses joined."""

import pytest

from grue.lookups.commongen import LOOKUPS, bases, concepts_of, count, divided, filled, fitted, frame, inflection
from grue.records import Example
from grue.task_files import load_task

PEOPLE, THINGS = ("baker", "cook", "girl"), ("bread", "soup", "cake")


def example(concepts: str, *references: str) -> Example:
    return Example(concepts, f"generate a sentence with: {concepts}.", references)


def kitchen() -> list[Example]:
    """Who makes what, and who does it while someone else sings; nobody bakes a cake while a girl sings."""
    alone = [
        example(f"{who} {what} bake", f"A {who} bakes some {what} in the oven.")
        for who in PEOPLE
        for what in THINGS
        if (who, what) != ("girl", "cake")
    ]
    joined = [
        example(f"bake {what} sing {who}", f"A cook bakes some {what} while a {who} sings.")
        for what in THINGS[:2]
        for who in PEOPLE[:2]
    ]
    return alone + joined


def test_a_frame_knows_where_its_concepts_are() -> None:
    sentence = frame("Two dogs were running after the leaves.", ["leaf", "dog", "run", "cat"])
    assert sentence.words[:2] == ("two", "dogs") and sentence.words[-1] == "."
    found = {concept: sentence.words[place] for place, concept in zip(sentence.places, sentence.concepts, strict=True)}
    assert found == {"dog": "dogs", "run": "running", "leaf": "leaves"}


@pytest.mark.parametrize(("word", "concept", "kind"), [("runs", "run", "s"), ("ran", "run", "ed"), ("run", "run", "")])
def test_inflections(word: str, concept: str, kind: str) -> None:
    assert concept in bases(word) and inflection(word, concept) == kind


def test_a_frame_is_divided_where_both_sides_have_concepts() -> None:
    sentence = frame("A cook and his son bake bread while a girl sings.", ["bake", "girl", "bread"])
    (first, joint), (second, other) = divided(sentence)
    assert joint == other == "while"
    assert first.concepts == ("bake", "bread") and second.concepts == ("girl",)
    assert second.words == ("a", "girl", "sings")
    assert not list(divided(frame("A girl sings well.", ["girl", "sing"])))


def test_a_concept_takes_the_place_of_its_like() -> None:
    known = count(kitchen())
    sentence = known.frames[0][0]
    fit, _, taken = fitted(known, sentence, ("cake", "girl", "bake"))
    assert fit > fitted(known, sentence, ("cake", "girl", "sing"))[0]
    assert filled(known, sentence, ("cake", "girl", "bake"), taken) == "A girl bakes some cake in the oven."


def test_what_has_no_place_stands_at_the_end() -> None:
    known = count(kitchen())
    assert (
        filled(known, frame("A girl sings.", ["girl"]), ("girl", "moon"), {1: "girl"}) == "A girl sings and the moon."
    )


@pytest.mark.parametrize("name", LOOKUPS)
def test_lookups_use_every_concept_and_read_no_reference(name: str) -> None:
    asked = [example("girl cake bake"), example("sing girl bake cake"), example("moon bake sun")]
    lookup, task = LOOKUPS[name], load_task("commongen")
    found = lookup(task, kitchen(), asked, 1)
    assert found == lookup(task, kitchen(), [example(" ".join(concepts_of(each)), "Peeked.") for each in asked], 1)
    for each, text in zip(asked, found, strict=True):
        words = frozenset[str]().union(*(bases(word) for word in text.rstrip(".").split()))
        assert words.issuperset(concepts_of(each)), text


def test_two_clauses_are_joined() -> None:
    (text,) = LOOKUPS["mbr"](load_task("commongen"), kitchen(), [example("girl sing cake bake")], 1)
    assert text == "A cook bakes some cake while a girl sings."


def test_a_single_training_example_is_enough() -> None:
    train = [example("dog run", "A dog runs.")]
    for lookup in LOOKUPS.values():
        assert lookup(load_task("commongen"), train, [example("cat run")], 1) == ["A cat runs."]


def test_a_concept_may_be_asked_for_twice() -> None:
    for lookup in LOOKUPS.values():
        assert lookup(load_task("commongen"), kitchen(), [example("girl bread bake bake")], 1)
