"""The command line as its user meets it: what is printed, where, and with which exit code."""

import re
import shlex
from pathlib import Path

import pytest
from support.commands import grue, printed_json
from support.own_task import OWN_TASK

from grue import files
from grue.cli.main import COMMANDS
from grue.cli.options import parse_settings
from grue.runs.folder import claim_folder
from grue.runs.plan import stages_of
from grue.runs.request import RunRequest
from grue.task_files import load_task

PPO = "train --task imdb --algo ppo"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_every_command_has_help_without_empty_defaults():
    for command in (*((name,) for name in COMMANDS), ("submit", "verify")):
        shown = grue(*command, "--help").output
        assert shown.startswith("Usage:") and '[default: ""]' not in shown, command
    assert "[default: 64; x>=1]" in grue("evaluate", "--help").stdout


@pytest.mark.parametrize(
    ("code", "command"),
    [
        (2, "trian"),
        (2, "train --task comongen --algo nlpo"),
        (2, "train --task commongen --algo nplo"),
        (2, f"{PPO} --set clip"),
        (2, f"{PPO} --set clop=1"),
        (2, f"{PPO} --set num_generations=4"),  # as other libraries call it
        (2, f"{PPO} --suite mimi"),
        (2, f"{PPO} --config no.toml"),
        (2, f"{PPO} --reward meteo"),
        (2, f"{PPO} --threads {'9' * 30}"),
        (2, "evaluate"),
        (2, "evaluate --checkpoint nowhere"),
        (3, f"leaderboard --runs {'x' * 300}"),
        (2, "sweep --gpus nan --dry-run"),
        # An option that is a setting is told how it is set.
        (2, "train --lr=1"),
        (2, "diagnose --learning-rat=1"),
        (2, "bench --learning-rate=1"),
    ],
)
def test_bad_input_is_one_message_and_an_exit_code(code, command, refused, tmp_path):
    refused.command(*command.split(), code=code)
    assert list(tmp_path.iterdir()) == []


def test_any_other_option_is_told_as_ever():
    for command in ("evaluate --lr 1", "sweep status --lr 1", "sweep --task imdb"):
        said = grue(*command.split(), code=2).stderr
        assert "No such option" in said and "--set" not in said


def test_a_dry_run_prints_the_plan_and_does_nothing(tmp_path):
    shown = grue(*"train --task commongen --algo supervised+nlpo --seeds 1-2 --dry-run".split()).stdout
    assert shown.count("mini/commongen · supervised · seed") == 2
    assert shown.count("mini/commongen · supervised+nlpo · seed") == 2
    assert "mini/imdb · ppo · seed 1" in grue("train", "--dry-run", GRUE_TASK="imdb", GRUE_ALGO="ppo").stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "given",
    [
        "--backbone mini:nope",
        "--backbone no/such",
        "--init bare",
        "--data-dir nowhere",
        "--set reference=soup:bare,bare",
        "--system other",
    ],
)
def test_a_dry_run_refuses_what_the_run_does(given, refused):
    Path("bare").mkdir()
    (other,) = stages_of(RunRequest(task=load_task("imdb"), algorithm="ppo", system="other", settings={"clip": 0.3}))
    claim_folder(other)
    dry = grue(*PPO.split(), *given.split(), "--dry-run", code=None)
    run = grue(*PPO.split(), *given.split(), code=dry.exit_code)
    assert dry.exit_code in (2, 3) and dry.stderr == run.stderr[run.stderr.index("Error: ") :]
    refused.message(dry.stderr.strip())


def test_a_dry_run_says_what_the_run_fetches_and_refuses_it_offline(refused):
    command = "train --suite grue --task imdb --algo ppo --dry-run".split()
    assert "  starts from = lvwerra/gpt2-imdb (not on this machine: fetched from the hub)\n" in grue(*command).stdout
    refused.message(grue(*command, "--offline", code=3).stderr.strip())


def test_flags_win_over_the_config_file():
    Path("my.toml").write_text("clip = 0.3\ngamma = 0.5\n")
    shown = grue(*f"{PPO} --dry-run --config my.toml --set clip=0.1".split()).stdout
    for said in ("clip = 0.1\n", "gamma = 0.5\n", "train_share = none\n", "sharded = false\n"):  # as --set takes them
        assert said in shown


def test_settings_are_read():
    settings = ("a=1", "b=0.5", "c=true", "d=shared", "e=none", "f=1e-4")
    assert parse_settings(settings) == {"a": 1, "b": 0.5, "c": True, "d": "shared", "e": None, "f": 1e-4}


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """A folder with a small task, and in `runs` the evaluation of copying its prompts."""
    home = tmp_path_factory.mktemp("home")
    (home / "words.toml").write_text(OWN_TASK.format(metric="rougeL"))
    rows = [{"id": f"e{n}", "prompt": f"a cat {n}", "reference": f"a cat {n % 3}"} for n in range(8)]
    files.write_jsonl(home / "rows.jsonl", rows)
    grue("evaluate", "--task", home / "words.toml", "--baseline", "copy", "--runs", home / "runs")
    return home


def test_an_evaluation_is_left_alone_and_its_predictions_give_its_scores(evaluated, refused, tmp_path):
    folder = evaluated / "runs/own/words/copy/seed-1"
    predictions, scores = (
        [line for _, line in files.read_jsonl(folder / f"{n}.jsonl")] for n in ("predictions", "scores")
    )
    result = files.read_json(folder / "result.json")
    assert [line["id"] for line in scores] == [line["id"] for line in predictions] == [f"e{n}" for n in range(8)]
    assert (predictions[0]["text"], result["counts"]["scored"]) == ("a cat 0", 8)
    assert (result["system"]["name"], result["limited"]) == ("copy", False)
    scored = printed_json("score", folder / "predictions.jsonl", "--task", evaluated / "words.toml")
    assert (scored["scores"], scored["preference"]) == (result["scores"], result["preference"])

    command = ("evaluate", "baseline:copy", "--task", evaluated / "words.toml", "--runs")
    before = (folder / "result.json").stat().st_mtime_ns
    (shows,) = re.findall("`grue (view .*)` shows", grue(*command, evaluated / "runs").stderr)
    assert grue(*shlex.split(shows), "--no-open").stdout == f"{evaluated}/runs/own/words/board.html\n"
    assert (folder / "result.json").stat().st_mtime_ns == before
    refused.command(*command, evaluated / "runs", "--limit", 5, code=2)
    (tmp_path / "runs").write_text("a file where a folder should be")
    refused.command(*command, tmp_path / "runs", code=3)
