"""Splits that are shares of another: what a kill while one is built leaves behind."""

import json

import pytest
from click.testing import CliRunner

from grue.cli.main import main
from grue.data import load
from grue.data.load import load_examples
from grue.task_files import load_task

TASK = """
reward = "rouge1"
[data]
sources = [{ kind = "local", files = { everything = "all.jsonl" } }]
[data.splits]
train = { source = "everything", end = 0.8 }
validation = { source = "everything", begin = 0.8, end = 0.9 }
test = { source = "everything", begin = 0.9 }
[backbone]
family = "seq2seq"
model = "mini:seq2seq"
"""


SPLITS = ("validation", "test")


class Killed(BaseException):
    pass


def test_a_kill_while_a_share_is_built_again_puts_nothing_of_another_into_it(tmp_path, monkeypatch):
    rows = [{"id": f"e{n}", "prompt": f"p{n}", "references": [f"r{n}"]} for n in range(100)]
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "shares.toml").write_text(TASK)
    task = load_task(str(tmp_path / "shares.toml"))
    first = load_examples(task, "train").examples
    ids = {example.id for example in first}
    first.path.unlink()  # as the error of a damaged file says

    def kill(*arguments):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(load, "_kept", kill)
        with pytest.raises(Killed):
            load_examples(task, "train")
    again = {example.id for example in load_examples(task, "train").examples}
    assert len(ids) == 80 and again == ids
    assert again.isdisjoint(example.id for example in load_examples(task, "test").examples)


def test_validate_reads_shares_and_says_which_prompts_training_has_seen(tmp_path):
    rows = [{"id": f"e{n}", "prompt": f"p{n % 5}", "references": [f"r{n}"]} for n in range(100)]
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = tmp_path / "shares.toml"
    task.write_text(TASK)
    seen = [f"  {split}: 10 of its 10 prompts are in train, too: their answers can be looked up" for split in SPLITS]
    validated = CliRunner().invoke(main, ["tasks", "validate", str(task)])
    assert validated.exit_code == 0
    assert validated.stdout.splitlines()[0].startswith(f"{task}: fine (own/shares, version 1")
    assert validated.stdout.splitlines()[1:] == seen
    verified = CliRunner().invoke(main, ["data", "verify", str(task)])
    assert verified.stdout.splitlines()[3:5] == seen
    with (tmp_path / "all.jsonl").open("a") as handle:
        handle.write('{"prompt": 1}\n')
    broken = CliRunner().invoke(main, ["tasks", "validate", str(task)])
    assert (broken.exit_code, "all.jsonl" in broken.stderr) == (2, True)


def test_validate_says_that_there_is_no_validation(tmp_path):
    rows = [{"id": f"e{n}", "prompt": f"p{n}", "references": [f"r{n}"]} for n in range(100)]
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = tmp_path / "shares.toml"
    task.write_text(TASK.replace('validation = { source = "everything", begin = 0.8, end = 0.9 }\n', ""))
    validated = CliRunner().invoke(main, ["tasks", "validate", str(task)])
    assert validated.stdout.splitlines()[1:] == ["  no split validation: `grue train` chooses its checkpoint by one"]
