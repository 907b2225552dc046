"""Metrics of the library `evaluate`.

`evaluate:exact_match` is the hub's metric of that name, `evaluate:/path/to/script.py` that of a script on this machine.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any, Literal

import numpy as np

from grue.errors import ConfigError, DataError
from grue.metrics.card import EVALUATE
from grue.metrics.metric import FloatArray, MetricFactory, references_of, require_references
from grue.metrics.tokens import without_surrogates
from grue.records import Direction, Example

Row = dict[str, Any]


def evaluate_metric(name: str) -> MetricFactory:
    """Return the factory of a metric of that library, of which nothing is loaded yet; a ConfigError without a name."""
    if not name.removeprefix(EVALUATE).strip("/ "):
        raise ConfigError(f"{name!r} lacks the metric's name or path: write {EVALUATE}exact_match, for example.")
    return partial(Evaluated, name)


class Evaluated:
    """A metric of the library `evaluate`.

    Such a metric scores sets of texts. So the statistics of a text, [N, 1], are an index under which the object keeps
    the text and its references until `statistics` is called again; the corpus value is computed over all these texts at
    once, and the value of an example over its text alone.

    Args:
        name: "evaluate:" and a name or path.
        key: Which of the values that the metric returns; by default the one named like the metric.
        direction: Whether "higher" or "lower" values are better.
        references: Whether a text is compared with "all" references, as a list, or the "first", as a string.
        arguments: Passed to the metric's `compute`.

    Raises:
        ConfigError: The metric needs more than texts, references and sources (which are prompts).
        DataError: The library does not find the metric, or a package is missing.
    """

    def __init__(
        self,
        name: str,
        key: str = "",
        direction: Direction = "higher",
        references: Literal["all", "first"] = "all",
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self.direction: Direction = direction
        self._name = name
        self._arguments = dict(arguments or {})
        self._all = references == "all"
        self._module, version = load(name)
        self._key = key or self._module.name
        features = self._module.features
        self._columns = list(features[0] if isinstance(features, list) else features)
        if unknown := set(self._columns) - {"predictions", "references", "sources"}:
            raise ConfigError(
                f"The metric {name!r} needs {', '.join(sorted(unknown))} besides predictions and references, which no "
                "example has; use another metric."
            )
        self._first = 0
        self._rows: list[Row] = []
        argument_part = "".join(f"|{argument}:{value}" for argument, value in sorted(self._arguments.items()))
        self.signature = (
            f"{EVALUATE}{self._module.name}|key:{self._key}|refs:{references}{argument_part}|version:{version}"
        )

    def prepare(self, examples: Sequence[Example]) -> None:
        """Raise a DataError if the metric reads references and an example has none."""
        if "references" in self._columns:
            require_references(examples, self._name)

    def statistics(self, examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        """Return [N, 1] numbers of the texts, valid until the next call."""
        self._first += len(self._rows)
        self._rows = [self._row(example, text) for example, text in zip(examples, texts, strict=True)]
        return np.arange(self._first, self._first + len(self._rows), dtype=np.float64).reshape(-1, 1)

    def per_example(self, statistics: FloatArray) -> FloatArray:
        """Return [N] values, each computed over one text alone."""
        return np.array([self._value([row]) for row in self._numbered(statistics)], dtype=np.float64)

    def corpus(self, statistics: FloatArray) -> float:
        """Return the value computed over all texts at once."""
        return self._value(self._numbered(statistics))

    def _row(self, example: Example, text: str) -> Row:
        row: Row = {"predictions": without_surrogates(text)}
        if "references" in self._columns:
            references = [without_surrogates(reference) for reference in references_of(example, self._name)]
            row["references"] = references if self._all else references[0]
        if "sources" in self._columns:
            row["sources"] = without_surrogates(example.prompt)
        return row

    def _numbered(self, statistics: FloatArray) -> list[Row]:
        numbers = [int(number) - self._first for number in statistics[:, 0]]
        if any(not 0 <= number < len(self._rows) for number in numbers):
            raise ConfigError(
                f"The metric {self._name!r} keeps only the texts of its last call of statistics; compute their "
                "values first, or make one metric for each set of texts."
            )
        return [self._rows[number] for number in numbers]

    def _value(self, rows: Sequence[Row]) -> float:
        columns = {column: [row[column] for row in rows] for column in self._columns}
        try:
            result = self._module.compute(**columns, **self._arguments)
        except (ArithmeticError, TypeError, ValueError) as error:
            reason = str(error).split("\n")[0].rstrip(".")
            raise ConfigError(
                f"The metric {self._name!r} cannot be computed on these texts: {reason}. "
                "Set its option references to 'all' or 'first', or its arguments."
            ) from error
        value = result.get(self._key)
        if not isinstance(value, Real):
            numbers = ", ".join(sorted(key for key, entry in result.items() if isinstance(entry, Real)))
            raise ConfigError(
                f"The metric {self._name!r} returns no number {self._key!r}; set its option key to one of: {numbers}."
            )
        return float(value)


def load(name: str) -> tuple[Any, str]:
    """Return an evaluation module and its version; a DataError if it is not found, or a package is missing."""
    import evaluate  # slow to import, and most runs need none of its metrics

    target = name.removeprefix(EVALUATE)
    try:
        module = evaluate.load(target, keep_in_memory=True)
    except OSError as error:
        raise DataError(
            f"The library evaluate finds no metric {target!r}: it is not a script on this machine, and could not be "
            f"downloaded from the Hugging Face hub. Check the name and the connection, or copy the metric's folder "
            f"from https://huggingface.co/spaces/evaluate-metric/{Path(target).stem} and name its script: "
            f"{EVALUATE}path/to/{Path(target).stem}.py."
        ) from error
    except ImportError as error:
        raise DataError(f"The metric {name!r} needs a package that is not installed: {error}") from error
    *_, script, _ = type(module).__module__.split(".")  # evaluate names the copy that it runs by the script's hash
    return module, f"evaluate-{evaluate.__version__},script-{script[:12]}"
