"""The trainer's formulas against slow loops (`oracles.py`) and against what must hold whatever the numbers."""

import math

import pytest
from support.late import late

torch, oracles = late("torch"), late("support.oracles")
distributions, rl = late("grue.lm.distributions"), late("grue.rl.functional")
B, T, V = 4, 6, 11


@pytest.fixture
def chance():
    return torch.Generator().manual_seed(7)


@pytest.fixture
def logits(chance):
    return torch.randn(B, T, V, generator=chance) * 2


@pytest.fixture
def mask():
    lengths = torch.tensor([6, 3, 1, 5])
    return torch.arange(T).unsqueeze(0) < lengths.unsqueeze(1)


def rand(chance, *shape):
    return torch.randn(*shape, generator=chance)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9, 0.99])
def test_nucleus_is_the_smallest_set_that_reaches_p(logits, p):
    found = distributions.top_p_support(logits, p)
    for b in range(B):
        for t in range(T):
            assert set(found[b, t].nonzero().flatten().tolist()) == oracles.nucleus(logits[b, t].tolist(), p)


@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0, 6.0])
def test_nucleus_of_a_large_vocabulary_however_wide(spread, chance):
    logits = spread * torch.randn(3, 5000, generator=chance)
    found = distributions.top_p_support(logits, 0.9)
    for row, kept in zip(logits.softmax(-1), found, strict=True):
        inside, outside = row[kept], row[~kept]
        assert inside.min() > outside.max()
        assert inside.double().sum() == pytest.approx(0.9, abs=float(inside.min()) + 1e-4)
        assert inside.double().sum() - inside.min() < 0.9 + 1e-4


@pytest.mark.parametrize("size", [8, 512, 4096])
def test_of_tied_tokens_the_nucleus_takes_the_lowest_ids(size):
    found = distributions.top_p_support(torch.zeros(2, size), 0.5)
    assert found.tolist() == [[token < size // 2 for token in range(size)]] * 2


def test_nucleus_of_one_is_everything_even_where_rounding_would_drop_the_tail():
    logits = torch.tensor([[50.0, 0.0, -50.0, -200.0]])
    assert distributions.top_p_support(logits, 1.0).all()


def test_top_k_keeps_the_largest():
    logits = torch.tensor([[1.0, 3.0, 2.0, 0.0]])
    assert distributions.top_k_support(logits, 2)[0].tolist() == [False, True, True, False]
    assert distributions.top_k_support(logits, 0).all() and distributions.top_k_support(logits, 9).all()


@pytest.mark.parametrize("size", [300, 5000])
@pytest.mark.parametrize("k", [1, 7, 60, 250])
def test_top_k_of_a_large_vocabulary_is_that_of_sorting_and_ties_stay_together(size, k, chance):
    values = (torch.randn(3, size, generator=chance) * 20).round() / 4
    values[0, size // 4 :] = float("-inf")
    for row, kept in zip(values.tolist(), distributions.top_k_support(values, k).tolist(), strict=True):
        least = sorted(row, reverse=True)[k - 1]
        assert kept == [value >= least for value in row]


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_entropy_and_its_gradient_do_not_depend_on_how_many_rows_are_computed_at_once(rows, chance, monkeypatch):
    monkeypatch.setitem(distributions.BLOCK, "cpu", rows * V)
    logits, weights = torch.randn(B, T, V, generator=chance) * 3, torch.rand(B, T, generator=chance)
    support = torch.rand(B, T, V, generator=chance) < 0.6
    support[..., 0] = True
    learnt = logits.clone().requires_grad_()
    found = distributions.entropy(learnt, distributions.pack_bits(support))
    (found * weights).sum().backward()
    p = logits.double().masked_fill(~support, float("-inf")).softmax(-1)
    surprise = -torch.where(support, p, 1.0).log()
    entropy = (p * surprise).sum(-1, keepdim=True)
    assert torch.allclose(found.double(), entropy.squeeze(-1), atol=1e-5)
    # ∂H/∂logit of a token with probability p is p (−log p − H).
    assert torch.allclose(learnt.grad.double(), weights.unsqueeze(-1) * p * (surprise - entropy), atol=1e-6)


@pytest.mark.parametrize("rows", [1, 5, 100])
def test_kl_divergence_does_not_depend_on_how_many_rows_are_computed_at_once(rows, chance, monkeypatch):
    monkeypatch.setitem(distributions.BLOCK, "cpu", rows * V)
    logits, other = (torch.randn(B, T, V, generator=chance) * 2 for _ in range(2))
    p, q = logits.double().softmax(-1), other.double().softmax(-1)
    expected = (p * (p / q).log()).sum(-1)
    assert torch.allclose(distributions.kl_divergence(logits, other).double(), expected, atol=1e-5)


def test_samples_follow_the_distribution_and_never_leave_the_support():
    logits = torch.tensor([0.0, 1.0, 2.0, 0.5, -1.0])
    support = torch.tensor([True, False, True, True, False])
    count = 20_000
    uniforms = (torch.arange(count) + 0.5) / count
    drawn = distributions.sample(distributions.restrict(logits, support).expand(count, -1), uniforms)
    shares = torch.bincount(drawn, minlength=5) / count
    allowed = [0, 2, 3]
    for v in range(5):
        expected = math.exp(oracles.token_log_prob(logits.tolist(), v, allowed)) if v in allowed else 0.0
        assert float(shares[v]) == pytest.approx(expected, abs=2e-4)


def test_the_largest_uniform_draws_the_last_open_token():
    logits = torch.tensor([[0.0, 0.0, float("-inf"), float("-inf")]])
    almost_one = torch.tensor([1.0 - 2**-24])
    assert distributions.sample(logits, almost_one).tolist() == [1]
    assert distributions.sample(logits.flip(-1), torch.tensor([0.0])).tolist() == [2]


def test_both_kl_estimates_are_unbiased():
    p, q = [0.6, 0.3, 0.1], [0.2, 0.5, 0.3]
    exact = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    log_p, log_q = torch.tensor(p).log(), torch.tensor(q).log()
    weights = torch.tensor(p)
    assert float((weights * rl.kl_k1(log_p, log_q)).sum()) == pytest.approx(exact, abs=1e-6)
    assert float((weights * rl.kl_k3(log_p, log_q)).sum()) == pytest.approx(exact, abs=1e-6)
    assert (rl.kl_k3(log_p, log_q) >= 0).all()
    assert (rl.kl_k1(log_p, log_p) == 0).all() and (rl.kl_k3(log_p, log_p) == 0).all()


def test_kl_controllers_step_as_their_papers_say():
    assert rl.rl4lms_kl_step(0.1, kl=0.2, target=0.1) == pytest.approx(0.1 * (1 + 0.1 * 0.2))
    assert rl.rl4lms_kl_step(0.1, kl=0.11, target=0.1) == pytest.approx(0.1 * (1 + 0.1 * 0.1))
    assert rl.rl4lms_kl_step(0.1, kl=0.0, target=0.1) == pytest.approx(0.1 * (1 - 0.1 * 0.2))
    assert rl.ziegler_kl_step(0.2, kl=12.0, target=6.0, samples=64, horizon=10_000) == pytest.approx(
        0.2 * (1 + 0.2 * 0.0064)
    )


def test_token_rewards_put_the_score_on_the_last_token_that_counts(chance, mask):
    kl, scores = rand(chance, B, T), rand(chance, B)
    found = rl.token_rewards(scores, kl, mask, coefficient=0.3)
    for b, length in enumerate([6, 3, 1, 5]):
        expected = [-0.3 * float(kl[b, t]) for t in range(length)]
        expected[-1] += float(scores[b])
        assert found[b, :length].tolist() == pytest.approx(expected, abs=1e-6)
        assert (found[b, length:] == 0).all()


@pytest.mark.parametrize(("gamma", "lam"), [(0.99, 0.95), (1.0, 1.0), (0.5, 0.0)])
def test_gae_is_the_double_sum(chance, mask, gamma, lam):
    rewards, values = rand(chance, B, T) * mask, rand(chance, B, T)
    advantages, returns = rl.gae(rewards, values, mask, gamma, lam)
    for b, length in enumerate([6, 3, 1, 5]):
        expected = oracles.gae(rewards[b, :length].tolist(), values[b, :length].tolist(), gamma, lam)
        assert advantages[b, :length].tolist() == pytest.approx(expected, abs=1e-5)
        assert returns[b, :length].tolist() == pytest.approx(
            [a + v for a, v in zip(expected, values[b, :length].tolist(), strict=True)], abs=1e-5
        )
        assert (advantages[b, length:] == 0).all()
        assert (returns[b, length:] == 0).all()


def test_whitened_values_have_mean_zero_and_deviation_one(chance, mask):
    values = rand(chance, B, T) * 3 + 5
    white = rl.whiten(values, mask)[mask]
    assert float(white.mean()) == pytest.approx(0, abs=1e-6)
    assert float(white.std(correction=0)) == pytest.approx(1, abs=1e-6)
    assert (rl.whiten(values, mask)[~mask] == 0).all()
    assert torch.equal(rl.whiten(torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool)), torch.zeros(2, 3))


@pytest.mark.parametrize("dual", [None, 1.5, 3.0])
def test_policy_loss_is_the_clipped_surrogate_and_dual_clip_bounds_bad_tokens_only(chance, dual):
    new, old, advantages = (2 * rand(chance, 40) for _ in range(3))
    found, bounded = rl.clipped_policy_loss(new, old, advantages, 0.2, dual=dual), 0
    for n, o, advantage, loss in zip(*(x.tolist() for x in (new, old, advantages, found)), strict=True):
        expected = oracles.clipped_loss(n, o, advantage, 0.2)
        if dual and advantage < 0 and expected > -dual * advantage:
            expected, bounded = -dual * advantage, bounded + 1
        assert loss == pytest.approx(expected, rel=1e-5)
    assert (bounded > 0) == (dual is not None) and bounded < 40


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


def test_value_loss_takes_the_worse_of_clipped_and_unclipped():
    values, returns, old = torch.tensor([[1.0]]), torch.tensor([[1.1]]), torch.tensor([[0.5]])
    assert float(rl.value_loss(values, returns, old)) == pytest.approx(0.01)
    assert float(rl.value_loss(values, returns, old, clip=0.2)) == pytest.approx((0.7 - 1.1) ** 2)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 4096])
def test_packed_supports_come_back(chance, size):
    support = torch.rand(3, 2, size, generator=chance) < 0.5
    packed = distributions.pack_bits(support)
    assert packed.shape == (3, 2, -(-size // 8))
    assert torch.equal(distributions.unpack_bits(packed, size), support)
