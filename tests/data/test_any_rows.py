"""Rows of any content become examples or raise DataError; nothing else happens."""

import json
import random

import pytest

from grue.data.formats import FORMATS
from grue.errors import DataError

NUMBERS = (None, True, False, 0, 1, -1, 2**70, 0.5, float("nan"), float("-inf"))
WORDS = ("", " ", "1", "none", "True", '{"a": [1]}')
SIGNS = ("", " ", " ", "a", "Z", "é", "|", "\n", "\x00", "\x85", "\u200b", "\u00e2\u0080\u0094", "<br />", "&amp;")


class Draw(random.Random):
    def sign(self):
        kind = self.random()
        return self.choice(SIGNS) if kind > 0.1 else chr(self.randrange(0xD800 if kind > 0.02 else 0x110000))

    def text(self):
        return "".join(self.list_of(self.sign, 7))

    def list_of(self, kind, most, least=0):
        return [kind() for _ in range(self.randint(least, most))]

    def anything(self, depth=2):
        if depth == 0 or self.random() < 0.5:
            return self.choice((self.choice(NUMBERS), self.choice(WORDS), self.text()))
        inner = self.list_of(lambda: self.anything(depth - 1), 3)
        return self.choice((inner, {self.text(): one for one in inner}, tuple(inner)))

    def cell(self):
        spans = {"column_span": self.randrange(4), "row_span": self.randrange(4)}
        return {"value": self.text(), "is_header": self.random() < 0.5, **spans}


SOUND = {
    "asked_imdb": lambda draw: {
        "text": " ".join(draw.list_of(draw.text, 5)),
        "asked": draw.randrange(2),
        "positive_continuation": draw.text(),
        "negative_continuation": draw.text(),
    },
    "commongen": lambda draw: {"concepts": draw.list_of(draw.text, 5), "target": draw.text()},
    "examples": lambda draw: {
        "prompt": draw.text(),
        "references": draw.list_of(draw.text, 3),
        "id": draw.choice((None, draw.text())),
        "meta": draw.choice((None, {draw.text(): draw.anything()}, '{"a": [1]}', draw.text())),
    },
    "imdb": lambda draw: {"text": " ".join(draw.list_of(draw.text, 5)), "label": draw.randrange(2)},
    "cnn_dailymail": lambda draw: {"article": draw.text(), "highlights": draw.text()},
    "wmt16": lambda draw: {"translation": {"en": draw.text(), "de": draw.text()}},
    "narrativeqa": lambda draw: {
        key: draw.text() for key in ("document_id", "question", "summary", "answer1", "answer2")
    },
    "dailydialog": lambda draw: {
        "dialog": draw.list_of(draw.text, 7, 7),
        "act": draw.choices(range(1, 5), k=7),
        "emotion": draw.choices(range(7), k=7),
    },
    "totto": lambda draw: {
        **{key: draw.text() for key in ("table_page_title", "table_section_title", "table_section_text")},
        "table": draw.list_of(lambda: draw.list_of(draw.cell, 4), 4),
        "highlighted_cells": draw.list_of(lambda: draw.choices(range(4), k=2), 3),
        "example_id": draw.choice((draw.randrange(-9, 10**12), draw.text())),
        "sentence_annotations": draw.list_of(lambda: {"final_sentence": draw.text()}, 3),
        "overlap_subset": draw.choice((True, False, None, "True", "False", "none")),
    },
}


def outcome(name, rows):
    """How many examples the rows became, each of which is sound; 0 if the format refuses the rows."""
    try:
        examples = list(FORMATS[name](rows))
    except DataError:
        return 0
    assert len({example.id for example in examples}) == len(examples)
    for example in examples:
        assert isinstance(example.prompt, str) and all(isinstance(text, str) for text in example.references)
        json.dumps([example.id, example.references, dict(example.meta)], ensure_ascii=False).encode()
    return len(examples)


@pytest.mark.parametrize("name", FORMATS.names())
def test_rows_of_any_text_and_rows_of_anything_become_examples_or_are_refused(name):
    draw = Draw(1)
    assert sum(outcome(name, draw.list_of(lambda: SOUND[name](draw), 3, 1)) for _ in range(200)) > 50
    for _ in range(300):
        rows = [SOUND[name](draw) for _ in range(2)]
        for row in rows:
            for key in draw.sample([*row], draw.randint(1, len(row))):
                row[key] = draw.anything()
                if draw.random() < 0.2:
                    del row[key]
        outcome(name, rows)
