"""What the judges are trained on: labels that follow from what a damaged text still says."""

import random
from collections import Counter
from itertools import pairwise

import pytest

from miniworld import cnn_dailymail, damage, pairs, scorers, text, totto, wmt16
from miniworld.chance import Dice
from miniworld.world import REVISION

REVIEWS = [
    (" ".join(f"the {side}{number}" for number in range(40)), label) for label, side in enumerate(("bad", "good"))
]


def test_a_senseless_end_decides_nothing_and_another_beginning_does_not_matter():
    found = scorers._as_continued(REVIEWS * 3000, random.Random(1))
    assert len(found) == 6000
    spliced, whole = [], Counter()
    for said, label in found:
        words = [word for word in said.split() if word != "the"]
        sides = [word.rstrip("0123456789") for word in words]
        if len(words) == 40 and (set(sides[:20]), set(sides[20:])) in (({"bad"}, {"good"}), ({"good"}, {"bad"})):
            spliced.append(sides[-1] == ("bad", "good")[label])
        elif said in dict(REVIEWS):
            assert dict(REVIEWS)[said] == label
        whole[label] += 1
    assert len(spliced) == pytest.approx(6000 * scorers.SPLICED, rel=0.35)
    assert all(spliced)
    assert whole[0] / 6000 == pytest.approx(0.5, abs=0.03)


def test_a_senseless_reply_gets_any_act_and_others_their_own():
    rows = [("Where is it?", "It is in the barn behind the house.", 1)] * 4000
    found = Counter(scorers._acts(rows, random.Random(2)))
    assert found["Where is it? It is in the barn behind the house.", 0] > 2800
    others = Counter(label for said, label in found.elements() if label)
    assert sum(others.values()) == pytest.approx(4000 * scorers.SENSELESS * 3 / 4, rel=0.15)
    assert all(count > 120 for count in others.values())


def test_what_says_nothing_follows_from_nothing():
    rng = random.Random(3)
    kept = [scorers._doubtful("A farmer led two horses.", 2, rng) for _ in range(2000)]
    for hypothesis, label in kept:
        assert label == (2 if hypothesis == "A farmer led two horses." else 1)
    assert sum(label == 1 for _, label in kept) / 2000 == pytest.approx(scorers.SENSELESS + scorers.CUT, abs=0.03)


@pytest.mark.parametrize("draw", [pairs.near_miss, totto.near_miss, cnn_dailymail.near_miss, wmt16.near_miss])
def test_a_near_miss_is_built_like_its_paraphrase(draw):
    dice = Dice(4)
    nearer = 0
    for _ in range(100):
        said, same, changed = draw(dice, REVISION)
        assert len({said, same, changed}) == 3
        words = [["", *each.rstrip(".").lower().split(), ""] for each in (changed, same, said)]
        mine, theirs, others = ({*pairwise(each)} for each in words)  # in order: a paraphrase may be the same words
        nearer += len(mine & theirs) / len(mine | theirs) > len(mine & others) / len(mine | others)
    assert nearer > 85


def test_contrasts_are_near_misses_in_both_directions_and_senseless_texts():
    dice = Dice(5)
    miss = ("The dog ran home quickly.", "Quickly the dog ran home.", "Quickly the cat ran home.")
    drawn = Counter(text._contrast(dice, miss) for _ in range(2000))
    assert drawn[miss] == pytest.approx(750, rel=0.15)
    assert drawn[miss[1], miss[0], miss[2]] == pytest.approx(750, rel=0.15)
    assert {worse for *_, worse in drawn} - {miss[2]} and sum(drawn.values()) == 2000


def test_every_way_of_damage_is_drawn():
    found = {damage.senseless(Dice(seed), "A farmer led two horses into the barn.") for seed in range(200)}
    assert len(found) > 100
