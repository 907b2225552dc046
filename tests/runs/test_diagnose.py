"""`grue diagnose`: what updates would see of a start, without changing it."""

import copy
import json
import math

import pytest
from click.testing import CliRunner
from support.late import late

from grue.cli.main import main
from grue.errors import ConfigError
from grue.runs.algorithms import find_algorithm

torch, np, tiny, exactness = late("torch"), late("numpy"), late("support.tiny"), late("support.exactness")
telling = late("grue.runs.remarks")
diagnosing, experience, rl = late("grue.runs.diagnose"), late("grue.rl.experience"), late("grue.rl.trainer")
forwarding, distributed = late("grue.lm.forward"), late("grue.lm.distributed")

LEARNERS = ["a2c", "grpo", "mdpo", "nlpo", "ppo", "trpo"]
BATCHES, PROMPTS = 4, 4


@pytest.fixture(autouse=True)
def few_prompts(monkeypatch):
    """Eight samples to each are compared where an update has one sample a prompt."""
    monkeypatch.setattr(diagnosing, "PROMPTS", PROMPTS)


def letters(examples, texts):
    return exactness.letters(examples, texts)


def nothing(examples, texts):
    return [0.0] * len(texts)


def found_by(algorithm, folder, reward=letters, **settings):
    settings = {**exactness.MORE.get(algorithm, {}), **settings}
    run = tiny.run("causal", algorithm, folder, reward=reward, **settings)
    before = tiny.weights(run.trainer.policy).clone()
    found = diagnosing.measure(run.plan, run.trainer, BATCHES)
    assert torch.equal(before, tiny.weights(run.trainer.policy))
    assert not folder.exists() or not [*folder.iterdir()]
    return found


def bench_of(algorithm, folder, **settings):
    run = tiny.run("causal", algorithm, folder, reward=letters, **settings)
    return run.trainer, run.plan.config, diagnosing.set_up(run.trainer, find_algorithm(algorithm), run.plan.config)


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_every_algorithm_is_diagnosed_and_left_as_it_was(algorithm, tmp_path):
    found = found_by(algorithm, tmp_path)
    assert (found.gradient.batch, found.gradient.batches) == (12, BATCHES)
    assert found.gradient.norm > 0 and math.isfinite(found.gradient.ratio)
    grouped = found.settings.samples_per_prompt > 1
    assert found.rewards.samples == (2 if grouped else 8)
    assert found.rewards.prompts == (BATCHES * 6 if grouped else PROMPTS)
    assert 0 < found.rewards.within <= 1
    assert (found.explained_variance is None) == (algorithm == "grpo")
    assert found.move.kl_token > 0 and found.move.seconds > 0
    assert found.move.kl_token <= found.move.kl_response <= 8 * found.move.kl_token  # a response has 1 to 8 tokens
    assert found.move.steps == {"a2c": 1, "trpo": None}.get(algorithm, found.move.planned)
    assert found.seconds == 4 * found.move.seconds
    said = telling.remarks(found)
    assert [one.about for one in said if one.about != "critic"] == "gradient reward update responses time".split()
    json.dumps({"found": [one.seen for one in said]})


def test_updates_that_reward_more_than_once_are_diagnosed_by_what_they_learn_from(tmp_path):
    def flat_to_odd(examples, texts):
        values = letters(examples, texts)
        return [0.0 if int(one.id[1:]) % 2 else value for one, value in zip(examples, values, strict=True)]

    plain, *others = (
        found_by("grpo", tmp_path, reward=flat_to_odd, **switch)
        for switch in ({}, {"redraws": 2}, {"calibration_samples": 2})
    )
    for found in others:
        assert found.rewards == plain.rewards, "rewards are those of the first draw, as the reward gives them"
        assert found.gradient.norm > 0


def test_the_gradient_is_that_of_the_loss(tmp_path):
    """REINFORCE's first step: the mean over the tokens of −A·∇log π, with A the worth less the batch's mean."""
    settings = {"max_grad_norm": 1e-3, "kl_coefficient": 0.0}
    trainer, config, bench = bench_of("reinforce", tmp_path, **settings)
    _, gradient, rewards = bench.still(config, "gradient", 0)
    drawn = experience.collect(bench.trainer.apart("diagnose", "gradient", 0), rl.start(trainer, config), config, 1)
    assert rewards == pytest.approx(drawn.responses.raw_scores.tolist())
    advantages = drawn.responses.raw_scores - drawn.responses.raw_scores.mean()
    said = experience.score_tokens(trainer.policy, None, drawn.rollout, torch.arange(12), 1.0, config)
    loss = -(advantages[:, None] * said.restricted).sum() / drawn.mask.sum()
    expected = torch.autograd.grad(loss, list(trainer.policy.parameters()), allow_unused=True)
    flat = [one.flatten() for one in expected if one is not None]
    assert torch.allclose(gradient, torch.cat(flat), atol=1e-5)


def test_batches_differ_and_the_critic_teaches_the_policy_nothing(tmp_path):
    """With equal rewards and no penalty, the values' loss would be the only gradient of a shared trunk."""
    settings = {"value_model": "shared", "kl_coefficient": 0.0, "gae_lambda": 1.0, "whiten_advantages": False}
    found = found_by("ppo", tmp_path, nothing, **settings)
    assert found.gradient.norm == 0.0 and found.gradient.ratio is None
    _, config, bench = bench_of("ppo", tmp_path, **settings)
    one, two, again = (bench.still(config, "gradient", k)[1] for k in (0, 1, 0))
    assert torch.equal(one, again) and not torch.allclose(one, two)


def test_the_critic_is_judged_on_other_rollouts(tmp_path):
    """A head that starts from 0 explains nothing; one that was fitted to a reward known from the prompt explains it."""
    assert found_by("ppo", tmp_path, kl_coefficient=0.0).explained_variance == pytest.approx(0.0, abs=1e-6)

    def of_the_prompt(examples, texts):
        return [float(len(example.prompt.split())) for example in examples]

    settings = {"kl_coefficient": 0.0, "gamma": 1.0, "rollouts": 48, "minibatch_size": 48}
    known = found_by("ppo", tmp_path, of_the_prompt, value_start="regression", **settings)
    assert known.explained_variance > 0.1  # twelve prompts teach a random model little
    assert (known.rewards.within, known.rewards.flat) == (0.0, 1.0)


def test_the_step_is_measured_where_it_begins_and_taken_back(tmp_path):
    near, far = (
        found_by("reinforce", tmp_path, learning_rate=rate, rollouts=24, minibatch_size=24) for rate in (1e-5, 1e-2)
    )
    assert near.move.kl_response < 1e-3 < far.move.kl_response
    assert next(one for one in telling.remarks(near) if one.about == "update").cure.endswith("raise learning_rate.")
    assert "lower learning_rate" in next(one for one in telling.remarks(far) if one.about == "update").cure

    def move(algorithm, **settings):
        _, config, bench = bench_of(algorithm, tmp_path, **settings)
        return bench.move(config, lambda: None)

    stopped = move("ppo", learning_rate=1e-2, stop_kl=1e-4)
    assert (stopped.steps, stopped.planned) == (1, 4)
    full, warm = (move("reinforce", schedule="linear", warmup=share) for share in (0.0, 1.0))
    assert warm.kl_token == full.kl_token, "a warm-up does not hide how far an update moves"
    # The only update of a run is its first: the paper's t would be 0 at the one behind it.
    annealed, constant = (found_by("mdpo", tmp_path, updates=1, anneal=anneal) for anneal in (True, False))
    assert annealed.gradient.norm == constant.gradient.norm > 0
    assert annealed.move.kl_token == constant.move.kl_token
    assert annealed.settings.anneal and not constant.settings.anneal


def test_the_kl_of_the_step_is_that_of_the_two_policies(tmp_path, monkeypatch):
    """Against the exact divergence of the next token's distributions, over the rollouts that it was measured on."""
    settings, moved = {"learning_rate": 1e-2, "rollouts": 96, "minibatch_size": 96}, []
    trainer, config, bench = bench_of("reinforce", tmp_path, **settings)
    still = diagnosing.still_update

    def watched(trainer, algorithm, state, config, n):
        moved.append((copy.deepcopy(state.policy), experience.collect(trainer, state, config, n).rollout))
        return still(trainer, algorithm, state, config, n)

    monkeypatch.setattr(diagnosing, "still_update", watched)
    found = bench.move(config, lambda: None)
    ((after, rollout),) = moved
    given = (rollout.prompts, rollout.responses)
    with torch.no_grad():
        new, old = (forwarding.forward(policy, *given)[0].log_softmax(-1) for policy in (after, trainer.policy))
    exact = (new.exp() * (new - old)).sum(-1)[rollout.responses.mask]
    assert exact.mean() > 1e-3
    assert found.kl_token == pytest.approx(float(exact.mean()), rel=0.2)


def test_products_are_those_of_numpy(monkeypatch):
    monkeypatch.setattr(diagnosing, "CHUNK", 7)
    rows = np.random.default_rng(0).normal(size=(4, 23)).astype(np.float32)
    products = diagnosing.inner_products([torch.from_numpy(row) for row in rows])
    assert products == pytest.approx(rows.astype(np.float64) @ rows.T.astype(np.float64))


def test_a_flat_reward_is_said_to_teach_nothing(tmp_path):
    said = {one.about: one for one in telling.remarks(found_by("grpo", tmp_path, nothing, kl_coefficient=0.0))}
    assert said["gradient"].seen == "0 in every batch"
    assert said["reward"].meaning == "All responses have the same reward."
    assert "--reward" in said["gradient"].cure and "--reward" in said["reward"].cure


def test_what_cannot_be_diagnosed_is_refused_before_anything_is_loaded(tmp_path, refused):
    alone, two = distributed.DistributedContext(), distributed.DistributedContext(size=2)
    for algorithm, batches, processes in (("supervised", 16, alone), ("ppo", 3, alone), ("ppo", 4, two)):
        plan = tiny.run("causal", algorithm, tmp_path).plan
        with refused(ConfigError):
            diagnosing.diagnose(plan, batches, lambda done, total: None, processes)
    refused.command("diagnose", "--task", "commongen", "--algo", "supervised+ppo", "--runs", tmp_path, code=3)
    assert not [*tmp_path.iterdir()]


def test_the_command_prints_figures_meanings_and_cures(tmp_path, monkeypatch):
    few = "--set rollouts=8 --set minibatch_size=8 --set updates=2 --batches 4".split()
    command = [*f"diagnose --task imdb --algo reinforce --runs {tmp_path}".split(), *few]
    measure, kept = diagnosing.measure, []
    monkeypatch.setattr(diagnosing, "measure", lambda *given: kept.append(measure(*given)) or kept[-1])
    data = json.loads(CliRunner().invoke(main, [*command, "--json"]).stdout)
    assert (data["gradient"]["batch"], data["gradient"]["batches"], data["rewards"]["samples"]) == (8, 4, 8)
    assert data["remarks"][0]["about"] == "gradient" and data["settings"]["updates"] == 2
    monkeypatch.setattr("grue.api.train.diagnose", lambda *given, **more: kept[-1])
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    assert "mini/imdb  reinforce from mini:causal, reward asked_sentiment, seed 1" in done.output
    assert "McCandlish et al. 2018" in done.output and "all of one length" in done.output
    assert not [*tmp_path.iterdir()]
