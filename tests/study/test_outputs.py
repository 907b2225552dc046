"""Systems' texts and scores: from a submission, from a run whose evaluation is whole, and computed where it is not."""

import gzip
import json
import shutil

import pytest
from support.paths import ROOT

from grue import files
from grue.api import examples as api
from grue.errors import ConfigError, DataError, UnknownName
from grue.evaluation.folder import PREDICTIONS, SCORES, seal
from grue.records import Result
from grue.study.outputs import read_outputs
from grue.task_files import load_task

TASK = load_task("imdb")
PLACES = (3, 0, 7)
ROW = ROOT / "submissions/mini/supervised"


@pytest.fixture(scope="module")
def examples():
    return api.examples(TASK)


@pytest.fixture
def runs(tmp_path, examples):
    """A finished run with the texts of the submission; its evaluation says that its sentiment is the example's place."""
    folder = tmp_path / "runs/mini/imdb/mine/seed-1"
    folder.mkdir(parents=True)
    (folder / PREDICTIONS).write_bytes(gzip.decompress((ROW / "imdb/seed-1.predictions.jsonl.gz").read_bytes()))
    scores = ({"id": one.id, "asked_sentiment": place, "distinct1": 0.5} for place, one in enumerate(examples))
    files.write_jsonl(folder / SCORES, scores)
    record = json.loads((ROW / "imdb/seed-1.result.json").read_text())
    record["system"]["name"] = "mine"
    files.write_json(tmp_path / "result.json", record)
    seal(folder, {}, files.load_json(tmp_path / "result.json", Result))
    return tmp_path / "runs"


@pytest.fixture
def read(tmp_path, examples, runs):
    """Reads systems of a folder of submissions with one row, of IMDB alone, and of the runs."""
    row = tmp_path / "submissions/mini/supervised"
    shutil.copytree(ROW / "imdb", row / "imdb")
    shutil.copy(ROW / "submission.toml", row)
    return lambda *given, places=PLACES: read_outputs(given, TASK, examples, places, tmp_path / "submissions", runs)


def test_texts_and_scores_are_those_of_the_items(read, runs):
    mine, theirs = read("mine", "submissions:supervised@1")
    predictions = [record["text"] for _, record in files.read_jsonl(runs / "mini/imdb/mine/seed-1" / PREDICTIONS)]
    assert [(one.name, one.origin) for one in (mine, theirs)] == [("mine", "runs"), ("supervised@1", "submissions")]
    assert mine.runs[0].texts == theirs.runs[0].texts == [predictions[place] for place in PLACES]
    assert mine.runs[0].scores == {"asked_sentiment": [3.0, 0.0, 7.0]}, (
        "what the evaluation wrote, without corpus figures"
    )
    assert all(0 <= value <= 1 for value in theirs.runs[0].scores["asked_sentiment"]), "computed"
    assert theirs.runs[0].directions == {"asked_sentiment": "higher", "perplexity:bounded": "lower"}
    assert theirs.runs[0].sha256 == files.sha256_file(ROW / "imdb/seed-1.predictions.jsonl.gz")
    (whole,) = read("supervised", places=PLACES[:1])
    assert [run.seed for run in whole.runs] == ["1", "2", "3", "4", "5"] and whole.name == "supervised"
    path = runs / "mini/imdb/mine/seed-1" / SCORES
    path.write_text(path.read_text().replace('"asked_sentiment":3', '"asked_sentiment":9'))
    (mine,) = read("mine")
    assert all(0 <= value <= 1 for value in mine.runs[0].scores["asked_sentiment"]), "changed, and computed anew"


def test_systems_that_cannot_be_used(read, runs, refused):
    with refused(UnknownName):
        read("supervised@9")
    with refused(ConfigError):
        read("mine", "mine")
    record = runs / "mini/imdb/mine/seed-1/result.json"
    whole = record.read_text()
    for old, new in (
        ('"limited": false', '"limited": true'),
        (f'"task_hash": "{TASK.hash}"', f'"task_hash": "{"0" * 64}"'),
        ('"task": "imdb"', '"task": "totto"'),
    ):
        record.write_text(whole.replace(old, new))
        with refused(DataError):
            read("mine")
