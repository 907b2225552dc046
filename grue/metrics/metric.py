"""What a metric is: statistics an example first, a corpus value second, and a signature that says how."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from grue.errors import ConfigError, DataError, Unavailable, did_you_mean
from grue.metrics.catalogue import CARDS
from grue.records import Direction, Example
from grue.registry import Registry

FloatArray = NDArray[np.float64]
T = TypeVar("T")


class Metric(Protocol):
    """One metric, made ready for a set of examples.

    The statistics of an example are what a corpus value needs of it: for BLEU the matches and lengths, for ROUGE the
    F1 itself. N = examples, K = numbers an example.
    """

    @property
    def direction(self) -> Direction:
        """Whether higher or lower values are better."""

    @property
    def signature(self) -> str:
        """All that decides the value: `rougeL|stem:porter|refs:max`."""

    def prepare(self, examples: Sequence[Example]) -> None:
        """See the examples that will be scored (an evaluation split, or the training split of a reward).

        Corpus-dependent parts are fixed here, CIDEr's document frequencies for one, and reference-side work is done
        once. Scoring an example that was not prepared is allowed.
        """

    def statistics(self, examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        """Return [N, K] statistics of `texts`, one text an example; an empty text is legal and scores worst."""

    def per_example(self, statistics: FloatArray) -> FloatArray:
        """Return [N] values of the single examples, on the metric's scale."""

    def corpus(self, statistics: FloatArray) -> float:
        """Return the value over all examples, on the metric's scale."""


class OfCorpusOnly(ConfigError):
    """A single text was to get a value by a metric that has none for single texts.

    Args:
        metric: Its name.
        describes: What it describes instead.
        instead: What to take instead.
    """

    def __init__(
        self,
        metric: str,
        describes: str = "a whole set of texts and has no value for a single one",
        instead: str = "another metric",
    ) -> None:
        super().__init__(
            f"{metric} describes {describes}, so it can be neither a reward nor a scored metric; "
            f"give it the axis 'diversity', or take {instead}."
        )


class Prepared(Generic[T]):
    """What was read of examples, their references above all, remembered for as many as memory bears.

    Args:
        read: Reads an example.
        most: How many are remembered; the oldest give way.
    """

    def __init__(self, read: Callable[[Example], T], most: int = 1 << 14) -> None:
        self._read = read
        self._most = most
        self._known: dict[tuple[str, tuple[str, ...]], tuple[Example, T]] = {}

    def prepare(self, examples: Sequence[Example]) -> None:
        """Read the examples ahead, as many as are remembered."""
        for example in examples[: self._most]:
            self(example)

    def __call__(self, example: Example) -> T:
        """Return what is read of an example."""
        key = example.id, example.references
        known = self._known.get(key)
        # Ids are distinct within a split; another call may have another table under the same id.
        if known is None or (known[0] is not example and known[0].meta != example.meta):
            known = self._known[key] = example, self._read(example)
            if len(self._known) > self._most:
                del self._known[next(iter(self._known))]
        return known[1]


class Average:
    """A metric with one value an example, whose corpus value is the mean.

    Args:
        signature: All that decides the value.
        values: (examples, texts) → one value an example, on the metric's scale.
        prepare: See `Metric.prepare`.
        direction: Whether higher or lower values are better.
    """

    def __init__(
        self,
        signature: str,
        values: Callable[[Sequence[Example], Sequence[str]], Sequence[float]],
        prepare: Callable[[Sequence[Example]], None] | None = None,
        direction: Direction = "higher",
    ) -> None:
        self.signature = signature
        self.direction = direction
        self._values = values
        self._prepare = prepare

    def prepare(self, examples: Sequence[Example]) -> None:
        """Do the reference-side work of the metric, if it has any."""
        if self._prepare is not None:
            self._prepare(examples)

    def statistics(self, examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        """Return the values as [N, 1]."""
        return np.array(self._values(examples, texts), dtype=np.float64).reshape(-1, 1)

    def per_example(self, statistics: FloatArray) -> FloatArray:
        """Return the [N] values."""
        return statistics[:, 0]

    def corpus(self, statistics: FloatArray) -> float:
        """Return the mean."""
        return float(statistics.mean())


class Subset:
    """A metric over some of the examples: those whose `meta[key]` is `wanted`.

    Every example keeps its statistics and its value; only the corpus value leaves the others out.

    Args:
        name: Registered name.
        metric: What is computed.
        key: Key of the examples' meta.
        wanted: Its value for the examples that count.
    """

    def __init__(self, name: str, metric: Metric, key: str, wanted: bool) -> None:
        self.name = name
        self.direction = metric.direction
        self.signature = f"{name}|{metric.signature}|only:{key}={str(wanted).lower()}"
        self._metric = metric
        self._key = key
        self._wanted = wanted

    def prepare(self, examples: Sequence[Example]) -> None:
        """Prepare the metric."""
        self._metric.prepare(examples)

    def statistics(self, examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        """Return [N, 1 + K]: whether the example counts, then the metric's statistics."""
        counts = np.array([[float(self._is_member(example))] for example in examples]).reshape(-1, 1)
        return np.hstack([counts, self._metric.statistics(examples, texts)])

    def per_example(self, statistics: FloatArray) -> FloatArray:
        """Return [N] values, of the examples that do not count too."""
        return self._metric.per_example(statistics[:, 1:])

    def corpus(self, statistics: FloatArray) -> float:
        """Return the value over the examples that count.

        Raises:
            Unavailable: None does, as may happen with a part of a split.
        """
        members = statistics[statistics[:, 0] == 1, 1:]
        if not len(members):
            raise Unavailable(f"{self.name}: none of the {len(statistics)} examples has {self._key} = {self._wanted}.")
        return self._metric.corpus(members)

    def _is_member(self, example: Example) -> bool:
        if not isinstance(example.meta.get(self._key), bool):
            raise DataError(
                f"The example {example.id!r} does not say {self._key} in its meta, which {self.name} needs."
            )
        return bool(example.meta[self._key] is self._wanted)


MetricFactory = Callable[..., Metric]

DIVERSITY = (
    "msttr",
    "distinct1",
    "distinct2",
    "entropy1",
    "entropy2",
    "unique1",
    "unique2",
    "vocabulary",
    "mean_length",
)
"""The set that describes every system's texts; reported with each result, outside the score."""

METRICS: Registry[MetricFactory] = Registry(
    "metric",
    modules={name: f"grue.metrics.{card.module}" for name, card in CARDS.items()},
    entry_points="grue.metrics",
)

EVALUATE = "evaluate:"
"""What the name of a metric of the library `evaluate` begins with: `evaluate:exact_match`."""

_TYPES = {str: "a string", int: "a whole number", bool: "true or false"}


def make_metric(name: str, /, **options: Any) -> Metric:
    """Return a fresh metric by name; `options` are those of the task file.

    Raises:
        UnknownName, ConfigError: As `metric_factory`.
    """
    return metric_factory(name, options)(**options)


def metric_factory(name: str, options: Mapping[str, Any]) -> MetricFactory:
    """Return what makes the metric `name`, its options checked, without making it (which may load a model).

    Raises:
        UnknownName: No metric is called so.
        ConfigError: The metric does not know one of the options, lacks one, or wants another type.
    """
    factory = _evaluate_factory(name) if name.startswith(EVALUATE) else METRICS[name]
    parameters = _parameters(factory)
    for option, value in options.items():
        if option not in parameters:
            known = f"Known: {', '.join(parameters)}." if parameters else "It has none."
            raise ConfigError(
                f"The metric {name!r} has no option {option!r}.{did_you_mean(option, parameters)} {known}"
            )
        wanted = parameters[option].annotation
        if wanted in _TYPES and type(value) is not wanted:
            raise ConfigError(f"The metric {name!r}: the option {option!r} must be {_TYPES[wanted]}, found {value!r}.")
    for option, parameter in parameters.items():
        if option not in options and parameter.default is parameter.empty:
            raise ConfigError(f"The metric {name!r} needs the option {option!r}; set it in the task file's options.")
    return factory


def metric_parameters(name: str) -> Mapping[str, inspect.Parameter]:
    """Return the options of a metric.

    Raises:
        UnknownName: No metric is called so.
    """
    return _parameters(_evaluate_factory(name) if name.startswith(EVALUATE) else METRICS[name])


def _parameters(factory: MetricFactory) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(factory).parameters


def is_metric(name: str) -> bool:
    """Whether `name` can be made into a metric: one that is registered, or any of the library `evaluate`."""
    return name in METRICS or name.startswith(EVALUATE)


def _evaluate_factory(name: str) -> MetricFactory:
    # The adapter is itself made of metrics, so that it comes after this module.
    factory: MetricFactory = import_module("grue.metrics.evaluate_library").evaluate_metric(name)
    return factory


def references_of(example: Example, metric: str) -> tuple[str, ...]:
    """Return the example's references, at least one.

    Raises:
        DataError: It has none, so `metric` has nothing to compare a text with.
    """
    if not example.references:
        raise DataError(
            f"The example {example.id!r} has no reference, which {metric} needs; "
            "score a split with references or take another metric."
        )
    return example.references


def listed(example: Example, key: str, metric: str) -> Sequence[Any]:
    """Return the list under `key` of an example's meta, an empty one if there is nothing.

    Raises:
        DataError: Something else stands there: a string, say, whose letters would be taken for values.
    """
    found = example.meta.get(key, ())
    if not isinstance(found, list | tuple):
        raise DataError(
            f"The example {example.id!r} has {found!r} as {key} in its meta, but {metric} needs a list there; "
            "mend its data format."
        )
    return found
