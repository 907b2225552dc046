"""`grue sweep` as its user meets it: what is printed, with which exit code, and where flags come from."""

import os
import re
import signal
from io import StringIO

import pytest
from rich.console import Console
from support.commands import grue, printed_json
from support.own_task import OWN_TASK
from support.sweeps import FakeExecutor, a_job, finish, leave_results, planned

from grue.cli.console import clock
from grue.cli.sweep_view import SweepView, status_text, table
from grue.errors import ConfigError
from grue.files import write_jsonl
from grue.runs.folder import claim_folder
from grue.runs.plan import stages_of
from grue.runs.request import RunRequest
from grue.sweep import run
from grue.sweep.grid import SweepGrid, read_grid
from grue.sweep.jobs import plan_jobs
from grue.sweep.record import Record
from grue.sweep.status import JobRow, rows_of
from grue.task_files import load_task

PPO = ("sweep", "--tasks", "imdb", "--algos", "ppo", "--seeds", "1-2")


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """Sweeps without processes, in `tmp_path`; outcomes by job."""
    monkeypatch.setenv("GRUE_RUNS", str(tmp_path))
    made, outcomes = [], {}

    def executor(record, place, name, jobs, gpus, address):
        made.append(FakeExecutor(record, outcomes))
        made[-1].asked = (name, place, jobs, gpus, address)
        return made[-1]

    monkeypatch.setattr(run, "executor_for", executor)
    return made, outcomes


def test_a_dry_run_prints_what_would_run_and_how_long_it_may_take_and_does_nothing(tmp_path, monkeypatch, refused):
    monkeypatch.setattr("grue.sweep.estimate._measured", dict)  # only what ran in this folder counts here
    monkeypatch.setenv("GRUE_RUNS", str(tmp_path / "runs"))
    for system, seed in (("zero-shot", 1), ("zero-shot", 2), ("copy", 1)):
        finish(Record(tmp_path / "runs"), planned(system, seed), seconds={"evaluate": 90.0})
    before = sorted(tmp_path.rglob("*"))

    def dry_run(*grid):
        return grue("sweep", *grid, "--dry-run").output

    grid = ("--tasks", "imdb,totto", "--algos", "zero-shot,supervised+ppo", "--seeds", "1-3")
    refused.message(dry_run(*grid, "--jobs", 2))
    unknown = dry_run("--tasks", "imdb", "--algos", "a2c", "--set", "updates=1")
    assert "\nThat may take an unknown time.\nUnknown is the time of runs on a task that ships without" in unknown
    assert dry_run("--tasks", "imdb", "--algos", "copy") == "1 run, all finished: nothing to do.\n"
    assert sorted(tmp_path.rglob("*")) == before


# --- a sweep ---------------------------------------------------------------------------------------------------------


def test_a_sweep_says_what_starts_and_ends_keeps_its_grid_and_ends_with_0(fake, tmp_path):
    done = grue(*PPO, "--set", "gamma=0.5", "--set", "kl_target=none")
    assert done.stdout == "2 runs: 2 finished\n"
    said = [f"{state:9}imdb/ppo/seed-{seed}" for state in ("running", "finished") for seed in (1, 2)]
    assert done.stderr.splitlines() == said
    kept = read_grid(tmp_path / "sweep/sweep.toml")
    shared = {"gamma": 0.5, "kl_target": None}
    assert kept == SweepGrid(tasks=("imdb",), algorithms=("ppo",), seeds="1-2", set=shared)


def test_a_run_that_failed_was_stopped_or_could_not_start_is_named_and_the_sweep_ends_with_1(fake, refused):
    made, outcomes = fake
    outcomes |= {"mini/imdb/ppo/seed-1": ["failed"], "mini/imdb/supervised/seed-1": ["failed"]}
    done = grue(*PPO, code=1)
    assert done.stdout == "2 runs: 1 finished, 1 failed\n\nfailed   imdb/ppo/seed-1: it failed\n"
    outcomes["mini/imdb/ppo/seed-1"] = ["stopped"]
    assert grue(*PPO, code=1).stdout == "2 runs: 1 finished, 1 stopped\n"
    assert grue(*PPO).stdout == "2 runs: 2 finished\n"
    assert made[-1].started == ["mini/imdb/ppo/seed-1"]
    done = grue("sweep", "--tasks", "imdb", "--algos", "supervised+ppo", code=1)
    refused.message(done.stdout)


def test_ctrl_c_stops_what_runs_and_ends_with_130(fake, monkeypatch):
    original = FakeExecutor.wait

    def pressed(self, seconds):
        if not self.stopping:
            os.kill(os.getpid(), signal.SIGINT)
            return []
        return original(self, seconds)

    monkeypatch.setattr(FakeExecutor, "wait", pressed)
    done = grue(*PPO[:-1], "1-3", code=130)
    assert done.stdout == "3 runs: 1 waiting, 2 stopped\n"
    assert "Stopped; the same command resumes it." in done.stderr


def test_what_the_executor_is_told(fake, tmp_path):
    ray = "--jobs 3 --threads 2 --gpus 0.5 --executor ray --address auto --offline".split()
    grue(*PPO, *ray, "--data-dir", tmp_path / "data", HF_HUB_OFFLINE="1")
    name, place, jobs, gpus, address = fake[0][0].asked
    assert (name, jobs, gpus, address) == ("ray", 3, 0.5, "auto")
    assert (place.runs, place.data_dir, place.offline, place.threads) == (tmp_path, tmp_path / "data", True, 2)


def test_as_many_runs_go_at_a_time_as_there_are_cores_for_their_threads_and_gpus(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)))
    for asked, runs in (
        *((("local", None, threads, 0.0, 0), cores) for threads, cores in ((1, 6), (2, 3), (4, 1), (8, 1))),
        (("local", 3, 1, 0.0, 0), 3),
        (("local", None, 1, 0.0, 2), 2),
        (("local", 4, 1, 0.0, 2), 2),  # each has a GPU of its own
        (("local", None, 1, 0.3, 2), 6),
        (("ray", None, 2, 0.0, 2), 3),
        (("ray", None, 1, 0.5, 2), 4),
        (("ray", 7, 1, 1.0, 2), 7),
    ):
        assert run.at_a_time(*asked) == runs, asked
    for gpus, devices in ((2.0, 2), (0.5, 0)):
        with pytest.raises(ConfigError, match=f"has {devices} GPUs, and a run on it takes one at most"):
            run.at_a_time("local", None, 1, gpus, devices)
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert run.at_a_time("local", None, 2, 0.0, 0) == 4


def test_a_finished_run_on_other_data_is_refused_and_a_dry_run_says_so(fake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"id": str(n), "prompt": f"prompt {n}", "reference": f"answer {n}"} for n in range(8)]
    write_jsonl(tmp_path / "rows.jsonl", rows)
    (tmp_path / "words.toml").write_text(OWN_TASK.format(metric="rougeL"), encoding="utf-8")
    grid = ("sweep", "--tasks", "words.toml", "--algos", "ppo", "--set", "updates=1")
    (job,) = plan_jobs(SweepGrid(tasks=("words.toml",), algorithms=("ppo",), set={"updates": 1}).located())
    claim_folder(stages_of(RunRequest(task=load_task("words.toml"), runs=tmp_path, settings={"updates": 1}))[-1])
    finish(Record(tmp_path), job)
    path = tmp_path / job.id / "config.toml"
    path.write_text(re.sub("(?m)^gae_lambda = .*$", "", path.read_text()))  # of a version without that setting
    assert "all finished: nothing to do" in grue(*grid, "--dry-run").output
    write_jsonl(tmp_path / "rows.jsonl", rows[:6])
    for more in (("--dry-run",), ()):
        said = grue(*grid, *more, code=2).stderr
        assert f"{path}: holds a run of other data" in said
    assert fake[0] == []


# --- where the grid comes from ---------------------------------------------------------------------------------------


def test_a_grid_comes_from_a_file_from_flags_or_from_the_environment(fake, tmp_path):
    made, _ = fake
    path = tmp_path / "grid.toml"
    path.write_text(
        'tasks = ["imdb"]\nseeds = [4]\n[[systems]]\nalgorithm = "ppo"\nsystem = "g"\nset = {gamma = 0.5}\n'
    )
    grue("sweep", "--config", path)
    assert made[-1].started == ["mini/imdb/g/seed-4"]
    there = {"GRUE_RUNS": str(tmp_path / "there")}
    grue("sweep", GRUE_TASKS="imdb", GRUE_ALGOS="copy", GRUE_SEEDS="7", **there)
    assert made[-1].started == ["mini/imdb/copy/seed-7"]
    assert grue("sweep", "status", **there).output.startswith("1 run: 1 finished\n")
    grue("sweep", "--tasks", "imdb", "--algos", "copy,ppo", "--vary", "gamma=0.5,1")
    names = ("copy", "ppo_gamma-0.5", "ppo_gamma-1")
    assert made[-1].started == [f"mini/imdb/{name}/seed-1" for name in names]
    # A setting that an algorithm has without effect is not its.
    grue("sweep", "--tasks", "imdb", "--algos", "ppo,trpo", "--set", "epochs=1")
    settings = {job.system: dict(job.entry.set) for job in plan_jobs(read_grid(tmp_path / "sweep/sweep.toml"))}
    assert settings == {"ppo": {"epochs": 1}, "trpo": {}}


@pytest.mark.parametrize(
    "flags",
    [
        "--algos ppo --set gamma",
        "--algos ppo --vary gamma=0.5 --vary gamma=1",
        "--algos ppo --tasks ,",
        "--algos ppo --address auto",
        "--algos ppo --config none.toml",
        "--algos ppo --jobs 0",
    ],
)
def test_what_cannot_be_understood_ends_with_2_and_writes_nothing(flags, fake, tmp_path, refused):
    refused.command("sweep", *flags.split(), code=2)
    assert fake[0] == []
    assert not list(tmp_path.iterdir())


def test_a_key_that_is_not_set_is_told_before_anything_runs(fake, tmp_path, monkeypatch, refused):
    monkeypatch.delenv("A_KEY", raising=False)
    path = tmp_path / "grid.toml"
    endpoint = 'endpoint = { url = "http://127.0.0.1:1", key_env = "A_KEY" }'
    path.write_text(f'tasks = ["imdb"]\n[[models]]\nmodel = "m"\n{endpoint}\n')
    assert "1 run" in grue("sweep", "--config", path, "--dry-run").stdout
    refused.command("sweep", "--config", path, code=2)
    assert fake[0] == [] and [*tmp_path.iterdir()] == [path]


def logged(record, job, updates, of, seconds):
    line = {"of": of, "seconds": seconds, "objective/reward": 0.25, "objective/kl_sequence": 1.0}
    write_jsonl(record.runs / job.id / "train.jsonl", ({"update": n, **line} for n in range(1, updates + 1)))


def test_status_shows_every_run_and_why_those_failed_that_did(tmp_path, monkeypatch, refused):
    """One is finished, one failed, one was killed, and one is not begun."""
    record = Record(tmp_path)
    grid = SweepGrid(tasks=("imdb",), algorithms=("ppo",), seeds="1-4", set={"updates": 8})
    record.write_grid(grid)
    good, bad, killed, _ = plan_jobs(grid)
    finish(record, good, seconds={"train": 4.0})
    leave_results(record, good, preference=61.54)
    record.add(bad, "running")
    record.add(bad, "failed", message="the gradient is not finite.")
    for attempt in (1, 2):
        record.add(killed, "running", attempt=attempt)
    logged(record, killed, 3, of=8, seconds=1.0)
    shown = grue("sweep", "status", tmp_path).output
    refused.message("\n".join(line.rstrip() for line in shown.splitlines()))
    assert grue("sweep", "--runs", tmp_path, "status").output == shown
    found = printed_json("sweep", "status", tmp_path)
    assert [row["id"] for row in found] == [f"mini/imdb/ppo/seed-{seed}" for seed in (1, 2, 3, 4)]
    states = [("finished", 1), ("failed", 1), ("stopped", 2), ("waiting", 1)]
    assert [(row["state"], row["attempt"]) for row in found] == states
    assert (found[0]["preference"], found[1]["message"]) == (61.54, "the gradient is not finite.")
    assert found[2]["job"]["entry"]["set"] == {"updates": 8}
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in status_text(rows_of(record, record.jobs()))
    refused.command("sweep", "status", tmp_path / "nothing", code=3)
    assert not (tmp_path / "nothing").exists()


# --- the live table --------------------------------------------------------------------------------------------------


def drawn(shown, columns=80):
    console = Console(file=StringIO(), width=columns, highlight=False)
    console.print(shown)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("columns", [50, 110])
def test_no_line_is_wider_than_the_terminal_and_a_long_name_goes_on_below(columns):
    long = a_job("supervised+nlpo_top_p-0.9_learning_rate-0.0001", 5, task="cnn_dailymail", after="x")
    figures = {"update": 13, "updates": 20, "reward": 0.51234, "kl": 12.345, "seconds_left": 754.0}
    lines = drawn(table([JobRow(job=long, state="running", attempt=2, **figures)]), columns)
    assert max(map(len, lines)) <= columns
    name = "".join(line[9:].split("   ")[0].strip() for line in lines[1:])
    assert name.replace(" ", "") == "cnn_dailymail/supervised+nlpo_top_p-0.9_learning_rate-0.0001/seed-5(attempt2)"
    assert "13/20" in lines[1]


def console(terminal=True):
    about = {"color_system": None, "highlight": False, "_environ": {}}
    return Console(file=StringIO(), width=80, force_terminal=terminal, **about)


def test_the_live_table_at_80_columns(tmp_path, refused):
    record = Record(tmp_path)
    jobs = [a_job("ppo", seed, set={"updates": 20}) for seed in (1, 2, 3, 4)]
    finish(record, jobs[0], seconds={"train": 50.0, "evaluate": 10.0})
    record.add(jobs[1], "running")
    logged(record, jobs[1], 5, of=20, seconds=2.0)
    with SweepView(console(), record, jobs) as shown:
        shown.changed(jobs[1], "running", None)
        states = ("finished", "running", "waiting", "failed")
        shown.states = {job.id: state for job, state in zip(jobs, states, strict=True)}
        refused.message("\n".join(drawn(shown._drawn())))


def test_changes_are_plain_lines_but_on_a_terminal_only_failures_are_said_beside_the_table(tmp_path):
    there, elsewhere = console(), console(terminal=False)
    for page in (there, elsewhere):
        with SweepView(page, Record(tmp_path), [a_job()]) as shown:
            shown.changed(a_job(), "running", None)
            shown.tick({a_job().id: "running"})
            shown.changed(a_job(), "finished", None)
            shown.changed(a_job(), "failed", "[bold]it[/bold] diverged")
    failure = "failed   imdb/ppo/seed-1: [bold]it[/bold] diverged"
    assert failure in there.file.getvalue() and "finished" not in there.file.getvalue()
    assert elsewhere.file.getvalue() == f"running  imdb/ppo/seed-1\nfinished imdb/ppo/seed-1\n{failure}\n"


def test_times_are_said_as_people_say_them():
    said = {0: "0 s", 99.4: "99 s", 100: "2 min", 5_900: "98 min", 6_000: "1 h 40 min", 90_061: "25 h 1 min"}
    assert {seconds: clock(seconds) for seconds in said} == said
