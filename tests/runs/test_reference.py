"""What `grue algorithms` and docs/reference/algorithms.md say of settings: all of them, each with a meaning."""

import dataclasses
import json

import pytest
from click.testing import CliRunner

from grue.algorithms import BUILT_IN
from grue.cli.main import main
from grue.rl.settings import RolloutConfig
from grue.runs.algorithms import find_card
from grue.runs.reference import describe_algorithm, shared_settings


def told(name):
    return {setting.name: setting for group in describe_algorithm(name).groups for setting in group.settings}


@pytest.mark.parametrize("algorithm", BUILT_IN)
def test_every_setting_that_has_an_effect_is_listed_once_with_a_meaning(algorithm):
    found = find_card(algorithm)
    listed = [setting for group in describe_algorithm(algorithm).groups for setting in group.settings]
    names = [setting.name for setting in listed]
    assert sorted(names) == sorted({f.name for f in dataclasses.fields(found.settings)} - found.without_effect)
    assert [setting.name for setting in listed if len(setting.meaning) < 10] == []
    assert all(describe_algorithm(algorithm).summary) and describe_algorithm(algorithm).name == algorithm


def test_defaults_bounds_and_the_papers_values_are_those_of_the_class_and_of_its_recipes():
    nlpo, a2c, grpo = told("nlpo"), told("a2c"), told("grpo")
    assert (nlpo["clip"].default, nlpo["clip"].paper) == (0.2, "0.2")
    assert nlpo["top_p"].bounds == "at least 0 and at most 1"
    assert "0.5 (wmt16)" in nlpo["top_p"].paper  # Table 20 of the paper
    assert nlpo["gamma"].paper == "0.99; its text 0.95"
    assert (nlpo["kl_target"].type, nlpo["kl_target"].default) == ("float or none", None)
    assert (a2c["gae_lambda"].default, nlpo["gae_lambda"].default) == (1.0, 0.95)
    assert "epochs" not in a2c and "epochs" in nlpo
    assert (grpo["samples_per_prompt"].default, grpo["samples_per_prompt"].bounds) == (8, "at least 2")
    assert grpo["scale_by"].type == "group | nothing"


def test_the_shared_settings_have_the_defaults_of_their_own_classes():
    shared = {setting.name: setting for group in shared_settings() for setting in group.settings}
    assert (shared["gae_lambda"].default, shared["optimizer"].default) == (0.95, "adamw")
    assert {field.name for field in dataclasses.fields(RolloutConfig)} <= set(shared)


def test_the_command_lists_and_shows(refused):
    listing = CliRunner().invoke(main, ["algorithms", "list"])
    assert [line.split()[0] for line in listing.output.splitlines()[: len(BUILT_IN)]] == list(BUILT_IN)
    shown = CliRunner().invoke(main, ["algorithms", "show", "ppo"]).output
    assert "\n  clip = 0.2  ·  float  ·  above 0  ·  paper: 0.2\n      ε of the policy ratio.\n" in shown
    record = json.loads(CliRunner().invoke(main, ["algorithms", "show", "ppo", "--json"]).output)
    assert record["groups"][0]["settings"][0]["name"] == "clip"
    assert CliRunner().invoke(main, ["algorithms", "show", "reinforce++"]).output.startswith("reinforce_plus_plus: ")
    for name in ("nlop", "GSPO", "dr-grpo", "tpo_l", "supervised+ppo"):  # a misspelling, presets, a chain
        refused.command("algorithms", "show", name, code=2)
