"""CommonGen's lookups: every concept is used, inflected as in the frame, and two clauses are joined."""

from itertools import product

import pytest

from grue.lookups.commongen import LOOKUPS, bases, concepts_of
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
    (text,) = LOOKUPS["nearest"](TASK, [example("girl sing", "A girl is singing.")], [example("girl sing moon")], 1)
    assert text == "A girl is singing and the moon.", "what has no place stands at the end"
    watch = [example("girl watch dog", "A girl watches a dog.")]
    assert LOOKUPS["nearest"](TASK, watch, [example("girl kiss owl")], 1) == ["A girl kisses an owl."]
