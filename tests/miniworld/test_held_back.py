"""`python -m miniworld held-back`: fresh test rows of every task, which the harness reads as a split."""

import errno
import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from grue.data.load import load_examples
from grue.errors import DataError
from grue.task_files import load_task
from miniworld.__main__ import main
from miniworld.draw import TASKS, held_back, rows
from miniworld.ship import write_held_back

SPLITS = ("train", "validation", "test")


def draw(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["held-back", *map(str, arguments)])


@pytest.mark.parametrize("task", TASKS)
def test_rows_are_new_follow_the_seed_and_have_the_columns_of_test(task: str) -> None:
    drawn = held_back(task, seed=77, count=12)
    assert len(drawn) == 12 or task == "dailydialog"  # where a row can hold two examples
    assert drawn == held_back(task, seed=77, count=12) != held_back(task, seed=78, count=12)
    assert {tuple(row) for row in drawn} == {tuple(row) for row in rows(task, "test")}
    shipped = {json.dumps(row, sort_keys=True) for split in SPLITS for row in rows(task, split)}
    assert not shipped & {json.dumps(row, sort_keys=True) for row in drawn}


def test_the_file_holds_the_rows_and_is_a_split(tmp_path: Path) -> None:
    path = tmp_path / "secret.jsonl"
    result = draw("--task", "imdb", "--seed", 5, "--count", 7, "--out", path)
    assert (result.exit_code, result.stderr) == (0, f"{path}: 7 examples in 7 rows\n")
    drawn = held_back("imdb", seed=5, count=7)
    assert [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] == list(drawn)
    assert draw("--task", "imdb", "--seed", 5, "--count", 7, "--out", tmp_path / "secret.jsonl.gz").exit_code == 0
    assert gzip.decompress((tmp_path / "secret.jsonl.gz").read_bytes()) == path.read_bytes()
    assert len(load_examples(load_task("imdb"), str(path)).examples) == 7


def test_a_name_that_evaluate_does_not_read_is_refused(tmp_path: Path) -> None:
    result = draw("--task", "imdb", "--seed", 5, "--out", tmp_path / "secret.csv")
    assert str(result.exception).endswith("secret.csv: use a name that ends in .jsonl or .jsonl.gz.")
    assert list(tmp_path.iterdir()) == []


def test_an_earlier_draw_is_not_replaced_unless_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "secret.jsonl.gz"
    asked = ("--task", "imdb", "--count", 3, "--out", path)
    assert draw(*asked, "--seed", 5).exit_code == 0
    first = path.read_bytes()
    again = draw(*asked, "--seed", 6)
    assert str(again.exception) == f"{path}: is there already; choose another file, or replace it with --force."
    assert path.read_bytes() == first
    assert draw(*asked, "--seed", 6, "--force").exit_code == 0
    assert path.read_bytes() != first


def test_a_draw_that_cannot_be_written_whole_leaves_the_one_that_is_there(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "secret.jsonl.gz"
    path.write_bytes(b"an earlier draw")

    def full(self: gzip.GzipFile, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(gzip.GzipFile, "write", full)
    with pytest.raises(DataError, match="secret.jsonl.gz"):
        write_held_back(path, "imdb", 5, 3, force=True)
    assert (path.read_bytes(), [*tmp_path.iterdir()]) == (b"an earlier draw", [path])
