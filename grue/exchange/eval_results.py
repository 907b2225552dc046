"""Scores in the Hugging Face hub's format: `.eval_results/*.yaml` in a model's repository.

A list of entries with one value each, identified by `dataset.task_id`: preference and naturalness are two. See
https://huggingface.co/docs/hub/eval-results.
"""

from collections.abc import Sequence
from typing import Any

from grue import files
from grue.errors import ConfigError
from grue.exchange.described import Described
from grue.exchange.measured import LEVEL, Measure, Measured

FOLDER = ".eval_results"


def eval_results(tasks: Sequence[Measured], described: Described) -> str:
    """Return the content of a file in `.eval_results/`.

    Raises:
        ConfigError: A task's data are not on the hub, and no benchmark is named.
    """
    return files.yaml_text([entry for measured in tasks for entry in entries(measured, described)])


def entries(measured: Measured, described: Described) -> list[dict[str, Any]]:
    """Return an entry for each axis of a task.

    Raises:
        ConfigError: As `eval_results`.
    """
    dataset = described.dataset_of(measured)
    if dataset is None:
        raise ConfigError(
            f"{measured.task}: its data were not read from the hub, and an entry names a data set there; name the one "
            "whose leaderboard the scores are for with --benchmark OWNER/NAME."
        )
    return [_entry(measured, axis, dataset, described.source_url) for axis in measured.axes]


def task_id(measured: Measured, axis: str) -> str:
    """Return the name of a score in the benchmark's `eval.yaml`."""
    return f"{measured.first.suite}_{measured.first.task}_{axis}"


def _entry(measured: Measured, axis: Measure, dataset: tuple[str, str], source_url: str) -> dict[str, Any]:
    name, revision = dataset
    entry: dict[str, Any] = {
        "dataset": {"id": name, "task_id": task_id(measured, axis.name)} | ({"revision": revision} if revision else {}),
        "value": round(axis.mean, 4),
        "date": measured.date,
    }
    if source_url:
        entry["source"] = {"url": source_url, "name": f"GRUE {measured.version}"}
    return entry | {"notes": notes(measured, axis)}


def notes(measured: Measured, axis: Measure) -> str:
    """Return how a value was obtained, in words."""
    first = measured.first
    task = f"{measured.task} version {first.task_version} ({first.task_hash[:12]}), split {first.split}"
    spread = (
        "" if axis.interval is None else f", {LEVEL:.0%} interval {axis.interval.low:.2f} to {axis.interval.high:.2f}"
    )
    return f"{axis.name} on 0 to 100, GRUE {measured.version}, {task}, {measured.seeds}{spread}"
