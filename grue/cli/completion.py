"""Shell completion: tasks, algorithms, metrics, systems.

A completer answers a key press, so it imports no torch, and prints no errors. It completes only names: what a user
may write instead, such as a path or module:NAME, is left to the shell.
"""

from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from pathlib import Path

from click import Context, Parameter
from click.shell_completion import CompletionItem

from grue.algorithms import BUILT_IN, with_warm_starts
from grue.errors import GrueError
from grue.records import BASELINES
from grue.task_files import SUITES, task_names


def completer(
    names: Callable[[Context], Iterable[str]], separators: str = ""
) -> Callable[[Context, Parameter, str], list[CompletionItem]]:
    """Return a completer of a name, or of the last one of several that are separated by these characters.

    Args:
        names: Returns what may be chosen, by the options that stand before.
    """

    def complete(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
        begin = incomplete[: 1 + max(map(incomplete.rfind, separators), default=-1)]
        try:
            choices = list(names(context))
        except GrueError:  # a missing suite, say; the command itself will report it
            return []
        return [CompletionItem(begin + name) for name in choices if (begin + name).startswith(incomplete)]

    return complete


def _suite(context: Context) -> str:
    return str(context.params.get("suite") or "mini")


def _algorithms(context: Context) -> Iterable[str]:
    """Return the algorithms, plug-ins included, without importing one."""
    return sorted({*BUILT_IN} | {entry.name for entry in entry_points(group="grue.algorithms")})


def _metrics(context: Context) -> Iterable[str]:
    from grue.metrics.registry import METRICS

    return METRICS.names()


def _systems(context: Context) -> Iterable[str]:
    """Return the rows of the suite's board, and the systems among the runs of any suite."""
    from grue.leaderboard.published import shipped

    board = shipped(_suite(context))
    rows = [] if board is None else [row.system for row in board.rows]
    runs = Path(str(context.params.get("runs") or "runs"))
    return sorted({*rows, *(folder.parent.name for folder in runs.glob("*/*/*/seed-*"))})


TASK = completer(lambda context: task_names(_suite(context)))
ALGORITHM, METRIC, SYSTEM = map(completer, (_algorithms, _metrics, _systems))
OF_OPTIONS = {
    "--task": TASK,
    "--tasks": completer(lambda context: task_names(_suite(context)), ","),
    "--suite": completer(lambda context: SUITES),
    "--algo": completer(lambda context: with_warm_starts(_algorithms(context))),
    "--algos": completer(lambda context: [*with_warm_starts(_algorithms(context)), *BASELINES], ","),
    "--metrics": completer(_metrics, ","),
    "--reward": completer(_metrics, "+* "),
    "--system": SYSTEM,
}
"""Option → the completer of its value, in every command that has it."""
