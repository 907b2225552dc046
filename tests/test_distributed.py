"""Runs of two processes (gloo, CPU) are the runs of one: the same prompts, figures and weights up to rounding."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiny
import torch
from test_devices import together

from grue.files import read_jsonl
from grue.training.devices import World
from grue.training.recipes import ALGORITHMS
from grue.training.run import Interrupted

# What is tried in both worlds. The odd numbers leave one process more rows than the other, in rollouts, minibatches and
# micro-batches alike; a large epsilon keeps Adam from blowing rounding up.
EXACT = {"adam_epsilon": 1e-3, "micro_batch_size": 2, "save_every": 10}
ROLLOUTS = {**EXACT, "updates": 3, "rollouts": 11, "minibatch_size": 4, "epochs": 2}
CASES = {
    "ppo-causal": ("ppo", "causal", {"top_k": 9}, ROLLOUTS),
    "ppo-seq2seq": ("ppo", "seq2seq", {}, {**ROLLOUTS, "value_model": "shared", "stop_kl": 0.02}),
    "nlpo-causal": ("nlpo", "causal", {"min_new_tokens": 2}, {**ROLLOUTS, "mask_updates": 2}),
    "nlpo-seq2seq": ("nlpo", "seq2seq", {}, {**ROLLOUTS, "mask_updates": 2, "mass_coefficient": 0.1}),
    "supervised-causal": ("supervised", "causal", {}, {**EXACT, "epochs": 2, "batch_size": 23}),
    "supervised-seq2seq": ("supervised", "seq2seq", {}, {**EXACT, "epochs": 2, "batch_size": 23}),
}
RESUMED = ("ppo-causal", "nlpo-seq2seq")


def trained(name, folder, world, stop_after=None):
    """Train one case in this process's part of a world; return all that must not depend on the world."""
    algorithm, family, generation, settings = CASES[name]
    asked = []

    def reward(examples, texts):
        if examples is not run.validation:
            asked.append([example.id for example in examples])
        return tiny.share_of_the(examples, texts)

    run = tiny.run(family, algorithm, folder, reward=reward, task_=tiny.task(family, **generation), **settings)
    run.world = world
    if stop_after is not None:
        run.stop = lambda: len(run.observer.lines) >= stop_after
    try:
        ALGORITHMS[algorithm](run, run.plan.config)
        stopped = False
    except Interrupted:
        stopped = True
    rounds = [world.gather(one) for one in asked]  # every process is asked equally often
    return {
        "prompts": rounds,
        "lines": [{k: v for k, v in line.items() if k != "seconds"} for line in run.observer.lines],
        "validations": run.observer.validations,
        "weights": tiny.weights(run.policy),
        "stopped": stopped,
        "begin": run.observer.begin,
    }


BOTH = """
from pathlib import Path
import torch
from test_distributed import CASES, RESUMED, trained
from grue.training.devices import join_world, leave

torch.set_num_threads(1)
world = join_world()
out = {name: trained(name, Path(OUT) / name, world) for name in CASES}
for name in RESUMED:
    out["first " + name] = trained(name, Path(OUT) / ("first " + name), world, stop_after=1)
    out["second " + name] = trained(name, Path(OUT) / ("second " + name), world)
torch.save(out, f"{OUT}/{world.rank}.pt")
leave()
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What one process and each of two saw of every case, and the folder of the two."""
    alone, folder = tmp_path_factory.mktemp("alone"), tmp_path_factory.mktemp("together")
    one = {name: trained(name, alone / name, World()) for name in CASES}
    for name in RESUMED:  # begun by one process, gone on with by two
        assert trained(name, folder / f"second {name}", World(), stop_after=1)["stopped"]
    return one, together(BOTH, folder), folder


@pytest.mark.parametrize("name", CASES)
def test_two_processes_train_as_one(both, name):
    one = both[0][name]
    for two in (saved[name] for saved in both[1]):
        assert two["prompts"] == one["prompts"]
        assert len(two["lines"]) == len(one["lines"]) > 1
        for mine, wanted in zip(two["lines"], one["lines"], strict=True):
            for key in mine.keys() | wanted.keys():
                assert mine[key] == pytest.approx(wanted[key], rel=1e-4, abs=1e-5), key
        for (done, figures, best), wanted in zip(two["validations"], one["validations"], strict=True):
            assert (done, figures, best) == (wanted[0], pytest.approx(wanted[1], rel=1e-4), wanted[2])
        torch.testing.assert_close(two["weights"], one["weights"], rtol=1e-4, atol=1e-5)
        assert not torch.equal(one["weights"], tiny.weights(tiny.model(CASES[name][1])))


@pytest.mark.parametrize("name", CASES)
def test_both_processes_hold_the_same_bits(both, name):
    first, second = (saved[name] for saved in both[1])
    assert torch.equal(first["weights"], second["weights"])
    assert first["lines"] == second["lines"]


@pytest.mark.parametrize("name", CASES)
def test_one_process_writes_one_log(both, name):
    logged = [line for _, line in read_jsonl(both[2] / name / "train.jsonl") if "seconds" in line]
    assert [{k: v for k, v in line.items() if k != "seconds"} for line in logged] == both[1][0][name]["lines"]


@pytest.mark.parametrize("name", RESUMED)
def test_two_processes_go_on_where_one_stopped(both, name):
    whole, second = both[0][name], both[1][0][f"second {name}"]
    assert second["begin"] == (1, 3)
    torch.testing.assert_close(second["weights"], whole["weights"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", RESUMED)
def test_one_process_goes_on_where_two_stopped(both, name):
    assert [saved[f"first {name}"]["stopped"] for saved in both[1]] == [True, True]
    gone_on = trained(name, both[2] / f"first {name}", World())
    assert gone_on["begin"] == (1, 3)
    torch.testing.assert_close(gone_on["weights"], both[0][name]["weights"], rtol=1e-4, atol=1e-5)


COMMAND = [
    *"-m grue train --task imdb --algo ppo --offline --tracker none --threads 1".split(),
    *"--set updates=500 --set rollouts=6 --set minibatch_size=3 --set epochs=1 --set validation_examples=2".split(),
    *"--set validate_every=500 --set save_every=500".split(),
]
LAUNCH = "-m accelerate.commands.launch --multi_gpu --num_processes 2 --main_process_port 0".split()


def test_sigterm_to_the_launcher_saves_the_state(tmp_path):
    pytest.importorskip("accelerate")
    command = [sys.executable, *LAUNCH, *COMMAND, "--runs", str(tmp_path)]
    folder = tmp_path / "mini" / "imdb" / "ppo" / "seed-1"
    with subprocess.Popen(
        command, cwd=Path(__file__).parent.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as launcher:
        try:
            wait_for_update(folder / "train.jsonl", launcher)
            os.kill(launcher.pid, signal.SIGTERM)
            printed, _ = launcher.communicate(timeout=100)
        finally:
            launcher.kill()
    assert launcher.returncode != 0
    assert "the same command goes on from there" in printed
    done = [line["update"] for _, line in read_jsonl(folder / "train.jsonl")][-1]
    assert f"stopped after update {done} of 500" in printed
    assert [path.name for path in (folder / "states").iterdir()] == [f"state-{done:06d}.pt"]


def wait_for_update(log, process):
    for _ in range(1200):
        if log.exists() and '"update":1}' in log.read_text():
            return
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    raise AssertionError("no update in two minutes")
