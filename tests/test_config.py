"""Configurations: default < recipe < preset < override, and what is refused."""

import dataclasses

import pytest
import tiny

from grue.errors import ConfigError, UnknownName
from grue.training.config import make_config, split_algorithm
from grue.training.plan import plan_stages, sole_owner


def task(**recipes):
    return dataclasses.replace(tiny.task("causal"), recipes=recipes)


def test_later_layers_win():
    made = task(ppo={"clip": 0.3, "gamma": 0.9}, **{"supervised+ppo": {"gamma": 0.8}})
    assert make_config(task(), "ppo", {}).clip == 0.2
    assert make_config(made, "ppo", {}).gamma == 0.9
    warm = make_config(made, "supervised+ppo", {"updates": 3})
    assert (warm.clip, warm.gamma, warm.updates) == (0.3, 0.8, 3)


def test_presets_are_nlpos():
    made = task(nlpo={"mass_coefficient": 0.7})
    assert make_config(made, "nlpo", {}).mass_coefficient == 0.7
    assert make_config(made, "nlpo", {}, "rl4lms").mask_source == "frozen"
    assert make_config(made, "nlpo", {"mass_coefficient": 0.2}, "stable").mass_coefficient == 0.2
    with pytest.raises(UnknownName, match="There is no preset 'stabel'. Did you mean 'stable'"):
        make_config(made, "nlpo", {}, "stabel")
    with pytest.raises(ConfigError, match="one of NLPO's; 'ppo' has none"):
        make_config(made, "ppo", {}, "paper")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"learning_rat": 1e-4}, r"nlpo on tests/tiny: unknown key 'learning_rat'. Did you mean 'learning_rate'\?"),
        ({"updates": "ten"}, "updates: expected a whole number, found str 'ten'"),
        ({"updates": 0}, "updates must be above 0, found 0"),
        ({"gamma": 1.5}, "gamma must lie between 0 and 1, found 1.5"),
        ({"kl_target": 0.0}, "kl_target must be above 0, found 0.0; leave it out to turn it off"),
        ({"value_model": "shard"}, r"'shard' is not one of separate, shared. Did you mean 'shared'\?"),
        ({"minibatch_size": 128}, "minibatch_size 128 exceeds rollouts 64"),
    ],
)
def test_values_that_cannot_be_are_refused(overrides, message):
    with pytest.raises(ConfigError, match=message):
        make_config(task(), "nlpo", overrides)


def test_algorithms_are_stages():
    assert split_algorithm("supervised+nlpo") == ("supervised", "nlpo")
    with pytest.raises(UnknownName, match=r"no algorithm 'npo'. Did you mean 'nlpo'\?"):
        split_algorithm("npo")
    for chain in ("ppo+nlpo", "supervised+supervised", "supervised+ppo+nlpo"):
        with pytest.raises(ConfigError, match="is no chain of stages"):
            split_algorithm(chain)


def test_a_warm_start_shares_its_first_stage(tmp_path):
    first, second = plan_stages(tiny.task("causal"), "supervised+ppo", 3, tmp_path, overrides={"updates": 7})
    assert first.folder == tmp_path / "tests" / "tiny" / "supervised" / "seed-3"
    assert second.folder == tmp_path / "tests" / "tiny" / "supervised+ppo" / "seed-3"
    assert second.init == first.checkpoint
    assert second.config.updates == 7
    assert [plan.algorithm for plan in plan_stages(tiny.task("causal"), "supervised", 3, tmp_path)] == ["supervised"]
    with pytest.raises(ConfigError, match="--init starts from a checkpoint; with it, write --algo ppo"):
        plan_stages(tiny.task("causal"), "supervised+ppo", 3, tmp_path, init=tmp_path)


def test_a_folder_has_one_process_at_a_time(tmp_path):
    message = "another process is training here"
    with sole_owner(tmp_path / "run"), pytest.raises(ConfigError, match=message), sole_owner(tmp_path / "run"):
        pass
    with sole_owner(tmp_path / "run"):
        pass
