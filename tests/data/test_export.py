"""Examples in files, for other systems."""

import json

import datasets
import pytest
from click.testing import CliRunner

from grue.cli.main import main
from grue.data.examples import ExampleFile, write_examples
from grue.data.export import as_dataset, export
from grue.errors import ConfigError
from grue.records import Example

EXAMPLES = (
    Example("a-1", "Say: one\ntwo \x85 three", ("one", "zwei ü"), {"concepts": ["x", "y"]}),
    Example("a-2", "Say nothing.", ()),
)
ROWS = [
    {"id": "a-1", "prompt": "Say: one\ntwo \x85 three", "references": ["one", "zwei ü"], "meta": '{"concepts":["x","y"]}'},
    {"id": "a-2", "prompt": "Say nothing.", "references": [], "meta": None},
]  # fmt: skip


def test_examples_in_memory_and_on_disk_are_the_same_data_set(tmp_path):
    write_examples(tmp_path / "examples.arrow", EXAMPLES)
    on_disk = as_dataset(ExampleFile(tmp_path / "examples.arrow"))
    assert on_disk.to_list() == as_dataset(EXAMPLES).to_list() == ROWS
    assert as_dataset(ExampleFile(tmp_path / "examples.arrow")[1:]).to_list() == ROWS[1:]


def test_a_line_an_example(tmp_path):
    export(EXAMPLES, tmp_path / "deep" / "examples.jsonl")
    lines = (tmp_path / "deep" / "examples.jsonl").read_text(encoding="utf-8").split("\n")
    assert [json.loads(line) for line in lines[:-1]] == [
        {**ROWS[0], "meta": {"concepts": ["x", "y"]}},
        {**ROWS[1], "meta": {}},
    ]
    assert lines[-1] == ""


def test_parquet_is_read_by_datasets(tmp_path):
    export(EXAMPLES, tmp_path / "examples.parquet")
    found = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "examples.parquet"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert found.to_list() == ROWS


def test_another_ending_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match=r"examples\.csv: unknown file type; use a name that ends in \.jsonl or"):
        export(EXAMPLES, tmp_path / "examples.csv")
    assert list(tmp_path.iterdir()) == []


def test_exported_examples_are_what_score_reads(tmp_path):
    def grue(*arguments):
        result = CliRunner().invoke(main, [*map(str, arguments)])
        assert result.exit_code == 0, result.output
        return result.stdout

    printed = grue("data", "export", "commongen", "--split", "validation", "--output", tmp_path / "examples.jsonl")
    assert printed.startswith("mini/commongen validation: 500 examples → ")
    rows = [json.loads(line) for line in (tmp_path / "examples.jsonl").read_text().splitlines()]
    answers = [{"id": row["id"], "text": row["references"][0]} for row in rows]
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    scored = json.loads(
        grue(
            *("score", tmp_path / "answers.jsonl", "--examples", tmp_path / "examples.jsonl"),
            *("--metrics", "rougeLmax,coverage", "--json"),
        )
    )
    assert {score["metric"]: score["value"] for score in scored["scores"]} == {"rougeLmax": 1.0, "coverage": 1.0}


def test_a_file_that_is_there_is_replaced_by_force_only(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text("a thousand predictions\n")
    command = ["data", "export", "commongen", "--split", "validation", "--output", str(path)]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 2
    assert done.stderr == f"Error: {path}: is there already; choose another file, or replace it with --force.\n"
    assert path.read_text() == "a thousand predictions\n"
    assert CliRunner().invoke(main, [*command, "--force"]).exit_code == 0
    assert len(path.read_text().splitlines()) == 500
    folder = CliRunner().invoke(main, [*command[:-1], str(tmp_path), "--force"])
    assert (folder.exit_code, folder.stderr) == (2, f"Error: {tmp_path}: is a folder; name a file to write.\n")
