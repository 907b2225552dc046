"""PROPS: the behaviour policy's loss by slow loops in double precision, its samples, and what they are good for."""

import copy
import math
from types import SimpleNamespace

import pytest
from support.late import lates

from grue.errors import ConfigError

torch, tiny, scored, props = lates("torch support.tiny support.scored grue.algorithms.props")
optimize, oracles, exactness = lates("grue.rl.optimize support.oracles support.exactness")
FAMILIES = ["causal", "seq2seq"]
WHOLE = {"epochs": 1, "minibatch_size": 12, "behaviour_stop_kl": None}


def begun(family, folder, **settings):
    run = tiny.run(family, "props", folder, **{**WHOLE, **settings})
    return run, props.start(run.trainer, run.plan.config)


def moving(monkeypatch, state, spread):
    """Take steps of noise instead of those of the gradients; return the gradients, and the policy that each left."""
    gradients, policies = [], []

    def step(trainer, optimizer, config, where):
        parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in state.policy.parameters()]
        gradients.append(torch.cat([part.flatten() for part in parts]).double())
        optimizer.zero_grad(set_to_none=True)
        scored.move(state.policy, spread, seed=len(gradients))
        policies.append(copy.deepcopy(state.policy))
        return gradients[-1].norm()

    monkeypatch.setattr(optimize, "step", step)
    return gradients, policies


@pytest.mark.parametrize("family", FAMILIES)
def test_the_behaviour_policy_s_loss_is_that_of_slow_loops(family, tmp_path, monkeypatch):
    """Of three rounds; the second step of each fit is away from the policy, and some ratios outside the clip range."""
    reward = scored.Recorder(scored.fine)
    run, state = begun(
        family, tmp_path, reward=reward, rounds=3, behaviour_epochs=2, behaviour_clip=0.1, behaviour_kl=0.4,
        micro_batch_size=5,
    )  # fmt: skip
    own, measured, gradient_of = copy.deepcopy(state.policy), [], optimize.minibatch_gradient
    monkeypatch.setattr(
        optimize, "minibatch_gradient", lambda *given: measured.append(gradient_of(*given)) or measured[-1]
    )
    gradients, policies = moving(monkeypatch, state, 0.03)
    _, fits = props.collect(run.trainer, state, run.plan.config, 0)
    assert torch.equal(tiny.weights(state.policy), tiny.weights(own)), "bit for bit"
    assert len(fits) == 2 and len(gradients) == 4
    said = scored.Said(own, own)
    rows, outside = [one for call in reward.calls for one in call], 0
    for at, behaviour in enumerate((own, policies[0], own, policies[2])):
        moved, terms = scored.in_double(behaviour), []
        for one in rows[: 4 * (1 + at // 2)]:  # the responses of a round are rewarded together
            for new, old in zip(scored.token_logs(moved, one.example, one.ids), said.before(one), strict=True):
                ratio = torch.exp(new - old)
                bounded = ratio.clamp(0.9, 1.1)
                outside += scored.number(ratio) != scored.number(bounded)
                terms.append(max(ratio, bounded) + 0.4 * (ratio - 1 - (new - old)))
        loss = scored.mean(terms)
        assert scored.number(measured[at]["loss/total"]) == pytest.approx(scored.number(loss), rel=1e-5)
        assert scored.close(gradients[at], scored.gradient_of(loss, moved), 3e-5)
    assert outside > 0


@pytest.mark.parametrize("family", FAMILIES)
def test_each_round_is_drawn_by_its_policy_and_learnt_as_the_policy_s_own(family, tmp_path, monkeypatch):
    """The gradient is −A·∇log π, with the score for A, whoever drew the tokens: a critic that says 0 has no part."""
    plain = {"gamma": 1.0, "gae_lambda": 1.0, "kl_coefficient": 0.0, "whiten_advantages": False}
    plain |= {"rollouts": 12, "samples_per_prompt": 4, "reward": (reward := scored.Recorder(scored.fine))}
    run, state = begun(family, tmp_path, rounds=2, behaviour_epochs=1, **plain)
    own = copy.deepcopy(state.policy)
    with monkeypatch.context() as patch:
        gradients, policies = moving(patch, state, 0.3)
        figures = props.update(run.trainer, state, run.plan.config, 0)
    assert (figures["behaviour/steps"], figures["policy/steps"], figures["steps"]) == (1.0, 1.0, 2.0)
    first, second = reward.calls
    for policy, found, rows in ((own, first, slice(0, None, 2)), (policies[0], second, slice(1, None, 2))):
        reward.calls.clear()
        whole = tiny.run(family, "ppo", tmp_path, epochs=1, minibatch_size=12, **plain)
        whole.trainer.policy.load_state_dict(policy.state_dict())
        tiny.updated(whole)
        assert [one.ids for one in found] == [one.ids for one in reward.calls[0]][rows]
    said = scored.Said(own, own)
    terms = [-one.score * new for one in (*first, *second) for new in said.now(one)]
    assert scored.close(gradients[-1], said.gradient(scored.mean(terms)), 3e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_learned_mask_is_that_of_the_masking_policy_in_every_round(family, tmp_path, monkeypatch):
    """Though it was refreshed just now, so that it equals the policy."""
    run, state = begun(family, tmp_path, rounds=2, behaviour_epochs=1, mask="learned_top_p", top_p=0.7)
    own = scored.in_double(state.policy)
    with monkeypatch.context() as patch:
        moving(patch, state, 0.3)
        rollout = props.collect(run.trainer, state, run.plan.config, 0)[0].rollout
    size, checked = len(tiny.WORDS) + 3, 0
    opened = rollout.open_vocabulary(torch.arange(12), rollout.responses.ids.shape[1], size)
    for prompt, ids, rows in zip(rollout.prompts.lists(), rollout.responses.lists(), opened, strict=True):
        logits = exactness.alone(own, prompt, ids)
        for t in range(len(ids)):
            assert set(rows[t].nonzero()[:, 0].tolist()) == {1, *oracles.nucleus(logits[t], 0.7)}
            checked += 1
    assert checked > 24


def test_the_shares_of_drawn_tokens_are_nearer_to_their_probabilities_than_by_chance(tmp_path):
    """Of one prompt's first tokens, in total variation, the mean of eight seeds."""
    (example,), task, errors = tiny.examples(1), tiny.task("causal", max_new_tokens=1), {}
    model, size = scored.in_double(tiny.model("causal")), len(tiny.WORDS) + 3
    chances = [math.exp(scored.number(scored.token_logs(model, example, [token])[0])) for token in range(size)]
    for algorithm, more in {"ppo": {}, "props": {"rounds": 16}}.items():
        for seed in range(1, 9):
            reward = scored.Recorder(scored.fine)
            settings = {"rollouts": 64, "minibatch_size": 64, "samples_per_prompt": 64, "epochs": 1, **more}
            run = tiny.run("causal", algorithm, tmp_path, seed=seed, reward=reward, task_=task, **settings)
            run.trainer.examples = [example]
            tiny.updated(run)
            drawn = [one.ids[0] for call in reward.calls for one in call]
            off = [abs(drawn.count(token) / 64 - chance) / 2 for token, chance in enumerate(chances)]
            errors.setdefault(algorithm, []).append(math.fsum(off))
    assert scored.mean(errors["props"]) < 0.85 * scored.mean(errors["ppo"])


def test_one_process_must_draw_as_many_responses_as_there_are_rounds(tmp_path, refused):
    run = tiny.run("causal", "props", tmp_path, rounds=6)
    run.trainer.distributed = SimpleNamespace(size=3)
    with refused(ConfigError):
        props.start(run.trainer, run.plan.config)
