"""Rewards of several terms, of single tokens and of some texts alone: what an update learns from them, by hand."""

import dataclasses
import math
import statistics

import pytest
from support.late import lates

from grue.algorithms import BUILT_IN
from grue.algorithms.cards.grpo import GRPOConfig
from grue.algorithms.cards.ppo import PPOConfig
from grue.algorithms.cards.reinforce import ReinforceConfig
from grue.errors import TrainingError

torch, tiny, grpo, rewards = lates("torch support.tiny grue.algorithms.grpo grue.evaluation.rewards")
rl, experience, responses, trainer = lates("functional experience responses trainer", "grue.rl.")
NAN = math.nan


def experience_of(reward, folder, algorithm="ppo", **settings):
    run = tiny.run("causal", algorithm, folder, reward=reward, **settings)
    state = trainer.start(run.trainer, run.plan.config)
    return run, state, experience.collect(run.trainer, state, run.plan.config, 0)


def rising(examples, texts, token_ids):
    return [[0.25 * (place + 1) for place in range(len(ids))] for ids in token_ids]


def test_the_rewards_of_tokens_fall_on_their_tokens(tmp_path):
    """What is made of a score besides falls on the last; the policy is its reference yet: there is no penalty."""
    for clip, cost in ((math.inf, 0.0), (2.0, 1.5)):
        _, _, found = experience_of(rising, tmp_path, reward_clip=clip, missing_eos_penalty=cost)
        cut = found.rollout.truncated.tolist()
        for row, counts in enumerate(found.rollout.responses.mask.sum(1).tolist()):
            raw = 0.25 * counts * (counts + 1) / 2
            assert float(found.responses.raw_scores[row]) == raw
            first = [0.25 * (place + 1) for place in range(counts - 1)]
            wanted = [*first, min(clip, raw - cost * cut[row]) - sum(first)]
            assert found.rewards[row, :counts].tolist() == pytest.approx(wanted, abs=1e-5)
            assert not found.rewards[row, counts:].any()


def test_what_a_reward_is_told_of_the_responses(tmp_path):
    told = []

    def reward(examples, texts, token_ids, truncated, step):
        told.append((token_ids, truncated, step, len(examples)))
        return [[float(token != 1) for token in ids] for ids in token_ids]

    run, state, found = experience_of(reward, tmp_path)
    experience.collect(run.trainer, state, run.plan.config, 5)
    assert [step for _, _, step, _ in told] == [0, 5]
    responses, truncated = found.rollout.responses, found.rollout.truncated.tolist()
    assert told[0][0] == responses.lists()
    assert told[0][0] == [
        [int(token) for token, counts in zip(ids, mask, strict=True) if counts]
        for ids, mask in zip(responses.ids, responses.mask, strict=True)
    ]
    assert told[0][1] == truncated and True in truncated and False in truncated
    assert [ids[-1] != 1 for ids in told[0][0]] == truncated, "the end token, 1, is there unless it never came"
    told.clear()
    run = tiny.train(tiny.run("causal", "ppo", tmp_path, reward=reward, updates=2, validate_every=1, epochs=1))
    counts = [(count, step) for _, _, step, count in told]
    assert counts == [(4, 0), (4, 0), (12, 0), (4, 1), (4, 1), (12, 1), (4, 2), (4, 2)], "answers and plain samples"
    assert all(figures["reward"] > 1 for _, figures, _ in run.observer.validations)


def some(examples, texts):
    """Scores of 1, 2, 3 …, but for every third text."""
    return [None if number % 3 == 2 else float(number + 1) for number in range(len(texts))]


def test_a_response_without_a_score_counts_nowhere(tmp_path):
    run, state, found = experience_of(some, tmp_path)
    scored = [number % 3 != 2 for number in range(12)]
    assert found.scored.tolist() == scored
    assert found.mask.any(1).tolist() == scored
    advantages, returns = experience.advantages_and_returns(found, run.plan.config)
    assert not advantages[2::3].any() and not returns[2::3].any() and not found.rewards[2::3].any()
    kept = advantages[found.mask]
    assert float(kept.mean()) == pytest.approx(0, abs=1e-6)
    assert float(kept.std(correction=0)) == pytest.approx(1, rel=1e-4)
    line = experience.describe(found, state)
    values = [number + 1 for number in range(12) if scored[number]]
    assert line["objective/reward"] == pytest.approx(statistics.fmean(values))
    assert line["objective/reward_sd"] == pytest.approx(statistics.pstdev(values))
    assert line["objective/scored"] == pytest.approx(8 / 12)
    assert line["tokens"] == int(found.rollout.responses.mask.sum())


def test_the_others_are_judged_as_if_it_had_not_been_drawn():
    # 1, –, 4 is 1, 4: means 2.5, others' 4 and 1, deviation 3/√2. One alone has nobody to be compared with.
    scores = torch.tensor([1.0, 9.0, 4.0, 9.0, 7.0, 9.0, 0.0, 3.0, 6.0])
    counts = torch.tensor([True, False, True, False, True, False, True, True, True])
    assert rl.judge_counted(counts, rl.centre_groups, scores, 3).tolist() == [-1.5, 0, 1.5, 0, 0, 0, -3, 0, 3]
    assert rl.judge_counted(counts, rl.leave_one_out, scores, 3).tolist() == [-3, 0, 3, 0, 0, 0, -4.5, 0, 4.5]
    unit = 1.5 / (3 / math.sqrt(2) + 1e-4)
    found = grpo.group_advantages(scores, counts, config := GRPOConfig(samples_per_prompt=3))
    last = 3 / (3 + 1e-4)
    assert found.tolist() == pytest.approx([-unit, 0, unit, 0, 0, 0, -last, 0, last], rel=1e-6)
    assert grpo.flat_share(found, config) == pytest.approx(1 / 3)
    mean = (1 + 4 + 7 + 0 + 3 + 6) / 6
    wanted = [score - mean if count else 0.0 for score, count in zip(scores.tolist(), counts.tolist(), strict=True)]
    assert rl.judge_counted(counts, rl.centre_groups, scores, 9).tolist() == pytest.approx(wanted)


@pytest.mark.parametrize("score", [0.1, 1 / 3, -7.77, 1e6])
def test_a_group_of_equal_scores_has_no_advantage_and_is_counted(score):
    scores = torch.tensor([score] * 7 + [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    for scale_by in ("group", "nothing"):
        config = GRPOConfig(samples_per_prompt=7, scale_by=scale_by)
        advantages = grpo.group_advantages(scores, torch.ones(14, dtype=bool), config)
        assert advantages[:7].tolist() == [0.0] * 7
        assert (advantages[7:] != 0).all()
        assert grpo.flat_share(advantages, config) == 0.5
    assert rl.leave_one_out(scores[:7], 7).tolist() == [0.0] * 7


def of_those_that_end(examples, texts, truncated):
    return [None if cut else text.count("a") / 7 for text, cut in zip(texts, truncated, strict=True)]


@pytest.mark.parametrize("algorithm", sorted({*BUILT_IN} - {"supervised"}))
def test_no_algorithm_learns_from_a_response_without_a_score(algorithm, tmp_path):
    """A cost that only such responses bear changes no weight."""
    task = tiny.task("causal", temperature=3.0, max_new_tokens=14)  # half of them end
    sizes = {"rollouts": 24, "minibatch_size": 5, "epochs": 1, "reward_scale": "running"}
    sizes |= tiny.SMALL.get(algorithm, {})
    weights = []
    for cost in (0.0, 5.0):
        settings = {"reward": of_those_that_end, "task_": task, "missing_eos_penalty": cost, **sizes}
        run = tiny.run("causal", algorithm, tmp_path, **settings)
        (line,) = tiny.updated(run)
        weights.append(tiny.weights(run.trainer.policy))
    assert torch.equal(*weights) and not torch.equal(weights[0], tiny.weights(tiny.model("causal")))
    assert line["objective/scored"] == pytest.approx(line["objective/ended"])
    assert 0 < line["objective/scored"] < 1
    if "policy/ratio_error" in line and algorithm not in ("trpo", "a2c"):
        most = math.ceil(round(24 * line["objective/scored"]) / 5)
        # Minibatches of flat groups alone have no gradient before the first step.
        assert 0 < line["policy/steps"] <= most if algorithm in ("grpo", "rloo") else line["policy/steps"] == most


def test_an_update_without_any_score_is_an_error(tmp_path, refused):
    with refused(TrainingError):
        experience_of(lambda examples, texts: [None] * len(texts), tmp_path)


def on_updates_alone(examples, texts):
    return [None] * len(texts) if len(texts) == 4 else numbers(examples, texts)  # four are validated


def test_a_validation_without_any_score_compares_by_preference_or_not_at_all(tmp_path, refused):
    run = tiny.train(tiny.run("causal", "ppo", tmp_path / "one", reward=on_updates_alone, updates=1))
    first, second = (set(figures) for _, figures, _ in run.observer.validations)
    assert first == {"preference", "error", "kl"} and second == first | {"gain", "gain_error"}
    without = dataclasses.replace(tiny.task("causal"), metrics=())
    with refused(TrainingError):
        tiny.train(tiny.run("causal", "ppo", tmp_path / "other", task_=without, reward=on_updates_alone))


def halves(examples, texts):
    return [0.5 if number % 2 else None for number in range(len(texts))]


def numbers(examples, texts):
    return [float(number) for number in range(len(texts))]


def never(examples, texts):
    return [None for _ in texts]


def test_the_terms_of_a_sum_are_logged_one_by_one(tmp_path):
    here = __name__
    run = tiny.run("causal", "ppo", tmp_path, updates=1)
    terms = f"2*{here}:halves - 3*{here}:numbers + {here}:never"
    run.trainer.reward = rewards.make_reward(terms, run.trainer.task, run.trainer.examples)
    tiny.train(run)
    line = run.observer.lines[0]
    logged = {name: value for name, value in line.items() if name.startswith("reward/")}
    assert logged == {f"reward/{here}:halves": 0.5, f"reward/{here}:numbers": 5.5}, "unweighted; of no text, no mean"
    assert line["objective/reward"] == pytest.approx(2 * 0.5 * 6 / 12 - 3 * 5.5)
    assert "objective/scored" not in line
    figures = run.observer.validations[0][1]
    assert figures[f"reward/{here}:numbers"] == 1.5
    assert figures["reward"] == 2 * 0.5 * 2 / 4 - 3 * 1.5
    alone = tiny.train(tiny.run("causal", "ppo", tmp_path / "alone", updates=1)).observer
    assert not any(name.startswith("reward/") for name in alone.lines[0] | alone.validations[0][1])


def given(*columns):
    """Two terms or more that gave these values; their sum is not looked at, but for whether there is one."""
    terms = torch.tensor(columns).T
    applies = ~terms.isnan()
    sums = torch.where(applies.any(1), torch.zeros(len(terms)), torch.tensor(NAN))
    return responses.Rewarded(sums, terms, torch.ones(len(terms), 4, len(columns)))


def unit(values, spread=1e-4):
    """Standardised values, by the statistics module."""
    mean, deviation = statistics.fmean(values), statistics.stdev(values)
    return [(value - mean) / (deviation + spread) for value in values]


def test_terms_are_standardised_in_their_groups_and_their_sum_in_the_batch():
    """GDPO's example: two rewards won of two are worth twice one of two, which GRPO cannot tell apart."""
    config = GRPOConfig(samples_per_prompt=2, normalize_terms=True)
    found, own = responses.summed(given([0.0, 1.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]), [1.0, 1.0], config)
    # Each term −z, z with z = 1/√2; sums −z, z, −2z, 2z; their sample deviation √(10 z² / 3).
    wanted = [x / math.sqrt(10 / 3) for x in (-1, 1, -2, 2)]
    assert found.tolist() == pytest.approx(wanted, rel=3e-4)
    assert not own.any(), "a term counts as a whole"
    advantages = grpo.group_advantages(found, torch.ones(4, dtype=bool), config)
    assert advantages.tolist() == pytest.approx(wanted, rel=3e-4), "not divided again"
    together = torch.tensor([0.0, 1.0, 0.0, 2.0])
    as_grpo = grpo.group_advantages(together, torch.ones(4, dtype=bool), GRPOConfig(samples_per_prompt=2))
    assert as_grpo[:2].tolist() == pytest.approx(as_grpo[2:].tolist(), rel=1e-3)


def test_without_groups_to_compare_terms_are_standardised_in_the_batch():
    first, second = [1.0, 2.0, 4.0, 9.0], [100.0, 50.0, 0.0, 30.0]
    wanted = unit([2.0 * a - 0.5 * b for a, b in zip(unit(first), unit(second), strict=True)])
    for kind, size in ((PPOConfig, 1), (PPOConfig, 2), (ReinforceConfig, 1)):
        config = kind(normalize_terms=True, samples_per_prompt=size)
        found, _ = responses.summed(given(first, second), [2.0, -0.5], config)
        assert found.tolist() == pytest.approx(wanted, rel=1e-5)


def test_a_term_counts_among_the_texts_that_it_applies_to():
    config = ReinforceConfig(normalize_terms=True, samples_per_prompt=3)
    first, second = [1.0, NAN, 4.0, NAN, 2.0, 8.0], [NAN, NAN, 5.0, NAN, 1.0, 3.0]
    found, _ = responses.summed(given(first, second), [1.0, 1.0], config)
    low, high = unit([1.0, 4.0])
    a, b = unit([2.0, 8.0])
    c, d = unit([1.0, 3.0])
    wanted = unit([low, high, a + c, b + d])  # the second term is alone in the first group
    assert found.tolist() == pytest.approx([wanted[0], 0, wanted[1], 0, *wanted[2:]], rel=1e-5, abs=1e-6)


def test_a_term_without_spread_contributes_nothing():
    flat, spread = [0.1] * 4, [1.0, 2.0, 4.0, 9.0]
    for config in (PPOConfig(normalize_terms=True), GRPOConfig(samples_per_prompt=4, normalize_terms=True)):
        both, _ = responses.summed(given(flat, spread), [1e6, 1.0], config)
        alone, _ = responses.summed(given(spread), [1.0], config)
        assert both.tolist() == alone.tolist() == pytest.approx(unit(unit(spread)), rel=1e-5)
        nothing, _ = responses.summed(given(flat, flat), [1.0, 1.0], config)
        assert nothing.tolist() == [0.0] * 4


@pytest.mark.parametrize("algorithm", ["ppo", "grpo"])
def test_a_weight_weighs_the_standardised_term_and_the_log_has_the_raw_reward(algorithm, tmp_path):
    weights, lines, term = [], [], f"{__name__}:wordy"
    for weight in (1.0, 1024.0):
        settings = {"normalize_terms": True, "minibatch_size": 12, "epochs": 1, **tiny.SMALL.get(algorithm, {})}
        run = tiny.run("causal", algorithm, tmp_path, **settings)
        of = f"rouge1 + {weight}*{term}"
        run.trainer.reward = rewards.make_reward(of, run.trainer.task, run.trainer.examples)
        lines += tiny.updated(run)
        weights.append(tiny.weights(run.trainer.policy))
    assert not torch.equal(*weights)
    assert lines[0][f"reward/{term}"] == lines[1][f"reward/{term}"] > 0
    gap = lines[1]["objective/reward"] - lines[0]["objective/reward"]
    assert gap == pytest.approx(1023 * lines[0][f"reward/{term}"], rel=1e-5)


def wordy(examples, texts):
    return [float(len(set(text.split()))) for text in texts]
