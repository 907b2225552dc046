"""Conversations of two people: a situation, an opening, and exchanges that answer to what has been said.

`dialogues.toml` holds the situations. Facts hold for a whole conversation, so that a price, a day or a name stays the
same. An exchange is an utterance and its reply; it may follow once the facts that it uses have been said. So a reply
can be told from the conversation before it, and the same question has different replies where different things were
said. How somebody talks, the words for yes and thanks, stays the same throughout, too.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from grue.errors import DataError
from grue.files import read_toml
from miniworld.chance import Dice
from miniworld.lexicon import HERE, capitalise, with_article
from miniworld.occasions import DERIVED, SOURCES, about
from miniworld.world import Person, World, load_world

LENGTHS = (6, 8)  # turns of a conversation: an opening of four, and exchanges
ACTS = {".": 1, "?": 2, "!": 3, "+": 4}
EMOTIONS = {"a": 1, "d": 2, "f": 3, "h": 4, "s": 5, "u": 6}
CONTRASTED, OWN, SHARED = 6.0, 2.0, 1.0  # weights of exchanges: with a contrast, a situation's own, for many
SIDES = ("me", "you", "sir", "tag", "my", "your")  # slots that depend on who speaks
PERSONAL = ("he", "his", "him", "name")  # forms of a person that need no more than the person
Text = tuple["Piece", ...]


@dataclass(frozen=True, slots=True)
class DialogueSlot:
    """A blank for a fact or a word of the speaker's; `article` puts "a" or "an" before it.

    The mark "^" says that the fact is new, "=" that it must be the only one of its kind.
    """

    name: str
    article: bool
    mark: str


@dataclass(frozen=True, slots=True)
class DialogueChoice:
    """Several ways to say the same, the first the commonest."""

    options: tuple[Text, ...]


Piece = str | DialogueSlot | DialogueChoice


@dataclass(frozen=True, slots=True)
class DialogueLine:
    """An utterance with its act (1-4) and its emotion (0-6)."""

    act: int
    emotion: int
    text: Text


@dataclass(frozen=True, slots=True)
class Exchange:
    """An utterance and its reply: the facts that must have been said before, that must not, and that none may rival."""

    lines: tuple[DialogueLine, DialogueLine]
    known: frozenset[str]
    new: frozenset[str]
    only: frozenset[str]

    def fits(self, said: set[str]) -> bool:
        """Tell whether it may follow when these facts have been said."""
        if not said >= self.known or not said.isdisjoint(self.new):
            return False
        return all(_source(slot) != _source(only) for only in self.only for slot in said - {only})


@dataclass(frozen=True, slots=True)
class Situation:
    """What two people may talk about."""

    name: str
    roles: tuple[str, ...]  # what the two are to each other; empty for friends
    openings: tuple[tuple[DialogueLine, ...], ...]
    exchanges: tuple[tuple[float, Exchange], ...]  # weighted


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance with its act (1-4) and emotion (0-6)."""

    text: str
    act: int
    emotion: int


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A conversation, who held it in which manners, and the facts that were drawn for it; the first speaker begins."""

    situation: Situation
    speakers: tuple[Person, Person]
    manners: tuple[str, str]
    facts: Mapping[str, str]
    turns: tuple[Turn, ...]


# --- reading dialogues.toml ------------------------------------------------------------------------------------------


def parse_text(source: str) -> Text:
    """Parse a text with {slots}, one|other, and (one|other) within a text."""
    options, _ = _options(re.split(r"(\{(?:a )?[\^=]?[a-z]\w*\}|[(|)])", source), 0)
    return options[0] if len(options) == 1 else (DialogueChoice(tuple(options)),)


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
            mark = name[0] if name[0] in "^=" else ""
            options[-1].append(DialogueSlot(name.removeprefix(mark), article == "a", mark))
        elif token:
            options[-1].append(token)
        position += 1
    return [tuple(option) for option in options], 0


def _line(source: str, where: str) -> DialogueLine:
    found = re.fullmatch(r"([.?!+])([adfhsu])? (.+)", source.strip())
    if not found:
        raise DataError(f"{HERE / 'dialogues.toml'}: in {where}, not a line: {source!r}. See the notes on top of it.")
    act, emotion, text = found.groups()
    parsed = parse_text(text)
    for slot in _slots(parsed):
        if not _is_known(slot.name):
            raise DataError(
                f"{HERE / 'dialogues.toml'}: in {where}, {{{slot.name}}} is neither a fact nor a word list."
            )
    return DialogueLine(ACTS[act], EMOTIONS.get(emotion, 0), parsed)


def _blocks(source: str, where: str) -> Iterator[tuple[DialogueLine, ...]]:
    for block in source.strip().split("\n\n"):
        lines = tuple(_line(line, where) for line in block.splitlines())
        if len(lines) % 2:
            raise DataError(
                f"{HERE / 'dialogues.toml'}: in {where}, a reply is missing after {block.splitlines()[0]!r}."
            )
        yield lines


def _slots(text: Text) -> Iterator[DialogueSlot]:
    for piece in text:
        if isinstance(piece, DialogueSlot):
            yield piece
        elif isinstance(piece, DialogueChoice):
            for option in piece.options:
                yield from _slots(option)


def _is_known(slot: str) -> bool:
    return _of_speaker(slot) or _kind(slot) in _fact_sources() or _kind(slot) in _words()


def _of_speaker(slot: str) -> bool:
    return slot.partition("_")[0] in SIDES or slot in next(iter(_manners().values()))


def _kind(slot: str) -> str:
    """Return the source of a slot: "day" for "day2", "price" for "price_offer"."""
    return slot.partition("_")[0].rstrip("0123456789")


def _source(slot: str) -> str:
    """Return what facts of one kind share: "@day" for "day" and "busy"."""
    return _fact_sources().get(_kind(slot), slot)


def _told(slot: str) -> str:
    """Return what has been told when a slot was said: a person is told by any name."""
    name, _, form = slot.partition("_")
    return name if form in PERSONAL else slot


@cache
def _words() -> dict[str, tuple[str, ...]]:
    return {name: tuple(text.split("|")) for name, text in read_toml(HERE / "dialogues.toml")["words"].items()}


@cache
def _fact_sources() -> dict[str, str]:
    sources: dict[str, str] = read_toml(HERE / "dialogues.toml")["facts"]
    return sources


@cache
def _manners() -> dict[str, dict[str, str]]:
    manners: dict[str, dict[str, str]] = read_toml(HERE / "dialogues.toml")["manners"]
    return manners


def _exchange(lines: tuple[DialogueLine, ...]) -> Exchange:
    slots = [slot for line in lines for slot in _slots(line.text) if not _of_speaker(slot.name)]
    new = {_told(slot.name) for slot in slots if slot.mark == "^"}
    only = {_told(slot.name) for slot in slots if slot.mark == "="}
    known = {_told(slot.name) for slot in slots} - new
    for slot, needs in DERIVED.items():
        if slot in known:
            known = (known - {slot}) | set(needs)
    first, reply = lines
    return Exchange((first, reply), frozenset(known - new), frozenset(new), frozenset(only))


def _exchanges(table: Mapping[str, str], name: str, usual: float) -> Iterator[tuple[float, Exchange]]:
    for key, weight in (("contrast", CONTRASTED), ("then", usual)):
        if key in table:
            yield from ((weight, _exchange(lines)) for lines in _blocks(table[key], name))


@cache
def load_situations() -> tuple[Situation, ...]:
    """Read `dialogues.toml`.

    Raises:
        DataError: A line cannot be parsed, has no reply or uses a fact that does not exist.
    """
    data = read_toml(HERE / "dialogues.toml")
    situations = []
    for name, table in data.items():
        if "open" not in table:
            continue
        exchanges = [*_exchanges(table, name, OWN)]
        for kind in table["shared"]:
            exchanges += _exchanges(data[kind], kind, SHARED)
        openings = tuple(_blocks(table["open"], name))
        situations.append(Situation(name, tuple(table.get("roles", ())), openings, tuple(exchanges)))
    return tuple(situations)


# --- talking ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Talk:
    """What has been drawn and said so far."""

    dice: Dice
    world: World
    taken: set[str]
    facts: dict[str, str] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)


def draw_dialogue(dice: Dice, revision: str, lengths: Sequence[int] = LENGTHS) -> Dialogue:
    """Draw a conversation of 6 or 8 turns, or of one of these lengths."""
    world = load_world(revision)
    while True:
        situation = dice.pick(load_situations())
        speakers = _pair(dice, world)
        manners = dice.pick(tuple(_manners())), dice.pick(tuple(_manners()))
        talk = _Talk(dice, world, {word for speaker in speakers for word in (speaker.first, speaker.town)})
        sides = [_side(speakers[me], speakers[you], manners[me], situation) for me, you in ((0, 1), (1, 0))]
        turns = _turns(talk, situation, sides, dice.pick(lengths))
        if turns:
            return Dialogue(situation, speakers, manners, talk.facts, turns)


def _turns(talk: _Talk, situation: Situation, sides: list[dict[str, str]], length: int) -> tuple[Turn, ...] | None:
    """Say an opening and exchanges; None if too few of them fit what was said."""
    turns: list[Turn] = []
    lines: Sequence[DialogueLine] = talk.dice.pick(situation.openings)
    left = list(situation.exchanges)
    while True:
        for line in lines:
            text = _sentences(_say(talk, line.text, sides[len(turns) % 2]))
            turns.append(Turn(text, line.act, line.emotion))
        if len(turns) >= length:
            return tuple(turns)
        fitting = [pair for pair in left if pair[1].fits(talk.said)]
        if not fitting:
            return None
        exchange = talk.dice.weighted(fitting)
        left = [pair for pair in left if pair[1] is not exchange]
        lines = exchange.lines


def _pair(dice: Dice, world: World) -> tuple[Person, Person]:
    while True:
        one, other = dice.pick(world.people), dice.pick(world.people)
        if one.first != other.first and one.family != other.family:
            return one, other


def _fact(talk: _Talk, slot: str) -> str:
    """Return a fact, drawn when it is first needed; no two facts of a conversation are the same."""
    if slot in talk.facts:
        return talk.facts[slot]
    name, kind = slot.partition("_")[0], _kind(slot)
    source, _, limits = _fact_sources().get(kind, "").removeprefix("@").partition(" ")
    while True:
        drawn = SOURCES[source](talk.dice, talk.world, limits) if source else {"": talk.dice.pick(_words()[kind])}
        if drawn[""] not in talk.taken:
            break
    talk.taken.add(drawn[""])
    talk.facts.update({f"{name}_{form}" if form else name: value for form, value in drawn.items()})
    return talk.facts[slot]


def _side(speaker: Person, listener: Person, manner: str, situation: Situation) -> dict[str, str]:
    """Return the words that depend on who speaks to whom, and how."""
    said = {"me": speaker.first, "you": listener.first, "sir": "sir" if listener.pronoun == "he" else "madam"}
    for key, person in (("my", speaker), ("your", listener)):
        said.update({f"{key}_{form}": value for form, value in about(person).items() if form})
    words = _manners()[manner]
    return {**said, **words, "tag": words["stranger" if situation.roles else "friend"].format(**said)}


def _say(talk: _Talk, text: Text, side: Mapping[str, str]) -> str:
    said = []
    for piece in text:
        if isinstance(piece, str):
            said.append(piece)
        elif isinstance(piece, DialogueChoice):
            said.append(_say(talk, talk.dice.favour(piece.options), side))
        else:
            word = side[piece.name] if piece.name in side else _fact(talk, piece.name)
            talk.said.add(_told(piece.name))
            said.append(with_article(word) if piece.article else word)
    return "".join(said)


def _sentences(text: str) -> str:
    """Return the text with a capital at the start of every sentence."""
    return re.sub(r"(?<=[.?!] )[a-z]", lambda found: found[0].upper(), capitalise(text))
