"""Results in the formats of others: what they say, and that those who read them can."""

import json
import math
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard, eval_result_entries_to_yaml, parse_eval_result_entries
from support.every_eval_ever import faults
from support.factories import a_result, a_task
from support.paths import ROOT

import grue
from grue import files
from grue.cli.exchange import export
from grue.errors import UnknownName
from grue.exchange.formats import FORMATS

SEEDS = {1: 30.0, 2: 32.0, 3: 37.0}
MEAN = 33.0
HALF = 4.302652729911275 * math.sqrt(13 / 3)  # Student's t of 2 degrees, and s² = ((-3)² + (-1)² + 4²) / 2 = 13
HUB = {"source": "allenai/common_gen", "revision": "a" * 40, "examples": 4, "ids_sha256": "b" * 64}
MINI = {"source": "mini", "revision": "2"}


def write(folder, seed, preference, system="ours", task="stories", then=None, **changes):
    """Write a result as `grue evaluate` does, with changes that it does not make; return its path."""
    made = {"data": HUB, "generation": {"max_new_tokens": 8, "do_sample": True, "temperature": 0.7, "top_k": 5}}
    result = files.plain(a_result(a_task(task), system, seed, preference, **(made | changes)))
    path = folder / f"seed-{seed}" / "result.json"
    files.write_json(path, result | (then or {}))
    return path


@pytest.fixture
def folder(tmp_path):
    """The results of three seeds."""
    for seed, preference in SEEDS.items():
        write(tmp_path / "runs" / "stories", seed, preference)
    return tmp_path / "runs"


@pytest.fixture
def refuse(refused, tmp_path):
    """Expect that results are not exported."""

    def call(*results, form="every-eval-ever", code=2, options=()):
        output = tmp_path / "never"
        refused.command("tools", "export", *results, "--format", form, "-o", output, *options, code=code)
        assert not output.exists()

    return call


def exported(form, *results, **more):
    """Export, and return the text."""
    output = Path(str(results[0])).with_suffix(f".{form}")
    grue.export([Path(one) for one in results], form, output, force=True, **more)
    return output.read_text(encoding="utf-8")


def record_of(*results, **more):
    record = json.loads(exported("every-eval-ever", *results, **more))
    assert faults(record) == []
    return record


def test_every_eval_ever_has_the_interval_over_seeds(folder):
    record = record_of(folder, folder / "stories/seed-1/result.json", model="us/ours", organization="Us")
    by_id = {one["evaluation_result_id"]: one for one in record["evaluation_results"]}
    assert sorted(by_id) == [f"grue.mini.stories.{name}" for name in ("fluent", "liked", "naturalness", "preference")]
    preference, fluent = (by_id[f"grue.mini.stories.{name}"] for name in ("preference", "fluent"))
    details, config = preference["score_details"], preference["metric_config"]
    told = details["uncertainty"]
    assert (details["score"], details["details"]["seeds"]) == (pytest.approx(MEAN), "1, 2, 3")
    assert told["num_samples"] == 3, "a file that is given twice counts once"
    assert told["standard_error"]["value"] == pytest.approx(math.sqrt(13 / 3))
    interval = told["confidence_interval"]
    assert (interval["lower"], interval["upper"]) == pytest.approx((MEAN - HALF, MEAN + HALF))
    assert interval["confidence_level"] == 0.95
    assert (config["min_score"], config["max_score"], config["lower_is_better"]) == (0, 100, False)
    assert fluent["metric_config"]["lower_is_better"]
    assert fluent["metric_config"]["metric_parameters"] == {"signature": "fluent|v1"}
    assert preference["source_data"]["hf_repo"] == "allenai/common_gen"
    assert preference["generation_config"]["generation_args"] == {"max_tokens": 8, "temperature": 0.7, "top_k": 5}
    assert (record["model_info"]["id"], record["model_info"]["developer"]) == ("us/ours", "us")
    assert record["source_metadata"]["evaluator_relationship"] == "first_party"
    record["surprise"] = 1
    del record["model_info"]["id"]
    config["lower_is_better"] = "no"
    place = record["evaluation_results"].index(preference)
    assert faults(record) == [
        "record: unknown surprise",
        "record.model_info: lacks id",
        f"record.evaluation_results[{place}].metric_config.lower_is_better: 'no'",
    ]


def test_one_seed_has_no_interval(folder):
    path = folder / "stories/seed-1/result.json"
    assert all("uncertainty" not in one["score_details"] for one in record_of(path)["evaluation_results"])
    assert "interval" not in exported("model-index", path) + exported("eval-results", path)


def test_data_from_elsewhere_and_others_models_are_told_as_such(tmp_path):
    told = {"system": {"name": "t5", "algorithm": "external"}}
    record = record_of(write(tmp_path, 1, 30.0, data=MINI, generation={"max_new_tokens": 8}, then=told))
    assert record["evaluation_results"][0]["source_data"]["source_type"] == "other"
    assert record["source_metadata"]["evaluator_relationship"] == "third_party"
    assert record["model_info"]["additional_details"]["model_availability"] == "unknown"
    told = {"system": {"name": "m", "algorithm": "endpoint"}, "packages": {"transformers": "5.0.0"}}
    sampled = {"decoding": "sampled by an endpoint", "max_tokens": 9, "temperature": 0}
    record = record_of(write(tmp_path, 1, 30.0, generation=sampled, then=told))
    assert record["source_metadata"]["evaluator_relationship"] == "third_party"
    assert record["model_info"]["additional_details"]["deployment_type"] == "unknown"
    assert "inference_engine" not in record["model_info"]
    assert record["evaluation_results"][0]["generation_config"] == {
        "generation_args": {"max_tokens": 9, "temperature": 0},
        "additional_details": {"decoding": "sampled by an endpoint"},
    }


def test_eval_results_are_one_value_a_task_id(folder, tmp_path, refuse):
    text = exported("eval-results", folder, source_url="https://huggingface.co/us/ours")
    entries = parse_eval_result_entries(yaml.safe_load(text))
    assert eval_result_entries_to_yaml(entries) == yaml.safe_load(text), "nothing that the hub's library does not know"
    assert [(one.dataset_id, one.dataset_revision, one.task_id, one.value) for one in entries] == [
        ("allenai/common_gen", "a" * 40, "mini_stories_preference", 33.0),
        ("allenai/common_gen", "a" * 40, "mini_stories_naturalness", 50.0),
    ]
    interval = f"95% interval {MEAN - HALF:.2f} to {MEAN + HALF:.2f}"
    assert entries[0].notes.endswith(f"split test, mean of the seeds 1, 2, 3, {interval}")
    assert entries[0].source_name == "GRUE 0"
    path = write(tmp_path, 1, 30.0, data=MINI)
    refuse(path, form="eval-results")
    entries = yaml.safe_load(exported("eval-results", path, benchmark="bench/grue@abc"))
    assert entries[0]["dataset"] == {"id": "bench/grue", "task_id": "mini_stories_preference", "revision": "abc"}
    refuse(path, form="eval-results", options=("--benchmark", "grue"))


def test_a_model_index_is_read_by_the_hub_s_library(folder):
    write(folder / "tales", 1, 1e-05, task="tales")
    card = ModelCard(f"---\n{exported('model-index', folder, model='us/ours')}---\n")
    assert card.data.model_name == "ours"
    told = {(one.dataset_name, one.metric_type): one for one in card.data.eval_results}
    assert told["mini/stories", "preference"].metric_value == 33.0
    assert "95% interval 24.04 to 41.96" in told["mini/stories", "preference"].metric_name
    assert told["mini/tales", "preference"].metric_value == 0.0
    assert told["mini/tales", "liked"].metric_name == "liked"


def test_yaml_is_read_back_as_it_was():
    hard = {
        **{"small": 1e-05, "large": 1e300, "negative": -2.5e-07, "whole": 3, "none": None, "yes": True, "a: b": 1},
        **{"3": 2, "text": "yes: no", "numeric": "1e5", "empty": {}, "nothing": [], "lines": "a\nb\u2028c\x7f"},
        "nested": [{"a": [1, {"b": 2}], "c": {}}, []],
    }
    assert yaml.safe_load(files.yaml_text(hard)) == hard
    assert yaml.safe_load(files.yaml_text([hard, "x"])) == [hard, "x"]
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.yaml_text({"a": float("nan")})


def test_results_that_do_not_belong_together_are_refused(folder, tmp_path, refuse):
    refuse(folder, write(tmp_path / "other", 4, 30.0, system="theirs"))
    refuse(folder, write(tmp_path / "twin", 2, 31.0))
    refuse(folder, write(tmp_path / "older", 4, 30.0, task_hash="0" * 64))
    refuse(folder, write(tmp_path / "split", 5, 30.0, split="validation"))
    refuse(folder, write(tmp_path / "half", 4, 30.0, naturalness=None), code=3)


def test_results_that_stand_for_nothing_are_refused(tmp_path, refuse):
    limited = write(tmp_path / "limited", 4, 30.0, limited=True)
    known = json.loads((ROOT / "submissions/mini/supervised/imdb/seed-1.result.json").read_text())
    part, empty = tmp_path / "part" / "result.json", tmp_path / "empty"
    files.write_json(part, known | {"data": known["data"] | {"examples": 3}})
    empty.mkdir()
    for path in (limited, part, empty, tmp_path / "nowhere.json"):
        refuse(path, code=3)
    files.write_json(limited.parent / "evaluation.json", {"sha256": {"result.json": "0" * 64}})
    files.write_json(limited, json.loads(limited.read_text()) | {"limited": False})
    refuse(limited, code=3)


def test_a_file_that_is_there_is_replaced_by_force_only_and_never_one_that_is_read(folder, tmp_path, refused):
    path, (result, *_) = tmp_path / "there.json", sorted(folder.rglob("result.json"))
    path.write_text("a thousand predictions\n")
    before = result.read_bytes()
    command = ["tools", "export", folder, "--format", "model-index", "-o"]
    refused.command(*command, path, code=2)
    refused.command(*command, result, "--force", code=2)
    assert (path.read_text(), result.read_bytes()) == ("a thousand predictions\n", before)
    export.main([str(part) for part in (*command[2:], path, "--force")], standalone_mode=False)
    assert path.read_text().startswith("model-index:")
    grue.export(str(folder), "model-index", tmp_path / "one.yaml")  # in Python one path will do
    assert (tmp_path / "one.yaml").read_text() == path.read_text()
    with refused(UnknownName):
        grue.export(folder, "model-indx", tmp_path / "never")


def test_the_command_offers_every_format():
    (choice,) = [one.type for one in export.params if one.name == "form"]
    assert list(choice.choices) == FORMATS.names()
    assert all(callable(FORMATS[name]) for name in FORMATS.names())
