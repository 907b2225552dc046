"""docs/architecture.md names rooms and functions that exist."""

import importlib
import re

from support.paths import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_function_of_the_walks_exists():
    named = re.findall(r"`([\w/]+)\.py:([\w.]+)`", PAGE)
    assert named
    for module, name in named:
        found = importlib.import_module(f"grue.{module.replace('/', '.')}")
        for part in name.split("."):
            found = getattr(found, part)


def test_every_room_has_a_row():
    rows = "\n".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `"))
    listed = set(re.findall(r"`(\w+)/?`", rows))
    package = ROOT / "grue"
    rooms = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__", "__main__"} == listed
