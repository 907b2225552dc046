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


def test_leave_one_out_takes_the_mean_of_the_others():
    # (1, 4, 7): 1 − 5.5, 4 − 4, 7 − 2.5.   (0, 0, 3): 0 − 1.5, 0 − 1.5, 3 − 0.
    scores = torch.tensor([1.0, 4.0, 7.0, 0.0, 0.0, 3.0])
    assert rl.leave_one_out(scores, 3).tolist() == [-4.5, 0.0, 4.5, -1.5, -1.5, 3.0]


def test_grpo_divides_by_the_groups_sample_deviation():
    # (1, 2, 3, 6): mean 3, squares 4 + 1 + 0 + 9 = 14, deviation √(14/3) = 2.1602469.
    # (0, 0, 0, 1): mean 1/4, squares 3/16 + 9/16 = 3/4, deviation √(1/4) = 1/2.
    scores, counts = torch.tensor([1.0, 2.0, 3.0, 6.0, 0.0, 0.0, 0.0, 1.0]), torch.ones(8, dtype=bool)
    wanted = [*(x / 2.1603469 for x in (-2, -1, 0, 3)), *(x / 0.5001 for x in (-0.25, -0.25, -0.25, 0.75))]
    found = grpo.group_advantages(scores, counts, GRPOConfig(samples_per_prompt=4))
    assert found.tolist() == pytest.approx(wanted, rel=1e-6)
    plain = grpo.group_advantages(scores, counts, GRPOConfig(samples_per_prompt=4, scale_by="nothing"))
    assert plain.tolist() == [-2.0, -1.0, 0.0, 3.0, -0.25, -0.25, -0.25, 0.75]


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


def test_weights_over_responses_count_each_response_once():
    mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
    over = {what: grpo.token_weights(mask, GRPOConfig(loss_over=what), 8).tolist() for what in LOSS_OVER}
    assert over == {
        "tokens": [[1, 1, 1, 1], [1, 1, 0, 0]],
        "responses": [[0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0, 0]],
        "constant": [[0.125, 0.125, 0.125, 0.125], [0.125, 0.125, 0, 0]],
    }


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


@pytest.mark.parametrize("algorithm", ["reinforce", "rloo", "grpo"])
def test_no_split_into_batches_changes_an_advantage(algorithm, tmp_path, monkeypatch):
    module, name = (grpo, "group_advantages") if algorithm == "grpo" else (reinforce, "response_advantages")
    judge, seen = getattr(module, name), []

    def watched(*arguments):
        seen.append(judge(*arguments))
        return seen[-1]

    monkeypatch.setattr(module, name, watched)
    for micro, mini in ((64, 12), (3, 5)):
        settings = {"micro_batch_size": micro, "minibatch_size": mini, "epochs": 1, "reward": exactness.letters}
        tiny.updated(run_of("causal", algorithm, tmp_path, **settings))
    assert len(seen) == 2 and seen[0].abs().max() > 0
    assert torch.allclose(seen[0], seen[1], atol=1e-6)


def test_siblings_answer_the_same_prompt_and_differ(tmp_path):
    _, found = collected(run_of("causal", "grpo", tmp_path, samples_per_prompt=4))
    prompts = [tuple(row) for row in found.rollout.prompts.ids.tolist()]
    answers = [tuple(row) for row in found.rollout.responses.ids.tolist()]
    for first in range(0, 12, 4):
        assert len(set(prompts[first : first + 4])) == 1
        assert len(set(answers[first : first + 4])) > 1
    assert len(set(prompts)) == 3
