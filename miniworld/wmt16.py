"""WMT16 in the mini world: English sentences and their German translations, some of them in the style of news.

Sentences of validation and test differ from every sentence of training by more than names and numbers: each has a verb
with a noun, or in a construction, that no training sentence puts together.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from miniworld.chance import Dice
from miniworld.german.clauses import GermanScene, Mood, clause, draw_scene, german_main, typeset
from miniworld.german.combinations import combinations, held_out
from miniworld.german.deeds import Deed, Role, load_deeds
from miniworld.german.facts import news_data, person_fact, town_facts
from miniworld.german.frames import event_pair, fill_step
from miniworld.german.lexicon import load_german
from miniworld.german.news import headline, news_pair, quote, saying
from miniworld.german.phrases import Actor, Phrase, as_actor, thing
from miniworld.german.scenes import Pair, act, event_data, is_animal, named, pair_of, time
from miniworld.lexicon import load_lexicon
from miniworld.world import SEEDS, World, load_world

SPLITS = {"train": 8000, "validation": 500, "test": 1000, "rl": 3000}
HELD_OUT = ("validation", "test")
WORDS = range(5, 31)
NEWS = 0.27
LONG, SHORT = 11, 0.35  # a sentence of fewer words is kept now and then
SENTENCE = re.compile(r"[^\W_]+(?:-[^\W_]+)*")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a new split must differ from, and the words of both languages that it may use."""

    texts: frozenset[str]
    bare: frozenset[str]
    words: tuple[frozenset[str], frozenset[str]]


@cache
def rows(revision: str) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return the rows of every split: translation, with the keys en and de.

    No training sentence has a combination of `held_out`; every sentence of the other splits has one, and no word that
    training lacks.
    """
    dice = Dice(SEEDS[revision] + 7)
    train = _training(dice, revision, SPLITS["train"])
    drawn = {"train": train}
    for split in (*HELD_OUT, "rl"):
        drawn[split] = _recombined(dice, revision, SPLITS[split], _seen(revision, train, drawn.values()))
    return {split: _rows(pairs) for split, pairs in drawn.items()}


def held_back(revision: str, seed: int, count: int) -> tuple[dict[str, Any], ...]:
    """Return a fresh test split, drawn as test is from the seed; nothing of the splits is in it."""
    splits = rows(revision).values()
    drawn = [[(row["translation"]["en"], row["translation"]["de"]) for row in split] for split in splits]
    return _rows(_recombined(Dice(seed), revision, count, _seen(revision, drawn[0], drawn)))


def _rows(pairs: list[Pair]) -> tuple[dict[str, Any], ...]:
    return tuple({"translation": {"en": english, "de": german}} for english, german in pairs)


def _seen(revision: str, train: list[Pair], drawn: Iterable[list[Pair]]) -> Seen:
    texts = frozenset(text for pairs in drawn for pair in pairs for text in pair)
    english, german = (frozenset(word for pair in train for word in words(pair[side])) for side in (0, 1))
    return Seen(texts, frozenset(bare(text, revision) for text in texts), (english, german))


def _training(dice: Dice, revision: str, count: int) -> list[Pair]:
    """Draw different sentences without a combination that is held out."""
    drawn: list[Pair] = []
    texts: set[str] = set()
    while len(drawn) < count:
        pair = _any_pair(dice, revision)
        if texts.isdisjoint(pair) and not combinations(pair[0]) & held_out(revision):
            drawn.append(pair)
            texts.update(pair)
    return drawn


def _recombined(dice: Dice, revision: str, count: int, seen: Seen) -> list[Pair]:
    """Draw sentences with a combination that is held out, of known words; none is known but for names and numbers."""
    drawn: list[Pair] = []
    keys = set(seen.bare)
    while len(drawn) < count:
        pair = _any_pair(dice, revision)
        if not combinations(pair[0]) & held_out(revision):
            continue
        own = {bare(text, revision) for text in pair}
        if keys.isdisjoint(own) and all(seen.words[side].issuperset(words(pair[side])) for side in (0, 1)):
            drawn.append(pair)
            keys |= own
    return drawn


def words(text: str) -> list[str]:
    """Return the words of a text, without numbers in digits."""
    return [word for word in SENTENCE.findall(text.lower()) if not word.isdigit()]


def bare(text: str, revision: str) -> str:
    """Return a sentence with its names, titles, numbers, days and months taken out."""
    if '"' in text or "„" in text:
        text = re.sub(r"[\"„]([^\"“]+)[\"“]", lambda found: "*" if found[1] in _titles(revision) else found[0], text)
    hidden = _names(revision)
    return " ".join("*" if word in hidden or word.isdigit() else word for word in re.findall(r"\w+|\*", text))


@cache
def _titles(revision: str) -> frozenset[str]:
    return frozenset(film.title for film in load_world(revision).films)


@cache
def _names(revision: str) -> frozenset[str]:
    names = load_lexicon().names
    lists = news_data()["lists"]
    listed = [side for name in ("day", "month", "few") for pair in lists[name] for side in pair_of(pair)]
    return frozenset(
        [*(name for group in names.values() for name in group), *listed, *(word.capitalize() for word in listed)]
    )


def _any_pair(dice: Dice, revision: str) -> Pair:
    """Return a pair of the wanted length, held out or not."""
    while True:
        pair = news_pair(dice, revision) if dice.chance(NEWS) else event_pair(dice, revision)
        length = len(pair[0].split())
        if length in WORDS and len(pair[1].split()) in WORDS and dice.chance(1.0 if length >= LONG else SHORT):
            return pair


@cache
def _tested(revision: str) -> frozenset[str]:
    """Return the sentences of validation and test in both languages, without names and numbers."""
    splits = rows(revision)
    return frozenset(
        bare(text, revision) for split in HELD_OUT for row in splits[split] for text in row["translation"].values()
    )


def draw_pair(dice: Dice, revision: str) -> Pair:
    """Return an English sentence and its German translation, neither of them held out under any name or number."""
    tested = _tested(revision)
    while True:
        pair = _any_pair(dice, revision)
        if all(bare(text, revision) not in tested for text in pair):
            return pair


# --- plain German text -----------------------------------------------------------------------------------------------


def draw_text(dice: Dice, revision: str) -> str:
    """Return a German paragraph of two to five sentences and 15 to 130 words, none of its sentences held out."""
    world, tested = load_world(revision), _tested(revision)
    while True:
        kind: Callable[[Dice, World], list[str]] = dice.weighted(
            ((5, story), (3, news), (1, town), (1, portrait), (3, mixed))
        )
        sentences = kind(dice, world)
        text = " ".join(sentences)
        if 15 <= len(text.split()) <= 130 and all(bare(said, revision) not in tested for said in sentences):
            return text


def story(dice: Dice, world: World) -> list[str]:
    """Return what someone did, and what came next."""
    scene = act(dice, world, rich=0.8)
    mood: Mood = dice.pick(("past", "past", "present"))
    openings = dice.shuffled(("dann", "danach", "später", "kurz danach", "manchmal", "dabei"))
    sentences = [typeset(german_main(clause(scene, mood), time(dice, mood, 0.5)[1]))]
    follow = fill_step(dice, scene, "past" if mood == "past" else "present", openings.pop())
    if follow:
        sentences.append(follow)
    while len(sentences) < 3:
        sentences.append(typeset(german_main(clause(_again(dice, scene), mood), "", openings.pop())))
    if dice.chance(0.4):
        sentences.append(quote(dice, world)[1])
    return sentences


@cache
def _deeds_of() -> dict[str, tuple[Deed, ...]]:
    deeds: dict[str, list[Deed]] = {}
    for deed in load_deeds():
        for role in deed.who:
            deeds.setdefault(role.noun.lemma, []).append(deed)
    return {noun: tuple(found) for noun, found in deeds.items()}


def _again(dice: Dice, scene: GermanScene) -> GermanScene:
    """Return something else that the same person or animal does, spoken of by a pronoun."""
    who = scene.who
    noun = who.phrase.key.partition("@")[0] if who.phrase else "man" if who.pronoun == "he" else "woman"
    deed = dice.pick(_deeds_of()[noun])
    pronoun = ("er", "sie", "es", "sie")[who.column]
    fresh = draw_scene(dice, deed, replace(who, german=pronoun), 0.6)
    return replace(fresh, tool=None) if is_animal(scene) else fresh


def news(dice: Dice, world: World) -> list[str]:
    """Return two to four sentences of news."""
    return [dice.pick((headline, saying, quote))(dice, world)[1] for _ in range(2 + int(dice.random() * 3))]


def town(dice: Dice, world: World) -> list[str]:
    """Return a description of a town."""
    return town_facts(dice, world, 2 + int(dice.random() * 2))


def portrait(dice: Dice, world: World) -> list[str]:
    """Return who someone is and what that person does."""
    person = dice.pick(world.people)
    return [
        person_fact(dice, world, person)[1],
        person_fact(dice, world, person)[1],
        quote(dice, world, person.name)[1],
    ]


def mixed(dice: Dice, world: World) -> list[str]:
    """Return two or three sentences that stand alone."""
    return [event_pair(dice, _revision(world))[1] for _ in range(2 + int(dice.random() * 2))]


def _revision(world: World) -> str:
    return next(revision for revision in SEEDS if load_world(revision) is world)


KINDS: tuple[tuple[float, Callable[[Dice, World], list[str]]], ...] = (
    (5, story), (3, news), (1, town), (1, portrait), (3, mixed),
)  # fmt: skip


# --- the same, and almost the same -----------------------------------------------------------------------------------


SAME: tuple[tuple[Mood, Mood], ...] = (("past", "perfect"), ("perfect", "past"), ("past", "past"))


def near_miss(dice: Dice, revision: str) -> tuple[str, str, str]:
    """Return a German sentence, a paraphrase of it, and the paraphrase again with one part of the fact changed.

    Tense and word order of the two are alike, so that only the fact tells which of them is true.
    """
    world = load_world(revision)
    while True:
        scene = replace(act(dice, world, rich=0.9), why=None)
        moods = dice.pick(SAME)
        when = pair_of(dice.pick(event_data()["when"]["past"]))[1]
        said = typeset(german_main(clause(scene, moods[0]), when))
        same = typeset(german_main(clause(scene, moods[1]), "", when))
        other = _changed(dice, world, scene)
        changed = typeset(german_main(clause(other or scene, moods[1], other is None), "", when))
        if len({said, same, changed}) == 3:
            return said, same, changed


def _changed(dice: Dice, world: World, scene: GermanScene) -> GermanScene | None:
    """Return the scene with another actor, object or place; None asks for a negation."""
    deed = scene.deed
    kind = dice.pick(("who", "what", "place", "not"))
    if kind == "who":
        return replace(scene, who=_another(dice, world, scene))
    if kind == "what" and scene.what:
        roles = tuple(role for role in deed.what if role.key != scene.what.key and not role.preposition)
        if roles:
            return replace(scene, what=_swapped(dice, scene.what, dice.pick(roles)))
    if kind == "place" and scene.place and scene.place_phrase:
        roles = tuple(r for r in deed.places if r.key != scene.place.key and r.german[-1] == scene.place.german[-1])
        if roles and not scene.place.german.endswith("!"):
            role = dice.pick(roles)
            return replace(scene, place=role, place_phrase=replace(scene.place_phrase, key=role.key, adjective=""))
    return None


def _another(dice: Dice, world: World, scene: GermanScene) -> Actor:
    """Return another actor, spoken of in the same way."""
    phrase = scene.who.phrase
    others = tuple(role for role in scene.deed.who if phrase and role.key != phrase.key)
    if not phrase or not others:
        return named(dice, dice.pick(world.people), False)
    return as_actor(_swapped(dice, phrase, dice.pick(others)))


def _swapped(dice: Dice, phrase: Phrase, role: Role) -> Phrase:
    """Return another noun with the same determiner and number, if it can have them."""
    if role.noun.number == "count" and phrase.determiner not in ("", "some", "own"):
        single = load_german().nouns[role.key].single
        return Phrase(role.key, "the" if single else phrase.determiner, "", phrase.plural)
    return replace(thing(dice, role), adjective="")
