"""`grue tools check`: a threshold or a row of the board, for results and for predictions."""

import gzip
import json
import re
import shutil
from xml.etree import ElementTree

import pytest
import yaml
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
    "version": STATED[0] | {"task_hash": "0"},
    "axis": STATED[0] | {"preference": None},
    "hostile": STATED[0] | {"suite": "\x1b[31m", "task": "\x1b]0;x\x07"},
}


@pytest.fixture
def scenes(tmp_path, monkeypatch):
    """A task of twelve rows in the working directory, and predictions of which so many are right: 3.jsonl, 9.jsonl."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenes.toml").write_text(OWN_TASK.format(metric="rougeL"))
    rows = [{"id": str(n), "prompt": "say", "references": [f"a cat number{n}"]} for n in range(12)]
    files.write_jsonl(tmp_path / "rows.jsonl", rows)
    for right in (3, 6, 9):
        texts = [row["references"][0] if n < right else "x" for n, row in enumerate(rows)]
        lines = [{"id": row["id"], "text": text} for row, text in zip(rows, texts, strict=True)]
        files.write_jsonl(tmp_path / f"{right}.jsonl", lines)
    return tmp_path


def scored(*asked, code=0, **more):
    """Check predictions of that task."""
    return grue("tools", "check", "--task", "scenes.toml", *asked, code=code, **more)


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


def test_predictions_are_scored_again(scenes, refused):
    """Six of twelve texts are the reference: ROUGE-L 1/2; one of three times three words is wrong: TER 50."""
    ter = '}, { name = "ter", axis = "preference", range = [100, 0] }]'
    (scenes / "scenes.toml").write_text(OWN_TASK.format(metric="rougeL").replace("}]", ter, 1))
    bars = "--at-least rougeL=0.5 --at-least rougeL=0.51 --at-most ter=50 --at-most ter=49.9".split()
    found = json.loads(scored("6.jsonl", *bars, "--json", code=1).stdout)
    assert [one["passed"] for one in found] == [True, False, True, False]
    refused.command("tools", "check", "6.jsonl", "--task", "scenes.toml", "--at-least", "rougeL=supervised", code=3)


def test_a_baseline_stops_what_is_significantly_worse(scenes):
    """Results with their texts, and the other way round; JUnit and Markdown say the same."""
    for system in ("copy", "oracle"):
        grue("evaluate", f"baseline:{system}", "--task", "scenes.toml")
    copy, oracle = (f"runs/own/scenes/{system}" for system in ("copy", "oracle"))
    asked = ("tools", "check", "--task", "scenes.toml", "--junit", "j.xml", "--markdown", "m.md")
    worse = grue(*asked, copy, "--baseline", oracle, code=1).stdout.splitlines()
    assert worse[0] == "own/scenes, 1 file"
    assert re.match(r"FAIL preference 0, significantly below the baseline's 100 \(difference -100", worse[1])
    better = grue(*asked, oracle, "--baseline", copy).stdout
    assert "ok   preference 100, at least the baseline's 0" in better
    assert "One seed in FILE and in --baseline: " in better
    suite = ElementTree.parse(scenes / "j.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")
    assert (scenes / "m.md").read_text().startswith("### grue: All 1 checks passed\n\n|")


def test_a_tolerance_is_of_the_baselines_seeds():
    start, ppo = MINI / "supervised/imdb/seed-1.result.json", MINI / "supervised+ppo"
    by_sd = ("tools", "check", start, "--baseline", ppo, "--task", "imdb", "--tolerance")
    alone = STATED[0]["preference"]
    assert f"FAIL preference {alone:.4g}, below the required" in grue(*by_sd, "2sd", code=1).stdout
    grue(*by_sd, f"{ROW - alone + 1:.0f}")


def test_predictions_from_standard_input_are_tested_by_examples(scenes):
    """Three texts right of twelve against nine is a significant loss; against the same, none."""
    given = (scenes / "3.jsonl").read_text()
    for baseline, code, said in (
        ("9.jsonl", 1, "FAIL preference 25, significantly below the baseline's 75 "),
        ("3.jsonl", 0, "ok   preference 25, at least the baseline's 25 "),
    ):
        command = ["tools", "check", "-", "--task", "scenes.toml", "--baseline", baseline]
        done = CliRunner().invoke(main, command, input=given)
        assert done.exit_code == code and said in done.stdout


@pytest.mark.usefixtures("scenes")
def test_several_baselines_or_a_folder_of_predictions_are_seeds(tmp_path):
    two = printed_json(
        "tools", "check", "9.jsonl", "--task", "scenes.toml", "--baseline", "3.jsonl", "--baseline", "6.jsonl"
    )
    assert two[0]["limit"] == pytest.approx(100 * (3 + 6) / 24)
    (tmp_path / "last").mkdir()
    for name in ("3.jsonl", "6.jsonl"):
        (tmp_path / name).rename(tmp_path / "last" / name)
    of_folder = printed_json("tools", "check", "9.jsonl", "--task", "scenes.toml", "--baseline", "last")
    assert [{**one, "bar": None} for one in of_folder] == [{**one, "bar": None} for one in two]
    assert "One seed in FILE: " in scored("9.jsonl", "--baseline", "last").stdout
    assert "own/scenes, 2 files" in scored("last", "--at-least", "rougeL=0.3").stdout


@pytest.mark.usefixtures("scenes", "made")
def test_a_baseline_or_a_seed_that_is_a_copy_is_said(tmp_path):
    shutil.copy(tmp_path / "9.jsonl", tmp_path / "copy.jsonl")
    for baseline in ("9.jsonl", "copy.jsonl"):
        same = scored("9.jsonl", "--baseline", baseline, "--markdown", "m.md")
        assert f"Warning: {baseline}, the baseline, holds the same as 9.jsonl: was it overwritten?" in same.stderr
        assert "**warning**" in (tmp_path / "m.md").read_text()
    seeds = scored("9.jsonl", "copy.jsonl", "--at-least", "preference=70").stderr
    assert "Warning: copy.jsonl holds the same as 9.jsonl: a copy is no further seed." in seeds
    assert "Warning" not in scored("9.jsonl", "--baseline", "6.jsonl", "--baseline", "3.jsonl").stderr
    results = grue("tools", "check", "one.json", "--baseline", "twin.json", "--tolerance", "2").stderr
    assert "Warning: twin.json, the baseline, holds the same as one.json" in results


@pytest.mark.usefixtures("scenes")
def test_an_error_takes_the_place_of_the_verdicts_in_reports(tmp_path):
    """Or yesterday's success would be shown for today's failure to check."""
    asked = ("--junit", "j.xml", "--markdown", "m.md", "--at-least")
    scored("9.jsonl", *asked, "rougeL=0.7")
    for code, file, *bar in (
        (3, "none.jsonl", "rougeL=0.7"),
        (2, "9.jsonl", "rougeL=70"),
        (2, "9.jsonl", "rougeL"),
        (2, "-", "rougeL=0.7", "--baseline", "-"),
    ):
        said = scored(file, *asked, *bar, code=code).stderr.removeprefix("Error: ").rstrip()
        suite = ElementTree.parse(tmp_path / "j.xml").getroot()
        assert [suite.get(name) for name in ("tests", "failures", "errors")] == ["1", "0", "1"]
        assert suite.find("testcase/error").get("message") == said
        shown = (tmp_path / "m.md").read_text()
        assert shown.startswith("### grue: Nothing was checked\n") and "**ERROR**" in shown and "ok" not in shown


@pytest.mark.usefixtures("scenes")
def test_what_cannot_be_used_is_found_before_anything_is_scored(tmp_path, monkeypatch):
    monkeypatch.setattr("grue.api.score.score", lambda *given, **more: pytest.fail("scored"))
    (tmp_path / "part.jsonl").write_text('{"id": "0", "text": "x"}\n')
    (tmp_path / "bad.jsonl").write_text('{"id": "0", "txt": "x"}\n')
    for baseline, said in (
        ("none.jsonl", "cannot be read"),
        ("part.jsonl", "part.jsonl: The predictions do not fit"),
        ("bad.jsonl", "bad.jsonl, line 1"),
    ):
        assert said in scored("9.jsonl", "--baseline", baseline, code=3).stderr


def test_predictions_that_do_not_fit_beside_a_result_are_no_missed_bar(tmp_path):
    for n in (1, 2):
        for end in ("result.json", "predictions.jsonl.gz"):
            shutil.copy(MINI / f"supervised/imdb/seed-{n}.{end}", tmp_path)
    with gzip.open(tmp_path / "seed-2.predictions.jsonl.gz", "wt") as file:
        file.write('{"id": "0", "text": "x"}\n')
    asked = ("tools", "check", tmp_path / "seed-1.result.json", "--baseline", tmp_path / "seed-2.result.json")
    assert "seed-2.predictions.jsonl.gz: The predictions do not fit" in grue(*asked, code=3).stderr


def test_p_is_said_beside_what_holms_correction_makes_of_it():
    ppo = MINI / "supervised+ppo/imdb/seed-1.result.json"
    low, high = sorted(printed_json("tools", "check", ppo, "--baseline", SEEDS[0], code=None), key=lambda one: one["p"])
    assert low["p_holm"] == min(1, 2 * low["p"]) and high["p_holm"] == max(high["p"], low["p_holm"])


def test_an_axis_that_a_result_lacks_is_tested_from_its_predictions(tmp_path):
    for system in ("supervised", "supervised+ppo"):
        made = files.read_json(MINI / f"{system}/commongen/seed-1.result.json")
        scores = [score for score in made["scores"] if score["axis"] != "naturalness"]
        unscored = made | {"scores": scores, "naturalness": None, "errors": ["spice_lite: has no data here"]}
        files.write_json(tmp_path / f"{system}/seed-1.result.json", unscored)
        shutil.copy(MINI / f"{system}/commongen/seed-1.predictions.jsonl.gz", tmp_path / system)
    asked = [tmp_path / f"{system}/seed-1.result.json" for system in ("supervised+ppo", "supervised")]
    _, natural = printed_json("tools", "check", asked[0], "--baseline", asked[1])
    assert natural["bar"]["figure"] == "naturalness" and natural["spread"] == [natural["value"]] * 2
    told = grue("tools", "check", asked[0], "--baseline", asked[1], "--tolerance", "1").stderr
    assert "supervised/seed-1.result.json: has no naturalness on commongen, which is not checked." in told


def test_the_shortest_task_file_of_the_page_is_enough(tmp_path, monkeypatch):
    page = (ROOT / "docs/how-to/check.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "summaries.toml").write_text(page.partition("```toml\n")[2].partition("```")[0])
    rows = [{"id": str(n), "prompt": "say", "references": ["a cat"]} for n in range(2)]
    files.write_jsonl(tmp_path / "test.jsonl", rows)
    for name, text in (("tonight", "a cat"), ("last", "a dog")):
        files.write_jsonl(tmp_path / f"{name}.jsonl", [{"id": row["id"], "text": text} for row in rows])
    (command,) = re.findall(r"^grue (.* --task summaries\.toml .*)$", page, re.MULTILINE)
    assert "ok   rougeL 1, at least the required 0.25" in grue(*command.split()).stdout
    nightly = yaml.safe_load(page.rpartition("```yaml\n")[2].partition("```")[0])["jobs"]["outputs"]["steps"]
    action = yaml.safe_load((ROOT / ".github/actions/grue-check/action.yml").read_text(encoding="utf-8"))
    (asked,) = [step["with"] for step in nightly if step.get("uses", "").startswith("OWNER")]
    assert {*asked} <= {*action["inputs"]}


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
        (2, "one.json --at-least preference=60%"),
        (2, "one.json --at-least preference=supervised --tolerance 95"),
        (2, "- --task imdb --baseline -"),
        (2, "one.json --at-least preference=1 --junit one.json"),
        (2, "one.json --at-least preference=1 --markdown -"),
        (2, "one.json --at-least perplexity:bounded=1"),
        (2, "one.json --at-least prefrence=1"),
        (2, "one.json --at-least preference=1 --tolerance nan"),
        (2, "one.json --at-least preference=1 --tolerance 1"),
        (2, "one.json --at-least asked_sentiment=94"),
        (2, "one.json --at-least preference=0.6"),
        (2, "one.json --baseline one.json"),
        (3, "one.json --baseline version.json"),
        (3, "one.json --at-least preference=1 --task totto"),
        (3, "reward.json --at-least preference=1"),
        (3, "limited.json --at-least preference=1"),
        (3, "part.json --at-least preference=1"),
        (2, "axis.json --at-least preference=1"),
        (3, "none.json --at-least preference=1"),
        (2, "none.jsonl --at-least preference=1"),
        (2, "one.json --at-least preference=\x1b[31mrow"),
        (2, "hostile.json --at-least preference=1"),
        (3, "hostile.json --task imdb --at-least preference=1"),
    ],
)
@pytest.mark.usefixtures("made")
def test_what_proves_nothing_is_refused(code, asked, refused):
    """With one message, in which untrusted text is escaped."""
    refused.command("tools", "check", *asked.split(), code=code)
