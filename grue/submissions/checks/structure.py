"""Checks of a system's folder that need no scoring: its files, their content, and whether they agree."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from grue.errors import ConfigError, DataError, escaped
from grue.evaluation.prompting import CHAT, ENDPOINT, SHOTS, chat_of, is_by_endpoint, prompting_of
from grue.files import canonical_json, plain
from grue.records import BASELINES, EXTERNAL, LOOKUPS, SEEDLESS, SYSTEM_NAME, Result
from grue.submissions.checks.claims import untrue
from grue.submissions.configuration import check_configuration
from grue.submissions.folder import (
    CONFIG,
    PRELIMINARY_SEEDS,
    RANKED_SEEDS,
    SUBMISSION,
    Submission,
    does_not_compete,
    illegible,
    place_of,
    predictions_of,
    read_result,
    read_submission,
    seed_of,
    stated,
)
from grue.submissions.problems import Problem, problem
from grue.submissions.reading import Scan, check_manifest, scan, without_path
from grue.submissions.trust.record import standing_of
from grue.task_files import SUITES, load_task, task_names
from grue.tasks import Task

_SAME_CONFIGURATION = ("algorithm", "backbone", "revision", "parameters")


@dataclass(frozen=True, slots=True)
class SubmittedRun:
    """One seed of a system on a task.

    Attributes:
        path: Path of its result, which may be missing.
        result: None if it is missing, unreadable or of a failed run.
        predictions: None if they are missing or not safe to read.
        current: Whether the result claims to be for the current version of the task and for the whole split.
        sealed: Whether both files are those that the manifest lists; otherwise nothing is said of what they claim.
    """

    path: Path
    result: Result | None
    predictions: Path | None
    current: bool
    sealed: bool


@dataclass(frozen=True, slots=True)
class Contents:
    """What was read from a system's folder: what is wrong with it, task → its runs, and the tasks without a rank."""

    system: Path
    suite: str
    problems: tuple[Problem, ...]
    runs: Mapping[str, tuple[SubmittedRun, ...]]
    references: frozenset[str] = frozenset()


def read_system(system: Path) -> Contents:
    """Read a system's folder, whatever state it is in."""
    suite = place_of(system).parent.name
    if suite not in SUITES:
        wrong = f"{suite!r} is not a suite; a submission is in a folder under {' or '.join(SUITES)}."
        return Contents(system, suite, (problem(1, system, wrong),), {})
    scanned = scan(system, task_names(suite))
    if scanned.problems and not scanned.present:
        return Contents(system, suite, scanned.problems, {})
    unlisted, altered = check_manifest(system, scanned)
    problems = [*scanned.problems, *unlisted]
    submission = _read_submission(system, scanned, problems)
    seeds: dict[str, set[int]] = {}  # task → those that have a result file, whatever its state
    for name, _, file in sorted(path.partition("/") for path in scanned.present):
        if (seed := seed_of(file)) is not None:
            seeds.setdefault(name, set()).add(seed)
    results = _read_results(system, scanned, problems)
    complete = {path: result for path, result in results.items() if result.status == "complete"}
    references = {path.parent.name for path, result in complete.items() if does_not_compete(result)}  # as the board
    if submission is not None:
        references = set(seeds) if submission.deterministic else references
        unread = any(p.id == "GRUE-S003" for p in problems)
        problems += _check_declared(system, submission, seeds, {} if unread else results)
    is_reference = bool(seeds) and references.issuperset(seeds)
    problems += _check_structure(system, scanned, seeds, is_reference)
    runs: dict[str, tuple[SubmittedRun, ...]] = {}
    for name in sorted({Path(file).parent.name for file in scanned.present} - {""}):
        task, of_task = load_task(name, suite), {path: r for path, r in results.items() if path.parent.name == name}
        problems += _check_results(task, of_task, scanned)
        if f"{name}/{CONFIG}" in scanned.readable:
            problems += check_configuration(system / name / CONFIG, task, of_task)
        if name in seeds:
            paths = [system / name / f"seed-{seed}.result.json" for seed in sorted(seeds[name])]
            runs[name] = tuple(_run(path, task, complete.get(path), scanned, altered) for path in paths)
    competing = {task: len(numbers) for task, numbers in seeds.items() if task not in references}
    problems += _check_competing(system, suite, competing, seeds)
    promptings = {f"{prompting_of(r)} prompts{' by an endpoint' * is_by_endpoint(r)}" for r in results.values()}
    if len(promptings) > 1:
        problems.append(problem(91, system, f"has results of {' and '.join(sorted(promptings))}."))
    if not is_reference and not any(p.severity == "error" for p in problems):
        try:
            why = standing_of(system, suite, list(results.values())).why
        except DataError as refusal:
            why = str(refusal).rstrip(".")
        problems += [problem(96, system, f"{why}.")] if why else []
    return Contents(system, suite, tuple(problems), runs, frozenset(references))


def _read_submission(system: Path, scanned: Scan, problems: list[Problem]) -> Submission | None:
    path = system / SUBMISSION
    if SUBMISSION not in scanned.present:
        problems.append(problem(2, path, "is missing."))
    if SUBMISSION in scanned.readable:  # else `scan` reported why
        try:
            return read_submission(system)
        except ConfigError as refusal:
            problems.append(problem(2, path, without_path(refusal, path)))
    return None


def _read_results(system: Path, scanned: Scan, problems: list[Problem]) -> dict[Path, Result]:
    results = {}
    for path in (system / name for name in sorted(scanned.readable) if seed_of(Path(name).name) is not None):
        try:
            results[path] = read_result(path)
        except DataError as refusal:
            problems.append(problem(3, path, without_path(refusal, path)))
            continue
        # Scores are computed again, and errors are long messages that grue writes.
        texts = {key: value for key, value in plain(results[path]).items() if key not in ("scores", "errors")}
        problems += [problem(3, path, f"{line}.") for line in illegible(texts)]
    return results


def _run(path: Path, task: Task, result: Result | None, scanned: Scan, altered: frozenset[str]) -> SubmittedRun:
    predictions = predictions_of(path)
    own, packed = (f"{path.parent.name}/{file.name}" for file in (path, predictions))
    current = result is None or (not result.limited and _version(result) == _version_of(task))
    readable = predictions if packed in scanned.readable else None
    return SubmittedRun(path, result, readable, current, sealed=not altered & {own, packed})


# --- the folder ------------------------------------------------------------------------------------------------------


def _check_structure(
    system: Path, scanned: Scan, seeds: Mapping[str, set[int]], is_reference: bool
) -> Iterator[Problem]:
    if not SYSTEM_NAME.fullmatch(system.name):
        yield problem(1, system, "is not a valid name of a system: use letters, digits, '_', '-', '+' and '.'.")
    if system.name in BASELINES and not is_reference:
        yield problem(1, system, "is the name of a reference, and competes.")
    if not scanned.problems and not seeds:
        yield problem(1, system, "holds no result.")
    for name in sorted(name for name in scanned.readable if name.endswith(".gz")):
        result = name.replace(".predictions.jsonl.gz", ".result.json")
        if result not in scanned.present:
            yield problem(1, system / name, f"has no {Path(result).name} beside it.")


def _check_declared(
    system: Path, submission: Submission, seeds: Mapping[str, set[int]], results: Mapping[Path, Result]
) -> Iterator[Problem]:
    """Yield where `submission.toml`, whose words the board shows, differs from the files.

    Of a model that was made elsewhere the results do not know the algorithm. What has no backbone has "none".
    """
    algorithms = {result.system.get("algorithm") for result in results.values()}
    without_model = bool(algorithms) and algorithms <= {*SEEDLESS, *LOOKUPS}
    known = {
        "algorithm": "" if algorithms & {EXTERNAL, ENDPOINT} else stated(results.values(), "algorithm"),
        "backbone": stated(results.values(), "backbone") or ("none" if without_model else ""),
    }
    path = system / SUBMISSION
    if submission.name != system.name:
        yield problem(2, path, f"name: {submission.name!r}, but the folder is called {system.name!r}.")
    for key, value in known.items():
        if value not in ("", declared := getattr(submission, key)):
            yield problem(2, path, f"{key}: states {declared!r}; the results {value!r}.")
    for task, numbers in seeds.items():
        if numbers != set(submission.seeds):
            here, there = (", ".join(map(str, sorted(some))) or "none" for some in (numbers, submission.seeds))
            yield problem(10, system / task, f"has seeds {here}; {SUBMISSION} declares {there}.")


def _check_competing(system: Path, suite: str, seeds: Mapping[str, int], tasks: Collection[str]) -> Iterator[Problem]:
    """Yield what keeps a system that competes from a rank: too few tasks, or seeds of a task.

    Args:
        seeds: Task → number of seeds, of the tasks on which it competes.
        tasks: All that it has results of.
    """
    lacking = [task for task in task_names(suite) if task not in tasks]
    if seeds and lacking:
        yield problem(30, system, f"has no {', '.join(lacking)}; it will be shown without a rank.")
    fewest = min(seeds.values(), default=RANKED_SEEDS)
    if fewest < RANKED_SEEDS:
        shown = "as preliminary" if fewest >= PRELIMINARY_SEEDS else "without a rank"
        yield problem(30, system, f"has {fewest} seed{'s' if fewest > 1 else ''} of a task; it will be shown {shown}.")


# --- results ---------------------------------------------------------------------------------------------------------


def _check_results(task: Task, results: Mapping[Path, Result], scanned: Scan) -> Iterator[Problem]:
    """Yield what is wrong with the results of a task, each by itself and beside the others."""
    for path, result in results.items():
        yield from _check_result(task, path, result)
        yield from _check_predictions(path, result, f"{task.name}/{predictions_of(path).name}" in scanned.present)
    complete = [result for result in results.values() if result.status == "complete"]
    settings: dict[str, list[Any]] = {"generation": [{**result.generation, "prompting": None} for result in complete]}
    settings |= {key: [result.system.get(key) for result in complete] for key in _SAME_CONFIGURATION}
    for key, values in settings.items():
        if (different := len(set(map(canonical_json, values)))) > 1:
            yield problem(37, next(iter(results)).parent, f"{key}: {different} values in {len(complete)} seeds.")
    elsewhere = [result.system for result in complete if result.system.get("algorithm") == EXTERNAL]
    models = [weights for system in elsewhere if (weights := system.get("weights"))]
    if (different := len(set(models))) < len(models):
        of = f"{different} model{'s' * (different > 1)} in {len(models)} seeds"
        yield problem(97, next(iter(results)).parent, f"weights: {of}.")
    trained = [(path, result.system) for path, result in results.items() if result.system.get("config_sha256")]
    for (path, system), (other, same) in combinations(trained, 2):
        weights = system.get("weights")
        kept_start = system.get("update") == same.get("update") == 0
        if weights and weights == same.get("weights") and not kept_start:  # chance differs, and so do weights
            yield problem(94, other, f"weights: states {escaped(weights[:12])!r}, as {path.name} does.")


def _check_result(task: Task, path: Path, result: Result) -> Iterator[Problem]:
    suite, system, _, file = place_of(path).parts[-4:]
    for key, stated_value, place in (
        ("suite", result.suite, suite),
        ("system", result.system["name"], system),
        ("task", result.task, task.name),
        ("seed", f"seed-{result.seed}", file.removesuffix(".result.json")),
    ):
        if stated_value != place:
            yield problem(4, path, f"{key}: the file states {stated_value!r}, its path {place!r}.")
    ids = task.data.splits[task.data.evaluation].ids_sha256
    stated_ids = result.data.get("ids_sha256", ids)
    if result.limited:
        yield problem(6, path, "was scored on a part of the split or on a file.")
    if _version(result) != _version_of(task):
        was, now = ("version {} ({:.12}), split {!r}".format(*parts) for parts in (_version(result), _version_of(task)))
        yield problem(6, path, f"was evaluated on {was}; the task is now {now}.")
    elif ids and stated_ids != ids:
        yield problem(19, path, f"ids_sha256: states {stated_ids!r}; of the split: {ids!r}.")
    if (other := _other_prompt(result, task)) is not None:
        yield problem(6, path, f"prompting: {other}")
    yield from (problem(93, path, f"{line}.") for line in untrue(result))
    if result.searched is not None and result.searched.generation != plain(task.search):
        yield problem(93, path, "searched: is decoded in another way than by the task's `[search]`, or it has none.")
    if result.grue.get("dirty") is True:
        yield problem(36, path, "was made by a checkout with uncommitted changes.")


def _version(result: Result) -> tuple[int, str, str]:
    return result.task_version, result.task_hash, result.split


def _version_of(task: Task) -> tuple[int, str, str]:
    return task.version, task.hash, task.data.evaluation


def _other_prompt(result: Result, task: Task) -> str | None:
    """Return why the prompt does not belong to the task, or None."""
    prompting, chat = chat_of(result), task.prompt.chat
    if prompting is None:
        return None
    kind, version, sha256 = (prompting.get(key) for key in ("kind", "version", "hash"))
    if kind not in (CHAT, SHOTS):
        return f"{kind!r}; there are plain prompts, of which nothing is said, {CHAT!r} and {SHOTS!r}."
    if chat is None:
        return "was asked by a chat prompt, and the task has none."
    if type(version) is not int or (version, sha256) != (chat.version, task.chat_hash):  # True is 1
        was = f"version {version!r} ({escaped(str(sha256)[:12])})"
        return f"was asked by {was} of the chat prompt; it is now version {chat.version} ({task.chat_hash[:12]})."
    return None


def _check_predictions(path: Path, result: Result, are_there: bool) -> Iterator[Problem]:
    predictions = predictions_of(path)
    if result.status == "complete":
        if not are_there:
            yield problem(7, predictions, f"is missing, but {path.name} declares the run complete.")
        return
    has_scores = (result.scores, result.preference, result.naturalness) != ((), None, None)
    faults = {f"has {predictions.name} beside it": are_there, "has scores": has_scores}
    for what, is_so in (faults | {"states errors of metrics": bool(result.errors)}).items():
        if is_so:
            yield problem(21, path, f"declares the run failed, but {what}.")
