"""Precision, penalty, advantages and steps are exact (docs/reference/exactness.md), against slow loops."""

import dataclasses
import math
import statistics
from functools import partial
from types import SimpleNamespace

import pytest
from support import commands
from support.late import late, lates

from grue.algorithms.cards.ppo import PPOConfig
from grue.algorithms.cards.supervised import SupervisedConfig
from grue.runs.recipes import make_config
from grue.task_files import SUITES, load_task, task_names

torch = late("torch")
tiny, tiny_models, oracles, exactness, losses, saved = lates(
    "tiny tiny_models oracles exactness losses saved", "support."
)
critics, contexts, lm, scoring, tokens = lates("critic distributed forward log_probs tokens", "grue.lm.")
experience, rl, optimisation, trainer = lates("experience functional optimize trainer", "grue.rl.")
ppo, runs = late("grue.algorithms.ppo"), late("grue.runs.train")
FAMILIES = ["causal", "seq2seq"]
APART = ("responses", "policy")  # what of an experience is no tensor of numbers


def test_formulas_are_float32_under_autocast(tmp_path):
    run, learner, found = exactness.world("causal", tmp_path, "all of them", masked=False, precision="bfloat16")
    config = run.plan.config
    parts = {f.name: getattr(found, f.name) for f in dataclasses.fields(found) if f.name not in APART}
    parts |= {name: getattr(found.responses, name) for name in ("raw_scores", "scores", "token_scores")}
    said = {f.name: getattr(found.policy, f.name) for f in dataclasses.fields(found.policy) if f.name != "states"}
    advantages, returns = experience.advantages_and_returns(found, config)
    loss = losses.of_ppo(run, learner, config, found, advantages, returns, torch.arange(12))
    summed = {name: loss[name] for name in ("loss", "policy_loss", "value_loss", "approx_kl", "ratio_error")}
    for name, tensor in {**parts, **said, "advantages": advantages, "returns": returns, **summed}.items():
        assert tensor.dtype == torch.float32 and not tensor.is_inference(), name
    assert not any(t.is_inference() for t in (found.rollout.responses.ids, found.rollout.support))
    rollout = found.rollout
    with run.trainer.autocast(), torch.no_grad():
        logits, _ = lm.forward(run.trainer.policy, rollout.prompts, rollout.responses)
        scored = scoring.token_log_probs(run.trainer.policy, rollout.prompts, rollout.responses, 3.0, rollout.support)
    assert logits.dtype == torch.bfloat16, "the models do run in half precision"
    for row, t in rollout.responses.mask.nonzero().tolist():
        token, one = int(rollout.responses.ids[row, t]), [x / 3.0 for x in logits[row, t].tolist()]
        allowed = rollout.open_vocabulary(torch.tensor([row]), t + 1, len(one))[0, t].nonzero().flatten().tolist()
        assert float(scored.plain[row, t]) == pytest.approx(oracles.token_log_prob(one, token), abs=2e-5)
        assert float(scored.restricted[row, t]) == pytest.approx(oracles.token_log_prob(one, token, allowed), abs=2e-5)


@pytest.mark.parametrize("shared", [False, True], ids=["separate", "shared"])
def test_a_value_has_more_than_eight_bits(shared):
    model, prompts, responses = tiny_models.batch("gpt2")
    critic = critics.Critic(model, shared)
    chance = torch.Generator().manual_seed(0)
    torch.nn.init.normal_(critic.head.weight, std=0.1, generator=chance)
    torch.nn.init.constant_(critic.head.bias, 0.7)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        states = lm.forward(model, prompts, responses, states=True)[1]
        values = critic(prompts, responses, states)
    assert values.dtype == torch.float32
    assert (values[responses.mask] != values[responses.mask].bfloat16().float()).sum() > 6
    weight = critic.head.weight[0].tolist()
    for row, t in responses.mask.nonzero().tolist() if shared else []:
        slow = 0.7 + math.fsum(a * b for a, b in zip(weight, states[row, t].tolist(), strict=True))
        assert float(values[row, t]) == pytest.approx(slow, abs=1e-5)


def test_a_critic_stands_where_its_policy_stands():
    for shared in (False, True):
        critic = critics.Critic(tiny.model("causal").to("meta"), shared)
        assert {p.device.type for p in critic.parameters()} == {"meta"}


def test_the_reference_is_the_checkpoint_that_training_starts_from(tmp_path, monkeypatch):
    """Supervised, then NLPO: penalty and first mask are of the supervised model, and only the policy moves."""
    base = tiny.run("causal", "nlpo", tmp_path / "run", learning_rate=1e-2)
    warm = tiny.model("causal", seed=9)
    saved.save(tmp_path / "warm", model=warm)
    plan = dataclasses.replace(base.plan, init=tmp_path / "warm")
    policy, tokenizer = runs._load_policy(plan)
    run = dataclasses.replace(base, trainer=dataclasses.replace(base.trainer, policy=policy, tokenizer=tokenizer))
    seen, original = [], experience.mask_of_update

    def spying(trainer, state, config):
        mask = original(trainer, state, config)
        seen.append((state, tiny.weights(mask.model or state.policy)))
        return mask

    monkeypatch.setattr(experience, "mask_of_update", spying)
    tiny.updated(run, 2)
    learner, first_mask = seen[0]
    assert torch.equal(first_mask, tiny.weights(warm))
    assert torch.equal(tiny.weights(learner.reference), tiny.weights(warm))
    assert not any(p.requires_grad for p in learner.reference.parameters())
    assert not torch.equal(tiny.weights(policy), tiny.weights(warm))
    assert not torch.equal(tiny.weights(warm), tiny.weights(tiny.model("causal")))


def test_the_controller_of_ziegler_counts_nats_a_sequence(tmp_path):
    settings = {"kl_controller": "ziegler", "kl_target": 0.5, "kl_horizon": 100, "kl_coefficient": 0.2, "epochs": 1}
    lines = tiny.updated(tiny.run("causal", "ppo", tmp_path, **settings), 3)
    for before, after in zip(lines, lines[1:], strict=False):
        error = max(-0.2, min(0.2, (before["objective/kl_sequence"] - 0.5) / 0.5))
        expected = before["objective/kl_coefficient"] * (1 + error * 12 / 100)
        assert after["objective/kl_coefficient"] == pytest.approx(expected, rel=1e-6)
        whole = before["objective/kl"] * before["tokens"] / before["episodes"]
        assert before["objective/kl_sequence"] == pytest.approx(whole, rel=1e-4, abs=1e-6)


def test_the_plan_tells_the_unit_of_the_target():
    plain = ["train", "--dry-run", "--task", "commongen", "--algo", "ppo"]
    target = [*plain, "--set", "kl_target=8"]
    assert "  kl_target = 8.0 nats a sequence\n" in commands.grue(*target, "--set", "kl_controller=ziegler").output
    assert "  kl_target = 8.0 nats a token\n" in commands.grue(*target).output
    assert "  kl_target = none\n" in commands.grue(*plain).output


def test_advantages_are_whitened_once_for_all_minibatches(tmp_path, monkeypatch):
    seen, original = [], ppo.token_losses

    def spying(batch, config, experience, advantages, *rest):
        seen.append((advantages.clone(), experience.mask))
        return original(batch, config, experience, advantages, *rest)

    monkeypatch.setattr(ppo, "token_losses", spying)
    tiny.updated(tiny.run("causal", "ppo", tmp_path, reward=exactness.letters, minibatch_size=4))
    assert len(seen) == 6
    advantages, mask = seen[0]
    assert all(torch.equal(advantages, later) for later, _ in seen)
    values = [float(advantages[row, t]) for row, t in mask.nonzero().tolist()]
    assert len(values) < mask.numel()
    assert statistics.fmean(values) == pytest.approx(0, abs=1e-5)
    assert statistics.pstdev(values) == pytest.approx(1, abs=1e-4)


def test_minibatches_are_shuffled_anew_in_each_epoch_of_each_update():
    def orders(seed, n):
        run, config = SimpleNamespace(seed=seed), SimpleNamespace(epochs=2, minibatch_size=4)
        found = list(optimisation.epochs(run, config, torch.arange(10), n))
        assert all([len(part) for part in epoch] == [4, 4, 2] for epoch in found)
        return [torch.cat(epoch).tolist() for epoch in found]

    every = [order for seed, n in ((1, 0), (1, 1), (2, 0)) for order in orders(seed, n)]
    assert all(sorted(order) == list(range(10)) for order in every)
    assert len(set(map(tuple, every))) == 6 and orders(1, 1) == every[2:4]


@pytest.mark.parametrize("suite", SUITES)
def test_only_the_mini_suite_stops_early_by_default(suite):
    for name in task_names(suite):
        for algorithm in ("ppo", "nlpo", "supervised+nlpo"):
            config = make_config(load_task(name, suite), algorithm, {})
            assert (config.stop_kl is not None) == (suite == "mini")
            assert (config.reward_scale, config.reward_clip, config.normalize_rewards) == (None, None, False)
            assert (config.value_clip, config.dual_clip, config.whiten_advantages) == (None, None, True)


def test_the_running_scale_is_the_deviation_of_all_scores_and_moves_no_mean():
    moments, seen, chance = trainer.Moments(), [], torch.Generator().manual_seed(0)
    for size in (5, 1, 12):
        batch = 3 + 0.2 * torch.randn(size, generator=chance)
        moments.add(batch)
        seen += batch.tolist()
        assert moments.mean == pytest.approx(statistics.fmean(seen), rel=1e-9)
        assert moments.deviation == pytest.approx(statistics.pstdev(seen), rel=1e-6)
    assert trainer.Moments().deviation == 1.0


@pytest.mark.parametrize("family", FAMILIES)
def test_a_gradient_counts_every_token_alike(family, tmp_path):
    """Against one row after the other by autograd; the mean of the rows' means would be another gradient."""
    run = tiny.run(family, "supervised", tmp_path)
    pairs = run.trainer.pairs[:9]
    prompts, responses = optimisation.encode_pairs(run.trainer, pairs)
    rows = [(exactness.real(prompts, i), exactness.real(responses, i)) for i in range(9)]
    total = sum(len(said) for _, said in rows)

    def gradient(weights):
        run.trainer.policy.zero_grad()
        for (asked, said), weight in zip(rows, weights, strict=True):
            logits, _ = exactness.plain(run.trainer.policy, asked, said)
            (weight * torch.nn.functional.cross_entropy(logits, torch.tensor(said), reduction="sum")).backward()
        return torch.cat([p.grad.flatten() for p in run.trainer.policy.parameters()])

    exact = gradient([1 / total] * 9)
    biased = gradient([1 / (9 * len(said)) for _, said in rows])
    assert float((exact - biased).norm()) > 0.02 * float(exact.norm())
    for size, chunk in ((64, 0), (4, 0), (1, 0), (4, 3)):
        run.trainer.policy.zero_grad()
        parts = partial(optimisation.pair_losses, run.trainer, prompts, responses, chunk=chunk)
        optimisation.minibatch_gradient(run.trainer, torch.arange(9), responses.mask.float(), parts, size)
        found = torch.cat([p.grad.flatten() for p in run.trainer.policy.parameters()])
        assert float((found - exact).norm()) < 1e-5 * float(exact.norm())


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_decay_in_matrices_only(family):
    model = tiny.model(family)
    critic = critics.Critic(model, shared=False)
    torch.nn.init.ones_(critic.head.weight)
    torch.nn.init.ones_(critic.head.bias)
    optimizer = trainer.make_optimizer([model, critic], PPOConfig(learning_rate=0.01, weight_decay=0.5))
    named = {**dict(model.named_parameters()), **{f"critic.{n}": p for n, p in critic.named_parameters()}}
    assert {id(p) for group in optimizer.param_groups for p in group["params"]} == {id(p) for p in named.values()}
    before = {name: p.detach().clone() for name, p in named.items()}
    for parameter in named.values():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, parameter in named.items():
        keeps = name.endswith("bias") or "norm" in name or "ln_" in name
        expected = before[name] if keeps else before[name] * (1 - 0.01 * 0.5)
        assert torch.allclose(parameter, expected, atol=1e-7), name


@pytest.mark.parametrize("epsilon", [1e-8, 1e-3])
def test_adams_epsilon_is_the_configurations(epsilon):
    layer = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(layer.weight)
    optimizer = trainer.make_optimizer([layer], PPOConfig(learning_rate=0.1, adam_epsilon=epsilon))
    layer.weight.grad = torch.full_like(layer.weight, 1e-3)
    optimizer.step()
    assert float(layer.weight.detach()) == pytest.approx(-0.1 * 1e-3 / (1e-3 + epsilon), rel=1e-4)


def test_the_learning_rate_follows_its_schedule():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)

    def rates(schedule, warmup):
        config = SupervisedConfig(learning_rate=8.0, schedule=schedule, warmup=warmup)
        found = [trainer.set_learning_rate(optimizer, config, update, 8) for update in range(8)]
        assert optimizer.param_groups[0]["lr"] == found[-1]
        return found

    assert rates("constant", 0.0) == [8.0] * 8
    assert rates("linear", 0.0) == [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]
    assert rates("cosine", 0.0) == pytest.approx([4 + 4 * math.cos(math.pi * i / 8) for i in range(8)])
    assert rates("linear", 0.5) == pytest.approx([1.6, 3.2, 4.8, 6.4, 8.0, 6.0, 4.0, 2.0])


def test_the_learning_rate_stays_for_all_steps_of_an_update(tmp_path, monkeypatch):
    used, original = [], torch.optim.AdamW.step

    def spying(optimizer, *arguments):
        used.append(optimizer.param_groups[0]["lr"])
        return original(optimizer, *arguments)

    monkeypatch.setattr(torch.optim.AdamW, "step", spying)
    tiny.train(tiny.run("causal", "ppo", tmp_path, schedule="linear", learning_rate=4e-3, updates=2))
    assert used == pytest.approx([rate for rate in (4e-3, 2e-3) for _ in range(4)])


def test_policy_and_critic_are_clipped_as_one():
    policy, critic = torch.zeros(2, requires_grad=True), torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([policy, critic], lr=1.0)
    alone = SimpleNamespace(sharded=None, distributed=contexts.DistributedContext())
    policy.grad, critic.grad = torch.tensor([3.0, 0.0]), torch.tensor([4.0])
    assert float(optimisation.step(alone, optimizer, PPOConfig(max_grad_norm=0.5), "here")) == pytest.approx(5.0)
    assert policy.tolist() == pytest.approx([-0.3, 0.0], abs=1e-5)
    assert critic.tolist() == pytest.approx([-0.4], abs=1e-5)
    assert policy.grad is None and critic.grad is None
