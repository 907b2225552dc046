"""The part of a page of docs/ that is generated: written between two marks, or checked with `--check`."""

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

END = "<!-- end of what is written -->"


def write_or_check(page: Path, begin: str, text: str, blank: str | None = None) -> None:
    """Write a text between the marks `begin` and `END` of a page; with `--check` fail if the page has another text.

    Args:
        blank: What a page that is not there begins as; None for one that must be there.
    """
    there = page.exists() or blank is None
    now = page.read_text(encoding="utf-8") if there else str(blank)
    before, rest = now.split(begin)
    _, after = rest.split(END)
    wanted = f"{before}{begin}\n\n{text}\n\n{END}{after}"
    if "--check" not in sys.argv[1:]:
        page.parent.mkdir(exist_ok=True)
        page.write_text(wanted, encoding="utf-8")
    elif now != wanted:
        sys.exit(f"{page} is {'stale' if there else 'missing'}; run `python tools/{Path(sys.argv[0]).name}`.")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines)


def anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
