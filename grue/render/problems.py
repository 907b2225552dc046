"""Problems of submissions as text: for people, for programs, and for CI.

Paths and messages quote untrusted text. Every format escapes control characters, lone surrogates and characters that
change the direction of text, so that no quote can start a line, a tag or a command.
"""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from grue import files
from grue.errors import visible
from grue.submissions.problems import CHECKS, Problem

REPORT_SCHEMA = 3
SEVERITIES = ("error", "warning")
OUTSIDE = "outside the submissions"  # group of the problems in no submission's folder


def as_text(problems: Sequence[Problem], checked: Sequence[Path]) -> str:
    """Return a report for people: each submission with its problems, errors first, and the counts at the end.

    The cure follows all problems of its kind.
    """
    blocks = []
    for name, problems_of in _grouped(problems, checked).items():
        lines = [f"{visible(name)}: {_counts(problems_of) or 'fine'}"]
        ordered = sorted(problems_of, key=lambda problem: (problem.severity, problem.id))
        for (severity, identity), alike in groupby(ordered, key=lambda problem: (problem.severity, problem.id)):
            for problem in alike:
                where = "" if problem.path == name else problem.path.removeprefix(f"{name}/")
                place = f"{visible(where)}: " if where else ""
                lines.append(f"  {severity:<7}  {identity}  {place}{visible(problem.message)}")
            lines.append(f"{'':20}→ {visible(problem.cure)}")
        blocks.append("\n".join(lines))
    return "\n\n".join([*blocks, summary(problems, checked)]) + "\n"


def as_json(problems: Sequence[Problem], checked: Sequence[Path]) -> str:
    """Return a report for programs: the checked paths, the counts, and every field of every problem."""
    report = {
        "schema": REPORT_SCHEMA,
        "checked": [str(path) for path in checked],
        **{f"{severity}s": sum(problem.severity == severity for problem in problems) for severity in SEVERITIES},
        "problems": [files.plain(problem) for problem in problems],
    }
    return json.dumps(report, indent=2) + "\n"  # ASCII survives any pipe


def as_github(problems: Sequence[Problem], checked: Sequence[Path]) -> str:
    """Return a report for GitHub Actions: an annotation for each problem, in the workflow's command language."""
    lines = []
    for problem in problems:
        where, title = _escaped(visible(problem.path), ":,"), f"{problem.id}: {CHECKS[problem.id].title}"
        message = _escaped(visible(f"{problem.message} {problem.cure}"))
        lines.append(f"::{problem.severity} file={where},title={_escaped(title, ':,')}::{message}")
    lines.append(f"::notice title=Submissions::{_escaped(summary(problems, checked))}")
    return "\n".join(lines) + "\n"


def _escaped(text: str, also: str = "") -> str:
    """Escape a message of a workflow command, as GitHub's own toolkit does; a property also ends at `:` or `,`."""
    return re.sub(rf"[%\r\n{also}]", lambda sign: f"%{ord(sign[0]):02X}", text)


REPORTS = {"text": as_text, "json": as_json, "github": as_github}


def summary(problems: Sequence[Problem], checked: Sequence[Path]) -> str:
    """Return the counts in a sentence."""
    of = f"{len(checked)} submission{'' if len(checked) == 1 else 's'} checked"
    if not problems:
        return f"{of}: fine."
    kept_off = any(problem.severity == "error" for problem in problems)
    return f"{of}: {_counts(problems)}." + ("" if kept_off else " Nothing keeps them off the board.")


def _counts(problems: Sequence[Problem]) -> str:
    numbers = {severity: sum(problem.severity == severity for problem in problems) for severity in SEVERITIES}
    return ", ".join(f"{n} {severity}{'' if n == 1 else 's'}" for severity, n in numbers.items() if n)


def _grouped(problems: Sequence[Problem], checked: Sequence[Path]) -> Mapping[str, list[Problem]]:
    """Return each submission's problems in the order of checking, then those outside the submissions."""
    groups: dict[str, list[Problem]] = {str(path): [] for path in checked}
    for problem in problems:
        home = [name for name in groups if problem.path == name or problem.path.startswith(f"{name}/")]
        groups.setdefault(max(home, key=len, default=OUTSIDE), []).append(problem)
    return groups
