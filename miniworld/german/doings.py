"""Frames about what people do, and what they make each other do: clauses inside clauses.

Word order is German's own here: an English infinitive becomes an infinitive with "zu" at the end, a clause with "dass"
or the bare verb behind its object, and a pronoun takes the gender of its noun.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from miniworld.chance import Dice
from miniworld.german.clauses import (
    Mood,
    english_main,
    english_verb,
    german_last,
    german_main,
    german_question,
    typeset,
    verbal,
)
from miniworld.german.lexicon import ARTICLES, PRONOUNS, Case, german_verb
from miniworld.german.phrases import Actor, as_actor
from miniworld.german.scenes import SEASONS, Pair, act, pair_of, time, trait
from miniworld.german.turns import (
    Doing,
    bare,
    can_deny,
    draw_doing,
    english_forms,
    gerund,
    infinitive,
    mood_for,
    moods,
    tell,
    turn_data,
)
from miniworld.lexicon import capitalise, load_lexicon
from miniworld.phrases import join
from miniworld.world import World

NEGATED: tuple[Mood, ...] = ("present", "past", "progressive", "perfect", "future", "could", "want", "wanted", "should",
                             "going", "allowed")  # fmt: skip
TOLD: tuple[tuple[float, Mood], ...] = (
    (5, "past"), (3, "present"), (2, "perfect"), (2, "future"), (1, "wanted"), (1, "could"),
)  # fmt: skip
COMMANDS: tuple[tuple[float, Mood], ...] = (
    (10, "past"), (4, "present"), (4, "perfect"), (3, "future"), (3, "wanted"), (2, "had to"), (2, "tried"),
    (1, "should"), (1, "refused"), (1, "allowed"),
)  # fmt: skip
LETS: tuple[tuple[float, Mood], ...] = (
    (5, "past"), (3, "present"), (1, "future"), (1, "wanted"), (1, "could"), (1, "must"),
)  # fmt: skip
ONCE: tuple[Mood, ...] = ("past", "past", "present", "future", "wanted", "had to")


def _season(dice: Dice, mood: Mood, chance: float) -> Pair:
    """Return an adverb of time that can stand anywhere, or nothing."""
    when = time(dice, mood, chance) if mood in SEASONS else ("", "")
    return (
        ("", "") if when[0] in ("never before", "already", "many times", "again", "often", "twice this year") else when
    )


def turned(dice: Dice, world: World) -> Pair:
    """The baker is looking forward to the party."""
    doing = draw_doing(dice, world, turns=1.0)
    mood = mood_for(dice, doing)
    negative = mood in NEGATED and can_deny(doing) and dice.chance(0.15)
    said = tell(doing, mood, negative)
    when = ("", "") if negative else _season(dice, mood, 0.4)
    if when[0] and dice.chance(0.5):
        return typeset(f"{when[0]}, {english_main(said)}"), typeset(german_main(said, "", when[1]))
    return typeset(english_main(said, when[0])), typeset(german_main(said, when[1]))


def who_is(dice: Dice, world: World) -> Pair:
    """The baker who likes the song comes from Harlow."""
    doing = draw_doing(dice, world, turns=0.75)
    who = doing.who.phrase
    if who is None or who.plural or who.owner or who.determiner not in ("a", "the", "this"):
        return turned(dice, world)
    subject = as_actor(replace(who, determiner="the"))
    mood = mood_for(dice, doing)
    if mood == "managed":
        mood = "past"
    case: Case = "D" if doing.dative else "N"
    pronoun = ARTICLES[case][subject.column]
    said = tell(Doing(replace(subject, english="", german=pronoun, dative=pronoun), doing.what), mood)
    english, verb, middle, prefix = trait(dice, world, "person")
    german = f"{subject.german}, {german_last(said)}, {join(verb, middle, prefix)}".replace(" ,", ",")
    return typeset(join(subject.english, "who", english_main(said), english)), typeset(german)


def cleft(dice: Dice, world: World) -> Pair:
    """It was the baker who broke the vase."""
    doing = draw_doing(dice, world, active=True)
    who = doing.who
    if who.plural or (who.phrase and not who.phrase.definite):
        return turned(dice, world)
    mood: Mood = dice.pick(("past", "past", "perfect", "wanted"))
    said = tell(Doing(replace(who, english="", german=ARTICLES["N"][who.column]), doing.what), mood)
    return (
        typeset(join("it was", who.english, "who", english_main(said))),
        typeset(f"es war {who.german}, {german_last(said)}"),
    )


def reported(dice: Dice, world: World) -> Pair:
    """Nobody knows whether the baker likes the song."""
    english, german, word = _filled(dice, world, "reported").split(" | ")
    doing = draw_doing(dice, world, turns=0.6)
    mood = dice.weighted(TOLD)
    if mood not in [name for _, name in moods(doing)]:
        mood = "past"
    negative = word == "dass" and mood in NEGATED and can_deny(doing) and dice.chance(0.15)
    said = tell(doing, mood, negative)
    return typeset(f"{english} {english_main(said)}"), typeset(f"{german}, {word} {german_last(said)}")


# --- one makes another do it -----------------------------------------------------------------------------------------


def _cased(who: Actor, case: Case) -> str:
    """Return someone in a case; a name stays as it is."""
    return who.phrase.german(case) if who.phrase else who.german


def _two(dice: Dice, world: World) -> tuple[Actor, Doing]:
    """Draw two different people, the second with something to do; neither has a trade before the name."""
    while True:
        first, doing = draw_doing(dice, world).who, draw_doing(dice, world, active=True)
        names = [who.phrase.key if who.phrase else who.german for who in (first, doing.who)]
        titled = [who for who in (first, doing.who) if not who.phrase and who.german.startswith(("der ", "die "))]
        if names[0] != names[1] and not titled:
            return first, doing


def command(dice: Dice, world: World) -> Pair:
    """The judge asked the baker to bake a cake."""
    first, doing = _two(dice, world)
    lemma, german, case = dice.pick(turn_data()["control"]["words"]).split(" | ")
    case, _, ahead = case.partition(" ")
    english_to, german_to = infinitive(doing)
    mood = dice.weighted(COMMANDS)
    middle = join("^", _cased(doing.who, case), ahead)
    predicate = f"{doing.who.english} to {english_to}"
    said = verbal(first, english_forms(lemma), german_verb(german), predicate, middle, mood, extra=german_to)
    when = _season(dice, mood, 0.35)
    return (
        typeset(f"{when[0]}, {english_main(said)}" if when[0] else english_main(said)),
        typeset(german_main(said, "", when[1])),
    )


def wish(dice: Dice, world: World) -> Pair:
    """The judge wanted the baker to bake a cake."""
    first, doing = _two(dice, world)
    one, several, german_one, german_several, mood = dice.pick(turn_data()["control"]["wishes"]).split(" | ")
    english = join(first.english, several if first.plural else one, doing.who.english, "to", infinitive(doing)[0])
    german = join(first.german, german_several if first.plural else german_one)
    return typeset(english), typeset(f"{german}, dass {german_last(tell(doing, mood))}")


def let(dice: Dice, world: World) -> Pair:
    """The judge let the baker bake a cake."""
    first, doing = _two(dice, world)
    english, german = bare(doing)
    if re.search(r"\bsich\b", german):
        return wish(dice, world)
    mood = dice.weighted(LETS)
    middle = join("^", _cased(doing.who, "A"), german)
    said = verbal(first, english_forms("let"), german_verb("lassen"), f"{doing.who.english} {english}", middle, mood)
    when = _season(dice, mood, 0.3)
    return (
        typeset(f"{when[0]}, {english_main(said)}" if when[0] else english_main(said)),
        typeset(german_main(said, "", when[1])),
    )


# --- one does two things ---------------------------------------------------------------------------------------------


def _both(dice: Dice, world: World) -> tuple[Doing, Doing]:
    """Draw two things that the same person does."""
    first = draw_doing(dice, world, active=True)
    second = draw_doing(dice, world, active=True, turns=0.7, who=first.who)
    return first, second


def instead(dice: Dice, world: World) -> Pair:
    """Instead of baking a cake, the baker watched television."""
    first, second = _both(dice, world)
    mood = dice.pick(ONCE)
    said = tell(second, mood)
    to = infinitive(first)[1]
    if dice.chance(0.5):
        english, german = f"instead of {gerund(first)}, {english_main(said)}", f"anstatt {to},"
        return typeset(english), typeset(german_main(said, "", german))
    return typeset(f"{english_main(said)} without {gerund(first)}"), typeset(f"{german_main(said)}, ohne {to}")


def having(dice: Dice, world: World) -> Pair:
    """Having baked a cake, the baker watched television."""
    first, second = _both(dice, world)
    done = tell(first, "pluperfect")
    who = second.who
    said = tell(second, "past")
    german = replace(said, german_subject=PRONOUNS["N"][who.column])
    opening = f"nachdem {german_last(done)},"
    participle = done.predicate.partition(" ")[2]
    return typeset(f"having {participle}, {english_main(said)}"), typeset(german_main(german, "", opening))


def took(dice: Dice, world: World) -> Pair:
    """It took the baker two hours to bake a cake."""
    doing = draw_doing(dice, world, active=True)
    english, german = infinitive(doing)
    span, spanne = pair_of(dice.pick(turn_data()["control"]["spans"]))
    took_, brauchen = dice.pick((("took", ("brauchte", "brauchten")), ("will take", ("wird", "werden"))))
    begin, tail = brauchen[doing.who.plural], "brauchen" if took_ == "will take" else ""
    return (
        typeset(join("it", took_, doing.who.english, span, "to", english)),
        typeset(f"{join(doing.who.german, begin, spanne, tail)}, um {german}"),
    )


def too(dice: Dice, world: World) -> Pair:
    """The baker was too tired to bake a cake."""
    doing = draw_doing(dice, world, active=True)
    english, german = infinitive(doing)
    how, wie = pair_of(dice.pick(turn_data()["control"]["too"]))
    be, sein = dice.pick(((("was", "were"), ("war", "waren")), (("is", "are"), ("ist", "sind"))))
    several = doing.who.plural
    return (
        typeset(join(doing.who.english, be[several], how, "to", english)),
        typeset(f"{join(doing.who.german, sein[several], wie)}, um {german}"),
    )


# --- pronouns by gender ----------------------------------------------------------------------------------------------


THINGS = (
    "baked", "produce", "vehicle", "boat", "clothes", "cloth", "furniture", "tool", "kitchenware", "container", "toy",
    "instrument", "art", "sport", "device", "small", "machine",
)  # fmt: skip
"""Kinds of nouns that can be bought, lost and taken home."""


def _with_thing(dice: Dice, world: World) -> tuple[Doing, int]:
    """Draw something done to one thing, and the thing's column in a table of endings."""
    while True:
        scene = replace(act(dice, world, rich=0.5), why=None, tool=None, place=None, how="")
        what = scene.what
        if what is None or what.plural or what.determiner in ("own", "his", "", "some") or scene.deed.government:
            continue
        noun = load_lexicon().nouns[what.key.partition("@")[0]]
        if noun.kind in THINGS and noun.number == "count":
            return Doing(scene.who, scene), as_actor(what).column


def which(dice: Dice, world: World) -> Pair:
    """The baker bought a table which was very old."""
    doing, column = _with_thing(dice, world)
    english, case, german = _filled(dice, world, "which").split(" | ")
    before, _, letter = case.rpartition(" ")
    pronoun = join(before, ARTICLES[letter][column])
    said = tell(doing, dice.pick(("past", "past", "perfect", "pluperfect", "wanted")))
    return typeset(f"{english_main(said)} which {english}"), typeset(f"{german_main(said)}, {pronoun} {german}")


def afterwards(dice: Dice, world: World) -> Pair:
    """The baker bought a table, but it was too heavy."""
    doing, column = _with_thing(dice, world)
    english, german = pair_of(_filled(dice, world, "after"))
    for letter in ("N", "A", "D"):
        german = german.replace(f"{{{letter}}}", PRONOUNS[letter][column])
    said = tell(doing, dice.pick(("past", "past", "wanted", "tried", "decided")))
    comma = " " if english.startswith(("because", "although", "so that", "even")) else ", "
    return (
        typeset(english_main(said) + comma + english.replace("{it}", "it")),
        typeset(f"{german_main(said)}, {german}"),
    )


def _filled(dice: Dice, world: World, name: str) -> str:
    text: str = dice.pick(turn_data()["control"][name])
    person, town = dice.pick(world.people).name, dice.pick(world.towns).name
    return text.replace("{person}", person).replace("{town}", town)


# --- asked and told --------------------------------------------------------------------------------------------------


def turned_question(dice: Dice, world: World) -> Pair:
    """Did the baker look forward to the party?"""
    doing = draw_doing(dice, world, active=True, turns=1.0)
    mood: Mood = dice.pick(("present", "past", "future", "perfect"))
    word, german_word = dice.pick((("", ""), ("", ""), ("why", "warum"), ("when", "wann")))
    asked = tell(doing, "perfect" if mood == "past" else mood)
    lemma = infinitive(doing)[0]
    if mood in ("present", "past"):
        rest = lemma
        auxiliary = "did" if mood == "past" else "do" if doing.who.plural else "does"
    else:
        auxiliary, _, rest = tell(doing, mood).predicate.partition(" ")
    english = join(word, auxiliary, doing.who.english, rest)
    return typeset(english, "?"), typeset(german_question(asked, german_word), "")


def request(dice: Dice, world: World) -> Pair:
    """Please put the vase on the table."""
    who = Actor("you", "Sie", "they", True, 3, "Ihnen")
    doing = draw_doing(dice, world, active=True, turns=1.0, who=who)
    said = tell(doing, "present")
    negative = can_deny(doing) and dice.chance(0.25)
    said = tell(doing, "present", negative)
    lemma = english_verb(doing.english, "can", True, False).partition(" ")[2]
    rest = said.predicate.removeprefix(english_verb(doing.english, "present", True, negative)).strip()
    english = join("please", "do not" if negative else "", lemma, rest).replace(" their ", " your ")
    reflexive, middle = said.middle.startswith("sich"), said.middle.removeprefix("sich").replace("^", "")
    german = join(said.finite, "Sie", "sich" if reflexive else "", "bitte", *middle.split(), said.prefix)
    return typeset(english), typeset(capitalise(german))


Frame = Callable[[Dice, World], Pair]
DOINGS: tuple[tuple[float, Frame], ...] = (
    (16, turned), (5, who_is), (3, cleft), (8, reported), (8, command), (5, wish), (3, let), (6, instead), (3, having),
    (3, took), (3, too), (7, which), (7, afterwards), (3, turned_question), (3, request),
)  # fmt: skip
