"""docs/notebooks: they run as they stand, with less work, and what is kept of them names no machine."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from run_notebooks import NOTEBOOKS, as_kept, settled

names = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


@names
def test_what_is_kept_is_small_and_names_no_machine(path: Path) -> None:
    kept = read(path)
    outputs = [output for cell in kept["cells"] for output in cell.get("outputs", ())]
    assert outputs and {output["output_type"] for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert path.stat().st_size < 150_000
    assert not re.search(r"(/tmp|/home|/root|/Users|[A-Z]:\\\\)", path.read_text(encoding="utf-8"))
    assert as_kept(kept, path.parent) == kept  # as `make notebooks` writes it: no times, no counts, no ids of a run


def test_a_path_of_the_machine_is_refused(tmp_path: Path) -> None:
    output = {"output_type": "stream", "name": "stdout", "text": f"{tmp_path}/runs"}
    notebook = {"cells": [{"cell_type": "code", "source": "", "outputs": [output]}]}
    with pytest.raises(ValueError, match="print no absolute path"):
        as_kept(notebook, tmp_path)


def test_a_progress_bar_leaves_no_trace() -> None:
    bar = "\x1b[?25l\r\x1b[2KRescoring 0/2\r\x1b[2KRescoring 2/2\r\n\x1b[1A\x1b[2K\x1b[?25h"
    assert settled(f"before\r\n{bar}\x1b[1mA\x1b[0m  better \r\nend") == "before\nA  better\nend"
