"""What a result says of the reward that its system was trained on."""

from dataclasses import replace

import pytest
from support.late import late

from grue import files
from grue.lm.checkpoint import CheckpointManifest

systems = late("grue.evaluation.systems")
MANIFEST = CheckpointManifest(
    suite="mini", task="commongen", task_hash="0", system="kind", algorithm="supervised+ppo", backbone="mini:seq2seq",
    seed=3, update=8, config_sha256="1", validation={}, training={},
)  # fmt: skip
CONFIG = {"suite": "mini", "task": "commongen", "algorithm": "supervised+ppo", "seed": 3, "reward": "rouge1"}


@pytest.mark.parametrize(
    ("config", "algorithm", "reward"),
    [
        (CONFIG, "supervised+ppo", "rouge1"),
        (CONFIG | {"reward": ""}, "supervised+ppo", None),
        (CONFIG | {"algorithm": "supervised", "reward": "meteor"}, "supervised", ""),  # it reads no reward
        (CONFIG | {"seed": 4}, "supervised+ppo", None),  # another run's
        (CONFIG | {"task": "imdb"}, "supervised+ppo", None),
        (None, "supervised+ppo", None),  # the checkpoint was taken elsewhere
        (None, "supervised", ""),
    ],
)
def test_the_reward_is_that_of_the_runs_configuration(config, algorithm, reward, tmp_path):
    if config is not None:
        files.write_toml(tmp_path / "config.toml", config)
    assert systems._trained_on(tmp_path / "checkpoint", replace(MANIFEST, algorithm=algorithm)).get("reward") == reward


@pytest.mark.parametrize("beside", ["checkpoint", "final"])
def test_a_checkpoint_beside_another_run_does_not_take_its_reward(beside, tmp_path):
    files.write_toml(tmp_path / "config.toml", CONFIG)
    files.write_json(tmp_path / beside / "grue.json", MANIFEST)
    assert systems._trained_on(tmp_path / "copied", MANIFEST).get("reward") == "rouge1"
    assert "reward" not in systems._trained_on(tmp_path / "copied", replace(MANIFEST, config_sha256="2"))
