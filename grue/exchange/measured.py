"""A system's results on a task, with several seeds, as means with their uncertainty; and what the user adds to them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from grue.errors import ConfigError, DataError, escaped
from grue.evaluation.folder import CLAIM, RESULT, fault_of
from grue.records import SCORED, UNFINISHED, Direction, Result, other_examples
from grue.stats.intervals import Interval, mean, satterthwaite_interval
from grue.submissions.folder import read_result
from grue.task_files import is_named, load_task, task_names

LEVEL = 0.95
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True, slots=True)
class Measure:
    """One score of a system on a task.

    Attributes:
        name: An axis, or a metric.
        values: One for each seed: of an axis on 0–100, of a metric on its own scale.
        signature: Of a metric; empty for an axis.
    """

    name: str
    values: tuple[float, ...]
    direction: Direction = "higher"
    signature: str = ""

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return mean(self.values)

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the mean over seeds; None for a single seed."""
        return satterthwaite_interval({self.name: self.values}, LEVEL)


@dataclass(frozen=True, slots=True)
class Measured:
    """A system's results on a task, in the order of their seeds.

    Attributes:
        written: When the last of the results was written, in seconds since 1970.
    """

    results: tuple[Result, ...]
    axes: tuple[Measure, ...]
    metrics: tuple[Measure, ...]
    written: float

    @property
    def first(self) -> Result:
        """The result of the lowest seed, for what they all share."""
        return self.results[0]

    @property
    def system(self) -> str:
        """The system's name."""
        return str(self.first.system["name"])

    @property
    def task(self) -> str:
        """The task, with its suite."""
        return f"{self.first.suite}/{self.first.task}"

    @property
    def seeds(self) -> str:
        """The seeds, in words."""
        listed = ", ".join(str(result.seed) for result in self.results)
        return f"seed {listed}" if len(self.results) == 1 else f"mean of the seeds {listed}"

    @property
    def version(self) -> str:
        """The version of grue that evaluated it."""
        return ", ".join(sorted({str(result.grue.get("version", "unknown")) for result in self.results}))

    @property
    def hub_data(self) -> tuple[str, str] | None:
        """The data set on the hub that was read, and its commit; None if it was read from elsewhere."""
        source, revision = str(self.first.data.get("source", "")), str(self.first.data.get("revision", ""))
        on_hub = HUB_ID.fullmatch(source) and re.fullmatch("[0-9a-f]{40}", revision)
        return (source, revision) if on_hub else None


@dataclass(frozen=True, slots=True)
class Described:
    """What the user states about an export.

    Attributes:
        model: The model's id on the hub; empty if it has none.
        benchmark: The data set on the hub whose leaderboard the scores are for, with `@REVISION` if it matters; empty
            for the task's own data set.
        source_url: Address of outputs or logs.
    """

    model: str = ""
    organization: str = ""
    benchmark: str = ""
    source_url: str = ""

    def dataset_of(self, measured: Measured) -> tuple[str, str] | None:
        """Return the data set of the scores and its revision, empty if unknown; None if there is no data set."""
        if self.benchmark:
            name, _, revision = self.benchmark.partition("@")
            if not HUB_ID.fullmatch(name):
                raise ConfigError(f"--benchmark {self.benchmark!r}: write OWNER/NAME or OWNER/NAME@REVISION.")
            return name, revision
        return measured.hub_data


def read_measured(paths: Sequence[Path]) -> list[Measured]:
    """Read the results of one system, of which there is one at least, grouped by task."""
    results = [(_read(path), path) for path in paths]
    systems = sorted({str(result.system["name"]) for result, _ in results})
    if len(systems) > 1:
        listed = escaped(", ".join(systems))
        raise ConfigError(f"These are results of {len(systems)} systems ({listed}); export each by itself.")
    results.sort(key=lambda pair: (pair[0].suite, pair[0].task, pair[0].seed))
    return [measured_of(list(same)) for _, same in groupby(results, key=lambda pair: (pair[0].suite, pair[0].task))]


def measured_of(pairs: Sequence[tuple[Result, Path]]) -> Measured:
    """Put a system's results on a task together."""
    (first, where), *rest = pairs
    for (result, path), (_, before) in zip(rest, pairs, strict=False):
        if result.seed in {other.seed for other, other_path in pairs if other_path != path}:
            raise ConfigError(f"{before} and {path} are both of seed {result.seed} on {result.task}; leave one out.")
        for name in ("task_hash", "split"):
            if getattr(result, name) != getattr(first, name):
                raise ConfigError(
                    f"{where} and {path} differ in their {name.replace('_', ' ')}, so that a mean over them means "
                    "nothing; export them apart, or evaluate one again."
                )
        if difference := other_examples(result.hashes, first.hashes):
            raise ConfigError(
                f"{path}: was scored on other examples than {where} ({difference}), so that a mean over them means "
                "nothing; evaluate one again on the other's data."
            )
    results = tuple(result for result, _ in pairs)
    scores = [score for result in results for score in result.scores]
    metrics = [
        Measure(name, tuple(each.value for each in same), same[0].direction, same[0].signature)
        for name in dict.fromkeys(score.metric for score in scores)
        if (same := [score for score in scores if score.metric == name])
    ]
    by_axis = {axis: [value for r in results if (value := getattr(r, axis)) is not None] for axis in SCORED}
    axes = [Measure(axis, tuple(values)) for axis, values in by_axis.items() if values]
    for measure in (*metrics, *axes):
        if (count := len(measure.values)) != len(pairs):
            raise DataError(
                f"{where.parent.parent}: {measure.name} is in {count} of {len(pairs)} results; evaluate the others "
                "again where it can be computed."
            )
    return Measured(results, tuple(axes), tuple(metrics), max(path.stat().st_mtime for _, path in pairs))


def result_files(places: Sequence[Path]) -> list[Path]:
    """Return the files `result.json` among files and folders, each once."""
    if not places:
        raise ConfigError(f"No results are given: name a {RESULT}, or a folder that holds some.")
    paths: dict[Path, None] = {}
    for place in places:
        whole = [place / RESULT] if (place / RESULT).is_file() else sorted(place.rglob(RESULT))
        if place.is_dir() and not whole:
            raise DataError(f"{place}: no {RESULT} in it; `grue evaluate` writes one.")
        paths |= dict.fromkeys(whole if place.is_dir() else [place])
    return list(paths)


def of_a_part(result: Result) -> bool:
    """Whether a result covers only a part of the split, as far as the task is known."""
    if result.limited or not is_named(result.suite) or result.task not in task_names(result.suite):
        return result.limited
    split = load_task(result.task, result.suite).data.splits.get(result.split)
    return split is not None and not split.fits(result.data.get("examples"), result.data.get("ids_sha256"))


def _read(path: Path) -> Result:
    result = read_result(path)
    if result.system.get(UNFINISHED):
        raise DataError(f"{path}: made while the run was not finished; finish it, and evaluate again.")
    if of_a_part(result):
        raise DataError(f"{path}: of a part of the split, or of rows of a file; such a result stands for no task.")
    if result.status != "complete":
        raise DataError(f"{path}: the evaluation {result.status}; evaluate again.")
    if path.name == RESULT and (path.parent / CLAIM).exists():
        check_whole(path.parent)
    return result


def check_whole(folder: Path) -> None:
    """Refuse an evaluation's folder that was changed; a DataError if a file is missing or was changed."""
    if fault := fault_of(folder):
        raise DataError(f"{folder / fault[0]}: {fault[1]}; `grue evaluate` again makes it whole.")
