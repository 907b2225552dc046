"""A branch against the one that it goes into: which files it may change, and whether a row got worse."""

import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from grue.data.load import load_examples
from grue.errors import ConfigError, DataError
from grue.evaluation.comparison import compare_task
from grue.evaluation.predictions import read_predictions
from grue.records import BASELINES, Prediction
from grue.stats.paired import holm
from grue.submissions.folder import SUBMISSION, predictions_of, read_result, read_submission
from grue.submissions.problems import Problem, problem
from grue.task_files import load_task, task_names

LEVEL = 0.05  # of the tests for a regression, all tasks together
_OF_A_SYSTEM = re.compile(r"([a-z]+/[^./][^/]*)/.+", re.DOTALL)


def changed_since(folder: Path, ref: str) -> list[str]:
    """Return the files that HEAD's branch has changed since it left that of `ref`, by their path from `submissions/`.

    Only what is committed counts. Files elsewhere in the repository begin with "../". A ConfigError says why git cannot
    tell.
    """
    home = _git(folder, "rev-parse", "--show-prefix").decode().strip()
    names = _git(folder, "diff", "--name-only", "-z", "--no-renames", f"{ref}...HEAD", "--").split(b"\0")
    paths = [name.decode("utf-8", "surrogateescape") for name in names if name]
    return [path.removeprefix(home) if path.startswith(home) else f"../{path}" for path in paths]


@contextmanager
def rows_at(folder: Path, ref: str) -> Iterator[Path]:
    """Yield a folder with the submissions of a commit; raises as `changed_since` does."""
    packed = _git(folder, "archive", "--format=tar", ref, ".")
    with TemporaryDirectory() as place, tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(place, filter="data")
        yield Path(place)


def _git(folder: Path, *arguments: str) -> bytes:
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder of submissions.")
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError as missing:
        raise ConfigError("--against needs git, which is not installed.") from missing
    if done.returncode:
        reason = ascii(done.stderr.decode("utf-8", "replace").strip())[1:-1]
        raise ConfigError(f"--against: git {arguments[0]} in {folder} failed: {reason}")
    return done.stdout


def systems_in(changed: Sequence[str]) -> list[str]:
    """Return the systems that changed files belong to, "<suite>/<system>"."""
    return sorted({match[1] for path in changed if (match := _OF_A_SYSTEM.fullmatch(path))})


def check_paths(folder: Path, changed: Sequence[str]) -> list[Problem]:
    """Return what a branch changes beside systems' folders, the rows that it removes, and grue's baselines (GRUE-S040).

    The board is read by its baselines, and no check knows whether one of that name is grue's.
    """
    outside = [problem(40, folder / path, "is changed.") for path in changed if not _OF_A_SYSTEM.fullmatch(path)]
    for name in systems_in(changed):
        if not (folder / name).is_dir():
            outside.append(problem(40, folder / name, "is removed."))
        elif Path(name).name in BASELINES:
            outside.append(problem(40, folder / name, "is a baseline of grue, which its maintainers hand in."))
    return outside


def check_authors(system: Path, before: Path) -> Iterator[Problem]:
    """Yield which authors of the row that a system replaces it names no more: nobody's row is another's (GRUE-S040)."""
    named = read_submission(system).authors
    if gone := [author for author in read_submission(before).authors if author not in named]:
        yield problem(40, system / SUBMISSION, f"authors: names {', '.join(gone)} no more, whose row it replaces.")


def check_regression(system: Path, before: Path, generator: np.random.Generator) -> Iterator[Problem]:
    """Yield the tasks on which a system is significantly worse than the row that it replaces (GRUE-S042).

    Where either has a single seed of a system that depends on its seed, or `regression` states why it is worse, a
    maintainer decides (GRUE-S044). Added and failed runs count. Runs of another version of a task are not compared, nor
    is what this machine cannot score (GRUE-S039).

    Args:
        system: Its folder, whose files must have passed the other checks.
    """
    suite, stated = system.absolute().parent.name, read_submission(system)
    old, new = _predictions(before, suite), _predictions(system, suite)
    differences = {}
    for name in sorted(task for task in old.keys() & new.keys() if old[task] != new[task]):
        task = load_task(name, suite)
        try:
            examples = load_examples(task, task.data.evaluation).examples
            differences[name] = compare_task(task, examples, new[name], old[name], generator)
        except DataError as refusal:
            yield problem(39, system / name, f"is not compared with the row that it replaces: {refusal}")
    corrected = holm([difference.p for difference in differences.values()])
    for (name, d), p in zip(differences.items(), corrected, strict=True):
        if d.value >= 0 or p >= LEVEL:
            continue
        line = (
            f"preference {d.a:.1f}, where the row has {d.b:.1f}: {d.value:+.1f}, 95 % interval {d.interval.low:+.1f} "
            f"to {d.interval.high:+.1f}, p = {p:.4f} (Holm over {len(differences)} tasks)"
        )
        if stated.regression:
            yield problem(44, system / name, f"{line}; its reason: {stated.regression}")
        elif min(len(old[name]), len(new[name])) == 1 and not stated.deterministic:
            yield problem(44, system / name, f"{line}; of one seed, whose chance p leaves out.")
        else:
            yield problem(42, system / name, f"{line}.")


def _predictions(folder: Path, suite: str) -> Mapping[str, list[Sequence[Prediction] | None]]:
    """Return task → predictions of each seed, None for a failed one; only for current versions of the tasks."""
    by_task: dict[str, list[Sequence[Prediction] | None]] = {}
    for path in sorted(folder.glob("*/seed-*.result.json")):
        result = read_result(path)
        if result.task in task_names(suite) and result.task_hash == load_task(result.task, suite).hash:
            predictions = None if result.status == "failed" else read_predictions(predictions_of(path))
            by_task.setdefault(result.task, []).append(predictions)
    return by_task
