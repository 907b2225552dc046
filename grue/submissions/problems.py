"""What can be wrong with a submission: every check by its id, with its severity, its title and its cure.

An id never changes its meaning, and the id of a removed check is never reused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grue.errors import visible

Severity = Literal["error", "review", "warning"]
LONGEST = 1_000  # characters of a message


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        id: "GRUE-S001".
        severity: An "error" keeps the submission off the board; a "review" does until a maintainer has accepted it in
            `reviewed.toml`; a "warning" asks a maintainer to look.
        title: What is wrong if the check fails, in a few words.
        cure: What to do about it.
    """

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
    2: ("submission.toml cannot be read", "Correct submission.toml; submissions/README.md shows one."),
    3: ("a result.json cannot be read", "Submit the result.json that `grue evaluate` wrote, unchanged."),
    4: (
        "a result is in the wrong place",
        "Move the file to where its content belongs: <suite>/<system>/<task>/seed-<n>.result.json.",
    ),
    5: ("a limited result", "Evaluate again without --limit, on the task's evaluation split."),
    6: (
        "a result of another version of the task, or of another split",
        "Evaluate again with the current version of the task, on its evaluation split.",
    ),
    7: ("predictions are missing or cannot be read", "Submit the predictions.jsonl of the run, packed with gzip."),
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
    11: ("MANIFEST.sha256 is missing or cannot be read", "Pack the runs again with `grue submit pack`."),
    12: (
        "MANIFEST.sha256 and the files differ",
        "Pack the runs again with `grue submit pack`; change no file afterwards.",
    ),
    13: ("a link or a special file", "Replace it by the file itself; links and special files are not read."),
    14: (
        "a file is too large, or there are too many files",
        "Keep each file under 10 MB packed and unpacked and 200,000 lines, and a submission at 2,000 files at most; "
        "shorten the texts.",
    ),
    15: ("a line is too long", "Keep each line under 100,000 characters; shorten the texts."),
    16: ("an empty file", "Submit the file that the run wrote, or leave the seed out of every task."),
    17: (
        "two seeds have the same predictions",
        "Submit each run once; if the output depends on no seed, declare `deterministic = true` and one seed.",
    ),
    18: ("predictions of another system", "Submit this system's own predictions."),
    19: ("a hash does not follow from the content", "Submit predictions and result.json of the same run."),
    20: (
        "a count does not follow from the predictions",
        "Submit predictions and result.json of the same run.",
    ),
    21: (
        "a failed run has scores or predictions",
        "Submit a failed run as a result.json without scores; it counts as 0.",
    ),
    22: (
        "a text with deceptive characters",
        "Write names and texts without control characters, and each word in one script.",
    ),
    23: ("a name that looks like another system's", "Choose a name that cannot be confused."),
    24: (
        "a link that is not a web address",
        "Give `link` an address that begins with https:// or http://, or leave it out.",
    ),
    25: ("an empty field", "Fill in the field."),
    26: ("a text that is too long", "Shorten it; put the rest behind `link`."),
    27: (
        "deterministic, but with several seeds",
        "Submit one seed, or leave `deterministic` out.",
    ),
    46: (
        "a text with control or format characters",
        "Remove them; new lines and tabs may stay. `grue submit pack --predictions` scores the texts again.",
    ),
    47: ("a text is far too long", "Keep `max_new_tokens` of the task; shorten the texts, and score them again."),
    48: (
        "an error that did not happen here",
        "Score the predictions again: `errors` may name only metrics that cannot be computed.",
    ),
    54: ("the check took too long", "Shorten the texts, or hand in fewer runs at once."),
    53: (
        "comes with boards",
        "Leave `leaderboard/` as it is: the boards are written after merging.",
    ),
    40: (
        "changes files outside its own folder",
        "Change only files of submissions/<suite>/<system>/.",
    ),
    41: (
        "changes or removes rows of the board",
        "Leave other systems unchanged; submit a new version of your own with all its runs.",
    ),
    42: (
        "significantly worse than the row it replaces",
        "Find out why; if it is intended, state the reason in `regression` of submission.toml.",
    ),
    43: (
        "comes with changes to code, tasks or workflows",
        "Open two pull requests, one with the submission alone.",
    ),
    75: (
        "a file of a system by reference cannot be read",
        "Write it with `grue submit refer`; docs/how-to/submitting.md shows how.",
    ),
    76: (
        "a system by reference contradicts itself, the board or the task",
        "Correct the field, or write the file again with `grue submit refer`.",
    ),
    77: (
        "a published file is not the one described",
        "Give the address and the sha256 of the file that was scored, and how its lines are the split's examples; "
        "remove the row if the file is gone.",
    ),
    78: (
        "a figure does not follow from the published file",
        "Write the figures again with `grue submit refer`, on the task's own data.",
    ),
    70: ("a config.json cannot be read", "Submit the config.json that `grue submit pack` wrote, or none."),
    71: (
        "a configuration is not that of the results",
        "Submit results and config.json of the same runs, or no config.json.",
    ),
    90: (
        "a result of another chat prompt than the task's",
        "Evaluate again with the task's current chat prompt (`grue evaluate --chat`, or --endpoint).",
    ),
    91: (
        "several promptings in one system",
        "Submit what was asked by plain prompts, by chat prompts and by an endpoint as systems of their own.",
    ),
    92: (
        "an endpoint of which too little is said, or what cannot be known",
        "Submit the result.json that `grue evaluate --endpoint` wrote, unchanged.",
    ),
    93: (
        "a statement that cannot be true",
        "Submit the result.json that `grue evaluate` wrote, unchanged. Where a share is above 1, draw more samples to "
        "more prompts with `grue frontier`, or leave --frontier out.",
    ),
    94: (
        "two trained seeds have the same weights",
        "Submit each run once, with the result.json of its own checkpoint.",
    ),
    95: (
        "no place where checkpoints can be",
        "Give `checkpoints` a hub id or the https address of an archive (.tar.gz, .zip), with {task} and {seed}; or "
        "config.json, to have them trained again.",
    ),
    72: (
        "a configuration asks for code or files that are not grue's",
        "Leave config.json out; the row then cannot be retrained.",
    ),
    81: (
        "a reward model without its sha256",
        "Evaluate the run again with its folder beside it, so that result.json has `system.reward_models`.",
    ),
}

_WARNINGS = {
    30: ("too few seeds", "Submit five seeds per task for a rank, or three for a preliminary row."),
    31: ("tasks are missing", "Submit every task of the suite for a rank."),
    32: ("few distinct outputs", "Explain in the pull request why the system writes so few distinct texts."),
    35: ("many texts are empty or cut off", "Check that `max_new_tokens` is the task's."),
    36: ("the code of a run had uncommitted changes", "Commit and run again; otherwise the run cannot be repeated."),
    37: ("the seeds of a task have different configurations", "Run all seeds of a task with one configuration."),
    39: (
        "could not be checked on this machine",
        "Check it on a machine that has what is missing; `grue tools doctor` lists it.",
    ),
    45: (
        "declared to have kept its initial policy",
        "Check that the texts are those of a system that it can have started from; training then improved nothing.",
    ),
    55: (
        "the record of trust does not hold",
        "Undo the change, or have a maintainer run `grue submit verify --record` again.",
    ),
    96: (
        "not verified, and shown without a rank",
        "Say with `checkpoints` in submission.toml where the checkpoints are; a maintainer runs `grue submit verify`.",
    ),
    73: (
        "a configuration that this version of grue cannot train",
        "Retrain with the version of grue that the results name.",
    ),
    79: (
        "figures of published outputs were not recomputed",
        "Check with --fetch, which downloads the published files and scores them again.",
    ),
    80: (
        "a stated budget that cannot be, or is not that of the configuration",
        "Submit the result.json that `grue evaluate` wrote, unchanged; retraining tells what a run takes.",
    ),
    86: (
        "texts that were decoded otherwise than the task says",
        "Evaluate again with `grue evaluate`, which decodes as the task says; or explain it in the pull request.",
    ),
}

_REVIEWS = {
    33: (
        "many near-copies of references",
        "Explain in the pull request why the system knows them; the evaluation split is not for training.",
    ),
    34: (
        "better than the references themselves",
        "Show in the pull request that the texts are as good as their scores; the system may exploit a metric.",
    ),
    38: (
        "nearly the same texts as another run",
        "Explain in the pull request how the two runs differ, and why their texts hardly do.",
    ),
    44: (
        "declared worse than the row it replaces",
        "Wait for a maintainer, who reads the reason and decides whether to replace the row.",
    ),
    49: (
        "an implausibly small spread over seeds",
        "Explain in the pull request how the seeds were run; each is a run of its own.",
    ),
    50: (
        "far better than every other system",
        "Show in the pull request where the lead comes from; a link to the checkpoint lets others see for themselves.",
    ),
    51: (
        "many texts of the training split",
        "Explain in the pull request why the system repeats what it was trained on.",
    ),
    52: (
        "the texts of a run that says it began there",
        "Show that these are the weights that the other system's training began with.",
    ),
    56: (
        "worse than the row it replaces, by one seed",
        "Run more seeds, so that chance can be told; or state the reason in `regression` of submission.toml.",
    ),
    83: (
        "a file that maintainers write was changed",
        "Leave trust records, reviews, figures of papers and systems by reference to a maintainer (--maintainer).",
    ),
    84: (
        "a standing row says something else of the same texts",
        "Explain in the pull request what was wrong with the row, or undo the change.",
    ),
    85: (
        "submission.toml names another algorithm or backbone than the results",
        "Write in submission.toml what the results state; or explain in the pull request why it is called otherwise.",
    ),
    82: (
        "a reward model that has seen prompts of another split than train",
        "Train the reward model on pairs of other prompts; or explain in the pull request why that gave no advantage.",
    ),
}


def _name(number: int) -> str:
    return f"GRUE-S{number:03}"


def _checks(severity: Severity, texts: Mapping[int, tuple[str, str]]) -> dict[str, Check]:
    return {_name(number): Check(_name(number), severity, *pair) for number, pair in texts.items()}


CHECKS: Mapping[str, Check] = dict(
    sorted((_checks("error", _ERRORS) | _checks("review", _REVIEWS) | _checks("warning", _WARNINGS)).items())
)
"""Every check by its id."""


def error(number: int, path: Path, message: str) -> Problem:
    """Return the problem GRUE-S<number>, which keeps the submission off the board."""
    return _problem("error", number, path, message)


def review(number: int, path: Path, message: str) -> Problem:
    """Return the problem GRUE-S<number>, which keeps the submission off the board until a maintainer accepts it."""
    return _problem("review", number, path, message)


def warning(number: int, path: Path, message: str) -> Problem:
    """Return the problem GRUE-S<number>, which asks a maintainer to look."""
    return _problem("warning", number, path, message)


def _problem(severity: Severity, number: int, path: Path, message: str) -> Problem:
    check = CHECKS[_name(number)]
    if check.severity != severity:
        raise ValueError(f"The check {check.id} is of severity {check.severity!r}, not {severity!r}.")
    return Problem(check.id, severity, visible(str(path)), visible(message[:LONGEST]), check.cure)
