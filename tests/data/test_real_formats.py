"""Slices of the real data: counts, pinned ids, the traps of each data set, and the paper's own prompts."""

import csv
import json
import re
import zipfile
from collections import Counter
from functools import cache
from html import unescape

import pytest
from click.testing import CliRunner
from support.paths import REAL

from grue.cli.main import main
from grue.data.archives import File
from grue.data.formats import FORMATS, read_folder
from grue.data.load import differences, hash_ids, load_examples
from grue.data.sets.cnn_dailymail import read_story
from grue.errors import DataError
from grue.evaluation.predictions import read_predictions, write_predictions
from grue.records import Prediction
from grue.task_files import load_task

pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason=f"the slices of real data are not here: no folder {REAL}")


@cache
def rows(name, split, folder=""):
    return list(read_folder(name, REAL / (folder or name), split))


@cache
def made(name, split, folder=""):
    """The examples that the rows of a folder become."""
    return list(FORMATS[name](rows(name, split, folder)))


@cache
def loaded(name, split):
    """A split of the task, as the command line loads it."""
    return load_examples(load_task(name, "grue"), split, REAL / name)


def ids(examples):
    return {example.id for example in examples}


def papers(name):
    """The paper's own prompts."""
    path = REAL / "grue_prompt_examples" / f"{name}_example_input.csv"
    with path.open(encoding="utf-8", newline="") as handle:
        return [row["prompt"] for row in csv.DictReader(handle)]


@pytest.mark.parametrize(
    ("name", "split", "count", "examples", "references", "sha256"),
    [
        ("commongen", "test", 993, 992, 4018, ""),
        ("wmt16", "validation", 2169, 2169, 2169, "0eb7de7df7f1c6bacc8452d35e765e77b00a423fa3ccc9a2a45e6ccb5d10d4dd"),
        ("wmt16", "test", 2999, 2999, 2999, "2af55eb823eb2e9115e35874fe96965e777d2632b87bcc713c713e778615674b"),
        ("narrativeqa", "validation", 3461, 3461, 6294, "636621a785d754f6b7ba441e8e0358aa090d8c47c9630947d7d25944915fc56c"),
        ("narrativeqa", "test", 10557, 10557, 19230, "40ed284e6319fdae1b7ecad3aa81d7e598015edccdbd7b133b9b619a7939482a"),
        ("dailydialog", "validation", 1000, 3388, 3388, "32a0739787d38fd6179c68d60736068090cc178921749b65e4b0b169499e170b"),
        ("dailydialog", "test", 1000, 3123, 3123, "4ffbcad52482bd4833a7cfb5f2f6d5a96690fff1971e1516148b9fa976394384"),
    ],
)  # fmt: skip
def test_the_complete_splits_are_the_pinned_ones(name, split, count, examples, references, sha256):
    found, pinned = loaded(name, split), load_task(name, "grue").data.splits[split]
    whole = made(name, split) if name == "dailydialog" else list(found.examples)  # the task leaves out what leaks
    assert (found.rows, len(whole), len(ids(whole))) == (count, examples, examples)
    assert sum(len(example.references) for example in whole) == references
    assert sha256 in ("", hash_ids(ids(whole)))
    one_a_sentence = [("rows", 993, 4018)] if name == "commongen" else []  # as the hub has them
    assert found.ids_sha256 == pinned.ids_sha256 != "" and list(differences(pinned, found)) == one_a_sentence
    texts = [text for example in whole for text in (example.prompt, *example.references)]
    assert all(text == text.strip() and text for text in texts) or name == "commongen"
    assert (found.provenance()["source"], found.checked) == (name, False)  # no path of this machine


def test_a_part_in_another_layout_has_the_ids_of_the_whole_and_is_not_taken_for_it():
    for name, part, count in (("dailydialog", "hf_dummy/ijcnlp_dailydialog", 7), ("narrativeqa", "hf_dummy", 1)):
        task = load_task(name, "grue")
        some = load_examples(task, "test", REAL / name / part)
        assert len(some.examples) == count and ids(some.examples) < ids(loaded(name, "test").examples)
        assert not task.data.splits["test"].fits(None, some.ids_sha256)


# --- CommonGen and IMDB ----------------------------------------------------------------------------------------------


def test_commongen_is_the_same_in_the_original_and_in_the_hubs_columns():
    published = [json.loads(line) for line in (REAL / "commongen/commongen.dev.jsonl").read_text("utf-8").splitlines()]
    original = list(FORMATS["commongen"](published))
    # 993 sets are published; two of them differ only in the part of speech of "style", which no prompt shows.
    assert (len(published), len(original)) == (993, 992)
    counts = Counter(len(row["scene"]) for row in published)
    assert counts == {2: 32, 3: 108, 4: 678, 5: 138, 6: 33, 7: 2, 8: 2}
    sets = [re.sub("_[NV]", "", row["concept_set"]).split("#")[::-1] for row in published]
    pairs = zip(sets, published, strict=True)
    hub = [{"concepts": concepts, "target": target} for concepts, row in pairs for target in row["scene"]]
    assert len(hub) == 4018
    regrouped = FORMATS["commongen"](hub)
    assert [(e.id, e.references) for e in regrouped] == [(e.id, e.references) for e in original]


def test_commongen_prompts_are_concepts_as_the_papers_are_and_no_sentence_is_lost():
    form = re.compile(r"generate a sentence with: ([a-z]+(?: [a-z]+){1,4})\.")
    train, validation, test = (loaded("commongen", split) for split in ("train", "validation", "test"))
    for example in (*train.examples, *validation.examples, *test.examples):
        assert form.fullmatch(example.prompt)[1].split() == example.meta["concepts"]
        assert example.references and all(len(reference.split()) > 1 for reference in example.references)
    for prompt in papers("commongen"):
        (example,) = FORMATS["commongen"]([{"concepts": form.fullmatch(prompt)[1].split(), "target": ""}])
        assert example.prompt == prompt
    official = REAL / "commongen/official/commongen.train.first1500.tgt.txt"
    sentences = official.read_text(encoding="utf-8").splitlines()
    assert train.rows == validation.rows == len(sentences) == 1500
    both = [*train.examples, *validation.examples]
    assert sorted(r for e in both for r in e.references) == sorted(sentences)
    assert not ids(train.examples) & ids(validation.examples)
    assert len(validation.examples) == round(0.02 * len(both))


def test_imdb_reviews_are_halved_without_loss_and_splits_take_their_shares(tmp_path):
    splits = {split: loaded("imdb", split).examples for split in ("train", "validation", "test")}
    assert {split: len(found) for split, found in splits.items()} == {"train": 400, "validation": 100, "test": 100}
    assert not ids(splits["train"]) & ids(splits["validation"])
    paths = sorted((REAL / "imdb" / "aclImdb").glob("*/*/*_*.txt"))
    raw = [{"text": path.read_bytes().decode(), "label": int(path.parent.name == "pos")} for path in paths]
    examples = list(FORMATS["imdb"](raw))
    assert len(examples) == len(ids(examples)) == 1000
    for part, folder in (("train", "train"), ("validation", "train"), ("test", "test")):
        assert ids(splits[part]) <= {e.id for e, path in zip(examples, paths, strict=True) if path.parts[-3] == folder}
    for example, row in zip(examples, raw, strict=True):
        assert "<br" not in example.prompt and len(example.references) == row["label"] == example.meta["label"]
        whole = str(row["text"]).replace("<br />", " ").split()
        if example.references:
            assert f"{example.prompt} {example.references[0]}".split() == whole
            assert len(example.references[0].split(" ")) - len(example.prompt.split(" ")) in (0, 1)
        assert example.prompt.split() == whole[: len(example.prompt.split())]
    texts = [text for e in examples for text in (e.prompt, *e.references) if "\x85" in text]
    for known in ('"Best Of\x85" film lists', "fiery climax)\x85though the", 'custard pie artist \x85" who'):
        assert any(known in text for text in texts)
    written = [Prediction(f"p{i}", text) for i, text in enumerate(texts)]
    write_predictions(tmp_path / "predictions.jsonl", written)
    assert read_predictions(tmp_path / "predictions.jsonl") == written


# --- CNN/DailyMail ---------------------------------------------------------------------------------------------------


def test_cnn_dailymail_stories_by_their_lists_look_as_the_papers_do():
    train, validation = (made("cnn_dailymail", s, "cnn_dailymail/official_layout") for s in ("train", "validation"))
    assert len(train) == len(validation) == 10 and len(ids((*train, *validation))) == 20
    for example in (*train, *validation):
        assert example.prompt == f"Summarize: {example.meta['document']}"
        assert "\n" not in example.prompt and "@highlight" not in example.prompt
        # The hub's own form: every line ends in punctuation, set apart where it was added.
        assert all(re.search(r"[.!?'`\")’”]$", line) for line in example.references[0].split("\n"))
    # The paper's sheet holds the article without "Summarize: "; both have " ." where the file had no punctuation.
    ours = [example.meta["document"] for example in train]
    for text in (*papers("summarization"), *ours):
        assert "\n" not in text and not text.startswith("Summarize") and text == text.strip()
    assert all(" . " in text for text in papers("summarization")) and any(" . " in text for text in ours)


def test_two_highlights_run_together_stay_one_line_and_the_short_story_is_whole():
    stories = REAL / "cnn_dailymail" / "official_layout" / "cnn_stories"
    names = ("5e22bbfc7232418b8d2dd646b952e404df5bd048", "2bd8ada1de6a7b02f59430cc82045eb8d29cf033")
    run_together, short = (read_story(File(stories / f"{name}.story")) for name in names)
    assert "\n" not in run_together["highlights"] and run_together["highlights"].count("  ") == 2
    assert short["highlights"].count("\n") == 1 and short["article"].startswith("(CNN)")
    raw = (stories / f"{names[1]}.story").read_text(encoding="utf-8")
    assert short["article"].split() == raw.partition("@highlight")[0].split()


def test_cnn_dailymail_of_a_table_keeps_lines():
    examples = made("cnn_dailymail", "train")
    lines = Counter(example.references[0].count("\n") + 1 for example in examples)
    assert len(examples) == 200
    with (REAL / "cnn_dailymail" / "hf_train_first200.csv").open(encoding="utf-8", newline="") as handle:
        assert lines == Counter(len(row["y"].splitlines()) for row in csv.DictReader(handle))
    assert lines[1] == 8 and sum("(CNN) --" in example.prompt for example in examples) > 20


# --- ToTTo -----------------------------------------------------------------------------------------------------------


@cache
def totto_rows():
    paths = (REAL / "totto" / "totto_dev_first50.jsonl", REAL / "totto" / "official_eval_sample" / "dev_sample.jsonl")
    return [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").split("\n") if line]


def official_headers(table, place):
    """Column and row headers by the letter of the paper's appendix: a grid, filled cell by cell, looked up by column."""
    grid = [[(number, cell) for number, cell in enumerate(row) for _ in range(cell["column_span"])] for row in table]
    line, column = place
    mine = [at for at, (number, _) in enumerate(grid[line]) if number == column]
    columns = []
    for above in grid[:line]:
        over = {number: cell for at, (number, cell) in enumerate(above) if at in mine}
        columns += [cell["value"] for cell in over.values() if cell["is_header"]]
    left = [cell["value"] for cell in table[line][:column] if cell["is_header"]]
    return ([text for text in dict.fromkeys(texts) if text] for texts in (columns, left))


def test_all_real_tables_are_linearised_by_the_official_heuristics():
    tables = [row["table"] for row in totto_rows()]
    assert len(tables) == 55
    assert sum(any(cell["column_span"] > 1 for line in table for cell in line) for table in tables) > 20
    assert sum(len({len(line) for line in table}) > 1 for table in tables) > 20
    for row, example in zip(totto_rows(), FORMATS["totto"](totto_rows()), strict=True):
        cells = re.findall(r"\[cell\] (.*?) ?\[/cell\]", example.prompt)
        for place, said in zip(row["highlighted_cells"], cells, strict=True):
            columns, left = official_headers(row["table"], place)
            assert re.findall(r"\[col_header\] (.*?) \[/col_header\]", said) == columns
            assert re.findall(r"\[row_header\] (.*?) \[/row_header\]", said) == left
            assert said.split(" [")[0] == row["table"][place[0]][place[1]]["value"]
        assert example.prompt.startswith(f"[page_title] {row['table_page_title']} [/page_title] ")
        assert example.prompt.count("[table]") == 1 and "<" not in example.prompt


def test_totto_references_overlap_and_ids():
    official, examples = totto_rows()[:50], made("totto", "validation")
    assert Counter(len(example.references) for example in examples) == {3: 47, 2: 3}
    assert Counter(example.meta["overlap"] for example in examples) == {True: 34, False: 16}
    assert [example.id for example in examples] == [f"totto-{row['example_id']}" for row in official]
    assert any(row["example_id"] > 2**53 for row in official)
    hub = []
    for row in official:
        said = {key: [each[key] for each in row["sentence_annotations"]] for key in row["sentence_annotations"][0]}
        texts = {key: str(row[key]) for key in ("example_id", "overlap_subset")}
        hub.append({**row, **texts, "sentence_annotations": said})
    assert list(FORMATS["totto"](hub)) == examples
    for split, counts in (("train", [1, 1, 1, 1, 1]), ("validation", [3, 3, 3, 2, 3]), ("test", [0, 0, 0, 0, 0])):
        packed = made("totto", split, "totto/hf_dummy")
        assert [len(example.references) for example in packed] == counts
        assert all(("overlap" in example.meta) == (split != "train") for example in packed)


def test_totto_meta_gives_the_published_parent(tmp_path):
    """The figures that language/totto/eval_pipeline_test.py asserts, texts split at blanks."""
    examples = made("totto", "validation", "totto/official_eval_sample")
    texts = (REAL / "totto/official_eval_sample/output_sample.txt").read_text(encoding="utf-8").split("\n")[:5]
    pairs = list(zip(examples, texts, strict=True))
    asked = [{"id": e.id, "references": e.references, "meta": dict(e.meta)} for e, _ in pairs]
    said = [{"id": e.id, "text": text} for e, text in pairs]
    paths = [tmp_path / name for name in ("predictions.jsonl", "examples.jsonl")]
    for path, lines in zip(paths, (said, asked), strict=True):
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    names = ("parent_precision", "parent_recall", "parent")
    blanks = [part for name in names for part in ("--set", f"{name}.tokenizer=whitespace")]
    command = ["score", str(paths[0]), "--examples", str(paths[1]), "--json", "--metrics", ",".join(names), *blanks]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    values = {score["metric"]: round(100 * score["value"], 1) for score in json.loads(result.stdout)["scores"]}
    assert [values[name] for name in names] == [66.1, 40.4, 48.1]


# --- DailyDialog -----------------------------------------------------------------------------------------------------


def test_dailydialog_keeps_no_mark_in_references_and_knows_its_intents():
    test = loaded("dailydialog", "test").examples
    for example in test:
        assert not any("<EOU>" in reference or "__eou__" in reference for reference in example.references)
        assert example.prompt.count("<EOU>") == 5  # turns, as many as the paper's sheet has, which is decorated
        assert example.prompt.endswith(f"<EOU> {example.meta['last_utterance']} <EOU>")
    assert Counter(example.meta["intent"] for example in test) == {0: 1558, 1: 697, 2: 489, 3: 379}
    for prompt in papers("daily_dialogue"):
        assert len(re.findall(r"Person [12]: (.*?)</font>", unescape(prompt))) == 5


def test_dailydialog_shows_what_validation_shares_with_test():
    validation, test = (made("dailydialog", split) for split in ("validation", "test"))
    first, second = ({tuple(row["dialog"]) for row in rows("dailydialog", split)} for split in ("validation", "test"))
    assert len(first & second) == 4 and len(ids(validation) & ids(test)) == 18
    seen, leaked = {(example.prompt, example.references) for example in test}, ids(test)
    assert not any((e.prompt, e.references) in seen for e in validation if e.id not in leaked)


def test_dailydialog_in_the_official_nested_archives():
    for split in ("train", "validation", "test"):
        archive = zipfile.ZipFile(REAL / "dailydialog/hf_dummy/ijcnlp_dailydialog" / f"{split}.zip")
        lines = archive.read(f"{split}/dialogues_{split}.txt").decode().split("\n")
        found = made("dailydialog", split, "dailydialog/hf_dummy")
        assert len(found) == sum(max(0, line.count("__eou__") - 5) for line in lines) > 0
        assert split == "train" or ids(found) <= ids(loaded("dailydialog", split).examples)


# --- NarrativeQA and WMT16 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("split", "mojibake", "capitals"), [("validation", 540, 19), ("test", 1995, 49)])
def test_narrativeqa_mends_letters_and_lowers_capitals(split, mojibake, capitals):
    found, examples = rows("narrativeqa", split), list(loaded("narrativeqa", split).examples)
    assert sum("\u00e2\u0080" in row["context.tokens"] for row in found) == mojibake
    assert sum(row["question.tokens"].isupper() for row in found) == capitals
    for row, example in zip(found, examples, strict=True):
        question, _, summary = example.prompt.partition(r" \n ")
        assert question == " ".join(question.split()) and len(question.split()) == len(row["question.tokens"].split())
        assert example.prompt == example.prompt.lower()
        assert not re.search("[\x7f-\x9f]", summary)
        assert ("\u00e2\u0080\u0094" in row["context.tokens"]) <= ("—" in summary)
        assert 1 <= len(example.references) <= 2
    (official,) = made("narrativeqa", split, "narrativeqa/hf_dummy")
    twin = next(each for each in examples if each.id == official.id)
    assert len(official.references) == 2 == len(made("narrativeqa", "train", "narrativeqa/hf_dummy")[0].references)
    letters = [re.sub(r"\W", "", each.prompt.split(r" \n ")[0]) for each in (twin, official)]
    assert letters[0] == letters[1]


def test_wmt16_ids_do_not_depend_on_entities_and_there_is_no_training_text_here():
    table = str.maketrans({"&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;", "'": "&apos;"})
    found = rows("wmt16", "test")
    hub = [{"translation": {k: text.translate(table) for k, text in row["translation"].items()}} for row in found]
    assert sum(one != other for one, other in zip(found, hub, strict=True)) > 300
    assert list(FORMATS["wmt16"](hub)) == list(loaded("wmt16", "test").examples)
    with pytest.raises(DataError, match=r"no text of the split 'train' in English and German, X\.en and X\.de\."):
        rows("wmt16", "train")
