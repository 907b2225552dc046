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


def test_lines_that_are_missing_or_repeated_are_named(tmp_path):
    tail = "Lines are missing or repeated, or are another run's; restore the log."
    for kept, line, told in (
        ([0, 1, 4, 5, 6], 3, "update 3 follows update 1."),
        ([0, 2, 3, 4, 5, 6], 2, "update 2 follows update 0."),
        ([0, 1, 1, 2, 3, 4, 5, 6], 3, "update 1 follows update 1."),
        ([0, 1, 2, 3, 3, 4, 5, 6], 5, "update 2 is validated a second time."),
        ([0, 1, 3, 4, 5, 6], 3, "the validation of update 2 follows update 1."),
        ([0, 1, 2, 3, 4, 5, 6, 0, 1], 8, "stands behind the line that says that the run is finished."),
    ):
        path = written(tmp_path, [WHOLE[index] for index in kept])
        with pytest.raises(DataError) as caught:
            log.read_log(path)
        assert str(caught.value) == f"{path}, line {line}: {told} {tail}"
    path = written(tmp_path, [validation(0), update(1, of=3), validation(1), update(2, of=9)])
    with pytest.raises(DataError, match="line 4: is of a run of 9 updates, after lines of one of 3."):
        log.read_log(path)


def test_a_damaged_end_is_an_error_of_ours_and_an_update_a_whole_number(tmp_path):
    whole = written(tmp_path, WHOLE[:2]).read_text()
    for line in ("{broken", "[1]", "7", '"text"', "\x00", "[" * 8000, '{"update": 1.0}', '{"update": true}', "{}"):
        path = written(tmp_path, [], whole + line + "\n")
        with pytest.raises(DataError, match=re.escape(str(path))) as caught:
            log.read_log(path)
        assert line[0] != "{" or line == "{broken" or "update: expected a whole number" in str(caught.value)
