"""What can be wrong with a submission: every check by its id, with its severity, its title and its cure.

An id never changes its meaning, and the id of a removed check is never reused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grue.errors import visible

Severity = Literal["error", "warning"]
LONGEST = 1_000  # characters of a message


@dataclass(frozen=True, slots=True)
class Check:
    """One check: an "error" keeps the submission off the board; a "warning" asks a maintainer to look."""

    id: str
    severity: Severity
    title: str
    cure: str


@dataclass(frozen=True, slots=True)
class Problem:
    """A failed check; `severity` and `cure` are those of the check."""

    id: str
    severity: Severity
    path: str
    message: str
    cure: str


_ERRORS = {
    1: (
        "an unexpected or missing file or folder",
        "Keep submission.toml, MANIFEST.sha256, <task>/seed-<n>.result.json with its .predictions.jsonl.gz, and "
        "<task>/config.json; nothing else.",
    ),
    2: (
        "submission.toml cannot be read, or cannot be true",
        "Correct submission.toml; submissions/README.md shows one.",
    ),
    3: ("a result.json cannot be read", "Submit the result.json that `grue evaluate` wrote, unchanged."),
    4: (
        "a result is in the wrong place",
        "Move the file to where its content belongs: <suite>/<system>/<task>/seed-<n>.result.json.",
    ),
    6: (
        "a result of another version of the task, of another split or prompt, or of a part of the split",
        "Evaluate again with the current version of the task, on its evaluation split, without --limit.",
    ),
    7: (
        "predictions are missing, empty or cannot be read",
        "Submit the predictions.jsonl of the run, packed with gzip, or leave the seed out of every task.",
    ),
    8: (
        "predictions do not match the split's examples",
        "Evaluate again, so that every example of the split has one prediction.",
    ),
    9: (
        "a score does not follow from the predictions",
        "Submit the result.json that was written with these predictions, "
        "or let `grue submit pack --predictions` score them.",
    ),
    10: (
        "declared seeds and files differ",
        "Make `seeds` in submission.toml equal to the seeds of every task's files.",
    ),
    12: (
        "MANIFEST.sha256 is missing, cannot be read, or is not of these files",
        "Pack the runs again with `grue submit pack`; change no file afterwards.",
    ),
    13: ("a link or a special file", "Replace it by the file itself; links and special files are not read."),
    14: (
        "a file or line is too large, or there are too many files",
        "Keep each file under 10 MB packed and unpacked and 200,000 lines, each line under 100,000 characters, and a "
        "submission at 2,000 files at most; shorten the texts.",
    ),
    17: (
        "two seeds have the same predictions, or nearly",
        "Submit each run once; if the output depends on no seed, declare `deterministic = true` and one seed.",
    ),
    18: ("predictions of another system, or nearly", "Submit this system's own predictions."),
    19: ("a hash or count does not follow from the content", "Submit predictions and result.json of the same run."),
    21: (
        "a failed run has scores or predictions",
        "Submit a failed run as a result.json without scores; it counts as 0.",
    ),
    33: (
        "the predictions are the references, or nearly",
        "Submit what the system wrote; the evaluation split is not for training.",
    ),
    40: (
        "changes files outside its own folder, or removes a row",
        "Change only files of submissions/<suite>/<system>/, in a pull request of their own.",
    ),
    42: (
        "significantly worse than the row it replaces",
        "Find out why; if it is intended, state the reason in `regression` of submission.toml.",
    ),
    46: (
        "a text that is far too long, or has control or format characters",
        "Keep `max_new_tokens` of the task; remove the characters (new lines and tabs may stay), and let `grue submit "
        "pack --predictions` score the texts again.",
    ),
    70: (
        "a config.json cannot be read, or asks for code or files that are not grue's",
        "Submit the config.json that `grue submit pack` wrote, or none; the row then cannot be retrained.",
    ),
    71: (
        "a configuration is not that of the results",
        "Submit results and config.json of the same runs, or no config.json.",
    ),
    91: (
        "several promptings in one system",
        "Submit what was asked by plain prompts, by chat prompts and by an endpoint as systems of their own.",
    ),
    93: (
        "a statement that cannot be true",
        "Submit the result.json that `grue evaluate` wrote, unchanged. Where a share is above 1, draw more samples to "
        "more prompts with `grue tools frontier`, or leave --frontier out.",
    ),
    94: (
        "two trained seeds name the same checkpoint",
        "Submit each run once, with the result.json of its own checkpoint.",
    ),
}

_WARNINGS = {
    30: (
        "too few seeds or tasks for a rank",
        "Submit five seeds of every task for a rank, or three for a preliminary row.",
    ),
    36: ("the code of a run had uncommitted changes", "Commit and run again; otherwise the run cannot be repeated."),
    37: ("the seeds of a task have different configurations", "Run all seeds of a task with one configuration."),
    39: (
        "could not be checked on this machine",
        "Check it on a machine that has what is missing; `grue tools doctor` lists it.",
    ),
    44: (
        "worse than the row it replaces, by one seed or for a stated reason",
        "Run more seeds, so that chance can be told; a maintainer reads the reason.",
    ),
    80: (
        "stated reward calls are not those of the configuration",
        "Submit the result.json that `grue evaluate` wrote, unchanged; retraining tells what a run takes.",
    ),
    96: (
        "not verified, and shown without a rank",
        "Say with `checkpoints` in submission.toml where the checkpoints are; `grue submit verify` runs them.",
    ),
}


CHECKS: Mapping[str, Check] = {
    f"GRUE-S{number:03}": Check(f"GRUE-S{number:03}", "error" if number in _ERRORS else "warning", *texts)
    for number, texts in sorted((_ERRORS | _WARNINGS).items())
}
"""Every check by its id."""


def problem(number: int, path: Path, message: str) -> Problem:
    """Return the problem GRUE-S<number>."""
    check = CHECKS[f"GRUE-S{number:03}"]
    return Problem(check.id, check.severity, visible(str(path)), visible(message[:LONGEST]), check.cure)
