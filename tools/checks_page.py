"""Write the table of checks in docs/reference/checks.md from `CHECKS`: `python tools/checks_page.py [--check]`.

Only the text between the two marks is replaced. `--check` writes nothing and fails if the page is stale.
"""

from pathlib import Path

from page import write_or_check

from grue.submissions.problems import CHECKS

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "checks.md"
BEGIN = "<!-- written by tools/checks_page.py from grue/submissions/checks.toml -->"


def table() -> str:
    """Return a row for each check."""
    lines = ["| id | severity | problem | fix |", "|---|---|---|---|"]
    for check in CHECKS.values():
        cells = (check.id, check.severity, check.title, check.cure)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|').replace('<', '&lt;') for cell in cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    write_or_check(PAGE, BEGIN, table())
