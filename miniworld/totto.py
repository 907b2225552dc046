"""ToTTo in the mini world: a table, some of its cells, and sentences that state just these cells.

The facts are drawn first (`tables`). A pattern of `tables.toml` can express a set of columns if it needs no other
column and omits none; the references of a table are sentences of different such patterns. Which patterns may tell it
follows from the section's title, and many of their words from headers and values. Tables are
as uneven as those of Wikipedia: cells span rows or columns, rows differ in length.

Validation and test ask for what training does not show whole: kinds of page that it lacks, and of kinds that it knows
cells of several `parts` (in `tables.toml`), which training tells only in different sentences. Training has a third sort
of kind, without parts, in which any cells are told together.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from grue.files import sha256_text
from miniworld.chance import Dice
from miniworld.lexicon import capitalise
from miniworld.table_names import words
from miniworld.table_words import Telling, draw_telling, fitting, parse_pattern, references, say, sentence
from miniworld.tables import KINDS, TablePage, draw_page
from miniworld.world import SEEDS

SPLITS = {"train": 8000, "validation": 500, "test": 1000, "rl": 3000}
REFERENCES = {"train": 1, "validation": 3, "test": 3, "rl": 3}
TWO_REFERENCES = 0.05  # of validation and test have one less
NON_OVERLAP = 0.4  # of validation and test are of kinds that training never shows
TEXT_WORDS = range(15, 131)
ROWS = (4, 7)  # the fewest records of a table, and how many numbers there are
DROPPED = 0.35  # of the tables lack a column
NOTED = 0.4  # of the plain text has notes before its sentences
RICH = ["actor", "awards", "discs", "museum", "market", "festival"]
HELD_OUT_KINDS = tuple(kind for kind in KINDS if words()["kind"][kind].get("held_out", False))
TEXT_KINDS = (*KINDS, *HELD_OUT_KINDS)  # plain text has those that training lacks twice as often
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
    columns = list(entry["headers"])
    spare = [column for column in columns if column not in telling.told and f"{column}2" not in telling.told]
    if spare and len(columns) > 3 and dice.chance(DROPPED):
        columns.remove(dice.pick(spare))
    headers = [_header(telling, column) for column in columns]
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


def _header(telling: Telling, column: str) -> str:
    headers: list[str] = words()["kind"][telling.page.kind]["headers"][column].split("|")
    return headers[column in telling.second]


def _same(page: TablePage, index: int, column: str) -> bool:
    return page.records[index][column] == page.records[index - 1][column]


def _heading(headers: list[str], top: str) -> list[list[dict[str, Any]]]:
    if not top:
        return [[_cell(header, True) for header in headers]]
    wide = [_cell(top, True, columns=2), *(_cell(header, True, rows=2) for header in headers[2:])]
    return [wide, [_cell(header, True) for header in headers[:2]]]


# --- rows ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shown:
    """What the rows drawn so far have shown: prompts and sentences, words of training, and headers of its tables."""

    texts: set[object] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
    headers: set[frozenset[str]] = field(default_factory=set)


@cache
def rows(revision: str) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return the rows of every split, in the columns of the data set on the hub."""
    return _drawn(revision)[0]


def held_back(revision: str, seed: int, count: int) -> tuple[dict[str, Any], ...]:
    """Return another test split of the same world; nothing of it is in the splits of `rows`."""
    shown = _drawn(revision)[1]
    return _draw_split(Dice(seed), "test", count, revision, replace(shown, texts=set(shown.texts)))


@cache
def _drawn(revision: str) -> tuple[dict[str, tuple[dict[str, Any], ...]], Shown]:
    dice, shown = Dice(SEEDS[revision] + 4), Shown()
    return {split: _draw_split(dice, split, count, revision, shown) for split, count in SPLITS.items()}, shown


def _draw_split(dice: Dice, split: str, count: int, revision: str, shown: Shown) -> tuple[dict[str, Any], ...]:
    """Draw the rows of a split, which share no prompt and no sentence with those shown, and note what they show."""
    drawn: list[dict[str, Any]] = []
    for index, kind in enumerate(_kinds(dice, split, count)):
        overlap = split != "train" and kind not in HELD_OUT_KINDS
        while True:
            telling, targets = _draw_targets(dice, kind, split, revision)
            if not shown.texts.isdisjoint(targets) or not (split == "train" or shown.words >= _words(targets)):
                continue
            row, headers = _draw_row(dice, telling, targets)
            prompt = told_of(row)
            fresh = prompt not in shown.texts and (split == "train" or shown.words >= _words([*prompt, *headers]))
            if fresh and (split == "train" or (headers in shown.headers) == overlap):
                break
        row |= {"id": index, "overlap_subset": "none" if split == "train" else str(overlap)}
        shown.texts.update((prompt, *targets, *row["sentence_annotations"]["original_sentence"]))
        drawn.append(row)
        if split == "train":
            shown.words.update(_words([*targets, *prompt, *headers]))
            shown.headers.add(headers)
    return tuple(drawn)


def _kinds(dice: Dice, split: str, count: int) -> list[str]:
    """Return the kinds of a split's pages.

    Training has all but the held-out ones, those rich in words twice as often; validation and test have those with
    parts, and the held-out ones.
    """
    if split == "train":
        known = [*(kind for kind in KINDS if kind not in HELD_OUT_KINDS), *RICH]
        return dice.shuffled([known[index % len(known)] for index in range(count)])
    known = [kind for kind in KINDS if "parts" in words()["kind"][kind]]
    new = round(count * NON_OVERLAP)
    kinds = [known[index % len(known)] for index in range(count - new)]
    return dice.shuffled(kinds + [HELD_OUT_KINDS[index % len(HELD_OUT_KINDS)] for index in range(new)])


def _draw_targets(dice: Dice, kind: str, split: str, revision: str) -> tuple[Telling, list[str]]:
    count = REFERENCES[split] - (split != "train" and dice.chance(TWO_REFERENCES))
    while True:
        telling = draw_telling(dice, draw_page(dice, kind, ROWS[0] + int(dice.random() * ROWS[1]), revision))
        wanted = tells_apart(kind, telling.told) == (split != "train")
        if kind in HELD_OUT_KINDS:
            wanted = len(telling.told) > 1
        targets = references(dice, telling, count) if wanted else None
        if targets:
            return telling, targets


def tells_apart(kind: str, told: Iterable[str]) -> bool:
    """Return whether columns of different parts are told, which training does not do."""
    columns = {name.rstrip("2") for name in told}
    return sum(not columns.isdisjoint(part.split(" ")) for part in words()["kind"][kind].get("parts", ())) > 1


def _draw_row(dice: Dice, telling: Telling, targets: list[str]) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the row of a telling, without id and subset, and the headers of its table."""
    grid, entry = draw_grid(dice, telling), words()["kind"][telling.page.kind]
    places = sorted(grid.places[telling.rows[name.endswith("2")], name.rstrip("2")] for name in telling.told)
    row: dict[str, Any] = {
        "table_page_title": telling.page.title,
        "table_section_title": entry["sections"][telling.section],
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
    more = [told for told in more if fitting(telling.page.kind, telling.section, told)]
    return replace(telling, told=dice.pick(more)) if more else telling


def told_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a prompt shows of a row: the titles and the highlighted values."""
    cells = [row["table"][at][cell]["value"] for at, cell in row["highlighted_cells"]]
    return (row["table_page_title"], row["table_section_title"], *cells)


def _words(texts: Iterable[str]) -> set[str]:
    return set(re.findall("[a-z]+", " ".join(texts).lower()))


# --- plain text and pairs -------------------------------------------------------------------------------------------


def draw_text(dice: Dice, revision: str) -> str:
    """Return a paragraph that tells several rows of one page, 15 to 130 words, no sentence of it held out.

    Some are notes: before each sentence stands what it tells, as in "Mayors of Marlow, History: Name Ann Moss, From
    1881."
    """
    while True:
        page = draw_page(dice, dice.pick(TEXT_KINDS), ROWS[0] + int(dice.random() * 3), revision)
        about = parse_pattern(dice.pick(words()["kind"][page.kind]["about"]), ())
        said = [capitalise(say(dice, about.pieces, page.context, frozenset())) + "."] if dice.chance(0.6) else []
        noted = dice.chance(NOTED)
        for index in sorted(dice.sample(range(len(page.records)), 3 + int(dice.random() * 2) - noted)):
            telling = draw_telling(dice, page)
            told = telling if len(telling.rows) == 2 else replace(telling, rows=(index,))
            said += [*([_note(told)] if noted else []), sentence(dice, told)]
        text = " ".join(said)
        if len(text.split(" ")) in TEXT_WORDS and _held_out(revision).isdisjoint(said) and len(set(said)) == len(said):
            return text


def _note(telling: Telling) -> str:
    """Return title, section, headers and values of what is told, as somebody notes them."""
    entry, facts = words()["kind"][telling.page.kind], telling.facts
    names = [
        f"{column}{mark}" for mark in ("", "2") for column in entry["headers"] if f"{column}{mark}" in telling.told
    ]
    told = [f"{_header(telling, name.rstrip('2'))} {capitalise(facts[name])}" for name in names]
    return f"{telling.page.title}, {entry['sections'][telling.section]}: {', '.join(told)}."


@cache
def _held_out(revision: str) -> frozenset[str]:
    splits = rows(revision)
    held_out = [row for split in ("validation", "test") for row in splits[split]]
    return frozenset(text for row in held_out for text in row["sentence_annotations"]["final_sentence"])


def pair(dice: Dice, revision: str) -> tuple[str, str, float]:
    """Return a reference, a candidate and their similarity, 0–1.

    Facts are the page's subject and each cell stated. The similarity is the number of facts on which both sentences
    agree, divided by the number in the longer one; 0 if they are of different pages. A candidate that has the facts but
    not the language has less: a bare list of values, and a sentence made for other values or for another kind of page.
    So has a damaged candidate: cut short, the share of its words that remain; with words repeated, the share of its
    words that are not repetitions; in disorder, 0.3 of it.
    """
    while True:
        telling = draw_telling(dice, draw_page(dice, dice.pick(tuple(KINDS)), ROWS[0] + 2, revision))
        reference = sentence(dice, telling)
        candidate, similarity = dice.weighted(CHANGES)(dice, telling, revision)
        if dice.chance(DAMAGED):
            candidate, left = damage(dice, candidate)
            similarity *= left
        if candidate != reference and _held_out(revision).isdisjoint((reference, candidate)):
            return reference, candidate, similarity


def near_miss(dice: Dice, revision: str) -> tuple[str, str, str]:
    """Return a sentence, another that tells the same cells, and the latter again of the next record of the page."""
    while True:
        telling = draw_telling(dice, draw_page(dice, dice.pick(tuple(KINDS)), ROWS[0] + 2, revision))
        pattern = dice.pick(fitting(telling.page.kind, telling.section, telling.told))
        other = replace(telling, rows=tuple((row + 1) % len(telling.page.records) for row in telling.rows))
        seed = int(dice.random() * 4294967296)
        told = sentence(dice, telling), sentence(Dice(seed), telling, pattern), sentence(Dice(seed), other, pattern)
        if len(set(told)) == len(told) and _held_out(revision).isdisjoint(told):
            return told


def _in_other_words(dice: Dice, telling: Telling) -> Telling:
    """Return the telling under other headers and, where its patterns can tell it, another title of the section."""
    second = frozenset(column for column in telling.page.records[0] if dice.chance(0.5))
    section = int(dice.random() * len(words()["kind"][telling.page.kind]["sections"]))
    if not fitting(telling.page.kind, section, telling.told):
        section = telling.section
    return replace(telling, second=second, section=section)


def _said(dice: Dice, telling: Telling, other: Telling, agreed: int) -> tuple[str, float]:
    similarity = agreed / (1 + max(len(telling.told), len(other.told)))
    return sentence(dice, _in_other_words(dice, other)), similarity


def _retold(dice: Dice, telling: Telling, revision: str) -> tuple[str, float]:
    return _said(dice, telling, telling, 1 + len(telling.told))


def _changed(dice: Dice, telling: Telling, revision: str) -> tuple[str, float]:
    """Put other values, of another page of the kind, in the place of some."""
    records = [dict(record) for record in telling.page.records]
    agreed = 1 + len(telling.told)
    stranger = draw_page(dice, telling.page.kind, ROWS[0], revision).records
    for name in dice.shuffled(sorted(telling.told))[: 1 + int(dice.random() * 2)]:
        record, column = records[telling.rows[name.endswith("2")]], name.rstrip("2")
        value = dice.pick(stranger)[column]
        agreed -= value != record[column]
        record[column] = value
    return _said(dice, telling, replace(telling, page=replace(telling.page, records=tuple(records))), agreed)


def _more_or_less(dice: Dice, telling: Telling, revision: str) -> tuple[str, float]:
    """Tell other columns of the same rows: some left out, some more, or both."""
    while True:
        other = draw_telling(dice, telling.page)
        if len(other.rows) == len(telling.rows) and other.told & telling.told:
            return _said(dice, telling, replace(other, rows=telling.rows), 1 + len(other.told & telling.told))


def _other_row(dice: Dice, telling: Telling, revision: str) -> tuple[str, float]:
    """Tell the same columns of other rows of the page."""
    rows = tuple((row + 1) % len(telling.page.records) for row in telling.rows)
    other = replace(telling, rows=rows)
    return _said(dice, telling, other, 1 + sum(other.facts[name] == telling.facts[name] for name in telling.told))


def _other_page(dice: Dice, telling: Telling, revision: str) -> tuple[str, float]:
    kind = telling.page.kind if dice.chance(0.6) else dice.pick(tuple(KINDS))
    page = draw_page(dice, kind, len(telling.page.records), revision)
    if page.title == telling.page.title:
        return _retold(dice, telling, revision)
    if kind == telling.page.kind and len(page.records) > max(telling.rows):
        return _said(dice, telling, replace(telling, page=page), 0)
    return _said(dice, telling, draw_telling(dice, page), 0)


def _mended(dice: Dice, telling: Telling, revision: str) -> tuple[str, float]:
    """Put the values into a sentence that was made for others: words that depend on a value are then often wrong."""
    page = draw_page(dice, telling.page.kind, len(telling.page.records), revision)
    if len(page.records) <= max(telling.rows):
        return _retold(dice, telling, revision)
    pattern = dice.pick(fitting(telling.page.kind, telling.section, telling.told))
    other = replace(telling, page=page)
    names = sorted({*telling.told, *telling.page.context})
    text = swap(
        sentence(dice, other, pattern), [other.facts[name] for name in names], [telling.facts[name] for name in names]
    )
    wrong = Counter(text.split(" ")) - Counter(sentence(dice, telling, pattern).split(" "))
    return text, max(1 - WRONG_WORD * wrong.total(), LEAST_MENDED)


def _borrowed(dice: Dice, telling: Telling, revision: str) -> tuple[str, float]:
    """Put the values into a sentence of another kind of page."""
    kind = dice.pick([kind for kind in KINDS if kind != telling.page.kind])
    other = draw_telling(dice, draw_page(dice, kind, ROWS[0] + 2, revision))
    values = [*(telling.facts[name] for name in sorted(telling.told)), *telling.page.context.values()]
    others = [*(other.facts[name] for name in sorted(other.told)), *other.page.context.values()]
    return swap(sentence(dice, other), others, values), BORROWED


def _listed(dice: Dice, telling: Telling, revision: str) -> tuple[str, float]:
    """Name title, headers and values as a form does."""
    headers = [_header(telling, name.rstrip("2")) for name in sorted(telling.told)]
    values = [telling.facts[name] for name in sorted(telling.told)]
    title, both = telling.page.title, [f"{header} {value}" for header, value in zip(headers, values, strict=True)]
    joined = " and ".join(values)
    texts = (
        f"The {headers[0].lower()} of {title} is {joined}.",
        f"The {' and '.join(headers).lower()} of {title} is {joined}.",
        f"{title} is {joined}.",
        f"{title}: {', '.join(both)}.",
        f"{title} {' '.join(values)}",
        f"In {title}, the {headers[-1].lower()} is {' and the '.join(values)}.",
    )
    return capitalise(dice.pick(texts)), LISTED


def swap(text: str, others: Sequence[str], values: Sequence[str]) -> str:
    """Return a text with the values of others in their places, each replaced by the one of equal position."""
    given = dict(zip(others, values, strict=False))
    found = "|".join(re.escape(other) for other in sorted(given, key=len, reverse=True))
    return capitalise(re.sub(rf"\b(?:{found})\b", lambda match: given[match[0]], text))


WRONG_WORD, LEAST_MENDED, BORROWED, LISTED = 0.15, 0.4, 0.3, 0.35
CHANGES = (
    (26, _retold), (20, _changed), (14, _more_or_less), (8, _other_row), (8, _other_page), (10, _mended),
    (6, _borrowed), (8, _listed),
)  # fmt: skip
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
