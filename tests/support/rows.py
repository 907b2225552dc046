"""Rows of a board with made-up scores."""

from dataclasses import replace

from support.render_boards import SUITE

from grue.leaderboard.board import Cell, Estimate
from grue.records import About


def a_row(name, start=None, **tasks):
    """A system with scores by task; those with one `start` are pairs, the start itself a row of the board."""
    cells = {}
    for task, values in tasks.items():
        by_seed = dict(enumerate(values, start=1))
        lineage = {seed: (f"{name}{task}{seed}", f"{start}{task}{seed}") for seed in by_seed}
        lineage = lineage if start else {seed: line[:1] for seed, line in lineage.items()}
        estimate = Estimate(sum(values) / len(values), None, by_seed)
        cells[task] = Cell(tuple(by_seed), (), estimate, None, None, {}, lineage=lineage)
    return replace(SUITE.rows[0], system=name, about=About(), cells=cells)
