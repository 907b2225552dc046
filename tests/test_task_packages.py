"""Suites of installed packages: found by their entry point, used as any other, and named when they are broken."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from support import task_package
from support.commands import here
from support.paths import ROOT

from grue import files
from grue.data.formats import FORMATS
from grue.errors import ConfigError, UnknownName
from grue.evaluation.rewards import REWARDS
from grue.metrics.registry import METRICS
from grue.records import Result
from grue.sweep.grid import SweepGrid
from grue.task_files import load_task, task_names
from grue.task_packages import installed_suites

SMALL = ["--set", "updates=1", "--set", "rollouts=4", "--set", "minibatch_size=4", "--set", "epochs=1"]


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages, with the package acme_words; the working directory is elsewhere."""
    folder = tmp_path / "site"
    task_package.write_package(folder)
    monkeypatch.syspath_prepend(folder)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    for registry in (FORMATS, METRICS, REWARDS):  # what they load of the package, other tests must not find
        monkeypatch.setattr(registry, "_things", dict(registry._things))
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme_words"]:
        del sys.modules[name]


def test_a_file_of_samples_names_the_task_of_a_package(site):
    task_package.install(site)
    drawn = here("generate", "--checkpoint", "zero-shot", "--task", "acme/words", "--split", "train", "--limit", "2",
                 "--samples", "2", "--score", "-o", "scored.jsonl")  # fmt: skip
    assert drawn.exit_code == 0, drawn.output
    checked = here("data", "check", "scored.jsonl")
    assert checked.exit_code == 0 and "acme/words" in checked.stdout, checked.output


def test_a_package_s_task_is_listed_trained_evaluated_and_ranked(site):
    assert "acme" not in installed_suites()
    task_package.install(site)

    listed = here("tasks", "list")
    assert listed.exit_code == 0 and "acme/words            Two words" in listed.stdout
    assert "acme_words" not in sys.modules, "looking for tasks runs no code of a package"
    assert "acme/words: fine (acme/words, version 1" in here("tasks", "validate", "acme/words").stdout

    trained = here("train", "--task", "acme/words", "--algo", "ppo", *SMALL)
    assert trained.exit_code == 0, trained.output
    folder = Path("runs/acme/words/ppo/seed-1")
    evaluated = here("evaluate", "--checkpoint", str(folder))
    assert evaluated.exit_code == 0, evaluated.output
    result = files.load_json(folder / "result.json", Result)
    assert (result.suite, result.task, result.task_hash) == ("acme", "words", load_task("words", "acme").hash)
    assert {score.metric for score in result.scores} >= {"rouge1", "acme_short"}

    for task in ("acme/words", "words"):
        assert here("evaluate", "--baseline", "copy", "--suite", "acme", "--task", task).exit_code == 0
    board = here("leaderboard", "--suite", "acme", "--format", "json")
    assert board.exit_code == 0, board.output
    assert [row["system"] for row in json.loads(board.stdout)["rows"]] == ["ppo", "copy"]


def test_a_task_is_named_with_its_suite_wherever_it_is():
    assert load_task("mini/imdb", "grue") == load_task("imdb", "mini")
    with pytest.raises(UnknownName, match="There is no suite 'acne'. Known: mini, grue, or the path"):
        load_task("acne/words")
    with pytest.raises(UnknownName, match="The suite 'mini' has no task 'imbd'. Did you mean 'imdb'?"):
        load_task("mini/imbd")


def test_a_sweep_over_a_package_s_suite_keeps_its_name(site):
    task_package.install(site)
    grid = SweepGrid(suite="acme", algorithms=("ppo",))
    assert (grid.located().suite, grid.task_list()) == ("acme", ["words"])


def test_a_package_does_not_hide_a_folder_that_is_named_by_its_path(site, tmp_path):
    task_package.install(site)
    Path("acme").mkdir()
    Path("acme/other.toml").write_text((site / "acme_words/suite/words.toml").read_text())
    assert task_names("acme") == ["words"]
    assert task_names("./acme") == ["other"]
    with pytest.raises(UnknownName, match="Did you mean 'acme'?"):
        task_names("acmee")


@pytest.mark.parametrize(
    ("entry_points", "message"),
    [
        ("mini = acme_words.suite", "offers a suite 'mini', which is one of grue's own: rename the entry point"),
        ("own = acme_words.suite", "offers a suite 'own', which is one of grue's own"),
        ("../up = acme_words.suite", r"offers a suite '\.\./up', which is no folder's name in lower case"),
        ("acme = acme_words.sweet", "should lie in the package acme_words.sweet, which is not there or no folder"),
        ("acme = no_such_package", "should lie in the package no_such_package, which is not there"),
        ("acme = acme_words.code:brief", "should lie in the package acme_words.code:brief, which is not there"),
        ("acme = acme_words./etc", "should lie in the package acme_words./etc, which is not there"),
        ("acme = ..acme_words", r"should lie in the package \.\.acme_words, which is not there"),
    ],
)
def test_a_broken_package_is_named_and_hides_nothing(site, entry_points, message):
    task_package.install(site, f"[grue.tasks]\n{entry_points}\n")
    with pytest.raises(ConfigError, match=message):
        task_names("acme")
    listed = here("tasks", "list")
    assert listed.exit_code == ConfigError.exit_code
    assert "mini/commongen" in listed.stdout and "grue/commongen" in listed.stdout
    assert "acme" in listed.stderr
    assert load_task("imdb").suite == "mini"


def test_two_packages_with_one_suite_are_an_error(site):
    task_package.install(site)
    (site / "other").mkdir()
    task_package.install(site, "[grue.tasks]\nacme = other\n", "other")
    with pytest.raises(ConfigError, match="Two installed packages offer a suite 'acme': (other|acme_words.suite) and"):
        task_names("acme")


def test_a_package_s_task_of_another_suite_is_an_error(site):
    task_package.install(site)
    path = site / "acme_words/suite/words.toml"
    path.write_text(path.read_text().replace('suite = "acme"', ""))
    with pytest.raises(ConfigError, match="suite: 'own' differs from its entry point, which gives 'acme'; rename one"):
        load_task("acme/words")


@pytest.mark.slow
def test_a_package_that_pip_installed_is_found(tmp_path):
    source, home = tmp_path / "source", tmp_path / "venv"
    task_package.write_package(source)
    project = task_package.PROJECT + "".join(
        line.replace("[grue.", '[project.entry-points."grue.').replace("]", '"]') + "\n"
        if line.startswith("[")
        else line.replace(" = ", ' = "') + '"\n'
        for line in task_package.ENTRY_POINTS.split("\n")
        if line
    )
    (source / "pyproject.toml").write_text(project)
    venv.create(home, with_pip=False, system_site_packages=False)
    # Build and install with this interpreter's pip, into the other environment, and nothing from an index.
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin/python"), "install", "--quiet"]
    hatchling = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    subprocess.run(
        [*pip, "--no-deps", "--no-index", "--no-build-isolation", str(source)], check=True, env=hatchling, timeout=300
    )
    site = next(home.glob("lib/python*/site-packages"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(site)]), "PYTHONDONTWRITEBYTECODE": "1"}
    listed = subprocess.run(
        [sys.executable, "-m", "grue", "tasks", "list", "--suite", "acme"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.startswith("acme/words")
