"""Sweeps by real processes, and what may befall them: kills, signals, divergence, full disks, folders that are taken."""

import json
import os
import resource
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from support.commands import contents, here
from support.sweeps import a_job, end_all, ended, events, finish, start, states, sweep_command, wait_until, workers

from grue.cli.main import main
from grue.evaluation.endpoint import Endpoint
from grue.lm.checkpoint import read_manifest
from grue.sweep import memory
from grue.sweep.local import LocalExecutor, how_it_died, visible
from grue.sweep.record import Record
from grue.sweep.work import JobContext

slow = pytest.mark.slow
PPO = "imdb/ppo/seed-1"


@pytest.fixture
def sweeping():
    """Start sweeps, and leave nothing of them behind."""
    begun = []

    def begin(*command, **settings):
        begun.append(start(*command, **settings))
        return begun[-1]

    yield begin
    for process in begun:
        end_all(process)


def log_of(runs, job=PPO):
    """The whole lines of a run's log."""
    path = runs / "mini" / job / "train.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def wait_for_updates(process, runs, count, job=PPO):
    wait_until(process, lambda: [line for line in log_of(runs, job) if line.get("update", 0) >= count])


def assert_all_done(runs, updates, *jobs):
    """Every run is finished, with one line for each of its updates, and every state is cleared away."""
    for job in jobs:
        done = [line["update"] for line in log_of(runs, job) if "seconds" in line and "update" in line]
        assert done == list(range(1, updates + 1)), job
        assert log_of(runs, job)[-1]["finished"]
        assert read_manifest(runs / "mini" / job / "checkpoint").seed == int(job[-1])
        assert not (runs / "mini" / job / "states").exists()


def newest_state(runs, job=PPO):
    return max(int(path.stem.removeprefix("state-")) for path in (runs / "mini" / job / "states").glob("state-*.pt"))


# --- what is killed --------------------------------------------------------------------------------------------------


@slow
def test_a_killed_worker_is_tried_again_and_goes_on_from_its_saved_state(sweeping, tmp_path):
    process = sweeping(*sweep_command(tmp_path, "--no-evaluate", updates=6))
    wait_for_updates(process, tmp_path, 2)
    os.kill(workers(process)[PPO], signal.SIGKILL)
    code, output, errors = ended(process)
    assert (code, output) == (0, "1 run: 1 finished\n"), errors
    assert events(tmp_path) == [
        (PPO, "running", None),
        (PPO, "failed", "the worker was killed by SIGKILL, as the kernel does when memory runs out"),
        (PPO, "running", None),
        (PPO, "finished", None),
    ]
    assert_all_done(tmp_path, 6, PPO)


@slow
def test_a_worker_that_is_killed_again_and_again_is_failed_and_stops_no_other(sweeping, tmp_path):
    process = sweeping(
        *sweep_command(tmp_path, "--retries", "0", "--no-evaluate", "--jobs", "1", seeds="1-2", updates=4)
    )
    wait_for_updates(process, tmp_path, 1)
    os.kill(workers(process)[PPO], signal.SIGKILL)
    code, output, errors = ended(process)
    assert code == 1, errors
    assert output.startswith(
        "2 runs: 1 finished, 1 failed\n\nfailed   imdb/ppo/seed-1: the worker was killed by SIGKILL"
    )
    assert_all_done(tmp_path, 4, "imdb/ppo/seed-2")


@slow
def test_a_killed_sweep_takes_its_workers_along_and_the_same_command_goes_on(sweeping, tmp_path):
    command = sweep_command(tmp_path, "--no-evaluate", "--jobs", "1", seeds="1-2", updates=6)
    second = "imdb/ppo/seed-2"
    process = sweeping(*command)
    wait_for_updates(process, tmp_path, 2, second)
    assert (PPO, "finished") in states(tmp_path)
    whole = contents(tmp_path / "mini" / PPO)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    while workers(process):  # each ends as soon as it learns of it
        pass
    before, state = log_of(tmp_path, second), newest_state(tmp_path, second)
    assert state >= 1
    shown = CliRunner().invoke(main, ["sweep", "status", str(tmp_path)])
    assert shown.output.startswith("2 runs: 1 finished, 1 stopped\n")

    code, output, errors = ended(sweeping(*command))
    assert (code, output) == (0, "2 runs: 2 finished\n"), errors
    assert contents(tmp_path / "mini" / PPO) == whole
    assert [job for job, state in states(tmp_path) if state == "running"] == [PPO, second, second]
    assert_all_done(tmp_path, 6, PPO, second)
    # What was done before the last state was not done again: its lines are those of the first process, clock included.
    kept = [line for line in before if line["update"] <= state]
    assert log_of(tmp_path, second)[: len(kept)] == kept


@slow
def test_a_fork_server_that_is_killed_takes_its_workers_along_and_they_are_tried_again(sweeping, tmp_path):
    process = sweeping(*sweep_command(tmp_path, "--no-evaluate", updates=6))
    wait_for_updates(process, tmp_path, 2)
    worker = workers(process)[PPO]
    server = int(Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(server, signal.SIGKILL)
    code, _, errors = ended(process)
    assert code == 0, errors
    assert [state for _, state in states(tmp_path)] == ["running", "failed", "running", "finished"]
    assert not Path(f"/proc/{worker}").exists()
    assert_all_done(tmp_path, 6, PPO)


# --- signals ---------------------------------------------------------------------------------------------------------


@slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_every_run_and_the_same_command_goes_on(number, sweeping, tmp_path):
    command = sweep_command(tmp_path, "--no-evaluate", "--jobs", "2", seeds="1-3", updates=6)
    process = sweeping(*command)
    for seed in (1, 2):
        wait_for_updates(process, tmp_path, 1, f"imdb/ppo/seed-{seed}")
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    code, output, errors = ended(process)
    assert code == 130, errors
    assert "Stopping: every run saves its progress; press Ctrl-C again to stop at once." in errors
    assert errors.endswith("Stopped; the same command resumes it.\n")
    assert "Traceback" not in errors
    assert output == "3 runs: 1 waiting, 2 stopped\n"
    assert sorted(state for _, state in states(tmp_path)) == ["running", "running", "stopped", "stopped"]
    for seed in (1, 2):
        assert newest_state(tmp_path, f"imdb/ppo/seed-{seed}") >= 1
    code, output, errors = ended(sweeping(*command))
    assert (code, output) == (0, "3 runs: 3 finished\n"), errors
    assert_all_done(tmp_path, 6, *(f"imdb/ppo/seed-{seed}" for seed in (1, 2, 3)))


@slow
def test_a_second_sweep_in_the_same_folder_is_refused_while_the_first_one_works(sweeping, tmp_path):
    command = sweep_command(tmp_path, "--no-evaluate", updates=8)
    first = sweeping(*command)
    wait_for_updates(first, tmp_path, 1)
    worker = workers(first)[PPO]
    os.kill(worker, signal.SIGSTOP)  # so that it is at work for as long as it takes
    code, output, errors = ended(sweeping(*command))
    os.kill(worker, signal.SIGCONT)
    assert (code, output) == (2, "")
    assert f"Error: {tmp_path}: another sweep is running here." in errors
    assert ended(first)[0] == 0
    assert states(tmp_path) == [(PPO, "running"), (PPO, "finished")]


# --- runs that fail --------------------------------------------------------------------------------------------------

DIVERGING = """
tasks = ["imdb"]
algorithms = ["ppo"]
evaluate = false
set = { updates = 3, rollouts = 8, minibatch_size = 8, epochs = 1, validation_examples = 8 }

[[systems]]
algorithm = "ppo"
system = "wild"
set = { learning_rate = 1e30, minibatch_size = 4 }
"""


@slow
def test_a_run_that_diverges_is_failed_with_its_reason_not_tried_again_and_stops_no_other(sweeping, tmp_path):
    (tmp_path / "grid.toml").write_text(DIVERGING)
    runs = tmp_path / "runs"
    process = sweeping("sweep", "--config", str(tmp_path / "grid.toml"), "--runs", str(runs), "--jobs", "1")
    code, output, errors = ended(process)
    assert code == 1, errors
    assert states(runs) == [
        (PPO, "running"),
        (PPO, "finished"),
        ("imdb/wild/seed-1", "running"),
        ("imdb/wild/seed-1", "failed"),
    ]
    message = events(runs)[-1][2]
    assert "not finite" in message
    assert message in (runs / "sweep/logs/mini/imdb/wild/seed-1.log").read_text()
    assert output == f"2 runs: 1 finished, 1 failed\n\nfailed   imdb/wild/seed-1: {message}\n"
    assert f"failed   imdb/wild/seed-1: {message}" in errors
    assert_all_done(runs, 3, PPO)


@slow
def test_a_folder_that_holds_another_evaluation_fails_with_its_reason_and_stops_no_other(sweeping, tmp_path):
    limited = here("evaluate", "--baseline", "copy", "--task", "imdb", "--limit", "3", "--runs", str(tmp_path))
    assert limited.exit_code == 0, limited.output
    before = contents(tmp_path / "mini/imdb/copy")
    command = ["sweep", "--tasks", "imdb", "--algos", "copy,lead", "--runs", str(tmp_path), "--jobs", "1"]
    code, output, errors = ended(sweeping(*command))
    assert code == 1, errors
    assert sorted(states(tmp_path)) == [
        ("imdb/copy/seed-1", "failed"),
        ("imdb/copy/seed-1", "running"),
        ("imdb/lead/seed-1", "finished"),
        ("imdb/lead/seed-1", "running"),
    ]
    assert "failed   imdb/copy/seed-1: " in output
    assert "holds an evaluation of the first 3 examples, not of the whole split." in output
    assert contents(tmp_path / "mini/imdb/copy") == before


# --- full disks ------------------------------------------------------------------------------------------------------


def limited_to(size):
    """Let no file of a process grow beyond a size, as on a disk without room."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@slow
def test_a_disk_without_room_for_a_model_fails_that_run_and_the_same_command_finishes_it(sweeping, tmp_path):
    command = sweep_command(tmp_path, "--no-evaluate", "--jobs", "1", algos="copy,ppo")
    code, output, errors = ended(sweeping(*command, preexec_fn=limited_to(400_000)))
    assert code == 1, errors
    assert sorted(states(tmp_path)) == [
        ("imdb/copy/seed-1", "finished"),
        ("imdb/copy/seed-1", "running"),
        (PPO, "failed"),
        (PPO, "running"),
    ]
    assert "cannot be written" in output
    assert not (tmp_path / "mini" / PPO / "checkpoint").exists()
    whole = contents(tmp_path / "mini/imdb/copy")
    code, output, errors = ended(sweeping(*command))
    assert (code, output) == (0, "2 runs: 2 finished\n"), errors
    assert contents(tmp_path / "mini/imdb/copy") == whole
    assert_all_done(tmp_path, 2, PPO)


@slow
def test_a_record_that_cannot_be_written_ends_the_sweep_and_its_workers_and_counts_nothing(sweeping, tmp_path):
    command = sweep_command(tmp_path, "--no-evaluate", "--jobs", "2", seeds="1-3")
    process = sweeping(*command, preexec_fn=limited_to(500))  # two events have room, a third one has not
    code, output, errors = ended(process)
    assert (code, output) == (3, ""), errors
    assert f"Error: {tmp_path}/sweep/events.jsonl: cannot be written: File too large;" in errors
    assert "Traceback" not in errors
    assert workers(process) == {}
    assert [state for _, state in states(tmp_path)] == ["running", "running"]
    code, output, errors = ended(sweeping(*command))
    assert (code, output) == (0, "3 runs: 3 finished\n"), errors
    assert_all_done(tmp_path, 2, *(f"imdb/ppo/seed-{seed}" for seed in (1, 2, 3)))


def test_a_log_that_cannot_be_written_fails_its_job_with_a_reason(tmp_path, monkeypatch):
    from grue.sweep import local

    said = []
    (tmp_path / "logs").write_text("a file in the folder's place")
    before = signal.getsignal(signal.SIGINT)
    try:
        place = JobContext(runs=tmp_path)
        local.work(SimpleNamespace(send=said.append), a_job(), place, tmp_path / "logs/mini/x.log", None)
    finally:
        signal.signal(signal.SIGINT, before)
    (outcome,) = said
    assert outcome.state == "failed"
    assert outcome.message == f"{tmp_path}/logs/mini/x.log: cannot be written: Not a directory."


# --- the same as by hand ---------------------------------------------------------------------------------------------


@slow
def test_a_sweep_makes_what_train_and_evaluate_make(sweeping, tmp_path):
    swept, by_hand = tmp_path / "swept", tmp_path / "by-hand"
    command = sweep_command(swept, algos="ppo,zero-shot")
    code, output, errors = ended(sweeping(*command))
    assert (code, output) == (0, "2 runs: 2 finished\n"), errors
    values = [part for part in command if "=" in part]
    settings = [part for value in values for part in ("--set", value)]
    folder = by_hand / "mini" / PPO
    for one in (
        ("train", "--task", "imdb", "--algo", "ppo", "--runs", str(by_hand), *settings),
        ("evaluate", "--checkpoint", str(folder)),
        ("evaluate", "--baseline", "zero-shot", "--task", "imdb", "--runs", str(by_hand)),
    ):
        done = here(*one)
        assert done.exit_code == 0, done.output
    assert read_manifest(swept / "mini" / PPO / "checkpoint").files == read_manifest(folder / "checkpoint").files
    for job in (PPO, "imdb/zero-shot/seed-1"):
        one, other = swept / "mini" / job, by_hand / "mini" / job
        for name in ("predictions.jsonl", "scores.jsonl"):
            assert (one / name).read_bytes() == (other / name).read_bytes(), (job, name)
        found, wanted = (json.loads((path / "result.json").read_text()) for path in (one, other))
        for system in (found["system"], wanted["system"]):
            for training in (system.get("training", {}), system.get("last", {}).get("training", {})):
                training.pop("seconds", None)
        assert {**found, "timing": 0, "grue": 0} == {**wanted, "timing": 0, "grue": 0}


@slow
def test_a_record_that_is_lost_costs_a_look_at_every_run_and_no_training(sweeping, tmp_path):
    command = sweep_command(tmp_path, algos="ppo,copy")
    assert ended(sweeping(*command))[0] == 0
    before = contents(tmp_path / "mini")
    shutil.rmtree(tmp_path / "sweep")
    code, output, errors = ended(sweeping(*command))
    assert (code, output) == (0, "2 runs: 2 finished\n"), errors
    after = contents(tmp_path / "mini")
    assert {path: content for path, content in after.items() if path.name != ".lock"} == {
        path: content for path, content in before.items() if path.name != ".lock"
    }


# --- room ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def executor(tmp_path, monkeypatch):
    """An executor of three workers on a machine with 10 GB, whose jobs want what their seed says, in GB."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    made = LocalExecutor(Record(tmp_path), JobContext(runs=tmp_path), 3)
    monkeypatch.setattr(memory, "available", lambda: 10_000_000_000)
    monkeypatch.setattr(memory, "resident", lambda pid: 1_000_000_000)
    monkeypatch.setattr(made, "_expected", lambda job: None if job.seed == 0 else job.seed * 1_000_000_000)
    return made


def at_work(executor, *jobs):
    for job in jobs:
        executor.workers[job.id] = SimpleNamespace(process=SimpleNamespace(pid=1), expected=executor._expected(job))
    return list(jobs)


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
    ],
)
def test_a_run_starts_where_the_memory_suffices_for_all_that_they_may_still_want(executor, running, wanted, room):
    jobs = at_work(executor, *(a_job(f"p{number}", seed) for number, seed in enumerate(running)))
    assert executor.has_room(a_job(seed=wanted), jobs) is room


def test_where_the_system_does_not_tell_its_memory_only_the_workers_count(executor, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: None)
    assert executor.has_room(a_job(seed=99), at_work(executor, a_job("p", 99)))


MEMINFO = (
    "MemTotal:       8000000 kB\nMemFree:         100000 kB\nMemAvailable:   4000000 kB\nHugePages_Total:       0\n"
)


def test_memory_is_what_the_system_has_left(tmp_path):
    (tmp_path / "meminfo").write_text(MEMINFO)
    assert memory.available(tmp_path / "meminfo", tmp_path / "cgroup") == 4_096_000_000
    assert memory.available(tmp_path / "nothing", tmp_path) is None


@pytest.mark.parametrize(
    ("limit", "free"), [("max", 4_096_000_000), ("3000000000", 1_500_000_000), ("90000000000", 4_096_000_000)]
)
def test_in_a_container_memory_is_what_is_left_of_its_limit_and_caches_are_given_back(tmp_path, limit, free):
    (tmp_path / "meminfo").write_text(MEMINFO)
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text("2000000000\n")
    (tmp_path / "memory.stat").write_text("anon 1000000000\ninactive_file 500000000\n")
    assert memory.available(tmp_path / "meminfo", tmp_path) == free


def test_memory_of_a_process_is_what_lies_in_ram(tmp_path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7/status").write_text("Name:\tpython\nVmPeak:\t 900 kB\nVmRSS:\t  500 kB\n")
    (tmp_path / "8").mkdir()
    (tmp_path / "8/status").write_text("Name:\tkthread\n")
    assert [memory.resident(pid, tmp_path) for pid in (7, 8, 9)] == [512_000, 0, 0]
    assert memory.resident(os.getpid()) > 10_000_000


def test_a_run_is_expected_to_want_what_its_like_took_else_many_times_its_weights(tmp_path):
    record = Record(tmp_path)
    finish(record, a_job("ppo", 1), seconds={}, peak_memory=5_000)
    finish(record, a_job("ppo", 2), seconds={}, peak_memory=6_000)
    finish(record, a_job("nlpo", 1), seconds={}, peak_memory=9_000)
    past = record.ended()
    assert memory.expected(a_job("ppo", 3), 10, past) == 6_000
    assert memory.expected(a_job("a2c", 1), 10, past) == memory.BASE + 160
    assert memory.expected(a_job("ppo", 1, task="totto"), 10, past) == memory.BASE + 160
    assert memory.expected(a_job("a2c", 1), None, past) is None


def test_of_a_model_that_is_only_evaluated_its_own_weights_count(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"x" * 30)
    executor = LocalExecutor(Record(tmp_path), JobContext(runs=tmp_path), 2)
    given = replace(a_job("theirs", 1), algorithm="external", model=str(tmp_path))
    assert executor._expected(given) == memory.BASE + memory.COPIES_READ * 30
    elsewhere = replace(given, system="served", model="theirs/model", endpoint=Endpoint(url="http://localhost:1/v1"))
    assert executor._expected(elsewhere) == memory.BASE
    unknown = replace(given, system="unknown", model=str(tmp_path / "nothing"))
    assert executor._expected(unknown) is None


def test_the_weights_of_a_model_are_those_on_this_machine(tmp_path):
    (tmp_path / "model-1.safetensors").write_bytes(b"x" * 30)
    (tmp_path / "model-2.safetensors").write_bytes(b"x" * 12)
    assert memory.weights_size(str(tmp_path)) == 42
    assert memory.weights_size("mini:seq2seq") > 500_000


@pytest.mark.parametrize(
    ("environment", "device", "shown"),
    [
        ({}, 0, "0"),
        ({}, 2, "2"),
        ({"CUDA_VISIBLE_DEVICES": "4,6"}, 1, "6"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-a,GPU-b"}, 0, "GPU-a"),
    ],
)
def test_a_worker_sees_one_of_the_devices_that_the_sweep_sees(environment, device, shown):
    assert visible(environment, device) == shown


def test_with_gpus_no_more_run_at_a_time_than_there_are(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    executor = LocalExecutor(Record(tmp_path), JobContext(runs=tmp_path), 8, devices=2)
    assert (executor.jobs, executor.free_devices) == (2, [0, 1])


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (-9, "the worker was killed by SIGKILL, as the kernel does when memory runs out"),
        (-11, "the worker was killed by SIGSEGV"),
        (1, "the worker ended with exit code 1 and without a message"),
    ],
)
def test_how_a_worker_died_is_said(code, said):
    assert how_it_died(code) == said
