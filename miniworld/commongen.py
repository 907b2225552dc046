"""CommonGen in the mini world: concept sets and four references each.

A concept set is drawn from an event of the world: its verb and some of its participants. Each of the four references
retells that event, with its own choice of everything that the concepts leave open.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from miniworld.chance import Dice
from miniworld.grammar import sentence
from miniworld.lexicon import load_lexicon, pluralise, verb
from miniworld.world import SEEDS, Activity, Filler, WorldEvent, draw_event, load_world

SPLITS = {"train": 2000, "validation": 200, "test": 400}
SIZES = ((493, 3), (250, 4), (250, 5))
REFERENCES = 4
ATTEMPTS = 24
WORDS = range(6, 19)
COLOURLESS = ("man", "woman", "friend", "neighbor", "lady", "kid")


@dataclass(frozen=True, slots=True)
class ConceptSet:
    """The concepts, and their event with only the roles that they determine."""

    concepts: tuple[str, ...]
    event: WorldEvent
    who: bool
    what: bool


@cache
def rows(revision: str) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return the rows of every split: concept_set_idx, concepts in a random order, and four targets."""
    dice = Dice(SEEDS[revision] + 1)
    activities = load_world(revision).activities
    seen_sets: set[tuple[str, ...]] = set()
    seen_texts: set[str] = set()
    splits: dict[str, tuple[dict[str, Any], ...]] = {}
    trained: set[str] = set()
    for split, count in SPLITS.items():
        drawn: list[dict[str, Any]] = []
        for index, size in enumerate(_sizes(dice, count)):
            while True:
                asked = draw_concepts(dice, dice.pick(activities), size)
                if asked is None or tuple(sorted(asked.concepts)) in seen_sets:
                    continue
                if split != "train" and not trained.issuperset(asked.concepts):
                    continue
                targets = write_references(dice, asked, seen_texts)
                if targets is not None:
                    break
            seen_sets.add(tuple(sorted(asked.concepts)))
            seen_texts.update(targets)
            drawn.append({"concept_set_idx": index, "concepts": dice.shuffled(asked.concepts), "targets": targets})
        if split == "train":
            trained.update(concept for row in drawn for concept in row["concepts"])
        splits[split] = tuple(drawn)
    return splits


def _sizes(dice: Dice, count: int) -> list[int]:
    total = sum(weight for weight, _ in SIZES)
    sizes = [size for weight, size in SIZES for _ in range(round(count * weight / total))]
    return dice.shuffled((sizes + [3] * count)[:count])


def draw_concepts(dice: Dice, activity: Activity, size: int) -> ConceptSet | None:
    """Draw a set of `size` concepts from an activity, or None if it has too few."""
    event = draw_event(dice, activity)
    options: list[tuple[str, tuple[str, ...]]] = []
    if event.what:
        options.append(("what", (event.what.noun.lemma,)))
    if event.who.noun.lemma not in COLOURLESS or dice.chance(0.15):
        options.append(("who", (event.who.noun.lemma,)))
    for role in ("place", "place", "tool", "pose", "wear"):  # a place is twice as likely as the others
        filler: Filler | None = getattr(event, role)
        if filler and dice.chance(0.8 if role in ("place", "tool") else 0.25):
            options.append((role, ("wear", filler.noun.lemma) if role == "wear" else (filler.noun.lemma,)))
    if event.step and dice.chance(0.5):
        options.append(("step", event.step.concepts))
    if event.why and event.why.concepts and dice.chance(0.4):
        options.append(("why", event.why.concepts))
    return _choose(dice, event, dice.shuffled(options), size)


def _choose(dice: Dice, event: WorldEvent, options: list[tuple[str, tuple[str, ...]]], size: int) -> ConceptSet | None:
    concepts: list[str] = [event.activity.verb.lemma]
    roles: set[str] = set()
    for role, words in options:
        wanted = [word for word in words if word not in concepts][: size - len(concepts)]
        if not wanted or role in roles or (role == "wear" and len(wanted) < 2):
            continue
        if role == "step" and len(wanted) > 1 and dice.chance(0.3):
            wanted = wanted[1:]
        concepts += wanted
        roles.add(role)
    if len(concepts) != size:
        return None
    dropped = {role: None for role in ("place", "tool", "pose", "wear", "step", "why") if role not in roles}
    kept = replace(event, **dropped)  # type: ignore[arg-type]
    return ConceptSet(tuple(concepts), kept, "who" in roles, "what" in roles)


def write_references(dice: Dice, asked: ConceptSet, taken: set[str]) -> list[str] | None:
    """Return four different references, none of them `taken`, or None if the event does not allow it."""
    references: list[str] = []
    bags: list[set[str]] = []
    for _ in range(ATTEMPTS):
        text = sentence(dice, _retold(dice, asked))
        words = text[:-1].lower().replace(",", "").split()
        bag = set(words)
        if len(words) not in WORDS or text in taken or not all(bag & forms(concept) for concept in asked.concepts):
            continue
        if any(_alike(bag, other, len(asked.concepts)) for other in bags):
            continue
        references.append(text)
        bags.append(bag)
        if len(references) == REFERENCES:
            return references
    return None


def _alike(one: set[str], other: set[str], concepts: int) -> bool:
    """Return whether two references share more than half of their words beside the concepts."""
    return 2 * (len(one & other) - concepts) > min(len(one), len(other)) - concepts


@cache
def forms(lemma: str) -> frozenset[str]:
    """Return every form of a lemma, as a noun and as a verb."""
    word, noun = verb(lemma), load_lexicon().nouns.get(lemma)
    plural = noun.plural if noun else pluralise(lemma)
    return frozenset((lemma, plural, word.third, word.past, word.participle, word.gerund))


def _retold(dice: Dice, asked: ConceptSet) -> WorldEvent:
    event, fresh = asked.event, draw_event(dice, asked.event.activity)
    free = max(0.0, 1.0 - 0.18 * len(asked.concepts))

    def also(chance: float) -> bool:
        return dice.chance(chance * free)

    return replace(
        event,
        who=event.who if asked.who else fresh.who,
        what=event.what if asked.what else fresh.what,
        place=event.place or (fresh.place if also(0.9) else None),
        tool=event.tool or (fresh.tool if also(0.4) else None),
        wear=event.wear or (fresh.wear if also(0.2) else None),
        pose=event.pose or (fresh.pose if also(0.2) else None),
        step=event.step or (fresh.step if also(0.3) else None),
        why=event.why or (fresh.why if also(0.25) else None),
    )
