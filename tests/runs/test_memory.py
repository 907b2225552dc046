"""A run that cannot fit into memory is refused before it trains, with the settings that would fit."""

import dataclasses

import pytest
from support.late import late

import grue
from grue.errors import Unavailable

memory, device, algorithms = late("grue.runs.memory"), late("grue.lm.device"), late("grue.runs.algorithms")
tiny, loading, torch = late("support.tiny"), late("grue.lm.load"), late("torch")

WEIGHTS = 268_098_176  # of Gemma 3 270M: 1.07 GB in float32


def held(algorithm, **settings):
    """In weights of the policy."""
    config = algorithms.find_card(algorithm).settings(**settings)
    trained = 0 if config.lora_rank else WEIGHTS
    return {name: size / (4 * WEIGHTS) for name, size in memory.training_bytes(WEIGHTS, trained, config).items()}


@pytest.mark.parametrize(
    ("algorithm", "settings", "expected"),
    [
        ("supervised", {"optimizer": "rmsprop"}, {"gradients and moments": 2}),
        ("grpo", {"lora_rank": 4}, {}),
        ("ppo", {}, {"gradients and moments": 3, "reference": 1, "critic": 4}),
        ("ppo", {"value_model": "shared"}, {"gradients and moments": 3, "reference": 1}),
        ("ppo", {"lora_rank": 4}, {"critic": 1}),
        ("nlpo", {"mask_source": "frozen"}, {"gradients and moments": 3, "reference": 1, "critic": 4}),
        ("nlpo", {"mask_source": "frozen", "lora_rank": 4}, {"masking policy": 1, "critic": 1}),
    ],
)
def test_what_a_run_holds_beside_its_policy(algorithm, settings, expected):
    assert held(algorithm, **settings) == expected


@pytest.mark.parametrize("algorithm", ["supervised", "grpo", "nlpo", "es"])
def test_what_is_counted_is_what_a_state_holds_after_an_update(algorithm, tmp_path):
    run = tiny.run("causal", algorithm, tmp_path, **tiny.SMALL.get(algorithm, {}))
    trainer, config, found = run.trainer, run.plan.config, algorithms.find_algorithm(algorithm)
    state = found.start(trainer, config)
    for n in range(2):  # where the mask leaves one token everywhere, as NLPO's first here, nothing is learnt
        found.update(trainer, state, config, n)
    assert state.optimizer.state, "a step was made"
    models = {id(one): one for one in (state.reference, state.mask_model, state.critic) if one is not None}
    weights = {id(value): value for one in models.values() for value in one.parameters()}
    learning = [group["params"] for group in state.optimizer.param_groups]
    moments = [value for kept in state.optimizer.state.values() for value in kept.values() if value.dim()]
    gradients = [value for values in learning for value in values]  # of which each has one during an update
    found = sum(value.numel() for value in [*weights.values(), *moments, *gradients])
    count = sum(value.numel() for value in trainer.policy.parameters())
    expected = sum(memory.training_bytes(count, count, config).values()) / 4
    assert found == pytest.approx(expected, rel=0.02), "a value head is more"


@pytest.mark.parametrize(("algorithm", "free"), [("ppo", 1_000_000), ("ppo", 40_000_000), ("nlpo", 1_000_000)])
def test_what_cannot_fit_is_refused_with_the_settings_that_fit_if_any_do(algorithm, free, monkeypatch, refused):
    policy, _ = loading.load_language_model("causal", "mini:causal")
    config = algorithms.find_card(algorithm).settings(value_model="separate")
    monkeypatch.setattr(device, "available", lambda: free)
    with refused(Unavailable):
        memory.check_memory(policy, config)
    for enough in (52_000_000, None):  # 8 × 5.7 MB, and 9 with a mask; a system that does not tell refuses nothing
        monkeypatch.setattr(device, "available", lambda enough=enough: enough)
        memory.check_memory(policy, config)


def test_a_run_is_refused_before_it_trains(tmp_path, monkeypatch):
    monkeypatch.setattr(device, "available", lambda: 1_000_000)
    monkeypatch.setenv("GRUE_DEVICE", "cpu")
    with pytest.raises(Unavailable, match="Training needs at least"):
        grue.train("imdb", "grpo", runs=tmp_path, updates=1)
    assert not list(tmp_path.rglob("config.toml")), "the folder is not claimed"


def test_an_update_without_memory_leaves_the_state_before_it(tmp_path, refused):
    found, fails = algorithms.find_algorithm("ppo"), [True]

    def update(trainer, state, config, n):
        if n == 2 and fails:
            with torch.no_grad():  # in the middle of an update: some weights have changed
                next(state.policy.parameters()).add_(1.0)
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.\nSee")
        return found.update(trainer, state, config, n)

    broken = dataclasses.replace(found, update=update)
    with refused(Unavailable):
        tiny.run("causal", "ppo", tmp_path / "short").carry_out(broken)
    fails.clear()
    again, whole = (tiny.run("causal", "ppo", tmp_path / name) for name in ("short", "whole"))
    for run in (again, whole):
        run.carry_out(broken)
    assert torch.equal(tiny.weights(again.trainer.policy), tiny.weights(whole.trainer.policy))


def test_what_needs_less_memory_is_named_and_another_error_stays_what_it_is(refused):
    def fail(algorithm, error, **settings):
        card = algorithms.find_card(algorithm)
        with memory.short_of_memory(card.settings(**settings), card.without_effect, "update 2"):
            raise error

    with refused(Unavailable):
        fail("trpo", MemoryError(), gradient_checkpointing=True)
    with refused(Unavailable):
        fail("es", RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 8 bytes."), micro_batch_size=1)
    with pytest.raises(RuntimeError, match="a bug"):
        fail("ppo", RuntimeError("a bug"))
