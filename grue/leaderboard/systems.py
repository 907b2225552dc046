"""Find a system with its results, by its name on the board or by a folder."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grue.errors import ConfigError, DataError, UnknownName, instead
from grue.evaluation.prompting import is_by_endpoint, prompting_of
from grue.leaderboard.entries import LeftOut, find_results, find_submitted, local_entry, of_suite, refuse_twins
from grue.records import Entry
from grue.runs.request import canonical
from grue.submissions import folder as submitted
from grue.submissions.entries import RECOMPUTED, results
from grue.task_files import OWN, is_named, task_names


@dataclass(frozen=True, slots=True)
class FoundSystem:
    """A system with its results.

    Attributes:
        origin: "submissions", "runs", or the given folder.
        entries: Task → its results, by seed.
        unfinished: (task, folder of a seed) of local runs without a result.
        renamed: Note if the system was given by its `--algo` instead of its name; else empty.
    """

    name: str
    origin: str
    deterministic: bool
    entries: Mapping[str, Mapping[int, Entry]]
    unfinished: tuple[tuple[str, str], ...] = ()
    renamed: str = ""


def find_systems(
    names: Sequence[str], suite: str, submissions: Path, runs: Path, tasks: Sequence[str] | None = None
) -> list[FoundSystem]:
    """Return systems by name on the board, `submissions:NAME`, `runs:NAME`, or a folder that holds its results.

    A name that no system has may be an algorithm, as `--algo` takes it, if it made exactly one system.

    Args:
        names: A text with a '/' is a folder: a submission's, or any with `result.json` files below it.
        suite: Results of other suites are ignored; in a folder they are an error.
        tasks: Names of the tasks whose results to return. [default: all of the suite]

    Raises:
        UnknownName: No system has a name.
        ConfigError: A name is both a submission's and that of local runs, or an algorithm made several systems; or a
            folder holds several systems, or none.
        DataError: A result cannot be read, two claim the same system, task and seed, or a system's texts are only
            published elsewhere.
    """
    tasks = task_names(suite) if tasks is None else tasks
    local, out = find_results(runs, suite)
    sent, unread = find_submitted(submissions, suite) if submissions.is_dir() else ([], [])
    places = {"submissions": _Place(submissions, sent, tuple(unread)), "runs": _Place(runs, local, tuple(out))}
    systems = []
    for name in names:
        if "/" in name or os.sep in name:
            systems.append(_in_folder(Path(name), suite, tasks))
            continue
        origin, entries = _named(name, suite, places)
        system = _name(entries[0])
        renamed = "" if name.rpartition(":")[2] == system else f"{name} means {system}, which --algo {name} made."
        seeds = sorted((runs / suite).glob(f"*/{system}/seed-*")) if origin == "runs" else []
        unfinished = [(seed.parts[-3], seed.name) for seed in seeds if not (seed / "result.json").is_file()]
        systems.append(replace(_system(entries, origin, tasks), unfinished=tuple(unfinished), renamed=renamed))
    return systems


@dataclass(frozen=True, slots=True)
class _Place:
    folder: Path
    entries: Sequence[Entry]
    out: tuple[LeftOut, ...] = ()


def _named(query: str, suite: str, places: Mapping[str, _Place]) -> tuple[str, list[Entry]]:
    """Return the place and the results of the system that a name means."""
    first, colon, rest = query.partition(":")
    origin, name = (first, rest) if colon and first in places else ("", query)
    searched = {where: place for where, place in places.items() if where in (origin or where)}
    for left_out in (left_out for place in searched.values() for left_out in place.out):
        if left_out.system == name:
            raise DataError(left_out.reason)
    entries, algorithm = [e for place in searched.values() for e in place.entries], canonical(name)
    # a system that training by the algorithm made, decoded plainly
    by_algorithm = {
        _name(e) for e in entries if e.result.system.get("algorithm") == algorithm and not e.result.steering
    }
    by_name = {name} & set(map(_name, entries))
    if not by_name and len(by_algorithm) > 1:
        raise ConfigError(
            f"{query}: is the --algo of several systems, {', '.join(sorted(by_algorithm))}; name one of them."
        )
    meant = {
        where: [e for e in place.entries if _name(e) in (by_name or by_algorithm)] for where, place in searched.items()
    }
    found = [(where, of_system) for where, of_system in meant.items() if of_system]
    if len(found) > 1:
        raise ConfigError(f"{query}: names both a submission and runs; write submissions:{query} or runs:{query}.")
    if found:
        return found[0]
    elsewhere = places["submissions"].folder / suite / f"{name}{RECOMPUTED}"
    if elsewhere.is_file():
        raise DataError(
            f"{name}: its texts are published elsewhere, and only its figures are here: download the file that "
            f"{elsewhere} names, and evaluate or pack its texts under another name."
        )
    if colon and not origin:
        raise ConfigError(
            f"{query}: no system has that name or was made by that --algo, whose presets and settings are no part of a "
            f"name. Write submissions:{rest} or runs:{rest}, or a folder with a '/' in it."
        )
    suggestion = instead(name, sorted(set(map(_name, entries))), f"grue leaderboard --suite {suite}")
    folders = " or ".join(str(place.folder) for place in searched.values())
    cure = ""
    runs = [] if origin == "submissions" else sorted((places["runs"].folder / suite).glob("*/*/seed-*/checkpoint"))
    trained = [run.parents[1] for run in runs if run.parts[-3] == name and not (run.parent / "result.json").exists()]
    if trained:
        own = " --task FILE.toml" if suite == OWN else ""
        suggestion, cure = "", f" It was trained, but not evaluated: `grue evaluate --checkpoint {trained[0]}{own}`."
    elif origin != "runs" and not places["submissions"].folder.exists():
        cure = " The rows that ship have no texts to compare: name the `submissions` of a clone with --submissions."
    raise UnknownName(f"No system {name!r} of the suite {suite} in {folders}.{suggestion}{cure}")


def entries_in(folder: Path) -> list[Entry]:
    """Return the results of a submission's folder, or those of any other below it."""
    if (folder / submitted.SUBMISSION).is_file():
        return results(folder)
    return list(map(local_entry, sorted(folder.rglob("result.json"))))


def _in_folder(folder: Path, suite: str, tasks: Sequence[str]) -> FoundSystem:
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder. (A system's name has no '/'.)")
    entries = entries_in(folder)
    names = sorted(set(map(_name, entries)))
    if not names:
        raise ConfigError(f"{folder}: holds no result; name the folder of a submission or of evaluated runs.")
    if len(names) > 1:
        raise ConfigError(f"{folder}: holds several systems, {', '.join(names)}; add --runs {folder} and name one.")
    other_suites = sorted({entry.result.suite for entry in entries} - {suite})
    if other_suites:
        cure = f"--suite {other_suites[0]}" if is_named(other_suites[0]) else "--task FILE.toml, the file of the task"
        raise ConfigError(f"{folder}: holds results of the suite {other_suites[0]}, not {suite}; add {cure}.")
    return _system(entries, str(folder), tasks)


def _name(entry: Entry) -> str:
    return str(entry.result.system["name"])


def _system(entries: Sequence[Entry], origin: str, tasks: Sequence[str]) -> FoundSystem:
    if len({(prompting_of(entry.result), is_by_endpoint(entry.result)) for entry in entries}) > 1:
        raise ConfigError(
            f"{_name(entries[0])}: some of its results ({origin}) are of plain prompts and others of chat prompts, or "
            "of an endpoint: these are several systems under one name. Evaluate each under its own (--system)."
        )
    ordered = of_suite(entries, entries[0].result.suite, tasks)
    refuse_twins(ordered)
    by_task: dict[str, dict[int, Entry]] = {}
    for entry in ordered:
        by_task.setdefault(entry.result.task, {})[entry.result.seed] = entry
    return FoundSystem(_name(entries[0]), origin, all(entry.about.deterministic for entry in entries), by_task)
