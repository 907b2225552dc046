"""spice_lite: tags, clauses and tuples by hand, its F1 against a slow loop, and its sense in the mini world."""

import random

import pytest
from support.metric_texts import value

from grue.metrics.clauses import read
from grue.metrics.registry import make_metric
from grue.metrics.scenes import Graph, are_synonyms, f1
from grue.metrics.tags import tag
from grue.metrics.wordnet import synonyms

LETTERS = {
    "n": "noun", "v": "verb", "g": "ing", "d": "ed", "a": "adjective", "r": "adverb", "t": "determiner", "#": "number",
    "p": "preposition", "b": "be", "x": "auxiliary", "2": "to", "o": "owner", "&": "and", ",": "comma", "w": "relative",
    "i": "pronoun", "h": "anaphor", ".": "stop", "l": "link",
}  # fmt: skip
TAGGED = """
the dogs bark at a cat . → tnvptn.
a dog barks at the cat → tnvptn
a girl milks a goat → tnvtn
the coffee mugs are old → tnnba
two girls play chess → #nvn
a man wears red shorts → tnvan
the painted fence was being painted → tanbbd
the painting is on the wall → tnbptn
she is slowly painting it → hbrgh
a dog wants to bark at it → tnv2vph
a dog walks to school → tnvpn
the man 's dog has barked → tnonxd
the man 's wearing a hat → tnbgtn
i saw a sister rock a baby → idtnvtn
the girl who sings can not swim → tnwvxrv
he sliced bread and ate it → hdn&dh
a blue and white boat → ta&an
a hard-working cleaner decides → tanv
the dog sits next to a car → tnvpptn
some green leaves on a tree → tanptn
lions hunting mice , because they are hungry → ngn,lhba
three zzgx zzgxing zzgxed zzgxly → #ngdr
"""
READ = """
A dog. → dog
two small dogs with red hats → dog; dog, two; dog, small; hat; hat, red; dog, with, hat
A dog barks. → dog; dog, bark
The dog is small and old. → dog; dog, small; dog, old
The dog isn't in the yard. → dog; yard; dog, in, yard
There is a dog in the yard. → dog; yard; dog, in, yard
A girl milks a goat. → girl; goat; girl, milk, goat
A goat was milked by a girl. → girl; goat; girl, milk, goat
The cake was eaten. → cake; cake, eat
A man and a woman ate bread and soup. → man; woman; bread; soup; man, eat, bread; man, eat, soup; woman, eat, bread; woman, eat, soup
In the barn, a girl sleeps. → barn; girl; girl, sleep in, barn
A girl wants to sleep in the barn. → barn; girl; girl, sleep in, barn
The girl who sleeps in the barn is happy. → barn; girl; girl, sleep in, barn; girl, happy
We saw a girl sleep in the barn. → barn; girl; girl, sleep in, barn
After milking a goat, the girl sleeps. → goat; girl; girl, milk, goat; girl, sleep
The girl milks a goat before she sleeps. → goat; girl; girl, milk, goat; girl, sleep
The girl milks a goat before the dog barks. → goat; girl; dog; girl, milk, goat; dog, bark
The girl caught a fish and ate it. → girl; fish; girl, catch, fish; girl, eat, fish
A girl wearing a hat rode a horse. → girl; hat; horse; girl, wear, hat; girl, ride, horse
A girl wearing a hat riding a horse → girl; hat; horse; girl, wear, hat; girl, ride, horse
A goat was milked by a girl to make cheese. → girl; goat; cheese; girl, milk, goat; girl, make, cheese
A group of boys played. → group; boy; group, of, boy; boy, play
The dog’s bone is white. → dog; bone; dog, have, bone; bone, white
A DOG BARKS. A cat sleeps! → dog; cat; dog, bark; cat, sleep
The dog sits next to a car. → dog; car; dog, sit next to, car
"""


def cases(listed):
    return [line.split(" → ") for line in listed.strip().split("\n")]


@pytest.mark.parametrize(("text", "letters"), cases(TAGGED))
def test_tag(text, letters):
    assert tag(text.split()) == [LETTERS[letter] for letter in letters]


@pytest.mark.parametrize(("text", "expected"), cases(READ))
def test_read(text, expected):
    found = read(text)
    assert set(found) == {tuple(each.split(", ")) for each in expected.split("; ")}
    assert len(found) == len(set(found))


def test_nothing_is_said_of_nothing():
    assert tag([]) == list(read("")) == list(read("They are.")) == []


def test_synonyms_of_relations_and_of_what_is_said_twice():
    for one, other in (("car", "auto"), ("ride in", "ride in"), ("begin with", "start with")):
        assert are_synonyms(one, other)
    for one, other in (("car", "dog"), ("begin with", "start"), ("begin with", "start near")):
        assert not are_synonyms(one, other)
    graph = Graph([("car",), ("auto",), ("car", "red"), ("auto", "red")])
    assert graph.tuples == [("car",), ("car", "red")]
    assert ("motorcar", "red") in graph
    assert f1(Graph([("car",), ("dog",)]), graph) == pytest.approx(0.5)


def slow_same(one, other):
    """Two tuples by the definition, word by word."""
    sides = [" | ".join(side).split(" ") for side in (one, other)]
    return len(sides[0]) == len(sides[1]) and all(a == b or b in synonyms(a) for a, b in zip(*sides, strict=True))


def slow_f1(references, text):
    graphs = []
    for source in (references, [text]):
        graphs.append(graph := [])
        for found in (each for part in source for each in read(part)):
            if not any(slow_same(found, known) for known in graph):
                graph.append(found)
    reference, candidate = graphs
    hits = sum(any(slow_same(found, known) for known in reference) for found in candidate)
    if hits == 0:
        return 0.0
    precision, recall = hits / len(candidate), min(hits / len(reference), 1.0)
    return 2 / (1 / precision + 1 / recall)


def test_values_are_those_of_the_slow_loop():
    drawn = random.Random(4)
    nouns = "car auto boat kid child boy dog picture photo film movie".split()
    verbs = "begins starts sees takes carries shows ends finishes".split()

    def text():
        parts = [f"the {drawn.choice(nouns)} {drawn.choice(verbs)} a {drawn.choice(nouns)}." for _ in range(3)]
        return " ".join(parts[: drawn.randint(1, 3)])

    values = []
    for _ in range(150):
        references, candidate = [text() for _ in range(drawn.randint(1, 3))], text()
        values.append(value("spice_lite", references, candidate))
        assert values[-1] == pytest.approx(slow_f1(references, candidate), abs=1e-12)
    assert 0.0 < sum(values) / len(values) < 1.0
    assert make_metric("spice_lite").signature == (
        "spice_lite|rules:1|case:lower|tok:words|tags:wordnet:3.0|synonyms:wordnet:3.0|refs:merged"
    )
