"""The part of a page of docs/ that is generated: written between two marks, or checked with `--check`."""

import sys
from pathlib import Path

END = "<!-- end of what is written -->"


def write_or_check(page: Path, begin: str, text: str) -> None:
    """Write a text between the marks `begin` and `END` of a page; with `--check` fail if the page has another text."""
    now = page.read_text(encoding="utf-8")
    before, rest = now.split(begin)
    _, after = rest.split(END)
    wanted = f"{before}{begin}\n\n{text}\n\n{END}{after}"
    if "--check" not in sys.argv[1:]:
        page.write_text(wanted, encoding="utf-8")
    elif now != wanted:
        sys.exit(f"{page} is stale; run `python tools/{Path(sys.argv[0]).name}`.")
