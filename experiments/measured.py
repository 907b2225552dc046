"""The runs behind docs/background/ablations.md, and the figures that are read from each."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grue import files
from grue.errors import DataError
from grue.records import Result
from grue.rl.settings import recorded
from grue.runs.recipes import make_config
from grue.stats.intervals import mean
from grue.sweep.grid import read_grid
from grue.sweep.jobs import Job, plan_jobs
from grue.task_files import load_task

GRIDS = Path(__file__).parent / "findings"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run's figures: metrics on the test split by name, and means over the log by their names in `LOGGED`."""

    task: str
    system: str
    seed: int
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The content of a grid's JSON file; `tasks` are the hashes of its runs' tasks."""

    tasks: Mapping[str, str]
    runs: tuple[Run, ...]

    def seeds(self, task: str, system: str, figure: str) -> list[float]:
        """Return a figure of a system's seeds, in order; a baseline has no logged figures."""
        ours = sorted((run.seed, run.figures) for run in self.runs if (run.task, run.system) == (task, system))
        return [figures[figure] for _, figures in ours if figure in figures]


LOGGED = {
    "steps": "policy/steps",
    "clipped": "policy/clip_fraction",
    "mask_size": "mask/size",
    "disagreement": "mask/disagreement",
}
"""Figure → the logged figure whose mean over the updates it is."""
DIVERSITY = "distinct2"  # the only figure of diversity that is kept


def read_run(folder: Path, job: Job) -> Run:
    """Read an evaluated run.

    Raises:
        DataError: It cannot be read, is of another version of the task, was evaluated on a part of the split, or was
            trained with other settings than the grid's.
    """
    figures = figures_of(folder / "result.json", job)
    if job.trains:
        _check_settings(folder / "config.toml", job)
        figures |= logged(folder / "train.jsonl")
    return run_of(job, figures)


def read_submitted(submissions: Path, job: Job) -> Run:
    """Read a run from the submission of its system.

    Raises:
        DataError: It cannot be read, is of another version of the task, or was evaluated on a part of the split.
    """
    folder = submissions / job.suite / job.system / job.task
    return run_of(job, figures_of(folder / f"seed-{job.seed}.result.json", job))


def run_of(job: Job, figures: Mapping[str, float]) -> Run:
    """Return a run with rounded figures."""
    rounded = {name: float(f"{value:.6g}") for name, value in figures.items()}
    return Run(task=job.task, system=job.system, seed=job.seed, figures=rounded)


def figures_of(path: Path, job: Job) -> dict[str, float]:
    """Return what a result says of a run: metrics, both axes, and the KL on validation where there is one.

    Raises:
        DataError: It cannot be read, is of another version of the task, or was evaluated on a part of the split.
    """
    result: Result = files.load_json(path, Result)
    if result.task_hash != load_task(job.source, job.suite).hash or result.limited or result.status != "complete":
        raise DataError(f"{path}: is of another version of {job.task}, or incomplete; run it again.")
    figures = {
        score.metric.partition(":")[0]: score.value  # perplexity:bounded is read as perplexity
        for score in result.scores
        if score.axis != "diversity" or score.metric == DIVERSITY
    }
    axes = {"preference": result.preference, "naturalness": result.naturalness}
    figures |= {name: value for name, value in axes.items() if value is not None}
    validation = result.system.get("validation", {})
    return figures | ({"kl": validation["kl"]} if "kl" in validation else {})


def _check_settings(path: Path, job: Job) -> None:
    """Refuse a run of the same name that was trained with other settings."""
    task, record = load_task(job.source, job.suite), files.read_toml(path)
    config = files.plain(recorded(make_config(task, job.algorithm, job.entry.set, job.entry.preset)))
    expected = {**config, "reward": job.entry.reward or task.reward}
    found = {**record["config"], "reward": record["reward"]}
    differing = [key for key in sorted({*expected, *found}) if expected.get(key) != found.get(key)]
    if differing:
        key = differing[0]
        raise DataError(
            f"{path}: {key} = {found.get(key)!r}, where the grid has {expected.get(key)!r}; "
            "remove the folder and run it again."
        )


def logged(path: Path) -> dict[str, float]:
    """Return the means of a run's logged figures; supervised training logs none of them."""
    lines = [line for _, line in files.read_jsonl(path) if "seconds" in line]
    return {
        name: mean([line[key] for line in lines])
        for name, key in LOGGED.items()
        if lines and all(key in line for line in lines)
    }


def runs_of(grid: str) -> list[Job]:
    """Return every run of a grid."""
    return [job for job in plan_jobs(read_grid(GRIDS / f"{grid}.toml")) if job.evaluate]
