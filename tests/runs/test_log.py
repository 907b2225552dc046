"""A run's log: what is read from it, and what is refused because it cannot be one run's whole log."""

import json
import re

import pytest

from grue.errors import DataError
from grue.runs import log


def update(number, of=3, **more):
    return {"update": number, "of": of, "seconds": 1.0, **more}


def validation(number):
    return {"update": number, "validation/reward": 0.5}


FINISHED = {"finished": True, "training": {"seconds": 3.0}}
WHOLE = [validation(0), update(1), update(2), validation(2), update(3), validation(3), FINISHED]


def written(folder, lines, torn=""):
    path = folder / "train.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + torn)
    return path


def test_a_log_is_read_as_far_as_it_was_written(tmp_path):
    """Every beginning of a log is one."""
    for length in range(len(WHOLE) + 1):
        lines, torn = log.read_log(written(tmp_path, WHOLE[:length]))
        assert ([line for _, line in lines], torn) == (WHOLE[:length], False)
        assert [number for number, _ in lines] == list(range(1, length + 1))
        lines, torn = log.read_log(written(tmp_path, WHOLE[:length], '{"update": 2, "re'))
        assert ([line for _, line in lines], torn) == (WHOLE[:length], True)


def test_lines_that_are_missing_or_repeated_are_named(tmp_path, refused):
    orders = ("01456", "023456", "01123456", "01233456", "013456", "012345601")
    of_two_runs = [validation(0), update(1, of=3), validation(1), update(2, of=9)]
    for lines in (*([WHOLE[int(place)] for place in order] for order in orders), of_two_runs):
        with refused(DataError):
            log.read_log(written(tmp_path, lines))


def test_a_damaged_end_is_an_error_of_ours_and_an_update_a_whole_number(tmp_path):
    whole = written(tmp_path, WHOLE[:2]).read_text()
    for line in ("{broken", "[1]", "7", '"text"', "\x00", "[" * 8000, '{"update": 1.0}', '{"update": true}', "{}"):
        path = written(tmp_path, [], whole + line + "\n")
        with pytest.raises(DataError, match=re.escape(str(path))) as caught:
            log.read_log(path)
        assert line[0] != "{" or line == "{broken" or "update: expected a whole number" in str(caught.value)
