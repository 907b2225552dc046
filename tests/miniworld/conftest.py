import pytest

from grue.mini.assets import read_rows
from miniworld import draw
from miniworld.world import REVISION

SIZES = {"train": 8000, "validation": 500, "test": 1000, "rl": 3000}


@pytest.fixture(scope="session")
def shipped():
    """Task → split → the rows that ship."""
    return {task: {split: tuple(read_rows(task, split, REVISION)) for split in SIZES} for task in draw.MODULES}


@pytest.fixture(scope="module")
def undrawn(shipped):
    """Let what needs the rows of a split have those that ship; that they are those that are drawn, test_rows.py shows."""
    with pytest.MonkeyPatch.context() as patch:
        for task, module in draw.MODULES.items():
            patch.setattr(module, "rows", lambda revision, task=task: shipped[task])
        yield
