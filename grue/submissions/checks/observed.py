"""What maintainers saw of a system's runs, against what its folder holds now."""

from collections.abc import Iterator
from pathlib import Path

from grue.errors import DataError
from grue.submissions.checks.structure import Contents
from grue.submissions.folder import SUBMISSION
from grue.submissions.problems import Problem, warning
from grue.submissions.reading import without_path
from grue.submissions.trust.ladder import Seen, changed, read_seen, record_of


def check_observed(one: Contents) -> Iterator[Problem]:
    """Yield what was seen and no longer counts; other checks report what is gone or cannot be read."""
    path = record_of(one.system)
    try:
        seen = read_seen(one.system)
    except DataError as refusal:
        yield warning(55, path, without_path(refusal, path))
        return
    readable = {run.path for runs in one.runs.values() for run in runs if run.result and run.predictions}
    faulty = {problem.path for problem in one.problems if problem.severity == "error"}
    for observed in () if str(one.system / SUBMISSION) in faulty else seen:
        run = one.system / observed.task / f"seed-{observed.seed}.result.json"
        counted = observed.passed or observed.failed
        if counted and run in readable and (parts := _changed(one.system, observed)):
            was = observed.rung if observed.passed else f"not {observed.rung} ({observed.verdict})"
            yield warning(55, run, f"was {was} on {observed.date}; since then {', '.join(parts)} changed.")


def _changed(system: Path, observed: Seen) -> list[str]:
    try:
        return changed(system, observed)
    except DataError:
        return []  # the predictions cannot be read
