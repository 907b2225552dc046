"""`grue sweep` as its user meets it: what is printed, with which exit code, and where flags come from."""

import json
import os
import re
import signal
from io import StringIO

import pytest
from click.testing import CliRunner
from rich.console import Console
from support.own_task import OWN_TASK
from support.sweeps import FakeExecutor, a_job, finish, leave_results, planned

from grue.cli import sweep as command
from grue.cli.live import clock
from grue.cli.main import main
from grue.cli.sweep_view import SweepView, status_text, table
from grue.errors import DataError
from grue.files import write_jsonl
from grue.runs.folder import claim_folder
from grue.runs.plan import stages_of
from grue.runs.request import RunRequest
from grue.sweep.grid import SweepGrid, read_grid
from grue.sweep.jobs import plan_jobs
from grue.sweep.record import Record
from grue.sweep.status import JobRow, rows_of
from grue.task_files import load_task


def grue(*arguments, **environment):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], env=environment)


@pytest.fixture
def fake(monkeypatch):
    """Sweeps without processes; outcomes by job."""
    made, outcomes = [], {}

    def executor(name, record, place, jobs, threads, gpus, address):
        made.append(FakeExecutor(record, outcomes))
        made[-1].asked = (name, place, jobs, threads, gpus, address)
        return made[-1]

    monkeypatch.setattr(command, "_executor", executor)
    return made, outcomes


# --- --dry-run -------------------------------------------------------------------------------------------------------


def test_a_dry_run_prints_what_would_run_and_how_long_it_may_take_and_does_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("grue.sweep.estimate._measured", dict)  # only what ran in this folder counts here
    runs = tmp_path / "runs"
    record = Record(runs)
    for seed in (1, 2):
        finish(record, planned("zero-shot", seed), seconds={"evaluate": 90.0})
    before = sorted(runs.rglob("*"))
    grid = ("--tasks", "imdb,totto", "--algos", "zero-shot,supervised+ppo", "--seeds", "1-3")
    done = grue("sweep", *grid, "--runs", runs, "--jobs", "2", "--dry-run")
    assert done.exit_code == 0, done.output
    assert done.output == (
        "18 runs, 2 of them finished:\n"
        "  mini/imdb   supervised      seeds 1,2,3         unknown, not evaluated\n"
        "  mini/totto  supervised      seeds 1,2,3         unknown, not evaluated\n"
        "  mini/imdb   supervised+ppo  seeds 1,2,3         unknown, from supervised\n"
        "  mini/totto  zero-shot       seeds 1,2,3         unknown\n"
        "  mini/totto  supervised+ppo  seeds 1,2,3         unknown, from supervised\n"
        "  mini/imdb   zero-shot       seeds 3             90 s a run\n"
        "That may take about 90 s (without 15 runs of unknown length), 2 at a time.\n"
    )
    assert sorted(runs.rglob("*")) == before


def test_a_dry_run_of_which_nothing_is_known_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("grue.sweep.estimate._measured", dict)
    done = grue("sweep", "--tasks", "imdb", "--algos", "a2c", "--runs", tmp_path, "--set", "updates=1", "--dry-run")
    assert done.output.endswith("\nThat may take an unknown time: no run of these kinds has finished yet.\n")


def test_a_dry_run_of_a_finished_sweep_says_so(tmp_path):
    finish(Record(tmp_path), planned("copy"))
    done = grue("sweep", "--tasks", "imdb", "--algos", "copy", "--runs", tmp_path, "--jobs", "1", "--dry-run")
    assert done.output == "1 run, all finished: nothing to do.\n"


# --- a sweep ---------------------------------------------------------------------------------------------------------

SMALL = ("--tasks", "imdb", "--algos", "ppo", "--seeds", "1-2")


def test_a_sweep_says_what_starts_and_ends_keeps_its_grid_and_ends_with_0(fake, tmp_path):
    done = grue("sweep", *SMALL, "--set", "gamma=0.5", "--set", "kl_target=none", "--runs", tmp_path)
    assert done.exit_code == 0, done.output
    assert done.stdout == "2 runs: 2 finished\n"
    assert done.stderr.splitlines() == [
        "running  imdb/ppo/seed-1",
        "running  imdb/ppo/seed-2",
        "finished imdb/ppo/seed-1",
        "finished imdb/ppo/seed-2",
    ]
    kept = read_grid(tmp_path / "sweep/sweep.toml")
    assert kept == SweepGrid(
        tasks=("imdb",), algorithms=("ppo",), seeds="1-2", set={"gamma": 0.5, "kl_target": None}
    )  # fmt: skip


def test_a_failed_run_is_named_with_its_reason_and_ends_with_1(fake, tmp_path):
    fake[1]["mini/imdb/ppo/seed-1"] = ["failed"]
    done = grue("sweep", *SMALL, "--runs", tmp_path)
    assert done.exit_code == 1
    assert done.stdout == "2 runs: 1 finished, 1 failed\n\nfailed   imdb/ppo/seed-1: it failed\n"
    again = grue("sweep", *SMALL, "--runs", tmp_path)
    assert (again.exit_code, again.stdout) == (0, "2 runs: 2 finished\n")
    assert fake[0][-1].started == ["mini/imdb/ppo/seed-1"]


def test_what_could_not_start_is_named_too(fake, tmp_path):
    fake[1]["mini/imdb/supervised/seed-1"] = ["failed"]
    done = grue("sweep", "--tasks", "imdb", "--algos", "supervised+ppo", "--runs", tmp_path)
    assert done.exit_code == 1
    assert done.stdout == (
        "2 runs: 1 failed, 1 blocked\n"
        "\n"
        "failed   imdb/supervised/seed-1: it failed\n"
        "blocked  imdb/supervised+ppo/seed-1: mini/imdb/supervised/seed-1, its warm start, failed\n"
    )


def test_a_run_that_somebody_stopped_is_not_done_and_the_sweep_ends_with_1(fake, tmp_path):
    fake[1]["mini/imdb/ppo/seed-2"] = ["stopped"]
    done = grue("sweep", *SMALL, "--runs", tmp_path)
    assert (done.exit_code, done.stdout) == (1, "2 runs: 1 finished, 1 stopped\n")


def test_ctrl_c_stops_what_runs_and_ends_with_130(fake, tmp_path, monkeypatch):
    original = FakeExecutor.wait

    def pressed(self, seconds):
        if not self.stopping:
            os.kill(os.getpid(), signal.SIGINT)
            return []
        return original(self, seconds)

    monkeypatch.setattr(FakeExecutor, "wait", pressed)
    done = grue("sweep", *SMALL[:4], "--seeds", "1-3", "--runs", tmp_path)
    assert done.exit_code == 130
    assert done.stdout == "3 runs: 1 waiting, 2 stopped\n"
    assert "Stopped; the same command resumes it." in done.stderr


def test_a_full_disk_ends_with_3_and_says_where(fake, tmp_path, monkeypatch):
    def full(self, job, state, **about):
        raise DataError(f"{self.events_path}: cannot be written: No space left on device.")

    monkeypatch.setattr(Record, "add", full)
    done = grue("sweep", *SMALL, "--runs", tmp_path)
    assert done.exit_code == 3
    assert done.stderr == f"Error: {tmp_path}/sweep/events.jsonl: cannot be written: No space left on device.\n"
    assert fake[0][0].closed


def test_what_the_executor_is_told(fake, tmp_path):
    grue(
        "sweep", *SMALL, "--runs", tmp_path, "--jobs", "3", "--threads", "2", "--gpus", "0.5", "--executor", "ray", "--address", "auto",
        "--offline", "--data-dir", tmp_path / "data", HF_HUB_OFFLINE="1",
    )  # fmt: skip
    name, place, jobs, threads, gpus, address = fake[0][0].asked
    assert (name, jobs, threads, gpus, address) == ("ray", 3, 2, 0.5, "auto")
    assert (place.runs, place.data_dir, place.offline, place.threads) == (tmp_path, tmp_path / "data", True, 2)


def test_as_many_runs_at_a_time_as_there_are_cores_for_their_threads(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)))
    assert [command.default_jobs(threads) for threads in (1, 2, 4, 8)] == [6, 3, 1, 1]


@pytest.mark.parametrize(
    ("asked", "runs"),
    [
        (("local", None, 1, 0.0, 0), 6),
        (("local", 3, 1, 0.0, 0), 3),
        (("local", None, 1, 0.0, 2), 2),
        (("local", 4, 1, 0.0, 2), 2),  # each has a GPU of its own
        (("ray", None, 2, 0.0, 2), 3),
        (("ray", None, 1, 0.5, 2), 4),
        (("ray", None, 1, 1.0, 2), 2),
        (("ray", 7, 1, 1.0, 2), 7),
    ],
)
def test_how_many_runs_go_at_a_time_with_gpus_and_on_a_cluster(asked, runs, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)))
    assert command.at_a_time(*asked) == runs


def test_a_setting_that_an_algorithm_has_without_effect_is_not_its(fake, tmp_path):
    grid = ("--tasks", "imdb", "--algos", "ppo,trpo", "--set", "epochs=1")
    done = grue("sweep", *grid, "--runs", tmp_path)
    assert done.exit_code == 0, done.output
    settings = {job.system: dict(job.set) for job in plan_jobs(read_grid(tmp_path / "sweep/sweep.toml"))}
    assert settings == {"ppo": {"epochs": 1}, "trpo": {}}


def test_a_finished_run_on_other_data_is_refused_and_a_dry_run_says_so(fake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [{"id": str(n), "prompt": f"prompt {n}", "reference": f"answer {n}"} for n in range(8)]
    write_jsonl(tmp_path / "rows.jsonl", rows)
    (tmp_path / "words.toml").write_text(OWN_TASK.format(metric="rougeL"), encoding="utf-8")
    grid = ("sweep", "--tasks", "words.toml", "--algos", "ppo", "--runs", tmp_path / "runs", "--set", "updates=1")
    (job,) = plan_jobs(SweepGrid(tasks=("words.toml",), algorithms=("ppo",), set={"updates": 1}).located())
    folder = tmp_path / "runs" / job.id
    task = load_task("words.toml")
    claim_folder(stages_of(RunRequest(task=task, algorithm="ppo", runs=tmp_path / "runs", settings={"updates": 1}))[-1])
    finish(Record(tmp_path / "runs"), job)
    path = folder / "config.toml"
    path.write_text(re.sub("(?m)^gae_lambda = .*$", "", path.read_text()))  # of a version without that setting
    assert "all finished: nothing to do" in grue(*grid, "--dry-run").output
    write_jsonl(tmp_path / "rows.jsonl", rows[:6])
    for more in (("--dry-run",), ()):
        done = grue(*grid, *more)
        assert done.exit_code == 2 and f"{folder}/config.toml: this folder holds a run with data_sha256" in done.stderr
    assert fake[0] == []


def test_a_folder_that_is_taken_is_refused_before_anything_starts(fake, tmp_path):
    request = RunRequest(task=load_task("imdb"), seed=2, runs=tmp_path, settings={"gamma": 0.5})
    claim_folder(stages_of(request)[-1])
    done = grue("sweep", *SMALL, "--runs", tmp_path)
    assert done.exit_code == 2
    assert "mini/imdb/ppo/seed-2/config.toml: this folder holds a run with config.gamma = 0.5" in done.stderr
    assert done.stderr.endswith("Nothing was started.\n")
    assert fake[0] == []
    assert not (tmp_path / "sweep/sweep.toml").exists()


# --- where the grid comes from ---------------------------------------------------------------------------------------


def test_a_grid_comes_from_a_file(fake, tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(
        'tasks = ["imdb"]\nseeds = [4]\n[[systems]]\nalgorithm = "ppo"\nsystem = "g"\nset = {gamma = 0.5}\n'
    )
    done = grue("sweep", "--config", path, "--runs", tmp_path / "runs")
    assert done.exit_code == 0, done.output
    assert fake[0][0].started == ["mini/imdb/g/seed-4"]


def test_every_flag_can_come_from_the_environment(fake, tmp_path):
    done = grue("sweep", GRUE_TASKS="imdb", GRUE_ALGOS="copy", GRUE_RUNS=str(tmp_path / "there"), GRUE_SEEDS="7")
    assert done.exit_code == 0, done.output
    assert fake[0][0].started == ["mini/imdb/copy/seed-7"]
    shown = grue("sweep", "status", GRUE_RUNS=str(tmp_path / "there"))
    assert shown.output.startswith("1 run: 1 finished\n")


def test_vary_makes_a_system_of_each_value(fake, tmp_path):
    done = grue("sweep", "--tasks", "imdb", "--algos", "copy,ppo", "--vary", "gamma=0.5,1", "--runs", tmp_path)
    assert done.exit_code == 0, done.output
    assert fake[0][0].started == [
        "mini/imdb/copy/seed-1",
        "mini/imdb/ppo_gamma-0.5/seed-1",
        "mini/imdb/ppo_gamma-1/seed-1",
    ]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "Error: A sweep needs a system: algorithms = "),
        (("--algos", "nlop"), "There is no algorithm 'nlop'. Did you mean 'nlpo'?"),
        (("--algos", "ppo", "--tasks", "imdv"), "Did you mean 'imdb'?"),
        (("--algos", "ppo", "--seeds", "5-1"), "seeds '5-1': write a range such as 1-5, or a list such as 1,2,7."),
        (("--algos", "ppo", "--set", "gama=1"), "set.gama: no algorithm of this sweep has it. Did you mean 'gamma'?"),
        (("--algos", "ppo", "--set", "gamma"), "--set gamma: write KEY=VALUE"),
        (("--algos", "ppo", "--vary", "gamma"), "--vary gamma: write KEY=V1,V2"),
        (("--algos", "ppo", "--vary", "gamma=0.5", "--vary", "gamma=1"), "gamma is varied already"),
        (("--algos", "ppo", "--tasks", ""), "--tasks '' names no task; leave it out for all."),
        (("--algos", "ppo", "--address", "auto"), "--address belongs to a Ray cluster; add --executor ray."),
        (("--algos", "ppo", "--config", "none.toml"), "none.toml: cannot be read: No such file or directory."),
        (("--algos", "ppo", "--jobs", "0"), "Invalid value for '--jobs'"),
        (("--algos", "ppo", "--retries", "-1"), "Invalid value for '--retries'"),
        (("--algos", "ppo", "--executor", "slurm"), "'slurm' is not one of 'local', 'ray'"),
        (("--allgos", "ppo"), "--allgos"),
        (("statsu",), "No such command 'statsu'"),
    ],
)
def test_what_cannot_be_understood_ends_with_2_and_writes_nothing(flags, said, fake, tmp_path):
    done = grue("sweep", *flags, GRUE_RUNS=str(tmp_path / "runs"))
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert fake[0] == []
    assert not (tmp_path / "runs").exists()


def test_a_key_that_is_not_set_is_told_before_anything_runs(fake, tmp_path, monkeypatch):
    monkeypatch.delenv("A_KEY", raising=False)
    path = tmp_path / "grid.toml"
    endpoint = 'endpoint = { url = "http://127.0.0.1:1", key_env = "A_KEY" }'
    path.write_text(f'tasks = ["imdb"]\n[[models]]\nmodel = "m"\n{endpoint}\n')
    asked = ("sweep", "--config", path, "--runs", tmp_path / "runs")
    assert "1 run" in grue(*asked, "--dry-run").stdout
    done = grue(*asked)
    assert (done.exit_code, fake[0]) == (2, [])
    assert "--api-key-env: the environment variable of the name given there is not set" in done.stderr
    assert not (tmp_path / "runs").exists()


# --- status ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def some_runs(tmp_path):
    """A sweep of four runs: one finished, one failed, one that was killed, one not begun."""
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
    line = {"of": 8, "seconds": 1.0, "objective/reward": 0.25, "objective/kl_sequence": 1.0}
    (tmp_path / killed.id).mkdir(parents=True)
    write_jsonl(tmp_path / killed.id / "train.jsonl", ({"update": n, **line} for n in (1, 2, 3)))
    return tmp_path


def test_status_shows_every_run_and_why_those_failed_that_did(some_runs):
    done = grue("sweep", "status", some_runs)
    assert done.exit_code == 0, done.output
    assert [line.rstrip() for line in done.output.splitlines()] == [
        "4 runs: 1 waiting, 1 finished, 1 failed, 1 stopped",
        "",
        "state     run                           updates  reward    KL  preference",
        "finished  imdb/ppo/seed-1                                            61.5",
        "failed    imdb/ppo/seed-2",
        "stopped   imdb/ppo/seed-3  (attempt 2)      3/8   0.250  1.00",
        "waiting   imdb/ppo/seed-4",
        "",
        "failed   imdb/ppo/seed-2: the gradient is not finite.",
    ]


def test_status_is_there_for_programs_too(some_runs):
    done = grue("sweep", "status", some_runs, "--json")
    found = json.loads(done.output)
    assert [(row["id"], row["state"], row["attempt"]) for row in found] == [
        ("mini/imdb/ppo/seed-1", "finished", 1),
        ("mini/imdb/ppo/seed-2", "failed", 1),
        ("mini/imdb/ppo/seed-3", "stopped", 2),
        ("mini/imdb/ppo/seed-4", "waiting", 1),
    ]
    assert found[0]["preference"] == 61.54
    assert found[1]["message"] == "the gradient is not finite."
    assert found[2]["job"]["set"] == {"updates": 8}


def test_status_where_no_sweep_ran_ends_with_3(tmp_path):
    done = grue("sweep", "status", tmp_path / "nothing")
    assert done.exit_code == 3
    assert done.stderr == (
        f"Error: {tmp_path}/nothing: no sweep has run here ({tmp_path}/nothing/sweep/sweep.toml is missing).\n"
    )
    assert not (tmp_path / "nothing").exists()


def test_status_takes_the_folder_of_runs_from_the_sweeps_own_option(some_runs):
    assert grue("sweep", "--runs", some_runs, "status").output.startswith("4 runs: ")


# --- the live table --------------------------------------------------------------------------------------------------


def rows():
    long = a_job("supervised+nlpo_top_p-0.9_learning_rate-0.0001", 5, task="cnn_dailymail", after="x")
    return [
        JobRow(
            job=long, state="running", attempt=2, update=13, updates=20, reward=0.51234, kl=12.345, seconds_left=754.0
        ),
        JobRow(job=a_job("zero-shot", 1), state="running"),
        JobRow(job=a_job("ppo", 2), state="waiting", updates=20),
    ]


@pytest.mark.parametrize("columns", [50, 60, 80, 110])
def test_no_line_is_wider_than_the_terminal_and_a_long_name_goes_on_below(columns):
    console = Console(file=StringIO(), width=columns, highlight=False)
    console.print(table(rows()[:1]))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= columns
    name = "".join(line[9:].split("   ")[0].strip() for line in lines[1:])
    assert name.replace(" ", "") == "cnn_dailymail/supervised+nlpo_top_p-0.9_learning_rate-0.0001/seed-5(attempt2)"
    assert "13/20" in lines[1]


def view(columns=80, terminal=True, **environment):
    output = StringIO()
    console = Console(
        file=output, width=columns, force_terminal=terminal, color_system=None, highlight=False, _environ=environment
    )
    return console, output


def test_the_live_table_at_80_columns(tmp_path):
    record = Record(tmp_path)
    jobs = [a_job("ppo", seed, set={"updates": 20}) for seed in (1, 2, 3, 4)]
    finish(record, jobs[0], seconds={"train": 50.0, "evaluate": 10.0})
    record.add(jobs[1], "running")
    line = {"of": 20, "seconds": 2.0, "objective/reward": 0.25, "objective/kl_sequence": 1.0}
    (tmp_path / jobs[1].id).mkdir(parents=True)
    write_jsonl(tmp_path / jobs[1].id / "train.jsonl", ({"update": n, **line} for n in range(1, 6)))
    console, _ = view()
    with SweepView(console, record, jobs) as shown:
        shown.changed(jobs[1], "running", None)
        shown.states = {jobs[0].id: "finished", jobs[1].id: "running", jobs[2].id: "waiting", jobs[3].id: "failed"}
        drawn = Console(file=StringIO(), width=80, highlight=False)
        drawn.print(shown._drawn())
    assert [line.rstrip() for line in drawn.file.getvalue().splitlines()] == [
        "4 runs: 1 waiting, 1 running, 1 finished, 1 failed   after 0 s, about 2 min left",
        "state    run              updates  reward    KL  left",
        "running  imdb/ppo/seed-2     5/20   0.250  1.00  30 s",
    ]


def test_on_a_terminal_only_failures_are_said_beside_the_table(tmp_path):
    console, output = view()
    with SweepView(console, Record(tmp_path), [a_job()]) as shown:
        shown.changed(a_job(), "running", None)
        shown.changed(a_job(), "finished", None)
        shown.changed(a_job(), "failed", "[bold]it[/bold] diverged")
    assert "failed   imdb/ppo/seed-1: [bold]it[/bold] diverged" in output.getvalue()
    assert "finished" not in output.getvalue()


def test_without_a_terminal_every_change_is_a_plain_line(tmp_path):
    console, output = view(terminal=False)
    with SweepView(console, Record(tmp_path), [a_job()]) as shown:
        shown.changed(a_job(), "running", None)
        shown.tick({a_job().id: "running"})
        shown.changed(a_job(), "finished", None)
    assert output.getvalue() == "running  imdb/ppo/seed-1\nfinished imdb/ppo/seed-1\n"


def test_no_color_is_honoured(monkeypatch, some_runs):
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in status_text(rows_of(Record(some_runs), Record(some_runs).jobs()))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (99.4, "99 s"), (100, "2 min"), (5_900, "98 min"), (6_000, "1 h 40 min"), (90_061, "25 h 1 min")],
)
def test_times_are_said_as_people_say_them(seconds, said):
    assert clock(seconds) == said
