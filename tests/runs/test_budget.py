"""What a run says that training took: prompts, tokens drawn, texts rewarded and steps, added up over its chain."""

import dataclasses

import pytest
from support import tiny
from support.saved import MANIFEST
from torch.optim.optimizer import register_optimizer_step_post_hook

from grue.evaluation.systems import checkpoint_system
from grue.records import COSTS
from grue.runs import train as module
from grue.runs.algorithms import find_algorithm
from grue.runs.train import Interrupted, training_of_start

REINFORCED = [name for name in tiny.ALGORITHMS if name != "supervised"]


@pytest.fixture
def unvalidated(monkeypatch):
    monkeypatch.setattr(module, "validate", lambda *given: {"reward": 0.0})


@pytest.fixture
def steps():
    """Every step of an optimiser, as torch tells of it."""
    seen = []
    hook = register_optimizer_step_post_hook(lambda *given: seen.append(1))
    yield seen
    hook.remove()


@pytest.mark.parametrize("algorithm", REINFORCED)
def test_what_a_run_says_it_took_is_what_it_did(algorithm, tmp_path, unvalidated, steps):
    rewarded = []

    def reward(examples, texts, token_ids):
        rewarded.extend(token_ids)
        return [float(len(ids)) for ids in token_ids]

    settings = {"updates": 2, "rollouts": 12, "samples_per_prompt": 4}
    run = tiny.train(tiny.run("causal", algorithm, tmp_path, reward=reward, **settings))
    taken = sum(line.get("policy/step_size", 0.0) > 0.0 for line in run.observer.lines)
    policys_own = taken if algorithm == "trpo" else 0
    fitted = {"alol": 256}.get(algorithm, 0)  # prompts that the start answers once, before the first update
    assert list(run.training) == list(COSTS)
    assert {cost: run.training[cost] for cost in COSTS if cost != "seconds"} == {
        "tokens": sum(map(len, rewarded)) if not fitted else run.training["tokens"],
        "episodes": 24,
        "prompts": 6 + fitted,
        "generated_tokens": sum(map(len, rewarded)),
        "reward_calls": len(rewarded),
        "steps": len(steps) + policys_own,
    }
    assert len(rewarded) == 24 + fitted and steps
    assert run.training["tokens"] <= 24 * 8


def test_validation_is_no_call_of_training(tmp_path):
    rewarded = []

    def reward(examples, texts):
        rewarded.append(len(texts))
        return [1.0] * len(texts)

    run = tiny.train(tiny.run("causal", "reinforce", tmp_path, reward=reward, updates=2, validate_every=1))
    assert run.training["reward_calls"] == 24 < sum(rewarded)


def test_texts_to_which_the_reward_does_not_apply_are_calls(tmp_path, unvalidated):
    def reward(examples, texts):
        return [1.0, 2.0, None] * (len(texts) // 3)

    run = tiny.train(tiny.run("causal", "rloo", tmp_path, reward=reward, updates=1))
    assert run.observer.lines[0]["objective/scored"] == pytest.approx(2 / 3)
    assert run.training["reward_calls"] == 12 and run.training["prompts"] == 3


def test_supervised_training_draws_and_rewards_nothing(tmp_path, unvalidated, steps):
    run = tiny.train(tiny.run("causal", "supervised", tmp_path, epochs=2, batch_size=5))
    found = {cost: run.training[cost] for cost in ("prompts", "generated_tokens", "reward_calls", "steps", "episodes")}
    assert found == {"prompts": 48, "generated_tokens": 0, "reward_calls": 0, "steps": 10, "episodes": 48}
    assert len(steps) == 10


def test_what_an_algorithm_does_not_say_is_unknown_and_not_0(tmp_path, unvalidated):
    run = tiny.run("causal", "reinforce", tmp_path, updates=2)
    algorithm = find_algorithm("reinforce")

    def update(*given):
        figures = dict(algorithm.update(*given))
        return {name: figures[name] for name in ("tokens", "reward_calls")}

    run.carry_out(dataclasses.replace(algorithm, update=update))
    assert set(run.training) == {"tokens", "reward_calls", "seconds"} and run.training["reward_calls"] == 24


def test_a_state_of_older_code_leaves_what_it_did_not_count_unknown(tmp_path, unvalidated, monkeypatch):
    asked = iter([True])
    run = tiny.run("causal", "reinforce", tmp_path, updates=2, stop=lambda: next(asked))
    before = run.training = {"tokens": 0.0, "episodes": 0.0, "seconds": 0.0}  # what older versions saved
    with pytest.raises(Interrupted):
        tiny.train(run)
    again = tiny.train(tiny.run("causal", "reinforce", tmp_path, updates=2))
    assert set(again.training) == set(before) and again.training["episodes"] == 24


def test_a_chain_adds_up_what_its_start_states(tmp_path):
    older = {"tokens": 10.0, "episodes": 8.0, "seconds": 1.0}
    supervised = dataclasses.replace(MANIFEST, algorithm="supervised", training=older)
    assert training_of_start(supervised) == older | {"generated_tokens": 0.0, "reward_calls": 0.0}
    assert training_of_start(dataclasses.replace(supervised, start="of unknown kind")) == older
    assert training_of_start(dataclasses.replace(supervised, algorithm="ppo")) == older
    stated = dict.fromkeys(COSTS, 3.0)
    foreign = dataclasses.replace(supervised, training=stated | {"else": 1.0})
    assert training_of_start(foreign) == stated


def test_a_result_states_what_the_kept_update_and_the_whole_run_took(tmp_path, monkeypatch):
    values = iter([0.0, 2.0, 1.0])
    monkeypatch.setattr(module, "validate", lambda *given: {"reward": next(values)})
    run = tiny.run("causal", "ppo", tmp_path, updates=2, validate_every=1)
    tiny.train(run)
    system = checkpoint_system(run.plan.task, run.plan.checkpoint).record
    assert (system["update"], system["training"]["reward_calls"], system["training"]["prompts"]) == (1, 12, 12)
    assert (system["last"]["update"], system["last"]["training"]["reward_calls"]) == (2, 24)
    assert system["last"]["training"] == run.training
