"""Paragraphs of plain text about the world: scenes, portraits, places, tales, reports and what everyone knows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from grue.files import read_toml
from miniworld.chance import Dice
from miniworld.grammar import (
    BARE,
    PAST,
    PRESENT,
    STATIC,
    Mood,
    Pace,
    clause,
    mood,
    predicate,
    sentence,
    stage,
)
from miniworld.lexicon import HERE, Noun, capitalise, conjugate, verb, with_article
from miniworld.phrases import Mention, finish, join, phrase, place, subject, tool
from miniworld.template import FORMS
from miniworld.world import Activity, Filler, Person, Town, World, WorldEvent, draw_event, load_activities

INDOORS_AND_OUT = ("body", "plain", "talk", "feast", "contest", "weather")  # kinds that are no place to look around
PORTABLE = ("tool", "instrument", "toy", "container", "device", "stuff")


@dataclass(frozen=True, slots=True)
class Spot:
    """Somewhere that several things go on at once."""

    filler: Filler
    activities: tuple[Activity, ...]


@cache
def _lines() -> dict[str, dict[str, list[str]]]:
    return read_toml(HERE / "stories.toml")


@cache
def spots() -> tuple[Spot, ...]:
    """Return the places where more than three activities go on."""
    found: dict[tuple[str, str], dict[Activity, Filler]] = {}
    for activity in load_activities():
        for filler in activity.places:
            for preposition in filler.prepositions:
                if preposition in STATIC and filler.noun.kind not in INDOORS_AND_OUT:
                    here = replace(filler, prepositions=(preposition,))
                    found.setdefault((preposition, filler.noun.lemma), {})[activity] = here
    return tuple(Spot(next(iter(shared.values())), tuple(shared)) for shared in found.values() if len(shared) > 3)


@cache
def _handy() -> tuple[tuple[Activity, tuple[Filler, ...]], ...]:
    """Activities of people that need a thing which can be lost, with these things."""
    needs = [(a, tuple(f for f in a.tools if f.noun.kind in PORTABLE)) for a in load_activities()]
    return tuple((a, tools) for a, tools in needs if tools and all(f.noun.person for f in a.who))


@cache
def _work(job: Noun) -> tuple[Activity, ...]:
    """Activities of a trade: what its people do and not everyone does."""
    everyone = ("man", "woman", "boy", "girl")
    does = [(a, [filler.noun.lemma for filler in a.who]) for a in load_activities()]
    return tuple(a for a, who in does if job.lemma in who and not any(word in who for word in everyone))


def _only(event: WorldEvent, **roles: object) -> WorldEvent:
    """Return the event with no other optional roles than these."""
    return replace(WorldEvent(event.activity, event.who, event.what), **roles)  # type: ignore[arg-type]


def _named(person: Person) -> Mention:
    return Mention(person.name, person.pronoun, False, person.first)


def album(dice: Dice, world: World) -> str:
    """Write a few sentences that have nothing to do with each other, like captions on a page."""
    return " ".join(_caption(dice, dice.pick(world.activities)) for _ in range(2 + int(dice.random() * 3)))


def _caption(dice: Dice, activity: Activity) -> str:
    chances = {"place": 0.6, "tool": 0.3, "wear": 0.12, "pose": 0.12, "step": 0.25, "why": 0.2}
    dropped = {role: None for role, chance in chances.items() if not dice.chance(chance)}
    return sentence(dice, replace(draw_event(dice, activity), **dropped))  # type: ignore[arg-type]


def scene(dice: Dice, world: World) -> str:
    """Describe what several people and animals do at one place, at one time."""
    lines = _lines()["scene"]
    here = dice.pick(spots())
    pace: Pace = dice.pick(("present", "present", "past"))
    sentences = [capitalise(dice.pick(lines[pace]).format(where=place(dice, here.filler)))]
    for index, activity in enumerate(dice.sample(here.activities, 2 + int(dice.random() * 3))):
        event = draw_event(dice, activity)
        event = _only(event, step=event.step if dice.chance(0.3) else None)
        who = subject(dice, event.who)
        link = dice.pick(lines["links"]) if index and dice.chance(0.5) else ""
        sentences.append(finish(link, who.text, predicate(dice, stage(dice, event, who), mood(dice, who, pace))))
        if dice.chance(0.3):
            be = conjugate(verb("be"), "past" if pace == "past" else "present", who.pronoun == "they")
            asides = lines["asides" if event.who.noun.person else "asides_animal"]
            sentences.append(finish(who.pronoun, be, dice.pick(asides)))
    if dice.chance(0.7):
        sentences.append(dice.pick(lines["closing_" + pace]))
    return " ".join(sentences)


def portrait(dice: Dice, world: World) -> str:
    """Describe a person: trade, town, habits and friends."""
    lines = _lines()["portrait"]
    person, friend = dice.favour(world.people), dice.pick(world.people)
    who, his = _named(person), FORMS[person.pronoun]["his"]
    habit = draw_event(dice, person.loves)
    habit = _only(habit, place=dice.pick(person.loves.places) if person.loves.places else None)
    does = predicate(dice, stage(dice, habit, who), PRESENT)
    sentences = [
        f"{person.name} is {with_article(f'{person.trait} {person.job.lemma}')} from {person.town}.",
        finish(dice.pick(lines["when"]), person.pronoun, does),
    ]
    work = _work(person.job)
    if work and dice.chance(0.8):
        duty = dice.pick(lines["work"]).format(he=person.pronoun, his=his)
        event = _only(draw_event(dice, dice.pick(work)))
        sentences.append(finish(duty, predicate(dice, stage(dice, event, who, 0), BARE)))
    for line in dice.sample(lines["facts"], 1 + int(dice.random() * 2)):
        sentences.append(
            line.format(
                he=person.pronoun,
                He=capitalise(person.pronoun),
                His=capitalise(his),
                age=person.age,
                first=person.first,
                friend=friend.name,
                a_trade=with_article(friend.job.lemma),
            )
        )
    return " ".join(sentences)


def town(dice: Dice, world: World) -> str:
    """Describe a town and what goes on there."""
    lines = _lines()["town"]
    here = dice.favour(world.towns)
    people = [person for person in world.people if person.town == here.name and person.job.lemma != "mayor"]
    sentences = [f"{here.name} is {with_article(here.size)} {here.near}, known for {here.famous_for}."]
    for line in dice.sample(lines["facts"], 2 + int(dice.random() * 2)):
        sentences.append(_about_town(line, here, dice.pick(people or world.people)))
    if dice.chance(0.6):
        event = draw_event(dice, dice.pick(world.activities))
        sentences.append(finish(dice.pick(lines["often"]) + ",", clause(dice, event)))
    return " ".join(sentences)


def _about_town(line: str, here: Town, someone: Person) -> str:
    return line.format(
        town=here.name,
        look=here.look,
        people=f"{here.people:,}",
        year=here.founded,
        size=here.size,
        name=someone.name,
        job=someone.job.lemma,
        a_job=with_article(someone.job.lemma),
    )


def tale(dice: Dice, world: World) -> str:
    """Tell a short story: a wish, what stood in its way, who helped, and how it ended."""
    hero, helper = dice.sample(world.people, 2)
    activity, tools = dice.pick(_handy())
    needed, who = dice.pick(tools), _named(hero)
    told = stage(dice, _only(draw_event(dice, activity)), who, 0)
    lines = _lines()["tale"]
    several = needed.several or needed.noun.number == "plural"
    text = " ".join(dice.pick(lines[part]) for part in ("wish", "trouble", "help", "end"))
    return text.format(
        hero=hero.name,
        first=hero.first,
        a_job=with_article(hero.job.lemma),
        town=hero.town,
        wish=predicate(dice, told, BARE),
        deed=predicate(dice, told, PAST),
        tool=needed.noun.plural if several else needed.noun.lemma,
        it="them" if several else "it",
        was="were" if several else "was",
        helper=helper.name,
        friend=helper.first,
        a_trade=with_article(helper.job.lemma),
        **FORMS[hero.pronoun],
        He=capitalise(hero.pronoun),
        she=helper.pronoun,
        her=FORMS[helper.pronoun]["his"],
    )


def report(dice: Dice, world: World) -> str:
    """Write a piece of local news: what happened, to whom, and what people say."""
    lines = _lines()["report"]
    here, mayor, witness = dice.pick(world.towns), dice.pick(world.people), dice.pick(world.people)
    event = draw_event(dice, dice.pick(world.activities))
    event = _only(event, place=event.place, why=event.why if dice.chance(0.3) else None)
    who = subject(dice, event.who)
    body = dice.sample(lines["body"], 1 + int(dice.random() * 2))
    text = " ".join([dice.pick(lines["lead"]), *body, dice.pick(lines["last"])])
    return capitalise(
        text.format(
            town=here.name,
            size=here.size,
            famous=here.famous_for,
            event=join(who.text, predicate(dice, stage(dice, event, who, 0), PAST)),
            mayor=mayor.name,
            witness=witness.name,
            a_job=with_article(witness.job.lemma),
            day=dice.pick(lines["days"]),
            count=2 + int(dice.random() * 40),
        )
    )


def knowledge(dice: Dice, world: World) -> str:
    """Say what everyone knows about an activity: who does it, where, with what and what comes next."""
    activity = dice.pick(world.activities)
    event = draw_event(dice, activity)
    who = Mention(phrase(dice, event.who.noun, "a", adjective=0), "it", False, "")
    base = stage(dice, _only(event), replace(who, pronoun="they"), 0)
    sentences: list[str] = []
    spots = [filler for filler in activity.places if filler.prepositions[0] in STATIC]
    if spots:
        sentences.append(f"This happens {' or '.join(place(dice, spot) for spot in dice.sample(spots, 2))}.")
    if activity.tools:
        gerund = predicate(dice, base, Mood("", "gerund", "present", "present"))
        needed = tool(dice, dice.pick(activity.tools), base.who)
        sentences.append(f"You need {needed} for {gerund}.".replace(" their ", " your "))
    if activity.how:
        sentences.append(f"It is done {dice.pick(activity.how)}.")
    if activity.wear:
        sentences.append(f"For this people wear {dice.pick(activity.wear).noun.plural}.")
    if activity.steps:
        step = dice.pick(activity.steps)
        rest = step.rest.fill("they", base.what.pronoun if base.what else "it", "present")
        sentences.append(finish("afterwards people often", step.verb.lemma, rest))
    may = dice.pick(("can", "may", "often has to", "likes to"))
    first = finish(who.text, may, predicate(dice, replace(base, who=who), BARE))
    return " ".join([first, *dice.shuffled(sentences)])


Genre = Callable[[Dice, World], str]
GENRES: tuple[tuple[float, Genre], ...] = (
    (24, album), (22, scene), (12, portrait), (8, town), (14, tale), (10, report), (8, knowledge),
)  # fmt: skip


def draw_paragraph(dice: Dice, world: World) -> str:
    """Draw a paragraph of any genre but the film review."""
    return dice.weighted(GENRES)(dice, world)
