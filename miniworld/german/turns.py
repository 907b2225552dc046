"""Turns of phrase: idioms, verbs with several senses, verbs whose German wants another case; and what anyone can do.

`turns.toml` has the words. A `Doing` is someone with an event of the world or a turn of phrase, which frames tell.
"""

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from grue.files import read_toml
from miniworld.chance import Dice
from miniworld.german.clauses import ClausePair, GermanScene, Mood, clause, draw_scene, verbal, whose
from miniworld.german.deeds import Deed, Role, load_deeds
from miniworld.german.lexicon import GermanVerb, entries, german_key, german_verb
from miniworld.german.news import SLOT, draw_phrase
from miniworld.german.phrases import Actor, Phrase, actor
from miniworld.german.scenes import HUMAN, Pair, named
from miniworld.lexicon import HERE, Verb, verb
from miniworld.phrases import join
from miniworld.world import World

STATES: tuple[tuple[float, Mood], ...] = (
    (8, "present"), (8, "past"), (2, "future"), (1, "would"), (1, "seems"), (1, "used"),
)  # fmt: skip
DATIVE: tuple[tuple[float, Mood], ...] = ((6, "present"), (7, "past"), (3, "perfect"), (2, "future"), (1, "would"))


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of phrase, the nouns of its slot, and whether it is a state or has its actor in the German dative."""

    english: Verb
    rest: str
    german: GermanVerb
    middle: str
    extra: str
    determiners: tuple[str, ...]
    nouns: tuple[tuple[str, bool], ...]
    state: bool
    dative: bool


@dataclass(frozen=True, slots=True)
class Said:
    """A turn with its slots filled."""

    turn: Turn
    thing: Phrase | None
    town: str


@dataclass(frozen=True, slots=True)
class Doing:
    """Someone, and what that one does."""

    who: Actor
    what: GermanScene | Said

    @property
    def dative(self) -> bool:
        """Whether the one who acts stands in the German dative."""
        return isinstance(self.what, Said) and self.what.turn.dative

    @property
    def english(self) -> Verb:
        """The English verb."""
        return self.what.turn.english if isinstance(self.what, Said) else self.what.deed.english


@cache
def turn_data() -> dict[str, Any]:
    """Return `turns.toml`."""
    return read_toml(HERE / "german" / "turns.toml")


@cache
def load_turns() -> tuple[Turn, ...]:
    """Return all turns of phrase."""
    return tuple(_turn(line) for group in turn_data()["turns"].values() for line in group)


def _turn(line: str) -> Turn:
    said, german, middle, *words = (part.strip() for part in line.split(" | "))
    lemma, _, rest = said.lstrip("=@").partition(" ")
    determiners, _, names = (words[0] if words else "").partition(":")
    nouns = tuple((german_key(name.rstrip("*")), name.endswith("*")) for name in names.split())
    inner, _, extra = middle.partition(";")
    verb_german = german_verb(german)
    inner = inner if "^" in inner else f"^ {inner}"
    return Turn(
        english_forms(lemma), rest, verb_german, f"sich {inner}" if verb_german.reflexive else inner, extra.strip(),
        tuple(determiners.split("|")), nouns, said[0] in "=@", said[0] == "@",
    )  # fmt: skip


@cache
def english_forms(lemma: str) -> Verb:
    """Return the forms of an English verb of this file."""
    forms = entries(turn_data()["english"]["words"]).get(lemma, "").split()
    regular = verb(lemma)
    past, participle, gerund = (*forms, *(regular.past, regular.participle, regular.gerund)[len(forms) :])
    return replace(regular, past=past, participle=participle, gerund=gerund)


# --- who does what ---------------------------------------------------------------------------------------------------


@cache
def _humans() -> tuple[Role, ...]:
    roles = {role.key: role for deed in load_deeds() for role in deed.who if role.noun.person and not role.several}
    return tuple(roles[key] for key in sorted(roles))


@cache
def _human_deeds() -> dict[str, tuple[Deed, ...]]:
    deeds: dict[str, list[Deed]] = {}
    for deed in load_deeds():
        for role in deed.who:
            deeds.setdefault(role.key, []).append(deed)
    return {key: tuple(found) for key, found in deeds.items()}


def human(dice: Dice, world: World) -> Actor:
    """Draw someone."""
    return named(dice, dice.pick(world.people), False) if dice.chance(0.2) else actor(dice, dice.pick(_humans()))


def draw_said(dice: Dice, world: World, active: bool = False) -> Said:
    """Draw a turn of phrase; an active one is neither a state nor takes the dative."""
    while True:
        turn = dice.pick(load_turns())
        if not (active and turn.state):
            break
    thing = draw_phrase(dice, turn.determiners, turn.nouns) if turn.nouns else None
    return Said(turn, thing, dice.pick(world.towns).name)


def draw_doing(dice: Dice, world: World, active: bool = False, turns: float = 0.5, who: Actor | None = None) -> Doing:
    """Draw what someone does: a turn of phrase in a share `turns`, else an event that the given `who` fits."""
    person = who or human(dice, world)
    deeds = _human_deeds().get(person.phrase.key, ()) if person.phrase else ()
    if dice.chance(turns) or not deeds:
        return Doing(person, draw_said(dice, world, active))
    scene = replace(draw_scene(dice, dice.pick(deeds), person, 0.6), why=None)
    return Doing(person, scene)


def moods(doing: Doing) -> tuple[tuple[float, Mood], ...]:
    """Return the moods that something can be said in."""
    if isinstance(doing.what, GermanScene):
        return HUMAN
    return DATIVE if doing.dative else STATES if doing.what.turn.state else HUMAN


def mood_for(dice: Dice, doing: Doing) -> Mood:
    """Draw a mood."""
    return dice.weighted(moods(doing))


# --- in words --------------------------------------------------------------------------------------------------------


def tell(doing: Doing, mood: Mood, negative: bool = False) -> ClausePair:
    """Return what someone does as a clause; it is not negated where German needs another word than "nicht"."""
    who, what = doing.who, doing.what
    if isinstance(what, GermanScene):
        return clause(replace(what, who=who), mood, negative)
    turn, thing = what.turn, what.thing
    negative = negative and can_deny(doing)
    rest = turn.rest.replace("{his}", whose(who)[0]).replace("{town}", what.town)
    english = SLOT.sub(lambda found: thing.english() if thing else "", rest)

    def put(found: re.Match[str]) -> str:
        return thing.german(found[2]) if thing else ""  # type: ignore[arg-type]

    middle, extra = (SLOT.sub(put, text.replace("{town}", what.town)) for text in (turn.middle, turn.extra))
    middle = join(*middle.replace("#", "nicht" if negative else "").split())
    if not turn.dative:
        return verbal(who, turn.english, turn.german, english, middle, mood, negative, extra)
    several = thing is not None and thing.plural
    words = verbal(who, turn.english, turn.german, english, middle, mood, negative, extra)
    agreeing = verbal(replace(who, plural=several), turn.english, turn.german, english, middle, mood, negative, extra)
    return replace(agreeing, predicate=words.predicate, german_subject=who.dative, plural=who.plural)


def can_deny(doing: Doing) -> bool:
    """Return whether a plain "nicht" denies it."""
    what = doing.what
    if isinstance(what, GermanScene):
        return True
    return "#" in what.turn.middle and (what.thing is None or what.thing.definite)


def infinitive(doing: Doing) -> Pair:
    """Return "feed the horse" and "das Pferd zu füttern"."""
    said = tell(doing, "tried")
    return said.predicate.partition(" to ")[2], said.german_extra


def bare(doing: Doing) -> Pair:
    """Return "feed the horse" and "das Pferd füttern"."""
    said = tell(doing, "can")
    return said.predicate.partition(" ")[2], join(*said.middle.replace("^", "").split(), said.tail)


def gerund(doing: Doing) -> str:
    """Return "feeding the horse"."""
    return tell(doing, "stopped").predicate.partition(" ")[2]
