"""ToTTo without learning: gaps in the places of values, and sentences that are mended for another table."""

from dataclasses import replace

import pytest

from grue.data.sets.totto import examples
from grue.lookups.totto import LOOKUPS
from grue.task_files import load_task


def example(page, cells, text="", section="Films"):
    """Return the example of a table of one record; `cells` are header → value, all of them highlighted."""
    table = [
        [{"value": value, "is_header": header, "column_span": 1, "row_span": 1} for value in line]
        for header, line in ((True, cells), (False, cells.values()))
    ]
    row = {"table_page_title": page, "table_section_title": section, "table_section_text": "", "example_id": page}
    row |= {"highlighted_cells": [[1, at] for at in range(len(cells))], "table": table}
    return next(iter(examples([{**row, "sentence_annotations": {"final_sentence": [text] if text else []}}])))


TRAIN = [
    example("Ann Moss", {"Year": "1963", "Film": "The Owl"}, "Ann Moss acted in The Owl back in 1963."),
    example("Tom Hale", {"Film": "The Fox", "Role": "A cook"}, "Tom Hale acted in The Fox and played a cook."),
]
RACE = "Rovers came second in the 1950 Lake League."
LEAGUE = [example("1950 Lake League", {"Place": "2", "Team": "Rovers"}, RACE, "Table")]

PLAY = [example("Ann Moss", {"Film": "The Owl", "Play": "The Fox"}, "Ann Moss was in The Owl and The Fox.")]
BORN = [example("Ann Moss", {"Born": "3 May 1963"}, "Ann Moss was born on May 3.")]


def asked(page, cells, section="Films"):
    return replace(example(page, cells, "?", section), references=(), meta={})


def said(name, train, *table):
    (text,) = LOOKUPS[name](load_task("totto"), train, [asked(*table)], 0)
    return text


@pytest.mark.parametrize("name", ["nearest", "mbr"])
@pytest.mark.parametrize(
    ("train", "page", "cells", "text"),
    [
        (TRAIN[:1], "Eva Bell", {"Year": "1968", "Film": "The Elk"}, "Eva Bell acted in The Elk back in 1968."),
        (TRAIN[1:], "Eva Bell", {"Film": "The Elk", "Role": "An owl"}, "Eva Bell acted in The Elk and played an owl."),
        (LEAGUE, "1971 Hill League", {"Place": "4", "Team": "Swans"}, "Swans came fourth in the 1971 Hill League."),
        (PLAY, "Eva Bell", {"Film": "The Elk", "Song": "The Emu"}, "Eva Bell was in The Elk and The Emu."),
        (BORN, "Eva Bell", {"Born": "4 July 1968"}, "Eva Bell was born on July 4."),
        (
            TRAIN,
            "Eva Bell",
            {"Year": "1968", "Film": "The Elk", "Role": "A cook"},
            "Eva Bell acted in The Elk and played a cook back in 1968.",
        ),
    ],
)
def test_values_take_their_places(name, train, page, cells, text):
    assert said(name, train, page, cells, "Table" if train is LEAGUE else "Films") == text


def test_what_is_not_asked_is_cut_out_and_the_template_names_title_header_and_values():
    text = said("nearest", TRAIN[1:], "Eva Bell", {"Film": "The Elk"})
    assert text.startswith("Eva Bell acted in The Elk") and "cook" not in text
    text = said("template", TRAIN + LEAGUE, "Eva Bell", {"Year": "1968", "Film": "The Elk"})
    assert text == "The year of Eva Bell is 1968 and The Elk."


def test_pronouns_follow_training():
    ann = example("Ann Moss", {"Film": "The Owl"}, "Ann Moss was in The Owl with her dog.")
    tom = example("Tom Hale", {"Film": "The Fox"}, "Tom Hale was in The Fox with his cat.")
    assert " his " in said("mbr", [ann, ann, ann, tom], "Tom Moss", {"Film": "The Elk"})
