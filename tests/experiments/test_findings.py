"""The paper's questions: the grids that ask them, and the tables that answer them, on results made by hand."""

import json
import shutil
import sys
from dataclasses import replace
from itertools import combinations

import pytest
from support import factories
from support.late import late
from support.paths import ROOT

from grue import files
from grue.errors import DataError
from grue.evaluation.predictions import write_predictions
from grue.records import Prediction, Score
from grue.rl.settings import recorded
from grue.runs.recipes import make_config
from grue.sweep.grid import read_grid
from grue.sweep.jobs import plan_jobs
from grue.task_files import load_task

findings, measured, stats = late("findings"), late("measured"), late("scipy.stats")

SCRIPT = ROOT / "experiments" / "findings.py"
GRIDS = sorted(SCRIPT.with_suffix("").glob("*.toml"))


def figures_of(task, **systems):
    """System → figure → values by seed; `__` stands for +."""
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


def test_every_grid_can_be_planned_and_one_name_means_one_run():
    """Runs of several grids lie in one folder; what two of them want under one name is trained once."""
    meant = {}
    for path in GRIDS:
        assert path.read_text().startswith("# ")
        jobs = plan_jobs(read_grid(path))
        assert {job.seed for job in jobs} == {1, 2, 3, 4, 5} and sum(job.trains for job in jobs) >= 10
        for job in jobs:
            run = replace(job, evaluate=True)
            assert meant.setdefault(job.id, run) == run, path


def test_every_grid_has_its_table():
    assert findings.TABLES.keys() == {path.stem for path in GRIDS}
    for grid, tables in findings.TABLES.items():
        assert {table.task for table in tables} == {job.task for job in findings.runs_of(grid)}
        for table in tables:
            systems = {job.system for job in findings.jobs_of(grid, table.task)}
            assert {*table.against, *table.against.values()} <= systems
            assert {*table.penalties, *table.penalties.values()} <= systems


def test_a_difference_is_of_pairs_where_both_have_the_seeds():
    a, b = [3.0, 5.0, 4.0, 9.0, 2.0], [1.0, 3.5, 2.5, 7.2, 1.0]
    for other, paired, test in ((b, True, stats.ttest_rel(a, b)), (b[:4], True, None), (b[:4], False, None)):
        test = test or stats.ttest_ind(
            a, other, equal_var=False
        )  # a seed is missing: which ones are pairs is not known
        expected = test.confidence_interval(0.95)
        found = findings.contrast(a, other, paired=paired)
        assert found.value == pytest.approx(sum(a) / 5 - sum(other) / len(other))
        assert (found.interval.low, found.interval.high) == pytest.approx((expected.low, expected.high))
    assert findings.contrast([3.0, 4.0], [1.0]) is findings.contrast([3.0, 4.0], []) is None
    assert findings.difference(None, ".1f") == "–"


@pytest.mark.parametrize(
    ("a", "b", "paired"),
    [
        ("supervised+ppo", "supervised", True),
        ("supervised+ppo_no-kl", "supervised+ppo", True),
        ("supervised_train_share-0.1", "supervised", False),
        ("ppo", "nlpo", False),
        ("supervised+ppo", "ppo", False),
    ],
)
def test_runs_are_pairs_where_one_supervised_model_is_behind_both(a, b, paired):
    assert findings.share_starts(a, b) is paired


def test_a_table_of_many_methods_is_bold_where_holm_leaves_it():
    # Paired differences of five seeds with p = .0006, .04 and .5: the second is bold by itself, not as one of three.
    base = {"preference": [0.0] * 5}
    names = ("supervised__grpo", "supervised__mdpo", "supervised__rft")
    values = ([1.0, 1.2, 0.8, 1.1, 1.5], [1.0, 0.1, 0.3, 1.1, 1.6], [1.0, -0.2, -0.5, 1.1, -0.1])
    made = figures_of(
        "imdb", supervised__ppo=base, **{n: {"preference": v} for n, v in zip(names, values, strict=True)}
    )
    alone = [stats.ttest_1samp(one, 0.0).pvalue for one in values]
    assert 2 * alone[1] > 0.05 > alone[1] and 3 * alone[0] < 0.05
    table = findings.Table("imdb", ("preference",), findings.BESIDE_PPO, corrected=True)
    jobs = [job for job in findings.jobs_of("methods", "imdb") if job.system.replace("+", "__") in names]
    bold = {row.split("`")[1]: "**" in row for row in table.render(jobs, made).splitlines()[2:]}
    assert bold == {"supervised+grpo": True, "supervised+mdpo": False, "supervised+rft": False}
    plain = replace(table, corrected=False).render(jobs, made)
    assert plain.count("**") == 4


def test_all_pairs_of_the_methods_are_tested_and_corrected_together():
    """Of the fifteen pairs of these six, the pages say: CoPG is above REINFORCE, and no other pair differs."""
    kept = json.loads((ROOT / "experiments/findings/methods.json").read_text(encoding="utf-8"))["runs"]
    systems = [f"supervised+{name}" for name in ("ppo", "mdpo", "copg", "dpo", "rloo", "reinforce")]
    scores = {
        system: [
            run["figures"]["preference"]
            for run in sorted(kept, key=lambda run: run["seed"])
            if (run["task"], run["system"]) == ("imdb", system)
        ]
        for system in systems
    }
    p = sorted((stats.ttest_rel(scores[a], scores[b]).pvalue, a, b) for a, b in combinations(systems, 2))
    assert 15 * p[0][0] < 0.05 < 14 * p[1][0]
    assert p[0][1:] == ("supervised+copg", "supervised+reinforce")
    figures = files.load_json(findings.kept("methods"), findings.Figures)
    first, line, other = findings.pairs("methods", figures, "preference", systems).splitlines()
    assert first == "imdb, preference: 1 of 15 pairs of 6 differ"
    assert line == f"  supervised+copg - supervised+reinforce: +1.6 ± 0.3, corrected p = {15 * p[0][0]:.2g}"
    assert other == "commongen, preference: 0 of 15 pairs of 6 differ"


def test_a_table_by_hand():
    kl, natural = {"kl": [2.0, 2.0, 2.3]}, {"naturalness": [80.0, 80.0, 80.0]}
    figures = figures_of(
        "imdb",
        ppo={"sentiment": [0.8, 0.8, 0.8], "perplexity": [4.0, 4.0, 4.0], **natural, **kl},
        **{
            "ppo_dropout-0.1": {"sentiment": [0.5, 0.6, 0.7], "perplexity": [5.0] * 3, **natural, "kl": [0.1] * 3},
            "ppo_no-stop": {"sentiment": [0.9], "perplexity": [4.5], "naturalness": [70.0], "kl": [3.0]},
        },
    )
    # sd 0.1 over three seeds: 4.303 · 0.1 / √3 = 0.248; the other has no spread, so that the difference's is the same.
    table = findings.Table("imdb", findings.IMDB, {"ppo_no-stop": "ppo"})
    assert table.render(findings.jobs_of("dropout", "imdb"), figures).splitlines() == [
        "| system | what is set | seeds | sentiment ↑ | difference | perplexity ↓ | naturalness ↑ | KL |",
        "|---|---|---|---|---|---|---|---|",
        "| `ppo` | recipe: dropout = 0.0, stop_kl = 0.1 | 3 | 0.800 ± 0.000 | base "
        "| 4.00 ± 0.00 | 80.0 ± 0.0 | 2.10 ± 0.43 |",
        "| `ppo_dropout-0.1` | dropout = 0.1 | 3 | 0.600 ± 0.248 | -0.200 ± 0.248 "
        "| 5.00 ± 0.00 | 80.0 ± 0.0 | 0.10 ± 0.00 |",
        "| `ppo_no-stop` | stop_kl = none | 1 | 0.900 | – | 4.50 | 70.0 | 3.00 |",
        "| `ppo_no-stop_dropout-0.1` | stop_kl = none, dropout = 0.1 | 0 | – | – | – | – | – |",
    ]


@pytest.mark.parametrize(
    ("preference", "naturalness", "word"),
    [(20, -20, "Yes"), (20, 0, "Cannot be told"), (0, -20, "Cannot be told"), (-20, -20, "No"), (20, 20, "No")],
)
def test_hacked_is_up_and_down(preference, naturalness, word):
    def figures(better, worse):
        return {"preference": [49.9 + better, 50.1 + better], "naturalness": [49.9 + worse, 50.1 + worse]}

    (table,), jobs = findings.TABLES["kl"], findings.jobs_of("kl", "imdb")
    plain, free = figures(0, 0), figures(preference, naturalness)
    made = figures_of("imdb", ppo=plain, nlpo=plain, **{"ppo_no-kl": free, "nlpo_no-kl": free})
    last = table.render(jobs, made).splitlines()[-1]
    # The mean of two differences of independent runs: four degrees of freedom, 2.776 · √(4 · 0.02 / 2) / 2 = 0.28.
    assert last.startswith(f"Easily hacked? {word}: preference ")
    assert f"{preference:+.1f} ± 0.3" in last and f"{naturalness:+.1f} ± 0.3" in last
    nothing = figures_of("imdb", ppo=plain, nlpo=plain)
    assert table.render(jobs, nothing).endswith("\n\nEasily hacked? Not run.")


def test_systems_that_began_from_the_same_models_are_averaged_seed_by_seed():
    (table,), jobs = findings.TABLES["hacking"], findings.jobs_of("hacking", "commongen")
    held = [[1.0, 3.0, 2.0], [5.0, 4.0, 9.0]]
    free = [10.0, 12.0, 14.0]
    both = [{"preference": values, "naturalness": values} for values in (*held, free)]
    names = ("supervised__ppo", "supervised__nlpo")
    made = figures_of(
        "commongen", **dict(zip(names, both, strict=False)), **{f"{name}_no-kl": both[2] for name in names}
    )
    expected = stats.ttest_rel(free, [3.0, 3.5, 5.5]).confidence_interval(0.95)
    half = (expected.high - expected.low) / 2
    assert f"naturalness **+8.0 ± {half:.1f}** without" in table.render(jobs, made)


def test_runs_from_the_backbone_are_no_pairs_whatever_their_seeds():
    (table,), jobs = findings.TABLES["kl"], findings.jobs_of("kl", "imdb")
    texts = set()
    for ppo, nlpo in (([1.0, 3.0, 2.0], [5.0, 4.0, 9.0]), ([3.0, 2.0, 1.0], [9.0, 5.0, 4.0])):
        both = [{"preference": values, "naturalness": values} for values in (ppo, nlpo, [10.0, 12.0, 14.0])]
        free = {"ppo_no-kl": both[2], "nlpo_no-kl": both[2]}
        texts.add(table.render(jobs, figures_of("imdb", ppo=both[0], nlpo=both[1], **free)).splitlines()[-1])
    # Squared errors of the means: 1/3, 7/3 and twice 4/3, each with two degrees of freedom.
    parts = [1 / 3, 7 / 3, 4 / 3, 4 / 3]
    degrees = sum(parts) ** 2 / sum(part**2 / 2 for part in parts)
    half = stats.t.ppf(0.975, degrees) * sum(parts) ** 0.5 / 2
    (text,) = texts
    assert f"naturalness **+8.0 ± {half:.1f}** without" in text


def write_run(folder, job, value=0.5):
    """What an evaluated run leaves, made by hand."""
    task = load_task(job.source, "mini")
    scores = tuple(Score(spec.name, spec.axis, value, 50.0, 4, "higher", "") for spec in task.metrics)
    scores += tuple(Score(name, "diversity", value, None, 4, "higher", "") for name in ("distinct1", "distinct2"))
    result = factories.a_result(task, job.system, job.seed, 100 * value, 40.0, scores=scores)
    if job.trains and job.algorithm != "supervised":
        result = replace(result, system=dict(result.system) | {"validation": {"kl": 6.5}})
    files.write_json(folder / "result.json", result)
    texts = ("well done , anna bell", "I say well done , anna", "well done , anna well done , anna", "no")
    write_predictions(folder / "predictions.jsonl", [Prediction(str(n), text) for n, text in enumerate(texts)])
    if not job.trains:
        return
    # As a run writes it: settings without a value are left out.
    config = recorded(make_config(task, job.algorithm, job.entry.set, job.entry.preset))
    files.write_toml(folder / "config.toml", {"reward": job.entry.reward or task.reward, "config": config})
    lines = [{"update": 0, "validation/preference": 1.0}]
    if job.algorithm == "supervised":
        lines += [{"update": 1, "seconds": 1.0, "loss/total": 2.0}]
    else:
        names = ("objective/reward", "policy/steps", "policy/clip_fraction", "mask/size")
        lines += [{"update": n, "seconds": 1.0, **dict.fromkeys(names, float(n))} for n in range(1, 11)]
    files.append_jsonl(folder / "train.jsonl", [*lines, {"finished": True}])


def job_of(system, grid="data_budget"):
    return next(job for job in findings.runs_of(grid) if job.system == system)


def test_a_run_is_read(tmp_path):
    write_run(tmp_path / "ppo", job_of("ppo"))
    write_run(tmp_path / "sup", job_of("supervised"))
    write_run(tmp_path / "zero", job_of("zero-shot", "kl"))
    scored = {"sentiment": 0.5, "perplexity": 0.5, "distinct2": 0.5, "preference": 50.0, "naturalness": 40.0}
    run = findings.read_run(tmp_path / "ppo", job_of("ppo"))
    assert run.figures == {**scored, "kl": 6.5, "steps": 5.5, "clipped": 5.5, "mask_size": 5.5}  # of updates 1 to 10
    assert (run.task, run.system, run.seed) == ("imdb", "ppo", 1)
    assert findings.read_run(tmp_path / "sup", job_of("supervised")).figures == scored
    assert findings.read_run(tmp_path / "zero", job_of("zero-shot", "kl")).figures == scored


@pytest.mark.parametrize("wrong", [{"task_hash": "0"}, {"limited": True}, {"status": "failed"}])
def test_a_run_of_something_else_is_refused(wrong, tmp_path):
    job = job_of("ppo")
    write_run(tmp_path, job)
    content = json.loads((tmp_path / "result.json").read_text()) | wrong
    (tmp_path / "result.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"result\.json: is of another version of imdb, or incomplete; run it again\."):
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
def test_a_run_with_other_settings_is_refused(key, line, message, tmp_path):
    job = job_of("ppo")
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
def runs(tmp_path_factory):
    """All runs of all grids."""
    folder = tmp_path_factory.mktemp("runs")
    for job in {job.id: job for grid in findings.TABLES for job in findings.runs_of(grid)}.values():
        write_run(folder / job.id, job, 0.5 + 0.01 * job.seed)
    return folder


@pytest.fixture
def whole(tmp_path, monkeypatch):
    """Return what calls the script, which keeps its figures in a folder of the test's own."""
    monkeypatch.setattr(findings, "kept", lambda grid: tmp_path / f"{grid}.json")

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["findings.py", *arguments])
        findings.main()

    return call


def exit_of(call, *arguments):
    with pytest.raises(SystemExit) as caught:
        call(*arguments)
    return caught.value.code


def test_figures_are_kept_and_tables_printed(whole, runs, tmp_path, capsys):
    whole("--runs", str(runs))
    shown = capsys.readouterr().out
    row = "| `ppo` | recipe: gamma = 0.99 | 5 | 0.530 ± 0.020 | base | 0.53 ± 0.02 | 40.0 ± 0.0 | 6.50 ± 0.00 |"
    assert row in shown
    assert "–" not in shown.split("## gamma")[1].split("## mask_p")[0], "nothing is missing where all was run"
    (nlpo,) = (line for line in shown.split("## kl")[1].split("## ")[0].splitlines() if "| `nlpo` |" in line)
    assert nlpo.endswith("| 0.75 ± 0.00 |"), "three of four texts say: well done, anna"
    figures = json.loads((tmp_path / "gamma.json").read_text())
    assert figures["tasks"] == {"imdb": load_task("imdb").hash}
    assert len(figures["runs"]) == len(findings.runs_of("gamma"))
    whole()
    assert capsys.readouterr().out == shown, "the figures that are kept give the same tables"
    whole("mask_p")
    assert capsys.readouterr().out == "## mask_p" + shown.split("## mask_p")[1].split("## mask_mu")[0]


def test_missing_runs_are_told(whole, runs, tmp_path, capsys):
    one_missing = shutil.copytree(runs / "mini/imdb", tmp_path / "runs/mini/imdb").parents[1]
    (one_missing / "mini/imdb/ppo_gamma-0.5/seed-3/result.json").unlink()
    assert exit_of(whole, "--runs", str(one_missing), "gamma") == 3
    assert "1 of 40 runs of gamma are missing, mini/imdb/ppo_gamma-0.5/seed-3 first; `grue sweep --config " in (
        capsys.readouterr().err
    )
    assert not list(tmp_path.glob("*.json"))
    whole("--runs", str(one_missing), "--partial", "gamma")
    shown = capsys.readouterr()
    assert "| `ppo_gamma-0.5` | gamma = 0.5 | 4 |" in shown.out
    assert shown.err == "gamma: 1 of 40 runs are missing.\n"
    assert not list(tmp_path.glob("*.json"))
    whole("gamma")
    assert capsys.readouterr().err == "gamma: not run yet.\n"


def test_two_systems_of_a_grid_are_contrasted(whole, tmp_path, capsys):
    free, held = [80.0, 84.0, 88.0], [40.0, 50.0, 60.0]
    made = figures_of("imdb", nlpo={"naturalness": free}, ppo={"naturalness": held})
    files.write_text(tmp_path / "kl.json", findings.written(made))
    whole("kl", "--contrast", "nlpo", "ppo", "naturalness")
    expected = stats.ttest_ind(free, held, equal_var=False).confidence_interval(0.95)
    half = (expected.high - expected.low) / 2
    assert capsys.readouterr().out == f"imdb, nlpo - ppo, naturalness: **+34.0 ± {half:.1f}**\n"
    assert exit_of(whole, "kl", "--contrast", "nlpo", "ppo", "nature") == 2
    assert "there is no figure nature; there are sentiment, " in capsys.readouterr().err
    assert exit_of(whole, "gama") == 2
    assert "there is no grid gama; there are kl, hacking, gamma, " in capsys.readouterr().err


# Of the grids that are not here a page shows all tables; of these the first ones, and the command that prints the others.
SHOWN = {"methods": 1} | dict.fromkeys(
    ("mass", "data_budget", "gamma", "dropout", "hacking", "mask_mu", "mask_source", "reward", "sampling"), 0
)


def as_on_the_page(table):
    """Return a table without the columns of what is set, which names say, and of seeds, which are five; other text as it is."""
    rows = [line.split("|") for line in table.splitlines()]
    assert {row[3].strip(" -") for row in rows if len(row) > 4} <= {"seeds", "", "5"}
    return "\n".join("|".join(row if len(row) == 1 else [*row[:2], *row[4:]]) for row in rows)


def test_the_page_shows_the_tables_of_the_figures_that_are_kept():
    for grid in findings.TABLES:
        name = "methods" if grid == "methods" else "ablations"
        page = (ROOT / f"docs/background/{name}.md").read_text(encoding="utf-8")
        if findings.kept(grid).exists():
            figures = files.load_json(findings.kept(grid), measured.Figures)
            assert figures.tasks == {name: load_task(name).hash for name in figures.tasks}
            tables = findings.tables(grid, figures).split("\n\n")
            shown = SHOWN.get(grid, len(tables))
            for table in tables[:shown]:
                assert as_on_the_page(table) in page, f"python experiments/findings.py {grid} prints it"
            assert shown == len(tables) or f"python experiments/findings.py {grid}" in page.replace("\n", " ")
