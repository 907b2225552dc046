"""What validation measures besides the scores: plain samples and the KL from the start."""

import pytest
from support.late import lates

from grue.evaluation.rewards import make_reward

tiny, exactness, golden, adapters = lates("support.tiny support.exactness support.golden grue.lm.adapters")


def figures(tmp_path, algorithm, **settings):
    run = tiny.run("causal", algorithm, tmp_path, reward=letters, learning_rate=0.05, validate_every=1, **settings)
    adapters.adapt(run.trainer.policy, run.plan.config)
    tiny.train(run)
    return [found for _, found, _ in run.observer.validations]


def letters(examples, texts):
    return exactness.letters(examples, texts)


@pytest.mark.parametrize("settings", [{}, {"lora_rank": 2}])
def test_kl_and_reward_of_plain_samples_begin_at_the_start(tmp_path, settings):
    """The start is the reference, also where it is the policy without its adapter."""
    if settings:
        pytest.importorskip("peft")
    first, second, third = figures(tmp_path, "ppo", updates=2, **settings)
    assert first["kl"] == 0.0
    assert third["kl"] > second["kl"] / 2 > 0.0
    assert first["sampled_reward"] != third["sampled_reward"]


def test_supervised_training_has_no_start_to_be_near():
    assert all("kl" not in found for _, found, _ in golden.trace("causal", "supervised").validations)


def test_the_terms_of_a_sum_are_measured_on_plain_samples_too(tmp_path):
    run = tiny.run("causal", "ppo", tmp_path, updates=1, validate_every=1)
    run.trainer.reward = make_reward("2*rouge1 - meteor", run.plan.task, tiny.examples())
    tiny.train(run)
    (_, first, _), *_ = run.observer.validations
    for name in ("reward", "sampled_reward"):
        assert first[name] == pytest.approx(2 * first[f"{name}/rouge1"] - first[f"{name}/meteor"])
