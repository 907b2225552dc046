"""Scores as `model-index` in a model card's front matter, which the hub still shows."""

from collections.abc import Sequence
from typing import Any

from grue import files
from grue.exchange.measured import LEVEL, Described, Measure, Measured

NAMES = {"preference": "Preference (0–100)", "naturalness": "Naturalness (0–100)"}


def model_index(tasks: Sequence[Measured], described: Described) -> str:
    """Return the part of the front matter with the scores."""
    name = described.model.rpartition("/")[2] or tasks[0].system
    entries = [results_of(measured, described) for measured in tasks]
    return files.yaml_text({"model-index": [{"name": name, "results": entries}]})


def results_of(measured: Measured, described: Described) -> dict[str, Any]:
    """Return the entry of one task: both axes and every metric of the task."""
    first, data = measured.first, measured.hub_data
    dataset = {"type": data[0] if data else measured.task, "name": measured.task, "split": first.split}
    if data:
        dataset["revision"] = data[1]
    entry: dict[str, Any] = {
        "task": {"type": "text-generation", "name": measured.task},
        "dataset": dataset,
        "metrics": [
            {"type": measure.name, "name": _name(measured, measure), "value": round(measure.mean, 4)}
            for measure in (*measured.axes, *measured.metrics)
        ],
    }
    if described.source_url:
        entry["source"] = {"name": f"GRUE {measured.version}", "url": described.source_url}
    return entry


def _name(measured: Measured, measure: Measure) -> str:
    name, interval = NAMES.get(measure.name, measure.name), measure.interval
    if interval is None:
        return name
    return f"{name}, {measured.seeds}, {LEVEL:.0%} interval {interval.low:.4g} to {interval.high:.4g}"
