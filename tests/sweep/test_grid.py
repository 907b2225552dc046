"""Grids: from TOML and flags to jobs, in order, each once; what cannot be is refused before anything runs."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from support.paths import ROOT
from support.sweeps import finish

from grue import files
from grue.cli import sweep as command
from grue.errors import ConfigError, DataError, UnknownName
from grue.evaluation.endpoint import Endpoint
from grue.runs.folder import claim_folder
from grue.runs.plan import stages_of
from grue.runs.request import RunRequest
from grue.sweep.grid import GridEntry, ModelEntry, SweepGrid, parse_seeds, read_grid, write_grid
from grue.sweep.jobs import plan_jobs, refuse_other_runs, short
from grue.sweep.jobs import stages_of as stages_of_job
from grue.sweep.record import Record
from grue.sweep.status import state_of
from grue.task_files import load_task


def ids(grid):
    return [short(job.id) for job in plan_jobs(grid)]


def systems(grid):
    return list(dict.fromkeys(job.system for job in plan_jobs(grid)))


def written(tmp_path, text):
    path = tmp_path / "grid.toml"
    path.write_text(text)
    return read_grid(path)


# --- jobs ------------------------------------------------------------------------------------------------------------


def test_what_others_start_from_comes_first_once_and_is_evaluated_only_if_it_is_wanted():
    grid = SweepGrid(tasks=("imdb",), algorithms=("supervised+ppo", "supervised+nlpo", "zero-shot"), seeds=(1, 2))
    jobs = {short(job.id): job for job in plan_jobs(grid)}
    assert list(jobs) == [
        "imdb/supervised/seed-1",
        "imdb/supervised/seed-2",
        "imdb/supervised+ppo/seed-1",
        "imdb/supervised+nlpo/seed-1",
        "imdb/zero-shot/seed-1",
        "imdb/supervised+ppo/seed-2",
        "imdb/supervised+nlpo/seed-2",
        "imdb/zero-shot/seed-2",
    ]
    assert {name for name, job in jobs.items() if not job.evaluate} == {
        "imdb/supervised/seed-1",
        "imdb/supervised/seed-2",
    }
    assert {name: job.after for name, job in jobs.items() if job.after} == {
        f"imdb/supervised+{algorithm}/seed-{seed}": f"mini/imdb/supervised/seed-{seed}"
        for algorithm in ("ppo", "nlpo")
        for seed in (1, 2)
    }


@pytest.mark.parametrize("algorithms", [("supervised", "supervised+ppo"), ("supervised+ppo", "supervised")])
def test_a_warm_start_that_is_wanted_for_itself_is_evaluated_and_still_there_once(algorithms):
    jobs = plan_jobs(SweepGrid(tasks=("imdb",), algorithms=algorithms))
    assert [(job.system, job.evaluate) for job in jobs] == [("supervised", True), ("supervised+ppo", True)]


def test_a_warm_start_has_the_backbone_of_the_run_that_wants_it():
    other = "mini:causal-s"
    entry = GridEntry(algorithm="supervised+ppo", backbone=other, system="mine")
    first, second = plan_jobs(SweepGrid(tasks=("imdb",), systems=(entry,)))
    assert (first.backbone, second.backbone, second.after) == (other, other, first.id)
    assert first.system == "supervised-causal-s"
    both = plan_jobs(SweepGrid(tasks=("imdb",), systems=(entry, GridEntry(algorithm="supervised+nlpo"))))
    assert [job.system for job in both] == [first.system, "supervised", "mine", "supervised+nlpo"]


@pytest.mark.parametrize(
    ("about", "names"),
    [
        ({"backbone": "mini:causal-s"}, ["supervised-causal-s", "supervised+ppo-causal-s"]),
        ({"backbone": "mini:causal"}, ["supervised", "supervised+ppo-causal"]),  # named in the grid, and the task's own
        ({"vary": {"backbone": ("mini:causal-s",)}}, ["supervised-causal-s", "supervised+ppo_backbone-mini-causal-s"]),
        ({"backbone": "mini:causal-s", "vary": {"gamma": (0.5,)}}, ["supervised-causal-s", "supervised+ppo_gamma-0.5-causal-s"]),
    ],
)  # fmt: skip
def test_another_backbone_is_in_the_names_that_nobody_gave(about, names):
    jobs = plan_jobs(SweepGrid(tasks=("imdb",), systems=(GridEntry(algorithm="supervised+ppo", **about),)))
    assert [job.system for job in jobs] == names
    assert [plan.system for plan in stages_of_job(jobs[1], load_task("imdb"), Path("runs"))] == names


def test_without_evaluation_nothing_trained_is_evaluated():
    jobs = plan_jobs(SweepGrid(tasks=("imdb",), algorithms=("ppo", "supervised+ppo"), evaluate=False))
    assert {job.evaluate for job in jobs} == {False}


def test_all_tasks_of_the_suite_are_meant_where_none_is_named():
    assert len({job.task for job in plan_jobs(SweepGrid(algorithms=("zero-shot",)))}) == 7


def test_what_depends_on_no_seed_runs_once():
    grid = SweepGrid(tasks=("imdb",), algorithms=("lead", "copy", "null", "oracle", "zero-shot"), seeds="3-4")
    assert sorted(ids(grid)) == sorted(
        [*(f"imdb/{name}/seed-3" for name in ("lead", "copy", "null", "oracle", "zero-shot")), "imdb/zero-shot/seed-4"]
    )


def test_variations_are_named_after_what_varies_and_carry_it():
    entry = GridEntry(
        algorithm="nlpo",
        set={"updates": 3},
        vary={"gamma": (0.5, 1.0), "preset": ("paper", None), "reward": ("meteor",), "kl_target": (None,)},
    )
    jobs = plan_jobs(SweepGrid(tasks=("commongen",), systems=(entry,)))
    assert [(job.system, job.preset, job.reward, dict(job.set)) for job in jobs] == [
        (
            f"nlpo_gamma-{gamma}_preset-{preset or 'none'}_reward-meteor_kl_target-none",
            preset,
            "meteor",
            {"updates": 3, "gamma": gamma, "kl_target": None},
        )
        for gamma in (0.5, 1.0)
        for preset in ("paper", None)
    ]


def test_a_system_may_be_named_with_what_varies_in_braces():
    entry = GridEntry(
        algorithm="ppo", system="g{gamma}-{reward}", vary={"gamma": (0.5,), "reward": ("0.5*meteor+0.5*cider",)}
    )
    assert systems(SweepGrid(tasks=("commongen",), systems=(entry,))) == ["g0.5-0.5-meteor+0.5-cider"]


def test_values_of_all_reach_the_algorithms_that_know_them_and_a_systems_own_go_over_them():
    grid = SweepGrid(
        tasks=("imdb",),
        algorithms=("ppo", "supervised", "zero-shot"),
        systems=(GridEntry(algorithm="nlpo", set={"top_p": 0.5, "rollouts": 4}),),
        set={"rollouts": 8, "minibatch_size": 4},
    )
    assert {job.system: dict(job.set) for job in plan_jobs(grid)} == {
        "ppo": {"rollouts": 8, "minibatch_size": 4},
        "supervised": {},
        "zero-shot": {},
        "nlpo": {"rollouts": 4, "minibatch_size": 4, "top_p": 0.5},
    }


def test_a_system_may_want_only_some_of_the_tasks():
    grid = SweepGrid(
        tasks=("imdb", "totto"), algorithms=("ppo",), systems=(GridEntry(algorithm="nlpo", tasks=("totto",)),)
    )
    assert ids(grid) == ["imdb/ppo/seed-1", "totto/ppo/seed-1", "totto/nlpo/seed-1"]


def test_a_jobs_identity_is_of_all_that_is_asked_for():
    def identity(**about):
        return plan_jobs(SweepGrid(tasks=("imdb",), systems=(GridEntry(algorithm="ppo", system="s", **about),)))[
            0
        ].identity

    found = [identity(), identity(set={"gamma": 0.5}), identity(reward="meteor"), identity(backbone="mini:causal-s")]
    assert len(set(found)) == 4
    assert identity(set={"gamma": 0.5, "clip": 0.1}) == identity(set={"clip": 0.1, "gamma": 0.5})


# --- seeds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"), [("1-3", [1, 2, 3]), ("7", [7]), ("1, 2,9-10", [1, 2, 9, 10]), ("3,1-3", [3, 1, 2]), ("0", [0])]
)
def test_seeds_are_read(text, found):
    assert parse_seeds(text) == found


@pytest.mark.parametrize("text", ["", "5-1", "a", "1-", "-1", "1,,2", "1-2-3", "²"])
def test_seeds_that_are_none_are_refused(text):
    with pytest.raises(ConfigError, match=r"write a range such as 1-5, or a list such as 1,2,7\."):
        parse_seeds(text)


# --- models that were made elsewhere ---------------------------------------------------------------------------------

SERVED = Endpoint("http://127.0.0.1:8000/v1", key_env="A_KEY_THAT_IS_NOT_SET")


def test_models_are_only_evaluated_and_named_after_what_they_are_asked_by():
    grid = SweepGrid(
        tasks=("imdb", "totto"),
        algorithms=("ppo",),
        models=(
            ModelEntry(model="org/a"),
            ModelEntry(model="org/a", chat=True),
            ModelEntry(model="org/b", endpoint=SERVED, tasks=("totto",)),
            ModelEntry(model="org/b", endpoint=replace(SERVED, completions=True), tasks=("totto",)),
            ModelEntry(model="org/b", endpoint=SERVED, system="mine", tasks=("totto",)),
        ),
    )
    jobs = plan_jobs(grid)
    assert [short(job.id).removesuffix("/seed-1") for job in jobs if not job.trains] == [
        "imdb/a", "imdb/a+chat", "totto/a", "totto/a+chat", "totto/b+chat", "totto/b+completions", "totto/mine"
    ]  # fmt: skip
    assert {job.algorithm for job in jobs if not job.trains} == {"external"}
    assert next(job.endpoint for job in jobs if job.model == "org/b") == SERVED
    assert len({job.identity for job in jobs}) == len(jobs) == 9


def test_a_folder_of_a_model_is_found_from_wherever_the_grid_is_read_again(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    models = (ModelEntry(model="here"), ModelEntry(model="here", endpoint=SERVED), ModelEntry(model="org/there"))
    assert [one.model for one in SweepGrid(models=models).located().models] == [
        str(tmp_path / "here"), "here", "org/there"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (ModelEntry(model="org/a", system="copy"), "copy: is the name of a baseline"),
        (ModelEntry(model="org/a", system="a b"), "The system name 'a b'"),
        (ModelEntry(model="org/a", tasks=("totto",)), "The system 'org/a' is for the task 'totto', which is not among"),
        (ModelEntry(model="/", endpoint=SERVED), "gives no name for the system"),
        (ModelEntry(model="m", endpoint=replace(SERVED, url="localhost")), "does not begin with http:// or https://"),
    ],
)
def test_models_that_cannot_be_asked_are_refused(model, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        plan_jobs(SweepGrid(tasks=("imdb",), models=(model,)))


def test_a_task_without_a_chat_prompt_is_refused_before_anything_runs(tmp_path):
    text = (ROOT / "tasks/mini/imdb.toml").read_text().replace('suite = "mini"', 'suite = "mine"')
    table = tomllib.loads(text)
    del table["prompt"]["chat"]
    files.write_toml(tmp_path / "imdb.toml", table)
    for asked in ({"chat": True}, {"endpoint": SERVED}):
        with pytest.raises(ConfigError, match=r"\[prompt\.chat\]"):
            plan_jobs(SweepGrid(tasks=(str(tmp_path / "imdb.toml"),), models=(ModelEntry(model="m", **asked),)))


# --- what cannot be --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grid", "error", "said"),
    [
        (SweepGrid(), ConfigError, "A sweep needs a system"),
        (SweepGrid(algorithms=("ppo",), seeds=()), ConfigError, "A sweep needs at least one seed"),
        (SweepGrid(algorithms=("pppo",)), UnknownName, "There is no algorithm 'pppo'. Did you mean 'ppo'?"),
        (SweepGrid(algorithms=("ppo",), tasks=("imbd",)), UnknownName, "has no task 'imbd'. Did you mean 'imdb'?"),
        (SweepGrid(algorithms=("ppo",), suite="mino"), UnknownName, "There is no suite 'mino'. Did you mean 'mini'?"),
        (SweepGrid(algorithms=("ppo",), tasks=("none.toml",)), ConfigError, "none.toml: cannot be read: No such file"),
        (SweepGrid(algorithms=("ppo",), set={"gama": 1}), ConfigError, "set.gama: no algorithm of this sweep has it. Did you mean 'gamma'?"),
        (SweepGrid(algorithms=("ppo",), set={"noise": 1}), ConfigError, "set.noise: no algorithm of this sweep has it."),
        (SweepGrid(algorithms=("zero-shot",), set={"gamma": 1}), ConfigError, "set.gamma: no algorithm of this sweep"),
        (SweepGrid(algorithms=("ppo",), set={"gamma": 7}), ConfigError, "gamma"),
        (SweepGrid(systems=(GridEntry(algorithm="ppo", set={"gama": 1}),)), ConfigError, "unknown key 'gama'. Did you mean 'gamma'?"),
        (SweepGrid(systems=(GridEntry(algorithm="ppo", vary={"gama": (1,)}),)), ConfigError, "unknown key 'gama'. Did you mean 'gamma'?"),
        (SweepGrid(systems=(GridEntry(algorithm="ppo", vary={"gamma": ()}),)), ConfigError, "vary.gamma of ppo: is empty; list the values."),
        (SweepGrid(systems=(GridEntry(algorithm="ppo", preset="paper"),)), ConfigError, "The preset 'paper' is one of nlpo"),
        (SweepGrid(tasks=("imdb",), systems=(GridEntry(algorithm="ppo", backbone="mini:seq2seq"),)), DataError, "it is an encoder-decoder"),
        (SweepGrid(tasks=("imdb",), systems=(GridEntry(algorithm="ppo", backbone="mini:nope"),)), UnknownName, "no small model 'nope'"),
        (SweepGrid(tasks=("imdb",), models=(ModelEntry(model="mini:seq2seq", system="small"),)), DataError, "it is an encoder-decoder"),
        (SweepGrid(systems=(GridEntry(algorithm="nlpo", preset="papre"),)), UnknownName, "Did you mean 'paper'?"),
        (SweepGrid(systems=(GridEntry(algorithm="ppo", system="a b"),)), ConfigError, "The system name 'a b': use at most 60 letters"),
        (SweepGrid(systems=(GridEntry(algorithm="ppo", system="../x"),)), ConfigError, "The system name '../x': use at most 60 letters"),
        (SweepGrid(systems=(GridEntry(algorithm="ppo", system="p{clip}", vary={"gamma": (1.0,)}),)), ConfigError, "The system name 'p{clip}' cannot be filled in; the varied keys are {gamma}."),
        (SweepGrid(systems=(GridEntry(algorithm="ppo", system="p{}", vary={"gamma": (1.0,)}),)), ConfigError, "'p{}' cannot be filled in"),
        (SweepGrid(systems=(GridEntry(algorithm="ppo", system="p{gamma.x}", vary={"gamma": (1.0,)}),)), ConfigError, "'p{gamma.x}' cannot be filled in"),
        (SweepGrid(systems=(GridEntry(algorithm="ppo", system="p{gamma}"),)), ConfigError, "the varied keys are nothing."),
        (SweepGrid(algorithms=("ppo",), systems=(GridEntry(algorithm="ppo", set={"gamma": 0.5}),)), ConfigError, "two different runs would share this folder"),
        (SweepGrid(systems=(GridEntry(algorithm="ppo", system="p", vary={"gamma": (0.5, 1.0)}),)), ConfigError, "two different runs would share this folder"),
        (SweepGrid(algorithms=("supervised", "supervised+ppo"), set={"learning_rate": 1e-4}), ConfigError, "supervised is the warm start of others, with the task's own recipe"),
        (SweepGrid(systems=(GridEntry(algorithm="zero-shot", set={"gamma": 1}),)), ConfigError, "zero-shot is a baseline: it takes no set."),
        (SweepGrid(systems=(GridEntry(algorithm="copy", reward="meteor"),)), ConfigError, "copy is a baseline: it takes no reward."),
        (SweepGrid(systems=(GridEntry(algorithm="copy", system="mine"),)), ConfigError, "copy is a baseline: it takes no other name."),
        (SweepGrid(systems=(GridEntry(algorithm="zero-shot", vary={"gamma": (1, 2)}),)), ConfigError, "zero-shot is a baseline"),
        (SweepGrid(tasks=("imdb", "totto"), algorithms=("lexicon",)), ConfigError, "mini/imdb has no lookup 'lexicon': its data format, imdb, has "),
        (SweepGrid(tasks=("imdb",), systems=(GridEntry(algorithm="ppo", tasks=("totto",)),)), ConfigError, "The system 'ppo' is for the task 'totto', which is not among the sweep's tasks: imdb."),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(grid, error, said):
    with pytest.raises(error) as refused:
        plan_jobs(grid)
    assert said in str(refused.value)


def test_lookups_run_once_but_for_those_of_chance(monkeypatch):
    monkeypatch.setattr("grue.lookups.find.LOOKUPS_OF", {"imdb": {"nearest": None, "best-of-n": None}})
    grid = SweepGrid(tasks=("imdb",), algorithms=("nearest", "best-of-n"), seeds=(1, 2))
    assert ids(grid) == ["imdb/nearest/seed-1", "imdb/best-of-n/seed-1", "imdb/best-of-n/seed-2"]


# --- files -----------------------------------------------------------------------------------------------------------

TOML = """
suite = "mini"
tasks = ["imdb", "commongen"]
algorithms = ["zero-shot", "supervised+ppo"]
seeds = "1-2"

[set]
rollouts = 8
minibatch_size = 4
kl_target = "none"

[[systems]]
algorithm = "nlpo"
system = "nlpo-{top_p}-{preset}"
tasks = ["imdb"]
reward = "sentiment"
set = { updates = 3 }
vary = { top_p = [0.5, 0.9], preset = ["none", "paper"], value_clip = ["none", 0.2] }
"""


def test_a_grid_in_toml_says_what_the_same_grid_in_python_says(tmp_path):
    text = TOML.replace("{preset}", "{preset}-{value_clip}")
    assert written(tmp_path, text) == SweepGrid(
        suite="mini",
        tasks=("imdb", "commongen"),
        algorithms=("zero-shot", "supervised+ppo"),
        seeds="1-2",
        set={"rollouts": 8, "minibatch_size": 4, "kl_target": None},
        systems=(
            GridEntry(
                algorithm="nlpo",
                system="nlpo-{top_p}-{preset}-{value_clip}",
                tasks=("imdb",),
                reward="sentiment",
                set={"updates": 3},
                vary={"top_p": (0.5, 0.9), "preset": (None, "paper"), "value_clip": (None, 0.2)},
            ),
        ),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("algorithm = ['ppo']", "unknown key 'algorithm'. Did you mean 'algorithms'?"),
        ("algorithms = 'ppo'", "algorithms: expected a list, found str 'ppo'."),
        (
            "[[systems]]\nalgorithm = 'ppo'\nvary = { gamma = 0.5 }",
            "systems[0]: vary.gamma: expected a list, found float 0.5.",
        ),
        ("[[systems]]\nsystem = 'ppo'", "systems[0]: the key 'algorithm' is missing."),
        ("seeds = 5", "seeds: "),
        ("tasks = ['a'", "not valid TOML"),
    ],
)
def test_a_file_that_says_what_a_grid_does_not_know_is_refused_with_its_place(tmp_path, text, said):
    with pytest.raises(ConfigError) as refused:
        written(tmp_path, text)
    assert str(tmp_path / "grid.toml") in str(refused.value)
    assert said in str(refused.value)


def test_the_grid_that_a_sweep_keeps_plans_the_same_jobs_when_it_is_read_again(tmp_path):
    grid = written(tmp_path, TOML.replace("{preset}", "{preset}-{value_clip}"))
    jobs = plan_jobs(grid)
    record = Record(tmp_path)
    record.write_grid(grid)
    assert read_grid(record.grid_path) == grid
    again = record.jobs()
    assert again == jobs
    assert [job.identity for job in again] == [job.identity for job in jobs]
    # 2 warm starts and 2 runs from them a task, 2 baselines, and 8 variations on imdb with 2 seeds
    assert len(jobs) == 2 * (2 + 2 + 2) + 16
    assert {job.set["kl_target"] for job in jobs if job.algorithm == "supervised+ppo"} == {None}


def test_every_field_survives_the_way_to_the_disk_and_back(tmp_path):
    entry = GridEntry(
        algorithm="nlpo",
        system="s{clip}",
        tasks=("imdb",),
        preset="paper",
        reward="meteor",
        backbone="mini:causal",
        set={"a": None, "b": [1, 2], "c": "text", "d": True, "e": 1e-06},
        vary={"clip": (None, 0.1)},
    )
    models = (ModelEntry(model="m", system="s", tasks=("imdb",), endpoint=replace(SERVED, prices=(0.5, 1.0))),)
    grid = SweepGrid(
        suite="grue", tasks=("imdb",), algorithms=("ppo",), seeds=(3, 1), set={"x": None}, systems=(entry,), evaluate=False, models=models
    )  # fmt: skip
    write_grid(tmp_path / "sweep.toml", grid)
    assert read_grid(tmp_path / "sweep.toml") == grid
    assert tomllib.loads((tmp_path / "sweep.toml").read_text())["systems"][0]["set"]["a"] == "none"


# --- one's own tasks -------------------------------------------------------------------------------------------------


@pytest.fixture
def own_suite(tmp_path):
    """A folder of task files: a copy of a mini task under the name of another suite."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in ("imdb", "totto"):
        text = (ROOT / f"tasks/mini/{name}.toml").read_text()
        assert 'suite = "mini"' in text
        (folder / f"{name}.toml").write_text(text.replace('suite = "mini"', 'suite = "mine"'))
    return folder


def test_a_folder_of_task_files_is_a_suite_from_wherever_it_is_read_again(own_suite, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    grid = SweepGrid(suite="mine", algorithms=("ppo",)).located()
    record = Record(tmp_path / "runs")
    record.write_grid(grid)
    monkeypatch.chdir("/")
    jobs = record.jobs()
    assert [job.id for job in jobs] == ["mine/imdb/ppo/seed-1", "mine/totto/ppo/seed-1"]
    assert [load_task(job.source, job.suite).suite for job in jobs] == ["mine", "mine"]


def test_a_task_file_is_found_from_wherever_the_grid_is_read_again(own_suite, tmp_path, monkeypatch):
    monkeypatch.chdir(own_suite)
    grid = SweepGrid(tasks=("imdb.toml",), systems=(GridEntry(algorithm="ppo", tasks=("imdb.toml",)),)).located()
    monkeypatch.chdir("/")
    (job,) = plan_jobs(grid)
    assert (job.id, job.source) == ("mine/imdb/ppo/seed-1", str(own_suite / "imdb.toml"))


def test_a_system_of_ones_own_algorithm_has_the_name_of_its_module(tmp_path, monkeypatch):
    (tmp_path / "plain.py").write_text("from grue.algorithms.ppo import ALGORITHM as PLAIN\n")
    monkeypatch.syspath_prepend(tmp_path)
    grid = SweepGrid(
        tasks=("imdb",),
        algorithms=("supervised+plain:PLAIN",),
        systems=(GridEntry(algorithm="plain:PLAIN", vary={"updates": (1, 2)}),),
    )
    assert [(job.algorithm, job.system) for job in plan_jobs(grid)] == [
        ("supervised", "supervised"),
        ("supervised+plain:PLAIN", "supervised+plain"),
        ("plain:PLAIN", "plain_updates-1"),
        ("plain:PLAIN", "plain_updates-2"),
    ]


EDITS = {
    "a metric": ("reference = 2.600", "reference = 2.700"),
    "the decoding": ("[decoding]\nmax_new_tokens = 24", "[decoding]\nmax_new_tokens = 25"),
    "the version": ("version = 3", "version = 4"),
    "a recipe": ("kl_coefficient = 0.1", "kl_coefficient = 0.2"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_run_is_not_finished_once_its_task_file_says_something_else(own_suite, tmp_path, edit):
    path, record = own_suite / "imdb.toml", Record(tmp_path / "runs")
    record.write_grid(SweepGrid(tasks=(str(path), str(own_suite / "totto.toml")), algorithms=("ppo", "copy")))
    for job in record.jobs():
        finish(record, job)
        if job.trains:
            claim_folder(stages_of(RunRequest(task=load_task(job.source), algorithm="ppo", runs=record.runs))[-1])
    text = path.read_text()
    path.write_text(re.sub(r'(?m)^title = ".*"$', 'title = "Another title"', text))
    assert all(record.finished(job) for job in record.jobs())
    before, after = EDITS[edit]
    assert before in text
    path.write_text(text.replace(before, after))
    jobs = record.jobs()
    assert {job.task for job in jobs if record.finished(job)} == {"totto"}
    assert {state_of(record, job) for job in jobs if job.task == "imdb"} == {"waiting"}
    with pytest.raises(
        ConfigError,
        match=r"imdb/ppo/seed-1/config\.toml: this folder holds a run (with |for another version of the task)",
    ) as refused:
        refuse_other_runs([job for job in jobs if not record.finished(job)], record.runs)
    assert (
        "config.kl_coefficient = 0.1, not 0.2" if edit == "a recipe" else "for another version of the task ("
    ) in str(refused.value)
    path.write_text(text)
    assert all(record.finished(job) for job in record.jobs())


# --- flags -----------------------------------------------------------------------------------------------------------


def flags(config=None, tasks=None, algos=None, suite=None, seeds=None, settings=(), vary=(), no_evaluate=False):
    return command._grid(config, tasks, algos, suite, seeds, settings, vary, no_evaluate)


def test_flags_say_what_a_file_can_say():
    found = flags(tasks="imdb, totto", algos="zero-shot,ppo", seeds="1-5", settings=("gamma=0.5",), no_evaluate=True)
    assert found == SweepGrid(
        tasks=("imdb", "totto"), algorithms=("zero-shot", "ppo"), seeds="1-5", set={"gamma": 0.5}, evaluate=False
    )


def test_flags_go_over_the_file(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(TOML)
    found = flags(path, tasks="imdb", seeds="9", settings=("rollouts=16", "clip=none"))
    assert (found.tasks, found.seeds, found.algorithms) == (("imdb",), "9", ("zero-shot", "supervised+ppo"))
    assert found.set == {"rollouts": 16, "minibatch_size": 4, "kl_target": None, "clip": None}
    assert len(found.systems) == 1


def test_a_files_systems_are_left_to_those_tasks_of_theirs_that_a_flag_names(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(
        """
        tasks = ["imdb", "totto"]
        systems = [
            { algorithm = "nlpo", tasks = ["totto"] },
            { algorithm = "ppo", tasks = ["imdb", "totto"] },
            { algorithm = "grpo" },
        ]
        models = [{ model = "org/a", tasks = ["imdb"] }]
        """.replace("\n            ", " ")
    )
    assert set(ids(flags(path, tasks="imdb"))) == {"imdb/ppo/seed-1", "imdb/grpo/seed-1", "imdb/a/seed-1"}
    assert set(ids(flags(path, tasks="totto"))) == {"totto/nlpo/seed-1", "totto/ppo/seed-1", "totto/grpo/seed-1"}
    path.write_text('tasks = ["imdb"]\nsystems = [{ algorithm = "ppo", tasks = ["imbd"] }]')
    with pytest.raises(ConfigError, match="'ppo' is for the task 'imbd', which is not among the sweep's tasks: imdb"):
        plan_jobs(flags(path, tasks="imdb"))


def test_vary_varies_every_trained_system_and_leaves_baselines_alone():
    found = flags(tasks="imdb", algos="zero-shot,ppo,nlpo", vary=("gamma=0.5,1.0", "reward=meteor"))
    assert systems(found) == [
        "zero-shot",
        *(f"{name}_gamma-{gamma}_reward-meteor" for name in ("ppo", "nlpo") for gamma in (0.5, 1.0)),
    ]


@pytest.mark.parametrize("text", ['[[systems]]\nalgorithm = "ppo"\n', 'algorithms = ["zero-shot"]\n'])
def test_a_vary_that_would_vary_nothing_is_refused(text, tmp_path):
    (tmp_path / "grid.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"none of them is trained; a \[\[systems\]\] table has a `vary` of its own"):
        flags(tmp_path / "grid.toml", vary=("gamma=0.5,1.0",))


@pytest.mark.parametrize("vary", ["gamma", "gamma=", "gamma=,"])
def test_a_vary_without_values_is_refused(vary):
    with pytest.raises(ConfigError, match=r"write KEY=V1,V2, such as --vary gamma=0\.95,1\.0\."):
        flags(algos="ppo", vary=(vary,))


# --- folders that are taken ------------------------------------------------------------------------------------------


def test_folders_with_runs_of_another_configuration_are_refused_before_anything_starts(tmp_path):
    task = load_task("imdb")
    for seed in (1, 2):
        request = RunRequest(task=task, seed=seed, runs=tmp_path, settings={"gamma": 0.5})
        claim_folder(stages_of(request)[-1])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    refuse_other_runs(
        plan_jobs(SweepGrid(tasks=("imdb",), algorithms=("ppo",), seeds="1-3", set={"gamma": 0.5})), tmp_path
    )
    with pytest.raises(ConfigError) as refused:
        refuse_other_runs(plan_jobs(SweepGrid(tasks=("imdb",), algorithms=("ppo", "copy"), seeds="1-3")), tmp_path)
    said = str(refused.value)
    assert f"{tmp_path}/mini/imdb/ppo/seed-1/config.toml: this folder holds a run with config.gamma = 0.5, not" in said
    assert said.endswith("And 1 more folders of this sweep hold other runs. Nothing was started.")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("text", ["seed = ", "seed = 1\nseed = 2\n"])
def test_a_configuration_that_was_cut_is_left_to_its_worker_and_stops_no_other(tmp_path, text):
    path = claim_folder_of(tmp_path, "ppo") / "seed-1" / "config.toml"
    path.write_text(text)
    refuse_other_runs(plan_jobs(SweepGrid(tasks=("imdb",), algorithms=("ppo",), seeds="1-2")), tmp_path)
    with pytest.raises(ConfigError, match=r"config\.toml: "):
        claim_folder(stages_of(RunRequest(task=load_task("imdb"), runs=tmp_path))[-1])


def claim_folder_of(runs, algorithm):
    """Claim a run's folder; return its system's."""
    plan = stages_of(RunRequest(task=load_task("imdb"), algorithm=algorithm, runs=runs))[-1]
    claim_folder(plan)
    return plan.folder.parent


def test_what_starts_from_a_run_that_is_not_there_yet_is_left_to_its_worker(tmp_path):
    folder = claim_folder_of(tmp_path, "ppo").rename(tmp_path / "mini/imdb/supervised+ppo")
    assert (folder / "seed-1/config.toml").exists()
    refuse_other_runs(plan_jobs(SweepGrid(tasks=("imdb",), algorithms=("supervised+ppo",))), tmp_path)
