"""When a run that was made again is the row's: texts, and intervals of the other seeds."""

import math
from dataclasses import replace

import pytest

from grue.records import Prediction
from grue.stats.intervals import prediction_interval
from grue.submissions.trust.agreement import equal_share, judge_reproduced, judge_retrained
from grue.submissions.trust.rows import Scores


def test_the_interval_of_a_further_seed():
    """By hand, with t of a table: 2.776 of 4 degrees of freedom, 12.706 of one."""
    found = prediction_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    half = 2.7764451 * math.sqrt(2.5) * math.sqrt(1.2)
    assert (found.low, found.high) == pytest.approx((3 - half, 3 + half), abs=1e-6)
    half = 12.7062047 * math.sqrt(2) * math.sqrt(1.5)
    assert prediction_interval([1.0, 3.0]).half_width == pytest.approx(half, abs=1e-5)
    assert prediction_interval([7.0]) is None
    same = prediction_interval([2.0, 2.0, 2.0])
    assert (same.low, same.high) == (2.0, 2.0)


def test_texts_decide_what_is_reproduced():
    then = [Prediction(str(n), "a text") for n in range(200)]
    assert equal_share(then, then) == 1
    for change in ({"text": "another"}, {"truncated": True}):
        assert equal_share(then, [replace(then[0], **change), *then[1:]]) == 0.995
    judged = [judge_reproduced(share) for share in (1.0, 0.995, 0.99, 0.9899, 0.0)]
    assert judged == ["equal texts", "nearly equal texts", "nearly equal texts", "different", "different"]


def test_other_seeds_decide_what_is_retrained():
    """With two axes each has 97.5 %: t of 3 degrees of freedom is 4.177, so 50 to 53 expects 44.5 to 58.5."""
    others = [Scores(value, 10.0) for value in (50.0, 51.0, 52.0, 53.0)]
    half = 4.1765 * math.sqrt(5 / 3) * math.sqrt(1.25)

    def verdict(preference, naturalness, share=0.5, others=others, same_weights=False):
        return judge_retrained(same_weights, share, Scores(preference, naturalness), others).verdict

    for preference, expected in ((51.5 + half - 0.01, "inside"), (51.5 + half + 0.01, "outside"), (40.0, "outside")):
        assert verdict(preference, 10.0) == expected
    judged = judge_retrained(False, 0.5, Scores(51.5, 10.0), others)
    assert judged.intervals["preference"].high == pytest.approx(51.5 + half, abs=1e-3)
    assert verdict(51.5, 10.1) == "outside"  # naturalness counts, too
    assert verdict(0.0, 0.0, 1.0, [], same_weights=True) == "equal weights"
    assert verdict(0.0, 0.0, 1.0, []) == "equal texts"
    assert verdict(51.0, 10.0, others=others[:1]) == verdict(None, None) == "undecided"
    one_axis = judge_retrained(False, 0.5, Scores(51.0, None), others)
    assert (one_axis.verdict, list(one_axis.intervals)) == ("inside", ["preference"])
