"""Direct advantage policy optimisation, against slow losses in double precision, one token at a time."""

import math

import pytest
from support.late import lates

torch, tiny, scored, dapo = lates("torch support.tiny support.scored grue.algorithms.dapo_advantage")
FAMILIES = ["causal", "seq2seq"]
BIAS = 0.75


def advantages(values, score, lam):
    """Σ_k λ^k of the differences of values from each token on; the score follows the last token."""
    gaps = [after - before for before, after in zip(values, [*values[1:], score], strict=True)]
    return [math.fsum(lam ** (k - t) * gaps[k] for k in range(t, len(gaps))) for t in range(len(gaps))]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("lam", "beta", "of_file"), [(0.0, 0.1, False), (0.6, 0.5, True)])
def test_the_loss_is_that_of_slow_loops(family, lam, beta, of_file, tmp_path, monkeypatch):
    weight = 0.05 * torch.randn(32, generator=torch.Generator().manual_seed(4))
    reward = scored.Recorder(scored.fine, gaps=True)
    settings = {"data": scored.write_file(tmp_path / "data.jsonl")} if of_file else {"samples_per_prompt": 4}
    settings |= {"epochs": 1, "rollouts": 48 if of_file else 24, "minibatch_size": 48 if of_file else 24}
    run = tiny.run(
        family, "dapo_advantage", tmp_path, reward=reward, beta=beta, gae_lambda=lam, micro_batch_size=5, **settings
    )
    state = dapo.ALGORITHM.start(run.trainer, run.plan.config)
    scored.move(run.trainer.policy)
    state.memory = {"value_weight": weight, "value_bias": torch.tensor(BIAS)}
    (step,), figures = scored.steps_of(run, state, monkeypatch, n=1)
    said, start = scored.Said(run.trainer.policy, tiny.model(family)), scored.in_double(tiny.model(family))
    groups = scored.groups_of_file() if of_file else scored.groups_of(reward.calls[0], 4)
    losses = []
    for one in (one for group in groups for one in group):
        values = (BIAS + scored.states_of(start, one) @ weight.double()).tolist()
        for a, now, before in zip(advantages(values, one.score, lam), said.now(one), said.before(one), strict=True):
            losses.append((a - beta * (now - before)) ** 2 / (2 * beta))
    assert len({len(one.ids) for group in groups for one in group}) > 1
    scored.assert_step(step, scored.mean(losses), said.policy, 3e-5, 3e-5)
    assert "critic/explained_variance" not in figures, "the critic is fitted before the first update alone"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_critic_predicts_what_the_start_gets_and_never_changes(family, tmp_path):
    """A reward for the first of two tokens is little known before it, and well after it."""
    drawn = []

    def of_the_first(examples, texts, token_ids):
        worth = [float(ids[0] % 2) for ids in token_ids]
        drawn.extend(scored.Response(*one) for one in zip(examples, map(list, token_ids), worth, strict=True))
        return worth

    settings = {"value_prompts": 240, "samples_per_prompt": 4, "reward": of_the_first}
    task = tiny.task(family, max_new_tokens=2, min_new_tokens=2)
    run = tiny.run(family, "dapo_advantage", tmp_path, task_=task, **settings)
    state = dapo.ALGORITHM.start(run.trainer, run.plan.config)
    first, kept = dapo.update(run.trainer, state, run.plan.config, 0), state.memory
    second = dapo.update(run.trainer, state, run.plan.config, 1)
    assert (first["prompts"], first["reward_calls"], second["reward_calls"]) == (243.0, 252.0, 12.0)
    assert first["critic/explained_variance"] > 0.2 and state.memory is kept
    weight, bias, start = kept["value_weight"], kept["value_bias"], scored.in_double(tiny.model(family))
    errors = torch.stack([scored.states_of(start, one).float() @ weight + bias - one.score for one in drawn[-48:]])
    sizes = errors.abs().mean(0).tolist()
    assert sizes[0] > 0.3 and sizes[1] < 0.7 * sizes[0], sizes
