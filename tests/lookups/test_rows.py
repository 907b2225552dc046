"""The committed rows of what needs no learning, made again from the training split, to the byte."""

import gzip
import json

import pytest
from support.paths import ROOT

from grue.data.load import load_examples
from grue.evaluation.evaluate import answer_without_model
from grue.evaluation.systems import baseline_system
from grue.lookups.find import lookups_of
from grue.task_files import load_task, task_names


@pytest.mark.slow
@pytest.mark.parametrize("name", task_names("mini"))
def test_every_row_of_a_task_is_made_again(name):
    task, made = load_task(name, "mini"), []
    train, asked = (load_examples(task, split).examples for split in ("train", "test"))
    for baseline in ("null", "copy", "lead", *lookups_of(task)):
        path = ROOT / "submissions/mini" / baseline / name / "seed-1.predictions.jsonl.gz"
        if path.exists():
            found = answer_without_model(task, baseline_system(task, baseline, 1), asked, train)
            rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
            assert [(row["id"], row["text"]) for row in rows] == [(each.id, each.text) for each in found], baseline
            made.append(baseline)
    assert {"null", "copy", "lead", "nearest"} <= {*made}
