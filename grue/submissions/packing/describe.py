"""The content of `submission.toml`: the options that are given, and what the results record of their system."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from grue.errors import ConfigError
from grue.shapes import from_dict
from grue.submissions.folder import Submission, stated
from grue.submissions.packing.collect import PackedRun


def describe(runs: Sequence[PackedRun], given: Mapping[str, Any]) -> Submission:
    """Return the content of `submission.toml`: the given options over what the results record.

    Raises:
        ConfigError: A required field is neither given nor recorded; names the options.
    """
    known = _known(runs)
    known |= {key: value for key, value in given.items() if value}
    needed = [f.name for f in fields(Submission) if f.default is MISSING]
    missing = [f"--{name.replace('_', '-')}" for name in needed if not known.get(name)]
    if missing:
        raise ConfigError(f"The results do not record everything; add {', '.join(missing)}.")
    return from_dict(Submission, known, "submission.toml")


def _known(runs: Sequence[PackedRun]) -> dict[str, Any]:
    results = [run.result for run in runs]
    training = [one.system["training"] for one in results if isinstance(one.system.get("training"), Mapping)]
    trained = len(training) == sum(run.predictions is not None for run in runs)
    return {
        "name": str(results[0].system["name"]),
        "algorithm": stated(results, "algorithm"),
        "backbone": stated(results, "backbone"),
        "seeds": sorted({result.seed for result in results}),
        "budget": _budget(training, {result.task for result in results}) if training and trained else "",
    }


def _budget(training: Sequence[Mapping[str, Any]], tasks: Iterable[str]) -> str:
    tokens = sum(float(one.get("tokens", 0)) for one in training) / len(training)
    hours = sum(float(one.get("seconds", 0)) for one in training) / 3600
    kinds = len(set(tasks))
    return (
        f"{tokens / 1e6:.2f} M tokens a run, {hours:.1f} hours for all {len(training)} runs "
        f"({kinds} task{'s' if kinds > 1 else ''})"
    )
