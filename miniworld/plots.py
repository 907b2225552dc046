"""Plots: who wants what, what stands in the way and how it ends, and stories that tell them.

A plot is a chain of beats (a theft, a search, a pardon) and the facts that fill them. `plots.toml` holds the beats with
the sentences that tell them and the questions that can be asked about them; its head explains the notation.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from grue.errors import DataError
from grue.files import read_toml
from miniworld.chance import Dice
from miniworld.grammar import BARE, Mood, predicate, stage
from miniworld.lexicon import HERE, capitalise, conjugate, verb, with_article
from miniworld.phrases import Mention
from miniworld.template import FORMS, Tense
from miniworld.world import Activity, Person, Town, World, WorldEvent, draw_event, load_activities

FILE = HERE / "plots.toml"
ING = Mood("", "gerund", "past", "past")
ADULTS = ("man", "woman", "lady", "neighbor", "friend", "grandmother", "grandfather", "mother", "father")
OPPOSITE = 0.6  # how often helper and rival are not of the hero's sex, which keeps pronouns clear
SIDES = ("side", "third")  # steps that are a side of the arc
THIRD = {"extra": "third", "wish": "wish3"}  # the words of a side, as they are said of third
TWINS = 0.5  # how often the two sides of a story are of one kind
PRONOUN, TRADE = 0.5, 0.2  # how often a known person is not called by name

Forms = Mapping[str, str]
Facts = dict[str, Forms]


@dataclass(frozen=True, slots=True)
class PlotSlot:
    """A gap in a line for a form of a fact."""

    name: str
    form: str


@dataclass(frozen=True, slots=True)
class Pair:
    """A verb in its two tenses."""

    present: str
    past: str


@dataclass(frozen=True, slots=True)
class PlotLine:
    """A parsed sentence, and the names of the slots in it."""

    source: str
    pieces: tuple[str | PlotSlot | Pair, ...]
    slots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """What can be asked about a beat; an answer "@rival" names the person."""

    kind: str
    questions: tuple[str, ...]
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Beat:
    """One step of a plot."""

    name: str
    tell: tuple[tuple[PlotLine, ...], ...]
    asks: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Arc:
    """A kind of plot: its steps, each a choice of beats ("" for none), and the roles it may need."""

    name: str
    steps: tuple[tuple[str, ...], ...]
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Library:
    """The content of `plots.toml`."""

    arcs: tuple[Arc, ...]
    beats: Mapping[str, Beat]
    sides: Mapping[str, tuple[str, ...]]
    slots: Mapping[str, str]
    pools: Mapping[str, tuple[str, ...]]
    things: Mapping[str, tuple[tuple[str, str], ...]]
    ties: Mapping[str, tuple[str, ...]]
    gendered: Mapping[str, Forms]


@dataclass(frozen=True, slots=True)
class StoryPlot:
    """What happens in one story.

    Attributes:
        arc: The kind of plot.
        beats: Its steps in order.
        lines: The sentences chosen to tell each of them.
        facts: The forms of each fact, by slot: `facts["rival"]["job"]`, `facts["thing"]["a"]`.
        tense: The tense of the telling.
    """

    arc: str
    beats: tuple[Beat, ...]
    lines: tuple[tuple[PlotLine, ...], ...]
    facts: Facts
    tense: Tense


# --- reading ---------------------------------------------------------------------------------------------------------


@cache
def parse_line(source: str) -> PlotLine:
    """Parse one sentence of `plots.toml`."""
    pieces: list[str | PlotSlot | Pair] = []
    for text in re.split(r"(\{[\w.]+\}|<[^>]+>)", source):
        if text.startswith("{"):
            name, _, form = text[1:-1].partition(".")
            pieces.append(PlotSlot(name, form))
        elif text.startswith("<"):
            present, _, past = text[1:-1].partition("/")
            word = verb(present)
            pieces.append(
                Pair(present, past) if past else Pair(conjugate(word, "present", False), conjugate(word, "past", False))
            )
        elif text:
            pieces.append(text)
    names = [piece.name for piece in pieces if isinstance(piece, PlotSlot)]
    return PlotLine(source, tuple(pieces), tuple(dict.fromkeys(names)))


@cache
def load_plots() -> Library:
    """Read `plots.toml`.

    Raises:
        DataError: An arc names a beat that is not there.
    """
    data = read_toml(FILE)
    beats = {name: _beat(name, entry) for name, entry in data["beats"].items()}
    beats |= {f"{name} of third": _of_third(beats[name]) for names in data["sides"].values() for name in names.split()}
    arcs = tuple(_arc(name, steps, data["people"][name], beats) for name, steps in data["arcs"].items())
    return Library(
        arcs=arcs,
        beats=beats,
        sides={arc: tuple(names.split()) for arc, names in data["sides"].items()},
        slots={
            name: pool.replace("extra", "third") if name != slot else pool
            for slot, pool in data["slots"].items()
            for name in dict.fromkeys((slot, _third(slot)))
        },
        pools={name: (*entries, *_made(name, data)) for name, entries in data["pools"].items()},
        things={name: _pairs(entries) for name, entries in data["things"].items()},
        ties={role: tuple(ties) for role, ties in data["ties"].items()},
        gendered={
            pronoun: {word: pair.split()[index] for word, pair in data["gendered"].items()}
            for index, pronoun in enumerate(("he", "she"))
        },
    )


def _beat(name: str, entry: Mapping[str, list[str]]) -> Beat:
    tell = tuple(tuple(parse_line(line) for line in re.split(r"(?<=\.) ", text)) for text in entry["tell"])
    return Beat(name, tell, tuple(_ask(name, source) for source in entry["ask"]))


def _ask(beat: str, source: str) -> Ask:
    found = re.fullmatch(r"(\w+): (.+) => (.+)", source)
    if not found:
        raise DataError(f"{FILE}: beat {beat!r}: expected 'kind: questions => answers', found {source!r}.")
    return Ask(found[1], tuple(found[2].split(" | ")), tuple(found[3].split(" | ")))


def _arc(name: str, steps: str, roles: str, beats: Mapping[str, Beat]) -> Arc:
    choices = []
    for step in steps.split():
        names = step.rstrip("?").split("|")
        if unknown := [beat for beat in names if beat not in (*beats, *SIDES)]:
            raise DataError(f"{FILE}: the arc {name!r} names the beat {unknown[0]!r}, which is not there.")
        choices.append((*names, "") if step.endswith("?") else tuple(names))
    return Arc(name, tuple(choices), tuple(roles.split()))


def _of_third(beat: Beat) -> Beat:
    """Return a beat that is told of extra as one that is told of third."""
    tell = tuple(tuple(parse_line(_third(line.source)) for line in lines) for lines in beat.tell)
    asks = [Ask(ask.kind, tuple(map(_third, ask.questions)), tuple(map(_third, ask.answers))) for ask in beat.asks]
    return Beat(f"{beat.name} of third", tell, tuple(asks))


def _third(text: str) -> str:
    """Return a text about extra as one about third, whose facts are other ones: "{far2}" becomes "{far3}"."""
    return re.sub(r"(?<=[a-z])2\b", "3", re.sub(r"\b(extra|wish)\b", lambda word: THIRD[word[0]], text))


def _made(pool: str, data: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the entries of a pool that are made of parts."""
    for entry in data["made"].get(pool, ()):
        before, adjectives, nouns = (part.split() for part in entry.split(":"))
        for adjective in adjectives:
            for noun in nouns:
                full = f"{adjective} {noun.replace('_', ' ')}"
                yield from (f"{word} {with_article(full)}" for word in before) if before else (with_article(full),)
    if pool in data["numbers"]:
        numbers, units = (part.split() for part in data["numbers"][pool].split(":"))
        for number in numbers:
            yield from (f"{number} {unit}".replace("_", " ") for unit in units)


def _pairs(entries: list[str]) -> tuple[tuple[str, str], ...]:
    split = [entry.split(": ") for entry in entries]
    return tuple(
        (adjective, noun.replace("_", " "))
        for adjectives, nouns in split
        for noun in nouns.split()
        for adjective in adjectives.split()
    )


# --- facts -----------------------------------------------------------------------------------------------------------


def draw_plot(dice: Dice, world: World, most: int = 99) -> StoryPlot:
    """Draw what happens to whom, at `most` so many beats of it, and which sentences will tell it."""
    library = load_plots()
    arc = dice.pick(library.arcs)
    names = _with_sides(dice, [dice.pick(choices) for choices in arc.steps], library.sides[arc.name])
    beats = tuple(library.beats[name] for name in names if name)[:most]
    lines = tuple(dice.pick(beat.tell) for beat in beats)
    facts = draw_cast(dice, arc.roles, world)
    for line in _flat(lines):
        for slot in line.slots:
            settle(dice, slot, facts, world)
    return StoryPlot(arc.name, beats, lines, facts, dice.pick(("present", "present", "past")))


def _with_sides(dice: Dice, names: list[str], sides: tuple[str, ...]) -> list[str]:
    """Return the steps with a side for each place of one; two of the same kind are told half of the time."""
    side = dice.pick(sides)
    third = side if dice.chance(TWINS) else dice.pick(sides)
    chosen = {"side": side, "third": f"{third} of third"}
    return [chosen.get(name, name) for name in names]


def _flat(lines: tuple[tuple[PlotLine, ...], ...]) -> Iterator[PlotLine]:
    return (line for told in lines for line in told)


def draw_cast(dice: Dice, roles: tuple[str, ...], world: World) -> Facts:
    """Choose people with different names and trades."""
    library, facts = load_plots(), Facts()
    taken: set[str] = set()
    hero = dice.pick(world.people)
    opposite = "he" if hero.pronoun == "she" else "she"
    for role in roles:
        person = hero
        across = role == "love" or (role in ("helper", "rival", "other", "third") and dice.chance(OPPOSITE))
        fitting = (opposite,) if across else (hero.pronoun,) if role == "suitor" else ("he", "she")
        while not taken.isdisjoint((person.first, person.family, person.job.lemma)) or person.pronoun not in fitting:
            person = dice.pick(world.people)
        tie = dice.pick(library.ties.get(role, ("",)))
        facts[role] = _person(person, "" if tie in taken else tie, role == "child")
        taken.update((person.first, person.family, person.job.lemma, tie))
    home = next(town for town in world.towns if town.name == hero.town)
    facts["town"] = _town(home)
    return facts


def _person(person: Person, tie: str, child: bool) -> Forms:
    words = load_plots().gendered[person.pronoun]
    forms = {"": person.first, "first": person.first, "name": person.name, **FORMS[person.pronoun], **words}
    forms["tie"] = words.get(tie, tie)
    if not child:
        job = person.job.lemma
        forms |= {"job": job, "a_job": with_article(job), "the_job": f"the {job}"}
        forms["a_trait"] = with_article(f"{person.trait} {job}")
    return forms


def _town(town: Town) -> Forms:
    return {"": town.name, "size": town.size}


def pool_of(slot: str) -> str:
    """Return the name of the pool that the fact of a slot is drawn from."""
    return load_plots().slots.get(slot, slot).partition(" of ")[0]


def settle(dice: Dice, slot: str, facts: Facts, world: World) -> None:
    """Draw the fact of a slot, and those that it speaks of, unless they are settled."""
    if slot in facts:
        return
    library = load_plots()
    pool, owner = pool_of(slot), library.slots.get(slot, slot).partition(" of ")[2]
    if pool == "far":
        taken = [forms.get("") for forms in facts.values()]
        facts[slot] = _town(dice.pick([town for town in world.towns if town.name not in taken]))
    elif pool == "doing":
        facts[slot] = _doing(dice, facts[owner])
    elif pool in library.things:
        taken = [forms.get("noun") for forms in facts.values()]
        adjective, noun = dice.pick(library.things[pool])
        while noun in taken:
            adjective, noun = dice.pick(library.things[pool])
        full = f"{adjective} {noun}"
        facts[slot] = {"": f"the {noun}", "a": with_article(full), "plain": with_article(noun), "noun": noun}
    else:
        taken = [forms.get("source") for forms in facts.values()]
        source = dice.pick(library.pools[pool])
        while source in taken:
            source = dice.pick(library.pools[pool])
        long, _, short = source.replace("{x.", f"{{{owner}.").partition(" | ")
        facts[slot] = {"": long, "short": short or long, "source": source}
        for inner in parse_line(long).slots:
            settle(dice, inner, facts, world)


@cache
def _pastimes() -> tuple[Activity, ...]:
    """What grown-up people of any trade can be found doing."""
    lemmas = [(activity, [filler.noun.lemma for filler in activity.who]) for activity in load_activities()]
    return tuple(activity for activity, who in lemmas if any(word in who for word in ADULTS))


def _doing(dice: Dice, owner: Forms) -> Forms:
    """Draw something to do, with and without the place."""
    who = Mention(owner[""], "he" if owner["he"] == "he" else "she", False, owner[""])
    drawn = draw_event(dice, dice.pick(_pastimes()))
    where = drawn.place if dice.chance(0.7) else None
    scene = stage(dice, WorldEvent(drawn.activity, drawn.who, drawn.what, place=where), who, 0)
    rest = f" {scene.place}" if scene.place else ""
    forms = {"ing": predicate(dice, scene, ING), "do": predicate(dice, scene, BARE)}
    return forms | {f"{form}_short": text.removesuffix(rest) for form, text in forms.items()}


# --- words -----------------------------------------------------------------------------------------------------------


def fill(line: PlotLine, facts: Facts, tense: Tense) -> str:
    """Return the line with its facts in place, every person called by first name."""
    return "".join(piece_text(piece, facts, tense) for piece in line.pieces)


def piece_text(piece: str | PlotSlot | Pair, facts: Facts, tense: Tense) -> str:
    """Return a piece of a line as it is written; a fact may have slots and verbs of its own."""
    if isinstance(piece, str):
        return piece
    if isinstance(piece, Pair):
        return piece.past if tense == "past" else piece.present
    text = facts[piece.name][piece.form]
    return fill(parse_line(text), facts, tense) if "{" in text or "<" in text else text


def tell(dice: Dice, plot: StoryPlot) -> list[str]:
    """Return the sentences of the story."""
    sentences: list[str] = []
    known = {"hero"}
    before: tuple[str, ...] = ()
    for line in _flat(plot.lines):
        people = tuple(slot for slot in line.slots if "he" in plot.facts[slot])
        words = []
        for index, piece in enumerate(line.pieces):
            if isinstance(piece, PlotSlot) and piece.form == "" and piece.name in people:
                role, around = piece.name, (*before, *people)
                if role in known:
                    begins = index == 0 and before[:1] == (role,) and not str(line.pieces[1]).startswith("'s")
                    words.append(call_again(dice, plot.facts, role, around, begins))
                else:
                    words.append(introduce(dice, plot.facts, role, around))
                    known.add(role)
            else:
                words.append(piece_text(piece, plot.facts, plot.tense))
        before = people
        sentences.append(capitalise("".join(words).replace(",,", ",").replace(",.", ".").replace(",:", ":")))
    return sentences


def call_again(dice: Dice, facts: Facts, role: str, around: tuple[str, ...], subject: bool) -> str:
    """Return what to call a person who is known: by name, trade or pronoun.

    Args:
        dice: Chooses among them.
        facts: The facts of the plot.
        role: The person's role.
        around: The roles in this sentence and the one before.
        subject: Whether the person begins this sentence and the one before.
    """
    who = facts[role]
    clear = all(facts[other]["he"] != who["he"] for other in around if other != role)
    if subject and clear and dice.chance(PRONOUN):
        return who["he"]
    if "the_job" in who and dice.chance(TRADE):
        return who["the_job"]
    return who["first"]


def introduce(dice: Dice, facts: Facts, role: str, around: tuple[str, ...]) -> str:
    """Return somebody with name and trade, and what ties them to the hero; a comma may have to follow."""
    who, hero = facts[role], facts["hero"]
    if not who["tie"]:
        name, job, a_job, a_trait = who["name"], who["job"], who["a_job"], who["a_trait"]
        return dice.pick(
            (
                f"{a_job} named {name}",
                f"{name}, {a_job},",
                f"{a_trait} called {name}",
                f"the {job} {name}",
                f"{name}, {a_trait},",
            )
        )
    clear = all(facts[other]["he"] != hero["he"] for other in around if other not in ("hero", role))
    whose = hero["his"] if clear and "hero" in around else f"{hero['first']}'s"
    kin = f"{whose} {who['tie']}"
    if "job" not in who:
        return f"{kin} {who['first']}"
    return dice.pick((f"{kin} {who['first']}, {who['a_job']},", f"{kin}, the {who['job']} {who['first']},"))
