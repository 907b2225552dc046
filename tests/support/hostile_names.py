"""Names that want to be more than names, and boards that show them."""

from dataclasses import replace

from support.render_boards import NLPO, PAPER, PPO, SUITE, TASK

from grue.leaderboard.board import Board
from grue.submissions.reported import ReportedRow

NAMES = [
    "a|b||c",
    "<script>alert(1)</script>",
    "</script><!--<img src=x onerror=alert(1)>",
    "&lt;b&gt;&amp;",
    "[here](https://evil.example) ![](x) <https://evil.example>",
    "https://evil.example/x and www.evil.example",
    "**bold** _it_ __init__ ~~gone~~ `code` # no heading",
    "- no list",
    "\\input{/etc/passwd}",
    "\\end{tabular}\\write18{rm}",
    "100% $x^2$ {a}_b #1 ~ \\\\ \" '' ``",
    "[0pt] *",
    "--- ?` !`",
    '=HYPERLINK("https://evil.example")',
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1+1",
    "\r=1+1",
    "＝1+1",
    'quote " and, comma; semicolon',
    "line\nbreak\r\nand\u2028more\u0085",
    "\x1b[31mred\x1b]0;title\x07\x9b",
    "turned \u202e around \u2066\u200b\ufeff\u200d",
    "tag \U000e0041\U000e007f",
    "naïve Łódź 中文 ﬁ 🎉 é e\u0301",
    "",
]


def with_names(*names: str) -> list[Board]:
    """The boards of a suite and of a task in which systems, a paper's rows and notes have these names."""
    rows = tuple(ReportedRow(name, name, name, PAPER.tables[0].rows[1].figures) for name in names)
    paper = replace(PAPER, tables=(replace(PAPER.tables[0], rows=rows, note=" ".join(names)),))
    notes = tuple(f"stories: {name} (seed 5) failed." for name in names)
    return [
        replace(board, rows=(*(replace(first, system=name) for name in names), second), reported=(paper,), notes=notes)
        for board, first, second in ((SUITE, NLPO, PPO), (TASK, *TASK.rows[:2]))
    ]
