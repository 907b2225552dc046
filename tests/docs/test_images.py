"""The pictures of the board and of pages show those of today."""

import json
import sys

import pytest
from support.paths import ROOT

sys.path.append(str(ROOT / "tools"))
from shoot_images import IMAGES, MADE_FROM, RECORD, state

CURE = "run `python tools/shoot_images.py`, look at docs/images, and commit them"


@pytest.mark.parametrize("name", MADE_FROM)
def test_a_picture_is_of_the_files_of_today(name: str) -> None:
    assert json.loads(RECORD.read_text(encoding="utf-8"))[name] == state(name), CURE


def test_every_picture_that_pages_show_is_there() -> None:
    assert {name for name in MADE_FROM if not (IMAGES / name).is_file()} == set()
    assert {path.name for path in IMAGES.glob("leaderboard*.png")} <= set(MADE_FROM)
