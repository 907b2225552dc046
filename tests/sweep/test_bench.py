"""`grue bench`: a fair grid, equal trials, the report, and the whole road on a tiny task."""

import inspect
import json
import multiprocessing
import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest
from click.testing import CliRunner
from support.factories import a_result
from support.own_task import small_task
from support.paths import ROOT
from support.rows import a_row

import grue
from grue import files
from grue.cli.main import main
from grue.errors import ConfigError, DataError, TrainingError
from grue.leaderboard.pairs import all_pairs
from grue.leaderboard.published import board_folder, read_board
from grue.sweep import fair
from grue.sweep.bench import Findings, PlannedBench
from grue.sweep.bench_report import compared_rows
from grue.sweep.fair import TunedRate, chosen_rates, fair_grid, trial_grid, with_rates
from grue.sweep.grid import ModelEntry, SweepGrid
from grue.sweep.jobs import plan_jobs
from grue.sweep.work import JobContext, carry_out
from grue.task_files import load_task

CAUSAL = ModelEntry(model="mini:causal")
GRID = SweepGrid(tasks=("imdb", "commongen"), seeds=(1, 2))


def findings(rows):
    """Findings over made-up rows."""
    board = replace(read_board(board_folder() / "mini.json"), rows=tuple(rows), notes=())
    return Findings(board, all_pairs(rows, rows))


SMALL, LARGE = (0.1, -0.1, 0.2, -0.2, 0.0), (-0.4, 0.4, 0.2, -0.2, 0.0)


def both(system, preference, naturalness, noise):
    """A row of two tasks with these means over five seeds; what builds on `supervised` began from its seeds."""
    start, tasks = "supervised" if "+" in system else None, ("imdb", "commongen")
    row = a_row(system, start, **{task: [preference + one for one in noise] for task in tasks})
    natural = a_row(system, x=[naturalness + one for one in noise[::-1]]).cells["x"].preference
    return replace(row, rank=None, cells={task: replace(cell, naturalness=natural) for task, cell in row.cells.items()})


def systems(grid):
    return {(job.task, job.system): job for job in plan_jobs(grid) if job.seed == grid.seed_list()[0]}


def test_methods_begin_from_one_start_and_controls_train_it_twice_as_long_or_pick_among_samples():
    found = systems(fair_grid(GRID, ["ppo", "supervised+grpo", "zero-shot"], best_of=4))
    names = ["supervised", "supervised+best-of-4", "supervised+grpo", "supervised+ppo", "supervised_x2", "zero-shot"]
    assert sorted(name for task, name in found if task == "imdb") == names
    assert {job.after for (_, name), job in found.items() if "+" in name} == {
        "mini/imdb/supervised/seed-1",
        "mini/commongen/supervised/seed-1",
    }
    for task in GRID.tasks:
        recipe = files.read_toml(ROOT / f"tasks/mini/{task}.toml")["recipes"]["supervised"]
        assert found[task, "supervised_x2"].entry.set == {"epochs": 2 * recipe["epochs"]}


def test_models_of_others_need_no_start():
    models = [ModelEntry(model="mini:causal"), ModelEntry(model="mini:causal-s")]
    assert {name for _, name in systems(fair_grid(GRID, ["zero-shot"], models=models))} == {
        "causal",
        "causal-s",
        "zero-shot",
    }
    assert len(systems(fair_grid(GRID, ["ppo"], models=models))) == 2 * 5


def test_from_the_backbone_there_is_no_start_and_the_backbone_is_a_row():
    assert {name for _, name in systems(fair_grid(GRID, ["ppo"], from_backbone=True))} == {"ppo", "zero-shot"}
    grid = fair_grid(GRID, ["ppo", "grpo", "zero-shot"], "mini:causal-s", True)
    found = {name: job for (_, name), job in systems(grid).items()}
    assert set(found) == {"ppo-causal-s", "grpo-causal-s", "zero-shot-causal-s", "zero-shot"}
    assert found["ppo-causal-s"].entry.backbone == found["zero-shot-causal-s"].entry.model == "mini:causal-s"
    assert fair.models_of_others(grid) == [], "it is none of others: seeds alone are random"
    mine = ModelEntry(model="mini:causal")
    assert fair.models_of_others(fair_grid(GRID, ["ppo"], "mini:causal-s", True, models=[mine])) == [mine]
    assert fair.starts_untrained(grid) and not fair.starts_untrained(fair_grid(GRID, ["ppo"], best_of=2))


def test_every_system_of_another_backbone_has_its_name_and_the_report_names_both_controls():
    found = {name for _, name in systems(fair_grid(GRID, ["ppo"], "mini:causal-s", best_of=4))}
    assert found == {
        f"supervised{rest}" for rest in ("-causal-s", "+ppo-causal-s", "_x2-causal-s", "-causal-s+best-of-4")
    }
    rows = [a_row(name, x=[float(place), place + 1.0]) for place, name in enumerate(sorted(found))]
    report = findings(rows).markdown
    told = "supervised_x2-causal-s, the start trained for twice as long; supervised-causal-s+best-of-4, the best of several"
    assert f"Controls: {told}" in report and "not better than both" in report
    alone = [row for row in rows if "best" not in row.system]
    assert "not better than it has" in findings(alone).markdown


def test_a_setting_is_that_of_every_method_and_of_nothing_else():
    grid = fair_grid(GRID, ["ppo", "grpo"], settings={"updates": 3, "validation_examples": 7}, best_of=2)
    for (_, name), job in systems(grid).items():
        assert ("updates" in job.entry.set) == ("ppo" in name or "grpo" in name)
    found = systems(with_rates(grid, [TunedRate("imdb", "supervised+ppo", {0.5: 1.0})]))
    assert found["imdb", "supervised+ppo"].entry.set == {"updates": 3, "validation_examples": 7, "learning_rate": 0.5}


def test_two_methods_of_one_file_are_named_by_both_parts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    code = "from grue.algorithms.grpo import ALGORITHM\nONE = TWO = ALGORITHM\n"
    (tmp_path / "two_of_mine.py").write_text(code)
    one = {name for _, name in systems(fair_grid(GRID, ["two_of_mine:ONE", "ppo"]))}
    assert "supervised+two_of_mine" in one
    grid = fair_grid(GRID, ["two_of_mine:ONE", "two_of_mine:TWO"], "mini:causal")
    assert {"supervised+two_of_mine-ONE-causal", "supervised+two_of_mine-TWO-causal"} < {n for _, n in systems(grid)}
    assert len(plan_jobs(trial_grid(grid, 2))) == 2 * (1 + 2 * 2), "each trial has a folder of its own"


def test_what_is_no_comparison_is_refused(refused):
    model = [ModelEntry(model="mini:causal")]
    for ask in (
        lambda: fair_grid(GRID, ["ppo", "supervised+ppo"]),
        lambda: fair_grid(GRID, ["supervised", "zero-shot"]),
        lambda: fair_grid(GRID, [], models=model),
        lambda: fair_grid(GRID, ["zero-shot"], models=model, settings={"updates": 3}),
        lambda: systems(fair_grid(GRID, ["ppo"], settings={"samples_per_group": 2})),
        lambda: trial_grid(fair_grid(GRID, ["ppo"]), 6),
        lambda: grue.bench("out", "ppo"),  # a text where a list belongs
        lambda: grue.bench("out", ["ppo"], seeds=[]),
        lambda: grue.bench("out", ["ppo"], seeds=5),
    ):
        with refused(ConfigError):
            ask()


def test_every_method_gets_equally_many_trials_with_a_seed_of_their_own():
    grid = fair_grid(SweepGrid(tasks=("imdb",), seeds=(1, 150)), ["grpo", "rloo", "zero-shot"], None, False)
    trials = trial_grid(grid, 3)
    assert (trials.seeds, trials.evaluate) == ((151,), False)
    rates = {}
    for job in plan_jobs(trials):
        if "learning_rate" in job.entry.set:
            rates.setdefault(job.algorithm, []).append(job.entry.set["learning_rate"])
    recipes = files.read_toml(ROOT / "tasks/mini/imdb.toml")["recipes"]
    expected = {"supervised+grpo": recipes["rl"], "supervised+rloo": recipes["rloo"]}
    for algorithm, recipe in expected.items():
        rate = recipe["learning_rate"]
        assert rates.pop(algorithm) == pytest.approx([rate, 3 * rate, rate / 3], rel=0.01)
    assert rates == {}, "neither the start nor a baseline is tuned"


def test_the_rate_that_validated_best_is_taken_on_its_task(tmp_path):
    grid = fair_grid(SweepGrid(tasks=("imdb",), seeds=(1,)), ["ppo"], None, False)
    trials = trial_grid(grid, 3)
    best = iter([40.0, 60.0, 50.0])
    for job in plan_jobs(trials):
        if "learning_rate" in job.entry.set:
            log = [{"update": 0, "validation/preference": 39.0}, {"update": 1, "seconds": 1.0}]
            end = {"update": 1, "validation/preference": next(best)}
            files.write_jsonl(tmp_path / job.id / "train.jsonl", [*log, end, {"finished": True}])
    (choice,) = chosen_rates(trials, tmp_path)
    second = plan_jobs(trials)[2].entry.set["learning_rate"]
    assert (choice.source, choice.algorithm, choice.rate) == ("imdb", "supervised+ppo", second)
    chosen = systems(with_rates(grid, [choice]))
    assert chosen["imdb", "supervised+ppo"].entry.set == {"learning_rate": second}
    assert chosen["imdb", "supervised"].entry.set == {}


@pytest.mark.parametrize(("keep", "reached"), [("last", [30.0, 35.0]), ("best", [40.0, 40.0])])
def test_a_rate_is_judged_by_the_policy_that_its_run_keeps(tmp_path, keep, reached):
    grid = fair_grid(SweepGrid(tasks=("imdb",), seeds=(1,)), ["ppo"], settings={"keep": keep})
    trials, ends = trial_grid(grid, 2), iter([30.0, 35.0])
    for job in plan_jobs(trials):
        if "learning_rate" in job.entry.set:
            log = [{"update": 0, "validation/preference": 40.0}, {"update": 1, "seconds": 1.0}]
            end = {"update": 1, "validation/preference": next(ends)}
            files.write_jsonl(tmp_path / job.id / "train.jsonl", [*log, end, {"finished": True}])
    (choice,) = chosen_rates(trials, tmp_path)
    assert list(choice.reached.values()) == reached, "the start, at 40, is no policy that a run with keep = last has"


def test_a_result_without_a_metric_that_could_not_be_computed_ends_the_comparison_with_a_reason(tmp_path):
    task = load_task(str(small_task(tmp_path)))
    grid = fair_grid(SweepGrid(tasks=(str(tmp_path / "commongen.toml"),)), ["copy", "oracle"], models=[CAUSAL])
    place = JobContext(runs=tmp_path / "runs")
    for job in plan_jobs(grid):
        result = a_result(task, job.system, job.seed, None, errors=("spice: Java is not installed",))
        files.write_json(place.runs / job.id / "result.json", result)
    with pytest.raises(
        DataError,
        match=r"preference is missing.*spice: Java is not.*Then the same `grue bench` goes on\. In all, 3 results lack",
    ):
        PlannedBench(tmp_path, grid, place).findings()


def test_without_a_metric_of_preference_nothing_can_be_compared(tmp_path):
    path, other = small_task(tmp_path), small_task(tmp_path, "imdb")
    with pytest.raises(ConfigError, match="The tasks are of several suites, mini, own"):
        fair_grid(SweepGrid(tasks=("imdb", str(path))), ["ppo"])
    table = files.read_toml(path)
    files.write_toml(path, table | {"metrics": [{**one, "axis": "naturalness"} for one in table["metrics"]]})
    with pytest.raises(ConfigError, match="No task has a metric of preference"):
        fair_grid(SweepGrid(tasks=(str(path),)), ["ppo"])
    grid = fair_grid(SweepGrid(tasks=(str(path), str(other))), ["ppo"])
    trials = trial_grid(grid.on_tasks([str(path)]), 2)
    for job, reward in zip(plan_jobs(trials)[1:], (0.25, 0.5), strict=True):  # behind the start
        files.write_jsonl(tmp_path / job.id / "train.jsonl", [{"update": 0, "validation/reward": reward}])
    (choice,) = chosen_rates(trials, tmp_path)
    assert list(choice.reached.values()) == [0.25, 0.5]


def test_the_report_says_what_is_not_decided_and_what_was_tried(tmp_path):
    rows = [
        both("zero-shot", 20, 60, SMALL),
        both("supervised", 50, 67, SMALL),
        both("supervised+ppo", 51.5, 67.2, LARGE),
        both("supervised+nlpo", 51.3, 68, SMALL),
        both("supervised+grpo", 51.8, 67.1, SMALL),
    ]
    board = replace(read_board(board_folder() / "mini.json"), rows=tuple(rows), notes=())
    choices = [TunedRate("tasks/imdb.toml", "supervised+ppo", {2e-4: 95.0, 6e-4: 96.5})]
    rows = compared_rows(board)
    by_naturalness = all_pairs(board.rows, rows, "naturalness")
    found = Findings(board, all_pairs(board.rows, rows), by_naturalness, choices, "Tasks: all.")
    needed = {(pair.a, pair.b): pair.seeds for pair in found.pairs}["supervised+grpo", "supervised+ppo"]
    assert 5 < needed < 100, "five do not decide it after the correction"
    for words in (
        "\n\nTasks: all.\n\n",
        "- supervised+grpo is better than supervised+nlpo (+0.5, at a lower naturalness: 67.1 against 68.0) and "
        "supervised (+1.8), and is not decided against supervised+ppo (+0.3).\n",
        "- supervised is worse than every other system.\n",
        "| supervised+grpo | supervised      | **+1.8** |",
        f"- supervised+grpo − supervised+ppo, +0.3: about {needed} seeds each would decide a true difference of this",
        "\\] | paired | \\<0.001 |",
        "Holm p corrects p for all 6 pairs; ",
        "| imdb | supervised+ppo | 0.0006 | 0.0002: 95.0, 0.0006: 96.5 |",
        "Ranks by the mean when one task is left out: ",
    ):
        assert words in found.markdown, found.markdown
    found.write(tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == len(found.pairs) and 'href="board.html"' in page


def test_seeds_are_pairs_where_both_began_from_the_same_weights():
    rows = [a_row("base", x=[1, 2, 3]), a_row("one", "base", x=[4, 5, 7]), a_row("other", x=[1, 2, 4])]
    report = findings(rows).markdown
    assert re.search(r"\| base +\| one +\|.*\| paired \| 0\.\d+ +\| +0\.250 \|", report), report
    assert re.search(r"\| one +\| other +\|.*\|  Welch \| 0\.\d+ +\| +– \|", report), report
    assert "– where seeds are no pairs" in report
    assert "corrects p for this pair alone" in findings(rows[1:]).markdown


class InThisProcess:
    """An executor of one run at a time, without processes."""

    def __init__(self, record, place, *given, **named):
        self.place, self.ended = place, []

    def has_room(self, job, running):
        return not running

    def start(self, job):
        self.ended.append((job, carry_out(job, self.place)))

    def wait(self, seconds):
        ended, self.ended = self.ended, []
        return ended

    def close(self):
        pass


def test_the_whole_road(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("grue.sweep.run.executor_for", InThisProcess)
    task = small_task(tmp_path)
    table = files.read_toml(task)
    tiny = {"updates": 1, "rollouts": 8, "minibatch_size": 8, "epochs": 1, "validation_examples": 2}
    tiny |= {"validate_every": 1, "learning_rate": 1e-4}
    table["recipes"] = {"supervised": {"epochs": 1, "batch_size": 2}, "rl": tiny}
    files.write_toml(task, table)
    arguments = ["bench", "out", "--tasks", str(task), *"--algos grpo --seeds 1-2 --trials 2 --jobs 1".split()]
    planned = CliRunner().invoke(main, [*arguments, "--set", "updates=1", "--dry-run"])
    assert planned.exit_code == 0 and "Trials: 3 runs" in planned.stdout and "supervised_x2" in planned.stdout
    asked = CliRunner().invoke(main, arguments, input="n\n")
    assert asked.exit_code == 1, asked.output
    assert "Trials: 3 runs" in asked.stderr and "--yes" in asked.stderr, "in a batch job nobody answers"
    assert not (tmp_path / "out").exists()
    done = CliRunner().invoke(main, [*arguments, "--yes"])
    assert done.exit_code == 0, done.output
    written = (tmp_path / "out/README.md").read_text(encoding="utf-8")
    assert written in done.stdout
    for words in ("supervised_x2", "## Every two", "## Learning rates", "| commongen | supervised+grpo |"):
        assert words in written
    assert "<html" in (tmp_path / "out/board.html").read_text(encoding="utf-8")
    results = sorted(path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("result.json"))
    names = ("supervised", "supervised+best-of-8", "supervised+grpo", "supervised_x2")
    assert results == sorted(f"out/runs/own/commongen/{name}/seed-{seed}" for name in names for seed in (1, 2))
    found = grue.bench("out", ["grpo"], tasks=[str(task)], seeds=[1, 2], trials=2, jobs=1)
    assert found.markdown == written
    assert set(found.scores["system"]) == set(names)
    assert list(found.differences["a"]) == [pair.a for pair in found.pairs]
    needed = found.differences["seeds_to_decide"]
    assert [None if pd.isna(each) else each for each in needed] == [pair.seeds for pair in found.pairs]
    assert list(found.differences["is_decided"]) == [pair.p_holm < 0.05 for pair in found.pairs]
    assert "Tasks: commongen (from mini:seq2seq, 2 test examples). Seeds: 1, 2.\n" in written
    alike = {"tasks": [str(task)], "seeds": "1", "jobs": 1, "from_backbone": True}
    own = grue.bench("own", ["grpo"], backbone="mini:causal-s", settings={"updates": 2, "validate_every": 1}, **alike)
    assert [{pair.a, pair.b} for pair in own.pairs] == [{"grpo-causal-s", "zero-shot-causal-s"}]
    assert "Settings of every method: updates=2, validate_every=1." in own.markdown
    assert "p: Student's t over seeds" in own.markdown, "the backbone is no model of others"
    models = ["bench", "models", "--tasks", str(task), "--model", "mini:causal,mini:causal-s", "--jobs", "1", "--yes"]
    compared = CliRunner().invoke(main, models)
    assert compared.exit_code == 0, compared.output
    assert "p: the randomisation test over examples" in compared.stdout
    assert CliRunner().invoke(main, [*models, "--seeds", "1-2"]).exit_code == 0
    tested = []
    with monkeypatch.context() as patch:
        patch.setattr("grue.sweep.bench.pairs_over_examples", lambda systems, *rest, **more: tested.append(systems))
        CliRunner().invoke(main, models)
    seeds = {system.name: [*system.entries["commongen"]] for system in tested[0]}
    assert seeds == {"causal": [1], "causal-s": [1]}, "seeds of another grid in the folder are left out"
    again = CliRunner().invoke(main, [*arguments, "--yes"])
    assert again.exit_code == 0
    assert "all finished: nothing to do" in again.stderr
    assert json.loads((tmp_path / results[0] / "result.json").read_text())["seed"] == 1


def test_runs_share_a_gpu_where_there_is_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("grue.sweep.run.device_count", lambda: 1)
    arguments = ["bench", "--tasks", "imdb", "--algos", "ppo", "--seeds", "1-4", "--dry-run"]
    assert ", 4 at a time" in CliRunner().invoke(main, [*arguments, "--gpus", "0.25"]).stdout
    monkeypatch.setattr("grue.sweep.run.device_count", lambda: 0)
    with pytest.raises(ConfigError, match="--gpus 0.25: this machine has 0 GPUs"):
        grue.bench("out", ["ppo"], tasks=["imdb"], seeds=[1], gpus=0.25)
    assert "<function" not in str(inspect.signature(grue.bench))


def test_from_python_a_run_that_fails_is_an_error_and_the_observer_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    forked = multiprocessing.get_context("fork")  # a fork server would import torch first
    monkeypatch.setattr("multiprocessing.get_context", lambda kind: forked)
    states = []
    watching = SimpleNamespace(
        changed=lambda job, state, message: states.append((job.system, state)), tick=lambda _: None
    )
    task = small_task(tmp_path)
    (tmp_path / "empty").mkdir()
    arguments = {"tasks": [str(task)], "models": [str(tmp_path / "empty"), "mini:causal"], "observer": watching}
    with pytest.raises(TrainingError, match="1 of 2 runs are not finished. own/commongen/empty/seed-1: .*config.json"):
        grue.bench("out", jobs=1, **arguments)
    assert states[-2:] == [("causal", "running"), ("causal", "finished")] and ("empty", "failed") in states


@pytest.mark.slow
def test_a_script_needs_no_guard_since_no_process_of_a_run_imports_it(tmp_path):
    task = small_task(tmp_path)
    script = tmp_path / "script.py"
    call = f"grue.bench('out', models=['mini:causal', 'mini:causal-s'], tasks=[{str(task)!r}], jobs=1)"
    script.write_text(f"import grue\nprint('begun')\nprint(len({call}.pairs))\n")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (done.stdout.splitlines().count("begun"), done.stdout.splitlines()[-1]) == (1, "1")
