"""The fresh draw: a test split that did not exist when a row was handed in, and what a submitter can gain despite it.

The draw follows from the hashes of all checkpoints that the row names, the tasks' versions and a salt, by sha256. A
checkpoint that has seen a draw has another hash, and so another draw.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

from grue.errors import SubmissionError
from grue.files import sha256_json, sha256_text
from grue.records import Result
from grue.submissions.folder import SHA256

GENERATED = ("mini",)
"""Suites whose examples a generator draws, so that a row can be asked about others than those of the test split."""
EXAMPLES = 1000
"""Examples of a fresh draw; a source row of a task may hold several."""
LEVEL = 0.01
"""How often an honest row fails, all of its comparisons together (Bonferroni)."""
LUCK = 0.05
"""How often an inflation beyond `most_inflation` passes at least once in all of its tries, at most."""
ROUNDING = 1e-9  # points of 100


@dataclass(frozen=True, slots=True)
class DrawnRun:
    """What is run of a task: the checkpoint of one training seed, on rows that the generator draws from `rows_seed`."""

    seed: int
    rows_seed: int


@dataclass(frozen=True, slots=True)
class Gap:
    """A score on the public test and on the fresh draw, 0–100, with standard errors over examples."""

    public: float
    fresh: float
    public_error: float
    fresh_error: float

    @property
    def value(self) -> float:
        """How much higher the public score is."""
        return self.public - self.fresh

    @property
    def error(self) -> float:
        """The standard error of `value`; the examples of the two splits are different ones."""
        return math.hypot(self.public_error, self.fresh_error)


Gaps = Mapping[str, Mapping[str, Gap]]
"""Task → axis → gap."""


def draw(results: Iterable[Result], salt: str = "") -> dict[str, DrawnRun]:
    """Return task → what is run of it, given the results of all complete runs of a row.

    Args:
        salt: What nobody knew when the row was handed in, such as the id of the workflow's run. Without it, a submitter
            who tries many checkpoints can choose which training seeds are run.
    """
    runs = sorted(results, key=lambda result: (result.task, result.seed))
    unnamed = [f"{run.task} seed {run.seed}" for run in runs if not SHA256.fullmatch(str(run.system.get("weights")))]
    if unnamed:
        raise SubmissionError(
            f"No checkpoint is named by the sha256 of its files (system.weights): {', '.join(unnamed)}. Evaluate a "
            "folder of a model, not an address of the hub, and submit the result.json that `grue evaluate` wrote."
        )
    named = [[run.task, run.task_hash, run.seed, run.system["weights"]] for run in runs]
    origin = sha256_json(["fresh draw", 1, salt, named])
    drawn = {}
    for task in dict.fromkeys(run.task for run in runs):
        seeds = [run.seed for run in runs if run.task == task]
        which, rows = (int(sha256_text(f"{origin} {task} {purpose}"), 16) for purpose in ("seed", "rows"))
        drawn[task] = DrawnRun(seeds[which % len(seeds)], rows % 2**63)
    return drawn


def over_tasks(gaps: Sequence[Gap]) -> Gap:
    """Return the gap of the mean over tasks, whose draws are independent."""
    return Gap(
        fmean(gap.public for gap in gaps),
        fmean(gap.fresh for gap in gaps),
        math.hypot(*(gap.public_error for gap in gaps)) / len(gaps),
        math.hypot(*(gap.fresh_error for gap in gaps)) / len(gaps),
    )


def compared(gaps: Gaps) -> dict[str, Gap]:
    """Return what is compared of a row, by name: each axis of each task, and its mean if there are several tasks."""
    named = {f"{task}: {axis}": gap for task, axes in gaps.items() for axis, gap in axes.items()}
    for axis in dict.fromkeys(axis for axes in gaps.values() for axis in axes):
        of_axis = [axes[axis] for axes in gaps.values() if axis in axes]
        if len(of_axis) > 1:
            named[f"mean over tasks: {axis}"] = over_tasks(of_axis)
    return named


def too_high(gaps: Gaps) -> dict[str, Gap]:
    """Return those of `compared` where the public score is higher than the fresh one by more than examples explain.

    One-sided z tests, with Bonferroni's correction: an honest row fails one of them with probability `LEVEL` at most.
    """
    named = compared(gaps)
    return {name: gap for name, gap in named.items() if gap.value > _quantile(len(named)) * gap.error + ROUNDING}


def most_inflation(gap: Gap, comparisons: int, tries: int) -> float:
    """Return by how many points a public score may be inflated before it passes with a probability below `LUCK`.

    A row has several comparisons (`compared`), and one of several tries has to pass. Their luck is that of the fresh
    examples alone: the public ones stay the same.
    """
    luck = -NormalDist().inv_cdf(LUCK / tries)
    return _quantile(comparisons) * gap.error + luck * gap.fresh_error


def _quantile(comparisons: int) -> float:
    return -NormalDist().inv_cdf(LEVEL / comparisons)
