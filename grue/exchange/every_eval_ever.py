"""Scores in the schema of Every Eval Ever (0.3.0), with their uncertainty.

One record describes one model's evaluation; see https://github.com/evaleval/every_eval_ever.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from grue import files
from grue.evaluation.by_endpoint import SAMPLED
from grue.evaluation.prompting import is_by_endpoint
from grue.exchange.measured import LEVEL, Described, Measure, Measured
from grue.records import EXTERNAL
from grue.stats.intervals import sd

SCHEMA_VERSION = "0.3.0"
NOT_OURS = (EXTERNAL, "zero-shot", "few-shot")
"""Algorithms that a result gives for a model trained elsewhere."""


def every_eval_ever(tasks: Sequence[Measured], described: Described) -> str:
    """Return the record of a system's results, as JSON."""
    first, now = tasks[0], time.time()
    suites = "+".join(dict.fromkeys(f"grue-{measured.first.suite}" for measured in tasks))
    trained_elsewhere = first.first.system.get("algorithm") in NOT_OURS or is_by_endpoint(first.first)
    record = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{suites}/{(described.model or first.system).replace('/', '_')}/{now}",
        "evaluation_timestamp": str(int(max(measured.written for measured in tasks))),
        "retrieved_timestamp": str(now),
        "source_metadata": {
            "source_name": "GRUE",
            "source_type": "evaluation_run",
            "source_organization_name": described.organization or "unknown",
            "evaluator_relationship": "third_party" if trained_elsewhere else "first_party",
        }
        | ({"source_organization_url": described.source_url} if described.source_url else {}),
        "eval_library": {"name": "grue", "version": first.version, "additional_details": _texts(first.first.grue)},
        "model_info": _model(first, described),
        "evaluation_results": [
            _result(measured, measure) for measured in tasks for measure in (*measured.axes, *measured.metrics)
        ],
    }
    return files.indented_json(record)


def _model(first: Measured, described: Described) -> dict[str, Any]:
    system, engine = first.first.system, first.first.packages.get("transformers")
    ran_here = not is_by_endpoint(first.first)
    details = {
        "deployment_type": "self_deployed" if ran_here else "unknown",
        "model_availability": "open_weights" if described.model else "unknown",
        **_texts({key: system.get(key) for key in ("algorithm", "backbone", "parameters", "reward")}),
    }
    info: dict[str, Any] = {"name": first.system, "id": described.model or first.system, "additional_details": details}
    if "/" in described.model:
        info["developer"] = described.model.partition("/")[0]
    if engine is not None and ran_here:
        info["inference_engine"] = {"name": "transformers", "version": str(engine)}
    return info


def _result(measured: Measured, measure: Measure) -> dict[str, Any]:
    first, is_axis = measured.first, not measure.signature
    bounds = {"min_score": 0, "max_score": 100} if is_axis else {"min_score": None, "max_score": None}
    meaning = "mean of the task's metrics of this axis, each mapped to 0 to 100" if is_axis else measure.signature
    identity = f"grue.{first.suite}.{first.task}.{measure.name}"
    seeds, values = (str(result.seed) for result in measured.results), map(repr, measure.values)
    details: dict[str, Any] = {
        "score": measure.mean,
        "details": {"seeds": ", ".join(seeds), "values": ", ".join(values)},
    }
    if (interval := measure.interval) is not None:
        bounds_of_mean = {"lower": interval.low, "upper": interval.high, "confidence_level": LEVEL}
        error = (sd(measure.values) or 0.0) / len(measure.values) ** 0.5
        details["uncertainty"] = {
            "standard_error": {"value": error, "method": "standard deviation over seeds / √seeds"},
            "confidence_interval": {**bounds_of_mean, "method": "Student's t over seeds"},
            "num_samples": len(measure.values),
        }
    return {
        "evaluation_result_id": identity,
        "evaluation_name": f"{measured.task}/{measure.name}",
        "evaluation_timestamp": str(int(measured.written)),
        "source_data": _data(measured),
        "metric_config": {
            "evaluation_description": f"{measure.name}: {meaning}",
            "metric_id": identity,
            "metric_name": measure.name,
            "metric_unit": "points" if is_axis else "own scale",
            "metric_parameters": {} if is_axis else {"signature": measure.signature},
            "lower_is_better": measure.direction == "lower",
            "score_type": "continuous",
            **bounds,
        },
        "score_details": details,
        "generation_config": _generation(first.generation),
    }


def _data(measured: Measured) -> dict[str, Any]:
    first, on_hub = measured.first, measured.hub_data
    details = {"task_version": first.task_version, "task_hash": first.task_hash, "split": first.split}
    texts = _texts({**details, **{key: first.data.get(key) for key in ("source", "revision", "ids_sha256")}})
    if on_hub is None:
        return {"dataset_name": measured.task, "source_type": "other", "additional_details": texts}
    examples = first.data.get("examples")
    return {
        "dataset_name": measured.task,
        "source_type": "hf_dataset",
        "hf_repo": on_hub[0],
        "hf_split": first.split,
        **({"samples_number": examples} if isinstance(examples, int) else {}),
        "additional_details": texts,
    }


def _generation(settings: Mapping[str, Any]) -> dict[str, Any]:
    sampled = bool(settings.get("do_sample")) or settings.get("decoding") == SAMPLED
    names = {"max_new_tokens": "max_tokens", "max_tokens": "max_tokens"} | (
        {key: key for key in ("temperature", "top_p", "top_k")} if sampled else {}
    )
    arguments = {names[key]: value for key, value in settings.items() if key in names and value is not None}
    rest = {key: value for key, value in settings.items() if key not in names}
    return {"generation_args": arguments, "additional_details": _texts(rest)}


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return values as strings, as the schema requires, without unknown ones."""
    stated = {key: value for key, value in values.items() if value is not None}
    return {key: value if isinstance(value, str) else files.canonical_json(value) for key, value in stated.items()}
