"""ToTTo without learning: gaps in the places of values, and sentences that are mended for another table."""

from dataclasses import replace

import pytest

from grue.data.sets.totto import examples
from grue.lookups import totto
from grue.lookups.totto import LOOKUPS, AskedTable, ToldCell, read_prompt
from grue.records import Example
from grue.task_files import load_task


def example(page: str, cells: dict[str, str], text: str = "", section: str = "Films") -> Example:
    """Return the example of a table of one record; `cells` are header → value, all of them highlighted."""
    table = [
        [{"value": value, "is_header": header, "column_span": 1, "row_span": 1} for value in line]
        for header, line in ((True, cells), (False, cells.values()))
    ]
    row = {
        "table_page_title": page, "table_section_title": section, "table_section_text": "", "table": table,
        "highlighted_cells": [[1, at] for at in range(len(cells))], "example_id": page,
        "sentence_annotations": {"final_sentence": [text] if text else []},
    }  # fmt: skip
    return next(iter(examples([row])))


TRAIN = [
    example("Ann Moss", {"Year": "1963", "Film": "The Owl"}, "Ann Moss acted in The Owl back in 1963."),
    example("Tom Hale", {"Film": "The Fox", "Role": "A cook"}, "Tom Hale acted in The Fox and played a cook."),
    example(
        "1950 Lake League", {"Place": "2", "Team": "Rovers"}, "Rovers came second in the 1950 Lake League.", "Table"
    ),
]


def asked(page: str, cells: dict[str, str], section: str = "Films") -> Example:
    return replace(example(page, cells, "?", section), references=(), meta={})


def test_prompts_are_read_back() -> None:
    prompt = asked("Ann Moss", {"Year": "1963", "Film": "The Owl"}).prompt
    cells = (ToldCell("1963", "Year"), ToldCell("The Owl", "Film"))
    assert read_prompt(prompt) == AskedTable("Ann Moss", "Films", cells)
    assert read_prompt("no table") == AskedTable("", "", ())


@pytest.mark.parametrize("name", ["nearest", "mbr"])
@pytest.mark.parametrize(
    ("page", "cells", "section", "text"),
    [
        ("Eva Bell", {"Year": "1968", "Film": "The Elk"}, "Films", "Eva Bell acted in The Elk back in 1968."),
        ("Eva Bell", {"Film": "The Elk", "Role": "An owl"}, "Films", "Eva Bell acted in The Elk and played an owl."),
        ("1971 Hill League", {"Place": "4", "Team": "Swans"}, "Table", "Swans came fourth in the 1971 Hill League."),
        (
            "Eva Bell", {"Year": "1968", "Film": "The Elk", "Role": "A cook"}, "Films",
            "Eva Bell acted in The Elk and played a cook back in 1968.",
        ),
    ],
)  # fmt: skip
def test_values_take_their_places(name: str, page: str, cells: dict[str, str], section: str, text: str) -> None:
    train = [known for known in TRAIN if (known.prompt.find("Table") > 0) == (section == "Table")]
    if len(cells) < 3:
        train = [known for known in train if all(f"[col_header] {header} " in known.prompt for header in cells)]
    assert LOOKUPS[name](load_task("totto"), train, [asked(page, cells, section)], 0) == [text]


def test_what_is_not_asked_is_cut_out() -> None:
    said = LOOKUPS["nearest"](load_task("totto"), TRAIN[1:2], [asked("Eva Bell", {"Film": "The Elk"})], 0)
    assert said[0].startswith("Eva Bell acted in The Elk") and "cook" not in said[0]


def test_the_template_names_title_header_and_values() -> None:
    said = LOOKUPS["template"](load_task("totto"), TRAIN, [asked("Eva Bell", {"Year": "1968", "Film": "The Elk"})], 0)
    assert said == ["The year of Eva Bell is 1968 and The Elk."]


def test_pronouns_follow_training() -> None:
    train = [
        example("Ann Moss", {"Film": "The Owl"}, "Ann Moss was in The Owl with her dog."),
        example("Tom Hale", {"Film": "The Fox"}, "Tom Hale was in The Fox with his cat."),
    ]
    said = LOOKUPS["mbr"](load_task("totto"), train[:1] * 3 + train[1:], [asked("Tom Moss", {"Film": "The Elk"})], 0)
    assert " his " in said[0]


def test_known_values_and_ways_to_say_them() -> None:
    assert dict(totto._ways("3"))["ordinal"] == "third" and dict(totto._ways("0"))["no"] == "no"
    assert dict(totto._ways("3 May 1990"))["month"] == "May 3" == dict(totto._ways("May 3, 1990"))["month"]
    assert totto._shape("1963") == totto._shape("1968") != totto._shape("2003") and totto._shape("The Owl") == "A A"
