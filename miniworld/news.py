"""Local news: stories as facts, and the articles and highlights that report them.

A story of some kind (a fire, an election, a lost ring) has a core and further facts. The article reports the core, not
always first, and three or four of the facts among quotes, background, rumors and things that happen elsewhere; the
highlights report the core and the most important facts, in other and fewer words.

Of the sentences that tell a fact, one is held back: where training's articles tell what their highlights report, they
never use it, and those of validation and test always do.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from zlib import crc32

from grue.errors import DataError
from grue.files import read_toml
from miniworld.chance import Dice
from miniworld.grammar import BARE, Mood, predicate, stage
from miniworld.lexicon import HERE, capitalise, load_lexicon, with_article
from miniworld.phrases import Mention
from miniworld.template import FORMS
from miniworld.world import Activity, Person, Town, WorldEvent, draw_event, load_activities, load_world

ROLES = ("official", "hero", "other", "witness", "stranger")  # the official first: few hold an office
TITLES = ("captain", "chef", "coach", "detective", "doctor", "judge", "mayor", "officer", "professor")
WORDS = range(90, 146)
FRAMED = 0.75  # how often each of two people learns one of the facts, as an article tells it
FRAMES = ("stranger", "witness", "denied")
RUMORS = 0.7  # how often an article denies what is not a fact
SPOKEN = re.compile(
    r"\b(says?|said|told|tell|announced|explained|reported|revealed|confirmed|insists|promised|according|According|"
    r"estimates?|estimated|calculated|reckoned|slip|worked out|called)\b|[:\"]"
)
NUMBER_WORDS = "nothing one two three four five six seven eight nine ten eleven twelve".split()
MOST_POINTS = 3
MAYORS_AGE = 60
GERUND = Mood("", "gerund", "past", "past")
Piece = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NewsLine:
    """A sentence with slots: every second piece is the name of a slot, or words to choose from."""

    source: str
    pieces: tuple[Piece, ...]
    slots: frozenset[str]


@dataclass(frozen=True, slots=True)
class NewsFact:
    """Something that can be reported: sentences for an article, and for its highlights.

    Facts with the same group never share a story, and cannot both be true unless the group begins with "~".
    """

    tells: tuple[NewsLine, ...]
    points: tuple[NewsLine, ...]
    group: str
    major: bool


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of story: the values that its slots can have, and its lines by their part in the article."""

    name: str
    of_director: bool
    elders: bool
    officials: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]
    core: NewsFact
    facts: tuple[NewsFact, ...]
    lines: Mapping[str, tuple[NewsLine, ...]]
    frames: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Story:
    """What happened, where, to whom, and the facts that an article reports, the core first."""

    kind: Kind
    people: Mapping[str, Person]
    values: Mapping[str, str]
    facts: tuple[NewsFact, ...]


# --- reading ---------------------------------------------------------------------------------------------------------


def parse_line(text: str) -> NewsLine:
    """Split a sentence at its {slots} and its [one|another] choices."""
    pieces: list[Piece] = []
    slots: set[str] = set()
    for index, piece in enumerate(re.split(r"(\{[^}]+\}|\[[^\]]+\])", text)):
        if index % 2 == 0:
            pieces.append(piece)
        elif piece[0] == "[":
            pieces.append(tuple(piece[1:-1].split("|")))
        else:
            pieces.append(piece[1:-1])
            slots.add(base_slot(piece[1:-1]))
    return NewsLine(text, tuple(pieces), frozenset(slots))


def base_slot(slot: str) -> str:
    """Return the slot whose value another form of it says: "hero" for "hero's", "thing" for "a_thing"."""
    return slot.removesuffix("'s").removeprefix("a_")


def _lines(texts: Sequence[str]) -> tuple[NewsLine, ...]:
    return tuple(parse_line(text) for text in texts)


def say_number(number: int) -> str:
    """Return a number as newspapers write it: up to twelve in words, thousands with a comma."""
    return NUMBER_WORDS[number] if number < len(NUMBER_WORDS) else f"{number:,}"


def _values(data: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    options = {slot: tuple(text.split(";")) for slot, text in data.get("choices", {}).items()}
    for slot, (low, high, step) in data.get("numbers", {}).items():
        options[slot] = tuple(say_number(number) for number in range(low, high + 1, step))
    for slot, (first, last) in data.get("years", {}).items():
        options[slot] = tuple(str(year) for year in range(first, last + 1))
    return options


@cache
def load_kinds() -> tuple[Kind, ...]:
    """Read `news.toml`.

    Raises:
        DataError: A line of the highlights says more than a line of the article does.
    """
    data: dict[str, Any] = read_toml(HERE / "news.toml")
    common = data["common"]
    days = tuple(common["days"])
    shared = {**_values(common), "day": days, "day2": days, "doorstep": tuple(common["doorstep"])}
    return tuple(_kind(entry, common, shared) for entry in data["kind"])


def _kind(entry: Mapping[str, Any], common: Mapping[str, Any], shared: Mapping[str, tuple[str, ...]]) -> Kind:
    core = _fact({**entry, "major": True}, entry["name"])
    parts = {key: _lines(common[key]) for key in ("town", "hero", "bystander", "also", "quotes")}
    if "hero" not in core.tells[0].slots:  # nothing is told of someone the story does not turn on
        parts = {key: tuple(line for line in lines if "hero" not in line.slots) for key, lines in parts.items()}
    return Kind(
        name=entry["name"],
        of_director=entry.get("hero") == "director",
        elders=entry.get("elders", False),
        officials=tuple(entry["official"].split()),
        values={**shared, **_values(entry)},
        core=core,
        facts=tuple(_fact(fact, entry["name"], index) for index, fact in enumerate(entry["fact"])),
        lines={
            **parts,
            "hooks": _lines(entry["hooks"]),
            "scenes": _lines(entry["scenes"]),
            "voices": _lines(entry["quotes"]),
            "colour": _lines(entry["colour"]),
        },
        frames={key: tuple(common[key]) for key in FRAMES},
    )


def _fact(entry: Mapping[str, Any], name: str, index: int = -1) -> NewsFact:
    tells, points = _lines(entry["tell"]), _lines(entry["point"])
    for point in points:
        for tell in tells:
            if unsaid := sorted(point.slots - tell.slots - (set(FORMS["he"]) if "hero" in tell.slots else set())):
                raise DataError(
                    f"{HERE / 'news.toml'}: in the kind {name!r} the point {''.join(map(str, point.pieces))!r} says "
                    f"{unsaid[0]!r}, which {''.join(map(str, tell.pieces))!r} does not. Add it or drop it."
                )
    return NewsFact(tells, points, entry.get("group", f"fact {index}"), entry.get("major", False))


# --- facts -----------------------------------------------------------------------------------------------------------


def draw_story(dice: Dice, revision: str) -> Story:
    """Draw a kind of story, everyone and everything in it, and three or four of its facts."""
    world, kind = load_world(revision), dice.pick(load_kinds())
    here, there = dice.sample(world.towns, 2)
    film = dice.pick(world.films)
    people = _cast(dice, kind, revision, film.director if kind.of_director else None)
    values: dict[str, str] = {}
    for slot, options in kind.values.items():
        value = dice.pick(options)
        while value in values.values():  # no two numbers or days of a story are alike
            value = dice.pick(options)
        values[slot] = value
    values |= _place(here) | FORMS[people["hero"].pronoun]
    values |= {"town2": there.name, "title": film.title, "dream": _dream(dice, people["hero"], revision)}
    groups = {fact.group for fact in kind.facts}
    wanted = dice.sample(sorted(groups), 3 + int(dice.random() * 2))
    alternatives = [[fact for fact in kind.facts if fact.group == group] for group in wanted]
    drawn = [dice.pick(facts) for facts in alternatives]
    return Story(kind, people, values, (kind.core, *(fact for fact in kind.facts if fact in drawn)))


def _dream(dice: Dice, hero: Person, revision: str) -> str:
    """Return a trade that the hero might once have had or wanted."""
    while True:
        job = dice.pick(_citizens(revision, 18)).job.lemma
        if job not in ("worker", hero.job.lemma):
            return job


def _place(town: Town) -> dict[str, str]:
    return {
        "town": town.name, "size": town.size, "near": town.near, "look": town.look, "famous": town.famous_for,
        "people": f"{town.people:,}", "founded": str(town.founded),
    }  # fmt: skip


def _cast(dice: Dice, kind: Kind, revision: str, hero: Person | None) -> dict[str, Person]:
    """Draw people for the roles, no two with a name in common."""
    cast: dict[str, Person] = {"hero": hero} if hero else {}
    for role in ROLES:
        while role not in cast:
            person = dice.pick(_candidates(kind, role, revision))
            if not _shares_a_name(person, cast):
                cast[role] = person
    return cast


def _candidates(kind: Kind, role: str, revision: str) -> tuple[Person, ...]:
    if role == "official":
        return _with_jobs(kind.officials, revision)
    return _citizens(revision, 46 if kind.elders and role in ("hero", "other") else 18)


def _shares_a_name(person: Person, cast: Mapping[str, Person]) -> bool:
    return any(person.family == one.family or person.first == one.first for one in cast.values())


@cache
def _with_jobs(jobs: tuple[str, ...], revision: str) -> tuple[Person, ...]:
    people = load_world(revision).people
    if jobs == ("mayor",):  # a world has few; every town has its own
        elders = [person for person in people if person.age >= MAYORS_AGE]
        return tuple(replace(person, job=load_lexicon().noun("mayor")) for person in elders)
    return tuple(person for person in people if person.job.lemma in jobs)


@cache
def _citizens(revision: str, age: int) -> tuple[Person, ...]:
    """Return the people of at least that age, but no mayor, who would be named by office."""
    return tuple(one for one in load_world(revision).people if one.age >= age and one.job.lemma != "mayor")


def change(dice: Dice, story: Story, slot: str, revision: str) -> Story | None:
    """Return the story with someone or something else in a slot, who or what has no other part in it, if there is."""
    if slot in story.people:
        candidates = _candidates(story.kind, slot, revision)
        if not (others := [person for person in candidates if not _shares_a_name(person, story.people)]):
            return None
        person = dice.pick(others)
        pronouns = FORMS[person.pronoun] if slot == "hero" else {}
        return replace(story, people={**story.people, slot: person}, values={**story.values, **pronouns})
    world = load_world(revision)
    options: Mapping[str, Sequence[str]] = {
        **story.kind.values,
        **dict.fromkeys(("town", "town2"), tuple(town.name for town in world.towns)),
        "title": tuple(film.title for film in world.films),
    }
    taken = set(story.values.values())
    free = [value for value in options[slot] if value not in taken]
    return replace(story, values={**story.values, slot: dice.pick(free)}) if free else None


def newsworthy(story: Story) -> tuple[NewsFact, ...]:
    """Return the facts for the highlights: the core, and the first two major ones or else the first minor one."""
    core, *others = story.facts
    major = [fact for fact in others if fact.major][: MOST_POINTS - 1]
    return (core, *(major or others[:1]))


def held_tell(kind: Kind, fact: NewsFact) -> NewsLine:
    """Return the sentence that tells a fact in the articles of validation and test only."""
    return fact.tells[crc32(f"{kind.name} {fact.points[0].source}".encode()) % len(fact.tells)]


@cache
def told_words() -> frozenset[str]:
    """Return the words of all sentences that tell facts."""
    sources = [line.source for kind in load_kinds() for fact in (kind.core, *kind.facts) for line in fact.tells]
    words = re.findall(r"[\w'$,-]*\w", re.sub(r"\{[^}]*\}", " ", " ".join(sources)))
    return frozenset(form for word in words for form in (word, word[0].lower() + word[1:], capitalise(word)))


def telling(dice: Dice, story: Story, fact: NewsFact, split: str) -> NewsLine:
    """Return a sentence that tells a fact; the split decides which ones may tell what the highlights report."""
    held, reported = held_tell(story.kind, fact), fact in newsworthy(story)
    if not reported or not split:
        return dice.pick(fact.tells)
    return dice.pick([line for line in fact.tells if line is not held]) if split == "train" else held


# --- words -----------------------------------------------------------------------------------------------------------

Speak = Callable[[str], str]


def fill(dice: Dice, line: NewsLine, speak: Speak) -> str:
    """Return the sentence with each slot as `speak` says it."""
    parts: list[str] = []
    for index, piece in enumerate(line.pieces):
        if isinstance(piece, tuple):
            parts.append(dice.pick(piece))
        else:
            parts.append(speak(piece) if index % 2 else piece)
    text = re.sub(r",(?=[,.;:?!])", "", "".join(parts))  # of the comma that closes an aside
    return text[0] + capitalise(text[1:]) if text[0] == '"' else capitalise(text)


def framed(dice: Dice, kind: Kind, line: NewsLine, how: str) -> NewsLine:
    """Return a line as part of a longer one: "stranger" or "witness" has learned it, or it is "denied"."""
    inner = line.source if line.source.startswith(("{", '"')) else line.source[0].lower() + line.source[1:]
    around = dice.pick(kind.frames[how])
    return parse_line(around.replace("*", inner if around.endswith("*") else inner.rstrip(".")))


def is_plain(line: NewsLine) -> bool:
    """Return whether a line could be told by somebody: nobody speaks in it already."""
    return not SPOKEN.search(line.source)


def rumor(dice: Dice, story: Story) -> NewsLine | None:
    """Return a sentence that denies what is not a fact of the story, if the kind has something to deny."""
    groups = {fact.group for fact in story.facts if fact.group.startswith("~")}
    absent = [fact for fact in story.kind.facts if fact not in story.facts and fact.group not in groups]
    points = [point for fact in absent for point in fact.points if is_plain(point)]
    return framed(dice, story.kind, dice.pick(points), "denied") if points else None


def reporter(dice: Dice, story: Story) -> Speak:
    """Return how an article says a slot: who is new is introduced, who is known goes by the family name."""
    known: set[str] = set()

    def speak(slot: str) -> str:
        role = base_slot(slot)
        if role not in story.people:
            return _thing(dice, story, slot)
        new = role not in known
        known.add(role)
        person = story.people[role]
        if slot.endswith("'s"):
            return f"{person.name if new else person.family}'s"
        if role == "official":
            return titled(person, person.name) if new else person.family
        return _introduced(dice, person, story.values["town"]) if new else person.family

    return speak


def headline(story: Story) -> Speak:
    """Return how highlights say a slot: full names once, then family names, and offices short."""
    known: set[str] = set()

    def speak(slot: str) -> str:
        role = base_slot(slot)
        if role not in story.people:
            value = story.values[role]
            return with_article(value) if slot.startswith("a_") else value
        person = story.people[role]
        if role == "official":
            return titled(person, person.family if person.job.lemma in TITLES else person.name)
        name = person.family if role in known else person.name
        known.add(role)
        return f"{name}'s" if slot.endswith("'s") else name

    return speak


def titled(person: Person, name: str) -> str:
    """Return a name with the office before it: "Mayor Diana Frost", "firefighter Leo Blake"."""
    job = person.job.lemma
    return f"{capitalise(job) if job in TITLES else job} {name}"


def _introduced(dice: Dice, person: Person, town: str) -> str:
    job = person.job.lemma
    form = int(dice.random() * 5)
    if form == 0:
        return person.name
    if form == 1:
        return f"{person.name}, {person.age},"
    if form == 2:
        return f"{person.name}, {with_article(job)},"
    if person.town == town:
        return f"{person.name}, a local {job},"
    return f"{person.name}, {with_article(job)} from {person.town},"


def _thing(dice: Dice, story: Story, slot: str) -> str:
    if slot in ("doing", "busy", "hobby"):
        role = {"doing": "witness", "busy": "stranger", "hobby": "hero"}[slot]
        return pastime(dice, story.people[role], BARE if slot == "hobby" else GERUND)
    value = story.values[base_slot(slot)]
    return with_article(value) if slot.startswith("a_") else value


def pastime(dice: Dice, person: Person, how: Mood) -> str:
    """Return something that the person does, in work or leisure, as a verb with its object and perhaps a place."""
    activity = dice.pick(_activities(person.job.lemma))
    event = draw_event(dice, activity)
    event = WorldEvent(activity, event.who, event.what, place=event.place if dice.chance(0.5) else None)
    return predicate(dice, stage(dice, event, Mention(person.name, person.pronoun, False, person.first), 0), how)


@cache
def _activities(job: str) -> tuple[Activity, ...]:
    doers = [(activity, [filler.noun.lemma for filler in activity.who]) for activity in load_activities()]
    return tuple(activity for activity, who in doers if job in who or "man" in who or "woman" in who)


def write_article(dice: Dice, story: Story, split: str = "") -> str:
    """Write an article of 90 to 145 words: up to three sentences, the core, and the rest in a random order.

    Args:
        dice: Chooses.
        story: What is reported.
        split: Whose articles this one is like: "train", "validation", "test" or "rl", or "" for any.
    """
    while True:
        text = " ".join(_article(dice, story, split))
        if text.count(" ") + 1 in WORDS:
            return text


def _article(dice: Dice, story: Story, split: str) -> list[str]:
    lines = story.kind.lines
    opening = dice.weighted(((3, 0), (3, 1), (3, 2), (2, 3)))
    first = set(dice.sample(("hooks", "town", "scenes"), opening))
    before = [dice.pick(lines[part]) for part in ("hooks", "town", "scenes") if part in first]
    core, *told = _tellings(dice, story, split)
    denied = rumor(dice, story) if dice.chance(RUMORS) else None
    told += [denied] if denied else []
    fillers = ["voices", "colour", "quotes", "bystander", *(part for part in ("hero", "town") if part not in first)]
    room = 7 + int(dice.random() * 3) - len(before) - 1 - len(told)  # before the last sentence
    chosen = [dice.pick(lines[part]) for part in dice.shuffled(fillers)[: max(room, 1)] if lines[part]]
    after = [*dice.shuffled([*told, *chosen]), dice.pick(lines["also"])]
    speak = reporter(dice, story)
    return [fill(dice, line, speak) for line in (*before, core, *(after if dice.chance(0.6) else after[:-1]))]


def _tellings(dice: Dice, story: Story, split: str) -> list[NewsLine]:
    """Return a sentence for each fact; stranger and witness may each have learned one of those that nobody says."""
    lines = [telling(dice, story, fact, split) for fact in story.facts]
    plain = dice.shuffled([index for index, line in enumerate(lines) if is_plain(line)])
    for who, index in zip(("stranger", "witness"), plain, strict=False):
        if dice.chance(FRAMED):
            lines[index] = framed(dice, story.kind, lines[index], who)
    return lines


def tell(dice: Dice, story: Story, fact: NewsFact) -> NewsLine:
    """Return a sentence that tells a fact, perhaps as what somebody learned."""
    line, who = telling(dice, story, fact, ""), dice.pick(("stranger", "witness"))
    return framed(dice, story.kind, line, who) if is_plain(line) and dice.chance(0.5) else line


def write_highlights(dice: Dice, story: Story) -> list[str]:
    """Write the two or three sentences of the highlights."""
    speak = headline(story)
    return [fill(dice, dice.favour(fact.points), speak) for fact in newsworthy(story)]


def write_brief(dice: Dice, story: Story) -> tuple[str, str, str]:
    """Write a sentence that tells a fact, what the highlights would say of it, and perhaps another sentence."""
    fact, speak = dice.pick(story.facts), reporter(dice, story)
    told = fill(dice, tell(dice, story, fact), speak)
    part = dice.pick(("colour", "bystander", "also"))
    other = fill(dice, dice.pick(story.kind.lines[part]), speak) if dice.chance(0.4) else ""
    return told, fill(dice, dice.favour(fact.points), headline(story)), other
