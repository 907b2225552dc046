"""`grue submit pack --sweep`: every system of a sweep becomes a submission; what failed is declared, what is open refused."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.factories import a_result
from support.sweeps import FakeExecutor, a_manifest

from grue import files
from grue.cli import sweep as sweeping
from grue.cli.main import main
from grue.submissions.folder import read_result
from grue.sweep.grid import GridEntry, SweepGrid
from grue.sweep.jobs import plan_jobs
from grue.sweep.record import Record
from grue.sweep.work import carry_out
from grue.task_files import load_task, task_folder

GIVEN = ("--authors", "A. Author, B. Author", "--licence", "CC0-1.0", "--training-data", "none")
GRID = SweepGrid(
    tasks=("imdb", "commongen"),
    algorithms=("zero-shot", "supervised+ppo", "copy"),
    systems=(GridEntry(algorithm="ppo", system="mine", set={"gamma": 0.5}),),
    seeds="1-2",
)


def leave_run(record, job):
    """Leave a result with its predictions, as an evaluation does."""
    task = load_task(job.source, job.suite)
    training = {"training": {"tokens": 5e5, "seconds": 1800.0}} if job.trains else {}
    backbone = {} if job.system == "copy" else {"backbone": task.backbone.model}
    system = {"name": job.system, "algorithm": job.algorithm, **backbone, **training}
    folder = record.runs / job.id
    files.write_json(folder / "result.json", replace(a_result(task, job.system, job.seed, 50.0), system=system))
    files.write_jsonl(folder / "predictions.jsonl", [{"id": "a", "text": f"{job.system} {job.seed}"}])


def a_sweep(runs, grid=GRID, failed=(), open_=()):
    """Leave the record and the results of a sweep, without carrying it out."""
    record = Record(runs)
    record.write_grid(grid)
    for job in plan_jobs(grid):
        if job.id in open_:
            continue
        record.add(job, "running")
        if job.id in failed:
            record.add(job, "failed", message="the gradient is not finite.")
            continue
        if job.trains:
            files.write_json(runs / job.id / "checkpoint/grue.json", a_manifest(job))
        if job.evaluate:
            leave_run(record, job)
        record.add(job, "finished")
    return record


def pack(runs, output, *more, check=False):
    flags = () if check else ("--no-check",)
    command = ["submit", "pack", "--sweep", str(runs), "--output", str(output), *GIVEN, *flags, *more]
    return CliRunner().invoke(main, command)


def packed(output):
    return sorted(path.relative_to(output).as_posix() for path in output.rglob("*.result.json"))


def described(output, name):
    return tomllib.loads((output / "mini" / name / "submission.toml").read_text())


def test_every_system_becomes_a_submission_with_all_its_tasks_and_seeds(tmp_path):
    a_sweep(tmp_path / "runs")
    done = pack(tmp_path / "runs", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert packed(tmp_path / "out") == sorted(
        f"mini/{system}/{task}/seed-{seed}.result.json"
        for system in ("zero-shot", "supervised+ppo", "mine", "copy")
        for task in ("imdb", "commongen")
        for seed in ((1,) if system == "copy" else (1, 2))
    )
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == [
        f"{tmp_path}/out/mini/zero-shot: 4 runs",
        f"{tmp_path}/out/mini/supervised+ppo: 4 runs",
        f"{tmp_path}/out/mini/copy: 2 runs",
        f"{tmp_path}/out/mini/mine: 4 runs",
    ]
    found = described(tmp_path / "out", "mine")
    assert (found["name"], found["algorithm"], found["seeds"]) == ("mine", "ppo", [1, 2])
    assert (found["authors"], found["licence"], found["training_data"]) == (
        ["A. Author", "B. Author"],
        "CC0-1.0",
        "none",
    )
    assert found["budget"] == "0.50 M tokens a run, 2.0 hours for all 4 runs (2 tasks)"
    assert "deterministic" not in found
    assert described(tmp_path / "out", "zero-shot")["budget"] == "no training"
    constant = described(tmp_path / "out", "copy")
    assert (constant["deterministic"], constant["seeds"], constant["backbone"]) == (True, [1], "none")


def test_other_runs_in_the_folder_are_no_part_of_the_sweep(tmp_path):
    record = a_sweep(tmp_path / "runs")
    (stranger,) = plan_jobs(SweepGrid(tasks=("imdb",), algorithms=("zero-shot",), seeds=(9,)))
    leave_run(record, stranger)
    done = pack(tmp_path / "runs", tmp_path / "out", "--system", "zero-shot")
    assert done.exit_code == 0, done.output
    assert described(tmp_path / "out", "zero-shot")["seeds"] == [1, 2]


def test_one_system_can_be_packed_alone_and_under_another_name(tmp_path):
    a_sweep(tmp_path / "runs")
    done = pack(tmp_path / "runs", tmp_path / "out", "--system", "mine", "--name", "ours")
    assert done.exit_code == 0, done.output
    assert {name.split("/")[1] for name in packed(tmp_path / "out")} == {"ours"}
    assert described(tmp_path / "out", "ours")["name"] == "ours"


def test_a_run_that_failed_is_declared_failed(tmp_path):
    a_sweep(tmp_path / "runs", failed=("mini/imdb/mine/seed-2",))
    done = pack(tmp_path / "runs", tmp_path / "out", "--system", "mine")
    assert done.exit_code == 0, done.output
    assert done.stderr == "Declared failed: mini/imdb/mine/seed-2: the gradient is not finite.\n"
    result = read_result(tmp_path / "out/mini/mine/imdb/seed-2.result.json")
    assert (result.status, result.preference, result.seed) == ("failed", None, 2)
    assert result.system == {"name": "mine", "algorithm": "ppo", "backbone": load_task("imdb").backbone.model}
    assert not (tmp_path / "out/mini/mine/imdb/seed-2.predictions.jsonl.gz").exists()
    assert len(packed(tmp_path / "out")) == 4


def test_what_could_not_start_because_its_start_failed_is_declared_failed_too(tmp_path):
    record = a_sweep(
        tmp_path / "runs", failed=("mini/imdb/supervised/seed-1",), open_=("mini/imdb/supervised+ppo/seed-1",)
    )
    (blocked,) = [job for job in record.jobs() if job.id == "mini/imdb/supervised+ppo/seed-1"]
    record.add(blocked, "blocked", message="mini/imdb/supervised/seed-1, its warm start, failed")
    done = pack(tmp_path / "runs", tmp_path / "out", "--system", "supervised+ppo")
    assert done.exit_code == 0, done.output
    assert (
        "Declared failed: mini/imdb/supervised+ppo/seed-1: mini/imdb/supervised/seed-1, its warm start" in done.stderr
    )


def test_what_only_an_earlier_grid_had_is_told(tmp_path):
    """A seed that failed would drop out by leaving it out of the grid; another system's is no part of this one's."""
    runs, failed = tmp_path / "runs", "mini/imdb/zero-shot/seed-2"
    first = SweepGrid(tasks=("imdb", "commongen"), algorithms=("zero-shot", "copy"), seeds="1-2")
    a_sweep(runs, first, failed=(failed,))
    a_sweep(runs, SweepGrid(tasks=("imdb",), algorithms=("zero-shot", "copy"), seeds="1"))
    done = pack(runs, tmp_path / "out", "--system", "copy")
    assert (done.exit_code, done.stderr) == (
        0,
        "Not packed, since the last grid lacks it: mini/commongen/copy/seed-1 (finished)\n",
    )
    done = pack(runs, tmp_path / "all")
    assert done.exit_code == 3
    assert f"{runs}: the last grid leaves out what failed in an earlier one" in done.stderr
    assert done.stderr.splitlines()[1:] == [f"  {failed}"]
    assert not (tmp_path / "all").exists()
    a_sweep(runs, first, failed=(failed,))
    done = pack(runs, tmp_path / "all")
    assert (done.exit_code, done.stderr) == (0, f"Declared failed: {failed}: the gradient is not finite.\n")


def test_a_sweep_that_is_not_finished_is_refused_and_nothing_is_written(tmp_path):
    open_ = [job.id for job in plan_jobs(GRID) if job.system in ("mine", "zero-shot")]
    record = a_sweep(tmp_path / "runs", open_=open_)
    (killed,) = [job for job in record.jobs() if job.id == "mini/imdb/mine/seed-1"]
    record.add(killed, "running")
    done = pack(tmp_path / "runs", tmp_path / "out")
    assert done.exit_code == 3
    assert done.stderr.splitlines()[0] == (
        f"Error: {tmp_path}/runs: 8 of 14 runs are unfinished; the same `grue sweep` resumes them, and "
        "--system NAME packs one system alone:"
    )
    assert "  stopped  mini/imdb/mine/seed-1" in done.stderr.splitlines()
    assert "  waiting  mini/imdb/zero-shot/seed-2" in done.stderr.splitlines()
    assert not (tmp_path / "out").exists()
    assert pack(tmp_path / "runs", tmp_path / "out", "--system", "copy").exit_code == 0


def test_of_many_open_runs_ten_are_named(tmp_path):
    Record(tmp_path / "runs").write_grid(GRID)
    done = pack(tmp_path / "runs", tmp_path / "out")
    assert len(done.stderr.splitlines()) == 12
    assert done.stderr.endswith("  … and 4 more\n")


def test_a_result_that_was_lost_counts_as_not_finished(tmp_path):
    a_sweep(tmp_path / "runs")
    (tmp_path / "runs/mini/imdb/copy/seed-1/result.json").unlink()
    done = pack(tmp_path / "runs", tmp_path / "out")
    assert done.exit_code == 3
    assert "waiting  mini/imdb/copy/seed-1" in done.stderr


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (("--name", "ours"), 2, "--name applies to one system, and the sweep has 4; add --system NAME."),
        (("--budget", "1 hour"), 2, "--budget applies to one system, and the sweep has 4; add --system NAME."),
        (("--system", "mein"), 2, "the sweep has no system 'mein'. Did you mean 'mine'? Known: zero-shot, supervised+ppo, copy, mine."),
        (("--system", "supervised"), 2, "the sweep has no system 'supervised'."),
        (("--failed", "imdb:1"), 2, "--failed imdb:1: the sweep records which of its runs failed; leave it out."),
        (("--predictions", "x"), 2, "Choose what to pack: one of RUN..., --system NAME, --predictions FOLDER or --sweep RUNS."),
        (("runs/mini/imdb/ppo",), 2, "Choose what to pack: one of RUN..., --system NAME, --predictions FOLDER or --sweep RUNS."),
        (("--licence", ""), 2, "The results do not record everything; add --licence."),
    ],
)  # fmt: skip
def test_what_cannot_be_packed_is_refused_and_nothing_is_written(flags, code, said, tmp_path):
    a_sweep(tmp_path / "runs")
    done = pack(tmp_path / "runs", tmp_path / "out", *flags)
    assert done.exit_code == code, done.output
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_system_of_which_every_run_failed_is_refused(tmp_path):
    grid = SweepGrid(tasks=("imdb",), algorithms=("ppo",))
    a_sweep(tmp_path / "runs", grid, failed=("mini/imdb/ppo/seed-1",))
    done = pack(tmp_path / "runs", tmp_path / "out")
    assert done.exit_code == 2
    assert "ppo: every run failed: there is no result to submit." in done.stderr


def test_a_sweep_that_evaluated_nothing_is_refused(tmp_path):
    a_sweep(tmp_path / "runs", SweepGrid(tasks=("imdb",), algorithms=("ppo",), evaluate=False))
    done = pack(tmp_path / "runs", tmp_path / "out")
    assert (done.exit_code, "the sweep evaluated no run" in done.stderr) == (3, True)


def test_a_system_on_two_suites_is_two_submissions_and_tasks_without_a_board_are_left_out(tmp_path):
    own = files.read_toml(task_folder() / "mini/imdb.toml") | {"suite": "own", "name": "mine"}
    files.write_toml(tmp_path / "mine.toml", own)
    grid = SweepGrid(tasks=("mini/imdb", "grue/imdb", str(tmp_path / "mine.toml")), algorithms=("copy",))
    a_sweep(tmp_path / "runs", grid)
    done = pack(tmp_path / "runs", tmp_path / "out")
    assert (done.exit_code, done.stderr) == (0, "Left out: own, which has no board.\n"), done.output
    assert packed(tmp_path / "out") == [f"{suite}/copy/imdb/seed-1.result.json" for suite in ("grue", "mini")]
    a_sweep(tmp_path / "alone", SweepGrid(tasks=(str(tmp_path / "mine.toml"),), algorithms=("copy",)))
    assert "evaluated no run for a board" in pack(tmp_path / "alone", tmp_path / "x").stderr


def test_where_no_sweep_ran_there_is_nothing_to_pack(tmp_path):
    done = pack(tmp_path, tmp_path / "out")
    assert (done.exit_code, "no sweep has run here" in done.stderr) == (3, True)


def test_what_a_sweep_made_passes_the_check(tmp_path, monkeypatch):
    """Two real baselines, carried out by what a worker does with a job."""

    class Here(FakeExecutor):
        def wait(self, seconds):
            job = self.running.pop(0)
            return [(job, carry_out(job, self.place))]

    def executor(name, record, place, *rest):
        made = Here(record)
        made.place = place
        return made

    monkeypatch.setattr(sweeping, "_executor", executor)
    runs = tmp_path / "runs"
    swept = CliRunner().invoke(main, ["sweep", "--tasks", "imdb", "--algos", "copy,lead", "--runs", str(runs)])
    assert (swept.exit_code, swept.stdout) == (0, "2 runs: 2 finished\n"), swept.output
    done = pack(runs, tmp_path / "submissions", check=True)
    assert done.exit_code == 0, done.output
    assert "2 submissions checked: " in done.output
    assert "error" not in done.output
    first = json.loads((runs / "sweep/events.jsonl").read_text().splitlines()[-1])
    assert first["seconds"]["evaluate"] > 0
    assert first["peak_memory"] > 100_000_000
    assert Path(tmp_path / "submissions/mini/lead/imdb/seed-1.predictions.jsonl.gz").exists()
