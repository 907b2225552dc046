"""The board as one self-contained page: readable without its script, deterministic, without requests elsewhere.

Jinja2 escapes the texts of submissions; a content security policy allows only the page's own style and script, and
scripts beside it: the files of examples (`grue.render.as_examples`), which the page loads on demand.
"""

from collections.abc import Collection, Mapping
from functools import cache, partial

from jinja2 import Environment

from grue.leaderboard import trained_on
from grue.leaderboard.board import Board
from grue.records import Example
from grue.render import legend
from grue.render.figures import figure
from grue.render.page import environment, filled
from grue.render.text import ARROWS, named, variants
from grue.render.web import papers, view, words
from grue.render.web.axes import number
from grue.render.web.embed import embedded
from grue.submissions.folder import PRELIMINARY_SEEDS, RANKED_SEEDS
from grue.task_files import SUITES

SCRIPTS = (
    *("statistics.js", "data.js", "words.js", "tables.js", "filters.js", "tooltip.js", "compare.js", "system.js"),
    *("examples.js", "download.js", "plots.js", "page.js"),
)


def render(
    board: Board,
    illustrations: Mapping[str, Example] | None = None,
    shown: Collection[str] = (),
    *,
    is_local: bool = False,
) -> str:
    """Return the board as an HTML page that needs no files but those of examples.

    Args:
        illustrations: Task → an example that explains it.
        shown: Tasks with a file of examples beside the page, `examples/<suite>/<task>.js`.
        is_local: Whether it lies outside the folder of published boards, so that it has nothing to link to.
    """
    illustrations = illustrations or {}
    return filled(
        _environment(),
        "page.html",
        "page.css",
        SCRIPTS,
        beside=" 'self' file:",
        board=board,
        overview=view.overview(board),
        panels=[view.task_panel(board, task) for task in board.tasks],
        illustrations={task.name: words.illustrated(illustrations.get(task.name)) for task in board.tasks},
        shown=[task.name for task in board.tasks if task.name in shown],
        summaries=papers.summaries(board.reported, [task.name for task in board.tasks]),
        data=embedded(board, shown, is_local),
        is_local=is_local,
        suites=SUITES,
        arrows=ARROWS,
        ranked_seeds=RANKED_SEEDS,
        preliminary_seeds=PRELIMINARY_SEEDS,
    )


@cache
def _environment() -> Environment:
    templates = environment().overlay()
    score = partial(figure, form="z.1f")
    filters = {"number": number, "named": named, "variants": variants, "score": score, "spread": view.spread}
    modules = {"legend": legend, "papers": papers, "trained_on": trained_on, "view": view, "words": words}
    templates.filters = {**templates.filters, **filters}
    templates.globals = {**templates.globals, **modules}
    return templates
