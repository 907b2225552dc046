"""`grue tools schema`, `grue tools doctor` and `grue tasks validate`: small things that must be true."""

import dataclasses
import json
import platform
import shutil
import sys
import tomllib
from pathlib import Path
from unittest.mock import Mock

import pytest
from support.commands import grue
from support.paths import ROOT

from grue import doctor
from grue.errors import DataError
from grue.mini import assets
from grue.records import Result

KINDS = ("result", "task", "example", "prediction", "submission", "board", "reported", "recomputed", "scored")


def test_the_schema_lists_what_a_file_must_say():
    shown = {kind: json.loads(grue("tools", "schema", kind).stdout) for kind in KINDS}
    titles = [one["title"] for one in shown.pop("scored")["anyOf"]]
    assert titles == ["ScoredHeader", "PairsHeader", "RewardedLine", "PairLine", "RankingLine"]
    assert {schema["type"] for schema in shown.values()} == {"object"}
    result = shown["result"]
    assert set(result["properties"]) == {field.name for field in dataclasses.fields(Result)}
    assert "errors" not in result["required"] and "task_hash" in result["required"]
    assert result["properties"]["status"] == {"type": "string", "enum": ["complete", "failed"]}
    assert result["properties"]["scores"]["items"]["properties"]["n"] == {
        "type": "integer",
        "minimum": 0,
        "maximum": 2**31 - 1,
    }
    assert result["additionalProperties"] is False


def test_the_doctor_knows_every_package_that_is_needed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sorted(doctor.NEEDED) == sorted(one.partition(">=")[0] for one in project["dependencies"])
    offered = {one.partition(">=")[0] for some in project["optional-dependencies"].values() for one in some}
    assert {*doctor.OPTIONAL} <= offered


def test_the_doctor_finds_what_there_is_and_says_what_the_machine_is(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setattr(doctor.hub.constants, "ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.setattr(doctor.hub.constants, "HF_HUB_OFFLINE", False)
    read = []
    monkeypatch.setattr(assets, "read_rows", lambda *which: read.append(which))  # tests/mini reads them all
    said = grue("tools", "doctor").stdout
    assert len(read) == 7 * 4
    for name in ("torch", "transformers", "rows of mini/imdb", "mini:causal", "mini:seq2seq"):
        assert f"ok  {name}" in said
    assert f"{platform.python_version()} at {sys.executable}\n" in said
    assert any("core" in line or "GPU" in line for line in said.splitlines() if line.startswith("  ok  device"))
    assert "  --  hub                           http://127.0.0.1:9 cannot be reached" in said
    assert "hf_secret" not in said


@pytest.mark.parametrize(("address", "port"), [("http://hub.local", 80), ("https://hub.local", 443)])
def test_a_hub_without_a_port_is_asked_at_that_of_its_protocol(monkeypatch, address, port):
    asked = []
    monkeypatch.setattr(doctor.hub.constants, "ENDPOINT", address)
    monkeypatch.setattr(doctor.hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("socket.create_connection", lambda place, patience: asked.append(place) or Mock())
    assert doctor.hub.describe()[0] and asked == [("hub.local", port)]


def test_what_is_damaged_or_full_is_found_by_the_doctor(monkeypatch):
    def damaged(name, *rest):
        raise DataError(f"{name} is damaged")

    monkeypatch.setattr(assets, "locate", damaged)
    monkeypatch.setattr(assets, "read_rows", damaged)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(2**40, 2**40, 2**20))
    said = grue("tools", "doctor", code=3).stdout
    assert "  --  rows of mini/imdb             imdb is damaged\n" in said and "--  mini:causal" in said
    assert f"  --  disk of this folder           0.0 GiB free in {Path.cwd()}\n" in said


def test_all_that_is_wrong_with_task_files_is_said_at_once(tmp_path, refused):
    shape, sense = tmp_path / "shape.toml", tmp_path / "sense.toml"
    metric = '{ name = "rougeLL", axis = "preference", range = [0, 1] }'
    rest = '[data]\nsources = [{ kind = "local", files = { train = "none.jsonl" } }]\nevaluation = "train"\n'
    rest += '[backbone]\nfamily = "causal"\nmodel = "mini:causal"\n[recipes.ppoo]\nupdates = 1\n'
    sense.write_text(f'reward = "rougeX"\nmetrics = [{metric}]\n{rest}')
    wrong = rest.replace('"causal"', '"casual"')
    shape.write_text(f"reward = 1\nmetrics = [{metric}, {metric.replace('preference', 'pref')}]\n{wrong}")
    found = grue("tasks", "validate", shape, sense, code=2)
    assert found.stdout == ""
    refused.message(found.stderr)
