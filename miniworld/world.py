"""The facts of the mini world: its activities, people, towns and films.

Facts know nothing of sentences; `grammar`, `stories` and `reviews` have the words.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal

from grue.errors import DataError
from grue.files import read_toml
from miniworld.chance import Dice
from miniworld.lexicon import ANIMALS, HERE, Noun, Verb, capitalise, load_lexicon, verb, with_article
from miniworld.template import Template, parse_template

SEEDS = {"2": 20261122}
"""Revision of the world → seed."""
REVISION = "2"
"""The revision that ships."""


@dataclass(frozen=True, slots=True)
class Filler:
    """A noun in a role: the prepositions it may follow, and whether it is mostly plural."""

    noun: Noun
    prepositions: tuple[str, ...]
    several: bool


@dataclass(frozen=True, slots=True)
class Step:
    """What a person does next: "hangs {it} on the line"."""

    verb: Verb
    rest: Template

    @property
    def concepts(self) -> tuple[str, ...]:
        """Lemmas of the step that a sentence can be asked to use."""
        return (self.verb.lemma, *self.rest.concepts)


@dataclass(frozen=True, slots=True)
class Activity:
    """Something that happens, and who or what can take part; an empty role cannot be filled."""

    verb: Verb
    who: tuple[Filler, ...]
    what: tuple[Filler, ...]
    tools: tuple[Filler, ...]
    places: tuple[Filler, ...]
    wear: tuple[Filler, ...]
    poses: tuple[Filler, ...]
    how: tuple[str, ...]
    why: tuple[Template, ...]
    steps: tuple[Step, ...]
    passive: bool


@dataclass(frozen=True, slots=True)
class WorldEvent:
    """An activity with those who take part in it."""

    activity: Activity
    who: Filler
    what: Filler | None = None
    tool: Filler | None = None
    place: Filler | None = None
    wear: Filler | None = None
    pose: Filler | None = None
    step: Step | None = None
    why: Template | None = None


@dataclass(frozen=True, slots=True)
class Person:
    """Someone with a name, a trade and a home."""

    first: str
    family: str
    pronoun: Literal["he", "she"]
    job: Noun
    trait: str
    town: str
    age: int
    loves: Activity

    @property
    def name(self) -> str:
        """First and family name."""
        return f"{self.first} {self.family}"


@dataclass(frozen=True, slots=True)
class Town:
    """A place with a name."""

    name: str
    size: Literal["village", "town", "city"]
    look: str
    near: str
    famous_for: str
    people: int
    founded: int


@dataclass(frozen=True, slots=True)
class Film:
    """A film, who made it and what it is about."""

    title: str
    genre: str
    year: int
    director: Person
    lead: Person
    support: Person
    composer: Person
    hero: str
    goal: str
    setting: str


@dataclass(frozen=True, slots=True)
class World:
    """Everything there is."""

    activities: tuple[Activity, ...]
    people: tuple[Person, ...]
    towns: tuple[Town, ...]
    films: tuple[Film, ...]


def _fillers(text: str, groups: dict[str, str]) -> tuple[Filler, ...]:
    lexicon = load_lexicon()
    found: list[Filler] = []
    for part in text.split(";"):
        head, _, tail = part.rpartition(":")
        prepositions = tuple(head.strip().split("|")) if head else ()
        for word in " ".join(groups[w[1:]] if w.startswith("@") else w for w in tail.split()).split():
            found.append(Filler(lexicon.noun(word.rstrip("*")), prepositions, word.endswith("*")))
    return tuple(found)


@cache
def load_activities() -> tuple[Activity, ...]:
    """Read `activities.toml`.

    Raises:
        DataError: A noun that the lexicon does not list, or a key that no activity has.
    """
    data = read_toml(HERE / "activities.toml")
    return tuple(_activity(entry, data["groups"]) for entry in data["activity"])


def _activity(entry: dict[str, object], groups: dict[str, str]) -> Activity:
    known = ("verb", "who", "what", "tool", "place", "wear", "pose", "how", "why", "next", "passive")
    if unknown := [key for key in entry if key not in known]:
        raise DataError(f"{HERE / 'activities.toml'}: unknown key {unknown[0]!r} in the activity {entry['verb']!r}.")

    def role(key: str) -> tuple[Filler, ...]:
        return _fillers(str(entry[key]), groups) if key in entry else ()

    steps = [str(text).partition(" ") for text in entry.get("next", ())]  # type: ignore[attr-defined]
    return Activity(
        verb=verb(str(entry["verb"])),
        who=role("who"),
        what=role("what"),
        tools=role("tool"),
        places=role("place"),
        wear=role("wear"),
        poses=role("pose"),
        how=tuple(str(entry.get("how", "")).split()),
        why=tuple(parse_template(str(text)) for text in entry.get("why", ())),  # type: ignore[attr-defined]
        steps=tuple(Step(verb(first), parse_template(rest)) for first, _, rest in steps),
        passive=bool(entry.get("passive", True)),
    )


@cache
def load_world(revision: str = REVISION) -> World:
    """Build the world of a revision; equal revisions give equal worlds."""
    dice = Dice(SEEDS[revision])
    activities = load_activities()
    data = read_toml(HERE / "names.toml")
    towns = tuple(_town(dice, name, data["town"]) for name in load_lexicon().names["towns"])
    people = tuple(_people(dice, 240, activities, towns))
    films = tuple(_films(dice, 160, people, data["film"]))
    return World(activities, people, towns, films)


def _town(dice: Dice, name: str, data: dict[str, list[str]]) -> Town:
    size: Literal["village", "town", "city"] = dice.pick(("village", "town", "town", "city"))
    people = {"village": 100, "town": 2_000, "city": 50_000}[size] * (1 + int(dice.random() * 9))
    return Town(
        name, size, dice.pick(data["look"]), dice.pick(data["near"]), dice.pick(data["famous_for"]), people,
        1100 + int(dice.random() * 800),
    )  # fmt: skip


def _people(dice: Dice, count: int, activities: tuple[Activity, ...], towns: tuple[Town, ...]) -> list[Person]:
    names = load_lexicon().names
    jobs = [n for n in load_lexicon().nouns.values() if n.kind in ("worker", "officer", "artist")]
    hobbies = [a for a in activities if any(f.noun.lemma in ("man", "woman", "girl", "boy") for f in a.who)]
    people: dict[str, Person] = {}
    while len(people) < count:
        pronoun: Literal["he", "she"] = dice.pick(("he", "she"))
        job = dice.pick([j for j in jobs if j.pronoun in ("any", pronoun)])
        person = Person(
            dice.pick(names[pronoun]), dice.pick(names["family"]), pronoun, job, dice.pick(job.adjectives),
            dice.pick(towns).name, 18 + int(dice.random() * 60), dice.pick(hobbies),
        )  # fmt: skip
        people.setdefault(person.name, person)
    return list(people.values())


def _films(dice: Dice, count: int, people: tuple[Person, ...], data: dict[str, list[str]]) -> list[Film]:
    films: dict[str, Film] = {}
    while len(films) < count:
        director, lead, support, composer = dice.sample(people, 4)
        pattern = dice.pick(data["title"])
        hero = dice.pick(data["hero"])
        title = _title(dice, pattern, data, people)
        setting = dice.pick(data["setting"]).replace("PLACE", dice.pick(load_lexicon().names["towns"]))
        film = Film(
            title, dice.pick(data["genre"]), 1950 + int(dice.random() * 73), director, lead, support, composer,
            hero, dice.pick(data["goal"]), setting,
        )  # fmt: skip
        films.setdefault(title, film)
    return list(films.values())


def _title(dice: Dice, pattern: str, data: dict[str, list[str]], people: tuple[Person, ...]) -> str:
    adjective, noun = dice.pick(data["title_adjective"]), dice.pick(data["title_noun"])
    place, name = dice.pick(load_lexicon().names["towns"]), dice.pick(people).first
    nouns = data["title_noun"]
    other = nouns[(nouns.index(noun) + 5) % len(nouns)]  # where a title names two things
    title = pattern.replace("ADJ", adjective).replace("NOUN", noun, 1).replace("NOUN", other)
    title = title.replace("PLACE", place).replace("NAME", name)
    return capitalise(with_article(title[2:])) if title.startswith("A ") else title


def draw_event(dice: Dice, activity: Activity) -> WorldEvent:
    """Draw who and what takes part in an activity; optional roles are sometimes filled."""
    who = dice.favour(activity.who)
    animal = who.noun.kind in ANIMALS
    return WorldEvent(
        activity,
        who,
        what=dice.favour(activity.what) if activity.what else None,
        tool=dice.pick(activity.tools) if activity.tools and not animal else None,
        place=dice.pick(activity.places) if activity.places else None,
        wear=dice.pick(activity.wear) if activity.wear and not animal else None,
        pose=dice.pick(activity.poses) if activity.poses and not animal else None,
        step=dice.pick(activity.steps) if activity.steps else None,
        why=dice.pick(activity.why) if activity.why else None,
    )
