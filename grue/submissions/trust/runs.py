"""The runs of a submitted row that are to be made again, read as carefully as the check reads them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from grue.data.load import load_examples
from grue.errors import ConfigError, DataError, SubmissionError
from grue.evaluation.predictions import match, read_predictions
from grue.records import Prediction, Result
from grue.submissions.checks.rescoring import SubmittedRun
from grue.submissions.checks.structure import read_system
from grue.submissions.folder import CONFIG
from grue.task_files import load_task
from grue.tasks import Task

MOST_THREADS = 64


@dataclass(frozen=True, slots=True)
class Target:
    """One complete run of a row.

    Attributes:
        system: The row's folder.
        others: The results of the row's other seeds on the task.
        predictions: Path of its predictions.
    """

    system: Path
    task: Task
    result: Result
    others: tuple[Result, ...]
    predictions: Path

    @property
    def seed(self) -> int:
        """The run's seed."""
        return self.result.seed

    @property
    def configuration(self) -> Path:
        """Path of what it was trained with; there may be none."""
        return self.predictions.with_name(CONFIG)

    @property
    def weights(self) -> str:
        """What identifies the weights behind its predictions; empty if the row does not say."""
        return self.result.system.get("weights") or ""

    def __str__(self) -> str:
        return f"{self.task.name} seed {self.seed}"

    def read(self) -> list[Prediction]:
        """Return the row's predictions in the order of the examples, which must be exactly those."""
        examples = load_examples(self.task, self.task.data.evaluation).examples
        return match(examples, read_predictions(self.predictions, DataError))


def threads_of(runs: Iterable[Target]) -> int | None:
    """Return with how many threads a row was made, since sums depend on it; None if it does not say."""
    stated = [run.result.determinism.get("threads") for run in runs]
    return next((threads for threads in stated if type(threads) is int and 0 < threads <= MOST_THREADS), None)


def targets(system: Path, tasks: Collection[str] = (), seeds: Collection[int] = ()) -> list[Target]:
    """Return the complete runs of a row, or those of some tasks and seeds.

    Raises:
        DataError: There is no such folder, or predictions cannot be read.
        SubmissionError: Its files are not in order.
        ConfigError: It has no complete run of that task or seed.
    """
    if not system.is_dir():
        raise DataError(f"{system}: there is no such folder; give a system's, such as submissions/mini/my-ppo.")
    contents = read_system(system)
    errors = [f"{problem.path}: {problem.message}" for problem in contents.problems if problem.severity == "error"]
    if errors:
        raise SubmissionError(f"{errors[0]} Correct what `grue submit check {system}` reports.")
    complete = [
        Target(system, load_task(name, contents.suite), run.result, _other_seeds(run, runs), run.predictions)
        for name, runs in contents.runs.items()
        for run in runs
        if run.result is not None and run.predictions is not None
    ]
    for noun, wanted, known in (
        ("task", tasks, {run.task.name for run in complete}),
        ("seed", seeds, {run.seed for run in complete}),
    ):
        for name in wanted:
            if name not in known:
                listed = ", ".join(map(str, sorted(known, key=str))) or "none"
                raise ConfigError(f"{system}: has no complete run of {noun} {name}. It has: {listed}.")
    chosen = [r for r in complete if (not tasks or r.task.name in tasks) and (not seeds or r.seed in seeds)]
    if not chosen:
        raise ConfigError(f"{system}: has no complete run with that task and seed.")
    return chosen


def _other_seeds(run: SubmittedRun, runs: Iterable[SubmittedRun]) -> tuple[Result, ...]:
    return tuple(o.result for o in runs if o is not run and o.result is not None and o.predictions is not None)
