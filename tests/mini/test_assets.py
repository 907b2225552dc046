"""What ships with the mini suite: exactly the manifest's files, in the data sets' columns; damage is refused."""

import hashlib
import json
import lzma
import shutil
from dataclasses import replace
from functools import partial

import pytest
from click.testing import CliRunner

from grue.cli.main import main
from grue.data.load import load_examples
from grue.data.places import places
from grue.doctor import examine
from grue.errors import DataError, UnknownName
from grue.mini import assets
from grue.mini.manifest import HERE, read_manifest
from grue.task_files import load_task, task_names

LISTED = json.loads((HERE / "manifest.json").read_text(encoding="utf-8"))
REVISION = LISTED["rows"]["imdb"]["revision"]
COLUMNS = {
    "cnn_dailymail": "article highlights id facts",
    "commongen": "concept_set_idx concepts targets",
    "dailydialog": "dialog act emotion facts",
    "imdb": "text label positive_continuation asked negative_continuation",
    "narrativeqa": "document question answers facts",
    "totto": "table_page_title table_section_title table_section_text table highlighted_cells example_id "
    "sentence_annotations id overlap_subset",
    "wmt16": "translation",
}


@pytest.fixture
def copied(tmp_path):
    """A copy of what ships, without the rows and models that no test here damages."""
    for place in ("rows/imdb", "models/causal", "models/sentiment"):
        shutil.copytree(HERE / place, tmp_path / place)
    shutil.copy(HERE / "manifest.json", tmp_path)
    return tmp_path


def test_the_manifest_lists_exactly_the_files_of_a_checkout_and_those_that_ship_are_small():
    there = {path for folder in ("rows", "models") for path in (HERE / folder).rglob("*") if path.is_file()}
    rows = {HERE / "rows" / task / f"{split}.jsonl.xz": about["splits"][split]["sha256"]
            for task, about in LISTED["rows"].items() for split in about["splits"]}  # fmt: skip
    models = {HERE / "models" / name / file: sha256
              for name, about in LISTED["models"].items() for file, sha256 in about["files"].items()}  # fmt: skip
    assert there == rows.keys() | models.keys()
    for path, sha256 in (rows | models).items():
        content = path.read_bytes()
        assert hashlib.sha256(lzma.decompress(content) if path in rows else content).hexdigest() == sha256, path
    apart = {HERE / "models" / name for name, about in LISTED["models"].items() if not about.get("ships", True)}
    ships = [path for path in there if path.parent not in apart]
    assert sum(path.stat().st_size for path in ships) < 30_000_000


def test_every_mini_task_has_the_rows_that_its_file_states_in_the_columns_of_its_data_set():
    assert sorted(LISTED["rows"]) == sorted(COLUMNS) == sorted(task_names("mini"))
    for name, about in LISTED["rows"].items():
        task = load_task(name)
        assert about["revision"] == task.data.sources[0].revision
        for split, wanted in task.data.splits.items():
            assert about["splits"][wanted.source]["rows"] == wanted.rows, (name, split)
        rows = assets.read_rows(name, "test", REVISION)
        assert len(rows) == task.data.splits["test"].rows
        assert all(list(row) == COLUMNS[name].split() for row in rows), name


def repacked(path, change):
    path.write_bytes(lzma.compress(change(lzma.decompress(path.read_bytes()))))


def flipped(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 16
    path.write_bytes(content)


DAMAGES = {
    "missing": lambda path: path.unlink(),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "no archive": lambda path: path.write_bytes(b"no archive"),
    "another label": lambda path: repacked(path, lambda rows: rows.replace(b'"label":1', b'"label":0', 1)),
    "another line": lambda path: repacked(path, lambda rows: rows + b"\n"),
    "another bit": lambda path: flipped(path, 20_030),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_rows_are_refused(copied, damage, refused):
    damage(copied / "rows/imdb/test.jsonl.xz")
    with refused(DataError):
        assets.read_rows("imdb", "test", REVISION, copied)
    whole = assets.read_rows("imdb", "validation", REVISION)
    assert assets.read_rows("imdb", "validation", REVISION, copied) == whole


def test_unknown_rows_say_what_is_known(refused, tmp_path):
    for task, split, revision, error in (
        ("imbd", "test", REVISION, UnknownName),
        ("imdb", "tets", REVISION, UnknownName),
        ("imdb", "test", "7", DataError),
    ):
        with refused(error):
            assets.read_rows(task, split, revision)
    for read in (partial(assets.locate, "causal"), partial(assets.read_rows, "imdb", "test", REVISION)):
        with refused(DataError):  # a folder without a manifest
            read(tmp_path)


def test_a_changed_or_missing_file_of_a_model_is_refused(copied, refused):
    flipped(copied / "models/causal/model.safetensors", -1)
    (copied / "models/sentiment/tokenizer.json").unlink()
    for name in ("causal", "sentiment"):
        with refused(DataError):
            assets.locate(name, copied)


@pytest.fixture
def larger(copied, tmp_path_factory, monkeypatch):
    """A package whose manifest lists a model that it does not hold, and a folder elsewhere that does."""
    monkeypatch.delenv("GRUE_MINI_MODELS", raising=False)
    models = {name: LISTED["models"][name] for name in ("causal", "sentiment")}
    models["causal-m"] = {**models["causal"], "ships": False, "minutes": 25.4}
    rows = {name: LISTED["rows"][name] for name in ("imdb", "wmt16")}
    (copied / "manifest.json").write_text(json.dumps({**LISTED, "rows": rows, "models": models}), encoding="utf-8")
    elsewhere = tmp_path_factory.mktemp("models")
    shutil.copytree(copied / "models" / "causal", elsewhere / "causal-m")
    return copied, elsewhere


def test_a_model_that_does_not_ship_is_found_in_the_package_then_elsewhere(larger, monkeypatch, refused):
    package, elsewhere = larger
    with refused(DataError):
        assets.locate("causal-m", package)
    monkeypatch.setenv("GRUE_MINI_MODELS", "/nowhere")
    with refused(DataError):
        assets.locate("causal-m", package)
    monkeypatch.setenv("GRUE_MINI_MODELS", str(elsewhere))
    assert assets.locate("causal-m", package) == elsewhere / "causal-m"
    assert assets.locate("causal", package) == package / "models" / "causal"
    shutil.copytree(elsewhere / "causal-m", package / "models" / "causal-m")
    assert assets.locate("causal-m", package) == package / "models" / "causal-m"


def test_another_model_of_a_name_and_an_unknown_name_are_refused(larger, monkeypatch, refused):
    package, elsewhere = larger
    monkeypatch.setenv("GRUE_MINI_MODELS", str(elsewhere))
    (elsewhere / "causal-m/config.json").write_text("{}")
    with refused(DataError):
        assets.locate("causal-m", package)
    with refused(UnknownName):
        assets.locate("causal-mm", package)


def test_the_doctor_checks_rows_and_models_and_does_not_need_what_does_not_ship(larger, monkeypatch, tmp_path):
    package, path = larger[0], assets.rows_path
    (package / "models/sentiment/tokenizer.json").unlink()
    monkeypatch.setattr("grue.doctor.read_manifest", lambda: read_manifest(package))
    monkeypatch.setattr("grue.doctor.assets.locate", partial(assets.locate, folder=package))
    monkeypatch.setattr(assets, "rows_path", lambda task, *rest: path("none" if task == "imdb" else task, *rest))
    found = {finding.subject: (finding.fine, finding.needed) for finding in examine()}
    assert (found["mini:causal"], found["mini:causal-m"]) == ((True, True), (False, False))
    assert found["mini:sentiment"] == (False, True)
    assert (found["rows of mini/imdb"][0], found["rows of mini/wmt16"][0]) == (False, True)
    damaged = CliRunner().invoke(main, ["tools", "doctor"])
    assert damaged.exit_code == 3
    assert "  --  rows of mini/imdb             The rows of mini/imdb are damaged: " in damaged.stdout
    assert "  ok  rows of mini/wmt16            whole\n" in damaged.stdout


def test_damage_is_met_by_whoever_loads_the_split(monkeypatch, tmp_path, refused):
    monkeypatch.setenv("GRUE_CACHE", str(tmp_path / "cache"))
    task = load_task("imdb")
    assert [place.available for place in places(task, "test")] == [True]
    monkeypatch.setattr(assets, "rows_path", lambda *given: tmp_path / "none.jsonl.xz")
    with refused(DataError):
        load_examples(task, "test")
    (place,) = places(task, "test")
    assert (place.where, place.available) == (f"imdb, revision {REVISION}", False)
    refused.message(place.note)
    newer = replace(task, data=replace(task.data, sources=(replace(task.data.sources[0], revision="7"),)))
    with refused(DataError):
        load_examples(newer, "test")
