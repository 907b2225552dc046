"""Events put into words: one event, many sentences.

A sentence says every role that its event fills, and nothing of the roles it leaves empty; everything else
(tense, voice, order, adjectives, number) is free.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from grue.mini.chance import Dice
from grue.mini.lexicon import Noun, Verb, capitalise, conjugate, load_lexicon, verb, with_article
from grue.mini.template import FORMS, Tense
from grue.mini.world import STANDING, Event, Filler

Form = Literal["finite", "gerund", "participle", "bare"]
Pronoun = Literal["he", "she", "it", "they"]

STATIC = ("in", "on", "at", "by", "near", "behind", "beside", "under", "outside", "in front of", "above", "during", "after")
NUMBERS = ((5, "two"), (3, "three"), (3, "some"), (2, "several"), (1, "four"), (1, "a few"), (1, "many"))
OWNED = ("tool", "clothes", "toy", "boat", "vehicle", "container", "instrument", "pet")
LIFE = {
    "person": ("looks tired", "seems happy", "lives next door", "never complains", "is my neighbor", "is very proud",
               "comes from another town", "is in a hurry", "smiles at everyone", "knows what to do"),
    "animal": ("looks hungry", "belongs to my neighbor", "is very old", "is not afraid of people", "has no name",
               "seems happy", "is only two years old"),
}  # fmt: skip
WHEN: dict[str, tuple[str, ...]] = {
    "present": ("every morning", "on Sundays", "every summer", "once a week", "after school", "all day", "in the evening",
                "every day", "on cold days", "before dinner", "from time to time", "each spring"),
    "progressive": ("right now", "today", "this morning", "on a cold day", "at the moment", "again", "on a sunny afternoon",
                    "early in the morning", "late at night"),
    "past": ("yesterday", "last summer", "on Sunday", "one rainy afternoon", "this morning", "last night", "on a cold day",
             "for hours", "a week ago", "early in the morning", "on the first day of spring", "long ago"),
}  # fmt: skip
WISHES = ((6, "want to"), (5, "try to"), (4, "like to"), (3, "decide to"), (3, "have to"), (2, "love to"), (2, "learn to"),
          (2, "hope to"), (1, "need to"), (1, "refuse to"), (1, "forget to"), (1, "prefer to"))  # fmt: skip
MODALS = ((4, "can"), (3, "will"), (2, "must"), (1, "should"), (1, "is about to"), (1, "used to"))
WITNESSES = ("I saw", "We watched", "Everyone saw", "I once saw", "The children watched", "From the window we saw", "You can see",
             "I love to watch", "The guests watched", "The photo shows")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mention:
    """Someone or something as first spoken of, and how to go on speaking of it."""

    text: str
    pronoun: Pronoun
    plural: bool
    again: str


@dataclass(frozen=True, slots=True)
class Mood:
    """How the verbs of a predicate stand: the auxiliary before them, their form, and the tense of what depends on them."""

    auxiliary: str
    form: Form
    tense: Tense
    season: Literal["present", "progressive", "past"]


def phrase(dice: Dice, noun: Noun, determiner: str, plural: bool = False, adjective: float = 0.35) -> str:
    """Return a noun phrase; `determiner` "a" becomes "an" where it must, and "" leaves the noun bare."""
    words = noun.plural if plural else noun.lemma
    if noun.adjectives and dice.random() < adjective:
        words = f"{dice.pick(noun.adjectives)} {words}"
    return with_article(words) if determiner == "a" else f"{determiner} {words}" if determiner else words


def subject(dice: Dice, filler: Filler) -> Mention:
    """Return the one who acts, as first spoken of."""
    noun = filler.noun
    if noun.pronoun == "they" and noun.number == "count" and noun.kind == "group":
        return Mention(phrase(dice, noun, dice.pick(("a", "the"))), "they", False, f"the {noun.lemma}")
    if filler.several or (noun.number == "count" and dice.chance(0.16)):
        return Mention(_several(dice, noun), "they", True, f"the {noun.plural}")
    pronoun: Pronoun = dice.pick(("he", "she")) if noun.pronoun == "any" else noun.pronoun
    if noun.kind == "family":
        determiner = dice.weighted(((5, "my"), (3, "the"), (3, "a"), (1, "our")))
    elif noun.kind == "royal":
        determiner = "the"
    else:
        determiner = dice.weighted(((7, "a"), (4, "the"), (0.3, "my" if noun.lemma in ("friend", "neighbor", "dog", "cat") else "one")))
    return Mention(phrase(dice, noun, determiner), pronoun, False, f"the {noun.lemma}")


def _several(dice: Dice, noun: Noun) -> str:
    if noun.person and dice.chance(0.2):
        return "a group of " + phrase(dice, noun, "", True)
    determiner = dice.weighted(((5, "the"), (2, ""), (8, dice.weighted(NUMBERS))))
    return phrase(dice, noun, determiner, True, 0.6 if not determiner else 0.35)


def thing(dice: Dice, filler: Filler, owner: Mention | None = None) -> Mention:
    """Return what is acted upon, as first spoken of."""
    noun = filler.noun
    if noun.kind == "body":
        several = filler.several and noun.number == "count"
        text = phrase(dice, noun, FORMS[owner.pronoun]["his"] if owner else "the", several, 0.1)
        return Mention(text, "they" if several else "it", several, f"the {noun.plural if several else noun.lemma}")
    if noun.number in ("mass", "only"):
        determiner = "the" if noun.number == "only" else dice.weighted(((4, "the"), (3, "some"), (4, "")))
        return Mention(phrase(dice, noun, determiner), "it", False, f"the {noun.lemma}")
    if noun.number == "plural":
        determiner = dice.weighted(((4, "the"), (3, ""), (1, "a pair of")))
        return Mention(phrase(dice, noun, determiner), "they", determiner != "a pair of", f"the {noun.lemma}")
    if filler.several and dice.chance(0.85) or (not noun.person and dice.chance(0.1)):
        return Mention(_several(dice, noun), "they", True, f"the {noun.plural}")
    if owner and owner.pronoun != "it" and noun.kind in OWNED and dice.chance(0.3):
        text = phrase(dice, noun, FORMS[owner.pronoun]["his"], adjective=0.2)
    else:
        text = phrase(dice, noun, dice.weighted(((6, "a"), (5, "the"))))
    pronoun: Pronoun = dice.pick(("he", "she")) if noun.pronoun == "any" else noun.pronoun
    return Mention(text, pronoun if pronoun != "they" else "they", False, f"the {noun.lemma}")


def place(dice: Dice, filler: Filler, owner: Mention | None = None) -> str:
    """Return where something happens, preposition and all."""
    noun, preposition = filler.noun, dice.pick(filler.prepositions)
    if noun.lemma in load_lexicon().bare.get(preposition, ()):
        return f"{preposition} {noun.lemma}"
    if noun.kind == "body":
        several = filler.several or noun.lemma == "arm"
        return f"{preposition} {phrase(dice, noun, FORMS[owner.pronoun]['his'] if owner else 'the', several, 0)}"
    if filler.several:
        return f"{preposition} {phrase(dice, noun, dice.pick(('the', 'the', '', 'some')), True, 0.3)}"
    definite = noun.number in ("mass", "only") or dice.chance(0.66)
    return f"{preposition} {phrase(dice, noun, 'the' if definite else 'a', adjective=0.25 if definite else 0.55)}"


def tool(dice: Dice, filler: Filler, owner: Mention) -> str:
    """Return what something is done with, without the preposition."""
    noun = filler.noun
    if noun.kind == "body":
        return phrase(dice, noun, FORMS[owner.pronoun]["his"], filler.several, 0.1)
    if noun.number == "mass":
        return phrase(dice, noun, dice.pick(("", "", "some")))
    if filler.several:
        return phrase(dice, noun, dice.pick(("", "", "some", "two")), True)
    determiner = dice.pick(("a", "a", "a", "the", FORMS[owner.pronoun]["his"]))
    return phrase(dice, noun, "" if noun.number == "plural" and determiner == "a" else determiner)


def clothes(dice: Dice, filler: Filler, owner: Mention) -> str:
    """Return what someone wears."""
    noun = filler.noun
    paired = noun.lemma in ("boot", "glove", "shoe", "sock", "ski")
    if paired or noun.number == "plural" or (owner.plural and not noun.number == "mass"):
        return phrase(dice, noun, "", True, 0.6)
    return phrase(dice, noun, "a", False, 0.7)


def mood(dice: Dice, who: Mention, pace: str) -> Mood:
    """Draw the tense and aspect of a predicate; `pace` is "any", "present" or "past"."""
    are, were, have = ("are", "were", "have") if who.plural else ("is", "was", "has")
    kinds = {
        "any": ((26, "present"), (26, "past"), (24, "now"), (9, "then"), (4, "perfect"), (9, "wish"), (4, "modal"), (3, "start")),
        "present": ((10, "present"), (5, "now"), (1, "wish")),
        "past": ((12, "past"), (3, "then"), (1, "start")),
    }
    kind = dice.weighted(kinds[pace])
    if kind == "present":
        return Mood("", "finite", "present", "present")
    if kind == "past":
        return Mood("", "finite", "past", "past")
    if kind == "now":
        return Mood(are, "gerund", "present", "progressive")
    if kind == "then":
        return Mood(were, "gerund", "past", "past")
    if kind == "perfect":
        return Mood(have, "participle", "present", "progressive")
    if kind == "modal":
        modal = dice.weighted(MODALS)
        return Mood(modal.replace("is ", are + " "), "bare", "past" if modal == "used to" else "present", "present")
    tense: Tense = dice.pick(("present", "past")) if pace == "any" else "past" if pace == "past" else "present"
    if kind == "start":
        return Mood(conjugate(verb(dice.pick(("start", "begin"))), "past", who.plural), "gerund", "past", "past")
    first, _, rest = dice.weighted(WISHES).partition(" ")
    return Mood(f"{conjugate(verb(first), tense, who.plural)} {rest}", "bare", tense, tense)


def inflect(word: Verb, how: Mood, plural: bool) -> str:
    """Return the main verb as the mood wants it, without the auxiliary."""
    if how.form == "finite":
        return conjugate(word, how.tense, plural)
    return {"gerund": word.gerund, "participle": word.participle, "bare": word.lemma}[how.form]


def join(*parts: str) -> str:
    """Join the parts that are not empty by single spaces."""
    return " ".join(part for part in parts if part)


def finish(*parts: str) -> str:
    """Return a sentence: joined, with a capital and a full stop."""
    return capitalise(join(*parts)) + "."


@dataclass(frozen=True, slots=True)
class Scene:
    """An event whose nouns have been put into words, ready for any frame."""

    event: Event
    who: Mention
    what: Mention | None
    place: str
    tool: str
    adverb: str

    @property
    def object(self) -> str:
        """The object with its preposition, or nothing."""
        return self.what.text if self.what else ""

    @property
    def thing(self) -> str:
        """The pronoun of the object."""
        return self.what.pronoun if self.what else "it"


def stage(dice: Dice, event: Event, who: Mention, adverb: float = 0.2) -> Scene:
    """Settle how the parts of an event are spoken of."""
    what = None
    if event.what:
        bare = event.what.noun.lemma in load_lexicon().bare.get(event.activity.verb.lemma, ())
        if bare:
            what = Mention(event.what.noun.lemma, "it", False, event.what.noun.lemma)
        elif event.what.prepositions:
            found = thing(dice, event.what, who) if event.what.noun.kind != "time" else None
            text = place(dice, event.what, who)
            what = Mention(text, found.pronoun if found else "it", bool(found and found.plural), text)
            if event.what.several:
                what = replace(what, pronoun="they")
            elif what.pronoun == "they":
                what = replace(what, pronoun="it")
        else:
            what = thing(dice, event.what, who)
    return Scene(
        event,
        who,
        what,
        place(dice, event.place, who) if event.place else "",
        tool(dice, event.tool, who) if event.tool else "",
        dice.favour(event.activity.how) if event.activity.how and dice.chance(adverb) else "",
    )


def predicate(dice: Dice, scene: Scene, how: Mood, after: str = "") -> str:
    """Return verb, object, place, tool, what comes next and why; `after` stands before the reason."""
    event, who = scene.event, scene.who
    main = inflect(event.activity.verb, how, who.plural)
    early = scene.adverb if scene.adverb.endswith("ly") and scene.adverb != "early" and dice.chance(0.5) else ""
    late = "" if early else scene.adverb
    with_tool = f"with {scene.tool}" if scene.tool else ""
    body = join(how.auxiliary, early, main, scene.object, late, scene.place, with_tool)
    if event.pose and dice.chance(0.5):
        body = join(how.auxiliary, inflect(verb(posture(event.pose)), how, who.plural), seat(dice, event.pose, who), "and",
                    early, main, scene.object, late, scene.place, with_tool)  # fmt: skip
    elif event.pose:
        body = join(body, "while", verb(posture(event.pose)).gerund, seat(dice, event.pose, who))
    if event.step:
        rest = event.step.rest.fill(who.pronoun, scene.thing, how.tense)
        if how.form == "gerund" or dice.chance(0.7):
            link = dice.weighted(((8, "and"), (2, "and then"), (1, "or" if how.form == "bare" else "and")))
            body = join(body, link, inflect(event.step.verb, how, who.plural), rest)
        else:
            body = join(body, "before", event.step.verb.gerund, rest)
    reason = event.why.fill(who.pronoun, scene.thing, how.tense) if event.why else ""
    return join(body, after, reason)


def posture(filler: Filler) -> str:
    """Return the verb for being where the filler says: sit or stand."""
    return "lie" if filler.noun.lemma in ("hammock", "bed") else "stand" if filler.noun.lemma in STANDING else "sit"


def seat(dice: Dice, filler: Filler, who: Mention) -> str:
    """Return where someone sits or stands."""
    return place(dice, filler, who)


def dressed(dice: Dice, scene: Scene) -> str:
    """Return the subject with what it wears, if the event says so."""
    if not scene.event.wear:
        return scene.who.text
    worn = clothes(dice, scene.event.wear, scene.who)
    return f"{scene.who.text} {dice.pick(('in', 'wearing', 'wearing'))} {worn}"


# --- frames: whole sentences -----------------------------------------------------------------------------------------


def plain(dice: Dice, scene: Scene) -> str:
    """A farmer is leading two horses toward the barn."""
    how = mood(dice, scene.who, "any")
    when = dice.favour(WHEN[how.season]) if dice.chance(0.18) and how.form != "bare" else ""
    if when and dice.chance(0.4):
        return finish(when + ",", dressed(dice, scene), predicate(dice, scene, how))
    return finish(dressed(dice, scene), predicate(dice, scene, how, when if not scene.event.step else ""))


def fronted(dice: Dice, scene: Scene) -> str:
    """In the yard, a boy kicks the ball over the fence."""
    how = mood(dice, scene.who, "any")
    if scene.place and scene.place.startswith(STATIC) and not scene.place.startswith("into"):
        return finish(scene.place + ",", dressed(dice, scene), predicate(dice, replace(scene, place=""), how))
    if scene.tool and not scene.tool.startswith(("his", "her", "their")):
        return finish(f"with {scene.tool},", dressed(dice, scene), predicate(dice, replace(scene, tool=""), how))
    if scene.event.pose:
        bare = replace(scene, event=replace(scene.event, pose=None))
        opening = f"{verb(posture(scene.event.pose)).gerund} {seat(dice, scene.event.pose, scene.who)},"
        return finish(opening, dressed(dice, scene), predicate(dice, bare, how))
    return finish(dice.favour(WHEN[how.season]) + ",", dressed(dice, scene), predicate(dice, scene, how))


def passive(dice: Dice, scene: Scene) -> str:
    """Two horses were led toward the barn by a farmer."""
    event, what = scene.event, scene.what
    if not (what and event.what and event.activity.passive) or event.what.prepositions or event.pose or event.step or event.what.noun.kind == "body":
        return plain(dice, scene)
    be = [("are", "were", "are being", "were being", "have been"), ("is", "was", "is being", "was being", "has been")]
    auxiliary = be[not what.plural][dice.weighted(((4, 0), (6, 1), (6, 2), (2, 3), (2, 4)))]
    tense: Tense = "past" if auxiliary.startswith("w") else "present"
    adverb = scene.adverb if scene.adverb.endswith("ly") else ""
    reason = event.why.fill(scene.who.pronoun, scene.thing, tense) if event.why else ""
    return finish(what.text, auxiliary, adverb, event.activity.verb.participle, scene.place, "by", dressed(dice, scene),
                  f"with {scene.tool}" if scene.tool else "", reason)  # fmt: skip


def relative(dice: Dice, scene: Scene) -> str:
    """The farmer who is leading two horses toward the barn looks tired."""
    event, who = scene.event, scene.who
    if who.plural or event.why:
        return plain(dice, scene)
    how = mood(dice, who, "any")
    who_or_that = "who" if event.who.noun.person or event.who.noun.kind in ("group", "royal") else "that"
    if event.wear:
        ending = dice.pick(("wears", "is wearing", "wore")) + " " + clothes(dice, event.wear, who)
    else:
        ending = dice.pick(LIFE["animal" if who_or_that == "that" else "person"])
    return finish(who.again, who_or_that, predicate(dice, scene, how), ending)


def existential(dice: Dice, scene: Scene) -> str:
    """There is a farmer leading two horses toward the barn."""
    who = scene.who
    if who.text.startswith(("the ", "my ", "our ", "his ", "her ")):
        return plain(dice, scene)
    be = dice.pick(("are", "were") if who.plural else ("is", "was"))
    how = Mood("", "gerund", "past" if be.startswith("w") else "present", "past")
    return finish("there", be, dressed(dice, scene), predicate(dice, scene, how))


def witnessed(dice: Dice, scene: Scene) -> str:
    """We watched a farmer lead two horses toward the barn."""
    witness = dice.favour(WITNESSES)
    tense: Tense = "present" if witness.startswith(("You", "I love", "The photo")) else "past"
    how = Mood("", "gerund" if witness.endswith("shows") else dice.pick(("bare", "gerund")), tense, "past")
    return finish(witness, dressed(dice, scene), predicate(dice, scene, how))


def using(dice: Dice, scene: Scene) -> str:
    """A cook uses a sharp knife to slice the bread."""
    if not scene.tool or scene.event.pose or scene.event.step:
        return plain(dice, scene)
    who = scene.who
    how = Mood("", "bare", dice.pick(("present", "past")), "past")
    used = conjugate(verb(dice.weighted(((6, "use"), (1, "take"), (1, "need")))), how.tense, who.plural)
    return finish(dressed(dice, scene), used, scene.tool, "to", predicate(dice, replace(scene, tool=""), how))


def after(dice: Dice, scene: Scene) -> str:
    """After washing the shirts, a woman hangs them on the line."""
    event, who = scene.event, scene.who
    if not event.step or event.why or event.pose:
        return plain(dice, scene)
    link = dice.weighted(((4, "after"), (2, "before"), (1, "without")))
    how = mood(dice, who, dice.pick(("present", "past")))
    if link != "after":
        rest = event.step.rest.fill(who.pronoun, scene.thing, how.tense)
        bare = replace(scene, event=replace(event, step=None))
        if link == "without" and "{it}" in event.step.rest.source:
            link = "before"
        return finish(dressed(dice, scene), predicate(dice, bare, how), link, event.step.verb.gerund, rest)
    first = predicate(dice, replace(scene, event=replace(event, step=None)), Mood("", "gerund", how.tense, "past"))
    second = join(how.auxiliary, inflect(event.step.verb, how, who.plural), event.step.rest.fill(who.pronoun, scene.thing, how.tense))
    return finish(f"after {first},", dressed(dice, scene), second)


Frame = Callable[[Dice, Scene], str]
FRAMES: tuple[tuple[float, Frame], ...] = (
    (46, plain), (14, fronted), (10, passive), (6, relative), (7, existential), (7, witnessed), (5, using), (8, after),
)  # fmt: skip


def sentence(dice: Dice, event: Event) -> str:
    """Return one sentence that says the event, every filled role of it."""
    frame = dice.weighted(FRAMES)
    return frame(dice, stage(dice, event, subject(dice, event.who)))


def clause(dice: Dice, event: Event) -> str:
    """Return the event as a clause in the present tense, without a capital or a full stop, as a film is told."""
    event = replace(event, tool=None, wear=None, pose=None, why=None, step=event.step if dice.chance(0.3) else None)
    scene = stage(dice, event, subject(dice, event.who))
    return join(scene.who.text, predicate(dice, scene, Mood("", "finite", "present", "present")))
