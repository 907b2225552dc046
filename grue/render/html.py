"""The board as one self-contained page: readable without its script, deterministic, without requests elsewhere.

Jinja2 escapes the texts of submissions; a content security policy allows only the page's own style and script, and
scripts beside it: the files of examples (`grue.render.as_examples`), which the page loads on demand.
"""

from collections.abc import Callable, Collection, Mapping
from functools import cache

from jinja2 import Environment
from markupsafe import Markup

from grue.leaderboard.board import Board
from grue.leaderboard.trained_on import held_out_names
from grue.records import Example
from grue.render.legend import (
    HELD_OUT,
    HONESTY,
    IQM,
    RANKS,
    SEARCHED,
    SHARED,
    STATUSES,
    UNMOVED,
    VARIANTS,
    prompting_in_words,
    reruns_in_words,
    unlearned_in_words,
    unverified_in_words,
)
from grue.render.page import environment, lean_script, lean_style, policy, source
from grue.render.text import ARROWS, named, variants
from grue.render.web import view, words
from grue.render.web.axes import number
from grue.render.web.embed import embedded
from grue.render.web.papers import REFERENCE, cells_of, facts_of, paper_tables, summaries
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
    style = lean_style(source("page.css"))
    script = '"use strict";\n(() => {\n' + lean_script("\n".join(map(source, SCRIPTS))) + "\n})();"
    text = (
        _environment()
        .get_template("page.html")
        .render(
            board=board,
            overview=view.overview(board),
            panels=[view.task_panel(board, task) for task in board.tasks],
            illustrations={task.name: words.illustrated(illustrations.get(task.name)) for task in board.tasks},
            shown=[task.name for task in board.tasks if task.name in shown],
            made_from=words.made_from(board),
            code=words.code_behind(board),
            glossary=words.glossary(board.tasks),
            papers={task.name: paper_tables(board.reported, task.name) for task in board.tasks},
            summaries=summaries(board.reported, [task.name for task in board.tasks]),
            data=embedded(board, shown, is_local),
            is_local=is_local,
            style=Markup(style),
            script=Markup(script),
            policy=policy(style, script, " 'self' file:"),
            suites=SUITES,
            colours=view.COLOURS,
            titles=view.GROUPS,
            arrows=ARROWS,
            reference=REFERENCE,
            unverified=unverified_in_words(board),
            reruns=reruns_in_words(board),
            honesty=HONESTY if board.suite == "mini" else "",
            statuses=STATUSES,
            ranks=RANKS,
            shared=SHARED,
            held_out=HELD_OUT,
            iqm=IQM,
            searched=SEARCHED if any(cell.searched for row in board.rows for cell in row.cells.values()) else "",
            unlearned=unlearned_in_words(board.tasks),
            unmoved=UNMOVED,
            variants=VARIANTS if any(map(variants, board.rows)) else "",
            ranked_seeds=RANKED_SEEDS,
            preliminary_seeds=PRELIMINARY_SEEDS,
        )
    )
    return text + "\n"


@cache
def _environment() -> Environment:
    templates = environment().overlay()
    filters = {"number": number, "named": named, "score": view.score, "spread": view.spread}
    templates.filters = {**templates.filters, **filters}
    functions: tuple[Callable[..., object], ...] = (
        *(words.scale_groups, words.scale_numbers, unlearned_in_words, held_out_names, facts_of, cells_of),
        *(view.lead, view.about_of, view.standing_of, view.whisker_of, view.hacked_by_task, prompting_in_words),
    )
    templates.globals = {**templates.globals, **{function.__name__: function for function in functions}}
    return templates
