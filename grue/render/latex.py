r"""The board as LaTeX tables, for \input into a paper; they need only the package booktabs."""

import re
import unicodedata
from collections.abc import Iterable

from grue.leaderboard.board import Board
from grue.render.layout import TextTable, narrow
from grue.render.legend import BOLD, HELD_OUT, RANKS, VARIANTS
from grue.render.tables import BoardPage, page
from grue.render.text import BY_CHAT, BY_ENDPOINT, TRAINED_ON, UNKNOWN, UNLEARNED

WIDTH = 440.0  # points across both columns of a page
# Points: a capital, a digit (as wide as a bold one) and another sign in \footnotesize; a sign in \scriptsize; the gap
# between columns.
CAPITAL, DIGIT, LETTER, SMALL, GAP = 6.0, 4.6, 3.9, 3.5, 6.0

_SPECIAL = {
    **{"\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%"},
    **{"^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}"},
    **{"|": r"\textbar{}", '"': r"{\char34}", "`": r"\textasciigrave{}"},
    **{"[": "{[}", "*": "{*}"},  # after a line break they would be its arguments
    **{"±": r"$\pm$", "×": r"$\times$", "−": "$-$", "–": r"\textendash{}", "↑": r"$\uparrow$", "↓": r"$\downarrow$"},
    **{"†": r"\textdagger{}", "‡": r"\textdaggerdbl{}", "§": r"\textsection{}", "¶": r"\textparagraph{}"},
    **{"“": r"\textquotedblleft{}", "”": r"\textquotedblright{}", "’": "'", "…": r"\dots{}", "�": "?"},
    **{"∞": r"$\infty$", "α": r"$\alpha$"},
    **{"ß": r"\ss{}", "æ": r"\ae{}", "Æ": r"\AE{}", "ø": r"\o{}", "Ø": r"\O{}", "ł": r"\l{}", "Ł": r"\L{}"},
    **{digit: rf"\textsuperscript{{{i}}}" for i, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
}
_ACCENTS = {
    **{"\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": "."},
    **{"\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c"},
}


def render(board: Board) -> str:
    """Return one floating table for each table of the board, over both columns of a two-column paper."""
    content = page(board)
    blocks = [f"% {escape(content.title)}\n% In the preamble: \\usepackage{{booktabs}}"]
    if content.notes:
        blocks.append(_comment(("Notes:", *content.notes)))
    if not content.tables:
        blocks += [_comment(content.legend)]
    name = "-".join(["grue", board.suite, *(task.name for task in board.tasks if len(board.tasks) == 1)])
    for number, table in enumerate(content.tables, start=1):
        title = f"{content.title}. {table.title}" if table.title else content.title
        blocks.append(_float(table, title, _explained(content, table), f"{name}-{number}"))
    if content.sources:
        blocks.append(_comment(content.sources))
    for number, table in enumerate(content.reported, start=1):
        blocks.append(_float(table, table.title, table.lines, f"{name}-reported-{number}"))
    return "\n\n".join(blocks) + "\n"


def _comment(lines: Iterable[str]) -> str:
    return "\n".join(f"% {escape(line)}" for line in lines)


def _explained(content: BoardPage, table: TextTable) -> list[str]:
    """Return the lines of the legend that explain a table's numbers and signs."""
    scores, spread, *optional = content.legend
    cells = [cell for column in table.columns for cell in column.cells]
    marks = (TRAINED_ON, BY_CHAT, BY_ENDPOINT)
    needed = {
        RANKS: any("rank" in column.header.lower() for column in table.columns[:1]),
        BOLD: any(column.strong for column in table.columns),
        HELD_OUT: any("held-out" in column.header for column in table.columns),
        UNLEARNED: any(UNLEARNED in column.header for column in table.columns),
        VARIANTS: any(" (" in cell for column in table.columns[:2] for cell in column.cells),
        **{mark: any(mark in cell for cell in cells) for mark in marks},
    }
    own = [line for line in optional if any(is_needed and line.startswith(sign) for sign, is_needed in needed.items())]
    return [scores, *([spread] if any("±" in cell for cell in cells) else []), *own]


def _float(table: TextTable, title: str, lines: Iterable[str], name: str) -> str:
    parts = "\n\\par\\medskip\n".join(_tabular(part) for part in narrow(table, WIDTH, _room))
    label = re.sub(r"[^a-z0-9-]+", "-", name.lower())
    return (
        f"\\begin{{table*}}[t]\n\\centering\\footnotesize\\setlength{{\\tabcolsep}}{{3pt}}\n{parts}\n"
        f"\\caption{{{escape(title)}.}}\n\\label{{tab:{label}}}\n"
        f"\\par\\smallskip\\parbox{{\\linewidth}}{{\\scriptsize {escape(' '.join(lines))}}}\n\\end{{table*}}"
    )


def _room(text: str) -> float:
    value, _, spread = text.partition(" ± ")
    widths = (CAPITAL if sign.isupper() else DIGIT if sign.isdecimal() else LETTER for sign in value)
    return sum(widths) + (SMALL * (len(spread) + 2) if spread else 0.0) + GAP


def _tabular(table: TextTable) -> str:
    form = "".join("r" if column.is_number else "l" for column in table.columns)
    columns = [
        [escape(c.header), *(_number(t, i in c.strong) if c.is_number else escape(t) for i, t in enumerate(c.cells))]
        for c in table.columns
    ]
    header, *rows = (" & ".join(cells) + r" \\" for cells in zip(*columns, strict=True))
    start, end = f"\\begin{{tabular}}{{@{{}}{form}@{{}}}}", "\\end{tabular}"
    return "\n".join([start, "\\toprule", header, "\\midrule", *rows, "\\bottomrule", end])


def _number(text: str, strong: bool) -> str:
    """Return "41.2 ± 0.8" with a small ±, bold if it is strong, with padding as wide as a digit."""
    value, sign, spread = text.partition(" ± ")
    shown = rf"\textbf{{{_padded(value)}}}" if strong else _padded(value)
    if not sign:
        return shown
    small = rf"\,{{\scriptsize$\pm$\,{_padded(spread)}}}"
    return shown + (rf"\phantom{{{small}}}" if spread.strip() == UNKNOWN else small)


def _padded(number: str) -> str:
    return "".join({" ": r"\phantom{0}", "-": "$-$"}.get(sign) or _character(sign) for sign in number)


def escape(text: str) -> str:
    """Return `text` escaped for LaTeX, in any font encoding; unsupported characters by their Unicode number."""
    escaped = "".join(map(_character, unicodedata.normalize("NFC", text)))
    return re.sub(r"([-',])(?=\1)", r"\1{}", escaped)  # two of them would form a ligature


def _character(character: str) -> str:
    if character in _SPECIAL:
        return _SPECIAL[character]
    if character.isascii():
        return character if character.isprintable() else "?"
    base, marks = (parts := unicodedata.normalize("NFD", character))[0], parts[1:]
    if base.isascii() and base.isalpha() and marks in _ACCENTS:
        return rf"\{_ACCENTS[marks]}{{{base}}}"
    return f"{{[}}U+{ord(character):04X}]"
