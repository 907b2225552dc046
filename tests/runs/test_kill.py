"""Runs that are killed at any moment at all: the same command goes on from what lies on the disk, to the same end.

What a kill leaves is what was written until then. So the fast test copies a run's folder before every call that changes
it, and goes on from each copy; the slow one kills real processes.
"""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from support import tiny
from support.commands import SETTINGS, here, run_folder, train_command
from support.paths import ROOT

from grue.files import sha256_file
from grue.lm.checkpoint import read_manifest
from grue.runs import train as module

CLOCKS = re.compile(rb'"seconds": ?[0-9.e-]+|\| seconds \| `?[0-9.]+`? \|')


def everything(folder):
    """The content of all files below a run's folder, without clocks and what TensorBoard shows."""
    return {
        str(path.relative_to(folder)): CLOCKS.sub(b"", path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock" and "tensorboard" not in path.parts
    }


# --- every call ------------------------------------------------------------------------------------------------------

CALLS = ("replace", "fsync", "unlink", "rmdir", "mkdir", "truncate")
# β moves, so that its state counts.
TINY = {"updates": 3, "rollouts": 4, "minibatch_size": 4, "epochs": 1, "validate_every": 1, "keep_last": 1}
TINY |= {"kl_target": 0.05}


def train(folder, monkeypatch):
    """Train as `grue train` does, but on a tiny model, and so that every validation finds the best policy so far."""
    run = tiny.run("causal", "ppo", folder, task_=tiny.task("causal", max_new_tokens=3), **TINY)
    with monkeypatch.context() as patch:
        patch.setattr(module, "prepare", lambda *arguments: run)
        patch.setattr(module, "validate", lambda *given: {"reward": 0.0, "preference": run.training["episodes"]})
        module.train(run.plan, run.observer)
    return run


def watched(folder, copies, thorough, monkeypatch):
    """Train, and copy the folder before each call that changes something; return the call that was next, by copy.

    Unless thorough, one copy has to do for all stages of a file or folder that is filled under a temporary name.
    """
    found, seen, copying = {}, set(), []

    def state():
        temporary = re.compile(
            "" if thorough else r"(.*/)?\.[^/]*\.(new|previous)/.*|(.*/)?\.[^/]*\.(new|[0-9a-f]{16})"
        )
        names = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*"))]
        kept = {name: content for name, content in everything(folder).items() if not temporary.fullmatch(name)}
        return hash((tuple(kept.items()), tuple(name for name in names if name in kept or "/" not in name)))

    def before(name, original):
        def call(*arguments, **named):
            if not copying and (now := state()) not in seen:
                seen.add(now)
                copying.append(True)  # which makes such calls itself
                found[shutil.copytree(folder, copies / str(len(found)))] = name
                copying.clear()
            return original(*arguments, **named)

        return call

    folder.mkdir(parents=True)
    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, before(name, getattr(os, name)))
        run = train(folder, monkeypatch)
    return run, found


@pytest.mark.parametrize("thorough", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_kill_before_any_call_that_changes_the_disk_changes_nothing_in_the_end(thorough, tmp_path, monkeypatch):
    run, copies = watched(tmp_path / "whole", tmp_path / "copies", thorough, monkeypatch)
    wanted = everything(tmp_path / "whole")
    assert [best for _, _, best in run.observer.validations] == [True] * 4
    assert len(copies) > (80 if thorough else 25)
    begins = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # nobody cuts the power here, and it takes its time
    for copy in copies:
        again = train(copy, monkeypatch)
        assert everything(copy) == wanted, copies[copy]
        begins.append(again.observer.begin[0] if hasattr(again.observer, "begin") else "finished")
    assert set(begins) == {0, 1, 2, "finished"}
    print(len(copies), "moments;", {begin: begins.count(begin) for begin in sorted(set(begins), key=str)})


# --- real processes --------------------------------------------------------------------------------------------------

RUN = {**SETTINGS, "updates": 8, "validate_every": 2, "keep_last": 2}

# The process under test says where it is when it is asked to; some of them rename slowly, so as to be caught at it.
SITE = """
import faulthandler, os, signal, time
faulthandler.register(signal.SIGUSR1, file=open(os.environ["STACKS"], "w"), all_threads=False)
if os.environ.get("SLOW_RENAMES"):
    replace = os.replace
    def slow(source, target):
        time.sleep(0.3)
        replace(source, target)
    os.replace = slow
"""

ATTEMPTS = 5
OUTERMOST = "in _run_module_as_main\n"  # the last line of a whole stack of `python -m grue`
# Function on the stack → what the run is doing; the first that is found counts.
PHASES = {
    "save_state": "saving",
    "save_checkpoint": "saving",
    "validate": "validating",
    "collect": "sampling",
    "improve": "learning",
}
WANTED = ["starting", "sampling", "learning", "validating", "saving", "saving", "renaming", "renaming"]


def moments():
    """The moments: what the run shall be doing, after how many lines of its log, and how long after that."""
    chance = random.Random(5)
    return [(wanted, chance.randint(1, 9), chance.uniform(0.0, 0.2)) for wanted in WANTED]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run that nobody disturbed."""
    runs = tmp_path_factory.mktemp("whole")
    done = here(*train_command(runs, **RUN))
    assert done.exit_code == 0, done.output
    return run_folder(runs)


def start(runs, tmp_path, slow):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SITE)
    path = os.pathsep.join([str(tmp_path / "site"), str(ROOT)])
    settings = {"STACKS": str(tmp_path / "stacks"), "SLOW_RENAMES": "1" if slow else "", "PYTHONPATH": path}
    environment = {**os.environ, **settings, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "grue", *train_command(runs, **RUN)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def phase(running, stacks):
    """Ask a process where it is."""
    before = stacks.stat().st_size
    running.send_signal(signal.SIGUSR1)
    deadline = time.monotonic() + 5
    said = ""
    while OUTERMOST not in said and time.monotonic() < deadline and running.poll() is None:
        time.sleep(0.0002)
        said = stacks.read_text()[before:]
    return next((name for function, name in PHASES.items() if f" in {function}\n" in said), "elsewhere")


class Missed(Exception):
    """The process came to its end before it was caught at the moment, as may be on a busy machine."""


def wait_until(running, condition):
    while not condition():
        if running.poll() is not None:
            # a process that is asked where it is when it has put its handlers away dies of the question
            assert running.returncode in (0, -signal.SIGUSR1), f"it failed first: {running.communicate()[1]}"
            raise Missed
        time.sleep(0.001)


def kill_at(running, folder, stacks, wanted, lines, pause):
    """Kill a process that is doing what is wanted."""
    log = folder / "train.jsonl"
    if wanted == "starting":
        time.sleep(10 * pause)
    elif wanted == "renaming":
        wait_until(running, lambda: (folder / ".checkpoint.previous").exists() and not (folder / "checkpoint").exists())
    else:
        wait_until(running, lambda: log.exists() and log.read_bytes().count(b"\n") >= lines)
        time.sleep(pause)
        wait_until(running, lambda: phase(running, stacks) == wanted)
    running.kill()
    running.communicate()
    assert running.returncode == -signal.SIGKILL


def killed(tmp_path, wanted, lines, pause):
    """Kill a run that is doing what is wanted, after a few attempts if need be; return the folder of runs."""
    for attempt in range(ATTEMPTS):
        place = tmp_path / str(attempt)
        place.mkdir()
        running = start(place / "runs", place, slow=wanted == "renaming")
        try:
            kill_at(running, run_folder(place / "runs"), place / "stacks", wanted, lines, pause)
            return place / "runs"
        except Missed:
            continue
        finally:
            with contextlib.suppress(ProcessLookupError):
                running.kill()
    raise AssertionError(f"none of {ATTEMPTS} runs was caught {wanted}")


@pytest.mark.slow
@pytest.mark.parametrize("moment", moments(), ids=[f"{number}-{name}" for number, name in enumerate(WANTED)])
def test_a_process_killed_at_a_random_moment_goes_on_to_the_same_end(moment, whole, tmp_path, record_property):
    wanted = moment[0]
    runs = killed(tmp_path, *moment)
    folder = run_folder(runs)
    logged = [json.loads(line) for line in log_lines(folder)]
    left = sorted(path.name for path in folder.glob("states/*")) if folder.exists() else []
    record_property("moment", f"{wanted}, {len(logged)} lines, {left}")
    print(f"killed while {wanted}: {len(logged)} lines in the log, states {left}")
    if wanted == "renaming":
        assert not (folder / "checkpoint").exists()
    again = here(*train_command(runs, **RUN))
    assert again.exit_code == 0, again.output
    assert everything(folder).keys() == everything(whole).keys()
    assert everything(folder) == everything(whole)
    for name in ("checkpoint", "final"):
        assert read_manifest(folder / name).files == read_manifest(whole / name).files
        assert sha256_file(folder / name / "model.safetensors") == sha256_file(whole / name / "model.safetensors")


def log_lines(folder):
    """The whole lines of a log, which may not be there."""
    log = folder / "train.jsonl"
    return [line for line in log.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")] if log.exists() else []
