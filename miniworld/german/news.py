"""News in English and German: events, and who reports them."""

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from grue.files import read_toml
from miniworld.chance import Dice
from miniworld.german.clauses import ClausePair, Mood, clause, english_main, german_last, german_main, typeset
from miniworld.german.facts import film_fact, news_data, number, person_fact, town_fact
from miniworld.german.lexicon import adjectives_of, entries, german_key
from miniworld.german.phrases import Phrase
from miniworld.german.scenes import Pair, act, pair_of, titled, trade
from miniworld.lexicon import HERE, capitalise, load_lexicon, with_article
from miniworld.phrases import join
from miniworld.world import World, load_world

SLOT = re.compile(r"\{(\w+)(?::(\w+))?\}")


@dataclass(frozen=True, slots=True)
class Report:
    """A news clause: its sides with slots, its tense, and the nouns that its slots a, b and c may hold."""

    tense: str
    english: str
    german: tuple[str, ...]
    nouns: tuple[tuple[str, tuple[str, ...], tuple[tuple[str, bool], ...]], ...]


@cache
def load_reports() -> tuple[Report, ...]:
    """Return the news clauses."""
    reports = []
    for entry in news_data()["clause"]:
        nouns = []
        for name in ("a", "b", "c"):
            if name not in entry:
                continue
            determiners, _, words = entry[name].partition(":")
            keys = [(german_key(word.rstrip("*")), word.endswith("*")) for word in words.split()]
            nouns.append((name, tuple(determiners.split("|")), tuple(pair for pair in keys if pair[0])))
        parts = tuple(part.strip() for part in (entry["de"] + " ").split(" |"))
        reports.append(Report(entry["tense"], entry["en"], (parts + ("",) * 5)[:5], tuple(nouns)))
    return tuple(reports)


# --- slots -----------------------------------------------------------------------------------------------------------


def simple_slot(dice: Dice, name: str, world: World) -> Pair:
    """Return a name, a number or a word of a list."""
    if name in ("town", "other"):
        return (dice.pick(world.towns).name,) * 2
    if name == "person":
        return (dice.pick(world.people).name,) * 2
    if name == "titled":
        return titled(dice.pick(world.people))
    if name == "film":
        title = dice.pick(world.films).title
        return f'the film "{title}"', f"der Film „{title}“"
    if name in ("many", "thousands", "year", "age", "percent", "date"):
        low, high, step = {"many": (20, 900, 10), "thousands": (1000, 90000, 500), "year": (1950, 2023, 1),
                           "age": (41, 99, 1), "percent": (2, 40, 1), "date": (1, 31, 1)}[name]  # fmt: skip
        value = low + step * int(dice.random() * ((high - low) // step))
        return (str(value),) * 2 if name == "year" else number(value)
    if name == "decimal":
        text = f"{1 + int(dice.random() * 60)}.{1 + int(dice.random() * 9)}"
        return text, text.replace(".", ",")
    return fill(dice, dice.pick(news_data()["lists"][name]), world)


def fill(dice: Dice, text: str, world: World) -> Pair:
    """Fill the slots of "English | German", each the same on both sides."""
    filled: dict[str, Pair] = {}

    def put(side: int) -> Any:
        def one(found: re.Match[str]) -> str:
            while found[1] not in filled or filled.get("town") == filled.get("other", ()):
                filled[found[1]] = simple_slot(dice, found[1], world)
            return filled[found[1]][side]

        return one

    english, german = pair_of(text)
    return SLOT.sub(put(0), english), SLOT.sub(put(1), german)


def draw_phrase(dice: Dice, determiners: tuple[str, ...], nouns: tuple[tuple[str, bool], ...]) -> Phrase:
    """Draw a noun phrase for a slot."""
    key, plural = dice.pick(nouns)
    determiner = dice.pick(determiners)
    noun = load_lexicon().nouns.get(key)
    mass = noun is not None and noun.number == "mass"
    if determiner in ("two", "three", "many", "several", "all", "some") and not plural:
        determiner = "the" if mass else "a"
    elif determiner == "a" and (plural or mass):
        determiner = "" if mass else "two" if dice.chance(0.5) else "several"
    elif determiner == "" and not plural and not mass:
        determiner = "a"
    options = adjectives_of(key) if determiner and dice.chance(0.35) else ()
    return Phrase(key, determiner, dice.pick(options) if options else "", plural)


def report(dice: Dice, world: World) -> tuple[ClausePair, str]:
    """Draw a news clause, and the tense of the adverbs that go with it."""
    chosen = dice.pick(load_reports())
    phrases = {name: draw_phrase(dice, determiners, nouns) for name, determiners, nouns in chosen.nouns}
    simple: dict[str, Pair] = {}
    person = dice.pick(tuple(p for p in world.people if trade(p.job.lemma, p.pronoun == "she")[0]))
    for name in dict.fromkeys(found[1] for found in SLOT.finditer(chosen.english)):
        if name == "person":
            simple[name] = (person.name, person.name)
        elif name == "job":
            simple[name] = (with_article(person.job.lemma), trade(person.job.lemma, person.pronoun == "she")[0])
        elif name not in phrases:
            simple[name] = simple_slot(dice, name, world)
    if simple.get("town", "") == simple.get("other", "-"):
        return report(dice, world)

    def in_english(found: re.Match[str]) -> str:
        return phrases[found[1]].english("") if found[1] in phrases else simple[found[1]][0]

    def in_german(found: re.Match[str]) -> str:
        if found[1] not in phrases:
            return simple[found[1]][1]
        phrase, case = phrases[found[1]], found[2] or "N"
        return _after(phrase, case) if len(case) > 1 else phrase.german(case)  # type: ignore[arg-type]

    subject, _, predicate = SLOT.sub(in_english, chosen.english).partition(" | ")
    first, verb, middle, tail, extra = (SLOT.sub(in_german, part) for part in chosen.german)
    prefix = tail[:-1] if tail.endswith("+") else ""
    words = middle if "^" in middle else join("^", middle)
    return ClausePair(subject, predicate, first, verb, prefix, words, "" if prefix else tail, "", extra), chosen.tense


def _after(phrase: Phrase, preposition: str) -> str:
    """Return a phrase after the German for an English preposition."""
    data = prepositions()
    german = data[0].get(preposition, {}).get(phrase.key) or data[1][preposition]
    return " ".join(phrase.german(word) if word in ("A", "D", "G") else word for word in german.split(" "))  # type: ignore[arg-type]


@cache
def prepositions() -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Return the German prepositions beside certain nouns, and beside the others."""
    data = read_toml(HERE / "german" / "events.toml")
    return {key: entries(text) for key, text in data["prepositions_of"].items()}, data["prepositions"]


# --- frames ----------------------------------------------------------------------------------------------------------


def when(dice: Dice, tense: str, world: World, chance: float) -> Pair:
    """Return an adverb of time, or nothing."""
    return (
        fill(dice, dice.pick(news_data()["when"][tense]), world)
        if tense != "none" and dice.chance(chance)
        else ("", "")
    )


def headline(dice: Dice, world: World) -> Pair:
    """On Tuesday, a storm destroyed three houses near Harlow."""
    said, tense = report(dice, world)
    time = when(dice, tense, world, 0.7)
    if time[0] and dice.chance(0.5) and time[0] not in ("again", "often", "still"):
        return typeset(f"{time[0]}, {english_main(said)}"), typeset(german_main(said, "", time[1]))
    return typeset(english_main(said, time[0])), typeset(german_main(said, time[1]))


def content(dice: Dice, world: World, ahead: bool) -> ClausePair:
    """Return what somebody says: a news clause, or something that happens; `ahead` for what has not happened yet."""
    if dice.chance(0.55):
        while True:
            said, tense = report(dice, world)
            if not ahead or tense == "future":
                return said
    scene = replace(act(dice, world, rich=0.7), why=None)
    return clause(scene, "future" if ahead else dice.pick(SAID))


SAID: tuple[Mood, ...] = ("past", "progressive", "future", "wanted")
AHEAD = ("hopes", "promised", "announced", "believes")


def saying(dice: Dice, world: World) -> Pair:
    """The mayor said on Tuesday that a storm had closed the bridge."""
    lists = news_data()["lists"]
    speaker = fill(dice, dice.pick(lists["speaker"] + lists["institution"]), world)
    verb, german = pair_of(dice.pick(news_data()["lists"]["say"]))
    begin, _, rest = german.partition(" ")
    time = when(dice, "past", world, 0.35) if verb not in ("believes", "hopes") else ("", "")
    said = content(dice, world, verb in AHEAD)
    last = german_last(said)
    if time[0] and dice.chance(0.4):
        english = f"{time[0]}, {speaker[0]} {verb} that {english_main(said)}"
        return typeset(english), typeset(f"{join(time[1], begin, speaker[1], rest)}, dass {last}")
    english = join(speaker[0], verb, time[0], "that", english_main(said))
    return typeset(english), typeset(f"{join(speaker[1], begin, time[1], rest)}, dass {last}")


def quote(dice: Dice, world: World, name: str = "") -> Pair:
    """Write: "We have lost everything," said the mayor."""
    speaker = (name, name) if name else fill(dice, dice.pick(news_data()["lists"]["speaker"]), world)
    words = fill(dice, dice.pick(news_data()["lists"]["quoted"]), world)
    time = when(dice, "past", world, 0.4)
    if dice.chance(0.6):
        english = f'"{words[0]}," said {join(speaker[0], time[0])}.'
        return english, typeset(f"„{words[1]}“, sagte {join(speaker[1], time[1])}")
    english = f'{speaker[0]} said{" " + time[0] if time[0] else ""}: "{words[0]}."'
    return capitalise(english), typeset(f"{join(speaker[1], 'sagte', time[1])}: „{words[1]}.“", "")


def both(dice: Dice, world: World) -> Pair:
    """While a storm destroyed three houses near Harlow, the president met some farmers."""
    (one, tense), (other, second) = report(dice, world), report(dice, world)
    if tense != second or one.subject == other.subject:
        return headline(dice, world)
    link, german = dice.pick((("while", "während"), ("although", "obwohl"), ("and", "und"), ("but", "aber")))
    if german in ("und", "aber"):
        english = f"{english_main(one)}, {link} {english_main(other)}"
        return typeset(english), typeset(f"{german_main(one)}, {german} {german_main(other)}")
    opening = f"{german} {german_last(other)},"
    return typeset(f"{link} {english_main(other)}, {english_main(one)}"), typeset(german_main(one, "", opening))


NEWS = (
    (30, headline), (24, saying), (10, quote), (9, both), (7, town_fact), (6, film_fact), (7, person_fact),
)  # fmt: skip


def news_pair(dice: Dice, revision: str) -> Pair:
    """Return a sentence of news or of common knowledge, in English and German."""
    english, german = dice.weighted(NEWS)(dice, load_world(revision))
    return english.replace(",,", ",").replace(",.", "."), german.replace(",,", ",").replace(",.", ".")
