"""Learning curves: logged figures averaged over seeds."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from grue.errors import DataError, UnknownName, did_you_mean, instead
from grue.files import TORN
from grue.runs.log import read_log
from grue.stats.intervals import mean

CURVES = ("objective/reward", "validation/preference", "validation/kl")


@dataclass(frozen=True, slots=True)
class Log:
    """The numbers of a run's `train.jsonl`, as figure → update → value."""

    system: str
    seed: int
    figures: Mapping[str, Mapping[int, float]]


@dataclass(frozen=True, slots=True)
class Curve:
    """A figure of a system over training.

    Attributes:
        updates: Updates that every seed has logged, ascending.
        mean: Mean over the seeds at each update. `low` and `high` are the lowest and the highest seed.
    """

    system: str
    seeds: tuple[int, ...]
    updates: tuple[int, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


# --- reading ---------------------------------------------------------------------------------------------------------


def read_logs(folder: Path, systems: Sequence[str] = ()) -> tuple[list[Log], list[str]]:
    """Read the logs of a task's runs, `<folder>/<system>/seed-<n>/train.jsonl`.

    Args:
        systems: Names, in drawing order. [default: all, sorted]

    Returns:
        The logs, system by system, and notes on what was left out.
    """
    trained = sorted({path.parent.name for path in folder.glob("*/seed-*")})
    if not trained:
        raise DataError(f"{folder}: holds no runs; train some with `grue train`, or name another folder with --runs.")
    logs, notes, untrained = [], [], []
    for system in dict.fromkeys(systems or trained):
        if system not in trained:
            raise UnknownName(f"{folder} has no runs of {system!r}.{instead(system, trained)}")
        runs = sorted((folder / system).glob("seed-*"), key=_seed)
        paths = [run / "train.jsonl" for run in runs if (run / "train.jsonl").is_file()]
        if not paths:
            untrained.append(system)
        elif len(paths) < len(runs):
            lacking = [f"seed {_seed(run)}" for run in runs if run / "train.jsonl" not in paths]
            notes.append(f"{', '.join([system, *lacking])}: left out, since there is no train.jsonl.")
        for path in paths:
            figures, torn = read_figures(path)
            logs.append(Log(system, _seed(path.parent), figures))
            if torn:
                notes.append(TORN.format(path))
    if untrained:
        notes.append(f"{', '.join(untrained)}: left out, since only trained systems have a train.jsonl.")
    if not any(log.figures for log in logs):
        raise DataError(f"{folder}: no run has logged an update; train one with `grue train`.")
    return logs, notes


def _seed(run: Path) -> int:
    match = re.fullmatch(r"seed-(\d+)", run.name)
    if match is None:
        raise DataError(f"{run}: the folder of a run is named seed-<number>; rename or remove it.")
    return int(match[1])


def read_figures(path: Path) -> tuple[dict[str, dict[int, float]], bool]:
    """Read a `train.jsonl` as figure → update → value, and whether its last line is torn.

    The mask's figures are dropped for runs without a mask: a sampler's own top-k or top-p is not a mask.
    """
    lines, torn = read_log(path)
    figures: dict[str, dict[int, float]] = {}
    for number, line in lines:
        if line.get("finished"):
            continue
        for figure, value in line.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise DataError(f"{path}, line {number}: {figure}: expected a number, found {value!r}.")
            if figure not in ("update", "of"):
                figures.setdefault(figure, {})[line["update"]] = float(value)
    if "mask/disagreement" not in figures or set(figures.get("mask/size", {}).values()) <= {1.0}:
        figures = {name: values for name, values in figures.items() if not name.startswith("mask/")}
    return figures, torn


def logged(logs: Sequence[Log]) -> list[str]:
    """Return the names of all logged figures, sorted."""
    return sorted({figure for log in logs for figure in log.figures})


# --- averaging -------------------------------------------------------------------------------------------------------


def panels_of(logs: Sequence[Log], figures: Sequence[str]) -> tuple[dict[str, list[Curve]], list[str]]:
    """Return the curves of each figure, one for each system that logged it, and notes on missing data.

    Args:
        logs: Grouped by system, as `read_logs` returns them.
    """
    names, figures = logged(logs), list(dict.fromkeys(figures))
    for figure in figures:
        if figure not in names:
            close = did_you_mean(figure, names)
            raise UnknownName(f"No run has logged {figure!r}.{close} Logged: {', '.join(names) or 'nothing'}.")
    systems = {system: list(group) for system, group in groupby(logs, key=lambda log: log.system)}
    panels: dict[str, list[Curve]] = {figure: [] for figure in figures}
    for figure, curves in panels.items():
        for system, runs in systems.items():
            if by_seed := {log.seed: log.figures[figure] for log in runs if figure in log.figures}:
                curves.append(_curve(system, by_seed))
    return panels, [note for system, runs in systems.items() for note in _gaps(system, runs, figures)]


def _curve(system: str, by_seed: Mapping[int, Mapping[int, float]]) -> Curve:
    """Average seed → update → value over the updates that all seeds have, so that the mean does not jump."""
    updates = sorted(set.intersection(*(set(values) for values in by_seed.values())))
    columns = [[values[update] for values in by_seed.values()] for update in updates]
    return Curve(
        system=system,
        seeds=tuple(by_seed),
        updates=tuple(updates),
        mean=tuple(map(mean, columns)),
        low=tuple(map(min, columns)),
        high=tuple(map(max, columns)),
    )


def _gaps(system: str, runs: Sequence[Log], figures: Sequence[str]) -> Iterator[str]:
    """Yield which of a system's seeds lack which figures, and which end before others."""
    lacking: dict[tuple[str, ...], list[str]] = {}
    for log in runs:
        lacking.setdefault(tuple(f for f in figures if f not in log.figures), []).append(f"seed {log.seed}")
    for missing, seeds in lacking.items():
        if missing:
            which = [system, *(seeds if len(seeds) < len(runs) else [])]
            yield f"{', '.join(which)}: has no {', '.join(missing)}."
    ends = {log.seed: max(map(max, log.figures.values())) for log in runs if log.figures}
    if len(set(ends.values())) > 1:
        reached = ", ".join(f"seed {seed} to {end}" for seed, end in ends.items())
        yield f"{system}: drawn up to the last update that all its seeds reached ({reached})."
