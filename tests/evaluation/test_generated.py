"""A file of predictions that somebody named: whose it is, while it is made and after."""

import json
from dataclasses import replace

import pytest
from support import tiny

from grue import files
from grue.errors import ConfigError, DataError
from grue.evaluation.generated import claim_path, write_generated
from grue.evaluation.predict import predict
from grue.evaluation.predictions import read_predictions
from grue.evaluation.systems import System

EXAMPLES = tiny.examples(7)
TASK = tiny.task("causal")


def system(seed=1, weights="sha"):
    return System("tiny", {"name": "tiny"}, seed, weights, tiny.model("causal"), tiny.tokenizer("causal"))


def write(path, *, examples=EXAMPLES, of=None, task=TASK, split="test", **asked):
    write_generated(task, of or system(), examples, path, split=split, **asked)


class Stopped(Exception):
    """What stops a call."""


def stop_after(count):
    def progress(done):
        if done >= count:
            raise Stopped

    return progress


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out" / "predictions.jsonl"


def test_a_file_holds_the_answers_and_says_whose_they_are(path):
    write(path)
    assert read_predictions(path) == predict(
        tiny.model("causal"), tiny.tokenizer("causal"), TASK, EXAMPLES, TASK.decoding, 1
    )
    claim = json.loads(claim_path(path).read_text())
    assert (claim["task_hash"], claim["checkpoint"], claim["seed"], claim["prompts"]) == (TASK.hash, "sha", 1, 7)
    assert claim["sha256"] == files.sha256_file(path)
    assert sorted(one.name for one in path.parent.iterdir()) == ["predictions.jsonl", "predictions.jsonl.claim.json"]


def test_the_same_call_reads_and_another_is_refused(path, tmp_path):
    rows = tmp_path / "rows"
    rows.mkdir()
    for split in ("train", "test"):
        (rows / f"commongen.{split}.jsonl").touch()
    changes = {
        "seed = 1, not 2": {"of": system(seed=2)},
        "checkpoint = 'sha', not 'other'": {"of": system(weights="other")},
        "prompts = 7, not 3": {"examples": EXAMPLES[:3]},
        "split = 'test', not 'train'": {"split": "train"},
        "file = None, not 'aa'": {"file": "aa"},
        f"data_dir = None, not '{rows}'": {"data_dir": rows},
        "task_hash = ": {"task": replace(TASK, version=2)},
    }
    with pytest.raises(Stopped):
        write(path, batch_size=2, progress=stop_after(2))
    assert not path.exists()
    for state in ("interrupted", "finished"):
        for message, change in changes.items():
            with pytest.raises(ConfigError, match="Write elsewhere with --output, or remove it") as caught:
                write(path, **change)
            assert f"holds responses with {message}" in str(caught.value), state
        before = [] if state == "interrupted" else [path.read_bytes()]
        write(path, batch_size=2, progress=stop_after(8))  # what is there is gone on with, or only read
        assert before in ([], [path.read_bytes()])


def test_an_interrupted_call_goes_on(path, tmp_path):
    write(tmp_path / "whole", batch_size=2)
    with pytest.raises(Stopped):
        write(path, batch_size=2, progress=stop_after(4))
    partial = path.with_name("predictions.jsonl.partial")
    with (partial / "predictions.jsonl").open("a") as handle:
        handle.write('{"id": "e6", "te')  # as a kill leaves
    seen = []
    write(path, batch_size=2, progress=seen.append)
    assert seen == [4, 6, 7] and path.read_bytes() == (tmp_path / "whole").read_bytes() and not partial.exists()


def test_what_somebody_else_wrote_is_not_gone_on_with(path):
    path.parent.mkdir()
    for content in ("", "notes\n", '{"id": "e1", "text": "a"}\n'):
        path.write_text(content)
        with pytest.raises(ConfigError, match=r"is there already, and no predictions.jsonl.claim.json says whose"):
            write(path)
        assert path.read_text() == content and not path.with_name("predictions.jsonl.partial").exists()
    path.unlink()
    write(path)
    path.write_text('{"id": "e1", "text": "a"}\n')
    with pytest.raises(ConfigError, match="holds something else than the answers that predictions.jsonl.claim.json"):
        write(path)
    path.unlink()  # what the message says to do
    write(path, of=system(seed=2))
    claim_path(path).write_text("{}")
    with pytest.raises(DataError, match="Write elsewhere with --output, or remove "):
        write(path)


def test_what_can_be_no_file_of_ours(path):
    path.mkdir(parents=True)
    with pytest.raises(ConfigError, match="predictions.jsonl: is a folder; name a file in it with --output"):
        write(path)
    with pytest.raises(ConfigError, match="is written as plain JSON lines; choose a name without .gz"):
        write(path.with_name("predictions.jsonl.gz"))


def test_unfinished_samples_are_left_alone(path):
    partial = path.with_name("predictions.jsonl.partial")
    partial.mkdir(parents=True)
    (partial / "responses.jsonl").write_text("{}\n")
    with pytest.raises(ConfigError, match="holds unfinished work of another kind, responses.jsonl"):
        write(path)
    assert (partial / "responses.jsonl").exists()


def test_a_file_has_one_writer(path):
    partial = path.with_name("predictions.jsonl.partial")
    with files.sole_owner(partial, "taken"), pytest.raises(ConfigError, match="another process is writing it"):
        write(path)


def test_a_kill_between_the_file_and_the_end_leaves_a_finished_file(path):
    write(path)
    partial = path.with_name("predictions.jsonl.partial")
    partial.mkdir()
    write(path)
    assert not partial.exists()
