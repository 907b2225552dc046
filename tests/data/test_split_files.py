"""A file of rows as a split of a task: what is read, and what is refused with one error that says what to do."""

import gzip
import json
from dataclasses import replace

import pytest

from grue.data.load import load_examples
from grue.errors import DataError
from grue.mini import assets
from grue.task_files import load_task

TASK = load_task("commongen")
ROWS = [
    {"concepts": ["zebra", "fry", number], "targets": [f"A zebra fries {number} eggs."]}
    for number in ("one", "two", "three")
]


def written(tmp_path, lines, name="held-back.jsonl"):
    path = tmp_path / name
    content = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def refusal(path):
    with pytest.raises(DataError) as caught:
        load_examples(TASK, str(path))
    return str(caught.value)


@pytest.mark.parametrize("name", ["held-back.jsonl", "held back.jsonl.gz"])
def test_rows_become_examples_as_those_of_a_split_do(tmp_path, name):
    path = written(tmp_path, ROWS, name)
    loaded = load_examples(TASK, str(path))
    assert [example.prompt for example in loaded.examples] == [
        f"generate a sentence with: zebra fry {number}." for number in ("one", "two", "three")
    ]
    assert (loaded.source, loaded.rows, loaded.checked) == (name, 3, False)
    assert len(loaded.revision) == 64


def test_a_name_may_be_as_long_as_a_file_system_takes(tmp_path):
    assert len(load_examples(TASK, str(written(tmp_path, ROWS, f"{'x' * 245}.jsonl"))).examples) == len(ROWS)


def test_another_content_is_another_split(tmp_path):
    path = written(tmp_path, ROWS)
    assert len(load_examples(TASK, str(path)).examples) == 3
    written(tmp_path, ROWS[:2])
    assert len(load_examples(TASK, str(path)).examples) == 2


def test_a_known_split_wins_over_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, ROWS, "test.jsonl")
    splits = {**TASK.data.splits, "test.jsonl": TASK.data.splits["validation"]}
    task = replace(TASK, data=replace(TASK.data, splits=splits))
    loaded = load_examples(task, "test.jsonl")
    assert (loaded.source, len(loaded.examples)) == ("mini", splits["validation"].examples)
    assert len(load_examples(TASK, "test.jsonl").examples) == 3


def test_a_missing_file_says_what_a_split_can_be():
    assert refusal("nowhere.jsonl") == (
        "nowhere.jsonl: no such file. Give --split a split of mini/commongen (train, validation, test) or a file of "
        "rows in the data set's columns."
    )


def test_a_file_of_another_ending_is_no_split(tmp_path):
    assert refusal("rows.csv") == (
        "mini/commongen has no split 'rows.csv'. It has train, validation, test. A file of rows ends in .jsonl or "
        ".jsonl.gz."
    )


def test_an_empty_file_says_what_it_should_hold(tmp_path):
    path = written(tmp_path, [])
    assert refusal(path) == (
        f"mini/commongen, split 'held-back.jsonl' of {path}: no examples. Write one row a line, in the columns of "
        "commongen."
    )


def test_other_columns_are_named_with_the_right_ones(tmp_path):
    path = written(tmp_path, [{"text": "x", "label": 1}])
    assert refusal(path) == (
        f"{path}: commongen, row 1: expected the columns concepts and target (or targets), or concept_set and scene; "
        "found text, label. Is this the right data set?"
    )


@pytest.mark.parametrize(
    ("line", "reason"), [('{"concepts": ["a"\n', "line 4: not valid JSON: "), ("[1]\n", "line 4: expected an object")]
)
def test_a_damaged_line_is_named(tmp_path, line, reason):
    path = written(tmp_path, [*ROWS, line])
    assert refusal(path).startswith(f"{path}, {reason}")


def test_a_torn_archive_is_refused(tmp_path):
    path = written(tmp_path, ROWS, "held-back.jsonl.gz")
    path.write_bytes(path.read_bytes()[:-9])
    assert refusal(path).startswith(f"{path}: cannot be read after line 3: Compressed file ended")


def test_prompts_of_the_training_split_are_counted(tmp_path):
    revision = TASK.data.sources[0].revision
    known = assets.read_rows("commongen", "train", revision)[:2]
    path = written(tmp_path, [*known, *ROWS])
    assert refusal(path) == (
        f"{path}: 2 of its 5 prompts are in the training split of mini/commongen, so that their answers can be looked "
        "up. Remove these rows, or draw others with another seed."
    )
