"""CommonGen without learning: training sentences as frames, whose concepts are replaced by those of the prompt.

A concept is characterised by its company: the words before and after it, its inflection, and its place in a sentence. A
concept of the prompt replaces the concept with the most similar company, in the same inflection.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations

import numpy as np
from numpy.typing import NDArray

from grue.lookups.consensus import most_central
from grue.lookups.nearest import Lookup
from grue.lookups.retrieval import Index
from grue.metrics.coverage import lemmas_of
from grue.records import Example
from grue.tasks import Task

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
TOKEN = re.compile(r"[\w'-]+|[^\w\s]")

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SentenceFrame:
    """A training sentence: its words, and the places of its concepts."""

    words: tuple[str, ...]
    places: tuple[int, ...]
    concepts: tuple[str, ...]


Fit = tuple[float, SentenceFrame, Mapping[int, str]]
"""How well a frame fits the concepts, the frame, and the concept in each place."""


@dataclass(frozen=True, slots=True)
class SentenceMemory:
    """Counts over the training split.

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

    frames: tuple[tuple[SentenceFrame, ...], ...]
    index: Index
    clauses: tuple[tuple[SentenceFrame, str], ...]
    clause_index: Index
    rows: Mapping[str, int]
    company: FloatArray
    forms: Mapping[str, Mapping[str, str]]
    phrases: Mapping[str, str]
    qualities: Mapping[str, str]
    common: frozenset[str]


def concepts_of(example: Example) -> tuple[str, ...]:
    """Return the concepts that the prompt asks for."""
    return tuple(example.prompt.rpartition("with: ")[2].removesuffix(".").split())


def count(train: Sequence[Example]) -> SentenceMemory:
    """Count over the first references of each example."""
    frames: list[tuple[SentenceFrame, ...]] = []
    for example in train:
        concepts = concepts_of(example)
        frames.append(tuple(frame(text, concepts) for text in example.references[:REFERENCES]))
    beside: dict[str, Counter[str]] = defaultdict(Counter)
    forms: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    phrases: dict[str, Counter[str]] = defaultdict(Counter)
    for group in frames:
        for sentence in group:
            for place, concept in zip(sentence.places, sentence.concepts, strict=True):
                word = sentence.words[place]
                beside[concept].update(_company(sentence.words, place, concept))
                forms[concept][inflection(word, concept)][word] += 1
                phrases[concept][" ".join(sentence.words[max(0, place - 2) : place + 1])] += 1
    frequent = Counter(word for group in frames for sentence in group for word in sentence.words)
    most_frequent = frozenset(word for word, _ in frequent.most_common(COMMON))
    clauses = tuple(dict.fromkeys(c for group in frames for sentence in group for c in divided(sentence)))
    rows = {concept: row for row, concept in enumerate(beside)}
    common = Counter(feature for counter in beside.values() for feature in counter)
    columns = {feature: column for column, (feature, _) in enumerate(common.most_common(FEATURES))}
    company = np.zeros((len(rows) + 1, len(columns)), np.float32)
    for concept, counter in beside.items():
        for feature, times in counter.items():
            if feature in columns:
                company[rows[concept], columns[feature]] = times**0.5
    company /= np.maximum(np.linalg.norm(company, axis=1, keepdims=True), 1e-9)
    return SentenceMemory(
        tuple(frames),
        Index([concepts_of(example) for example in train]),
        clauses,
        Index([clause.concepts for clause, _ in clauses] or [()]),
        rows,
        company,
        {c: {kind: seen.most_common(1)[0][0] for kind, seen in kinds.items()} for c, kinds in forms.items()},
        {concept: counter.most_common(1)[0][0] for concept, counter in phrases.items()},
        {concept: _quality(counter, most_frequent) for concept, counter in beside.items()},
        most_frequent,
    )


def _quality(company: Mapping[str, int], common: frozenset[str]) -> str:
    before = {key[3:]: times for key, times in company.items() if key.startswith("-1 ")}
    qualities = {word: times for word, times in before.items() if word not in common and word.isalpha()}
    return max(qualities, key=lambda word: qualities[word], default="")


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
    gain = np.full((size, size), -MISSING, np.float32)  # [concept of the prompt, place]
    last = len(memory.rows)
    prompt_rows = memory.company[[memory.rows.get(concept, last) for concept in concepts]]
    frame_rows = memory.company[[memory.rows[concept] for concept in own]]
    gain[: len(concepts), : len(places)] = prompt_rows @ frame_rows.T
    for row, concept in enumerate(concepts):
        for column, own_concept in enumerate(own):
            if concept == own_concept:
                gain[row, column] = 1 + SAME
    orders = _orders(size)
    totals = gain[np.arange(size), orders].sum(1)
    best = orders[int(totals.argmax())]
    assignment = zip(best.tolist(), concepts, strict=False)
    concept_at = {places[column]: concept for column, concept in assignment if column < len(places)}
    return float(totals.max()), sentence, concept_at


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
        memory: The counts of the training split.
        example: The example to answer.
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


def nearest(task: Task, train: Sequence[Example], examples: Sequence[Example], seed: int) -> list[str]:
    """Return a sentence of the training example that shares the most concepts, with the others replaced."""
    memory = count(train)
    return [candidates(memory, example, 1)[0] for example in examples]


def template(task: Task, train: Sequence[Example], examples: Sequence[Example], seed: int) -> list[str]:
    """Return, among many neighbours' sentences, the one whose concepts have the company most like the prompt's."""
    memory = count(train)
    return [candidates(memory, example, NEIGHBOURS)[0] for example in examples]


def mbr(task: Task, train: Sequence[Example], examples: Sequence[Example], seed: int) -> list[str]:
    """Return, among the best neighbours' and two-clause sentences, the one most similar to the others."""
    memory = count(train)
    answers = [candidates(memory, example, NEIGHBOURS, CLAUSES) for example in examples]
    return [texts[most_central(texts)] for texts in answers]


LOOKUPS: Mapping[str, Lookup] = {"nearest": nearest, "template": template, "mbr": mbr}
