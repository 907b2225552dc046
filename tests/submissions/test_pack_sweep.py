"""`grue submit pack --sweep`: every system of a sweep becomes a submission; what failed is declared, what is open refused."""

import json
import tomllib
from dataclasses import replace

import pytest
from support.commands import grue
from support.factories import a_result
from support.late import late

from grue import files
from grue.evaluation.folder import seal
from grue.submissions.folder import read_result
from grue.sweep.grid import GridEntry, SweepGrid
from grue.sweep.jobs import plan_jobs
from grue.sweep.record import Record
from grue.task_files import load_task, task_folder

sweeps, sweeping = late("support.sweeps"), late("grue.cli.sweep")
GIVEN = ("--authors", "A. Author, B. Author", "--licence", "CC0-1.0", "--training-data", "none")
MINE = GridEntry(algorithm="ppo", system="mine", set={"gamma": 0.5})
TASKS, SYSTEMS = ("imdb", "commongen"), ("zero-shot", "supervised+ppo", "copy")
GRID = SweepGrid(tasks=TASKS, algorithms=SYSTEMS, systems=(MINE,), seeds="1-2")


def leave_run(record, job):
    """Leave what an evaluation does."""
    task = load_task(job.source, job.suite)
    training = {"training": {"tokens": 5e5, "seconds": 1800.0}} if job.trains else {}
    backbone = {} if job.system == "copy" else {"backbone": task.backbone.model}
    system = {"name": job.system, "algorithm": job.algorithm, **backbone, **training}
    folder = record.runs / job.id
    files.write_jsonl(folder / "predictions.jsonl", [{"id": "a", "text": f"{job.system} {job.seed}"}])
    files.write_jsonl(folder / "scores.jsonl", [{"id": "a"}])
    weights = sweeps.a_manifest(job).weights if job.trains else job.system
    seal(folder, {"weights": weights}, replace(a_result(task, job.system, job.seed, 50.0), system=system))


def a_sweep(runs, grid=GRID, failed=(), open_=()):
    """Leave the record and the results of a sweep, without carrying it out."""
    record = Record(runs)
    record.write_grid(grid)
    for job in (job for job in plan_jobs(grid) if job.id not in open_):
        record.add(job, "running")
        if job.id in failed:
            record.add(job, "failed", message="the gradient is not finite.")
            continue
        if job.trains:
            files.write_json(runs / job.id / "checkpoint/grue.json", sweeps.a_manifest(job))
        if job.evaluate:
            leave_run(record, job)
        record.add(job, "finished")
    return record


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    runs = tmp_path_factory.mktemp("sweep") / "runs"
    a_sweep(runs)
    return runs


def command(runs, output, *more, check=False):
    flags = () if check else ("--no-check",)
    return ("submit", "pack", "--sweep", str(runs), "--output", str(output), *GIVEN, *flags, *map(str, more))


def pack(runs, output, *more, **options):
    return grue(*command(runs, output, *more, **options))


def packed(output):
    return sorted(path.relative_to(output).as_posix() for path in output.rglob("*.result.json"))


def described(output, name):
    return tomllib.loads((output / "mini" / name / "submission.toml").read_text())


def test_every_system_becomes_a_submission_with_all_its_tasks_and_seeds(finished, tmp_path):
    done = pack(finished, tmp_path)
    systems = {**dict.fromkeys(("zero-shot", "supervised+ppo"), (1, 2)), "copy": (1,), "mine": (1, 2)}
    assert packed(tmp_path) == sorted(
        f"mini/{system}/{task}/seed-{seed}.result.json"
        for system, seeds in systems.items()
        for task in TASKS
        for seed in seeds
    )
    said = [f"{tmp_path}/mini/{system}: {2 * len(seeds)} runs" for system, seeds in systems.items()]
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == said
    found = described(tmp_path, "mine")
    assert (found["name"], found["algorithm"], found["seeds"]) == ("mine", "ppo", [1, 2])
    assert (found["authors"], found["licence"]) == (["A. Author", "B. Author"], "CC0-1.0")
    assert found["training_data"] == "none" and "deterministic" not in found
    assert found["budget"] == "0.50 M tokens a run, 2.0 hours for all 4 runs (2 tasks)"
    assert described(tmp_path, "zero-shot")["budget"] == "no training"
    constant = described(tmp_path, "copy")
    assert (constant["deterministic"], constant["seeds"], constant["backbone"]) == (True, [1], "none")


def test_one_system_can_be_packed_alone_and_under_another_name_without_other_runs(tmp_path):
    record = a_sweep(tmp_path / "runs")
    (stranger,) = plan_jobs(SweepGrid(tasks=("imdb",), algorithms=("zero-shot",), seeds=(9,)))
    leave_run(record, stranger)
    pack(tmp_path / "runs", tmp_path / "out", "--system", "zero-shot", "--name", "ours")
    assert {name.split("/")[1] for name in packed(tmp_path / "out")} == {"ours"}
    found = described(tmp_path / "out", "ours")
    assert (found["name"], found["seeds"]) == ("ours", [1, 2])


def test_a_run_that_failed_or_could_not_start_is_declared_failed(tmp_path):
    failed, start, after = (
        f"mini/imdb/{name}" for name in ("mine/seed-2", "supervised/seed-1", "supervised+ppo/seed-1")
    )
    record = a_sweep(tmp_path / "runs", failed=(failed, start), open_=(after,))
    (blocked,) = [job for job in record.jobs() if job.id == after]
    record.add(blocked, "blocked", message=f"{start}, its warm start, failed")
    done = pack(tmp_path / "runs", tmp_path / "out", "--system", "mine")
    assert done.stderr == f"Declared failed: {failed}: the gradient is not finite.\n"
    result = read_result(tmp_path / "out/mini/mine/imdb/seed-2.result.json")
    assert (result.status, result.preference, result.seed) == ("failed", None, 2)
    assert result.system == {"name": "mine", "algorithm": "ppo", "backbone": load_task("imdb").backbone.model}
    assert not (tmp_path / "out/mini/mine/imdb/seed-2.predictions.jsonl.gz").exists()
    assert len(packed(tmp_path / "out")) == 4
    done = pack(tmp_path / "runs", tmp_path / "out", "--system", "supervised+ppo")
    assert f"Declared failed: {after}: {start}, its warm start" in done.stderr


def test_what_only_an_earlier_grid_had_is_told(tmp_path, refused):
    """A seed that failed would drop out by leaving it out of the grid; another system's is no part of this one's."""
    runs, failed = tmp_path / "runs", "mini/imdb/zero-shot/seed-2"
    first = SweepGrid(tasks=TASKS, algorithms=("zero-shot", "copy"), seeds="1-2")
    a_sweep(runs, first, failed=(failed,))
    a_sweep(runs, SweepGrid(tasks=("imdb",), algorithms=("zero-shot", "copy"), seeds="1"))
    done = pack(runs, tmp_path / "out", "--system", "copy")
    assert done.stderr == "Not packed, since the last grid lacks it: mini/commongen/copy/seed-1 (finished)\n"
    refused.command(*command(runs, tmp_path / "all"), code=3)
    assert not (tmp_path / "all").exists()
    a_sweep(runs, first, failed=(failed,))
    done = pack(runs, tmp_path / "all")
    assert done.stderr == f"Declared failed: {failed}: the gradient is not finite.\n"


def test_a_sweep_that_is_not_finished_is_refused_and_nothing_is_written(tmp_path, refused):
    """Of many open runs ten are named; a result that was lost counts as not finished."""
    open_ = [job.id for job in plan_jobs(GRID) if job.system in ("mine", "zero-shot")]
    record = a_sweep(tmp_path / "runs", open_=open_)
    (killed,) = [job for job in record.jobs() if job.id == "mini/imdb/mine/seed-1"]
    record.add(killed, "running")
    refused.command(*command(tmp_path / "runs", tmp_path / "out"), code=3)
    assert not (tmp_path / "out").exists()
    pack(tmp_path / "runs", tmp_path / "out", "--system", "copy")
    (tmp_path / "runs/mini/imdb/copy/seed-1/result.json").unlink()
    refused.command(*command(tmp_path / "runs", tmp_path / "x", "--system", "copy"), code=3)
    Record(tmp_path / "begun").write_grid(GRID)
    refused.command(*command(tmp_path / "begun", tmp_path / "x"), code=3)
    (tmp_path / "none").mkdir()
    refused.command(*command(tmp_path / "none", tmp_path / "x"), code=3)


@pytest.mark.parametrize(
    "flags",
    [
        *(
            ("--name", "ours"),
            ("--backbone", "gpt2"),
            ("--budget", "1 hour"),
            ("--system", "mein"),
            ("--system", "supervised"),
        ),
        *(("--failed", "imdb:1"), ("--predictions", "x"), ("runs/mini/imdb/ppo",), ("--licence", "")),
    ],
    ids=" ".join,
)
def test_what_cannot_be_packed_is_refused_and_nothing_is_written(finished, flags, tmp_path, refused):
    refused.command(*command(finished, tmp_path / "out", *flags), code=2)
    assert not (tmp_path / "out").exists()


def test_a_sweep_without_a_result_is_refused(tmp_path, refused):
    a_sweep(tmp_path / "failed", SweepGrid(tasks=("imdb",), algorithms=("ppo",)), failed=("mini/imdb/ppo/seed-1",))
    refused.command(*command(tmp_path / "failed", tmp_path / "out"), code=2)
    a_sweep(tmp_path / "open", SweepGrid(tasks=("imdb",), algorithms=("ppo",), evaluate=False))
    refused.command(*command(tmp_path / "open", tmp_path / "out"), code=3)


def test_a_system_on_two_suites_is_two_submissions_and_tasks_without_a_board_are_left_out(tmp_path):
    own = files.read_toml(task_folder() / "mini/imdb.toml") | {"suite": "own", "name": "mine"}
    files.write_toml(tmp_path / "mine.toml", own)
    mine = str(tmp_path / "mine.toml")
    a_sweep(tmp_path / "runs", SweepGrid(tasks=("mini/imdb", "grue/imdb", mine), algorithms=("copy",)))
    assert pack(tmp_path / "runs", tmp_path / "out").stderr == "Left out: own, which has no board.\n"
    assert packed(tmp_path / "out") == [f"{suite}/copy/imdb/seed-1.result.json" for suite in ("grue", "mini")]


def test_what_a_sweep_made_passes_the_check(tmp_path, monkeypatch):
    """Two real baselines on the first examples, carried out by what a worker does with a job."""
    from support import tiny_row

    from grue.sweep.work import carry_out

    class Here(sweeps.FakeExecutor):
        def wait(self, seconds):
            job = self.running.pop(0)
            return [(job, carry_out(job, self.place))]

    def executor(record, place, *rest):
        made = Here(record)
        made.place = place
        return made

    monkeypatch.setattr("grue.sweep.run.executor_for", executor)
    runs = tmp_path / "runs"
    with tiny_row.few_examples():
        swept = grue("sweep", "--tasks", "imdb", "--algos", "copy,lead", "--runs", runs)
        assert swept.stdout == "2 runs: 2 finished\n"
        done = pack(runs, tmp_path / "submissions", check=True)
    assert "2 submissions checked: " in done.output and "error" not in done.output
    last = json.loads((runs / "sweep/events.jsonl").read_text().splitlines()[-1])
    assert last["seconds"]["evaluate"] > 0 and last["peak_memory"] > 100_000_000
    assert (tmp_path / "submissions/mini/lead/imdb/seed-1.predictions.jsonl.gz").exists()
