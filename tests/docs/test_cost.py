"""The plan of what the suite costs: FLOPs against torch's own counter, list scheduling by hand, the page."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from support import tiny
from support.paths import ROOT
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

sys.path += [str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "workers")]

from costs.counted import build, torch_counts
from costs.flops import ARCHITECTURES, TRAIN, Architecture, forward_flops, prefill_flops, step_flops
from costs.lengths import Lengths, longest, mean, quantiles
from costs.measure import host_kinds
from costs.rates import Card, Rates, Timed, longest_first, makespan, measured, seconds_of
from costs.work import Pass, Run, reinforced

from grue.algorithms import ppo, trpo
from grue.rl.state import make_learner
from grue.task_files import load_task

SHAPES = [
    Architecture("tiny GPT-2", "causal", 2, 64, 64, 256, 500, 64),
    Architecture("tiny T5", "seq2seq", 2, 64, 32, 96, 500),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
@pytest.mark.parametrize(("prompt", "response"), [(8, 8), (30, 4), (5, 40)])
def test_flops_are_those_that_torch_counts(shape, prompt, response):
    forward, both = torch_counts(build(shape, "cpu"), prompt, response)
    assert forward_flops(shape, prompt, response) == pytest.approx(forward, rel=0.05)
    assert TRAIN * forward_flops(shape, prompt, response) == pytest.approx(both, rel=0.05)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_parameters_are_those_of_the_model_but_for_biases_and_norms(shape):
    matrices = sum(p.numel() for p in build(shape).parameters() if p.ndim > 1 and p.shape[1] > 4)
    assert shape.parameters == matrices  # T5's table of relative positions has a column for each of few heads


# --- whole iterations ------------------------------------------------------------------------------------------------

PROMPT, RESPONSE = 6, 8
TINY = {
    "causal": Architecture("tiny", "causal", 2, 32, 32, 128, 23, 64),
    "seq2seq": Architecture("tiny", "seq2seq", 2, 32, 32, 64, 23),
}


@pytest.mark.parametrize("family", TINY)
@pytest.mark.parametrize(
    ("algorithm", "module", "values"),
    [
        ("ppo", ppo, {"epochs": 2}),
        ("ppo", ppo, {"epochs": 1, "value_model": "shared"}),
        ("trpo", trpo, {"cg_steps": 3, "critic_epochs": 2}),
    ],
)
def test_an_iterations_work_is_what_the_trainer_does(tmp_path, monkeypatch, family, algorithm, module, values):
    values = {"updates": 1, "rollouts": 12, "minibatch_size": 6, **values}
    task = replace(tiny.task(family, min_new_tokens=RESPONSE), recipes={algorithm: values})
    monkeypatch.setitem(ARCHITECTURES, "tiny", TINY[family])
    expected = work_of_iteration(Run(task, algorithm, Lengths((PROMPT, PROMPT), (RESPONSE, RESPONSE))))

    run = tiny.run(family, algorithm, tmp_path, task_=task, **values)
    words = PROMPT if family == "causal" else PROMPT - 1  # and the end token
    run.examples = [replace(each, prompt=" ".join(tiny.WORDS[:words])) for each in run.examples]
    learner = make_learner(run.policy, run.plan.config)
    if algorithm == "trpo":
        learner.optimizer = trpo.make_optimizer([learner.critic], run.plan.config)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):  # the others are not all counted
        line = module.one_update(run, learner, run.plan.config, 0)
    assert line["objective/length"] == RESPONSE
    tries = line.get("policy/line_search_steps")
    if tries is not None:
        expected += 2 * (tries - 2) * 12 * forward_flops(TINY[family], PROMPT, RESPONSE)
    assert expected == pytest.approx(counter.get_total_flops(), rel=0.05)


def work_of_iteration(run):
    return sum(one.count * one.flops for one in reinforced(run))


def test_decoding_with_a_cache_costs_less_than_reading_all_again():
    shape = SHAPES[1]
    steps = prefill_flops(shape, 40) + sum(step_flops(shape, 40, before) for before in range(10))
    again = sum(forward_flops(shape, 40, before + 1) for before in range(10))
    assert forward_flops(shape, 40, 10) < steps * 1.05 < again / 4


# --- lengths ---------------------------------------------------------------------------------------------------------


def test_the_longest_of_several_texts_by_simulation():
    lengths = torch.arange(1, 101)
    of = quantiles(lengths.tolist())
    assert mean(of) == pytest.approx(50.5, rel=0.01)
    drawn = lengths[torch.randint(100, (20_000, 8), generator=torch.Generator().manual_seed(0))]
    assert longest(of, 8) == pytest.approx(float(drawn.max(1).values.float().mean()), rel=0.02)


# --- seconds ---------------------------------------------------------------------------------------------------------


def test_a_pass_takes_as_long_as_the_slowest_of_arithmetic_memory_and_host():
    card = Card("toy", bfloat16=100.0, float32=10.0, bandwidth=20.0, memory=0.0)
    rates = Rates(card, compute=0.5, bandwidth=0.5, host={"decode": 3.0})
    arithmetic = Pass("update", "decode", 2, flops=500.0, bytes=1.0)
    assert seconds_of(arithmetic, rates) == 2 * 10.0
    assert seconds_of(replace(arithmetic, half=False), rates) == 2 * 100.0
    assert seconds_of(replace(arithmetic, bytes=200.0), rates) == 2 * 20.0
    assert seconds_of(replace(arithmetic, flops=1.0), rates) == 2 * 3.0
    assert seconds_of(replace(arithmetic, seconds=0.5), rates) == 2 * 10.5
    assert seconds_of(arithmetic, replace(rates, waits=True)) == 2 * 13.0


def test_makespan_by_hand():
    #  worker 1: a 2 ──► c 4        (c starts from a)
    #  worker 2: b 3 ────► d 1      (d takes the worker that b leaves)
    jobs = [Timed("a", 2.0), Timed("b", 3.0), Timed("c", 4.0, after="a"), Timed("d", 1.0)]
    assert makespan(jobs, 1) == 10.0
    assert makespan(jobs, 2) == 6.0
    assert makespan(jobs, 9) == 6.0  # the chain a, c


def test_a_job_that_cannot_start_lets_others_pass():
    jobs = [Timed("a", 5.0), Timed("b", 1.0, after="a"), Timed("c", 2.0)]
    assert makespan(jobs, 2) == 6.0


def test_longest_chains_first_end_sooner():
    jobs = [Timed("short", 1.0), Timed("other", 1.0), Timed("start", 3.0), Timed("end", 3.0, after="start")]
    assert [job.id for job in longest_first(jobs)] == ["start", "end", "short", "other"]
    assert (makespan(jobs, 2), makespan(longest_first(jobs), 2)) == (7.0, 6.0)


def test_a_job_that_waits_for_nothing_known_is_told():
    with pytest.raises(SystemExit, match="b waits for a"):
        makespan([Timed("b", 1.0, after="a")], 2)


def test_the_hosts_seconds_are_those_of_passes_without_width():
    setting = {"family": "seq2seq", "response": 16}
    row = {"row": "no width, seq2seq", "setting": setting, "generation": 0.32, "scoring": 0.09, "update": 0.2}
    causal = {**row, "row": "no width, causal", "setting": {**setting, "family": "causal"}, "scoring": 0.036}
    kinds = host_kinds([row, causal, {"row": "PPO, 20 + 20 tokens"}], beam=0.5)
    assert kinds["seq2seq decode"] == pytest.approx(0.02)  # 16 steps
    assert kinds["seq2seq forward"] == pytest.approx(0.03)  # policy, reference, critic
    assert kinds["seq2seq train"] == pytest.approx(0.1)  # policy, critic
    assert (kinds["seq2seq beam"], kinds["layer"]) == (0.5, pytest.approx(0.001))  # 12 layers


def test_rates_that_were_measured_take_the_place_of_a_card():
    peak = {"bfloat16": 100.0, "float32": 50.0, "bandwidth": 10.0}
    results = {"device": "cuda", "machine": {"device": "a GPU"}, "peak": peak, "compute": 0.5, "host": {"decode": 0.1}}
    rates = measured(results)
    assert seconds_of(Pass("update", "decode", 1, flops=100.0), rates) == 2.0
    assert seconds_of(Pass("update", "decode", 1, flops=100.0, half=False), rates) == 4.0
    assert seconds_of(Pass("update", "decode", 1), replace(rates, waits=True)) == 0.1


# --- the plan --------------------------------------------------------------------------------------------------------


def test_the_recipes_sample_the_papers_tokens():
    task = load_task("imdb", "grue")  # 48 tokens a response, whatever is written
    run = Run(task, "ppo", Lengths((64.0, 64.0), (48.0, 48.0)))
    assert run.config.updates * run.config.rollouts * 48 == pytest.approx(64_000, rel=0.02)


@pytest.mark.slow
def test_the_page_is_current():
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "cost.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
