"""Captions: sentences that show one event, or two at once, and say no more than what is shown.

What is shown settles the grammar. The time settles tense and determiners: a picture without a time, or of today, is in
the present and speaks of things for the first time ("A baker is kneading dough"); yesterday, every morning and tomorrow
ask for their own tense and speak of things that are known ("Yesterday, the baker was kneading the dough"). The verb
settles the aspect. An event whose doer is not shown is told in the passive. What is left free is the order of parts,
and an adjective, a manner or a typical place now and then.
"""

from dataclasses import dataclass, replace
from zlib import crc32

from miniworld.chance import Dice
from miniworld.grammar import STATIC, EventScene, Mood, predicate
from miniworld.lexicon import Noun, load_lexicon, with_article
from miniworld.phrases import PAIRED, Mention, finish, join, one
from miniworld.template import FORMS
from miniworld.world import Activity, Filler, WorldEvent

EPITHET, ADJECTIVE = {True: 0.6, False: 0.2}, 0.05
"""The chances that a noun is said with the adjective that is its own, one who acts or another one, or with any."""
MANNER = {True: 0.6, False: 0.05}
"""The chance that an event is said with its manner, of verbs that ask for it and of others."""
FRONTED, EXISTENTIAL = 0.25, 0.15
DETERMINERS = {"family": "my", "pet": "our", "officer": "the", "royal": "the", "group": "the", "body": "the"}
"""Kind → its determiner at any time; pets are pets only where one is spoken of."""


@dataclass(frozen=True, slots=True)
class Time:
    """When something happens: the concept that asks for it, the words and the tense."""

    concept: str
    words: str
    tense: str


TIMES = tuple(
    Time(concept, words, tense)
    for tense, listed in {
        "past": "yesterday; night: last night; week: last week; winter: last winter; year: last year; noon: at noon",
        "habit": "morning: every morning; day: every day; summer: every summer; weekend: every weekend; dawn: at dawn",
        "future": "tomorrow; tonight; month: next month; spring: next spring; soon",
        "now": "today; moment: at the moment",
    }.items()
    for concept, _, words in (entry.partition(": ") for entry in listed.split("; "))
    for words in (words or concept,)
)
LINKS = {"now": "while", "past": "while", "habit": "and", "future": "and"}
BE = {"past": ("was", "were"), "habit": ("is", "are"), "future": ("will be",) * 2}


@dataclass(frozen=True, slots=True)
class Shown:
    """One event or two at the same time and place; an event of `unseen` doers is told in the passive.

    The events state no place if the two share one.
    """

    events: tuple[WorldEvent, ...]
    unseen: tuple[bool, ...]
    time: Time | None = None
    place: Filler | None = None

    @property
    def tense(self) -> str:
        """The tense that the time asks for."""
        return self.time.tense if self.time else "now"

    @property
    def known(self) -> bool:
        """Whether people and things are spoken of as known: "the baker", "the dough"."""
        return self.tense != "now"


def caption(dice: Dice, shown: Shown) -> str:
    """Return one sentence that shows everything, and little else."""
    order = dice.shuffled(range(len(shown.events)))
    when = shown.time.words if shown.time else ""
    first = shown.events[order[0]]
    there = shown.place or (first.place if len(order) == 1 else None)
    where = _where(dice, there, None) if there else ""
    movable = bool(where) and where.split(" ")[0] in STATIC and not _personal(there)
    if when and dice.chance(0.6 if not movable else 0.45):
        opening, when = f"{when},", ""
    elif movable and dice.chance(FRONTED):
        opening, where = f"{where},", ""
    else:
        opening = ""
    if len(order) > 1:
        clauses = [_clause(dice, shown, index, "") for index in order]
        return finish(opening, f" {LINKS[shown.tense]} ".join(clauses), where, when)
    if movable and not where:  # the place has been said
        shown = replace(shown, events=(replace(first, place=None),))
    told = bool(opening or when or shown.unseen[0])
    if shown.tense == "now" and lasting(first.activity) and not told and dice.chance(EXISTENTIAL):
        return _existential(dice, shown)
    return finish(opening, _clause(dice, shown, 0, when))


def _personal(filler: Filler | None) -> bool:
    return filler is not None and filler.noun.kind in ("body", "clothes")


def _clause(dice: Dice, shown: Shown, index: int, when: str) -> str:
    event = shown.events[index]
    if shown.unseen[index]:
        return _passive(dice, shown, event, when)
    scene = _scene(dice, shown, event)
    return join(scene.who.text, predicate(dice, scene, mood(shown.tense, event.activity, scene.who.plural), when))


def lasting(activity: Activity) -> bool:
    """Return whether the verb is told as going on ("is kneading"), not as a whole ("opens")."""
    return crc32(activity.verb.lemma.encode()) % 2 == 0


def mood(tense: str, activity: Activity, plural: bool) -> Mood:
    """Return the form of a predicate in the active voice; only what happens now or happened can go on."""
    if tense == "now" and lasting(activity):
        return Mood("are" if plural else "is", "gerund", "present", "progressive")
    if tense == "past" and lasting(activity):
        return Mood("were" if plural else "was", "gerund", "past", "past")
    if tense == "future":
        return Mood("will", "bare", "present", "present")
    return Mood("", "finite", "past" if tense == "past" else "present", "past" if tense == "past" else "present")


def _existential(dice: Dice, shown: Shown) -> str:
    scene = _scene(dice, shown, shown.events[0])
    if scene.who.text.startswith(("the ", "my ", "our ")):
        return finish(scene.who.text, predicate(dice, scene, mood("now", scene.event.activity, scene.who.plural)))
    how = Mood("", "gerund", "present", "progressive")
    return finish("there", "are" if scene.who.plural else "is", scene.who.text, predicate(dice, scene, how))


def _passive(dice: Dice, shown: Shown, event: WorldEvent, when: str) -> str:
    assert event.what
    what = named(dice, event.what, shown.known)
    adverb = _manner(dice, event)
    tool = f"with {_with(dice, event.tool, None)}" if event.tool else ""
    where = _where(dice, event.place, None) if event.place else ""
    early = adverb if adverb.endswith("ly") and adverb != "early" else ""
    be = BE["habit" if shown.tense == "now" else shown.tense][what.plural]
    if lasting(event.activity) and shown.tense in ("now", "past"):
        be += " being"
    return join(what.text, be, early, event.activity.verb.participle, "" if early else adverb, where, tool, when)


def _scene(dice: Dice, shown: Shown, event: WorldEvent) -> EventScene:
    who = named(dice, event.who, shown.known, acts=True)
    if event.wear:
        worn = named(dice, event.wear, False)
        who = replace(who, text=f"{who.text} {dice.pick(('in', 'wearing'))} {_worn(event.wear, worn, who)}")
    return EventScene(
        event,
        who,
        _object(dice, event, event.what, who, shown.known) if event.what else None,
        _where(dice, event.place, who) if event.place else "",
        _with(dice, event.tool, who) if event.tool else "",
        _manner(dice, event),
    )


def _manner(dice: Dice, event: WorldEvent) -> str:
    asks = crc32(event.activity.verb.lemma.encode()) % 4 < 2
    return event.activity.how[0] if event.activity.how and dice.chance(MANNER[asks]) else ""


def _object(dice: Dice, event: WorldEvent, what: Filler, who: Mention, known: bool) -> Mention:
    if what.noun.lemma in load_lexicon().bare.get(event.activity.verb.lemma, ()):
        name = what.noun.plural if what.several else what.noun.lemma
        return Mention(name, "it", what.several, name)
    if what.prepositions:
        several = what.several
        return Mention(_where(dice, what, who), "they" if several else one(dice, what.noun), several, "")
    if what.noun.kind == "body":
        several = what.several and what.noun.number == "count"
        own = not event.activity.passive
        words = what.noun.plural if several else what.noun.lemma
        text = f"{FORMS[who.pronoun]['his'] if own else 'the'} {words}"
        return Mention(text, "they" if several else "it", several, f"the {words}")
    return named(dice, what, known)


def named(dice: Dice, filler: Filler, known: bool, acts: bool = False) -> Mention:
    """Return someone or something, as spoken of for the first time or as `known`; `acts` for the one who acts."""
    noun = filler.noun
    several = filler.several and noun.number == "count"
    plural = several or noun.number == "plural"
    words = _described(dice, noun, noun.plural if several else noun.lemma, EPITHET[acts])
    if noun.kind in DETERMINERS and not several:
        text = f"{DETERMINERS[noun.kind]} {words}"
    elif known or noun.number == "only":
        text = f"the {words}"
    else:
        text = words if plural or noun.number == "mass" else with_article(words)
    group = noun.pronoun == "they" and noun.kind == "group"
    pronoun = "they" if plural or group else one(dice, noun)
    return Mention(text, pronoun, plural, f"the {noun.plural if several else noun.lemma}")


def epithet(noun: Noun) -> str:
    """Return the adjective that is a noun's own, of those that fit it; "" if none does."""
    return noun.adjectives[crc32(noun.lemma.encode()) % len(noun.adjectives)] if noun.adjectives else ""


def _described(dice: Dice, noun: Noun, words: str, chance: float) -> str:
    if noun.adjectives and dice.chance(chance):
        return f"{epithet(noun)} {words}"
    return f"{dice.pick(noun.adjectives)} {words}" if noun.adjectives and dice.chance(ADJECTIVE) else words


def _where(dice: Dice, filler: Filler, owner: Mention | None) -> str:
    noun = filler.noun
    preposition = filler.prepositions[0] if dice.chance(0.8) else dice.pick(filler.prepositions)
    if noun.lemma in load_lexicon().bare.get(preposition, ()):
        return f"{preposition} {noun.lemma}"
    if noun.kind == "body":
        words = noun.plural if filler.several or noun.lemma == "arm" else noun.lemma
        return f"{preposition} {FORMS[owner.pronoun]['his'] if owner else 'the'} {words}"
    if preposition == "with" and noun.number == "count" and not filler.several:
        return f"with {with_article(noun.lemma)}"
    words = noun.plural if filler.several and noun.number == "count" else noun.lemma
    return f"{preposition} the {_described(dice, noun, words, EPITHET[False])}"


def _with(dice: Dice, filler: Filler, owner: Mention | None) -> str:
    noun = filler.noun
    if noun.kind == "body":
        words = noun.plural if filler.several else noun.lemma
        return f"{FORMS[owner.pronoun]['his']} {words}" if owner else words
    if noun.number in ("mass", "plural"):
        return noun.lemma
    return noun.plural if filler.several else with_article(noun.lemma)


def _worn(filler: Filler, worn: Mention, who: Mention) -> str:
    noun = filler.noun
    if noun.lemma in PAIRED or (who.plural and noun.number == "count"):
        return noun.plural
    return worn.text
