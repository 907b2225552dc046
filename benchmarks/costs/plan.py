"""The suite's jobs with their seconds, on cards under assumptions, and what is left when something is left out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from costs.lengths import Lengths, at_limits
from costs.rates import CARDS, Rates, Timed, assumed, device_seconds, total_seconds
from costs.work import Pass, Run, work_of

from grue.sweep.grid import Grid
from grue.sweep.jobs import plan_jobs
from grue.tasks import Task

BOARD = ("zero-shot", "supervised", "ppo", "nlpo", "supervised+ppo", "supervised+nlpo")
OTHERS = ("a2c", "trpo", "reinforce", "rloo", "grpo")
SEEDS = 5


@dataclass(frozen=True, slots=True)
class Assumption:
    """What a program may reach of a card.

    Attributes:
        host: Factor on the host's seconds as measured on a CPU.
    """

    name: str
    compute: float
    bandwidth: float
    host: float


HOPEFUL = Assumption("hopeful", 0.3, 0.5, 1.0)
CAUTIOUS = Assumption("cautious", 0.1, 0.25, 2.0)


@dataclass(frozen=True)
class Suite:
    """The runs of the suite, counted once.

    Attributes:
        texts: Task → lengths.
        change: What becomes of a run's passes, for a plan that leaves something out.
    """

    texts: Mapping[str, Lengths]
    tasks: Sequence[Task]
    change: Callable[[Run, list[Pass]], list[Pass]] = lambda run, passes: passes

    def work(self, task: Task, algorithm: str) -> list[Pass]:
        """Return the passes of a run."""
        run = Run(task, algorithm, self.texts[task.name])
        return self.change(run, work_of(run))

    def at_limits(self) -> "Suite":
        """Return the suite with all texts at their limits: an upper bound."""
        return replace(self, texts={task.name: at_limits(task, self.texts[task.name]) for task in self.tasks})


def cards_and_assumptions(here: Mapping[str, Any]) -> dict[str, list[Rates]]:
    """Return assumption → the rates of every card under it."""
    return {
        each.name: [assumed(card, each.compute, each.bandwidth, here["host"], each.host) for card in CARDS]
        for each in (HOPEFUL, CAUTIOUS)
    }


def timed_jobs(suite: Suite, rates: Rates) -> list[Timed]:
    """Return the jobs of `grue sweep` over the whole suite, in its order, with their seconds."""
    jobs = plan_jobs(Grid(suite="grue", algorithms=BOARD, seeds=f"1-{SEEDS}"))
    tasks = {task.name: task for task in suite.tasks}
    seconds = {
        (task, algorithm): total_seconds(suite.work(tasks[task], algorithm), rates)
        for task, algorithm in {(job.task, job.algorithm) for job in jobs}
    }
    return [Timed(job.id, seconds[job.task, job.algorithm], job.after) for job in jobs]


def chain(jobs: Sequence[Timed]) -> float:
    """Return the seconds of the longest run with the one it starts from: no number of GPUs is faster."""
    alone = {job.id: job.seconds for job in jobs}
    return max(job.seconds + (alone[job.after] if job.after else 0.0) for job in jobs)


def everything(suite: Suite) -> dict[str, list[Pass]]:
    """Return task → the passes of all its runs; a count stands for all seeds."""
    return {
        task.name: [replace(one, count=SEEDS * one.count) for name in BOARD for one in suite.work(task, name)]
        for task in suite.tasks
    }


def saved_by_pairs(suite: Suite, rates: Rates) -> float:
    """Return the share of the time that two runs on a GPU at once save at best: each has a core, the GPU is shared."""
    passes = [one for each in everything(suite).values() for one in each]
    alone = total_seconds(passes, rates)
    busy = sum(one.count * device_seconds(one, rates) for one in passes)
    return 1.0 - max(busy, alone / 2) / alone


# --- what to leave out ---------------------------------------------------------------------------------------------


def _without_summac(run: Run, passes: list[Pass]) -> list[Pass]:
    """SummaC is the only model of 24 layers; BERTScore's has 17."""
    return [one for one in passes if one.kind != "layers 24"]


def _without_validation(run: Run, passes: list[Pass]) -> list[Pass]:
    return [one for one in passes if not one.phase.startswith("validation")]


def _without_beams(run: Run, passes: list[Pass]) -> list[Pass]:
    plain = replace(run, task=replace(run.task, decoding=replace(run.task.decoding, num_beams=1)))
    return work_of(plain)


def _published_starts(run: Run, passes: list[Pass]) -> list[Pass]:
    published = run.algorithm == "supervised" and run.task.backbone.warm_start
    return [one for one in passes if not published or one.phase in ("evaluation", "metrics")]


def _short_translation(run: Run, passes: list[Pass]) -> list[Pass]:
    if run.task.name != "wmt16" or run.algorithm != "supervised":
        return passes
    return [replace(one, count=one.count / 5) if one.phase == "update" else one for one in passes]


def in_float32(run: Run, passes: list[Pass]) -> list[Pass]:
    """Return the passes without bfloat16."""
    return [replace(one, half=False) for one in passes]


CUTS: Mapping[str, Callable[[Run, list[Pass]], list[Pass]]] = {
    "no supervised training where a warm start is published (all tasks but WMT16)": _published_starts,
    "one supervised epoch of WMT16 instead of five": _short_translation,
    "no SummaC": _without_summac,
    "no validation": _without_validation,
    "no beams": _without_beams,
}
