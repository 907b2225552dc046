"""The board as JSON, for programs: everything it holds, in full precision."""

from grue.files import indented_json
from grue.leaderboard.board import Board


def render(board: Board) -> str:
    """Return the board as JSON; its key `schema` tells the version of this shape."""
    return indented_json(board)
