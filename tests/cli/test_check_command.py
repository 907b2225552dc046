"""`grue check`: a threshold or a row of the board, for results and for predictions."""

import json
import shutil
from pathlib import Path

from click.testing import CliRunner
from support.paths import ROOT

from grue.cli.main import main

SEEDS = [ROOT / f"submissions/mini/supervised/imdb/seed-{n}.result.json" for n in (1, 2, 3)]
STATED = [json.loads(path.read_text(encoding="utf-8")) for path in SEEDS]
MEAN = sum(one["preference"] for one in STATED) / 3
ROW = json.loads((ROOT / "leaderboard/mini.json").read_text(encoding="utf-8"))
(OF_ROW,) = [row["cells"]["imdb"] for row in ROW["rows"] if row["system"] == "supervised+ppo"]


def grue_check(*arguments: object):
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


def changed(path: Path, **changes: object) -> Path:
    path.write_text(json.dumps(STATED[0] | changes), encoding="utf-8")
    return path


def test_the_mean_over_files_is_held_against_a_number():
    below, above = f"preference={MEAN - 0.001}", f"preference={MEAN + 0.001}"
    assert grue_check(*SEEDS, "--at-least", below).exit_code == 0
    failed = grue_check(*SEEDS, "--at-least", below, "--at-least", above)
    assert failed.exit_code == 1
    assert [line[:4] for line in failed.output.splitlines()] == ["mini", "ok  ", "FAIL"]


def test_a_row_of_the_board_is_a_threshold_with_a_tolerance():
    row = OF_ROW["preference"]["mean"]
    behind = row - MEAN
    assert behind > 0
    asked = (*SEEDS, "--at-least", "preference=supervised+ppo", "--tolerance")
    assert grue_check(*asked, behind - 0.01).exit_code == 1
    assert grue_check(*asked, behind + 0.01).exit_code == 0
    assert f"supervised+ppo on the board: {row:.4g}, seeds: 5" in grue_check(*asked, 0).output


def test_a_run_counts_once_and_a_folder_is_named(tmp_path):
    mixed = grue_check(SEEDS[0], tmp_path / "predictions.jsonl", "--at-least", "preference=1")
    assert mixed.exit_code == 2 and "a run's predictions would count as another seed" in mixed.output
    folder = grue_check(tmp_path, "--at-least", "preference=1")
    assert folder.exit_code == 2 and "is a folder; name its result.json" in folder.output


TASK = """
reward = "rougeL"
metrics = [{ name = "rougeL", axis = "preference", range = [0, 1] }, { name = "ter", axis = "preference", range = [100, 0] }]
[data]
sources = [{ kind = "local", files = { train = "rows.jsonl", validation = "rows.jsonl", test = "rows.jsonl" } }]
[backbone]
family = "causal"
model = "mini:causal"
"""


def test_predictions_are_scored_again(tmp_path):
    """Two of three texts are the reference: ROUGE-L 2/3; one of three times three words is wrong: TER 100/3."""
    (tmp_path / "scenes.toml").write_text(TASK)
    rows = [{"id": str(n), "prompt": "say", "references": [f"a cat number{n}"]} for n in range(3)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    texts = [{"id": row["id"], "text": "x y z" if row["id"] == "0" else row["references"][0]} for row in rows]
    predictions = tmp_path / "predictions.jsonl"
    predictions.write_text("".join(json.dumps(text) + "\n" for text in texts))
    asked = (
        "--at-least",
        "rougeL=0.6666",
        "--at-least",
        "rougeL=0.6667",
        "--at-most",
        "ter=33.4",
        "--at-most",
        "ter=33.3",
    )
    done = grue_check(predictions, "--task", tmp_path / "scenes.toml", *asked, "--json")
    assert (done.exit_code, [one["passed"] for one in json.loads(done.output)]) == (1, [True, False, True, False])
    row = grue_check(predictions, "--task", tmp_path / "scenes.toml", "--at-least", "rougeL=supervised")
    assert row.exit_code == 3 and "no board that ships" in row.output


def test_predictions_that_cannot_be_used_are_no_missed_bar(tmp_path):
    """Exit code 1 says that a bar is missed; a part of the split, nothing and another task's answers say nothing."""
    for text, message in [
        ('{"id": "0", "text": "x"}\n', "do not fit the 1000 examples"),
        ("", "1000 missing"),
        ('{"id": "0", "txt": "x"}\n', "line 1"),
    ]:
        path = tmp_path / "predictions.jsonl"
        path.write_text(text)
        done = grue_check(path, "--task", "imdb", "--at-least", "preference=1")
        assert done.exit_code == 3 and done.output.startswith(f"Error: {path}") and message in done.output


def test_the_suite_of_the_environment_is_for_predictions(monkeypatch):
    """The action sets GRUE_SUITE to mini where nobody names one; another one is meant."""
    monkeypatch.setenv("GRUE_SUITE", "mini")
    assert grue_check(SEEDS[0], "--at-least", "preference=1").exit_code == 0
    monkeypatch.setenv("GRUE_SUITE", "grue")
    done = grue_check(SEEDS[0], "--at-least", "preference=1")
    assert done.exit_code == 3 and "not of grue/imdb" in done.output


def reward_model(path: Path) -> Path:
    """Write what `grue reward train` writes beside its weights, as far as it counts here."""
    path.write_text(json.dumps({"grue": "reward model", "schema": 1, "suite": "mini", "task": "imdb", "judge": "x"}))
    return path


def test_what_proves_nothing_is_refused(tmp_path):
    """One message and no traceback, and never exit code 0."""
    one = SEEDS[0]
    twin = tmp_path / "twin.json"
    shutil.copy(one, twin)
    other = ROOT / "submissions/mini/supervised+ppo/imdb/seed-2.result.json"
    asked = ("--at-least", "preference=1")
    part = STATED[0]["data"] | {"examples": 3, "ids_sha256": "0" * 64}
    for arguments, code, message in [
        ((one,), 2, "Nothing to check"),
        ((one, one, *asked), 2, "named twice"),
        ((one, twin, *asked), 2, "a seed counts once"),
        ((one, other, *asked), 2, "of another system"),
        ((one, "--at-least", "preference"), 2, "write FIGURE=VALUE"),
        ((one, "--at-least", "preference=nan"), 2, "finite number"),
        ((one, "--at-least", "preference=-inf"), 2, "finite number"),
        ((one, "--at-least", "perplexity:bounded=1"), 2, "use --at-most perplexity:bounded=1"),
        ((one, "--at-most", "preference=99"), 2, "use --at-least preference=99"),
        ((one, "--at-least", "prefrence=1"), 2, "Did you mean 'preference'?"),
        ((one, "--at-least", "preference=supervisd"), 2, "Did you mean 'supervised'?"),
        ((one, *asked, "--tolerance", "-1"), 2, "--tolerance -1.0"),
        ((one, *asked, "--tolerance", "nan"), 2, "must be a finite number, found nan"),
        ((one, *asked, "--tolerance", "1"), 2, "no bar names a row"),
        ((one, "--task", "totto", *asked), 3, "not of mini/totto"),
        ((one, "--suite", "grue", *asked), 3, "of mini/imdb, not of grue/imdb"),
        ((reward_model(tmp_path / "reward.json"), *asked), 3, "reward.json: not a result.json that `grue evaluate` "),
        ((changed(tmp_path / "limited.json", limited=True), *asked), 3, "evaluate the whole split"),
        ((changed(tmp_path / "part.json", data=part), *asked), 3, "made on other examples than the task's"),
        ((changed(tmp_path / "split.json", split="validation"), *asked), 3, "evaluate the whole split"),
        ((changed(tmp_path / "version.json", task_hash="0"), *asked), 3, "another version"),
        ((changed(tmp_path / "failed.json", status="failed"), *asked), 3, "the run failed"),
        ((changed(tmp_path / "axis.json", preference=None), *asked), 2, "has no figure 'preference'"),
        ((tmp_path / "none.json", *asked), 3, "none.json"),
        ((tmp_path / "none.jsonl", *asked), 2, "need --task"),
    ]:
        done = grue_check(*arguments)
        assert (done.exit_code, done.exception.__class__) == (code, SystemExit), (arguments, done.output)
        assert message in done.output


def test_untrusted_text_is_escaped(tmp_path):
    hostile = changed(tmp_path / "hostile.json", suite="\x1b[31m", task="\x1b]0;x\x07")
    for arguments in [
        (SEEDS[0], "--at-least", "preference=\x1b[31mrow"),
        (SEEDS[0], "--at-least", "\x1b[31mfigure=1"),
        (hostile, "--at-least", "preference=1"),
        (hostile, "--task", "imdb", "--at-least", "preference=1"),
    ]:
        done = grue_check(*arguments)
        assert done.exit_code in (2, 3) and done.exception.__class__ is SystemExit
        assert "\x1b" not in done.output and "\x07" not in done.output
