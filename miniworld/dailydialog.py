"""DailyDialog in the mini world: conversations of two people, their acts and emotions."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from grue.files import read_toml
from miniworld.chance import Dice
from miniworld.lexicon import HERE, capitalise, with_article
from miniworld.occasions import DAYS
from miniworld.talk import Dialogue, Turn, draw_dialogue
from miniworld.world import SEEDS, load_world

SPLITS = {"train": 2000, "validation": 200, "test": 400}  # examples: utterances with at least five before them
OFFSET = 6
CONTEXT = 5
EXAMPLES = ((5, 1), (5, 2), (5, 3), (3, 4))  # weights of how many a conversation gives
WORDS = range(40, 131)
TURNS = (4, 5, 6, 7, 8)  # utterances of a conversation in plain text
Window = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """Contexts, utterances and words of the splits drawn so far."""

    windows: set[Window]
    utterances: set[str]
    words: set[str]


@cache
def rows(revision: str) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return the rows of every split: dialog, act (1-4) and emotion (0-6), one entry an utterance.

    Conversations are drawn until a split has its number of examples. No context of an example occurs twice; no target
    of validation or test occurs in an earlier split, but all of its words occur in training.
    """
    dice = Dice(SEEDS[revision] + OFFSET)
    seen = Seen(set(), set(), set())
    splits: dict[str, tuple[dict[str, Any], ...]] = {}
    for split, count in SPLITS.items():
        drawn: list[tuple[Turn, ...]] = []
        while count:
            examples = min(count, dice.weighted(EXAMPLES))
            turns = _draw_new(dice, revision, CONTEXT + examples, seen, held_out=split != "train")
            seen.windows.update(windows(turns))
            drawn.append(turns)
            count -= examples
        seen.utterances.update(turn.text for turns in drawn for turn in turns)
        if split == "train":
            seen.words.update(word for text in seen.utterances for word in _words(text))
        splits[split] = tuple(_row(turns) for turns in drawn)
    return splits


def windows(turns: tuple[Turn, ...]) -> list[Window]:
    """Return the five utterances before each target."""
    return [tuple(turn.text for turn in turns[end - CONTEXT : end]) for end in range(CONTEXT, len(turns))]


def _draw_new(dice: Dice, revision: str, length: int, seen: Seen, held_out: bool) -> tuple[Turn, ...]:
    """Draw a new conversation; its length is drawn first, so that new ones are not mostly short."""
    while True:
        turns = draw_dialogue(dice, revision, range(length, length + 1)).turns
        if _is_new(turns, seen, held_out):
            return turns


def _words(text: str) -> list[str]:
    return re.findall(r"[\w'-]+", text.lower())


def _is_new(turns: tuple[Turn, ...], seen: Seen, held_out: bool) -> bool:
    if not seen.windows.isdisjoint(windows(turns)):
        return False
    if not held_out:
        return True
    written = [turn.text for turn in turns[CONTEXT:]]
    words = [word for turn in turns for word in _words(turn.text)]
    return seen.utterances.isdisjoint(written) and seen.words.issuperset(words)


def _row(turns: tuple[Turn, ...]) -> dict[str, Any]:
    return {
        "dialog": [turn.text for turn in turns],
        "act": [turn.act for turn in turns],
        "emotion": [turn.emotion for turn in turns],
    }


# --- plain text ------------------------------------------------------------------------------------------------------


@cache
def _held_out(revision: str) -> frozenset[str]:
    """Return the targets of validation and test."""
    splits = rows(revision)
    return frozenset(
        text for split in ("validation", "test") for row in splits[split] for text in row["dialog"][CONTEXT:]
    )


def _unseen(dice: Dice, revision: str) -> Dialogue:
    """Draw a conversation without any target of validation or test."""
    held_out = _held_out(revision)
    while True:
        dialogue = draw_dialogue(dice, revision)
        if held_out.isdisjoint(turn.text for turn in dialogue.turns):
            return dialogue


def draw_text(dice: Dice, revision: str) -> str:
    """Draw a conversation of 40 to 130 words: half of them in prose as in a novel, half as lines of a chat."""
    tell = _chat if dice.chance(0.5) else _novel
    while True:
        text = tell(dice, _unseen(dice, revision), revision)
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
