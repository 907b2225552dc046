"""Problems of submissions as text: for people, for programs, and for two kinds of CI.

Paths and messages quote untrusted text. Every format escapes control characters, lone surrogates and characters that
change the direction of text, so that no quote can start a line, a tag or a command.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

from grue import files
from grue.errors import visible
from grue.submissions.problems import CHECKS, Problem

REPORT_SCHEMA = 2
OUTSIDE = "outside the submissions"  # the group of problems in no submission's folder


def as_text(problems: Sequence[Problem], checked: Sequence[Path]) -> str:
    """Return a report for people: each submission with its problems, errors first, and the counts at the end.

    A cure follows all problems of its kind.
    """
    blocks = []
    for name, problems_of in _grouped(problems, checked).items():
        lines = [f"{visible(name)}: {_counts(problems_of) or 'fine'}"]
        ordered = sorted(problems_of, key=lambda problem: (problem.severity, problem.id))  # error, review, warning
        for (severity, identity), alike in groupby(ordered, key=lambda problem: (problem.severity, problem.id)):
            for problem in alike:
                where = _below(problem.path, name)
                place = f"{visible(where)}: " if where else ""
                lines.append(f"  {severity:<7}  {identity}  {place}{visible(problem.message)}")
            lines.append(f"{'':20}→ {visible(problem.cure)}")
        blocks.append("\n".join(lines))
    return "\n\n".join([*blocks, summary(problems, checked)]) + "\n"


def as_json(problems: Sequence[Problem], checked: Sequence[Path]) -> str:
    """Return a report for programs: what was checked, the counts, and every field of every problem."""
    report = {
        "schema": REPORT_SCHEMA,
        "checked": [str(path) for path in checked],
        "errors": _count(problems, "error"),
        "reviews": _count(problems, "review"),
        "warnings": _count(problems, "warning"),
        "problems": [files.plain(problem) for problem in problems],
    }
    return json.dumps(report, indent=2) + "\n"  # ASCII survives any pipe


def as_junit(problems: Sequence[Problem], checked: Sequence[Path]) -> str:
    """Return a report for CI systems: a suite for each submission, a case for each check; warnings do not fail."""
    root = ElementTree.Element("testsuites", name="grue submit check")
    cases = 0
    for name, problems_of in _grouped(problems, checked).items():
        by_id = {check: [problem for problem in problems_of if problem.id == check] for check in CHECKS}
        failed = sum(any(problem.severity != "warning" for problem in group) for group in by_id.values())
        counts = {"tests": str(len(by_id)), "failures": str(failed), "errors": "0", "skipped": "0"}
        suite = ElementTree.SubElement(root, "testsuite", {"name": visible(name), **counts})
        for check, group in by_id.items():
            title = f"{check} {CHECKS[check].title}"
            case = ElementTree.SubElement(suite, "testcase", classname=visible(name), name=title)
            _say(case, "failure", [problem for problem in group if problem.severity != "warning"])
            _say(case, "system-out", [problem for problem in group if problem.severity == "warning"])
            cases += 1
    root.set("tests", str(cases))
    root.set("failures", str(sum(int(suite.get("failures", "0")) for suite in root)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def as_github(problems: Sequence[Problem], checked: Sequence[Path]) -> str:
    """Return a report for GitHub Actions: an annotation for each problem, in the workflow's command language."""
    lines = []
    for problem in problems:
        title = f"{problem.id}: {CHECKS[problem.id].title}"
        message = visible(f"{problem.message} {problem.cure}")
        command = "warning" if problem.severity == "warning" else "error"
        where = _property(visible(problem.path))
        lines.append(f"::{command} file={where},title={_property(title)}::{_data(message)}")
    lines.append(f"::notice title=Submissions::{_data(summary(problems, checked))}")
    return "\n".join(lines) + "\n"


REPORTS = {"text": as_text, "json": as_json, "junit": as_junit, "github": as_github}


def summary(problems: Sequence[Problem], checked: Sequence[Path]) -> str:
    """Return the counts in a sentence."""
    of = f"{len(checked)} submission{'' if len(checked) == 1 else 's'} checked"
    if not problems:
        return f"{of}: fine."
    kept_off = any(problem.severity != "warning" for problem in problems)
    return f"{of}: {_counts(problems)}." + ("" if kept_off else " Nothing keeps them off the board.")


def _count(problems: Iterable[Problem], severity: str) -> int:
    return sum(problem.severity == severity for problem in problems)


def _counts(problems: Sequence[Problem]) -> str:
    numbers = {severity: _count(problems, severity) for severity in ("error", "review", "warning")}
    return ", ".join(f"{n} {severity}{'' if n == 1 else 's'}" for severity, n in numbers.items() if n)


def _grouped(problems: Sequence[Problem], checked: Sequence[Path]) -> Mapping[str, list[Problem]]:
    """Return each submission's problems in the order of checking, then those outside the submissions."""
    groups: dict[str, list[Problem]] = {str(path): [] for path in checked}
    for problem in problems:
        home = [name for name in groups if problem.path == name or problem.path.startswith(f"{name}/")]
        groups.setdefault(max(home, key=len, default=OUTSIDE), []).append(problem)
    return groups


def _below(path: str, folder: str) -> str:
    return "" if path == folder else path.removeprefix(f"{folder}/")


def _say(case: ElementTree.Element, tag: str, problems: Sequence[Problem]) -> None:
    if problems:
        lines = [visible(f"{problem.path}: {problem.message}") for problem in problems]
        element = ElementTree.SubElement(case, tag)
        if tag == "failure":
            element.set("message", lines[0])
        element.text = "\n".join([*lines, f"→ {problems[0].cure}"])


def _data(text: str) -> str:
    """Escape the message of a workflow command, as GitHub's own toolkit does."""
    return re.sub(r"[%\r\n]", lambda sign: f"%{ord(sign[0]):02X}", text)


def _property(text: str) -> str:
    """Escape a property of a workflow command, which also ends at a comma or a colon."""
    return re.sub(r"[%\r\n:,]", lambda sign: f"%{ord(sign[0]):02X}", text)
