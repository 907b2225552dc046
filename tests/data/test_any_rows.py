"""Rows of any content become examples or raise DataError, nothing else happens, and they are streamed."""

import json
import random

import pytest

from grue.data.formats import FORMATS
from grue.errors import DataError
from grue.mini.assets import read_rows

NUMBERS = (None, True, False, 0, 1, -1, 2**70, 0.5, float("nan"), float("-inf"))
WORDS = ("", " ", "1", "none", "True", '{"a": [1]}')
SIGNS = ("", " ", " ", "a", "Z", "é", "|", "\n", "\x00", "\x85", "\u200b", "\u00e2\u0080\u0094", "<br />", "&amp;")
OWN = [{"prompt": "a", "references": ["b", "c"], "id": None, "meta": {"a": "d"}}] * 2


def sound(name):
    """Rows of mini, without what only the mini world has."""
    rows = OWN if name == "examples" else read_rows(name.removeprefix("asked_"), "test", "2")[:200]
    return [{key: value for key, value in row.items() if key != "facts"} for row in rows]


class Draw(random.Random):
    def sign(self):
        kind = self.random()
        return self.choice(SIGNS) if kind > 0.1 else chr(self.randrange(0xD800 if kind > 0.02 else 0x110000))

    def text(self):
        return "".join(self.sign() for _ in range(self.randrange(8)))

    def anything(self, depth=2):
        if depth == 0 or self.random() < 0.5:
            return self.choice((self.choice(NUMBERS), self.choice(WORDS), self.text()))
        inner = [self.anything(depth - 1) for _ in range(self.randrange(4))]
        return self.choice((inner, {self.text(): one for one in inner}, tuple(inner)))

    def like(self, value):
        """The same with other texts in places."""
        if isinstance(value, dict):
            return {key: self.like(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.like(each) for each in value]
        return " ".join((self.text(), self.text())) if isinstance(value, str) and self.random() < 0.3 else value


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
    draw, known = Draw(1), sound(name)
    assert sum(outcome(name, [draw.like(row)]) for row in known * (200 // len(known))) > 50
    for _ in range(300):
        rows = [draw.like(row) for row in draw.sample(known, 2)]
        for row in rows:
            for key in draw.sample([*row], draw.randint(1, len(row))):
                row[key] = draw.anything()
                if draw.random() < 0.2:
                    del row[key]
        outcome(name, rows)


@pytest.mark.parametrize("name", [name for name in FORMATS.names() if name != "commongen"])  # it groups rows
def test_rows_are_streamed(name):
    rows = iter(sound(name)[:2])
    next(FORMATS[name](rows))
    assert len(list(rows)) == 1
