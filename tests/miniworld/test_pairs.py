"""Pairs of sentences: labels that follow from the facts, likenesses by hand, and nothing that a task holds out."""

import re
from collections import Counter
from dataclasses import replace

import pytest

from miniworld import commongen, pairs
from miniworld.chance import Dice
from miniworld.facts import Fact, Thing, agreement, changed, draw_fact, enriched, generalised, parts, reduced
from miniworld.lexicon import load_lexicon
from miniworld.world import REVISION, load_world


def noun(lemma):
    return load_lexicon().noun(lemma)


def activity(verb, what):
    return next(
        each
        for each in load_world().activities
        if each.verb.lemma == verb and any(filler.noun.lemma == what for filler in each.what)
    )


@pytest.fixture
def fact():
    """A farmer leads two white horses into the barn with a rope, in the morning."""
    return Fact(
        activity("lead", "horse"),
        "she",
        Thing(noun("farmer")),
        what=Thing(noun("horse"), several=True, count="two", adjective="white"),
        place=Thing(noun("barn"), preposition="into"),
        tool=Thing(noun("rope")),
        when="in the morning",
    )


def words(text):
    return set(re.findall(r"[a-z]+", text.lower()))


def test_every_telling_says_every_part_and_no_other(fact):
    dice = Dice(1)
    small = words("a an the is are was were has have been being by with in into her and to there i we saw watched")
    small |= words("everyone children from window use uses used")
    told = {pairs.tell(dice, fact) for _ in range(300)}
    assert len(told) > 100
    for text in told:
        said = words(text)
        assert {"farmer", "two", "white", "horses", "barn", "rope", "morning"} <= said, text
        assert said & {"lead", "leads", "led", "leading"}, text
        rest = {"farmer", "two", "white", "horses", "barn", "rope", "morning", "lead", "leads", "led", "leading"}
        assert said <= rest | small, text
        assert text[0].isupper() and text.endswith(".") and "  " not in text


def test_a_denial_denies_and_a_hope_is_no_deed(fact):
    dice = Dice(2)
    for _ in range(50):
        assert " not " in pairs.tell(dice, replace(fact, negated=True))
        assert re.search(r" (want|wants|wanted) to lead ", pairs.tell(dice, fact, hope="want to"))


def test_agreement_by_hand(fact):
    # verb, who and what count 2 each, place, tool and time 1 each, adjective and number 0.5 each: 10 in all
    assert agreement(fact, fact) == 1.0
    assert agreement(fact, replace(fact, tool=None)) == pytest.approx(2 * 9 / (10 + 9))
    assert agreement(fact, replace(fact, who=Thing(noun("girl")))) == pytest.approx(2 * 8 / 20)
    assert agreement(fact, replace(fact, negated=True)) == pytest.approx(2 * 8 / 20)
    bare = replace(fact, what=Thing(noun("horse")), place=None, tool=None, when="")
    assert agreement(fact, bare) == pytest.approx(2 * 6 / (10 + 6))


def test_other_facts_differ_as_they_should():
    dice = Dice(3)
    seen = Counter()
    for _ in range(2000):
        fact = draw_fact(dice)
        said = parts(fact)
        assert parts(reduced(dice, fact)).keys() <= said.keys()
        more, other, wider = enriched(dice, fact), changed(dice, fact), generalised(dice, fact)
        if more:
            added = {name for name, value in parts(more).items() if said.get(name) != value}
            assert len(added) in (1, 2) and agreement(fact, more) < 1  # a new role may bring its adjective
            seen["more"] += 1
        if other:
            assert agreement(fact, other) < 1
            seen["other"] += 1
        if wider:
            seen["wider"] += 1
            assert agreement(fact, wider) < 1
    assert seen["more"] > 500
    assert seen["other"] > 1000
    assert seen["wider"] > 500


@pytest.mark.parametrize(
    ("one", "other", "excluded"),
    [
        ("farmer", "baker", True), ("boy", "girl", True), ("boy", "child", False), ("man", "farmer", False),
        ("mother", "nurse", False), ("dog", "cat", True), ("dog", "puppy", False), ("farmer", "horse", True),
        ("kitchen", "restaurant", False), ("barn", "stable", True), ("guitar", "piano", True), ("kid", "child", False),
        ("worker", "gardener", False), ("bird", "pigeon", False), ("rose", "flower", False), ("family", "couple", False),
    ],
)  # fmt: skip
def test_what_cannot_be_the_same_thing(one, other, excluded):
    from miniworld.facts import _excludes

    assert _excludes(noun(one), noun(other)) is excluded
    assert _excludes(noun(other), noun(one)) is excluded


def test_claims_are_balanced_and_new():
    dice = Dice(4)
    claims = [pairs.claim(dice) for _ in range(6000)]
    assert all(0.31 < count / 6000 < 0.36 for count in Counter(label for *_, label in claims).values())
    assert len({claim[:2] for claim in claims}) == 6000
    rows = commongen.rows(REVISION)
    held_out = {text for split in ("validation", "test") for row in rows[split] for text in row["targets"]}
    for premise, hypothesis, _ in claims:
        assert hypothesis not in held_out
        assert held_out.isdisjoint(re.split(r"(?<=\.) ", premise))
    assert {len(re.findall(r"\.", premise)) for premise, *_ in claims} == {1, 2, 3}


def test_neither_words_nor_lengths_of_a_hypothesis_give_its_label_away():
    dice = Dice(5)
    claims = [pairs.claim(dice) for _ in range(6000)]
    lengths = [Counter(), Counter(), Counter()]
    denied = Counter()
    for _, hypothesis, label in claims:
        lengths[label][len(hypothesis.split())] += 1
        denied[label] += " not " in hypothesis
    best = sum(max(each[length] for each in lengths) for length in set().union(*lengths))
    assert best / 6000 < 0.5  # a third is chance
    assert denied[2] > 100


def test_likenesses_fill_the_range():
    dice = Dice(6)
    drawn = [pairs.likeness(dice) for _ in range(4000)]
    values = [value for *_, value in drawn]
    assert all(isinstance(value, float) and 0 <= value <= 1 for value in values)
    for low in (0.0, 0.25, 0.5, 0.75):
        assert sum(low <= value <= low + 0.25 for value in values) > 300
    assert max(Counter(values).values()) < 1200


def test_what_is_spoilt_is_worth_less():
    dice = Dice(7)
    for _ in range(500):
        spoilt, left = pairs._spoilt(dice, "A farmer leads two white horses into the barn.", REVISION)
        assert 0 <= left < 1
        assert spoilt != "A farmer leads two white horses into the barn."
        if not spoilt:
            assert left == 0


def test_a_near_miss_differs_in_one_fact_only():
    dice = Dice(8)
    shared = 0.0
    for _ in range(500):
        sentence, paraphrase, other = pairs.near_miss(dice)
        assert len({sentence, paraphrase, other}) == 3
        shared += len(words(paraphrase) & words(other)) / len(words(paraphrase) | words(other))
    assert shared / 500 > 0.6
