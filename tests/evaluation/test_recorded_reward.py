"""What a result says of the reward that its system was trained on."""

from dataclasses import replace
from pathlib import Path

import pytest

from grue import files
from grue.evaluation.evaluate import _reward_of
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
