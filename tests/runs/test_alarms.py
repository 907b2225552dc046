"""Warnings read off a run's log: each on lines by hand, and when it is told again."""

from grue.algorithms.cards.copg import CoPGConfig
from grue.algorithms.cards.dpo import DPOConfig
from grue.algorithms.cards.nlpo import NLPOConfig
from grue.algorithms.cards.ppo import PPOConfig
from grue.algorithms.cards.rloo import RLOOConfig
from grue.algorithms.cards.supervised import SupervisedConfig
from grue.runs.alarms import CLIP_PATIENCE, CRITIC_PATIENCE, QUIET, RECENT, REWARDED, ROLLOUTS, alarms

FINE = {"update": 1, "seconds": 2.0, "tokens": 800.0, "objective/reward": 0.4, "objective/reward_sd": 0.1}
FINE |= {"objective/kl": 0.0, "objective/entropy": 2.0, "objective/ended": 0.95}
FINE |= {"mask/mass": 0.92, "policy/clip_fraction": 0.1}


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
    ("flat-groups", FLAT, DPOConfig(data="data.jsonl")),
    ("flat-groups", FLAT, DPOConfig()),
    ("flat-reward", [{"objective/reward_sd": 0.0, "objective/reward": 0.25}], CoPGConfig(data="data.jsonl")),
    ("flat-reward", [{"objective/reward": 1 / 3, "objective/reward_sd": 2e-8}], PPOConfig()),
    ("endless-responses", ENDLESS, DPOConfig()),
    ("endless-responses", ENDLESS, RLOOConfig()),
    ("endless-responses", ENDLESS, PPOConfig(missing_eos_penalty=0.5)),
    ("negative-kl", NEGATIVE, PPOConfig(kl_over="vocabulary")),
    ("negative-kl", NEGATIVE, PPOConfig(kl_over="support")),
    ("collapsed-entropy", FADED, PPOConfig()),
    ("falling-mass", DRIFTED, NLPOConfig()),
    ("falling-mass", DRIFTED, NLPOConfig(mass_coefficient=0.05, mask_source="frozen")),
    ("falling-mass", DRIFTED, NLPOConfig(mask_updates=1)),
    ("falling-mass", DRIFTED, PPOConfig()),
    ("much-clipping", CLIPPED, PPOConfig()),
    ("much-clipping", CLIPPED, PPOConfig(epochs=1, stop_kl=0.1)),
    ("useless-critic", USELESS, PPOConfig()),
    ("useless-critic", USELESS, PPOConfig(value_start="regression")),
]


def test_an_alarm_says_what_is_seen_and_what_to_do(refused):
    assert {code for code, *_ in CASES} == {*REWARDED, *ROLLOUTS}
    for code, changes, config in CASES:
        lines = log(*changes)
        (alarm,) = alarms(lines[0], lines, config)
        assert alarm.code == code
        refused.message(alarm.message)
        assert told(lines, config) == [(len(lines), code)]


def test_a_healthy_run_is_left_in_peace():
    for changes in (
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
    ):
        assert told(log(*changes), NLPOConfig()) == [], changes
    first = {"mask/mass": 0.3, "objective/ended": 0.0, "objective/entropy": 0.0}
    assert told(log(*[first] * 10, fine=0), NLPOConfig()) == [], "what was so from the first is no fall"
    lines = [{"update": n, "seconds": 1.0, "loss/total": 2.0, "objective/reward_sd": 0.0} for n in range(1, 9)]
    assert told(lines, SupervisedConfig()) == []
    assert told([{"update": n, "seconds": 1.0} for n in range(1, 9)]) == []
    assert alarms(FINE, [], PPOConfig()) == []


def test_a_lasting_or_flickering_alarm_is_told_once_and_again_after_a_long_silence():
    flat = {"objective/reward_sd": 0.0}
    assert told(log(*[flat] * 100)) == [(6, "flat-reward")]
    flickering = [change for _ in range(10) for change in (flat, {}, {})]
    again = log(*flickering, *[{}] * (QUIET - 2), flat, {}, flat)
    assert told(again) == [(6, "flat-reward"), (len(again) - 2, "flat-reward")]
    assert told(log(*flickering, *[{}] * (QUIET - 3), flat)) == [(6, "flat-reward")]


def test_the_last_lines_decide_alike_so_that_a_resumed_run_warns_alike():
    flat, clipped = {"objective/reward_sd": 0.0}, {"policy/clip_fraction": 0.5}
    lines = log(*[flat, {}, clipped] * 4, *[clipped] * 9, *[{}] * 21, flat, *[clipped] * 8)
    config = PPOConfig()
    for number in range(1, len(lines) + 1):
        recent = lines[max(0, number - RECENT) : number]
        assert alarms(lines[0], recent, config) == alarms(lines[0], lines[:number], config)
    assert told(lines) == [(6, "flat-reward"), (21, "much-clipping"), (48, "flat-reward"), (53, "much-clipping")]
