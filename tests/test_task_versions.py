"""The record of versions, `grue tasks validate|freeze|show|list`, and starting from a published model."""

import json
import re
import shutil
from dataclasses import replace

import pytest
from click.testing import CliRunner
from support.commands import edit

from grue import task_files, task_versions
from grue.cli.main import main
from grue.cli.tasks import length_summary, settings_of
from grue.task_files import load_task, task_folder


def run(*arguments, code=0):
    """Run a command; return what it prints and tells."""
    done = CliRunner().invoke(main, [*map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.stdout + done.stderr


def tasks(*arguments, code=0):
    return run("tasks", *arguments, code=code)


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A copy of our task files, which the code takes for its own."""
    folder = shutil.copytree(task_folder(), tmp_path / "tasks", ignore=shutil.ignore_patterns("__pycache__"))
    for module in (task_files, task_versions):
        monkeypatch.setattr(module, "task_folder", lambda: folder)
    return folder


def record(checkout, name):
    return json.loads((checkout / name).read_text())["mini/imdb"]


def test_all_suites_are_listed_and_valid_and_on_record():
    listed = json.loads(tasks("list", "--json"))
    seven = ["cnn_dailymail", "commongen", "dailydialog", "imdb", "narrativeqa", "totto", "wmt16"]
    for suite in ("mini", "small", "grue"):
        assert [row["name"] for row in listed if row["suite"] == suite] == seven
    assert tasks("validate").count(": fine (") == len(listed) == 21
    versions = json.loads((task_folder() / "versions.json").read_text())
    newest = {name: hashes[max(hashes, key=int)] for name, hashes in versions.items()}
    assert {f"{row['suite']}/{row['name']}": row["hash"] for row in listed} == newest


@pytest.mark.parametrize(
    ("change", "before", "kind", "key", "hash_of"),
    [
        (("max_tokens = 40", "max_tokens = 39"), "", "version", "versions.json", "hash"),
        (
            ("You continue", "Continue"),
            "outside the task's hash\n",
            "chat prompt version",
            "chat-versions.json",
            "chat_hash",
        ),
    ],
)
def test_a_change_needs_a_version_and_a_chat_prompt_has_its_own(checkout, change, before, kind, key, hash_of):
    path, old, versions = checkout / "mini" / "imdb.toml", load_task("imdb"), record(checkout, key)
    number = int(max(versions, key=int))
    edit(path, change)
    assert (load_task("imdb").hash == old.hash) is (hash_of != "hash")
    told = tasks("validate", code=2)
    assert f"mini/imdb, {kind} {number}: its hash is {getattr(load_task('imdb'), hash_of)}, but" in told
    assert f"but {getattr(old, hash_of)} is recorded: " in told and "has changed" in told and "Raise the " in told
    tasks("freeze", code=2)  # the recorded hash stays
    edit(path, (f"{before}version = {number}", f"{before}version = {number + 1}"))
    assert f"{kind} {number + 1}: not recorded in" in tasks("validate", code=2)
    assert "mini/imdb, version " in tasks("freeze")
    tasks("validate")
    assert record(checkout, key) == versions | {str(number + 1): getattr(load_task("imdb"), hash_of)}


def test_prose_and_recipes_need_none(checkout, refused):
    path = checkout / "mini/imdb.toml"
    edit(path, ('licence = "Apache-2.0"', 'licence = "MIT"'), ("learning_rate = 2e-3", "learning_rate = 1e-3"))
    tasks("validate")
    edit(path, ('format = "asked_imdb"', 'format = "asked_imbd"'))
    refused.command("tasks", "validate", path, code=2)


def test_a_long_name_of_a_metric_is_divided_from_its_scale():
    task = load_task("commongen")
    task = replace(task, metrics=(replace(task.metrics[0], name="my_metrics:politeness"),))
    assert any(re.search(r" my_metrics:politeness (0–100|outside)", line) for line in settings_of(task))


def test_show_renders_examples_with_their_tokens():
    shown = tasks("show", "commongen", "--examples", "2")
    blocks = re.findall(r"\[commongen-[0-9a-f]{16}\], (\d+) tokens\n  prompt     generate a sentence with: ", shown)
    assert len(blocks) == 2 and all(5 < int(tokens) < 25 for tokens in blocks)
    assert shown.count("\n  reference  ") == 8
    lengths = r"Prompts have \d+ tokens \(median; 95 of 100 at most \d+, the longest \d+\); \d+\.\d % of them"
    assert re.search(lengths, shown)
    # Summed up by hand, cut to 40 on the left.
    assert length_summary([*range(1, 31), *range(33, 103)], load_task("imdb")) == (
        "Prompts have 53 tokens (median; 95 of 100 at most 98, the longest 102); "
        "62.0 % of them are cut to 40, on the left."
    )


def test_a_published_model_takes_the_place_of_the_supervised_stage(refused):
    plan = ("train", "--dry-run", "--warm-start", "--suite", "grue", "--task")
    told = run(*plan, "totto", "--algo", "supervised+ppo")
    assert told.count("starts from = ") == 1
    assert "starts from = rajkumarrrk/t5-base-fine-tuned-on-totto" in told
    assert "learning_rate = 5e-07" in told  # the recipe of the warm start
    refused.command(*plan, "totto", "--algo", "ppo", code=2)
    refused.command(*plan, "wmt16", "--algo", "supervised+ppo", code=2)
