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


@pytest.fixture(scope="module")
def submissions(tmp_path_factory):
    """A folder of submissions with one row, of which only IMDB and two seeds are kept."""
    row = tmp_path_factory.mktemp("submissions") / "mini/supervised"
    row.mkdir(parents=True)
    shutil.copytree(ROW / "imdb", row / "imdb")
    shutil.copy(ROW / "submission.toml", row)
    return row.parent.parent


@pytest.fixture
def runs(tmp_path, examples):
    """A finished run with the texts of the submission; its evaluation says that sentiment is the example's place."""
    folder = tmp_path / "runs/mini/imdb/mine/seed-1"
    folder.mkdir(parents=True)
    (folder / PREDICTIONS).write_bytes(gzip.decompress((ROW / "imdb/seed-1.predictions.jsonl.gz").read_bytes()))
    files.write_jsonl(
        folder / SCORES,
        [{"id": one.id, "sentiment": place, "distinct1": 0.5} for place, one in enumerate(examples)],
    )
    record = json.loads((ROW / "imdb/seed-1.result.json").read_text())
    record["system"]["name"] = "mine"
    files.write_json(tmp_path / "result.json", record)
    seal(folder, {}, files.load_json(tmp_path / "result.json", Result))
    return tmp_path / "runs"


def test_texts_and_scores_are_those_of_the_items(examples, submissions, runs):
    mine, theirs = read_outputs(["mine", "supervised@1"], TASK, examples, PLACES, submissions, runs)
    predictions = [record["text"] for _, record in files.read_jsonl(runs / "mini/imdb/mine/seed-1" / PREDICTIONS)]
    assert [one.name for one in (mine, theirs)] == ["mine", "supervised@1"]
    assert mine.runs[0].texts == theirs.runs[0].texts == [predictions[place] for place in PLACES]
    assert mine.runs[0].scores == {"sentiment": [3.0, 0.0, 7.0]}, "what the evaluation wrote, without corpus figures"
    assert all(0 <= value <= 1 for value in theirs.runs[0].scores["sentiment"]), "computed"
    assert theirs.runs[0].directions == {"sentiment": "higher", "perplexity:bounded": "lower"}
    assert theirs.runs[0].sha256 == files.sha256_file(ROW / "imdb/seed-1.predictions.jsonl.gz")


def test_all_seeds_are_read_where_none_is_chosen(examples, submissions, runs):
    (outputs,) = read_outputs(["supervised"], TASK, examples, PLACES[:1], submissions, runs)
    assert [run.seed for run in outputs.runs] == ["1", "2", "3", "4", "5"] and outputs.name == "supervised"


def test_a_name_of_both_is_that_of_more_seeds(examples, submissions, runs):
    """As for `grue compare`: a name that a submission and a run have is the one's with more results."""
    shutil.copytree(runs / "mini/imdb/mine", runs / "mini/imdb/supervised")
    folder = runs / "mini/imdb/supervised/seed-1"
    record = json.loads((folder / "result.json").read_text())
    record["system"]["name"] = "supervised"
    (folder / "result.json").write_text(json.dumps(record))
    for given, origin in (("supervised", "submissions"), ("runs:supervised", "runs")):
        found = read_outputs([f"{given}@1", "mine"], TASK, examples, PLACES, submissions, runs)
        assert [one.origin for one in found] == [origin, "runs"] and found[0].name.endswith("supervised@1")


def test_scores_that_were_changed_are_computed_anew(examples, submissions, runs):
    path = runs / "mini/imdb/mine/seed-1" / SCORES
    path.write_text(path.read_text().replace('"sentiment":3', '"sentiment":9'))
    (mine,) = read_outputs(["mine"], TASK, examples, PLACES, submissions, runs)
    assert all(0 <= value <= 1 for value in mine.runs[0].scores["sentiment"])


def test_systems_that_cannot_be_used(examples, submissions, runs, tmp_path):
    def refused(*given):
        with pytest.raises((ConfigError, DataError, UnknownName)) as error:
            read_outputs(given, TASK, examples, PLACES, submissions, runs)
        return str(error.value)

    assert "supervised has no seed 9 on imdb. Known: 1, 2, 3, 4, 5." in refused("supervised@9")
    assert "Two systems are called 'mine'" in refused("mine", "mine")
    record = runs / "mini/imdb/mine/seed-1/result.json"
    whole = record.read_text()
    record.write_text(whole.replace('"limited": false', '"limited": true'))
    assert "only a part of the split was evaluated" in refused("mine")
    record.write_text(whole.replace(f'"task_hash": "{TASK.hash}"', f'"task_hash": "{"0" * 64}"'))
    assert "evaluate it again" in refused("mine")
    record.write_text(whole.replace('"task": "imdb"', '"task": "totto"'))
    assert refused("mine") == "mine has no result on imdb; evaluate it with `grue evaluate`."
