"""A folder given with `--data-dir` is known by the content of the files that are read, wherever they really lie."""

import os
from dataclasses import replace
from hashlib import sha1
from pathlib import Path

import pytest
from support import hub_server

from grue.data.archives import File, everywhere
from grue.data.formats import LAYOUTS, read_folder
from grue.data.load import load_examples, local_data_id
from grue.data.places import places
from grue.errors import DataError
from grue.task_files import load_task
from grue.tasks import Split

TABLE = '[[{"value": "Anna", "is_header": false, "column_span": 1}]]'
TOTTO = f'{{"table": {TABLE}, "highlighted_cells": [[0, 0]], "table_page_title": "Old", "table_section_title": "", '
ROWS = {
    "cnn_dailymail": {
        "all_test.txt": "http://a\n",
        f"s/{sha1(b'http://a').hexdigest()}.story": "Old tales.\n\n@highlight\n\nOld words\n",
    },
    "commongen": {"commongen.test.src_alpha.txt": "Old dog\n", "commongen.test.tgt.txt": "An Old dog.\n"},
    "dailydialog": {
        "dialogues_test.txt": " __eou__ ".join(["Old"] * 6) + " __eou__\n",
        "dialogues_act_test.txt": "1 1 1 1 1 1\n",
        "dialogues_emotion_test.txt": "0 0 0 0 0 0\n",
    },
    "examples": {"test.jsonl": '{"prompt": "Old", "references": ["Old"]}\n'},
    "imdb": {"test/pos/1_9.txt": "Old film, Old hat.", "test/neg/2_1.txt": "Not Old at all."},
    "narrativeqa": {
        "qaps.csv": "document_id,set,question,answer1,answer2\nd,test,Who?,Old A,Old B\n",
        "summaries.csv": "document_id,set,summary\nd,test,An Old tale.\n",
    },
    "totto": {"totto_test_data.jsonl": TOTTO + '"table_section_text": "", "example_id": 1}\n'},
    "wmt16": {"newstest2016.en": "Old house\n", "newstest2016.de": "Old Haus\n"},
}
"""Layout → a test split, in which every file of content has the word "Old" where another may stand."""


def written(folder, layout, word):
    """Write the split with another word of the same length, in files of one size and time; return the folder."""
    for name, content in ROWS[layout].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content.replace("Old", word))
        os.utime(path, ns=(0, 0))
    return folder


def words(layout, folder):
    """The words "old", "new" and "red" that the examples hold."""
    task = hub_server.small("commongen")
    task = replace(task, data=replace(task.data, format=layout, splits={"test": Split("test")}))
    said = str(list(load_examples(task, "test", folder).examples)).lower()
    return {word for word in ("old", "new", "red") if word in said}


@pytest.mark.parametrize("layout", [name for name in LAYOUTS.names() if name != "asked_imdb"])  # it refuses any
def test_a_folder_is_known_by_what_lies_behind_links_and_by_every_file_that_is_opened(layout, tmp_path, monkeypatch):
    for word in ("Old", "New"):
        store, linked = written(tmp_path / word, layout, word), tmp_path / f"to {word}"
        linked.mkdir()
        from_itself = layout in ("examples", "imdb")  # others look into folders, too
        for inside in store.iterdir() if from_itself else [store]:
            (linked / inside.name).symlink_to(inside)
        assert words(layout, linked) == {word.lower()}
    written(tmp_path / "Old", layout, "Red")
    assert words(layout, tmp_path / "to Old") == {"red"}
    rows, opened, really = read_folder(layout, tmp_path / "New", "test"), set(), Path.open

    def noted(path, *arguments, **options):
        opened.add(path)
        return really(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", noted)
    assert list(rows)
    assert opened == {file.path for file in rows.files}


def test_what_appears_and_what_vanishes_is_seen(tmp_path, refused):
    written(tmp_path / "a/b", "wmt16", "Old")
    assert words("wmt16", tmp_path) == {"old"}
    written(tmp_path, "wmt16", "New")  # nearer
    assert words("wmt16", tmp_path) == {"new"}
    (tmp_path / "newstest2016.en").unlink()
    assert words("wmt16", tmp_path) == {"old"}
    (tmp_path / "a/b/newstest2016.de").unlink()
    with refused(DataError):
        words("wmt16", tmp_path)


def test_a_folder_that_links_lead_to_twice_or_back_to_counts_once(tmp_path):
    (tmp_path / "a").mkdir()
    for language in ("en", "de"):
        (tmp_path / f"a/x.{language}").write_text("A house\n")
    for name, there in (("a/loop", tmp_path), ("b", tmp_path / "a"), ("c", tmp_path / "b")):
        (tmp_path / name).symlink_to(there)
    assert everywhere(tmp_path, "*.en") == [File(tmp_path / "a/x.en")]
    assert len(list(read_folder("wmt16", tmp_path, "train"))) == 1


def test_files_that_change_while_they_are_read_are_refused(tmp_path, monkeypatch, refused):
    rows = read_folder("wmt16", written(tmp_path, "wmt16", "Old"), "test")

    def change_and_read():
        written(tmp_path, "wmt16", "New")
        return rows.read()

    monkeypatch.setattr("grue.data.load.read_folder", lambda *_: replace(rows, read=change_and_read))
    with refused(DataError):
        words("wmt16", tmp_path)


def test_work_that_goes_on_is_known_by_the_content_of_its_splits_alone(tmp_path):
    written(tmp_path, "wmt16", "Old")
    task = load_task("wmt16")
    before = local_data_id(task, tmp_path, "test")
    for language in ("en", "de"):
        (tmp_path / f"news-commentary.{language}").write_text("More.\n")  # of another split
    assert local_data_id(task, tmp_path, "test") == before
    written(tmp_path, "wmt16", "New")
    assert local_data_id(task, tmp_path, "test") != before
    assert local_data_id(task) == ""
    assert local_data_id(task, tmp_path, "test", "no such split") == local_data_id(task, tmp_path, "test")


def test_a_folder_in_the_mirror_is_a_source_like_any_and_must_be_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("GRUE_DATA", str(tmp_path))
    task = hub_server.small("imdb")
    pinned = {"test": Split("test", rows=2, examples=2)}
    task = replace(task, data=replace(task.data, splits=pinned))
    folder = written(tmp_path / "imdb--folder", "imdb", "Old")
    loaded = load_examples(task, "test", offline=True)
    assert (len(loaded.examples), loaded.source, loaded.checked) == (2, str(folder), True)
    assert loaded.provenance()["source"] == "imdb--folder"
    assert [(place.kind, place.available) for place in places(task, "test", offline=True)] == [
        *(("local", True), ("hub", False))
    ]
    (folder / "test/neg/2_1.txt").unlink()
    with pytest.raises(DataError, match="rows 1, but the task file says 2.*is not whole"):
        load_examples(task, "test", offline=True)


def test_a_folder_with_the_archive_alone_says_to_unpack_it(tmp_path):
    (tmp_path / "aclImdb_v1.tar.gz").write_bytes(b"")
    with pytest.raises(DataError, match=r"no folder 'test'.* unpack aclImdb_v1\.tar\.gz first"):
        read_folder("imdb", tmp_path, "test")
