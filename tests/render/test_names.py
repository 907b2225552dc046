"""Names that want to be more than names: markup, code, formulas, steering. In every format they are shown and no more."""

import csv
import io
import json
import re

import pytest
from support.hostile_names import NAMES, with_names
from support.late import late

from grue.render import as_json, latex, markdown
from grue.render.tables import page
from grue.render.text import printable

as_csv, markdown_it = late("grue.render.as_csv"), late("markdown_it")
BOARDS = with_names(*NAMES)
both = pytest.mark.parametrize("board", BOARDS, ids=["suite", "task"])


def hidden(text):
    """Characters that steer or cannot be seen, but for the end of a line."""
    return [c for c in text if c != "\n" and not c.isprintable()]


@both
def test_the_terminal_gets_nothing_that_steers_it(board):
    content = page(board)
    tables = (*content.tables, *content.reported)
    cells = [cell for table in tables for row in table.rows for cell in row]
    lines = (*content.legend, *content.notes, *content.sources, *(line for table in tables for line in table.lines))
    assert set(map(printable, NAMES)) <= set(cells)
    assert all(text.isprintable() for text in (*cells, *lines))


@both
def test_markdown_shows_a_name_as_it_is(board):
    text = markdown.render(board)
    assert hidden(text) == []
    parser = markdown_it.MarkdownIt("commonmark", {"linkify": False}).enable(["table", "strikethrough"])
    tokens = parser.parse(text)
    kinds = {child.type for token in tokens for child in token.children or ()}
    assert kinds <= {"text", "code_inline", "strong_open", "strong_close", "softbreak", "text_special"}
    assert not {token.type for token in tokens} & {"html_block", "fence", "code_block", "blockquote_open", "hr"}
    strong = {token.content for token in tokens if token.type == "inline" and re.search(r"(?<!\\)\*\*", token.content)}
    assert strong and all(re.fullmatch(r"\*\*[0-9.]+ ±  *[0-9.]+\*\*", mark) for mark in strong)
    inline = [tokens[i + 1] for i, token in enumerate(tokens) if token.type == "td_open"]
    shown = {"".join(child.content for child in token.children or ()) for token in inline}
    assert {printable(name).strip() for name in NAMES} <= shown
    # on GitHub no address becomes a link, and nothing mathematics
    assert not re.search(r"(?<!\\)www\.|https?://(?!example\.org/doe2020)|(?<!\\)\$", text.split("## As")[0])


@both
def test_csv_is_no_formula_and_json_gives_the_name_back(board):
    text = as_csv.render(board)
    assert hidden(text) == []
    lines = list(csv.reader(io.StringIO(text)))
    assert {len(line) for line in lines} == {len(as_csv.COLUMNS)}
    written = {printable(name) for name in (*NAMES, "nlpo", "ppo")}
    assert {line[4].removeprefix("'") for line in lines[1:]} <= written
    assert not [cell for line in lines for cell in line[:12] if re.match(r"[=+\-@\t\r＝＋－＠]", cell)]
    text = as_json.render(board)
    assert hidden(text) == [] and set(NAMES) <= {row["system"] for row in json.loads(text)["rows"]}


@both
def test_latex_stays_balanced_and_plain(board):
    text = latex.render(board)
    assert text.isascii() and hidden(text) == [] and latex_problems(text) == []


ALLOWED = {
    *("begin", "end", "centering", "footnotesize", "setlength", "tabcolsep", "toprule", "midrule", "bottomrule"),
    *("caption", "label", "textbf", "scriptsize", "pm", "phantom", "uparrow", "downarrow", "textsuperscript"),
    *("textendash", "textbackslash", "textasciicircum", "textasciitilde", "textless", "textgreater", "textbar"),
    *("textasciigrave", "char", "par", "medskip", "smallskip", "parbox", "linewidth", "L", "l", "times"),
}


def latex_problems(text):
    """What a strict reader finds: braces, environments, dollars, cells of a row, commands that are not ours."""
    lines = [line for line in text.split("\n") if not line.startswith("%")]
    body = re.sub(r"\\([\\{}$&#_%,\"'`^~.=])", lambda match: "\\\\" if match[1] == "\\" else " ", "\n".join(lines))
    problems = [f"command {name}" for name in re.findall(r"(?<!\\)\\([A-Za-z]+)", body) if name not in ALLOWED]
    problems += [f"left {sign}" for sign in re.findall(r"[%#~^\"]|(?<!\\)\\(?![A-Za-z\\])", body)]
    problems += ["dollars"] * (body.count("$") % 2)
    depth = 0
    for character in body:
        depth += (character == "{") - (character == "}")
        problems += ["brace"] * (depth < 0)
    opened = []
    for kind, environment in re.findall(r"\\(begin|end)\{([a-z*]+)\}", body):
        if kind == "begin":
            opened.append(environment)
        elif not opened or opened.pop() != environment:
            problems.append(f"end of {environment}")
    for form, rows in re.findall(r"\\begin\{tabular\}\{@\{\}([lr]+)@\{\}\}(.*?)\\end\{tabular\}", body, re.DOTALL):
        cells = [line.count("&") + 1 for line in rows.split("\n") if line.endswith(r"\\")]
        problems += [f"{count} cells for {form}" for count in cells if count != len(form)]
        problems += ["an argument of a line's end"] * bool(re.search(r"\\\\\s*[\[*]", rows))
    return problems + ["brace left open"] * (depth != 0) + opened


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("50 % of_all & #1 {x} $y$", r"50 \% of\_all \& \#1 \{x\} \$y\$"),
        ("\\a^b~c", r"\textbackslash{}a\textasciicircum{}b\textasciitilde{}c"),
        ("<a|b>", r"\textless{}a\textbar{}b\textgreater{}"),
        ("[0pt] *", "{[}0pt] {*}"),
        ("a--b ---", "a-{}-b -{}-{}-"),
        ("d''e ,,", "d'{}'e ,{},"),
        ('say "so" `x`', r"say {\char34}so{\char34} \textasciigrave{}x\textasciigrave{}"),
        ("Kianté Łódź e\u0301", r"Kiant\'{e} \L{}\'{o}d\'{z} \'{e}"),
        ("中 ﬁ 🎉", "{[}U+4E2D] {[}U+FB01] {[}U+1F389]"),
        ("3 ± 1 – ↑¹", r"3 $\pm$ 1 \textendash{} $\uparrow$\textsuperscript{1}"),
    ],
)
def test_latex_escapes(text, expected):
    assert latex.escape(text) == expected
