"""What the tests of sweeps share: jobs, records made by hand, and an executor without processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from support.factories import a_result, a_task
from support.own_task import OWN_TASK
from support.paths import ROOT

from grue.evaluation.folder import seal
from grue.files import write_json, write_jsonl
from grue.lm.checkpoint import CheckpointManifest
from grue.sweep.grid import GridEntry, SweepGrid
from grue.sweep.jobs import Job, plan_jobs
from grue.sweep.schedule import Outcome

# A run of a few seconds: two updates of eight answers, a state after each.
SMALL = {"updates": 2, "rollouts": 8, "minibatch_size": 8, "epochs": 1, "validation_examples": 8, "save_every": 1}


EVALUATED = {"predictions.jsonl": '{"id":"a","text":"b"}\n', "scores.jsonl": '{"id":"a"}\n'}


def a_job(system="ppo", seed=1, task="imdb", after=None, evaluate=True, algorithm=None, suite="mini", **about):
    entry = GridEntry(algorithm=algorithm or system, **about)
    names = {"suite": suite, "task": task, "source": task, "system": system}
    return Job(**names, entry=entry, seed=seed, after=after, evaluate=evaluate)


def planned(system, seed=1, task="imdb"):
    """The job of a task that a sweep plans."""
    return plan_jobs(SweepGrid(tasks=(task,), algorithms=(system,), seeds=(seed,)))[-1]


def leave_results(record, job, preference=50.0):
    """Write what a finished job leaves on the disk, as far as a sweep looks at it."""
    folder = record.runs / job.id
    folder.mkdir(parents=True, exist_ok=True)
    if job.trains:
        write_json(folder / "checkpoint" / "grue.json", a_manifest(job))
    if job.evaluate:
        for name, text in EVALUATED.items():
            (folder / name).write_text(text)
        weights = a_manifest(job).weights if job.trains else job.system
        seal(folder, {"weights": weights}, a_result(a_task(job.task), job.system, job.seed, preference))


def a_manifest(job):
    """What a checkpoint says of itself."""
    known = {name: getattr(job, name) for name in ("suite", "task", "system", "algorithm", "seed")}
    empty = dict.fromkeys(("task_hash", "backbone", "config_sha256"), "")
    return CheckpointManifest(**known, **empty, update=2, validation={}, training={})


def finish(record, job, **about):
    """Record a job as one that was started and finished."""
    record.add(job, "running")
    leave_results(record, job)
    return record.add(job, "finished", **about)


class FakeExecutor:
    """Ends jobs in the order in which they were started, each with the next of its outcomes, else finished."""

    def __init__(self, record, outcomes=None, room=2):
        self.record, self.outcomes, self.room = record, outcomes or {}, room
        self.running, self.started, self.most, self.stopping, self.closed = [], [], 0, False, False

    def has_room(self, job, running):
        return len(running) < self.room

    def start(self, job):
        assert job not in self.running
        self.running.append(job)
        self.started.append(job.id)
        self.most = max(self.most, len(self.running))

    def wait(self, seconds):
        if not self.running:
            return []
        job = self.running.pop(0)
        states = self.outcomes.get(job.id, [])
        state = "stopped" if self.stopping else states.pop(0) if states else "finished"
        if state == "finished":
            leave_results(self.record, job)
        return [(job, Outcome(state=state, message=None if state == "finished" else f"it {state}"))]

    def stop(self):
        self.stopping = True

    def close(self):
        self.closed = True


class Watcher:
    """An observer that keeps what it hears."""

    def __init__(self):
        self.heard = []

    def changed(self, job, state, message):
        self.heard.append((job.id, state, message))

    def tick(self, states):
        pass


# --- real processes --------------------------------------------------------------------------------------------------


def small_task(folder):
    """Write a task whose runs take seconds: eight rows for all its splits; return its file."""
    words = "cat dog bird man ball house tree fish".split()
    write_jsonl(folder / "rows.jsonl", [{"id": w, "prompt": f"the {w}", "reference": f"a {w} runs"} for w in words])
    (folder / "words.toml").write_text(OWN_TASK.format(metric="rougeL"), encoding="utf-8")
    return folder / "words.toml"


def sweep_command(runs, *more, tasks="imdb", algos="ppo", seeds="1", **changes):
    values = [part for key, value in {**SMALL, **changes}.items() for part in ("--set", f"{key}={value}")]
    grid = ("--tasks", str(tasks), "--algos", algos, "--seeds", seeds)
    return ["sweep", *grid, "--runs", str(runs), *values, *map(str, more)]


def start(*command, preexec_fn=None):
    """Start `grue` in a session of its own, as a terminal does."""
    return subprocess.Popen(
        [sys.executable, "-m", "grue", *command],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=preexec_fn,
    )


def ends_well(process, output):
    """Wait for a sweep that must end with 0 and print this."""
    said, errors = process.communicate()
    assert (process.returncode, said) == (0, f"{output}\n"), errors


def ends_with(process, code):
    """Wait for a sweep that must end with this code and no traceback; return its output and errors."""
    output, errors = process.communicate()
    assert process.returncode == code and "Traceback" not in errors, errors
    return output, errors


def end_all(process):
    """Leave nothing of a test's sweep behind."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_until(process, condition):
    while not (found := condition()):
        assert process.poll() is None, f"it ended first: {process.communicate()}"
        time.sleep(0.01)
    return found


def events(runs):
    """Every event as (job, state, message)."""
    lines = (runs / "sweep/events.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    return [(event["job"], event["state"], event.get("message")) for event in found]


def states(runs):
    return [(job, state) for job, state, _ in events(runs)]


def workers(process):
    """Return the pid of every worker of a sweep by the job that it does, read off its log's open file."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            log, stat = os.readlink(entry / "fd/1"), (entry / "stat").read_text()
        except OSError:
            continue
        session = int(stat.rpartition(")")[2].split()[3])
        if session == process.pid and log.endswith(".log"):
            found[log.partition("/sweep/logs/")[2].removesuffix(".log")] = int(entry.name)
    return found


def log_of(runs, job):
    """The whole lines of a run's log."""
    path = runs / job / "train.jsonl"
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def updates_of(runs, job):
    return [line["update"] for line in log_of(runs, job) if "seconds" in line and "update" in line]
