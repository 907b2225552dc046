"""Runs of two processes (gloo, CPU) are the runs of one: the same prompts, figures and weights up to rounding."""

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from support import tiny
from support.processes import together
from support.worlds import CASES, FAST, RESUMED, SLOW, trained
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

from grue.files import read_jsonl
from grue.lm.distributed import DistributedContext


def cases(*names):
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in names]
    )


BOTH = """
from pathlib import Path
import torch
from support.worlds import RESUMED, trained
from grue.lm.distributed import join_processes, leave_processes

torch.set_num_threads(1)
world = join_processes()
out = {name: trained(name, Path(OUT) / name, world) for name in NAMES}
for name in (name for name in RESUMED if name in NAMES):
    out["first " + name] = trained(name, Path(OUT) / ("first " + name), world, stop_after=1)
    out["second " + name] = trained(name, Path(OUT) / ("second " + name), world)
torch.save(out, f"{OUT}/{world.rank}.pt")
leave_processes()
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """For a case: what one process and each of two saw of all cases beside it, and the folder of the two."""

    @functools.cache
    def of(slow):
        names, alone, folder = SLOW if slow else FAST, tmp_path_factory.mktemp("alone"), tmp_path_factory.mktemp("two")
        one = {name: trained(name, alone / name, DistributedContext()) for name in names}
        for name in (name for name in RESUMED if name in names):  # begun by one process, gone on with by two
            assert trained(name, folder / f"second {name}", DistributedContext(), stop_after=1)["stopped"]
        return one, together(f"NAMES = {list(names)}\n{BOTH}", folder), folder

    return lambda name: of(name in SLOW)


@cases(*CASES)
def test_two_processes_train_as_one(both, name):
    one, saved, _ = both(name)
    wanted = one[name]
    for two in (process[name] for process in saved):
        assert two["prompts"] == wanted["prompts"]
        assert len(two["lines"]) == len(wanted["lines"]) > 1
        for mine, line in zip(two["lines"], wanted["lines"], strict=True):
            for key in mine.keys() | line.keys():
                assert mine[key] == pytest.approx(line[key], rel=1e-4, abs=1e-5), key
        for (done, figures, best), validated in zip(two["validations"], wanted["validations"], strict=True):
            assert (done, best) == (validated[0], validated[2])
            assert figures == pytest.approx(validated[1], rel=1e-4, abs=1e-5)
        torch.testing.assert_close(two["weights"], wanted["weights"], rtol=1e-4, atol=1e-5)
        assert not torch.equal(wanted["weights"], tiny.weights(tiny.model(CASES[name][1])))


@cases(*CASES)
def test_both_processes_hold_the_same_bits(both, name):
    first, second = (process[name] for process in both(name)[1])
    assert torch.equal(first["weights"], second["weights"])
    assert first["lines"] == second["lines"]


@cases(*CASES)
def test_each_process_holds_all_weights_or_its_part(both, name):
    shares = [process[name]["share"] for process in both(name)[1]]
    assert sum(shares) == pytest.approx(1.0 if "sharded" in name else 2.0)
    assert max(shares) < 0.6 or "sharded" not in name


@cases(*CASES)
def test_one_process_writes_one_log(both, name):
    _, saved, folder = both(name)
    logged = [line for _, line in read_jsonl(folder / name / "train.jsonl") if "seconds" in line]
    assert [{k: v for k, v in line.items() if k != "seconds"} for line in logged] == saved[0][name]["lines"]


@cases(*CASES)
def test_transformers_alone_loads_what_two_processes_kept(both, name):
    _, saved, folder = both(name)
    kind = AutoModelForSeq2SeqLM if "seq2seq" in name else AutoModelForCausalLM
    assert torch.equal(tiny.weights(kind.from_pretrained(folder / name / "final")), saved[0][name]["weights"])
    assert (folder / name / "checkpoint" / "model.safetensors").exists()


@cases(*RESUMED)
def test_two_processes_go_on_where_one_stopped(both, name):
    one, saved, _ = both(name)
    second, total = saved[0][f"second {name}"], len(one[name]["lines"])
    assert second["begin"] == (1, total)
    torch.testing.assert_close(second["weights"], one[name]["weights"], rtol=1e-4, atol=1e-5)


@cases(*RESUMED)
def test_one_process_goes_on_where_two_stopped(both, name):
    one, saved, folder = both(name)
    assert [process[f"first {name}"]["stopped"] for process in saved] == [True, True]
    gone_on = trained(name, folder / f"first {name}", DistributedContext())
    assert gone_on["begin"] == (1, len(one[name]["lines"]))
    torch.testing.assert_close(gone_on["weights"], one[name]["weights"], rtol=1e-4, atol=1e-5)


COMMAND = [
    *"-m grue train --task imdb --algo ppo --offline --tracker none --threads 1".split(),
    *"--set updates=500 --set rollouts=6 --set minibatch_size=3 --set epochs=1 --set validation_examples=2".split(),
    *"--set validate_every=500 --set save_every=500".split(),
]
LAUNCH = "-m accelerate.commands.launch --multi_gpu --num_processes 2 --main_process_port 0".split()


@pytest.mark.slow
def test_sigterm_to_the_launcher_saves_the_state(tmp_path):
    pytest.importorskip("accelerate")
    command = [sys.executable, *LAUNCH, *COMMAND, "--runs", str(tmp_path)]
    folder = tmp_path / "mini" / "imdb" / "ppo" / "seed-1"
    with subprocess.Popen(
        command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as launcher:
        try:
            wait_for_update(folder / "train.jsonl", launcher)
            os.kill(launcher.pid, signal.SIGTERM)
            printed, _ = launcher.communicate(timeout=100)
        finally:
            launcher.kill()
    assert launcher.returncode != 0
    assert "the same command resumes" in printed
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
