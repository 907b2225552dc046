"""What is in no golden file: tables cut to a terminal, equal bytes, every digit of JSON, what LaTeX needs, files of examples."""

import json
import math
import random
import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from support import render_boards
from support.boards import JOKES, STORIES, five
from support.examples import HOSTILE_TEXTS, some_examples
from support.factories import entries
from support.hostile_names import NAMES, with_names
from support.late import late
from support.render_boards import EMPTY, NLPO, SUITE, TASK

from grue.leaderboard.board import Estimate
from grue.leaderboard.rank import rank
from grue.render import as_examples, as_json, latex, markdown
from grue.render.as_examples import MOST_BYTES, MOST_CHARACTERS
from grue.render.layout import Series, TextTable, narrow

as_csv = late("grue.render.as_csv")


def test_a_wide_table_is_cut_to_the_width_of_a_terminal():
    row = ("1", "ppo", "a", "b", "c" * 30, "d")
    columns = [Series(f"column {n}", (cell,), frozenset({0} if n in (1, 4) else ())) for n, cell in enumerate(row)]
    wide = TextTable("Title", tuple(columns), ("note",))
    whole = 1 + 5 * (len("column 0") + 3) + (30 + 3)
    assert narrow(wide, whole) == [wide]
    first, second, third = narrow(wide, 45)
    assert (first.title, first.rows) == ("Title", [("1", "ppo", "a", "b")])
    assert (second.title, second.rows) == ("", [("1", "ppo", "c" * 30)])  # too wide alone, and still shown
    assert ([column.header for column in third.columns], third.rows) == (
        ["column 0", "column 1", "column 5"],
        [("1", "ppo", "d")],
    )
    strong = [[n for n, column in enumerate(part.columns) if column.strong] for part in (first, second, third)]
    assert strong == [[1], [1, 2], [1]]
    assert [part.lines for part in (first, second, third)] == [(), (), ("note",)]
    assert [len(part.columns) for part in narrow(wide, whole - 1)] == [5, 3]


@pytest.mark.parametrize("form", ["as_csv", "as_json", "latex", "markdown"])
def test_equal_input_gives_equal_bytes_in_whatever_order_and_nothing_trails(form):
    render = {"as_csv": as_csv, "as_json": as_json, "latex": latex, "markdown": markdown}[form].render
    found = entries(STORIES, "ppo", five(42.0), "rescored") + entries(STORIES, "mine", {1: 41.0})
    found += entries(JOKES, "ppo", five(22.0), "rescored", naturalness=None)
    whole = render(rank(found, [STORIES, JOKES]))
    random.Random(1).shuffle(found)
    assert render(rank(found, [JOKES, STORIES])) == whole
    for text in (whole, *map(render, (SUITE, TASK, EMPTY))):
        assert text.endswith("\n") and not text.endswith("\n\n") and "\r" not in text
        assert not [line for line in text.split("\n") if line.endswith(" ")]


def test_json_has_every_digit_and_never_says_what_it_cannot_say():
    value = 0.1 + 0.2
    cell = replace(NLPO.cells["jokes"], preference=Estimate(value, 1e-17, {1: value}))
    data = json.loads(as_json.render(replace(SUITE, rows=(replace(NLPO, cells={"jokes": cell}),))))
    found = data["rows"][0]["cells"]["jokes"]["preference"]
    assert found == {"mean": 0.30000000000000004, "sd": 1e-17, "by_seed": {"1": 0.30000000000000004}}
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_json.render(replace(SUITE, rows=(replace(NLPO, preference=math.nan),)))


def test_a_frame_has_missing_values_where_nothing_is_known():
    frame = as_csv.frame(SUITE)
    kinds = {"rank": "Int64", "seed": "int64", "failed": "bool", "value": "float64"}
    assert {name: str(kind) for name, kind in frame.dtypes.items() if name in kinds} == kinds
    mine = frame[frame.system == "mine"]
    assert mine["rank"].isna().all() and mine.loc[mine.metric == "words", "scaled"].isna().all()
    assert mine.loc[mine.metric == "fluent", "scaled"].tolist() == [pytest.approx(100 * 20 / 222.2)]
    assert as_csv.render(EMPTY) == ",".join(as_csv.COLUMNS) + "\n" and as_csv.frame(EMPTY).shape == (0, 20)


def test_a_table_too_wide_for_a_page_is_cut_and_labels_differ():
    assert len(set(re.findall(r"\\label\{(.*)\}", latex.render(SUITE)))) == 5
    tasks = tuple(replace(render_boards.STORIES, name=f"a_task_with_a_name_{n}") for n in range(7))
    cells = {task.name: NLPO.cells["stories"] for task in tasks}
    board = replace(SUITE, tasks=tasks, rows=(replace(NLPO, cells=cells, task_ranks={}),), reported=())
    preference = next(block for block in latex.render(board).split("\n\n") if r"\label{tab:grue-mini-2}" in block)
    assert preference.count(r"\begin{tabular}") == 2
    assert preference.count(r"\begin{table*}") == preference.count(r"\caption{") == 1


def read(text):
    """What the page is given: the argument of the call."""
    assert text.startswith("grueExamples(") and text.endswith(");\n")
    return json.loads(text.removeprefix("grueExamples(").removesuffix(");\n"))


def test_a_file_is_one_call_with_all_that_the_page_shows():
    data = read(as_examples.render(some_examples()))
    assert {key: data[key] for key in ("suite", "task", "split", "of", "metrics")} == {
        "suite": "mini", "task": "stories", "split": "test", "of": 1000, "metrics": ["meteor"],
    }  # fmt: skip
    assert data["systems"][0] == {"name": "nlpo", "seed": 1}
    assert data["examples"][0] == {
        "id": "stories-0", "drawn": True, "difference": 0.25, "prompt": "Tell story 0.",
        "references": ["A tale of 0.", "Another."], "outputs": [["nlpo wrote 0", 0, 0.13], ["ppo wrote 0", 1, 0.5], None],
    }  # fmt: skip
    assert as_examples.render(some_examples()) == as_examples.render(some_examples())


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_a_text_can_neither_end_a_script_nor_turn_what_is_read(text):
    written = as_examples.render(some_examples(text))
    inside = written.removeprefix("grueExamples(").removesuffix(");\n")
    assert not set("<>&\u2028\u2029\u202e\u200f\x00\x1b") & set(inside)
    assert all(line.startswith("{") or line == "]}" for line in inside.split("\n")[1:])
    shown = read(written)["examples"][0]
    assert shown["prompt"] == shown["references"][0] == shown["outputs"][0][0]
    kept = text.translate({ord(sign): "�" for sign in "\u2028\u2029\u202e\u200f\x00\x1b"}).replace("\t", " ")
    assert shown["prompt"] == (kept if len(text) <= MOST_CHARACTERS else [kept[:MOST_CHARACTERS], len(text)])


def test_joiners_that_show_are_kept():
    text = "می\u200cروم, Grund\u00adgesetz"
    shown = read(as_examples.render(some_examples(text)))["examples"][0]
    assert shown["outputs"][0][0] == text
    assert as_examples.printable_lines("a\u200cb \u00ad") == "a�b �"


def test_a_file_of_long_texts_holds_fewer_examples():
    crowd = some_examples("ä" * 1900)
    crowd = replace(crowd, examples=crowd.examples[:1] * 400)
    written = as_examples.render(crowd)
    shown = read(written)["examples"]
    assert len(written.encode()) <= MOST_BYTES and 20 < len(shown) < 400


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed: texlive-latex-recommended")
def test_latex_compiles_them_all(tmp_path):
    boards = [SUITE, TASK, EMPTY, *(board for name in NAMES for board in with_names(name))]
    for number, board in enumerate(boards):
        (tmp_path / f"{number}.tex").write_text(latex.render(board), encoding="utf-8")
    inputs = "\n".join(f"\\input{{{number}.tex}}\\clearpage" for number in range(len(boards)))
    head = "\\documentclass[twocolumn]{article}\n\\usepackage{booktabs}\n\\begin{document}\n"
    (tmp_path / "all.tex").write_text(f"{head}{inputs}\n\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
