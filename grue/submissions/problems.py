"""What can be wrong with a submission: every check of checks.toml by its id, with its severity, title and cure."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grue import files
from grue.errors import visible

Severity = Literal["error", "warning"]
LONGEST = 1_000  # characters of a message


@dataclass(frozen=True, slots=True)
class Check:
    """One check: an "error" keeps the submission off the board; a "warning" asks a maintainer to look."""

    id: str
    severity: Severity
    title: str
    cure: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A failed check; `severity` and `cure` are those of the check."""

    id: str
    severity: Severity
    path: str
    message: str
    cure: str


CHECKS = {
    identity: Check(identity, **check)
    for identity, check in files.read_toml(Path(__file__).with_name("checks.toml")).items()
}
"""Every check by its id."""


def problem(number: int, path: Path, message: str) -> Problem:
    """Return the problem GRUE-S<number>."""
    check = CHECKS[f"GRUE-S{number:03}"]
    return Problem(check.id, check.severity, visible(str(path)), visible(message[:LONGEST]), check.cure)
