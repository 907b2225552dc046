"""TRPO against a dense Fisher matrix built token by token, on models small enough to write it down."""

import copy
import json
import math

import pytest
import torch
from support import oracles, tiny
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration

from grue.algorithms import trpo
from grue.algorithms.cards.trpo import TRPOConfig
from grue.errors import TrainingError
from grue.lm import distributions
from grue.lm.adapters import adapt
from grue.rl import functional as rl
from grue.rl.experience import advantages_and_returns, collect
from grue.runs.train import Interrupted

FAMILIES = ["causal", "seq2seq"]
TEMPERATURE = 0.8


def minute(family):
    """A model of some hundred weights."""
    torch.manual_seed(5)
    size = len(tiny.WORDS) + 3
    if family == "causal":
        config = GPT2Config(
            vocab_size=size, n_layer=1, n_embd=4, n_head=2, n_positions=18, bos_token_id=1, eos_token_id=1,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, initializer_range=0.5,
        )  # fmt: skip
        return GPT2LMHeadModel(config).eval()
    config = T5Config(
        vocab_size=size, d_model=4, d_kv=2, d_ff=4, num_layers=1, num_heads=2, dropout_rate=0.0,
        relative_attention_num_buckets=4, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
    )  # fmt: skip
    return T5ForConditionalGeneration(config).eval()


def problem(family, folder, top_k=0, model=minute, **settings):
    """A policy's first step, ready to be taken, and its weights."""
    task = tiny.task(family, top_k=top_k, temperature=TEMPERATURE, max_new_tokens=5)
    run = tiny.run(family, "trpo", folder, task_=task, **{"rollouts": 5, "minibatch_size": 5, **settings})
    run.trainer.policy = model(family)
    learner = trpo.start(run.trainer, run.plan.config)
    experience = collect(run.trainer, learner, run.plan.config, 0)
    advantages = torch.randn(experience.mask.shape, generator=torch.Generator().manual_seed(4)) * experience.mask
    made = trpo.TrustRegion(run.trainer, run.trainer.policy, run.plan.config, experience, advantages)
    return made, [p for p in run.trainer.policy.parameters() if p.requires_grad]


def log_softmax(logits):
    return logits - torch.log(torch.exp(logits).sum())


def token_log_probs(policy, rollout, top_k):
    """For each row, unpadded: for each token that counts, log π of all tokens that could be drawn, and which was."""
    rows = []
    for b in range(len(rollout.responses.ids)):
        prompt = rollout.prompts.ids[b][rollout.prompts.mask[b]]
        said = rollout.responses.ids[b][rollout.responses.mask[b]]
        if policy.config.is_encoder_decoder:
            shifted = torch.cat([torch.tensor([0]), said[:-1]])
            logits = policy(input_ids=prompt[None], decoder_input_ids=shifted[None]).logits[0]
        else:
            logits = policy(torch.cat([prompt, said])[None]).logits[0, len(prompt) - 1 : -1]
        row = []
        for t, token in enumerate(said.tolist()):
            allowed = list(range(logits.shape[1]))
            if top_k:
                allowed = sorted(allowed, key=lambda v: -logits[t, v].item())[:top_k]
            row.append((allowed, log_softmax(logits[t, allowed] / TEMPERATURE), allowed.index(token)))
        rows.append(row)
    return rows


def derivative(value, parameters):
    parts = torch.autograd.grad(value, parameters, retain_graph=True, allow_unused=True)
    return torch.cat(
        [(torch.zeros_like(p) if g is None else g).flatten() for g, p in zip(parts, parameters, strict=True)]
    )


def dense(made, top_k, damping, rows=None, entropy_coefficient=0.0):
    """The damped Fisher matrix and the surrogate's gradient in float64, one Jacobian a token.

    The Fisher matrix of a token is the mean over what could be drawn of ∇log π ∇log πᵀ.
    """
    policy = copy.deepcopy(made.policy).double()
    parameters = list(policy.parameters())
    size = sum(p.numel() for p in parameters)
    fisher, gradient, tokens, counted = torch.zeros(size, size).double(), torch.zeros(size).double(), 0, 0
    for b, row in enumerate(token_log_probs(policy, made.experience.rollout, top_k)):
        for t, (_, log_p, drawn) in enumerate(row):
            scores = torch.stack([derivative(log_p[i], parameters) for i in range(len(log_p))])
            if rows is None or b in rows:
                fisher += scores.T @ (log_p.exp().detach()[:, None] * scores)
                counted += 1
            gradient += made.advantages[b, t].item() * scores[drawn]
            if entropy_coefficient:
                gradient -= entropy_coefficient * derivative((log_p.exp() * log_p).sum(), parameters)
            tokens += 1
    return fisher / counted + damping * torch.eye(size), gradient / tokens


def mean_kl(before, after, rollout, top_k):
    """KL(before‖after), a mean over tokens; what could be drawn is what `before` says."""
    total, tokens = 0.0, 0
    with torch.no_grad():
        old, new = token_log_probs(before, rollout, top_k), token_log_probs(after, rollout, 0)
    for old_row, new_row in zip(old, new, strict=True):
        for (allowed, log_p, _), (_, everything, _) in zip(old_row, new_row, strict=True):
            log_q = log_softmax(everything[allowed])
            total += (log_p.exp() * (log_p - log_q)).sum().item()
            tokens += 1
    return total / tokens


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("top_k", "micro_batch_size", "rows"), [(0, 64, [0, 1, 2, 3, 4]), (6, 2, [0, 1, 2, 3, 4]), (6, 64, [3, 1])]
)
def test_products_are_those_of_the_dense_fisher_matrix(family, top_k, micro_batch_size, rows, tmp_path):
    settings = {"cg_damping": 0.03, "micro_batch_size": micro_batch_size}
    made, parameters = problem(family, tmp_path, top_k, **settings)
    matrix, _ = dense(made, top_k, 0.03, rows)
    assert torch.linalg.matrix_rank(matrix - 0.03 * torch.eye(len(matrix))) > 10
    for seed in range(2):
        vector = torch.randn(len(matrix), generator=torch.Generator().manual_seed(seed))
        found = trpo.fisher_product(made, parameters, torch.tensor(rows), vector)
        expected = matrix @ vector.double()
        assert float((found - expected).norm()) < 1e-4 * float(expected.norm())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("top_k", [0, 6])
@pytest.mark.parametrize("entropy_coefficient", [0.0, 0.05])
def test_the_step_is_the_natural_gradient_at_the_edge_of_the_region(family, top_k, entropy_coefficient, tmp_path):
    settings = {"cg_steps": 300, "entropy_coefficient": entropy_coefficient}
    made, _ = problem(family, tmp_path, top_k, **settings)
    before = copy.deepcopy(made.policy)
    matrix, gradient = dense(made, top_k, 0.1, entropy_coefficient=entropy_coefficient)
    line = trpo.improve_policy(made, 0)
    direction = torch.linalg.solve(matrix, gradient)
    longest = direction * (2 * 0.01 / (direction @ matrix @ direction)).sqrt()
    expected = 0.8 ** (line["policy/line_search_steps"] - 1) * longest
    found = tiny.weights(made.policy).double() - tiny.weights(before).double()
    assert float((found - expected).norm()) < 2e-3 * float(expected.norm())
    assert line["policy/step_size"] == pytest.approx(float(expected.norm()), rel=2e-3)
    assert line["policy/grad_norm"] == pytest.approx(float(gradient.norm()), rel=1e-4)
    assert line["policy/ratio_error"] < 1e-5
    assert 0 < line["policy/kl_after"] <= 0.01
    kl = mean_kl(before, made.policy, made.experience.rollout, top_k)
    assert line["policy/kl_after"] == pytest.approx(kl, rel=1e-3)


def test_conjugate_gradient_solves_what_a_direct_solver_solves():
    chance = torch.Generator().manual_seed(1)
    root = torch.randn(20, 20, generator=chance)
    matrix, target = root @ root.T + 0.5 * torch.eye(20), torch.randn(20, generator=chance)
    solution, residual = rl.conjugate_gradient(lambda v: matrix @ v, target, 60)
    expected = torch.linalg.solve(matrix.double(), target.double())
    assert float((solution - expected).norm()) < 1e-3 * float(expected.norm())
    assert float(residual.norm()) < 1e-4 * float(target.norm())
    few, left = rl.conjugate_gradient(lambda v: matrix @ v, target, 4)
    assert torch.allclose(left, target - matrix @ few, atol=1e-4)
    assert float(left.norm()) > float(residual.norm())


def test_conjugate_gradient_asks_no_more_products_than_it_needs():
    asked = []
    target = torch.tensor([3.0, -4.0])
    solution, _ = rl.conjugate_gradient(lambda v: asked.append(v) or 2 * v, target, 15)
    assert len(asked) == 1 and torch.equal(solution, target / 2)
    solution, _ = rl.conjugate_gradient(lambda v: asked.append(v) or 2 * v, torch.zeros(2), 15)
    assert len(asked) == 1 and torch.equal(solution, torch.zeros(2))


def test_kl_divergence_is_that_of_two_plain_softmaxes():
    chance = torch.Generator().manual_seed(2)
    logits, other = 2 * torch.randn(5, 7, generator=chance), torch.randn(5, 7, generator=chance)
    logits[:, 3] = other[:, 3] = float("-inf")
    found = distributions.kl_divergence(logits, other).tolist()
    for a, b, kl in zip(logits.tolist(), other.tolist(), found, strict=True):
        p, q = oracles.softmax(a), oracles.softmax(b)
        assert kl == pytest.approx(sum(x * math.log(x / y) for x, y in zip(p, q, strict=True) if x), abs=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("found", [(float("inf"), 0.011), (float("-inf"), 0.0), (float("nan"), 0.0)])
def test_a_line_search_without_success_restores_the_weights_bit_for_bit(family, found, tmp_path, monkeypatch):
    made, _ = problem(family, tmp_path, line_search_steps=4)
    before, seen = tiny.weights(made.policy), []
    monkeypatch.setattr(trpo, "surrogate_and_kl", lambda given, _: seen.append(tiny.weights(given.policy)) or found)
    line = trpo.improve_policy(made, 0)
    assert torch.equal(tiny.weights(made.policy), before)
    assert (line["policy/step_size"], line["policy/kl_after"], line["policy/line_search_steps"]) == (0, 0, 4)
    lengths = [float((weights - before).norm()) for weights in seen]
    for longer, shorter in zip(lengths, lengths[1:], strict=False):
        assert shorter == pytest.approx(0.8 * longer, rel=1e-3)


def test_a_divergence_that_is_no_number_ends_the_run_and_keeps_the_weights(tmp_path, monkeypatch):
    made, _ = problem("causal", tmp_path)
    before = tiny.weights(made.policy)
    monkeypatch.setattr(trpo, "surrogate_and_kl", lambda given, _: (0.0, float("nan")))
    with pytest.raises(TrainingError, match="The KL divergence of a step is not a number, however short it is"):
        trpo.improve_policy(made, 0)
    assert torch.equal(tiny.weights(made.policy), before)


@pytest.mark.parametrize("entropy_coefficient", [0.0, 0.1])
def test_a_support_that_was_widened_changes_nothing(entropy_coefficient, tmp_path):
    """Redraws and several processes put rollouts of other lengths together: behind the shorter ones nothing is open."""
    lines = []
    for closed in (False, True):
        made, _ = problem("causal", tmp_path / str(closed), top_k=5, entropy_coefficient=entropy_coefficient)
        rollout = made.experience.rollout
        uncounted = ~rollout.responses.mask
        assert rollout.support[uncounted].any()
        if closed:
            rollout.support[uncounted] = 0
        lines.append(trpo.improve_policy(made, 0))
    assert lines[1] == pytest.approx(lines[0])
    assert lines[1]["policy/step_size"] > 0


@pytest.mark.parametrize("family", FAMILIES)
def test_a_step_too_long_is_shortened_until_it_stays_inside(family, tmp_path):
    lines = []
    for shrink in (0.8, 0.5):
        made, _ = problem(family, tmp_path, cg_damping=1e-4, trust_region=1.0, line_search_shrink=shrink)
        before = copy.deepcopy(made.policy)
        lines.append(trpo.improve_policy(made, 0))
        kl = mean_kl(before, made.policy, made.experience.rollout, 0)
        assert lines[-1]["policy/kl_after"] == pytest.approx(kl, rel=1e-3)
        assert 0 < kl <= 1.0
    assert max(line["policy/line_search_steps"] for line in lines) > 1


def test_without_anything_to_gain_nothing_moves(tmp_path):
    made, _ = problem("causal", tmp_path)
    before = tiny.weights(made.policy)
    made.advantages.zero_()
    line = trpo.improve_policy(made, 0)
    assert torch.equal(tiny.weights(made.policy), before)
    assert line["policy/step_size"] == line["policy/line_search_steps"] == 0


def test_a_gradient_that_is_not_finite_ends_the_run_and_keeps_the_weights(tmp_path):
    made, _ = problem("causal", tmp_path)
    before = tiny.weights(made.policy)
    made.advantages[0, 0] = float("inf")
    with pytest.raises(TrainingError, match="update 7: the natural gradient is not finite. Raise cg_damping"):
        trpo.improve_policy(made, 7)
    assert torch.equal(tiny.weights(made.policy), before)


def test_a_policy_that_is_not_the_one_sampled_is_noticed(tmp_path):
    made, _ = problem("causal", tmp_path)
    made.experience.log_probs.add_(0.5)
    with pytest.raises(TrainingError, match="the first policy ratio is off 1 by 0.39"):
        trpo.improve_policy(made, 0)


@pytest.mark.parametrize("fisher_share", [0.01, 0.5, 1.0])
def test_the_fisher_matrix_takes_its_share_of_the_rollouts(fisher_share, tmp_path):
    made, _ = problem("causal", tmp_path, fisher_share=fisher_share, rollouts=10, minibatch_size=10)
    rows = [trpo.fisher_rows(made, update).tolist() for update in (0, 0, 1)]
    assert len(set(rows[0])) == len(rows[0]) == max(1, fisher_share * 10)
    assert rows[0] == rows[1] != rows[2]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("over", ["support", "vocabulary"])
def test_every_update_stays_in_the_region(family, over, tmp_path):
    task = tiny.task(family, top_k=9, min_new_tokens=2)
    settings = {"ratio_over": over, "kl_over": over, "fisher_share": 0.5, "trust_region": 0.02, "critic_epochs": 2}
    settings |= {"updates": 2, "cg_steps": 5, "save_every": 9}
    run = tiny.train(tiny.run(family, "trpo", tmp_path, task_=task, **settings))
    for line in run.observer.lines:
        assert line["policy/ratio_error"] < 1e-5
        assert 0 < line["policy/kl_after"] <= 0.02


@pytest.mark.parametrize("family", FAMILIES)
def test_half_precision_stays_in_the_region_too(family, tmp_path):
    settings = {"precision": "bfloat16", "updates": 2, "cg_steps": 5, "critic_epochs": 2, "save_every": 9}
    run = tiny.train(tiny.run(family, "trpo", tmp_path, **settings))
    assert all(0 < line["policy/kl_after"] <= 0.01 for line in run.observer.lines)
    assert tiny.weights(run.trainer.policy).dtype == torch.float32


@pytest.mark.parametrize("family", FAMILIES)
def test_micro_batches_change_only_memory(family, tmp_path):
    """Few products, since conjugate gradient blows up what rounding makes different."""
    settings = {"updates": 1, "cg_steps": 3, "critic_epochs": 2}
    whole, split = (
        tiny.train(tiny.run(family, "trpo", tmp_path / str(size), micro_batch_size=size, **settings)).observer.lines[0]
        for size in (64, 5)
    )
    for key in ("policy/step_size", "policy/kl_after", "policy/grad_norm", "loss/value"):
        assert split[key] == pytest.approx(whole[key], rel=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_interrupted_run_goes_on_bit_for_bit(family, tmp_path):
    settings = {"updates": 3, "kl_target": 0.05, "fisher_share": 0.5, "critic_epochs": 2, "cg_steps": 3}
    whole = tiny.train(tiny.run(family, "trpo", tmp_path / "whole", **settings))
    first = tiny.run(family, "trpo", tmp_path / "stopped", **settings)
    first.stop = lambda: len(first.observer.lines) >= 2
    with pytest.raises(Interrupted, match="stopped after update 2 of 3"):
        tiny.train(first)
    second = tiny.train(tiny.run(family, "trpo", tmp_path / "stopped", **settings))
    assert second.observer.begin == (2, 3)
    assert torch.equal(tiny.weights(second.trainer.policy), tiny.weights(whole.trainer.policy))
    assert second.observer.lines[-1]["loss/value"] == whole.observer.lines[-1]["loss/value"]
    kept = [json.loads((tmp_path / f / "checkpoint" / "grue.json").read_text()) for f in ("whole", "stopped")]
    assert kept[0]["files"] == kept[1]["files"]


@pytest.mark.parametrize("family", FAMILIES)
def test_fitting_the_critic_leaves_the_policy_alone(family, tmp_path):
    """Both critics begin with values of 0, so the first step of the policy is the same."""
    runs = []
    for value_model, epochs in (("separate", 3), ("shared", 3), ("separate", 1)):
        settings = {"updates": 1, "cg_steps": 3, "value_model": value_model, "critic_epochs": epochs}
        runs.append(tiny.train(tiny.run(family, "trpo", tmp_path / f"{value_model}-{epochs}", **settings)))
    assert not torch.equal(tiny.weights(runs[0].trainer.policy), tiny.weights(tiny.model(family)))
    for run in runs[1:]:
        assert torch.equal(tiny.weights(runs[0].trainer.policy), tiny.weights(run.trainer.policy))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("value_model", ["separate", "shared"])
def test_the_critic_learns_the_returns(family, value_model, tmp_path):
    run = tiny.run(family, "trpo", tmp_path, value_model=value_model, critic_epochs=1, learning_rate=1e-2)
    learner = trpo.start(run.trainer, run.plan.config)
    experience = collect(run.trainer, learner, run.plan.config, 0)
    _, returns = advantages_and_returns(experience, run.plan.config)
    fit = [
        trpo.improve_critic(run.trainer, learner, run.plan.config, experience, returns, i)["loss/value"]
        for i in range(30)
    ]
    assert fit[-1] < 0.7 * fit[0]


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        ("causal", {"gradient_checkpointing": True}),
        ("causal", {"lora_rank": 2, "gradient_checkpointing": True}),
        ("seq2seq", {"freeze_encoder": True, "lora_rank": 2, "gradient_checkpointing": True}),
    ],
)
def test_it_gets_on_with_what_saves_memory(family, settings, tmp_path):
    runs = []
    for name, chosen in (("plain", {**settings, "gradient_checkpointing": False}), ("asked", settings)):
        run = tiny.run(family, "trpo", tmp_path / name, updates=1, cg_steps=3, critic_epochs=2, **chosen)
        adapt(run.trainer.policy, run.plan.config)
        runs.append((tiny.weights(run.trainer.policy), tiny.train(run)))
    for before, run in runs:
        assert not torch.equal(before, tiny.weights(run.trainer.policy))
        assert all(0 < line["policy/kl_after"] <= 0.01 for line in run.observer.lines)
    assert torch.allclose(tiny.weights(runs[0][1].trainer.policy), tiny.weights(runs[1][1].trainer.policy), atol=1e-5)


@pytest.mark.parametrize(("family", "value_model"), [("causal", "separate"), ("seq2seq", "shared")])
def test_the_reward_is_learnt(family, value_model, tmp_path):
    settings = {"kl_coefficient": 0.0, "rollouts": 24, "minibatch_size": 24, "value_model": value_model}
    settings |= {"updates": 6, "validate_every": 6, "save_every": 6}
    settings |= {"trust_region": 0.2, "cg_steps": 8, "critic_epochs": 3}
    run = tiny.train(tiny.run(family, "trpo", tmp_path, **settings))
    rewards = [line["objective/reward"] for line in run.observer.lines]
    assert rewards[-1] > rewards[0] + 0.3


def test_the_defaults_are_those_of_sb3_contrib():
    config = TRPOConfig()
    found = (config.trust_region, config.cg_steps, config.cg_damping, config.line_search_shrink)
    assert found == (0.01, 15, 0.1, 0.8)
    assert (config.line_search_steps, config.critic_epochs, config.learning_rate) == (10, 10, 1e-3)
