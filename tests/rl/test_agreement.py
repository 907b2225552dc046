"""Sampler, scoring and learning see one policy: what tells a bug from the noise of a precision, and what makes up for it."""

import math

import pytest
from support.late import late, lates

from grue.algorithms.cards.ppo import PPOConfig
from grue.errors import TrainingError

torch, tiny, exactness, scored, processes = lates(
    "torch support.tiny support.exactness support.scored support.processes"
)
experience, optimize, rl = lates("experience optimize functional", "grue.rl.")
tokens = late("grue.lm.tokens")


def measured(gaps, ratios=None):
    """What a first minibatch with these gaps of log π to the sampler tells; its ratios are 1 if they are not given."""
    gaps = torch.tensor([gaps])
    mask = torch.ones_like(gaps, dtype=torch.bool)
    log_ratio = torch.zeros_like(gaps) if ratios is None else torch.tensor([ratios]).log()
    found = optimize.mismatch(gaps, torch.zeros_like(gaps), mask) | rl.ratio_errors(log_ratio, mask / mask.sum())
    return {f"policy/{name}": value for name, value in found.items()}


FLOAT32, BFLOAT16 = PPOConfig(precision="float32"), PPOConfig(precision="bfloat16")


def noise(count, size):
    return (size * torch.randn(count, generator=torch.Generator().manual_seed(0))).tolist()


def test_what_is_measured_by_hand():
    now, drawn = torch.tensor([[-1.0, -2.0, -3.0]]), torch.tensor([[-1.5, -1.9, 7.0]])
    found = optimize.mismatch(now, drawn, torch.tensor([[True, True, False]]))
    assert float(found["mismatch"]) == pytest.approx(0.6) and float(found["mismatch_bias"]) == pytest.approx(0.4)
    assert float(found["mismatch_max"]) == pytest.approx(0.5) and int(found["mismatch_tokens"]) == 2
    assert float(found["mismatch_kl"]) == pytest.approx(math.exp(0.5) - 1.5 + math.exp(-0.1) - 0.9, rel=1e-5)
    figures = optimize.figures_of({f"policy/{name}": value for name, value in found.items()})
    assert figures["policy/mismatch"] == pytest.approx(0.3) and "policy/mismatch_tokens" not in figures


@pytest.mark.parametrize("count", [32, 320, 4000])
def test_noise_of_bfloat16_is_none_and_a_shift_of_it_is(count, refused):
    """Noise as Gemma 3 270M has it, .045 in standard deviation, and a token as far off as it had in 753."""
    found = [*noise(count - 1, 0.045), 0.56]
    optimize.check_ratio(measured(found), BFLOAT16, 0)
    with pytest.raises(TrainingError, match="which has no direction" if count > 32 else "see different"):
        optimize.check_ratio(measured([gap - (0.07 if count > 32 else 0.2) for gap in found]), BFLOAT16, 0)
    with pytest.raises(TrainingError, match="on average"):
        optimize.check_ratio(measured([5 * gap for gap in found]), BFLOAT16, 0)
    with pytest.raises(TrainingError, match="at most"):
        optimize.check_ratio(measured(found), FLOAT32, 0)


def test_a_single_token_counts_in_float32_and_what_is_no_number_never_does(refused):
    exact = [*noise(99, 1e-5), 0.0]
    optimize.check_ratio(measured(exact), FLOAT32, 0)
    one_off = [*exact[:-1], 0.0011]
    with refused(TrainingError):
        optimize.check_ratio(measured(one_off), FLOAT32, 3)
    with refused(TrainingError):
        optimize.check_ratio(measured(exact, [1.0] * 99 + [1.0011]), FLOAT32, 3)
    optimize.check_ratio(measured(one_off, [1.0] * 99 + [1.5]), BFLOAT16, 3)
    with refused(TrainingError):
        optimize.check_ratio(measured(exact, [1.2] * 100), BFLOAT16, 3)
    for config in (FLOAT32, BFLOAT16):
        for wrong in (math.nan, -math.inf, math.inf):
            with pytest.raises(TrainingError):
                optimize.check_ratio(measured([*exact[:-1], wrong]), config, 3)
    with refused(TrainingError):
        optimize.check_ratio(measured([gap - 0.07 for gap in exact]), BFLOAT16, 3)


def test_weights_are_truncated_in_bfloat16_and_1_in_float32():
    now, drawn = torch.tensor([[-1.0, -2.0, -1.0]]), torch.tensor([[-1.5, -1.5, -3.0]])
    assert optimize.importance_weights(now, drawn, FLOAT32, 2.0).tolist() == [[1.0, 1.0, 1.0]]
    assert optimize.importance_weights(now, drawn, BFLOAT16, None).tolist() == [[1.0, 1.0, 1.0]]
    found = optimize.importance_weights(now, drawn, BFLOAT16, 2.0)[0].tolist()
    assert found == pytest.approx([math.exp(0.5), math.exp(-0.5), 2.0])


@pytest.mark.parametrize("algorithm", ["a2c", "grpo", "mdpo", "ppo", "reinforce_plus_plus", "rloo", "trpo"])
def test_what_a_token_counts_is_a_factor_of_its_advantage(algorithm, tmp_path, monkeypatch):
    """Halved weights halve the policy's gradient where nothing but advantages is learnt from."""
    norms, choose = [], experience.importance_weights
    only = {"kl_coefficient": 0.0, "epochs": 1, "minibatch_size": 12, **tiny.SMALL.get(algorithm, {})}
    only |= {"value_coefficient": 0.0} if algorithm in ("a2c", "mdpo", "ppo") else {}
    only |= {"step_size": 1e9} if algorithm == "mdpo" else {}
    for factor in (1.0, 0.5):
        monkeypatch.setattr(experience, "importance_weights", lambda *given, by=factor: by * choose(*given))
        run = tiny.run("causal", algorithm, tmp_path / str(factor), reward=scored.fine, **only)
        norms.append(tiny.updated(run)[0]["policy/grad_norm"])
    assert norms[1] == pytest.approx(0.5 * norms[0], rel=1e-4) and norms[0] > 0


# Bugs of the pass that scores a policy's tokens, as wrappers of `token_log_probs`.


def without_mask(of, model, prompts, responses, temperature, support=None, **named):
    return of(model, prompts, responses, temperature, None, **named)


def support_of_another_row(of, model, prompts, responses, temperature, support=None, **named):
    return of(model, prompts, responses, temperature, support.roll(1, 0), **named)


def padding_that_is_read(of, model, prompts, responses, *rest, **named):
    return of(model, tokens.Tokens(prompts.ids, torch.ones_like(prompts.mask)), responses, *rest, **named)


def colder(of, model, prompts, responses, temperature, *rest, **named):
    return of(model, prompts, responses, 0.7 * temperature, *rest, **named)


def a_position_late(of, model, prompts, responses, *rest, **named):
    ids = torch.where(responses.mask, responses.ids.roll(1, 1), responses.ids)
    return of(model, prompts, tokens.Tokens(ids, responses.mask), *rest, **named)


BUGS = [colder, a_position_late, without_mask, support_of_another_row]


@pytest.mark.parametrize(
    ("bug", "precision"),
    [  # so small a model is moved less by padding that is read than bfloat16 allows
        *((bug, precision) for bug in BUGS for precision in ("float32", "bfloat16")),
        (padding_that_is_read, "float32"),
    ],
)
@pytest.mark.parametrize("where", ["scoring and learning", "learning"])
def test_a_bug_ends_the_run_in_its_first_update(where, bug, precision, tmp_path, monkeypatch):
    of = experience.token_log_probs

    def wrong(*given, **named):
        buggy = where != "learning" or torch.is_grad_enabled()
        return bug(of, *given, **named) if buggy else of(*given, **named)

    monkeypatch.setattr(experience, "token_log_probs", wrong)
    task = tiny.task("causal", temperature=2.0)
    settings = {"precision": precision, "top_p": 0.8, "rollouts": 48, "minibatch_size": 48, "value_model": "shared"}
    with pytest.raises(TrainingError, match="see different policies"):
        tiny.updated(tiny.run("causal", "nlpo", tmp_path, task_=task, reward=exactness.letters, **settings))


RANKS = """
from pathlib import Path
import torch
from support import scored, tiny
from grue.lm.distributed import join_processes, leave_processes

torch.set_num_threads(1)
world, out = join_processes(), {}
for algorithm in ("ppo", "trpo", "dpo"):
    settings = {"precision": "bfloat16", "micro_batch_size": 2, **tiny.SMALL.get(algorithm, {})}
    run = tiny.run("causal", algorithm, Path(OUT) / f"{algorithm}-{world.rank}", reward=scored.fine, **settings)
    run.trainer.distributed = world
    out[algorithm] = tiny.updated(run, 2)
torch.save(out, f"{OUT}/{world.rank}.pt")
leave_processes()
"""


def test_ranks_score_the_rows_that_they_learn_from(tmp_path):
    """Whoever drew them: a row that nobody scored would have a ratio far from 1."""
    one, two = processes.together(RANKS, tmp_path)
    assert one == two
    for algorithm in ("ppo", "trpo"):
        assert all(line["policy/ratio_error"] < 1e-6 for line in one[algorithm])
        assert one[algorithm][0]["objective/kl"] == 0 != one[algorithm][1]["objective/kl"]
    assert one["dpo"][0]["policy/steps"] > 1 and all(math.isfinite(x) for line in one["dpo"] for x in line.values())
