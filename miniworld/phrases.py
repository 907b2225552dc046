"""Noun phrases: who, what, where and with what, as first spoken of."""

from dataclasses import dataclass
from typing import Literal

from miniworld.chance import Dice
from miniworld.lexicon import Noun, capitalise, load_lexicon, with_article
from miniworld.template import FORMS
from miniworld.world import Filler

Pronoun = Literal["he", "she", "it", "they"]

NUMBERS = ((5, "two"), (3, "three"), (3, "some"), (2, "several"), (1, "four"), (1, "a few"), (1, "many"))
OWNED = ("tool", "clothes", "toy", "boat", "vehicle", "container", "instrument", "pet")
PAIRED = ("boot", "glove", "shoe", "sock", "ski")


@dataclass(frozen=True, slots=True)
class Mention:
    """Someone or something as first spoken of, and how to go on speaking of it."""

    text: str
    pronoun: Pronoun
    plural: bool
    again: str


def join(*parts: str) -> str:
    """Join the parts that are not empty by single spaces."""
    return " ".join(part for part in parts if part)


def finish(*parts: str) -> str:
    """Return a sentence: joined, with a capital and a full stop."""
    return capitalise(join(*parts)) + "."


def phrase(dice: Dice, noun: Noun, determiner: str, plural: bool = False, adjective: float = 0.3) -> str:
    """Return a noun phrase; `determiner` "a" becomes "an" where it must, and "" leaves the noun bare."""
    words = noun.plural if plural else noun.lemma
    if noun.adjectives and dice.random() < adjective:
        words = f"{dice.pick(noun.adjectives)} {words}"
    return with_article(words) if determiner == "a" else f"{determiner} {words}" if determiner else words


def one(dice: Dice, noun: Noun) -> Pronoun:
    """Return the pronoun for one of the noun, drawn where it may be he or she."""
    return dice.pick(("he", "she")) if noun.pronoun == "any" else noun.pronoun


def subject(dice: Dice, filler: Filler) -> Mention:
    """Return the one who acts, as first spoken of."""
    noun = filler.noun
    if noun.pronoun == "they" and noun.number == "count" and noun.kind == "group":
        return Mention(phrase(dice, noun, dice.pick(("a", "the"))), "they", False, f"the {noun.lemma}")
    if filler.several or (noun.number == "count" and noun.kind not in ("family", "royal") and dice.chance(0.16)):
        return Mention(_several(dice, noun), "they", True, f"the {noun.plural}")
    pronoun = one(dice, noun)
    if noun.kind == "family":
        determiner = dice.weighted(((5, "my"), (3, "the"), (3, "a"), (1, "our")))
    elif noun.kind == "royal":
        determiner = "the"
    else:
        rarely = "my" if noun.lemma in ("friend", "neighbor", "dog", "cat") else "another"
        determiner = dice.weighted(((7, "a"), (4, "the"), (0.3, rarely)))
    return Mention(phrase(dice, noun, determiner), pronoun, False, f"the {noun.lemma}")


def _several(dice: Dice, noun: Noun) -> str:
    if noun.person and dice.chance(0.2):
        return "a group of " + phrase(dice, noun, "", True)
    determiner = dice.weighted(((5, "the"), (2, ""), (8, dice.weighted(NUMBERS))))
    return phrase(dice, noun, determiner, True, 0.6 if not determiner else 0.35)


def thing(dice: Dice, filler: Filler, owner: Mention | None = None) -> Mention:
    """Return what is acted upon, as first spoken of."""
    noun = filler.noun
    if noun.kind == "body" and not (filler.several or owner):
        determiner = dice.pick(("the", "a")) if noun.number == "count" else "the"
        return Mention(phrase(dice, noun, determiner), "it", False, noun.lemma)
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
    if dice.chance(0.93 if filler.several else 0.0 if noun.person else 0.1):
        return Mention(_several(dice, noun), "they", True, f"the {noun.plural}")
    if owner and owner.pronoun != "it" and noun.kind in OWNED and dice.chance(0.3):
        text = phrase(dice, noun, FORMS[owner.pronoun]["his"], adjective=0.2)
    else:
        text = phrase(dice, noun, dice.weighted(((6, "a"), (5, "the"))))
    return Mention(text, one(dice, noun), False, f"the {noun.lemma}")


def place(dice: Dice, filler: Filler, owner: Mention | None = None) -> str:
    """Return where something happens, preposition and all."""
    noun, preposition = filler.noun, dice.pick(filler.prepositions)
    if noun.lemma in load_lexicon().bare.get(preposition, ()):
        return f"{preposition} {noun.lemma}"
    if noun.kind == "body":
        several = filler.several or noun.lemma == "arm"
        return f"{preposition} {phrase(dice, noun, FORMS[owner.pronoun]['his'] if owner else 'the', several, 0)}"
    if preposition == "with" and noun.number == "count":
        whose = dice.pick(("a", FORMS[owner.pronoun]["his"])) if owner else "a"
        return f"with {phrase(dice, noun, whose)}"
    if filler.several:
        return f"{preposition} {phrase(dice, noun, dice.pick(('the', 'the', '', 'some')), True, 0.3)}"
    definite = noun.number in ("mass", "only") or noun.kind == "plain" or dice.chance(0.66)
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
    paired = noun.lemma in PAIRED
    if paired or noun.number == "plural" or (owner.plural and noun.number != "mass"):
        return phrase(dice, noun, "", True, 0.6)
    return phrase(dice, noun, "a", False, 0.7)
