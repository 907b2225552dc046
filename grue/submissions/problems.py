"""What can be wrong with a submission: every check by its id, with its severity and its cure.

An id never changes its meaning, and the id of a check that is gone is never given again.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Severity = Literal["error", "warning"]

CURES = {
    "GRUE-S001": "Keep submission.toml and <task>/seed-<n>.result.json with its .predictions.jsonl.gz; nothing else.",
    "GRUE-S002": "Mend submission.toml; submissions/README.md shows one.",
    "GRUE-S003": "Hand in the result.json that `grue evaluate` wrote, unchanged.",
    "GRUE-S004": "Move the file to where its content belongs: <suite>/<system>/<task>/seed-<n>.result.json.",
    "GRUE-S005": "Evaluate again without --limit.",
    "GRUE-S006": "Evaluate again with the task as it is now, on its evaluation split.",
    "GRUE-S007": "Hand in the predictions.jsonl of the run, packed with gzip.",
    "GRUE-S008": "Evaluate again, so that every example of the split has one prediction.",
    "GRUE-S009": "Score these predictions again with `grue score` and hand in that result.json.",
    "GRUE-S010": "Make `seeds` in submission.toml and the seeds of every task's files the same.",
}
"""What to do about each kind of problem; the ids never change their meaning."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a submission; an "error" keeps it off the board, a "warning" asks for a person's eye."""

    id: str
    severity: Severity
    path: str
    message: str
    cure: str


def error(number: int, path: Path, message: str) -> Problem:
    """Return the problem GRUE-S<number>, which keeps the submission off the board."""
    return _problem("error", number, path, message)


def warning(number: int, path: Path, message: str) -> Problem:
    """Return the problem GRUE-S<number>, which asks for a person's eye."""
    return _problem("warning", number, path, message)


def _problem(severity: Severity, number: int, path: Path, message: str) -> Problem:
    name = f"GRUE-S{number:03}"
    return Problem(name, severity, str(path), message, CURES[name])
