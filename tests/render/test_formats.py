"""What only one format has: what JSON gives back, the shape of CSV, what LaTeX needs to compile."""

import csv
import io
import json
import math
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from support.hostile_names import NAMES, with_name
from support.render_boards import EMPTY, NLPO, STORIES, SUITE, TASK

from grue.leaderboard.board import Board, Estimate
from grue.leaderboard.published import read_board
from grue.render import as_csv, as_json, latex

# --- JSON ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("board", [SUITE, TASK, EMPTY])
def test_a_board_comes_back_from_its_json(board: Board, tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    path.write_text(as_json.render(board), encoding="utf-8")
    assert read_board(path) == board


def test_json_has_every_digit() -> None:
    value = 0.1 + 0.2
    cell = replace(NLPO.cells["jokes"], preference=Estimate(value, 1e-17, {1: value}))
    data = json.loads(as_json.render(replace(SUITE, rows=(replace(NLPO, cells={"jokes": cell}),))))
    assert data["rows"][0]["cells"]["jokes"]["preference"] == {
        "mean": 0.30000000000000004,
        "sd": 1e-17,
        "by_seed": {"1": 0.30000000000000004},
    }


def test_json_never_says_what_it_cannot_say() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json.render(replace(SUITE, rows=(replace(NLPO, preference=math.nan),)))


# --- CSV -------------------------------------------------------------------------------------------------------------


def test_csv_has_a_line_for_each_seed_and_metric() -> None:
    lines = list(csv.DictReader(io.StringIO(as_csv.render(SUITE))))
    assert len(lines) == sum(
        len(estimate.by_seed)
        for row in SUITE.rows
        for cell in row.cells.values()
        for estimate in (cell.preference, cell.held_out, cell.naturalness, *cell.metrics.values())
        if estimate
    )
    found = [line for line in lines if (line["system"], line["metric"], line["seed"]) == ("ppo", "edits", "2")]
    assert found == [
        {
            **{"suite": "mini", "task": "stories", "task_version": "2", "task_hash": "cdcdcdcdcdcd"},
            **{"system": "ppo", "status": "rescored", "standing": "ranked", "rank": "1", "task_rank": "1"},
            "rank_test": "t over seeds, paired or Welch, Holm 5 %",
            **{"preset": "", "backbone": ""},
            **{"axis": "preference", "metric": "edits", "direction": "lower", "seed": "2", "failed": "False"},
            **{"trained_on": "False", "value": "39.5", "scaled": "60.5"},
        }
    ]


def test_a_frame_has_missing_values_where_nothing_is_known() -> None:
    frame = as_csv.frame(SUITE)
    assert {name: str(kind) for name, kind in frame.dtypes.items() if name in ("rank", "seed", "failed", "value")} == {
        **{"rank": "Int64", "seed": "int64", "failed": "bool", "value": "float64"}
    }
    mine = frame[frame.system == "mine"]
    assert mine["rank"].isna().all()
    assert mine.loc[mine.metric == "words", "scaled"].isna().all()
    perplexity = mine.loc[mine.metric == "fluent", "scaled"]
    assert perplexity.tolist() == [pytest.approx(100 * 20 / 222.2)]


def test_a_failed_seed_counts_on_the_axis_and_has_no_metric() -> None:
    frame = as_csv.frame(SUITE)
    failed = frame[frame.failed]
    assert failed[["system", "task", "metric", "seed", "value"]].to_numpy().tolist() == [
        ["ppo", "jokes", "preference", 5, 0.0]
    ]
    assert set(frame[(frame.system == "ppo") & (frame.task == "jokes") & (frame.metric == "liked")].seed) == {
        1,
        2,
        3,
        4,
    }


def test_the_paper_scales_no_metric() -> None:
    frame = as_csv.frame(replace(SUITE, scoring="paper"))
    axes = frame.metric.isin(["preference", "naturalness"])
    assert frame[~axes].scaled.isna().all()
    assert (frame[axes].scaled == frame[axes].value).all()


def test_an_empty_board_is_a_line_of_names() -> None:
    assert as_csv.render(EMPTY) == ",".join(as_csv.COLUMNS) + "\n"
    assert as_csv.frame(EMPTY).shape == (0, 20)


# --- LaTeX -----------------------------------------------------------------------------------------------------------


def test_a_caption_says_suite_scoring_and_interval() -> None:
    captions = re.findall(r"\\caption\{(.*)\}", latex.render(SUITE))
    assert captions[1].startswith(
        "GRUE leaderboard: suite mini: Preference by task. Preference and naturalness go from"
    )
    for part in (
        "(scoring grue-1)",
        r"the 95 \% interval over seeds (Student's t)",
        "Bold: no ranked system",
        "A rank is 1 +",
    ):
        assert part in captions[1]
    assert len(set(re.findall(r"\\label\{(.*)\}", latex.render(SUITE)))) == len(captions) == 5


def test_a_table_too_wide_for_a_page_is_cut() -> None:
    tasks = tuple(replace(STORIES, name=f"a_task_with_a_name_{n}") for n in range(7))
    cells = {task.name: NLPO.cells["stories"] for task in tasks}
    board = replace(SUITE, tasks=tasks, rows=(replace(NLPO, cells=cells, task_ranks={}),), reported=())
    preference = latex.render(board).split("\n\n")[2]
    assert preference.count(r"\begin{tabular}") == 2
    assert preference.count(r"\begin{table*}") == preference.count(r"\caption{") == 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed: texlive-latex-recommended")
def test_latex_compiles_them_all(tmp_path: Path) -> None:
    boards = [SUITE, TASK, EMPTY, *(board for name in NAMES for board in with_name(name))]
    for number, board in enumerate(boards):
        (tmp_path / f"{number}.tex").write_text(latex.render(board), encoding="utf-8")
    inputs = "\n".join(f"\\input{{{number}.tex}}\\clearpage" for number in range(len(boards)))
    whole = f"\\documentclass[twocolumn]{{article}}\n\\usepackage{{booktabs}}\n\\begin{{document}}\n{inputs}\n\\end{{document}}\n"
    (tmp_path / "all.tex").write_text(whole, encoding="utf-8")
    command = ["pdflatex", "-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
