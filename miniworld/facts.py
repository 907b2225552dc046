"""Fully specified facts of the mini world, and other facts derived from them.

A `Fact` is an event with its numbers, adjectives and time. Tense, voice, order and articles are not facts: two
sentences mean the same if they come from the same fact (`pairs.tell`).
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

from miniworld.chance import Dice
from miniworld.lexicon import ANIMALS, PEOPLE, Noun, load_lexicon
from miniworld.phrases import Pronoun, one
from miniworld.template import Template
from miniworld.world import REVISION, Activity, Filler, Step, draw_event, load_world

NUMBERS = ("two", "three", "four", "five")
WHENS = (
    ("in the morning", "in the afternoon", "in the evening", "at night"), ("on Sunday", "on Monday", "on Friday"),
    ("in winter", "in summer"), ("before breakfast", "after dinner"),
)  # fmt: skip
SYNONYMS = tuple(
    tuple(pair.split("/"))
    for pair in "kid/child sofa/couch photo/picture store/shop road/street bike/bicycle path/trail woman/lady "
    "stone/rock chef/cook bag/sack".split()
)
OPPOSITES = tuple(
    frozenset(group.split("/"))
    for group in "young/old new/old big/small large/small hot/cold warm/cold wet/dry dirty/clean heavy/light "
    "long/short tall/short rich/poor sad/happy sad/cheerful happy/grumpy cheap/expensive quiet/noisy thick/thin "
    "crowded/empty wide/narrow dark/bright red/blue/green/yellow/black/white/brown/gray".split()
)
GENERAL = {
    **dict.fromkeys(PEOPLE, "person/people"), "kid": "child/children",
    **dict.fromkeys(ANIMALS, "animal/animals"), "bird": "bird/birds", "fish": "fish/fish",
    "vehicle": "vehicle/vehicles", "instrument": "instrument/instruments", "building": "building/buildings",
}  # fmt: skip
"""Kind of noun → what all of that kind are."""
VAGUE = (
    "boy/child girl/child boy/kid girl/kid student/pupil man/father woman/mother lady/mother dog/puppy cat/kitten "
    "horse/pony chicken/hen chicken/rooster bird/chicken bird/duck bird/goose bird/hen sheep/lamb potato/vegetable "
    "carrot/vegetable tomato/vegetable onion/vegetable cabbage/vegetable pumpkin/vegetable mushroom/vegetable "
    "apple/fruit banana/fruit orange/fruit berry/fruit cherry/fruit grape/fruit strawberry/berry meat/steak "
    "meat/sausage meal/dinner meal/lunch meal/breakfast flower/rose flower/tulip plant/flower plant/tree plant/bush "
    "plant/rose plant/vine toy/doll toy/ball toy/kite toy/puzzle truck/van cup/mug garden/yard plate/dish "
    "jacket/coat sea/ocean plate/bowl policeman/officer policewoman/officer street/town road/town street/city "
    "road/city street/village square/town square/city bank/river beach/sea beach/ocean forest/trail forest/path "
    "park/path park/playground mountain/trail meadow/field pants/jeans painting/picture basketball/ball "
    "football/ball magazine/book novel/book diary/notebook report/book story/book painter/artist sculptor/artist"
)
"""Different nouns that may yet mean the same one."""
LOOSE = frozenset("worker artist athlete player officer adult friend neighbor".split())
"""Nouns that may name nearly anyone."""
ALIKE = frozenset(frozenset(pair.split("/")) for pair in VAGUE.split()) | {frozenset(pair) for pair in SYNONYMS}
WEIGHTS = {"verb": 2.0, "who": 2.0, "what": 2.0}
"""What a fact's parts count in a likeness; others count one, adjectives and numbers a half."""

Role = Literal["who", "what", "place", "tool", "wear"]
ROLES: tuple[Role, ...] = ("who", "what", "place", "tool", "wear")
DETAILS = ("place", "tool", "wear", "when", "step", "why")


@dataclass(frozen=True, slots=True)
class Thing:
    """Who or what fills a role: noun, whether several, the number if stated, adjective, preposition."""

    noun: Noun
    several: bool = False
    count: str = ""
    adjective: str = ""
    preposition: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """An event with all its details; `pronoun` is the actor's."""

    activity: Activity
    pronoun: Pronoun
    who: Thing
    what: Thing | None = None
    place: Thing | None = None
    tool: Thing | None = None
    wear: Thing | None = None
    when: str = ""
    step: Step | None = None
    why: Template | None = None
    negated: bool = False


def draw_fact(
    dice: Dice, revision: str = REVISION, activity: Activity | None = None, unlike: Activity | None = None
) -> Fact:
    """Draw a fact of the world, or of one activity, or of another verb than the activity `unlike`."""
    activities = [activity] if activity else load_world(revision).activities
    activity = dice.pick(activities)
    while unlike and activity.verb == unlike.verb:
        activity = dice.pick(activities)
    event = draw_event(dice, activity)
    who = _thing(dice, event.who, dice.chance(0.16))
    return Fact(
        activity,
        "they" if who.several else one(dice, who.noun),
        who,
        what=_thing(dice, event.what, dice.chance(0.1)) if event.what else None,
        place=_sometimes(dice, event.place, 0.6),
        tool=_sometimes(dice, event.tool, 0.45),
        wear=_sometimes(dice, event.wear, 0.2),
        when=dice.pick(dice.pick(WHENS)) if dice.chance(0.25) else "",
        step=event.step if dice.chance(0.15) else None,
        why=event.why if dice.chance(0.15) else None,
    )


def _sometimes(dice: Dice, filler: Filler | None, often: float) -> Thing | None:
    wanted = filler is not None and filler.noun.kind != "body" and dice.chance(often)
    return _thing(dice, filler, False) if filler and wanted else None


def _thing(dice: Dice, filler: Filler, several: bool) -> Thing:
    noun = filler.noun
    many = noun.number == "count" and noun.kind not in ("family", "royal", "body", "group", "plain", "room")
    several = filler.several or (several and many)
    preposition = dice.pick(filler.prepositions) if filler.prepositions else ""
    count = dice.pick(NUMBERS) if several and many and not preposition and dice.chance(0.6) else ""
    described = noun.adjectives and noun.kind != "body" and not _bare(preposition, noun) and dice.chance(0.3)
    return Thing(noun, several, count, dice.pick(noun.adjectives) if described else "", preposition)


def _bare(word: str, noun: Noun) -> bool:
    return noun.lemma in load_lexicon().bare.get(word, ())


def parts(fact: Fact) -> dict[str, tuple[object, float]]:
    """Return the parts of a fact with the weight of each."""
    said: dict[str, tuple[object, float]] = {"verb": ((fact.activity.verb.lemma, fact.negated), WEIGHTS["verb"])}
    for role in ROLES:
        thing: Thing | None = getattr(fact, role)
        if thing:
            said[role] = ((thing.noun.lemma, thing.preposition), WEIGHTS.get(role, 1.0))
            if thing.adjective:
                said[f"adjective of {role}"] = (thing.adjective, 0.5)
            if thing.several:
                said[f"number of {role}"] = (thing.count, 0.5)
    for detail in ("when", "step", "why"):
        if getattr(fact, detail):
            said[detail] = (getattr(fact, detail), 1.0)
    return said


def agreement(one: Fact, other: Fact) -> float:
    """Return the F1 of two facts' parts: 0 if they share none, 1 if they are the same."""
    mine, theirs = parts(one), parts(other)
    total = shared = 0.0
    for said in (mine, theirs):
        for _, weight in said.values():
            total += weight
    for name, (value, weight) in mine.items():
        if name in theirs and theirs[name][0] == value:
            shared += 2 * weight
    return shared / total


# --- other facts -----------------------------------------------------------------------------------------------------


def reduced(dice: Dice, fact: Fact, keep: float = 0.5) -> Fact:
    """Return the fact with some of its details, adjectives and numbers left unsaid."""
    dropped: dict[str, Any] = {name: None for name in DETAILS if name != "when" and not dice.chance(keep)}
    kept = replace(fact, **dropped, when=fact.when if dice.chance(keep) else "")
    for role in ROLES:
        thing: Thing | None = getattr(kept, role)
        if thing:
            adjective, count = (value if dice.chance(keep) else "" for value in (thing.adjective, thing.count))
            changes: dict[str, Any] = {role: replace(thing, adjective=adjective, count=count)}
            kept = replace(kept, **changes)
    return kept


def enriched(dice: Dice, fact: Fact) -> Fact | None:
    """Return the fact with one detail, adjective or number more, or None if none was found."""
    role = dice.pick(("who", "what", "place", "tool", "wear"))
    thing: Thing | None = getattr(fact, role)
    changes: dict[str, Any] = {}
    if thing and dice.chance(0.3):
        if thing.several and not (thing.count or thing.preposition) and thing.noun.number == "count":
            changes = {role: replace(thing, count=dice.pick(NUMBERS))}
        elif thing.noun.adjectives and not (thing.adjective or _bare(thing.preposition, thing.noun)):
            changes = {role: replace(thing, adjective=dice.pick(thing.noun.adjectives))}
    else:
        name = dice.pick(DETAILS)
        event = draw_event(dice, fact.activity)
        if name == "when":
            changes = {name: dice.pick(dice.pick(WHENS))}
        elif name in ("step", "why"):
            changes = {name: getattr(event, name)}
        else:
            changes = {name: _sometimes(dice, getattr(event, name), 1.0)}
        if getattr(fact, name) or not changes[name]:
            return None
    return replace(fact, **changes) if changes else None


def generalised(dice: Dice, fact: Fact) -> Fact | None:
    """Return the fact with a role's noun made more general: a person, an animal, a vehicle; or None."""
    role = dice.pick(("who", "who", "what", "place"))
    thing: Thing | None = getattr(fact, role)
    if thing is None or thing.noun.kind not in GENERAL or thing.noun.number != "count":
        return None
    lemma, _, plural = GENERAL[thing.noun.kind].partition("/")
    if thing.noun.lemma in (lemma, "adult", "team", "audience"):
        return None
    changes: dict[str, Any] = {role: replace(thing, noun=replace(thing.noun, lemma=lemma, plural=plural), adjective="")}
    return replace(fact, **changes)


def changed(dice: Dice, fact: Fact) -> Fact | None:
    """Return the fact with one part that cannot be true as well: another role, number, time, opposite; or None."""
    kind = dice.weighted(((8, "noun"), (2, "number"), (2, "adjective"), (2, "when"), (1, "swapped"), (1, "direction")))
    role = dice.pick([role for role in ROLES if getattr(fact, role)])
    thing: Thing = getattr(fact, role)
    if kind == "swapped":
        return _swapped(fact)
    if kind == "when":
        group = next((group for group in WHENS if fact.when in group), ())
        return replace(fact, when=dice.pick([when for when in group if when != fact.when])) if group else None
    new = {"noun": _another, "number": _miscounted, "adjective": _opposite, "direction": _turned}[kind]
    found = new(dice, thing) if kind != "noun" else _another(dice, thing, fact.activity, role)  # type: ignore[operator]
    changes: dict[str, Any] = {role: found}
    if found and role == "who":
        changes["pronoun"] = "they" if found.several else one(dice, found.noun)
    return replace(fact, **changes) if found else None


def _swapped(fact: Fact) -> Fact | None:
    who, what = fact.who, fact.what
    if not what or what.preposition or who.noun.lemma == what.noun.lemma:
        return None
    if not all(thing.noun.kind in (*PEOPLE, *ANIMALS) for thing in (who, what)) or fact.step or fact.why:
        return None
    return replace(fact, who=what, what=who, pronoun="they" if what.several else "it", wear=None, tool=None)


def _another(dice: Dice, thing: Thing, activity: Activity, role: Role) -> Thing | None:
    """Return another noun for a role, mostly one that occurs there, which cannot name the same thing."""
    places = {"place": "places", "tool": "tools"}
    fillers = getattr(activity, places.get(role, role))
    likely = [filler.noun for filler in fillers if not thing.preposition or thing.preposition in filler.prepositions]
    nouns = likely if dice.chance(0.75) else _of_kind(thing.noun.kind)
    fitting = [noun for noun in nouns if _excludes(thing.noun, noun)]
    if not fitting:
        return None
    noun = dice.pick(fitting)
    several = thing.several and noun.number == "count"
    adjective = thing.adjective if thing.adjective in noun.adjectives else ""
    return Thing(noun, several, thing.count if several else "", adjective, thing.preposition)


def _of_kind(kind: str) -> list[Noun]:
    """Return all nouns of a kind, or none of the kinds whose nouns have little in common."""
    return [] if kind in ("plain", "money", "small") else [n for n in load_lexicon().nouns.values() if n.kind == kind]


def _excludes(one: Noun, other: Noun) -> bool:
    """Return whether nothing can be both; one person can have two trades, and a barn can be in a field."""
    if one.lemma == other.lemma or frozenset((one.lemma, other.lemma)) in ALIKE:
        return False
    if "body" in (one.kind, other.kind) or one.kind == other.kind == "group" or {one.lemma, other.lemma} & LOOSE:
        return False
    if any(GENERAL.get(a.kind, "").startswith(f"{b.lemma}/") for a, b in ((one, other), (other, one))):
        return False
    living = [noun.kind in PEOPLE or noun.kind == "royal" for noun in (one, other)]
    if all(living):
        genders = {one.pronoun, other.pronoun}
        busy = {"worker", "officer", "artist"}
        kinds = {one.kind, other.kind}
        return genders == {"he", "she"} or kinds <= busy or ("kid" in kinds and bool(kinds & (busy | {"adult"})))
    if any(living):
        return {one.kind, other.kind} <= {*PEOPLE, *ANIMALS}
    return one.kind == other.kind or one.kind in ANIMALS or one.kind not in ("room", "town", "building", "nature")


def _miscounted(dice: Dice, thing: Thing) -> Thing | None:
    if thing.noun.number != "count" or thing.preposition or thing.noun.kind in ("family", "royal", "body", "group"):
        return None
    if thing.several and not thing.count:
        return None
    count = dice.pick([number for number in NUMBERS if number != thing.count])
    return replace(thing, several=True, count=count)


def _opposite(dice: Dice, thing: Thing) -> Thing | None:
    against = [
        word
        for group in OPPOSITES
        if thing.adjective in group
        for word in sorted(group)
        if word != thing.adjective and word in thing.noun.adjectives
    ]
    return replace(thing, adjective=dice.pick(against)) if against else None


def _turned(dice: Dice, thing: Thing) -> Thing | None:
    turned = {"into": "out of", "out of": "into", "up": "down", "down": "up", "over": "under", "under": "over"}
    return replace(thing, preposition=turned[thing.preposition]) if thing.preposition in turned else None
