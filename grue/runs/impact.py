"""Learning impact of prompts: how closely each prompt's rewards followed the mean of an earlier run.

LIMR (Li, Zou, Liu 2025, arXiv 2502.11886): s_i = 1 − Σ_k (r_i^k − r̄^k)² / Σ_k (1 − r̄^k)², where r_i^k is prompt i's
mean reward in pass k over the prompts and r̄^k the mean over prompts. What differs from the paper:

- Rewards are first scaled from the range of all r_i^k to 0–1. The paper's are shares of correct answers; a metric that
  never nears 1 would make the denominator large, and every s_i close to 1.
- A prompt that has no reward in one of the passes is left out, also from r̄. The authors' code fills some such gaps
  from the pass behind.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grue import claims, files
from grue.errors import DataError
from grue.records import COSTS
from grue.runs import log, rewarded
from grue.runs.plan import Plan
from grue.runs.rewarded import PromptRewards

FEWEST = 2
"""Passes over the prompts that a run must have made."""


def impacts(run: Path) -> dict[str, float]:
    """Return the learning impact of each prompt that a finished run drew in every pass over its prompts.

    Raises:
        DataError: The run is not finished or wrote no rewards, made too few passes, or rewarded all alike.
    """
    path = run / rewarded.NAME
    config, updates = files.read_toml(run / "config.toml")["config"], rewarded.read(path)
    logged = len(_updates(run))
    if len(updates) != logged:
        raise DataError(
            f"{path}: has lines of {len(updates)} updates, and the run made {logged}. Train that run again."
        )
    # With evolution strategies, every member answers a prompt, and samples_per_prompt is not read.
    answers = 2 * config["perturbations"] if "perturbations" in config else config["samples_per_prompt"]
    prompts, total = config["rollouts"] // answers, updates[0].examples
    whole = max(prompts, total)
    passes = logged * prompts // whole
    if passes < FEWEST:
        raise DataError(
            f"{run}: made {logged * prompts / whole:.1f} passes over its {total} prompts ({logged} updates of "
            f"{prompts}); limr needs {FEWEST} at least. Train a run with more updates or rollouts, or a smaller "
            "train_share."
        )
    curves = complete_curves(updates, prompts, whole, passes)
    if not curves:
        raise DataError(f"{path}: no prompt has a reward in each of {passes} passes, so that none can be compared.")
    values = [value for curve in curves.values() for value in curve]
    if min(values) == max(values):
        raise DataError(f"{path}: every prompt's reward is {min(values):g} in every pass, so that none can be chosen.")
    return learning_impacts(curves)


def complete_curves(
    updates: Sequence[PromptRewards], prompts: int, whole: int, passes: int
) -> dict[str, tuple[float, ...]]:
    """Return the rewards by pass of each prompt that has one in every pass.

    An update that spans two passes counts for the pass in which a prompt has no other reward.
    """
    curves: list[dict[str, float]] = []
    for begin in range(0, passes * whole, whole):
        within: dict[str, float] = {}
        across: dict[str, float] = {}
        for first, update in zip(range(0, len(updates) * prompts, prompts), updates, strict=True):
            if begin <= first and first + prompts <= begin + whole:
                within |= update.rewards
            elif begin - prompts < first < begin + whole:
                across |= update.rewards
        curves.append(across | within)
    everywhere = [key for key in curves[0] if all(key in curve for curve in curves)]
    return {key: tuple(curve[key] for curve in curves) for key in everywhere}


def learning_impacts(curves: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return s_i of each prompt's rewards by pass, which are not all equal."""
    values = np.array(list(curves.values()))
    scaled = (values - values.min()) / np.ptp(values)
    mean = scaled.mean(0)
    impacts = 1 - ((scaled - mean) ** 2).sum(1) / ((1 - mean) ** 2).sum()
    return dict(zip(curves, impacts.tolist(), strict=True))


def check(run: Path, plan: Plan) -> None:
    """Refuse a folder that is not a finished run with rewards, or whose rewards cannot be compared with this run's.

    Raises:
        DataError: It is not finished, wrote no rewards, or is of another task, reward or data.
    """
    for name in ("config.toml", rewarded.NAME):
        if not (run / name).is_file():
            raise DataError(
                f"select: {run} has no {name}: give limr the folder of a finished run that learnt from a reward, such "
                "as runs/mini/commongen/ppo/seed-1."
            )
    _updates(run)
    earlier = files.read_toml(run / "config.toml")
    record = claims.as_held(earlier, plan.record())
    for key in ("suite", "task", "task_hash", "reward", "data_sha256", "data_dir"):
        if earlier.get(key) != record[key]:
            raise DataError(
                f"select: {run} is a run with {key} = {earlier.get(key)!r}, and this one has {record[key]!r}; "
                "give limr a run of the same task, reward and data."
            )


def cost(run: Path) -> dict[str, float]:
    """Return the cost of a finished run, without that of the checkpoint it began from; what is unknown is missing."""
    lines = _updates(run)
    return {name: math.fsum(line[name] for line in lines) for name in COSTS if all(name in line for line in lines)}


def _updates(run: Path) -> list[Mapping[str, Any]]:
    """Return the lines of a finished run's updates."""
    lines = [line for _, line in log.read_log(run / log.NAME)[0]]
    if not lines or not lines[-1].get("finished"):
        raise DataError(f"select: {run} is not finished; finish it first: its rewards still change.")
    return [line for line in lines if log.is_update(line)]
