"""The data sets' original layouts, in small folders made here."""

import json
from dataclasses import replace
from hashlib import sha1
from pathlib import Path

import pytest
from support import hub_server
from support.official import zipped

from grue.data.archives import File, csv_rows, everywhere, lines, nearest, nearest_one, text
from grue.data.formats import FORMATS, LAYOUTS, read_folder
from grue.data.load import load_examples
from grue.data.sets.cnn_dailymail import read_story
from grue.errors import DataError, UnknownName
from grue.registry import Registry
from grue.tasks import Split


def write(folder, contents):
    """Write files by their paths; "\\n" stays what it is."""
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def read(layout, folder, split):
    return list(read_folder(layout, folder, split))


@pytest.fixture
def refuse(refused):
    """Expect that a folder's split cannot be read, or what else is called."""

    def call(what, *arguments):
        with refused(DataError):
            list((read if isinstance(what, str) else lambda *given: what(*given[1:]))(what, *arguments))

    return call


def test_a_file_is_a_data_set_with_a_format_and_a_layout(refused):
    sets = Path(LAYOUTS["imdb"].__code__.co_filename).parent
    assert FORMATS.names() == LAYOUTS.names() == sorted(path.stem for path in sets.glob("[!_]*.py"))
    seven = {"cnn_dailymail", "commongen", "dailydialog", "imdb", "narrativeqa", "totto", "wmt16"}
    assert {*LAYOUTS.names()} == {*seven, "asked_imdb", "examples"}
    for name in LAYOUTS.names():
        assert FORMATS[name].__module__ == LAYOUTS[name].__module__ == f"grue.data.sets.{name}"
    with refused(UnknownName):
        Registry("data layout", modules={"mine": "grue.data.rows:read_folder"})["mine"]


def test_an_empty_folder_and_no_folder_are_named(refuse, tmp_path):
    for layout in LAYOUTS.names():
        refuse(layout, tmp_path, "test")
        refuse(layout, tmp_path / "none", "test")


# --- finding and reading files ---------------------------------------------------------------------------------------


def test_the_nearest_level_counts_and_archives_are_levels(tmp_path, refuse):
    inner = zipped({"deep/x.txt": "inner", "__MACOSX/deep/._x.txt": "a Mac's"})
    outer = zipped({"b.zip": inner, "x.md": ""})
    write(tmp_path, {"a.zip": outer, "c/d/x.txt": "d", ".hidden/x.txt": "", "e/x.md": ""})
    found = everywhere(tmp_path, "x.txt")
    assert [str(file).removeprefix(f"{tmp_path}/") for file in found] == ["a.zip/b.zip/deep/x.txt", "c/d/x.txt"]
    assert [list(lines(file)) for file in found] == [["inner"], ["d"]]
    assert nearest(tmp_path, "deep/x.txt") == found[:1]
    assert found[0].beside("y.txt") == File(tmp_path / "a.zip", ("b.zip", "deep/y.txt"))
    assert [file.name for file in nearest(tmp_path, "*.txt", "*.md")] == ["x.md", "x.md"]
    assert nearest(tmp_path, "*.csv") == everywhere(tmp_path, "*.csv") == []
    write(tmp_path / "f", {"a/1.txt": "", "a/2.txt": "", "b/2.txt": "", "b/c/3.txt": ""})
    assert nearest_one(tmp_path / "f", "3.txt", "1.txt", "2.txt").name == "1.txt"  # by level, then by pattern
    refuse(nearest_one, tmp_path / "f", "2.txt", "1.txt")


def test_only_line_feeds_end_lines_and_a_byte_order_mark_is_no_part_of_a_text(tmp_path):
    told = {"x": "\ufeffone\u2028still\u0085one\x0b\x0c\x1c\r\ntwo\rtwo\n\n\ufefffour", "y": "\ufeffwhole"}
    write(tmp_path, told)
    read = ["one\u2028still\u0085one\x0b\x0c\x1c", "two\rtwo", "", "\ufefffour"]  # only the first character is a mark
    assert list(lines(File(tmp_path / "x"))) == read
    assert text(File(tmp_path / "y")) == "whole"


def test_damaged_files_are_named(tmp_path, refuse):
    archive = zipped({"a.txt": "a" * 999 + "\n"})
    at = archive.index(b"a.txt") + len("a.txt")
    write(tmp_path, {"1/x.zip": "not one", "2/x.zip": archive[:-40], "3/a.txt": b"fine\n\xff\n"})
    write(tmp_path, {"4/x.zip": archive[:at] + b"\xff\xff" + archive[at + 2 :]})
    for folder in "123":
        refuse(lambda folder: list(lines(nearest_one(folder, "a.txt"))), tmp_path / folder)
    with pytest.raises(DataError, match=r"x\.zip/a\.txt: cannot be read: "):
        list(lines(nearest_one(tmp_path / "4", "a.txt")))


def test_csv_fields_may_be_set_apart_be_long_and_hold_line_ends_but_not_be_missing(tmp_path, refuse):
    for content in ("a,b\n1;2,3\n", '\ufeffa;b\r\n"1;2";"3,5"\r\n', "a\tb\n1;2\t3,5\n"):
        write(tmp_path, {"a.csv": content})
        assert [row["a"] for row in csv_rows(File(tmp_path / "a.csv"), "a", "b")] == ["1;2"]
    long = "x" * 200_000
    write(tmp_path, {"a.csv": f'\ufeffa,b\n"one\ntwo","{long}"\n', "b.csv": "a,b\n1,2\n3\n", "c.csv": "a,b\n1,2,3\n"})
    assert list(csv_rows(File(tmp_path / "a.csv"), "a", "b")) == [{"a": "one\ntwo", "b": long}]
    write(tmp_path, {"a.csv": '\ufeffa,b\r\n"x\r\n\u2028y",2\r3,4\r' + "5,6\n" * 500})  # as spreadsheets end lines
    rows = [(row["a"], row["b"]) for row in csv_rows(File(tmp_path / "a.csv"), "a")]
    assert rows == [("x\r\n\u2028y", "2"), ("3", "4"), *[("5", "6")] * 500]
    write(tmp_path, {"a.csv": "a;b\r\n1;2\r\n;3\r\n;\r\n;\r\n"})  # as Excel ends a sheet
    assert [row["b"] for row in csv_rows(File(tmp_path / "a.csv"))] == ["2", "3"]
    write(tmp_path, {"d.csv": "", "e.csv": "a,b,b\n1,2,3\n"})
    for name, *columns in (("b", "a"), ("c", "a"), ("c", "a", "z", "y"), ("d", "a"), ("e", "a")):
        refuse(csv_rows, File(tmp_path / f"{name}.csv"), *columns)


# --- CNN/DailyMail and ToTTo -----------------------------------------------------------------------------------------

STORY = """LONDON (CNN) -- It rained .

A caption without an end

He said "no"
@highlight

It rained

@highlight

He said @highlight

"""


@pytest.mark.parametrize("stories", ["cnn_stories/{}", "{}", "cnn/stories/{}"])
def test_cnn_dailymail_reads_the_stories_of_a_list(stories, tmp_path, refuse):
    ids = [sha1(f"http://x/{number}".encode()).hexdigest() for number in range(4)]
    write(tmp_path, {stories.format(f"{one}.story"): STORY for one in ids[:3]})
    write(tmp_path, {f"dailymail/stories/{ids[3]}.story": "Fine!\r\r@highlight\r\rGood’\r", "cnn/notes.txt": ""})
    listed = "".join(f"http://x/{number}\n" for number in (0, 1, 3, 9))
    write(tmp_path, {"url_lists/all_val.txt": listed, "url_lists/all_train.txt": "http://x/9\n"})
    rows = {row["id"]: row for row in read("cnn_dailymail", tmp_path, "validation")}
    assert set(rows) == {ids[0], ids[1], ids[3]}
    assert rows[ids[0]]["article"] == 'LONDON (CNN) -- It rained . A caption without an end . He said "no"'
    assert rows[ids[0]]["highlights"] == "It rained .\nHe said @highlight"
    assert (rows[ids[3]]["article"], rows[ids[3]]["highlights"]) == ("Fine!", "Good’")
    refuse("cnn_dailymail", tmp_path, "train")


def test_cnn_dailymail_reads_tables_and_no_story_without_text_or_summary(tmp_path):
    write(tmp_path, {"train.csv": 'id,article,highlights\n1,A .,"B\nC"\n', "hf_test_first2.csv": ",text,y\n0,D .,E\n"})
    assert read("cnn_dailymail", tmp_path, "train") == [{"id": "1", "article": "A .", "highlights": "B\nC"}]
    (row,) = read("cnn_dailymail", tmp_path, "test")
    assert (row["article"], row["highlights"]) == ("D .", "E")
    for content in ("", "\n\n", "Only a text .\n", "@highlight\n\nOnly a summary\n"):
        write(tmp_path, {"a.story": content})
        assert read_story(File(tmp_path / "a.story")) is None, "as on the hub"


def test_totto_reads_the_official_names_in_a_folder_or_an_archive(tmp_path, refuse):
    names = {"train": "totto_train_data", "validation": "totto_dev_data", "test": "unlabeled_totto_test_data"}
    data = {f"totto_data/{name}.jsonl": f'{{"split":"{split}"}}\n\n' for split, name in names.items()}
    for folder in (write(tmp_path / "plain", data), write(tmp_path / "zip", {"totto_data.zip": zipped(data)})):
        assert [read("totto", folder, split) for split in names] == [[{"split": split}] for split in names]
    for content in ("[1]\n", "{}\n{\n"):
        write(tmp_path, {"other/dev_sample.jsonl": content})
        refuse("totto", tmp_path / "other", "validation")


# --- DailyDialog and NarrativeQA -------------------------------------------------------------------------------------


def dialogues(place, acts="1 2 \n"):
    """Files of one dialogue; `place` has two gaps, for the kind."""
    kinds = {"": "Hi . __eou__ Ho\u2028ho ! __eou__\n", "_act": acts, "_emotion": "0 4 \n"}
    return {place.format(kind): content for kind, content in kinds.items()}


NAMED, UNNAMED = "dialogues{}_validation.txt", "dialogues{}.txt"
INNER = zipped(dialogues(f"validation/{NAMED}"))


@pytest.mark.parametrize(
    "contents",
    [
        dialogues(f"validation/{UNNAMED}"),
        dialogues(NAMED),
        {"ijcnlp_dailydialog/validation.zip": zipped(dialogues(NAMED))},
        {"all.zip": zipped({"x/validation.zip": INNER})},
        dialogues(f"dev/{UNNAMED}"),
    ],
    ids=["folder", "names", "archive", "archive in an archive", "dev"],
)
def test_dailydialog_reads_folders_and_nested_archives(contents, tmp_path, refuse):
    write(tmp_path, contents)
    expected = [{"dialog": ["Hi .", "Ho\u2028ho !"], "act": [1, 2], "emotion": [0, 4]}]
    assert read("dailydialog", tmp_path, "validation") == expected
    refuse("dailydialog", tmp_path, "train")


def test_dailydialog_names_the_line_that_does_not_fit(tmp_path, refuse):
    wrong = [dialogues("dialogues{}_test.txt", acts) for acts in ("1 \n", "1 x \n", "1 2 \n1 2 \n")]
    for number, contents in enumerate([*wrong, {"dialogues_test.txt": "a __eou__\n"}]):
        refuse("dailydialog", write(tmp_path / str(number), contents), "test")


QAPS = "document_id,set,question,answer1,answer2,x\n" + 'd1,valid,"Who, then?",Ann,Bob,x\nd2,test,Why?,A,B,x\n'
SUMMARIES = 'document_id,set,summary,x\nd1,valid," Ann\ncooks.",x\nd2,test,B.,x\n'


def test_narrativeqa_joins_questions_and_summaries_and_reads_tokenised_lists(tmp_path, refuse):
    data = {"qaps.csv": QAPS, "third_party/wikipedia/summaries.csv": SUMMARIES, "documents.csv": ""}
    data = {f"narrativeqa-master/{name}": content for name, content in data.items()}
    for folder in (write(tmp_path / "plain", data), write(tmp_path / "zip", {"master.zip": zipped(data)})):
        (row,) = read("narrativeqa", folder, "validation")
        assert (row["document_id"], row["question"], row["summary"]) == ("d1", "Who, then?", " Ann\ncooks.")
        (example,) = FORMATS["narrativeqa"]([row])
        assert (example.prompt, example.references) == ("who, then? \\n ann cooks.", ("ann", "bob"))
    less = write(tmp_path / "less", {"qaps.csv": QAPS, "summaries.csv": SUMMARIES.splitlines()[0] + "\n"})
    refuse("narrativeqa", less, "test")
    rows = [{"_id": "d1", "question.tokens": "Who ?", "context.tokens": "Ann .", "ground_truths": ["Ann", "Ann"]}]
    packed = {"dev.json.zip": zipped({"dev.json": json.dumps(rows)}), "test.json": "{}", "train.json": "["}
    lists = write(tmp_path / "lists", packed)
    assert read("narrativeqa", lists, "validation") == rows
    for split in ("test", "train"):
        refuse("narrativeqa", lists, split)


# --- WMT16, CommonGen and IMDB ---------------------------------------------------------------------------------------


def pairs(folder, split):
    return [(row["translation"]["en"], row["translation"]["de"]) for row in read("wmt16", folder, split)]


def test_wmt16_reads_texts_and_every_pair_for_training(tmp_path):
    texts = {
        "newstest2016": ("One\u2028still one\u0085.\nTwo\n", "Eins\nZwei"),
        "newstest2015": ("V\n", "W\n"),
        "training/europarl-v7.de-en": ("A\n\nC\n", "X\nY\nZ\n"),
        "commoncrawl.de-en": ("B\n", "Y\n"),
    }
    for name, (english, german) in texts.items():
        write(tmp_path, {f"{name}.en": english, f"{name}.de": german})
    write(tmp_path, {"training/europarl-v7.cs-en.en": "Q\n", "training/europarl-v7.cs-en.cs": "Q\n"})
    assert pairs(tmp_path, "test") == [("One\u2028still one\u0085.", "Eins"), ("Two", "Zwei")]
    assert pairs(tmp_path, "validation") == [("V", "W")]
    assert pairs(tmp_path, "train") == [("B", "Y"), ("A", "X"), ("C", "Z")]


def sgm(*sentences):
    segments = "".join(f'<seg id="{number}">{sentence}</seg>\n' for number, sentence in enumerate(sentences, start=1))
    return f'<srcset setid="x" srclang="any">\n<doc docid="a">\n<hl>\n{segments}</hl>\n</doc>\n</srcset>\n'


def test_wmt16_reads_sgm_and_takes_the_first_of_two_directions(tmp_path, refuse):
    for names in (("ende-src.en", "ende-ref.de"), ("deen-ref.en", "deen-src.de")):
        folder, (english, german) = tmp_path / names[0], (f"test/newstest2016-{name}.sgm" for name in names)
        write(folder, {english: sgm("Salt &amp; &quot;pepper&quot; ", "B\u2028b\nb"), german: sgm("Salz", "C")})
        assert pairs(folder, "test") == [('Salt & "pepper"', "Salz"), ("B\u2028b b", "C")]
        refuse("wmt16", write(folder, {german: sgm("Salz")}), "test")
        write(tmp_path, {f"newstest2015-{name}.sgm": sgm(names[0][:4]) for name in names})
    assert pairs(tmp_path, "validation") == [("ende", "ende")]


def test_wmt16_names_what_is_wrong(tmp_path, refuse):
    for split, contents in (
        ("train", {"train.en": "a\n"}),
        ("test", {"test.en": "a\nb\n", "test.de": "a\n"}),
        ("test", {"test.en": "a\n", "test.de": "a\nb\n"}),
        ("train", {"newstest2014.en": "a\n", "newstest2014.de": "a\n"}),
    ):
        refuse("wmt16", write(tmp_path / "".join(contents.values()).replace("\n", ""), contents), split)


def test_commongen_reads_texts_line_by_line_and_imdb_reviews_in_the_order_of_their_numbers(tmp_path, refuse):
    write(tmp_path, {"x/commongen.dev.src_alpha.txt": "a b\nc d", "x/commongen.dev.tgt.txt": "A b.\u2028\nC d."})
    rows = [{"concepts": ["a", "b"], "target": "A b.\u2028"}, {"concepts": ["c", "d"], "target": "C d."}]
    assert read("commongen", tmp_path, "validation") == rows
    refuse("commongen", write(tmp_path, {"x/commongen.dev.tgt.txt": "A b."}), "validation")
    write(tmp_path, {f"aclImdb/test/{name}.txt": name for name in ("neg/10_1", "neg/9_2", "pos/odd", "pos/0_9")})
    reviews = {"neg/9_2": 0, "neg/10_1": 0, "pos/0_9": 1, "pos/odd": 1}
    assert read("imdb", tmp_path, "test") == [{"text": text, "label": label} for text, label in reviews.items()]
    refuse("imdb", write(tmp_path, {"aclImdb/test/pos/1_7.txt": b"\xff"}), "test")


def test_splits_of_a_folder_are_kept_apart_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GRUE_CACHE", str(tmp_path / "cache"))
    for name in ("dev", "test"):
        files = {f"commongen.{name}.src_alpha.txt": f"{name} dog", f"commongen.{name}.tgt.txt": f"A {name} dog."}
        write(tmp_path / "data", files)
    task = hub_server.small("commongen")
    task = replace(task, data=replace(task.data, splits={name: Split(name) for name in ("test", "validation")}))
    loaded = {name: load_examples(task, name, tmp_path / "data").examples[0].references for name in task.data.splits}
    assert loaded == {"test": ("A test dog.",), "validation": ("A dev dog.",)}
