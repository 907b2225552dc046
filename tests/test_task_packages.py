"""Suites of installed packages: found by their entry point, used as any other, and named when they are broken."""

import json
import sys
from pathlib import Path

import pytest
from support import task_package
from support.late import late

from grue import files
from grue.data.formats import FORMATS
from grue.errors import ConfigError, UnknownName
from grue.metrics.registry import METRICS
from grue.records import Result
from grue.task_files import load_task, task_names
from grue.task_packages import installed_suites

commands, rewards, grid = late("support.commands"), late("grue.evaluation.rewards"), late("grue.sweep.grid")
SMALL = [part for one in ("updates=1", "rollouts=4", "minibatch_size=4", "epochs=1") for part in ("--set", one)]


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages, with the package acme_words; the working directory is elsewhere."""
    folder = tmp_path / "site"
    task_package.write_package(folder)
    monkeypatch.syspath_prepend(folder)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "acme_words"]:
        del sys.modules[name]


def grue(*arguments):
    done = commands.here(*map(str, arguments))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_package_s_task_is_listed_trained_evaluated_ranked_and_sampled(site, monkeypatch):
    for registry in (FORMATS, METRICS, rewards.REWARDS):  # what they load of the package, other tests must not find
        monkeypatch.setattr(registry, "_things", dict(registry._things))
    assert "acme" not in installed_suites()
    task_package.install(site)
    assert "acme/words            Two words" in grue("tasks", "list")
    assert "acme_words" not in sys.modules, "looking for tasks runs no code of a package"
    assert "acme/words: fine (acme/words, version 1" in grue("tasks", "validate", "acme/words")
    located = grid.SweepGrid(suite="acme", algorithms=("ppo",))
    assert (located.located().suite, located.task_list()) == ("acme", ["words"])

    grue("train", "--task", "acme/words", "--algo", "ppo", *SMALL)
    folder = Path("runs/acme/words/ppo/seed-1")
    grue("evaluate", "--checkpoint", folder)
    result = files.load_json(folder / "result.json", Result)
    assert (result.suite, result.task, result.task_hash) == ("acme", "words", load_task("words", "acme").hash)
    assert {score.metric for score in result.scores} >= {"rouge1", "acme_short"}
    for task in ("acme/words", "words"):
        grue("evaluate", "--baseline", "copy", "--suite", "acme", "--task", task)
    board = json.loads(grue("leaderboard", "--suite", "acme", "--format", "json"))
    assert [row["system"] for row in board["rows"]] == ["ppo", "copy"]
    few = ("--split", "train", "--limit", 2, "--samples", 2, "--score")
    grue("generate", "--checkpoint", "zero-shot", "--task", "acme/words", *few, "-o", "scored.jsonl")
    assert "acme/words" in grue("data", "check", "scored.jsonl")


def test_a_package_does_not_hide_a_folder_that_is_named_by_its_path(site):
    assert load_task("mini/imdb", "grue") == load_task("imdb", "mini")
    task_package.install(site)
    Path("acme").mkdir()
    Path("acme/other.toml").write_text((site / "acme_words/suite/words.toml").read_text())
    assert (task_names("acme"), task_names("./acme")) == (["words"], ["other"])
    with pytest.raises(UnknownName, match="Did you mean 'acme'?"):
        task_names("acmee")


def test_a_broken_package_is_named_and_hides_nothing(site, refused):
    for number, entry_point in enumerate(
        (
            "mini = acme_words.suite",
            "own = acme_words.suite",
            "../up = acme_words.suite",
            "acme = acme_words.sweet",
            "acme = no_such_package",
            "acme = acme_words.code:brief",
            "acme = acme_words./etc",
            "acme = ..acme_words",
        )
    ):
        about = task_package.install(site, f"[grue.tasks]\n{entry_point}\n", f"broken{number}")
        with refused(ConfigError):
            task_names("acme")
        listed = commands.here("tasks", "list")
        assert listed.exit_code == ConfigError.exit_code and "acme" in listed.stderr
        assert "mini/commongen" in listed.stdout and "grue/commongen" in listed.stdout
        assert load_task("imdb").suite == "mini"
        about.rename(site / f"removed{number}")


def test_a_suite_is_one_package_s_whose_tasks_are_of_it(site, refused):
    task_package.install(site)
    path = site / "acme_words/suite/words.toml"
    path.write_text(path.read_text().replace('suite = "acme"', ""))
    with refused(ConfigError):
        load_task("acme/words")
    (site / "other").mkdir()
    task_package.install(site, "[grue.tasks]\nacme = other\n", "other")
    with pytest.raises(ConfigError, match="Two installed packages offer a suite 'acme': (other|acme_words.suite) and"):
        task_names("acme")
