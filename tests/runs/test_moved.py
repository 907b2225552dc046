"""A run whose folder, data or model was moved, as to another machine, goes on; what changed there is refused."""

import json
import shutil
from dataclasses import replace

import pytest
from support import factories, saved
from support.own_task import OWN_TASK

from grue import files
from grue.errors import ConfigError, DataError
from grue.evaluation.folder import RESULT, claim, seal
from grue.lm import checkpoint
from grue.lm.load import weights_id
from grue.mini import assets
from grue.runs.folder import claim_folder
from grue.runs.plan import stages_of
from grue.runs.request import RunRequest
from grue.task_files import load_task
from grue.tasks import Backbone


@pytest.fixture
def project(tmp_path):
    """A task with its model, its data and scored responses beside it."""
    folder = tmp_path / "project"
    shutil.copytree(assets.locate("causal"), folder / "base")
    rows = [{"id": name, "prompt": f"p {name}", "reference": f"a {name}"} for name in "abcd"]
    files.write_jsonl(folder / "rows.jsonl", rows)
    for split in ("train", "validation"):
        files.write_jsonl(folder / f"data/{split}.jsonl", rows)
    responses = [{"text": "one", "reward": 0.0}, {"text": "two", "reward": 1.0}]
    files.write_jsonl(folder / "scored.jsonl", [{"id": "a", "responses": responses}])
    (folder / "words.toml").write_text(OWN_TASK.format(metric="rougeL").replace("mini:causal", "base"))
    return folder


def plan_in(folder):
    return stages_of(
        RunRequest(
            task=load_task(str(folder / "words.toml")),
            algorithm="rft",
            settings={"data": str(folder / "scored.jsonl")},
            runs=folder / "runs",
            data_dir=folder / "data",
        )
    )[-1]


def test_a_run_goes_on_where_its_project_was_moved_to_and_is_refused_where_something_else_lies(project, tmp_path):
    begun = plan_in(project)
    claim_folder(begun)
    record = begun.record()
    moved = project.rename(tmp_path / "moved here")
    later = plan_in(moved)
    claim_folder(later)
    assert files.sha256_json(later.record()) == files.sha256_json(record)
    assert later.start.model == str(moved / "base")
    with (moved / "data/train.jsonl").open("a") as rows:
        rows.write(json.dumps({"id": "e", "prompt": "p e", "reference": "a e"}) + "\n")
    with pytest.raises(ConfigError, match=r"holds a run with data_dir = .*\(and other values of data_sha256\)"):
        claim_folder(plan_in(moved))


def test_a_run_is_known_by_the_files_that_it_reads(project):
    path, rows = project / "words.toml", files.read_text(project / "rows.jsonl")
    for split in ("validation", "test"):
        (project / f"{split}.jsonl").write_text(rows)
        path.write_text(path.read_text().replace(f'{split} = "rows.jsonl"', f'{split} = "{split}.jsonl"'))

    def plan():
        return stages_of(RunRequest(task=load_task(str(path)), algorithm="supervised", runs=project / "runs"))[-1]

    claim_folder(plan())
    (project / "test.jsonl").write_text(f'{rows}{{"prompt": "one more"}}\n')
    claim_folder(plan())
    (project / "validation.jsonl").write_text(f'{rows}{{"prompt": "one more"}}\n')
    with pytest.raises(ConfigError, match="holds a run of other data"):
        claim_folder(plan())


def test_a_checkpoint_is_trained_on_from_where_its_model_was_moved_to(project, tmp_path):
    begun = plan_in(project)
    claim_folder(begun)
    model = tmp_path / "elsewhere"
    shutil.copytree(project / "base", model)
    saved.save(begun.checkpoint)
    manifest = files.load_json(begun.checkpoint / checkpoint.MANIFEST, checkpoint.CheckpointManifest)
    manifest = replace(manifest, backbone=str(project / "base"))
    checkpoint.check_start(manifest, begun.checkpoint, Backbone("causal", str(model)), weights_id(str(model)))
    (model / "more.json").write_text("{}")
    with pytest.raises(DataError, match="but this run starts from"):
        checkpoint.check_start(manifest, begun.checkpoint, Backbone("causal", str(model)), weights_id(str(model)))


def test_a_finished_evaluation_is_read_where_its_data_was_moved_to(tmp_path):
    identity = {"weights": "w", "data_dir": "/here", "data_sha256": "d", "split": "rows.jsonl", "file": "f"}
    claim(tmp_path, identity, pytest.fail)
    for name in ("predictions.jsonl", "scores.jsonl"):
        (tmp_path / name).write_text("")
    seal(tmp_path, identity, factories.a_result(load_task("imdb"), "one", 1, 50.0))
    assert (tmp_path / RESULT).exists()
    moved = identity | {"data_dir": "/there", "split": "here/rows.jsonl"}
    assert claim(tmp_path, moved, pytest.fail) is not None
    with pytest.raises(ConfigError, match="holds an evaluation with split"):
        claim(tmp_path, moved | {"file": "g"}, pytest.fail)
    with pytest.raises(ConfigError, match="holds an evaluation with data_dir"):
        claim(tmp_path, identity | {"data_dir": "/there", "data_sha256": "e"}, pytest.fail)
