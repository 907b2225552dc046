"""What a run says that training took: prompts, tokens drawn, texts rewarded and steps, added up over its chain."""

import dataclasses

import pytest
from support.late import late

from grue.lm import checkpoint
from grue.records import COSTS
from grue.runs import rewarded
from grue.runs.algorithms import find_algorithm

tiny, saving, training = late("support.tiny"), late("support.saved"), late("grue.runs.train")
responses, systems = late("grue.rl.responses"), late("grue.evaluation.systems")
optimizers, validation = late("torch.optim.optimizer"), late("grue.runs.validate")


@pytest.fixture
def unvalidated(monkeypatch):
    monkeypatch.setattr(training, "validate", lambda *given: validation.Validated({"reward": 0.0}, None))


@pytest.fixture
def steps():
    """Every step of an optimiser, as torch tells of it."""
    seen = []
    hook = optimizers.register_optimizer_step_post_hook(lambda *given: seen.append(1))
    yield seen
    hook.remove()


@pytest.mark.parametrize("algorithm", ["alol", "dpo", "es", "grpo", "ppo", "rft", "trpo"])
def test_what_a_run_says_it_took_is_what_it_did_and_to_which_prompts(algorithm, tmp_path, unvalidated, steps):
    """What an algorithm draws beside its updates is none of a pass over the prompts."""
    told = []

    def reward(examples, texts, token_ids):
        told.extend(token_ids)
        return [float(len(ids)) for ids in token_ids]

    settings = {"updates": 2, "rollouts": 12, "samples_per_prompt": 4}
    run = tiny.train(tiny.run("causal", algorithm, tmp_path, reward=reward, **settings))
    taken = sum(line.get("policy/step_size", 0.0) > 0.0 for line in run.observer.lines)
    policys_own = taken if algorithm == "trpo" else 0
    fitted = {"alol": 256, "dapo_advantage": 256}.get(
        algorithm, 0
    )  # prompts that the start answers once, before the first update
    assert list(run.training) == list(COSTS)
    assert {cost: run.training[cost] for cost in COSTS if cost != "seconds"} == {
        "tokens": sum(map(len, told)) if not fitted else run.training["tokens"],
        "episodes": 24,
        "prompts": 6 + fitted,
        "generated_tokens": sum(map(len, told)),
        "reward_calls": len(told),
        "steps": len(steps) + policys_own,
    }
    assert len(told) == 24 + fitted and steps
    assert run.training["tokens"] <= 24 * 8
    count, seed = run.plan.config.prompts, run.trainer.seed
    order = [{tiny.examples()[int(at)].id for at in responses.draw_positions(12, count, seed, n)} for n in range(2)]
    assert [set(line.rewards) for line in rewarded.read(tmp_path / "rewards.jsonl")] == order


def test_calls_are_those_of_training_also_to_texts_to_which_the_reward_does_not_apply(tmp_path):
    asked = []

    def reward(examples, texts):
        asked.append(len(texts))
        return [1.0, 2.0, None, 3.0] * (len(texts) // 4)

    run = tiny.train(tiny.run("causal", "rloo", tmp_path, reward=reward, updates=1, validate_every=1))
    assert run.observer.lines[0]["objective/scored"] == pytest.approx(0.75)
    assert run.training["reward_calls"] == 12 < sum(asked) and run.training["prompts"] == 3


def test_supervised_training_draws_and_rewards_nothing(tmp_path, unvalidated, steps):
    run = tiny.train(tiny.run("causal", "supervised", tmp_path, epochs=2, batch_size=5))
    found = {cost: run.training[cost] for cost in ("prompts", "generated_tokens", "reward_calls", "steps", "episodes")}
    assert found == {"prompts": 48, "generated_tokens": 0, "reward_calls": 0, "steps": 10, "episodes": 48}
    assert len(steps) == 10 and not (tmp_path / "rewards.jsonl").exists()


def test_what_an_algorithm_does_not_say_is_unknown_and_not_0(tmp_path, unvalidated):
    run, algorithm = tiny.run("causal", "reinforce", tmp_path / "a", updates=1), find_algorithm("reinforce")

    def update(*given):
        figures = dict(algorithm.update(*given))
        return {name: figures[name] for name in ("tokens", "reward_calls")}

    run.carry_out(dataclasses.replace(algorithm, update=update))
    assert set(run.training) == {"tokens", "reward_calls", "seconds"} and run.training["reward_calls"] == 12


def test_the_best_and_the_last_state_what_each_took_and_the_earlier_of_equals_is_the_best(tmp_path, monkeypatch):
    values = iter([0.0, 2.0, 2.0])
    monkeypatch.setattr(
        training, "validate", lambda *given: validation.Validated({"reward": 3.0, "preference": next(values)}, None)
    )
    run = tiny.train(tiny.run("causal", "ppo", tmp_path, updates=2, validate_every=1))
    assert [(done, best) for done, _, best in run.observer.validations] == [(0, True), (1, True), (2, False)]
    assert checkpoint.read_manifest(run.plan.checkpoint).update == 1
    system = systems.checkpoint_system(run.plan.task, run.plan.checkpoint).record
    assert (system["update"], system["training"]["reward_calls"], system["training"]["prompts"]) == (1, 12, 12)
    assert (system["last"]["update"], system["last"]["training"]["reward_calls"]) == (2, 24)
    assert system["last"]["training"] == run.training
