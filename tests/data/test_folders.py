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
from grue.data.rows import Rows
from grue.errors import DataError
from grue.task_files import load_task
from grue.tasks import Split

ADDRESS = sha1(b"http://a").hexdigest()
TABLE = '[[{"value": "Anna", "is_header": false, "column_span": 1}]]'
ROWS = {
    "cnn_dailymail": {"all_test.txt": "http://a\n", f"s/{ADDRESS}.story": "Old tales.\n\n@highlight\n\nOld words\n"},
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
    "totto": {
        "totto_test_data.jsonl": f'{{"table": {TABLE}, "highlighted_cells": [[0, 0]], "table_page_title": "Old", '
        '"table_section_title": "", "table_section_text": "", "example_id": 1}\n'
    },
    "wmt16": {"newstest2016.en": "Old house\n", "newstest2016.de": "Old Haus\n"},
}
"""Layout → a test split, in which every file of content has the word "Old" where another may stand."""


def written(folder: Path, layout: str, word: str) -> None:
    """Write the split with another word of the same length, in files of one size and time."""
    for name, content in ROWS[layout].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content.replace("Old", word))
        os.utime(path, ns=(0, 0))


def linked(folder: Path, store: Path, layout: str) -> Path:
    """Return a folder in which nothing but links lead to the split."""
    folder.mkdir()
    if layout in ("cnn_dailymail", "commongen", "dailydialog", "narrativeqa", "totto", "wmt16"):
        (folder / "inner").symlink_to(store)
    else:  # read from the folder itself
        for inside in store.iterdir():
            (folder / inside.name).symlink_to(inside)
    return folder


def texts(layout: str, folder: Path) -> str:
    task = hub_server.small("commongen")
    task = replace(task, data=replace(task.data, format=layout, splits={"test": Split("test")}))
    return str(list(load_examples(task, "test", folder).examples))


@pytest.mark.parametrize("layout", LAYOUTS.names())
def test_what_lies_behind_a_link_is_what_counts(layout: str, tmp_path: Path) -> None:
    for word in ("Old", "New"):
        written(tmp_path / word, layout, word)
    old, new = (linked(tmp_path / f"to {word}", tmp_path / word, layout) for word in ("Old", "New"))
    assert "old" in texts(layout, old).lower() and "new" not in texts(layout, old).lower()
    assert "new" in texts(layout, new).lower() and "old" not in texts(layout, new).lower()
    written(tmp_path / "Old", layout, "Red")
    assert "red" in texts(layout, old).lower() and "old" not in texts(layout, old).lower()


@pytest.mark.parametrize("layout", LAYOUTS.names())
def test_a_folder_is_known_by_every_file_that_is_opened(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, layout, "Old")
    rows = read_folder(layout, tmp_path, "test")
    opened: set[Path] = set()
    really = Path.open

    def noted(path: Path, *arguments: object, **options: object) -> object:
        opened.add(path)
        return really(path, *arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", noted)
    assert list(rows)
    assert opened == {file.path for file in rows.files}


def test_what_appears_and_what_vanishes_is_seen(tmp_path: Path) -> None:
    written(tmp_path / "a/b", "wmt16", "Old")
    assert "Old" in texts("wmt16", tmp_path)
    written(tmp_path, "wmt16", "New")  # nearer
    assert "New" in texts("wmt16", tmp_path)
    (tmp_path / "newstest2016.en").unlink()
    assert "Old" in texts("wmt16", tmp_path)
    (tmp_path / "a/b/newstest2016.de").unlink()
    with pytest.raises(DataError, match="no text of the split 'test' in English and German"):
        texts("wmt16", tmp_path)


def test_a_folder_that_links_lead_to_twice_or_back_to_counts_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x.en").write_text("A house\n")
    (tmp_path / "a/x.de").write_text("Ein Haus\n")
    (tmp_path / "a/loop").symlink_to(tmp_path)
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "c").symlink_to(tmp_path / "b")
    assert everywhere(tmp_path, "*.en") == [File(tmp_path / "a/x.en")]
    assert len(list(read_folder("wmt16", tmp_path, "train"))) == 1


def test_files_that_change_while_they_are_read_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, "wmt16", "Old")
    rows = read_folder("wmt16", tmp_path, "test")

    def change_and_read() -> Rows:
        written(tmp_path, "wmt16", "New")
        return rows.read()

    monkeypatch.setattr("grue.data.load.read_folder", lambda *_: replace(rows, read=change_and_read))
    with pytest.raises(DataError, match="its files changed while they were read; run the command again"):
        texts("wmt16", tmp_path)


def test_work_that_goes_on_is_known_by_the_content_of_its_splits_alone(tmp_path: Path) -> None:
    written(tmp_path, "wmt16", "Old")
    task = load_task("wmt16")
    before = local_data_id(task, tmp_path, "test")
    (tmp_path / "news-commentary.en").write_text("More.\n")  # of another split
    (tmp_path / "news-commentary.de").write_text("Mehr.\n")
    assert local_data_id(task, tmp_path, "test") == before
    written(tmp_path, "wmt16", "New")
    assert local_data_id(task, tmp_path, "test") != before
    assert local_data_id(task) == ""
