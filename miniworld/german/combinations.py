"""Combinations of known words that training never has: a verb with one of its nouns, a verb in a construction.

They are found in the English words of a sentence, so that any sentence of the world can be asked.
"""

import re
from collections.abc import Sequence
from functools import cache

from miniworld.chance import Dice
from miniworld.german.deeds import load_deeds
from miniworld.german.lexicon import english_noun
from miniworld.german.news import load_reports
from miniworld.german.turns import load_turns
from miniworld.lexicon import Verb
from miniworld.world import SEEDS

Combination = tuple[str, str]

NOUNS = 0.25
"""Share of a verb's nouns that training has with other verbs only."""
CONSTRUCTIONS = 0.12
"""Share of the verbs that training lacks in a construction."""
FEWEST = 3  # a verb with fewer nouns keeps them all
MARKS = (
    "although", "while", "when", "before", "after", "whether", "why", "instead", "without", "having", "which", "who",
    "that", "managed", "stopped", "wanted", "tried", "will", "decided", "promised", "used", "let", "too", "took",
    "please", "there", "was", "were", "has", "have", "had", "by", "must", "should", "going", "is", "are", "did", "not",
)  # fmt: skip
"""Words that tell a construction."""


LIGHT = ("be", "have", "do", "let")
"""Verbs that help others, and so are in sentences of any kind."""


def _forms(verb: Verb) -> tuple[str, ...]:
    return verb.lemma, verb.third, verb.past, verb.participle, verb.gerund


@cache
def _slots() -> tuple[tuple[Verb, tuple[str, ...]], ...]:
    """Return every verb of an event, a turn of phrase or a report with the nouns of one of its slots."""
    slots: list[tuple[Verb, tuple[str, ...]]] = []
    for deed in load_deeds():
        for roles in (deed.who, deed.what, deed.tools, deed.places):
            slots.append((deed.english, tuple(dict.fromkeys(role.noun.lemma for role in roles))))
    for turn in load_turns():
        slots.append((turn.english, tuple(key.partition("@")[0] for key, _ in turn.nouns)))
    for report in load_reports():
        word = _key(report.english)
        fixed = Verb(word, word, word, word, word)
        slots += [(fixed, tuple(key.partition("@")[0] for key, _ in nouns)) for _, _, nouns in report.nouns]
    return tuple((verb, nouns) for verb, nouns in slots if verb.lemma not in LIGHT)


def _key(pattern: str) -> str:
    """Return the word that a report is known by: the longest of its predicate."""
    words: list[str] = re.findall(r"[a-z]+", re.sub(r"\{.*?\}", "", pattern.partition("|")[2]))
    return max(words, key=len)


@cache
def _words() -> dict[str, tuple[str, ...]]:
    """Return the verbs and nouns that a word of a sentence may be a form of."""
    found: dict[str, list[str]] = {}
    for verb, nouns in _slots():
        for form in _forms(verb):
            found.setdefault(form, []).append(verb.lemma)
        for noun in nouns:
            for plural in (False, True):
                found.setdefault(english_noun(noun, plural).replace(" ", "_"), []).append(f"{noun}.")
    return {form: tuple(dict.fromkeys(keys)) for form, keys in found.items()}


@cache
def _forms_of(lemma: str) -> frozenset[str]:
    return frozenset(form for verb, _ in _slots() if verb.lemma == lemma for form in _forms(verb))


@cache
def _pairs() -> frozenset[Combination]:
    return frozenset((verb.lemma, f"{noun}.") for verb, nouns in _slots() for noun in nouns)


def combinations(english: str) -> frozenset[Combination]:
    """Return the combinations of a sentence: (verb, "noun.") and (construction, verb)."""
    tokens = re.findall(r"[a-z][a-z'-]*", english.lower())
    keys = {key for token in tokens for key in _words().get(token, ())}
    keys |= {key for one, two in zip(tokens, tokens[1:], strict=False) for key in _words().get(f"{one}_{two}", ())}
    verbs, nouns = [key for key in keys if not key.endswith(".")], [key for key in keys if key.endswith(".")]
    marks = [mark for mark in MARKS if mark in tokens]
    return frozenset(
        [(verb, noun) for verb in verbs for noun in nouns if (verb, noun) in _pairs()]
        + [(mark, verb) for mark in marks for verb in verbs if mark not in _forms_of(verb)]
    )


@cache
def held_out(revision: str) -> frozenset[Combination]:
    """Return the combinations that training never has."""
    dice = Dice(SEEDS[revision] + 71)
    found: list[Combination] = []
    for verb, nouns in _slots():
        if len(nouns) >= FEWEST:
            found += [(verb.lemma, f"{noun}.") for noun in _some(dice, nouns, NOUNS)]
    verbs = tuple(dict.fromkeys(verb.lemma for verb, _ in _slots()))
    for mark in MARKS:
        found += [(mark, verb) for verb in _some(dice, verbs, CONSTRUCTIONS) if mark not in _forms_of(verb)]
    return frozenset(found)


def _some(dice: Dice, things: Sequence[str], share: float) -> list[str]:
    return dice.sample(things, int(len(things) * share))
