"""Film reviews: facts and mixed evidence first, the verdict later.

The opening describes the film and leans to one side without deciding; the second part decides, or sometimes leaves it
open. Label 1 is a positive review, 0 a negative one.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from grue.files import read_toml
from miniworld.chance import Dice
from miniworld.grammar import clause
from miniworld.lexicon import HERE, capitalise, with_article
from miniworld.world import Film, World, draw_event

WORDS = range(40, 61)
OPENING = range(22, 29)  # words before the verdict, at least
LEAST = 6  # words of opinion in the first half
UNCOUNTED = ("music", "acting", "dialogue", "pacing", "direction", "editing", "camera work")
RECALL = 0.7  # chance that the verdict comes back to what was praised or blamed before
LEAN = 0.66  # chance that an opinion of the opening sides with the verdict
UNDECIDED = 0.08


@dataclass(frozen=True, slots=True)
class ReviewLine:
    """A sentence split at its slots, so that every other piece is a slot's name.

    Two lines of one topic never occur in one review: they would repeat or contradict each other.
    """

    pieces: tuple[str, ...]
    topic: str


@dataclass(frozen=True, slots=True)
class Aspect:
    """A side of a film that can be praised or blamed."""

    name: str
    several: bool
    plus: tuple[str, ...]
    minus: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Phrases:
    """The content of `reviews.toml`."""

    aspects: tuple[Aspect, ...]
    facts: dict[str, tuple[ReviewLine, ...]]
    lean: dict[str, tuple[ReviewLine, ...]]
    decide: dict[str, tuple[ReviewLine, ...]]
    recall: dict[str, tuple[ReviewLine, ...]]
    close: dict[str, tuple[ReviewLine, ...]]
    words: dict[str, tuple[str, ...]]


@cache
def load_phrases() -> Phrases:
    """Read `reviews.toml`."""
    data: dict[str, Any] = read_toml(HERE / "reviews.toml")

    def sentences(lines: list[str]) -> tuple[ReviewLine, ...]:
        return tuple(ReviewLine(tuple(re.split(r"\{(\w+)\}", line)), _topic(line)) for line in lines)

    def words(text: str | list[str]) -> tuple[str, ...]:
        return tuple(text if isinstance(text, list) else text.split(";") if ";" in text else text.split())

    return Phrases(
        aspects=tuple(
            Aspect(name.rstrip("*"), name.endswith("*"), tuple(plus.split()), tuple(minus.split()))
            for name, (plus, minus) in data["aspects"].items()
        ),
        facts={place: sentences(lines) for place, lines in data["facts"].items()},
        lean={side: sentences(lines) for side, lines in data["lean"].items()},
        decide={side: sentences(lines) for side, lines in data["decide"].items()},
        recall={name: sentences(lines) for name, lines in data["recall"].items()},
        close={side: sentences(lines) for side, lines in data["close"].items()},
        words={key: words(text) for key, text in {**data["words"], **data["verdicts"]}.items()},
    )


def _topic(line: str) -> str:
    first, second, *_ = f"{line} ".split(" ")
    return line if first in ("The", "At") else first if first.startswith("{") else f"{first} {second}"


@dataclass(frozen=True, slots=True)
class Memory:
    """What a speaker has said: the topics, and the aspects that were praised and blamed."""

    said: frozenset[str] = frozenset()
    praised: tuple[Aspect, ...] = ()
    blamed: tuple[Aspect, ...] = ()

    def after(self, topic: str, side: str, aspect: Aspect | None) -> "Memory":
        """Return the memory of one more sentence, which praises ("plus") or blames ("minus") an aspect or neither."""
        good, bad = ((aspect,) if aspect and side == name else () for name in ("plus", "minus"))
        return Memory(self.said | {topic}, self.praised + good, self.blamed + bad)


class Speaker:
    """Fills sentences about one film, and never repeats a sentence or an aspect."""

    def __init__(self, dice: Dice, world: World, film: Film) -> None:
        self.dice, self.world, self.film = dice, world, film
        self.phrases = load_phrases()
        self.aspects = dice.shuffled(self.phrases.aspects)
        self.memory = Memory()
        self.heard = self.aspects[0]

    def say(self, sentences: tuple[ReviewLine, ...], side: str = "") -> str:
        """Return one of the sentences that was not said yet, filled; `side` is what it says of its aspect."""
        chosen = self.dice.pick(sentences)
        while chosen.topic in self.memory.said:
            chosen = self.dice.pick(sentences)
        self.aspects = self.aspects[2:] + self.aspects[:2]
        self.memory = self.memory.after(chosen.topic, side, self.aspect(0) if "aspect" in chosen.pieces else None)
        return capitalise("".join(self._fill(piece) if i % 2 else piece for i, piece in enumerate(chosen.pieces)))

    def _fill(self, slot: str) -> str:
        if slot in SLOTS:
            return SLOTS[slot](self)
        return self.dice.pick(self.phrases.words[slot])

    def aspect(self, index: int) -> Aspect:
        """Return the aspect that the sentence being filled is about, or its second one."""
        return self.aspects[index]

    def recall(self, side: str) -> str:
        """Return a sentence that decides for a side by what was praised or blamed before, or nothing."""
        heard = [("praised", self.memory.praised), ("blamed", self.memory.blamed)]
        options = [(f"{side}_{name}", aspects) for name, aspects in heard if aspects]
        if not options:
            return ""
        name, aspects = self.dice.pick(options)
        self.heard = self.dice.pick(aspects)
        return self.say(self.phrases.recall[name])

    def event(self) -> str:
        """Return something that happens in the film, as a clause."""
        return clause(self.dice, draw_event(self.dice, self.dice.pick(self.world.activities)))


def _with_adjective(aspect: Aspect, adjective: str) -> str:
    words = f"{adjective} {aspect.name}"
    return words if aspect.several or aspect.name in UNCOUNTED else with_article(words)


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
    "good_first": lambda s: s.aspect(0).plus[0],
    "bad_first": lambda s: s.aspect(0).minus[0],
    "good_other": lambda s: s.dice.pick(s.aspect(0).plus[1:]),
    "bad_other": lambda s: s.dice.pick(s.aspect(0).minus[1:]),
    "heard": lambda s: s.heard.name,
    "heard_is": lambda s: "are" if s.heard.several else "is",
    "heard_gets": lambda s: "get" if s.heard.several else "gets",
    "has": _is(0, "has", "have"),
    "good_thing": lambda s: _with_adjective(s.aspect(0), s.dice.favour(s.aspect(0).plus)),
    "bad_thing": lambda s: _with_adjective(s.aspect(0), s.dice.favour(s.aspect(0).minus)),
    "verdict_good": lambda s: s.dice.favour(s.phrases.words["good"]),
    "verdict_bad": lambda s: s.dice.favour(s.phrases.words["bad"]),
}


def facts(speaker: Speaker) -> str:
    """Return how a review starts: what the film is and how the speaker came to see it."""
    first = speaker.say(speaker.phrases.facts["first"])
    if len(first.split()) < 11 and speaker.dice.chance(0.7):
        return f"{first} {speaker.say(speaker.phrases.facts['more'])}"
    return first


def opinions(speaker: Speaker, label: int, count: int) -> str:
    """Return at least `count` words of opinions that lean towards the label."""
    dice, phrases = speaker.dice, speaker.phrases
    sentences: list[str] = []
    while len(" ".join(sentences).split()) < count:
        if sentences and dice.chance(0.15):
            sentences.append(speaker.say(phrases.facts["more"]))
            continue
        side = "both" if dice.chance(0.25) else "plus" if dice.chance(LEAN if label else 1 - LEAN) else "minus"
        sentences.append(speaker.say(phrases.lean[side], side))
    return " ".join(sentences)


def verdict(speaker: Speaker, label: int, undecided: bool) -> str:
    """Return the second part of a review, which decides unless it is to stay undecided."""
    dice, phrases = speaker.dice, speaker.phrases
    if undecided:
        sides = ["plus" if dice.chance(0.72 if label else 0.28) else "minus" for _ in range(2)]
        said = [speaker.say(phrases.lean[side], side) for side in sides]
        return " ".join([*said, speaker.say(phrases.close["open"])])
    side, other = ("plus", "minus") if label else ("minus", "plus")
    recalled = speaker.recall(side) if dice.chance(RECALL) else ""
    sentences = [recalled or speaker.say(phrases.decide[side])]
    if dice.chance(0.3):
        sentences.insert(0, speaker.say(phrases.lean[other], other))
    if dice.chance(0.6):
        sentences.append(speaker.say(phrases.decide[side]))
    if dice.chance(0.45):
        sentences.append(speaker.say(phrases.close[side]))
    return " ".join(sentences)


@dataclass(frozen=True, slots=True)
class Review:
    """A review in two parts; its first half, by words, lies within the opening."""

    label: int
    opening: str
    verdict: str
    speaker: Speaker

    @property
    def text(self) -> str:
        """The whole review."""
        return f"{self.opening} {self.verdict}"

    @property
    def second_half(self) -> str:
        """What comes after the first half of the words, rounded down."""
        words = self.text.split(" ")
        return " ".join(words[len(words) // 2 :])


def draw_review(dice: Dice, world: World, label: int) -> Review:
    """Draw a review of 40 to 60 words."""
    while True:
        speaker = Speaker(dice, world, dice.favour(world.films))
        known = facts(speaker)
        first = len(known.split(" "))
        start = f"{known} {opinions(speaker, label, dice.pick(OPENING) - first)}"
        memory = speaker.memory
        for _ in range(4):
            speaker.memory = memory
            end = verdict(speaker, label, dice.chance(UNDECIDED))
            length, size = len(start.split(" ")), len(end.split(" "))
            if length + size in WORDS and first + LEAST <= (length + size) // 2 <= length:
                speaker.memory = memory
                return Review(label, start, end, speaker)


def continuation(review: Review, label: int) -> str:
    """Return a second half that gives the review this label: its own, or else another of like length."""
    if review.label == label:
        return review.second_half
    rest = review.second_half.removesuffix(review.verdict)
    memory, size = review.speaker.memory, len(review.verdict.split(" "))
    while abs(len((end := verdict(review.speaker, label, False)).split(" ")) - size) > 6:
        review.speaker.memory = memory
    review.speaker.memory = memory
    return rest + end
