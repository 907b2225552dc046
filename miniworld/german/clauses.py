"""A synchronous grammar: one happening of the world, said in English and in German.

Every choice (who, which adjective, which number, which tense) is made once, and both languages follow it. A
`GermanScene` is one event; a `ClausePair` is its words in both languages before they are ordered: the German verb comes
second, first in a question, and last after "dass" or "weil".
"""

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from grue.files import read_toml
from miniworld.chance import Dice
from miniworld.german.deeds import Deed, Role
from miniworld.german.lexicon import (
    PRONOUNS,
    Case,
    GermanVerb,
    Tense,
    column,
    contract,
    entries,
    finite,
    load_german,
    with_zu,
)
from miniworld.german.phrases import Actor, Phrase, actor, dressed, instrument, pronoun_of, spot, thing
from miniworld.lexicon import ANIMALS, HERE, Verb, capitalise, conjugate, verb
from miniworld.phrases import join
from miniworld.template import FORMS, Template

MOTION = (
    "into", "onto", "toward", "out of", "through", "across", "over", "along", "down", "up", "past", "off", "from", "to",
    "against", "around",
)  # fmt: skip
Mood = Literal[
    "present", "past", "progressive", "then", "perfect", "pluperfect", "future", "can", "could", "must", "had to",
    "should", "want", "wanted", "like", "try", "tried", "decided", "began", "forgot", "refused", "promised", "hope",
    "going", "allowed", "would", "used", "about", "prefer", "glad", "dared", "planned", "afraid", "seems", "stopped",
    "managed",
]  # fmt: skip
PERIPHRASTIC: dict[str, tuple[str, str, str, str]] = {
    # English auxiliary for one and for several, German finite verb for one and for several
    "perfect": ("has", "have", "hat", "haben"),
    "pluperfect": ("had", "had", "hatte", "hatten"),
    "future": ("will", "will", "wird", "werden"),
    "can": ("can", "can", "kann", "können"),
    "could": ("could", "could", "konnte", "konnten"),
    "must": ("must", "must", "muss", "müssen"),
    "had to": ("had to", "had to", "musste", "mussten"),
    "should": ("should", "should", "sollte", "sollten"),
    "want": ("wants to", "want to", "will", "wollen"),
    "wanted": ("wanted to", "wanted to", "wollte", "wollten"),
    "going": ("is going to", "are going to", "wird", "werden"),
    "allowed": ("was allowed to", "were allowed to", "durfte", "durften"),
    "would": ("would", "would", "würde", "würden"),
    "about": ("was about to", "were about to", "wollte", "wollten"),
}
BESIDE: dict[str, str] = {"like": "gern", "prefer": "am liebsten", "used": "früher", "about": "gerade"}
"""Adverbs that German has where English has a verb."""
BE = {"perfect": ("ist", "sind"), "pluperfect": ("war", "waren")}
WITH_ZU: dict[str, tuple[str, str, str, str]] = {
    "try": ("tries to", "try to", "versucht", "versuchen"),
    "tried": ("tried to", "tried to", "versuchte", "versuchten"),
    "decided": ("decided to", "decided to", "beschloss", "beschlossen"),
    "began": ("began to", "began to", "begann", "begannen"),
    "forgot": ("forgot to", "forgot to", "vergaß", "vergaßen"),
    "refused": ("refused to", "refused to", "weigerte sich", "weigerten sich"),
    "promised": ("promised to", "promised to", "versprach", "versprachen"),
    "hope": ("hopes to", "hope to", "hofft", "hoffen"),
    "glad": ("was glad to", "were glad to", "freute sich", "freuten sich"),
    "dared": ("dared to", "dared to", "wagte es", "wagten es"),
    "planned": ("planned to", "planned to", "plante", "planten"),
    "afraid": ("was afraid to", "were afraid to", "hatte Angst", "hatten Angst"),
    "stopped": ("stopped", "stopped", "hörte", "hörten"),
    "managed": ("managed to", "managed to", "gelang", "gelang"),
    "seems": ("seems to", "seem to", "scheint", "scheinen"),
}
BEFORE = frozenset((
    "past", "then", "pluperfect", "could", "had to", "wanted", "tried", "decided", "began", "forgot", "refused",
    "promised", "allowed", "used", "about", "glad", "dared", "planned", "afraid", "stopped", "managed",
))  # fmt: skip
"""Moods of the past."""


@dataclass(frozen=True, slots=True)
class GermanScene:
    """An event: a deed and its participants."""

    deed: Deed
    who: Actor
    what: Phrase | None = None
    spot: Role | None = None
    spot_phrase: Phrase | None = None
    tool: Phrase | None = None
    place: Role | None = None
    place_phrase: Phrase | None = None
    how: str = ""
    why: tuple[Template, str] | None = None


@dataclass(frozen=True, slots=True)
class ClausePair:
    """A clause in both languages, not yet in order; "^" in `middle` marks the place of the time."""

    subject: str
    predicate: str
    german_subject: str
    finite: str
    prefix: str
    middle: str
    tail: str
    reason: str = ""
    german_extra: str = ""
    plural: bool = False


# --- scenes -----------------------------------------------------------------------------------------------------------


def draw_scene(dice: Dice, deed: Deed, who: Actor | None = None, rich: float = 1.0) -> GermanScene:
    """Draw an event of a deed; `rich` scales the chances of tool, place, manner and reason."""
    role = dice.favour(deed.who)
    person = who or actor(dice, role)
    animal = role.noun.kind in ANIMALS
    if deed.wear and not animal and not who and dice.chance(0.15 * rich):
        person = dressed(dice, person, dice.pick(deed.wear))
    target = dice.favour(deed.what)
    goes = bool(target.preposition)
    bound = all(_directed(role) or role.german == "D" for role in deed.places)
    place = dice.pick(deed.places) if deed.places and dice.chance(1.0 if bound else 0.62 * rich) else None
    if place and goes and {"+"} & set(place.german) & set(target.german):
        place = None
    return GermanScene(
        deed,
        person,
        what=None if goes else thing(dice, target, own=not deed.passive, game=deed.english.lemma == "play"),
        spot=target if goes else None,
        spot_phrase=_goal(dice, target) if goes else None,
        tool=instrument(dice, dice.pick(deed.tools)) if deed.tools and not animal and dice.chance(0.3 * rich) else None,
        place=place,
        place_phrase=spot(dice, place) if place else None,
        how=dice.favour(deed.how) if deed.how and dice.chance(0.22 * rich) else "",
        why=dice.pick(deed.why) if deed.why and dice.chance(0.28 * rich) else None,
    )


def _goal(dice: Dice, role: Role) -> Phrase:
    return spot(dice, role) if role.noun.kind not in ("adult", "kid") else thing(dice, role)


# --- a scene becomes a clause ----------------------------------------------------------------------------------------


def where(role: Role, phrase: Phrase, whose: tuple[str, str]) -> tuple[str, str, str]:
    """Return a place in English and German, and the prefix that it gives the German verb ("hinunter")."""
    if role.german.endswith("!"):
        return f"{role.preposition} {phrase.english()}", role.german[:-1], ""
    english = f"{role.preposition} {phrase.english(whose[0])}"
    words, prefix = [], ""
    for word in role.german.split(" "):
        if word.startswith("+"):
            prefix = word[1:]
        else:
            words.append(phrase.german(word, whose[1]) if word in ("A", "D", "G") else word)  # type: ignore[arg-type]
    return english, " ".join(words), prefix


def whose(who: Actor) -> tuple[str, str]:
    """Return the possessives of a subject in English and German."""
    return FORMS[who.pronoun]["his"], "ihr" if who.column in (1, 3) else "sein"


def settle(
    scene: GermanScene, tense: Tense, negative: bool = False, verb_less: bool = False
) -> tuple[str, str, str, str, str]:
    """Return the English rest of the predicate, the German middle, its prefix, and the reason in both languages."""
    own = whose(scene.who)
    deed = scene.deed
    place = where(scene.place, scene.place_phrase, own) if scene.place and scene.place_phrase else ("", "", "")
    goal = where(scene.spot, scene.spot_phrase, own) if scene.spot and scene.spot_phrase else ("", "", "")
    tool = (f"with {scene.tool.english(own[0])}", by_tool(scene.tool, own[1])) if scene.tool else ("", "")
    english_how, german_how = (scene.how, _adverb(scene)) if scene.how else ("", "")
    what_english = scene.what.english(own[0]) if scene.what else goal[0]
    reason, german_reason = _reason(scene, tense)
    extra, inner = ("", "") if not scene.why else _placed(german_reason)
    predicate = join(what_english, english_how, place[0], tool[0])
    middle = _middle(scene, place[1], goal[1], tool[1], german_how, inner, negative, own[1])
    prefix = deed.german.prefix or place[2] or goal[2]
    return predicate, middle, prefix, reason, extra


def _middle(
    scene: GermanScene, place: str, goal: str, tool: str, how: str, inner: str, negative: bool, own: str
) -> str:
    """Return the German words between the two parts of the verb, in their order."""
    deed, what = scene.deed, scene.what
    sich = "sich" if deed.german.reflexive else ""
    nicht = "nicht" if negative else ""
    dative = scene.place if scene.place and scene.place.german == "D" else None
    moves = scene.place is not None and _directed(scene.place) and not dative
    here, there = ("", place) if moves else (place, "")
    if dative:
        here, sich = "", place
    if not what:
        governed = scene.spot is not None and (
            _directed(scene.spot) or scene.spot.preposition in ("for", "at", "about")
        )
        if scene.spot is not None and scene.spot.german in ("A", "D"):
            return join(sich, "^", goal, nicht, how, tool, here, there, inner)
        if governed:
            return join(sich, "^", nicht, how, tool, here, inner, there, goal)
        return join(sich, "^", nicht, how, goal, tool, here, there, inner)
    preposition, _, case = deed.government.rpartition(" ")
    object_ = join(preposition, what.german(case or "A", own))  # type: ignore[arg-type]
    if preposition:
        return join(sich, "^", nicht, how, tool, here, object_, there, inner)
    if what.definite:
        return join(sich, "^", object_, nicht, how, tool, here, there, inner)
    return join(sich, "^", here, how, tool, object_, there, inner)


def _directed(role: Role) -> bool:
    """Return whether a place is a direction, which comes last in German."""
    return role.preposition in MOTION or role.german.endswith(" A")


def by_tool(tool: Phrase, own: str, case: Case = "D") -> str:
    """Return "with" a tool in German; in the accusative, the tool alone."""
    single = tool.plural and load_german().nouns[tool.key].single
    words = (replace(tool, determiner="the") if single else tool).german(case, own)
    return words if case == "A" else f"mit {words}"


def _adverb(scene: GermanScene) -> str:
    """Return the German manner; some verbs have a word of their own ("sit.quietly")."""
    adverbs = _adverbs()
    return adverbs.get(f"{scene.deed.english.lemma}.{scene.how}") or adverbs[scene.how]


@cache
def _adverbs() -> dict[str, str]:
    return entries(read_toml(HERE / "german" / "events.toml")["adverbs"]["words"])


def _reason(scene: GermanScene, tense: Tense) -> tuple[str, str]:
    if not scene.why:
        return "", ""
    template, german = scene.why
    where_it = column(scene.what.key, scene.what.plural) if scene.what else 2
    english = template.fill(scene.who.pronoun, pronoun_of(scene.what), tense)
    return english, fill_german(german, scene.who.column, scene.who.plural, where_it, tense)


def fill_german(text: str, who: int, several: bool, it: int, tense: Tense) -> str:
    """Return a German reason or step: {er} {es} {ihm} {sein} are filled, and <verbs> take tense and number."""
    case: Case = "A" if text.startswith(("um ", "{es}")) or ("{es}" in text and "weil" not in text) else "N"
    plural = [several]

    def put(found: re.Match[str]) -> str:
        word = found[0]
        if word == "{er}":
            plural[0] = who == 3
            return PRONOUNS["N"][who]
        if word == "{es}":
            plural[0] = it == 3
            return PRONOUNS[case][it]
        if word == "{ihm}":
            return PRONOUNS["D"][it]
        if word == "{sein}":
            return "ihr" if who in (1, 3) else "sein"
        forms = word[1:-1].split()
        past = tense == "past"
        return forms[past + 2 * plural[0]] if len(forms) == 4 else forms[past]

    return re.sub(r"\{\w+\}|<[^>]+>", put, text)


def _placed(german: str) -> tuple[str, str]:
    """Return a reason as an extra clause after a comma, or as words inside the clause."""
    is_clause = german.startswith(("weil ", "um ", "bevor ", "bis ", "wenn ", "als "))
    return (german, "") if is_clause else ("", german)


def clause(scene: GermanScene, mood: Mood, negative: bool = False) -> ClausePair:
    """Return a scene as a clause in a mood."""
    tense: Tense = "past" if mood in BEFORE else "present"
    if negative:
        scene = replace(scene, why=None, how="", what=_denied(scene))
    predicate, middle, prefix, reason, extra = settle(scene, tense, negative)
    said = verbal(scene.who, scene.deed.english, replace(scene.deed.german, prefix=prefix), predicate, middle, mood,
                  negative, extra)  # fmt: skip
    return replace(said, reason=reason)


def verbal(
    who: Actor, word: Verb, german: GermanVerb, predicate: str, middle: str, mood: Mood, negative: bool = False,
    extra: str = "",
) -> ClausePair:  # fmt: skip
    """Return a clause, given the verb in both languages, the rest of the English predicate and the German middle."""
    plural = who.plural
    words = join(english_verb(word, mood, plural, negative), predicate)
    if mood in BESIDE:
        middle = middle.replace("^", f"^ {BESIDE[mood]}", 1)
    if mood not in WITH_ZU:
        begin, tail, prefix = german_verbs(german, mood, plural)
        return ClausePair(who.english, words, who.german, begin, prefix, middle, tail, "", extra, plural)
    begin, _, beside = WITH_ZU[mood][2 + plural].partition(" ")
    rest = join(*middle.replace("^", "").split(), with_zu(german))
    if mood == "seems":
        return ClausePair(who.english, words, who.german, begin, "", middle, with_zu(german), "", extra, plural)
    after = rest + (f", {extra}" if extra else "")
    if mood == "managed":
        return ClausePair(who.english, words, "es", begin, "", f"{who.dative} ^", "", "", after, plural)
    around = f"^ {beside}" if beside == "Angst" else join(beside, "^")
    prefix = "auf" if mood == "stopped" else ""
    return ClausePair(who.english, words, who.german, begin, prefix, around, "", "", after, plural)


def _denied(scene: GermanScene) -> Phrase | None:
    """Return the object of a negated verb: not any boats, and in German "keine Boote" or "nicht mit Booten"."""
    what = scene.what
    if what is None or what.definite:
        return what
    if " " in scene.deed.government:
        return replace(what, determiner="" if what.plural else what.determiner)
    return replace(what, determiner="any" if what.plural or what.determiner in ("", "some") else "not a")


def english_verb(word: Verb, mood: str, plural: bool, negative: bool) -> str:
    """Return the English verb of a mood with its auxiliaries."""
    no = " not" if negative else ""
    if mood in ("present", "past"):
        if not negative or word.lemma == "be":
            return conjugate(word, "past" if mood == "past" else "present", plural) + no
        return f"{'did' if mood == 'past' else 'do' if plural else 'does'} not {word.lemma}"
    if mood in ("progressive", "then"):
        be = conjugate(verb("be"), "past" if mood == "then" else "present", plural)
        return f"{be}{no} {word.gerund}"
    if mood in ("like", "prefer"):
        return f"{mood if plural else mood + 's'} to {word.lemma}"
    if mood == "used":
        return f"used to {word.lemma}"
    if negative and mood in ("want", "wanted"):
        return f"{'did' if mood == 'wanted' else 'do' if plural else 'does'} not want to {word.lemma}"
    auxiliary = (PERIPHRASTIC if mood in PERIPHRASTIC else WITH_ZU)[mood][plural]
    form = {"perfect": word.participle, "pluperfect": word.participle, "stopped": word.gerund}.get(mood, word.lemma)
    first, _, rest = auxiliary.partition(" ")
    return join(first + no, rest, form).replace("can not", "cannot")


def german_verbs(word: GermanVerb, mood: str, plural: bool) -> tuple[str, str, str]:
    """Return the finite verb, the end of the clause, and the separated prefix of the finite verb."""
    if mood in BE:
        aux = BE[mood][plural] if word.be else PERIPHRASTIC[mood][2 + plural]
        return aux, word.prefix + word.participle, ""
    if mood in PERIPHRASTIC:
        return PERIPHRASTIC[mood][2 + plural], word.prefix + word.infinitive, ""
    return finite(word, "past" if mood in ("past", "then", "used") else "present", plural), "", word.prefix


# --- clauses in order ------------------------------------------------------------------------------------------------


def english_main(said: ClausePair, when: str = "") -> str:
    """Return subject, predicate, time and reason."""
    return join(said.subject, said.predicate, when, said.reason)


def german_main(said: ClausePair, when: str = "", opening: str = "") -> str:
    """Return a main clause, the verb second: after the subject or after the opening."""
    middle = said.middle.replace("^", when).split()
    words = (opening, said.finite, *_behind(said, middle)) if opening else (said.german_subject, said.finite, *middle)
    return _close(join(*words, said.prefix, said.tail), said.german_extra)


def german_last(said: ClausePair, when: str = "") -> str:
    """Return a clause with the verb last, as after "dass", without that word."""
    words = join(*_behind(said, said.middle.replace("^", when).split()), said.tail, said.prefix + said.finite)
    return _close(words, said.german_extra)


def german_question(said: ClausePair, word: str = "") -> str:
    """Return a question, the verb first or after a question word."""
    words = join(word, said.finite, *_behind(said, said.middle.replace("^", "").split()), said.prefix, said.tail)
    return _close(words, said.german_extra) + "?"


def _behind(said: ClausePair, middle: list[str]) -> tuple[str, ...]:
    """Return subject and middle; "sich" stands before a noun or a name, and after a pronoun."""
    subject = said.german_subject
    if middle[:1] == ["sich"] and not subject.islower():
        return "sich", subject, *middle[1:]
    return subject, *middle


def _close(words: str, extra: str) -> str:
    return f"{words}, {extra}" if extra else words


def typeset(text: str, stop: str = ".") -> str:
    """Return a sentence: capital, contractions, full stop."""
    return capitalise(contract(text)) + stop
