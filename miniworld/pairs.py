"""Pairs of sentences whose relation is known because both express facts: entailment and similarity."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from miniworld import commongen, damage
from miniworld.chance import Dice
from miniworld.facts import (
    SYNONYMS,
    Fact,
    Thing,
    agreement,
    changed,
    draw_fact,
    enriched,
    generalised,
    parts,
    reduced,
)
from miniworld.grammar import PASSIVES, PAST, PRESENT, STATIC, EventScene, Mood, predicate
from miniworld.lexicon import conjugate, load_lexicon, verb, with_article
from miniworld.phrases import PAIRED, Mention, finish, join, one
from miniworld.template import FORMS
from miniworld.world import REVISION, Filler, WorldEvent, load_world

CONTRADICTION, NEUTRAL, ENTAILMENT = 0, 1, 2
HOPES = ("want to", "hope to", "try to", "decide to")
REFUSALS = ("refuse to", "forget to")


def claim(dice: Dice, revision: str = REVISION) -> tuple[str, str, int]:
    """Return a premise of one to three sentences, a hypothesis, and whether the one follows from the other.

    The label is 0 if the premise contradicts the hypothesis, 1 if it leaves it open, 2 if it entails it, as in
    roberta-large-mnli. A role with another filler contradicts; another deed is neutral. No sentence is a
    validation or test reference of CommonGen.
    """
    label = dice.pick((CONTRADICTION, NEUTRAL, ENTAILMENT))
    while True:
        fact = draw_fact(dice, revision)
        drawn = {CONTRADICTION: _contradicted, NEUTRAL: _left_open, ENTAILMENT: _entailed}[label](dice, fact, revision)
        if drawn is None:
            continue
        premise, hypothesis = drawn
        company = dice.weighted(((6, 0), (3, 1), (1, 2)))
        others = [tell(dice, draw_fact(dice, revision, unlike=fact.activity)) for _ in range(company)]
        texts = dice.shuffled([premise, *others])
        if _unseen(revision, hypothesis, *texts):
            return " ".join(texts), hypothesis, label


def likeness(dice: Dice, revision: str = REVISION) -> tuple[str, str, float]:
    """Return a reference, a candidate, and their similarity, 0–1.

    It is the F1 of their facts, reduced where the candidate is damaged as weak models write: cut short, repetitive,
    out of order, with wrong words. No sentence is a validation or test reference of CommonGen.
    """
    while True:
        fact = draw_fact(dice, revision)
        other = _varied(dice, fact, revision)
        reference, candidate = tell(dice, fact), tell(dice, other)
        if _unseen(revision, reference, candidate):
            break
    soundness = 1.0
    if dice.chance(0.35):
        candidate, soundness = _spoilt(dice, candidate, revision)
    return reference, candidate, round(agreement(fact, other) * soundness, 4)


def near_miss(dice: Dice, revision: str = REVISION) -> tuple[str, str, str]:
    """Return a sentence, a paraphrase of it, and the paraphrase again with one part of the fact changed."""
    while True:
        fact = draw_fact(dice, revision)
        other = changed(dice, fact)
        seed = int(dice.random() * 4294967296)
        if other is None:
            continue
        texts = (tell(dice, fact), tell(Dice(seed), fact), tell(Dice(seed), other))
        if len(set(texts)) == len(texts) and _unseen(revision, *texts):
            return texts


def _unseen(revision: str, *texts: str) -> bool:
    return _held_out(revision).isdisjoint(texts)


@cache
def _held_out(revision: str) -> frozenset[str]:
    splits = commongen.rows(revision)
    return frozenset(text for split in ("validation", "test") for row in splits[split] for text in row["targets"])


# --- claims: a premise and a hypothesis ------------------------------------------------------------------------------


def _entailed(dice: Dice, fact: Fact, revision: str) -> tuple[str, str] | None:
    kind = dice.weighted(((7, "said"), (2, "general"), (1, "denied")))
    if kind == "denied":  # what did not happen says nothing of what is less
        fact = replace(fact, negated=True, step=None, why=None)
        return tell(dice, fact), tell(dice, fact)
    less = reduced(dice, fact, dice.pick((0.3, 0.6, 1.0)))
    if kind == "general":
        wider = generalised(dice, less)
        return (tell(dice, fact), tell(dice, wider)) if wider else None
    return tell(dice, fact), tell(dice, less)


def _left_open(dice: Dice, fact: Fact, revision: str) -> tuple[str, str] | None:
    kind = dice.weighted(((9, "more"), (4, "other deed"), (2, "stranger"), (2, "general"), (2, "hoped")))
    if kind == "stranger":
        other = replace(draw_fact(dice, revision, unlike=fact.activity), negated=dice.chance(0.15))
        return tell(dice, fact), tell(dice, replace(other, step=None, why=None) if other.negated else other)
    if kind == "other deed":
        deed = _another_deed(dice, fact, revision)
        return (tell(dice, fact), tell(dice, deed)) if deed else None
    if kind == "hoped":
        fact = replace(fact, step=None, why=None)
        return tell(dice, fact, hope=dice.pick(HOPES)), tell(dice, reduced(dice, fact))
    if kind == "general":
        less = reduced(dice, fact)
        wider = generalised(dice, less)
        return (tell(dice, wider), tell(dice, less)) if wider else None
    more = enriched(dice, fact)
    if more is None:
        return None
    added = {name for name, said in parts(more).items() if parts(fact).get(name) != said}
    less = reduced(dice, more, dice.pick((0.5, 1.0)))
    return (tell(dice, fact), tell(dice, less)) if added & {*parts(less)} else None


def _contradicted(dice: Dice, fact: Fact, revision: str) -> tuple[str, str] | None:
    kind = dice.weighted(((8, "changed"), (1, "denied"), (1, "done after all"), (1, "refused")))
    if kind == "denied":
        less = replace(reduced(dice, fact), step=None, why=None)
        return tell(dice, fact), tell(dice, replace(less, negated=True))
    bare = replace(fact, step=None, why=None)
    if kind == "done after all":
        return tell(dice, replace(bare, negated=True)), tell(dice, bare)
    if kind == "refused":
        return tell(dice, bare, hope=dice.pick(REFUSALS)), tell(dice, bare)
    other = changed(dice, fact)
    if other is None:
        return None
    new = {name for name, said in parts(other).items() if parts(fact).get(name) != said}
    less = reduced(dice, other, dice.pick((0.3, 0.6, 1.0)))
    return (
        (tell(dice, fact), tell(dice, less))
        if all(parts(less).get(name) == parts(other)[name] for name in new)
        else None
    )


def _another_deed(dice: Dice, fact: Fact, revision: str) -> Fact | None:
    """Return something else that the same person or animal might do as well."""
    able = [
        activity
        for activity in load_world(revision).activities
        if activity.verb != fact.activity.verb and any(filler.noun == fact.who.noun for filler in activity.who)
    ]
    if not able:
        return None
    drawn = draw_fact(dice, revision, activity=dice.pick(able))
    return replace(drawn, who=fact.who, pronoun=fact.pronoun, wear=fact.wear)


# --- likenesses: a reference and a candidate -------------------------------------------------------------------------


def _varied(dice: Dice, fact: Fact, revision: str) -> Fact:
    """Return the fact itself, one that lacks, has or changes something, or another altogether."""
    kind = dice.weighted(
        ((3, "same"), (3, "less"), (2, "more"), (4, "changed"), (4, "mixed"), (1, "deed"), (2, "else"))
    )
    if kind == "else":
        return draw_fact(dice, revision)
    if kind == "deed":
        return _another_deed(dice, fact, revision) or fact
    if kind in ("less", "mixed"):
        fact = reduced(dice, fact)
    if kind in ("more", "mixed"):
        fact = enriched(dice, fact) or fact
    if kind in ("changed", "mixed"):
        for _ in range(dice.pick((1, 1, 2, 3))):
            fact = changed(dice, fact) or fact
    return fact


def _spoilt(dice: Dice, text: str, revision: str) -> tuple[str, float]:
    """Return the text as a failing model would write it, and the share of its value that remains."""
    if dice.chance(0.15):
        count = len(damage.plain(text))
        kept = damage.cut(dice, text) if dice.chance(0.9) else ""
        return kept, len(kept.split()) / count
    if dice.chance(0.2):
        return _with_wrong_words(dice, text, revision)
    way = dice.pick(tuple(damage.WORTH))
    return way(dice, text), damage.WORTH[way]


def _with_wrong_words(dice: Dice, text: str, revision: str) -> tuple[str, float]:
    """Put words of another sentence in the place of some."""
    words = damage.plain(text)
    others = damage.plain(tell(dice, draw_fact(dice, revision)))
    wrong = dice.sample(range(len(words)), 1 + int(dice.random() * min(4, len(words))))
    mixed = [
        dice.pick([other for other in others if other != word] or others) if index in wrong else word
        for index, word in enumerate(words)
    ]
    return " ".join(mixed) + ".", max(1 - 2 * len(wrong) / len(words), 0.1)


# --- telling: one fact, many sentences -------------------------------------------------------------------------------

Frame = Callable[[Dice, Fact, EventScene], str]


def tell(dice: Dice, fact: Fact, hope: str = "") -> str:
    """Return one sentence that states all of a fact and no more; with a `hope`, that it is hoped or refused."""
    who = _mention(dice, fact.who, fact.pronoun)
    place = _mention(dice, fact.place, fact.pronoun).text if fact.place else ""
    tool = _mention(dice, fact.tool, fact.pronoun, own=True).text if fact.tool else ""
    what = _mention(dice, fact.what, fact.pronoun, fact.activity.verb.lemma) if fact.what else None
    event = WorldEvent(fact.activity, Filler(fact.who.noun, (), fact.who.several), step=fact.step, why=fact.why)
    scene = EventScene(event, who, what, place, tool, "")
    if hope:
        wish, _, to = hope.partition(" ")
        tense = dice.pick((PRESENT, PAST)).tense
        return _ordered(
            dice, fact, scene, Mood(f"{conjugate(verb(wish), tense, who.plural)} {to}", "bare", tense, tense)
        )
    if fact.negated:
        return _ordered(dice, fact, scene, _denial(dice, who.plural))
    frames: list[tuple[float, Frame]] = [(10, _plain)]
    if not fact.step:
        frames.append((3, _witnessed))
        if not who.text.startswith("the "):
            frames.append((2, _existential))
        if tool:
            frames.append((2, _using))
        if what and fact.activity.passive and fact.what and not fact.what.preposition and fact.what.noun.kind != "body":
            frames.append((5, _passive))
    return dice.weighted(frames)(dice, fact, scene)


def _plain(dice: Dice, fact: Fact, scene: EventScene) -> str:
    plural = scene.who.plural
    now = Mood("are" if plural else "is", "gerund", "present", "progressive")
    then = Mood("were" if plural else "was", "gerund", "past", "past")
    done = Mood("have" if plural else "has", "participle", "present", "perfect")
    how = dice.weighted(((5, PRESENT), (5, PAST), (6, now), (2, then), (1, done)))
    return _ordered(dice, fact, scene, how)


def _denial(dice: Dice, plural: bool) -> Mood:
    if dice.chance(0.3):
        return Mood("are not" if plural else "is not", "gerund", "present", "progressive")
    if dice.chance(0.5):
        return Mood("did not", "bare", "past", "past")
    return Mood("do not" if plural else "does not", "bare", "present", "present")


def _ordered(dice: Dice, fact: Fact, scene: EventScene, how: Mood) -> str:
    """Put the time or the place first, or neither."""
    who = _dressed(dice, fact, scene)
    if fact.when and dice.chance(0.4):
        return finish(fact.when + ",", who, predicate(dice, scene, how))
    if scene.place.split(" ")[0] in STATIC and dice.chance(0.25):
        return finish(scene.place + ",", who, predicate(dice, replace(scene, place=""), how, fact.when))
    return finish(who, predicate(dice, scene, how, fact.when))


def _witnessed(dice: Dice, fact: Fact, scene: EventScene) -> str:
    how = Mood("", dice.pick(("bare", "gerund")), "past", "past")
    witness = dice.pick(("I saw", "We watched", "Everyone saw", "The children watched", "From the window we saw"))
    return finish(witness, _dressed(dice, fact, scene), predicate(dice, scene, how, fact.when))


def _existential(dice: Dice, fact: Fact, scene: EventScene) -> str:
    be = dice.pick(("are", "were") if scene.who.plural else ("is", "was"))
    how = Mood("", "gerund", "past" if be.startswith("w") else "present", "past")
    return finish("there", be, _dressed(dice, fact, scene), predicate(dice, scene, how, fact.when))


def _using(dice: Dice, fact: Fact, scene: EventScene) -> str:
    tense = dice.pick((PRESENT, PAST)).tense
    use = conjugate(verb("use"), tense, scene.who.plural)
    deed = predicate(dice, replace(scene, tool=""), Mood("", "bare", tense, tense), fact.when)
    return finish(_dressed(dice, fact, scene), use, scene.tool, "to", deed)


def _passive(dice: Dice, fact: Fact, scene: EventScene) -> str:
    assert scene.what is not None
    auxiliary = dice.weighted(PASSIVES)[scene.what.plural]
    by = join("by", _dressed(dice, fact, scene), f"with {scene.tool}" if scene.tool else "")
    reason = scene.fill("why", "past" if auxiliary.startswith("w") else "present")
    done = fact.activity.verb.participle
    return finish(scene.what.text, auxiliary, done, scene.place, by, fact.when, reason)


def _dressed(dice: Dice, fact: Fact, scene: EventScene) -> str:
    if not fact.wear:
        return scene.who.text
    worn = fact.wear
    plain = worn.noun.lemma in PAIRED or worn.noun.number == "plural" or scene.who.plural
    words = join(worn.adjective, worn.noun.plural if plain and worn.noun.number != "mass" else worn.noun.lemma)
    return join(scene.who.text, dice.pick(("in", "wearing")), words if plain else with_article(words))


def _mention(dice: Dice, thing: Thing, owner: str, after: str = "", own: bool = False) -> Mention:
    """Put a thing into words; `after` is the verb that it follows, `own` lets it be the owner's."""
    noun, preposition = thing.noun, thing.preposition
    name, names = _synonym(dice, noun.lemma, noun.plural)
    plural = thing.several or noun.number == "plural"
    words = join(thing.count, thing.adjective, names if plural else name)
    if noun.lemma in load_lexicon().bare.get(preposition or after, ()):
        text = names if plural else name
    elif noun.kind == "body":
        text = f"{FORMS[owner]['his']} {words}"
    elif noun.number == "only" or noun.kind in ("plain", "royal"):
        text = f"the {words}"
    elif noun.number == "mass":
        text = dice.pick((words, f"the {words}", f"some {words}"))
    elif plural:
        text = dice.pick((words, f"the {words}"))
    else:
        whose = FORMS[owner]["his"] if own and owner != "it" else "the"
        text = dice.weighted(((4, with_article(words)), (3, f"the {words}"), (1, f"{whose} {words}")))
    return Mention(
        join(preposition, text), "they" if plural else one(dice, noun), plural, f"the {names if plural else name}"
    )


def _synonym(dice: Dice, name: str, names: str) -> tuple[str, str]:
    for pair in SYNONYMS:
        if name in pair and dice.chance(0.4):
            other = load_lexicon().nouns[pair[1 - pair.index(name)]]
            return other.lemma, other.plural
    return name, names
