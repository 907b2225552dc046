"""How many processes can share an update's rollouts."""

import pytest

from grue.errors import ConfigError
from grue.lm.distributed import DistributedContext
from grue.runs.recipes import make_config
from grue.runs.train import check_ranks
from grue.task_files import load_task


@pytest.mark.parametrize(
    ("given", "most", "said"),
    [
        ({}, 64, "65 processes share 64 rollouts; raise rollouts, or start fewer"),
        ({"redraws": 3}, 4, r"5 processes share 4 prompts \(rollouts / samples_per_prompt\); raise rollouts, or start"),
    ],
)
def test_every_process_has_something_to_sample(given: dict[str, object], most: int, said: str) -> None:
    """Where groups may be drawn again they stay together, so that there are only as many shares as prompts."""
    config = make_config(load_task("imdb"), "grpo", {"rollouts": 64, "samples_per_prompt": 16, **given})
    check_ranks(config, DistributedContext(rank=0, size=most))
    with pytest.raises(ConfigError, match=said):
        check_ranks(config, DistributedContext(rank=0, size=most + 1))
