"""What the methods are known to be at their limits, and what redraws, calibration and penalties do, by hand."""

import copy
import itertools
import math

import pytest
from support.late import lates

torch, tiny, oracles, scored, exactness = lates("torch support.tiny support.oracles support.scored support.exactness")
copg, dpo = lates("grue.algorithms.copg grue.algorithms.dpo")
rl, groups = lates("functional groups", "grue.rl.")


def batch(tokens, scores, reference=None, counts=None):
    """A batch of groups; tokens [b, K, T], all of which count."""
    tokens, scores = torch.as_tensor(tokens), torch.as_tensor(scores)
    return groups.GroupBatch(
        tokens=tokens,
        reference=torch.zeros_like(tokens).detach() if reference is None else reference,
        lengths=torch.full(scores.shape, tokens.shape[-1]),
        scores=scores,
        counts=torch.ones_like(scores, dtype=torch.bool) if counts is None else counts,
        rows=torch.arange(len(scores)),
    )


def chance(seed):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("per_token", [False, True])
def test_ipo_is_at_rest_where_gaps_are_one_over_two_beta(per_token):
    beta = 0.2
    for off, rests in ((0.0, True), (0.1, False), (-0.1, False)):
        gap = (1 / (2 * beta) + off) * (4 if per_token else 1)
        tokens = -3 * torch.rand(2, 3, 4, generator=chance(1), dtype=torch.float64)
        target = torch.tensor([0.0, -gap, -2 * gap]).expand(2, 3).double()
        tokens = (tokens - (tokens.sum(-1) - target).unsqueeze(-1) / 4).requires_grad_()
        # Neighbours in rank are a gap apart; the first and the last two gaps, so they are no pair here.
        for pair in ([0, 1], [1, 2]):
            config = dpo.DPOConfig(loss="ipo", beta=beta, per_token=per_token)
            loss, _ = dpo.pair_loss(config, batch(tokens[:, pair], [[2.0, 1.0]] * 2))
            (gradient,) = torch.autograd.grad(loss.sum(), tokens)
            assert (float(gradient.abs().max()) < 1e-6) == rests
            assert loss.tolist() == pytest.approx([off**2] * 2, abs=1e-6)


SIZE, BETA = 3, 0.5
PAIRS = list(itertools.product(range(SIZE), range(SIZE)))  # all responses of two tokens


class Table:
    """A policy over two tokens of three, a logit for each beginning and next token."""

    def __init__(self, seed):
        self.first = torch.randn(SIZE, generator=chance(seed), dtype=torch.float64).requires_grad_()
        self.second = torch.randn(SIZE, SIZE, generator=chance(seed + 1), dtype=torch.float64).requires_grad_()

    @property
    def parameters(self):
        return [self.first, self.second]

    def tokens(self):
        """log π of both tokens of all responses, [9, 2]."""
        first, second = self.first.log_softmax(-1), self.second.log_softmax(-1)
        return torch.stack([torch.stack([first[a], second[a, b]]) for a, b in PAIRS])

    def become(self, probabilities):
        """Take the conditionals of a distribution over responses."""
        firsts = [sum(p for (a, _), p in zip(PAIRS, probabilities, strict=True) if a == token) for token in range(SIZE)]
        seconds = [[probabilities[PAIRS.index((a, b))] / firsts[a] for b in range(SIZE)] for a in range(SIZE)]
        with torch.no_grad():
            self.first.copy_(torch.tensor(firsts, dtype=torch.float64).log())
            self.second.copy_(torch.tensor(seconds, dtype=torch.float64).log())


def contrast(policy, reference, rewards, left, right):
    """The expected loss of CoPG on pairs whose members are drawn from two distributions over responses."""
    places = list(itertools.product(range(9), range(9)))
    tokens, before = policy.tokens(), reference.tokens().detach()
    index = torch.tensor(places)
    scores = torch.tensor(rewards, dtype=torch.float64)[index]
    losses, _ = copg.contrast_loss(copg.CoPGConfig(beta=BETA), batch(tokens[index], scores, before[index]))
    return sum(left[a] * right[b] * loss for (a, b), loss in zip(places, losses, strict=True))


def test_copgs_fixed_point_is_the_regularised_optimum_whoever_draws():
    reference, policy = Table(1), Table(5)
    rewards = [0.1 * k - 0.4 * (k % 3) for k in range(9)]
    weights = [math.exp(sum(row) + r / BETA) for row, r in zip(reference.tokens().tolist(), rewards, strict=True)]
    best = [weight / sum(weights) for weight in weights]
    tokens = torch.randn(1, 2, 3, generator=chance(7), dtype=torch.float64, requires_grad=True)
    loss, _ = copg.contrast_loss(copg.CoPGConfig(beta=0.3), batch(tokens, torch.tensor([[0.9, 0.2]])))
    (gradient,) = torch.autograd.grad(loss.sum(), tokens)
    pull = -(0.9 - 0.2 - 0.3 * (sum(tokens[0, 0].tolist()) - sum(tokens[0, 1].tolist())))
    assert gradient[0].tolist() == [pytest.approx([pull] * 3, rel=1e-6), pytest.approx([-pull] * 3, rel=1e-6)], "Eq. 19"
    for seed in range(3):
        left, right = (torch.rand(9, generator=chance(seed + k)).softmax(0).tolist() for k in (0, 9))
        policy.become(best)
        at_rest = torch.autograd.grad(contrast(policy, reference, rewards, left, right), policy.parameters)
        assert max(float(part.abs().max()) for part in at_rest) < 1e-12
        policy.become([1 / 9] * 9)
        pulled = torch.autograd.grad(contrast(policy, reference, rewards, left, right), policy.parameters)
        assert max(float(part.abs().max()) for part in pulled) > 1e-2
    optimizer = torch.optim.Adam(policy.parameters, lr=0.1)
    # The worst response is drawn a hundred times as often as the best: no importance weight corrects that.
    skewed = [0.01 if value == max(best) else 1.0 for value in best]
    skewed = [value / sum(skewed) for value in skewed]
    for _ in range(250):
        optimizer.zero_grad()
        contrast(policy, reference, rewards, skewed, skewed[::-1]).backward()
        optimizer.step()
    assert [math.exp(sum(row)) for row in policy.tokens().tolist()] == pytest.approx(best, abs=2e-3)
    assert best != pytest.approx([1 / 9] * 9, abs=0.05)


def expected_gradient(policy, sampled, reference, estimator, corrected):
    """The gradient of E[estimate] as a loss, with samples of `sampled`, by enumeration."""
    new, old, before = (logits.log_softmax(-1) for logits in (policy, sampled, reference))
    losses = rl.kl_loss(new.unsqueeze(0), before.unsqueeze(0), (new - old).unsqueeze(0), estimator, corrected)[0]
    (gradient,) = torch.autograd.grad((old.exp() * losses).sum(), policy)
    return gradient.tolist()


def divergence_gradient(policy, other, turned=False):
    """∇KL(π‖q) by the logits of π, p_k(log(p_k / q_k) − KL); or ∇KL(q‖π) = p_k − q_k; by floats."""
    p, q = ([math.exp(x) / sum(map(math.exp, logits)) for x in logits] for logits in (policy.tolist(), other.tolist()))
    if turned:
        return [a - b for a, b in zip(p, q, strict=True)]
    kl = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    return [a * (math.log(a / b) - kl) for a, b in zip(p, q, strict=True)]


def test_the_divergence_in_a_loss_has_the_gradient_that_its_estimator_promises():
    policy, sampled, reference = (torch.randn(5, generator=chance(k), dtype=torch.float64) for k in (1, 2, 3))
    policy.requires_grad_()
    wanted = divergence_gradient(policy, reference)
    for estimator in ("k1", "k2", "k3"):  # off-policy
        assert expected_gradient(policy, sampled, reference, estimator, True) == pytest.approx(wanted, rel=1e-9)
        uncorrected = expected_gradient(policy, sampled, reference, estimator, False)
        assert uncorrected != pytest.approx(wanted, abs=0.05)
    same = policy.detach().clone()  # on-policy
    for estimator in ("k1", "k2", "k3"):
        assert expected_gradient(policy, same, reference, estimator, True) == pytest.approx(wanted, rel=1e-9)
    assert expected_gradient(policy, same, reference, "k2", False) == pytest.approx(wanted, rel=1e-9)
    forward = divergence_gradient(policy, reference, turned=True)
    assert expected_gradient(policy, same, reference, "k3", False) == pytest.approx(forward, rel=1e-9)
    assert forward != pytest.approx(wanted, abs=0.05)
    assert expected_gradient(policy, same, reference, "k1", False) == pytest.approx([0] * 5, abs=1e-12)


def flat_to(ids):
    """A reward that is the same for all responses to some prompts."""
    return lambda examples, texts: [
        0.5 if example.id in ids else value
        for example, value in zip(examples, scored.fine(examples, texts), strict=True)
    ]


def drawn(folder, reward, **settings):
    run, _, state = scored.begun("grpo", folder, reward=reward, **settings)
    return run, groups.draw(run.trainer, state, run.plan.config, 0)


def test_flat_groups_are_drawn_again_and_the_others_are_left(tmp_path):
    flat, task = (
        {"e0", "e3", "e1", "e4", "e6", "e7"},
        tiny.task("causal", top_k=9),
    )  # with a support to put in place, too
    plain_reward, reward = scored.Recorder(flat_to(())), scored.Recorder(flat_to(flat))
    _, plain = drawn(tmp_path, plain_reward, task_=task)
    run, found = drawn(tmp_path, reward, redraws=10, task_=task)
    first, *rest = ([response.example.id for response in call] for call in reward.calls)
    assert first == [response.example.id for response in plain_reward.calls[0]], "the first draw is the same"
    open_slots = [slot for slot in range(4) if first[3 * slot] in flat]
    assert open_slots and len(open_slots) < 4
    slots, rounds = list(open_slots), 0
    final = first[::3]
    for again in rest:  # by hand: what stands in each slot after each round
        assert len(again) == 3 * len(slots), "only flat groups are drawn again"
        for place, slot in enumerate(slots):
            assert len(set(again[3 * place : 3 * place + 3])) == 1
            final[slot] = again[3 * place]
        assert not set(again) & set(first), "to prompts that the update does not have"
        slots, rounds = [slot for slot in slots if final[slot] in flat], rounds + 1
    assert not slots and rounds == len(rest), "none is left, and nothing is drawn when none is"
    examples = [run.trainer.examples[position].id for position in found.positions.tolist()]
    assert examples[::3] == final and not flat & set(examples)
    for row in (row for row in range(12) if row // 3 not in open_slots):
        assert float(plain.scores[row]) == float(found.scores[row])
        for part in ("prompts", "responses"):
            one, other = (exactness.real(getattr(kind.rollout, part), row) for kind in (plain, found))
            assert one == other
    calls = [response for call in reward.calls for response in call]
    assert found.spent == {
        "prompts": len(calls) / 3,
        "generated_tokens": sum(len(response.ids) for response in calls),
        "reward_calls": len(calls),
    }
    by_ids = {(response.example.id, tuple(response.ids)): response.score for response in calls}
    for row, example in enumerate(examples):
        ids = exactness.real(found.rollout.responses, row)
        assert float(found.scores[row]) == pytest.approx(by_ids[example, tuple(ids)])


def test_a_group_that_stays_flat_keeps_its_place(tmp_path):
    reward = scored.Recorder(scored.flat)
    run, learner, state = scored.begun("grpo", tmp_path, reward=reward, redraws=2, kl_coefficient=0.0)
    found = groups.draw(run.trainer, state, run.plan.config, 0)
    assert [len(call) for call in reward.calls] == [12, 12, 12]
    assert found.spent["prompts"] == 12 and found.spent["reward_calls"] == 36
    last = [response.example.id for response in reward.calls[-1]]
    assert [run.trainer.examples[position].id for position in found.positions.tolist()] == last
    assert learner.update(run.trainer, state, run.plan.config, 0)["objective/flat_groups"] == 1.0
    assert torch.equal(tiny.weights(run.trainer.policy), tiny.weights(tiny.model("causal")))


def test_answers_that_are_longer_than_those_they_replace_can_be_learnt_from(tmp_path):
    """Where no token counts, the padded support is closed everywhere."""
    task, found = tiny.task("causal", top_k=9, temperature=4.0, max_new_tokens=24), []
    half_flat = flat_to({example.id for example in tiny.examples()[1::2]})
    for over, chunk in (("vocabulary", 0), ("support", 0), ("support", 7)):
        settings = {"rollouts": 6, "minibatch_size": 6, "epochs": 1, "redraws": 3, "seed": 2, "log_prob_chunk": chunk}
        run, learner, state = scored.begun("grpo", tmp_path, reward=half_flat, task_=task, ratio_over=over, **settings)
        lines = [learner.update(run.trainer, state, run.plan.config, n) for n in range(3)]
        assert len({line["objective/length"] for line in lines}) > 1
        assert all(math.isfinite(line["policy/grad_norm"]) for line in lines)
        found.append(tiny.weights(run.trainer.policy))
    assert torch.allclose(found[1], found[2], atol=1e-5)


def test_a_calibrated_reward_is_its_share_among_samples_of_the_start(tmp_path):
    reward = scored.Recorder(scored.coarse, gaps=True)
    run, _, state = scored.begun("grpo", tmp_path, reward=reward, calibration_samples=8, calibration_tilt=1.5)
    found = groups.draw(run.trainer, state, run.plan.config, 0)
    own, *parts = reward.calls
    others = [one for part in parts for one in part]
    assert [len(part) for part in parts] == [8] * 4, "no more at once than an update's twelve"
    ties = 0
    for row, response in enumerate(own):
        if response.score is None:
            assert not found.scored[row]
            continue
        rivals = [one.score for one in others if one.example == response.example and one.score is not None]
        below, equal = (sum(test(rival) for rival in rivals) for test in (response.score.__gt__, response.score.__eq__))
        ties += equal
        share = (below + equal / 2) / len(rivals)
        assert float(found.scores[row]) == pytest.approx(math.exp(1.5 * share), rel=1e-5)
        assert float(found.raw_scores[row]) == pytest.approx(response.score)
    assert ties > 0
    assert found.spent["prompts"] == 4 and found.spent["reward_calls"] == 12 + 32
    assert found.spent["generated_tokens"] == sum(len(one.ids) for one in own + others)
    scored.move(run.trainer.policy)
    again = groups.draw(run.trainer, state, run.plan.config, 0)
    own_again, *parts_again = reward.calls[5:]
    assert [one.ids for part in parts_again for one in part] == [one.ids for one in others], "the start has not moved"
    assert [one.ids for one in own_again] != [one.ids for one in own]
    assert again.spent["reward_calls"] == 44


def test_a_response_with_nothing_to_be_compared_with_has_no_score(tmp_path):
    """None of the samples of the start to some prompts has a reward: a share of nothing is no number."""
    calls = []

    def reward(examples, texts):
        calls.append(examples)
        given = scored.fine(examples, texts)
        compared = len(calls) > 1  # the first call is about the update's own
        return [None if compared and one.id != "e8" else value for one, value in zip(examples, given, strict=True)]

    run, found = drawn(tmp_path, reward, calibration_samples=4)
    ids = [run.trainer.examples[position].id for position in found.positions.tolist()]
    assert "e8" in ids and set(ids) != {"e8"}
    assert found.scored.tolist() == [one == "e8" for one in ids]
    assert found.scores.isfinite().all()


def test_overlong_responses_pay_by_hand(tmp_path):
    assert rl.overlong(torch.tensor([1, 5, 6, 7, 8]), 8, 3).tolist() == pytest.approx([0, 0, 1 / 3, 2 / 3, 1])
    reward, task = scored.Recorder(scored.fine), tiny.task("causal", temperature=3.0)
    _, found = drawn(tmp_path, reward, overlong_buffer=4, overlong_penalty=0.5, task_=task)
    expected = [one.score - 0.5 * min(1, max(0, (len(one.ids) - 4) / 4)) for one in reward.calls[0]]
    assert found.scores.tolist() == pytest.approx(expected, rel=1e-5)
    assert {len(one.ids) for one in reward.calls[0]} > {8} and found.raw_scores.tolist() != found.scores.tolist()


def test_a_round_can_begin_from_the_start_again(tmp_path):
    """With `train_from = "start"`, the third round's step is the one of a fresh run on the same responses."""
    weights = []
    for train_from, rounds in (("start", range(3)), ("last", range(3)), ("last", [2])):
        settings = {"train_from": train_from, "epochs": 1, "minibatch_size": 12, "sample_from": "start"}
        run, learner, state = scored.begun("rft", tmp_path, **settings)
        for n in rounds:
            learner.update(run.trainer, state, run.plan.config, n)
        weights.append(tiny.weights(run.trainer.policy))
    again, gone_on, fresh = weights
    assert torch.equal(again, fresh) and not torch.equal(gone_on, fresh)


def test_samples_of_the_start_are_masked_by_the_start(tmp_path):
    """A masking policy that is due is refreshed from the policy, which does not draw."""
    settings = {"sample_from": "start", "mask": "learned_top_p", "top_p": 0.5}
    reward = scored.Recorder(scored.fine)
    run, learner, state = scored.begun("dpo", tmp_path, reward=reward, **settings)
    scored.move(run.trainer.policy, 0.1)
    state.mask_age, moved = run.plan.config.mask_updates, copy.deepcopy(run.trainer.policy)  # due
    learner.update(run.trainer, state, run.plan.config, 5)
    shares = []
    for model in (state.reference, moved):
        inside = []
        for one in reward.calls[0]:
            nuclei = [oracles.nucleus(row, 0.5) | {1} for row in scored.logits_of(model, one)]
            inside += [token in nucleus for token, nucleus in zip(one.ids, nuclei, strict=True)]
        shares.append(scored.mean(inside))
    assert shares[0] == 1.0 > shares[1]
