"""REINFORCE, RLOO and GRPO: advantages and figures by hand, and groups of siblings."""

import math

import pytest
from support.late import lates

from grue.algorithms.cards.grpo import GRPOConfig

torch, tiny, losses, exactness = lates("torch support.tiny support.losses support.exactness")
grpo, reinforce, rl, experience, trainer = lates(
    "algorithms.grpo algorithms.reinforce rl.functional rl.experience rl.trainer", "grue."
)
LOSS_OVER = ("tokens", "responses", "constant")


def run_of(family, algorithm, folder, **settings):
    return tiny.run(family, algorithm, folder, **{**tiny.SMALL.get(algorithm, {}), **settings})


def collected(run):
    learner = trainer.start(run.trainer, run.plan.config)
    return learner, experience.collect(run.trainer, learner, run.plan.config, 0)


def test_a_group_of_equal_scores_has_no_advantage_and_is_counted():
    for score in (0.1, 1 / 3, -7.77, 1e6):
        scores = torch.tensor([score] * 7 + [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        for scale_by in ("group", "nothing"):
            config = GRPOConfig(samples_per_prompt=7, scale_by=scale_by)
            advantages = grpo.group_advantages(scores, torch.ones(14, dtype=bool), config)
            assert advantages[:7].tolist() == [0.0] * 7
            assert (advantages[7:] != 0).all()
            assert grpo.flat_share(advantages, config) == 0.5
        assert rl.leave_one_out(scores[:7], 7).tolist() == [0.0] * 7


def test_weighted_figures_of_the_ratio_by_hand():
    # Ratios 2, 1/2, 1.1 and one that does not count; the range is [0.6, 1.15], or [0.6, 2.5].
    new = torch.tensor([[math.log(2.0), math.log(0.5), math.log(1.1), 5.0]])
    old, weights = torch.zeros(1, 4), torch.tensor([[0.5, 0.3, 0.2, 0.0]])
    figures = rl.ratio_figures(new, old, weights, 0.4, 0.15)
    assert float(figures["clip_fraction"]) == pytest.approx(0.8)
    assert float(figures["ratio_error"]) == pytest.approx(1.0)
    kl = 0.5 * (1 - math.log(2)) + 0.3 * (-0.5 + math.log(2)) + 0.2 * (0.1 - math.log(1.1))
    assert float(figures["approx_kl"]) == pytest.approx(kl, rel=1e-5)
    assert float(rl.ratio_figures(new, old, weights, 0.4, 1.5)["clip_fraction"]) == pytest.approx(0.3)


def test_whitened_advantages_have_mean_0_and_deviation_1_over_the_responses(tmp_path):
    run = run_of("causal", "rloo", tmp_path, whiten_advantages=True, reward=exactness.letters)
    advantages = losses.response_advantages(collected(run)[1], run.plan.config)
    assert float(advantages.mean()) == pytest.approx(0, abs=1e-6)
    assert float(advantages.std(correction=0)) == pytest.approx(1, rel=1e-4)
