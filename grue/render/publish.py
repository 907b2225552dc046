"""The files of published boards: every suite in every format, and the examples that their pages load."""

from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from grue.data.load import load_examples
from grue.errors import DataError
from grue.leaderboard.board import Board
from grue.leaderboard.examples import illustration, task_examples
from grue.leaderboard.rank import rank
from grue.records import Entry, Example
from grue.render import as_examples, html
from grue.submissions.entries import recomputed, results
from grue.submissions.reported import read_reported
from grue.task_files import SUITES, load_task, task_names
from grue.tasks import Task

README = "README.md"
"""The file of the folder that is written by hand."""

FORMATS = {"markdown": "md", "json": "json", "csv": "csv", "latex": "tex", "html": "html"}
"""Format of a board → ending of its files."""
_MODULES = {"json": "as_json", "csv": "as_csv"}


def render(board: Board, form: str, shown: Collection[str] | None = None) -> str:
    """Return the board in a format; `shown` are a published page's tasks with a file of examples beside it."""
    if form == "html":
        return html.render(board, _illustrations(board), shown or (), is_local=shown is None)
    text: str = import_module(f"grue.render.{_MODULES.get(form, form)}").render(board)
    return text


def published(folder: Path, submissions: Path) -> Mapping[Path, str | None]:
    """Return the text of every file of the boards; None for a file to be removed.

    The examples of a task whose data is not on this machine stay as they are.
    """
    texts: dict[Path, str | None] = {}
    for suite in sorted(SUITES):
        tasks = [load_task(name, suite) for name in task_names(suite)]
        entries = [*results(submissions, suite), *recomputed(submissions, suite)]
        board = rank(entries, tasks, reported=read_reported(submissions, suite))
        place = folder / "examples" / suite
        beside = {place / f"{task.name}.js": _example_file(place, task, board, entries) for task in tasks}
        texts |= dict.fromkeys(sorted(place.glob("*.js")))
        texts |= beside
        shown = [path.stem for path, text in beside.items() if text is not None]
        texts |= {folder / f"{suite}.{ending}": render(board, form, shown) for form, ending in FORMATS.items()}
    return texts


def stale(texts: Mapping[Path, str | None]) -> list[Path]:
    """Return the files that differ from these texts."""
    return [path for path, text in texts.items() if (path.exists() if text is None else not is_current(path, text))]


def strays(folder: Path, texts: Mapping[Path, str | None]) -> list[Path]:
    """Return files in the folder of boards that do not belong there, links included."""
    expected = {*texts, folder / README}
    return sorted(
        path for path in folder.rglob("*") if path.is_symlink() or (path not in expected and not path.is_dir())
    )


def is_current(path: Path, text: str) -> bool:
    """Whether a file has this content, byte for byte."""
    return path.is_file() and path.read_bytes() == text.encode("utf-8")


def _example_file(place: Path, task: Task, board: Board, entries: Sequence[Entry]) -> str | None:
    """Return the text of a task's file of examples; None if it should have none."""
    if all(task.name not in row.cells for row in board.rows):
        return None
    examples = _examples_of(task)
    if examples is None:
        path = place / f"{task.name}.js"
        return path.read_text(encoding="utf-8") if path.is_file() else None
    shown = task_examples(task, board, entries, examples)
    return None if shown is None else as_examples.render(shown)


def _illustrations(board: Board) -> dict[str, Example]:
    """Return an example of each task whose data is in the package: a page must not depend on a machine's other data."""
    shipped = set(task_names(board.suite)) if board.suite in SUITES else set()
    tasks = [load_task(task.name, board.suite) for task in board.tasks if task.name in shipped]
    loaded = {task.name: _examples_of(task) for task in tasks if _is_embedded(task)}
    return {name: example for name, examples in loaded.items() if examples and (example := illustration(examples))}


def _examples_of(task: Task) -> Sequence[Example] | None:
    """Return the examples of a task's evaluation split; None if its data is not on this machine."""
    try:
        return load_examples(task, task.data.evaluation, offline=True).examples
    except DataError:
        if _is_embedded(task):  # it is damaged, not missing
            raise
        return None


def _is_embedded(task: Task) -> bool:
    return any(source.kind == "mini" for source in task.data.sources)
