"""The settings that the paper's ablations need: a share of the data, a sampler of the rollouts' own, dropout."""

from types import SimpleNamespace

import pytest
from support import tiny_models
from support.late import lates

from grue.errors import ConfigError

torch, tiny = lates("torch support.tiny")
adapters, forward, lm = lates("adapters forward model", "grue.lm.")
experience, optimize, trainer, runs = lates("grue.rl.experience grue.rl.optimize grue.rl.trainer grue.runs.train")


def test_a_share_is_drawn_by_the_seed_and_holds_the_smaller_ones(refused):
    examples = tiny.examples(40)

    def ids(share, seed=7):
        return [example.id for example in runs.some_examples(examples, share, seed)]

    assert [len(ids(share)) for share in (0.1, 0.25, 0.5, 1.0)] == [4, 10, 20, 40]
    assert set(ids(0.1)) < set(ids(0.25)) < set(ids(0.5)) < set(ids(1.0))
    everything = [example.id for example in examples]
    assert ids(1.0) == everything
    assert ids(0.5) == sorted(ids(0.5), key=everything.index) != everything[:20]
    assert ids(0.5) != ids(0.5, seed=8)
    assert len(runs.some_examples(tiny.examples(12), 0.05, 1)) == 1
    with refused(ConfigError):
        runs.some_examples(tiny.examples(12), 0.01, 1)


@pytest.mark.parametrize(("share", "count"), [(None, 40), (0.25, 10)])
def test_policy_and_reward_see_the_same_share(share, count, tmp_path, monkeypatch):
    seen = {}

    def load(task, split, data_dir, offline):
        return SimpleNamespace(examples=tiny.examples(40 if split == "train" else 6))

    def make(expression, task, examples):
        seen["reward"] = [example.id for example in examples]
        return tiny.share_of_the

    monkeypatch.setattr(runs, "load_examples", load)
    monkeypatch.setattr(runs, "make_reward", make)
    monkeypatch.setattr(runs, "_load_policy", lambda plan: (tiny.model("causal"), tiny.tokenizer("causal")))
    plan = tiny.run("causal", "ppo", tmp_path, train_share=share).plan
    run = runs.prepare(plan, tiny.Watcher(), lambda: False, runs.DistributedContext())
    assert [example.id for example in run.trainer.examples] == seen["reward"]
    assert (len(run.trainer.examples), len(run.validation)) == (count, 6)


def test_top_k_can_be_turned_off(tmp_path):
    def drawn(**settings):
        run = tiny.run("causal", "ppo", tmp_path, task_=tiny.task("causal", top_k=3), **settings)
        return experience.collect(run.trainer, trainer.start(run.trainer, run.plan.config), run.plan.config, 0).rollout

    assert drawn(rollout_top_k=0).support is None
    assert drawn().mask_size.max() == pytest.approx(3 / (len(tiny.WORDS) + 3))


@pytest.mark.parametrize("kind", tiny_models.ALL)
def test_dropout_acts_in_its_block_alone(kind):
    model, prompts, responses = tiny_models.batch(kind)
    adapters.silence_dropout(model)

    def logits(rate=None, seed=1):
        with torch.no_grad(), adapters.dropping_out(model, rate, seed):
            return forward.forward(model, prompts, responses)[0]

    quiet, state = logits(), torch.random.get_rng_state()
    assert torch.equal(logits(0.0), quiet)
    if not any(lm.dropout_places(module) for module in model.modules()):
        assert kind == "gemma2", "the architecture has no dropout at all"
        return
    assert not torch.allclose(logits(0.3), quiet, atol=1e-3)
    assert torch.equal(logits(0.3), logits(0.3))
    assert not torch.equal(logits(0.3), logits(0.3, seed=2))
    with pytest.raises(ValueError, match="a bug"), adapters.dropping_out(model, 0.3, 1):
        raise ValueError("a bug")
    assert torch.equal(logits(), quiet)
    assert torch.equal(torch.random.get_rng_state(), state), "nobody else's chance is moved"
    assert not model.training
    lm.assert_no_dropout(model.train())


def test_whole_layers_are_never_left_out():
    model, _, _ = tiny_models.batch("bart")
    adapters.silence_dropout(model)
    with adapters.dropping_out(model, 0.3, 1):
        rates = {key: getattr(m, key) for m in model.modules() for key in lm.dropout_places(m)}
    assert rates.pop("layerdrop") == 0.0
    assert set(rates.values()) == {0.3}


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_recomputed_activations_drop_the_same(kind):
    """Checkpointing runs the forward pass twice; both have to meet the same chance."""
    gradients = []
    for checkpointing in (False, True):
        model, prompts, responses = tiny_models.batch(kind)
        adapters.silence_dropout(model)
        if checkpointing:
            adapters.enable_checkpointing(model)
        with adapters.dropping_out(model, 0.3, 5):
            logits = forward.forward(model, prompts, responses)[0]
            logits[responses.mask].logsumexp(-1).square().sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert torch.allclose(*gradients, atol=1e-5)


@pytest.mark.parametrize("value_model", ["separate", "shared"])
def test_dropout_is_the_policys(value_model, tmp_path, monkeypatch):
    """A critic of its own has none; one on the policy's trunk reads states that dropped. Every step has a seed."""
    run = tiny.run("causal", "ppo", tmp_path, value_model=value_model, dropout=0.2, gradient_checkpointing=True)
    seen, seeds = [], []

    def scoring(policy, critic, *arguments, **named):
        rates = [any(map(lm.dropout_rates, part.modules())) for part in (policy, critic) if part is not None]
        seen.append((torch.is_grad_enabled(), rates))
        return original(policy, critic, *arguments, **named)

    def drawn(seed, *purpose):
        seeds.append((seed, *purpose))
        return derive(seed, *purpose)

    original, derive = experience.score_tokens, optimize.derived_seed
    monkeypatch.setattr(experience, "score_tokens", scoring)
    monkeypatch.setattr(optimize, "derived_seed", drawn)
    tiny.updated(run, 2)
    learning = [rates for learns, rates in seen if learns]
    scored = [rates for learns, rates in seen if not learns]
    assert len(learning) == len(seeds) == len(set(seeds)) == 2 * 2 * 2
    assert all(rates == [True, False] for rates in learning)
    assert scored and not any(map(any, scored))
