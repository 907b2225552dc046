"""Write the table of checks in `docs/checks.md` from `CHECKS` and the tests: `python tools/checks_page.py [--check]`.

Only the part between the two marks is written. `--check` writes nothing, and fails if the page is stale or a check has
no test: a function under `@violates(<number>)`, or a test of whole pull requests that expects the id.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from page import write_or_check

from grue.submissions.problems import CHECKS

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "checks.md"
FOLDER = ROOT / "tests" / "submissions"
TESTS = ("test_checks.py", "test_against.py")
PULL_REQUESTS = "test_against.py"
BEGIN = "<!-- written by tools/checks_page.py from grue/submissions/problems.py and the tests -->"


def table() -> str:
    """Return a line for each check.

    Raises:
        SystemExit: A check has no test.
    """
    tests: dict[str, list[str]] = {}
    for file in TESTS:
        for name, test in tests_in(FOLDER / file):
            tests.setdefault(name, []).append(f"`{test}`")
    untested = sorted(set(CHECKS) - set(tests))
    if untested:
        sys.exit(f"No test in {' or '.join(TESTS)} covers {', '.join(untested)}.")
    lines = ["| id | severity | what is wrong | cure | tests |", "|---|---|---|---|---|"]
    for check in CHECKS.values():
        cells = (check.id, check.severity, check.title, check.cure, ", ".join(tests[check.id]))
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|').replace('<', '&lt;') for cell in cells)} |")
    return "\n".join(lines)


def tests_in(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (id of a check, name of a function that violates it)."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if match := re.fullmatch(r"violates\((\d+)\)", ast.unparse(decorator)):
                    yield f"GRUE-S{int(match[1]):03}", node.name
            if path.name == PULL_REQUESTS and node.name.startswith("test_"):
                yield from ((name, node.name) for name in sorted(set(re.findall(r"GRUE-S\d{3}", ast.unparse(node)))))


if __name__ == "__main__":
    write_or_check(PAGE, BEGIN, table())
