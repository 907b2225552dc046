"""Finding a system with its results: by its name on the board, or by a folder."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grue.errors import ConfigError, DataError, UnknownName, did_you_mean
from grue.leaderboard.entries import LeftOut, find_results, local_entry, of_suite, refuse_twins
from grue.records import Entry
from grue.submissions import folder as submitted
from grue.submissions.entries import results
from grue.task_files import task_names

ORIGINS = ("submissions", "runs")


@dataclass(frozen=True, slots=True)
class FoundSystem:
    """A system that was found.

    Attributes:
        name: Its name on the board.
        origin: "submissions", "runs", or the given folder.
        deterministic: Whether its output depends on no seed.
        entries: Task → its results, by seed.
        unfinished: (task, folder of a seed) of local runs without a result.
    """

    name: str
    origin: str
    deterministic: bool
    entries: Mapping[str, Mapping[int, Entry]]
    unfinished: tuple[tuple[str, str], ...] = ()


def find_system(given: str, suite: str, submissions: Path, runs: Path) -> FoundSystem:
    """Return a system by its name on the board, `submissions:NAME`, `runs:NAME`, or a folder that holds its results.

    Args:
        given: A text with a '/' is a folder: a submission's, or any with `result.json` files below it.
        suite: Results of other suites are ignored; in a folder they are an error.

    Raises:
        UnknownName: No system has the name.
        ConfigError: A submission and local runs have the name; or the folder holds several systems, or none.
        DataError: A result cannot be read, two claim the same system, task and seed, or the system's texts are not here
            but published elsewhere.
    """
    if "/" in given or os.sep in given:
        return _in_folder(Path(given), suite)
    origin, _, name = given.rpartition(":")
    if origin and origin not in ORIGINS:
        raise ConfigError(f"{given}: write submissions:{name} or runs:{name}, or a folder with a '/' in it.")
    local, out = find_results(runs, suite)
    found = {"submissions": results(submissions, suite) if submissions.is_dir() else [], "runs": local}
    if origin != "submissions":
        _refuse_left_out(name, out)
    searched = {where: found[where] for where in ORIGINS if where in (origin or where)}
    matching = {where: [e for e in entries if _name(e) == name] for where, entries in searched.items()}
    places = [where for where, entries in matching.items() if entries]
    if not places:
        names = sorted({_name(entry) for entries in searched.values() for entry in entries})
        elsewhere = submissions / suite / f"{name}{submitted.BY_REFERENCE}"
        if elsewhere.is_file():
            raise DataError(
                f"{name}: its texts are published elsewhere, and only its figures are here: download the file that "
                f"{elsewhere} names, and evaluate or pack its texts under another name."
            )
        folders = " or ".join(str({"submissions": submissions, "runs": runs}[where]) for where in searched)
        raise UnknownName(
            f"No system {name!r} of the suite {suite} in {folders}.{did_you_mean(name, names)} "
            f"Known: {', '.join(names) or 'none'}."
        )
    if len(places) > 1:
        raise ConfigError(f"{name}: names both a submission and runs; write submissions:{name} or runs:{name}.")
    unfinished = _unfinished(runs / suite, name) if places == ["runs"] else ()
    return replace(_system(matching[places[0]], places[0]), unfinished=tuple(unfinished))


def _refuse_left_out(name: str, out: Iterable[LeftOut]) -> None:
    """Refuse a system of which a local result cannot be used; those of others are not asked for.

    Raises:
        DataError: One is in a folder of that name.
    """
    for one in out:
        if one.path.parts[-3] == name:
            raise DataError(f"{one.why} Evaluate the run again with `grue evaluate --force`, or remove the file.")


def _in_folder(folder: Path, suite: str) -> FoundSystem:
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder. (A system's name has no '/'.)")
    is_submission = (folder / submitted.SUBMISSION).is_file()
    entries = results(folder) if is_submission else list(map(local_entry, sorted(folder.rglob("result.json"))))
    names = sorted(set(map(_name, entries)))
    if not names:
        raise ConfigError(f"{folder}: holds no result; name the folder of a submission or of evaluated runs.")
    if len(names) > 1:
        raise ConfigError(f"{folder}: holds several systems, {', '.join(names)}; add --runs {folder} and name one.")
    others = sorted({entry.result.suite for entry in entries} - {suite})
    if others:
        raise ConfigError(f"{folder}: holds results of the suite {others[0]}, not {suite}; add --suite {others[0]}.")
    return _system(entries, str(folder))


def _name(entry: Entry) -> str:
    return str(entry.result.system["name"])


def _system(entries: Sequence[Entry], origin: str) -> FoundSystem:
    suite = entries[0].result.suite
    ordered = of_suite(entries, suite, task_names(suite))
    refuse_twins(ordered)
    by_task: dict[str, dict[int, Entry]] = {}
    for entry in ordered:
        by_task.setdefault(entry.result.task, {})[entry.result.seed] = entry
    return FoundSystem(_name(entries[0]), origin, all(entry.about.deterministic for entry in entries), by_task)


def _unfinished(folder: Path, name: str) -> Iterator[tuple[str, str]]:
    for seed in sorted(folder.glob(f"*/{name}/seed-*")):
        if not (seed / "result.json").is_file():
            yield seed.parts[-3], seed.name
