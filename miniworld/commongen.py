"""CommonGen in the mini world: concept sets and four references each.

A concept set is drawn from a caption of the world: one event or two at the same place, their verbs, some of those who
take part, and perhaps the time. Three in ten of all pairs of words are held out: no training set has one, and the sets
of validation and test are made of them, so that no training set has more than one of their three concepts, or more than
two of four or five.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any
from zlib import crc32

from miniworld.captions import TIMES, Shown, caption
from miniworld.chance import Dice
from miniworld.lexicon import load_lexicon, pluralise, verb
from miniworld.stories import Spot, spots
from miniworld.world import SEEDS, Activity, Filler, WorldEvent, draw_event, load_activities

SPLITS = {"train": 8000, "validation": 500, "test": 1000, "rl": 3000}
SIZES = ((493, 3), (250, 4), (250, 5))
REFERENCES = 4
ATTEMPTS = 60
WORDS = range(6, 19)
HELD_OUT_TENTHS = 3
TWO_EVENTS = 0.75
TIMED = 0.5
UNSEEN = 0.3
PLACED = 0.3
SCENES = ("room", "building", "town", "nature", "height", "waters")  # kinds of place that two events may share
COMPLETED = ("at", "out", "to", "up")  # verbs that need what follows these: "look at", "blow out"
PERSONAL = ("what", "pose", "wear")  # roles of the one who acts, and what a passive says anyway
SEASONS = ("summer", "spring", "winter")
WINTRY = ("ski", "skate", "sled", "snow", "snowball", "snowman", "ice")

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ConceptSet:
    """The concepts, and what a sentence with them shows."""

    concepts: tuple[str, ...]
    shown: Shown


@cache
def rows(revision: str) -> dict[str, tuple[Row, ...]]:
    """Return the rows of every split: concept_set_idx, concepts in a random order, and four targets."""
    dice = Dice(SEEDS[revision] + 1)
    seen_sets: set[tuple[str, ...]] = set()
    seen_texts: set[str] = set()
    train = _draw(dice, SPLITS["train"], None, seen_sets, seen_texts)
    trained = _concepts_of(train)
    held = {s: _draw(dice, SPLITS[s], trained, seen_sets, seen_texts) for s in ("validation", "test", "rl")}
    return {"train": train, **held}


def held_back(revision: str, seed: int, count: int) -> tuple[Row, ...]:
    """Return a fresh test split of `count` rows, drawn by the rules of test; it shares no row with any split."""
    return _fresh(revision, seed, count, _concepts_of(rows(revision)["train"]))


def more_training(revision: str, seed: int, count: int) -> tuple[Row, ...]:
    """Return fresh rows drawn by the rules of training, without pairs that are held out; none is in a split."""
    return _fresh(revision, seed, count, None)


def _fresh(revision: str, seed: int, count: int, trained: frozenset[str] | None) -> tuple[Row, ...]:
    every = [row for split in rows(revision).values() for row in split]
    seen_sets = {tuple(sorted(row["concepts"])) for row in every}
    seen_texts = {text for row in every for text in row["targets"]}
    return _draw(Dice(seed), count, trained, seen_sets, seen_texts)


def draw_text(dice: Dice) -> str:
    """Return two to four captions that have nothing to do with each other."""
    captions: list[str] = []
    wanted = 2 + int(dice.random() * 3)
    while len(captions) < wanted:
        asked = draw_concepts(dice, dice.pick((3, 4, 5)))
        if asked:
            captions.append(caption(dice, _retold(dice, asked)))
    return " ".join(captions)


def _concepts_of(drawn: Sequence[Row]) -> frozenset[str]:
    return frozenset(concept for row in drawn for concept in row["concepts"])


def _draw(
    dice: Dice,
    count: int,
    trained: frozenset[str] | None,
    seen_sets: set[tuple[str, ...]],
    seen_texts: set[str],
) -> tuple[Row, ...]:
    """Return new rows: of training if `trained` is None, else of pairs that training, with these concepts, lacks."""
    drawn: list[Row] = []
    for index, size in enumerate(_sizes(dice, count)):
        for asked in _asked(dice, size):
            key = tuple(sorted(asked.concepts))
            allowed = is_for_training(key) if trained is None else _is_new(asked) and trained.issuperset(key)
            targets = write_references(dice, asked, seen_texts) if allowed and key not in seen_sets else None
            if targets:
                seen_sets.add(key)
                seen_texts.update(targets)
                drawn.append({"concept_set_idx": index, "concepts": dice.shuffled(asked.concepts), "targets": targets})
                break
    return tuple(drawn)


def _sizes(dice: Dice, count: int) -> list[int]:
    total = sum(weight for weight, _ in SIZES)
    sizes = [size for weight, size in SIZES for _ in range(round(count * weight / total))]
    return dice.shuffled((sizes + [3] * count)[:count])


def held_out(one: str, other: str) -> bool:
    """Return whether no training set may have both words; the same for either order."""
    return crc32(" ".join(sorted((one, other))).encode()) % 10 < HELD_OUT_TENTHS


def is_for_training(concepts: Sequence[str]) -> bool:
    """Return whether no pair of the concepts is held out."""
    return not any(held_out(*pair) for pair in combinations(concepts, 2))


def is_for_test(concepts: Sequence[str]) -> bool:
    """Return whether every pair of three concepts is held out, or of more concepts a pair of any three."""
    if len(concepts) == 3:
        return all(held_out(*pair) for pair in combinations(concepts, 2))
    return not any(is_for_training(three) for three in combinations(concepts, 3))


def _is_new(asked: ConceptSet) -> bool:
    """Return whether the concepts are fit for test and no training set has both verbs of two events."""
    verbs = {event.activity.verb.lemma for event in asked.shown.events}
    return is_for_test(asked.concepts) and (len(verbs) == 1 or held_out(*verbs))


# --- concept sets ----------------------------------------------------------------------------------------------------


def _asked(dice: Dice, size: int) -> Iterator[ConceptSet]:
    while True:
        asked = draw_concepts(dice, size)
        if asked and len(set(asked.concepts)) == size:
            yield asked


def draw_concepts(dice: Dice, size: int) -> ConceptSet | None:
    """Draw a set of `size` concepts and what they show, or None if what was drawn has too few."""
    if dice.chance(TWO_EVENTS):
        return _two(dice, dice.pick(_scenes()), size)
    return _one(dice, dice.pick(load_activities()), size)


def _one(dice: Dice, activity: Activity, size: int) -> ConceptSet | None:
    event = replace(draw_event(dice, activity), what=dice.pick(activity.what) if activity.what else None)
    unseen = _passive(event) and dice.chance(UNSEEN)
    first = [activity.verb.lemma, event.what.noun.lemma if unseen and event.what else event.who.noun.lemma]
    options: list[tuple[str, tuple[str, ...]]] = [("time", ())] if dice.chance(TIMED) else []
    for role in ("what", "place", "tool", "pose", "wear"):
        filler: Filler | None = getattr(event, role)
        if filler and dice.chance(0.25 if role in ("pose", "wear") else 0.8) and not (unseen and role in PERSONAL):
            options.append((role, (filler.noun.lemma,)))
    if event.step and dice.chance(0.4) and not unseen:
        options.append(("step", event.step.concepts))
    if event.why and event.why.concepts and dice.chance(0.3) and not unseen:
        options.append(("why", event.why.concepts))
    time = dice.pick(TIMES)
    roles: set[str] = {"what"} if unseen else set()
    concepts = first
    for role, words in dice.shuffled(options):
        wanted = [word for word in words or (time.concept,) if word not in concepts][: size - len(concepts)]
        if not wanted or role in roles:
            continue
        if role == "step" and len(wanted) > 1 and dice.chance(0.3):
            wanted = wanted[1:]
        concepts += wanted
        roles.add(role)
    shown = Shown((_only(event, roles, dice),), (unseen,), time if "time" in roles else None)
    return ConceptSet(tuple(concepts), shown) if len(concepts) == size and _in_season(shown, concepts) else None


@cache
def _scenes() -> tuple[Spot, ...]:
    return tuple(spot for spot in spots() if spot.filler.noun.kind in SCENES)


def _two(dice: Dice, spot: Spot, size: int) -> ConceptSet | None:
    events: list[WorldEvent] = []
    options: list[tuple[str, str]] = [("place", spot.filler.noun.lemma)]
    if dice.chance(TIMED):
        options.append(("time", ""))
    for number, activity in enumerate(dice.sample(spot.activities, 2)):
        event = replace(draw_event(dice, activity), what=dice.pick(activity.what) if activity.what else None)
        events.append(event)
        options.append((f"who {number}", event.who.noun.lemma))
        if event.what:
            options.append((f"what {number}", event.what.noun.lemma))
    time = dice.pick(TIMES)
    chosen = dice.sample(options, size - 2)
    roles = {role for role, _ in chosen}
    told: list[WorldEvent] = []
    unseen: list[bool] = []
    for number, event in enumerate(events):
        asked = {role.split(" ")[0] for role in roles if role.endswith(f" {number}")}
        unseen.append(_passive(event) and asked == {"what"})
        told.append(_only(event if "who" in asked else replace(event, who=event.activity.who[0]), asked, dice))
    shown = Shown(
        tuple(told),
        tuple(unseen),
        time if "time" in roles else None,
        spot.filler if "place" in roles else None,
    )
    concepts = [event.activity.verb.lemma for event in events] + [word or time.concept for _, word in chosen]
    people = {event.who.noun.lemma for event in told}
    return ConceptSet(tuple(concepts), shown) if len(people) == 2 and _in_season(shown, concepts) else None


def _passive(event: WorldEvent) -> bool:
    """Return whether the event can be told without the one who does it."""
    what = event.what
    return bool(what and event.activity.passive and not what.prepositions and what.noun.kind != "body")


def _only(event: WorldEvent, roles: set[str], dice: Dice) -> WorldEvent:
    """Return the event with these roles, and what it is done to where a sentence needs it: mostly what is typical."""
    kept = {role: getattr(event, role) for role in ("place", "tool", "pose", "wear", "step", "why") if role in roles}
    what = event.what
    if what and "what" not in roles:
        what = event.activity.what[0]
        if what.prepositions and what.prepositions[0] not in COMPLETED:
            what = None
    return replace(WorldEvent(event.activity, event.who, what), **kept)


def _in_season(shown: Shown, concepts: Sequence[str]) -> bool:
    """Return whether the time does not contradict what is shown, and is not told twice."""
    wintry = any(word in concepts for word in WINTRY)
    return shown.time is None or not (wintry and shown.time.concept in SEASONS)


# --- references ------------------------------------------------------------------------------------------------------


def write_references(dice: Dice, asked: ConceptSet, taken: set[str]) -> list[str] | None:
    """Return four different references, none of them `taken`, or None if that is not possible."""
    references: list[str] = []
    for _ in range(ATTEMPTS):
        text = caption(dice, _retold(dice, asked))
        words = text[:-1].lower().replace(",", "").split()
        if len(words) not in WORDS or text in taken or text in references:
            continue
        if all(forms(concept) & set(words) for concept in asked.concepts):
            references.append(text)
        if len(references) == REFERENCES:
            return references
    return None


@cache
def forms(lemma: str) -> frozenset[str]:
    """Return every form of a lemma, as a noun and as a verb."""
    word, noun = verb(lemma), load_lexicon().nouns.get(lemma)
    plural = noun.plural if noun else pluralise(lemma)
    return frozenset((lemma, plural, word.third, word.past, word.participle, word.gerund))


def _retold(dice: Dice, asked: ConceptSet) -> Shown:
    """Return what the concepts show, now and then with what they leave open: where it happens."""
    shown = asked.shown
    if len(shown.events) > 1:
        return shown
    event = shown.events[0]
    if event.place or not event.activity.places or not dice.chance(PLACED):
        return shown
    return replace(shown, events=(replace(event, place=event.activity.places[0]),))
