"""What ships with the mini suite: exactly the manifest's files, in the data sets' columns; damage is refused."""

import gzip
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

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
TEST_ROWS = LISTED["rows"]["imdb"]["splits"]["test"]["rows"]
SPLITS = [(task, split) for task, about in LISTED["rows"].items() for split in about["splits"]]
COLUMNS = {
    "cnn_dailymail": ["article", "highlights", "id"],
    "commongen": ["concept_set_idx", "concepts", "targets"],
    "dailydialog": ["dialog", "act", "emotion"],
    "imdb": ["text", "label", "positive_continuation"],
    "narrativeqa": ["document", "question", "answers"],
    "totto": [
        *("table_page_title", "table_section_title", "table_section_text", "table", "highlighted_cells"),
        *("example_id", "sentence_annotations", "id", "overlap_subset"),
    ],
    "wmt16": ["translation"],
}


def damage_rows(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes()))))


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of what ships, without the models that no test here damages."""
    shutil.copytree(HERE / "rows", tmp_path / "rows")
    for name in ("causal", "sentiment"):
        shutil.copytree(HERE / "models" / name, tmp_path / "models" / name)
    shutil.copy(HERE / "manifest.json", tmp_path)
    return tmp_path


def test_the_manifest_lists_exactly_the_files_of_a_checkout_and_those_that_ship_are_small() -> None:
    there = {path for folder in ("rows", "models") for path in (HERE / folder).rglob("*") if path.is_file()}
    rows = {HERE / "rows" / task / f"{split}.jsonl.gz": about["splits"][split]["sha256"]
            for task, about in LISTED["rows"].items() for split in about["splits"]}  # fmt: skip
    models = {HERE / "models" / name / file: sha256
              for name, about in LISTED["models"].items()
              for file, sha256 in about["files"].items()}  # fmt: skip
    assert there == rows.keys() | models.keys()
    for path, sha256 in rows.items():
        assert hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest() == sha256, path
    for path, sha256 in models.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == sha256, path
    apart = {HERE / "models" / name for name, about in LISTED["models"].items() if not about.get("ships", True)}
    assert sum(path.stat().st_size for path in there if path.parent not in apart) < 30_000_000


def test_every_mini_task_has_the_rows_that_its_file_states() -> None:
    assert sorted(LISTED["rows"]) == sorted(COLUMNS) == sorted(task_names("mini"))
    for name, about in LISTED["rows"].items():
        task = load_task(name)
        assert about["revision"] == task.data.sources[0].revision
        for split, wanted in task.data.splits.items():
            assert about["splits"][wanted.source]["rows"] == wanted.rows, (name, split)


@pytest.mark.parametrize(("task", "split"), SPLITS)
def test_rows_have_the_columns_of_their_data_set(task: str, split: str) -> None:
    rows = assets.read_rows(task, split, REVISION)
    assert len(rows) == LISTED["rows"][task]["splits"][split]["rows"]
    assert all(list(row) == COLUMNS[task] for row in rows)


def test_rows_are_read_without_torch_and_without_their_generator() -> None:
    code = (
        "import sys; from grue.data.load import load_examples; from grue.task_files import load_task\n"
        f"assert len(load_examples(load_task('imdb'), 'test').examples) == {TEST_ROWS}\n"
        "heavy = {'torch', 'transformers', 'datasets', 'miniworld'}\n"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=HERE.parents[1], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# --- damage ----------------------------------------------------------------------------------------------------------


def test_a_whole_copy_is_accepted(copied: Path) -> None:
    assert assets.locate("causal", copied) == copied / "models" / "causal"
    assert assets.read_rows("wmt16", "test", REVISION, copied) == assets.read_rows("wmt16", "test", REVISION)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda path: path.unlink(), "{} is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "{} cannot be read (Compressed file ended before the "),
        (lambda path: path.write_bytes(b"no archive"), "{} cannot be read (Not a gzipped file (b'no'))"),
        (
            lambda path: damage_rows(path, lambda rows: rows.replace(b'"label":1', b'"label":0', 1)),
            "the sha256 of the rows in {} is not the manifest's",
        ),
        (lambda path: damage_rows(path, lambda rows: rows + b"\n"), "the sha256 of the rows in {} is not the "),
    ],
)
def test_damaged_rows_are_refused(copied: Path, change: Callable[[Path], object], problem: str) -> None:
    path = copied / "rows" / "imdb" / "train.jsonl.gz"
    change(path)
    with pytest.raises(DataError) as caught:
        assets.read_rows("imdb", "train", REVISION, copied)
    message = str(caught.value)
    assert message.startswith(f"The rows of mini/imdb are damaged: {problem.format(path)}")
    assert message.endswith(
        ". Reinstall grue, or in a checkout draw the same rows again: `python -m miniworld rows --only imdb`."
    )
    assert len(assets.read_rows("imdb", "test", REVISION, copied)) == TEST_ROWS


def test_a_bit_flipped_in_the_archive_is_refused(copied: Path) -> None:
    path = copied / "rows" / "commongen" / "test.jsonl.gz"
    packed = bytearray(path.read_bytes())
    packed[len(packed) // 2] ^= 16
    path.write_bytes(packed)
    with pytest.raises(DataError, match=r"^The rows of mini/commongen are damaged: .*test\.jsonl\.gz "):
        assets.read_rows("commongen", "test", REVISION, copied)


@pytest.mark.parametrize(
    ("task", "split", "revision", "error", "message"),
    [
        ("imbd", "test", REVISION, UnknownName, "The mini suite has no rows of a task 'imbd'. Did you mean 'imdb'? "
         "Known: cnn_dailymail, commongen, dailydialog, imdb, narrativeqa, totto, wmt16."),
        ("imdb", "tets", REVISION, UnknownName, "The rows of mini/imdb have no split 'tets'. Did you mean 'test'? "
         "Known: train, validation, test."),
        ("imdb", "test", "7", DataError, f"The rows of mini/imdb that ship are of revision {REVISION!r}, not '7'. Correct "
         "the task file or upgrade grue."),
    ],
)  # fmt: skip
def test_unknown_rows_say_what_is_known(
    task: str, split: str, revision: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        assets.read_rows(task, split, revision)
    assert str(caught.value) == message


def test_a_changed_file_of_a_model_is_refused(copied: Path) -> None:
    weights = copied / "models" / "causal" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(DataError) as caught:
        assets.locate("causal", copied)
    assert str(caught.value) == (
        f"The small model 'causal' is damaged: the sha256 of {weights} is not the manifest's. Reinstall grue to get "
        "the shipped weights back. In a checkout, `python -m miniworld models --only causal` trains new ones, whose "
        "scores do not compare with published ones."
    )


def test_a_missing_file_of_a_model_is_refused(copied: Path) -> None:
    (copied / "models" / "sentiment" / "tokenizer.json").unlink()
    with pytest.raises(DataError, match=r"'sentiment' is damaged: .*tokenizer\.json is missing\. Reinstall grue"):
        assets.locate("sentiment", copied)


# --- models that do not ship -----------------------------------------------------------------------------------------


@pytest.fixture
def larger(copied: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A package whose manifest lists a model that it does not hold, and a folder elsewhere that does."""
    manifest = json.loads((copied / "manifest.json").read_text(encoding="utf-8"))
    manifest["models"]["causal-m"] = {**manifest["models"]["causal"], "ships": False, "minutes": 25.4}
    (copied / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    elsewhere = tmp_path_factory.mktemp("models")
    shutil.copytree(copied / "models" / "causal", elsewhere / "causal-m")
    return copied, elsewhere


def test_a_model_that_does_not_ship_is_found_in_the_package_then_elsewhere(
    larger: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    package, elsewhere = larger
    monkeypatch.setenv("GRUE_MINI_MODELS", str(elsewhere))
    assert assets.locate("causal-m", package) == elsewhere / "causal-m"
    assert assets.locate("causal", package) == package / "models" / "causal"
    shutil.copytree(elsewhere / "causal-m", package / "models" / "causal-m")
    assert assets.locate("causal-m", package) == package / "models" / "causal-m"


def test_a_model_that_is_nowhere_says_how_to_make_it(
    larger: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    package, _ = larger
    monkeypatch.delenv("GRUE_MINI_MODELS", raising=False)
    with pytest.raises(DataError) as caught:
        assets.locate("causal-m", package)
    assert str(caught.value) == (
        f"The small model 'causal-m' is not part of the package and is not in {package / 'models' / 'causal-m'}. A "
        "checkout of grue has it in grue/mini/models: name that folder with GRUE_MINI_MODELS. There, `python -m miniworld "
        "models --only causal-m` trains a new one in about 25 minutes, whose scores do not compare with published "
        "ones."
    )
    monkeypatch.setenv("GRUE_MINI_MODELS", "/nowhere")
    with pytest.raises(DataError, match=r"is not in .*causal-m or /nowhere/causal-m\. A checkout"):
        assets.locate("causal-m", package)


def test_another_model_of_that_name_is_refused(larger: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    package, elsewhere = larger
    monkeypatch.setenv("GRUE_MINI_MODELS", str(elsewhere))
    config = elsewhere / "causal-m" / "config.json"
    config.write_text("{}")
    with pytest.raises(DataError) as caught:
        assets.locate("causal-m", package)
    assert str(caught.value).startswith(
        "The small model 'causal-m' is not the one that published scores were made with: the sha256 of "
        f"{config} is not the manifest's. Get that one, and name its folder with GRUE_MINI_MODELS."
    )


def test_an_unknown_size_is_refused_with_what_there_is(larger: tuple[Path, Path]) -> None:
    package, _ = larger
    with pytest.raises(
        UnknownName, match=r"no small model 'causal-mm'\. Did you mean 'causal-m'\? Known: acts, causal, c"
    ):
        assets.locate("causal-mm", package)


def test_the_doctor_does_not_need_what_does_not_ship(
    larger: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GRUE_MINI_MODELS", raising=False)
    package, _ = larger
    monkeypatch.setattr("grue.doctor.read_manifest", lambda: read_manifest(package))
    monkeypatch.setattr("grue.doctor.assets.locate", partial(assets.locate, folder=package))
    found = {finding.what: finding for finding in examine()}
    assert (found["mini:causal"].fine, found["mini:causal"].needed) == (True, True)
    assert (found["mini:causal-m"].fine, found["mini:causal-m"].needed) == (False, False)


def test_a_missing_manifest_is_an_error(tmp_path: Path) -> None:
    for read in (
        lambda: assets.locate("causal", tmp_path),
        lambda: assets.read_rows("imdb", "test", REVISION, tmp_path),
    ):
        with pytest.raises(DataError, match=r"manifest\.json: cannot be read"):
            read()


# --- who meets the damage --------------------------------------------------------------------------------------------


def test_damage_is_met_by_whoever_loads_the_split(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GRUE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(assets, "rows_path", lambda task, split, folder: tmp_path / task / f"{split}.jsonl.gz")
    with pytest.raises(DataError) as caught:
        load_examples(load_task("imdb"), "test")
    path = tmp_path / "imdb" / "test.jsonl.gz"
    assert str(caught.value) == (
        f"The rows of mini/imdb are damaged: {path} is missing. Reinstall grue, or in a checkout draw the same rows "
        "again: `python -m miniworld rows --only imdb`."
    )


def test_a_place_with_damaged_rows_is_not_available(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert [place.available for place in places(load_task("imdb"), "test")] == [True]
    monkeypatch.setattr(assets, "rows_path", lambda task, split, folder: tmp_path / "none")
    (place,) = places(load_task("imdb"), "test")
    assert (place.where, place.available) == (f"imdb, revision {REVISION}", False)
    assert place.note.startswith(f"The rows of mini/imdb are damaged: {tmp_path / 'none'} is missing.")


def test_a_revision_that_does_not_ship_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GRUE_CACHE", str(tmp_path))
    task = load_task("imdb")
    newer = replace(task, data=replace(task.data, sources=(replace(task.data.sources[0], revision="7"),)))
    with pytest.raises(DataError) as caught:
        load_examples(newer, "test")
    assert str(caught.value) == (
        "mini/imdb, split 'test': no source could be read:\n  mini imdb: The rows of mini/imdb that ship are of revision "
        f"{REVISION!r}, not '7'. Correct the task file or upgrade grue."
    )


def test_the_doctor_checks_the_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = CliRunner().invoke(main, ["doctor"])
    assert whole.exit_code == 0
    assert "  ok  rows of mini/imdb             whole\n" in whole.stdout
    path = assets.rows_path
    monkeypatch.setattr(
        assets, "rows_path", lambda task, *rest: tmp_path / "none" if task == "imdb" else path(task, *rest)
    )
    damaged = CliRunner().invoke(main, ["doctor"])
    assert damaged.exit_code == 3
    assert (
        f"  --  rows of mini/imdb             The rows of mini/imdb are damaged: {tmp_path / 'none'} is missing."
        in damaged.stdout
    )
    assert "  ok  rows of mini/wmt16            whole\n" in damaged.stdout


def test_the_command_that_built_the_models_is_gone() -> None:
    result = CliRunner().invoke(main, ["mini", "build"])
    assert result.exit_code == 2
    assert "There is no command 'mini'." in result.stderr
