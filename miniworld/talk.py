"""Conversations of two people: facts first, then a walk through a graph of lines, then words.

`dialogues.toml` holds the situations. A situation is a graph: each state lists the lines that may be said in it, and
each line the states that may follow. Its blanks are filled from facts that hold for the whole conversation, so that a
price, a day or a name stays the same.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from grue.errors import DataError
from grue.files import read_toml
from miniworld.chance import Dice
from miniworld.lexicon import HERE, capitalise, with_article
from miniworld.occasions import SOURCES, about
from miniworld.world import Person, World, load_world

SHORTEST, LONGEST = 6, 9
INFORM = 1
ACTS = {".": INFORM, "?": 2, "!": 3, "+": 4}
EMOTIONS = {"a": 1, "d": 2, "f": 3, "h": 4, "s": 5, "u": 6}
END = "end"
FIRST, USUAL = 3.0, 2.0  # weights of a state's lines that do what most of them do: of the first, of the others
CALLING = 0.2  # chance that a friend is called by name
GOING_ON = 0.5  # chance that people go on talking where they could stop
SHARED = ("friends", "strangers")
Facts = Mapping[str, str]
Text = tuple["Piece", ...]


@dataclass(frozen=True, slots=True)
class DialogueSlot:
    """A blank for a fact or a word; `article` puts "a" or "an" before it."""

    name: str
    article: bool


@dataclass(frozen=True, slots=True)
class DialogueChoice:
    """Several ways to say the same."""

    options: tuple[Text, ...]


Piece = str | DialogueSlot | DialogueChoice


@dataclass(frozen=True, slots=True)
class DialogueLine:
    """A line with its act (1-4), its emotion (0-6) and the states that may follow."""

    act: int
    emotion: int
    text: Text
    follow: tuple[str, ...]
    slots: frozenset[str]


@dataclass(frozen=True, slots=True)
class Situation:
    """What two people may talk about: sources of the facts, and the lines of every state."""

    name: str
    roles: tuple[str, ...]  # what the two are to each other; empty for friends
    facts: Mapping[str, str | Text]
    needs: Mapping[str, frozenset[str]]  # the facts that a slot stands for or depends on
    states: Mapping[str, tuple[tuple[float, DialogueLine], ...]]  # weighted
    to_end: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance with its act (1-4) and emotion (0-6)."""

    text: str
    act: int
    emotion: int


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A conversation of 6 to 9 turns, who held it and about what; the first speaker begins."""

    situation: Situation
    speakers: tuple[Person, Person]
    facts: Facts
    turns: tuple[Turn, ...]


# --- reading dialogues.toml ------------------------------------------------------------------------------------------


def parse_text(source: str) -> Text:
    """Parse a text with {slots} and (one|other) choices; choices may lie within choices."""
    options, rest = _options(re.split(r"(\{[a-z]\w*(?: \w+)?\}|[(|)])", source), 0)
    if rest or len(options) != 1:
        return (DialogueChoice(tuple(options)),)
    return options[0]


def _options(tokens: list[str], start: int) -> tuple[list[Text], int]:
    options: list[list[Piece]] = [[]]
    position = start
    while position < len(tokens):
        token = tokens[position]
        if token == "(":
            inner, position = _options(tokens, position + 1)
            options[-1].append(DialogueChoice(tuple(inner)))
        elif token == ")":
            return [tuple(option) for option in options], position
        elif token == "|":
            options.append([])
        elif token.startswith("{"):
            article, _, name = token[1:-1].rpartition(" ")
            options[-1].append(DialogueSlot(name, article == "a"))
        elif token:
            options[-1].append(token)
        position += 1
    return [tuple(option) for option in options], 0


def _line(source: str, where: str) -> DialogueLine:
    found = re.fullmatch(r"([.?!+])([adfhsu])? (.+) > ([\w ]+)", source.strip())
    if not found:
        raise DataError(f"{HERE / 'dialogues.toml'}: in {where}, not a line: {source!r}. See the notes on top of it.")
    act, emotion, text, follow = found.groups()
    parsed = parse_text(text)
    return DialogueLine(ACTS[act], EMOTIONS.get(emotion, 0), parsed, tuple(follow.split()), frozenset(_slots(parsed)))


def _slots(text: Text) -> Iterator[str]:
    for piece in text:
        if isinstance(piece, DialogueSlot):
            yield piece.name
        elif isinstance(piece, DialogueChoice):
            for option in piece.options:
                yield from _slots(option)


def _states(table: Mapping[str, Any], where: str) -> dict[str, tuple[DialogueLine, ...]]:
    return {
        state: tuple(_line(line, f"{where}.{state}") for line in lines.strip().splitlines())
        for state, lines in table.items()
        if isinstance(lines, str) and "\n" in lines
    }


def _weighted(states: Mapping[str, tuple[DialogueLine, ...]]) -> dict[str, tuple[tuple[float, DialogueLine], ...]]:
    """Weight the lines of every state: its usual act comes more often, so that it can be predicted."""
    weighted = {}
    for state, lines in states.items():
        acts = [line.act for line in lines]
        usual = max(acts, key=lambda act: (acts.count(act), act != INFORM))  # telling is common enough anyway
        first = acts.index(usual)
        weighted[state] = tuple(
            (FIRST if place == first else USUAL if line.act == usual else 1.0, line) for place, line in enumerate(lines)
        )
    return weighted


def _distances(states: Mapping[str, tuple[DialogueLine, ...]], where: str) -> dict[str, int]:
    """Return the number of turns on the shortest path from each state to the end."""
    distances = {END: 0}
    while len(distances) <= len(states):
        near = {
            state: 1 + min(distances[name] for line in lines for name in line.follow if name in distances)
            for state, lines in states.items()
            if state not in distances and any(name in distances for line in lines for name in line.follow)
        }
        if not near:
            lost = next(state for state in states if state not in distances)
            raise DataError(f"{HERE / 'dialogues.toml'}: no way leads from {where}.{lost} to the end.")
        distances.update(near)
    return distances


@cache
def load_situations() -> tuple[Situation, ...]:
    """Read `dialogues.toml`.

    Raises:
        DataError: A line cannot be parsed, or names a state that does not exist.
    """
    data = read_toml(HERE / "dialogues.toml")
    shared = {kind: _states(data[kind], kind) for kind in SHARED}
    situations = []
    for name, table in data.items():
        if "a_start" not in table:
            continue
        states = {**shared[table["talk"]], **_states(table, name)}
        for state, lines in states.items():
            if unknown := [f for line in lines for f in line.follow if f != END and f not in states]:
                raise DataError(
                    f"{HERE / 'dialogues.toml'}: {name}.{state} goes on to {unknown[0]!r}, which is no state."
                )
        facts = {**data["common"], **table.get("facts", {})}
        sources = {key: text if text.startswith("@") else parse_text(text) for key, text in facts.items()}
        slots = {slot for lines in states.values() for line in lines for slot in line.slots}
        needs = {slot: frozenset(_needs(slot, sources)) for slot in slots}
        situations.append(
            Situation(name, tuple(table.get("roles", ())), sources, needs, _weighted(states), _distances(states, name))
        )
    return tuple(situations)


def _needs(slot: str, sources: Mapping[str, str | Text]) -> Iterator[str]:
    """Yield the fact of a slot, "price" for "price_offer", and the facts which that one is made of."""
    name = slot if slot in sources else slot.rpartition("_")[0]
    if name in sources:
        yield name
        source = sources[name]
        for part in _slots(source) if not isinstance(source, str) else ():
            yield from _needs(part, sources)


@cache
def _words() -> dict[str, Text]:
    return {name: parse_text(text) for name, text in read_toml(HERE / "dialogues.toml")["words"].items()}


# --- talking ---------------------------------------------------------------------------------------------------------


def draw_dialogue(dice: Dice, revision: str, lengths: range = range(SHORTEST, LONGEST + 1)) -> Dialogue:
    """Draw a conversation of 6 to 9 turns, or of one of these lengths."""
    world = load_world(revision)
    while True:  # not every situation can be of every length
        situation = dice.pick(load_situations())
        lines = _walk(dice, situation)
        if lines and len(lines) in lengths:
            break
    speakers = _pair(dice, world)
    needed = frozenset[str]().union(*(situation.needs[slot] for line in lines for slot in line.slots))
    facts = _draw_facts(dice, world, situation, needed, speakers)
    kin = [_say(dice, _words()["relative"], {}) for _ in speakers]
    sides = [
        {**facts, **_side(world, speakers[me], speakers[you]), "my_kin": kin[me], "your_kin": kin[you]}
        for me, you in ((0, 1), (1, 0))
    ]
    turns = []
    for index, line in enumerate(lines):
        text = _sentences(_say(dice, line.text, sides[index % 2]))
        if not situation.roles and "you" not in line.slots and dice.chance(CALLING):
            text = _called(text, sides[index % 2]["you"])
        turns.append(Turn(text, line.act, line.emotion))
    return Dialogue(situation, speakers, facts, tuple(turns))


def _called(text: str, name: str) -> str:
    """Return the text with the listener's name at the end of its first sentence, if that is not too short for it."""
    first = re.match(r"[^.?!]+", text)
    if not first or len(first[0].split()) < 4:
        return text
    return f"{first[0]}, {name}{text[first.end() :]}"


def _walk(dice: Dice, situation: Situation) -> list[DialogueLine] | None:
    """Walk from the start to the end, no state twice; None if the way was too short or led nowhere."""
    state, said, been = "a_start", list[DialogueLine](), set[str]()
    while state != END:
        been.add(state)
        line = dice.weighted(situation.states[state])
        said.append(line)
        left = LONGEST - len(said)
        ways = [name for name in line.follow if name not in been and name != END and situation.to_end[name] <= left]
        may_end = END in line.follow and len(said) >= SHORTEST
        if not ways and not may_end:
            return None
        state = END if may_end and (not ways or not dice.chance(GOING_ON)) else dice.pick(ways)
    return said


def _pair(dice: Dice, world: World) -> tuple[Person, Person]:
    while True:
        one, other = dice.pick(world.people), dice.pick(world.people)
        if one.first != other.first and one.family != other.family:
            return one, other


def _draw_facts(
    dice: Dice, world: World, situation: Situation, needed: frozenset[str], speakers: tuple[Person, Person]
) -> Facts:
    """Draw the facts needed, in the order of the file; a later one may use an earlier one, and no two are the same."""
    facts: dict[str, str] = {}
    taken = {word for speaker in speakers for word in (speaker.first, speaker.town)}
    for name, source in situation.facts.items():
        if name not in needed:
            continue
        while True:
            if isinstance(source, str):
                kind, _, limits = source[1:].partition(" ")
                drawn = SOURCES[kind](dice, world, limits)
            else:
                drawn = {"": _say(dice, source, facts)}
            if drawn[""] not in taken:
                break
        taken.add(drawn[""])
        facts.update({f"{name}_{part}" if part else name: value for part, value in drawn.items()})
    return facts


def _side(world: World, speaker: Person, listener: Person) -> dict[str, str]:
    sir = "sir" if listener.pronoun == "he" else "madam"
    said = {"me": speaker.first, "you": listener.first, "sir": sir}
    for key, person in (("my", speaker), ("your", listener)):
        said.update({f"{key}_{part}": value for part, value in about(person).items() if part})
        said[f"{key}_fame"] = next(town.famous_for for town in world.towns if town.name == person.town)
    return said


def _say(dice: Dice, text: Text, facts: Facts) -> str:
    said = []
    for piece in text:
        if isinstance(piece, str):
            said.append(piece)
        elif isinstance(piece, DialogueChoice):
            said.append(_say(dice, dice.pick(piece.options), facts))
        else:
            word = facts[piece.name] if piece.name in facts else _say(dice, _words()[piece.name], facts)
            said.append(with_article(word) if piece.article else word)
    return "".join(said)


def _sentences(text: str) -> str:
    """Return the text with a capital at the start of every sentence."""
    return re.sub(r"(?<=[.?!] )[a-z]", lambda found: found[0].upper(), capitalise(text))
