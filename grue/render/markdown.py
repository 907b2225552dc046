"""The board as Markdown, in GitHub's flavour of tables; readable as plain text too."""

import re

from grue.leaderboard.board import Board
from grue.render.tables import Table, page


def render(board: Board) -> str:
    """Return the board as a Markdown document."""
    content = page(board)
    blocks = [f"# {_escape(content.title)}"]
    for table in content.tables:
        if table.title:
            blocks.append(f"## {_escape(table.title)}")
        blocks.append(_table(table))
    blocks.append(_list(content.legend))
    if content.notes:
        blocks += ["Notes:", _list(content.notes)]
    return "\n\n".join(blocks) + "\n"


def _table(table: Table) -> str:
    rows = [tuple(column.header for column in table.columns), *table.rows]
    columns = [[_escape(cell) for cell in cells] for cells in zip(*rows, strict=True)]
    widths = [max(3, *map(len, cells)) for cells in columns]
    padded = [
        [cell.rjust(width) if column.is_number else cell.ljust(width) for cell in cells]
        for column, cells, width in zip(table.columns, columns, widths, strict=True)
    ]
    rule = [
        "-" * (width - 1) + ":" if column.is_number else ":" + "-" * (width - 1)
        for column, width in zip(table.columns, widths, strict=True)
    ]
    header, *body = zip(*padded, strict=True)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rule, *body))


def _list(lines: tuple[str, ...]) -> str:
    return "\n".join(f"- {_escape(line)}" for line in lines)


def _escape(text: str) -> str:
    """Return `text` such that Markdown shows it as it is; code between backticks, which is ours, stays code."""
    return re.sub(r"[\\*\[\]<>|&~!#]", r"\\\g<0>", text)
