"""The formats of a board."""

FORMATS = {"markdown": "md", "json": "json", "csv": "csv", "latex": "tex", "html": "html"}
"""Name → ending of its files."""
