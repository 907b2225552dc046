"""`python -m miniworld rows` and `held-back`: the rows that ship, drawn once, fresh ones, and what files they leave."""

import errno
import gzip
import json
import lzma
import shutil
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest
from click.testing import CliRunner

from grue.data.load import load_examples
from grue.errors import ConfigError, DataError
from grue.mini.manifest import HERE
from grue.task_files import load_task
from miniworld import commongen, draw, imdb, wmt16
from miniworld.__main__ import main
from miniworld.german.combinations import combinations as recombined
from miniworld.german.combinations import held_out as held_combinations
from miniworld.ship import write_held_back


def miniworld(*arguments):
    result = CliRunner().invoke(main, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stderr


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """The folder that the command wrote all rows to, beside a manifest that lists none, and what it said."""
    folder = tmp_path_factory.mktemp("drawn")
    manifest = json.loads((HERE / "manifest.json").read_text(encoding="utf-8"))
    (folder / "manifest.json").write_text(json.dumps({**manifest, "rows": {}}), encoding="utf-8")
    return folder, miniworld("rows", "--out", folder)


def packed(folder):
    return {str(path.relative_to(folder)): path for path in (folder / "rows").rglob("*.jsonl.xz")}


def test_the_rows_that_ship_are_drawn_byte_for_byte(drawn):
    """Each test process has a hash seed of its own, which must not matter."""
    folder, said = drawn
    assert (
        said.splitlines()[3] == "imdb: 8000 train, 500 validation, 1000 test, 3000 rl" and len(said.splitlines()) == 7
    )
    assert packed(folder).keys() == packed(HERE).keys() and len(packed(HERE)) == 28
    for name, path in packed(HERE).items():
        assert lzma.decompress(packed(folder)[name].read_bytes()) == lzma.decompress(path.read_bytes()), name
    assert (folder / "manifest.json").read_bytes() == (HERE / "manifest.json").read_bytes()


def test_one_task_drawn_later_is_packed_alike_and_leaves_the_others_and_the_models(drawn, tmp_path, monkeypatch):
    shutil.copy(HERE / "manifest.json", tmp_path)
    changed = json.loads((HERE / "manifest.json").read_text(encoding="utf-8"))
    for task in ("imdb", "wmt16"):
        changed["rows"][task]["splits"]["test"] = {"rows": 1, "sha256": "0"}
    (tmp_path / "manifest.json").write_text(json.dumps(changed), encoding="utf-8")
    monkeypatch.setattr("time.time", lambda: 2e9)
    said = miniworld("rows", "--only", "imdb", "--out", tmp_path)
    assert said == "imdb: 8000 train, 500 validation, 1000 test, 3000 rl\n"
    later = packed(tmp_path)
    assert later.keys() == {f"rows/imdb/{split}.jsonl.xz" for split in ("train", "validation", "test", "rl")}
    assert all(path.read_bytes() == packed(drawn[0])[name].read_bytes() for name, path in later.items())
    before, after = (json.loads((folder / "manifest.json").read_text()) for folder in (HERE, tmp_path))
    assert after["rows"].pop("wmt16") == changed["rows"]["wmt16"]
    del before["rows"]["wmt16"]
    assert after == before


@pytest.mark.parametrize(("what", "name"), [("rows", "imbd"), ("models", "sentimental")])
def test_an_unknown_name_is_refused_before_anything_is_drawn(what, name, tmp_path):
    result = CliRunner().invoke(main, [what, "--only", name, "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert f"Invalid value for '--only': {name!r} is not one of " in result.stderr
    assert list(tmp_path.iterdir()) == []


# --- fresh rows ------------------------------------------------------------------------------------------------------


def reviews(fresh, rows):
    """They are balanced and of known words."""
    assert Counter(row["label"] for row in fresh) == {0: 20, 1: 21}
    assert imdb.words(fresh) <= imdb.words(rows["train"])


def concepts(fresh, rows):
    """They are known, and what training has of them together is not."""
    trained = [frozenset(row["concepts"]) for row in rows["train"]]
    for asked in (frozenset(row["concepts"]) for row in fresh):
        assert max(len(asked & other) for other in trained) <= (1 if len(asked) == 3 else 2)
        assert all(any(concept in other for other in trained) for concept in asked)


def tables(fresh, rows):
    """Two in five are of new kinds."""
    assert Counter(row["overlap_subset"] for row in fresh) == {"True": 25, "False": 16}


def translations(fresh, rows):
    """Their combinations of words are held out."""
    assert all(recombined(row["translation"]["en"]) & held_combinations("2") for row in fresh)
    known = {wmt16.bare(text, "2") for split in rows.values() for row in split for text in row["translation"].values()}
    assert known.isdisjoint(wmt16.bare(text, "2") for row in fresh for text in row["translation"].values())


# Task → the texts that no row shares with another split.
ASKED = {
    "cnn_dailymail": lambda row: {row["article"], row["highlights"].split("\n")[0]},
    "commongen": lambda row: {*row["targets"], "+".join(sorted(row["concepts"]))},
    "dailydialog": lambda row: {*row["dialog"][5:]},
    "imdb": lambda row: {imdb.beginning(row["text"]), row["positive_continuation"]},
    "narrativeqa": lambda row: {row["document"]["summary"]["text"]},
    "totto": lambda row: {*row["sentence_annotations"]["final_sentence"]},
    "wmt16": lambda row: {*row["translation"].values()},
}
# Task → what else holds of fresh rows.
RULES = {"imdb": reviews, "commongen": concepts, "totto": tables, "wmt16": translations}


@pytest.mark.parametrize("task", draw.TASKS)
def test_fresh_rows_follow_the_seed_and_the_rules_of_test_and_share_nothing_with_what_ships(task, drawn, shipped):
    fresh = draw.held_back(task, seed=77, count=41)
    assert len(fresh) == 41 or task == "dailydialog"  # where a row can hold two examples
    assert fresh == draw.held_back(task, seed=77, count=41) != draw.held_back(task, seed=78, count=41)
    assert {tuple(row) for row in fresh} == {tuple(row) for row in shipped[task]["test"]}
    asked = ASKED[task]
    known = set().union(*(asked(row) for split in shipped[task].values() for row in split))
    assert all(known.isdisjoint(asked(row)) for row in fresh)
    if task in RULES:
        RULES[task](fresh, shipped[task])


def test_more_rows_of_training_are_new_and_have_no_pair_that_is_held_out(drawn, shipped):
    fresh = commongen.more_training("2", 77, 60)
    assert len(fresh) == 60 and fresh == commongen.more_training("2", 77, 60) != commongen.more_training("2", 78, 60)
    assert not any(commongen.held_out(*pair) for row in fresh for pair in combinations(row["concepts"], 2))
    known = {tuple(sorted(row["concepts"])) for split in shipped["commongen"].values() for row in split}
    assert not known & {tuple(sorted(row["concepts"])) for row in fresh}


def held_back(*arguments):
    return CliRunner().invoke(main, ["held-back", "--task", "imdb", *map(str, arguments)])


def test_a_file_of_fresh_rows_is_a_split_and_is_not_replaced_unless_that_is_asked_for(drawn, tmp_path):
    path, other = tmp_path / "secret.jsonl", tmp_path / "secret.jsonl.gz"
    result = held_back("--seed", 5, "--count", 7, "--out", path)
    assert (result.exit_code, result.stderr) == (0, f"{path}: 7 examples in 7 rows\n")
    fresh = draw.held_back("imdb", seed=5, count=7)
    assert [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] == list(fresh)
    assert held_back("--seed", 5, "--count", 7, "--out", other).exit_code == 0
    first = other.read_bytes()
    assert gzip.decompress(first) == path.read_bytes()
    assert len(load_examples(load_task("imdb"), str(path)).examples) == 7
    again = held_back("--seed", 6, "--out", other)
    assert str(again.exception) == f"{other}: already exists; choose another file, or replace it with --force."
    assert other.read_bytes() == first
    assert held_back("--seed", 6, "--count", 7, "--out", other, "--force").exit_code == 0
    assert other.read_bytes() != first


def test_a_draw_that_cannot_be_written_leaves_what_is_there(tmp_path, monkeypatch, refused):
    with refused(ConfigError):
        write_held_back(tmp_path / "secret.csv", "imdb", 5, 3)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("miniworld.ship.held_back", lambda *given: [{"text": "new"}])
    path = tmp_path / "secret.jsonl.gz"
    path.write_bytes(b"an earlier draw")

    def full(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(DataError, match="secret.jsonl.gz"):
        write_held_back(path, "imdb", 5, 3, force=True)
    assert (path.read_bytes(), [*tmp_path.iterdir()]) == (b"an earlier draw", [path])
