"""The command line as its user meets it: what is printed, where, and with which exit code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from grue.cli.main import COMMANDS, main
from grue.cli.options import parse_seeds, parse_settings
from grue.errors import ConfigError
from grue.runs.folder import claim_folder
from grue.runs.plan import stages_of
from grue.runs.request import RunRequest
from grue.task_files import load_task


def grue(*arguments, **environment):
    return CliRunner().invoke(main, [str(a) for a in arguments], env=environment)


def python(code, *flags):
    return subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, check=True)


def test_help_loads_no_heavy_library():
    heavy = "('torch', 'transformers', 'datasets', 'pandas', 'rich', 'numpy')"
    code = f"""
import sys
from click.testing import CliRunner
from grue.cli.main import main
result = CliRunner().invoke(main, ['--help'])
assert result.exit_code == 0 and 'leaderboard' in result.output, result.output
print([name for name in {heavy} if name in sys.modules])
"""
    assert python(code).stdout.strip() == "[]"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command):
    result = grue(command, "--help")
    assert result.exit_code == 0
    assert result.output.startswith("Usage:")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["trian"], 2, "There is no command 'trian'. Did you mean 'train'?"),
        (["train", "--task", "comongen", "--algo", "nlpo"], 2, "The suite 'mini' has no task 'comongen'. Did you mean 'commongen'?"),
        (["train", "--task", "commongen", "--algo", "nplo"], 2, "There is no algorithm 'nplo'. Did you mean 'nlpo'?"),
        (["train", "--task", "commongen", "--algo", "ppo", "--set", "clip"], 2, "--set clip: write KEY=VALUE"),
        (["train", "--task", "commongen", "--algo", "ppo", "--set", "clop=1"], 2, "unknown key 'clop'. Did you mean 'clip'?"),
        (["train", "--task", "commongen", "--algo", "ppo", "--suite", "mimi"], 2, "There is no suite 'mimi'. Did you mean 'mini'?"),
        (["train", "--task", "commongen", "--algo", "ppo", "--seeds", "5-1"], 2, "seeds '5-1': write a range such as 1-5"),
        (["train", "--task", "commongen", "--algo", "ppo", "--config", "no.toml"], 2, "no.toml: cannot be read: No such file"),
        (["evaluate"], 2, "Say what to evaluate: one of --checkpoint FOLDER, --model NAME or --baseline NAME."),
        (["evaluate", "--baseline", "copy"], 2, "--model and --baseline need --task"),
        (["evaluate", "--checkpoint", "x", "--seed", "7"], 2, "A checkpoint is evaluated with the seed that it was "),
        (["evaluate", "--baseline", "copy", "--task", "imdb", "--seeds", "1-2", "--output", "x"], 2, "--output x: takes"),
        (["train", "--task", "imdb", "--algo", "ppo", "--threads", "-1"], 2, "-1 is not in the range x>=1"),
        (["evaluate", "--checkpoint", "nowhere"], 3, "nowhere: no such checkpoint folder; `grue train` writes one."),
        (["evaluate", "--checkpoint", "."], 3, "not a checkpoint of grue: it has no grue.json"),
        (["score", "no.jsonl", "--task", "commongen"], 3, "no.jsonl: cannot be read: No such file or directory"),
        (["leaderboard", "--task", "imbd"], 2, "The suite 'mini' has no task 'imbd'. Did you mean 'imdb'?"),
        (["sweep", "--gpus", "nan", "--dry-run"], 2, "Invalid value for '--gpus': must be a finite number, found nan."),
        (["train", "--task", "imdb", "--algo", "ppo", "--threads", "9" * 30], 2, "must be at most 2147483647, found 9999"),
        (["train", "--task", "imdb", "--algo", "ppo", "--set", f"rollouts={'9' * 30}"], 2, "must be at most 2147483647"),
        (["leaderboard", "--runs", "x" * 300], 3, "…: File name too long. Choose a shorter path."),
        (["submit", "check", "nowhere"], 3, "nowhere: there is no such folder of submissions."),
    ],
)  # fmt: skip
def test_bad_input_is_one_message_and_an_exit_code(arguments, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = grue(*arguments)
    assert result.exit_code == code
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "option", "settings"),
    [
        ("train", "--lr", "--set learning_rate=VALUE"),
        ("train", "--learning-rate", "--set learning_rate=VALUE"),
        ("train", "--epochs", "--set epochs=VALUE"),
        ("train", "--batch-size", "--set minibatch_size=VALUE or --set batch_size=VALUE"),
        ("sweep", "--kl", "--set kl_coefficient=VALUE"),
        ("diagnose", "--learning-rat", "--set learning_rate=VALUE"),
    ],
)
def test_an_option_that_is_a_setting_is_told_how_it_is_set(command, option, settings):
    result = grue(command, f"{option}=1")
    assert result.exit_code == 2
    assert f"No such option '{option}'. For the setting, write {settings}.\n" in result.stderr


@pytest.mark.parametrize(
    "arguments", [("evaluate", "--lr", 1), ("sweep", "status", "--lr", 1), ("sweep", "--task", "imdb")]
)
def test_any_other_option_is_told_as_ever(arguments):
    result = grue(*arguments)
    assert result.exit_code == 2
    assert "No such option" in result.stderr and "--set" not in result.stderr


def test_settings_are_known_by_the_names_of_other_libraries():
    result = grue("train", "--task", "imdb", "--algo", "ppo", "--set", "num_generations=4")
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: ppo on mini/imdb: unknown key 'num_generations'. Did you mean 'samples_per_prompt'? "
        "`grue algorithms show ppo` lists all.\n",
    )


def test_an_unknown_reward_is_refused_before_anything_is_trained(tmp_path):
    result = grue("train", "--task", "commongen", "--algo", "ppo", "--reward", "meteo", "--runs", tmp_path)
    assert result.exit_code == 2
    assert "There is no metric 'meteo'. Did you mean 'meteor'?" in result.stderr


def test_a_dry_run_prints_the_plan_and_does_nothing(tmp_path):
    result = grue(
        "train", "--task", "commongen", "--algo", "supervised+nlpo", "--seeds", "1-2", "--runs", tmp_path, "--dry-run"
    )
    assert result.exit_code == 0
    assert result.stdout.count("mini/commongen · supervised · seed") == 2
    assert result.stdout.count("mini/commongen · supervised+nlpo · seed") == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--backbone", "mini:nope"], "There is no small model 'nope'."),
        (["--backbone", "./nope"], "There is no folder './nope'"),
        (["--backbone", "no/such"], "no/such is neither a local folder nor available from the hub"),
        (["--backbone", "mini:seq2seq"], "mini:seq2seq cannot be loaded as a causal language model: it is an encoder-decoder (t5)."),
        (["--backbone", "mini:sentiment"], "mini:sentiment cannot be loaded as a causal language model: config.json: "),
        (["--backbone", "bare"], "bare cannot be loaded as a causal language model: it has no config.json."),
        (["--init", "bare"], "bare: not a checkpoint of grue"),
        (["--data-dir", "nowhere"], "nowhere: no such folder"),
        (["--set", "reference=soup:bare,bare"], "bare: not a checkpoint of grue"),
        (["--system", "other"], "this folder holds a run with config.clip = 0.3, not 0.2"),
    ],
)  # fmt: skip
def test_a_dry_run_refuses_what_the_run_does(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("bare").mkdir()
    (other,) = stages_of(RunRequest(task=load_task("imdb"), algorithm="ppo", system="other", settings={"clip": 0.3}))
    claim_folder(other)
    command = ("train", "--task", "imdb", "--algo", "ppo", *arguments)
    dry, run = grue(*command, "--dry-run"), grue(*command)
    assert message in dry.stderr
    assert (dry.exit_code, dry.stderr) == (run.exit_code, run.stderr[run.stderr.index("Error: ") :])


def test_a_dry_run_says_what_the_run_fetches_and_refuses_it_offline(tmp_path):
    command = ("train", "--suite", "grue", "--task", "imdb", "--algo", "ppo", "--runs", tmp_path, "--dry-run")
    assert "  starts from = lvwerra/gpt2-imdb (not on this machine: fetched from the hub)\n" in grue(*command).stdout
    assert "lvwerra/gpt2-imdb is not on this machine" in grue(*command, "--offline").stderr


def test_options_come_from_the_environment(tmp_path):
    result = grue("train", "--dry-run", "--runs", tmp_path, GRUE_TASK="imdb", GRUE_ALGO="ppo")
    assert "mini/imdb · ppo · seed 1" in result.stdout


def test_flags_win_over_the_config_file(tmp_path):
    (tmp_path / "my.toml").write_text("clip = 0.3\ngamma = 0.5\n")
    arguments = [
        "train",
        "--task",
        "imdb",
        "--algo",
        "ppo",
        "--dry-run",
        "--config",
        tmp_path / "my.toml",
        "--set",
        "clip=0.1",
    ]
    output = grue(*arguments).stdout
    assert "clip = 0.1\n" in output
    assert "gamma = 0.5\n" in output
    assert "train_share = none\n" in output and "sharded = false\n" in output  # as --set takes them


def test_a_place_that_cannot_be_written_is_said_so(tmp_path):
    (tmp_path / "runs").write_text("a file where a folder should be")
    result = grue("evaluate", "--baseline", "copy", "--task", "commongen", "--runs", tmp_path / "runs")
    assert result.exit_code == 3
    assert "cannot be written: Not a directory" in result.stderr


def test_seeds():
    assert parse_seeds((), None) == [1]
    assert parse_seeds((4, 2), None) == [4, 2]
    assert parse_seeds((4,), "1-3,4,9") == [4, 1, 2, 3, 9]
    with pytest.raises(ConfigError, match="seeds 'x': write a range"):
        parse_seeds((), "x")


def test_settings_are_json_where_they_can_be():
    settings = ("a=1", "b=0.5", "c=true", "d=shared", "e=none", "f=1e-4")
    assert parse_settings(settings) == {"a": 1, "b": 0.5, "c": True, "d": "shared", "e": None, "f": 1e-4}


# --- baselines, scoring and the board, on the mini suite -------------------------------------------------------------


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """A runs folder with the copy and null baselines of CommonGen in it."""
    runs = tmp_path_factory.mktemp("runs")
    for baseline in ("copy", "null"):
        result = grue("evaluate", "--task", "commongen", "--baseline", baseline, "--runs", runs)
        assert result.exit_code == 0, result.output
    return runs


def test_an_evaluation_leaves_predictions_scores_and_a_result(evaluated):
    folder = evaluated / "mini" / "commongen" / "copy" / "seed-1"
    predictions = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
    scores = [json.loads(line) for line in (folder / "scores.jsonl").read_text().splitlines()]
    result = json.loads((folder / "result.json").read_text())
    assert len(predictions) == len(scores) == result["counts"]["scored"] == 1000
    assert predictions[0]["text"].startswith("generate a sentence with: ")
    assert [line["id"] for line in scores] == [line["id"] for line in predictions]
    assert {score["metric"] for score in result["scores"]} >= {"cider", "meteor", "coverage", "distinct1"}
    assert result["system"]["name"] == "copy"
    assert result["limited"] is False
    assert result["data"]["checked"] is True


def test_a_finished_evaluation_is_only_read(evaluated):
    path = evaluated / "mini" / "commongen" / "copy" / "seed-1" / "result.json"
    before = path.stat().st_mtime_ns
    again = grue("evaluate", "--task", "commongen", "--baseline", "copy", "--runs", evaluated)
    assert again.exit_code == 0
    assert path.stat().st_mtime_ns == before


def test_another_evaluation_in_the_same_folder_is_refused(evaluated):
    other = grue("evaluate", "--task", "commongen", "--baseline", "copy", "--runs", evaluated, "--limit", 5)
    assert other.exit_code == 2
    assert (
        "holds an evaluation of the whole split, not of the first 5 examples. Write elsewhere with --output"
        in other.stderr
    )


def test_the_same_scores_come_from_the_predictions_file_alone(evaluated):
    folder = evaluated / "mini" / "commongen" / "copy" / "seed-1"
    scored = json.loads(grue("score", folder / "predictions.jsonl", "--task", "commongen", "--json").stdout)
    result = json.loads((folder / "result.json").read_text())
    assert scored["scores"] == result["scores"]
    assert scored["preference"] == result["preference"]


@pytest.mark.parametrize(
    ("damage", "code", "message"),
    [
        (lambda lines: lines[1:], 1, "do not fit the 1000 examples: 1 missing"),
        (lambda lines: [*lines, lines[0]], 1, "1 given more than once"),
        (lambda lines: [*lines, b'{"id":"nobody","text":""}'], 1, "1 unknown ('nobody')"),
        (lambda lines: [*lines[:7], b'{"id": "x", "text": ', *lines[8:]], 3, "line 8: not valid JSON"),
        (lambda lines: [*lines[:7], b'{"id":"\xff"}', *lines[8:]], 3, "line 8: not valid UTF-8"),
        (lambda lines: [*lines[:7], b'{"id":"a","txt":"b"}', *lines[8:]], 1, "line 8: unknown key 'txt'. Did you mean 'text'?"),
    ],
)  # fmt: skip
def test_a_bad_predictions_file_is_refused(evaluated, damage, code, message, tmp_path):
    lines = (evaluated / "mini" / "commongen" / "copy" / "seed-1" / "predictions.jsonl").read_bytes().splitlines()
    path = tmp_path / "predictions.jsonl"
    path.write_bytes(b"\n".join(damage(lines)) + b"\n")
    result = grue("score", path, "--task", "commongen")
    assert result.exit_code == code
    assert message in result.stderr


def test_the_board_shows_what_was_evaluated(evaluated, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    board = json.loads(grue("leaderboard", "--task", "commongen", "--format", "json", "--runs", evaluated).stdout)
    local = [(row["system"], row["standing"]) for row in board["rows"] if row["status"] == "local"]
    assert sorted(local) == [("copy", "reference"), ("null", "reference")]
    assert {row["status"] for row in board["rows"]} == {"local", "rescored", "reproduced"}  # beside the rows that ship
    markdown = grue("leaderboard", "--task", "commongen", "--format", "markdown", "--runs", evaluated).stdout
    assert "| copy" in markdown
    assert "| null" in markdown


def test_a_stale_board_is_noticed(evaluated, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["leaderboard", "--format", "markdown", "--runs", evaluated, "--output", "board.md"]
    assert grue(*arguments, "--check").exit_code == 1
    assert grue(*arguments).exit_code == 0
    assert grue(*arguments, "--check").exit_code == 0
    (tmp_path / "board.md").write_text("old")
    stale = grue(*arguments, "--check")
    assert stale.exit_code == 1
    assert "board.md does not match the results; run `make leaderboard`" in stale.stderr
