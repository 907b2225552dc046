"""REINFORCE, RLOO and GRPO: advantages by hand, and losses against slow loops."""

import math

import pytest
from support.late import late

from grue.algorithms.cards.grpo import GRPOConfig
from grue.algorithms.cards.reinforce import ReinforceConfig
from grue.algorithms.cards.rloo import RLOOConfig
from grue.errors import ConfigError
from grue.runs.recipes import make_config

torch, tiny, oracles, losses, exactness = (
    late(name) for name in ("torch", "support.tiny", "support.oracles", "support.losses", "support.exactness")
)
grpo, reinforce, rl, experience, trainer, lm = (
    late(f"grue.{name}")
    for name in (
        "algorithms.grpo",
        "algorithms.reinforce",
        "rl.functional",
        "rl.experience",
        "rl.trainer",
        "lm.forward",
    )
)
FAMILIES = ["causal", "seq2seq"]
LOSS_OVER = ("tokens", "responses", "constant")


def run_of(family, algorithm, folder, **settings):
    return tiny.run(family, algorithm, folder, **{**tiny.SMALL.get(algorithm, {}), **settings})


def collected(run):
    learner = trainer.start(run.trainer, run.plan.config)
    return learner, experience.collect(run.trainer, learner, run.plan.config, 0)


# --- advantages by hand ----------------------------------------------------------------------------------------------


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


# --- losses against slow loops ---------------------------------------------------------------------------------------


def moved(family, algorithm, folder, **settings):
    """An experience, and a learner whose policy has moved on since, as in a second epoch; reference moved, too."""
    task = tiny.task(family, top_k=9, temperature=0.8)
    run = run_of(family, algorithm, folder, task_=task, kl_coefficient=0.3, reward=exactness.letters, **settings)
    learner = trainer.start(run.trainer, run.plan.config)
    learner.reference.load_state_dict(tiny.model(family, seed=5).state_dict())
    found = experience.collect(run.trainer, learner, run.plan.config, 0)
    with torch.no_grad():
        for parameter in run.trainer.policy.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(7)))
    return run, learner, found


def slow_log_probs(model, found, row):
    """log π of a response's tokens among the nine likeliest of the policy that was sampled, one response at a time."""
    rollout, alone = found.rollout, torch.tensor([row])
    prompts, responses = rollout.prompts.rows(alone), rollout.responses.rows(alone)
    with torch.no_grad():
        logits = (lm.forward(model, prompts, responses)[0][0] / 0.8).tolist()
    allowed = rollout.open_vocabulary(alone, len(logits), model.config.vocab_size)[0]
    return [
        oracles.token_log_prob(logits[t], int(token), allowed[t].nonzero().flatten().tolist())
        for t, token in enumerate(responses.ids[0])
    ]


@pytest.mark.parametrize(("algorithm", "family"), [("reinforce", "causal"), ("rloo", "seq2seq")])
def test_the_loss_of_reinforce_and_rloo_is_that_of_slow_loops(family, algorithm, tmp_path):
    """A response is worth its score less 0.3 of every nat that it strays from the reference."""
    run, learner, found = moved(family, algorithm, tmp_path)
    old, before = ([slow_log_probs(tiny.model(family, seed=s), found, row) for row in range(12)] for s in (0, 5))
    worth = [float(found.raw_scores[row]) - 0.3 * (sum(old[row]) - sum(before[row])) for row in range(12)]
    if algorithm == "reinforce":
        advantages = [one - sum(worth) / 12 for one in worth]
    else:
        groups = [range(row - row % 3, row - row % 3 + 3) for row in range(12)]
        advantages = [worth[r] - sum(worth[o] for o in g if o != r) / 2 for r, g in zip(range(12), groups, strict=True)]
    judged = losses.response_advantages(found, run.plan.config)
    assert judged.tolist() == pytest.approx(advantages, abs=1e-4)
    expected, clipped, rows = 0.0, 0, [1, 4, 7, 10]
    for row in rows:
        new = slow_log_probs(run.trainer.policy, found, row)
        pairs = list(zip(new, old[row], strict=True))
        expected += sum(oracles.clipped_loss(n, o, advantages[row], 0.2) for n, o in pairs)
        clipped += sum(abs(math.exp(n - o) - 1) > 0.2 for n, o in pairs)
    found = losses.of_reinforce(run, learner, run.plan.config, found, judged, torch.tensor(rows))
    assert found["loss"].item() == pytest.approx(expected, rel=1e-3)
    assert int(found["clip_fraction"]) == clipped > 0


@pytest.mark.parametrize(
    ("family", "loss_over", "clip_high"), [("causal", "tokens", 0.4), ("seq2seq", "responses", None)]
)
def test_the_loss_of_grpo_is_that_of_slow_loops(family, loss_over, clip_high, tmp_path):
    run, learner, found = moved(family, "grpo", tmp_path, loss_over=loss_over, clip_high=clip_high)
    config, scores, rows = run.plan.config, found.raw_scores.tolist(), range(1, 12)
    assert found.scores.tolist() == scores, "the penalty is in the loss and not in the score"
    expected, penalties, clipped, high, between = 0.0, 0.0, 0.0, clip_high or 0.2, 0
    for row in rows:
        group = scores[row - row % 3 : row - row % 3 + 3]
        mean = sum(group) / 3
        advantage = (scores[row] - mean) / (math.sqrt(sum((s - mean) ** 2 for s in group) / 2) + 1e-4)
        models = (run.trainer.policy, tiny.model(family), tiny.model(family, seed=5))
        new, old, before = (slow_log_probs(model, found, row) for model in models)
        share = 1.0 if loss_over == "tokens" else 1 / len(new)
        for n, o, b in zip(new, old, before, strict=True):
            ratio = math.exp(n - o)
            penalty = math.exp(b - n) - 1 - (b - n)
            expected += share * (-min(ratio * advantage, max(0.8, min(1 + high, ratio)) * advantage) + 0.3 * penalty)
            penalties += share * penalty
            clipped += not 0.8 <= ratio <= 1 + high
            between += advantage > 0 and 1.2 < ratio < 1.5  # where the two upper bounds differ
    advantages = grpo.group_advantages(found.scores, found.scored, config)
    weights = grpo.token_weights(found.mask, config, 8)
    loss = losses.of_grpo(run, learner, config, found, advantages, weights, torch.tensor([*rows]))
    assert between > 0
    assert loss["loss"].item() == pytest.approx(expected, rel=1e-3)
    assert loss["reference_kl"].item() == pytest.approx(penalties, rel=1e-3)
    share = 1.0 if loss_over == "tokens" else 12 / int(found.mask.sum())
    assert loss["clip_fraction"].item() == pytest.approx(clipped * share, rel=1e-5)
    assert clipped > 0


def test_what_is_logged_of_the_ratio_is_a_mean_over_tokens_whatever_the_loss_divides_by(tmp_path):
    """Else `stop_kl` would see another divergence, such as the larger the more of it is in short responses."""
    means = {}
    run, learner, found = moved("causal", "grpo", tmp_path)
    for loss_over in LOSS_OVER:
        config = tiny.changed(run.plan.config, loss_over=loss_over)
        weights = grpo.token_weights(found.mask, config, 20)  # longer than any response
        advantages = grpo.group_advantages(found.scores, found.scored, config)
        loss = losses.of_grpo(run, learner, config, found, advantages, weights, torch.arange(12))
        count = weights.sum() if loss_over == "tokens" else 12
        means[loss_over] = [float(loss[name] / count) for name in ("approx_kl", "clip_fraction")]
    assert means["constant"] == means["responses"] == pytest.approx(means["tokens"], rel=1e-5)
    assert min(means["tokens"]) > 0


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


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("rloo", {"rollouts": 30, "minibatch_size": 10}),
        ("grpo", {"rollouts": 60, "minibatch_size": 10}),
        ("rloo", {"samples_per_prompt": 1}),
        ("grpo", {"samples_per_prompt": 0}),
    ],
)
def test_groups_that_do_not_fit_are_refused(algorithm, settings, refused):
    with refused(ConfigError):
        make_config(tiny.task("causal"), algorithm, settings)


def test_reinforce_needs_no_siblings():
    assert type(make_config(tiny.task("causal"), "reinforce", {})) is ReinforceConfig
    assert make_config(tiny.task("causal"), "rloo", {}) == RLOOConfig()
