"""What can be wrong with a submission: every check by its id, with its severity, its title and its cure.

An id never changes its meaning, and the id of a check that is gone is never given again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Severity = Literal["error", "warning"]
LONGEST = 1_000  # characters of a message


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that is checked.

    Attributes:
        id: "GRUE-S001".
        severity: An "error" keeps the submission off the board, a "warning" asks for a person's eye.
        title: What is wrong where the check does not pass, in a few words.
        cure: What to do about it.
    """

    id: str
    severity: Severity
    title: str
    cure: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong with a submission; `severity` and `cure` are those of its check."""

    id: str
    severity: Severity
    path: str
    message: str
    cure: str


_ERRORS = {
    1: (
        "a file or folder that does not belong there, or none that does",
        "Keep submission.toml, MANIFEST.sha256 and <task>/seed-<n>.result.json with its .predictions.jsonl.gz; "
        "nothing else.",
    ),
    2: ("submission.toml cannot be read", "Mend submission.toml; submissions/README.md shows one."),
    3: ("a result.json cannot be read", "Hand in the result.json that `grue evaluate` wrote, unchanged."),
    4: (
        "a result lies where it does not belong",
        "Move the file to where its content belongs: <suite>/<system>/<task>/seed-<n>.result.json.",
    ),
    5: ("a limited result", "Evaluate again without --limit."),
    6: (
        "a result of another version of the task, or of another split",
        "Evaluate again with the task as it is now, on its evaluation split.",
    ),
    7: ("predictions are missing or cannot be read", "Hand in the predictions.jsonl of the run, packed with gzip."),
    8: (
        "predictions that are not for exactly the split's examples",
        "Evaluate again, so that every example of the split has one prediction.",
    ),
    9: (
        "a score does not follow from the predictions",
        "Hand in the result.json that was written with these predictions, "
        "or let `grue submit pack --predictions` score them.",
    ),
    10: (
        "declared seeds and files differ",
        "Make `seeds` in submission.toml and the seeds of every task's files the same.",
    ),
    11: ("MANIFEST.sha256 is missing or cannot be read", "Pack the runs again with `grue submit pack`."),
    12: (
        "MANIFEST.sha256 and the files differ",
        "Pack the runs again with `grue submit pack`; change no file afterwards.",
    ),
    13: ("a link or a special file", "Put the file itself in its place; links and special files are not read."),
    14: (
        "too large, or too many",
        "Keep each file under 10 MB packed and unpacked, and at most 100 seeds a task; write shorter texts.",
    ),
    15: ("a line is too long", "Keep each line under 100,000 characters; write shorter texts."),
    16: ("an empty file", "Hand in the file that the run wrote, or leave the seed out of every task."),
    17: (
        "two seeds have the same predictions",
        "Hand in each run once; if the output depends on no seed, declare `deterministic = true` and one seed.",
    ),
    18: ("predictions of another system", "Hand in what this system wrote itself."),
    19: ("a hash does not follow from the content", "Hand in predictions and result.json of one and the same run."),
    20: (
        "a count does not follow from the predictions",
        "Hand in predictions and result.json of one and the same run.",
    ),
    21: (
        "a failed run has scores or predictions",
        "Hand in a failed run as its result.json without scores; it counts as the floor.",
    ),
    22: (
        "a text with characters that deceive the eye",
        "Write names and texts without control characters, and each word in letters of one script.",
    ),
    23: ("a name that looks like another system's", "Give the system a name of its own."),
    24: (
        "a link that is no web address",
        "Give `link` an address that begins with https:// or http://, or leave it out.",
    ),
    25: ("a field that says nothing", "Fill in the field."),
    26: ("a text that is too long", "Say it in fewer words; put the rest behind `link`."),
    27: (
        "deterministic, but with several seeds",
        "Hand in one seed, or leave `deterministic` out.",
    ),
    40: ("changes files outside its own folder", "Keep the pull request to files of submissions/<suite>/<system>/."),
    41: (
        "changes or removes what is on the board",
        "Leave other systems as they are; hand in a new version of your own as a whole.",
    ),
    42: (
        "significantly worse than the row it replaces",
        "Find out why; if it is meant to be, say why in `regression` of submission.toml.",
    ),
    43: (
        "comes together with changes to code, tasks or workflows",
        "Make two pull requests, one with the submission alone.",
    ),
}

_WARNINGS = {
    30: ("too few seeds", "Hand in five seeds a task for a rank, or three for a preliminary row."),
    31: ("tasks are missing", "Hand in every task of the suite for a rank."),
    32: ("nearly the same output everywhere", "Say in the pull request why the system writes so few different texts."),
    33: (
        "many references word for word",
        "Say in the pull request why the system knows them; the evaluation split is not for training.",
    ),
    34: (
        "better than the references themselves",
        "Show in the pull request that the texts are as good as their scores; a metric may have been gamed.",
    ),
    35: ("many texts are empty or cut off", "See whether `max_new_tokens` is what the task asks for."),
    36: ("the code of a run had changes that are in no commit", "Commit, and run again; else no one can repeat it."),
    37: ("the seeds of a task are of different configurations", "Run all seeds of a task with one configuration."),
    38: (
        "nearly the same texts as another run",
        "Say in the pull request how the two runs differ, and why their texts hardly do.",
    ),
    39: (
        "could not be checked on this machine",
        "Check it on a machine that has what is missing; `grue doctor` helps.",
    ),
    44: ("said to be worse than the row it replaces", "Read why, and decide whether the row should be replaced."),
    45: (
        "said to have kept the policy that it started from",
        "See that the texts are of a system that it can have started from; training then improved nothing.",
    ),
}


def _name(number: int) -> str:
    return f"GRUE-S{number:03}"


def _checks(severity: Severity, texts: Mapping[int, tuple[str, str]]) -> dict[str, Check]:
    return {_name(number): Check(_name(number), severity, *pair) for number, pair in texts.items()}


CHECKS: Mapping[str, Check] = dict(sorted((_checks("error", _ERRORS) | _checks("warning", _WARNINGS)).items()))
"""Every check by its id."""


def error(number: int, path: Path, message: str) -> Problem:
    """Return the problem GRUE-S<number>, which keeps the submission off the board."""
    return _problem("error", number, path, message)


def warning(number: int, path: Path, message: str) -> Problem:
    """Return the problem GRUE-S<number>, which asks for a person's eye."""
    return _problem("warning", number, path, message)


def _problem(severity: Severity, number: int, path: Path, message: str) -> Problem:
    check = CHECKS[_name(number)]
    if check.severity != severity:
        raise ValueError(f"The check {check.id} is of severity {check.severity!r}, not {severity!r}.")
    return Problem(check.id, severity, visible(str(path)), visible(message[:LONGEST]), check.cure)


def visible(text: str) -> str:
    """Return a text with an escape in the place of every character that is not seen, or that turns others round.

    Paths and messages repeat what strangers wrote, and are shown on terminals and in the logs of CI.
    """
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
