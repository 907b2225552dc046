"""The words of the mini world and their forms."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from grue.errors import DataError
from grue.files import read_toml

HERE = Path(__file__).parent
PEOPLE = ("kid", "adult", "family", "worker", "officer", "artist", "athlete")
ANIMALS = ("pet", "livestock", "wild", "bird", "fish")

Number = Literal["count", "mass", "plural", "only"]
Pronoun = Literal["he", "she", "it", "they", "any"]
MARKS: Mapping[str, Number] = {"~": "mass", "+": "plural", "!": "only"}


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun: its forms, the kind whose adjectives it takes, and the pronoun it asks for ("any": he or she)."""

    lemma: str
    plural: str
    kind: str
    adjectives: tuple[str, ...]
    number: Number
    pronoun: Pronoun

    @property
    def person(self) -> bool:
        """Whether the noun names a human being."""
        return self.kind in PEOPLE


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb's forms: leads, led, led, leading."""

    lemma: str
    third: str
    past: str
    participle: str
    gerund: str


@dataclass(frozen=True, slots=True)
class Lexicon:
    """All words, by lemma; `bare` holds the nouns that take no article after a preposition ("at night")."""

    nouns: Mapping[str, Noun]
    irregular: Mapping[str, tuple[str, ...]]
    lemmas: Mapping[str, str]
    bare: Mapping[str, tuple[str, ...]]
    names: Mapping[str, tuple[str, ...]]

    def noun(self, word: str) -> Noun:
        """Return the noun of that lemma; an unknown one is an error in the data files."""
        if word not in self.nouns:
            raise DataError(f"{HERE / 'lexicon.toml'}: the noun {word!r} is used but no kind lists it; add it.")
        return self.nouns[word]


@cache
def load_lexicon() -> Lexicon:
    """Read `lexicon.toml`."""
    data = read_toml(HERE / "lexicon.toml")
    pronouns = {word: pronoun for pronoun, words in data["gender"].items() for word in words.split()}
    nouns: dict[str, Noun] = {}
    for kind, entry in data["kinds"].items():
        for marked in entry["nouns"].split():
            number = MARKS.get(marked[-1], "count")
            word = marked.rstrip("~+!")
            pronoun = pronouns.get(word, "any" if kind in PEOPLE else "they" if kind == "group" else "it")
            plural = word if number == "plural" else data["plural"].get(word, pluralise(word))
            adjectives = tuple(adjective for adjective in entry["adjectives"].split() if adjective != word)
            if word in nouns:
                raise DataError(f"{HERE / 'lexicon.toml'}: the noun {word!r} is listed under two kinds.")
            nouns[word] = Noun(word, plural, kind, adjectives, number, pronoun)
    return Lexicon(
        nouns=nouns,
        irregular={lemma: tuple(forms.split()) for lemma, forms in data["irregular"].items()},
        lemmas={noun.plural: noun.lemma for noun in nouns.values()},
        bare={preposition: tuple(words.split()) for preposition, words in data["bare"].items()},
        names={key: tuple(words.split()) for key, words in data["names"].items()},
    )


@cache
def verb(lemma: str) -> Verb:
    """Return the forms of a verb, regular or not."""
    forms = load_lexicon().irregular.get(lemma, ())
    stem = lemma[:-1] if lemma.endswith("e") else lemma + lemma[-1] if _doubles(lemma) else lemma
    past = lemma[:-1] + "ied" if re.search("[^aeiou]y$", lemma) else stem + "ed"
    gerund = lemma + "ing" if lemma.endswith(("ee", "oe", "ye")) or lemma == "be" else stem + "ing"
    third = {"be": "is", "have": "has"}.get(lemma, pluralise(lemma))
    past, participle, gerund = (*forms, *(past, past, gerund)[len(forms) :])
    return Verb(lemma, third, past, participle, gerund)


def _doubles(lemma: str) -> bool:
    one_syllable = len(re.findall("[aeiouy]+", lemma)) == 1
    return one_syllable and re.search("[^aeiou][aeiou][^aeiouwxy]$", lemma) is not None


def pluralise(word: str) -> str:
    """Return the regular plural of a noun, which is also the regular third person of a verb."""
    if re.search("[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "z", "ch", "sh", "do", "go")) else "s")


def conjugate(word: Verb, tense: Literal["present", "past"], plural: bool) -> str:
    """Return the finite form for a third person."""
    if word.lemma == "be":
        return {("present", False): "is", ("present", True): "are", ("past", False): "was"}.get((tense, plural), "were")
    if tense == "past":
        return word.past
    return word.lemma if plural else word.third


def with_article(phrase: str) -> str:
    """Put "a" or "an" before a noun phrase, by sound."""
    vowel = phrase[0] in "aeiouAEIOU" and not re.match("(uni|use|usu|eur|one)", phrase)
    return ("an " if vowel or phrase.startswith(("hour", "honest")) else "a ") + phrase


def capitalise(text: str) -> str:
    """Return the text with its first letter in upper case."""
    return text[0].upper() + text[1:]
