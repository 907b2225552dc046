"""The data sets' original layouts, in small folders made here."""

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha1
from pathlib import Path
from typing import Any

import pytest
from support import hub_server

from grue.data.archives import File, csv_rows, everywhere, lines, nearest, text, the_one
from grue.data.formats import FORMATS, LAYOUTS, read_folder
from grue.data.load import load_examples
from grue.data.sets.cnn_dailymail import read_story
from grue.errors import DataError
from grue.tasks import Split


def write(folder: Path, contents: Mapping[str, str | bytes]) -> Path:
    """Write files by their paths; "\\n" stays what it is."""
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def zipped(contents: Mapping[str, str | bytes]) -> bytes:
    """Return a zip archive."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return whole.getvalue()


def read(layout: str, folder: Path, split: str) -> list[Mapping[str, Any]]:
    return list(read_folder(layout, folder, split))


def message(layout: str, folder: Path, split: str) -> str:
    """Return the error for a folder that cannot be read, with `<folder>` in place of its path."""
    with pytest.raises(DataError) as caught:
        read(layout, folder, split)
    return str(caught.value).replace(str(folder), "<folder>")


def test_every_format_has_a_layout() -> None:
    assert LAYOUTS.names() == FORMATS.names()
    assert LAYOUTS.names() == [
        *("cnn_dailymail", "commongen", "dailydialog", "examples", "imdb", "narrativeqa", "totto", "wmt16")
    ]


@pytest.mark.parametrize("layout", LAYOUTS.names())
def test_an_empty_folder_and_no_folder_are_named(layout: str, tmp_path: Path) -> None:
    assert message(layout, tmp_path, "test").startswith("<folder>: no ")
    missing = tmp_path / "none"
    assert message(layout, missing, "test") == (
        "<folder>: no such folder; give --data-dir the folder of the original data."
    )


# --- finding and reading files ---------------------------------------------------------------------------------------


def test_the_nearest_level_counts_and_archives_are_levels(tmp_path: Path) -> None:
    inner = zipped({"deep/x.txt": "inner", "__MACOSX/deep/._x.txt": "a Mac's"})
    write(
        tmp_path, {"a.zip": zipped({"b.zip": inner, "x.md": ""}), "c/d/x.txt": "d", ".hidden/x.txt": "", "e/x.md": ""}
    )
    found = everywhere(tmp_path, "x.txt")
    assert [str(file).removeprefix(f"{tmp_path}/") for file in found] == ["a.zip/b.zip/deep/x.txt", "c/d/x.txt"]
    assert [list(lines(file)) for file in found] == [["inner"], ["d"]]
    assert nearest(tmp_path, "deep/x.txt") == found[:1]
    assert found[0].beside("y.txt") == File(tmp_path / "a.zip", ("b.zip", "deep/y.txt"))
    assert [file.name for file in nearest(tmp_path, "*.txt", "*.md")] == ["x.md", "x.md"]
    assert nearest(tmp_path, "*.csv") == everywhere(tmp_path, "*.csv") == []


def test_one_file_is_chosen_by_level_then_by_pattern_and_never_by_chance(tmp_path: Path) -> None:
    write(tmp_path, {"a/first.txt": "", "a/second.txt": "", "b/second.txt": "", "b/c/third.txt": ""})
    assert the_one(tmp_path, "third.txt", "first.txt", "second.txt").name == "first.txt"
    with pytest.raises(DataError) as caught:
        the_one(tmp_path, "second.txt", "first.txt")
    assert str(caught.value) == (
        f"{tmp_path}: both {tmp_path}/a/second.txt and {tmp_path}/b/second.txt match; give a folder with one of them."
    )


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    write(tmp_path, {"x": "one\u2028still\u0085one\x0b\x0c\x1c\r\ntwo\rtwo\n\nfour"})
    assert list(lines(File(tmp_path / "x"))) == ["one\u2028still\u0085one\x0b\x0c\x1c", "two\rtwo", "", "four"]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("x.zip", b"not one", "x.zip: not a readable zip archive: File is not a zip file."),
        (
            "x.zip",
            zipped({"a.txt": "a" * 99})[:-40],
            "x.zip: not a readable zip archive: File is not a zip file.",
        ),
        ("a.txt", b"fine\n\xff\n", "a.txt, line 2: not valid UTF-8 at byte 0; save the file as UTF-8."),
    ],
)
def test_damaged_files_are_named(name: str, content: bytes, expected: str, tmp_path: Path) -> None:
    write(tmp_path, {name: content})
    with pytest.raises(DataError) as caught:
        [line for file in nearest(tmp_path, "a.txt") for line in lines(file)]
    assert str(caught.value) == f"{tmp_path}/{expected}"


def test_a_damaged_member_is_named(tmp_path: Path) -> None:
    archive = zipped({"a.txt": "a" * 999 + "\n"})
    at = archive.index(b"a.txt") + len("a.txt")
    write(tmp_path, {"x.zip": archive[:at] + b"\xff\xff" + archive[at + 2 :]})
    with pytest.raises(DataError, match=r"x\.zip/a\.txt: cannot be read: "):
        list(lines(the_one(tmp_path, "a.txt")))


@pytest.mark.parametrize(
    "content",
    ["a,b\n1;2,3\n", '\ufeffa;b\r\n"1;2";"3,5"\r\n', "a\tb\n1;2\t3,5\n"],
    ids=["commas", "semicolons", "tabs"],
)
def test_csv_fields_may_be_separated_by_semicolons_or_tabs(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.csv").write_text(content, encoding="utf-8", newline="")
    assert [row["a"] for row in csv_rows(File(tmp_path / "a.csv"), "a", "b")] == ["1;2"]


def test_csv_fields_may_be_long_and_hold_line_ends_but_not_be_missing(tmp_path: Path) -> None:
    long = "x" * 200_000
    write(
        tmp_path,
        {"a.csv": f'\ufeffa,b\n"one\ntwo","{long}"\n', "b.csv": "a,b\n1,2\n3\n", "c.csv": "a,b\n1,2,3\n", "d.csv": ""},
    )
    assert list(csv_rows(File(tmp_path / "a.csv"), "a", "b")) == [{"a": "one\ntwo", "b": long}]
    for name, columns, expected in [
        ("b.csv", ("a",), "b.csv, line 3: more or fewer fields than the first line names."),
        ("c.csv", ("a",), "c.csv, line 2: more or fewer fields than the first line names."),
        ("c.csv", ("a", "z", "y"), "c.csv: no column z and no column y; found a, b."),
        ("d.csv", ("a",), "d.csv: no column a; found nothing."),
    ]:
        with pytest.raises(DataError) as caught:
            list(csv_rows(File(tmp_path / name), *columns))
        assert str(caught.value) == f"{tmp_path}/{expected}"


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path: Path) -> None:
    write(tmp_path, {"a.txt": "\ufeffone\r\n\ufefftwo\n", "b.txt": "\ufeffwhole"})
    assert list(lines(File(tmp_path / "a.txt"))) == ["one", "\ufefftwo"]  # only the first character is a mark
    assert text(File(tmp_path / "b.txt")) == "whole"


# --- CNN/DailyMail ---------------------------------------------------------------------------------------------------

STORY = """LONDON (CNN) -- It rained .

A caption without an end

He said "no"
@highlight

It rained

@highlight

He said @highlight

"""


def story_name(address: str) -> str:
    return sha1(address.encode()).hexdigest() + ".story"


@pytest.mark.parametrize("stories", ["cnn_stories/{}", "{}", "cnn/stories/{}"])
def test_cnn_dailymail_reads_the_stories_of_a_list(stories: str, tmp_path: Path) -> None:
    names = [story_name(f"http://x/{number}") for number in range(4)]
    write(tmp_path, {stories.format(name): STORY for name in names[:3]})
    write(tmp_path, {"dailymail/stories/" + names[3]: "Fine!\r\r@highlight\r\rGood’\r", "cnn_stories/notes.txt": ""})
    listed = "".join(f"http://x/{number}\n" for number in (0, 1, 3, 9))
    write(tmp_path, {"url_lists/all_val.txt": listed, "url_lists/all_train.txt": "http://x/9\n"})
    rows = {row["id"]: row for row in read("cnn_dailymail", tmp_path, "validation")}
    assert set(rows) == {names[number].removesuffix(".story") for number in (0, 1, 3)}
    first, last = rows[names[0][:-6]], rows[names[3][:-6]]
    assert first["article"] == 'LONDON (CNN) -- It rained . A caption without an end . He said "no"'
    assert first["highlights"] == "It rained .\nHe said @highlight"
    assert (last["article"], last["highlights"]) == ("Fine!", "Good’")
    assert message("cnn_dailymail", tmp_path, "train") == (
        "<folder>: none of the 1 stories that <folder>/url_lists/all_train.txt lists (<sha1 of the address>.story)."
    )


@pytest.mark.parametrize("text", ["", "\n\n", "Only a text .\n", "@highlight\n\nOnly a summary\n"])
def test_a_story_without_text_or_summary_is_none_as_on_the_hub(text: str, tmp_path: Path) -> None:
    write(tmp_path, {"a.story": text})
    assert read_story(File(tmp_path / "a.story")) is None


def test_cnn_dailymail_reads_tables(tmp_path: Path) -> None:
    write(tmp_path, {"train.csv": 'id,article,highlights\n1,A .,"B\nC"\n', "hf_test_first2.csv": ",text,y\n0,D .,E\n"})
    assert read("cnn_dailymail", tmp_path, "train") == [{"id": "1", "article": "A .", "highlights": "B\nC"}]
    (row,) = read("cnn_dailymail", tmp_path, "test")
    assert (row["article"], row["highlights"]) == ("D .", "E")


# --- ToTTo -----------------------------------------------------------------------------------------------------------


def test_totto_reads_the_official_names_in_a_folder_or_an_archive(tmp_path: Path) -> None:
    names = {"train": "totto_train_data", "validation": "totto_dev_data", "test": "unlabeled_totto_test_data"}
    data = {f"totto_data/{name}.jsonl": f'{{"split":"{split}"}}\n\n' for split, name in names.items()}
    for folder in (write(tmp_path / "plain", data), write(tmp_path / "zip", {"totto_data.zip": zipped(data)})):
        assert [read("totto", folder, split) for split in names] == [[{"split": split}] for split in names]
    write(tmp_path, {"other/dev_sample.jsonl": "[1]\n"})
    assert message("totto", tmp_path / "other", "validation") == (
        "<folder>/dev_sample.jsonl, line 1: expected an object, found [1]."
    )
    write(tmp_path, {"other/dev_sample.jsonl": "{}\n{\n"})
    assert message("totto", tmp_path / "other", "validation").startswith(
        "<folder>/dev_sample.jsonl, line 2: not valid JSON: "
    )


# --- DailyDialog -----------------------------------------------------------------------------------------------------


def dialogue_files(
    ending: str, dialogues: str = "Hi . __eou__ Ho\u2028ho ! __eou__\n", acts: str = "1 2 \n"
) -> dict[str, str]:
    return {
        f"dialogues{ending}.txt": dialogues,
        f"dialogues_act{ending}.txt": acts,
        f"dialogues_emotion{ending}.txt": "0 4 \n",
    }


@pytest.mark.parametrize(
    "contents",
    [
        {f"validation/{name}": content for name, content in dialogue_files("").items()},
        dialogue_files("_validation"),
        {"ijcnlp_dailydialog/validation.zip": zipped(dialogue_files("_validation"))},
        {
            "all.zip": zipped(
                {"x/validation.zip": zipped({f"validation/{n}": c for n, c in dialogue_files("_validation").items()})}
            )
        },
        {f"dev/{name}": content for name, content in dialogue_files("").items()},
    ],
)
def test_dailydialog_reads_folders_and_nested_archives(contents: dict[str, str | bytes], tmp_path: Path) -> None:
    write(tmp_path, contents)
    expected = [{"dialog": ["Hi .", "Ho\u2028ho !"], "act": [1, 2], "emotion": [0, 4]}]
    assert read("dailydialog", tmp_path, "validation") == expected
    assert message("dailydialog", tmp_path, "train") == (
        "<folder>: no dialogues_train.txt and no train/dialogues.txt in it, in its folders or in its zip archives."
    )


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        (
            dialogue_files("_test", acts="1 \n"),
            ", line 1: 2 utterances, 1 acts and 2 emotions; the numbers should be equal.",
        ),
        (dialogue_files("_test", acts="1 x \n"), ", line 1: acts and emotions should be whole numbers, found '1 x '."),
        (
            dialogue_files("_test", acts="1 2 \n1 2 \n"),
            ", line 2: dialogues_act_test.txt or dialogues_emotion_test.txt has more or fewer lines.",
        ),
        ({"dialogues_test.txt": "a __eou__\n"}, None),
    ],
)
def test_dailydialog_names_the_line_that_does_not_fit(
    contents: dict[str, str], expected: str | None, tmp_path: Path
) -> None:
    write(tmp_path, contents)
    missing = "<folder>/dialogues_act_test.txt: cannot be read: No such file or directory."
    assert message("dailydialog", tmp_path, "test") == (
        f"<folder>/dialogues_test.txt{expected}" if expected else missing
    )


# --- NarrativeQA -----------------------------------------------------------------------------------------------------

QAPS = (
    'document_id,set,question,answer1,answer2,question_tokenized\nd1,valid,"Who, then?",Ann,Bob,x\nd2,test,Why?,A,B,x\n'
)
SUMMARIES = 'document_id,set,summary,summary_tokenized\nd1,valid," Ann\ncooks.",x\nd2,test,B.,x\n'


def test_narrativeqa_joins_questions_and_summaries(tmp_path: Path) -> None:
    root = "narrativeqa-master/"
    data = {
        f"{root}qaps.csv": QAPS,
        f"{root}third_party/wikipedia/summaries.csv": SUMMARIES,
        f"{root}documents.csv": "",
    }
    for folder in (write(tmp_path / "plain", data), write(tmp_path / "zip", {"master.zip": zipped(data)})):
        (row,) = read("narrativeqa", folder, "validation")
        assert (row["document_id"], row["question"], row["summary"]) == ("d1", "Who, then?", " Ann\ncooks.")
        (example,) = FORMATS["narrativeqa"]([row])
        assert (example.prompt, example.references) == ("who, then? \\n ann cooks.", ("ann", "bob"))
    write(tmp_path, {"less/qaps.csv": QAPS, "less/summaries.csv": SUMMARIES.splitlines()[0] + "\n"})
    assert message("narrativeqa", tmp_path / "less", "test") == (
        "<folder>/summaries.csv: no summary of d2, which <folder>/qaps.csv asks about."
    )


def test_narrativeqa_reads_tokenised_lists(tmp_path: Path) -> None:
    rows = [{"_id": "d1", "question.tokens": "Who ?", "context.tokens": "Ann .", "ground_truths": ["Ann", "Ann"]}]
    write(tmp_path, {"dev.json.zip": zipped({"dev.json": json.dumps(rows)}), "test.json": "{}", "train.json": "["})
    assert read("narrativeqa", tmp_path, "validation") == rows
    assert message("narrativeqa", tmp_path, "test") == "<folder>/test.json: expected a list of objects, one a question."
    assert message("narrativeqa", tmp_path, "train").startswith("<folder>/train.json: not valid JSON: ")


# --- WMT16 -----------------------------------------------------------------------------------------------------------


def pairs(folder: Path, split: str) -> list[tuple[str, str]]:
    return [(row["translation"]["en"], row["translation"]["de"]) for row in read("wmt16", folder, split)]


def test_wmt16_reads_texts_and_every_pair_for_training(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "newstest2016.en": "One\u2028still one\u0085.\nTwo\n",
            "newstest2016.de": "Eins\nZwei",
            "newstest2015.en": "V\n",
            "newstest2015.de": "W\n",
            "training/europarl-v7.de-en.en": "A\n\nC\n",
            "training/europarl-v7.de-en.de": "X\nY\nZ\n",
            "training/europarl-v7.cs-en.en": "Q\n",
            "training/europarl-v7.cs-en.cs": "Q\n",
            "commoncrawl.de-en.en": "B\n",
            "commoncrawl.de-en.de": "Y\n",
        },
    )
    assert pairs(tmp_path, "test") == [("One\u2028still one\u0085.", "Eins"), ("Two", "Zwei")]
    assert pairs(tmp_path, "validation") == [("V", "W")]
    assert pairs(tmp_path, "train") == [("B", "Y"), ("A", "X"), ("C", "Z")]


def sgm(*sentences: str) -> str:
    segments = "".join(f'<seg id="{number}">{sentence}</seg>\n' for number, sentence in enumerate(sentences, start=1))
    return f'<srcset setid="x" srclang="any">\n<doc docid="a">\n<hl>\n{segments}</hl>\n</doc>\n</srcset>\n'


@pytest.mark.parametrize("names", [("ende-src.en", "ende-ref.de"), ("deen-ref.en", "deen-src.de")])
def test_wmt16_reads_sgm(names: tuple[str, str], tmp_path: Path) -> None:
    english, german = (f"test/newstest2016-{name}.sgm" for name in names)
    contents = {english: sgm("Salt &amp; &quot;pepper&quot; ", "B\u2028b\nb"), german: sgm("Salz", "C")}
    write(tmp_path, contents)
    assert pairs(tmp_path, "test") == [('Salt & "pepper"', "Salz"), ("B\u2028b b", "C")]
    write(tmp_path, {german: sgm("Salz")})
    name = Path(english).name
    assert message("wmt16", tmp_path, "test") == f"<folder>/{german}: 1 sentences, but {name} has more."


def test_wmt16_takes_the_first_of_two_directions(tmp_path: Path) -> None:
    for direction, kinds in (("ende", ("src.en", "ref.de")), ("deen", ("ref.en", "src.de"))):
        write(tmp_path, {f"newstest2015-{direction}-{kind}.sgm": sgm(direction) for kind in kinds})
    assert pairs(tmp_path, "validation") == [("ende", "ende")]


@pytest.mark.parametrize(
    ("contents", "split", "expected"),
    [
        ({"train.en": "a\n"}, "train", "<folder>: no text of the split 'train' in English and German, X.en and X.de; found <folder>/train.en, but no train.de."),
        ({"test.en": "a\nb\n", "test.de": "a\n"}, "test", "<folder>/test.de: 1 sentences, but test.en has more."),
        ({"test.en": "a\n", "test.de": "a\nb\n"}, "test", "<folder>/test.en: 1 sentences, but test.de has more."),
        ({"newstest2014.en": "a\n", "newstest2014.de": "a\n"}, "train", "<folder>: no text of the split 'train' in English and German, X.en and X.de."),
    ],
)  # fmt: skip
def test_wmt16_names_what_is_wrong(contents: dict[str, str], split: str, expected: str, tmp_path: Path) -> None:
    write(tmp_path, contents)
    assert message("wmt16", tmp_path, split) == expected


# --- CommonGen and IMDB ----------------------------------------------------------------------------------------------


def test_commongen_reads_texts_line_by_line(tmp_path: Path) -> None:
    write(tmp_path, {"x/commongen.dev.src_alpha.txt": "a b\nc d", "x/commongen.dev.tgt.txt": "A b.\u2028\nC d."})
    rows = [{"concepts": ["a", "b"], "target": "A b.\u2028"}, {"concepts": ["c", "d"], "target": "C d."}]
    assert read("commongen", tmp_path, "validation") == rows
    write(tmp_path, {"x/commongen.dev.tgt.txt": "A b."})
    assert message("commongen", tmp_path, "validation") == (
        "<folder>/x/commongen.dev.tgt.txt: 1 lines, but commongen.dev.src_alpha.txt has 2."
    )


def test_imdb_reads_reviews_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    write(tmp_path, {f"aclImdb/test/{name}.txt": name for name in ("neg/10_1", "neg/9_2", "pos/odd", "pos/0_9")})
    rows = [("neg/9_2", 0), ("neg/10_1", 0), ("pos/0_9", 1), ("pos/odd", 1)]
    assert read("imdb", tmp_path, "test") == [{"text": text, "label": label} for text, label in rows]
    write(tmp_path, {"aclImdb/test/pos/1_7.txt": b"\xff"})
    assert (
        message("imdb", tmp_path, "test")
        == "<folder>/aclImdb/test/pos/1_7.txt: not valid UTF-8 at byte 0; save the file as UTF-8."
    )


def test_splits_of_a_folder_are_kept_apart_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRUE_CACHE", str(tmp_path / "cache"))
    names = ("test", "validation")
    folder = write(tmp_path / "data", {f"commongen.{name}.src_alpha.txt": f"{name} dog" for name in ("dev", "test")})
    write(folder, {f"commongen.{name}.tgt.txt": f"A {name} dog." for name in ("dev", "test")})
    splits = {name: Split(name) for name in names}
    task = hub_server.small("commongen")
    task = replace(task, data=replace(task.data, splits=splits))
    loaded = {name: load_examples(task, name, folder).examples[0].references for name in names}
    assert loaded == {"test": ("A test dog.",), "validation": ("A dev dog.",)}
