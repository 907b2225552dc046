"""Runs of two processes (gloo, CPU) are the runs of one: the same prompts, figures and weights up to rounding."""

import functools
import os
import signal
import subprocess
import sys
import time

import pytest
from support.late import late, lates
from support.paths import ROOT
from support.worlds import FAST, RESUMED, SLOW

from grue.algorithms import BUILT_IN
from grue.files import read_jsonl

torch, transformers, tiny, worlds, processes = lates("torch transformers support.tiny support.worlds support.processes")
distributed = late("grue.lm.distributed")
BOTH = """
import os
from pathlib import Path
import torch
from support.worlds import RESUMED, trained
from grue.lm.distributed import join_processes, leave_processes

torch.set_num_threads(1)
child = os.fork()  # what both import is imported once
os.environ["RANK"] = os.environ["LOCAL_RANK"] = "0" if child else "1"
world = join_processes()
out = {name: trained(name, Path(OUT) / name, world) for name in NAMES}
for name in (name for name in RESUMED if name in NAMES):
    out["first " + name] = trained(name, Path(OUT) / ("first " + name), world, stop_after=1)
    out["second " + name] = trained(name, Path(OUT) / ("second " + name), world)
torch.save(out, f"{OUT}/{world.rank}.pt")
leave_processes()
assert not child or os.waitpid(child, 0)[1] == 0
"""


def cases(*names):
    marked = [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in names]
    return pytest.mark.parametrize("name", marked)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """For a case: what one process and each of two saw of all cases beside it, and the folder of the two."""

    @functools.cache
    def of(slow):
        names, alone, folder = SLOW if slow else FAST, tmp_path_factory.mktemp("alone"), tmp_path_factory.mktemp("two")
        one = {name: worlds.trained(name, alone / name, distributed.DistributedContext()) for name in names}
        for name in (name for name in RESUMED if name in names):  # begun by one process, gone on with by two
            begun = worlds.trained(name, folder / f"second {name}", distributed.DistributedContext(), stop_after=1)
            assert begun["stopped"]
        _, ends = processes.launch(f"NAMES = {list(names)}\n{BOTH}", folder, processes=1, WORLD_SIZE="2")
        assert [code for _, code in ends] == [0], ends
        return one, [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in (0, 1)], folder

    return lambda name: of(name in SLOW)


def test_every_algorithm_is_tried():
    assert sorted(algorithm for algorithm, *_ in FAST.values()) == sorted(BUILT_IN)


@cases(*FAST, *SLOW)
def test_two_processes_train_as_one(both, name):
    one, saved, folder = both(name)
    wanted, (first, second) = one[name], [process[name] for process in saved]
    family = worlds.CASES[name][1]
    for two in (first, second):
        assert two["prompts"] == wanted["prompts"]
        assert len(two["lines"]) == len(wanted["lines"]) > 1
        for mine, line in zip(two["lines"], wanted["lines"], strict=True):
            for key in mine.keys() | line.keys():
                assert mine[key] == pytest.approx(line[key], rel=1e-4, abs=1e-5), key
        for (done, figures, best), validated in zip(two["validations"], wanted["validations"], strict=True):
            assert (done, best) == (validated[0], validated[2])
            assert figures == pytest.approx(validated[1], rel=1e-4, abs=1e-5)
        torch.testing.assert_close(two["weights"], wanted["weights"], rtol=1e-4, atol=1e-5)
    assert not torch.equal(wanted["weights"], tiny.weights(tiny.model(family)))
    assert torch.equal(first["weights"], second["weights"]) and first["lines"] == second["lines"], "bit for bit"
    shares = [first["share"], second["share"]]
    assert sum(shares) == pytest.approx(1.0 if "sharded" in name else 2.0)
    assert max(shares) < 0.6 or "sharded" not in name
    if name in worlds.UPDATES_ALONE:
        return
    assert wanted["validations"]
    logged = [line for line in tiny.logged(folder / name) if "of" in line]
    assert logged == first["lines"], "one process writes one log"
    kind = transformers.AutoModelForSeq2SeqLM if family == "seq2seq" else transformers.AutoModelForCausalLM
    assert torch.equal(tiny.weights(kind.from_pretrained(folder / name / "final")), first["weights"])
    assert (folder / name / "checkpoint" / "model.safetensors").exists()


@cases(*RESUMED)
def test_either_number_of_processes_goes_on_where_the_other_stopped(both, name):
    one, saved, folder = both(name)
    assert [process[f"first {name}"]["stopped"] for process in saved] == [True, True]
    gone_on = worlds.trained(name, folder / f"first {name}", distributed.DistributedContext())
    for resumed in (saved[0][f"second {name}"], gone_on):
        assert resumed["begin"] == (1, len(one[name]["lines"]))
        torch.testing.assert_close(resumed["weights"], one[name]["weights"], rtol=1e-4, atol=1e-5)


COMMAND = [
    *"-m grue train --task imdb --algo ppo --offline --tracker none --threads 1".split(),
    *"--set updates=300 --set rollouts=6 --set minibatch_size=3 --set epochs=1 --set validation_examples=2".split(),
    *"--set validate_every=300 --set save_every=300".split(),
]
LAUNCH = "-m accelerate.commands.launch --multi_gpu --num_processes 2 --main_process_port 0".split()


@pytest.mark.slow
def test_sigterm_to_the_launcher_saves_the_state(tmp_path):
    pytest.importorskip("accelerate")
    command = [sys.executable, *LAUNCH, *COMMAND, "--runs", str(tmp_path)]
    folder = tmp_path / "mini" / "imdb" / "ppo" / "seed-1"
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as launcher:
        try:
            wait_for_update(folder / "train.jsonl", launcher)
            os.kill(launcher.pid, signal.SIGTERM)
            printed, _ = launcher.communicate(timeout=100)
        finally:
            launcher.kill()
    assert launcher.returncode != 0
    assert "the same command resumes" in printed
    done = [line["update"] for _, line in read_jsonl(folder / "train.jsonl")][-1]
    assert f"stopped after update {done} of 300" in printed
    assert [path.name for path in (folder / "states").iterdir()] == [f"state-{done:06d}.pt"]


def wait_for_update(log, process):
    for _ in range(1200):
        if log.exists() and '"update":1}' in log.read_text():
            return
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.1)
    raise AssertionError("no update in two minutes")
