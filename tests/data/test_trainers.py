"""Rows for other trainers: the columns that each reads, the same in both kinds of file."""

import json

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from support.factories import a_task

from grue.cli.data import export
from grue.cli.main import main
from grue.data.trainers import COLUMNS, export_for
from grue.errors import ConfigError
from grue.records import Example

EXAMPLES = [Example("x-1", "Say “ä”.", ("one", "two"), {"label": 1}), Example("x-2", "Say b.", ())]
SPOKEN = [[{"role": "user", "content": example.prompt}] for example in EXAMPLES]


def expected(trainer, prompts):
    if trainer == "trl":
        return [
            {"id": "x-1", "data_source": "mini/tiny", "prompt": prompts[0], "references": ["one", "two"]},
            {"id": "x-2", "data_source": "mini/tiny", "prompt": prompts[1], "references": []},
        ]
    if trainer == "openrlhf":
        return [
            {"input": prompts[0], "label": "x-1", "datasource": "mini/tiny"},
            {"input": prompts[1], "label": "x-2", "datasource": "mini/tiny"},
        ]
    if trainer == "verifiers":
        return [
            {"id": "x-1", "name": "mini/tiny", "prompt": prompts[0], "references": ["one", "two"]},
            {"id": "x-2", "name": "mini/tiny", "prompt": prompts[1], "references": []},
        ]
    return [
        {
            "data_source": "mini/tiny",
            "prompt": SPOKEN[index],
            "ability": "tiny",
            "reward_model": {"style": "rule", "ground_truth": references},
            "extra_info": {"split": "train", "index": index, "id": f"x-{index + 1}"},
        }
        for index, references in enumerate([["one", "two"], []])
    ]


def test_each_trainer_reads_its_columns(tmp_path):
    task = a_task("tiny")
    for trainer in COLUMNS:
        for chat in (False, True):
            rows = expected(trainer, SPOKEN if chat else [example.prompt for example in EXAMPLES])
            lines, table = tmp_path / f"{trainer}-{chat}.jsonl", tmp_path / f"{trainer}-{chat}.parquet"
            for path in (lines, table):
                export_for(trainer, task, "train", EXAMPLES, path, chat)
            assert [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()] == rows, trainer
            found = pq.read_table(table)
            assert found.to_pylist() == rows and found.column_names == [*rows[0]], trainer


def test_a_split_without_references_has_the_same_columns(tmp_path):
    """A parquet file of empty lists alone would otherwise have lists of nothing, which no other file joins."""
    export_for("trl", a_task("tiny"), "test", EXAMPLES[1:], tmp_path / "bare.parquet", False)
    export_for("trl", a_task("tiny"), "train", EXAMPLES, tmp_path / "full.parquet", False)
    assert pq.read_schema(tmp_path / "bare.parquet").equals(pq.read_schema(tmp_path / "full.parquet"))


def test_the_command(tmp_path):
    def grue(*arguments):
        return CliRunner().invoke(main, ["data", "export", "imdb", "--split", "validation", *map(str, arguments)])

    done = grue("--format", "verl", "-o", tmp_path / "val.parquet")
    assert done.exit_code == 0 and done.stdout == f"mini/imdb validation: 500 examples → {tmp_path / 'val.parquet'}\n"
    first = pq.read_table(tmp_path / "val.parquet").to_pylist()[0]
    assert first["data_source"] == "mini/imdb" and first["extra_info"]["split"] == "validation"
    done = grue("--chat", "-o", tmp_path / "chat.jsonl")
    assert done.exit_code == 2 and "--chat is of a trainer's rows: say which with --format trl" in done.stderr
    done = grue("--format", "verk", "-o", tmp_path / "x.jsonl")
    assert done.exit_code == 2 and "'verk' is not one of 'trl', 'verl', 'openrlhf', 'verifiers'" in done.stderr
    with pytest.raises(ConfigError, match=r"use a name that ends in \.jsonl or \.parquet"):
        export_for("trl", a_task("tiny"), "train", EXAMPLES, tmp_path / "train.csv", False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["val.parquet"]


def test_the_boards_format_in_the_environment_is_not_that_of_rows(tmp_path, monkeypatch):
    monkeypatch.setenv("GRUE_FORMAT", "latex")
    path = tmp_path / "plain.jsonl"
    done = CliRunner().invoke(main, ["data", "export", "imdb", "--split", "validation", "--output", str(path)])
    assert done.exit_code == 0 and set(json.loads(path.read_text().splitlines()[0])) >= {"id", "prompt", "references"}
    monkeypatch.setenv("GRUE_EXPORT_FORMAT", "openrlhf")
    again = ["data", "export", "imdb", "--split", "validation", "--output", str(path)]
    done = CliRunner().invoke(main, [*again, "--force"])
    assert done.exit_code == 0 and set(json.loads(path.read_text().splitlines()[0])) == {"input", "label", "datasource"}


def test_the_command_offers_what_there_are_rows_for():
    (choice,) = [one.type for one in export.params if one.name == "trainer"]
    assert set(choice.choices) == set(COLUMNS)
