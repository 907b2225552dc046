"""World text as failing models write it: repeated, cut off, out of order, in fragments, in the wrong language.

Every way takes dice and a text, and returns a text that is no longer sound. What remains true of it is for the caller
to say: `WORTH` is the share of a candidate's value that a judge of likeness should leave it.
"""

import re
from collections.abc import Callable

from miniworld.chance import Dice

SMALL = frozenset(
    "a an the is are was were be been being has have had do does did in on at by with of to from into for and or but "
    "his her their its my your our it he she they i we you this that there who which will would not as".split()
)
"""Words that carry little; German ones are left alone."""
GLUE = (
    "The {0} of {1} is {2}.", "The {0} of {1} is {2} and {3}.", "{1} has the {0} {2}.", "{0} {1} is {2} and {3}.",
    "It is {0} and {1} and {2}.", "This is the {0}, the {1} and the {2}.", "There is {0} with {1} and {2} in {3}.",
)  # fmt: skip


def looped(dice: Dice, text: str) -> str:
    """Repeat one to four neighbouring words of the text until it is about as long as before, at least three times."""
    words = plain(text)
    start = int(dice.random() * len(words))
    piece = words[start : start + 1 + int(dice.random() * 4)]
    return " ".join(piece * max(3, len(words) // len(piece)))


def trailing(dice: Dice, text: str) -> str:
    """Keep the beginning and repeat its last words to the end."""
    words = plain(text)
    kept = words[: 1 + int(dice.random() * len(words))]
    piece = kept[-1 - int(dice.random() * 3) :]
    return " ".join([*kept, *piece * (2 + int(dice.random() * 4))])


def stuttered(dice: Dice, text: str) -> str:
    """Say some words in the middle twice or three times."""
    words = plain(text)
    start = int(dice.random() * len(words))
    end = start + 1 + int(dice.random() * 3)
    return " ".join([*words[:end], *words[start:end] * (1 + int(dice.random() * 2)), *words[end:]]) + "."


def cut(dice: Dice, text: str) -> str:
    """Keep the first words: at least one, and not the last."""
    words = plain(text)
    return " ".join(words[: 1 + int(dice.random() * max(len(words) - 1, 1))])


def shuffled(dice: Dice, text: str) -> str:
    """Put the words into a random order."""
    return " ".join(dice.shuffled(plain(text)))


def thinned(dice: Dice, text: str) -> str:
    """Leave out a third of the words; of two, one."""
    words = plain(text)
    gone = set(dice.sample(range(len(words)), max(len(words) // 3, min(len(words) - 1, 1))))
    return " ".join(word for index, word in enumerate(words) if index not in gone)


def bared(dice: Dice, text: str) -> str:
    """Leave the words that carry meaning, with nothing, commas or "and" between them."""
    return dice.pick((" ", ", ", " and ")).join(_weighty(text))


def glued(dice: Dice, text: str) -> str:
    """Put some of the words that carry meaning into a sentence that fits anything."""
    words = _weighty(text)
    frame = dice.pick(GLUE)
    said = [dice.pick(words) for _ in range(4)]
    return frame.format(*said)


def garbled(dice: Dice, text: str) -> str:
    """Spell the words backwards, as a language that no judge has read."""
    return " ".join(word[::-1].lower() for word in plain(text))


Way = Callable[[Dice, str], str]
WORTH: dict[Way, float] = {
    looped: 0.1, trailing: 0.3, stuttered: 0.7, shuffled: 0.2, thinned: 0.55, bared: 0.3, glued: 0.25,
    garbled: 0.0,
}  # fmt: skip
"""Way → share of its value that a damaged candidate keeps; a cut one keeps the share of its words."""
SENSELESS: tuple[Way, ...] = (looped, trailing, shuffled, bared, glued, garbled)
"""What says nothing any more, whatever was said."""


def senseless(dice: Dice, text: str) -> str:
    """Damage a text so that it says nothing any more."""
    return dice.pick(SENSELESS)(dice, text)


def plain(text: str) -> list[str]:
    """Return the words of a text without the signs that end sentences, at least one."""
    return re.sub(r"[.!?\"„“]+(?= |$)", "", text).split() or ["the"]


def _weighty(text: str) -> list[str]:
    words = [word.strip(",;:") for word in plain(text)]
    return [word for word in words if word.lower() not in SMALL] or words
