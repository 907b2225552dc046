"""REINFORCE, RLOO and GRPO: advantages by hand, losses against slow loops, and what all algorithms owe."""

import math

import pytest
import torch
from support import oracles, tiny
from support.losses import of_grpo, of_reinforce, response_advantages

from grue.algorithms import grpo, reinforce
from grue.algorithms.cards.grpo import GRPOConfig
from grue.algorithms.cards.reinforce import ReinforceConfig
from grue.algorithms.cards.rloo import RLOOConfig
from grue.errors import ConfigError
from grue.lm.forward import forward
from grue.rl import functional as rl
from grue.rl.experience import collect
from grue.rl.trainer import start
from grue.runs.recipes import make_config
from grue.runs.train import Interrupted

FAMILIES = ["causal", "seq2seq"]
ALGOS = ["reinforce", "rloo", "grpo"]
ONE_FAMILY_EACH = [("reinforce", "causal"), ("rloo", "seq2seq"), ("grpo", "causal")]
LOSS_OVER = ("tokens", "responses", "constant")
GROUPED = {"reinforce": {}, "rloo": {"samples_per_prompt": 3}, "grpo": {"samples_per_prompt": 3}}


SHORT = {"updates": 2, "save_every": 9}


def run_of(family, algorithm, folder, **settings):
    return tiny.run(family, algorithm, folder, **{"epochs": 2, **GROUPED[algorithm], **settings})


# --- advantages by hand ----------------------------------------------------------------------------------------------


def test_leave_one_out_takes_the_mean_of_the_others():
    # (1, 4, 7): 1 − 5.5, 4 − 4, 7 − 2.5.   (0, 0, 3): 0 − 1.5, 0 − 1.5, 3 − 0.
    scores = torch.tensor([1.0, 4.0, 7.0, 0.0, 0.0, 3.0])
    assert rl.leave_one_out(scores, 3).tolist() == [-4.5, 0.0, 4.5, -1.5, -1.5, 3.0]


def test_of_two_responses_each_is_the_others_baseline():
    scores = torch.tensor([0.25, 1.0, 2.0, -2.0])
    assert rl.leave_one_out(scores, 2).tolist() == [-0.75, 0.75, 4.0, -4.0]


def test_grpo_divides_by_the_groups_sample_deviation():
    # (1, 2, 3, 6): mean 3, squares 4 + 1 + 0 + 9 = 14, deviation √(14/3) = 2.1602469.
    # (0, 0, 0, 1): mean 1/4, squares 3/16 + 9/16 = 3/4, deviation √(1/4) = 1/2.
    scores = torch.tensor([1.0, 2.0, 3.0, 6.0, 0.0, 0.0, 0.0, 1.0])
    first = [x / 2.1603469 for x in (-2, -1, 0, 3)]
    second = [x / 0.5001 for x in (-0.25, -0.25, -0.25, 0.75)]
    config = GRPOConfig(samples_per_prompt=4)
    assert grpo.group_advantages(scores, torch.ones(8, dtype=bool), config).tolist() == pytest.approx(
        first + second, rel=1e-6
    )
    centred = GRPOConfig(samples_per_prompt=4, scale_by="nothing")
    plain = grpo.group_advantages(scores, torch.ones(8, dtype=bool), centred)
    assert plain.tolist() == [-2.0, -1.0, 0.0, 3.0, -0.25, -0.25, -0.25, 0.75]


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


# --- losses against slow loops ---------------------------------------------------------------------------------------


def letters(examples, texts):
    """A reward in which siblings differ."""
    return [len(set(text)) / 10 + text.count("a") / 7 for text in texts]


def moved(family, algorithm, folder, **settings):
    """An experience, and a learner whose policy has moved on since, as in a second epoch; reference moved, too."""
    task = tiny.task(family, top_k=9, temperature=0.8)
    run = run_of(family, algorithm, folder, task_=task, kl_coefficient=0.3, reward=letters, **settings)
    learner = start(run.trainer, run.plan.config)
    learner.reference.load_state_dict(tiny.model(family, seed=5).state_dict())
    experience = collect(run.trainer, learner, run.plan.config, 0)
    with torch.no_grad():
        for parameter in run.trainer.policy.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(7)))
    return run, learner, experience


def slow_log_probs(model, experience, row):
    """log π of a response's tokens among the nine likeliest of the policy that was sampled, one response at a time."""
    rollout, alone = experience.rollout, torch.tensor([row])
    prompts, responses = rollout.prompts.rows(alone), rollout.responses.rows(alone)
    with torch.no_grad():
        logits = (forward(model, prompts, responses)[0][0] / 0.8).tolist()
    allowed = rollout.open_vocabulary(alone, len(logits), model.config.vocab_size)[0]
    return [
        oracles.token_log_prob(logits[t], int(token), allowed[t].nonzero().flatten().tolist())
        for t, token in enumerate(responses.ids[0])
    ]


def slow_worth(run, family, experience, row):
    """The response's score less 0.3 nats' worth of every nat that it strays from the reference."""
    old = slow_log_probs(tiny.model(family), experience, row)
    before = slow_log_probs(tiny.model(family, seed=5), experience, row)
    return float(experience.raw_scores[row]) - 0.3 * (sum(old) - sum(before))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("algorithm", ["reinforce", "rloo"])
def test_the_loss_of_reinforce_and_rloo_is_that_of_slow_loops(family, algorithm, tmp_path):
    run, learner, experience = moved(family, algorithm, tmp_path)
    worth = [slow_worth(run, family, experience, row) for row in range(12)]
    if algorithm == "reinforce":
        advantages = [one - sum(worth) / 12 for one in worth]
    else:
        groups = [range(row - row % 3, row - row % 3 + 3) for row in range(12)]
        advantages = [worth[r] - sum(worth[o] for o in g if o != r) / 2 for r, g in zip(range(12), groups, strict=True)]
    found = response_advantages(experience, run.plan.config)
    assert found.tolist() == pytest.approx(advantages, abs=1e-4)
    expected, clipped = 0.0, 0
    rows = [1, 4, 7, 10]
    for row in rows:
        new = slow_log_probs(run.trainer.policy, experience, row)
        old = slow_log_probs(tiny.model(family), experience, row)
        expected += sum(oracles.clipped_loss(n, o, advantages[row], 0.2) for n, o in zip(new, old, strict=True))
        clipped += sum(abs(math.exp(n - o) - 1) > 0.2 for n, o in zip(new, old, strict=True))
    losses = of_reinforce(run, learner, run.plan.config, experience, found, torch.tensor(rows))
    assert losses["loss"].item() == pytest.approx(expected, rel=1e-3)
    assert int(losses["clip_fraction"]) == clipped > 0


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("loss_over", ["tokens", "responses"])
@pytest.mark.parametrize("clip_high", [None, 0.4])
def test_the_loss_of_grpo_is_that_of_slow_loops(family, loss_over, clip_high, tmp_path):
    run, learner, experience = moved(family, "grpo", tmp_path, loss_over=loss_over, clip_high=clip_high)
    config, scores, rows = run.plan.config, experience.raw_scores.tolist(), range(1, 12)
    expected, penalties, clipped, high, between = 0.0, 0.0, 0.0, clip_high or 0.2, 0
    for row in rows:
        group = scores[row - row % 3 : row - row % 3 + 3]
        mean = sum(group) / 3
        advantage = (scores[row] - mean) / (math.sqrt(sum((s - mean) ** 2 for s in group) / 2) + 1e-4)
        new = slow_log_probs(run.trainer.policy, experience, row)
        old = slow_log_probs(tiny.model(family), experience, row)
        before = slow_log_probs(tiny.model(family, seed=5), experience, row)
        share = 1.0 if loss_over == "tokens" else 1 / len(new)
        for n, o, b in zip(new, old, before, strict=True):
            ratio = math.exp(n - o)
            penalty = math.exp(b - n) - 1 - (b - n)
            expected += share * (-min(ratio * advantage, max(0.8, min(1 + high, ratio)) * advantage) + 0.3 * penalty)
            penalties += share * penalty
            clipped += not 0.8 <= ratio <= 1 + high
            between += advantage > 0 and 1.2 < ratio < 1.5  # where the two upper bounds differ
    found = grpo.group_advantages(experience.scores, experience.scored, config)
    weights = grpo.token_weights(experience.mask, config, 8)
    losses = of_grpo(run, learner, config, experience, found, weights, torch.tensor([*rows]))
    assert between > 0
    assert losses["loss"].item() == pytest.approx(expected, rel=1e-3)
    assert losses["reference_kl"].item() == pytest.approx(penalties, rel=1e-3)
    share = 1.0 if loss_over == "tokens" else 12 / int(experience.mask.sum())
    assert losses["clip_fraction"].item() == pytest.approx(clipped * share, rel=1e-5)
    assert clipped > 0


def test_what_is_logged_of_the_ratio_is_a_mean_over_tokens_whatever_the_loss_divides_by(tmp_path):
    """Else `stop_kl` would see another divergence, such as the larger the more of it is in short responses."""
    means = {}
    for loss_over in LOSS_OVER:
        run, learner, experience = moved("causal", "grpo", tmp_path, loss_over=loss_over)
        config, rows = run.plan.config, torch.arange(12)
        weights = grpo.token_weights(experience.mask, config, 20)  # longer than any response
        advantages = grpo.group_advantages(experience.scores, experience.scored, config)
        losses = of_grpo(run, learner, config, experience, advantages, weights, rows)
        count = weights.sum() if loss_over == "tokens" else 12
        means[loss_over] = [float(losses[name] / count) for name in ("approx_kl", "clip_fraction")]
    assert means["constant"] == means["responses"] == pytest.approx(means["tokens"], rel=1e-5)
    assert min(means["tokens"]) > 0


def test_grpo_judges_the_rewards_themselves_whatever_the_penalty(tmp_path, monkeypatch):
    judge, judged, rewards = grpo.group_advantages, [], []
    monkeypatch.setattr(grpo, "group_advantages", lambda scores, *more: judged.append(scores) or judge(scores, *more))

    def reward(examples, texts):
        rewards.append(tiny.share_of_the(examples, texts))
        return rewards[-1]

    tiny.train(run_of("causal", "grpo", tmp_path, kl_coefficient=0.5, updates=3, validate_every=4, reward=reward))
    assert len(judged) == 3
    rollouts = [values for values in rewards if len(values) == 12]  # four are validated
    for scores, values in zip(judged, rollouts, strict=True):
        assert scores.tolist() == pytest.approx(values)


def test_grpo_has_the_penalty_in_the_gradient(tmp_path):
    run, learner, experience = moved("causal", "grpo", tmp_path)
    assert experience.scores.tolist() == experience.raw_scores.tolist()
    nothing, weights = torch.zeros(12), grpo.token_weights(experience.mask, run.plan.config, 8)
    losses = of_grpo(run, learner, run.plan.config, experience, nothing, weights, torch.arange(12))
    losses["loss"].backward()
    assert losses["policy_loss"].item() == 0.0
    assert max(float(p.grad.abs().max()) for p in run.trainer.policy.parameters() if p.grad is not None) > 0


def test_whitened_advantages_have_mean_0_and_deviation_1_over_the_responses(tmp_path):
    run, _, experience = moved("causal", "rloo", tmp_path, whiten_advantages=True)
    advantages = response_advantages(experience, run.plan.config)
    assert float(advantages.mean()) == pytest.approx(0, abs=1e-6)
    assert float(advantages.std(correction=0)) == pytest.approx(1, rel=1e-4)


# --- what all algorithms owe -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("algorithm", ALGOS)
def test_the_first_minibatch_has_ratio_one_and_clips_nothing(family, algorithm, tmp_path):
    task = tiny.task(family, top_k=9, min_new_tokens=2)
    run = tiny.train(run_of(family, algorithm, tmp_path, task_=task, epochs=1, minibatch_size=12, **SHORT))
    for line in run.observer.lines:
        assert line["policy/ratio_error"] < 1e-5
        assert line["policy/clip_fraction"] == 0
        assert abs(line["policy/approx_kl"]) < 1e-6
    assert run.observer.lines[0]["objective/kl"] == 0
    assert ("objective/flat_groups" in run.observer.lines[0]) == (algorithm == "grpo")


@pytest.mark.parametrize(("algorithm", "family"), ONE_FAMILY_EACH)
def test_an_interrupted_run_goes_on_bit_for_bit(family, algorithm, tmp_path):
    length = {"updates": 3, "kl_target": 0.05, "reward_scale": "running"}
    whole = tiny.train(run_of(family, algorithm, tmp_path / "whole", **length))
    first = run_of(family, algorithm, tmp_path / "stopped", **length)
    first.stop = lambda: len(first.observer.lines) >= 2
    with pytest.raises(Interrupted):
        tiny.train(first)
    second = tiny.train(run_of(family, algorithm, tmp_path / "stopped", **length))
    assert second.observer.begin == (2, 3)
    assert torch.equal(tiny.weights(second.trainer.policy), tiny.weights(whole.trainer.policy))
    assert tiny.logged(tmp_path / "stopped") == tiny.logged(tmp_path / "whole")


@pytest.mark.parametrize("algorithm", ALGOS)
def test_equal_seeds_train_equal_policies_and_other_seeds_others(algorithm, tmp_path):
    runs = [
        tiny.train(run_of("causal", algorithm, tmp_path / str(i), seed=seed, **SHORT))
        for i, seed in enumerate((1, 1, 2))
    ]
    assert torch.equal(tiny.weights(runs[0].trainer.policy), tiny.weights(runs[1].trainer.policy))
    assert not torch.equal(tiny.weights(runs[0].trainer.policy), tiny.weights(runs[2].trainer.policy))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [("reinforce", {}), ("rloo", {}), ("grpo", {"loss_over": "tokens"}), ("grpo", {"loss_over": "responses"})],
)
def test_accumulated_gradients_are_those_of_the_whole_minibatch(family, algorithm, settings, tmp_path):
    steps = {"updates": 1, "epochs": 1, "minibatch_size": 12, **settings}
    lines = [
        tiny.train(run_of(family, algorithm, tmp_path / str(size), micro_batch_size=size, **steps)).observer.lines[0]
        for size in (64, 5, 1)
    ]
    for line in lines[1:]:
        for name in ("policy/grad_norm", "loss/total", "policy/approx_kl"):
            assert line[name] == pytest.approx(lines[0][name], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("algorithm", ALGOS)
def test_no_split_into_batches_changes_an_advantage(algorithm, tmp_path, monkeypatch):
    module, name = (grpo, "group_advantages") if algorithm == "grpo" else (reinforce, "response_advantages")
    judge, seen = getattr(module, name), []

    def watched(*arguments):
        seen.append(judge(*arguments))
        return seen[-1]

    monkeypatch.setattr(module, name, watched)
    for micro, mini in ((64, 12), (5, 12), (1, 4), (3, 5)):
        settings = {"updates": 1, "micro_batch_size": micro, "minibatch_size": mini}
        tiny.train(run_of("causal", algorithm, tmp_path / f"{micro}-{mini}", **settings))
    assert len(seen) == 4
    assert seen[0].abs().max() > 0
    for other in seen[1:]:
        assert torch.allclose(other, seen[0], atol=1e-6)


@pytest.mark.parametrize(("algorithm", "family"), ONE_FAMILY_EACH)
def test_the_reward_is_learnt(family, algorithm, tmp_path):
    settings = {"updates": 12, "learning_rate": 1e-2, "kl_coefficient": 0.0, "rollouts": 24, "minibatch_size": 24}
    run = tiny.train(run_of(family, algorithm, tmp_path, validate_every=12, save_every=12, **settings))
    rewards = [line["objective/reward"] for line in run.observer.lines]
    assert rewards[-1] > rewards[0] + 0.3


@pytest.mark.parametrize("algorithm", ALGOS)
def test_a_high_kl_coefficient_holds_the_policy_back(algorithm, tmp_path):
    settings = {"updates": 6, "learning_rate": 5e-3, "validate_every": 6, "rollouts": 24, "minibatch_size": 24}
    settings |= {"save_every": 6}
    free = tiny.train(run_of("causal", algorithm, tmp_path / "free", kl_coefficient=0.0, **settings))
    held = tiny.train(run_of("causal", algorithm, tmp_path / "held", kl_coefficient=1.0, **settings))
    assert held.observer.lines[-1]["objective/kl"] < 0.5 * free.observer.lines[-1]["objective/kl"]


@pytest.mark.parametrize("algorithm", ["rloo", "grpo"])
def test_the_weight_of_the_penalty_follows_its_controller(algorithm, tmp_path):
    run = tiny.train(run_of("causal", algorithm, tmp_path, kl_target=0.01, kl_coefficient=0.2, updates=4, save_every=9))
    lines = run.observer.lines
    for before, after in zip(lines, lines[1:], strict=False):
        error = max(-0.2, min(0.2, (before["objective/kl"] - 0.01) / 0.01))
        expected = before["objective/kl_coefficient"] * (1 + 0.1 * error)
        assert after["objective/kl_coefficient"] == pytest.approx(expected)
    assert lines[-1]["objective/kl_coefficient"] != 0.2


def test_siblings_answer_the_same_prompt_and_differ(tmp_path):
    run = run_of("causal", "grpo", tmp_path, samples_per_prompt=4)
    experience = collect(run.trainer, start(run.trainer, run.plan.config), run.plan.config, 0)
    prompts = [tuple(row) for row in experience.rollout.prompts.ids.tolist()]
    answers = [tuple(row) for row in experience.rollout.responses.ids.tolist()]
    for first in range(0, 12, 4):
        assert len(set(prompts[first : first + 4])) == 1
        assert len(set(answers[first : first + 4])) > 1
    assert len(set(prompts)) == 3


@pytest.mark.parametrize(
    ("algorithm", "settings", "message"),
    [
        ("rloo", {"rollouts": 30, "minibatch_size": 10}, "rollouts 30 is no multiple of samples_per_prompt 4"),
        ("grpo", {"rollouts": 60, "minibatch_size": 10}, "rollouts 60 is no multiple of samples_per_prompt 8"),
        ("rloo", {"samples_per_prompt": 1}, "samples_per_prompt must be at least 2, found 1"),
        ("grpo", {"samples_per_prompt": 1}, "samples_per_prompt must be at least 2, found 1"),
        ("grpo", {"samples_per_prompt": 0}, "samples_per_prompt must be at least 2, found 0"),
    ],
)
def test_groups_that_do_not_fit_are_refused(algorithm, settings, message):
    with pytest.raises(ConfigError, match=message):
        make_config(tiny.task("causal"), algorithm, settings)


def test_reinforce_needs_no_siblings():
    assert type(make_config(tiny.task("causal"), "reinforce", {})) is ReinforceConfig
    assert make_config(tiny.task("causal"), "rloo", {}) == RLOOConfig()
