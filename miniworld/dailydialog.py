"""DailyDialog in the mini world: conversations of two people, their acts and emotions."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from grue.files import read_toml
from miniworld.chance import Dice
from miniworld.lexicon import HERE, capitalise, with_article
from miniworld.occasions import DAYS
from miniworld.settled import Settled, mentioned, settled
from miniworld.talk import PERSONAL, Dialogue, Turn, draw_dialogue
from miniworld.world import SEEDS, load_world

# In examples: utterances with at least five before them.
SPLITS = {"train": 8000, "validation": 500, "test": 1000, "rl": 3000}
OFFSET = 6
CONTEXT = 5
EXAMPLES = ((4, 1), (1, 3))  # weights of how many a conversation gives
HELD_OUT = 5  # one in so many pairs of a situation and a word is for validation and test alone
CROSSED = 2  # such pairs in every conversation of validation and test
WORDS = range(40, 131)
TURNS = (4, 5, 6, 7, 8)  # utterances of a conversation in plain text
Window = tuple[str, ...]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """Contexts, utterances and words of the splits drawn so far; the words are those of training."""

    windows: set[Window]
    utterances: set[str]
    words: set[str]


@cache
def rows(revision: str) -> dict[str, tuple[Row, ...]]:
    """Return the rows of every split: dialog, act (1-4) and emotion (0-6), one entry an utterance.

    No context of an example occurs twice; no target of validation or test occurs in an earlier split, but all of its
    words occur in training. Every conversation of validation and test puts at least two words into a situation, or
    gives it a manner of talking, in which training never has them (`held_out`).
    """
    return _splits(revision)[0]


def held_back(revision: str, seed: int, count: int) -> tuple[Row, ...]:
    """Return a fresh test split of `count` examples, without anything that the shipped splits ask for."""
    seen = _splits(revision)[1]
    copy = Seen(set(seen.windows), set(seen.utterances), seen.words)
    return _draw_split(Dice(seed), revision, count, copy, trained=False)


@cache
def _splits(revision: str) -> tuple[dict[str, tuple[Row, ...]], Seen]:
    dice = Dice(SEEDS[revision] + OFFSET)
    seen = Seen(set(), set(), set())
    splits: dict[str, tuple[Row, ...]] = {}
    for split, count in SPLITS.items():
        splits[split] = _draw_split(dice, revision, count, seen, trained=split == "train")
        if split == "train":
            seen.words.update(word for text in seen.utterances for word in _words(text))
    return splits, seen


def _draw_split(dice: Dice, revision: str, count: int, seen: Seen, trained: bool) -> tuple[Row, ...]:
    """Draw conversations with that many examples in all, and add them to what has been seen."""
    drawn: list[Dialogue] = []
    while count:
        examples = dice.weighted(EXAMPLES) if count > 2 else 1
        dialogue = _draw_new(dice, revision, CONTEXT + examples, seen, trained)
        seen.windows.update(windows(dialogue.turns))
        drawn.append(dialogue)
        count -= examples
    seen.utterances.update(turn.text for dialogue in drawn for turn in dialogue.turns)
    return tuple(map(_row, drawn))


def windows(turns: tuple[Turn, ...]) -> list[Window]:
    """Return the five utterances before each target."""
    return [tuple(turn.text for turn in turns[end - CONTEXT : end]) for end in range(CONTEXT, len(turns))]


def held_out(dialogue: Dialogue) -> int:
    """Return how many words and manners of a conversation its situation has in validation and test alone."""
    drawn = {value for name, value in dialogue.facts.items() if "_" not in name}
    pairs = (f"{dialogue.situation.name} {word}" for word in (*drawn, *dialogue.manners))
    return sum(sum(map(ord, pair)) % HELD_OUT == 0 for pair in pairs)


def _draw_new(dice: Dice, revision: str, length: int, seen: Seen, trained: bool) -> Dialogue:
    """Draw a new conversation; its length is drawn first, so that new ones are not mostly short."""
    while True:
        dialogue = draw_dialogue(dice, revision, (length,))
        crossed = held_out(dialogue)
        if (crossed == 0 if trained else crossed >= CROSSED) and _is_new(dialogue.turns, seen, trained):
            return dialogue


def _words(text: str) -> list[str]:
    return re.findall(r"[\w'-]+", text.lower())


def _is_new(turns: tuple[Turn, ...], seen: Seen, trained: bool) -> bool:
    if not seen.windows.isdisjoint(windows(turns)):
        return False
    if trained:
        return True
    written = [turn.text for turn in turns[CONTEXT:]]
    words = [word for turn in turns for word in _words(turn.text)]
    return seen.utterances.isdisjoint(written) and seen.words.issuperset(words)


def _row(dialogue: Dialogue) -> Row:
    utterances = [turn.text for turn in dialogue.turns]
    return {
        "dialog": utterances,
        "act": [turn.act for turn in dialogue.turns],
        "emotion": [turn.emotion for turn in dialogue.turns],
        "facts": [
            _settled(dialogue, utterances[end - CONTEXT : end], utterances[end]) if end >= CONTEXT else None
            for end in range(len(utterances))
        ],
    }


def _settled(dialogue: Dialogue, context: list[str], utterance: str) -> Settled:
    """Return the facts of the context that an utterance repeats; the context's others are wrong in its place."""
    values = [value.lower() for slot, value in dialogue.facts.items() if slot.rpartition("_")[2] not in PERSONAL]
    known, repeated = mentioned("\n".join(context), values), mentioned(utterance, values)
    return settled(
        [[value] for value in values if value in known & repeated],
        [value for value in values if value in known - repeated],
        closed=False,
    )


# --- plain text ------------------------------------------------------------------------------------------------------


@cache
def _targets(revision: str) -> frozenset[str]:
    """Return the targets of validation and test."""
    splits = rows(revision)
    return frozenset(
        text for split in ("validation", "test") for row in splits[split] for text in row["dialog"][CONTEXT:]
    )


def _unseen(dice: Dice, revision: str) -> Dialogue:
    """Draw a conversation without any target of validation or test."""
    targets = _targets(revision)
    while True:
        dialogue = draw_dialogue(dice, revision)
        if targets.isdisjoint(turn.text for turn in dialogue.turns):
            return dialogue


def _trainable(dice: Dice, revision: str) -> Dialogue:
    """Draw a conversation as training may have it."""
    while True:
        dialogue = _unseen(dice, revision)
        if not held_out(dialogue):
            return dialogue


def draw_text(dice: Dice, revision: str) -> str:
    """Draw a conversation of 40 to 130 words: half of them in prose as in a novel, half as lines of a chat."""
    tell = _chat if dice.chance(0.5) else _novel
    while True:
        text = tell(dice, _trainable(dice, revision), revision)
        if len(text.split()) in WORDS:
            return text


def labelled(dice: Dice, revision: str) -> tuple[str, str, int]:
    """Draw an utterance with the one before it and its act, 1 to 4; never a target of validation or test."""
    turns = _unseen(dice, revision).turns
    place = 1 + int(dice.random() * (len(turns) - 1))
    return turns[place - 1].text, turns[place].text, turns[place].act


def _chat(dice: Dice, dialogue: Dialogue, revision: str) -> str:
    count = min(dice.pick(TURNS), len(dialogue.turns))
    first = int(dice.random() * (len(dialogue.turns) - count + 1))
    return " <EOU> ".join(turn.text for turn in dialogue.turns[first : first + count])


@cache
def _novel_lines() -> dict[str, Any]:
    lines: dict[str, Any] = read_toml(HERE / "dialogues.toml")["novel"]
    return lines


def _novel(dice: Dice, dialogue: Dialogue, revision: str) -> str:
    """Write a conversation with quotation marks, sometimes with who speaks and what happens meanwhile."""
    lines, roles, speakers = _novel_lines(), dialogue.situation.roles, dialogue.speakers
    world = load_world(revision)
    names = [f"the {role}" for role in roles] or [speaker.first for speaker in speakers]
    his = ["his" if speaker.pronoun == "he" else "her" for speaker in speakers]
    sentences = []
    if dice.chance(0.8):
        opening = dice.pick(lines["strangers" if roles else "friends"]).format(
            one=roles[0] if roles else names[0], two=roles[1] if roles else names[1], one_full=speakers[0].name,
            one_job=with_article(speakers[0].job.lemma), day=dice.pick(DAYS), town=dice.pick(world.towns).name,
            place=dice.pick(lines["places"]), his=his[0],
        )  # fmt: skip
        sentences.append(opening)
    for index, turn in enumerate(dialogue.turns[: dice.pick(TURNS)]):
        one, two = names[index % 2], names[1 - index % 2]
        if index and dice.chance(0.12):
            sentences.append(capitalise(dice.pick(lines["beats"]).format(one=one, two=two, his=his[index % 2])))
        verb = dice.pick(lines["said"][str(turn.act)].split("|")).format(other=two) if index else "said"
        tagged = index < 2 or dice.chance(0.45)
        sentences.append(_quoted(dice, turn.text, one, verb) if tagged else f'"{turn.text}"')
    return " ".join(sentences)


def _quoted(dice: Dice, text: str, speaker: str, verb: str) -> str:
    """Quote an utterance, with its speaker after its first sentence or at its end."""
    parts = re.split(r"(?<=[.!?]) (?=[A-Z])", text) if not re.search(r"Mrs?\. ", text) else [text]
    here = 1 if len(parts) > 1 and dice.chance(0.5) else len(parts)
    first, rest = " ".join(parts[:here]), " ".join(parts[here:])
    verb = "asked" if first.endswith("?") and verb == "said" else verb
    verb = "said" if not first.endswith("?") and verb in ("asked", "wanted to know") else verb
    first = first[:-1] + "," if first.endswith(".") else first
    inverted = f"{verb} {speaker}" if " " not in verb and dice.chance(0.6) else f"{speaker} {verb}"
    return f'"{first}" {inverted}.' + (f' "{rest}"' if rest else "")
