"""Sweeps by real processes, and what may befall them: kills, signals, divergence, full disks, folders that are taken."""

import contextlib
import json
import os
import resource
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import sweeps
from support.commands import contents, grue, here

from grue.evaluation.endpoint import Endpoint
from grue.lm import device
from grue.lm.checkpoint import read_manifest
from grue.sweep import local
from grue.sweep.grid import ModelEntry
from grue.sweep.local import LocalExecutor, how_it_died, visible
from grue.sweep.record import Record
from grue.sweep.work import JobContext

slow = pytest.mark.slow
PPO, SECOND, THIRD = (f"own/words/ppo/seed-{seed}" for seed in (1, 2, 3))


@pytest.fixture
def task(tmp_path):
    return sweeps.small_task(tmp_path)


def wait_for_updates(process, runs, count, job=PPO):
    sweeps.wait_until(process, lambda: [done for done in sweeps.updates_of(runs, job) if done >= count])


def assert_all_done(runs, updates, *jobs):
    """Every run is finished, with one line for each of its updates, and every state is cleared away."""
    for job in jobs:
        assert sweeps.updates_of(runs, job) == list(range(1, updates + 1)), job
        assert sweeps.log_of(runs, job)[-1]["finished"]
        assert read_manifest(runs / job / "checkpoint").seed == int(job[-1])
        assert not (runs / job / "states").exists()


def newest_state(runs, job=PPO):
    return max(int(path.stem.removeprefix("state-")) for path in (runs / job / "states").glob("state-*.pt"))


@slow
def test_a_killed_worker_fork_server_or_sweep_costs_no_more_than_what_was_not_saved(sweeping, task, tmp_path):
    runs = tmp_path / "runs"
    command = sweeps.sweep_command(runs, "--no-evaluate", "--jobs", 1, tasks=task, seeds="1-2", updates=12)
    process = sweeping(*command)
    wait_for_updates(process, runs, 2)
    os.kill(sweeps.workers(process)[PPO], signal.SIGKILL)  # it is tried again, and goes on from its saved state
    wait_for_updates(process, runs, 2, SECOND)
    worker = sweeps.workers(process)[SECOND]
    os.kill(worker, signal.SIGSTOP)  # so that it is at work for as long as the next lines take
    died = "the worker was killed by SIGKILL, as the kernel does when memory runs out; it is started again"
    assert sweeps.events(runs)[:4] == [
        (PPO, "running", None),
        (PPO, "failed", died),
        (PPO, "running", None),
        (PPO, "finished", None),
    ]
    assert_all_done(runs, 12, PPO)
    server = int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(server, signal.SIGKILL)  # it takes its workers along, and they are tried again
    with contextlib.suppress(ProcessLookupError):
        os.kill(worker, signal.SIGCONT)
    sweeps.wait_until(process, lambda: sweeps.states(runs)[-2:] == [(SECOND, "failed"), (SECOND, "running")])
    sweeps.wait_until(process, lambda: not Path(f"/proc/{worker}").exists())
    wait_for_updates(process, runs, 3, SECOND)

    whole = contents(runs / PPO)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    while sweeps.workers(process):  # each ends as soon as it learns of it
        pass
    before, state = sweeps.log_of(runs, SECOND), newest_state(runs, SECOND)
    assert state >= 2
    assert grue("sweep", "status", runs).output.startswith("2 runs: 1 finished, 1 stopped\n")
    sweeps.ends_well(sweeping(*command), "2 runs: 2 finished")
    assert contents(runs / PPO) == whole
    assert [job for job, state in sweeps.states(runs) if state == "running"] == [PPO, PPO, SECOND, SECOND, SECOND]
    assert_all_done(runs, 12, PPO, SECOND)
    # What was done before the last state was not done again: its lines are those of the first process, clock included.
    kept = [line for line in before if line["update"] <= state]
    assert sweeps.log_of(runs, SECOND)[: len(kept)] == kept


@slow
def test_a_signal_saves_every_run_and_the_same_command_goes_on(sweeping, task, tmp_path):
    runs = tmp_path / "runs"
    command = sweeps.sweep_command(runs, "--no-evaluate", "--jobs", 2, tasks=task, seeds="1-3", updates=8)
    for number, done in ((signal.SIGINT, 1), (signal.SIGTERM, 3)):
        process = sweeping(*command)
        for job in (PPO, SECOND):
            wait_for_updates(process, runs, done, job)
        if number == signal.SIGINT:
            at_work = list(sweeps.workers(process).values())
            for worker in at_work:
                os.kill(worker, signal.SIGSTOP)  # so that they are at work for as long as it takes
            second = here(*command)
            for worker in at_work:
                os.kill(worker, signal.SIGCONT)
            assert (second.exit_code, second.stdout) == (2, "")
            assert f"Error: {runs}: another sweep is running here." in second.stderr
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)
        output, errors = sweeps.ends_with(process, 130)
        assert "Stopping: every run saves its progress; press Ctrl-C again to stop at once." in errors
        assert errors.endswith("Stopped; the same command resumes it.\n")
        assert output == "3 runs: 1 waiting, 2 stopped\n"
        assert sorted(state for _, state in sweeps.states(runs)[-4:]) == ["running", "running", "stopped", "stopped"]
        assert min(newest_state(runs, job) for job in (PPO, SECOND)) >= done
    sweeps.ends_well(sweeping(*command), "3 runs: 3 finished")
    assert_all_done(runs, 8, PPO, SECOND, THIRD)


def limited_to(size):
    """Let no file of a process grow beyond a size, as on a disk without room."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@slow
def test_a_sweep_makes_what_train_and_evaluate_make_on_a_full_disk_or_without_its_record(sweeping, task, tmp_path):
    """A disk without room for a model fails that run, and the same command finishes it."""
    runs, by_hand, start = tmp_path / "runs", tmp_path / "by-hand", "own/words/zero-shot/seed-1"
    command = sweeps.sweep_command(runs, "--jobs", 1, tasks=task, algos="zero-shot,ppo")
    output, _ = sweeps.ends_with(sweeping(*command, preexec_fn=limited_to(400_000)), 1)
    assert sweeps.states(runs) == [(start, "running"), (start, "finished"), (PPO, "running"), (PPO, "failed")]
    assert "cannot be written" in output and not (runs / PPO / "checkpoint").exists()
    whole = contents(runs / start)
    sweeps.ends_well(sweeping(*command), "2 runs: 2 finished")
    assert contents(runs / start) == whole
    assert_all_done(runs, 2, PPO)

    settings = [part for value in command if "=" in value for part in ("--set", value)]
    about = ("--task", str(task), "--runs", str(by_hand))
    for one in (
        ("train", "--algo", "ppo", *about, *settings),
        ("evaluate", "--checkpoint", str(by_hand / PPO), "--task", str(task)),
        ("evaluate", "--baseline", "zero-shot", *about),
    ):
        done = here(*one)
        assert done.exit_code == 0, done.output
    made = [read_manifest(folder / PPO / "checkpoint").files for folder in (runs, by_hand)]
    assert made[0] == made[1]
    for job in (PPO, start):
        for name in ("predictions.jsonl", "scores.jsonl"):
            assert (runs / job / name).read_bytes() == (by_hand / job / name).read_bytes(), (job, name)
        found, wanted = (json.loads((folder / job / "result.json").read_text()) for folder in (runs, by_hand))
        for system in (found["system"], wanted["system"]):
            for training in (system.get("training", {}), system.get("last", {}).get("training", {})):
                training.pop("seconds", None)
        assert {**found, "timing": 0, "grue": 0} == {**wanted, "timing": 0, "grue": 0}

    before = contents(runs / "own")
    shutil.rmtree(runs / "sweep")  # costs a look at every run, and no training
    sweeps.ends_well(sweeping(*command), "2 runs: 2 finished")
    assert {path: content for path, content in contents(runs / "own").items() if path.name != ".lock"} == {
        path: content for path, content in before.items() if path.name != ".lock"
    }


def test_a_log_that_cannot_be_written_fails_its_job_with_a_reason(tmp_path):
    said = []
    (tmp_path / "logs").write_text("a file in the folder's place")
    before = signal.getsignal(signal.SIGINT)
    try:
        place = JobContext(runs=tmp_path)
        local.work(SimpleNamespace(send=said.append), sweeps.a_job(), place, tmp_path / "logs/mini/x.log", None)
    finally:
        signal.signal(signal.SIGINT, before)
    (outcome,) = said
    assert outcome.state == "failed"
    assert outcome.message == f"{tmp_path}/logs/mini/x.log: cannot be written: Not a directory."


# --- room ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def executor(tmp_path, monkeypatch):
    """An executor of three workers on a machine with 10 GB, whose jobs want what their seed says, in GB."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    made = LocalExecutor(Record(tmp_path), JobContext(runs=tmp_path), 3)
    monkeypatch.setattr(local, "available", lambda: 10_000_000_000)
    monkeypatch.setattr(local, "resident", lambda pid: 1_000_000_000)
    monkeypatch.setattr(made, "_expected", lambda job: None if job.seed == 0 else job.seed * 1_000_000_000)
    return made


@pytest.mark.parametrize(
    ("running", "wanted", "room"),
    [
        ([], 99, True),  # alone a run may try whatever it wants
        ([4], 7, True),  # 3 GB more for the first, 7 for the second
        ([4], 8, False),
        ([4, 4], 4, True),
        ([4, 4], 5, False),
        ([1, 1, 1], 1, False),  # no worker is free
        ([0], 1, False),  # nobody knows what runs, or
        ([1], 0, False),  # what would
        ([], 0, True),
        ([99], 99, None),  # the system does not tell its memory: only the workers count
    ],
)
def test_a_run_starts_where_the_memory_suffices_for_all_that_they_may_still_want(
    executor, running, wanted, room, monkeypatch
):
    if room is None:
        monkeypatch.setattr(local, "available", lambda: None)
    jobs = [sweeps.a_job(f"p{number}", seed) for number, seed in enumerate(running)]
    for job in jobs:
        executor.workers[job.id] = SimpleNamespace(process=SimpleNamespace(pid=1), expected=executor._expected(job))
    assert executor.has_room(sweeps.a_job(seed=wanted), jobs) is (room is None or room)


def test_memory_is_what_the_system_has_left_and_in_a_container_of_its_limit(tmp_path):
    (tmp_path / "meminfo").write_text(
        "MemTotal: 8000000 kB\nMemFree: 100000 kB\nMemAvailable: 4000000 kB\nHugePages: 0\n"
    )
    assert device.available(tmp_path / "nothing", tmp_path) is None
    assert device.available(tmp_path / "meminfo", tmp_path / "cgroup") == 4_096_000_000
    (tmp_path / "memory.current").write_text("2000000000\n")
    (tmp_path / "memory.stat").write_text("anon 1000000000\ninactive_file 500000000\n")  # caches are given back
    for limit, free in (("max", 4_096_000_000), ("3000000000", 1_500_000_000), ("90000000000", 4_096_000_000)):
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        assert device.available(tmp_path / "meminfo", tmp_path) == free


def test_memory_of_a_process_is_what_lies_in_ram(tmp_path):
    for pid, status in ((7, "Name:\tpython\nVmPeak:\t 900 kB\nVmRSS:\t  500 kB\n"), (8, "Name:\tkthread\n")):
        (tmp_path / f"{pid}").mkdir()
        (tmp_path / f"{pid}/status").write_text(status)
    assert [local.resident(pid, tmp_path) for pid in (7, 8, 9)] == [512_000, 0, 0]
    assert local.resident(os.getpid()) > 10_000_000


def test_a_run_is_expected_to_want_what_its_like_took_else_many_times_its_weights(tmp_path):
    record = Record(tmp_path)
    for system, seed, peak in (("ppo", 1, 5_000), ("ppo", 2, 6_000), ("nlpo", 1, 9_000)):
        sweeps.finish(record, sweeps.a_job(system, seed), seconds={}, peak_memory=peak)
    past = record.ended()
    assert local.expected(sweeps.a_job("ppo", 3), 10, past) == 6_000
    assert local.expected(sweeps.a_job("a2c", 1), 10, past) == local.BASE + 160
    assert local.expected(sweeps.a_job("ppo", 1, task="totto"), 10, past) == local.BASE + 160
    assert local.expected(sweeps.a_job("a2c", 1), None, past) is None


def test_of_a_model_that_is_only_evaluated_its_own_weights_count(tmp_path):
    for number, size in ((1, 18), (2, 12)):
        (tmp_path / f"model-{number}.safetensors").write_bytes(b"x" * size)
    assert local.weights_size(str(tmp_path)) == 30
    assert local.weights_size("mini:seq2seq") > 500_000
    executor = LocalExecutor(Record(tmp_path), JobContext(runs=tmp_path), 2)
    theirs = sweeps.a_job("theirs", 1)
    for system, model, expected in (
        ("here", ModelEntry(model=str(tmp_path)), local.BASE + local.COPIES_READ * 30),
        ("served", ModelEntry(model="m", endpoint=Endpoint(url="http://localhost:1/v1")), local.BASE),
        ("unknown", ModelEntry(model=str(tmp_path / "nothing")), None),
    ):
        assert executor._expected(replace(theirs, system=system, entry=model)) == expected


def test_a_worker_sees_one_of_the_devices_that_the_sweep_sees_and_several_share_them_evenly(tmp_path, monkeypatch):
    for environment, place, shown in (
        ({}, 0, "0"),
        ({}, 2, "2"),
        ({"CUDA_VISIBLE_DEVICES": "4,6"}, 1, "6"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}, 0, "GPU-a"),
    ):
        assert visible(environment, place) == shown
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    executor = LocalExecutor(Record(tmp_path), JobContext(runs=tmp_path), 5, devices=2)
    assert (executor.jobs, executor.free_devices) == (5, [0, 1, 0, 1, 0])
    assert LocalExecutor(Record(tmp_path), JobContext(runs=tmp_path), 5).free_devices == []


def test_how_a_worker_died_is_said():
    assert how_it_died(-9) == "the worker was killed by SIGKILL, as the kernel does when memory runs out"
    assert how_it_died(-11) == "the worker was killed by SIGSEGV"
    assert how_it_died(1) == "the worker ended with exit code 1 and without a message"
