"""The board as Markdown with GitHub's tables, readable as plain text."""

import re
from collections.abc import Iterator

from grue.leaderboard.board import Board
from grue.render.layout import TextTable
from grue.render.tables import page

_MARKUP = re.compile(r"[\\*\[\]<>|&~!#$]|(?<![^\W_])_|_(?![^\W_])")  # within a word _ does not emphasise
_LINK = re.compile(r"(?<=www)\.|:(?=//)")


def render(board: Board) -> str:
    """Return the board as a Markdown document."""
    content = page(board)
    blocks = [f"# {escape(content.title)}"]
    for table in content.tables:
        blocks += _section(table)
    blocks.append(_unlinked(_list(content.legend)))
    if content.notes:
        blocks += ["Notes:", _unlinked(_list(content.notes))]
    if content.sources:
        blocks += ["## As reported", _list(content.sources)]
    for table in content.reported:
        blocks += _section(table, "###")
    return "\n\n".join(blocks) + "\n"


def _section(table: TextTable, level: str = "##") -> Iterator[str]:
    if table.title:
        yield f"{level} {escape(table.title)}"
    yield markdown_table(table)
    if table.lines:
        yield _list(table.lines)


def markdown_table(table: TextTable) -> str:
    """Return a table with its columns padded, so that it can be read as plain text, too."""
    cells = [[_cell(text, (i, j) in table.strong) for j, text in enumerate(row)] for i, row in enumerate(table.rows)]
    columns = list(zip([_cell(column.header, False) for column in table.columns], *cells, strict=True))
    widths = [max(3, *map(len, column)) for column in columns]
    padded = [
        [cell.rjust(width) if heading.is_number else cell.ljust(width) for cell in column]
        for heading, column, width in zip(table.columns, columns, widths, strict=True)
    ]
    rule = [
        "-" * (width - 1) + ":" if heading.is_number else ":" + "-" * (width - 1)
        for heading, width in zip(table.columns, widths, strict=True)
    ]
    header, *body = zip(*padded, strict=True)
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, rule, *body))


def _cell(text: str, strong: bool) -> str:
    """Return a cell escaped, with backticks; padding stays outside the marks of bold text."""
    escaped = _unlinked(escape(text)).replace("`", "\\`")
    if not strong:
        return escaped
    bare = escaped.strip()
    before, after = escaped[: len(escaped) - len(escaped.lstrip())], escaped[len(escaped.rstrip()) :]
    return f"{before}**{bare}**{after}"


def _list(lines: tuple[str, ...]) -> str:
    return "\n".join(f"- {escape(line)}" for line in lines)


def escape(text: str) -> str:
    """Escape `text` for Markdown; code between backticks, which only GRUE writes, stays code."""
    return _MARKUP.sub(r"\\\g<0>", text)


def _unlinked(text: str) -> str:
    """Escape `text` so that an address in it, possibly part of a name, does not become a link."""
    return _LINK.sub(r"\\\g<0>", text)
