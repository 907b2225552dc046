"""CommonGen without learning: training sentences as frames, whose concepts are replaced by those of the prompt.

A concept is characterised by its company: the words before and after it, its inflection, and its place in a sentence. A
concept of the prompt replaces the concept with the most similar company, in the same inflection.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations, product

import numpy as np
from numpy.typing import NDArray

from grue.lookups.consensus import central
from grue.lookups.nearest import Lookup, counted
from grue.lookups.retrieval import Index
from grue.metrics.coverage import lemmas_of
from grue.records import Example

FEATURES = 3000
COMMON = 60
REFERENCES = 4
NEIGHBOURS, CLAUSES, BEST, CANDIDATES = 60, 12, 3, 24
MOST = 6
"""Most concepts of a prompt that are used; they are tried in all orders."""
JOINTS = ("while", "and", "as", "when")
"""Words between two clauses."""
SAME = 0.5
"""Bonus for a concept that the frame itself has, on top of the similarity of 1."""
MISSING = 1.0
"""Penalty for a concept of the frame that the prompt lacks, or for one that the frame has no place for."""
UNIT = 1_000_000
"""Similarities are counted in millionths, so that those of equal fits are equal on every processor."""
TOKEN = re.compile(r"[\w'-]+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class SentenceFrame:
    """A training sentence: its words, and the places of its concepts."""

    words: tuple[str, ...]
    places: tuple[int, ...]
    concepts: tuple[str, ...]


Fit = tuple[int, SentenceFrame, Mapping[int, str]]
"""How well a frame fits the concepts, in `UNIT`s, the frame, and the concept in each place."""


class SentenceMemory:
    """Counts over the first references of the training examples.

    Attributes:
        frames: The sentences of each example.
        index: The examples by their concepts.
        clauses: Clauses of sentences that a joint divides, with the joint.
        clause_index: The clauses by their concepts.
        rows: Concept → its row in `company`.
        company: [concepts, features], rows of length 1: how often which words are beside a concept.
        forms: Concept → inflection → the form seen most often.
        phrases: Concept → the words that lead up to it most often, and itself.
        qualities: Concept → the word right before it most often, of those that are not `common`.
        common: The most frequent words, which are no qualities.
    """

    def __init__(self, train: Sequence[Example]) -> None:
        asked = [concepts_of(example) for example in train]
        self.index = Index(asked)
        self.frames = [
            [frame(text, concepts) for text in example.references[:REFERENCES]]
            for example, concepts in zip(train, asked, strict=True)
        ]
        sentences = [sentence for group in self.frames for sentence in group]
        self.clauses = list(dict.fromkeys(clause for sentence in sentences for clause in divided(sentence)))
        self.clause_index = Index([clause.concepts for clause, _ in self.clauses] or [()])
        self.common = {*_most_frequent((word for sentence in sentences for word in sentence.words), COMMON)}
        beside: dict[str, Counter[str]] = defaultdict(Counter)
        before: dict[str, Counter[str]] = defaultdict(Counter)
        forms: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
        phrases: dict[str, Counter[str]] = defaultdict(Counter)
        for sentence in sentences:
            words = sentence.words
            for place, concept in zip(sentence.places, sentence.concepts, strict=True):
                beside[concept].update(_company(words, place, concept))
                before[concept].update(words[max(0, place - 1) : place])
                forms[concept][inflection(words[place], concept)][words[place]] += 1
                phrases[concept][" ".join(words[max(0, place - 2) : place + 1])] += 1
        self.forms = {
            concept: {kind: seen.most_common(1)[0][0] for kind, seen in kinds.items()}
            for concept, kinds in forms.items()
        }
        self.phrases = {concept: seen.most_common(1)[0][0] for concept, seen in phrases.items()}
        self.qualities = {
            concept: next((word for word, _ in seen.most_common() if word not in self.common and word.isalpha()), "")
            for concept, seen in before.items()
        }
        self.rows = {concept: row for row, concept in enumerate(beside)}
        features = _most_frequent((feature for seen in beside.values() for feature in seen), FEATURES)
        columns = {feature: column for column, feature in enumerate(features)}
        self.company = np.zeros((len(beside) + 1, len(columns)))
        for row, seen in enumerate(beside.values()):
            for feature in seen.keys() & columns.keys():
                self.company[row, columns[feature]] = seen[feature] ** 0.5
        self.company /= np.maximum(np.linalg.norm(self.company, axis=1, keepdims=True), 1e-9)


def _most_frequent(words: Iterable[str], most: int) -> list[str]:
    return [word for word, _ in Counter(words).most_common(most)]


def concepts_of(example: Example) -> tuple[str, ...]:
    """Return the concepts that the prompt asks for."""
    return tuple(example.prompt.rpartition("with: ")[2].removesuffix(".").split())


def frame(text: str, concepts: Sequence[str]) -> SentenceFrame:
    """Find the concepts of a sentence, each at its first place."""
    words = TOKEN.findall(text)
    words = [words[0].lower(), *words[1:]] if words else []
    concept_at: dict[int, str] = {}
    for concept in concepts:
        place = next((i for i, word in enumerate(words) if i not in concept_at and concept in bases(word)), None)
        if place is not None:
            concept_at[place] = concept
    places = tuple(sorted(concept_at))
    return SentenceFrame(tuple(words), places, tuple(concept_at[place] for place in places))


def divided(sentence: SentenceFrame) -> Iterator[tuple[SentenceFrame, str]]:
    """Yield both sides of the first joint that has concepts on either side, without the final mark."""
    words = sentence.words[:-1] if sentence.words and sentence.words[-1] in ".!?" else sentence.words
    for joint, word in enumerate(words):
        left = sum(place < joint for place in sentence.places)
        if word in JOINTS and 0 < left < len(sentence.places):
            yield SentenceFrame(words[:joint], sentence.places[:left], sentence.concepts[:left]), word
            places = tuple(place - joint - 1 for place in sentence.places[left:])
            yield SentenceFrame(words[joint + 1 :], places, sentence.concepts[left:]), word
            return


@cache
def bases(word: str) -> frozenset[str]:
    """Return the words that a word can be a form of."""
    return lemmas_of(word.lower()) | {word.lower()}


def inflection(word: str, concept: str) -> str:
    """Return the kind of a form by its ending: "", "ing", "s" or "ed", which is also any irregular one."""
    if word == concept:
        return ""
    return "ing" if word.endswith("ing") else "s" if word.endswith("s") else "ed"


def _company(words: Sequence[str], place: int, concept: str) -> list[str]:
    before = words[place - 1] if place else "^"
    earlier = words[place - 2] if place > 1 else "^"
    after = words[place + 1] if place + 1 < len(words) else "$"
    third = 3 * place // len(words)
    form = inflection(words[place], concept)
    return [f"-1 {before}", f"-2 {earlier} {before}", f"+1 {after}", f"= {form}", f"@ {third}"]


def inflected(memory: SentenceMemory, concept: str, kind: str) -> str:
    """Return a concept in an inflection: the form of the training split, or else the regular one."""
    forms = memory.forms.get(concept, {})
    if kind in forms or not kind:
        return forms.get(kind, concept)
    stem = concept[:-1] if concept.endswith("e") and kind != "s" else concept
    return stem + ("es" if kind == "s" and re.search("(s|x|z|ch|sh)$", stem) else kind)


def fitted(memory: SentenceMemory, sentence: SentenceFrame, concepts: Sequence[str]) -> Fit:
    """Return how well a frame fits the concepts, and which of them takes each place."""
    places, own = sentence.places, sentence.concepts
    size = max(len(concepts), len(places))
    gain = np.full((size, size), -MISSING)  # [concept of the prompt, place]
    last = len(memory.rows)
    prompt_rows = memory.company[[memory.rows.get(concept, last) for concept in concepts]]
    frame_rows = memory.company[[memory.rows[concept] for concept in own]]
    gain[: len(concepts), : len(places)] = prompt_rows @ frame_rows.T
    for row, column in product(range(len(concepts)), range(len(own))):
        if concepts[row] == own[column]:
            gain[row, column] = 1 + SAME
    orders = _orders(size)
    totals = np.rint(UNIT * gain).astype(np.int64)[np.arange(size), orders].sum(1)
    best = orders[int(totals.argmax())]
    assignment = zip(best.tolist(), concepts, strict=False)
    concept_at = {places[column]: concept for column, concept in assignment if column < len(places)}
    return int(totals.max()), sentence, concept_at


@cache
def _orders(size: int) -> NDArray[np.intp]:
    return np.array(list(permutations(range(size))), np.intp)


def filled(
    memory: SentenceMemory, sentence: SentenceFrame, concepts: Sequence[str], concept_at: Mapping[int, str]
) -> str:
    """Return the frame with the concepts in their places, and those without a place at its end."""
    words = list(sentence.words)
    for place, concept in concept_at.items():
        own = sentence.concepts[sentence.places.index(place)]
        if concept != own:
            words[place] = inflected(memory, concept, inflection(words[place], own))
            if place and place - 1 not in sentence.places and words[place - 1] not in memory.common:
                words[place - 1] = memory.qualities.get(concept, "")
    words = [word for word in words if word]
    present = frozenset[str]().union(*map(bases, words))
    left_over = [
        memory.phrases.get(c, f"and the {c}") for c in concepts if c not in concept_at.values() and c not in present
    ]
    end = [words.pop()] if words and words[-1] in ".!?" else []
    for place, word in enumerate(words[:-1]):
        if word in ("a", "an"):
            words[place] = "an" if words[place + 1][0] in "aeiou" else "a"
    text = re.sub(r" ([,.!?;:])", r"\1", " ".join([*words, *left_over, *end]))
    return text[:1].upper() + text[1:]


def candidates(memory: SentenceMemory, example: Example, neighbours: int, clauses: int = 0) -> list[str]:
    """Return the best fitting sentences with the prompt's concepts, best first.

    Args:
        neighbours: How many training examples are used.
        clauses: How many clauses of training are tried for each part of the concepts; 0 for whole sentences only.
    """
    concepts = tuple(dict.fromkeys(concepts_of(example)))[:MOST]
    near = memory.index.nearest(concepts, neighbours)
    frames = [sentence for number, _ in near for sentence in memory.frames[number] if len(sentence.places) <= MOST]
    fits = [fitted(memory, sentence, concepts) for sentence in frames]
    if clauses:
        fits += joined(memory, concepts, clauses)
    best = sorted(fits, key=lambda fit: -fit[0])[:CANDIDATES]
    return [filled(memory, sentence, concepts, concept_at) for _, sentence, concept_at in best] or [" ".join(concepts)]


def joined(memory: SentenceMemory, concepts: Sequence[str], clauses: int) -> list[Fit]:
    """Return sentences of two clauses of training that share their joint, for every division of the concepts."""
    best: dict[tuple[str, ...], list[tuple[Fit, str]]] = {}
    for part in (part for size in range(1, len(concepts)) for part in combinations(concepts, size)):
        numbers = memory.clause_index.nearest(part, clauses) if memory.clauses else []
        near = [memory.clauses[number] for number, _ in numbers]
        fits = [(fitted(memory, clause, part), joint) for clause, joint in near]
        best[part] = sorted(fits, key=lambda fit: -fit[0][0])[:BEST]
    fits_joined: list[Fit] = []
    for part, lefts in best.items():
        rights = best[tuple(concept for concept in concepts if concept not in part)]
        pairs = ((left, right, joint) for left, joint in lefts for right, right_joint in rights if joint == right_joint)
        fits_joined += [_sentence(left, right, joint) for left, right, joint in pairs]
    return fits_joined


def _sentence(left: Fit, right: Fit, joint: str) -> Fit:
    (fit, first, concept_at), (other_fit, second, other_taken) = left, right
    offset = len(first.words) + 1
    places = (*first.places, *(place + offset for place in second.places))
    whole = SentenceFrame((*first.words, joint, *second.words, "."), places, first.concepts + second.concepts)
    return fit + other_fit, whole, {**concept_at, **{place + offset: concept for place, concept in other_taken.items()}}


LOOKUPS: Mapping[str, Lookup] = {
    "nearest": counted(SentenceMemory, lambda memory, example: candidates(memory, example, 1)[0]),
    "template": counted(SentenceMemory, lambda memory, example: candidates(memory, example, NEIGHBOURS)[0]),
    "mbr": counted(SentenceMemory, lambda memory, example: central(candidates(memory, example, NEIGHBOURS, CLAUSES))),
}
