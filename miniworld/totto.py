"""ToTTo in the mini world: a table, some of its cells, and sentences that state just these cells.

The facts are drawn first (`tables`). A pattern of `tables.toml` can express a set of columns if it needs no other
column and omits none; the references of a table are sentences of different such patterns. Tables are
as uneven as those of Wikipedia: cells span rows or columns, rows differ in length.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from grue.files import sha256_text
from miniworld.chance import Dice
from miniworld.lexicon import capitalise
from miniworld.table_names import words
from miniworld.table_words import Telling, draw_telling, fitting, parse_pattern, references, say, sentence
from miniworld.tables import KINDS, TablePage, draw_page
from miniworld.world import SEEDS

SPLITS = {"train": 2000, "validation": 200, "test": 400}
REFERENCES = {"train": 1, "validation": 3, "test": 3}
TWO_REFERENCES = 0.05  # of validation and test have one less
NON_OVERLAP = 0.4  # of validation and test are of kinds that training never shows
TEXT_WORDS = range(15, 131)
ROWS = (4, 7)  # the fewest records of a table, and how many numbers there are
DROPPED = 0.35  # of the tables lack a column
RICH = ["actor", "awards", "discs", "museum", "market", "festival"]
SHAPES = ((12, "even"), (3, "groups"), (3, "spans"), (3, "top"), (1, "footer"))


# --- tables ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableGrid:
    """A table as cells, and where each value of a record is in it: (record, column) → [row, cell]."""

    cells: list[list[dict[str, Any]]]
    places: dict[tuple[int, str], list[int]]
    headers: frozenset[str]


def _cell(value: str, header: bool = False, columns: int = 1, rows: int = 1) -> dict[str, Any]:
    return {"column_span": columns, "is_header": header, "row_span": rows, "value": capitalise(value)}


def draw_grid(dice: Dice, telling: Telling) -> TableGrid:
    """Lay a page's records out as a table that shows at least the columns told."""
    page, entry = telling.page, words()["kind"][telling.page.kind]
    style, columns = dice.pick((0, 0, 1)), list(entry["headers"])
    spare = [column for column in columns if column not in telling.told and f"{column}2" not in telling.told]
    if spare and len(columns) > 3 and dice.chance(DROPPED):
        columns.remove(dice.pick(spare))
    headers = [entry["headers"][column].split("|")[style] for column in columns]
    shape = dice.weighted(SHAPES)
    cells = _heading(headers, entry["top"] if shape == "top" else "")
    places: dict[tuple[int, str], list[int]] = {}
    for index, record in enumerate(page.records):
        if shape == "groups" and index in (0, len(page.records) // 2):
            cells.append([_cell(entry["groups"][min(index, 1)], columns=len(columns))])
        row: list[dict[str, Any]] = []
        for column in columns:
            above = places.get((index - 1, column))
            if shape == "spans" and column == columns[-1] and above and _same(page, index, column):
                cells[above[0]][above[1]]["row_span"] += 1
                places[index, column] = above
            else:
                places[index, column] = [len(cells), len(row)]
                row.append(_cell(record[column]))
        cells.append(row)
    if shape == "footer":
        cells.append([_cell(dice.pick(words()["common"]["footers"]), columns=len(columns))])
    return TableGrid(cells, places, frozenset(headers))


def _same(page: TablePage, index: int, column: str) -> bool:
    return page.records[index][column] == page.records[index - 1][column]


def _heading(headers: list[str], top: str) -> list[list[dict[str, Any]]]:
    if not top:
        return [[_cell(header, True) for header in headers]]
    wide = [_cell(top, True, columns=2), *(_cell(header, True, rows=2) for header in headers[2:])]
    return [wide, [_cell(header, True) for header in headers[:2]]]


# --- rows ------------------------------------------------------------------------------------------------------------


@cache
def rows(revision: str) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return the rows of every split, in the columns of the data set on the hub."""
    dice = Dice(SEEDS[revision] + 4)
    seen: set[object] = set()
    known: set[str] = set()  # words of the training split
    shown: set[frozenset[str]] = set()  # its headers
    splits: dict[str, tuple[dict[str, Any], ...]] = {}
    for split, count in SPLITS.items():
        drawn: list[dict[str, Any]] = []
        for index, kind in enumerate(_kinds(dice, split, count)):
            overlap = split != "train" and not words()["kind"][kind].get("held_out", False)
            while True:
                telling, targets = _draw_targets(dice, kind, split, revision)
                if not seen.isdisjoint(targets) or not (split == "train" or known.issuperset(_words(targets))):
                    continue
                row, headers = _draw_row(dice, telling, targets)
                prompt = told_of(row)
                fresh = prompt not in seen and (split == "train" or known.issuperset(_words([*prompt, *headers])))
                if fresh and (split == "train" or (headers in shown) == overlap):
                    break
            row |= {"id": index, "overlap_subset": "none" if split == "train" else str(overlap)}
            seen.update((prompt, *targets, *row["sentence_annotations"]["original_sentence"]))
            drawn.append(row)
            if split == "train":
                known |= _words([*targets, *prompt, *headers])
                shown.add(headers)
        splits[split] = tuple(drawn)
    return splits


def _kinds(dice: Dice, split: str, count: int) -> list[str]:
    """Return the kinds of a split's pages: those rich in words twice as often, the held-out ones where they may be."""
    held_out = [kind for kind in KINDS if words()["kind"][kind].get("held_out", False)]
    trained = [kind for kind in KINDS if kind not in held_out]
    new = 0 if split == "train" else round(count * NON_OVERLAP)
    trained += RICH  # twice as often
    known = [trained[index % len(trained)] for index in range(count - new)]
    return dice.shuffled(known + [held_out[index % len(held_out)] for index in range(new)])


def _draw_targets(dice: Dice, kind: str, split: str, revision: str) -> tuple[Telling, list[str]]:
    count = REFERENCES[split] - (split != "train" and dice.chance(TWO_REFERENCES))
    while True:
        telling = draw_telling(dice, draw_page(dice, kind, ROWS[0] + int(dice.random() * ROWS[1]), revision))
        targets = references(dice, telling, count)
        if targets:
            return telling, targets


def _draw_row(dice: Dice, telling: Telling, targets: list[str]) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the row of a telling, without id and subset, and the headers of its table."""
    grid, entry = draw_grid(dice, telling), words()["kind"][telling.page.kind]
    places = sorted(grid.places[telling.rows[name.endswith("2")], name.rstrip("2")] for name in telling.told)
    row: dict[str, Any] = {
        "table_page_title": telling.page.title,
        "table_section_title": dice.pick(entry["sections"]),
        "table_section_text": dice.pick(entry["notes"]) if dice.chance(0.25) else "",
        "table": grid.cells,
        "highlighted_cells": [place for index, place in enumerate(places) if place not in places[:index]],
    }
    identity = sha256_text("\n".join((*told_of(row), *targets)))
    row["example_id"] = str(int(identity[:15], 16))
    row["sentence_annotations"] = {
        "original_sentence": [sentence(dice, _with_more(dice, telling)) for _ in targets],
        "sentence_after_deletion": list(targets),
        "sentence_after_ambiguity": list(targets),
        "final_sentence": list(targets),
    }
    return row, grid.headers


def _with_more(dice: Dice, telling: Telling) -> Telling:
    """Return the telling with one more column if a sentence can tell it, as the sentences before editing do."""
    columns = [f"{column}{'2' * (len(telling.rows) - 1)}" for column in telling.page.records[0]]
    more = [telling.told | {column} for column in columns if column not in telling.told]
    more = [told for told in more if fitting(telling.page.kind, told)]
    return replace(telling, told=dice.pick(more)) if more else telling


def told_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a prompt shows of a row: the titles and the highlighted values."""
    cells = [row["table"][at][cell]["value"] for at, cell in row["highlighted_cells"]]
    return (row["table_page_title"], row["table_section_title"], *cells)


def _words(texts: Iterable[str]) -> set[str]:
    return set(re.findall("[a-z]+", " ".join(texts).lower()))


# --- plain text and pairs -------------------------------------------------------------------------------------------


def draw_text(dice: Dice, revision: str) -> str:
    """Return a paragraph that tells several rows of one page, 15 to 130 words, no sentence of it held out."""
    while True:
        page = draw_page(dice, dice.pick(tuple(KINDS)), ROWS[0] + int(dice.random() * 3), revision)
        about = parse_pattern(dice.pick(words()["kind"][page.kind]["about"]), ())
        said = [capitalise(say(dice, about.pieces, page.context, frozenset())) + "."] if dice.chance(0.6) else []
        for index in sorted(dice.sample(range(len(page.records)), 3 + int(dice.random() * 2))):
            telling = draw_telling(dice, page)
            told = telling if len(telling.rows) == 2 else replace(telling, rows=(index,))
            said.append(sentence(dice, told))
        text = " ".join(said)
        if len(text.split(" ")) in TEXT_WORDS and _held_out(revision).isdisjoint(said) and len(set(said)) == len(said):
            return text


@cache
def _held_out(revision: str) -> frozenset[str]:
    splits = rows(revision)
    held_out = [row for split in ("validation", "test") for row in splits[split]]
    return frozenset(text for row in held_out for text in row["sentence_annotations"]["final_sentence"])


def pair(dice: Dice, revision: str) -> tuple[str, str, float]:
    """Return a reference, a candidate and their similarity, 0–1.

    Facts are the page's subject and each cell stated. The similarity is the number of facts on which both sentences
    agree, divided by the number in the longer one; 0 if they are of different pages. A damaged candidate has less: cut
    short, the share of its words that remain; with words repeated, the share of its words that are not repetitions; in
    disorder, 0.3 of it.
    """
    while True:
        telling = draw_telling(dice, draw_page(dice, dice.pick(tuple(KINDS)), ROWS[0] + 2, revision))
        other, agreed = dice.weighted(CHANGES)(dice, telling, revision)
        reference, candidate = sentence(dice, telling), sentence(dice, other)
        similarity = agreed / (1 + max(len(telling.told), len(other.told)))
        if dice.chance(DAMAGED):
            candidate, left = damage(dice, candidate)
            similarity *= left
        if candidate != reference and _held_out(revision).isdisjoint((reference, candidate)):
            return reference, candidate, similarity


def _retold(dice: Dice, telling: Telling, revision: str) -> tuple[Telling, int]:
    return telling, 1 + len(telling.told)


def _changed(dice: Dice, telling: Telling, revision: str) -> tuple[Telling, int]:
    """Put other values, of another page of the kind, in the place of some."""
    records = [dict(record) for record in telling.page.records]
    agreed = 1 + len(telling.told)
    stranger = draw_page(dice, telling.page.kind, ROWS[0], revision).records
    for name in dice.shuffled(sorted(telling.told))[: 1 + int(dice.random() * 2)]:
        record, column = records[telling.rows[name.endswith("2")]], name.rstrip("2")
        value = dice.pick(stranger)[column]
        agreed -= value != record[column]
        record[column] = value
    return replace(telling, page=replace(telling.page, records=tuple(records))), agreed


def _more_or_less(dice: Dice, telling: Telling, revision: str) -> tuple[Telling, int]:
    """Tell other columns of the same rows: some left out, some more, or both."""
    while True:
        other = draw_telling(dice, telling.page)
        if len(other.rows) == len(telling.rows) and other.told & telling.told:
            return replace(other, rows=telling.rows), 1 + len(other.told & telling.told)


def _other_row(dice: Dice, telling: Telling, revision: str) -> tuple[Telling, int]:
    """Tell the same columns of other rows of the page."""
    rows = tuple((row + 1) % len(telling.page.records) for row in telling.rows)
    other = replace(telling, rows=rows)
    return other, 1 + sum(other.facts[name] == telling.facts[name] for name in telling.told)


def _other_page(dice: Dice, telling: Telling, revision: str) -> tuple[Telling, int]:
    kind = telling.page.kind if dice.chance(0.6) else dice.pick(tuple(KINDS))
    page = draw_page(dice, kind, len(telling.page.records), revision)
    if page.title == telling.page.title:
        return telling, 1 + len(telling.told)
    if kind == telling.page.kind and len(page.records) > max(telling.rows):
        return replace(telling, page=page), 0
    return draw_telling(dice, page), 0


CHANGES = ((30, _retold), (25, _changed), (20, _more_or_less), (13, _other_row), (12, _other_page))
DAMAGED = 0.2


def damage(dice: Dice, text: str) -> tuple[str, float]:
    """Return a text as a bad model would write it, and the share of it that counts (see `pair`)."""
    tokens = text.removesuffix(".").split(" ")
    way = dice.pick(("cut", "repeated", "shuffled"))
    if way == "cut":
        kept = 2 + int(dice.random() * (len(tokens) - 2))
        return " ".join(tokens[:kept]), kept / len(tokens)
    if way == "shuffled":
        return " ".join(dice.shuffled(tokens)) + ".", 0.3
    start = int(dice.random() * len(tokens))
    span = tokens[start : start + 1 + int(dice.random() * 3)]
    times = 1 + int(dice.random() * 3)
    repeated = [*tokens[:start], *span * times, *tokens[start:]]
    return " ".join(repeated) + ".", len(tokens) / len(repeated)
