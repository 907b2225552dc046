"""Paragraphs of plain text about the world: scenes, portraits, places, tales, reports and what everyone knows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from grue.files import read_toml
from grue.mini.chance import Dice
from grue.mini.grammar import (
    STATIC, Mention, Mood, clause, finish, join, mood, phrase, place, predicate, sentence, stage, subject, thing, tool,
)  # fmt: skip
from grue.mini.lexicon import HERE, capitalise, conjugate, load_lexicon, verb, with_article
from grue.mini.template import FORMS
from grue.mini.world import Activity, Event, Filler, Person, Town, World, draw_event, load_activities

PRESENT = Mood("", "finite", "present", "present")
PAST = Mood("", "finite", "past", "past")
BARE = Mood("", "bare", "past", "past")


@dataclass(frozen=True, slots=True)
class Stage:
    """Somewhere that several things go on at once."""

    filler: Filler
    preposition: str
    activities: tuple[tuple[Activity, Filler], ...]


@cache
def _lines() -> dict[str, dict[str, list[str]]]:
    return read_toml(HERE / "stories.toml")


@cache
def _stages() -> tuple[Stage, ...]:
    found: dict[tuple[str, str], list[tuple[Activity, Filler]]] = {}
    for activity in load_activities():
        for filler in activity.places:
            for preposition in filler.prepositions:
                if preposition in STATIC and filler.noun.kind not in ("body", "time", "abstract", "talk"):
                    found.setdefault((preposition, filler.noun.lemma), []).append((activity, filler))
    return tuple(
        Stage(shared[0][1], preposition, tuple(shared)) for (preposition, _), shared in found.items() if len(shared) > 3
    )


def _bare(event: Event, **roles: object) -> Event:
    empty = Event(event.activity, event.who, event.what)
    return replace(empty, **roles)  # type: ignore[arg-type]


def _named(person: Person) -> Mention:
    return Mention(person.name, person.pronoun, False, person.first)


def _pronoun(who: Mention) -> Mention:
    return replace(who, text=who.pronoun, plural=who.pronoun == "they")


def album(dice: Dice, world: World) -> str:
    """Write a few sentences that have nothing to do with each other, like captions on a page."""
    sentences = [_caption(dice, dice.pick(world.activities)) for _ in range(2 + int(dice.random() * 3))]
    return " ".join(sentences)


def _caption(dice: Dice, activity: Activity) -> str:
    event = draw_event(dice, activity)
    chances = {"place": 0.6, "tool": 0.3, "wear": 0.12, "pose": 0.12, "step": 0.25, "why": 0.2}
    dropped = {role: None for role, chance in chances.items() if not dice.chance(chance)}
    return sentence(dice, replace(event, **dropped))  # type: ignore[arg-type]


def scene(dice: Dice, world: World) -> str:
    """Describe what several people and animals do at one place, at one time."""
    lines = _lines()["scene"]
    here = dice.pick(_stages())
    pace = dice.pick(("present", "present", "past"))
    where = place(dice, Filler(here.filler.noun, (here.preposition,), here.filler.several))
    opening = dice.pick(lines[pace]).replace("WHERE", where)
    sentences = [capitalise(opening)]
    for index, (activity, _) in enumerate(dice.sample(here.activities, 2 + int(dice.random() * 3))):
        event = draw_event(dice, activity)
        event = _bare(event, step=event.step if dice.chance(0.3) else None, wear=event.wear if dice.chance(0.2) else None)
        who = subject(dice, event.who)
        told = predicate(dice, stage(dice, event, who), mood(dice, who, pace))
        link = dice.pick(lines["links"]) if index and dice.chance(0.5) else ""
        sentences.append(finish(link, who.text, told))
        if dice.chance(0.3):
            sentences.append(_aside(dice, who, pace))
    if dice.chance(0.7):
        sentences.append(dice.pick(lines["closing_" + pace]))
    return " ".join(sentences)


def _aside(dice: Dice, who: Mention, pace: str) -> str:
    be = conjugate(verb("be"), "past" if pace == "past" else "present", who.pronoun == "they")
    return finish(who.pronoun, be, dice.pick(_lines()["scene"]["asides"]))


def portrait(dice: Dice, world: World) -> str:
    """Tell who somebody is: trade, town, habits and friends."""
    lines = _lines()["portrait"]
    person = dice.favour(world.people)
    friend = dice.pick(world.people)
    who = _named(person)
    he = capitalise(person.pronoun)
    his = FORMS[person.pronoun]["his"]
    job = with_article(f"{person.trait} {person.job.lemma}")
    sentences = [f"{person.name} is {job} from {person.town}."]
    habit = _bare(draw_event(dice, person.loves))
    habit = replace(habit, place=dice.pick(person.loves.places) if person.loves.places else None)
    sentences.append(finish(dice.pick(lines["when"]), person.pronoun, predicate(dice, stage(dice, habit, who), PRESENT)))
    work = [a for a in world.activities if any(f.noun is person.job for f in a.who)]
    if work and dice.chance(0.8):
        event = _bare(draw_event(dice, dice.pick(work)))
        told = predicate(dice, stage(dice, event, who, 0), BARE)
        sentences.append(finish(dice.pick(lines["work"]).replace("HE", person.pronoun).replace("HIS", his), told))
    for line in dice.sample(lines["facts"], 1 + int(dice.random() * 2)):
        sentences.append(
            line.replace("HE", he).replace("HIS", his).replace("AGE", str(person.age)).replace("FRIEND", friend.name)
            .replace("TRADE", with_article(friend.job.lemma)).replace("FIRST", person.first)
        )  # fmt: skip
    return " ".join(sentences)


def town(dice: Dice, world: World) -> str:
    """Describe a town and what goes on there."""
    lines = _lines()["town"]
    here = dice.favour(world.towns)
    people = [person for person in world.people if person.town == here.name]
    sentences = [f"{here.name} is {with_article(here.size)} {here.near}, known for {here.famous_for}."]
    for line in dice.sample(lines["facts"], 2 + int(dice.random() * 2)):
        someone = dice.pick(people or world.people)
        sentences.append(_about_town(line, here, someone))
    if dice.chance(0.6):
        event = draw_event(dice, dice.pick(world.activities))
        sentences.append(finish(dice.pick(lines["often"]) + ",", clause(dice, event)))
    return " ".join(sentences)


def _about_town(line: str, here: Town, someone: Person) -> str:
    return (
        line.replace("TOWN", here.name).replace("LOOK", here.look).replace("PEOPLE", f"{here.people:,}")
        .replace("YEAR", str(here.founded)).replace("NAME", someone.name).replace("JOB", someone.job.lemma)
        .replace("SIZE", here.size)
    )  # fmt: skip


def tale(dice: Dice, world: World) -> str:
    """Tell a short story: a wish, what stood in its way, and how it ended."""
    lines = _lines()["tale"]
    hero, helper = dice.sample(world.people, 2)
    activity = dice.pick([hero.loves, dice.pick(world.activities)])
    while not activity.tools or not any(f.noun.person for f in activity.who):
        activity = dice.pick(world.activities)
    event = _bare(draw_event(dice, activity))
    who = _named(hero)
    told = stage(dice, event, who, 0)
    wish = predicate(dice, told, BARE)
    again = predicate(dice, told, PAST)
    needed = dice.pick(activity.tools)
    missing = thing(dice, replace(needed, several=False))
    he, his, him = (FORMS[hero.pronoun][form] for form in ("he", "his", "him"))
    she, her = (FORMS[helper.pronoun][form] for form in ("he", "his"))
    parts = [dice.pick(lines["wish"]), dice.pick(lines["trouble"]), dice.pick(lines["help"]), dice.pick(lines["end"])]
    text = " ".join(parts)
    for slot, value in (
        ("HERO", hero.name), ("FIRST", hero.first), ("JOB", with_article(hero.job.lemma)), ("TOWN", hero.town), ("WISH", wish),
        ("AGAIN", again), ("TOOL", needed.noun.plural if needed.several else needed.noun.lemma), ("HELPER", helper.name),
        ("FRIEND", helper.first), ("TRADE", with_article(helper.job.lemma)), ("she_", she), ("her_", her), ("She_", capitalise(she)), ("he_", he), ("his_", his), ("him_", him),
        ("He_", capitalise(he)), ("IT", "them" if missing.plural else "it"),
    ):  # fmt: skip
        text = text.replace(slot, value)
    return text


def report(dice: Dice, world: World) -> str:
    """Write a piece of local news: what happened, to whom, and what people say."""
    lines = _lines()["report"]
    here, mayor, witness = dice.pick(world.towns), dice.pick(world.people), dice.pick(world.people)
    activity = dice.pick(world.activities)
    event = draw_event(dice, activity)
    event = _bare(event, place=event.place, why=event.why if dice.chance(0.3) else None)
    who = subject(dice, event.who)
    past = join(who.text, predicate(dice, stage(dice, event, who, 0), PAST))
    text = " ".join([dice.pick(lines["lead"]), *dice.sample(lines["body"], 1 + int(dice.random() * 2)), dice.pick(lines["last"])])
    for slot, value in (
        ("TOWN", here.name), ("SIZE", here.size), ("EVENT", past), ("MAYOR", mayor.name), ("WITNESS", witness.name),
        ("JOB", with_article(witness.job.lemma)), ("DAY", dice.pick(lines["days"])), ("COUNT", str(2 + int(dice.random() * 40))),
        ("FAMOUS", here.famous_for),
    ):  # fmt: skip
        text = text.replace(slot, value)
    return capitalise(text)


def knowledge(dice: Dice, world: World) -> str:
    """Say what everyone knows about an activity: who does it, where, with what and what for."""
    activity = dice.pick(world.activities)
    event = draw_event(dice, activity)
    who = Mention(phrase(dice, event.who.noun, "a", adjective=0), "it", False, "")
    base = stage(dice, _bare(event), who, 0)
    gerund = predicate(dice, base, Mood("", "gerund", "present", "present"))
    sentences = [finish(who.text, dice.pick(("can", "may", "often has to", "likes to")), predicate(dice, base, BARE))]
    if activity.places:
        spots = list(dict.fromkeys(place(dice, dice.pick(activity.places)) for _ in range(2)))
        sentences.append(f"This happens {' or '.join(spots)}.")
    if activity.tools:
        needed = tool(dice, dice.pick(activity.tools), replace(who, pronoun="they"))
        sentences.append(f"You need {needed.replace('their ', 'your ')} for {gerund.split(' while ')[0]}.")
    if activity.how:
        sentences.append(f"It is done {dice.pick(activity.how)}.")
    if activity.wear:
        worn = dice.pick(activity.wear).noun
        sentences.append(f"For this work people wear {worn.plural}.")
    if activity.steps:
        step = dice.pick(activity.steps)
        rest = step.rest.fill("they", base.thing, "present")
        sentences.append(f"Afterwards people often {step.verb.lemma} {rest}.")
    return " ".join([sentences[0], *dice.shuffled(sentences[1:])])


Genre = Callable[[Dice, World], str]
GENRES: tuple[tuple[float, Genre], ...] = (
    (22, album), (22, scene), (12, portrait), (8, town), (14, tale), (10, report), (10, knowledge),
)  # fmt: skip


def draw_paragraph(dice: Dice, world: World) -> str:
    """Draw a paragraph of any genre but the film review."""
    return dice.weighted(GENRES)(dice, world)
