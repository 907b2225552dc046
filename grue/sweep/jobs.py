"""The jobs of a sweep: one for every run, ordered so that none depends on a later one."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grue import files
from grue.algorithms import SUPERVISED, system_of
from grue.errors import ConfigError, DataError
from grue.evaluation.endpoint import checked_url
from grue.evaluation.prompting import chat_prompt
from grue.metrics.registry import own_code
from grue.records import BASELINES, EXTERNAL, LOOKUPS, SEEDLESS, check_system_name, with_backbone
from grue.runs.request import VARIED, RunRequest
from grue.sweep.grid import GridEntry, ModelEntry, SweepGrid
from grue.task_files import load_task
from grue.tasks import Task

if TYPE_CHECKING:
    from grue.runs.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run of a sweep: training with its evaluation, or the evaluation of a baseline, a model or the best of n.

    Attributes:
        task: Name of the task, as in the path of its runs.
        source: The task's name in the suite, or the path of its file.
        entry: What to run, with the values of the whole grid; `system` and `tasks` are left empty.
        evaluate: Whether to evaluate the trained model; false for a run that is only a warm start.
        after: Id of the run that it starts from, or that it draws samples from.
        task_sha256: Of the task file's content (what the task's hash covers, its recipes, its chat prompt) and of the
            code of the user's own metrics.
    """

    suite: str
    task: str
    source: str
    system: str
    seed: int
    entry: GridEntry | ModelEntry
    evaluate: bool = True
    after: str | None = None
    task_sha256: str = ""

    @property
    def algorithm(self) -> str:
        """The algorithm or baseline; "external" for a model made elsewhere."""
        return EXTERNAL if isinstance(self.entry, ModelEntry) else self.entry.algorithm

    @property
    def id(self) -> str:
        """The job's id: its folder under the folder of all runs."""
        return f"{self.suite}/{self.task}/{self.system}/seed-{self.seed}"

    @property
    def trains(self) -> bool:
        """Whether there is something to train, and so a checkpoint."""
        return isinstance(self.entry, GridEntry) and self.algorithm not in BASELINES and self.entry.best_of is None

    def with_seed(self, seed: int) -> "Job":
        """Return the same run with another seed."""
        after = None if self.after is None else f"{kind_of(self.after)}-{seed}"
        return replace(self, seed=seed, after=after)

    @property
    def identity(self) -> str:
        """sha256 of all fields; a finished job with another identity, say of an older task file, does not count."""
        return files.sha256_json(self)


def plan_jobs(grid: SweepGrid) -> list[Job]:
    """Return the jobs of a grid; a warm start comes once, before the runs that need it.

    Every configuration is validated, so that nothing starts if one of them is wrong.

    Raises:
        ConfigError, UnknownName, DataError: A task, an algorithm or a value is wrong, or two systems share a name.
    """
    jobs: dict[str, Job] = {}
    loaded = [(source, load_task(source, grid.suite)) for source in grid.task_list()]
    entries, seeds = grid.entries(), grid.seed_list()
    _check_shared_values(grid, entries)
    asked: list[GridEntry | ModelEntry] = [*grid.models, *entries]
    _check_tasks(asked, loaded)
    for seed in seeds:
        for source, task in loaded:
            for entry in asked:
                if entry.tasks and {task.name, source}.isdisjoint(entry.tasks):
                    continue
                if isinstance(entry, ModelEntry):
                    _add(jobs, _job_of_model(entry, source, task, seed))
                elif entry.algorithm not in SEEDLESS or seed == seeds[0]:
                    for job in _jobs_of(entry, source, task, seed, grid):
                        _add(jobs, job)
    started = {job.after for job in jobs.values()}
    return sorted(jobs.values(), key=lambda job: job.id not in started)  # warm starts first


def stages_of(job: Job, task: Task, runs: Path, data_dir: Path | None = None, offline: bool = False) -> "list[Plan]":
    """Return the plans of a job's training: its warm start, if it has one, and itself.

    Raises:
        UnknownName, ConfigError: Its algorithm, a key of its configuration or a value is wrong.
    """
    from grue.runs import plan

    assert isinstance(job.entry, GridEntry)
    asked: dict[str, Any] = {name: getattr(job.entry, name) for name in VARIED}
    asked |= {"algorithm": job.algorithm, "seed": job.seed, "system": job.system, "settings": job.entry.set}
    return plan.stages_of(RunRequest(task=task, runs=runs, data_dir=data_dir, offline=offline, **asked))


def refuse_other_runs(
    jobs: Iterable[Job], runs: Path, data_dir: Path | None = None, finished: Callable[[Job], bool] = lambda job: False
) -> None:
    """Refuse jobs whose folder holds a run of another configuration.

    For a finished job, whose settings are known to be current, only data, code, backbone and start are compared.
    A job whose configuration cannot be read, or whose warm start is missing or damaged, is skipped: its worker will
    report it, and the others run.

    Raises:
        ConfigError: There is such a folder; the message names the first and counts the others.
    """
    from grue.runs.folder import claim_folder

    refused: list[str] = []
    for job in jobs:
        if not job.trains or not (runs / job.id / "config.toml").exists():
            continue
        plan = stages_of(job, load_task(job.source, job.suite), runs, data_dir)[-1]
        try:
            saved = files.read_toml(runs / job.id / "config.toml")
        except ConfigError:
            continue
        try:
            record = plan.record() | ({"config": saved.get("config", {})} if finished(job) else {})
            claim_folder(plan, record)  # writes nothing, as a configuration exists
        except ConfigError as error:
            refused.append(str(error))
        except DataError:
            continue
    if refused:
        more = f" In all, {len(refused)} folders of this sweep hold other runs." if len(refused) > 1 else ""
        raise ConfigError(f"{refused[0]}{more} Nothing was started.")


def _job(entry: GridEntry | ModelEntry, system: str, source: str, task: Task, seed: int, **details: Any) -> Job:
    code = own_code([spec.name for spec in task.metrics], task.folder)
    sha256 = files.sha256_json([task.hash, task.recipes, task.chat_hash, *([code] if code else [])])
    return Job(
        suite=task.suite,
        task=task.name,
        source=source,
        system=system,
        seed=seed,
        entry=replace(entry, system=None, tasks=()),
        task_sha256=sha256,
        **details,
    )


def _job_of_model(entry: ModelEntry, source: str, task: Task, seed: int) -> Job:
    from grue.evaluation.systems import check_name, external_name
    from grue.lm.load import check_language_model, family_of, state_of

    if entry.endpoint is not None:
        checked_url(entry.endpoint.url)
    if entry.chat if entry.endpoint is None else not entry.endpoint.completions:
        chat_prompt(task)
    name = entry.system or external_name(entry.model, chat=entry.chat, endpoint=entry.endpoint)
    if entry.endpoint is None and state_of(entry.model):  # a model of the hub is fetched when its job runs
        check_language_model("causal" if entry.chat else family_of(entry.model), entry.model)
    return _job(entry, check_name(name), source, task, seed)


def _jobs_of(entry: GridEntry, source: str, task: Task, seed: int, grid: SweepGrid) -> list[Job]:
    system = check_system_name(system_of(entry.algorithm) if entry.system is None else entry.system)
    if entry.algorithm in BASELINES:
        _check_baseline(entry, system, task)
        return [_job(entry, system, source, task, seed)]
    if entry.best_of is not None:
        from grue.evaluation.best_of import choose_best_of

        *first, drawn = _jobs_of(replace(entry, best_of=None), source, task, seed, grid)
        assert isinstance(drawn.entry, GridEntry)
        name = f"{system}+{choose_best_of(task, entry.best_of).name}"
        picked = _job(replace(drawn.entry, best_of=entry.best_of), name, source, task, seed, after=drawn.id)
        return [*first, replace(drawn, evaluate=False), *([picked] if grid.evaluate else [])]
    warm, _, _ = entry.algorithm.rpartition("+")
    backbone = entry.backbone if entry.backbone != task.backbone.model else None
    first = []
    if warm:
        start = GridEntry(algorithm=warm, backbone=backbone)
        first = [_job(start, with_backbone(warm, backbone), source, task, seed, evaluate=False)]
    known = {key: value for key, value in grid.set.items() if key in _keys_of(entry)}
    whole = replace(entry, backbone=backbone, set={**known, **entry.set})
    after = first[0].id if first else None
    job = _job(whole, system, source, task, seed, evaluate=grid.evaluate, after=after)
    stages_of(job, task, Path("runs"))  # refuses a wrong configuration before anything runs
    return [*first, job]


def _keys_of(entry: GridEntry) -> set[str]:
    from grue.runs.algorithms import find_card, split_algorithm

    card = find_card(split_algorithm(entry.algorithm)[-1])
    return {field.name for field in fields(card.settings)} - card.without_effect


def _check_shared_values(grid: SweepGrid, entries: Sequence[GridEntry]) -> None:
    from grue.runs.recipes import setting_instead

    keys = {key for entry in entries if entry.algorithm not in BASELINES for key in _keys_of(entry)}
    for key in grid.set:
        if key not in keys:
            close = setting_instead(key, sorted(keys), "NAME")
            raise ConfigError(f"set.{key}: no algorithm of this sweep has it.{close}")


def _check_baseline(entry: GridEntry, system: str, task: Task) -> None:
    options = [key for key in (*VARIED, "set", "vary", "best_of") if getattr(entry, key)]
    if options or system != entry.algorithm:
        raise ConfigError(f"{entry.algorithm} is a baseline: it takes no {options[0] if options else 'other name'}.")
    if entry.algorithm in LOOKUPS:
        from grue.lookups.find import find_lookup

        find_lookup(task, entry.algorithm)


def _check_tasks(entries: Sequence[GridEntry | ModelEntry], loaded: list[tuple[str, Task]]) -> None:
    names = {name for source, task in loaded for name in (source, task.name)}
    for entry in entries:
        unknown = sorted(set(entry.tasks) - names)
        if unknown:
            made_by = entry.model if isinstance(entry, ModelEntry) else entry.algorithm
            raise ConfigError(
                f"The system {entry.system or made_by!r} is for the task {unknown[0]!r}, which is not among the "
                f"sweep's tasks: {', '.join(sorted(names))}."
            )


def _add(jobs: dict[str, Job], job: Job) -> None:
    """Add a job; a warm start that is also a system of the grid is evaluated."""
    earlier = jobs.setdefault(job.id, job)
    if replace(earlier, evaluate=job.evaluate) != job:
        raise ConfigError(
            f"{job.id}: two different runs would share this folder. Give one of the systems another name, with "
            f"{{key}} for a varied value; {SUPERVISED} is the warm start of others, with the task's own recipe."
        )
    if job.evaluate:
        jobs[job.id] = job


def kind_of(job_id: str) -> str:
    """Return a job's id without its seed's number."""
    return job_id.rpartition("-")[0]


def short(job_id: str) -> str:
    """Return a job's id without the suite."""
    return job_id.partition("/")[2]
