"""What the small models are trained on: frozen texts that hold nothing tested, and labels that follow from the facts."""

import json
import random
import re
from collections import Counter
from dataclasses import replace
from hashlib import sha256

import pytest
from support.late import late

from miniworld import damage, text, wmt16
from miniworld.chance import Dice
from miniworld.facts import Fact, Thing, agreement
from miniworld.lexicon import load_lexicon
from miniworld.world import load_world

scorers = late("miniworld.scorers")
pytestmark = pytest.mark.usefixtures("undrawn")

# The first 16 digits of the sha256 of the first 300 texts of seed 1.
TEXTS = {
    "paragraphs": "484b862c90544021",
    "reviews": "91a7246a4cad5c9f",
    "german": "cfc45cc0e0dcc328",
    "translations": "df6e48f8b36c4b39",
    "acts": "0798f0c02d01660c",
    "claims": "c614e18c1775e7e6",
    "likenesses": "c0cecb727beffe93",
    "contrasts": "ac33e37f7dc6decb",
    "german_contrasts": "afbd786f5532a5b3",
}


def digest(value):
    return sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:16]


@pytest.mark.parametrize(("kind", "expected"), TEXTS.items())
def test_training_texts_are_frozen_and_depend_on_the_seed_alone(kind, expected):
    draw = getattr(text, kind)
    drawn = draw(300, seed=1)
    assert digest(drawn) == expected
    assert draw(20, seed=1) == drawn[:20] != draw(20, seed=2)


def test_texts_hold_nothing_that_is_tested(shipped):
    held = {task: [row for split in ("validation", "test") for row in shipped[task][split]] for task in shipped}
    targets = {sentence for row in held["commongen"] for sentence in row["targets"]}
    targets |= {sentence for row in held["totto"] for sentence in row["sentence_annotations"]["final_sentence"]}
    targets |= {row["highlights"].split("\n")[0] for row in held["cnn_dailymail"]}
    stories = [row["document"]["summary"]["text"] for row in held["narrativeqa"]]
    targets |= {said for story in stories for said in re.split(r"(?<=[.?]) ", story) if len(said.split()) >= 10}
    drawn = text.paragraphs(4000, seed=3)
    said = {sentence for one in drawn for sentence in re.split(r"(?<=[.!?]) (?=[A-Z0-9])", one)}
    said |= {part for kind in (text.acts, text.claims, text.likenesses) for one in kind(900, seed=5) for part in one}
    assert targets.isdisjoint(said)
    replies = {reply for row in held["dailydialog"] for reply in row["dialog"][5:]}
    said = {part for one in drawn for part in (*one.split(" <EOU> "), *re.findall(r'"([^"]*)"', one))}
    assert replies.isdisjoint(said | {reply for _, reply, _ in text.acts(3000, seed=13)})
    whole = "\n".join([*drawn, *(review for review, _ in text.reviews(1000, seed=4))])
    for row in held["imdb"]:
        half = " ".join(row["text"].split(" ")[: len(row["text"].split(" ")) // 2])
        assert not any(part in whole for part in (half, row["positive_continuation"], row["text"].removeprefix(half)))
    bare = {wmt16.bare(said, "2") for row in held["wmt16"] for said in row["translation"].values()}
    german = [said for one in text.german(300, seed=8) for said in re.split(r"(?<=[.?“]) (?=[A-ZÄÖÜ„])", one)]
    german += [said for pair in text.translations(600, seed=8) for said in pair]
    assert bare.isdisjoint(wmt16.bare(said, "2") for said in german)


def noun(lemma):
    return load_lexicon().noun(lemma)


@pytest.fixture(scope="module")
def fact():
    """A farmer leads two white horses into the barn with a rope, in the morning."""
    leading = next(
        each
        for each in load_world().activities
        if each.verb.lemma == "lead" and any(filler.noun.lemma == "horse" for filler in each.what)
    )
    horses = Thing(noun("horse"), several=True, count="two", adjective="white")
    places = {"place": Thing(noun("barn"), preposition="into"), "tool": Thing(noun("rope"))}
    return Fact(leading, "she", Thing(noun("farmer")), what=horses, **places, when="in the morning")


def test_agreement_by_hand(fact):
    # verb, who and what count 2 each, place, tool and time 1 each, adjective and number 0.5 each: 10 in all
    assert agreement(fact, fact) == 1.0
    assert agreement(fact, replace(fact, tool=None)) == pytest.approx(2 * 9 / (10 + 9))
    assert agreement(fact, replace(fact, who=Thing(noun("girl")))) == pytest.approx(2 * 8 / 20)
    assert agreement(fact, replace(fact, negated=True)) == pytest.approx(2 * 8 / 20)
    bare = replace(fact, what=Thing(noun("horse")), place=None, tool=None, when="")
    assert agreement(fact, bare) == pytest.approx(2 * 6 / (10 + 6))


TEXT = "In the evening, a farmer led two white horses into the barn with a rope."


def test_all_worths_are_losses():
    assert all(0 <= worth < 1 for worth in damage.WORTH.values())
    assert set(damage.SENSELESS) < set(damage.WORTH)
    assert max(damage.WORTH[way] for way in damage.SENSELESS) <= 0.3
    assert len({damage.senseless(Dice(seed), TEXT) for seed in range(200)}) > 100
    cuts = {len(damage.cut(Dice(seed), TEXT).split()) for seed in range(200)}
    assert cuts == set(range(1, len(TEXT.split())))


# --- labels of the judges --------------------------------------------------------------------------------------------

REVIEWS = [(" ".join(f"the {side}{n}" for n in range(40)), label) for label, side in enumerate(("bad", "good"))]


def test_a_senseless_end_decides_nothing_and_another_beginning_does_not_matter():
    found = scorers._as_continued(REVIEWS * 3000, random.Random(1))
    spliced, labels = [], Counter(label for _, label in found)
    for said, label in found:
        sides = [word.rstrip("0123456789") for word in said.split() if word != "the"]
        if len(sides) == 40 and (set(sides[:20]), set(sides[20:])) in (({"bad"}, {"good"}), ({"good"}, {"bad"})):
            spliced.append(sides[-1] == ("bad", "good")[label])
        elif said in dict(REVIEWS):
            assert dict(REVIEWS)[said] == label
    assert len(found) == 6000 and labels[0] / 6000 == pytest.approx(0.5, abs=0.03)
    assert len(spliced) == pytest.approx(6000 * scorers.SPLICED, rel=0.35) and all(spliced)


def test_a_senseless_reply_gets_any_act_and_others_their_own():
    rows = [("Where is it?", "It is in the barn behind the house.", 1)] * 4000
    found = Counter(scorers._acts(rows, random.Random(2)))
    assert found["Where is it? It is in the barn behind the house.", 0] > 2800
    others = Counter(label for said, label in found.elements() if label)
    assert others.total() == pytest.approx(4000 * scorers.SENSELESS * 3 / 4, rel=0.15)
    assert all(count > 120 for count in others.values())


def test_what_says_nothing_follows_from_nothing():
    rng, sound = random.Random(3), "A farmer led two horses."
    kept = [scorers._doubtful(sound, 2, rng) for _ in range(2000)]
    assert all(label == (2 if hypothesis == sound else 1) for hypothesis, label in kept)
    assert sum(label == 1 for _, label in kept) / 2000 == pytest.approx(scorers.SENSELESS + scorers.CUT, abs=0.03)


def test_contrasts_are_near_misses_in_both_directions_and_senseless_texts():
    dice = Dice(5)
    miss = ("The dog ran home quickly.", "Quickly the dog ran home.", "Quickly the cat ran home.")
    drawn = Counter(text._contrast(dice, miss) for _ in range(2000))
    assert drawn[miss] == pytest.approx(750, rel=0.15)
    assert drawn[miss[1], miss[0], miss[2]] == pytest.approx(750, rel=0.15)
    assert {worse for *_, worse in drawn} - {miss[2]} and drawn.total() == 2000
