"""Sentences about cells of a table: patterns, and which columns each can express.

What a sentence says, its content, is the told cells. How it says it follows from what a prompt shows: the section's
title sets the patterns, a column's header the words that go with it, and a value its own words ("lost 1-3", "her
part", "as early as 1750").
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from grue.errors import DataError
from miniworld.chance import Dice
from miniworld.lexicon import capitalise, load_lexicon, pluralise, with_article
from miniworld.table_names import Record, words
from miniworld.tables import TablePage

MOST_CELLS = 5
TWO_ROWS, COMMON, EXTRA, ONE_CELL, SECOND_HEADER = 0.12, 0.05, 0.5, 0.15, 0.5
UNITS = ("degree", "meter", "millimeter")
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth",
)  # fmt: skip


SEASONS = {
    "winter": ("December", "January", "February"),
    "spring": ("March", "April", "May"),
    "summer": ("June", "July", "August"),
    "autumn": ("September", "October", "November"),
}


# --- patterns of sentences -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PatternSlot:
    """A value, in a form, or a number of things."""

    name: str
    form: str = ""
    noun: str = ""


@dataclass(frozen=True, slots=True)
class PatternChoice:
    """Ways to say the same."""

    options: tuple["Pieces", ...]


@dataclass(frozen=True, slots=True)
class HeaderChoice:
    """Words that go with the headers of a column: one option for the first, one for the second."""

    options: tuple["Pieces", ...]
    column: str


@dataclass(frozen=True, slots=True)
class Extra:
    """A part that is written if all its columns are expressed; sometimes, if it has none."""

    pieces: "Pieces"
    columns: frozenset[str]


Piece = str | PatternSlot | PatternChoice | HeaderChoice | Extra
Pieces = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A sentence with gaps: the columns it needs, and the groups of columns that it can also express."""

    pieces: Pieces
    needs: frozenset[str]
    extras: tuple[frozenset[str], ...]

    def tells(self, columns: frozenset[str]) -> bool:
        """Return whether the pattern can say these columns, all of them and no other."""
        fitting = [extra for extra in self.extras if extra <= columns]
        return self.needs <= columns == self.needs.union(*fitting)


def parse_pattern(source: str, columns: Sequence[str]) -> Pattern:
    """Parse a sentence in the notation of `tables.toml`; names that are not among the columns are of the title.

    Raises:
        DataError: A choice by header beside which no column is told.
    """
    known = frozenset(columns) | {f"{column}2" for column in columns}
    tokens = [token for token in re.split(r"(\{[^}]*\}|[\[\]|()<>])", source) if token]
    pieces = _parse(tokens, known)
    if any(not choice.column for choice in _header_choices(pieces)):
        raise DataError(f"In the pattern {source!r}, words in <> stand where no column is told.")
    extras = tuple(piece.columns for piece in pieces if isinstance(piece, Extra) and piece.columns)
    return Pattern(pieces, _names(pieces) & known, extras)


def _parse(tokens: list[str], columns: frozenset[str]) -> Pieces:
    """Take pieces off the tokens up to the end of this bracket."""
    pieces: list[Piece] = []
    while tokens and tokens[0] not in ("]", "|", ")", ">"):
        token = tokens.pop(0)
        if token in ("[", "<"):
            options = [_parse(tokens, columns)]
            while tokens.pop(0) == "|":
                options.append(_parse(tokens, columns))
            pieces.append(PatternChoice(tuple(options)) if token == "[" else HeaderChoice(tuple(options), ""))
        elif token == "(":
            inner = _parse(tokens, columns)
            tokens.pop(0)
            pieces.append(Extra(inner, _names(inner) & columns))
        elif token.startswith("{"):
            name, mark, rest = re.split("([:#]|$)", token[1:-1], maxsplit=1)
            pieces.append(PatternSlot(name, rest if mark == ":" else "", rest if mark == "#" else ""))
        else:
            pieces.append(token)
    return tuple(_with_column(pieces, at, columns) for at in range(len(pieces)))


def _with_column(pieces: Sequence[Piece], at: int, columns: frozenset[str]) -> Piece:
    """Return a piece; a choice by header with its column: that of its own words, the next one, or the last before."""
    piece = pieces[at]
    if not isinstance(piece, HeaderChoice):
        return piece
    order = [*pieces[at:], *reversed(pieces[:at])]
    told = [name for other in order for name in sorted(_names((other,)) & columns)]
    return replace(piece, column=told[0].rstrip("2") if told else "")


def _header_choices(pieces: Pieces) -> list[HeaderChoice]:
    inner = [each for piece in pieces if isinstance(piece, Extra) for each in _header_choices(piece.pieces)]
    return [*inner, *(piece for piece in pieces if isinstance(piece, HeaderChoice))]


def _names(pieces: Pieces) -> frozenset[str]:
    """Return the names that are said in any case; the options of a choice all say the same ones."""
    found = {piece.name for piece in pieces if isinstance(piece, PatternSlot)}
    for piece in pieces:
        if isinstance(piece, PatternChoice | HeaderChoice):
            found |= _names(piece.options[0])
    return frozenset(found)


def say(
    dice: Dice, pieces: Pieces, facts: Mapping[str, str], told: frozenset[str], second: Collection[str] = ()
) -> str:
    """Put pieces into words; `second` are the columns that have the second of their headers."""
    said: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            said.append(piece)
        elif isinstance(piece, PatternSlot):
            said.append(_value(facts[piece.name], piece))
        elif isinstance(piece, PatternChoice):
            said.append(say(dice, dice.pick(piece.options), facts, told, second))
        elif isinstance(piece, HeaderChoice):
            said.append(say(dice, piece.options[piece.column in second], facts, told, second))
        elif piece.columns <= told:
            said.append(say(dice, piece.pieces, facts, told, second))
    return "".join(said)


def _value(value: str, slot: PatternSlot) -> str:
    if slot.noun:
        number = int(value)
        count = NUMBERS[number] if slot.noun not in UNITS and number < len(NUMBERS) else value
        return f"{count} {slot.noun if number == 1 else pluralise(slot.noun)}"
    if slot.form:
        return FORMS[slot.form](value)
    return value


# --- values in words -------------------------------------------------------------------------------------------------


def _number(value: str) -> int:
    return int(value.replace(",", ""))


def _pick_by(number: float, bounds: Sequence[float], words: Sequence[str]) -> str:
    """Return the word of the first bound that is above the number, or the last word."""
    return words[sum(number >= bound for bound in bounds)]


def _outcome(score: str) -> int:
    """Return 0 for a match won, 1 for a draw, 2 for a match lost."""
    ours, theirs = (int(goals) for goals in score.split("-"))
    return 0 if ours > theirs else 1 if ours == theirs else 2


def _margin(score: str) -> str:
    ours, theirs = (int(goals) for goals in score.split("-"))
    kind = ("win", "draw", "defeat")[_outcome(score)]
    return f"{_pick_by(abs(ours - theirs), (1, 2, 3), ('', 'narrow ', '', 'clear '))}{score} {kind}"


def _goals(score: str) -> str:
    goals = int(score.split("-")[0])
    return f"{NUMBERS[goals]} goal{'s' * (goals != 1)}"


def _gender(name: str) -> int:
    """Return 0 for a man, 1 for a woman, 2 for one thing and 3 for several."""
    names, first, last = load_lexicon().names, name.split(" ")[0], name.split(" ")[-1]
    if first in names["he"]:
        return 0
    if first in names["she"]:
        return 1
    return 2 if last in ("Choir", "Band", "Family") else 3


def _by_gender(*words: str) -> "Form":
    return lambda value: words[_gender(value)]


def _when(year: str) -> str:
    words = ("as early as", "in", "back in", "in", "as recently as")
    return f"{_pick_by(int(year), (1800, 1950, 1980, 2000), words)} {year}"


def _season(month: str) -> str:
    for season, months in SEASONS.items():
        if month in months:
            return season
    raise KeyError(month)


def _part_of_day(time: str) -> str:
    parts = ("in the morning", "around noon", "in the afternoon", "in the evening")
    return f"{time} {_pick_by(int(time.split(':')[0]), (12, 13, 18), parts)}"


def _cost(price: str) -> str:
    return f"{_pick_by(float(price[1:]), (4, 10), ('only ', '', 'no less than '))}{price}"


def _share(percent: str) -> str:
    share = float(percent.rstrip("%"))
    return f"a majority of {percent}" if share >= 50 else f"{'only ' * (share < 10)}{percent} of the votes"


def _place(value: str, first: str, other: str) -> str:
    return first if value == "1" else other.format(ORDINALS[int(value) - 1])


def _many(value: str) -> str:
    """Return a count as one that is small, of two digits, or great, of four and more."""
    return f"{_pick_by(_number(value), (100, 1000), ('only ', '', 'as many as '))}{value}"


def _rain(value: str) -> str:
    return f"{_pick_by(int(value), (40, 100), ('only ', '', 'as much as '))}{value} millimeters"


def _warmth(value: str) -> str:
    kind = _pick_by(int(value), (0, 10, 20), ("freezing", "cold", "mild", "warm"))
    return f"a {kind} {value} degree{'s' * (abs(int(value)) != 1)}"


def _american(date: str) -> str:
    day, month, _ = date.split(" ")
    return f"{month} {day}"


Form = Callable[[str], str]
FORMS: Mapping[str, Form] = {
    "the": lambda value: f"the {value}",
    "a": with_article,
    "ord": lambda value: ORDINALS[int(value) - 1],
    "words": lambda value: "none" if value == "0" else NUMBERS[int(value)] if int(value) < len(NUMBERS) else value,
    "he": _by_gender("he", "she", "it", "they"),
    "his": _by_gender("his", "her", "its", "their"),
    "him": _by_gender("him", "her", "it", "them"),
    "a-man": _by_gender("a man", "a woman"),
    "actor": _by_gender("actor", "actress"),
    "their": _by_gender("his", "her", "its", "their"),
    "was": _by_gender("was", "was", "was", "were"),
    "when": _when,
    "from": lambda year: f"from {year}" if int(year) >= 1800 else f"from as far back as {year}",
    "season": lambda month: f"the {_season(month)} month of {month}",
    "time": _season,
    "clock": _part_of_day,
    "daytime": lambda time: f"at {_part_of_day(time)}",
    "day": lambda date: " ".join(date.split(" ")[:2]),
    "us": _american,
    "size": lambda people: _pick_by(_number(people), (2000, 50_000), ("village", "town", "city")),
    "only": _many,
    "cost": _cost,
    "part": _share,
    "rain": _rain,
    "warm": _warmth,
    "tall": lambda height: _pick_by(int(height), (30, 55), ("small", "stately", "tall")),
    "inside": lambda region: (
        f"{'on' if region.split(' ')[-1] in ('Coast', 'Islands', 'Plain', 'Shore') else 'in'} {region}"
    ),
    "on": lambda stage: f"{'on' if stage.split(' ')[-1] in ('stage', 'square', 'beach') else 'in'} {stage}",
    "took": lambda place: _place(place, "won", "took {} place in"),
    "came": lambda place: _place(place, "won", "came {}"),
    "where": lambda ground: {"home": "at home", "away": "away"}[ground],
    "were": lambda ground: {"home": "were at home against", "away": "were away at"}[ground],
    "beat": lambda score: ("beat", "drew with", "lost to")[_outcome(score)],
    "ended": lambda score: ("won", "drew", "lost")[_outcome(score)],
    "went": lambda score: ("was a good day for", "was a fair result for", "was a bad day for")[_outcome(score)],
    "win": _margin,
    "goals": _goals,
}


# --- what is told ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Telling:
    """The content of a sentence: columns of one record of a page, or of two.

    Attributes:
        page: The page.
        rows: Indices of the records, in the order of the sentence.
        told: The columns, those of a second record marked with a 2.
        section: Which of the kind's titles the section has; it sets the patterns.
        second: The columns that have the second of their headers.
    """

    page: TablePage
    rows: tuple[int, ...]
    told: frozenset[str]
    section: int
    second: frozenset[str]

    @property
    def facts(self) -> Record:
        """All values that a sentence may use."""
        facts = {**self.page.context, **self.page.records[self.rows[0]]}
        for row in self.rows[1:]:
            facts |= {f"{column}2": value for column, value in self.page.records[row].items()}
        return facts


@cache
def patterns(kind: str, source: str) -> tuple[Pattern, ...]:
    """Return patterns of a kind: of one row by the number of the section ("0"), "two", "common one" or "common two"."""
    entry = words()["kind"][kind]
    columns = list(entry["headers"])
    if source.isdecimal():
        return tuple(parse_pattern(text, columns) for text in entry["one"][int(source) % len(entry["one"])])
    if source == "two":
        return tuple(parse_pattern(text, columns) for text in entry["two"])
    if "key" not in entry:
        return ()
    column, _, form = entry["key"].partition(":")
    key, second = (f"{{{name}:{form}}}" if form else f"{{{name}}}" for name in (column, f"{column}2"))
    texts = words()["common"][source.removeprefix("common ")]
    texts = [text.replace("{key}", key).replace("{key2}", second).replace("{list}", entry["list"]) for text in texts]
    return tuple(parse_pattern(text, columns) for text in texts)


@cache
def fitting(kind: str, section: int, told: frozenset[str]) -> tuple[Pattern, ...]:
    """Return the patterns of a kind that can tell these columns under the title of that section."""
    every = [
        pattern for source in (str(section), "two", "common one", "common two") for pattern in patterns(kind, source)
    ]
    return tuple(pattern for pattern in every if pattern.tells(told))


def draw_telling(dice: Dice, page: TablePage) -> Telling:
    """Draw which records and columns of a page a sentence tells, and what it follows from: section and headers."""
    entry = words()["kind"][page.kind]
    section = int(dice.random() * len(entry["sections"]))
    second = frozenset(column for column in entry["headers"] if dice.chance(SECOND_HEADER))
    two = dice.chance(TWO_ROWS)
    common = patterns(page.kind, "common two" if two else "common one") if dice.chance(COMMON) else ()
    told = _columns_of(dice, common or patterns(page.kind, "two" if two else str(section)), bool(common))
    return Telling(page, _rows_of(dice, page, two), told, section, second)


def _columns_of(dice: Dice, choice: Sequence[Pattern], common: bool) -> frozenset[str]:
    """Return the columns that one of the patterns tells: its own, and some that it can add."""
    while True:
        pattern = dice.pick(choice)
        told = pattern.needs
        for extra in pattern.extras:
            if len(told | extra) <= MOST_CELLS and dice.chance(EXTRA):
                told |= extra
        if len(told) > 1 or common or dice.chance(ONE_CELL):
            return told


def _rows_of(dice: Dice, page: TablePage, two: bool) -> tuple[int, ...]:
    if not two:
        return (int(dice.random() * len(page.records)),)
    column = words()["kind"][page.kind].get("compare")
    while True:
        one, other = sorted(dice.sample(range(len(page.records)), 2))
        if not column:
            return one, other
        greater = _number(page.records[one][column]) - _number(page.records[other][column])
        if greater:
            return (one, other) if greater > 0 else (other, one)


def sentence(dice: Dice, telling: Telling, pattern: Pattern | None = None) -> str:
    """Return a sentence that tells it, by one of the patterns that can."""
    pattern = pattern or dice.pick(fitting(telling.page.kind, telling.section, telling.told))
    return finish(say(dice, pattern.pieces, telling.facts, telling.told, telling.second))


def finish(text: str) -> str:
    """Return what was said as a sentence: single spaces, no comma at the end of an aside that ends it."""
    single = re.sub(" +", " ", text + ".").replace(" ,", ",")
    return capitalise(re.sub(r",+(?=[.,])", "", single))


def references(dice: Dice, telling: Telling, count: int) -> list[str] | None:
    """Return different sentences that tell the same, of different patterns as far as there are, or None."""
    found: list[str] = []
    for _ in range(3):
        for pattern in dice.shuffled(fitting(telling.page.kind, telling.section, telling.told)):
            text = sentence(dice, telling, pattern)
            if text not in found:
                found.append(text)
            if len(found) == count:
                return found
    return None
