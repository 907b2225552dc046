"""WMT16 without learning: phrase by phrase, or the nearest sentence's translation with words replaced."""

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
"""Most training pairs and most words of a sentence that are read; more would take hours."""

Words = list[str]


def lexicon(task: Task, train: Sequence[Example], examples: Sequence[Example], seed: int) -> list[str]:
    """Return translations by phrases that are counted in the aligned training pairs."""
    english, german, cased = _pairs(task, train)
    table, fluency = phrase_table(english, german), Fluency(german)
    return [_typeset(decode(_source(example.prompt, cased), table, fluency, _foreign)) for example in examples]


def nearest(task: Task, train: Sequence[Example], examples: Sequence[Example], seed: int) -> list[str]:
    """Return the translation of the nearest training sentence, with words replaced where the sentences differ."""
    english, german, cased = _pairs(task, train)
    links, fluency = link(english, german), Fluency(german)
    words: dict[str, Counter[str]] = defaultdict(Counter)
    for source, target, linked in zip(english, german, links, strict=True):
        for s, t in linked:
            words[source[s]][target[t]] += 1
    index = Index(english)
    texts = []
    for example in examples:
        goal = _source(example.prompt, cased)
        if not goal:
            texts.append("")
            continue
        near = [number for number, _ in index.nearest(goal, NEIGHBOURS)]
        best = max(near, key=lambda number: SequenceMatcher(None, english[number], goal, False).ratio())
        texts.append(_typeset(_mended(english[best], german[best], links[best], goal, words, fluency)))
    return texts


LOOKUPS: Mapping[str, Lookup] = {"nearest": nearest, "lexicon": lexicon}


# --- words of a sentence, and back -----------------------------------------------------------------------------------


def _pairs(task: Task, train: Sequence[Example]) -> tuple[list[Words], list[Words], frozenset[str]]:
    """Return the words of both sides, recased, and the English words that occur inside sentences."""
    pairs: list[tuple[Words, Words]] = []
    for example in train:
        if not example.references:
            continue
        pair = TOKEN.findall(_sentence_of(example.prompt)), TOKEN.findall(example.references[0])
        if len(pairs) < MOST and all(0 < len(side) <= LONGEST for side in pair):
            pairs.append(pair)
    if not pairs:
        raise DataError(
            f"No training example of {task.suite}/{task.name} has a sentence and a reference of 1 to {LONGEST} words, "
            "which translations are counted in; fix the data, or use another baseline, such as copy."
        )
    english, german = ([pair[side] for pair in pairs] for side in (0, 1))
    inside, inside_german = (frozenset(word for words in side for word in words[1:]) for side in (english, german))
    return [_recased(row, inside) for row in english], [_recased(row, inside_german) for row in german], inside


def _sentence_of(prompt: str) -> str:
    """Return the sentence to translate, without the instruction."""
    _, instruction, sentence = prompt.partition("English to German:")
    return sentence if instruction else prompt


def _source(prompt: str, inside: frozenset[str]) -> Words:
    return _recased(TOKEN.findall(_sentence_of(prompt)), inside)


def _recased(words: Words, inside: frozenset[str]) -> Words:
    """Return a sentence with its first word in lower case, unless that is capitalised inside sentences, too."""
    if not words:
        return words
    first = words[0]
    return [first.lower(), *words[1:]] if first.lower() in inside or first not in inside else words


def _foreign(word: str) -> str:
    """Return a word that training lacks: a number in German notation, or the word as it is."""
    return word.translate(str.maketrans(".,", ",.")) if word[0].isdigit() else word


def _typeset(words: Words) -> str:
    """Return the text of a sentence, with its quotation marks paired."""
    text, open_ = "", False
    for word in words:
        glued = word in CLOSING or (word == '"' and open_)
        text += word if glued or not text or text[-1] in OPENING or (text[-1] == '"' and open_) else f" {word}"
        open_ ^= word == '"'
    return text[:1].upper() + text[1:]


# --- adapting a neighbour's translation ------------------------------------------------------------------------------


def _mended(
    source: Words, target: Words, links: Links, goal: Words, words: Mapping[str, Counter[str]], fluency: Fluency
) -> Words:
    """Return the target with words replaced, dropped or added where the goal differs from the source."""
    places: dict[int, list[int]] = defaultdict(list)
    for s, t in sorted(links):
        places[s].append(t)
    new: list[list[str]] = [[word] for word in target]  # the words in place of each word
    last = -1
    for kind, s_from, s_to, w_from, w_to in SequenceMatcher(None, source, goal, False).get_opcodes():
        old = range(s_from, s_to)
        replacements = goal[w_from:w_to] if kind != "equal" else []
        for number, place in enumerate(old):
            spots = places.get(place, [])
            if kind != "equal":
                for spot in spots:
                    new[spot] = []
                if number < len(replacements) and spots:
                    new[spots[0]] = [_translated(replacements[number], target, spots[0], words, fluency)]
            last = max([last, *spots[:1]]) if kind != "equal" else (spots[0] if spots else last)
        added = [_translated(word, target, last + 1, words, fluency) for word in replacements[len(old) :]]
        if added and last >= 0:
            new[last] = [*new[last], *added]
        elif added:
            new[0] = [*added, *new[0]]
    return [word for group in new for word in group]


def _translated(word: str, target: Words, place: int, words: Mapping[str, Counter[str]], fluency: Fluency) -> str:
    """Return the translation of a word that fits best after the two words before a place."""
    options = words.get(word)
    if not options:
        return _foreign(word)
    before = tuple([START, START, *target[:place]][-2:])
    total = sum(options.values())
    return max(sorted(options), key=lambda option: log(options[option] / total) + FIT * fluency(before, (option,)))
