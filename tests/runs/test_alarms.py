"""Warnings read off a run's log: each on lines by hand, with its exact words, and when it is told again."""

import pytest

from grue.algorithms.cards.copg import CoPGConfig
from grue.algorithms.cards.dpo import DPOConfig
from grue.algorithms.cards.nlpo import NLPOConfig
from grue.algorithms.cards.ppo import PPOConfig
from grue.algorithms.cards.rloo import RLOOConfig
from grue.algorithms.cards.supervised import SupervisedConfig
from grue.runs.alarms import CLIP_PATIENCE, CRITIC_PATIENCE, PATIENCE, QUIET, RECENT, REWARDED, ROLLOUTS, Alarm, alarms

FINE = {
    "update": 1,
    "seconds": 2.0,
    "objective/reward": 0.4,
    "objective/reward_sd": 0.1,
    "objective/kl": 0.0,
    "objective/entropy": 2.0,
    "objective/ended": 0.95,
    "mask/mass": 0.92,
    "policy/clip_fraction": 0.1,
    "tokens": 800.0,
}


def log(*changes, fine=5):
    """Lines of a run: some healthy ones, then one for every dictionary of changes."""
    return [*[FINE] * fine, *[{**FINE, **change} for change in changes]]


def told(lines, config=None):
    """The codes told after each line, as (number of the line, code)."""
    config = config or PPOConfig()
    return [
        (number, alarm.code)
        for number in range(1, len(lines) + 1)
        for alarm in alarms(lines[0], lines[:number], config)
    ]


NEGATIVE = [{"objective/kl": -0.05}, {"objective/kl": -0.2}, {"objective/kl": -0.1234}]
FADED = [{"objective/entropy": 0.15}, {"objective/entropy": 0.1}, {"objective/entropy": 0.05}]
DRIFTED = [{"mask/mass": 0.49}, {"mask/mass": 0.4}, {"mask/mass": 0.26}]
ENDLESS = [{"objective/ended": 0.04}, {"objective/ended": 0.0}, {"objective/ended": 0.02}]
CLIPPED = [{"policy/clip_fraction": share} for share in (0.31, 0.5, 0.6, 0.4, 0.35)]
USELESS = [{"critic/explained_variance": value} for value in (-0.06, -0.4, -1.2, -0.5, -0.3)]

FLAT = [{"objective/flat_groups": 1.0}] * 3

CASES = [
    (
        FLAT,
        DPOConfig(data="data.jsonl"),
        "flat-groups",
        "in 3 updates no prompt had responses with different rewards, so nothing was learnt from comparing them. Take a "
        "file whose rewards tell responses to one prompt apart.",
    ),
    (
        FLAT,
        DPOConfig(),
        "flat-groups",
        "in 3 updates no prompt had responses with different rewards, so nothing was learnt from comparing them. Raise "
        "samples_per_prompt or rollout_temperature, set redraws, or take a --reward that tells responses to one prompt "
        "apart.",
    ),
    (
        [{"objective/reward_sd": 0.0, "objective/reward": 0.25}],
        CoPGConfig(data="data.jsonl"),
        "flat-reward",
        "all responses have the same reward (0.250), so there is nothing to learn from them. Take a file whose rewards "
        "tell responses apart; if it is the highest reward there is, stop.",
    ),
    (
        ENDLESS,
        DPOConfig(),
        "endless-responses",
        "2% of the responses end by themselves, 95% did in the first update; the others are cut at the limit. Set "
        "missing_eos_penalty, or lower learning_rate.",
    ),
    (
        NEGATIVE,
        PPOConfig(kl_over="vocabulary"),
        "negative-kl",
        "the mean KL has been negative for 3 updates (now -0.123 nats a token). The sampler is truncated (top-k, top-p, "
        "a minimum length or a mask) while the penalty counts the whole vocabulary, so moving mass out of what can be "
        'sampled pays. Set kl_over = "support".',
    ),
    (
        NEGATIVE,
        PPOConfig(kl_over="support"),
        "negative-kl",
        "the mean KL has been negative for 3 updates (now -0.123 nats a token). Sampling and scoring see different "
        'policies, or the batch is too small to tell. Set precision = "float32", or raise rollouts.',
    ),
    (
        FADED,
        PPOConfig(),
        "collapsed-entropy",
        "entropy has fallen to 0.050 nats a token, from 2.000 in the first update: the policy says nearly the same every "
        "time. Lower learning_rate, or raise kl_coefficient or entropy_coefficient.",
    ),
    (
        DRIFTED,
        NLPOConfig(),
        "falling-mass",
        "only 26% of the policy's probability lies inside what can be sampled, 92% did in the first update; tokens "
        "outside get no gradient and may drift. Set mass_coefficient = 0.1, or refresh the mask more often: mask_updates "
        "below 5.",
    ),
    (
        DRIFTED,
        NLPOConfig(mass_coefficient=0.05, mask_source="frozen"),
        "falling-mass",
        "only 26% of the policy's probability lies inside what can be sampled, 92% did in the first update; tokens "
        "outside get no gradient and may drift. Raise mass_coefficient above 0.05, or refresh the mask: mask_source = "
        '"periodic".',
    ),
    (
        DRIFTED,
        NLPOConfig(mask_updates=1),
        "falling-mass",
        "only 26% of the policy's probability lies inside what can be sampled, 92% did in the first update; tokens "
        "outside get no gradient and may drift. Set mass_coefficient = 0.1.",
    ),
    (
        DRIFTED,
        PPOConfig(),
        "falling-mass",
        "only 26% of the policy's probability lies inside what can be sampled, 92% did in the first update; tokens "
        "outside get no gradient and may drift. Lower learning_rate, or widen top_k and top_p of the task's rollout.",
    ),
    (
        ENDLESS,
        RLOOConfig(),
        "endless-responses",
        "2% of the responses end by themselves, 95% did in the first update; the others are cut at the limit. Set "
        "missing_eos_penalty, or raise kl_coefficient.",
    ),
    (
        ENDLESS,
        PPOConfig(missing_eos_penalty=0.5),
        "endless-responses",
        "2% of the responses end by themselves, 95% did in the first update; the others are cut at the limit. Raise "
        "missing_eos_penalty above 0.5, or raise kl_coefficient.",
    ),
    (
        [{"objective/reward": 1 / 3, "objective/reward_sd": 2e-8}],
        PPOConfig(),
        "flat-reward",
        "all responses have the same reward (0.333), so there is nothing to learn from them. Take a --reward that tells "
        "them apart, or raise rollouts; if it is the highest reward there is, stop.",
    ),
    (
        CLIPPED,
        PPOConfig(),
        "much-clipping",
        "the ratio of more than 30% of the tokens has been clipped for 5 updates (now 35%): the steps are too large. "
        "Lower learning_rate or epochs, or set stop_kl = 0.02.",
    ),
    (
        CLIPPED,
        PPOConfig(epochs=1, stop_kl=0.1),
        "much-clipping",
        "the ratio of more than 30% of the tokens has been clipped for 5 updates (now 35%): the steps are too large. "
        "Lower learning_rate, or set stop_kl below 0.1.",
    ),
    (
        USELESS,
        PPOConfig(),
        "useless-critic",
        "the critic has been worse than a constant for 5 updates (explained variance now -0.30), which makes advantages "
        'noisier. Set value_start = "regression", lower value_learning_rate, or raise rollouts.',
    ),
    (
        USELESS,
        PPOConfig(value_start="regression"),
        "useless-critic",
        "the critic has been worse than a constant for 5 updates (explained variance now -0.30), which makes advantages "
        "noisier. Lower value_learning_rate, or raise rollouts.",
    ),
]


@pytest.mark.parametrize(
    ("changes", "config", "code", "message"), CASES, ids=[f"{i}-{case[2]}" for i, case in enumerate(CASES)]
)
def test_an_alarm_says_what_is_seen_and_what_to_do(changes, config, code, message):
    lines = log(*changes)
    assert alarms(lines[0], lines, config) == [Alarm(code, message)]
    assert told(lines, config) == [(len(lines), code)]


def test_every_alarm_has_a_case():
    assert {case[2] for case in CASES} == {*REWARDED, *ROLLOUTS}


@pytest.mark.parametrize(
    "changes",
    [
        [{}] * 30,
        [{"objective/kl": -0.009}] * 5,  # an estimate of next to nothing
        [{"objective/kl": -0.05}, {}, {"objective/kl": -0.05}, {}],
        [{"objective/entropy": 0.21}] * 5,
        [{"mask/mass": 0.51}] * 5,
        [{"mask/mass": 0.3}, {"mask/mass": 0.3}, {"mask/mass": 0.9}],
        [{"objective/ended": 0.06}] * 5,
        [{"objective/reward_sd": 1e-3}] * 5,
        [{"policy/clip_fraction": 0.9}] * (CLIP_PATIENCE - 1),
        [{"critic/explained_variance": -0.5}] * (CRITIC_PATIENCE - 1),
        [{"critic/explained_variance": -0.04}] * 20,
        [{"objective/kl": float("nan"), "objective/entropy": float("nan")}] * 5,
    ],
)
def test_a_healthy_run_is_left_in_peace(changes):
    assert told(log(*changes), NLPOConfig()) == []


def test_what_was_so_from_the_first_is_no_fall():
    """A narrow sampler, a model that never ends, a policy that is sure: those are settings, not accidents."""
    first = {"mask/mass": 0.3, "objective/ended": 0.0, "objective/entropy": 0.0}
    assert told(log(*[first] * 10, fine=0), NLPOConfig()) == []


def test_supervised_training_and_lines_without_figures_give_no_alarm():
    lines = [{"update": n, "seconds": 1.0, "loss/total": 2.0, "objective/reward_sd": 0.0} for n in range(1, 9)]
    assert told(lines, SupervisedConfig()) == []
    assert told([{"update": n, "seconds": 1.0} for n in range(1, 9)]) == []
    assert alarms(FINE, [], PPOConfig()) == []


def test_a_lasting_alarm_is_told_once():
    assert told(log(*[{"objective/reward_sd": 0.0}] * 100)) == [(6, "flat-reward")]


def test_a_flickering_alarm_is_told_once_and_again_after_a_long_silence():
    flat = {"objective/reward_sd": 0.0}
    flickering = [change for _ in range(10) for change in (flat, {}, {})]
    again = log(*flickering, *[{}] * (QUIET - 2), flat, {}, flat)
    assert told(again) == [(6, "flat-reward"), (len(again) - 2, "flat-reward")]
    sooner = log(*flickering, *[{}] * (QUIET - 3), flat)
    assert told(sooner) == [(6, "flat-reward")]


def test_several_alarms_are_told_together():
    lines = log(*[{"objective/kl": -1.0, "objective/entropy": 0.01, "objective/reward_sd": 0.0}] * PATIENCE)
    assert told(lines) == [(6, "flat-reward"), (8, "negative-kl"), (8, "collapsed-entropy")]


def test_the_last_lines_decide_alike_so_that_a_resumed_run_warns_alike():
    flat, clipped = {"objective/reward_sd": 0.0}, {"policy/clip_fraction": 0.5}
    lines = log(*[flat, {}, clipped] * 4, *[clipped] * 9, *[{}] * 21, flat, *[clipped] * 8)
    config = PPOConfig()
    for number in range(1, len(lines) + 1):
        recent = lines[max(0, number - RECENT) : number]
        assert alarms(lines[0], recent, config) == alarms(lines[0], lines[:number], config)
    assert told(lines) == [(6, "flat-reward"), (21, "much-clipping"), (48, "flat-reward"), (53, "much-clipping")]
