"""What a system was trained on, and its held-out preference: that of metrics that its training did not optimise.

Optimising one metric raises related ones, too (arXiv 2503.08327, "MINT"). A task file lists
its metrics' families, found by `experiments/relatives.py`. The held-out preference of a row leaves out its rewards and
their families; that of a row without a reward leaves out those of the task's reward, so that the two are comparable.
"""

from collections.abc import Iterable, Sequence

from grue.algorithms import BUILT_IN, SUPERVISED
from grue.errors import ConfigError
from grue.evaluation.rewards import parse_reward
from grue.leaderboard.board import BoardTask, Cell, Column, Estimate, Row
from grue.records import CONSENSUS, LIKELIHOOD, Result
from grue.stats.intervals import mean
from grue.tasks import with_relatives

PEOPLE = "people"
"""The judge of a reward model that learned from people's answers."""
UNNAMED = ("best-of-n", *(name for name in BUILT_IN if name != SUPERVISED))
"""Algorithms that optimise a reward; if their result does not name it, it counts as the task's."""


def terms_of(reward: str) -> tuple[str, ...]:
    """Return the terms of a reward, sorted; one that cannot be parsed is a single term."""
    try:
        return tuple(sorted({name for _, name in parse_reward(reward)}))
    except ConfigError:  # a claim in a submission; it equals no metric's name
        return (reward,)


def rewards_of(results: Iterable[Result], default: Sequence[str]) -> tuple[str, ...]:
    """Return the terms of all rewards that a system's runs on a task were trained on or picked by.

    A reward model that learned from a metric's judgements counts as that metric, too. Failed runs do not state
    theirs, and count only if all have failed.
    """
    terms: set[str] = set()
    runs = list(results)
    for result in [run for run in runs if run.status == "complete"] or runs:
        if names_no_reward(result):
            terms.update(default)
        elif reward := result.system.get("reward"):
            terms.update(terms_of(reward))
        for model in result.system.get("reward_models") or ():  # what it judges by is optimised with it
            if (judge := str(model.get("judge", ""))) not in ("", PEOPLE):
                terms.update(terms_of(judge))
        rewards = result.steering.get("rewards")
        for picked in (result.steering.get("pick_by"), *(rewards if isinstance(rewards, list | tuple) else ())):
            if isinstance(picked, str) and picked not in (LIKELIHOOD, CONSENSUS):
                terms.update(terms_of(picked))
    return tuple(sorted(terms))


def names_no_reward(result: Result) -> bool:
    """Whether a result was made by an algorithm that optimises a reward, and does not say which."""
    algorithm = str(result.system.get("algorithm", "")).rpartition("+")[2]
    return algorithm in UNNAMED and not result.system.get("reward")


def held_out_columns(task: BoardTask, rewards: Sequence[str]) -> list[Column]:
    """Return the preference metrics that are neither among the rewards nor of the family of one of them.

    Args:
        rewards: Terms of a row's rewards; empty for the task's.
    """
    raised = with_relatives(rewards or task.rewards, task.families)
    return [column for column in task.columns if column.axis == "preference" and column.metric not in raised]


def held_out_on(row: Row, task: BoardTask) -> Estimate | None:
    """Return the held-out preference of a row if it is of the same metrics as for the task's own reward."""
    cell = row.cells.get(task.name)
    return cell.held_out if cell is not None and cell.held_out_metrics == held_out_names(task) else None


def held_out_names(task: BoardTask) -> tuple[str, ...]:
    """Return the metrics of the held-out preference after training on the task's own reward, or on none."""
    return tuple(column.metric for column in held_out_columns(task, ()))


def held_out(task: BoardTask, cell: Cell) -> Estimate | None:
    """Return the held-out preference of a cell, 0–100, failed seeds as 0; None if there is no such metric.

    It is also None if a metric is missing for a seed.
    """
    columns = held_out_columns(task, cell.rewards)
    if not columns:
        return None
    by_seed = dict.fromkeys(cell.seeds, 0.0)
    for seed in by_seed.keys() - set(cell.failed):
        raw = [(c, e.by_seed[seed]) for c in columns if (e := cell.metrics.get(c.metric)) and seed in e.by_seed]
        scaled = [value for column, of in raw if (value := column.scale(of)) is not None]
        if len(scaled) < len(columns):
            return None
        by_seed[seed] = mean(scaled)
    return Estimate.of(by_seed)
