"""Write the table of checks in docs/reference/checks.md from `CHECKS`: `python tools/checks_page.py [--check]`.

Only the text between the two marks is replaced. `--check` writes nothing and fails if the page is stale.
"""

import sys
from pathlib import Path

from grue.submissions.problems import CHECKS

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "checks.md"
BEGIN = "<!-- written by tools/checks_page.py from grue/submissions/problems.py -->"
END = "<!-- end of what is written -->"


def table() -> str:
    """Return a row for each check."""
    lines = ["| id | severity | problem | fix |", "|---|---|---|---|"]
    for check in CHECKS.values():
        cells = (check.id, check.severity, check.title, check.cure)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|').replace('<', '&lt;') for cell in cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Write the page, or check it."""
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    wanted = f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"
    if "--check" in sys.argv[1:]:
        if page != wanted:
            sys.exit(f"{PAGE} is stale; run `python tools/checks_page.py`.")
        return
    PAGE.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
