"""What every format shows of two boards written out by hand, byte for byte.

After a change that is meant, `PYTHONPATH=tests python tests/render/test_golden.py` writes the files again: read their difference.
"""

from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import pytest
from support.late import late
from support.render_boards import SUITE, TASK

from grue.render import as_json, latex, markdown

as_csv = late("grue.render.as_csv")

GOLDEN = Path(__file__).parent / "golden"
BOARDS = {"overview": SUITE, "task": TASK}


def terminal(board):
    """What a terminal of 80 columns shows."""
    from grue.cli.board import _print_tables

    with patch.dict("os.environ", {"COLUMNS": "80", "TERM": "dumb"}), redirect_stdout(StringIO()) as shown:
        _print_tables(board)
    return shown.getvalue()


FORMATS = {
    **{"md": markdown.render, "csv": lambda board: as_csv.render(board), "tex": latex.render, "json": as_json.render},
    **{"txt": terminal},
}


@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("ending", FORMATS)
def test_the_bytes_are_those_of_the_file(name, ending):
    golden = (GOLDEN / f"{name}.{ending}").read_bytes().decode("utf-8")
    assert FORMATS[ending](BOARDS[name]) == golden


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for form, render in FORMATS.items():
        for stem, written in BOARDS.items():
            (GOLDEN / f"{stem}.{form}").write_bytes(render(written).encode("utf-8"))
