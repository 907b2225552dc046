"""`grue schema` and `grue doctor`: small things that must be true."""

import dataclasses
import json
import platform
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.paths import ROOT

from grue.cli.main import main
from grue.doctor import NEEDED, OPTIONAL
from grue.records import Result


def grue(*arguments):
    return CliRunner().invoke(main, list(arguments))


def test_the_schema_lists_what_a_result_must_say():
    schema = json.loads(grue("schema", "result").stdout)
    assert set(schema["properties"]) == {f.name for f in dataclasses.fields(Result)}
    assert "errors" not in schema["required"]
    assert "task_hash" in schema["required"]
    assert schema["properties"]["status"] == {"enum": ["complete", "failed"]}
    assert schema["properties"]["scores"]["items"]["properties"]["value"] == {"type": "number"}
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize("kind", ["task", "example", "prediction", "submission", "board", "reported", "by-reference"])
def test_every_kind_of_file_has_a_schema(kind):
    assert json.loads(grue("schema", kind).stdout)["type"] == "object"


def test_the_doctor_finds_packages_and_small_models():
    result = grue("doctor")
    assert result.exit_code == 0
    for name in ("torch", "transformers", "mini:causal", "mini:seq2seq"):
        assert f"ok  {name}" in result.stdout


def test_the_doctor_knows_every_package_that_is_needed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sorted(NEEDED) == sorted(one.partition(">=")[0] for one in project["dependencies"])
    assert {*OPTIONAL} <= {one.partition(">=")[0] for some in project["optional-dependencies"].values() for one in some}


def test_the_doctor_says_what_the_machine_is(monkeypatch, tmp_path):
    from grue import doctor

    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setattr(doctor.hub.constants, "ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.setattr(doctor.hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(2**40, 2**40, 2**20))
    shown = {one.what: one for one in doctor.examine()}
    assert shown["Python"].state == f"{platform.python_version()} at {sys.executable}"
    assert "core" in shown["device"].state or "GPU" in shown["device"].state
    assert not shown["hub"].fine
    assert shown["hub"].state.startswith("http://127.0.0.1:9 cannot be reached")
    assert not shown["disk of this folder"].fine
    assert shown["disk of this folder"].state == f"0.0 GiB free in {Path.cwd()}"
    assert all("hf_secret" not in one.state for one in shown.values())


def test_a_damaged_small_model_is_found_by_the_doctor(monkeypatch):
    from grue.errors import DataError
    from grue.mini import assets

    def damaged(name):
        raise DataError(f"{name} is damaged")

    monkeypatch.setattr(assets, "locate", damaged)
    result = grue("doctor")
    assert result.exit_code == 3
    assert "--  mini:causal" in result.stdout


def test_all_that_is_wrong_with_task_files_is_said_at_once(tmp_path):
    shape, sense = tmp_path / "shape.toml", tmp_path / "sense.toml"
    metric = '{ name = "rougeLL", axis = "preference", range = [0, 1] }'
    rest = '[data]\nsources = [{ kind = "local", files = { train = "none.jsonl" } }]\nevaluation = "train"\n'
    rest += '[backbone]\nfamily = "causal"\nmodel = "mini:causal"\n[recipes.ppoo]\nupdates = 1\n'
    sense.write_text(f'reward = "rougeX"\nmetrics = [{metric}]\n{rest}')
    wrong = rest.replace('"causal"', '"casual"')
    shape.write_text(f"reward = 1\nmetrics = [{metric}, {metric.replace('preference', 'pref')}]\n{wrong}")
    result = grue("tasks", "validate", str(shape), str(sense))
    assert (result.exit_code, result.stdout) == (2, "")
    found = [line.removeprefix("Error: ").split(".toml: ")[1] for line in result.stderr.splitlines()]
    for line, start in zip(
        found,
        (
            "metrics[1]: axis: str 'pref' is not one of",
            "reward: expected a string, found int 1.",
            "backbone: family: str 'casual' is not one of",
            f"{tmp_path}/none.jsonl: no such file.",
            "There is no metric 'rougeX'. Did you mean",
            "There is no metric 'rougeLL'. Did you mean",
            "own/sense: recipes.ppoo is of no algorithm. Did you mean 'ppo'?",
        ),
        strict=True,
    ):
        assert line.startswith(start), (line, start)


def test_task_files_are_validated_without_their_models(tmp_path):
    from grue.task_files import suite_folder

    paths = sorted(map(str, suite_folder("grue").glob("*.toml")))
    result = grue("tasks", "validate", *paths)
    assert result.exit_code == 0
    assert result.stdout.count(": fine (grue/") == len(paths) > 1


def test_help_shows_no_empty_defaults():
    for command in (("evaluate",), ("push",), ("submit", "refer")):
        shown = grue(*command, "--help")
        assert shown.exit_code == 0 and '[default: ""]' not in shown.stdout, command
    assert "[default: 64; x>=1]" in grue("evaluate", "--help").stdout  # others stay
