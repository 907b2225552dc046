"""What `grue submit pack` takes of a run's configuration, and what it leaves out and why."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.factories import a_result

from grue import files
from grue.cli.submit import _tell_withheld
from grue.errors import ConfigError
from grue.lm.checkpoint import CheckpointManifest
from grue.runs.algorithms import find_algorithm
from grue.submissions.configuration import foreign_terms
from grue.submissions.packing.collect import PackedRun
from grue.submissions.packing.pack import configurations
from grue.submissions.packing.recorded import configuration_of_run
from grue.task_files import load_task

TASK = load_task("imdb")
SUPERVISED: dict[str, Any] = {
    "precision": "float32", "gradient_checkpointing": False, "lora_rank": 0, "lora_alpha": 16.0, "freeze_encoder": False,
    "log_prob_chunk": 0, "sharded": False, "learning_rate": 0.001, "schedule": "cosine", "warmup": 0.1,
    "optimizer": "adamw", "weight_decay": 0.0, "adam_epsilon": 1e-08, "max_grad_norm": 1.0, "micro_batch_size": 64,
    "train_share": None, "validation_examples": 200, "validate_every": 1, "save_every": 40, "keep_last": 2, "epochs": 2,
    "batch_size": 32,
}  # fmt: skip


def sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def record(algorithm: str = "supervised", **changes: Any) -> dict[str, Any]:
    """What a run records."""
    return {
        "suite": "mini",
        "task": "imdb",
        "task_hash": TASK.hash,
        "algorithm": algorithm,
        "reward": "sentiment",
        "seed": 1,
        "backbone": "mini:causal",
        "backbone_weights": "0" * 64,
        "data_sha256": "",
        "data_dir": "",
        "init_sha256": "",
        "config": SUPERVISED,
        **changes,
    }


ONLY_WHERE_SET = (
    *("select", "reference", "redraws", "calibration_samples", "calibration_tilt", "supervised_coefficient"),
    *("overlong_buffer", "overlong_penalty", "mask", "top_p", "top_k", "min_tokens_to_keep", "always_open"),
    *("mask_updates", "mask_source", "mass_coefficient"),
)


def whole_config(algorithm: str, **set_: Any) -> dict[str, Any]:
    """Every setting of an algorithm but those that stand in a record only where they are set."""
    every = files.plain(find_algorithm(algorithm).settings(learning_rate=0.001))
    return {key: value for key, value in every.items() if key not in ONLY_WHERE_SET} | set_


def run(folder: Path, told: dict[str, Any], recorded: dict[str, Any] | None = None) -> Any:
    """A run's folder with its record, and its result, which may have recorded something else."""
    files.write_toml(folder / "config.toml", told)
    system = {"name": "ours", "algorithm": told["algorithm"], "config_sha256": sha256(recorded or told)}
    return replace(a_result(TASK, "ours", 1, 50.0), system=system)


def test_what_is_turned_off_is_kept(tmp_path: Path) -> None:
    found, why = configuration_of_run(tmp_path, run(tmp_path, record()))
    assert found is not None and not why
    assert found.last.config == SUPERVISED
    assert sha256(found.last.record(1, "")) == sha256(record())


def test_settings_that_came_later_are_found_out(tmp_path: Path) -> None:
    earlier = {key: value for key, value in SUPERVISED.items() if key not in ("sharded", "train_share")}
    told = record(config=earlier)
    found, _ = configuration_of_run(tmp_path, run(tmp_path, told))
    assert found is not None and found.last.config == earlier
    often = {**SUPERVISED, "save_every": 3}
    found, _ = configuration_of_run(tmp_path, run(tmp_path, record(), record(config=often)))
    assert found is not None and found.last.config == often


def test_a_warm_start_brings_the_run_that_it_began_from(tmp_path: Path) -> None:
    first, last = tmp_path / "imdb/supervised/seed-1", tmp_path / "imdb/ours/seed-1"
    manifest = CheckpointManifest(
        "mini", "imdb", TASK.hash, "supervised", "supervised", "mini:causal", 1, 1, "0" * 64, {}, {}, files={"a": "1"}
    )
    files.write_toml(first / "config.toml", record())
    files.write_json(first / "checkpoint/grue.json", manifest)
    ppo = {key: value for key, value in SUPERVISED.items() if key not in ("batch_size",)} | {"updates": 3}
    told = record("supervised+ppo", init_sha256=sha256({"a": "1"}), config=ppo)
    every = {**whole_config("ppo"), "updates": 3}
    found, _ = configuration_of_run(last, run(last, told, {**told, "config": {**every, **ppo}}))
    assert found is not None
    assert [stage.algorithm for stage in found.stages] == ["supervised", "supervised+ppo"]
    assert found.stages[0].config == SUPERVISED
    found, why = configuration_of_run(last, run(last, told, record()))
    assert found is None and why == f"{last / 'config.toml'} does not have the hash that the result records"
    elsewhere = record("supervised+ppo", init_sha256="0" * 64, config=ppo)
    assert configuration_of_run(last, run(last, elsewhere)) == (
        None,
        f"{last} began from a checkpoint whose run is not beside it",
    )
    (first / "config.toml").unlink()
    assert (
        configuration_of_run(last, run(last, told))[1] == f"{last} began from a checkpoint whose run is not beside it"
    )


def test_terms_of_a_reward_that_are_not_ours() -> None:
    assert foreign_terms("0.5*meteor + rouge_combined - repeat_penalty") == foreign_terms("perplexity:bounded") == []
    for reward in ("sentiment\r", "evaluate:bleu", "os:system", "", "meteor +", "x" * 100_000):
        assert foreign_terms(reward), reward


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"data_dir": "/home/me/data"}, "was trained on a folder of this machine (--data-dir)"),
        ({"reward": "mine:reward"}, "reward 'mine:reward' is code that is not grue's"),
        ({"reward": "mine:f (sha256 0123456789abcdef)"}, "is code that is not grue's"),
        ({"algorithm": "mine:ALGORITHM"}, "algorithm 'mine:ALGORITHM' is code that is not grue's"),
        ({"backbone": "/home/me/model"}, "backbone '/home/me/model' is a folder of one machine"),
        ({"init_sha256": "0" * 64}, "began from a checkpoint whose run is not beside it"),
    ],
)
def test_what_nobody_else_could_train_is_left_out(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    found, said = configuration_of_run(tmp_path, run(tmp_path, record(**changes)))
    assert found is None and why in said


def test_a_choice_of_prompts_is_part_of_the_configuration_unless_a_machine_has_to_know_a_folder(tmp_path: Path) -> None:
    told = record("ppo", config=whole_config("ppo", select="hard:100"))
    found, why = configuration_of_run(tmp_path, run(tmp_path, told))
    assert found is not None and not why
    assert found.last.config["select"] == "hard:100" and "reference" not in found.last.config
    assert sha256(found.last.record(1, "")) == sha256(told)
    for name, value in (("select", "limr:0.6:runs/a"), ("reference", "soup:a,b"), ("data", "scored.jsonl")):
        folder = tmp_path / name
        changed = record("ppo", config=whole_config("ppo", **{name: value}), select_sha256="0" * 64)
        found, why = configuration_of_run(folder, run(folder, changed))
        assert found is None
        assert why == f"{folder}: {name} = {value!r} names {'a run' if name == 'select' else 'files'} of one machine"


def test_what_was_not_trained_has_none(tmp_path: Path) -> None:
    result = run(tmp_path, record())
    (tmp_path / "config.toml").unlink()
    assert configuration_of_run(tmp_path, result) == (None, f"{tmp_path} has no config.toml")
    assert configuration_of_run(tmp_path, replace(result, status="failed")) == (None, "")
    assert configuration_of_run(tmp_path, a_result(TASK, "nearest", 1, 50.0)) == (None, "")
    assert configuration_of_run(tmp_path, replace(result, suite="/my/suite")) == (None, "")  # refused as a whole
    files.write_toml(tmp_path / "config.toml", {"suite": "mini"})
    with pytest.raises(ConfigError, match=r"config\.toml: the key 'task' is missing"):
        configuration_of_run(tmp_path, result)


def test_seeds_that_differ_are_packed_without(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = record(config={**SUPERVISED, "epochs": 3})
    made = []
    for seed, told in ((1, record()), (2, record()), (3, other)):
        folder = tmp_path / str(seed)
        result = replace(run(folder, told), seed=seed)
        made.append(PackedRun(result, (), str(folder), *configuration_of_run(folder, result)))
    assert configurations(made[:2]) == {"imdb": made[0].configuration} and made[0].configuration is not None
    assert configurations(made) == {"imdb": None}
    _tell_withheld(made)
    said = (
        "imdb is packed without its configuration, and cannot be retrained: its seeds were trained with different ones."
    )
    assert capsys.readouterr().err.strip() == said
