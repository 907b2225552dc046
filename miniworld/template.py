"""Pieces of sentences that agree with their person, thing and tense.

- ``because {he} [be] tired``: {he} {his} {him} are the person's pronouns, {it} the thing's; [verb] agrees with the
  pronoun before it, and is plural where there is none;
- ``because the roof <leak>``: <verb> is third person singular;
- ``hang {it} on the *line``: *word is a concept that a sentence may be asked to use.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from miniworld.lexicon import conjugate, load_lexicon, verb

Tense = Literal["present", "past"]
FORMS = {
    "he": {"he": "he", "his": "his", "him": "him"},
    "she": {"he": "she", "his": "her", "him": "her"},
    "it": {"he": "it", "his": "its", "him": "it"},
    "they": {"he": "they", "his": "their", "him": "them"},
}
Piece = str | Callable[[str, str, Tense], str]


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed piece and the concepts marked in it."""

    pieces: tuple[Piece, ...]
    concepts: tuple[str, ...]
    source: str

    def fill(self, person: str, thing: str, tense: Tense) -> str:
        """Return the text, given the pronouns "he", "she", "it" or "they" of the person and of the thing."""
        return "".join(piece if isinstance(piece, str) else piece(person, thing, tense) for piece in self.pieces)


def parse_template(source: str) -> Template:
    """Parse a piece in the notation above."""
    pieces: list[Piece] = []
    last = ""
    for text in re.split(r"(\{\w+\}|\[\w+\]|<\w+>)", source):
        if text.startswith("{"):
            last = text[1:-1]
            pieces.append(_thing if last == "it" else _person(last))
        elif text.startswith("["):
            pieces.append(_agreeing(text[1:-1], last))
        elif text.startswith("<"):
            pieces.append(_third(text[1:-1]))
        elif text:
            pieces.append(text.replace("*", ""))
    lemmas = load_lexicon().lemmas
    words = re.findall(r"\*([\w-]+)", source)
    return Template(tuple(pieces), tuple(lemmas.get(word, word) for word in words), source)


def _thing(person: str, thing: str, tense: Tense) -> str:
    return FORMS[thing]["him"]


def _person(form: str) -> Piece:
    return lambda person, thing, tense: FORMS[person][form]


def _third(lemma: str) -> Piece:
    word = verb(lemma)
    return lambda person, thing, tense: conjugate(word, tense, False)


def _agreeing(lemma: str, pronoun: str) -> Piece:
    word = verb(lemma)
    if not pronoun:
        return lambda person, thing, tense: conjugate(word, tense, True)
    if pronoun == "it":
        return lambda person, thing, tense: conjugate(word, tense, thing == "they")
    return lambda person, thing, tense: conjugate(word, tense, person == "they")
