"""WMT16 without learning: phrase by phrase, or the nearest sentence's translation with words changed."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from math import log

from grue.errors import DataError
from grue.lookups.nearest import Lookup
from grue.lookups.retrieval import Index
from grue.lookups.translation import START, Fluency, decode, phrase_table
from grue.lookups.word_links import Links, link
from grue.records import Example
from grue.tasks import Task

TOKEN = re.compile(r"\d[\d.,]*\d|\w+(?:[-'’]\w+)*|[^\w\s]")
CLOSING, OPENING = frozenset(".,;:!?)]%“”’"), frozenset("„([")
NEIGHBOURS = 30
FIT = 0.3
"""Weight of fluency in choosing a word."""
MOST, LONGEST = 30_000, 40
"""Training pairs that are read, and the words of the longest; more would take hours."""

Words = list[str]


def lexicon(task: Task, train: Sequence[Example], asked: Sequence[Example], seed: int) -> list[str]:
    """Return translations that are put together from phrases, counted in the aligned training pairs."""
    english, german, cased = _pairs(task, train)
    table, fluency = phrase_table(english, german), Fluency(german)
    return [_typeset(decode(_source(example.prompt, cased), table, fluency, _foreign)) for example in asked]


def nearest(task: Task, train: Sequence[Example], asked: Sequence[Example], seed: int) -> list[str]:
    """Return the translation of the nearest training sentence, its words changed where the sentence differs."""
    english, german, cased = _pairs(task, train)
    links, fluency = link(english, german), Fluency(german)
    words: dict[str, Counter[str]] = defaultdict(Counter)
    for source, target, linked in zip(english, german, links, strict=True):
        for s, t in linked:
            words[source[s]][target[t]] += 1
    index = Index(english)
    texts = []
    for example in asked:
        wanted = _source(example.prompt, cased)
        if not wanted:
            texts.append("")
            continue
        near = [number for number, _ in index.nearest(wanted, NEIGHBOURS)]
        best = max(near, key=lambda number: SequenceMatcher(None, english[number], wanted, False).ratio())
        texts.append(_typeset(_mended(english[best], german[best], links[best], wanted, words, fluency)))
    return texts


LOOKUPS: Mapping[str, Lookup] = {"nearest": nearest, "lexicon": lexicon}


# --- words of a sentence, and back -----------------------------------------------------------------------------------


def _pairs(task: Task, train: Sequence[Example]) -> tuple[list[Words], list[Words], frozenset[str]]:
    """Return the words of both sides, and the English words that stand inside of sentences; first words are recased.

    Raises:
        DataError: No training example has a sentence and a translation of at most `LONGEST` words.
    """
    kept: list[tuple[Words, Words]] = []
    for example in train:
        if not example.references:
            continue
        pair = _tokens(_asked(example.prompt)), _tokens(example.references[0])
        if len(kept) < MOST and all(0 < len(side) <= LONGEST for side in pair):
            kept.append(pair)
    if not kept:
        raise DataError(
            f"No training example of {task.suite}/{task.name} has a sentence and a reference of 1 to {LONGEST} words, "
            "which translations are counted in; fix the data, or use another baseline, such as copy."
        )
    english, german = ([pair[side] for pair in kept] for side in (0, 1))
    inside, drinnen = (frozenset(word for sentence in side for word in sentence[1:]) for side in (english, german))
    return [_recased(row, inside) for row in english], [_recased(row, drinnen) for row in german], inside


def _asked(prompt: str) -> str:
    """Return the sentence to translate, without the instruction."""
    _, instruction, sentence = prompt.partition("English to German:")
    return sentence if instruction else prompt


def _tokens(text: str) -> Words:
    return TOKEN.findall(text)


def _source(prompt: str, inside: frozenset[str]) -> Words:
    return _recased(_tokens(_asked(prompt)), inside)


def _recased(words: Words, inside: frozenset[str]) -> Words:
    """Return a sentence whose first word is in lower case, unless it has its capital inside of sentences too."""
    if not words:
        return words
    first = words[0]
    return [first.lower(), *words[1:]] if first.lower() in inside or first not in inside else words


def _foreign(word: str) -> str:
    """Return a word that training lacks: a number with German points and commas, or the word as it is."""
    return word.translate(str.maketrans(".,", ",.")) if word[0].isdigit() else word


def _typeset(words: Words) -> str:
    """Return the text of a sentence, its quotation marks paired."""
    text, open_ = "", False
    for word in words:
        glued = word in CLOSING or (word == '"' and open_)
        text += word if glued or not text or text[-1] in OPENING or (text[-1] == '"' and open_) else f" {word}"
        open_ ^= word == '"'
    return text[:1].upper() + text[1:]


# --- a neighbour's translation, mended -------------------------------------------------------------------------------


def _mended(
    source: Words, target: Words, links: Links, wanted: Words, words: Mapping[str, Counter[str]], fluency: Fluency
) -> Words:
    """Return the target with the words that translate another word than the wanted one changed, dropped or added."""
    places: dict[int, list[int]] = defaultdict(list)
    for s, t in sorted(links):
        places[s].append(t)
    new: list[list[str]] = [[word] for word in target]  # what stands in the place of each word
    last = -1
    for kind, s_from, s_to, w_from, w_to in SequenceMatcher(None, source, wanted, False).get_opcodes():
        old = range(s_from, s_to)
        asked = wanted[w_from:w_to] if kind != "equal" else []
        for number, place in enumerate(old):
            spots = places.get(place, [])
            if kind != "equal":
                for spot in spots:
                    new[spot] = []
                if number < len(asked) and spots:
                    new[spots[0]] = [_translated(asked[number], target, spots[0], words, fluency)]
            last = max([last, *spots[:1]]) if kind != "equal" else (spots[0] if spots else last)
        added = [_translated(word, target, last + 1, words, fluency) for word in asked[len(old) :]]
        if added and last >= 0:
            new[last] = [*new[last], *added]
        elif added:
            new[0] = [*added, *new[0]]
    return [word for group in new for word in group]


def _translated(word: str, target: Words, place: int, words: Mapping[str, Counter[str]], fluency: Fluency) -> str:
    """Return the translation of a word that fits best behind the two words before a place."""
    options = words.get(word)
    if not options:
        return _foreign(word)
    before = tuple([START, START, *target[:place]][-2:])
    total = sum(options.values())
    return max(sorted(options), key=lambda option: log(options[option] / total) + FIT * fluency(before, (option,)))
