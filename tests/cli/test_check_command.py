"""`grue tools check`: a threshold or a row of the board, for results and for predictions."""

import json
import re
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from support.commands import grue, printed_json
from support.own_task import OWN_TASK
from support.paths import ROOT

from grue import files
from grue.cli.main import main

MINI = ROOT / "submissions/mini"
SEEDS = [MINI / f"supervised/imdb/seed-{n}.result.json" for n in (1, 2, 3)]
STATED = [files.read_json(path) for path in SEEDS]
MEAN = sum(one["preference"] for one in STATED) / 3
ROWS = files.read_json(ROOT / "leaderboard/mini.json")["rows"]
(ROW,) = [row["cells"]["imdb"]["preference"]["mean"] for row in ROWS if row["system"] == "supervised+ppo"]
PART = STATED[0]["data"] | {"examples": 3, "ids_sha256": "0" * 64}
MADE = {
    "one": STATED[0],
    "twin": STATED[0],
    "other": files.read_json(MINI / "supervised+ppo/imdb/seed-2.result.json"),
    "reward": {"grue": "reward model", "schema": 1, "suite": "mini", "task": "imdb", "judge": "x"},
    "limited": STATED[0] | {"limited": True},
    "part": STATED[0] | {"data": PART},
    "split": STATED[0] | {"split": "validation"},
    "version": STATED[0] | {"task_hash": "0"},
    "failed": STATED[0] | {"status": "failed"},
    "axis": STATED[0] | {"preference": None},
    "hostile": STATED[0] | {"suite": "\x1b[31m", "task": "\x1b]0;x\x07"},
}


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Results of these names in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name, content in MADE.items():
        files.write_json(tmp_path / f"{name}.json", content)


def test_the_mean_over_files_is_held_against_numbers_and_a_row_of_the_board():
    below, above = f"preference={MEAN - 0.001}", f"preference={MEAN + 0.001}"
    grue("tools", "check", *SEEDS, "--at-least", below)
    failed = grue("tools", "check", *SEEDS, "--at-least", below, "--at-least", above, code=1)
    assert [line[:4] for line in failed.output.splitlines()] == ["mini", "ok  ", "FAIL"]
    behind = ROW - MEAN
    assert behind > 0
    asked = ("tools", "check", *SEEDS, "--at-least", "preference=supervised+ppo", "--tolerance")
    grue(*asked, behind + 0.01)
    said = grue(*asked, behind - 0.01, code=1).output
    assert f"supervised+ppo on the board: {ROW:.4g}, seeds: 5" in said


def test_predictions_are_scored_again(tmp_path, refused):
    """Two of three texts are the reference: ROUGE-L 2/3; one of three times three words is wrong: TER 100/3."""
    ter = '}, { name = "ter", axis = "preference", range = [100, 0] }]'
    (tmp_path / "scenes.toml").write_text(OWN_TASK.format(metric="rougeL").replace("}]", ter, 1))
    rows = [{"id": str(n), "prompt": "say", "references": [f"a cat number{n}"]} for n in range(3)]
    files.write_jsonl(tmp_path / "rows.jsonl", rows)
    texts = ["x y z", "a cat number1", "a cat number2"]
    predictions = tmp_path / "predictions.jsonl"
    files.write_jsonl(predictions, [{"id": str(n), "text": text} for n, text in enumerate(texts)])
    bars = "--at-least rougeL=0.6666 --at-least rougeL=0.6667 --at-most ter=33.4 --at-most ter=33.3".split()
    command = ("tools", "check", predictions, "--task", tmp_path / "scenes.toml")
    found = printed_json(*command, *bars, code=1)
    assert [one["passed"] for one in found] == [True, False, True, False]
    refused.command(*command, "--at-least", "rougeL=supervised", code=3)


def test_a_baseline_stops_what_is_significantly_worse(tmp_path, monkeypatch):
    """The start against five seeds of PPO, and one seed the other way round; JUnit and Markdown say the same."""
    start, ppo = MINI / "supervised", MINI / "supervised+ppo"
    asked = ("tools", "check", "--task", "imdb", "--junit", tmp_path / "j.xml", "--markdown", tmp_path / "m.md")
    worse = grue(*asked, start, "--baseline", ppo, code=1).stdout.splitlines()
    assert worse[0] == "mini/imdb, 5 files"
    assert re.match(
        r"FAIL preference 88\.15 \(.*\), significantly below the baseline's 95\.9 \(difference -7", worse[1]
    )
    assert re.match(r"FAIL naturalness 87\.75 \(.*\), significantly below the baseline's 90\.25 ", worse[2])
    one = "imdb/seed-1.result.json"
    better = grue(*asked, ppo / one, "--baseline", start / one).stdout
    assert "ok   preference 96.78, at least the baseline's 89.41" in better
    assert "ok   naturalness 86.32, not significantly below the baseline's 86.4" in better and "One seed: " in better
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "0")
    assert (tmp_path / "m.md").read_text().startswith("### grue: All 2 checks passed\n\n|")
    monkeypatch.chdir(tmp_path)
    files.write_json(tmp_path / "only.json", STATED[0])
    by_sd = ("tools", "check", MINI / "supervised/imdb/seed-1.result.json", "--baseline", ppo, "--task", "imdb")
    assert "FAIL preference 89.41, below the required" in grue(*by_sd, "--tolerance", "2sd", code=1).stdout
    grue(*by_sd, "--tolerance", "8")


def test_predictions_from_standard_input_are_tested_by_examples(tmp_path):
    """Nine texts right of twelve against twelve is a significant loss; against the same, none."""
    (tmp_path / "scenes.toml").write_text(OWN_TASK.format(metric="rougeL"))
    rows = [{"id": str(n), "prompt": "say", "references": [f"a cat number{n}"]} for n in range(12)]
    files.write_jsonl(tmp_path / "rows.jsonl", rows)
    right = [{"id": row["id"], "text": row["references"][0]} for row in rows]
    lines = [{**line, "text": "x"} if n < 9 else line for n, line in enumerate(right)]
    files.write_jsonl(tmp_path / "right.jsonl", right)
    command = ["tools", "check", "-", "--task", str(tmp_path / "scenes.toml"), "--baseline"]
    given = "".join(json.dumps(line) + "\n" for line in lines)
    failed = CliRunner().invoke(main, [*command, str(tmp_path / "right.jsonl")], input=given)
    assert failed.exit_code == 1 and "FAIL preference 25, significantly below the baseline's 100 " in failed.stdout
    files.write_jsonl(tmp_path / "wrong.jsonl", lines)
    same = CliRunner().invoke(main, [*command, str(tmp_path / "wrong.jsonl")], input=given)
    assert same.exit_code == 0 and "ok   preference 25, at least the baseline's 25 " in same.stdout


def test_a_line_never_contradicts_its_numbers(tmp_path):
    files.write_json(tmp_path / "seed.json", {**STATED[0], "preference": 59.99996})
    said = grue("tools", "check", tmp_path / "seed.json", "--at-least", "preference=60", code=1).stdout
    assert "FAIL preference 59.99996, below the required 60\n" in said


@pytest.mark.parametrize("text", ['{"id": "0", "text": "x"}\n', "", '{"id": "0", "txt": "x"}\n'])
def test_predictions_that_cannot_be_used_are_no_missed_bar(text, tmp_path, refused):
    (tmp_path / "predictions.jsonl").write_text(text)
    command = ("tools", "check", tmp_path / "predictions.jsonl", "--task", "imdb", "--at-least", "preference=1")
    refused.command(*command, code=3)


def test_the_suite_of_the_environment_is_for_predictions(refused):
    """The action sets GRUE_SUITE to mini where nobody names one; another one is meant."""
    command = ("tools", "check", SEEDS[0], "--at-least", "preference=1")
    grue(*command, GRUE_SUITE="mini")
    refused.command(*command, code=3, GRUE_SUITE="grue")


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        (2, "one.json"),
        (2, "one.json one.json --at-least preference=1"),
        (2, "one.json twin.json --at-least preference=1"),
        (2, "one.json other.json --at-least preference=1"),
        (2, "one.json predictions.jsonl --at-least preference=1"),
        (3, ". --at-least preference=1"),
        (2, "one.json --at-least preference"),
        (2, "one.json --at-least preference=nan"),
        (2, "one.json --at-least preference=-inf"),
        (2, "one.json --at-least perplexity:bounded=1"),
        (2, "one.json --at-most preference=99"),
        (2, "one.json --at-least prefrence=1"),
        (2, "one.json --at-least preference=supervisd"),
        (2, "one.json --at-least preference=1 --tolerance -1"),
        (2, "one.json --at-least preference=1 --tolerance nan"),
        (2, "one.json --at-least preference=1 --tolerance 1"),
        (2, "one.json --at-least preference=1 --tolerance 1sds"),
        (2, "one.json --at-least sentiment=94"),
        (2, "one.json --at-least preference=0.6"),
        (2, "one.json --at-least naturalness=101"),
        (2, "one.json --baseline one.json"),
        (2, "one.json --baseline one.json --tolerance 2sd"),
        (2, "none.jsonl --task imdb --at-least prefrence=1"),
        (2, "none.jsonl --task imdb --at-least preference=supervisd"),
        (3, "one.json --baseline version.json"),
        (3, "one.json --baseline ."),
        (3, "one.json --baseline none.json"),
        (3, "one.json --at-least preference=1 --task totto"),
        (3, "one.json --at-least preference=1 --suite grue"),
        (3, "reward.json --at-least preference=1"),
        (3, "limited.json --at-least preference=1"),
        (3, "part.json --at-least preference=1"),
        (3, "split.json --at-least preference=1"),
        (3, "version.json --at-least preference=1"),
        (3, "failed.json --at-least preference=1"),
        (2, "axis.json --at-least preference=1"),
        (3, "none.json --at-least preference=1"),
        (2, "none.jsonl --at-least preference=1"),
        (2, "one.json --at-least preference=\x1b[31mrow"),
        (2, "one.json --at-least \x1b[31mfigure=1"),
        (2, "hostile.json --at-least preference=1"),
        (3, "hostile.json --task imdb --at-least preference=1"),
    ],
)
@pytest.mark.usefixtures("made")
def test_what_proves_nothing_is_refused(code, asked, refused):
    """With one message, in which untrusted text is escaped."""
    refused.command("tools", "check", *asked.split(), code=code)
