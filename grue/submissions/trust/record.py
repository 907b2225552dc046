"""The ladder of trust: reported < rescored < reproduced < verified, and the record behind its upper two rungs.

    submissions/<suite>/<system>.trust.json

The record lies beside the system's folder, which is its authors': no submission may change it. It holds for the files
of one MANIFEST.sha256; if any of them changes, the row is *rescored* again.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from grue import files
from grue.errors import SubmissionError
from grue.records import Result
from grue.submissions.folder import MANIFEST, place_of
from grue.submissions.reading import refuse_strange
from grue.submissions.trust.draw import GENERATED, DrawnRun, Gap, draw, too_high

Rung = Literal["reproduced", "verified"]
NEARLY_ALL = 0.99
"""Share of the public texts that must come out again: rounding on another machine seldom draws another token."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """How a checkpoint did on a fresh draw of some examples.

    Attributes:
        seed: What the rows are drawn from.
        rows: sha256 of the rows.
        gaps: Axis → its scores.
        leads: Axis → its leads over the mean of verified rows, each on its own fresh draw; empty if there were none.
        verified: Those rows, by name: the training seed that they had run.
    """

    seed: int
    rows: str
    examples: int
    gaps: Mapping[str, Gap]
    leads: Mapping[str, Gap] = field(default_factory=dict)
    verified: Mapping[str, int] = field(default_factory=dict)

    @property
    def judged(self) -> Mapping[str, Gap]:
        """What must not be higher on the public test: the leads if there are any, else the scores.

        All rows have the same public test, whose luck a lead does not have.
        """
        return {f"lead in {axis}": lead for axis, lead in self.leads.items()} or self.gaps


@dataclass(frozen=True, slots=True)
class Rerun:
    """One checkpoint of a row, run again.

    Attributes:
        equal_texts: Share of the public predictions that came out again, 0–1.
        fresh: None for a suite without a generator.
    """

    task: str
    seed: int
    weights: str
    equal_texts: float
    fresh: Fresh | None = None


@dataclass(frozen=True, slots=True)
class Trust:
    """The content of a record.

    Attributes:
        manifest: sha256 of the row's MANIFEST.sha256.
        date: ISO 8601.
        grue: The code that ran: version and commit.
        machine: Its kind; equal bytes are to be expected on the same kind only.
    """

    schema: Literal[4]
    manifest: str
    salt: str
    by: str
    date: str
    grue: Mapping[str, str]
    machine: str
    packages: Mapping[str, str]
    reruns: tuple[Rerun, ...]

    @property
    def rung(self) -> Rung:
        """The rung that its runs support if there are no `faults`."""
        drawn = {run.task for run in self.reruns if run.fresh is not None}
        return "verified" if all(run.task in drawn for run in self.reruns) else "reproduced"


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a row can be trusted.

    Attributes:
        rung: What its record supports; None if there is none that holds.
        why: Why it has no rank for want of a record, or why its record does not hold.
        unverified: Whether it is shown without a rank until it is verified.
        reruns: Task and seed of the runs that the record drew again.
    """

    rung: Rung | None
    why: str
    unverified: bool
    reruns: frozenset[tuple[str, int]] = frozenset()


def record_of(system: Path) -> Path:
    """Return the path of the record of a system's folder."""
    place = place_of(system)
    return place.with_name(f"{place.name}.trust.json")


def read_trust(system: Path) -> Trust | None:
    """Read the record of a system; None if there is none."""
    path = record_of(system)
    return files.load_json(path, Trust) if _exists(path) else None


def manifest_sha256(system: Path) -> str:
    """Return the sha256 of a row's manifest; empty if it has none, a DataError if it is a link or no file."""
    path = system / MANIFEST
    return files.sha256_file(path) if _exists(path) else ""


def _exists(path: Path) -> bool:
    """Whether there is a file that may be read; a link or a special file is refused."""
    if not path.exists() and not path.is_symlink():
        return False
    refuse_strange(path)
    return True


def faults(reruns: Iterable[Rerun]) -> list[str]:
    """Return what keeps runs from vouching for their row."""
    runs = list(reruns)
    other = [
        f"{run.task} seed {run.seed}: {run.equal_texts:.1%} of its public texts came out again, of {NEARLY_ALL:.0%}"
        for run in runs
        if run.equal_texts < NEARLY_ALL
    ]
    high = too_high({run.task: run.fresh.judged for run in runs if run.fresh is not None})
    return other + [
        f"{name} is {gap.public:.2f} on the public test and {gap.fresh:.2f} on the fresh draw, "
        f"{gap.value / gap.error if gap.error else float('inf'):.1f} standard errors lower"
        for name, gap in high.items()
    ]


def standing_of(system: Path, suite: str, results: Collection[Result]) -> Standing:
    """Return how far a row with these results can be trusted."""
    trust = read_trust(system)
    void = "" if trust is None else _why_void(system, trust, results)
    rung = None if trust is None or void else trust.rung
    unverified = suite in GENERATED and rung != "verified"
    why = f"{record_of(system).name} {void}" if void else "has not been verified" if unverified else ""
    reruns = frozenset((run.task, run.seed) for run in trust.reruns) if trust is not None and rung else frozenset()
    return Standing(rung, why, unverified, reruns)


def _why_void(system: Path, trust: Trust, results: Collection[Result]) -> str:
    """Return why a record does not hold for a row as it is now; empty if it does."""
    complete = [result for result in results if result.status == "complete"]
    if trust.manifest != manifest_sha256(system):
        return f"is of other files: {MANIFEST} has changed since {trust.date}"
    if {run.task for run in trust.reruns} != {result.task for result in complete}:
        return "is not of the tasks of the row"
    drawn = {run.task: DrawnRun(run.seed, run.fresh.seed) for run in trust.reruns if run.fresh is not None}
    try:
        if trust.rung == "verified" and drawn != draw(complete, trust.salt):
            return "is not of the draw that follows from the row's checkpoints"
    except SubmissionError as refusal:
        return f"is void: {refusal}"
    failed = "; ".join(faults(trust.reruns))
    return f"is of runs that failed: {failed}" if failed else ""
