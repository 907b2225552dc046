"""Compare methods fairly."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grue.api.evaluate import behind
from grue.api.examples import refuse_text
from grue.api.train import several_seeds
from grue.errors import TrainingError
from grue.sweep import run
from grue.sweep.fair import fair_grid, trial_grid
from grue.sweep.grid import ModelEntry, SweepGrid
from grue.sweep.jobs import Job
from grue.sweep.record import State
from grue.sweep.schedule import Sweep, SweepObserver
from grue.sweep.work import JobContext

if TYPE_CHECKING:
    from grue.sweep.bench import Findings, PlannedBench


def bench(
    folder: str | Path = "bench",
    algorithms: Sequence[str] = (),
    *,
    jobs: int | None = None,
    gpus: float = 0.0,
    observer: SweepObserver | None = None,
    stop: Callable[[], bool] | None = None,
    **arguments: Any,
) -> "Findings":
    """Compare methods fairly, as `grue bench` does; the same call resumes it.

    Args:
        folder: It gets the runs, the report and its page.
        algorithms: The methods: "ppo", "grpo", "my_file:NAME"; a bare one begins from the supervised start.
        jobs: Runs at a time. [default: one for each GPU, or else for each core]
        gpus: Of each run; 0.25 lets four share one. [default: one]
        observer: Is told what changes. [default: it prints a line]
        stop: Called twice a second; True saves every run's state and raises TrainingError.
        arguments: Those of `plan_bench`: suite, tasks, seeds, settings, trials, backbone, models, best_of and
            others.

    Returns:
        `scores` and `differences` as pandas frames, the report as `markdown`; a notebook shows it.

    Raises:
        ConfigError, UnknownName: An argument is invalid, or the folder holds another comparison.
        TrainingError: A run failed; the message has the reason of the first.
    """

    def carry_out(grid: SweepGrid, place: JobContext) -> bool:
        with run.claimed(grid, place) as (planned, record):
            watching = Printing() if observer is None else observer
            states = Sweep(planned, record, run.executor_for(record, place, jobs=jobs, gpus=gpus), watching).run(
                stop or (lambda: False)
            )
        left = [job for job in planned if states[job.id] != "finished"]
        if left:
            reasons = {event.job: event.message for event in record.ended()}
            first = next((job for job in left if reasons.get(job.id)), left[0])
            why = reasons.get(first.id) or "it was stopped"
            raise TrainingError(f"{len(left)} of {len(planned)} runs are not finished. {first.id}: {why}")
        return True

    finished = plan_bench(folder, algorithms, **arguments).carry_out(carry_out)
    assert finished is not None, "what is not finished is an error"
    return finished.findings()


def plan_bench(
    folder: str | Path,
    algorithms: Sequence[str] = (),
    *,
    suite: str = "mini",
    tasks: Sequence[str] | None = None,
    models: Sequence[str] = (),
    chat: bool = False,
    backbone: str | None = None,
    seeds: str | Sequence[int] | None = None,
    settings: Mapping[str, Any] | None = None,
    trials: int | None = None,
    best_of: int = 8,
    from_backbone: bool = False,
    threads: int = 1,
    data_dir: str | Path | None = None,
    offline: bool = False,
) -> "PlannedBench":
    """Return a comparison as it would be carried out; nothing is started.

    Args:
        algorithms: As in `bench`.
        tasks: Names or task files. [default: all of the suite]
        models: Models made elsewhere, which are only evaluated: hub ids, folders or http://HOST/v1#MODEL.
        chat: Whether local ones of `models` get the tasks' chat prompts.
        backbone: What all begin from: a hub id or a folder. [default: each task's]
        seeds: "1-5", or numbers. [default: 1 to 5; without algorithms 1]
        settings: Of every method, in place of the recipe's, such as {"updates": 4}; the start keeps its own.
        trials: Choose each method's learning rate on validation, out of so many. [default: the recipe's]
        best_of: A control, the best of so many samples of the supervised start; 0 for none.
        from_backbone: Whether methods train from the backbone, without a supervised start; it is a row as it is.
        threads: CPU threads of each run.
        data_dir: As in `grue.train`, as is `offline`.

    Raises:
        ConfigError, UnknownName: An argument is invalid, or there is nothing to compare.
    """
    from grue.sweep.bench import RUNS, PlannedBench

    refuse_text(algorithms=algorithms, models=models, tasks=tasks)
    folder, asked_of = Path(folder), [behind(name, None, None) for name in models]
    entries = tuple(ModelEntry(model=name, chat=chat and not at, endpoint=at) for name, at in asked_of)
    drawn: str | tuple[int, ...] = "1-5" if algorithms else "1"
    if seeds is not None:
        numbers = several_seeds(seeds, {})
        drawn = seeds if isinstance(seeds, str) else tuple(numbers)
    asked = SweepGrid(suite=suite, seeds=drawn, models=entries).located()
    if tasks is not None:
        asked = asked.on_tasks(tuple(tasks))
    grid = fair_grid(asked, algorithms, backbone, from_backbone, best_of, asked.models, settings)
    data = None if data_dir is None else Path(data_dir)
    place = JobContext(runs=(folder / RUNS).absolute(), data_dir=data, offline=offline, threads=threads)
    tried = None if trials is None else trial_grid(grid, trials)
    return PlannedBench(folder, grid, place, tried, settings=settings or {}).chosen()


class Printing:
    """An observer of a sweep that prints a line for every change."""

    def changed(self, job: Job, state: State, message: str | None) -> None:
        """Print a job's new state."""
        print(f"{state:9}{job.id}{f': {message}' if message else ''}", flush=True)

    def tick(self, states: Mapping[str, State]) -> None:
        """Print nothing."""
