"""Slices of the real data: their content and what the task files pin of it, the official heuristics, published figures."""

import csv
import json
import re
from functools import cache
from html import unescape

import pytest
from support.paths import REAL
from support.score_cli import scores

from grue import files
from grue.data.formats import FORMATS, read_folder
from grue.data.load import differences, hash_ids, load_examples
from grue.task_files import load_task

here = pytest.mark.skipif(not REAL.is_dir(), reason=f"the slices of real data are not here: no folder {REAL}")
WHOLE = [("wmt16", "validation"), ("wmt16", "test"), ("narrativeqa", "validation"), ("narrativeqa", "test")]
WHOLE += [("dailydialog", "validation"), ("dailydialog", "test")]
PINNED = """
commongen train 885 1500 9b62fe9ee5148a74
commongen validation 992 4018 eb28f928be49cc6a
imdb train 500 250 b00c7413c0692f9b
imdb test 500 250 daf60fd7950469a9
cnn_dailymail train 200 200 3b36d1726017df78
cnn_dailymail/official_layout train 10 10 219a983027e78ee3
cnn_dailymail/official_layout validation 10 10 a4cdc5f34e861244
totto validation 50 147 baa5aafdfb13ef51
totto/hf_dummy train 5 5 56fcc4c0e09cc4db
totto/hf_dummy validation 5 14 c93e57c5f38fea6e
totto/hf_dummy test 5 0 38eed270295fe179
totto/official_eval_sample validation 5 15 03cbc391d1bf6ec4
wmt16 validation 2169 2169 05bca8e0efbb26b6
wmt16 test 2999 2999 9cb4d263d6c4508a
narrativeqa validation 3461 6294 9c529d6dfa2533e1
narrativeqa test 10557 19230 e367053f39b6c3db
narrativeqa/hf_dummy train 1 2 1e481a75af1228d5
narrativeqa/hf_dummy validation 1 2 93eedb1d97dce6a1
dailydialog validation 3388 3388 389eb6c9e102b46f
dailydialog test 3123 3123 7d30b1a03affd97e
dailydialog/hf_dummy train 6 6 5ab8dad3d08d6f28
dailydialog/hf_dummy test 7 7 3d2d4c5154f64bde
"""
"""Folder and split → examples, references, and the hash of all that they hold."""


@cache
def made(name, split, folder=""):
    """The examples that the rows of a folder become."""
    return list(FORMATS[name](read_folder(name, REAL / (folder or name), split)))


def papers(name):
    """The paper's own prompts."""
    path = REAL / "grue_prompt_examples" / f"{name}_example_input.csv"
    with path.open(encoding="utf-8", newline="") as handle:
        return [row["prompt"] for row in csv.DictReader(handle)]


@here
@pytest.mark.parametrize("line", PINNED.split("\n")[1:-1])
def test_examples_are_what_they_were(line):
    folder, split, *pinned = line.split()
    found = made(folder.partition("/")[0], split, folder)
    content = files.sha256_text("".join(map(files.canonical_json, found)))[:16]
    references = sum(len(example.references) for example in found)
    assert [str(len(found)), str(references), content] == pinned
    assert len({example.id for example in found}) == len(found)


def ids_of(name, splits, split, folder=""):
    """The ids of a split by the letter of its task file: a share in the order of their hashes, less others', capped."""
    told = splits[split]
    ranked = sorted((example.id for example in made(name, told.source, folder or name)), key=files.sha256_text)
    share = ranked[round(told.begin * len(ranked)) : round(told.end * len(ranked))]
    left_out = {one for other in told.without for one in ids_of(name, splits, other)}
    return [one for one in share if one not in left_out][: told.most or None]


@here
@pytest.mark.parametrize(("name", "split"), WHOLE)
def test_the_complete_splits_are_the_pinned_ones(name, split):
    for suite in ("grue", "small"):
        splits = load_task(name, suite).data.splits
        ids = ids_of(name, splits, split)
        assert (splits[split].examples, splits[split].ids_sha256) == (len(ids), hash_ids(ids))
    if name == "dailydialog":  # which leaves some out
        task = load_task(name, "grue")
        found = load_examples(task, split, REAL / name)
        assert list(differences(task.data.splits[split], found)) == []
        assert (found.provenance()["source"], found.checked) == (name, False)  # no path of this machine


@here
def test_a_part_has_the_ids_of_the_whole_and_is_not_taken_for_it():
    for name, part, count in (("dailydialog", "hf_dummy/ijcnlp_dailydialog", 7), ("narrativeqa", "hf_dummy", 1)):
        task = load_task(name, "grue")
        some = load_examples(task, "test", REAL / name / part)
        assert len(some.examples) == count
        assert {example.id for example in some.examples} < {example.id for example in made(name, "test", name)}
        assert not task.data.splits["test"].fits(None, some.ids_sha256)


@pytest.mark.skipif(not (REAL / "commongen_full").is_dir(), reason="no folder commongen_full of the real data")
def test_splits_of_small_commongen_share_no_concepts():
    splits, folder = load_task("commongen", "small").data.splits, "commongen_full"
    ids = {split: ids_of("commongen", splits, split, folder) for split in ("train", "validation", "test")}
    assert [len(some) for some in ids.values()] == [4000, 500, 500]
    assert hash_ids(ids["test"]) == splits["test"].ids_sha256
    every = {example.id: example for split in ("train", "validation") for example in made("commongen", split, folder)}
    concepts = [{tuple(sorted(every[one].meta["concepts"])) for one in some} for some in ids.values()]
    assert sum(map(len, concepts)) == len(set.union(*concepts))


@here
def test_prompts_have_the_form_of_the_papers():
    form = re.compile(r"generate a sentence with: ([a-z]+(?: [a-z]+){1,4})\.")
    for prompt in (*papers("commongen"), *(example.prompt for example in made("commongen", "train"))):
        (example,) = FORMATS["commongen"]([{"concepts": form.fullmatch(prompt)[1].split(), "target": ""}])
        assert example.prompt == prompt
    for prompt in papers("daily_dialogue"):  # which is decorated
        assert len(re.findall(r"Person [12]: (.*?)</font>", unescape(prompt))) == 5
    assert all(example.prompt.count("<EOU>") == 5 for example in made("dailydialog", "test"))


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


@here
def test_all_real_tables_are_linearised_by_the_official_heuristics():
    paths = (REAL / "totto" / "totto_dev_first50.jsonl", REAL / "totto" / "official_eval_sample" / "dev_sample.jsonl")
    rows = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").split("\n") if line]
    for row, example in zip(rows, FORMATS["totto"](rows), strict=True):
        cells = re.findall(r"\[cell\] (.*?) ?\[/cell\]", example.prompt)
        for place, said in zip(row["highlighted_cells"], cells, strict=True):
            columns, left = official_headers(row["table"], place)
            assert re.findall(r"\[col_header\] (.*?) \[/col_header\]", said) == columns
            assert re.findall(r"\[row_header\] (.*?) \[/row_header\]", said) == left
            assert said.split(" [")[0] == row["table"][place[0]][place[1]]["value"]
        assert example.prompt.startswith(f"[page_title] {row['table_page_title']} [/page_title] ")


@here
def test_totto_meta_gives_the_published_parent(tmp_path):
    """The figures that language/totto/eval_pipeline_test.py asserts, texts split at blanks."""
    examples = made("totto", "validation", "totto/official_eval_sample")
    texts = (REAL / "totto/official_eval_sample/output_sample.txt").read_text(encoding="utf-8").split("\n")[:5]
    files.write_jsonl(tmp_path / "examples.jsonl", examples)
    files.write_jsonl(tmp_path / "p.jsonl", [{"id": e.id, "text": t} for e, t in zip(examples, texts, strict=True)])
    names = ("parent_precision", "parent_recall", "parent")
    blanks = [part for name in names for part in ("--set", f"{name}.tokenizer=whitespace")]
    given = ("--examples", tmp_path / "examples.jsonl", "--metrics", ",".join(names), *blanks)
    found = scores(tmp_path / "p.jsonl", *given)
    assert [round(100 * found[name], 1) for name in names] == [66.1, 40.4, 48.1]
