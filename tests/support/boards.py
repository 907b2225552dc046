"""What the tests of boards share: two tasks, seeds around a mean, and looks at rows."""

from dataclasses import replace

from support.factories import LIKED, a_task

STORIES, JOKES = a_task("stories"), a_task("jokes", metrics=(LIKED,))


def five(centre, step=1.0):
    """The scores of seeds 1 to 5."""
    return {seed: centre + step * (seed - 3) for seed in range(1, 6)}


def row(board, system):
    """The only row of a system."""
    (found,) = [row for row in board.rows if row.system == system]
    return found


def ranks(board):
    """The rank of each system."""
    return {row.system: row.rank for row in board.rows}


def with_result(entry, **changes):
    """The entry, whose result says something else."""
    return replace(entry, result=replace(entry.result, **changes))


def with_system(entry, **changes):
    """The entry, whose result says more of its system."""
    return with_result(entry, system={**entry.result.system, **changes})


def references(entries):
    """The entries as those of a system that depends on no seed."""
    return [replace(entry, about=replace(entry.about, deterministic=True)) for entry in entries]
