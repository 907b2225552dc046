"""The activities of the world with their German verbs, and places with their German prepositions."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from grue.files import read_toml
from miniworld.german.lexicon import GermanVerb, entries, german_key, german_verb
from miniworld.lexicon import HERE, Noun, Verb, load_lexicon
from miniworld.template import Template
from miniworld.world import Activity, Filler, Step, load_activities


@dataclass(frozen=True, slots=True)
class Role:
    """Who or what can take part: the noun, its German key, and where a place is, what stands before it.

    Attributes:
        preposition: The English preposition, or nothing.
        german: Its German counterpart and the case it takes ("auf D"), or a whole phrase that ends in "!".
    """

    noun: Noun
    key: str
    several: bool
    preposition: str = ""
    german: str = ""


@dataclass(frozen=True, slots=True)
class Deed:
    """An activity that can be said in both languages."""

    name: str
    english: Verb
    german: GermanVerb
    government: str
    who: tuple[Role, ...]
    what: tuple[Role, ...]
    tools: tuple[Role, ...]
    places: tuple[Role, ...]
    wear: tuple[Role, ...]
    how: tuple[str, ...]
    why: tuple[tuple[Template, str], ...]
    steps: tuple[tuple[Step, str], ...]
    passive: bool


@cache
def load_deeds() -> tuple[Deed, ...]:
    """Return the activities that `events.toml` gives a German verb."""
    data = read_toml(HERE / "german" / "events.toml")
    counts: dict[str, int] = {}
    deeds = []
    for activity in load_activities():
        lemma = activity.verb.lemma
        counts[lemma] = counts.get(lemma, 0) + 1
        name = f"{lemma} {counts[lemma]}"
        if name in data["activities"]:
            deeds.append(_deed(name, activity, data))
    return tuple(deed for deed in deeds if deed.who and deed.what)


def _deed(name: str, activity: Activity, data: dict[str, Any]) -> Deed:
    head, *rules = (part.strip() for part in data["activities"][name].split(";"))
    drops = {word[1:] for rule in rules for word in rule.split() if word.startswith("-")}
    own = {key: value for rule in rules for key, _, value in [rule.partition(": ")] if value}
    words = head.split(" ")
    verb_words, government = (
        (words[:2], " ".join(words[2:])) if words[0] == "sich" else (words[:1], " ".join(words[1:]))
    )
    german, lemma = german_verb(" ".join(verb_words)), activity.verb.lemma
    prepositions = Prepositions(own, data)

    def roles(fillers: tuple[Filler, ...]) -> tuple[Role, ...]:
        return tuple(r for f in fillers if f.noun.lemma not in drops for r in _roles(f, lemma, prepositions, german))

    adverbs = entries(data["adverbs"]["words"])
    return Deed(
        name, activity.verb, german, government.replace("acc", ""), roles(activity.who), roles(activity.what),
        roles(activity.tools), roles(activity.places), roles(activity.wear),
        tuple(word for word in activity.how if word in adverbs),
        tuple((t, data["reasons"][t.source]) for t in activity.why if t.source in data["reasons"]),
        tuple((step, data["steps"][said]) for step in activity.steps if (said := _said(step)) in data["steps"]),
        activity.passive and not government,
    )  # fmt: skip


def _said(step: Step) -> str:
    return f"{step.verb.lemma} {step.rest.source}"


@dataclass(frozen=True, slots=True)
class Prepositions:
    """The prepositions of one activity: its own rules, and those of the language."""

    own: dict[str, str]
    data: dict[str, Any]

    def german(self, preposition: str, noun: str) -> str:
        """Return the German for a preposition before a noun, "" if there is none."""
        special = entries(self.data["prepositions_of"].get(preposition, ""))
        phrase = entries(self.data["phrases"]["words"]).get(f"{preposition} {noun}", "")
        own = self.own.get(f"{preposition} {noun}") or self.own.get(preposition)
        if own:
            return "" if own == "-" else own
        return phrase + "!" if phrase else special.get(noun) or str(self.data["prepositions"].get(preposition, ""))


def _roles(filler: Filler, lemma: str, prepositions: Prepositions, german: GermanVerb) -> list[Role]:
    key = german_key(filler.noun.lemma, lemma)
    if not key:
        return []
    if not filler.prepositions:
        return [Role(filler.noun, key, filler.several)]
    found = []
    for preposition in filler.prepositions:
        said = prepositions.german(preposition, filler.noun.lemma)
        bare = filler.noun.lemma in load_lexicon().bare.get(preposition, ())
        if said and not ("+" in said and german.prefix) and (bare == said.endswith("!")):
            found.append(Role(filler.noun, key, filler.several, preposition, said))
    return found
