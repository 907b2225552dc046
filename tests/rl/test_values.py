"""What a critic starts from, and how good it is, against numpy, loops and worlds whose truth is known."""

import numpy as np
import pytest
from support import tiny_models
from support.late import lates

from grue.algorithms.cards.ppo import PPOConfig
from grue.rl.settings import ActorCriticConfig

torch, tiny, exactness = lates("torch support.tiny support.exactness")
critics, lm, models = lates("critic forward model", "grue.lm.")
experience, trainer = lates("experience trainer", "grue.rl.")
WIDTH = {"opt": 20}  # OPT's head reads states narrower than its layers' 32
SETTINGS = {"gamma": 0.9, "kl_coefficient": 0.1, "rollouts": 24, "value_start": "regression"}


def some_world(groups=30, size=6, width=8, noise=0.1, seed=0):
    """Features with a linear truth: tokens of a group have a part of their target in common."""
    rng = torch.Generator().manual_seed(seed)
    features = 3.0 + 2.0 * torch.randn(groups * size, width, generator=rng, dtype=torch.float64)
    truth = torch.linspace(-1, 1, width, dtype=torch.float64)
    of_group = torch.arange(groups).repeat_interleave(size)
    shared = torch.randn(groups, generator=rng, dtype=torch.float64)[of_group]
    return features, features @ truth + 5.0 + noise * shared, of_group


def by_numpy(features, targets, strength):
    """Ridge regression on standardised features as one least-squares problem with rows for the penalty."""
    x, y = features.numpy(), targets.numpy()
    scaled = (x - x.mean(0)) / x.std(0)
    rows = np.vstack([scaled, np.sqrt(strength * len(x)) * np.eye(x.shape[1])])
    solved = np.linalg.lstsq(rows, np.concatenate([y - y.mean(), np.zeros(x.shape[1])]), rcond=None)[0]
    return lambda new: ((new.numpy() - x.mean(0)) / x.std(0)) @ solved + y.mean()


@pytest.mark.parametrize("strength", [1e-2, 10.0])
def test_the_fit_is_ridge_regression_and_no_prompt_sees_itself(strength, monkeypatch):
    monkeypatch.setattr(critics, "STRENGTHS", (strength,))
    features, targets, groups = some_world()
    weight, bias, held_out = critics.ridge(features, targets, groups)
    whole = by_numpy(features, targets, strength)
    assert (features @ weight[0] + bias).tolist() == pytest.approx(whole(features).tolist())
    for fold in range(critics.FOLDS):
        here = groups % critics.FOLDS == fold
        without = by_numpy(features[~here], targets[~here], strength)
        assert held_out[here].tolist() == pytest.approx(without(features[here]).tolist())


def test_it_holds_on_as_strongly_as_it_helps():
    features, targets, groups = some_world()
    weight, bias, held_out = critics.ridge(features, targets, groups)
    assert float((held_out - targets).square().mean() / targets.var()) < 0.01
    noise = torch.randn(len(groups) // 6, generator=torch.Generator().manual_seed(4), dtype=torch.float64)[groups]
    weight, bias, held_out = critics.ridge(features, noise, groups)
    spread = float((features @ weight[0] + bias).std() / noise.std())
    assert spread < 0.05
    assert float((held_out - noise).square().mean() / noise.var()) < 1.2


def test_one_prompt_gives_the_mean():
    features, targets, _ = some_world(groups=1)
    weight, bias, held_out = critics.ridge(features, targets, torch.zeros(6, dtype=torch.long))
    assert not weight.any() and set(held_out.tolist()) == {float(targets.mean())} == set(bias.tolist())


@pytest.mark.parametrize(
    ("targets", "missed", "share"),
    [
        ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], 1.0),
        ([1.0, 2.0, 3.0], [-1.0, 0.0, 1.0], 0.0),
        ([1.0, 3.0], [2.0, 2.0], -3.0),
        ([1e-9, 3e-9], [1e-9, 1e-9], 0.0),  # small, and not equal
        ([0.3, 0.3], [0.1, 0.0], None),
        ([0.3, 0.3 + 1e-9], [0.1, 0.0], None),  # equal but for rounding
        ([0.0, 0.0], [0.1, 0.0], None),
        ([2.0], [0.1], None),
    ],
)
def test_what_is_explained_of_targets(targets, missed, share):
    found = experience.explained(torch.tensor(targets, dtype=torch.float64), torch.tensor(missed, dtype=torch.float64))
    assert found == ({} if share is None else {"critic/explained_variance": pytest.approx(share)})


def test_a_critic_may_have_a_learning_rate_of_its_own():
    model = tiny.model("causal")
    critic = critics.Critic(model, shared=True)
    config = PPOConfig(learning_rate=1e-3, value_learning_rate=2e-2, schedule="linear")
    optimizer = trainer.make_optimizer([model, critic], config)
    trainer.set_learning_rate(optimizer, config, 5, 10)
    rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    assert list({rates[id(p)] for p in critic.parameters()}) == pytest.approx([1e-2])
    assert list({rates[id(p)] for p in model.parameters()}) == pytest.approx([5e-4])


def begun(folder, family="causal", **settings):
    run = tiny.run(family, "ppo", folder, **{"reward": exactness.letters, **SETTINGS, **settings})
    return run, run.plan.config, trainer.start(run.trainer, run.plan.config)


@pytest.mark.parametrize(("family", "value_model"), [("causal", "shared"), ("seq2seq", "separate")])
def test_the_head_is_fitted_to_the_states_of_the_first_rollouts(family, value_model, tmp_path, monkeypatch):
    """Of twelve examples an update of 24 has each twice: a prompt is held out with both of its answers."""
    run, config, state = begun(tmp_path, family, value_model=value_model)
    assert not state.critic.head.weight.any()
    seen, ridge = [], critics.ridge
    monkeypatch.setattr(experience, "ridge", lambda *given: seen.append(given[2]) or ridge(*given))
    found = experience.collect_valued(run.trainer, state, config, 0)
    mask, returns = found.mask, experience.discounted_returns(found, config)
    first_epoch = lambda learnt: next(experience.epochs(run.trainer, config, learnt, 0))  # noqa: E731
    reading = experience.reading_of(run.trainer, config, found.rollout, found.responses, first_epoch)
    scored = experience.score_all(state.policy, state.critic, reading, 1.0, config)
    assert float((scored.values - returns)[mask].square().mean()) < float(returns[mask].var())
    assert not torch.allclose(found.policy.values[mask], scored.values[mask])  # those have not seen their prompt
    assert not found.policy.values[~mask].any()
    positions, rows = found.responses.positions.tolist(), mask.nonzero()[:, 0].tolist()
    by_prompt = {(positions[row], int(group)) for row, group in zip(rows, seen[0].tolist(), strict=True)}
    assert len(by_prompt) == 12 == len({group for _, group in by_prompt}) < len(positions)
    before = state.critic.head.weight.clone()
    experience.collect_valued(run.trainer, state, config, 1)
    assert torch.equal(before, state.critic.head.weight) and len(seen) == 1


def test_explained_variance_by_loops(tmp_path):
    run, config, state = begun(tmp_path, value_start="zero")
    torch.nn.init.normal_(state.critic.head.weight, generator=torch.Generator().manual_seed(3))
    found = experience.collect(run.trainer, state, config, 0)
    returns, missed = [], []
    for row, counts in enumerate(found.mask.tolist()):
        after = 0.0
        for t in reversed(range(sum(counts))):
            after = float(found.rewards[row, t]) + 0.9 * after
            returns.append(after)
            missed.append(after - float(found.policy.values[row, t]))
    expected = {"critic/explained_variance": 1.0 - np.var(missed) / np.var(returns)}
    assert experience.explained_variance(found, config) == pytest.approx(expected, rel=1e-4)


def test_the_log_says_what_is_maximised_and_what_the_critic_explains_if_anything(tmp_path):
    for line in tiny.updated(begun(tmp_path)[0], 2):
        penalty = line["objective/kl_coefficient"] * line["objective/kl_sequence"]
        assert line["objective/penalised_reward"] == pytest.approx(line["objective/reward"] - penalty, abs=1e-5)
        assert line["critic/explained_variance"] < 1.0
    flat = {"gamma": 1.0, "kl_coefficient": 0.0, "value_start": "zero"}
    (line,) = tiny.updated(begun(tmp_path, reward=lambda examples, texts: [0.3] * len(texts), **flat)[0])
    assert "loss/value" in line and "critic/explained_variance" not in line, "all returns are equal"


def test_sharded_weights_start_at_zero():
    found = list(ActorCriticConfig(sharded=True, value_start="regression").problems())
    assert found == ['value_start = "regression" cannot be combined with sharded; set value_start = "zero".']


@pytest.mark.parametrize("kind", tiny_models.ALL)
@pytest.mark.parametrize("shared", [True, False])
def test_a_new_critic_says_zero_reads_states_of_the_right_width_and_learns(kind, shared):
    model, prompts, responses = tiny_models.batch(kind)
    assert models.hidden_size(model) == WIDTH.get(kind, 32)
    critic = critics.Critic(model, shared)
    assert shared or torch.equal(tiny.weights(critic.trunk), tiny.weights(model))
    _, states = lm.forward(model, prompts, responses, states=True)
    assert (critic(prompts, responses, states if shared else None) == 0).all()
    torch.nn.init.ones_(critic.head.weight)
    found = critic(prompts, responses, states if shared else None)
    assert torch.allclose(found[responses.mask], states.sum(-1)[responses.mask], atol=1e-4)
    found[responses.mask].square().sum().backward()
    learning = model if shared else critic.trunk
    assert sum(float(p.grad.abs().sum()) for p in learning.parameters() if p.grad is not None) > 0
