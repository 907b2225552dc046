"""Shell completion: tasks, algorithms, metrics, systems.

A completer answers a key press, so it imports no torch, and prints no errors. It completes only names: what a user
may write instead, such as a path or module:NAME, is left to the shell.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from click import Context, Parameter
from click.shell_completion import CompletionItem

from grue.errors import GrueError

Completer = Callable[[Context, Parameter, str], list[CompletionItem]]
Names = Callable[[Context], Iterable[str]]


def tasks(context: Context) -> Iterable[str]:
    """Return the tasks of the suite that was chosen."""
    from grue.task_files import task_names

    return task_names(str(context.params.get("suite") or "mini"))


def suites(context: Context) -> Iterable[str]:
    """Return the built-in suites."""
    from grue.task_files import SUITES

    return SUITES


def algorithms(context: Context) -> Iterable[str]:
    """Return the algorithms, plug-ins included, without importing one."""
    from importlib.metadata import entry_points

    from grue.algorithms import BUILT_IN

    return sorted({*BUILT_IN} | {entry.name for entry in entry_points(group="grue.algorithms")})


def stages(context: Context) -> Iterable[str]:
    """Return the algorithms, and each after supervised training."""
    from grue.algorithms import with_warm_starts

    return with_warm_starts(algorithms(context))


def jobs(context: Context) -> Iterable[str]:
    """Return what a sweep can run: algorithms, with warm starts, and baselines."""
    from grue.records import BASELINES

    return [*stages(context), *BASELINES]


def metrics(context: Context) -> Iterable[str]:
    """Return the metrics, plug-ins included."""
    from grue.metrics.registry import METRICS

    return METRICS.names()


def systems(context: Context) -> Iterable[str]:
    """Return the rows of the suite's board, and the systems among the runs of any suite."""
    from grue.leaderboard.published import shipped

    board = shipped(str(context.params.get("suite") or "mini"))
    rows = [] if board is None else [row.system for row in board.rows]
    runs = Path(str(context.params.get("runs") or "runs"))
    return sorted({*rows, *(folder.parent.name for folder in runs.glob("*/*/*/seed-*"))})


def whole(names: Names) -> Completer:
    """Return a completer of a single name."""
    return _completer(names, "")


def listed(names: Names) -> Completer:
    """Return a completer of names separated by commas: the last one is completed."""
    return _completer(names, ",")


def summed(names: Names) -> Completer:
    """Return a completer of a weighted sum: `0.5*meteor+cov`."""
    return _completer(names, "+* ")


def _completer(names: Names, separators: str) -> Completer:
    last = re.compile(f"[^{re.escape(separators)}]*$" if separators else "^.*$", re.DOTALL)

    def complete(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
        match = last.search(incomplete)
        begin = incomplete[: match.start()] if match else ""
        try:
            choices = list(names(context))
        except GrueError:  # a missing suite, say; the command itself will report it
            return []
        return [CompletionItem(begin + name) for name in choices if (begin + name).startswith(incomplete)]

    return complete


OF_OPTIONS = {
    "--task": whole(tasks),
    "--tasks": listed(tasks),
    "--suite": whole(suites),
    "--algo": whole(stages),
    "--algos": listed(jobs),
    "--metrics": listed(metrics),
    "--reward": summed(metrics),
    "--system": whole(systems),
}
"""Option → the completer of its value, in every command that has it."""
