"""Scores in the Hugging Face hub's format: `.eval_results/*.yaml` in a model's repository.

A list of entries with one value each, identified by `dataset.task_id`: preference and naturalness are two. See
https://huggingface.co/docs/hub/eval-results.
"""

from collections.abc import Sequence
from typing import Any

from grue import files
from grue.errors import ConfigError
from grue.exchange.measured import LEVEL, Described, Measure, Measured

FOLDER = ".eval_results"


def eval_results(tasks: Sequence[Measured], described: Described) -> str:
    """Return the content of a file in `.eval_results/`: an entry for each axis of each task.

    Raises:
        ConfigError: A task's data are not on the hub, and no benchmark is named.
    """
    entries = []
    for measured in tasks:
        dataset = described.dataset_of(measured)
        if dataset is None:
            raise ConfigError(
                f"{measured.task}: its data were not read from the hub, and an entry names a data set there; name the "
                "one whose leaderboard the scores are for with --benchmark OWNER/NAME."
            )
        entries += [_entry(measured, axis, *dataset, described.source_url) for axis in measured.axes]
    return files.yaml_text(entries)


def _entry(measured: Measured, axis: Measure, dataset: str, revision: str, source_url: str) -> dict[str, Any]:
    """Return a score; `task_id` is its name in the benchmark's `eval.yaml`."""
    first, name = measured.first, f"GRUE {measured.version}"
    task = f"{measured.task} version {first.task_version} ({first.task_hash[:12]}), split {first.split}"
    interval = axis.interval
    spread = "" if interval is None else f", {LEVEL:.0%} interval {interval.low:.2f} to {interval.high:.2f}"
    return {
        "dataset": {"id": dataset, "task_id": f"{first.suite}_{first.task}_{axis.name}"}
        | ({"revision": revision} if revision else {}),
        "value": round(axis.mean, 4),
        "date": measured.date,
        **({"source": {"url": source_url, "name": name}} if source_url else {}),
        "notes": f"{axis.name} on 0 to 100, {name}, {task}, {measured.seeds}{spread}",
    }
