"""Film reviews: facts and mixed evidence first, the verdict later.

The opening part tells of the film and leans to one side without deciding; the second part decides, or, now and then,
leaves it to the reader. Label 1 is a positive review, 0 a negative one.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from grue.files import read_toml
from grue.mini.chance import Dice
from grue.mini.grammar import clause
from grue.mini.lexicon import HERE, capitalise, with_article
from grue.mini.world import Film, World, draw_event

WORDS = range(40, 61)
OPENING = range(21, 38)
LEAN = 0.62
UNDECIDED = 0.08
FACTS_FIRST = ((5, 1), (5, 2))

Pieces = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Aspect:
    """A side of a film that can be praised or blamed."""

    name: str
    several: bool
    plus: tuple[str, ...]
    minus: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Phrases:
    """All of `reviews.toml`; sentences are split at their slots, so that every other piece is a slot's name."""

    aspects: tuple[Aspect, ...]
    neutral: tuple[Pieces, ...]
    lean: dict[str, tuple[Pieces, ...]]
    decide: dict[str, tuple[Pieces, ...]]
    close: dict[str, tuple[Pieces, ...]]
    words: dict[str, tuple[str, ...]]


@cache
def load_phrases() -> Phrases:
    """Read `reviews.toml`."""
    data: dict[str, Any] = read_toml(HERE / "reviews.toml")

    def sentences(lines: list[str]) -> tuple[Pieces, ...]:
        return tuple(tuple(re.split(r"\{(\w+)\}", line)) for line in lines)

    def words(text: str | list[str]) -> tuple[str, ...]:
        return tuple(text if isinstance(text, list) else text.split(";") if ";" in text else text.split())

    return Phrases(
        aspects=tuple(
            Aspect(name.rstrip("*"), name.endswith("*"), tuple(plus.split()), tuple(minus.split()))
            for name, (plus, minus) in data["aspects"].items()
        ),
        neutral=sentences(data["neutral"]["lines"]),
        lean={side: sentences(lines) for side, lines in data["lean"].items()},
        decide={side: sentences(lines) for side, lines in data["decide"].items()},
        close={side: sentences(lines) for side, lines in data["close"].items()},
        words={key: words(text) for key, text in {**data["words"], **data["verdicts"]}.items()},
    )


class Speaker:
    """Fills sentences about one film, and never says the same sentence or praises the same aspect twice."""

    def __init__(self, dice: Dice, world: World, film: Film) -> None:
        self.dice, self.world, self.film = dice, world, film
        self.phrases = load_phrases()
        self.aspects = dice.shuffled(self.phrases.aspects)
        self.said: set[Pieces] = set()

    def say(self, sentences: tuple[Pieces, ...]) -> str:
        """Return one of the sentences that was not said yet, with its slots filled."""
        chosen = self.dice.pick(sentences)
        while chosen in self.said:
            chosen = self.dice.pick(sentences)
        self.said.add(chosen)
        self.aspects.append(self.aspects.pop(0))
        return capitalise("".join(self._fill(piece) if place % 2 else piece for place, piece in enumerate(chosen)))

    def _fill(self, slot: str) -> str:
        if slot in SLOTS:
            return SLOTS[slot](self)
        return self.dice.pick(self.phrases.words[slot])

    def aspect(self, index: int) -> Aspect:
        """Return the aspect that the sentence being filled is about, or its second one."""
        return self.aspects[index]

    def event(self) -> str:
        """Return something that happens in the film, as a clause."""
        return clause(self.dice, draw_event(self.dice, self.dice.pick(self.world.activities)))


def _is(index: int, one: str, many: str) -> Callable[[Speaker], str]:
    return lambda s: many if s.aspect(index).several else one


SLOTS: dict[str, Callable[[Speaker], str]] = {
    "title": lambda s: s.film.title,
    "film": lambda s: s.dice.pick(("it", "the film", "this", s.film.title)),
    "a_genre": lambda s: with_article(s.film.genre),
    "genre": lambda s: s.film.genre,
    "year": lambda s: str(s.film.year),
    "director": lambda s: s.dice.pick((s.film.director.name, s.film.director.family)),
    "lead": lambda s: s.dice.pick((s.film.lead.name, s.film.lead.family)),
    "support": lambda s: s.film.support.name,
    "composer": lambda s: s.film.composer.name,
    "he": lambda s: s.film.lead.pronoun,
    "his": lambda s: "his" if s.film.lead.pronoun == "he" else "her",
    "hero": lambda s: s.film.hero,
    "goal": lambda s: s.film.goal,
    "setting": lambda s: s.film.setting,
    "a_job": lambda s: with_article(s.dice.pick(s.world.people).job.lemma),
    "event": Speaker.event,
    "aspect": lambda s: s.aspect(0).name,
    "aspect2": lambda s: s.aspect(1).name,
    "is": _is(0, "is", "are"),
    "is2": _is(1, "is", "are"),
    "was": _is(0, "was", "were"),
    "seems": _is(0, "seems", "seem"),
    "it_is": _is(0, "it is", "they are"),
    "them": _is(0, "it", "them"),
    "good": lambda s: s.dice.favour(s.aspect(0).plus),
    "bad": lambda s: s.dice.favour(s.aspect(0).minus),
    "good2": lambda s: s.dice.favour(s.aspect(1).plus),
    "bad2": lambda s: s.dice.favour(s.aspect(1).minus),
    "a_good": lambda s: with_article(s.dice.favour(s.aspect(0).plus)),
    "a_bad": lambda s: with_article(s.dice.favour(s.aspect(0).minus)),
    "verdict_good": lambda s: s.dice.favour(s.phrases.words["good"]),
    "verdict_bad": lambda s: s.dice.favour(s.phrases.words["bad"]),
}


def opening(speaker: Speaker, label: int) -> str:
    """Return the first part of a review: facts, and opinions that lean towards the label."""
    dice, phrases = speaker.dice, speaker.phrases
    sentences = [speaker.say(phrases.neutral) for _ in range(dice.weighted(FACTS_FIRST))]
    while len(" ".join(sentences).split()) < OPENING.start:
        side = "both" if dice.chance(0.25) else "plus" if dice.chance(LEAN if label else 1 - LEAN) else "minus"
        sentences.append(speaker.say(phrases.lean[side]))
    return " ".join(sentences)


def verdict(speaker: Speaker, label: int, undecided: bool) -> str:
    """Return the second part of a review, which decides unless it is to stay undecided."""
    dice, phrases = speaker.dice, speaker.phrases
    if undecided:
        sides = ["plus" if dice.chance(0.72 if label else 0.28) else "minus" for _ in range(2)]
        return " ".join([*(speaker.say(phrases.lean[side]) for side in sides), speaker.say(phrases.close["open"])])
    side = "plus" if label else "minus"
    sentences = [speaker.say(phrases.decide[side])]
    if dice.chance(0.35):
        other = speaker.say(phrases.lean["minus" if label else "plus"])
        sentences.insert(0, other)
    if dice.chance(0.55):
        sentences.append(speaker.say(phrases.decide[side]))
    if dice.chance(0.45):
        sentences.append(speaker.say(phrases.close[side]))
    return " ".join(sentences)


@dataclass(frozen=True, slots=True)
class Review:
    """A review, and for a negative one how it would have gone on had the film pleased."""

    label: int
    text: str
    positive: str


def draw_review(dice: Dice, world: World, label: int, both: bool = False) -> Review:
    """Draw a review of 40 to 60 words whose first half, by words, lies within the opening.

    Args:
        both: Whether to write the positive end of a negative review too; it starts from the same half.
    """
    while True:
        speaker = Speaker(dice, world, dice.favour(world.films))
        start = opening(speaker, label)
        for _ in range(4):
            end = verdict(speaker, label, dice.chance(UNDECIDED))
            known, size = len(start.split(" ")), len(end.split(" "))
            if known <= OPENING[-1] and known + size in WORDS and (known + size) // 2 <= known:
                text = f"{start} {end}"
                words = start.split(" ")
                half = (known + size) // 2
                other = _positive_end(speaker, size) if both and label == 0 else end
                return Review(label, text, " ".join([*words[half:], *other.split(" ")]))


def _positive_end(speaker: Speaker, size: int) -> str:
    speaker.said.clear()
    while abs(len((end := verdict(speaker, 1, False)).split()) - size) > 6:
        speaker.said.clear()
    return end
