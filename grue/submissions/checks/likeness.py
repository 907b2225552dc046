"""Whether runs are copies of one another.

Two honest runs agree too: every good translation of a short sentence is the same. How much they do is measured on the
other systems of the board, and a run is asked about only if it agrees with another clearly more than that.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean

from grue.algorithms import SUPERVISED
from grue.records import Result
from grue.submissions.checks.sketch import Sketch, alike, anywhere, equal
from grue.submissions.folder import kept_one_start
from grue.submissions.problems import Problem, error, review, warning

MORE = 0.3
"""Share of near-copies, of the texts that are none between honest runs, from which a person must look."""
AT_LEAST = 0.03  # above the level of honest runs, where these agree in nearly everything
NEARLY_ALL = 0.9  # share of equal texts between a run and the one that it began from
DISGUISED = 0.85
"""Share of near-copies, of the texts that are not equal, from which changes look like a disguise.

Training that hardly moves a policy leaves up to .73 (WMT16 of mini); a word added to each text leaves all.
"""


SAME_STEPS = 0.8
"""Share of the texts in which a run left its start that another one from there has, too, from which a person must look.

Two honest runs from one start have up to .60 of them alike (short answers of NarrativeQA; .48 on ToTTo, .04 on IMDB):
experiments/honest_copies.py.
"""
ONE_POLICY = ("weights", "config_sha256", "update")
"""What the results of one policy of one run say alike; the seed is part of the second."""
FEW_STEPS = 20  # texts, with fewer of which nothing is said of steps


@dataclass(frozen=True, slots=True, eq=False)
class SketchedRun:
    """A run's texts, and what its result says of its weights.

    Attributes:
        path: Its predictions.
        result: None if it cannot be read.
        is_checked: False if it stands already, and the others are only compared with it.
    """

    path: Path
    sketch: Sketch
    result: Result | None
    is_checked: bool = True

    @property
    def kept(self) -> bool:
        """Whether the result says that the best policy on validation was the one that training began with."""
        return self._system("update") == 0

    def related(self, other: "SketchedRun") -> bool:
        """Whether the results say that one run began with the other's weights, or both with the same ones."""
        return bool(self._lineage() & other._lineage()) or self.is_still(other) or other.is_still(self)

    def same_policy(self, other: "SketchedRun") -> bool:
        """Whether the results say that both runs kept the policy that they began with, and that it is the same."""
        return self.result is not None and other.result is not None and kept_one_start(self.result, other.result)

    @property
    def is_a_start(self) -> bool:
        """Whether the result says that this is what others start from: a supervised model, or the backbone as it is."""
        return self._system("algorithm") in (SUPERVISED, "zero-shot")

    def began_with(self, backbone: str) -> bool:
        """Whether the result says that this was the backbone."""
        return self._system("backbone") == backbone

    def is_start_of(self, other: "SketchedRun") -> bool:
        """Whether the results say that the other run began with this one's weights."""
        return self._system("weights") == other._system("start") not in (None, "")

    def is_still(self, other: "SketchedRun") -> bool:
        """Whether the result says that training kept its backbone as it was, which is what the other one is."""
        return self.kept and self.began_as(other)

    def began_as(self, other: "SketchedRun") -> bool:
        """Whether the result says that training began with its backbone as it was, which is what the other one is."""
        backbone = self._system("backbone")
        return (
            self._system("start") in (None, "")
            and other._system("algorithm") == "zero-shot"
            and other._system("backbone") == backbone not in (None, "")
        )

    def is_one_policy_with(self, other: "SketchedRun") -> bool:
        """Whether the results say that both are one policy of one run: its last, which is also the best."""
        same = [self._system(key) == other._system(key) not in (None, "") for key in ONE_POLICY]
        return all(same) and "last" in (self._system("kept"), other._system("kept"))

    def is_known_start(self, others: Sequence["SketchedRun"]) -> bool:
        """Whether one of the others is a start with the weights that the result says are its own."""
        return any(other.is_a_start and other._system("weights") == self._system("weights") for other in others)

    def _lineage(self) -> set[object]:
        """Return the hashes of its weights and of those that it began with."""
        return {self._system("weights"), self._system("start")} - {None, ""}

    def _system(self, key: str) -> object:
        return None if self.result is None else self.result.system.get(key)


def limit(level: float) -> float:
    """Return the share from which a person must look, where honest runs have `level`; both 0–1."""
    return level + max(MORE * (1 - level), AT_LEAST)


def agreement(seeds: Sequence[SketchedRun], share: Callable[[Sketch, Sketch], float] = alike) -> float:
    """Return the mean share of near-copies, or another one, between two seeds of a system, 0–1; 0 with a single one.

    Seeds that say that they are the same policy tell nothing of chance, and are left out.
    """
    pairs = [(one, other) for one, other in combinations(seeds, 2) if not one.same_policy(other)]
    shares = [share(one.sketch, other.sketch) for one, other in pairs]
    return fmean(shares) if shares else 0.0


def check_twins(
    runs: Sequence[SketchedRun], others: Sequence[SketchedRun], level: float, moved: float, backbone: str
) -> Iterator[Problem]:
    """Yield the seeds of a system and task that have an earlier seed's texts, or copies of too many of them.

    The same texts in another order are copies, too.

    Seeds that kept the backbone as it was may have the same texts, if these are the texts of the backbone as it is: by
    a row that stands already, if there are any, and by a person's judgement if it is another backbone than the task's.

    Args:
        runs: Sorted by path.
        others: The runs of other systems.
        level: The agreement between seeds of other systems, 0–1.
        moved: The share of texts that two seeds there share, for whatever example, 0–1.
        backbone: The task's own.
    """
    standing = [other for other in others if not other.is_checked] or others
    for index, run in enumerate(runs):
        for earlier in runs[:index]:
            if equal(run.sketch, earlier.sketch) == 1:
                stills = [other for other in standing if run.is_still(other) and equal(run.sketch, other.sketch) == 1]
                if not (run.same_policy(earlier) and stills):
                    yield error(17, run.path, f"has the same texts as {earlier.path.name}.")
                elif not run.began_with(backbone):
                    what = f"{earlier.path.name} and as {_whose(stills[0])}, which says that it is its backbone"
                    yield review(52, run.path, f"has the same texts as {what}.")
                break
            shared = alike(run.sketch, earlier.sketch)
            if shared >= limit(level):
                yield _nearly(run, earlier.path.name, shared, level)
                break
            repeated = anywhere(run.sketch, earlier.sketch)
            if repeated >= limit(moved):
                what = f"{repeated:.0%} of its texts stand word for word in {earlier.path.name}, if for other examples"
                yield review(38, run.path, f"{what}; of two seeds of other systems {moved:.0%} do.")
                break


def check_copies(run: SketchedRun, others: Sequence[SketchedRun], level: float, gathered: float) -> Iterator[Problem]:
    """Yield whether a run has the texts of another system's run, or copies of too many of them, or of many runs' ones.

    A run that kept its start has the texts of that start; whether it may have started there is for a person to see. So
    is whether a run's best policy, a row of its own, is also its last.

    Args:
        others: The runs of other systems that it must not be like.
        level: The agreement between seeds of other systems, 0–1.
        gathered: The most that `elsewhere` gives where nobody gathers, 0–1.
    """
    same = [other for other in others if equal(run.sketch, other.sketch) == 1]
    twins = [other for other in same if run.is_one_policy_with(other)]
    kin = [other for other in same if run.related(other) and (run.kept or other.kept)]
    strangers = [other for other in same if other not in (*twins, *kin)]
    if strangers:
        yield error(18, run.path, f"has the same texts as {_whose(strangers[0])}.")
    elif same and run.kept and any(other.is_a_start for other in same):
        yield warning(45, run.path, f"has the same texts as {_whose(same[0])}.")
    elif same and run.kept:
        yield review(52, run.path, f"has the same texts as {_whose(same[0])}, and says that it kept them as its start.")
    elif twins and run.is_checked:
        yield review(
            52, run.path, f"has the same texts as {_whose(twins[0])}: both say that they are one policy of a run."
        )
    elif same and run.is_checked and not any(other.is_checked for other in same):
        yield review(52, run.path, f"has the same texts as {_whose(same[0])}, which says that it began there.")
    if same:
        return
    found = [(shared, other) for other in others if (shared := _copied(run, other, level)) is not None]
    if found:
        shared, closest = max(found, key=lambda pair: pair[0])
        yield _nearly(run, _whose(closest), shared, level)
    elif stepped := [other for other in others if same_steps(run, other, others) >= SAME_STEPS]:
        share, whose = same_steps(run, stepped[0], others), _whose(stepped[0])
        yield review(38, run.path, f"has {share:.0%} of the texts in which {whose} left the start that both name.")
    elif (share := elsewhere(run, others)) >= limit(gathered):
        what = f"{share:.0%} of its texts, but those of its start, stand word for word in runs of other systems"
        yield review(38, run.path, f"{what}; of other systems' texts {gathered:.0%} do at most.")


def same_steps(run: SketchedRun, other: SketchedRun, others: Sequence[SketchedRun]) -> float:
    """Return the share of the texts in which a run left its start that another one from that start has, too, 0–1.

    0 where they say that they began elsewhere, where the start is not among `others`, and where few texts were left.
    """
    start = next((one for one in others if one.is_start_of(run) and one.is_start_of(other)), None)
    left = set() if start is None else other.sketch.texts.keys() - start.sketch.texts.keys()
    return len(run.sketch.texts.keys() & left) / len(left) if len(left) >= FEW_STEPS else 0.0


def elsewhere(run: SketchedRun, others: Sequence[SketchedRun]) -> float:
    """Return the share of the distinct texts in which a run left its start that others have for whatever example, 0–1.

    The start is the run of `others` whose weights it names or, if it names none, its backbone as it is; where that is
    not there, all texts count. Systems that began with its weights are left out, unless a start with these weights
    stands already. 0 where few texts were left.
    """
    kept: set[int] = set().union(*(one.sketch.texts for one in others if one.is_start_of(run) or run.began_as(one)))
    left = {text for key, text in run.sketch.texts.items() if key not in kept}
    heirs = set() if run.is_known_start(others) else {_system(other) for other in others if run.is_start_of(other)}
    said: set[int] = set().union(*(one.sketch.texts.values() for one in others if _system(one) not in heirs))
    return len(left & said) / len(left) if len(left) >= FEW_STEPS else 0.0


def _copied(run: SketchedRun, other: SketchedRun, level: float) -> float | None:
    """Return the share of near-copies of another run's texts if it is more than honest runs have."""
    near = alike(run.sketch, other.sketch)
    if not run.related(other):
        return near if near >= limit(level) else None
    same = equal(run.sketch, other.sketch)
    return near if same >= NEARLY_ALL or near - same >= DISGUISED * (1 - same) else None


def _nearly(run: SketchedRun, whose: str, shared: float, level: float) -> Problem:
    usual = f"; two seeds of other systems share {level:.0%}" if level else ""
    return review(38, run.path, f"{shared:.0%} of its texts are near-copies of those of {whose}{usual}.")


def _whose(run: SketchedRun) -> str:
    return f"{_system(run).name}, {run.path.name}"


def _system(run: SketchedRun) -> Path:
    return run.path.parent.parent
