"""The record of versions, `grue tasks validate|freeze|diff|show|list`, and starting from a published model."""

import json
import re
import shutil
import subprocess

import pytest
from click.testing import CliRunner

from grue import task_files, task_versions
from grue.cli.main import main
from grue.cli.tasks import length_summary
from grue.task_files import load_task, task_folder
from grue.task_versions import changes


def grue_tasks(*arguments):
    return CliRunner().invoke(main, ["tasks", *map(str, arguments)])


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A git checkout with a copy of our task files, which the code takes for its own."""
    folder = tmp_path / "tasks"
    shutil.copytree(task_folder(), folder, ignore=shutil.ignore_patterns("__pycache__"))
    for module in (task_files, task_versions):
        monkeypatch.setattr(module, "task_folder", lambda: folder)
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "tasks"]):
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run([*git, *command], cwd=folder, check=True)
    return folder


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_both_suites_are_listed_and_valid_and_on_record():
    listed = json.loads(grue_tasks("list", "--json").stdout)
    names = {suite: [row["name"] for row in listed if row["suite"] == suite] for suite in ("mini", "grue")}
    seven = ["cnn_dailymail", "commongen", "dailydialog", "imdb", "narrativeqa", "totto", "wmt16"]
    assert names == {"mini": seven, "grue": seven}
    result = grue_tasks("validate")
    assert result.exit_code == 0, result.output
    assert result.stdout.count(": fine (") == 14
    record = json.loads((task_folder() / "versions.json").read_text())
    assert {f"{row['suite']}/{row['name']}": row["hash"] for row in listed} == {
        name: versions[max(versions, key=int)] for name, versions in record.items()
    }


def test_a_change_that_affects_scores_needs_a_version(checkout):
    path = checkout / "mini" / "imdb.toml"
    old = load_task("imdb")
    edit(path, "max_tokens = 32", "max_tokens = 31")
    result = grue_tasks("validate")
    assert result.exit_code == 2
    assert f"mini/imdb, version {old.version}: its hash is" in result.stderr
    assert f"but {old.hash} is recorded" in result.stderr
    assert grue_tasks("freeze").exit_code == 2  # the recorded hash stays
    result = grue_tasks("diff")
    assert result.exit_code == 2
    assert "* mini/imdb: prompt.max_tokens: 32 → 31" in result.stdout
    assert "mini/imdb: what is marked * affects scores, but the version was not raised" in result.stderr
    edit(path, f"version = {old.version}", f"version = {old.version + 1}")
    assert grue_tasks("diff").exit_code == 0
    result = grue_tasks("validate")
    assert result.exit_code == 2
    assert "not recorded in" in result.stderr
    assert f"mini/imdb, version {old.version + 1}: recorded" in grue_tasks("freeze").stdout
    assert grue_tasks("validate").exit_code == 0
    record = json.loads((checkout / "versions.json").read_text())["mini/imdb"]
    assert record[str(old.version)] == old.hash
    assert record[str(old.version + 1)] == load_task("imdb").hash


def test_another_chat_prompt_needs_a_version_of_its_own(checkout):
    path = checkout / "mini" / "imdb.toml"
    old = load_task("imdb")
    edit(path, "You continue film reviews.", "Continue film reviews.")
    assert load_task("imdb").hash == old.hash
    result = grue_tasks("validate")
    assert result.exit_code == 2
    assert f"mini/imdb, chat prompt version 1: its hash is {load_task('imdb').chat_hash}, but" in result.stderr
    assert "the chat prompt has changed" in result.stderr and "Raise the prompt.chat.version" in result.stderr
    assert grue_tasks("freeze").exit_code == 2  # the recorded hash stays
    result = grue_tasks("diff")
    assert result.exit_code == 2
    assert "  mini/imdb: prompt.chat.system: " in result.stdout  # no result of plain prompts is touched
    assert "mini/imdb: prompt.chat affects the scores of chat models, but its version was not raised" in result.stderr
    edit(path, "outside the task's hash\nversion = 1", "outside the task's hash\nversion = 2")
    assert grue_tasks("diff").exit_code == 0
    assert f"mini/imdb, version {old.version}: recorded" in grue_tasks("freeze").stdout
    assert grue_tasks("validate").exit_code == 0
    record = json.loads((checkout / "chat-versions.json").read_text())["mini/imdb"]
    assert record == {"1": old.chat_hash, "2": load_task("imdb").chat_hash}


def test_an_unknown_format_is_invalid(checkout):
    path = checkout / "mini" / "imdb.toml"
    edit(path, 'format = "imdb"', 'format = "imbd"')
    result = grue_tasks("validate", path)
    assert result.exit_code == 2
    assert result.stderr.startswith(
        f"Error: {path}: There is no data format 'imbd'. Did you mean 'imdb'? Known: cnn_dailymail, "
    )


def test_prose_and_recipes_need_none(checkout):
    path = checkout / "mini" / "imdb.toml"
    edit(path, 'licence = "Apache-2.0"', 'licence = "MIT"')
    edit(path, "learning_rate = 1e-3", "learning_rate = 2e-3")
    assert grue_tasks("validate").exit_code == 0
    result = grue_tasks("diff")
    assert result.exit_code == 0
    assert "  mini/imdb: data.licence: 'Apache-2.0' → 'MIT'" in result.stdout
    assert "  mini/imdb: recipes.supervised.learning_rate: 0.001 → 0.002" in result.stdout
    assert "*" not in result.stdout


def test_diff_names_new_and_removed_tasks_and_unknown_commits_and_says_that_nothing_differs(checkout):
    result = grue_tasks("diff", "HEAD")
    assert (result.exit_code, result.stdout) == (0, "No task differs from HEAD.\n")
    copy = checkout / "mini" / "films.toml"
    copy.write_text((checkout / "mini" / "imdb.toml").read_text().replace('name = "imdb"', 'name = "films"', 1))
    result = grue_tasks("diff", "HEAD")
    assert result.exit_code == 0
    assert result.stdout == "mini/films: new\n"
    copy.rename(checkout / "mini" / "totto.toml")
    edit(checkout / "mini" / "totto.toml", 'name = "films"', 'name = "totto"')
    (checkout / "grue" / "wmt16.toml").unlink()
    assert "grue/wmt16: removed\n" in grue_tasks("diff", "HEAD").stdout
    result = grue_tasks("diff", "no-such-branch")
    assert result.exit_code == 3
    assert "'no-such-branch' is not a commit of the checkout" in result.stderr


def test_a_metric_that_moves_or_changes_is_named(checkout):
    old = load_task("imdb")
    edit(checkout / "mini" / "imdb.toml", "label = 1", "label = 0")
    found = changes(old, load_task("imdb"))
    assert [(change.key, change.old, change.new, change.scores) for change in found] == [
        ("metrics[sentiment].options.label", 1, 0, True)
    ]


def test_show_renders_examples_with_their_tokens():
    shown = grue_tasks("show", "commongen", "--examples", "2").stdout
    blocks = re.findall(r"\[commongen-[0-9a-f]{16}\], (\d+) tokens\n  prompt     generate a sentence with: ", shown)
    assert len(blocks) == 2
    assert all(5 < int(tokens) < 25 for tokens in blocks)
    assert shown.count("\n  reference  ") == 8
    assert re.search(
        r"Prompts have \d+ tokens \(median; 95 of 100 at most \d+, the longest \d+\); \d+\.\d % of them", shown
    )


def test_lengths_are_summed_up_by_hand():
    task = load_task("imdb")  # cut to 32 on the left
    text = length_summary([*range(1, 31), *range(33, 103)], task)
    assert text == (
        "Prompts have 53 tokens (median; 95 of 100 at most 98, the longest 102); "
        "70.0 % of them are cut to 32, on the left."
    )


def test_a_published_model_takes_the_place_of_the_supervised_stage():
    def plan(*arguments):
        return CliRunner().invoke(main, ["train", "--dry-run", "--suite", "grue", "--task", *arguments])

    result = plan("totto", "--algo", "supervised+ppo", "--warm-start")
    assert result.exit_code == 0
    assert result.stdout.count("starts from = ") == 1
    assert "starts from = rajkumarrrk/t5-base-fine-tuned-on-totto" in result.stdout
    assert "learning_rate = 5e-07" in result.stdout  # the recipe of the warm start
    result = plan("totto", "--algo", "ppo", "--warm-start")
    assert result.exit_code == 2
    assert "write it with --algo supervised+ALGORITHM" in result.stderr
    result = plan("wmt16", "--algo", "supervised+ppo", "--warm-start")
    assert result.exit_code == 2
    assert "grue/wmt16 names no published model; write --algo supervised+ppo alone" in result.stderr
