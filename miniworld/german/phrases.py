"""Noun phrases that exist in both languages: who acts, on what, where and with what."""

from dataclasses import dataclass, replace

from miniworld.chance import Dice
from miniworld.german.deeds import Role
from miniworld.german.lexicon import Case, adjectives_of, column, english_noun, load_german, noun_phrase
from miniworld.lexicon import load_lexicon, with_article
from miniworld.phrases import PAIRED, join

IN_CLOTHES = ("coat", "jacket", "dress", "suit", "uniform", "costume", "skirt", "sweater", "shirt", "cloak", "shorts")
DETERMINERS = {
    "who": ((8, "a"), (9, "the"), (0.7, "my"), (0.7, "this"), (0.5, "our")),
    "what": ((7, "a"), (8, "the"), (0.6, "this")),
    "several": ((5, "two"), (3, "three"), (7, "the"), (2, "some"), (2, "several"), (1, "four"), (1, "many"), (2, "")),
    "place": ((7, "the"), (3, "a")),
    "mass": ((5, "the"), (5, ""), (2, "some")),
}
OWNERS = (
    "baker", "farmer", "neighbor", "teacher", "doctor", "mayor", "fisherman", "painter", "singer", "captain", "tailor",
    "judge", "soldier", "king", "queen", "butcher", "gardener", "student", "actor", "pilot", "professor", "shepherd",
)  # fmt: skip
FAMILIAR = (
    "neighbor", "friend", "boss", "teacher", "doctor", "coach", "dog", "cat", "horse", "pony", "partner", "wife",
    "husband", "baker",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun phrase that exists in both languages; `name` stands for a noun, and `owner` for its possessor."""

    key: str
    determiner: str = "the"
    adjective: str = ""
    plural: bool = False
    owner: str = ""
    tail: tuple[str, str] = ("", "")

    @property
    def definite(self) -> bool:
        """Whether the phrase speaks of someone or something known."""
        return self.determiner in ("the", "this", "that", "my", "our", "their", "own", "his") or bool(self.owner)

    def english(self, whose: str = "") -> str:
        """Return the English phrase; `whose` is the English possessive for the determiners "his" and "own"."""
        lemma = self.key.partition("@")[0]
        words = join(self.adjective, english_noun(lemma, self.plural))
        if self.owner:
            return f"the {self.owner}'s {words}" + self.tail[0]
        determiner = whose if self.determiner in ("his", "own") else self.determiner
        if self.determiner == "this" and self.plural:
            determiner = "these"
        return (with_article(words) if determiner in ("a", "not a") else join(determiner, words)) + self.tail[0]

    def german(self, case: Case, whose: str = "") -> str:
        """Return the German phrase in a case; `whose` is "sein" or "ihr"."""
        swapped = {"his": whose, "own": "the", "their": "ihr", "any": "no", "not a": "no"}
        determiner = "the" if self.owner else swapped.get(self.determiner, self.determiner)
        words = noun_phrase(self.key, determiner, self.adjective, self.plural, case)
        return words + (" " + noun_phrase(self.owner, "the", "", False, "G") if self.owner else "") + self.tail[1]


@dataclass(frozen=True, slots=True)
class Actor:
    """A subject in both languages; `column` is its gender or number in a table of endings."""

    english: str
    german: str
    pronoun: str
    plural: bool
    column: int
    dative: str
    phrase: Phrase | None = None


def describe(dice: Dice, key: str, chance: float) -> str:
    """Return an adjective for a noun, or nothing."""
    options = adjectives_of(key) if dice.chance(chance) else ()
    return dice.pick(options) if options else ""


def thing(dice: Dice, role: Role, adjective: float = 0.3, own: bool = True, game: bool = False) -> Phrase:
    """Return what is acted upon; `own`: a hand or a foot is the actor's; `game`: football is a game, not a ball."""
    noun = role.noun
    if noun.kind == "body":
        return Phrase(role.key, "own" if own and noun.number == "count" else "the", "", role.several)
    if game and noun.lemma in load_lexicon().bare["play"]:
        return Phrase(role.key, "", "", role.several)
    if noun.number in ("mass", "only"):
        determiner = "the" if noun.number == "only" else dice.weighted(DETERMINERS["mass"])
        return Phrase(role.key, determiner, describe(dice, role.key, adjective * 0.7))
    if noun.number == "plural":
        return Phrase(role.key, "the", describe(dice, role.key, adjective), True)
    several = dice.chance(0.92 if role.several else 0.0 if noun.kind == "royal" else 0.1)
    if several and not (load_german().nouns[role.key].single and not role.several):
        determiner = dice.weighted(DETERMINERS["several"])
        if load_german().nouns[role.key].single:
            determiner = "the"
        return Phrase(role.key, determiner, describe(dice, role.key, adjective), True)
    return Phrase(role.key, dice.weighted(DETERMINERS["what"]), describe(dice, role.key, adjective))


def actor(dice: Dice, role: Role) -> Actor:
    """Return the one who acts."""
    noun = role.noun
    several = role.several or (noun.kind not in ("family", "royal", "group") and dice.chance(0.18))
    if several and noun.kind not in ("family", "royal", "group"):
        return as_actor(Phrase(role.key, dice.weighted(DETERMINERS["several"]), describe(dice, role.key, 0.3), True))
    if noun.kind == "family":
        owned = dice.chance(0.4)
        owner = dice.pick(OWNERS) if owned else ""
        determiner = dice.weighted(((4, "my"), (3, "the"), (2, "our")))
        return as_actor(Phrase(role.key, determiner, describe(dice, role.key, 0.25), False, owner))
    determiner = "the" if noun.kind == "royal" else dice.weighted(DETERMINERS["who"])
    if determiner in ("my", "our") and noun.lemma not in FAMILIAR:
        determiner = "a"
    owner = dice.pick(OWNERS) if noun.kind == "pet" and dice.chance(0.25) else ""
    return as_actor(Phrase(role.key, determiner, describe(dice, role.key, 0.35), False, owner))


def as_actor(phrase: Phrase) -> Actor:
    """Return the subject for a noun phrase."""
    noun = load_lexicon().nouns[phrase.key.partition("@")[0]]
    english = "they" if phrase.plural or noun.pronoun == "they" else "he" if noun.pronoun == "any" else noun.pronoun
    where = column(phrase.key, phrase.plural)
    dative = phrase.german("D")
    return Actor(phrase.english(), phrase.german("N"), english, phrase.plural, where, dative, phrase)


def spot(dice: Dice, role: Role) -> Phrase:
    """Return the noun phrase of a place."""
    noun = role.noun
    if role.german.endswith("!"):
        return Phrase(role.key, "")
    if noun.kind == "body":
        return Phrase(role.key, "the", "", False)
    if role.several or role.preposition == "between":
        if load_german().nouns[role.key].single:
            return Phrase(role.key, "the", "", True)
        return Phrase(role.key, dice.weighted(((6, "the"), (2, "two"))), describe(dice, role.key, 0.2), True)
    if noun.lemma in ("ground", "air", "grass", "corner", "head", "floor"):
        return Phrase(role.key, "the")
    definite = noun.number in ("mass", "only") or noun.kind == "plain"
    determiner = "the" if definite else dice.weighted(DETERMINERS["place"])
    chance = 0.2 if determiner == "the" else 0.45
    return Phrase(role.key, determiner, describe(dice, role.key, chance))


def instrument(dice: Dice, role: Role) -> Phrase:
    """Return what something is done with."""
    noun = role.noun
    if noun.kind == "body":
        return Phrase(role.key, "own", "", role.several)
    if noun.number == "mass":
        return Phrase(role.key, "", describe(dice, role.key, 0.3))
    if noun.number == "plural" or role.several:
        return Phrase(role.key, "the" if noun.number == "plural" else "", describe(dice, role.key, 0.3), True)
    return Phrase(role.key, dice.weighted(((6, "a"), (2, "the"), (2, "his"))), describe(dice, role.key, 0.3))


def dressed(dice: Dice, who: Actor, role: Role) -> Actor:
    """Return a subject with what it wears."""
    plural = role.noun.lemma in PAIRED or role.noun.number == "plural" or who.plural
    worn = Phrase(role.key, "" if plural else "a", describe(dice, role.key, 0.7), plural)
    with_ = "in" if role.noun.lemma in IN_CLOTHES else "mit"
    german = noun_phrase(role.key, "a" if plural and load_german().nouns[role.key].single else worn.determiner,
                         worn.adjective, plural, "D")  # fmt: skip
    return replace(
        who,
        english=f"{who.english} in {worn.english()}",
        german=f"{who.german} {with_} {german}",
        dative=f"{who.dative} {with_} {german}",
    )


def pronoun_of(phrase: Phrase | None) -> str:
    """Return the English pronoun of what is acted upon."""
    if phrase is None:
        return "it"
    pronoun = load_lexicon().nouns[phrase.key.partition("@")[0]].pronoun
    return "they" if phrase.plural else {"they": "it", "any": "he"}.get(pronoun, pronoun)
