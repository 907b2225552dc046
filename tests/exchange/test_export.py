"""Results in the formats of others: what they say, and that those who read them can."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard, eval_result_entries_to_yaml, parse_eval_result_entries
from support.commands import here
from support.every_eval_ever import faults
from support.factories import a_result, a_task
from support.paths import ROOT

import grue
from grue import files
from grue.cli.exchange import export
from grue.errors import ConfigError, DataError, UnknownName
from grue.exchange.formats import FORMATS

SEEDS = {1: 30.0, 2: 32.0, 3: 37.0}
MEAN = 33.0
HALF = 4.302652729911275 * math.sqrt(13 / 3)  # Student's t of 2 degrees, and s² = ((-3)² + (-1)² + 4²) / 2 = 13
HUB = {"source": "allenai/common_gen", "revision": "a" * 40, "examples": 4, "ids_sha256": "b" * 64}


def write(folder: Path, seed: int, preference: float, system: str = "ours", task: str = "stories", **changes) -> Path:
    """Write a result as `grue evaluate` does."""
    made = {"data": HUB, "generation": {"max_new_tokens": 8, "do_sample": True, "temperature": 0.7, "top_k": 5}}
    result = a_result(a_task(task), system, seed, preference, **(made | changes))
    path = folder / f"seed-{seed}" / "result.json"
    files.write_json(path, result)
    return path


@pytest.fixture
def folder(tmp_path):
    """The results of three seeds."""
    for seed, preference in SEEDS.items():
        write(tmp_path / "runs" / "stories", seed, preference)
    return tmp_path / "runs"


def exported(form, *results, **more):
    """Export, and return the text."""
    output = Path(str(results[0]).rstrip("/")).parent / f"out-{form}"
    options = [part for key, value in more.items() for part in (f"--{key.replace('_', '-')}", value)]
    done = here("export", *map(str, results), "--format", form, "-o", str(output), *options)
    assert done.exit_code == 0, done.output
    return output.read_text(encoding="utf-8")


def refusal(*results, form="every-eval-ever", code=ConfigError, options=()):
    output = Path(results[0]).parent / "never"
    done = here("export", *map(str, results), "--format", form, "-o", str(output), *options)
    assert (done.exit_code, output.exists()) == (code.exit_code, False), done.output
    return done.stderr


def test_every_eval_ever_has_the_interval_over_seeds(folder):
    record = json.loads(exported("every-eval-ever", folder, model="us/ours", organization="Us"))
    assert faults(record) == []
    by_id = {one["evaluation_result_id"]: one for one in record["evaluation_results"]}
    assert sorted(by_id) == [f"grue.mini.stories.{name}" for name in ("fluent", "liked", "naturalness", "preference")]
    preference = by_id["grue.mini.stories.preference"]
    assert preference["score_details"]["score"] == pytest.approx(MEAN)
    told = preference["score_details"]["uncertainty"]
    assert told["confidence_interval"]["lower"] == pytest.approx(MEAN - HALF)
    assert told["confidence_interval"]["upper"] == pytest.approx(MEAN + HALF)
    assert told["confidence_interval"]["confidence_level"] == 0.95
    assert told["standard_error"]["value"] == pytest.approx(math.sqrt(13 / 3))
    assert (told["num_samples"], preference["score_details"]["details"]["seeds"]) == (3, "1, 2, 3")
    assert (preference["metric_config"]["min_score"], preference["metric_config"]["max_score"]) == (0, 100)
    assert not preference["metric_config"]["lower_is_better"]
    assert by_id["grue.mini.stories.fluent"]["metric_config"]["lower_is_better"]
    assert by_id["grue.mini.stories.fluent"]["metric_config"]["metric_parameters"] == {"signature": "fluent|v1"}
    assert preference["source_data"]["hf_repo"] == "allenai/common_gen"
    assert preference["generation_config"]["generation_args"] == {"max_tokens": 8, "temperature": 0.7, "top_k": 5}
    assert (record["model_info"]["id"], record["model_info"]["developer"]) == ("us/ours", "us")
    assert record["source_metadata"]["evaluator_relationship"] == "first_party"


def test_one_seed_has_no_interval(folder):
    path = folder / "stories/seed-1/result.json"
    record = json.loads(exported("every-eval-ever", path))
    assert faults(record) == []
    assert all("uncertainty" not in one["score_details"] for one in record["evaluation_results"])
    assert "interval" not in exported("model-index", path) + exported("eval-results", path)


def test_data_from_elsewhere_and_others_models_are_told_as_such(tmp_path):
    path = write(tmp_path, 1, 30.0, data={"source": "mini", "revision": "2"}, generation={"max_new_tokens": 8})
    files.write_json(path, json.loads(path.read_text()) | {"system": {"name": "t5", "algorithm": "external"}})
    record = json.loads(exported("every-eval-ever", path))
    assert faults(record) == []
    assert record["evaluation_results"][0]["source_data"]["source_type"] == "other"
    assert record["source_metadata"]["evaluator_relationship"] == "third_party"
    assert record["model_info"]["additional_details"]["model_availability"] == "unknown"


def test_a_model_behind_an_address_is_nobody_s_here(tmp_path):
    path = write(
        tmp_path,
        1,
        30.0,
        generation={"decoding": "sampled by an endpoint", "max_tokens": 9, "temperature": 0},
        packages={"transformers": "5.0.0"},
    )
    files.write_json(path, json.loads(path.read_text()) | {"system": {"name": "m", "algorithm": "endpoint"}})
    record = json.loads(exported("every-eval-ever", path))
    assert faults(record) == []
    assert record["source_metadata"]["evaluator_relationship"] == "third_party"
    assert record["model_info"]["additional_details"]["deployment_type"] == "unknown"
    assert "inference_engine" not in record["model_info"]
    assert record["evaluation_results"][0]["generation_config"] == {
        "generation_args": {"max_tokens": 9, "temperature": 0},
        "additional_details": {"decoding": "sampled by an endpoint"},
    }


def test_the_checker_of_records_sees_what_is_wrong(folder):
    record = json.loads(exported("every-eval-ever", folder))
    record["surprise"] = 1
    del record["model_info"]["id"]
    record["evaluation_results"][0]["metric_config"]["lower_is_better"] = "no"
    assert faults(record) == [
        "record: unknown surprise",
        "record.model_info: lacks id",
        "record.evaluation_results[0].metric_config.lower_is_better: 'no'",
    ]


def test_eval_results_are_one_value_a_task_id(folder):
    text = exported("eval-results", folder, source_url="https://huggingface.co/us/ours")
    entries = parse_eval_result_entries(yaml.safe_load(text))
    assert eval_result_entries_to_yaml(entries) == yaml.safe_load(text), "nothing that the hub's library does not know"
    assert [(one.dataset_id, one.dataset_revision, one.task_id, one.value) for one in entries] == [
        ("allenai/common_gen", "a" * 40, "mini_stories_preference", 33.0),
        ("allenai/common_gen", "a" * 40, "mini_stories_naturalness", 50.0),
    ]
    assert entries[0].notes.endswith(
        f"split test, mean of the seeds 1, 2, 3, 95% interval {MEAN - HALF:.2f} to {MEAN + HALF:.2f}"
    )
    assert entries[0].source_name == "GRUE 0"


def test_eval_results_need_a_data_set_on_the_hub(tmp_path):
    path = write(tmp_path, 1, 30.0, data={"source": "mini", "revision": "2"})
    assert "mini/stories: its data were not read from the hub" in refusal(path, form="eval-results")
    entries = yaml.safe_load(exported("eval-results", path, benchmark="bench/grue@abc"))
    assert entries[0]["dataset"] == {"id": "bench/grue", "task_id": "mini_stories_preference", "revision": "abc"}
    assert "write OWNER/NAME" in refusal(path, form="eval-results", options=("--benchmark", "grue"))


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
        "small": 1e-05, "large": 1e300, "negative": -2.5e-07, "whole": 3, "none": None, "yes": True, "a: b": 1, "3": 2, "text": "yes: no",
        "numeric": "1e5", "empty": {}, "nothing": [], "lines": "a\nb\u2028c\x7f", "nested": [{"a": [1, {"b": 2}], "c": {}}, []],
    }  # fmt: skip
    assert yaml.safe_load(files.yaml_text(hard)) == hard
    assert yaml.safe_load(files.yaml_text([hard, "x"])) == [hard, "x"]
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.yaml_text({"a": float("nan")})


def test_results_that_do_not_belong_together_are_refused(folder, tmp_path):
    other = write(tmp_path / "other", 4, 30.0, system="theirs")
    assert "results of 2 systems (ours, theirs); export each by itself" in refusal(folder, other)
    twin = write(tmp_path / "twin", 2, 31.0)
    assert "are both of seed 2 on stories; leave one out" in refusal(folder, twin)
    older = write(tmp_path / "older", 4, 30.0, task_hash="0" * 64)
    assert "differ in their task hash" in refusal(folder, older)
    split = write(tmp_path / "split", 5, 30.0, split="validation")
    assert "differ in their split" in refusal(folder, split)


def test_results_that_stand_for_nothing_are_refused(folder, tmp_path):
    limited = write(tmp_path / "limited", 4, 30.0, limited=True)
    assert "of a part of the split" in refusal(limited, code=DataError)
    known = json.loads((ROOT / "submissions/mini/supervised/imdb/seed-1.result.json").read_text())
    part = tmp_path / "part" / "result.json"
    files.write_json(part, known | {"data": known["data"] | {"examples": 3}})
    assert "of a part of the split" in refusal(part, code=DataError)
    half = write(tmp_path / "half", 4, 30.0, naturalness=None)
    assert "fluent is in 3 of 4 results" in refusal(folder, half, code=DataError)
    (tmp_path / "empty").mkdir()
    assert "no result.json in it" in refusal(tmp_path / "empty", code=DataError)
    assert "cannot be read" in refusal(tmp_path / "nowhere.json", code=DataError)
    files.write_json(limited.parent / "evaluation.json", {"sha256": {"result.json": "0" * 64}})
    files.write_json(limited, json.loads(limited.read_text()) | {"limited": False})
    assert "predictions.jsonl: is missing" in refusal(limited, code=DataError)


def test_the_same_file_twice_counts_once(folder):
    path = folder / "stories/seed-1/result.json"
    record = json.loads(exported("every-eval-ever", folder, path))
    assert record["evaluation_results"][0]["score_details"]["uncertainty"]["num_samples"] == 3


def test_a_file_that_is_there_is_replaced_by_force_only(folder, tmp_path):
    path = tmp_path / "there.json"
    path.write_text("a thousand predictions\n")
    command = ["export", str(folder), "--format", "model-index", "-o", str(path)]
    done = here(*command)
    assert done.exit_code == 2
    assert done.stderr == f"Error: {path}: is there already; choose another file, or replace it with --force.\n"
    assert path.read_text() == "a thousand predictions\n"
    assert here(*command, "--force").exit_code == 0
    assert path.read_text().startswith("model-index:")


def test_a_result_is_not_replaced_by_its_own_export(folder):
    (path, *_) = sorted(folder.rglob("result.json"))
    before = path.read_bytes()
    done = here("export", str(folder), "--format", "model-index", "-o", str(path), "--force")
    assert done.exit_code == 2 and f"{path}: is read as {path}, and would be lost" in done.stderr
    assert path.read_bytes() == before


def test_in_python_one_path_will_do(folder, tmp_path):
    grue.export([folder], "model-index", tmp_path / "several.yaml")
    grue.export(str(folder), "model-index", tmp_path / "one.yaml")
    grue.export(folder, "model-index", tmp_path / "path.yaml")
    texts = [(tmp_path / f"{name}.yaml").read_text() for name in ("several", "one", "path")]
    assert len(set(texts)) == 1 and texts[0]
    with pytest.raises(UnknownName, match="There is no format 'model-indx'. Did you mean 'model-index'?"):
        grue.export(folder, "model-indx", tmp_path / "never")


def test_the_command_offers_every_format_and_loads_none():
    (choice,) = [one.type for one in export.params if one.name == "form"]
    assert list(choice.choices) == FORMATS.names()
    assert all(callable(FORMATS[name]) for name in FORMATS.names())
    code = "import sys, grue.cli.exchange; print([m for m in sys.modules if m.startswith('grue.exchange.')])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "['grue.exchange.formats']\n"
