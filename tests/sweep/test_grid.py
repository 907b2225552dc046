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
from grue.sweep.grid import GridEntry, ModelEntry, SweepGrid, read_grid, write_grid
from grue.sweep.jobs import plan_jobs, refuse_other_runs, short
from grue.sweep.jobs import stages_of as stages_of_job
from grue.sweep.record import Record
from grue.sweep.status import state_of
from grue.task_files import load_task

SERVED = Endpoint("http://127.0.0.1:8000/v1", key_env="A_KEY_THAT_IS_NOT_SET")


def grid(*algorithms, tasks="imdb", **about):
    return SweepGrid(tasks=tuple(tasks.split(",")), algorithms=algorithms, **about)


def entry(algorithm="ppo", tasks="imdb", **about):
    """A grid of one system."""
    return grid(tasks=tasks, systems=(GridEntry(algorithm=algorithm, **about),))


def ids(found):
    return [short(job.id) for job in plan_jobs(found)]


def written(tmp_path, text):
    (tmp_path / "grid.toml").write_text(text)
    return tmp_path / "grid.toml"


def claim(runs, seed=1, **settings):
    """Claim a run's folder; return it."""
    plan = stages_of(RunRequest(task=load_task("imdb"), seed=seed, runs=runs, settings=settings))[-1]
    claim_folder(plan)
    return plan.folder


# --- jobs ------------------------------------------------------------------------------------------------------------


def test_what_others_start_from_comes_first_once_and_is_evaluated_only_if_it_is_wanted():
    jobs = plan_jobs(grid("supervised+ppo", "supervised+nlpo", "zero-shot", seeds=(1, 2)))
    names = ("supervised+ppo", "supervised+nlpo", "zero-shot")
    warm = ["imdb/supervised/seed-1", "imdb/supervised/seed-2"]
    rest = [f"imdb/{name}/seed-{seed}" for seed in (1, 2) for name in names]
    assert [short(job.id) for job in jobs] == [*warm, *rest]
    assert [short(job.id) for job in jobs if not job.evaluate] == warm
    starts = [f"mini/{warm[seed - 1]}" if "+" in name else None for seed in (1, 2) for name in names]
    assert [job.after for job in jobs] == [None, None, *starts]
    assert {job.evaluate for job in plan_jobs(grid("ppo", "supervised+ppo", evaluate=False))} == {False}
    for algorithms in (("supervised", "supervised+ppo"), ("supervised+ppo", "supervised")):
        found = plan_jobs(grid(*algorithms))
        assert [(job.system, job.evaluate) for job in found] == [("supervised", True), ("supervised+ppo", True)]


@pytest.mark.parametrize(
    ("about", "names"),
    [
        ({"backbone": "mini:causal"}, ["supervised", "supervised+ppo-causal"]),  # named in the grid, and the task's own
        ({"vary": {"backbone": ("mini:causal-s",)}}, ["supervised-causal-s", "supervised+ppo_backbone-mini-causal-s"]),
        (
            {"backbone": "mini:causal-s", "vary": {"gamma": (0.5,)}},
            ["supervised-causal-s", "supervised+ppo_gamma-0.5-causal-s"],
        ),
    ],
)
def test_another_backbone_is_in_the_names_that_nobody_gave(about, names):
    jobs = plan_jobs(entry("supervised+ppo", **about))
    assert [job.system for job in jobs] == names
    assert [plan.system for plan in stages_of_job(jobs[1], load_task("imdb"), Path("runs"))] == names


def test_what_depends_on_no_seed_runs_once(monkeypatch):
    names = ("lead", "copy", "null", "oracle", "zero-shot")
    wanted = [*(f"imdb/{name}/seed-3" for name in names), "imdb/zero-shot/seed-4"]
    assert ids(grid(*names, seeds="3-4")) == wanted
    monkeypatch.setattr("grue.lookups.find.LOOKUPS_OF", {"asked_imdb": {"nearest": None, "best-of-n": None}})
    found = ids(grid("nearest", "best-of-n", seeds=(1, 2)))
    assert found == ["imdb/nearest/seed-1", "imdb/best-of-n/seed-1", "imdb/best-of-n/seed-2"]


def test_variations_are_named_after_what_varies_and_carry_it():
    vary = {"gamma": (0.5, 1.0), "preset": ("paper", None), "reward": ("meteor",), "kl_target": (None,)}
    jobs = plan_jobs(entry("nlpo", "commongen", set={"updates": 3}, vary=vary))
    assert [(job.system, job.entry.preset, job.entry.reward, dict(job.entry.set)) for job in jobs] == [
        (
            f"nlpo_gamma-{gamma}_preset-{preset or 'none'}_reward-meteor_kl_target-none",
            preset,
            "meteor",
            {"updates": 3, "gamma": gamma, "kl_target": None},
        )
        for gamma in (0.5, 1.0)
        for preset in ("paper", None)
    ]
    vary = {"gamma": (0.5,), "reward": ("0.5*meteor+0.5*cider",)}
    (job,) = plan_jobs(entry(tasks="commongen", system="g{gamma}-{reward}", vary=vary))
    assert job.system == "g0.5-0.5-meteor+0.5-cider"


def test_values_of_all_reach_the_algorithms_that_know_them_and_a_systems_own_go_over_them():
    nlpo = GridEntry(algorithm="nlpo", set={"top_p": 0.5, "rollouts": 4})
    shared = {"rollouts": 8, "minibatch_size": 4}
    jobs = plan_jobs(grid("ppo", "supervised", "zero-shot", systems=(nlpo,), set=shared))
    assert {job.system: dict(job.entry.set) for job in jobs} == {
        "ppo": {"rollouts": 8, "minibatch_size": 4},
        "supervised": {},
        "zero-shot": {},
        "nlpo": {"rollouts": 4, "minibatch_size": 4, "top_p": 0.5},
    }


def test_a_system_may_want_only_some_of_the_tasks_and_without_any_all_of_the_suite_are_meant():
    found = ids(grid("ppo", tasks="imdb,totto", systems=(GridEntry(algorithm="nlpo", tasks=("totto",)),)))
    assert found == ["imdb/ppo/seed-1", "totto/ppo/seed-1", "totto/nlpo/seed-1"]
    assert len({job.task for job in plan_jobs(SweepGrid(algorithms=("zero-shot",)))}) == 7


# --- models that were made elsewhere ---------------------------------------------------------------------------------


def test_models_are_only_evaluated_and_named_after_what_they_are_asked_by():
    served = ModelEntry(model="org/b", endpoint=SERVED, tasks=("totto",))
    models = (
        *(ModelEntry(model="org/a"), ModelEntry(model="org/a", chat=True), served),
        *(replace(served, endpoint=replace(SERVED, completions=True)), replace(served, system="mine")),
    )
    jobs = plan_jobs(grid("ppo", tasks="imdb,totto", models=models))
    asked = [job for job in jobs if not job.trains]
    names = ["imdb/a", "imdb/a+chat", "totto/a", "totto/a+chat", "totto/b+chat", "totto/b+completions", "totto/mine"]
    assert [short(job.id).removesuffix("/seed-1") for job in asked] == names
    assert {job.algorithm for job in asked} == {"external"}
    assert next(job.entry.endpoint for job in asked if job.entry.model == "org/b") == SERVED
    assert len({job.identity for job in jobs}) == len(jobs) == 9


def test_a_folder_of_a_model_is_found_from_wherever_the_grid_is_read_again(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    models = (ModelEntry(model="here"), ModelEntry(model="here", endpoint=SERVED), ModelEntry(model="org/there"))
    found = [one.model for one in SweepGrid(models=models).located().models]
    assert found == [str(tmp_path / "here"), "here", "org/there"]


# --- what cannot be --------------------------------------------------------------------------------------------------


def model(**about):
    return grid(models=(ModelEntry(**{"model": "org/a", **about}),))


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (ConfigError, SweepGrid()),
        (ConfigError, grid("ppo", seeds=())),
        (UnknownName, grid("pppo")),
        (UnknownName, grid("ppo", tasks="imbd")),
        (UnknownName, SweepGrid(algorithms=("ppo",), suite="mino")),
        (ConfigError, grid("ppo", tasks="none.toml")),
        (ConfigError, grid("ppo", set={"noise": 1})),
        (ConfigError, grid("zero-shot", set={"gamma": 1})),
        (ConfigError, grid("ppo", set={"gamma": 7})),
        (ConfigError, entry(set={"gama": 1})),
        (ConfigError, entry(vary={"gamma": ()})),
        (ConfigError, entry(preset="paper")),
        (UnknownName, entry("nlpo", preset="papre")),
        (DataError, entry(backbone="./nope")),
        (ConfigError, entry(system="a b")),
        (ConfigError, entry(system="p{clip}", vary={"gamma": (1.0,)})),
        (ConfigError, entry(system="p{gamma.x}", vary={"gamma": (1.0,)})),
        (ConfigError, grid("ppo", systems=(GridEntry(algorithm="ppo", set={"gamma": 0.5}),))),
        (ConfigError, grid("supervised", "supervised+ppo", set={"learning_rate": 1e-4})),
        (ConfigError, entry("copy", reward="meteor")),
        (ConfigError, entry("copy", system="mine")),
        (ConfigError, entry("zero-shot", vary={"gamma": (1, 2)})),
        (ConfigError, grid("lexicon", tasks="imdb,totto")),
        (ConfigError, grid(systems=(GridEntry(algorithm="ppo", tasks=("totto",)),))),
        (DataError, model(model="./nope", system="small")),
        (ConfigError, model(system="copy")),
        (ConfigError, model(tasks=("totto",))),
        (ConfigError, model(model="/", endpoint=SERVED)),
        (ConfigError, model(endpoint=replace(SERVED, url="localhost"))),
    ],
)
def test_what_cannot_be_is_refused_by_name(error, asked, refused):
    with refused(error):
        plan_jobs(asked)


def test_a_task_without_a_chat_prompt_is_refused_before_anything_runs(tmp_path, refused):
    table = files.read_toml(ROOT / "tasks/mini/imdb.toml") | {"suite": "mine"}
    del table["prompt"]["chat"]
    files.write_toml(tmp_path / "imdb.toml", table)
    for asked in ({"chat": True}, {"endpoint": SERVED}):
        with refused(ConfigError):
            plan_jobs(grid(tasks=str(tmp_path / "imdb.toml"), models=(ModelEntry(model="m", **asked),)))


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_file_that_says_what_a_grid_does_not_know_is_refused_with_its_place(tmp_path, refused):
    for text in ("algorithm = ['ppo']", "seeds = 5", "[[systems]]\nalgorithm = 'ppo'\nvary = { gamma = 0.5 }"):
        with refused(ConfigError):
            read_grid(written(tmp_path, text))


def test_every_field_survives_the_way_to_the_disk_and_back(tmp_path):
    values = {"a": None, "b": [1, 2], "c": "text", "d": True, "e": 1e-06}
    more = {"preset": "paper", "reward": "meteor", "backbone": "mini:causal", "set": values}
    system = GridEntry(algorithm="nlpo", system="s{clip}", tasks=("imdb",), vary={"clip": (None, 0.1)}, **more)
    model = ModelEntry(model="m", system="s", tasks=("imdb",), endpoint=replace(SERVED, prices=(0.5, 1.0)))
    about = {"suite": "grue", "seeds": (3, 1), "set": {"x": None}, "evaluate": False}
    found = grid("ppo", systems=(system,), models=(model,), **about)
    write_grid(tmp_path / "sweep.toml", found)
    assert read_grid(tmp_path / "sweep.toml") == found
    assert tomllib.loads((tmp_path / "sweep.toml").read_text())["systems"][0]["set"]["a"] == "none"


# --- one's own tasks -------------------------------------------------------------------------------------------------


@pytest.fixture
def own_suite(tmp_path):
    """A folder of task files: copies of mini tasks under the name of another suite."""
    for name in ("imdb", "totto"):
        text = (ROOT / f"tasks/mini/{name}.toml").read_text().replace('suite = "mini"', 'suite = "mine"')
        files.write_text(tmp_path / "mine" / f"{name}.toml", text)
    return tmp_path / "mine"


def test_task_files_and_folders_of_them_are_found_from_wherever_the_grid_is_read_again(own_suite, monkeypatch):
    monkeypatch.chdir(own_suite.parent)
    record = Record(own_suite.parent / "runs")
    record.write_grid(SweepGrid(suite="mine", algorithms=("ppo",)).located())
    monkeypatch.chdir(own_suite)
    found = grid(tasks="imdb.toml", systems=(GridEntry(algorithm="ppo", tasks=("imdb.toml",)),)).located()
    monkeypatch.chdir("/")
    jobs = record.jobs()
    assert [job.id for job in jobs] == ["mine/imdb/ppo/seed-1", "mine/totto/ppo/seed-1"]
    assert [load_task(job.source, job.suite).suite for job in jobs] == ["mine", "mine"]
    (job,) = plan_jobs(found)
    assert (job.id, job.source) == ("mine/imdb/ppo/seed-1", str(own_suite / "imdb.toml"))


EDITS = {
    "a metric": ("reference = 2.600", "reference = 2.700"),
    "the decoding": ("[decoding]\nmax_new_tokens = 24", "[decoding]\nmax_new_tokens = 25"),
    "the version": ("version = 4", "version = 5"),
    "a recipe": ("kl_coefficient = 0.02", "kl_coefficient = 0.2"),
}


def test_a_run_is_not_finished_once_its_task_file_says_something_else(own_suite, tmp_path):
    path, record = own_suite / "imdb.toml", Record(tmp_path / "runs")
    record.write_grid(SweepGrid(tasks=(str(path), str(own_suite / "totto.toml")), algorithms=("ppo", "copy")))
    for job in record.jobs():
        finish(record, job)
        if job.trains:
            claim_folder(stages_of(RunRequest(task=load_task(job.source), algorithm="ppo", runs=record.runs))[-1])
    text = path.read_text()
    path.write_text(re.sub(r'(?m)^title = ".*"$', 'title = "Another title"', text))
    assert all(record.finished(job) for job in record.jobs())
    for edit, (before, after) in EDITS.items():
        assert before in text
        path.write_text(text.replace(before, after))
        jobs = record.jobs()
        assert {job.task for job in jobs if record.finished(job)} == {"totto"}, edit
        assert {state_of(record, job) for job in jobs if job.task == "imdb"} == {"waiting"}
        with pytest.raises(ConfigError) as caught:
            refuse_other_runs([job for job in jobs if not record.finished(job)], record.runs)
        other = (
            "with config.kl_coefficient = 0.02, not 0.2" if edit == "a recipe" else "for another version of the task ("
        )
        assert f"imdb/ppo/seed-1/config.toml: holds a run {other}" in str(caught.value)
    path.write_text(text)
    assert all(record.finished(job) for job in record.jobs())


# --- flags -----------------------------------------------------------------------------------------------------------


def flags(config=None, tasks=None, algos=None, suite=None, seeds=None, settings=(), vary=(), no_evaluate=False):
    return command._grid(config, tasks, algos, suite, seeds, settings, vary, no_evaluate)


def test_flags_say_what_a_file_can_say_and_go_over_it(tmp_path):
    found = flags(tasks="imdb, totto", algos="zero-shot,ppo", seeds="1-5", settings=("gamma=0.5",), no_evaluate=True)
    assert found == grid("zero-shot", "ppo", tasks="imdb,totto", seeds="1-5", set={"gamma": 0.5}, evaluate=False)
    nlpo = GridEntry(algorithm="nlpo", tasks=("imdb",), set={"updates": 3}, vary={"preset": (None, "paper")})
    told = {"systems": (nlpo,), "set": {"rollouts": 8, "kl_target": None}}
    write_grid(tmp_path / "grid.toml", grid("ppo", tasks="imdb,commongen", seeds="1-2", **told))
    found = flags(tmp_path / "grid.toml", tasks="imdb", seeds="9", settings=("rollouts=16", "clip=none"))
    told["set"] = {"rollouts": 16, "kl_target": None, "clip": None}
    assert found == grid("ppo", seeds="9", **told)


def test_a_files_systems_are_left_to_those_tasks_of_theirs_that_a_flag_names(tmp_path, refused):
    some = [{"algorithm": "nlpo", "tasks": ["totto"]}, {"algorithm": "ppo", "tasks": ["imdb", "totto"]}]
    table = {"tasks": ["imdb", "totto"], "systems": [*some, {"algorithm": "grpo"}]}
    files.write_toml(tmp_path / "grid.toml", table | {"models": [{"model": "org/a", "tasks": ["imdb"]}]})
    found = {task: set(ids(flags(tmp_path / "grid.toml", tasks=task))) for task in ("imdb", "totto")}
    assert found["imdb"] == {"imdb/ppo/seed-1", "imdb/grpo/seed-1", "imdb/a/seed-1"}
    assert found["totto"] == {"totto/nlpo/seed-1", "totto/ppo/seed-1", "totto/grpo/seed-1"}
    files.write_toml(
        tmp_path / "folder.toml", {"suite": str(ROOT / "tasks/mini"), "systems": [*some, *table["systems"][2:]]}
    )
    assert len(ids(flags(tmp_path / "folder.toml", tasks="imdb"))) == 2, "a suite that is a folder names its tasks, too"
    path = written(tmp_path, 'tasks = ["imdb"]\nsystems = [{ algorithm = "ppo", tasks = ["imbd"] }]')
    with refused(ConfigError):
        plan_jobs(flags(path, tasks="imdb"))


def test_vary_varies_every_trained_system_and_leaves_baselines_alone(tmp_path, refused):
    jobs = plan_jobs(flags(tasks="imdb", algos="zero-shot,ppo,nlpo", vary=("gamma=0.5,1.0", "reward=meteor")))
    varied = [f"{name}_gamma-{gamma}_reward-meteor" for name in ("ppo", "nlpo") for gamma in (0.5, 1.0)]
    assert [job.system for job in jobs] == ["zero-shot", *varied]
    for text in ('[[systems]]\nalgorithm = "ppo"\n', 'algorithms = ["zero-shot"]\n'):
        with refused(ConfigError):
            flags(written(tmp_path, text), vary=("gamma=0.5,1.0",))
    for vary in ("gamma", "gamma=", "gamma=,"):
        with refused(ConfigError):
            flags(algos="ppo", vary=(vary,))


# --- folders that are taken ------------------------------------------------------------------------------------------


def test_folders_with_runs_of_another_configuration_are_refused_before_anything_starts(tmp_path, refused):
    for seed in (1, 2):
        claim(tmp_path, seed, gamma=0.5)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    refuse_other_runs(plan_jobs(grid("ppo", seeds="1-3", set={"gamma": 0.5})), tmp_path)
    with refused(ConfigError):
        refuse_other_runs(plan_jobs(grid("ppo", "copy", seeds="1-3")), tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_configuration_that_was_cut_is_left_to_its_worker_and_stops_no_other(tmp_path):
    (claim(tmp_path) / "config.toml").write_text("seed = ")
    refuse_other_runs(plan_jobs(grid("ppo", seeds="1-2")), tmp_path)
    with pytest.raises(ConfigError, match=r"config\.toml: "):
        claim(tmp_path)


def test_what_starts_from_a_run_that_is_not_there_yet_is_left_to_its_worker(tmp_path):
    folder = claim(tmp_path).parent.rename(tmp_path / "mini/imdb/supervised+ppo")
    assert (folder / "seed-1/config.toml").exists()
    refuse_other_runs(plan_jobs(grid("supervised+ppo")), tmp_path)
