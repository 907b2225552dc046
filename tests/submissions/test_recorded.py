"""What `grue submit pack` takes of a run's configuration, and what it leaves out and why."""

import hashlib
import json
from dataclasses import replace

import pytest
from support.factories import a_result

from grue import files
from grue.cli.submit import _print_withheld
from grue.errors import ConfigError
from grue.submissions.configuration import foreign_terms
from grue.submissions.packing.collect import PackedRun
from grue.submissions.packing.pack import configurations
from grue.submissions.packing.recorded import configuration_of_run
from grue.task_files import load_task

TASK = load_task("imdb")
SUPERVISED = {
    **{"precision": "float32", "gradient_checkpointing": False, "lora_rank": 0, "lora_alpha": 16.0},
    **{"freeze_encoder": False, "log_prob_chunk": 0, "sharded": False, "learning_rate": 0.001, "schedule": "cosine"},
    **{"warmup": 0.1, "optimizer": "adamw", "weight_decay": 0.0, "adam_epsilon": 1e-08, "max_grad_norm": 1.0},
    **{"micro_batch_size": 64, "train_share": None, "validation_examples": 200, "validate_every": 1, "save_every": 40},
    **{"keep_last": 2, "epochs": 2, "batch_size": 32},
}
ONLY_WHERE_SET = (
    *("select", "reference", "redraws", "calibration_samples", "calibration_tilt", "supervised_coefficient"),
    *("overlong_buffer", "overlong_penalty", "mask", "top_p", "top_k", "min_tokens_to_keep", "always_open"),
    *("mask_updates", "mask_source", "mass_coefficient", "validate_on", "keep", "importance_cap"),
)


def sha256(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def record(algorithm="supervised", **changes):
    """What a run records."""
    return {
        **{"suite": "mini", "task": "imdb", "task_hash": TASK.hash, "algorithm": algorithm, "reward": "sentiment"},
        **{"seed": 1, "backbone": "mini:causal", "backbone_weights": "0" * 64, "data_sha256": "", "data_dir": ""},
        **{"init_sha256": "", "config": SUPERVISED},
        **changes,
    }


def whole_config(algorithm, **changes):
    """Every setting of an algorithm but those that stand in a record only where they are set."""
    from grue.runs.algorithms import find_algorithm

    every = files.plain(find_algorithm(algorithm).settings(learning_rate=0.001))
    return {key: value for key, value in every.items() if key not in ONLY_WHERE_SET} | changes


def run(folder, told, recorded=None):
    """A run's folder with its record, and its result, which may have recorded something else."""
    files.write_toml(folder / "config.toml", told)
    system = {"name": "ours", "algorithm": told["algorithm"], "config_sha256": sha256(recorded or told)}
    return replace(a_result(TASK, "ours", 1, 50.0), system=system)


def configuration(folder, told, recorded=None):
    return configuration_of_run(folder, run(folder, told, recorded))


def test_what_is_turned_off_is_kept(tmp_path):
    found, why = configuration(tmp_path, record())
    assert found.stages[-1].config == SUPERVISED and not why
    assert sha256(found.stages[-1].record(1, "")) == sha256(record())


def test_a_warm_start_brings_the_run_that_it_began_from(tmp_path):
    from grue.lm.checkpoint import CheckpointManifest

    first, last = tmp_path / "imdb/supervised/seed-1", tmp_path / "imdb/ours/seed-1"
    said = ("mini", "imdb", TASK.hash, "supervised", "supervised", "mini:causal", 1, 1, "0" * 64, {}, {})
    files.write_toml(first / "config.toml", record())
    files.write_json(first / "checkpoint/grue.json", CheckpointManifest(*said, files={"a": "1"}))
    ppo = {key: value for key, value in SUPERVISED.items() if key != "batch_size"} | {"updates": 3}
    told = record("supervised+ppo", init_sha256=sha256({"a": "1"}), config=ppo)
    found, _ = configuration(last, told, {**told, "config": {**whole_config("ppo"), "updates": 3, **ppo}})
    assert [stage.algorithm for stage in found.stages] == ["supervised", "supervised+ppo"]
    assert found.stages[0].config == SUPERVISED
    other = f"{last / 'config.toml'} does not have the hash that the result records"
    assert configuration(last, told, record()) == (None, other)
    missing = (None, f"{last} began from a checkpoint whose run is not beside it")
    assert configuration(last, record("supervised+ppo", init_sha256="0" * 64, config=ppo)) == missing
    (first / "config.toml").unlink()
    assert configuration(last, told) == missing


def test_terms_of_a_reward_that_are_not_ours():
    assert foreign_terms("0.5*meteor + rouge_combined - repeat_penalty") == foreign_terms("perplexity:bounded") == []
    for reward in ("sentiment\r", "evaluate:bleu", "os:system", "", "meteor +", "x" * 100_000):
        assert foreign_terms(reward), reward


def test_what_nobody_else_could_train_is_left_out(tmp_path, refused):
    for changes in (
        {"data_dir": "/home/me/data"},
        {"reward": "mine:reward"},
        {"reward": "mine:f (sha256 0123456789abcdef)"},
        {"algorithm": "mine:ALGORITHM"},
        {"backbone": "/home/me/model"},
        {"init_sha256": "0" * 64},
        *(
            {"algorithm": "ppo", "config": whole_config("ppo", **setting), "select_sha256": "0" * 64}
            for setting in ({"select": "limr:0.6:runs/a"}, {"reference": "soup:a,b"}, {"data": "scored.jsonl"})
        ),
    ):
        found, why = configuration(tmp_path, record(**changes))
        assert found is None
        refused.message(why)
    told = record("ppo", config=whole_config("ppo", select="hard:100"))
    found, why = configuration(tmp_path, told)
    assert found.stages[-1].config["select"] == "hard:100" and "reference" not in found.stages[-1].config and not why
    assert sha256(found.stages[-1].record(1, "")) == sha256(told)


def test_what_was_not_trained_has_none(tmp_path, refused):
    result = run(tmp_path, record())
    (tmp_path / "config.toml").unlink()
    assert configuration_of_run(tmp_path, result) == (None, f"{tmp_path} has no config.toml")
    for other in (replace(result, status="failed"), a_result(TASK, "nearest", 1, 50.0), replace(result, suite="/mine")):
        assert configuration_of_run(tmp_path, other) == (None, "")
    files.write_toml(tmp_path / "config.toml", {"suite": "mini"})
    with pytest.raises(ConfigError, match=r"config\.toml: the key 'task' is missing"):
        configuration_of_run(tmp_path, result)


def test_seeds_that_differ_are_packed_without(tmp_path, capsys, refused):
    made = []
    for seed, told in ((1, record()), (2, record()), (3, record(config={**SUPERVISED, "epochs": 3}))):
        folder = tmp_path / str(seed)
        result = replace(run(folder, told), seed=seed)
        made.append(PackedRun(result, (), str(folder), *configuration_of_run(folder, result)))
    assert configurations(made[:2]) == {"imdb": made[0].configuration} and made[0].configuration is not None
    assert configurations(made) == {"imdb": None}
    _print_withheld(made)
    refused.message(capsys.readouterr().err)
