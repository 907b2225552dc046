"""A fair comparison as grids: methods from one start, with one budget and equal trials, beside controls.

Every method trains from the same supervised start of its seed, by the task's recipe, so that budgets are equal. With
trials, each method's learning rate is chosen on validation out of equally many, with a seed that no result has.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grue import files
from grue.algorithms import SUPERVISED, system_of
from grue.errors import ConfigError
from grue.records import BASELINES, with_backbone
from grue.runs.log import NAME as LOG
from grue.runs.log import read_log
from grue.sweep.grid import GridEntry, ModelEntry, SweepGrid
from grue.sweep.jobs import plan_jobs, stages_of
from grue.task_files import load_task

FACTORS = (1.0, 3.0, 1 / 3, 10.0, 0.1)
"""What the recipe's learning rate is multiplied by, in the order of the trials."""
TRIAL_SEED = 101
ZERO_SHOT = "zero-shot"
TWICE = "supervised_x2"
"""The control that trains the start twice as long: what the compute of reinforcement learning buys without it."""


def fair_grid(
    grid: SweepGrid,
    methods: Sequence[str],
    backbone: str | None = None,
    from_backbone: bool = False,
    best_of: int = 0,
    models: Sequence[ModelEntry] = (),
    settings: Mapping[str, Any] | None = None,
) -> SweepGrid:
    """Return the grid of a comparison.

    Args:
        grid: Suite, tasks and seeds; nothing else of it is kept.
        methods: Algorithms; a bare one means `supervised+NAME` unless `from_backbone`. Baselines are taken as they are.
        backbone: Another model than the tasks' own.
        from_backbone: Whether methods train from the backbone, which is then a row, and there is no start.
        best_of: Samples of the start of which a control keeps the best; 0 for no such control.
        models: Models that were made elsewhere, which are only evaluated.
        settings: Of every method; the start and its controls keep those of the recipes.

    Raises:
        ConfigError: There is nothing to compare, or nothing to compare it by; tasks are of several suites; a method is
            named twice, or one lacks one of the settings.
    """
    tasks = [load_task(source, grid.suite) for source in grid.task_list()]
    if len(suites := sorted({task.suite for task in tasks})) > 1:
        raise ConfigError(f"The tasks are of several suites, {', '.join(suites)}: compare on those of one.")
    if not any(spec.axis == "preference" for task in tasks for spec in task.metrics):
        raise ConfigError("No task has a metric of preference, by which systems are compared: name one that has.")
    names = [_whole(name, from_backbone) for name in methods]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"--algos names {doubled[0]} twice; name each method once.")
    trained = [name for name in names if name not in (*BASELINES, SUPERVISED)]
    if settings and not trained:
        raise ConfigError(f"--set {next(iter(settings))}: there is no method that it could be a setting of.")
    plain = SweepGrid(suite=grid.suite, tasks=grid.tasks, seeds=grid.seeds, models=tuple(models))
    short = [system_of(name) for name in names]
    entries = []
    for name in names:
        # Two of one file would share its name.
        own = with_backbone(name.replace(":", "-"), backbone) if short.count(system_of(name)) > 1 else None
        values = (settings or {}) if name in trained else {}
        start = None if name in BASELINES else backbone
        entries.append(GridEntry(algorithm=name, system=own, backbone=start, set=values))
    if models and not trained:
        if len(names) + len(models) < 2:
            raise ConfigError("One model is no comparison: name another, --model a,b, or a method with --algos.")
        return replace(plain, systems=tuple(entries))
    if not trained:
        raise ConfigError("--algos names too few methods to compare: add one, such as ppo.")
    if not from_backbone and SUPERVISED not in names:
        entries.insert(0, GridEntry(algorithm=SUPERVISED, backbone=backbone))
    if from_backbone and backbone:
        untrained = ModelEntry(model=backbone, system=with_backbone(ZERO_SHOT, backbone))
        plain = replace(plain, models=(untrained, *plain.models))
    elif from_backbone and ZERO_SHOT not in names:
        entries.append(GridEntry(algorithm=ZERO_SHOT))
    whole = replace(plain, systems=tuple(entries))
    if from_backbone:
        return whole
    picked = [GridEntry(algorithm=SUPERVISED, backbone=backbone, best_of=best_of)] if best_of else []
    return replace(whole, systems=(*entries, *_twice(whole, backbone), *picked))


def starts_untrained(grid: SweepGrid) -> bool:
    """Whether a method of a comparison trains from the backbone as it is."""
    return any(entry.algorithm not in (*BASELINES, SUPERVISED) and "+" not in entry.algorithm for entry in grid.systems)


def models_of_others(grid: SweepGrid) -> list[ModelEntry]:
    """Return a comparison's models from which none of its methods begins."""
    return [entry for entry in grid.models if entry.model not in {begun.backbone for begun in grid.systems}]


def _whole(method: str, from_backbone: bool) -> str:
    bare = "+" not in method and method not in (*BASELINES, SUPERVISED)
    return f"{SUPERVISED}+{method}" if bare and not from_backbone else method


def _twice(grid: SweepGrid, backbone: str | None) -> Iterator[GridEntry]:
    """Yield the start with twice the epochs of each task's recipe."""
    system = with_backbone(TWICE, backbone)
    for source in grid.task_list():
        twice = {"epochs": 2 * _recipe(grid, source, SUPERVISED)["epochs"]}
        yield GridEntry(algorithm=SUPERVISED, system=system, tasks=(source,), backbone=backbone, set=twice)


def _recipe(grid: SweepGrid, source: str, algorithm: str) -> dict[str, Any]:
    """Return the settings that an algorithm of the grid has on a task."""
    job = next(job for job in plan_jobs(grid.on_tasks([source])) if job.algorithm == algorithm)
    settings: dict[str, Any] = files.plain(stages_of(job, load_task(job.source, grid.suite), Path("runs"))[-1].config)
    return settings


def trial_grid(grid: SweepGrid, trials: int) -> SweepGrid:
    """Return the trials of a comparison: each method's learning rate, on each task, with a seed of their own.

    Raises:
        ConfigError: There are not so many trials.
    """
    if not 2 <= trials <= len(FACTORS):
        raise ConfigError(f"--trials {trials}: take 2 to {len(FACTORS)}, or leave it out for the recipes' rates.")
    entries = []
    for source in grid.task_list():
        for entry in (entry for entry in grid.systems if entry.algorithm not in (*BASELINES, SUPERVISED)):
            rate = _recipe(grid, source, entry.algorithm)["learning_rate"]
            rates = tuple(float(f"{rate * factor:.3g}") for factor in FACTORS[:trials])
            system = entry.system and f"{entry.system}_learning_rate-{{learning_rate}}"
            entries.append(replace(entry, system=system, tasks=(source,), vary={"learning_rate": rates}))
    seed = max(TRIAL_SEED, *(seed + 1 for seed in grid.seed_list()))
    return replace(grid, systems=tuple(entries), seeds=(seed,), evaluate=False)


@dataclass(frozen=True, slots=True)
class TunedRate:
    """A method's trials on a task.

    Attributes:
        reached: Learning rate → the preference on validation, 0–100, of the policy that the trial kept (`keep`); the
            reward on a task without preference.
    """

    source: str
    algorithm: str
    reached: Mapping[float, float]

    @property
    def rate(self) -> float:
        """The learning rate that validated best, the first of equals."""
        return max(self.reached, key=self.reached.__getitem__)


def chosen_rates(trials: SweepGrid, runs: Path) -> list[TunedRate]:
    """Return what the trials reached, from their logs; a DataError if a trial's log cannot be read."""
    reached: dict[tuple[str, str], dict[float, float]] = {}
    for job in plan_jobs(trials):
        assert isinstance(job.entry, GridEntry)
        if "learning_rate" in job.entry.set:
            log, _ = read_log(runs / job.id / LOG)
            measured = [line.get("validation/preference", line.get("validation/reward")) for _, line in log]
            values = [value for value in measured if value is not None]
            keep = stages_of(job, load_task(job.source, trials.suite), runs)[-1].config.keep
            rate = job.entry.set["learning_rate"]
            reached.setdefault((job.source, job.algorithm), {})[rate] = max(values) if keep == "best" else values[-1]
    return [TunedRate(source, algorithm, values) for (source, algorithm), values in reached.items()]


def with_rates(grid: SweepGrid, choices: Sequence[TunedRate]) -> SweepGrid:
    """Return the grid in which each method has its learning rate on each task."""
    systems: list[GridEntry] = []
    for entry in grid.systems:
        tuned = [choice for choice in choices if choice.algorithm == entry.algorithm]
        systems += [
            replace(entry, tasks=(each.source,), set={**entry.set, "learning_rate": each.rate}) for each in tuned
        ] or [entry]
    return replace(grid, systems=tuple(systems))
