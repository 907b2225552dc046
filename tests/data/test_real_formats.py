"""Layouts and formats against slices of the real data: counts, the traps of each data set, and the paper's own prompts."""

import csv
import json
import re
import zipfile
from collections import Counter
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from grue.cli.main import main
from grue.data.archives import File
from grue.data.formats import FORMATS, read_folder
from grue.data.sets.cnn_dailymail import read_story
from grue.records import Example

REAL = Path(__file__).parents[3] / "shared" / "data"
PAPER = REAL / "grue_prompt_examples"
pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason=f"the slices of real data are not here: no folder {REAL}")


def load(name: str, split: str, folder: str = "") -> list[Example]:
    return list(FORMATS[name](read_folder(name, REAL / (folder or name), split)))


def ids_sha256(examples: list[Example]) -> str:
    return sha256("".join(sorted(f"{example.id}\n" for example in examples)).encode()).hexdigest()


def papers(name: str, column: str = "prompt") -> list[str]:
    with (PAPER / f"{name}_example_input.csv").open(encoding="utf-8", newline="") as handle:
        return [row[column] for row in csv.DictReader(handle)]


@pytest.mark.parametrize(
    ("name", "split", "rows", "examples", "references", "ids"),
    [
        ("wmt16", "validation", 2169, 2169, 2169, "0eb7de7df7f1c6bacc8452d35e765e77b00a423fa3ccc9a2a45e6ccb5d10d4dd"),
        ("wmt16", "test", 2999, 2999, 2999, "2af55eb823eb2e9115e35874fe96965e777d2632b87bcc713c713e778615674b"),
        ("narrativeqa", "validation", 3461, 3461, 6294, "636621a785d754f6b7ba441e8e0358aa090d8c47c9630947d7d25944915fc56c"),
        ("narrativeqa", "test", 10557, 10557, 19230, "40ed284e6319fdae1b7ecad3aa81d7e598015edccdbd7b133b9b619a7939482a"),
        ("dailydialog", "validation", 1000, 3388, 3388, "32a0739787d38fd6179c68d60736068090cc178921749b65e4b0b169499e170b"),
        ("dailydialog", "test", 1000, 3123, 3123, "4ffbcad52482bd4833a7cfb5f2f6d5a96690fff1971e1516148b9fa976394384"),
    ],
)  # fmt: skip
def test_the_complete_splits(name: str, split: str, rows: int, examples: int, references: int, ids: str) -> None:
    assert len(list(read_folder(name, REAL / name, split))) == rows
    found = load(name, split)
    assert len(found) == examples == len({example.id for example in found})
    assert sum(len(example.references) for example in found) == references
    assert ids_sha256(found) == ids
    assert all(text == text.strip() and text for example in found for text in (example.prompt, *example.references))


# --- CommonGen and IMDB ----------------------------------------------------------------------------------------------


def test_commongen_is_the_same_in_the_original_and_in_the_hubs_columns() -> None:
    text = (REAL / "commongen" / "commongen.dev.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    original = list(FORMATS["commongen"](rows))
    # 993 sets are published; two of them differ only in the part of speech of "style", which no prompt shows.
    assert (len(rows), len(original)) == (993, 992)
    counts = Counter(len(row["scene"]) for row in rows)
    assert counts == {2: 32, 3: 108, 4: 678, 5: 138, 6: 33, 7: 2, 8: 2}
    hub = [
        {"concept_set_idx": i, "concepts": re.sub("_[NV]", "", row["concept_set"]).split("#")[::-1], "target": target}
        for i, row in enumerate(rows)
        for target in row["scene"]
    ]
    regrouped = list(FORMATS["commongen"](hub))
    assert len(hub) == 4018
    assert [(e.id, e.references) for e in regrouped] == [(e.id, e.references) for e in original]


def test_imdb_reviews_are_halved_without_loss() -> None:
    paths = sorted((REAL / "imdb" / "aclImdb").glob("*/*/*_*.txt"))
    raw = [{"text": path.read_bytes().decode(), "label": int(path.parent.name == "pos")} for path in paths]
    examples = list(FORMATS["imdb"](raw))
    assert len(examples) == len({example.id for example in examples}) == 1000
    assert sum("\x85" in f"{example.prompt}{example.references}" for example in examples) > 0
    for example, row in zip(examples, raw, strict=True):
        assert "<br" not in example.prompt and len(example.references) == row["label"]
        if example.references:
            whole = " ".join(str(row["text"]).replace("<br />", " ").split(" "))
            assert f"{example.prompt} {example.references[0]}".split() == whole.split()
            assert len(example.references[0].split(" ")) - len(example.prompt.split(" ")) in (0, 1)


# --- CNN/DailyMail ---------------------------------------------------------------------------------------------------


def test_cnn_dailymail_stories_by_their_lists() -> None:
    folder = "cnn_dailymail/official_layout"
    train, validation = (load("cnn_dailymail", split, folder) for split in ("train", "validation"))
    assert len(train) == len(validation) == 10
    assert len({example.id for example in (*train, *validation)}) == 20
    for example in (*train, *validation):
        assert example.prompt == f"Summarize: {example.meta['document']}"
        assert "\n" not in example.prompt and "@highlight" not in example.prompt
        # The hub's own form: every line ends in punctuation, set apart where it was added.
        assert all(re.search(r"[.!?'`\")’”]$", line) for line in example.references[0].split("\n"))


def test_two_highlights_run_together_stay_one_line_and_the_short_story_is_whole() -> None:
    stories = REAL / "cnn_dailymail" / "official_layout" / "cnn_stories"
    run_together = read_story(File(stories / "5e22bbfc7232418b8d2dd646b952e404df5bd048.story"))
    short = read_story(File(stories / "2bd8ada1de6a7b02f59430cc82045eb8d29cf033.story"))
    assert run_together is not None and short is not None
    assert "\n" not in run_together["highlights"]
    assert run_together["highlights"].count("  ") == 2
    assert short["highlights"].count("\n") == 1
    assert short["article"].startswith("(CNN)")
    raw = (stories / "2bd8ada1de6a7b02f59430cc82045eb8d29cf033.story").read_text(encoding="utf-8")
    assert short["article"].split() == raw.partition("@highlight")[0].split()


def test_cnn_dailymail_of_a_table_keeps_lines() -> None:
    examples = load("cnn_dailymail", "train")
    lines = Counter(example.references[0].count("\n") + 1 for example in examples)
    assert len(examples) == 200
    with (REAL / "cnn_dailymail" / "hf_train_first200.csv").open(encoding="utf-8", newline="") as handle:
        assert lines == Counter(len(row["y"].splitlines()) for row in csv.DictReader(handle))
    assert lines[1] == 8
    assert sum("(CNN) --" in example.prompt for example in examples) > 20


def test_cnn_dailymail_articles_look_as_the_papers_do() -> None:
    # The paper's sheet holds the article without "Summarize: "; both have " ." where the file had no punctuation.
    ours = [
        str(example.meta["document"]) for example in load("cnn_dailymail", "train", "cnn_dailymail/official_layout")
    ]
    for texts in (papers("summarization"), ours):
        assert not any("\n" in text or text.startswith("Summarize") or text != text.strip() for text in texts)
    assert all(" . " in text for text in papers("summarization"))
    assert any(" . " in text for text in ours)


# --- ToTTo -----------------------------------------------------------------------------------------------------------


def totto_rows() -> list[dict[str, Any]]:
    paths = (REAL / "totto" / "totto_dev_first50.jsonl", REAL / "totto" / "official_eval_sample" / "dev_sample.jsonl")
    return [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").split("\n") if line]


def official_headers(table: Any, place: list[int]) -> tuple[list[str], list[str]]:
    """Column and row headers by the letter of the paper's appendix: a grid, filled cell by cell, looked up column by column."""
    grid = [[(number, cell) for number, cell in enumerate(row) for _ in range(cell["column_span"])] for row in table]
    line, column = place
    mine = [at for at, (number, _) in enumerate(grid[line]) if number == column]
    columns = []
    for above in grid[:line]:
        over = {number: cell for at, (number, cell) in enumerate(above) if at in mine}
        columns += [cell["value"] for cell in over.values() if cell["is_header"]]
    rows = [cell["value"] for cell in table[line][:column] if cell["is_header"]]
    return list(dict.fromkeys(columns)), list(dict.fromkeys(rows))


def test_all_real_tables_are_linearised_by_the_official_heuristics() -> None:
    rows = totto_rows()
    assert len(rows) == 55
    spanning = [row for row in rows if any(cell["column_span"] > 1 for line in row["table"] for cell in line)]
    ragged = [row for row in rows if len({len(line) for line in row["table"]}) > 1]
    assert len(spanning) > 20 and len(ragged) > 20
    for row, example in zip(rows, FORMATS["totto"](rows), strict=True):
        cells = re.findall(r"\[cell\] (.*?) ?\[/cell\]", example.prompt)
        assert len(cells) == len(row["highlighted_cells"])
        for place, said in zip(row["highlighted_cells"], cells, strict=True):
            columns, left = official_headers(row["table"], place)
            assert re.findall(r"\[col_header\] (.*?) \[/col_header\]", said) == [text for text in columns if text]
            assert re.findall(r"\[row_header\] (.*?) \[/row_header\]", said) == [text for text in left if text]
            assert said.split(" [")[0] == row["table"][place[0]][place[1]]["value"]
        assert example.prompt.startswith(f"[page_title] {row['table_page_title']} [/page_title] ")
        assert example.prompt.count("[table]") == 1
        assert "<" not in example.prompt


def test_totto_references_overlap_and_ids() -> None:
    rows = totto_rows()[:50]
    examples = load("totto", "validation")
    assert Counter(len(example.references) for example in examples) == {3: 47, 2: 3}
    assert Counter(example.meta["overlap"] for example in examples) == {True: 34, False: 16}
    assert [example.id for example in examples] == [f"totto-{row['example_id']}" for row in rows]
    assert any(row["example_id"] > 2**53 for row in rows)
    hub = [{**row, "example_id": str(row["example_id"]), "overlap_subset": str(row["overlap_subset"])} for row in rows]
    for row in hub:
        listed = {key: [each[key] for each in row["sentence_annotations"]] for key in row["sentence_annotations"][0]}
        row["sentence_annotations"] = listed
    assert list(FORMATS["totto"](hub)) == examples


@pytest.mark.parametrize(
    ("split", "references"),
    [("train", [1, 1, 1, 1, 1]), ("validation", [3, 3, 3, 2, 3]), ("test", [0, 0, 0, 0, 0])],
)
def test_totto_official_archive(split: str, references: list[int]) -> None:
    examples = load("totto", split, "totto/hf_dummy")
    assert [len(example.references) for example in examples] == references
    assert all(("overlap" in example.meta) == (split != "train") for example in examples)


def test_totto_meta_gives_the_published_parent(tmp_path: Path) -> None:
    """The figures that language/totto/eval_pipeline_test.py asserts, texts split at blanks."""
    sample = REAL / "totto" / "official_eval_sample"
    examples = load("totto", "validation", "totto/official_eval_sample")
    texts = (sample / "output_sample.txt").read_text(encoding="utf-8").split("\n")[:5]
    lines = [{"id": e.id, "references": e.references, "meta": dict(e.meta)} for e in examples]
    (tmp_path / "examples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = [{"id": e.id, "text": text} for e, text in zip(examples, texts, strict=True)]
    (tmp_path / "predictions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said))
    names = ("parent_precision", "parent_recall", "parent")
    blanks = [part for name in names for part in ("--set", f"{name}.tokenizer=whitespace")]
    arguments = ["score", str(tmp_path / "predictions.jsonl"), "--examples", str(tmp_path / "examples.jsonl"), "--json"]
    result = CliRunner().invoke(main, [*arguments, "--metrics", ",".join(names), *blanks])
    assert result.exit_code == 0, result.output
    values = {score["metric"]: round(100 * score["value"], 1) for score in json.loads(result.stdout)["scores"]}
    assert [values[name] for name in names] == [66.1, 40.4, 48.1]


# --- DailyDialog -----------------------------------------------------------------------------------------------------


def test_dailydialog_keeps_no_mark_in_references_and_knows_its_intents() -> None:
    test = load("dailydialog", "test")
    assert not any("<EOU>" in reference or "__eou__" in reference for e in test for reference in e.references)
    assert all(example.prompt.count("<EOU>") == 5 and example.prompt.endswith(" <EOU>") for example in test)
    assert Counter(example.meta["intent"] for example in test) == {0: 1558, 1: 697, 2: 489, 3: 379}
    for example in test:
        assert example.prompt.endswith(f"<EOU> {example.meta['last_utterance']} <EOU>")


def test_dailydialog_shows_what_validation_shares_with_test() -> None:
    splits = {split: load("dailydialog", split) for split in ("validation", "test")}
    rows = [read_folder("dailydialog", REAL / "dailydialog", split) for split in splits]
    first, second = ({tuple(row["dialog"]) for row in found} for found in rows)
    assert len(first & second) == 4
    validation, test = ({example.id for example in splits[split]} for split in splits)
    assert len(validation & test) == 18
    kept = [example for example in splits["validation"] if example.id not in test]
    seen = {(example.prompt, example.references) for example in splits["test"]}
    assert not any((example.prompt, example.references) in seen for example in kept)


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_dailydialog_in_the_official_nested_archives(split: str) -> None:
    archive = zipfile.ZipFile(REAL / "dailydialog" / "hf_dummy" / "ijcnlp_dailydialog" / f"{split}.zip")
    lines = archive.read(f"{split}/dialogues_{split}.txt").decode().split("\n")
    found = load("dailydialog", split, "dailydialog/hf_dummy")
    assert len(found) == sum(max(0, line.count("__eou__") - 5) for line in lines) > 0
    if split != "train":
        assert {example.id for example in found} <= {example.id for example in load("dailydialog", split)}


def test_dailydialog_contexts_are_as_long_as_the_papers() -> None:
    # The paper's sheet is decorated and its spaces before punctuation are gone: what compares is the number of turns.
    for prompt in papers("daily_dialogue"):
        turns = re.findall(r"Person [12]: (.*?)</font>", unescape(prompt))
        assert len(turns) == 5


# --- NarrativeQA -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("split", "mojibake", "capitals"), [("validation", 540, 19), ("test", 1995, 49)])
def test_narrativeqa_mends_letters_and_lowers_capitals(split: str, mojibake: int, capitals: int) -> None:
    rows: list[Any] = list(read_folder("narrativeqa", REAL / "narrativeqa", split))
    assert sum("\u00e2\u0080" in row["context.tokens"] for row in rows) == mojibake
    assert sum(row["question.tokens"].isupper() for row in rows) == capitals
    for row, example in zip(rows, FORMATS["narrativeqa"](rows), strict=True):
        question, _, summary = example.prompt.partition(r" \n ")
        assert question == " ".join(question.split()) and len(question.split()) == len(row["question.tokens"].split())
        assert example.prompt == example.prompt.lower()
        assert not re.search("[\x7f-\x9f]", summary)
        assert ("\u00e2\u0080\u0094" in row["context.tokens"]) <= ("—" in summary)
        assert 1 <= len(example.references) <= 2


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_narrativeqa_official_tables_have_the_ids_of_the_tokenised_rows(split: str) -> None:
    (example,) = load("narrativeqa", split, "narrativeqa/hf_dummy")
    assert len(example.references) == 2
    if split != "train":
        twin = next(each for each in load("narrativeqa", split) if each.id == example.id)
        assert re.sub(r"\W", "", twin.prompt.split(r" \n ")[0]) == re.sub(r"\W", "", example.prompt.split(r" \n ")[0])


# --- WMT16 -----------------------------------------------------------------------------------------------------------


def test_wmt16_ids_do_not_depend_on_entities() -> None:
    rows: list[Any] = list(read_folder("wmt16", REAL / "wmt16", "test"))
    marks = {"&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;", "'": "&apos;"}
    table = str.maketrans(marks)
    hub = [{"translation": {k: text.translate(table) for k, text in row["translation"].items()}} for row in rows]
    assert sum(one != other for one, other in zip(rows, hub, strict=True)) > 300
    assert list(FORMATS["wmt16"](hub)) == list(FORMATS["wmt16"](rows))


def test_wmt16_has_no_training_text_here() -> None:
    with pytest.raises(Exception, match=r"no text of the split 'train' in English and German, X\.en and X\.de\."):
        load("wmt16", "train")


# --- the paper's prompts ---------------------------------------------------------------------------------------------


def test_commongen_prompts_have_the_papers_form() -> None:
    form = re.compile(r"generate a sentence with: [a-z]+( [a-z]+){2,4}\.")
    for prompt in (*papers("commongen"), *(example.prompt for example in load("commongen", "validation"))):
        assert form.fullmatch(prompt), prompt
    concepts = papers("commongen")[0].removeprefix("generate a sentence with: ").removesuffix(".").split()
    (example,) = FORMATS["commongen"]([{"concepts": concepts, "target": ""}])
    assert example.prompt == papers("commongen")[0]
