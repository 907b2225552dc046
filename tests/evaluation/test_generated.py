"""A file of predictions that somebody named: whose it is, while it is made and after."""

import json
from dataclasses import replace
from functools import cache

import pytest
from support.late import late

from grue import files
from grue.errors import ConfigError, DataError
from grue.evaluation.predictions import read_predictions

tiny, systems = late("support.tiny"), late("grue.evaluation.systems")
generated, predict = late("grue.evaluation.generated"), late("grue.evaluation.predict")


@cache
def examples():
    return tiny.examples(7)


def system(seed=1, weights="sha"):
    return systems.System("tiny", {"name": "tiny"}, seed, weights, tiny.model("causal"), tiny.tokenizer("causal"))


def write(path, *, asked=None, of=None, task=None, split="test", **more):
    generated.write_generated(
        task or tiny.task("causal"), of or system(), asked or examples(), path, split=split, **more
    )


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


@pytest.fixture
def partial(path):
    return path.with_name("predictions.jsonl.partial")


def test_a_file_holds_the_answers_and_says_whose_they_are_and_an_interrupted_call_goes_on(path, partial):
    with pytest.raises(Stopped):
        write(path, batch_size=2, progress=stop_after(4))
    with (partial / "predictions.jsonl").open("a") as handle:
        handle.write('{"id": "e6", "te')  # as a kill leaves
    seen = []
    write(path, batch_size=2, progress=seen.append)
    assert seen == [4, 6, 7] and not partial.exists()
    task = tiny.task("causal")
    asked = (tiny.model("causal"), tiny.tokenizer("causal"), task, examples(), task.decoding, 1)
    assert read_predictions(path) == predict.predict(*asked)
    claim = json.loads(generated.claim_path(path).read_text())
    assert (claim["task_hash"], claim["checkpoint"], claim["seed"], claim["prompts"]) == (task.hash, "sha", 1, 7)
    assert claim["sha256"] == files.sha256_file(path)
    assert sorted(one.name for one in path.parent.iterdir()) == ["predictions.jsonl", "predictions.jsonl.claim.json"]
    partial.mkdir()  # what a kill between the file and the end leaves
    write(path, progress=stop_after(0))
    assert not partial.exists()


def test_the_same_call_reads_and_another_is_refused(path, tmp_path):
    rows = tmp_path / "rows"
    for split in ("train", "test"):
        files.write_text(rows / f"commongen.{split}.jsonl", "")
    changes = {
        "seed = 1, not 2": {"of": system(seed=2)},
        "checkpoint = 'sha', not 'other'": {"of": system(weights="other")},
        "prompts = 7, not 3": {"asked": examples()[:3]},
        "split = 'test', not 'train'": {"split": "train"},
        "file = None, not 'aa'": {"file": "aa"},
        f"data_dir = None, not '{rows}'": {"data_dir": rows},
        "task_hash = ": {"task": replace(tiny.task("causal"), version=2)},
    }
    with pytest.raises(Stopped):
        write(path, batch_size=2, progress=stop_after(2))
    assert not path.exists()
    for state in ("interrupted", "finished"):
        for message, change in changes.items():
            with pytest.raises(ConfigError) as caught:
                write(path, **change)
            assert f"holds responses with {message}" in str(caught.value), state
        before = [] if state == "interrupted" else [path.read_bytes()]
        write(path, batch_size=2, progress=stop_after(8))  # what is there is gone on with, or only read
        assert before in ([], [path.read_bytes()])


def test_what_is_not_of_this_call_is_refused_and_kept(path, partial, refused):
    path.parent.mkdir()
    for content in ("", '{"id": "e1", "text": "a"}\n'):
        path.write_text(content)
        with refused(ConfigError):
            write(path)
        assert path.read_text() == content and not partial.exists()
    path.unlink()
    write(path)
    path.write_text('{"id": "e1", "text": "a"}\n')
    with refused(ConfigError):
        write(path)
    path.unlink()  # what the message says to do
    write(path, of=system(seed=2))
    generated.claim_path(path).write_text("{}")
    with refused(DataError):
        write(path)
    path.unlink()
    with files.sole_owner(partial, "taken"), refused(ConfigError):
        write(path)
    (partial / "responses.jsonl").write_text("{}\n")  # unfinished samples
    with refused(ConfigError):
        write(path)
    assert (partial / "responses.jsonl").exists()
    for where in (path.parent, path.with_name("predictions.jsonl.gz")):
        with refused(ConfigError):
            write(where)
