"""Facts about the world's towns, films and people, in English and German."""

import re
from functools import cache
from typing import Any

from grue.files import read_toml
from miniworld.chance import Dice
from miniworld.german.clauses import typeset
from miniworld.german.lexicon import ARTICLES, load_german
from miniworld.german.scenes import Pair, titled
from miniworld.lexicon import HERE, with_article
from miniworld.world import Person, Town, World


@cache
def news_data() -> dict[str, Any]:
    """Return `news.toml`."""
    return read_toml(HERE / "german" / "news.toml")


def number(value: int) -> Pair:
    """Return a number in digits, its thousands parted as each language does."""
    text = f"{value:,}"
    return text, text.replace(",", ".")


def town_fact(dice: Dice, world: World) -> Pair:
    """Harlow is a village by the sea and is famous for its old castle."""
    return dice.pick(TOWN_FACTS)(dice, dice.pick(world.towns), world)


def town_facts(dice: Dice, world: World, count: int) -> list[str]:
    """Return several different things about one town, in German."""
    town = dice.pick(world.towns)
    return [say(dice, town, world)[1] for say in dice.sample(TOWN_FACTS, count)]


def _town_kind(dice: Dice, town: Town, world: World) -> Pair:
    data = news_data()
    article = "ein" if town.size == "village" else "eine"
    english = f"{town.name} is a {town.size} {town.near}"
    german = f"{town.name} ist {article} {data['size'][town.size]} {data['near'][town.near]}"
    person = dice.pick(world.people)
    if dice.chance(0.5):
        name, name_german = titled(person)
        return typeset(f"{english}, where {name} was born"), typeset(f"{german}, wo {name_german} geboren wurde")
    return typeset(f"{english} with {town.look}"), typeset(f"{german}; man sieht dort {data['look'][town.look]}")


def _town_people(dice: Dice, town: Town, world: World) -> Pair:
    english, german = number(town.people)
    options = (
        (f"about {english} people live in {town.name}", f"in {town.name} leben etwa {german} Menschen"),
        (f"{town.name} has {english} residents", f"{town.name} hat {german} Einwohner"),
        (
            f"with {english} residents, {town.name} is not a big place",
            f"mit {german} Einwohnern ist {town.name} kein großer Ort",
        ),
    )
    english, german = dice.pick(options)
    return typeset(english), typeset(german)


def _town_age(dice: Dice, town: Town, world: World) -> Pair:
    if dice.chance(0.5):
        return typeset(f"the town of {town.name} was founded in {town.founded}"), typeset(
            f"die Stadt {town.name} wurde im Jahr {town.founded} gegründet"
        )
    return typeset(f"in {town.founded}, fishermen founded {town.name} {town.near}"), typeset(
        f"im Jahr {town.founded} gründeten Fischer {town.name} {news_data()['near'][town.near]}"
    )


def _town_fame(dice: Dice, town: Town, world: World) -> Pair:
    fame = news_data()["famous_for"][town.famous_for]
    options = (
        (f"{town.name} is famous for {town.famous_for}", f"{town.name} ist für {fame} berühmt"),
        (f"the people of {town.name} are proud of their town, which is famous for {town.famous_for}",
         f"die Menschen in {town.name} sind stolz auf ihren Ort, der für {fame} berühmt ist"),
        (f"the town that is known for {town.famous_for} is called {town.name}",
         f"der Ort, der für {fame} bekannt ist, heißt {town.name}"),
    )  # fmt: skip
    english, german = dice.pick(options)
    return typeset(english), typeset(german)


def _town_look(dice: Dice, town: Town, world: World) -> Pair:
    look = news_data()["look"][town.look]
    options = (
        (f"in {town.name} you can see {town.look}", f"in {town.name} sieht man {look}"),
        (
            f"tourists who come to {town.name} love {town.look}",
            f"Touristen, die nach {town.name} kommen, lieben {look}",
        ),
        (f"{town.name} has {town.look}", f"{town.name} hat {look}"),
    )
    english, german = dice.pick(options)
    return typeset(english), typeset(german)


def _town_compared(dice: Dice, town: Town, world: World) -> Pair:
    other = dice.pick(tuple(t for t in world.towns if t.people != town.people))
    big, small = (town, other) if town.people > other.people else (other, town)
    old, new = (town, other) if town.founded < other.founded else (other, town)
    options = (
        (f"{big.name} is bigger than {small.name}", f"{big.name} ist größer als {small.name}"),
        (
            f"more people live in {big.name} than in {small.name}",
            f"in {big.name} leben mehr Menschen als in {small.name}",
        ),
        (f"{old.name} is older than {new.name}", f"{old.name} ist älter als {new.name}"),
    )
    english, german = dice.pick(options)
    return typeset(english), typeset(german)


TOWN_FACTS = (_town_kind, _town_people, _town_age, _town_fame, _town_look, _town_compared)


def film_fact(dice: Dice, world: World) -> Pair:
    """Write: "The Last Harbor" is a comedy about two brothers on a ship."""
    film = dice.pick(world.films)
    data = news_data()
    gender, genre = data["genre"][film.genre].split(" ")
    place = dice.pick(world.towns).name
    pattern = next(key for key in data["setting"] if re.fullmatch(key.replace("PLACE", r"\w+"), film.setting))
    found = re.fullmatch(pattern.replace("PLACE", r"(\w+)"), film.setting)
    setting = data["setting"][pattern].replace("PLACE", found[1] if found and found.groups() else place)
    where, hero = "res".index(gender), data["hero"][film.hero]
    a, the = ("ein", "eine", "ein")[where], ARTICLES["N"][where]
    director, lead = film.director.name, film.lead.name
    options = (
        (f'"{film.title}" is {with_article(film.genre)} about {film.hero} {film.setting}',
         f"„{film.title}“ ist {a} {genre}; es geht um {_about(hero)} {setting}"),
        (f'the {film.genre} "{film.title}" by {director} tells of {film.hero}',
         f"{the} {genre} „{film.title}“ von {director} erzählt von {hero}"),
        (f'{director} made the {film.genre} "{film.title}" in {film.year}',
         f"{director} drehte im Jahr {film.year} {ARTICLES['A'][where]} {genre} „{film.title}“"),
        (f'in "{film.title}", {lead} plays together with {film.support.name}',
         f"in „{film.title}“ spielt {lead} gemeinsam mit {film.support.name}"),
        (f'{film.composer.name} wrote the music for the {film.genre} "{film.title}"',
         f"{film.composer.name} schrieb die Musik für {ARTICLES['A'][where]} {genre} „{film.title}“"),
        (f'in the {film.genre} "{film.title}", {lead} lives {film.setting} with {film.hero}',
         f"in {ARTICLES['D'][where]} {genre} „{film.title}“ lebt {lead} {setting} mit {hero}"),
    )  # fmt: skip
    english, german = dice.pick(options[1:] if not _about(hero) else options)
    return typeset(english), typeset(german)


def _about(dative: str) -> str:
    """Return a hero in the accusative, or nothing where the dative does not tell it."""
    if dative.startswith("einer "):
        return re.sub(r"^einer (\w+?)en ", r"eine \1e ", dative)
    if dative.startswith("einem "):
        return "einen " + dative[6:]
    return {"zwei Brüdern": "zwei Brüder", "Zwillingsschwestern": "Zwillingsschwestern"}.get(dative, "")


def person_fact(dice: Dice, world: World, who: Person | None = None) -> Pair:
    """Laura Vance is 34 years old and comes from Harlow."""
    person = who or dice.pick(world.people)
    english, german = titled(person)
    he, er = person.pronoun, "sie" if person.pronoun == "she" else "er"
    other = dice.pick(world.towns)
    job = with_article(person.job.lemma)
    word = german.split(" ")[1] if german != person.name else ""
    options = [
        (f"{english} is {person.age} years old and comes from {person.town}",
         f"{german} ist {person.age} Jahre alt und kommt aus {person.town}"),
        (f"{english} moved from {person.town} to {other.name} when {he} was {person.age - 10} years old",
         f"{german} zog von {person.town} nach {other.name}, als {er} {person.age - 10} Jahre alt war"),
        (f"{english} has lived in {person.town} for {person.age - 12} years",
         f"{german} wohnt seit {person.age - 12} Jahren in {person.town}"),
        (f"everyone in {person.town} knows {english}",
         f"in {person.town} kennt jeder {_known(person, word)}"),
    ]  # fmt: skip
    if word:
        options += [
            (f"{person.name} became {job} because {he} wanted to help people",
             f"{person.name} wurde {word}, weil {er} Menschen helfen wollte"),
            (f"{person.name} has been working as {job} in {person.town} for {person.age // 3} years",
             f"{person.name} arbeitet seit {person.age // 3} Jahren als {word} in {person.town}"),
            (f"when {he} was young, {person.name} did not want to become {job}",
             f"als {er} jung war, wollte {person.name} nicht {word} werden"),
            (f"{person.name} would like to work as {job} in {other.name}",
             f"{person.name} möchte in {other.name} als {word} arbeiten"),
        ]  # fmt: skip
    english, german = dice.pick(options)
    return typeset(english), typeset(german)


def _known(person: Person, word: str) -> str:
    """Return a titled person in the accusative."""
    if not word:
        return person.name
    if person.pronoun == "she":
        return f"die {word} {person.name}"
    return f"den {load_german().nouns[person.job.lemma].oblique} {person.name}"
