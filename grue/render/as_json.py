"""The board as JSON, for programs: all of it, in full precision."""

import json
from typing import Any

from grue.files import plain
from grue.leaderboard.board import Board, Row

_DEFAULTS = {
    **{"prompting": "plain", "by_endpoint": False, "reruns": 0},
    **{"presets": [], "backbones": [], "held_out_metrics": [], "searched": None},
}
"""The keys of rows and cells that few need."""
_encoded = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def render(board: Board) -> str:
    """Return the board as JSON; its key `schema` is the version of the format.

    A value without nested values is on one line, so that a changed score is a short difference. Characters that could
    control a terminal or change the direction of text are escaped, which a reader of JSON undoes.
    """
    text = _laid_out({**plain(board), "rows": list(map(_row, board.rows))}, "\n") + "\n"
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _row(row: Row) -> dict[str, Any]:
    """Return a row without the keys that few rows need; a reader fills in their defaults."""
    fields = _without_defaults(plain(row))
    return {**fields, "cells": {task: _without_defaults(cell) for task, cell in fields["cells"].items()}}


def _without_defaults(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in _DEFAULTS or value != _DEFAULTS[key]}


def _laid_out(value: Any, end: str) -> str:
    """Return a value as JSON; `end` is the end of a line with the margin of the next."""
    parts = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(parts, list) or not any(isinstance(part, dict | list) for part in parts):
        return _encoded(value)
    inner = end + "  "
    lines = [_laid_out(part, inner) for part in parts]
    if isinstance(value, dict):
        keyed = (f"{_encoded(key)}: {line}" for key, line in zip(value, lines, strict=True))
        return f"{{{inner}{f',{inner}'.join(keyed)}{end}}}"
    return f"[{inner}{f',{inner}'.join(lines)}{end}]"
