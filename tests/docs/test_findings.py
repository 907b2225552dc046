"""The paper's questions: the grids that ask them, and the tables that answer them, on results made by hand."""

import importlib
import json
import math
import sys
from dataclasses import replace

import pytest
from scipy import stats
from support import factories
from support.paths import ROOT

from grue import files
from grue.errors import DataError
from grue.records import Score
from grue.runs.recipes import make_config
from grue.sweep.grid import read_grid
from grue.sweep.jobs import plan_jobs
from grue.task_files import load_task

SCRIPT = ROOT / "experiments" / "findings.py"
GRIDS = sorted(SCRIPT.with_suffix("").glob("*.toml"))


@pytest.fixture(scope="module")
def findings():
    sys.path.insert(0, str(SCRIPT.parent))
    yield importlib.import_module("findings")
    sys.path.remove(str(SCRIPT.parent))


def figures_of(findings, task, **systems):
    """System → figure → values by seed; `__` stands for +."""
    measured = sys.modules["measured"]
    runs = [
        measured.Run(
            task=task,
            system=system.replace("__", "+"),
            seed=seed,
            figures={name: values[seed - 1] for name, values in figures.items()},
        )
        for system, figures in systems.items()
        for seed in range(1, 1 + len(next(iter(figures.values()))))
    ]
    return measured.Figures(tasks={}, runs=tuple(runs))


# --- the grids -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", GRIDS, ids=lambda path: path.stem)
def test_a_grid_can_be_planned(path):
    jobs = plan_jobs(read_grid(path))
    assert {job.seed for job in jobs} == {1, 2, 3, 4, 5}
    trained = [job for job in jobs if job.trains]
    assert len(trained) >= 10
    assert path.read_text().startswith("# ")


def test_systems_of_one_name_are_one_run():
    """Runs of several grids lie in one folder; what two of them want under one name is trained once."""
    meant = {}
    for path in GRIDS:
        for job in plan_jobs(read_grid(path)):
            run = replace(job, evaluate=True)
            assert meant.setdefault(job.id, run) == run, path
    assert meant


def test_every_grid_has_its_table(findings):
    tables = findings.ABLATIONS.values()
    assert {table.grid for table in tables} | {"board", "algorithms"} == {path.stem for path in GRIDS}
    for table in tables:
        systems = {job.system for job in findings.jobs_of(table.grid, table.task)}
        assert {*table.against, *table.against.values()} <= systems
    board = {(job.task, job.system) for job in plan_jobs(read_grid(SCRIPT.with_suffix("") / "board.toml"))}
    assert board == {(task, system) for task in findings.TASKS for system in findings.SYSTEMS}
    everything = {(job.task, job.system) for job in findings.wanted()}
    assert {(task, name) for task, weights in findings.HACKED.items() for name in weights} <= everything


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_a_spread_is_half_the_t_interval(findings):
    values = [0.5, 0.7, 0.6, 0.9, 0.8]
    low, high = stats.t.interval(0.95, 4, loc=0.7, scale=stats.sem(values))
    assert findings.spread(values, ".6f") == f"0.700000 ± {(high - low) / 2:.6f}"
    assert findings.spread([0.25], ".2f") == "0.25"
    assert findings.spread([], ".2f") == "–"


def test_a_difference_has_welchs_interval(findings):
    a, b = [3.0, 5.0, 4.0, 9.0, 2.0], [1.0, 1.5, 0.5, 1.2]
    expected = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    value, interval = findings.contrast({"a": 1.0, "b": -1.0}, {"a": a, "b": b})
    assert value == pytest.approx(sum(a) / 5 - sum(b) / 4)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def test_a_contrast_of_three_adds_up_their_variances(findings):
    values = {"a": [3.0, 5.0, 4.0], "b": [1.0, 2.0, 6.0], "c": [0.0, 1.0, 2.0, 3.0]}
    weights = {"a": 0.5, "b": 0.5, "c": -1.0}
    parts = {name: weights[name] ** 2 * stats.tvar(values[name]) / len(values[name]) for name in values}
    degrees = sum(parts.values()) ** 2 / sum(parts[name] ** 2 / (len(values[name]) - 1) for name in values)
    half = stats.t.ppf(0.975, degrees) * math.sqrt(sum(parts.values()))
    value, interval = findings.contrast(weights, values)
    assert value == pytest.approx(0.5 * 4 + 0.5 * 3 - 1.5)
    assert (interval.low, interval.high) == pytest.approx((value - half, value + half))


def test_a_single_seed_decides_nothing(findings):
    assert findings.contrast({"a": 1.0, "b": -1.0}, {"a": [3.0, 4.0], "b": [1.0]}) is None
    assert findings.contrast({"a": 1.0, "b": -1.0}, {"a": [3.0, 4.0], "b": []}) is None
    assert findings.verdict(None) == "not run"
    assert findings.difference(None, ".1f") == "–"


@pytest.mark.parametrize(
    ("a", "text"),
    [
        ([12.0, 12.2, 11.8], "yes, **+2.0 ± 0.5**"),
        ([8.0, 8.2, 7.8], "no, **-2.0 ± 0.5**"),
        ([10.1, 10.3, 9.9], "undecided, +0.1 ± 0.5"),
    ],
)
def test_the_interval_decides(findings, a, text):
    b = [10.0, 10.2, 9.8]
    # Both spread by 0.2 over three seeds: four degrees of freedom, 2.776 · √(2 · 0.04 / 3) = 0.453.
    assert findings.verdict(findings.contrast({"a": 1.0, "b": -1.0}, {"a": a, "b": b})) == text


# --- tables ----------------------------------------------------------------------------------------------------------


def test_a_table_by_hand(findings):
    kl = {"kl": [2.0, 2.0, 2.3]}
    figures = figures_of(
        findings,
        "imdb",
        ppo={"sentiment": [0.8, 0.8, 0.8], "perplexity": [4.0, 4.0, 4.0], **kl},
        **{
            "ppo_dropout-0.1": {"sentiment": [0.5, 0.6, 0.7], "perplexity": [5.0, 5.0, 5.0], "kl": [0.1, 0.1, 0.1]},
            "ppo_no-stop": {"sentiment": [0.9], "perplexity": [4.5], "kl": [3.0]},
        },
    )
    # sd 0.1 over three seeds: 4.303 · 0.1 / √3 = 0.248; the other has no spread, so that the difference's is the same.
    assert findings.Table("dropout", "imdb", findings.IMDB, {"ppo_no-stop": "ppo"}).render(figures).splitlines() == [
        "| system | what is set | seeds | sentiment ↑ | difference | perplexity ↓ | KL |",
        "|---|---|---|---|---|---|---|",
        "| `ppo` | recipe: dropout = 0.0, stop_kl = 0.1 | 3 | 0.800 ± 0.000 | base | 4.00 ± 0.00 | 2.10 ± 0.43 |",
        "| `ppo_dropout-0.1` | dropout = 0.1 | 3 | 0.600 ± 0.248 | -0.200 ± 0.248 | 5.00 ± 0.00 | 0.10 ± 0.00 |",
        "| `ppo_no-stop` | stop_kl = none | 1 | 0.900 | – | 4.50 | 3.00 |",
        "| `ppo_no-stop_dropout-0.1` | stop_kl = none, dropout = 0.1 | 0 | – | – | – | – |",
    ]


def test_what_a_recipe_has_is_said_where_its_variants_differ(findings):
    def said(grid, task):
        jobs = findings.jobs_of(grid, task)
        return {job.system: findings.settings(job, jobs) for job in jobs}

    sampling = said("sampling", "commongen")
    assert sampling["supervised+ppo"] == "recipe: rollout_temperature = 1.0, rollout_top_k = 0"
    assert sampling["supervised+ppo_rollout_top_k-10"] == "rollout_top_k = 10"
    assert sampling["supervised"] == "recipe"
    assert said("reward", "commongen")["supervised+ppo"] == "recipe: reward = meteor"
    assert said("reward", "commongen")["supervised+ppo_reward-cider"] == "reward = cider"
    assert said("data_budget", "imdb")["nlpo"] == "recipe: train_share = 1.0"
    assert said("kl", "imdb")["zero-shot"] == ""


def near(value):
    return {
        "preference": [value - 0.1, value, value + 0.1],
        "naturalness": [50 - value - 0.1, 50 - value, 50.1 - value],
    }


def test_the_questions_by_hand(findings):
    figures = figures_of(
        findings, "imdb",
        supervised=near(10), ppo=near(12), nlpo=near(14), supervised__ppo=near(10), supervised__nlpo=near(10),
        **{"ppo_no-kl": near(20), "nlpo_no-kl": near(20)},
    )  # fmt: skip
    row = findings.questions(figures).splitlines()[2]
    # sd 0.1, three seeds. The two learners' mean less supervised: variance 1.5 · 0.01 / 3, 4 degrees of freedom
    # ((1.5)² / (0.25²/2 + 0.25²/2 + 1/2) = 4), 2.776 · 0.0707 = 0.2; four systems by half each: variance 0.01 / 3,
    # 8 degrees, 2.306 · 0.0577 = 0.13; two: variance 2 · 0.01 / 3, 4 degrees, 2.776 · 0.0816 = 0.23.
    assert row == (
        "| imdb | yes, **+7.0 ± 0.1** and **-7.0 ± 0.1**; paper ✓ | no, **-3.0 ± 0.2**; paper ✗ "
        "| yes, **+3.0 ± 0.2**; paper ✓ | undecided, +0.0 ± 0.2; paper ✓ | undecided, +0.0 ± 0.2; paper ✓ |"
    )
    assert (
        findings.questions(figures).splitlines()[8].startswith("| dailydialog | not run; paper ✗ | not run; paper ✗ |")
    )


def test_what_an_algorithm_adds_by_hand(findings):
    def preferences(*values):
        return {"preference": list(values)}

    runs = []
    for place, task in enumerate(findings.TASKS):
        systems = {"supervised": preferences(9, 10, 11), "supervised__grpo": preferences(12 + place, 12 + place)}
        runs += figures_of(findings, task, **systems).runs
    lines = findings.beyond_supervised(sys.modules["measured"].Figures(tasks={}, runs=tuple(runs))).splitlines()
    # Supervised: sd 1 over three seeds, 4.303 / √3 = 2.48 on a task. Of seven, variance (1/3) / 7 and 14 degrees:
    # 2.145 · 0.2182 = 0.47. GRPO has no spread of its own, so that its differences have supervised's intervals.
    assert lines[2] == "| imdb | 10.0 ± 2.5 | – | – | – | – | – | +2.0 ± 2.5 |"
    assert lines[8] == "| dailydialog | 10.0 ± 2.5 | – | – | – | – | – | **+8.0 ± 2.5** |"
    assert lines[9] == "| **mean** | 10.0 ± 0.5 | – | – | – | – | – | **+5.0 ± 0.5** |"


@pytest.mark.parametrize(
    ("preference", "naturalness", "word"),
    [(20, -20, "yes"), (20, 0, "undecided"), (0, -20, "undecided"), (-20, -20, "no"), (20, 20, "no")],
)
def test_hacked_is_up_and_down(findings, preference, naturalness, word):
    def figures(better, worse):
        return {"preference": [49.9 + better, 50.1 + better], "naturalness": [49.9 + worse, 50.1 + worse]}

    plain, free = figures(0, 0), figures(preference, naturalness)
    made = figures_of(findings, "imdb", ppo=plain, nlpo=plain, **{"ppo_no-kl": free, "nlpo_no-kl": free})
    assert findings.hacked(made, "imdb").startswith(f"{word}, ")
    assert findings.hacked(made, "commongen") == "not run"


# --- runs, figures, page ---------------------------------------------------------------------------------------------


def write_run(folder, job, value=0.5):
    """What an evaluated run leaves, made by hand."""
    task = load_task(job.source, "mini")
    scores = tuple(Score(spec.name, spec.axis, value, 50.0, 4, "higher", "") for spec in task.metrics)
    scores += tuple(Score(name, "diversity", value, None, 4, "higher", "") for name in ("distinct1", "distinct2"))
    result = factories.a_result(task, job.system, job.seed, 100 * value, 40.0, scores=scores)
    files.write_json(folder / "result.json", result)
    if not job.trains:
        return
    config = make_config(task, job.algorithm, job.set)
    files.write_toml(folder / "config.toml", {"reward": job.reward or task.reward, "config": config})
    lines = [{"update": 0, "validation/preference": 1.0}]
    if job.algorithm == "supervised":
        lines += [{"update": 1, "seconds": 1.0, "loss/total": 2.0}]
    else:
        names = ("objective/reward", "objective/kl_sequence", "policy/steps", "policy/clip_fraction", "mask/size")
        whole = {"objective/kl_vocabulary": 0.25, "objective/length": 8.0}  # nats a token, tokens
        lines += [{"update": n, "seconds": 1.0, **whole, **dict.fromkeys(names, float(n))} for n in range(1, 11)]
    files.append_jsonl(folder / "train.jsonl", [*lines, {"finished": True}])


def job_of(findings, system, task="imdb"):
    return next(job for job in findings.wanted() if (job.task, job.system) == (task, system))


def test_a_run_is_read(findings, tmp_path):
    write_run(tmp_path / "ppo", job_of(findings, "ppo"))
    write_run(tmp_path / "sup", job_of(findings, "supervised"))
    write_run(tmp_path / "zero", job_of(findings, "zero-shot"))
    scored = {"sentiment": 0.5, "perplexity": 0.5, "distinct2": 0.5, "preference": 50.0, "naturalness": 40.0}
    run = findings.read_run(tmp_path / "ppo", job_of(findings, "ppo"))
    # Updates 1 to 10: the mean of the last eight is 6.5, of all 5.5.
    assert run.figures == {**scored, "kl": 6.5, "kl_vocabulary": 2.0, "steps": 5.5, "clipped": 5.5, "mask_size": 5.5}
    assert (run.task, run.system, run.seed) == ("imdb", "ppo", 1)
    assert findings.read_run(tmp_path / "sup", job_of(findings, "supervised")).figures == scored
    assert findings.read_run(tmp_path / "zero", job_of(findings, "zero-shot")).figures == scored


@pytest.mark.parametrize("wrong", [{"task_hash": "0"}, {"limited": True}, {"status": "failed"}])
def test_a_run_of_something_else_is_refused(findings, wrong, tmp_path):
    job = job_of(findings, "ppo")
    write_run(tmp_path, job)
    content = json.loads((tmp_path / "result.json").read_text()) | wrong
    (tmp_path / "result.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"its result is of another version of imdb, or incomplete; run it again\."):
        findings.read_run(tmp_path, job)


@pytest.mark.parametrize(
    ("key", "line", "message"),
    [
        ("dropout", "dropout = 0.3", "dropout = 0.3, where the grid has None; remove the folder and run it again"),
        ("updates", "updates = 3", r"updates = 3, where the grid has \d+; "),
        ("reward", None, "reward = 'rouge1', where the grid has 'sentiment'; "),
        ("gamma", "", "gamma = None, where the grid has 0.99; "),
    ],
)
def test_a_run_with_other_settings_is_refused(findings, key, line, message, tmp_path):
    job = job_of(findings, "ppo")
    write_run(tmp_path, job)
    config = (tmp_path / "config.toml").read_text()
    if key == "reward":
        config = config.replace('reward = "sentiment"', 'reward = "rouge1"')
    else:
        kept = [old for old in config.splitlines() if not old.startswith(f"{key} = ")]
        config = "\n".join([*kept, line])  # the table of the configuration is the last
    (tmp_path / "config.toml").write_text(config)
    with pytest.raises(DataError, match=f"config.toml: {message}"):
        findings.read_run(tmp_path, job)


@pytest.fixture(scope="module")
def runs(findings, tmp_path_factory):
    """All runs of all grids."""
    folder = tmp_path_factory.mktemp("runs")
    for job in findings.wanted():
        write_run(folder / job.id, job, 0.5 + 0.01 * job.seed)
    return folder


@pytest.fixture
def whole(findings, tmp_path, monkeypatch):
    """Return what calls the script."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["findings.py", "--output", str(tmp_path / "results"), *arguments])
        findings.main()

    return call


def exit_of(call, *arguments):
    with pytest.raises(SystemExit) as caught:
        call(*arguments)
    return caught.value.code


@pytest.mark.slow
def test_every_table_has_its_picture(findings, whole, runs, tmp_path):
    whole("--runs", str(runs), "--draw", str(tmp_path / "images"))
    drawn = {path.stem: path.read_bytes()[:4] for path in (tmp_path / "images").iterdir()}
    assert drawn == dict.fromkeys(findings.ABLATIONS, b"\x89PNG")


def test_figures_and_tables_are_written(findings, whole, runs, tmp_path):
    whole("--runs", str(runs))
    page = (tmp_path / "results/findings.md").read_text(encoding="utf-8")
    assert "| `ppo` | recipe: gamma = 0.99 | 5 | 0.530 ± 0.020 | base | 0.53 ± 0.02 | 6.50 ± 0.00 |" in page
    assert "\n\n## questions\n\n| task |" in page
    assert "–" not in page.split("## gamma")[1].split("## mask_p")[0], "nothing is missing where all was run"
    figures = json.loads((tmp_path / "results/findings.json").read_text())
    assert figures["tasks"]["imdb"] == load_task("imdb").hash
    assert len(figures["runs"]) == len(findings.wanted())


@pytest.fixture
def one_missing(runs):
    """All runs but one."""
    result = runs / "mini/imdb/ppo_gamma-0.5/seed-3/result.json"
    content = result.read_bytes()
    result.unlink()
    yield runs
    result.write_bytes(content)


def test_missing_runs_are_told(findings, whole, one_missing, tmp_path, capsys):
    assert exit_of(whole, "--runs", str(one_missing)) == 3
    assert (
        "runs are missing, mini/imdb/ppo_gamma-0.5/seed-3 first; `make findings` runs them." in capsys.readouterr().err
    )
    assert not (tmp_path / "results").exists()
    whole("--runs", str(one_missing), "--partial")
    shown = capsys.readouterr()
    assert "| `ppo_gamma-0.5` | gamma = 0.5 | 4 |" in shown.out
    assert shown.err.startswith("1 of ")
    assert not (tmp_path / "results").exists()
