"""Names that want to be more than names: markup, code, formulas, steering. In every format they are shown and no more."""

import csv
import io
import json
import re
import unicodedata
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt
from support.hostile_names import NAMES, with_name
from support.render_boards import SUITE

from grue.render import as_csv, as_json, html, latex, markdown
from grue.render.tables import page
from grue.render.text import printable


def hidden(text: str) -> list[str]:
    """Characters that steer or cannot be seen, but for the end of a line."""
    return [c for c in text if c != "\n" and not c.isprintable()]


@pytest.mark.parametrize("name", NAMES)
def test_the_terminal_gets_nothing_that_steers_it(name: str) -> None:
    for board in with_name(name):
        content = page(board)
        tables = (*content.tables, *content.reported)
        cells = [cell for table in tables for row in table.rows for cell in row]
        lines = (*content.legend, *content.notes, *content.sources, *(line for table in tables for line in table.lines))
        assert printable(name) in cells
        assert all(text.isprintable() for text in (*cells, *lines))


@pytest.mark.parametrize("name", NAMES)
def test_markdown_shows_a_name_as_it_is(name: str) -> None:
    for board in with_name(name):
        text = markdown.render(board)
        assert hidden(text) == []
        tokens = MarkdownIt("commonmark", {"linkify": False}).enable(["table", "strikethrough"]).parse(text)
        kinds = {child.type for token in tokens for child in token.children or ()}
        assert kinds <= {"text", "code_inline", "strong_open", "strong_close", "softbreak", "text_special"}
        assert not {token.type for token in tokens} & {"html_block", "fence", "code_block", "blockquote_open", "hr"}
        strong = {token.content for token in tokens if token.type == "inline" and "**" in token.content}
        assert all(re.fullmatch(r"\*\*[0-9.]+ ±  *[0-9.]+\*\*", mark) for mark in strong - {cell_of(name)})
        assert printable(name).strip() in shown_cells(tokens)


def shown_cells(tokens: list) -> set[str]:
    """The text of every cell, as a reader sees it."""
    inline = [tokens[i + 1] for i, token in enumerate(tokens) if token.type == "td_open"]
    return {"".join(child.content for child in token.children or ()) for token in inline}


def cell_of(name: str) -> str:
    """The source of the cell of a name that holds escaped stars."""
    return next((line for line in markdown.render(with_name(name)[0]).split(" | ") if "\\*\\*" in line), "")


@pytest.mark.parametrize("name", NAMES)
def test_no_address_in_a_name_becomes_a_link_on_github(name: str) -> None:
    for board in with_name(name):
        assert not re.search(
            r"(?<!\\)www\.|https?://(?!example\.org/doe2020)", markdown.render(board).split("## As")[0]
        )


def test_no_name_becomes_mathematics_on_github() -> None:
    text = markdown.render(with_name("50%_$x$")[0])
    assert "50%\\_\\$x\\$" in text and not re.search(r"(?<!\\)\$", text)


@pytest.mark.parametrize("name", NAMES)
def test_csv_is_no_formula_and_keeps_its_columns(name: str) -> None:
    for board in with_name(name):
        text = as_csv.render(board)
        assert hidden(text) == []
        lines = list(csv.reader(io.StringIO(text)))
        assert {len(line) for line in lines} == {len(as_csv.COLUMNS)}
        assert {line[4] for line in lines[1:]} - {"nlpo", "ppo"} <= {printable(name), f"'{printable(name)}"}
        assert not [cell for line in lines for cell in line[:12] if re.match(r"[=+\-@\t\r＝＋－＠]", cell)]


@pytest.mark.parametrize("name", NAMES)
def test_json_gives_the_name_back_and_hides_nothing(name: str) -> None:
    for board in with_name(name):
        text = as_json.render(board)
        assert hidden(text) == []
        assert name in {row["system"] for row in json.loads(text)["rows"]}


@pytest.mark.parametrize("name", NAMES)
def test_latex_stays_balanced_and_plain(name: str) -> None:
    for board in with_name(name):
        text = latex.render(board)
        assert text.isascii()
        assert hidden(text) == []
        assert latex_problems(text) == []


ALLOWED = {
    *("begin", "end", "centering", "footnotesize", "setlength", "tabcolsep", "toprule", "midrule", "bottomrule"),
    *("caption", "label", "textbf", "scriptsize", "pm", "phantom", "uparrow", "downarrow", "textsuperscript"),
    *("textendash", "textbackslash", "textasciicircum", "textasciitilde", "textless", "textgreater", "textbar"),
    *("textasciigrave", "char", "par", "medskip", "L", "l", "times"),
}


def latex_problems(text: str) -> list[str]:
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
    opened: list[str] = []
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


def test_the_strict_reader_of_latex_sees_breaches() -> None:
    fine = latex.render(SUITE)
    assert latex_problems(fine) == []
    assert latex_problems(fine.replace("nlpo &", "nl}po &")) != []
    assert latex_problems(fine.replace("nlpo &", "nlpo & &")) != []
    assert latex_problems(fine.replace("nlpo &", "nl#po &")) != []
    assert latex_problems(fine.replace("nlpo &", r"\input{x} &")) == ["command input"] * fine.count("nlpo &")
    assert latex_problems(fine.replace("\\\\\nnull", "\\\\\n[null")) != []


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
def test_latex_escapes(text: str, expected: str) -> None:
    assert latex.escape(text) == expected


class Page(HTMLParser):
    """The text of a page, and the elements and attributes that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text: list[str] = []
        self.tags: set[str] = set()
        self.handlers: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.handlers |= {name for name, _ in attributes if name.startswith("on")}

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_no_element_of_a_name(name: str) -> None:
    shown = Page(html.render(with_name("plain")[0]))
    hostile = Page(html.render(with_name(name)[0]))
    assert hostile.tags <= shown.tags
    assert hostile.handlers == set()
    assert not [c for c in "".join(hostile.text) if unicodedata.category(c) in ("Cc", "Cf") and c not in "\n\r\t"]
