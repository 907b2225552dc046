"""A logit of minus infinity is a probability of 0: in draws, log-probabilities, entropy, KL and every gradient."""

import math

import pytest
from support.late import lates

torch, oracles, tiny = lates("torch support.oracles support.tiny")
distributions, trpo = lates("grue.lm.distributions grue.algorithms.trpo")

CLOSED = [4, 9]
INF = float("inf")


def close(model):
    """Close some tokens as a bias of minus infinity would; copies of the model have them closed, too."""
    closed = torch.tensor(CLOSED)
    model.get_output_embeddings().register_forward_hook(lambda _, inputs, logits: logits.index_fill(-1, closed, -INF))
    return model


def test_rows_without_a_distribution_are_told_from_those_with_closed_tokens():
    rows = torch.tensor([[0.0, -INF, -INF], [-INF, -INF, -INF], [0.0, INF, 1.0], [0.0, math.nan, 1.0], [3.0, 1.0, 2.0]])
    assert distributions.broken(rows).tolist() == [False, True, True, True, False]


@pytest.mark.parametrize("narrowed", [False, True])
def test_log_probabilities_entropy_and_gradients_are_those_without_the_closed_tokens(narrowed):
    logits = torch.randn(2, 3, 12, generator=torch.Generator().manual_seed(3))
    drawn = torch.tensor([[0, 1, 2], [3, 5, 11]])
    left = [token for token in range(12) if token not in CLOSED]
    support = torch.ones_like(logits, dtype=torch.bool)
    if narrowed:
        support[..., 10] = False
    inside = [token for token in left if support[0, 0, token]]
    closed = logits.index_fill(-1, torch.tensor(CLOSED), -INF).requires_grad_()
    both = distributions.log_probs_both(closed, drawn, support)
    found = [*both, distributions.log_probs(closed, drawn, support), distributions.entropy(closed, support)]
    sum(part.sum() for part in found).backward()
    assert closed.grad.isfinite().all() and closed.grad[..., CLOSED].eq(0).all() and closed.grad.abs().sum() > 0
    for i in range(2):
        for t in range(3):
            p = dict(zip(inside, oracles.softmax([logits[i, t, v].item() for v in inside]), strict=True))
            q = dict(zip(left, oracles.softmax([logits[i, t, v].item() for v in left]), strict=True))
            token = drawn[i, t].item()
            expected = [math.log(p[token]), math.log(q[token]), math.log(p[token])]
            expected.append(-sum(x * math.log(x) for x in p.values()))
            assert [part[i, t].item() for part in found] == pytest.approx(expected, abs=1e-5)


def test_kl_adds_nothing_where_the_policy_gives_nothing():
    p = torch.tensor([0.5, 0.5, 0.0]).log()
    for q, kl in (([0.25, 0.75, 0.0], 0.5 * math.log(4 / 3)), ([0.2, 0.2, 0.6], math.log(2.5)), ([1.0, 0.0, 0.0], INF)):
        assert distributions.kl_divergence(p, torch.tensor(q).log()).item() == pytest.approx(kl, abs=1e-6)
    v = torch.tensor([1.0, 3.0, 7.0])
    assert trpo.softmax_fisher_product(p, v).tolist() == pytest.approx([-0.5, 0.5, 0.0])


@pytest.mark.parametrize(("algorithm", "family"), [("nlpo", "seq2seq"), ("trpo", "causal"), ("es", "causal")])
def test_a_policy_with_closed_tokens_is_trained(algorithm, family, tmp_path):
    steps = {"cg_steps": 3, "critic_epochs": 1} if algorithm == "trpo" else {}
    run = tiny.run(family, algorithm, tmp_path, updates=1, **steps)
    close(run.trainer.policy)
    before = tiny.weights(run.trainer.policy).clone()
    tiny.train(run)
    after = tiny.weights(run.trainer.policy)
    assert after.isfinite().all() and not torch.equal(before, after)
    assert all(math.isfinite(value) for line in tiny.logged(tmp_path) for value in line.values())
    (_, first, _), (_, last, _) = run.observer.validations
    assert first["kl"] == 0 < last["kl"] < math.inf
    written = " ".join(text for _, text, _ in run.observer.samples).split()
    assert written and not set(run.trainer.tokenizer.convert_ids_to_tokens(CLOSED)) & set(written)
