"""The protocol of a metric, and what families of metrics share.

A metric computes statistics of each example first, then the corpus value from them, and has a signature that states
everything the value depends on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from grue.errors import ConfigError, DataError, Unavailable
from grue.records import Direction, Example

FloatArray = NDArray[np.float64]
T = TypeVar("T")
R = TypeVar("R")

MOST_PREPARED = 1 << 14  # examples whose references are kept


class Metric(Protocol):
    """One metric, prepared for a set of examples.

    The statistics of an example are what the corpus value is computed from: matches and lengths for BLEU, the F1 itself
    for ROUGE. N = examples, K = numbers per example.
    """

    @property
    def direction(self) -> Direction:
        """Whether higher or lower values are better."""

    @property
    def signature(self) -> str:
        """Everything the value depends on: `rougeL|stem:porter|refs:max`."""

    def prepare(self, examples: Sequence[Example]) -> None:
        """Read the examples that will be scored (an evaluation split, or the training split of a reward).

        This fixes what depends on the corpus, such as CIDEr's document frequencies, and does the work on references
        once. Scoring an example that was not prepared is allowed.
        """

    def statistics(self, examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        """Return [N, K] statistics of `texts`, one per example; an empty text is legal and scores worst."""

    def per_example(self, statistics: FloatArray) -> FloatArray:
        """Return the [N] values of the examples, on the metric's scale."""

    def corpus(self, statistics: FloatArray) -> float:
        """Return the value over all examples, on the metric's scale."""


MetricFactory = Callable[..., Metric]
"""Returns a fresh metric; its parameters are the metric's options."""


class OfCorpusOnly(ConfigError):
    """The value of a single text was requested from a metric of whole corpora."""

    def __init__(self, metric: str) -> None:
        super().__init__(
            f"{metric} describes a whole set of texts and has no value for a single one, so it can be neither a reward "
            "nor a scored metric; give it the axis 'diversity', or use another metric."
        )


class Prepared(Generic[T]):
    """A bounded cache of what is read from examples, mostly their references; of too many, the oldest are dropped."""

    def __init__(self, read: Callable[[Example], T], most: int = MOST_PREPARED) -> None:
        self._read = read
        self._most = most
        self._cache: dict[tuple[str, tuple[str, ...]], tuple[Example, T]] = {}

    def prepare(self, examples: Sequence[Example]) -> None:
        """Read the examples in advance, as many as are kept."""
        for example in examples[: self._most]:
            self(example)

    def __call__(self, example: Example) -> T:
        """Return what was read from an example."""
        key = example.id, example.references
        entry = self._cache.get(key)
        # Ids are distinct within a split; another call may bring another table under the same id.
        if entry is None or (entry[0] is not example and entry[0].meta != example.meta):
            entry = self._cache[key] = example, self._read(example)
            if len(self._cache) > self._most:
                del self._cache[next(iter(self._cache))]
        return entry[1]


@dataclass(eq=False)
class Average:
    """A metric with one value per example, whose corpus value is their mean.

    Attributes:
        values: (examples, texts) → one value per example, on the metric's scale.
    """

    signature: str
    values: Callable[[Sequence[Example], Sequence[str]], Sequence[float]]
    prepare: Callable[[Sequence[Example]], None] = lambda examples: None
    direction: Direction = "higher"

    def statistics(self, examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        """Return the values as [N, 1]."""
        return np.array(self.values(examples, texts), dtype=np.float64).reshape(-1, 1)

    def per_example(self, statistics: FloatArray) -> FloatArray:
        """Return the [N] values."""
        return statistics[:, 0]

    def corpus(self, statistics: FloatArray) -> float:
        """Return the mean."""
        return float(statistics.mean())


@dataclass(frozen=True, slots=True)
class Summed:
    """A metric whose statistics add up over a corpus.

    Attributes:
        value: [K] sums → the value on the metric's scale.
        single: [K] statistics of one example → its value, where that is smoothed, say; None for `value`.
    """

    signature: str
    statistics: Callable[[Sequence[Example], Sequence[str]], FloatArray]
    value: Callable[[FloatArray], float]
    prepare: Callable[[Sequence[Example]], None] = lambda examples: None
    single: Callable[[FloatArray], float] | None = None
    direction: Direction = "higher"

    def per_example(self, statistics: FloatArray) -> FloatArray:
        """Return the [N] values of the examples."""
        return np.array(list(map(self.single or self.value, statistics)), dtype=np.float64)

    def corpus(self, statistics: FloatArray) -> float:
        """Return the value of the summed statistics."""
        return self.value(statistics.sum(axis=0))


class Subset:
    """A metric over the examples whose `meta[key]` is `value`.

    Every example has statistics and a value; only the corpus value leaves the other examples out.
    """

    def __init__(self, name: str, metric: Metric, key: str, value: bool) -> None:
        self.name = name
        self.direction = metric.direction
        self.signature = f"{name}|{metric.signature}|only:{key}={str(value).lower()}"
        self._metric = metric
        self._key = key
        self._value = value

    def prepare(self, examples: Sequence[Example]) -> None:
        """Prepare the metric."""
        self._metric.prepare(examples)

    def statistics(self, examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        """Return [N, 1 + K]: whether the example counts, then the metric's statistics."""
        counts = np.array([float(meta_of(each, self._key, self.name, bool) is self._value) for each in examples])
        return np.hstack([counts.reshape(-1, 1), self._metric.statistics(examples, texts)])

    def per_example(self, statistics: FloatArray) -> FloatArray:
        """Return the [N] values, including those of examples that do not count."""
        return self._metric.per_example(statistics[:, 1:])

    def corpus(self, statistics: FloatArray) -> float:
        """Return the value over the examples that count; Unavailable if none does, as in some parts of a split."""
        members = statistics[statistics[:, 0] == 1, 1:]
        if not len(members):
            raise Unavailable(f"{self.name}: none of the {len(statistics)} examples has {self._key} = {self._value}.")
        return self._metric.corpus(members)


def references_of(example: Example, metric: str) -> tuple[str, ...]:
    """Return the example's references; a DataError if it has none for `metric` to compare a text with."""
    if not example.references:
        raise DataError(
            f"The example {example.id!r} has no reference, which {metric} needs; "
            "score a split with references or use another metric."
        )
    return example.references


def require_references(examples: Sequence[Example], metric: str) -> None:
    """Raise a DataError if an example has no reference."""
    for example in examples:
        references_of(example, metric)


MEANINGS = {str: "a text", int: "a whole number", bool: "true or false", list: "a list with values"}


def meta_of(example: Example, key: str, metric: str, kind: type, default: Any = None) -> Any:
    """Return what is under `key` in an example's meta, or the default.

    Raises:
        DataError: It is of another kind (the letters of a string, say, would be taken for values), or an empty list.
    """
    value = example.meta.get(key, default)
    fits = value and isinstance(value, list | tuple) if kind is list else type(value) is kind
    if not fits:
        raise DataError(
            f"The example {example.id!r} has {value!r:.80} as {key} in its meta, but {metric} needs {MEANINGS[kind]} "
            "there; fix its data format, or use another metric."
        )
    return value


def best_of_references(name: str, details: str, read: Callable[[str], R], compare: Callable[[R, R], float]) -> Average:
    """Return a metric whose value is the highest that a text reaches with any of its example's references.

    Args:
        name: Name of the metric.
        details: The rest of its signature.
        read: Turns a text into what `compare` needs; done once for prepared references.
        compare: Value of (reference, candidate).
    """
    references = Prepared(lambda example: [read(reference) for reference in references_of(example, name)])

    def best(example: Example, text: str) -> float:
        candidate = read(text)
        return max([compare(reference, candidate) for reference in references(example)])

    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        return [best(example, text) for example, text in zip(examples, texts, strict=True)]

    return Average(f"{name}|{details}|refs:best", values, references.prepare)
