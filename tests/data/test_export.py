"""Examples in files, for other systems and other trainers."""

import json

import pyarrow.parquet as pq
import pytest
from support.commands import grue, printed_json
from support.factories import a_task
from support.late import lates

from grue import files
from grue.cli import data
from grue.data.examples import ExampleFile, write_examples
from grue.data.export import COLUMNS, as_dataset, export, export_for
from grue.data.load import load_examples
from grue.errors import ConfigError
from grue.evaluation.prompting import by_chat
from grue.records import Example
from grue.task_files import load_task

(evaluation,) = lates("grue.evaluation.evaluate")

EXAMPLES = (
    Example("x-1", "Say: one\ntwo \x85 three", ("one", "zwei ü"), {"concepts": ["x", "y"]}),
    Example("x-2", "Say b.", ()),
)
PROMPTS = [example.prompt for example in EXAMPLES]
ROWS = [
    {"id": "x-1", "prompt": PROMPTS[0], "references": ["one", "zwei ü"], "meta": '{"concepts":["x","y"]}'},
    {"id": "x-2", "prompt": PROMPTS[1], "references": [], "meta": None},
]


def json_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").removesuffix("\n").split("\n")]


def test_examples_in_memory_and_in_every_file_are_the_same(tmp_path, refused):
    write_examples(tmp_path / "examples.arrow", EXAMPLES)
    on_disk = ExampleFile(tmp_path / "examples.arrow")
    assert as_dataset(on_disk).to_list() == as_dataset(EXAMPLES).to_list() == ROWS
    assert as_dataset(on_disk[1:]).to_list() == ROWS[1:]
    export(EXAMPLES, tmp_path / "deep" / "examples.jsonl")
    metas = ({"concepts": ["x", "y"]}, {})
    assert json_lines(tmp_path / "deep" / "examples.jsonl") == [
        {**row, "meta": meta} for row, meta in zip(ROWS, metas, strict=True)
    ]
    export(EXAMPLES, tmp_path / "examples.parquet")
    assert pq.read_table(tmp_path / "examples.parquet").to_pylist() == ROWS
    for write in (export, lambda examples, path: export_for("trl", a_task(), "train", examples, path)):
        with refused(ConfigError):
            write(EXAMPLES, tmp_path / "examples.csv")
    assert not (tmp_path / "examples.csv").exists()


def test_exported_examples_are_what_score_reads_and_a_file_that_is_there_is_replaced_by_force_only(tmp_path, refused):
    path = tmp_path / "examples.jsonl"
    path.write_text("a thousand predictions\n")
    command = ["data", "export", "commongen", "--split", "validation", "--output"]
    refused.command(*command, path, code=2)
    refused.command(*command, tmp_path, "--force", code=2)
    assert path.read_text() == "a thousand predictions\n"
    assert grue(*command, path, "--force").stdout.startswith("mini/commongen validation: 500 examples → ")
    answers = [{"id": row["id"], "text": row["references"][0]} for row in json_lines(path)]
    assert len(answers) == 500
    files.write_jsonl(tmp_path / "answers.jsonl", answers)
    given = ("score", tmp_path / "answers.jsonl", "--examples", path, "--metrics", "rougeLmax,coverage")
    scores = printed_json(*given)["scores"]
    assert {score["metric"]: score["value"] for score in scores} == {"rougeLmax": 1.0, "coverage": 1.0}


def expected(trainer, prompts):
    """The rows of the examples, as a trainer reads them."""
    for index, (example, prompt) in enumerate(zip(EXAMPLES, prompts, strict=True)):
        name, references = {"id": example.id}, {"references": [*example.references]}
        yield {
            "trl": {**name, "data_source": "mini/tiny", "prompt": prompt, **references},
            "openrlhf": {"input": prompt, "label": example.id, "datasource": "mini/tiny"},
            "verifiers": {**name, "name": "mini/tiny", "prompt": prompt, **references},
            "verl": {
                **{"data_source": "mini/tiny", "prompt": [{"role": "user", "content": example.prompt}]},
                **{"ability": "tiny", "reward_model": {"style": "rule", "ground_truth": references["references"]}},
                "extra_info": {"split": "train", "index": index, **name},
            },
        }[trainer]


@pytest.mark.parametrize("trainer", COLUMNS)
def test_each_trainer_reads_its_columns_the_same_in_both_kinds_of_file(tmp_path, trainer):
    for chat in (False, True):
        ask = (lambda prompt: [{"role": "user", "content": prompt}]) if chat else None
        prompts = [*map(ask, PROMPTS)] if ask else PROMPTS
        rows = list(expected(trainer, prompts))
        lines, table, bare = (tmp_path / f"{chat}{name}" for name in (".jsonl", ".parquet", "-bare.parquet"))
        for path in (lines, table):
            export_for(trainer, a_task("tiny"), "train", EXAMPLES, path, ask)
        export_for(trainer, a_task("tiny"), "test", EXAMPLES[1:], bare, ask)
        assert json_lines(lines) == pq.read_table(table).to_pylist() == rows
        assert pq.read_schema(table).names == [*rows[0]]
        assert pq.read_schema(bare).equals(pq.read_schema(table)), "lists of nothing would join no other file"


@pytest.mark.parametrize("trainer", ["trl", "verl"])
def test_a_conversation_is_the_one_by_which_chat_models_are_evaluated(tmp_path, trainer):
    task, path = load_task("cnn_dailymail"), tmp_path / "chat.parquet"
    train, test = (load_examples(task, split).examples for split in ("train", "test"))
    asking = by_chat(task, test, train, evaluation.text_cut(task))
    for split, examples in (("train", train), ("test", test)):
        said = grue(
            "data", "export", "cnn_dailymail", "--split", split, "--format", trainer, "--chat", "-o", path, "--force"
        )
        rows = pq.read_table(path).to_pylist()
        asked = [asking.conversation(example.prompt) for example in examples if example.id not in asking.ids]
        assert [row["prompt"] for row in rows] == asked
        assert ("2 left out" in said.stdout) == (split == "train")


def test_the_command(tmp_path, monkeypatch, refused):
    command = ("data", "export", "imdb", "--split", "validation", "-o")
    path, plain = tmp_path / "val.parquet", tmp_path / "plain.jsonl"
    assert grue(*command, path, "--format", "verl").stdout == f"mini/imdb validation: 500 examples → {path}\n"
    first = pq.read_table(path).to_pylist()[0]
    assert first["data_source"] == "mini/imdb" and first["extra_info"]["split"] == "validation"
    refused.command(*command, tmp_path / "chat.jsonl", "--chat", code=2)
    refused.command(*command, tmp_path / "x.jsonl", "--format", "verk", code=2)
    monkeypatch.setenv("GRUE_FORMAT", "latex")  # of boards
    grue(*command, plain)
    assert json_lines(plain)[0].keys() >= {"id", "prompt", "references"}
    monkeypatch.setenv("GRUE_EXPORT_FORMAT", "openrlhf")
    grue(*command, plain, "--force")
    assert json_lines(plain)[0].keys() == {"input", "label", "datasource"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain.jsonl", "val.parquet"]
    (choice,) = [one.type for one in data.export.params if one.name == "trainer"]
    assert set(choice.choices) == set(COLUMNS)
