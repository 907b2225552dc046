"""Names and numbers for the tables of the mini world."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from grue.files import read_toml
from miniworld.chance import Dice
from miniworld.lexicon import HERE, capitalise, load_lexicon, with_article
from miniworld.world import Person, World

Record = dict[str, str]
TITLE_KINDS = (
    "wild", "bird", "small", "plant", "twig", "royal", "insect", "sky", "device", "vehicle", "boat", "toy", "clothes",
    "cloth", "furniture", "instrument", "building", "nature", "height", "waters", "container", "art", "artist", "adult",
    "worker", "produce", "baked", "dish", "kitchenware", "opening", "town",
)  # fmt: skip
THING_KINDS = (
    "kid", "athlete", "family", "pet", "livestock", "wild", "bird", "tool", "sport", "building", "waters", "vehicle",
    "boat", "container", "room", "royal", "fish", "machine", "instrument", "nature",
)  # fmt: skip


@cache
def words() -> dict[str, Any]:
    """Read `tables.toml`."""
    return read_toml(HERE / "tables.toml")


def draw_different_people(dice: Dice, world: World, count: int) -> list[Person]:
    """Return `count` people of different names."""
    found: dict[str, Person] = {}
    while len(found) < count:
        who = dice.pick(world.people)
        found[who.name] = who
    return list(found.values())


def pool(name: str) -> list[str]:
    """Return a list of `tables.toml`'s words."""
    found: list[str] = words()["words"][name]
    return found


def draw_number(dice: Dice, low: int, high: int) -> int:
    """Return a whole number from `low` to `high`, both included."""
    return low + int(dice.random() * (high - low + 1))


def draw_several(draw: Callable[[], str], count: int) -> list[str]:
    """Return `count` different draws, in the order drawn."""
    found: dict[str, None] = {}
    while len(found) < count:
        found[draw()] = None
    return list(found)


def draw_years(dice: Dice, count: int, low: int, high: int) -> list[str]:
    """Return `count` different years, the earliest first."""
    return sorted(draw_several(lambda: str(draw_number(dice, low, high)), count))


def draw_runs(dice: Dice, draw: Callable[[], str], count: int) -> list[str]:
    """Return `count` draws of which one in three repeats the one before, as the last column of a table may."""
    found = [draw()]
    while len(found) < count:
        found.append(found[-1] if dice.chance(0.35) else draw())
    return found


def draw_person(dice: Dice, world: World) -> str:
    """Return the name of somebody."""
    return dice.pick(world.people).name


def draw_town(dice: Dice, world: World) -> str:
    """Return the name of a town."""
    return dice.pick(world.towns).name


def draw_year(dice: Dice) -> str:
    """Return a year within living memory."""
    return str(draw_number(dice, 1950, 2019))


def clock(minutes: int) -> str:
    """Return the time of day, that many minutes after midnight."""
    return f"{minutes // 60}:{minutes % 60:02d}"


def fill(dice: Dice, world: World, pattern: str) -> str:
    """Return the pattern of a name with its words in capitals drawn; no longer word twice, as in "The Thief Thief"."""
    while True:
        filled = _with_articles(re.sub("[A-Z]{2,}", lambda mark: MARKS[mark[0]](dice, world), pattern))
        if not re.search(r"\b(\w{4,})\b.*\b\1\b", filled):
            return filled


def _with_articles(text: str) -> str:
    """Return the text with its articles as the words after them want, in a title too."""

    def article(found: re.Match[str]) -> str:
        return found[1] + ("n " if with_article(found[2].lower()).startswith("an ") else " ")

    return re.sub(r"\b([Aa]) (?=([\w-]+))", article, text)


@cache
def _title_nouns() -> tuple[str, ...]:
    """Return nouns for titles, none of which is in the title of a film of the world."""
    taken = {noun.lower() for noun in read_toml(HERE / "names.toml")["film"]["title_noun"]}
    nouns = [noun for noun in load_lexicon().nouns.values() if noun.number == "count" and noun.kind in TITLE_KINDS]
    return tuple(capitalise(noun.lemma) for noun in nouns if noun.lemma not in taken)


@cache
def _adjectives() -> tuple[str, ...]:
    found = [word for noun in load_lexicon().nouns.values() if noun.kind in TITLE_KINDS for word in noun.adjectives]
    return tuple(capitalise(word) for word in dict.fromkeys(found) if "-" not in word)


@cache
def _lexicon_things() -> tuple[str, ...]:
    nouns = load_lexicon().nouns.values()
    return tuple(noun.lemma for noun in nouns if noun.number == "count" and noun.kind in THING_KINDS)


MARKS: Mapping[str, Callable[[Dice, World], str]] = {
    "FAMILY": lambda dice, world: dice.pick(world.people).family,
    "HE": lambda dice, world: dice.pick(load_lexicon().names["he"]),
    "SHE": lambda dice, world: dice.pick(load_lexicon().names["she"]),
    "NAME": lambda dice, world: dice.pick(world.people).first,
    "PLACE": draw_town,
    "JOB": lambda dice, world: dice.pick(world.people).job.lemma,
    "THING": lambda dice, world: dice.pick(pool("thing") if dice.chance(0.4) else _lexicon_things()),
    "MOOD": lambda dice, world: dice.pick(pool("mood")),
    "NOUN": lambda dice, world: dice.pick(_title_nouns()),
    "ADJ": lambda dice, world: dice.pick(pool("title_adjective") if dice.chance(0.5) else _adjectives()),
}


def draw_titles(dice: Dice, world: World, patterns: str, count: int) -> list[str]:
    """Return `count` different names, made by the patterns of that list."""
    return draw_several(lambda: fill(dice, world, dice.pick(pool(patterns))), count)


def draw_people(dice: Dice, world: World, count: int) -> list[str]:
    """Return the names of `count` different people."""
    return [who.name for who in draw_different_people(dice, world, count)]


def draw_some_people(dice: Dice, world: World, count: int) -> list[str]:
    """Return `count` names, of which some stand several times in a row."""
    return draw_runs(dice, lambda: draw_person(dice, world), count)


def records_of(columns: str, *values: Sequence[str]) -> list[Record]:
    """Return records from the values of each column."""
    names = columns.split()
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]
