"""Sentences for events: one event, many sentences.

A sentence states every role that its event fills, and no other role; everything else
(tense, voice, order, adjectives, number) is free.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from miniworld.chance import Dice
from miniworld.lexicon import Verb, conjugate, load_lexicon, verb
from miniworld.phrases import Mention, clothes, finish, join, one, place, subject, thing, tool
from miniworld.template import Tense
from miniworld.world import Filler, WorldEvent

Form = Literal["finite", "gerund", "participle", "bare"]
Pace = Literal["any", "present", "past"]
Season = Literal["present", "progressive", "past", "perfect"]

STATIC = (
    "in", "on", "at", "by", "near", "behind", "beside", "under", "outside", "in front of", "above", "during", "after",
)  # fmt: skip
STANDING = (
    "stove", "counter", "sink", "ladder", "window", "board", "class", "mirror", "roof", "porch", "lamp", "wall",
)  # fmt: skip
LYING = ("hammock", "bed")
TRAITS = {
    "person": (
        "looks tired", "seems happy", "lives next door", "never complains", "is my neighbor", "is very proud",
        "is in a hurry", "comes from another town", "smiles at everyone", "knows what to do",
        "is not from here", "has cold hands",
    ),
    "animal": (
        "looks hungry", "belongs to my neighbor", "is very old", "is not afraid of people", "has no name",
        "seems happy", "is only two years old", "looks cold",
    ),
}  # fmt: skip
WHEN: dict[Season, tuple[str, ...]] = {
    "present": (
        "every morning", "on Sundays", "every summer", "once a week", "after school", "all day", "in the evening",
        "every day", "on cold days", "before dinner", "from time to time", "each spring",
    ),
    "progressive": (
        "right now", "today", "this morning", "on a cold day", "at the moment", "again", "on a sunny afternoon",
        "early in the morning", "late at night",
    ),
    "perfect": ("today", "twice this week", "for the first time", "this week", "many times"),
    "past": (
        "yesterday", "last summer", "on Sunday", "one rainy afternoon", "this morning", "last night", "on a cold day",
        "for hours", "a week ago", "early in the morning", "on the first day of spring", "long ago",
    ),
}  # fmt: skip
WISHES = (
    (6, "want to"), (5, "try to"), (4, "like to"), (3, "decide to"), (3, "have to"), (2, "love to"), (2, "learn to"),
    (2, "hope to"), (1, "need to"), (1, "refuse to"), (1, "forget to"), (1, "prefer to"),
)  # fmt: skip
MODALS = ((4, "can"), (3, "will"), (2, "must"), (1, "should"), (1, "is about to"), (1, "used to"))
WITNESSES = (
    "I saw", "We watched", "Everyone saw", "I once saw", "The children watched", "From the window we saw",
    "You can see", "I love to watch", "The guests watched", "The photo shows",
)  # fmt: skip
ASPECTS = {
    "any": (
        (26, "present"), (26, "past"), (24, "now"), (9, "then"), (4, "perfect"), (9, "wish"), (4, "modal"),
        (3, "start"),
    ),
    "present": ((10, "present"), (5, "now"), (1, "wish")),
    "past": ((12, "past"), (3, "then"), (1, "start")),
}  # fmt: skip
PASSIVES = (
    (4, ("is", "are")), (6, ("was", "were")), (6, ("is being", "are being")), (2, ("was being", "were being")),
    (2, ("has been", "have been")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mood:
    """The form of the verbs of a predicate.

    Attributes:
        auxiliary: The words before the verb: "is", "wants to", or nothing.
        form: The form of the verb after it.
        tense: The tense of what depends on the predicate.
        season: The adverbs of time that go with it.
    """

    auxiliary: str
    form: Form
    tense: Tense
    season: Season


PRESENT = Mood("", "finite", "present", "present")
PAST = Mood("", "finite", "past", "past")
BARE = Mood("", "bare", "past", "past")


def mood(dice: Dice, who: Mention, pace: Pace) -> Mood:
    """Draw the tense and aspect of a predicate; a pace keeps a paragraph in one tense."""
    kind = dice.weighted(ASPECTS[pace])
    if kind == "present":
        return PRESENT
    if kind == "past":
        return PAST
    if kind == "now":
        return Mood("are" if who.plural else "is", "gerund", "present", "progressive")
    if kind == "then":
        return Mood("were" if who.plural else "was", "gerund", "past", "past")
    if kind == "perfect":
        return Mood("have" if who.plural else "has", "participle", "present", "perfect")
    if kind == "modal":
        modal = dice.weighted(MODALS)
        if modal == "is about to":
            return Mood("are about to" if who.plural else modal, "bare", "present", "progressive")
        return Mood(modal, "bare", "past" if modal == "used to" else "present", "present")
    if kind == "start":
        return Mood(conjugate(verb(dice.pick(("start", "begin"))), "past", who.plural), "gerund", "past", "past")
    tense: Tense = dice.pick(("present", "past")) if pace == "any" else "past" if pace == "past" else "present"
    wish, _, to = dice.weighted(WISHES).partition(" ")
    return Mood(f"{conjugate(verb(wish), tense, who.plural)} {to}", "bare", tense, tense)


def inflect(word: Verb, how: Mood, plural: bool) -> str:
    """Return a verb in the form of the mood, without the auxiliary."""
    if how.form == "finite":
        return conjugate(word, how.tense, plural)
    return {"gerund": word.gerund, "participle": word.participle, "bare": word.lemma}[how.form]


@dataclass(frozen=True, slots=True)
class EventScene:
    """An event with noun phrases for its roles, ready for any frame."""

    event: WorldEvent
    who: Mention
    what: Mention | None
    place: str
    tool: str
    adverb: str

    @property
    def object(self) -> str:
        """The object with its preposition, or nothing."""
        return self.what.text if self.what else ""

    def fill(self, part: Literal["why", "step"], tense: Tense) -> str:
        """Return the reason, or what follows the verb of the next step, or nothing."""
        template = self.event.why if part == "why" else self.event.step.rest if self.event.step else None
        return template.fill(self.who.pronoun, self.what.pronoun if self.what else "it", tense) if template else ""

    def without(self, **roles: None) -> "EventScene":
        """Return the scene with these roles of its event left out."""
        return replace(self, event=replace(self.event, **roles))  # type: ignore[arg-type]


def stage(dice: Dice, event: WorldEvent, who: Mention, adverb: float = 0.2) -> EventScene:
    """Draw noun phrases for the roles of an event; `adverb` is the chance of a manner adverb."""
    return EventScene(
        event,
        who,
        _object(dice, event, event.what, who) if event.what else None,
        place(dice, event.place, who) if event.place else "",
        tool(dice, event.tool, who) if event.tool else "",
        dice.favour(event.activity.how) if event.activity.how and dice.chance(adverb) else "",
    )


def _object(dice: Dice, event: WorldEvent, what: Filler, who: Mention) -> Mention:
    if what.noun.lemma in load_lexicon().bare.get(event.activity.verb.lemma, ()):
        name = what.noun.plural if what.several else what.noun.lemma
        return Mention(name, "it", what.several, name)
    if what.prepositions:
        text = place(dice, what, who)
        return Mention(text, "they" if what.several else one(dice, what.noun), what.several, text)
    another = what.noun.kind == "body" and event.activity.passive
    return thing(dice, what, None if another else who)


def predicate(dice: Dice, scene: EventScene, how: Mood, when: str = "") -> str:
    """Return verb, object, place, tool and posture, what comes next, when and why."""
    event, plural = scene.event, scene.who.plural
    early = scene.adverb if scene.adverb.endswith("ly") and scene.adverb != "early" and dice.chance(0.5) else ""
    body = join(
        early,
        inflect(event.activity.verb, how, plural),
        scene.object,
        "" if early else scene.adverb,
        scene.place,
        f"with {scene.tool}" if scene.tool else "",
    )
    if event.pose:
        posture, seat = posture_verb(event.pose), place(dice, event.pose, scene.who)
        if dice.chance(0.5):
            body = join(inflect(posture, how, plural), seat, "and", body)
        else:
            body = join(body, "while", posture.gerund, seat)
    if event.step:
        if how.form == "gerund" or dice.chance(0.7):
            link = dice.weighted(((8, "and"), (2, "and then"), (1, "or" if how.form == "bare" else "and")))
            body = join(body, link, inflect(event.step.verb, how, plural), scene.fill("step", how.tense))
        else:
            body = join(body, "before", event.step.verb.gerund, scene.fill("step", how.tense))
    return join(how.auxiliary, body, when, scene.fill("why", how.tense))


def posture_verb(filler: Filler) -> Verb:
    """Return the verb for being where the filler says: sit, stand or lie."""
    noun = filler.noun.lemma
    return verb("lie" if noun in LYING else "stand" if noun in STANDING else "sit")


def dressed(dice: Dice, scene: EventScene) -> str:
    """Return the subject with what it wears, if the event says so."""
    if not scene.event.wear:
        return scene.who.text
    worn = clothes(dice, scene.event.wear, scene.who)
    return f"{scene.who.text} {dice.pick(('in', 'wearing', 'wearing'))} {worn}"


# --- frames: whole sentences -----------------------------------------------------------------------------------------


def plain(dice: Dice, scene: EventScene) -> str:
    """A farmer is leading two horses toward the barn."""
    how = mood(dice, scene.who, "any")
    when = dice.favour(WHEN[how.season]) if dice.chance(0.18) and how.form != "bare" else ""
    if when and (scene.event.step or dice.chance(0.4)):
        return finish(when + ",", dressed(dice, scene), predicate(dice, scene, how))
    return finish(dressed(dice, scene), predicate(dice, scene, how, when))


def fronted(dice: Dice, scene: EventScene) -> str:
    """In the yard, a boy kicks the ball over the fence."""
    how = mood(dice, scene.who, "any")
    if scene.place.split(" ")[0] in STATIC:
        opening, rest = scene.place, replace(scene, place="")
    elif scene.tool and not scene.tool.startswith(("his", "her", "their")):
        opening, rest = f"with {scene.tool}", replace(scene, tool="")
    elif scene.event.pose:
        opening = f"{posture_verb(scene.event.pose).gerund} {place(dice, scene.event.pose, scene.who)}"
        rest = scene.without(pose=None)
    else:
        opening, rest = dice.favour(WHEN[how.season]), scene
    return finish(opening + ",", dressed(dice, rest), predicate(dice, rest, how))


def passive(dice: Dice, scene: EventScene) -> str:
    """Two horses were led toward the barn by a farmer."""
    event, what = scene.event, scene.what
    if not (what and event.what and event.activity.passive) or event.pose or event.step:
        return plain(dice, scene)
    if event.what.prepositions or event.what.noun.kind == "body":
        return plain(dice, scene)
    auxiliary = dice.weighted(PASSIVES)[what.plural]
    adverb = scene.adverb if scene.adverb.endswith("ly") else ""
    by = join("by", dressed(dice, scene), f"with {scene.tool}" if scene.tool else "")
    reason = scene.fill("why", "past" if auxiliary.startswith("w") else "present")
    return finish(what.text, auxiliary, adverb, event.activity.verb.participle, scene.place, by, reason)


def relative(dice: Dice, scene: EventScene) -> str:
    """The farmer who is leading two horses toward the barn looks tired."""
    event, who = scene.event, scene.who
    if who.plural or event.why:
        return plain(dice, scene)
    human = event.who.noun.person or event.who.noun.kind in ("group", "royal")
    if event.wear:
        trait = f"{dice.pick(('wears', 'is wearing', 'wore'))} {clothes(dice, event.wear, who)}"
    else:
        trait = dice.pick(TRAITS["person" if human else "animal"])
    return finish(who.again, "who" if human else "that", predicate(dice, scene, mood(dice, who, "any")), trait)


def existential(dice: Dice, scene: EventScene) -> str:
    """There is a farmer leading two horses toward the barn."""
    who = scene.who
    if who.text.startswith(("the ", "my ", "our ")):
        return plain(dice, scene)
    be = dice.pick(("are", "were") if who.plural else ("is", "was"))
    how = Mood("", "gerund", "past" if be.startswith("w") else "present", "past")
    return finish("there", be, dressed(dice, scene), predicate(dice, scene, how))


def witnessed(dice: Dice, scene: EventScene) -> str:
    """We watched a farmer lead two horses toward the barn."""
    witness = dice.favour(WITNESSES)
    tense: Tense = "present" if witness.startswith(("You", "I love", "The photo")) else "past"
    how = Mood("", "gerund" if witness.endswith("shows") else dice.pick(("bare", "gerund")), tense, "past")
    return finish(witness, dressed(dice, scene), predicate(dice, scene, how))


def using(dice: Dice, scene: EventScene) -> str:
    """A cook uses a sharp knife to slice the bread."""
    if not scene.tool or scene.event.pose or scene.event.step:
        return plain(dice, scene)
    how = replace(BARE, tense=dice.pick(("present", "past")))
    use = conjugate(verb(dice.weighted(((6, "use"), (1, "take"), (1, "need")))), how.tense, scene.who.plural)
    return finish(dressed(dice, scene), use, scene.tool, "to", predicate(dice, replace(scene, tool=""), how))


def after(dice: Dice, scene: EventScene) -> str:
    """After washing the shirts, a woman hangs them on the line."""
    step, who = scene.event.step, scene.who
    if not step or scene.event.why or scene.event.pose:
        return plain(dice, scene)
    alone = scene.without(step=None)
    how = mood(dice, who, dice.pick(("present", "past")))
    rest = scene.fill("step", how.tense)
    link = dice.weighted(((4, "after"), (2, "before"), (1, "before" if "{it}" in step.rest.source else "without")))
    if link != "after":
        return finish(dressed(dice, scene), predicate(dice, alone, how), link, step.verb.gerund, rest)
    first = predicate(dice, alone, Mood("", "gerund", how.tense, "past"))
    return finish(f"after {first},", dressed(dice, scene), how.auxiliary, inflect(step.verb, how, who.plural), rest)


Frame = Callable[[Dice, EventScene], str]
FRAMES: tuple[tuple[float, Frame], ...] = (
    (46, plain), (14, fronted), (10, passive), (6, relative), (7, existential), (7, witnessed), (5, using), (8, after),
)  # fmt: skip


def sentence(dice: Dice, event: WorldEvent) -> str:
    """Return one sentence that states every filled role of the event."""
    frame = dice.weighted(FRAMES)
    return frame(dice, stage(dice, event, subject(dice, event.who)))


def clause(dice: Dice, event: WorldEvent) -> str:
    """Return the event as a clause in the present tense, without a capital or a full stop, as a film is retold."""
    event = replace(event, tool=None, wear=None, pose=None, why=None, step=event.step if dice.chance(0.3) else None)
    scene = stage(dice, event, subject(dice, event.who))
    return join(scene.who.text, predicate(dice, scene, PRESENT))
