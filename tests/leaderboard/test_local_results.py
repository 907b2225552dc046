"""Local results that are broken: the board shows the others, and what asks for a broken one says so."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.factories import a_result

from grue import files
from grue.cli.main import main
from grue.records import Score
from grue.task_files import load_task

IMDB = load_task("imdb")


def write(runs: Path, system: str, seed: int, preference: float | None = 40.0) -> Path:
    path = runs / f"mini/imdb/{system}/seed-{seed}/result.json"
    files.write_json(path, a_result(IMDB, system, seed, preference))
    return path


def grue(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)), env={"COLUMNS": "200"})


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Six runs: two whole ones, a cut result, an empty one, one without preference, and a copy."""
    runs = tmp_path / "runs"
    (tmp_path / "submissions").mkdir()
    for seed in (1, 2):
        write(runs, "whole", seed)
    cut = write(runs, "cut", 1)
    cut.write_text(cut.read_text()[:100])
    write(runs, "empty", 1).write_text("")
    write(runs, "unscored", 1, None)
    files.write_json(runs / "mini/imdb/whole/seed-1-copy/result.json", a_result(IMDB, "whole", 1, 99.0))
    return tmp_path


def test_the_board_leaves_out_what_is_broken_and_says_so(broken: Path) -> None:
    places = ("--runs", broken / "runs", "--submissions", broken / "submissions")
    done = grue("leaderboard", "--task", "imdb", "--format", "markdown", *places)
    assert done.exit_code == 0, done.output
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert [name for name in ("whole", "cut", "empty", "unscored") if any(name in line for line in rows)] == ["whole"]
    assert "99.0" not in done.stdout
    for name in ("cut/seed-1", "empty/seed-1", "unscored/seed-1", "whole/seed-1-copy"):
        (note,) = [line for line in done.stdout.splitlines() if f"{name}/result.json" in line]
        assert "Left out: " in note and "remove the file." in note
    done = grue("leaderboard", "--task", "imdb", "--format", "json", *places, "--output", broken / "board.json")
    assert done.exit_code == 0, done.output
    notes = files.read_json(broken / "board.json")["notes"]
    assert sum("Left out: " in note for note in notes) == 4


@pytest.mark.parametrize("score", [-5.0, 100.5, 1e300])
def test_a_score_that_is_none_is_left_out(tmp_path: Path, score: float) -> None:
    write(tmp_path, "fine", 1)
    write(tmp_path, "odd", 1, score)
    done = grue("leaderboard", "--task", "imdb", "--format", "markdown", "--runs", tmp_path)
    assert done.exit_code == 0, done.output
    assert any(line.startswith("|") and " fine " in line for line in done.stdout.splitlines())
    assert not any(line.startswith("|") and " odd " in line for line in done.stdout.splitlines())
    told = f"odd/seed-1/result.json: preference: must be at least 0 and at most 100, found {score!r}."
    assert told in done.stdout


@pytest.mark.parametrize(
    ("metric", "value", "told"),
    [
        ("sentiment", 1e308, "value: must be 0–1, found 1e+308."),
        ("perplexity", 1e308, "value: must be at least -1e+15 and at most 1e+15, found 1e+308."),
        ("sentiment", 1.5, "value: must be 0–1, found 1.5."),
        ("rouge1", -0.5, "value: must be 0–1, found -0.5."),
    ],
)
def test_a_figure_beyond_its_scale_takes_no_board_down(tmp_path: Path, metric: str, value: float, told: str) -> None:
    odd = Score(metric, "none", value, None, 1000, "higher", "")
    for system in ("fine", "odd"):
        for seed in (1, 2):
            result = a_result(IMDB, system, seed, 40.0)
            files.write_json(
                tmp_path / f"mini/imdb/{system}/seed-{seed}/result.json",
                replace(result, scores=(*result.scores, odd)) if system == "odd" else result,
            )
    done = grue("leaderboard", "--task", "imdb", "--format", "markdown", "--runs", tmp_path)
    assert done.exit_code == 0, done.output
    assert any(line.startswith("|") and " fine " in line for line in done.stdout.splitlines())
    assert f"Left out: {tmp_path}/mini/imdb/odd/seed-1/result.json: scores: {metric}: {told} Evaluate" in done.stdout


def test_a_submission_that_cannot_be_read_takes_no_board_down(tmp_path: Path) -> None:
    for system in ("null", "copy"):
        shutil.copytree(Path("submissions/mini") / system, tmp_path / "submissions/mini" / system)
    bad = tmp_path / "submissions/mini/copy/imdb/seed-1.result.json"
    bad.write_text(re.sub(r'"value": [\d.]+', '"value": 1e308', bad.read_text()))
    places = ("--submissions", tmp_path / "submissions", "--runs", tmp_path)
    done = grue("leaderboard", "--format", "markdown", *places)
    assert done.exit_code == 0, done.output
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert any(" null " in row for row in rows) and not any(" copy " in row for row in rows)
    assert f"Left out: {bad}: scores: " in done.stdout
    assert f"See `grue submit check {tmp_path}/submissions/mini/copy`." in done.stdout
    refused = grue("compare", "copy", "null", *places)
    assert refused.exit_code == 3 and f"{bad}: scores: " in refused.stderr
    published = grue("leaderboard", "--publish", tmp_path / "out", "--submissions", tmp_path / "submissions")
    assert (
        published.exit_code == 3 and f"{bad}: scores: " in published.stderr
    )  # no row is left out of what is published


def test_a_picture_of_the_board_says_so_too(broken: Path) -> None:
    places = ("--runs", broken / "runs", "--submissions", broken / "submissions")
    done = grue("plot", "tradeoff", "--task", "imdb", *places, "-o", broken / "picture.svg")
    assert done.exit_code == 0, done.output
    assert sum(line.startswith("Left out: ") for line in done.stderr.splitlines()) == 4


def test_what_asks_for_a_broken_result_is_refused_and_nothing_else(broken: Path) -> None:
    places = ("--runs", broken / "runs", "--submissions", broken / "submissions")
    write(broken / "runs", "other", 1)
    for system, told in (
        ("cut", "cut/seed-1/result.json: not valid JSON"),
        ("whole", "seed-1-copy/result.json: claims"),
    ):
        refused = grue("compare", system, "other", *places)
        assert refused.exit_code == 3 and told in refused.stderr, refused.output
    fine = grue("compare", "other", "other", *places)  # as far as its predictions, which it lacks
    assert fine.exit_code == 3 and "predictions.jsonl" in fine.stderr and "cut" not in fine.stderr
    packed = grue("submit", "pack", broken / "runs/mini/imdb/cut", "--licence", "CC-BY-4.0", "-o", broken / "packed")
    assert packed.exit_code == 3 and "cut/seed-1/result.json: not valid JSON" in packed.stderr
