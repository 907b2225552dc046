"""Sentences about cells of a table: patterns, and which columns each can express."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from miniworld.chance import Dice
from miniworld.lexicon import capitalise, pluralise, with_article
from miniworld.table_names import Record, words
from miniworld.tables import TablePage

MOST_CELLS = 5
TWO_ROWS, COMMON, SHORT_NAME = 0.15, 0.07, 0.12
UNITS = ("degree", "meter", "millimeter")
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth",
)  # fmt: skip


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
class Extra:
    """A part that is written if all its columns are expressed; sometimes, if it has none."""

    pieces: "Pieces"
    columns: frozenset[str]


Pieces = tuple[str | PatternSlot | PatternChoice | Extra, ...]


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
    """Parse a sentence in the notation of `tables.toml`; names that are not among the columns are of the title."""
    known = frozenset(columns) | {f"{column}2" for column in columns}
    tokens = [token for token in re.split(r"(\{[^}]*\}|[\[\]|()])", source) if token]
    pieces = _parse(tokens, known)
    extras = tuple(piece.columns for piece in pieces if isinstance(piece, Extra) and piece.columns)
    return Pattern(pieces, _names(pieces) & known, extras)


def _parse(tokens: list[str], columns: frozenset[str]) -> Pieces:
    """Take pieces off the tokens up to the end of this bracket."""
    pieces: list[str | PatternSlot | PatternChoice | Extra] = []
    while tokens and tokens[0] not in ("]", "|", ")"):
        token = tokens.pop(0)
        if token == "[":
            options = [_parse(tokens, columns)]
            while tokens.pop(0) == "|":
                options.append(_parse(tokens, columns))
            pieces.append(PatternChoice(tuple(options)))
        elif token == "(":
            inner = _parse(tokens, columns)
            tokens.pop(0)
            pieces.append(Extra(inner, _names(inner) & columns))
        elif token.startswith("{"):
            name, mark, rest = re.split("([:#]|$)", token[1:-1], maxsplit=1)
            pieces.append(PatternSlot(name, rest if mark == ":" else "", rest if mark == "#" else ""))
        else:
            pieces.append(token)
    return tuple(pieces)


def _names(pieces: Pieces) -> frozenset[str]:
    """Return the names that are said in any case; the options of a choice all say the same ones."""
    found = {piece.name for piece in pieces if isinstance(piece, PatternSlot)}
    for piece in pieces:
        if isinstance(piece, PatternChoice):
            found |= _names(piece.options[0])
    return frozenset(found)


def say(dice: Dice, pieces: Pieces, facts: Mapping[str, str], told: frozenset[str]) -> str:
    """Put pieces into words."""
    said: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            said.append(piece)
        elif isinstance(piece, PatternSlot):
            said.append(_value(dice, facts[piece.name], piece))
        elif isinstance(piece, PatternChoice):
            said.append(say(dice, dice.pick(piece.options), facts, told))
        elif piece.columns <= told and (piece.columns or dice.chance(0.5)):
            said.append(say(dice, piece.pieces, facts, told))
    return "".join(said)


def _value(dice: Dice, value: str, slot: PatternSlot) -> str:
    if slot.noun:
        number = int(value)
        in_words = slot.noun not in UNITS and number < len(NUMBERS) and (number == 0 or dice.chance(0.5))
        count = NUMBERS[number] if in_words else value
        return f"{count} {slot.noun if number == 1 else pluralise(slot.noun)}"
    if slot.form:
        return FORMS[slot.form](dice, value)
    return value


def _outcome(score: str) -> int:
    """Return 0 for a match won, 1 for a draw, 2 for a match lost."""
    ours, theirs = (int(goals) for goals in score.split("-"))
    return 0 if ours > theirs else 1 if ours == theirs else 2


def _day(dice: Dice, date: str) -> str:
    day, month, year = date.split(" ")
    return dice.pick((f"{day} {month}", f"{month} {day}", f"{day} {month} {year}"))


FORMS: Mapping[str, Callable[[Dice, str], str]] = {
    "the": lambda dice, value: f"the {value}",
    "a": lambda dice, value: with_article(value),
    "family": lambda dice, value: value.split(" ")[-1],
    "ord": lambda dice, value: ORDINALS[int(value) - 1],
    "none": lambda dice, value: "none" if value == "0" else value,
    "where": lambda dice, value: {"home": "at home", "away": "away"}[value],
    "beat": lambda dice, value: ("beat", "drew with", "lost to")[_outcome(value)],
    "ended": lambda dice, value: ("won", "drew", "lost")[_outcome(value)],
    "win": lambda dice, value: f"{value} {('win', 'draw', 'defeat')[_outcome(value)]}",
    "day": _day,
}


# --- what is told ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Telling:
    """The content of a sentence: columns of one record of a page, or of two.

    Attributes:
        page: The page.
        rows: Indices of the records, in the order of the sentence.
        told: The columns, those of a second record marked with a 2.
    """

    page: TablePage
    rows: tuple[int, ...]
    told: frozenset[str]

    @property
    def facts(self) -> Record:
        """All values that a sentence may use."""
        facts = {**self.page.context, **self.page.records[self.rows[0]]}
        for row in self.rows[1:]:
            facts |= {f"{column}2": value for column, value in self.page.records[row].items()}
        return facts


@cache
def patterns(kind: str, source: str) -> tuple[Pattern, ...]:
    """Return the patterns of a kind: its own ("one", "two" rows) or those of all kinds ("common one", "common two")."""
    entry = words()["kind"][kind]
    if source in ("one", "two"):
        return tuple(parse_pattern(text, list(entry["headers"])) for text in entry[source])
    if "key" not in entry:
        return ()
    column, _, form = entry["key"].partition(":")
    key, second = (f"{{{name}:{form}}}" if form else f"{{{name}}}" for name in (column, f"{column}2"))
    texts = words()["common"][source.removeprefix("common ")]
    texts = [text.replace("{key}", key).replace("{key2}", second).replace("{list}", entry["list"]) for text in texts]
    return tuple(parse_pattern(text, list(entry["headers"])) for text in texts)


@cache
def fitting(kind: str, told: frozenset[str]) -> tuple[Pattern, ...]:
    """Return the patterns of a kind that can tell these columns."""
    every = [pattern for source in ("one", "two", "common one", "common two") for pattern in patterns(kind, source)]
    return tuple(pattern for pattern in every if pattern.tells(told))


def draw_telling(dice: Dice, page: TablePage) -> Telling:
    """Draw which records and columns of a page a sentence tells."""
    number = "two" if dice.chance(TWO_ROWS) else "one"
    common = patterns(page.kind, f"common {number}") if dice.chance(COMMON) else ()
    pattern = dice.pick(common or patterns(page.kind, number))
    told = pattern.needs
    for extra in pattern.extras:
        if len(told | extra) <= MOST_CELLS and dice.chance(0.45):
            told |= extra
    return Telling(page, _rows_of(dice, page, number == "two"), told)


def _rows_of(dice: Dice, page: TablePage, two: bool) -> tuple[int, ...]:
    if not two:
        return (int(dice.random() * len(page.records)),)
    column = words()["kind"][page.kind].get("compare")
    while True:
        one, other = sorted(dice.sample(range(len(page.records)), 2))
        if not column:
            return one, other
        greater = _as_number(page.records[one][column]) - _as_number(page.records[other][column])
        if greater:
            return (one, other) if greater > 0 else (other, one)


def _as_number(value: str) -> int:
    return int(value.replace(",", ""))


def sentence(dice: Dice, telling: Telling, pattern: Pattern | None = None) -> str:
    """Return a sentence that tells it, by one of the patterns that can."""
    facts = telling.facts
    if "who" in facts and dice.chance(SHORT_NAME):
        facts["who"] = facts["who"].split(" ")[-1]
    pattern = pattern or dice.pick(fitting(telling.page.kind, telling.told))
    text = say(dice, pattern.pieces, facts, telling.told) + "."
    return capitalise(re.sub(r",+(?=[.,])", "", text))  # an aside ends with a comma, except at the end


def references(dice: Dice, telling: Telling, count: int) -> list[str] | None:
    """Return different sentences that tell the same, of different patterns as far as there are, or None."""
    found: list[str] = []
    for _ in range(3):
        for pattern in dice.shuffled(fitting(telling.page.kind, telling.told)):
            text = sentence(dice, telling, pattern)
            if text not in found:
                found.append(text)
            if len(found) == count:
                return found
    return None
