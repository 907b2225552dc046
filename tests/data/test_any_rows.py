"""Rows of any content become examples or raise DataError; nothing else happens."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grue.data.formats import FORMATS
from grue.errors import DataError
from grue.records import Example

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
TEXTS = st.text(st.characters(), max_size=30)
CELLS = st.fixed_dictionaries(
    {"value": TEXTS, "is_header": st.booleans(), "column_span": st.integers(0, 4), "row_span": st.integers(0, 4)}
)
SOUND = {
    "commongen": {"concepts": st.lists(TEXTS, max_size=5), "target": TEXTS},
    "examples": {
        "prompt": TEXTS,
        "references": st.lists(TEXTS, max_size=3),
        "id": st.none() | TEXTS,
        "meta": st.none() | st.dictionaries(TEXTS, VALUES, max_size=2) | st.just('{"a": [1]}') | TEXTS,
    },
    "imdb": {"text": st.lists(TEXTS, max_size=5).map(" ".join), "label": st.integers(0, 1)},
    "cnn_dailymail": {"article": TEXTS, "highlights": TEXTS},
    "wmt16": {"translation": st.fixed_dictionaries({"en": TEXTS, "de": TEXTS})},
    "narrativeqa": {"document_id": TEXTS, "question": TEXTS, "summary": TEXTS, "answer1": TEXTS, "answer2": TEXTS},
    "dailydialog": {
        "dialog": st.lists(TEXTS, min_size=7, max_size=7),
        "act": st.lists(st.integers(1, 4), min_size=7, max_size=7),
        "emotion": st.lists(st.integers(0, 6), min_size=7, max_size=7),
    },
    "totto": {
        "table": st.lists(st.lists(CELLS, max_size=4), max_size=4),
        "highlighted_cells": st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=3),
        "table_page_title": TEXTS,
        "table_section_title": TEXTS,
        "table_section_text": TEXTS,
        "example_id": st.integers() | TEXTS,
        "sentence_annotations": st.lists(st.fixed_dictionaries({"final_sentence": TEXTS}), max_size=3),
        "overlap_subset": st.sampled_from([True, False, None, "True", "False", "none"]),
    },
}


def read(name: str, found: list[dict[str, Any]]) -> list[Example]:
    """Return the examples, checked; none if the format refuses the rows."""
    try:
        examples = list(FORMATS[name](found))
    except DataError:
        return []
    assert len({example.id for example in examples}) == len(examples)
    for example in examples:
        assert isinstance(example.prompt, str) and all(isinstance(text, str) for text in example.references)
        json.dumps([example.id, example.references, dict(example.meta)], ensure_ascii=False).encode()
    return examples


@pytest.mark.parametrize("name", sorted(SOUND))
def test_sound_rows_of_any_text_become_examples_or_are_refused(name: str) -> None:
    seen = []

    @settings(max_examples=150, derandomize=True, database=None, deadline=None)
    @given(st.lists(st.fixed_dictionaries(SOUND[name]), min_size=1, max_size=3))
    def check(found: list[dict[str, Any]]) -> None:
        seen.extend(read(name, found))

    check()
    assert seen


@pytest.mark.parametrize("name", sorted(SOUND))
def test_rows_of_anything_are_refused_with_a_data_error_alone(name: str) -> None:
    columns = {key: VALUES | sound for key, sound in SOUND[name].items()}

    @settings(max_examples=150, derandomize=True, database=None, deadline=None)
    @given(st.lists(st.fixed_dictionaries({}, optional=columns), min_size=1, max_size=2))
    def check(found: list[dict[str, Any]]) -> None:
        read(name, found)

    check()
