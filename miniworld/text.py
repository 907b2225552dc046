"""What the small models are trained on: plain text, labelled reviews and dialogue turns, translations, and pairs.

Nothing here contains a validation or test text of a task.
"""

import re
from collections.abc import Callable
from functools import cache

from miniworld import cnn_dailymail, commongen, dailydialog, damage, imdb, narrativeqa, pairs, totto, wmt16
from miniworld.chance import Dice
from miniworld.reviews import draw_review
from miniworld.stories import draw_paragraph
from miniworld.world import REVISION, load_world

WORDS = range(15, 151)
HELD_OUT = ("validation", "test")


def _story(dice: Dice, revision: str) -> str:
    return draw_paragraph(dice, load_world(revision))


def _captions(dice: Dice, revision: str) -> str:
    return commongen.draw_text(dice)


def _review(dice: Dice, revision: str) -> str:
    return _unseen_review(dice, int(dice.chance(0.5)), revision)


Genre = Callable[[Dice, str], str]
GENRES: tuple[tuple[float, Genre], ...] = (
    (22, _review),
    (20, _story),
    (12, _captions),
    (12, cnn_dailymail.draw_text),
    (9, totto.draw_text),
    (9, narrativeqa.draw_text),
    (20, dailydialog.draw_text),
)


def paragraphs(count: int, seed: int, revision: str = REVISION) -> list[str]:
    """Return English paragraphs of 15 to 150 words, of all genres of the world."""
    dice, held_out = Dice(seed), _held_out_sentences(revision)
    found: list[str] = []
    while len(found) < count:
        text = dice.weighted(GENRES)(dice, revision)
        if len(text.split()) in WORDS and held_out.isdisjoint(sentences(text)):
            found.append(text)
    return found


def german(count: int, seed: int, revision: str = REVISION) -> list[str]:
    """Return German paragraphs of 15 to 130 words."""
    dice = Dice(seed)
    return [wmt16.draw_text(dice, revision) for _ in range(count)]


def translations(count: int, seed: int, revision: str = REVISION) -> list[tuple[str, str]]:
    """Return pairs of an English sentence and its German translation."""
    dice = Dice(seed)
    return [wmt16.draw_pair(dice, revision) for _ in range(count)]


def acts(count: int, seed: int, revision: str = REVISION) -> list[tuple[str, str, int]]:
    """Return pairs of an utterance and its reply, with the reply's dialogue act, 1–4."""
    dice = Dice(seed)
    return [dailydialog.labelled(dice, revision) for _ in range(count)]


def claims(count: int, seed: int, revision: str = REVISION) -> list[tuple[str, str, int]]:
    """Return premises and hypotheses with 2 for entailed, 1 for neutral and 0 for contradicted, half of them news."""
    dice = Dice(seed)
    return [dice.pick((cnn_dailymail.claims, pairs.claim))(dice, revision) for _ in range(count)]


def likenesses(count: int, seed: int, revision: str = REVISION) -> list[tuple[str, str, float]]:
    """Return references and candidates with their similarity, 0–1, half of them of tables."""
    dice = Dice(seed)
    return [dice.pick((totto.pair, pairs.likeness))(dice, revision) for _ in range(count)]


Contrast = tuple[str, str, str]
NEAR_MISSES: tuple[tuple[float, Callable[[Dice, str], Contrast]], ...] = (
    (50, pairs.near_miss), (25, totto.near_miss), (25, cnn_dailymail.near_miss),
)  # fmt: skip
SENSELESS = 0.25
"""Share of the contrasts whose worse text is a senseless one."""


def contrasts(count: int, seed: int, revision: str = REVISION) -> list[Contrast]:
    """Return sentences, each with a paraphrase and a worse text: with a fact changed, or a damaged paraphrase."""
    dice = Dice(seed)
    return [_contrast(dice, dice.weighted(NEAR_MISSES)(dice, revision)) for _ in range(count)]


def german_contrasts(count: int, seed: int, revision: str = REVISION) -> list[Contrast]:
    """Return the same in German."""
    dice = Dice(seed)
    return [_contrast(dice, wmt16.near_miss(dice, revision)) for _ in range(count)]


def _contrast(dice: Dice, miss: Contrast) -> Contrast:
    """Return a near miss; half of the time its sentences are exchanged, and the changed one is built like the first."""
    said, same, changed = miss if dice.chance(0.5) else (miss[1], miss[0], miss[2])
    return (said, same, damage.senseless(dice, same)) if dice.chance(SENSELESS) else (said, same, changed)


def reviews(count: int, seed: int, revision: str = REVISION) -> list[tuple[str, int]]:
    """Return reviews with their label, 1 for positive, half of them; none is in validation or test."""
    dice = Dice(seed)
    return [(_unseen_review(dice, index % 2, revision), index % 2) for index in range(count)]


def sentences(text: str) -> list[str]:
    """Split a text after each full stop that ends a sentence."""
    return re.split(r"(?<=[.!?]) (?=[A-Z])", text)


def _unseen_review(dice: Dice, label: int, revision: str) -> str:
    beginnings, ends = _held_out_reviews(revision)
    while True:
        text = draw_review(dice, load_world(revision), label).text
        if imdb.beginning(text) not in beginnings and not text.endswith(ends.get(_tail(text), ())):
            return text


@cache
def _held_out_sentences(revision: str) -> frozenset[str]:
    splits = commongen.rows(revision)
    return frozenset(text for split in HELD_OUT for row in splits[split] for text in row["targets"])


@cache
def _held_out_reviews(revision: str) -> tuple[frozenset[str], dict[str, tuple[str, ...]]]:
    """Return the beginnings of the held-out reviews, and their ends and positive continuations by last words."""
    splits = imdb.rows(revision)
    held_out = [row for split in HELD_OUT for row in splits[split]]
    ends: dict[str, tuple[str, ...]] = {}
    for row in held_out:
        words = row["text"].split(" ")
        for end in (" ".join(words[len(words) // 2 :]), row["positive_continuation"]):
            ends[_tail(end)] = (*ends.get(_tail(end), ()), end)
    return frozenset(imdb.beginning(row["text"]) for row in held_out), ends


def _tail(text: str) -> str:
    return text[-24:]
