"""`grue schema` and `grue doctor`: small things that must be true."""

import dataclasses
import json

import pytest
from click.testing import CliRunner

from grue.cli.main import main
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


def test_a_damaged_small_model_is_found_by_the_doctor(monkeypatch):
    from grue.errors import DataError
    from grue.mini import assets

    def damaged(name):
        raise DataError(f"{name} is damaged")

    monkeypatch.setattr(assets, "locate", damaged)
    result = grue("doctor")
    assert result.exit_code == 3
    assert "--  mini:causal" in result.stdout


def test_task_files_are_validated_without_their_models(tmp_path):
    from grue.task_files import suite_folder

    paths = sorted(map(str, suite_folder("grue").glob("*.toml")))
    result = grue("tasks", "validate", *paths)
    assert result.exit_code == 0
    assert result.stdout.count(": fine (grue/") == len(paths) > 1
