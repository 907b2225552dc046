"""The files of examples: what they hold, that no text can leave its place, and how large they get."""

import json
from dataclasses import replace

import pytest
from support.examples import HOSTILE_TEXTS, some_examples

from grue.render import as_examples
from grue.render.as_examples import MOST_BYTES, MOST_CHARACTERS


def read(text: str) -> dict:
    """What the page is given: the argument of the call."""
    assert text.startswith("grueExamples(") and text.endswith(");\n")
    return json.loads(text.removeprefix("grueExamples(").removesuffix(");\n"))


def test_a_file_is_one_call_with_all_that_the_page_shows():
    data = read(as_examples.render(some_examples()))
    assert {key: data[key] for key in ("suite", "task", "split", "of", "metrics")} == {
        "suite": "mini", "task": "stories", "split": "test", "of": 1000, "metrics": ["meteor"],
    }  # fmt: skip
    assert data["systems"][0] == {"name": "nlpo", "seed": 1}
    assert data["examples"][0] == {
        "id": "stories-0", "drawn": True, "difference": 0.25, "prompt": "Tell story 0.",
        "references": ["A tale of 0.", "Another."], "outputs": [["nlpo wrote 0", 0, 0.13], ["ppo wrote 0", 1, 0.5], None],
    }  # fmt: skip
    assert as_examples.render(some_examples()) == as_examples.render(some_examples())


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_a_text_can_neither_end_a_script_nor_turn_what_is_read(text):
    written = as_examples.render(some_examples(text))
    inside = written.removeprefix("grueExamples(").removesuffix(");\n")
    assert not set("<>&\u2028\u2029\u202e\u200f\x00\x1b") & set(inside)
    assert all(line.startswith("{") or line == "]}" for line in inside.split("\n")[1:])
    shown = read(written)["examples"][0]
    assert shown["prompt"] == shown["references"][0] == shown["outputs"][0][0]
    kept = text.translate({ord(sign): "�" for sign in "\u2028\u2029\u202e\u200f\x00\x1b"}).replace("\t", " ")
    assert shown["prompt"] == (kept if len(text) <= MOST_CHARACTERS else [kept[:MOST_CHARACTERS], len(text)])


def test_joiners_that_show_are_kept():
    text = "می\u200cروم, Grund\u00adgesetz"
    shown = read(as_examples.render(some_examples(text)))["examples"][0]
    assert shown["outputs"][0][0] == text
    assert as_examples.printable_lines("a\u200cb \u00ad") == "a�b �"


def test_a_file_of_long_texts_holds_fewer_examples():
    crowd = some_examples("ä" * 1900)
    crowd = replace(crowd, examples=crowd.examples[:1] * 400)
    written = as_examples.render(crowd)
    shown = read(written)["examples"]
    assert len(written.encode()) <= MOST_BYTES and 20 < len(shown) < 400
