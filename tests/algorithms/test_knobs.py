"""The settings that the paper's ablations need: a share of the data, a sampler of the rollouts' own, dropout."""

from types import SimpleNamespace

import pytest
import torch
from support import oracles, tiny, tiny_models
from support.tiny import ALGORITHMS

from grue.cli.options import parse_settings
from grue.errors import ConfigError
from grue.lm.adapters import dropping_out, enable_checkpointing, silence_dropout
from grue.lm.forward import forward
from grue.lm.model import assert_no_dropout, dropout_places, dropout_rates
from grue.rl import experience
from grue.rl import optimize as improve
from grue.rl.experience import collect
from grue.rl.trainer import start
from grue.runs import train as runs
from grue.runs.recipes import make_config
from grue.runs.train import Interrupted, some_examples

FAMILIES = ["causal", "seq2seq"]
REINFORCEMENT = [name for name in ALGORITHMS if name != "supervised"]
CASES = [*(("causal", name) for name in REINFORCEMENT), ("seq2seq", "ppo")]
SHORT = {"updates": 2, "save_every": 9}
ALL_MODELS = [*tiny_models.CAUSAL, *tiny_models.SEQ2SEQ]
# TRPO takes other sizes: one natural step, a short search for it, and a rate for the critic only.
SMALL_TRPO = {"cg_steps": 2, "critic_epochs": 1, "line_search_steps": 3}


def small(algorithm, **settings):
    groups = {"samples_per_prompt": 3} if algorithm in ("rloo", "grpo", "copg", "dpo", "pro", "rft", "tpo") else {}
    groups |= {"value_prompts": 12} if algorithm == "alol" else {}
    return groups | (SMALL_TRPO if algorithm == "trpo" else {}) | settings


# --- what can be -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "overrides", "message"),
    [
        ("supervised", {"train_share": 0.0}, "train_share must be above 0 and at most 1, found 0.0"),
        ("supervised", {"train_share": 1.5}, "train_share must be above 0 and at most 1, found 1.5"),
        ("ppo", {"rollout_temperature": 0.0}, "rollout_temperature must be above 0, found 0.0"),
        ("ppo", {"rollout_top_k": -1}, "rollout_top_k must be at least 0, found -1"),
        ("ppo", {"dropout": -0.1}, "dropout must be at least 0 and below 1, found -0.1"),
        ("a2c", {"dropout": 1.0}, "dropout must be at least 0 and below 1, found 1.0"),
        ("trpo", {"dropout": 0.1}, "dropout does not go with TRPO"),
        ("supervised", {"dropout": 0.1}, "unknown key 'dropout'"),
    ],
)
def test_values_that_cannot_be_are_refused(algorithm, overrides, message):
    with pytest.raises(ConfigError, match=message):
        make_config(tiny.task("causal"), algorithm, overrides)


def test_the_ends_of_the_ranges_can_be():
    made = make_config(
        tiny.task("causal"), "ppo", {"train_share": 1, "rollout_top_k": 0, "rollout_temperature": 9.5, "dropout": 0}
    )
    assert (made.train_share, made.rollout_top_k, made.rollout_temperature, made.dropout) == (1.0, 0, 9.5, 0.0)
    made = make_config(tiny.task("causal"), "trpo", {"rollout_temperature": 0.5, "dropout": 0.0})
    assert made.rollout_temperature == 0.5


def test_what_is_off_by_default_can_be_turned_off_where_a_setting_is_read():
    off = parse_settings(("reward_scale=none", "reward_clip=none", "stop_kl=none"))
    assert make_config(tiny.task("causal"), "ppo", off).reward_scale is None
    assert make_config(tiny.task("causal"), "ppo", parse_settings(("reward_scale=running",))).reward_scale == "running"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_left_out_they_change_no_configuration(algorithm):
    made = make_config(tiny.task("causal"), algorithm, {})
    new = [key for key in ("train_share", "rollout_temperature", "rollout_top_k", "dropout") if hasattr(made, key)]
    assert new[0] == "train_share"
    assert [getattr(made, key) for key in new] == [None] * len(new)


# --- train_share -----------------------------------------------------------------------------------------------------


def test_a_share_is_drawn_by_the_seed_and_holds_the_smaller_ones():
    examples = tiny.examples(40)
    ids = {share: [e.id for e in some_examples(examples, share, 7)] for share in (0.1, 0.25, 0.5, 1.0)}
    assert {share: len(found) for share, found in ids.items()} == {0.1: 4, 0.25: 10, 0.5: 20, 1.0: 40}
    assert set(ids[0.1]) < set(ids[0.25]) < set(ids[0.5]) < set(ids[1.0])
    assert ids[1.0] == [e.id for e in examples]
    order = {e.id: place for place, e in enumerate(examples)}
    assert ids[0.5] == sorted(ids[0.5], key=order.__getitem__)
    assert ids[0.5] != [e.id for e in examples][:20]
    assert ids[0.5] == [e.id for e in some_examples(examples, 0.5, 7)]
    assert ids[0.5] != [e.id for e in some_examples(examples, 0.5, 8)]


def test_a_share_of_nothing_is_refused():
    assert len(some_examples(tiny.examples(12), 0.05, 1)) == 1
    with pytest.raises(ConfigError, match=r"train_share = 0.01 leaves none of 12 training examples; raise it\."):
        some_examples(tiny.examples(12), 0.01, 1)


@pytest.mark.parametrize(("share", "count"), [(None, 40), (0.25, 10)])
def test_policy_and_reward_see_the_same_share(share, count, tmp_path, monkeypatch):
    seen = {}

    def load(task, split, data_dir, offline):
        return SimpleNamespace(examples=tiny.examples(40 if split == "train" else 6))

    def make(expression, task, examples):
        seen["reward"] = [e.id for e in examples]
        return tiny.share_of_the

    monkeypatch.setattr(runs, "load_examples", load)
    monkeypatch.setattr(runs, "make_reward", make)
    monkeypatch.setattr(runs, "_load_policy", lambda plan: (tiny.model("causal"), tiny.tokenizer("causal")))
    plan = tiny.run("causal", "ppo", tmp_path, train_share=share).plan
    run = runs.prepare(plan, tiny.Watcher(), lambda: False, runs.DistributedContext())
    assert [e.id for e in run.trainer.examples] == seen["reward"]
    assert len(run.trainer.examples) == count
    assert len(run.validation) == 6


# --- the rollouts' sampler -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "algorithm"), CASES)
def test_a_sampler_of_ones_own_is_the_same_as_the_tasks(family, algorithm, tmp_path):
    """Whoever asks for the temperature asks in the same place: else policies would part, or ratios leave 1."""
    own, wide = {"temperature": 3.0, "top_k": 15}, {"temperature": 0.7, "top_k": 3}
    settings = small(algorithm, validation_examples=1, **SHORT)
    theirs = tiny.train(tiny.run(family, algorithm, tmp_path / "a", task_=tiny.task(family, **own), **settings))
    settings |= {f"rollout_{key}": value for key, value in own.items()}
    ours = tiny.train(tiny.run(family, algorithm, tmp_path / "b", task_=tiny.task(family, **wide), **settings))
    assert torch.equal(tiny.weights(ours.trainer.policy), tiny.weights(theirs.trainer.policy))
    assert not torch.equal(tiny.weights(ours.trainer.policy), tiny.weights(tiny.model(family)))
    assert ours.observer.samples == theirs.observer.samples
    assert ours.observer.validations != theirs.observer.validations, "answers are drawn as the task says"


@torch.no_grad()
def test_log_probabilities_are_those_of_the_rollouts_temperature(tmp_path):
    run = tiny.run("causal", "ppo", tmp_path, rollout_temperature=0.5, rollout_top_k=4)
    learner = start(run.trainer, run.plan.config)
    found = collect(run.trainer, learner, run.plan.config, 0)
    logits, _ = forward(run.trainer.policy, found.rollout.prompts, found.rollout.responses)
    support = found.rollout.open_vocabulary(torch.arange(len(logits)), logits.shape[1], logits.shape[2])
    for b, t in found.mask.nonzero().tolist():
        row = [2.0 * value for value in logits[b, t].tolist()]
        opened = set(support[b, t].nonzero().flatten().tolist())
        assert opened == set(sorted(range(len(row)), key=lambda token: -row[token])[:4])
        expected = oracles.token_log_prob(row, int(found.rollout.responses.ids[b, t]), opened)
        assert float(found.log_probs[b, t]) == pytest.approx(expected, abs=1e-4)


def test_top_k_can_be_turned_off(tmp_path):
    narrow, all_open = (
        collect(run.trainer, start(run.trainer, run.plan.config), run.plan.config, 0).rollout
        for run in (
            tiny.run("causal", "ppo", tmp_path, task_=tiny.task("causal", top_k=3)),
            tiny.run("causal", "ppo", tmp_path, task_=tiny.task("causal", top_k=3), rollout_top_k=0),
        )
    )
    assert all_open.support is None
    assert narrow.mask_size.max() == pytest.approx(3 / (len(tiny.WORDS) + 3))


# --- dropout ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL_MODELS)
def test_dropout_acts_in_its_block_alone(kind):
    model, prompts, responses = tiny_models.batch(kind)
    silence_dropout(model)

    @torch.no_grad()
    def logits(rate=None, seed=1):
        with dropping_out(model, rate, seed):
            return forward(model, prompts, responses)[0]

    quiet, state = logits(), torch.random.get_rng_state()
    assert torch.equal(logits(0.0), quiet)
    if not any(dropout_places(module) for module in model.modules()):
        pytest.skip("the architecture has no dropout at all")
    assert not torch.allclose(logits(0.3), quiet, atol=1e-3)
    assert torch.equal(logits(0.3), logits(0.3))
    assert not torch.equal(logits(0.3), logits(0.3, seed=2))
    assert torch.equal(logits(), quiet)
    assert torch.equal(torch.random.get_rng_state(), state), "nobody else's chance is moved"
    assert not model.training
    assert_no_dropout(model.train())


def test_whole_layers_are_never_left_out():
    model, _, _ = tiny_models.batch("bart")
    silence_dropout(model)
    with dropping_out(model, 0.3, 1):
        rates = {key: getattr(m, key) for m in model.modules() for key in dropout_places(m)}
    assert rates.pop("layerdrop") == 0.0
    assert set(rates.values()) == {0.3}


def test_dropout_ends_with_an_error():
    model, _, _ = tiny_models.batch("gpt2")
    silence_dropout(model)
    with pytest.raises(ValueError, match="a bug"), dropping_out(model, 0.3, 1):
        raise ValueError("a bug")
    assert_no_dropout(model.train())


@pytest.mark.parametrize("family", FAMILIES)
def test_recomputed_activations_drop_the_same(family):
    """Checkpointing runs the forward pass twice; both have to meet the same chance."""
    gradients = []
    for checkpointing in (False, True):
        model, prompts, responses = tiny_models.batch("gpt2" if family == "causal" else "t5")
        silence_dropout(model)
        if checkpointing:
            enable_checkpointing(model)
        with dropping_out(model, 0.3, 5):
            forward(model, prompts, responses)[0][responses.mask].logsumexp(-1).square().sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert torch.allclose(*gradients, atol=1e-5)


@pytest.mark.parametrize(("family", "algorithm"), [case for case in CASES if not {"trpo", "es"} & {*case}])
def test_dropout_changes_what_is_learnt_and_not_what_is_sampled(family, algorithm, tmp_path):
    settings = small(algorithm, **SHORT)
    plain = tiny.train(tiny.run(family, algorithm, tmp_path / "plain", **settings))
    dropping = tiny.train(tiny.run(family, algorithm, tmp_path / "dropping", dropout=0.2, **settings))
    assert not torch.equal(tiny.weights(dropping.trainer.policy), tiny.weights(plain.trainer.policy))
    before, after = plain.observer.lines[0], dropping.observer.lines[0]
    if "policy/ratio_error" in before:
        assert before["policy/ratio_error"] < 1e-4 < 1e-2 < after["policy/ratio_error"]
    sampled = [key for key in before if key.startswith(("objective/", "mask/"))]
    assert {key: after[key] for key in sampled} == {key: before[key] for key in sampled}
    assert dropping.observer.validations[0] == plain.observer.validations[0]
    assert_no_dropout(dropping.trainer.policy.train())


@pytest.mark.parametrize("algorithm", ["ppo", "grpo"])
def test_a_dropout_of_zero_is_none(algorithm, tmp_path):
    settings = small(algorithm, **SHORT)
    plain = tiny.train(tiny.run("causal", algorithm, tmp_path / "plain", **settings))
    off = tiny.train(tiny.run("causal", algorithm, tmp_path / "off", dropout=0.0, **settings))
    assert torch.equal(tiny.weights(off.trainer.policy), tiny.weights(plain.trainer.policy))
    assert tiny.logged(tmp_path / "off") == tiny.logged(tmp_path / "plain")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_with_dropout_goes_on_bit_for_bit(family, tmp_path):
    settings = {"updates": 3, "dropout": 0.2, "micro_batch_size": 4}
    whole = tiny.train(tiny.run(family, "ppo", tmp_path / "whole", **settings))
    first = tiny.run(family, "ppo", tmp_path / "stopped", **settings)
    first.stop = lambda: len(first.observer.lines) == 2
    with pytest.raises(Interrupted):
        tiny.train(first)
    torch.manual_seed(99)  # the global generator has no say
    second = tiny.train(tiny.run(family, "ppo", tmp_path / "stopped", **settings))
    assert second.observer.begin == (2, 3)
    assert torch.equal(tiny.weights(second.trainer.policy), tiny.weights(whole.trainer.policy))
    assert tiny.logged(tmp_path / "stopped") == tiny.logged(tmp_path / "whole")


@pytest.mark.parametrize("value_model", ["separate", "shared"])
def test_dropout_is_the_policys(value_model, tmp_path, monkeypatch):
    """A critic of its own has none; one on the policy's trunk reads states that dropped. Every step has a seed."""
    run = tiny.run("causal", "ppo", tmp_path, value_model=value_model, dropout=0.2, gradient_checkpointing=True)
    enable_checkpointing(run.trainer.policy)
    seen, seeds = [], []

    def scoring(policy, critic, *arguments, **named):
        rates = [any(map(dropout_rates, part.modules())) for part in (policy, critic) if part is not None]
        seen.append((torch.is_grad_enabled(), rates))
        return original(policy, critic, *arguments, **named)

    def drawn(seed, *purpose):
        seeds.append((seed, *purpose))
        return derive(seed, *purpose)

    original, derive = experience.score_tokens, improve.derived_seed
    monkeypatch.setattr(experience, "score_tokens", scoring)
    monkeypatch.setattr(improve, "derived_seed", drawn)
    tiny.train(run)
    learning = [rates for learns, rates in seen if learns]
    scored = [rates for learns, rates in seen if not learns]
    assert len(learning) == len(seeds) == len(set(seeds)) == 4 * 2 * 2
    assert all(rates == [True, False] for rates in learning)
    assert scored
    assert not any(map(any, scored))
