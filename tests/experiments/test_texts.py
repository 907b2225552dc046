"""The counts of experiments/texts.py, on texts written here."""

import gzip
import json
from argparse import Namespace

import pytest
from support.late import late

texts, task_files = late("texts"), late("grue.task_files")


@pytest.mark.parametrize(
    ("text", "twice"),
    [
        ("a hat is knitted while a hat is knitted.", True),
        ("A cat sat. It sat a cat sat", True),  # the full stop ends no word
        ("a a a a", True),
        ("a cat sat on a cat", False),
        ("two words", False),
    ],
)
def test_three_words_twice(text, twice):
    assert texts.repeats(text.lower().split()) is twice


def test_counts_are_means_over_texts_and_spread_over_seeds(tmp_path):
    folder = tmp_path / "mini" / "mine" / "totto"
    folder.mkdir(parents=True)
    for seed, said in ((1, ["one two three four", "a b c a b c"]), (2, ["one two"] * 2)):
        lines = [json.dumps({"id": str(n), "text": text}) + "\n" for n, text in enumerate(said)]
        (folder / f"seed-{seed}.predictions.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode()))
    asked = Namespace(systems="mine", submissions=tmp_path)
    rows = list(texts.counts(task_files.load_task("totto", "mini"), asked))
    # words: 5 and 2; twice: half of the first seed's texts and none of the second's
    assert rows[-1] == "| mine | 3.5 ± 2.1 | 25.0 ± 35.4 | 5.0 2.0 |"
