"""Whether a row has the rank that its seeds would give: the record of trust, against what the folder holds now."""

from collections.abc import Iterator
from pathlib import Path

from grue.errors import DataError
from grue.records import Result
from grue.submissions.problems import Problem, warning
from grue.submissions.reading import without_path
from grue.submissions.trust.ladder import needs_verifying, read_trust, record_of, rung_of, why_void


def check_trust(system: Path, suite: str, results: list[Result], is_reference: bool) -> Iterator[Problem]:
    """Yield why a record does not hold, and whether the row will have no rank for want of one."""
    path = record_of(system)
    try:
        trust = read_trust(system)
        if trust is not None and (why := why_void(system, trust, results)):
            yield warning(55, path, f"{why}.")
        if not is_reference and needs_verifying(system, suite, rung_of(system, results)):
            yield warning(96, system, "has not been verified.")
    except DataError as refusal:
        yield warning(55, path, without_path(refusal, path))
