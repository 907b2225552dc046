"""A pull request against its merge base: which files it may change, and whether a row got worse.

Git runs with fixed arguments and without a shell. The working tree is untrusted: hooks, monitors and external diffs are
switched off, and only names are read from it. The row to compare with comes from the merge base alone.
"""

import os
import re
import subprocess
import tarfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np

from grue.data.load import load_examples
from grue.errors import ConfigError, DataError
from grue.evaluation.comparison import compare_task
from grue.evaluation.predictions import read_predictions
from grue.files import plain
from grue.records import Prediction, Result
from grue.stats.paired import DRAWS, holm
from grue.submissions.checks.likeness import DISGUISED, NEARLY_ALL
from grue.submissions.checks.reviewed import REVIEWED, Reviews, parse_reviewed
from grue.submissions.checks.sketch import alike, equal, sketch
from grue.submissions.folder import (
    CONFIG,
    RESULT,
    SUBMISSION,
    kept_one_start,
    predictions_of,
    read_result,
    read_submission,
)
from grue.submissions.problems import Problem, error, review
from grue.submissions.reading import (
    MOST_BYTES_OF,
    read_unscanned_predictions,
    read_untrusted_predictions,
    refuse_strange,
)
from grue.task_files import SUITES, load_task, task_names

COMPUTED_AGAIN = ("scores", "preference", "naturalness", "hashes", "counts", "errors", "notes")
OF_THE_SCORING = ("schema", "grue", "packages", "timing")
LEVEL = 0.05  # of the tests for a regression, all tasks together
BOARD = "leaderboard/"  # written from the submissions after merging
_MAINTAINERS = re.compile(r"README\.md|reviewed\.toml|[a-z]+/[\w.+-]+\.(reported\.json|trust\.json|by-reference\.toml)")
_SYSTEM = re.compile(r"([^./][^/]*/[^./][^/]*)/.+", re.DOTALL)
_LISTED = re.compile(r"\d+ blob ([0-9a-f]+) +(\d+)\t(.+)", re.DOTALL)
_RUN = re.compile(rf"([^/]+)/{RESULT.pattern}")
_MAX_BYTES = 10_000_000
_OF_NEW_RUNS = {"seeds", "regression", "budget"}  # what a row that gains runs says anew

Change = Literal["added", "changed", "removed"]
Fate = Literal["kept", "touched", "replaced", "failed"]
"""What a run on the board has now: the same predictions, nearly the same texts, others, or, as before, none."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The files of a checkout that differ from the merge base of its HEAD and another commit.

    Attributes:
        base: The merge base.
        folder: The folder `submissions/`, as the caller spells it.
        within: Changed files in that folder, by their path in it.
        beyond: Changed files elsewhere in the repository, by their path from its top.
        before: Content of the folder at the merge base: path in it → (id of the blob, size in bytes).
    """

    base: str
    folder: Path
    within: Mapping[str, Change]
    beyond: Mapping[str, Change]
    before: Mapping[str, tuple[str, int]]

    def systems(self) -> list[str]:
        """Return the systems with a changed file, "<suite>/<system>", sorted; removed ones included."""
        return sorted({match[1] for path in self.within if (match := _SYSTEM.fullmatch(path))})

    def on_board(self, system: str) -> bool:
        """Whether the merge base has files of a system."""
        return any(path.startswith(f"{system}/") for path in self.before)


def changes_since(folder: Path, ref: str) -> Changes:
    """Compare the working tree around `folder`, which is `submissions/`, with the merge base of HEAD and `ref`.

    Uncommitted changes count, and in `submissions/` untracked files too, unless git ignores them.

    Raises:
        DataError: There is no such folder.
        ConfigError: It is in no checkout, or `ref` names no commit that shares an ancestor with HEAD.
    """
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder of submissions.")
    commit = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", hint=f": {ref}")
    hint = f": no common ancestor of HEAD and {ref}; a shallow clone lacks it (fetch-depth: 0)"
    base = _git(folder, "merge-base", "HEAD", commit.strip(), hint=hint).strip()
    prefix = _git(folder, "rev-parse", "--show-prefix").rstrip("\n")
    top = Path(_git(folder, "rev-parse", "--show-toplevel").rstrip("\n"))
    quiet = ("--no-ext-diff", "--no-textconv", "--no-renames", "--no-relative", "--ignore-submodules=dirty")
    found = _statuses(_git(top, "diff", "--name-status", "-z", *quiet, base, "--"))
    untracked = _git(folder, "ls-files", "-z", "--others", "--exclude-standard", "--full-name", "--", ".")
    found |= dict.fromkeys(untracked.split("\0")[:-1], "added")
    return Changes(
        base=base,
        folder=folder,
        within={path.removeprefix(prefix): change for path, change in found.items() if path.startswith(prefix)},
        beyond={path: change for path, change in found.items() if not path.startswith(prefix)},
        before={path.removeprefix(prefix): blob for path, blob in _blobs(top, base, prefix).items()},
    )


def _statuses(listing: str) -> dict[str, Change]:
    kinds: dict[str, Change] = {"A": "added", "D": "removed"}
    words = listing.split("\0")[:-1]
    return {path: kinds.get(status, "changed") for status, path in zip(words[::2], words[1::2], strict=True)}


def _blobs(top: Path, base: str, prefix: str) -> dict[str, tuple[str, int]]:
    listing = _git(top, "ls-tree", "-r", "-l", "-z", "--full-tree", base, "--", *([prefix] if prefix else [])).split(
        "\0"
    )[:-1]
    matches = [match for line in listing if (match := _LISTED.fullmatch(line))]
    return {match[3]: (match[1], int(match[2])) for match in matches}


def _git(folder: Path, *arguments: str, hint: str = "") -> str:
    return os.fsdecode(_git_bytes(folder, *arguments, hint=hint))


def _git_bytes(folder: Path, *arguments: str, hint: str = "") -> bytes:
    """Run git so that neither the checkout nor its settings can make it execute anything."""
    settings = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.untrackedCache=false", "protocol.allow=never")
    safe = [part for setting in settings for part in ("-c", setting)]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("GIT_EXTERNAL", "GIT_TRACE"))},
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
    command = ["git", "--no-pager", "-C", str(folder), *safe, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, env=environment, stdin=subprocess.DEVNULL)
    except FileNotFoundError as missing:
        raise ConfigError("--against needs git, which is not installed.") from missing
    if done.returncode:
        said = ascii(done.stderr.decode("utf-8", "replace").strip())[1:-1]
        raise ConfigError(f"--against{hint}: git {arguments[0]} in {folder} failed{': ' + said if said else '.'}")
    return done.stdout


# --- what a submission may change ------------------------------------------------------------------------------------


def check_changes(changes: Changes, maintainer: bool = False) -> list[Problem]:
    """Return what a submission changes outside its own folder (GRUE-S040, 043, 053), and on the board (041, 084).

    Args:
        maintainer: Whether who changes it may write what maintainers write: trust records, reviews, figures of papers
            and systems by reference (GRUE-S083).
    """
    systems = changes.systems()
    found = list(_strays(changes, bool(systems), maintainer))
    for system in systems:
        if changes.on_board(system):
            found += _on_known(changes, system, alone=len(systems) == 1)
    if systems or (changes.within and not maintainer):
        found += [
            error(53 if path.startswith(BOARD) else 43, Path(path), f"is {change}, and is not part of a submission.")
            for path, change in sorted(changes.beyond.items())
        ]
    return found


def _strays(changes: Changes, submitting: bool, maintainer: bool) -> Iterator[Problem]:
    for path, change in sorted(changes.within.items()):
        if _SYSTEM.fullmatch(path):
            continue
        if submitting or not _MAINTAINERS.fullmatch(path):
            yield error(40, changes.folder / path, f"is {change}, and is in no submission's folder.")
        elif not maintainer:
            yield review(83, changes.folder / path, f"is {change}.")


def _on_known(changes: Changes, system: str, alone: bool) -> Iterator[Problem]:
    folder = changes.folder / system
    now = {path for path in (*changes.before, *changes.within) if changes.within.get(path) != "removed"}
    if not any(path.startswith(f"{system}/") for path in now):
        yield error(41, folder, "is on the board and is removed.")
        return
    if not alone:
        others = ", ".join(other for other in changes.systems() if other != system)
        yield error(41, folder, f"is on the board and is changed together with {others}.")
    for task in sorted({task for task, _ in _runs(changes.before, system)} - {task for task, _ in _runs(now, system)}):
        yield error(41, folder / task, "is on the board and is removed.")
    with _restored(changes, system) as before:
        fates = _fates(changes, system, before)
        yield from _rewritten(changes, system, before, fates)
        replaced = [path for path, fate in fates.items() if fate in ("touched", "replaced")]
        kept = [path for path, fate in fates.items() if fate == "kept"]
        moved = [path for path in kept if not _is_unmoved(_at(before, path), changes.folder / path)]
    if replaced and moved and not _was_deterministic(changes, system):
        yield error(
            41,
            folder,
            f"replaces {_listed(replaced)} and keeps {_listed(moved)}; all runs are replaced or none, so "
            "that no seed is selected.",
        )


def _runs(files: Iterable[str], system: str) -> list[tuple[str, str]]:
    """Return (task, path) of a system's results among the files of `submissions/`."""
    paths = sorted(path for path in files if path.startswith(f"{system}/"))
    return [(m[1], path) for path in paths if (m := _RUN.fullmatch(path.removeprefix(f"{system}/")))]


def _fates(changes: Changes, system: str, before: Path) -> dict[str, Fate]:
    """Return what became of each run on the board; `before` is the restored row."""
    return {path: _fate(changes, path, _at(before, path)) for _, path in _runs(changes.before, system)}


def _fate(changes: Changes, path: str, old: Path) -> Fate:
    predictions = predictions_of(Path(path)).as_posix()
    if predictions not in changes.before:
        return "failed" if (_said(changes.folder / path) or {}).get("status") == "failed" else "replaced"
    if predictions not in changes.within:
        return "kept"
    try:
        then = read_untrusted_predictions(predictions_of(old))
        now = read_unscanned_predictions(changes.folder / predictions)
    except DataError:
        return "replaced"  # the other checks say what is wrong with it
    if set(then) == set(now):
        return "kept"
    old_texts, texts = sketch(then), sketch(now)
    same, near = equal(old_texts, texts), alike(old_texts, texts)
    return "touched" if same >= NEARLY_ALL or near - same >= DISGUISED * (1 - same) else "replaced"


def _was_deterministic(changes: Changes, system: str) -> bool:
    """Whether the row on the board depends on no seed, so that there is none to select."""
    return _described(changes, system).get("deterministic") is True


def _described(changes: Changes, system: str) -> dict[str, Any]:
    """Return the row's submission.toml at the merge base; nothing if it cannot be read."""
    blob = changes.before.get(f"{system}/{SUBMISSION}")
    if blob is None or blob[1] > _MAX_BYTES:
        return {}
    try:
        found = tomllib.loads(_git_bytes(changes.folder, "cat-file", "blob", blob[0]).decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return {}
    return {key: value for key, value in found.items() if value not in ("", False)}


def _table(folder: Path) -> dict[str, Any]:
    """Return a system's submission.toml without what has its default; nothing if the other checks tell its fault."""
    try:
        refuse_strange(folder / SUBMISSION, MOST_BYTES_OF[SUBMISSION])
        found: dict[str, Any] = plain(read_submission(folder))
    except (ConfigError, DataError):
        return {}
    return {key: value for key, value in found.items() if value not in ("", False)}


def _rewritten(changes: Changes, system: str, before: Path, fates: Mapping[str, Fate]) -> Iterator[Problem]:
    """Yield where a row says something else of runs whose texts stay: what was computed from these may change alone."""
    folder, of_system = changes.folder / system, "replaced" not in fates.values()
    told = {"kept": "whose texts are the same", "touched": "whose texts are nearly the same"}
    told |= {"failed": "that failed"} if of_system else {}
    for path in (path for path, fate in fates.items() if fate in told):
        old = _at(before, path)
        if changes.within.get(path) == "changed" and old.is_file() and _said(old) != _said(changes.folder / path):
            yield review(84, changes.folder / path, f"says something else of a run {told[fates[path]]}.")
    standing = {task for task, _ in _runs(changes.before, system)}
    for task, path in _runs(changes.within, system):
        if (
            path not in changes.before
            and task in standing
            and (_said(changes.folder / path) or {}).get("status") == "failed"
        ):
            yield review(84, changes.folder / path, "is a failed run, which the row did not have.")
    for task in sorted({path.split("/")[-2] for path, fate in fates.items() if fate in ("kept", "touched")}):
        if changes.within.get(f"{system}/{task}/{CONFIG}") in ("changed", "removed"):
            yield review(84, folder / task / CONFIG, f"is {changes.within[f'{system}/{task}/{CONFIG}']}.")
    if of_system and changes.within.get(f"{system}/{SUBMISSION}") == "changed":
        then, now = _described(changes, system), _table(folder)
        gained = {path for _, path in _runs(changes.within, system)} - changes.before.keys()
        anew = _OF_NEW_RUNS if gained else set()
        differing = sorted(key for key in {*then, *now} - anew if then.get(key) != now.get(key))
        if now and differing:
            yield review(84, folder / SUBMISSION, f"says something else: {', '.join(differing)}.")


def _said(path: Path) -> dict[str, Any] | None:
    """Return what a result says and what is not computed from the texts; None if it cannot be read."""
    try:
        result = plain(_result(path))
    except DataError:
        return None  # the other checks say what is wrong with it
    return {key: value for key, value in result.items() if key not in (*COMPUTED_AGAIN, *OF_THE_SCORING)}


def _result(path: Path) -> Result:
    """Read a result that nobody has looked at yet: no link, and nothing beyond the limit."""
    refuse_strange(path, MOST_BYTES_OF[".json"])
    return read_result(path)


def _is_unmoved(old: Path, new: Path) -> bool:
    """Whether a run kept its start, then and now: it has no other texts to hand in."""
    try:
        return kept_one_start(_result(old), _result(new))
    except DataError:
        return False  # the other checks say what is wrong with it


def _listed(results: Sequence[str]) -> str:
    names = [f"{path.split('/')[-2]} {path.split('/')[-1].removesuffix('.result.json')}" for path in results]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def reviewed_at(folder: Path, ref: str) -> Reviews:
    """Return the reviews in `submissions/` at a commit: a pull request cannot write its own.

    Raises:
        ConfigError: The file at that commit has another shape, or git fails.
    """
    prefix = _git(folder, "rev-parse", "--show-prefix").rstrip("\n")
    top = Path(_git(folder, "rev-parse", "--show-toplevel").rstrip("\n"))
    path = f"{prefix}{REVIEWED}"
    known = _blobs(top, ref, path).get(path)
    if known is None:
        return {}
    if known[1] > _MAX_BYTES:
        raise ConfigError(f"{path}: {known[1]:,} bytes at {ref}; expected {_MAX_BYTES:,} at most.")
    try:
        tables = tomllib.loads(_git_bytes(top, "cat-file", "blob", known[0]).decode("utf-8-sig"))
    except (ValueError, RecursionError) as refusal:
        raise ConfigError(f"{path} at {ref}: not valid TOML: {refusal}.") from refusal
    return parse_reviewed(tables, f"{path} at {ref}")


@contextmanager
def rows_at(folder: Path, ref: str) -> Iterator[Path | None]:
    """Yield the rows that stand at a commit, in a folder of their own; None if a branch that begins there has them all.

    Raises:
        ConfigError: Git fails.
    """
    commit = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", hint=f": {ref}")
    prefix = _git(folder, "rev-parse", "--show-prefix").rstrip("\n")
    top = Path(_git(folder, "rev-parse", "--show-toplevel").rstrip("\n"))
    if _git(folder, "merge-base", "HEAD", commit.strip()) == commit or not _blobs(top, commit.strip(), prefix):
        yield None
        return
    with TemporaryDirectory() as place:
        packed = _git_bytes(top, "archive", "--format=tar", commit.strip(), *(["--", prefix] if prefix else []))
        with tarfile.open(fileobj=BytesIO(packed)) as archive:
            archive.extractall(place, filter="data")
        yield Path(place, prefix)


# --- whether a row got worse -----------------------------------------------------------------------------------------


def check_regression(
    changes: Changes, system: str, generator: np.random.Generator, draws: int = DRAWS
) -> list[Problem]:
    """Return the tasks on which a new version of a system is significantly worse than its row (GRUE-S042).

    Where either has a single seed of a system that depends on its seed, `grue compare` gives no verdict, and a
    maintainer decides (GRUE-S056).

    Added runs count like replaced ones: a row that gains failed seeds is worse. Not tested: a system whose `regression`
    states why it is worse, which a maintainer reads (GRUE-S044), and tasks whose runs on the board were made for
    another version of the task.

    Args:
        system: "<suite>/<system>"; its files must have passed the other checks.
        draws: Number of draws of the randomisation test, see `grue.stats.paired`.

    Raises:
        DataError: The examples of a task, or files of the merge base, cannot be read.
    """
    folder = changes.folder / system
    gained = {path for _, path in _runs(changes.within, system)} - changes.before.keys()
    known = {task for task, _ in _runs(changes.before, system)}
    more = any(path.split("/")[-2] in known for path in gained)
    with _restored(changes, system) as before:
        replaced = not {"touched", "replaced"}.isdisjoint(_fates(changes, system, before).values())
        if not (replaced or more) or not (folder / SUBMISSION).is_file():
            return []
        if said := read_submission(folder).regression:
            return [review(44, folder / SUBMISSION, f"regression: {said}")]
        old, new = _predictions(before, system.split("/")[0]), _predictions(folder, system.split("/")[0])
    differences = {}
    for name in sorted(set(old) & set(new)):
        task = load_task(name, system.split("/")[0])
        examples = load_examples(task, task.data.evaluation).examples
        differences[name] = compare_task(task, examples, new[name], old[name], generator, draws)
    corrected = holm([difference.p for difference in differences.values()])
    found = []
    for (name, d), p in zip(differences.items(), corrected, strict=True):
        if d.value >= 0 or p >= LEVEL:
            continue
        said = (
            f"preference {d.a:.1f}, where the row has {d.b:.1f}: {d.value:+.1f}, 95 % interval {d.interval.low:+.1f} "
            f"to {d.interval.high:+.1f}, p = {p:.4f} (Holm over {len(differences)} tasks)"
        )
        if min(len(old[name]), len(new[name])) > 1 or read_submission(folder).deterministic:
            found.append(error(42, folder / name, f"{said}."))
        else:
            found.append(review(56, folder / name, f"{said}; of one seed, whose chance p leaves out."))
    return found


def _predictions(folder: Path, suite: str) -> dict[str, list[Sequence[Prediction] | None]]:
    """Return task → predictions of each seed, None for a failed one; only for current versions of the tasks."""
    found: dict[str, list[Sequence[Prediction] | None]] = {}
    for path in sorted(folder.glob("*/seed-*.result.json")):
        result = read_result(path)
        if result.task in task_names(suite) and result.task_hash == load_task(result.task, suite).hash:
            predictions = None if result.status == "failed" else read_predictions(predictions_of(path))
            found.setdefault(result.task, []).append(predictions)
    return found


@contextmanager
def _restored(changes: Changes, system: str) -> Iterator[Path]:
    """Yield a folder with a system's results and predictions of the merge base."""
    with TemporaryDirectory() as place:
        _restore(changes, system, Path(place))
        yield Path(place)


def _at(before: Path, result: str) -> Path:
    """Return where a result on the board is restored."""
    return Path(before, *result.split("/")[-2:])


def _restore(changes: Changes, system: str, place: Path) -> None:
    if system.split("/")[0] not in SUITES:
        return
    for task, path in _runs(changes.before, system):
        for name in (path, predictions_of(Path(path)).as_posix()):
            if task not in task_names(system.split("/")[0]) or name not in changes.before:
                continue
            blob, size = changes.before[name]
            if size > _MAX_BYTES:
                raise DataError(f"{name}: {size:,} bytes at the merge base; expected {_MAX_BYTES:,} at most.")
            target = place / task / name.split("/")[-1]
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(_git_bytes(changes.folder, "cat-file", "blob", blob))
