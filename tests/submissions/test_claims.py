"""What a result states of its training, against what can be and what its configuration makes."""

from dataclasses import replace

import pytest
from support.factories import a_result, a_task

from grue.submissions.checks.claims import other_calls, untrue

REINFORCED = {"updates": 16, "rollouts": 128}


def result(**system):
    return replace(a_result(a_task(), "ours", 1, 50.0), system={"name": "ours", **system})


def differing(config=(), from_backbone=True, **system):
    return list(other_calls(REINFORCED | dict(config), from_backbone, result(**system)))


def kept(calls, update=8, **more):
    return {"update": update, "training": {"reward_calls": calls}, **more}


@pytest.mark.parametrize("value", [-1, -0.5, 2.5, True, "many", None, [1], 10**400], ids=lambda value: str(value)[:9])
def test_what_no_training_can_have_taken(value):
    (said,) = untrue(result(training={"reward_calls": value}))
    assert said == f"training: reward_calls: states {value!r}, which cannot be"


def test_half_a_second_can_be_and_a_whole_run_takes_no_less_than_a_part_of_it():
    honest = {"tokens": 500.0, "seconds": 2.5, "reward_calls": 1024.0}
    assert not list(untrue(result(training=honest, last={"update": 16, "training": {"reward_calls": 2048}})))
    (said,) = untrue(result(training=honest, last={"update": 16, "training": {"reward_calls": 12}}))
    assert said == "reward_calls: states 1,024 until the kept update and 12 in the whole run"


def test_reward_calls_are_those_of_the_configuration():
    """Until the kept update and in the whole run; a lie about either, or about the last update, is told."""

    def said(update, calls, last, whole):
        return differing(**kept(calls, update), last={"update": last, "training": {"reward_calls": whole}})

    assert said(8, 1024, 16, 2048) == []
    assert said(8, 64, 16, 2048) == ["reward_calls: states 64 until the kept update; its configuration makes 1,024."]
    assert said(8, 1024, 16, 1536) == [
        "reward_calls: states 1,536 until the last update; its configuration makes 2,048."
    ]
    assert said(0, 0, 8, 1024) == ["last: update: states 8; its configuration makes 16."]
    older = {"tokens": 500.0, "episodes": 1024.0, "seconds": 2.5}
    assert differing(update=8, training=older, last={"update": 16}) == []


def test_what_the_board_would_count_is_held_against_the_configuration():
    where = "until the kept update"
    assert differing(training={"reward_calls": 16}) == [
        f"reward_calls: states 16 {where}, and not which update that is."
    ]
    assert differing(update=8, training={"episodes": 64}) == [
        f"episodes: states 64 {where}; its configuration makes 1,024 at least."
    ]
    assert differing(update=8, training={"episodes": 17000}) == []  # those of the start count, too


def test_what_asks_beside_its_rollouts_or_began_elsewhere_has_more_calls_and_never_fewer():
    for calls, lines in ((1500, 0), (1024, 0), (1000, 1)):
        for asks in ({"redraws": 3}, {"calibration_samples": 8}, {"select": "hard:50"}):
            assert len(differing(asks, **kept(calls))) == lines, (calls, asks)
    for calls, lines in ((4000, 0), (1023, 1)):
        elsewhere = kept(calls, start="0" * 64)
        assert len(differing(**elsewhere)) == lines
        assert len(differing(from_backbone=False, **elsewhere)) == 1  # a stage before it makes none
    assert len(differing(**kept(4000))) == 1


def test_a_value_that_is_fitted_first_asks_about_its_prompts_and_no_more():
    """A-LoL asks about `value_prompts` answers in its first update; r_lol, which has the setting too, about none."""
    for variant, update, calls, lines in (
        *(("alol", 8, 1024 + 256, 0), ("alol", 8, 1024, 1), ("alol", 8, 9000, 1), ("alol", 0, 0, 0)),
        *(("r_lol", 8, 1024, 0), ("r_lol", 8, 1024 + 256, 1)),
    ):
        config = {"value_prompts": 256, "variant": variant}
        found = differing(config, from_backbone=False, **kept(calls, update))
        assert len(found) == lines, (variant, update, calls)
