"""CommonGen without learning: training sentences as frames, whose concepts give way to those of the prompt.

A concept is known by its company: the words before and after it, its inflection, and where in a sentence it stands. A
concept of the prompt takes the place of the concept that keeps the most similar company, in the same inflection.
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
"""So many concepts of a prompt are used at most; they are tried in all orders."""
JOINTS = ("while", "and", "as", "when")
"""Words between two clauses."""
SAME = 0.5
"""What a frame gains for a concept that it has itself, on top of the similarity of 1."""
MISSING = 1.0
"""What a frame loses for a concept of its own that is not asked for, or for one that it has no place for."""
TOKEN = re.compile(r"[\w'-]+|[^\w\s]")

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SentenceFrame:
    """A training sentence: its words, and the places of its concepts."""

    words: tuple[str, ...]
    places: tuple[int, ...]
    concepts: tuple[str, ...]


Fit = tuple[float, SentenceFrame, Mapping[int, str]]
"""How well a frame takes the concepts, the frame, and which concept takes each place."""


@dataclass(frozen=True, slots=True)
class KnownSentences:
    """What is counted over the training split.

    Attributes:
        frames: The sentences of each example.
        index: The examples by their concepts.
        clauses: The parts of sentences that a joint divides, and the joint.
        clause_index: The clauses by their concepts.
        rows: Concept → its row in `company`.
        company: [concepts, features], of length 1: how often which words stand beside a concept.
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


def count(train: Sequence[Example]) -> KnownSentences:
    """Count what the lookups know, over the first references of each example."""
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
    return KnownSentences(
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
    """Find the concepts of a sentence; one that occurs twice is found where it stands first."""
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
    """Return what a word can be a form of."""
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


def inflected(known: KnownSentences, concept: str, kind: str) -> str:
    """Return a concept in a kind of inflection: as seen in training, else by the rule of the regular ones."""
    seen = known.forms.get(concept, {})
    if kind in seen or not kind:
        return seen.get(kind, concept)
    stem = concept[:-1] if concept.endswith("e") and kind != "s" else concept
    return stem + ("es" if kind == "s" and re.search("(s|x|z|ch|sh)$", stem) else kind)


def fitted(known: KnownSentences, sentence: SentenceFrame, concepts: Sequence[str]) -> Fit:
    """Return how well a frame takes the concepts, and which takes each of its places."""
    places, own = sentence.places, sentence.concepts
    size = max(len(concepts), len(places))
    gain = np.full((size, size), -MISSING, np.float32)  # [concept asked, place]
    last = len(known.rows)
    asked = known.company[[known.rows.get(concept, last) for concept in concepts]]
    held = known.company[[known.rows[concept] for concept in own]]
    gain[: len(concepts), : len(places)] = asked @ held.T
    for row, concept in enumerate(concepts):
        for column, other in enumerate(own):
            if concept == other:
                gain[row, column] = 1 + SAME
    orders = _orders(size)
    totals = gain[np.arange(size), orders].sum(1)
    best = orders[int(totals.argmax())]
    given = zip(best.tolist(), concepts, strict=False)
    taken = {places[column]: concept for column, concept in given if column < len(places)}
    return float(totals.max()), sentence, taken


@cache
def _orders(size: int) -> NDArray[np.intp]:
    return np.array(list(permutations(range(size))), np.intp)


def filled(known: KnownSentences, sentence: SentenceFrame, concepts: Sequence[str], taken: Mapping[int, str]) -> str:
    """Return the frame with the concepts in their places, and what has no place at its end."""
    words = list(sentence.words)
    for place, concept in taken.items():
        own = sentence.concepts[sentence.places.index(place)]
        if concept != own:
            words[place] = inflected(known, concept, inflection(words[place], own))
            if place and place - 1 not in sentence.places and words[place - 1] not in known.common:
                words[place - 1] = known.qualities.get(concept, "")
    words = [word for word in words if word]
    present = frozenset[str]().union(*map(bases, words))
    left_over = [known.phrases.get(c, f"and the {c}") for c in concepts if c not in taken.values() and c not in present]
    end = [words.pop()] if words and words[-1] in ".!?" else []
    for place, word in enumerate(words[:-1]):
        if word in ("a", "an"):
            words[place] = "an" if words[place + 1][0] in "aeiou" else "a"
    text = re.sub(r" ([,.!?;:])", r"\1", " ".join([*words, *left_over, *end]))
    return text[:1].upper() + text[1:]


def candidates(known: KnownSentences, example: Example, neighbours: int, clauses: int = 0) -> list[str]:
    """Return the best fitting sentences with the prompt's concepts, best first.

    Args:
        known: What training taught.
        example: The example asked.
        neighbours: How many training examples lend their sentences.
        clauses: How many clauses of training are tried for each part of the concepts; 0 for whole sentences only.
    """
    concepts = tuple(dict.fromkeys(concepts_of(example)))[:MOST]
    near = known.index.nearest(concepts, neighbours)
    frames = [sentence for number, _ in near for sentence in known.frames[number] if len(sentence.places) <= MOST]
    fits = [fitted(known, sentence, concepts) for sentence in frames]
    if clauses:
        fits += joined(known, concepts, clauses)
    best = sorted(fits, key=lambda fit: -fit[0])[:CANDIDATES]
    return [filled(known, sentence, concepts, taken) for _, sentence, taken in best] or [" ".join(concepts)]


def joined(known: KnownSentences, concepts: Sequence[str], clauses: int) -> list[Fit]:
    """Return sentences of two clauses of training that share their joint, for every division of the concepts."""
    best: dict[tuple[str, ...], list[tuple[Fit, str]]] = {}
    for part in (part for size in range(1, len(concepts)) for part in combinations(concepts, size)):
        numbers = known.clause_index.nearest(part, clauses) if known.clauses else []
        near = [known.clauses[number] for number, _ in numbers]
        fits = [(fitted(known, clause, part), joint) for clause, joint in near]
        best[part] = sorted(fits, key=lambda fit: -fit[0][0])[:BEST]
    fits_joined: list[Fit] = []
    for part, lefts in best.items():
        rights = best[tuple(concept for concept in concepts if concept not in part)]
        pairs = ((left, right, joint) for left, joint in lefts for right, other in rights if joint == other)
        fits_joined += [_sentence(left, right, joint) for left, right, joint in pairs]
    return fits_joined


def _sentence(left: Fit, right: Fit, joint: str) -> Fit:
    (fit, first, taken), (other_fit, second, other_taken) = left, right
    offset = len(first.words) + 1
    places = (*first.places, *(place + offset for place in second.places))
    whole = SentenceFrame((*first.words, joint, *second.words, "."), places, first.concepts + second.concepts)
    return fit + other_fit, whole, {**taken, **{place + offset: concept for place, concept in other_taken.items()}}


def nearest(task: Task, train: Sequence[Example], asked: Sequence[Example], seed: int) -> list[str]:
    """Return a sentence of the training example that shares the most concepts, the others exchanged."""
    known = count(train)
    return [candidates(known, example, 1)[0] for example in asked]


def template(task: Task, train: Sequence[Example], asked: Sequence[Example], seed: int) -> list[str]:
    """Return the sentence, of many neighbours, whose own concepts keep the company most like that of the prompt's."""
    known = count(train)
    return [candidates(known, example, NEIGHBOURS)[0] for example in asked]


def mbr(task: Task, train: Sequence[Example], asked: Sequence[Example], seed: int) -> list[str]:
    """Return the best fitting sentence, of neighbours and of two clauses joined, that the others are most like."""
    known = count(train)
    every = [candidates(known, example, NEIGHBOURS, CLAUSES) for example in asked]
    return [texts[most_central(texts)] for texts in every]


LOOKUPS: Mapping[str, Lookup] = {"nearest": nearest, "template": template, "mbr": mbr}
