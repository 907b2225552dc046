"""What a result says of the reward that its system was trained on."""

from dataclasses import replace
from pathlib import Path

import pytest

from grue import files
from grue.evaluation.systems import _reward_of
from grue.lm.checkpoint import CheckpointManifest

MANIFEST = CheckpointManifest(
    suite="mini",
    task="commongen",
    task_hash="0",
    system="kind",
    algorithm="supervised+ppo",
    backbone="mini:seq2seq",
    seed=3,
    update=8,
    config_sha256="1",
    validation={},
    training={},
)
CONFIG = {"suite": "mini", "task": "commongen", "algorithm": "supervised+ppo", "seed": 3, "reward": "rouge1"}


@pytest.mark.parametrize(
    ("config", "algorithm", "reward"),
    [
        (CONFIG, "supervised+ppo", "rouge1"),
        (CONFIG | {"algorithm": "supervised", "reward": "meteor"}, "supervised", ""),  # it reads no reward
        (CONFIG | {"seed": 4}, "supervised+ppo", None),  # another run's
        (CONFIG | {"task": "imdb"}, "supervised+ppo", None),
        (None, "supervised+ppo", None),  # the checkpoint was taken elsewhere
        (None, "supervised", ""),
    ],
)
def test_the_reward_is_that_of_the_runs_configuration(
    config: dict[str, object] | None, algorithm: str, reward: str | None, tmp_path: Path
) -> None:
    if config is not None:
        files.write_toml(tmp_path / "config.toml", config)
    (tmp_path / "checkpoint").mkdir()
    assert _reward_of(tmp_path / "checkpoint", replace(MANIFEST, algorithm=algorithm)) == reward


@pytest.mark.parametrize("beside", ["checkpoint", "final"])
def test_a_checkpoint_beside_another_run_does_not_take_its_reward(beside: str, tmp_path: Path) -> None:
    files.write_toml(tmp_path / "config.toml", CONFIG)
    files.write_json(tmp_path / beside / "grue.json", MANIFEST)
    assert _reward_of(tmp_path / "copied", MANIFEST) == "rouge1"
    assert _reward_of(tmp_path / "copied", replace(MANIFEST, config_sha256="2")) is None


def test_a_run_whose_file_states_no_reward_has_none_that_is_known(tmp_path: Path) -> None:
    files.write_toml(tmp_path / "config.toml", CONFIG | {"reward": ""})
    assert _reward_of(tmp_path / "checkpoint", MANIFEST) is None
