"""TRPO against a dense Fisher matrix built token by token, on models small enough to write it down."""

import copy

import pytest
from support.late import lates

from grue.errors import TrainingError

torch, transformers, tiny, exactness = lates("torch transformers support.tiny support.exactness")
trpo, experience, distributions = lates("algorithms.trpo rl.experience lm.distributions", "grue.")
TEMPERATURE = 0.8


def minute(family):
    """A model of some hundred weights."""
    torch.manual_seed(5)
    size = len(tiny.WORDS) + 3
    if family == "causal":
        config = transformers.GPT2Config(
            vocab_size=size, n_layer=1, n_embd=4, n_head=2, n_positions=18, bos_token_id=1, eos_token_id=1,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, initializer_range=0.5,
        )  # fmt: skip
        return transformers.GPT2LMHeadModel(config).eval()
    config = transformers.T5Config(
        vocab_size=size, d_model=4, d_kv=2, d_ff=4, num_layers=1, num_heads=2, dropout_rate=0.0,
        relative_attention_num_buckets=4, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0,
    )  # fmt: skip
    return transformers.T5ForConditionalGeneration(config).eval()


def problem(family, folder, top_k=0, **settings):
    """A policy's first step, ready to be taken, and its weights."""
    task = tiny.task(family, top_k=top_k, temperature=TEMPERATURE, max_new_tokens=5)
    run = tiny.run(family, "trpo", folder, task_=task, **{"rollouts": 5, "minibatch_size": 5, **settings})
    run.trainer.policy = minute(family)
    learner = trpo.start(run.trainer, run.plan.config)
    found = experience.collect(run.trainer, learner, run.plan.config, 0)
    advantages = torch.randn(found.mask.shape, generator=torch.Generator().manual_seed(4)) * found.mask
    made = trpo.TrustRegion(run.trainer, run.trainer.policy, run.plan.config, found, advantages)
    return made, [p for p in run.trainer.policy.parameters() if p.requires_grad]


def log_softmax(logits):
    return logits - logits.exp().sum().log()


def token_log_probs(policy, rollout, top_k):
    """For each row, unpadded: for each token that counts, log π of all tokens that could be drawn, and which was."""
    rows = []
    for b in range(len(rollout.responses.ids)):
        said = exactness.real(rollout.responses, b)
        logits, _ = exactness.plain(policy, exactness.real(rollout.prompts, b), said)
        row = []
        for t, token in enumerate(said):
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


@pytest.mark.parametrize(
    ("family", "top_k", "micro_batch_size", "rows"), [("causal", 6, 2, [0, 1, 2, 3, 4]), ("seq2seq", 0, 64, [3, 1])]
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


@pytest.mark.parametrize(("family", "top_k", "entropy_coefficient"), [("causal", 6, 0.05), ("seq2seq", 0, 0.0)])
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
    solution, residual = trpo.conjugate_gradient(lambda v: matrix @ v, target, 60)
    expected = torch.linalg.solve(matrix.double(), target.double())
    assert float((solution - expected).norm()) < 1e-3 * float(expected.norm())
    assert float(residual.norm()) < 1e-4 * float(target.norm())
    few, left = trpo.conjugate_gradient(lambda v: matrix @ v, target, 4)
    assert torch.allclose(left, target - matrix @ few, atol=1e-4)
    assert float(left.norm()) > float(residual.norm())
    asked = []
    for wanted, products in ((torch.tensor([3.0, -4.0]), 1), (torch.zeros(2), 1)):  # no more than it needs
        solution, _ = trpo.conjugate_gradient(lambda v: asked.append(v) or 2 * v, wanted, 15)
        assert len(asked) == products and torch.equal(solution, wanted / 2)


def test_a_line_search_without_success_restores_the_weights_bit_for_bit(tmp_path, monkeypatch):
    made, _ = problem("seq2seq", tmp_path, line_search_steps=4)
    before = tiny.weights(made.policy)
    for found in ((float("inf"), 0.011), (float("-inf"), 0.0), (float("nan"), 0.0)):
        seen = []

        def measured(region, _, found=found, seen=seen):
            seen.append(tiny.weights(region.policy))
            return found

        monkeypatch.setattr(trpo, "surrogate_and_kl", measured)
        line = trpo.improve_policy(made, 0)
        assert torch.equal(tiny.weights(made.policy), before)
        assert (line["policy/step_size"], line["policy/kl_after"], line["policy/line_search_steps"]) == (0, 0, 4)
        lengths = [float((weights - before).norm()) for weights in seen]
        assert len(lengths) == 4
        for longer, shorter in zip(lengths, lengths[1:], strict=False):
            assert shorter == pytest.approx(0.8 * longer, rel=1e-3)


def test_a_step_that_cannot_be_taken_keeps_the_weights(tmp_path, monkeypatch, refused):
    made, _ = problem("causal", tmp_path)
    before, advantages = tiny.weights(made.policy), made.advantages.clone()
    with monkeypatch.context() as patch, refused(TrainingError):
        patch.setattr(trpo, "surrogate_and_kl", lambda given, _: (0.0, float("nan")))
        trpo.improve_policy(made, 0)
    made.advantages.zero_()
    line = trpo.improve_policy(made, 0)
    assert line["policy/step_size"] == line["policy/line_search_steps"] == 0
    made.advantages[0, 0] = float("inf")
    with refused(TrainingError):
        trpo.improve_policy(made, 7)
    made.advantages.copy_(advantages)
    made.experience.log_probs.add_(0.5)  # another policy than the one sampled
    with refused(TrainingError):
        trpo.improve_policy(made, 0)
    assert torch.equal(tiny.weights(made.policy), before)


def test_a_support_that_was_widened_changes_nothing(tmp_path):
    """Redraws and several processes put rollouts of other lengths together: behind the shorter ones nothing is open."""
    lines = []
    for closed in (False, True):
        made, _ = problem("causal", tmp_path / str(closed), top_k=5, entropy_coefficient=0.1)
        rollout = made.experience.rollout
        uncounted = ~rollout.responses.mask
        assert rollout.support[uncounted].any()
        if closed:
            rollout.support[uncounted] = 0
        lines.append(trpo.improve_policy(made, 0))
    assert lines[1] == pytest.approx(lines[0])
    assert lines[1]["policy/step_size"] > 0


def test_the_fisher_matrix_takes_its_share_of_the_rollouts(tmp_path):
    for fisher_share, count in ((0.01, 1), (0.5, 5), (1.0, 10)):
        made, _ = problem("causal", tmp_path, fisher_share=fisher_share, rollouts=10, minibatch_size=10)
        rows = [trpo.fisher_rows(made, update).tolist() for update in (0, 0, 1)]
        assert len(set(rows[0])) == len(rows[0]) == count
        assert rows[0] == rows[1] != rows[2]


def test_fitting_the_critic_leaves_the_policy_alone(tmp_path):
    """Both critics begin with values of 0, so the first step of the policy is the same."""
    found = []
    for value_model, epochs in (("separate", 1), ("shared", 3)):
        settings = {"cg_steps": 3, "value_model": value_model, "critic_epochs": epochs}
        run = tiny.run("seq2seq", "trpo", tmp_path, **settings)
        tiny.updated(run)
        found.append(tiny.weights(run.trainer.policy))
    assert torch.equal(*found) and not torch.equal(found[0], tiny.weights(tiny.model("seq2seq")))


@pytest.mark.parametrize(("family", "value_model"), [("causal", "separate"), ("seq2seq", "shared")])
def test_the_critic_learns_the_returns(family, value_model, tmp_path):
    run = tiny.run(family, "trpo", tmp_path, value_model=value_model, critic_epochs=1, learning_rate=1e-2)
    config, learner = run.plan.config, trpo.start(run.trainer, run.plan.config)
    found = experience.collect(run.trainer, learner, config, 0)
    _, returns = experience.advantages_and_returns(found, config)
    fit = [trpo.improve_critic(run.trainer, learner, config, found, returns, i)["loss/value"] for i in range(20)]
    assert fit[-1] < 0.7 * fit[0]
