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
    columns = [
        [_cell(column.header, False), *(_cell(text, i in column.strong) for i, text in enumerate(column.cells))]
        for column in table.columns
    ]
    padded = []
    for column, cells in zip(table.columns, columns, strict=True):
        width = max(3, *map(len, cells))
        rule = "-" * (width - 1)
        head, *rest = (cell.rjust(width) if column.is_number else cell.ljust(width) for cell in cells)
        padded.append([head, f"{rule}:" if column.is_number else f":{rule}", *rest])
    return "\n".join(f"| {' | '.join(line)} |" for line in zip(*padded, strict=True))


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
