"""What every format shows of boards written out by hand, byte for byte; of a page its words and its numbers.

After a change that is meant, `PYTHONPATH=tests python tests/render/test_golden.py` writes the files again: read their difference.
"""

import json
import re
from contextlib import redirect_stdout
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import pytest
from support.boards import JOKES, STORIES
from support.factories import a_score, a_task, entries
from support.late import late
from support.page_boards import empty_board, marked_board, small_board, trained_board, unnatural_board
from support.render_boards import EMPTY, MINE, NLPO, NULL, PAPER, PPO, SUITE, TASK

from grue import __version__
from grue.leaderboard.rank import rank
from grue.render import as_json, html, latex, markdown
from grue.submissions.reported import Figure, ReportedColumn, ReportedRow, ReportedTable
from grue.tasks import MetricSpec

as_csv = late("grue.render.as_csv")
GOLDEN = Path(__file__).parent / "golden"


def variants():
    """Other boards, whose tables and legends differ from those of `BOARDS` in one way each."""

    def own(status):
        known = {"system": {"name": "zero-shot", "algorithm": "zero-shot"}, "preference": 1.0 + (status == "local")}
        return [
            replace(one, result=replace(one.result, **known)) for one in entries(STORIES, "zero-shot", {0: 1.0}, status)
        ]

    third = replace(NLPO, system="third", rank=3, task_ranks={"jokes": 3})
    notes = {"a": ("higher", "Same."), "b": ("higher", "Other."), "c": ("none", "Same.")}
    line = ReportedRow("PPO", "", "", {name: Figure(i) for i, name in enumerate(notes)})
    columns = tuple(ReportedColumn(name, *note) for name, note in notes.items())
    noted = replace(PAPER, tables=(ReportedTable("stories", "Table 9", "test", 1, "", columns, (line,)),))
    lower = a_task("edits", metrics=(MetricSpec("liked", "preference", range=(1.0, 0.0)),))
    below = (a_score("liked", -0.0001), a_score("fluent", 20.0, "naturalness", "lower"))
    ragged = entries(STORIES, "ppo", dict.fromkeys(range(7), 1.0)) + entries(JOKES, "ppo", {1: 2.0}, naturalness=None)
    return {
        "a-rank-that-nobody-shares": replace(SUITE, rows=(NLPO, PPO, third, MINE, NULL)),
        "references-alone": replace(SUITE, rows=(NULL,)),
        "references-alone-on-a-task": replace(TASK, rows=TASK.rows[-1:]),
        "references-of-both": rank([*own("local"), *own("rescored")], [STORIES]),
        "references-of-both-in-a-suite": rank([*own("local"), *own("rescored")], [STORIES, JOKES]),
        "own-references": rank(own("local"), [STORIES]),
        "nothing-to-compare": replace(SUITE, rows=(NLPO, MINE, NULL)),
        "without-iqm": replace(SUITE, rows=tuple(replace(row, iqm=None) for row in SUITE.rows)),
        "iqm-on-a-task": replace(TASK, rows=tuple(replace(row, iqm=51.25) for row in TASK.rows)),
        "other-level": replace(SUITE, level=0.9),
        "lower-is-better": rank(entries(lower, "a", {1: 1.0}, naturalness=None), [lower]),
        "no-results": rank([], [STORIES]),
        "no-results-on-ones-own-task": rank([], [a_task("scenes", suite="own")]),
        "all-left-out": rank(entries(STORIES, "old", {1: 10.0}, task_hash="0"), [STORIES]),
        "without-naturalness": rank(entries(JOKES, "ppo", {1: 30.0}, naturalness=None), [JOKES]),
        "unequal-seeds": rank(ragged, [STORIES, JOKES]),
        "no-minus-zero": rank(entries(STORIES, "ppo", {1: 40.0}, scores=below), [STORIES]),
        "papers-alone": EMPTY,
        "papers-of-another-task": replace(TASK, tasks=SUITE.tasks[:1], rows=()),
        "one-footnote-for-several": replace(TASK, reported=(noted,)),
    }


def terminal(board):
    """What a terminal of 80 columns shows."""
    from grue.cli.board import _print_tables

    with patch.dict("os.environ", {"COLUMNS": "80", "TERM": "dumb"}), redirect_stdout(StringIO()) as shown:
        _print_tables(board)
    return shown.getvalue()


class Words(HTMLParser):
    """The words of a page: a line for each block and for each row of a table, its marks and shades included."""

    def __init__(self, text):
        super().__init__()
        self.lines, self.skipped = [""], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.skipped = tag in ("style", "script")
        if tag in ("td", "th"):
            self.lines[-1] += " | "
            self.lines[-1] += "".join(f"[{of}] " for key, of in attributes if key == "class" and of)
        elif tag in ("tr", "p", "h1", "h2", "h3", "h4", "li", "dt", "dd", "section", "table", "text"):
            self.lines.append("")

    def handle_endtag(self, tag):
        self.skipped = False

    def handle_data(self, data):
        if not self.skipped:
            self.lines[-1] += data


def page(board):
    """The words of a board's page, and the numbers that its script is given."""
    text = html.render(board)
    words = (re.sub(r"\s+", " ", line).strip() for line in Words(text).lines)
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])
    numbers = []
    for key, of in data.items():
        rows = of if isinstance(of, list) and of and isinstance(of[0], dict | list) else [of]
        numbers += [f"{key}: {json.dumps(row)}" for row in rows]
    return "\n".join([*filter(None, words), *numbers, ""]).replace(f"grue {__version__}", "grue VERSION")


FORMATS = {
    **{"md": markdown.render, "csv": lambda board: as_csv.render(board), "tex": latex.render, "json": as_json.render},
    **{"txt": terminal, "page": page},
}
BOARDS = {"overview": SUITE, "task": TASK, "marked": marked_board()}
VARIANTS = variants()
PAGES = {"small": small_board(), "trained": trained_board(), "empty": empty_board(), "unnatural": unnatural_board()}
FILES = [
    *((name, "md") for name in VARIANTS),
    *((name, form) for name in BOARDS for form in FORMATS if form != "page"),
    *((name, "page") for name in (*PAGES, "marked")),
]


@pytest.mark.parametrize(("name", "form"), FILES)
def test_the_bytes_are_those_of_the_file(name, form):
    golden = (GOLDEN / f"{name}.{form}").read_bytes().decode("utf-8")
    assert FORMATS[form]((BOARDS | PAGES | VARIANTS)[name]) == golden


if __name__ == "__main__":
    for name, form in FILES:
        (GOLDEN / f"{name}.{form}").write_bytes(FORMATS[form]((BOARDS | PAGES | VARIANTS)[name]).encode("utf-8"))
