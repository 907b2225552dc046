"""The patterns of table sentences: kinds, slots and choices, and the words that go with headers and values."""

from collections.abc import Iterator

import pytest

from grue.errors import DataError
from miniworld import table_words
from miniworld.chance import Dice
from miniworld.table_names import words
from miniworld.table_words import FORMS, Extra, HeaderChoice, PatternChoice, PatternSlot, parse_pattern
from miniworld.tables import KINDS, draw_page

HELD_OUT = {"mayors", "directors", "buildings", "books"}


def test_every_kind_has_many_patterns_of_columns_it_has() -> None:
    dice = Dice(4)
    assert len(KINDS) == 22 and set(KINDS) == set(words()["kind"])
    assert {kind for kind, entry in words()["kind"].items() if entry.get("held_out")} == HELD_OUT
    for kind, entry in words()["kind"].items():
        columns = list(entry["headers"])
        page = draw_page(dice, kind, 6, "2")
        assert list(page.records[0]) == columns or set(page.records[0]) == set(columns), kind
        assert len(entry["one"]) in (1, len(entry["sections"]))
        assert min(map(len, entry["one"])) >= 4 and len(entry["two"]) >= 3
        known = {*page.context, *columns, *(f"{column}2" for column in columns)}
        for text in [*(text for group in entry["one"] for text in group), *entry["two"]]:
            assert set(names(parse_pattern(text, columns).pieces)) <= known, text
        for text in entry["two"]:
            needs = parse_pattern(text, columns).needs
            assert {name for name in needs if name.endswith("2")} == {f"{n}2" for n in needs if not n.endswith("2")}, (
                text
            )


def names(pieces: table_words.Pieces) -> Iterator[str]:
    """Yield the names of all slots; the options of a choice at random must have the same ones."""
    for piece in pieces:
        if isinstance(piece, PatternSlot):
            yield piece.name
        elif isinstance(piece, Extra):
            yield from names(piece.pieces)
        elif isinstance(piece, PatternChoice | HeaderChoice):
            found = {frozenset(names(option)) for option in piece.options}
            assert len(found) == 1 or isinstance(piece, HeaderChoice), piece
            yield from frozenset().union(*found)


@pytest.mark.parametrize(
    ("source", "told", "text"),
    [
        ("{who} played {role}( in {year})", {"role", "year"}, "Ann played a cook in 1990"),
        ("{who} played {role}( in {year})", {"role"}, "Ann played a cook"),
        ("{place:ord} of {won#game}, {role}", {"place", "won", "role"}, "third of one game, a cook"),
    ],
)
def test_patterns_say_what_is_told(source: str, told: set[str], text: str) -> None:
    pattern = parse_pattern(source, ["role", "year", "place", "won"])
    facts = {"who": "Ann", "role": "a cook", "year": "1990", "place": "3", "won": "1"}
    assert pattern.tells(frozenset(told)) and not pattern.tells(frozenset(told) | {"lost"})
    said = {table_words.say(Dice(seed), pattern.pieces, facts, frozenset(told)) for seed in range(20)}
    assert text in said and said <= {text, text.replace("one", "2")}


@pytest.mark.parametrize(
    ("second", "text"),
    [
        ((), "a film by Ann with Tom"),
        (("lead",), "a film by Ann starring Tom"),
        (("film",), "a picture by Ann with Tom"),
    ],
)
def test_words_follow_the_headers(second: tuple[str, ...], text: str) -> None:
    pattern = parse_pattern(
        "<a film|a picture>{film:the}( by {director})( <with|starring> {lead})", ["film", "director", "lead"]
    )
    facts = {"film": "", "director": "Ann", "lead": "Tom"}
    said = table_words.say(Dice(1), pattern.pieces, facts, frozenset(facts), second)
    assert said.replace("the ", "") == text


def test_words_by_header_need_a_column() -> None:
    with pytest.raises(DataError, match="no column is told"):
        parse_pattern("{who} <acted|played>( in {year})", ["year"])


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        ("when", "1755", "as early as 1755"),
        ("when", "1900", "in 1900"),
        ("when", "1979", "back in 1979"),
        ("when", "2000", "as recently as 2000"),
        ("size", "1,999", "village"),
        ("size", "50,000", "city"),
        ("only", "99", "only 99"),
        ("only", "1,000", "as many as 1,000"),
        ("cost", "$3.90", "only $3.90"),
        ("cost", "$10.00", "no less than $10.00"),
        ("part", "50.0%", "a majority of 50.0%"),
        ("part", "9.9%", "only 9.9% of the votes"),
        ("daytime", "9:45", "at 9:45 in the morning"),
        ("clock", "12:15", "12:15 around noon"),
        ("warm", "-1", "a freezing -1 degree"),
        ("season", "December", "the winter month of December"),
        ("win", "3-2", "narrow 3-2 win"),
        ("win", "0-4", "clear 0-4 defeat"),
        ("win", "1-1", "1-1 draw"),
        ("goals", "1-0", "one goal"),
        ("his", "Clara Bell", "her"),
        ("their", "the Harlow Puppets", "their"),
        ("was", "the Harlow Choir", "was"),
        ("took", "1", "won"),
        ("took", "3", "took third place in"),
        ("on", "the beach", "on the beach"),
        ("on", "the big tent", "in the big tent"),
        ("inside", "the Long Shore", "on the Long Shore"),
        ("from", "1640", "from as far back as 1640"),
        ("words", "0", "none"),
    ],
)
def test_values_have_words_of_their_own(form: str, value: str, text: str) -> None:
    assert FORMS[form](value) == text
