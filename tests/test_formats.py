"""Rows become examples: the mini world's, the hub's and the original files' layouts."""

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from grue.errors import DataError, UnknownName
from grue.formats import FORMATS
from grue.mini.draw import rows

REAL = Path(__file__).parents[2] / "shared" / "data"
needs_commongen = pytest.mark.skipif(not (REAL / "commongen").is_dir(), reason="the real CommonGen slice is not here")
needs_imdb = pytest.mark.skipif(not (REAL / "imdb").is_dir(), reason="the real IMDB slice is not here")


def test_commongen_reads_mini_rows() -> None:
    row = {"concept_set_idx": 0, "concepts": ["run", "dog", "field"], "targets": ["A dog runs.", "Dogs ran."]}
    (example,) = FORMATS["commongen"]([row])
    assert example.prompt == "generate a sentence with: run dog field."
    assert example.references == ("A dog runs.", "Dogs ran.")
    assert example.meta == {"concepts": ["run", "dog", "field"]}
    assert example.id == "commongen-" + sha256(b"dog field run").hexdigest()[:16]


def test_commongen_groups_hub_rows_and_equal_sets() -> None:
    hub = [
        {"concept_set_idx": 0, "concepts": ["ski", "mountain"], "target": "One."},
        {"concept_set_idx": 1, "concepts": ["dance", "kid"], "target": "Two."},
        {"concept_set_idx": 0, "concepts": ["ski", "mountain"], "target": "Three."},
        {"concept_set_idx": 2, "concepts": ["mountain", "ski"], "target": "Four."},
        {"concept_set_idx": 3, "concepts": ["sea"], "target": ""},
    ]
    examples = list(FORMATS["commongen"](hub))
    assert [e.references for e in examples] == [("One.", "Three.", "Four."), ("Two.",), ()]
    assert examples[0].prompt == "generate a sentence with: ski mountain."


def test_commongen_reads_the_original_layout() -> None:
    row = {"concept_set": "field_N#look_V#stand_V", "scene": ["I stood and looked."], "reason": ["n/a"]}
    (example,) = FORMATS["commongen"]([row])
    assert example.prompt == "generate a sentence with: field look stand."
    assert example.references == ("I stood and looked.",)


def test_commongen_names_a_foreign_row() -> None:
    with pytest.raises(DataError) as caught:
        list(FORMATS["commongen"]([{"concepts": ["a"], "target": "b"}, {"text": "x", "label": 1}]))
    assert str(caught.value) == (
        "commongen, row 2: expected the columns concepts and target (or targets), or concept_set and scene; "
        "found text, label. Is this the right data set?"
    )


def test_imdb_halves_by_words() -> None:
    good = {"text": "one two three four five", "label": 1}
    bad = {"text": "one two three four", "label": 0}
    mini = {"text": "one two three four", "label": 0, "positive_continuation": "great end."}
    examples = list(FORMATS["imdb"]([good, bad, mini]))
    assert [e.prompt for e in examples] == ["one two", "one two", "one two"]
    assert [e.references for e in examples] == [("three four five",), (), ("great end.",)]
    assert [e.meta for e in examples] == [{"label": 1}, {"label": 0}, {"label": 0}]


def test_imdb_ids_count_repeated_texts() -> None:
    row = {"text": "a b c d", "label": 1}
    first, second = FORMATS["imdb"]([row, row])
    assert first.id == "imdb-" + sha256(b"a b c d").hexdigest()[:16]
    assert second.id == first.id + "-2"


def test_imdb_turns_line_breaks_into_one_space() -> None:
    row = {"text": "Fine.<br /><br />It is long. <br/>Very long.", "label": 1}
    (example,) = FORMATS["imdb"]([row])
    assert example.prompt == "Fine. It is"
    assert example.references == ("long. Very long.",)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"text": "a b", "label": -1},
            "imdb, row 1: expected the columns text and label (0 or 1), found text, label, label -1.",
        ),
        ({"review": "a b"}, "imdb, row 1: expected the columns text and label (0 or 1), found review."),
        ({"text": "one", "label": 1}, "imdb, row 1: 'one' has fewer than two words and cannot be halved."),
    ],
)
def test_imdb_names_a_foreign_row(row: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        list(FORMATS["imdb"]([row]))
    assert str(caught.value).startswith(message)


def test_unknown_format_is_named() -> None:
    with pytest.raises(UnknownName, match="There is no data format 'comongen'. Did you mean 'commongen'?"):
        FORMATS["comongen"]


@pytest.mark.parametrize(("task", "count"), [("commongen", 400), ("imdb", 400)])
def test_mini_rows_become_examples(task: str, count: int) -> None:
    examples = list(FORMATS[task](rows(task, "test", "1")))
    assert len(examples) == count == len({e.id for e in examples})
    assert all(e.references and e.prompt for e in examples)
    if task == "imdb":
        for example, row in zip(examples, rows(task, "test", "1"), strict=True):
            assert row["text"].startswith(example.prompt + " ")
            if row["label"] == 1:
                assert example.prompt + " " + example.references[0] == row["text"]


def _real_commongen() -> Iterator[dict[str, Any]]:
    with (REAL / "commongen" / "commongen.dev.jsonl").open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines)


@needs_commongen
def test_real_commongen_in_both_layouts() -> None:
    original = list(FORMATS["commongen"](_real_commongen()))
    # 993 sets are published; two of them differ only in the part of speech of "style", which no prompt shows.
    assert len(original) == 992 == len({e.id for e in original})
    assert sum(len(e.references) for e in original) == 4018
    hub = [
        {
            "concept_set_idx": i,
            "concepts": [c.rsplit("_", 1)[0] for c in row["concept_set"].split("#")][::-1],
            "target": t,
        }
        for i, row in enumerate(_real_commongen())
        for t in row["scene"]
    ]
    regrouped = list(FORMATS["commongen"](hub))
    assert [(e.id, e.references) for e in regrouped] == [(e.id, e.references) for e in original]
    assert max(len(e.references) for e in original) == 8


@needs_imdb
def test_real_imdb_reviews_are_halved_without_loss() -> None:
    paths = sorted((REAL / "imdb" / "aclImdb").glob("*/*/*_*.txt"))
    assert len(paths) == 1000
    raw: list[dict[str, Any]] = [
        {"text": p.read_bytes().decode("utf-8"), "label": int(p.parent.name == "pos")} for p in paths
    ]
    examples = list(FORMATS["imdb"](raw))
    assert len({e.id for e in examples}) == 1000
    for example, row in zip(examples, raw, strict=True):
        assert "<br" not in example.prompt and len(example.references) == row["label"]
        if row["label"]:
            plain = " ".join(row["text"].replace("<br />", " ").split(" "))
            assert " ".join(f"{example.prompt} {example.references[0]}".split()) == " ".join(plain.split())
            first, second = len(example.prompt.split(" ")), len(example.references[0].split(" "))
            assert second - first in (0, 1)
