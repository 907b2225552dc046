"""Scores in the Hugging Face hub's two formats.

`.eval_results/*.yaml` in a model's repository is a list of entries with one value each, identified by
`dataset.task_id`: preference and naturalness are two (https://huggingface.co/docs/hub/eval-results). `model-index` in a
model card's front matter is older, and the hub still shows it.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from grue import files
from grue.errors import ConfigError
from grue.exchange.measured import LEVEL, Described, Measure, Measured

FOLDER = ".eval_results"
NAMES = {"preference": "Preference (0–100)", "naturalness": "Naturalness (0–100)"}


def eval_results(tasks: Sequence[Measured], described: Described) -> str:
    """Return the content of a file in `.eval_results/`: an entry for each axis of each task."""
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
    first, name, interval = measured.first, f"GRUE {measured.version}", axis.interval
    task = f"{measured.task} version {first.task_version} ({first.task_hash[:12]}), split {first.split}"
    spread = "" if interval is None else f", {LEVEL:.0%} interval {interval.low:.2f} to {interval.high:.2f}"
    return {
        "dataset": {"id": dataset, "task_id": f"{first.suite}_{first.task}_{axis.name}"}
        | ({"revision": revision} if revision else {}),
        "value": round(axis.mean, 4),
        "date": datetime.fromtimestamp(measured.written, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        **({"source": {"url": source_url, "name": name}} if source_url else {}),
        "notes": f"{axis.name} on 0 to 100, {name}, {task}, {measured.seeds}{spread}",
    }


def model_index(tasks: Sequence[Measured], described: Described) -> str:
    """Return the part of a model card's front matter with the scores."""
    name = described.model.rpartition("/")[2] or tasks[0].system
    results = [results_of(measured, described) for measured in tasks]
    return files.yaml_text({"model-index": [{"name": name, "results": results}]})


def results_of(measured: Measured, described: Described) -> dict[str, Any]:
    """Return the entry of one task in `model-index`: both axes and every metric of the task."""
    data, url = measured.hub_data, described.source_url
    dataset = {"type": data[0] if data else measured.task, "name": measured.task, "split": measured.first.split}
    metrics = []
    for measure in (*measured.axes, *measured.metrics):
        name, interval = NAMES.get(measure.name, measure.name), measure.interval
        if interval is not None:
            name += f", {measured.seeds}, {LEVEL:.0%} interval {interval.low:.4g} to {interval.high:.4g}"
        metrics.append({"type": measure.name, "name": name, "value": round(measure.mean, 4)})
    return {
        "task": {"type": "text-generation", "name": measured.task},
        "dataset": dataset | ({"revision": data[1]} if data else {}),
        "metrics": metrics,
        **({"source": {"name": f"GRUE {measured.version}", "url": url}} if url else {}),
    }
