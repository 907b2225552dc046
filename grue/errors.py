"""The exceptions that a user can meet, each with the exit code of the command line.

    GrueError
    ├── ConfigError      2   a file or an option has an invalid value
    ├── UnknownName      2   no task, algorithm, metric … of that name
    ├── DataError        3   data, a model or a checkpoint is missing, damaged or another one
    │   └── Unavailable  3   something is not available on this machine: SPICE's jar, a model of the hub
    ├── SubmissionError  1   predictions or a submission do not pass a check
    └── TrainingError    1   a training run cannot continue

A message says what is wrong, where, and what to do about it. `of_the_system` translates system errors (a path, a full
disk, memory). Any other exception is a bug and keeps its traceback.
"""

import errno
import os
from collections.abc import Iterable

FEW = 12
"""Known names that a message lists even if a command lists them, too."""


class GrueError(Exception):
    """Base of every error whose message is meant for the user."""

    exit_code = 1


class ConfigError(GrueError):
    """A configuration file, task file or option that cannot be used."""

    exit_code = 2


class UnknownName(GrueError):
    """A name that is not registered."""

    exit_code = 2


class DataError(GrueError):
    """Data, a model or a checkpoint that is missing, damaged or another one than expected."""

    exit_code = 3


class Unavailable(DataError):
    """Something that is not available on this machine; other work can continue without it."""


class SubmissionError(GrueError):
    """Predictions or a submission that do not pass a check."""


class TrainingError(GrueError):
    """A training run that cannot continue."""


_CURES = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "Choose a path where you may read and write."),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "Free some space, or choose another disk, and run it again."),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "Raise the limit on open files: ulimit -n 1024."),
    errno.ENAMETOOLONG: "Choose a shorter path.",
}
_NO_MEMORY = ("allocate memory", "failed to map segment", "out of memory", "start new thread")
"""Words of torch, the dynamic linker and Python for a lack of memory."""


def of_the_system(error: Exception) -> GrueError | None:
    """Return a system error as one with a cure; None for any other error, which is a bug."""
    text = str(error)
    first = escaped(text.partition("\n")[0]).rstrip(".")
    if isinstance(error, OverflowError):
        return ConfigError(f"A number is too large: {first}. Give a smaller one.")
    if isinstance(error, MemoryError) or any(words in text for words in _NO_MEMORY):
        return Unavailable(f"{first or 'Out of memory'}. Use smaller batches or inputs, or a machine with more memory.")
    if isinstance(error, ImportError) and os.strerror(errno.EMFILE) in text:
        return Unavailable(f"{first}. {_CURES[errno.EMFILE]}")
    if isinstance(error, OSError) and error.errno is not None:
        where = "" if error.filename is None else f"{escaped(error.filename)}: "
        cure = _CURES.get(error.errno, "Check the path." if where else "Check the machine's disks and network.")
        return DataError(f"{where}{error.strerror}. {cure}")
    return None


def escaped(text: object, longest: int = 200) -> str:
    r"""Return untrusted text on one line, cut to `longest` characters, unable to control a terminal: ESC is `\x1b`."""
    line = str(text)
    return visible(line if len(line) <= longest else f"{line[: longest - 1]}…")


def visible(text: str) -> str:
    """Return a text with invisible, control and direction-changing characters escaped.

    Paths and messages quote untrusted text and are shown on terminals and in CI logs.
    """
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` for the closest known spelling, or an empty string."""
    from difflib import get_close_matches

    close = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def instead(name: str, known: Iterable[str], listed_by: str = "") -> str:
    """Return the end of a message about an unknown name: the known names, or the nearest and what lists them."""
    names = list(known)
    if not listed_by or len(names) <= FEW:
        return f"{did_you_mean(name, names)} Known: {', '.join(names) or 'none'}."
    from difflib import get_close_matches

    ordered, normalised = sorted(names), name.lower().replace("-", "_")
    containing = (other for other in ordered if len(normalised) > 1 and normalised in other)
    near = dict.fromkeys([*get_close_matches(normalised, ordered, n=3, cutoff=0.6), *containing])
    first, *further = list(near)[:3] or [""]
    close = (f" Did you mean {first!r}?" if first else "") + (f" Also near: {', '.join(further)}." if further else "")
    return f"{close} `{listed_by}` lists all {len(names)}."
