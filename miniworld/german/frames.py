"""Frames: whole sentences about events, in English and German."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from miniworld.chance import Dice
from miniworld.german.clauses import (
    ClausePair,
    GermanScene,
    Mood,
    by_tool,
    clause,
    english_main,
    english_verb,
    fill_german,
    german_last,
    german_main,
    german_question,
    settle,
    typeset,
    where,
    whose,
)
from miniworld.german.doings import DOINGS, NEGATED
from miniworld.german.lexicon import ARTICLES, PRONOUNS, Tense, column, finite, german_verb, with_zu
from miniworld.german.phrases import Actor, as_actor, instrument, pronoun_of
from miniworld.german.scenes import Pair, act, event_data, is_animal, mood_of, pair_of, time, trait
from miniworld.lexicon import conjugate, load_lexicon, verb
from miniworld.phrases import join
from miniworld.world import World, load_world

ASKED: tuple[tuple[float, Mood], ...] = ((3, "present"), (4, "past"), (3, "progressive"), (2, "future"), (1, "can"))


# --- frames ----------------------------------------------------------------------------------------------------------


def plain(dice: Dice, world: World) -> Pair:
    """A farmer led two horses toward the barn yesterday."""
    scene = act(dice, world, apposition=True)
    mood = mood_of(dice, scene)
    negative = mood in NEGATED and dice.chance(0.13)
    said = clause(scene, mood, negative)
    when = ("", "") if negative else time(dice, mood)
    if when[0] and dice.chance(0.45) and when[0] not in ("never before", "already", "many times", "again", "often"):
        return typeset(f"{when[0]}, {english_main(said)}"), typeset(german_main(said, "", when[1]))
    if when[0] in ("never before", "already"):
        return _early(said, when)
    return typeset(english_main(said, when[0])), typeset(german_main(said, when[1]))


def _early(said: ClausePair, when: Pair) -> Pair:
    """The farmer has already fed the horse."""
    auxiliary, _, rest = said.predicate.partition(" ")
    english = join(
        said.subject, auxiliary, when[0].split()[0], rest, "before" if when[0].startswith("never") else "", said.reason
    )
    return typeset(english), typeset(german_main(said, when[1]))


STATIC = (
    "in",
    "on",
    "at",
    "by",
    "near",
    "behind",
    "beside",
    "under",
    "outside",
    "in front of",
    "during",
    "after",
    "before",
)


def fronted(dice: Dice, world: World) -> Pair:
    """In the yard, a boy kicked the ball over the fence."""
    scene = act(dice, world)
    mood = mood_of(dice, scene)
    place, tool = scene.place, scene.tool
    if place and scene.place_phrase and place.preposition in STATIC and not place.german.endswith(" A"):
        opening = where(place, scene.place_phrase, whose(scene.who))[:2]
        scene = replace(scene, place=None, place_phrase=None)
    elif tool and tool.determiner not in ("his", "own"):
        opening = (f"with {tool.english()}", by_tool(tool, "sein"))
        scene = replace(scene, tool=None)
    else:
        mood = dice.pick(("past", "present", "future", "then"))
        opening = time(dice, mood, 1.0)
    said = clause(scene, mood)
    if opening[0] in ("again", "often", "already", "never before", "many times"):
        return typeset(english_main(said, opening[0])), typeset(german_main(said, opening[1]))
    return typeset(f"{opening[0]}, {english_main(said)}"), typeset(german_main(said, "", opening[1]))


def passive(dice: Dice, world: World) -> Pair:
    """Two horses were led toward the barn by a farmer."""
    scene = act(dice, world)
    deed, what = scene.deed, scene.what
    if not (deed.passive and what) or what.determiner in ("own", "his", "") or scene.why:
        return plain(dice, world)
    patient = as_actor(what)
    be, was, past, plural = dice.weighted(PASSIVES)
    by = dice.chance(0.6)
    alone = replace(scene, who=patient, what=None, spot=None, spot_phrase=None, tool=None if by else scene.tool)
    if alone.tool and alone.tool.determiner in ("his", "own"):
        alone = replace(alone, tool=None)
    predicate, middle, prefix, _, _ = settle(alone, "past" if past else "present")
    agent = (f"by {scene.who.english}", f"von {scene.who.dative}") if by else ("", "")
    english = join(was if what.plural else be, deed.english.participle, predicate, agent[0])
    participle = join(prefix + deed.german.participle, "worden" if be == "has been" else "")
    words = middle.replace("^", join("^", agent[1]))
    begin = plural if patient.column == 3 else PASSIVE_ONE[plural]
    said = ClausePair(patient.english, english, patient.german, begin, "", words, participle)
    when = time(dice, "past" if past else "present", 0.3) if be != "has been" else ("", "")
    if when[0] and dice.chance(0.5) and when[0] != "often":
        return typeset(f"{when[0]}, {english_main(said)}"), typeset(german_main(said, "", when[1]))
    return typeset(english_main(said, when[0])), typeset(german_main(said, when[1]))


PASSIVES = (
    (3, ("is", "are", False, "werden")), (8, ("was", "were", True, "wurden")),
    (4, ("is being", "are being", False, "werden")),
    (2, ("was being", "were being", True, "wurden")), (3, ("has been", "have been", False, "sind")),
)  # fmt: skip
PASSIVE_ONE = {"werden": "wird", "wurden": "wurde", "sind": "ist"}


def relative(dice: Dice, world: World) -> Pair:
    """The farmer who is leading two horses toward the barn comes from Harlow."""
    scene = replace(act(dice, world, rich=0.8), why=None)
    who = scene.who.phrase
    if who is None or scene.who.plural or who.owner or who.determiner not in ("a", "the", "this"):
        return plain(dice, world)
    subject = as_actor(replace(who, determiner="the"))
    pronoun = ARTICLES["N"][subject.column]
    mood = mood_of(dice, scene)
    mood = "past" if mood == "managed" else mood
    said = clause(replace(scene, who=replace(subject, english="", german=pronoun)), mood)
    english, verb_, middle, prefix = trait(dice, world, "animal" if is_animal(scene) else "person")
    link = "that" if is_animal(scene) else "who"
    german = f"{subject.german}, {german_last(said)}, {join(verb_, middle, prefix)}".replace(" ,", ",")
    return typeset(join(subject.english, link, english_main(said), english)), typeset(german)


def object_relative(dice: Dice, world: World) -> Pair:
    """The cake that the baker baked in the kitchen belongs to Laura Vance."""
    scene = replace(act(dice, world, rich=0.8), why=None)
    what = scene.what
    if what is None or what.plural or what.determiner in ("own", "his", "") or scene.deed.government:
        return plain(dice, world)
    if load_lexicon().nouns[what.key.partition("@")[0]].kind in NO_TRAIT:
        return plain(dice, world)
    thing = as_actor(replace(what, determiner="the"))
    pronoun = ARTICLES["A"][thing.column]
    said = clause(replace(scene, what=None, spot=None), dice.pick(OF_THINGS))
    english, verb_, middle, prefix = trait(dice, world, "thing")
    subject = replace(said, german_subject=f"{pronoun} {said.german_subject}")
    german = f"{thing.german}, {german_last(subject)}, {join(verb_, middle, prefix)}"
    return typeset(join(thing.english, "that", english_main(said), english)), typeset(german)


OF_THINGS: tuple[Mood, ...] = ("past", "past", "perfect", "wanted", "progressive")
NO_TRAIT = (
    "adult",
    "kid",
    "family",
    "worker",
    "officer",
    "artist",
    "athlete",
    "royal",
    "group",
    "talk",
    "contest",
    "feast",
    "pet",
    "wild",
)


def existential(dice: Dice, world: World) -> Pair:
    """There is a farmer leading two horses toward the barn."""
    scene = replace(act(dice, world, rich=0.8), why=None)
    who = scene.who.phrase
    if who is None or who.definite:
        return plain(dice, world)
    be, german_be, mood = dice.pick((("is", "ist", "progressive"), ("was", "war", "then")))
    if scene.who.plural:
        be, german_be = {"is": "are", "was": "were"}[be], {"ist": "sind", "war": "waren"}[german_be]
    pronoun = ARTICLES["N"][scene.who.column]
    said = clause(replace(scene, who=replace(scene.who, german=pronoun)), mood)  # type: ignore[arg-type]
    gerund = said.predicate.partition(" ")[2]
    english = join("there", be, scene.who.english, gerund)
    if scene.who.column == 3 and not scene.who.plural:
        return plain(dice, world)
    return typeset(english), typeset(f"da {german_be} {scene.who.german}, {german_last(said)}")


def witnessed(dice: Dice, world: World) -> Pair:
    """We watched a farmer lead two horses toward the barn."""
    scene = act(dice, world, rich=0.9)
    english, german = pair_of(dice.pick(event_data()["witness"]["words"]).format(person=dice.pick(world.people).name))
    said = clause(scene, "past")
    predicate = replace(said, predicate=join(scene.deed.english.lemma, settle(scene, "past")[0]))
    return typeset(f"{english} {english_main(predicate)}"), typeset(f"{german}, wie {german_last(said)}")


def using(dice: Dice, world: World) -> Pair:
    """A cook uses a sharp knife to slice the bread."""
    scene = replace(act(dice, world), why=None)
    tools = scene.deed.tools
    if is_animal(scene) or not tools:
        return plain(dice, world)
    tool = scene.tool or instrument(dice, dice.pick(tools))
    tense: Tense = dice.pick(("present", "past"))
    use, benutzen = dice.weighted(((5, ("use", "benutzen")), (2, ("need", "brauchen")), (1, ("take", "nehmen"))))
    own = whose(scene.who)
    bare = replace(scene, tool=None)
    predicate, middle, prefix, _, _ = settle(bare, tense)
    words = join(*middle.replace("^", "").split(), with_zu(replace(scene.deed.german, prefix=prefix)))
    english = join(
        scene.who.english,
        conjugate(verb(use), tense, scene.who.plural),
        tool.english(own[0]),
        "to",
        scene.deed.english.lemma,
        predicate,
    )
    german = join(scene.who.german, finite(german_verb(benutzen), tense, scene.who.plural), by_tool(tool, own[1], "A"))
    return typeset(english), typeset(f"{german}, um {words}")


# --- two things in one sentence --------------------------------------------------------------------------------------


def step_of(dice: Dice, scene: GermanScene, tense: Tense) -> tuple[Any, str, str, str] | None:
    """Return the English verb and the rest of what comes next, and its German middle and verb."""
    options = [(s, g) for s, g in scene.deed.steps if "{" not in g or scene.what]
    if not options:
        return None
    step, german = dice.pick(options)
    what = scene.what
    it = pronoun_of(what)
    where_it = column(what.key, what.plural) if what else 2
    text = fill_german(german, scene.who.column, scene.who.plural, where_it, tense)
    middle, _, last = text.rpartition(" ")
    return step.verb, step.rest.fill(scene.who.pronoun, it, tense), middle, last


def steps(dice: Dice, world: World) -> Pair:
    """A woman washes the shirts and then hangs them on the line."""
    scene = replace(act(dice, world, rich=0.75), why=None)
    mood: Mood = dice.weighted(((5, "past"), (3, "present"), (2, "want"), (2, "future"), (2, "wanted"), (1, "must")))
    tense: Tense = "past" if mood in ("past", "wanted") else "present"
    found = step_of(dice, scene, tense)
    if found is None:
        return plain(dice, world)
    word, rest, middle, last = found
    said = clause(scene, mood)
    german = german_verb(last)
    plural = scene.who.plural
    dann = dice.chance(0.5)
    if mood in ("past", "present"):
        english = join(english_main(said), "and then" if dann else "and", conjugate(word, tense, plural), rest)
        second = join(*_after_sich(finite(german, tense, plural), middle, "dann" if dann else ""), german.prefix)
    else:
        english = join(english_main(said), "and then" if dann else "and", word.lemma, rest)
        second = join(*_after_sich("", middle, "dann" if dann else ""), german.prefix + german.infinitive)
    return typeset(english), typeset(f"{german_main(said)} und {second}")


def fill_step(dice: Dice, scene: GermanScene, tense: Tense, opening: str) -> str:
    """Return what comes next as a German sentence of its own, or nothing: "Danach trägt er den Eimer in die Küche."."""
    found = step_of(dice, scene, tense)
    if found is None:
        return ""
    _, _, middle, last = found
    german, who = german_verb(last), scene.who
    begin = finite(german, tense, who.plural)
    return typeset(join(opening, begin, PRONOUNS["N"][who.column], middle, german.prefix))


def _after_sich(begin: str, middle: str, adverb: str) -> tuple[str, ...]:
    """Put an adverb after the pronouns that begin a middle field."""
    first, _, rest = middle.partition(" ")
    if first in ("sich", "es", "ihn", "sie", "ihm", "ihr", "ihnen"):
        return begin, first, adverb, rest
    return begin, adverb, middle


def ordered(dice: Dice, world: World) -> Pair:
    """After milking the cow, the farmer carried the bucket into the kitchen."""
    scene = replace(act(dice, world, rich=0.7), why=None)
    tense: Tense = dice.pick(("past", "past", "present"))
    found = step_of(dice, scene, tense)
    who = scene.who
    if found is None or (who.pronoun == "they" and not who.plural):
        return plain(dice, world)
    word, rest, middle, last = found
    german, pronoun = german_verb(last), PRONOUNS["N"][who.column]
    if dice.chance(0.5):
        said = clause(scene, tense)
        english = f"{english_main(said)} before {join(word.gerund, rest)}"
        return typeset(english), typeset(
            f"{german_main(said)}, bevor {pronoun} {join(middle, german.prefix + finite(german, tense, who.plural))}"
        )
    first = clause(scene, "pluperfect" if tense == "past" else "perfect")
    opening = join("after", scene.deed.english.gerund, settle(scene, tense)[0])
    english = f"{opening}, {join(who.english, conjugate(word, tense, who.plural), rest)}"
    tail = join(finite(german, tense, who.plural), pronoun, middle, german.prefix)
    return typeset(english), typeset(f"nachdem {german_last(first)}, {tail}")


LINKS = (
    ("while", "während", "then", "past"), ("while", "während", "progressive", "progressive"),
    ("when", "als", "past", "past"),
    ("although", "obwohl", "past", "past"), ("when", "als", "past", "then"),
    ("although", "obwohl", "wanted", "past"), ("before", "bevor", "past", "past"), ("while", "während", "past", "past"),
    ("after", "nachdem", "pluperfect", "past"), ("as soon as", "sobald", "pluperfect", "past"),
)  # fmt: skip


def linked(dice: Dice, world: World) -> Pair:
    """While the baker was kneading the dough, a boy read a book."""
    one, other = (replace(act(dice, world, rich=0.6), why=None) for _ in range(2))
    link, german_link, first, second = dice.pick(LINKS)
    dependent = clause(one, first)  # type: ignore[arg-type]
    main = clause(other, second, link in ("although", "while") and dice.chance(0.2))  # type: ignore[arg-type]
    if dice.chance(0.5):
        english = f"{link} {english_main(dependent)}, {english_main(main)}"
        opening = f"{german_link} {german_last(dependent)},"
        return typeset(english), typeset(german_main(main, "", opening))
    english = f"{english_main(main)} {link} {english_main(dependent)}"
    return typeset(english), typeset(f"{german_main(main)}, {german_link} {german_last(dependent)}")


# --- questions -------------------------------------------------------------------------------------------------------


def question(dice: Dice, world: World) -> Pair:
    """Did the farmer lead the horse into the barn?"""
    scene = replace(act(dice, world, rich=0.7), why=None)
    mood = dice.weighted(ASKED)
    word, german_word = dice.weighted(
        ((5, ("", "")), (2, ("why", "warum")), (1, ("when", "wann")), (1, ("how often", "wie oft")))
    )
    said = clause(scene, "perfect" if mood == "past" else mood)
    auxiliary, rest = asked(scene, mood)
    english = join(word, auxiliary, scene.who.english, rest, settle(scene, "present")[0])
    return typeset(english, "?"), typeset(german_question(said, german_word), "")


def asked(scene: GermanScene, mood: str) -> Pair:
    """Return the English auxiliary of a question and the verb after the subject."""
    if mood in ("present", "past"):
        return ("did" if mood == "past" else "do" if scene.who.plural else "does"), scene.deed.english.lemma
    auxiliary, _, rest = english_verb(scene.deed.english, mood, scene.who.plural, False).partition(" ")
    return auxiliary, rest


def who_question(dice: Dice, world: World) -> Pair:
    """Who is leading the horse into the barn?"""
    scene = replace(act(dice, world, rich=0.8), why=None)
    if is_animal(scene) or (scene.tool and scene.tool.determiner in ("his", "own")):
        return question(dice, world)
    who = Actor("who", "wer", "he", False, 0, "")
    mood = dice.weighted(ASKED)
    said = clause(replace(scene, who=who), mood)
    when = time(dice, mood, 0.3) if mood in ("past", "future") else ("", "")
    return typeset(english_main(said, when[0]), "?"), typeset(german_main(said, when[1]), "?")


Frame = Callable[[Dice, World], Pair]
FRAMES: tuple[tuple[float, Frame], ...] = (
    (13, plain), (9, fronted), (9, passive), (6, relative), (5, object_relative), (2, existential), (4, witnessed),
    (4, using), (7, steps), (5, ordered), (13, linked), (3, question), (3, who_question), *DOINGS,
)  # fmt: skip


def event_pair(dice: Dice, revision: str) -> Pair:
    """Return a sentence about something that happens, in English and German."""
    frame = dice.weighted(FRAMES)
    english, german = frame(dice, load_world(revision))
    return english.replace(",,", ","), german.replace(",,", ",").replace(", ,", ",")
