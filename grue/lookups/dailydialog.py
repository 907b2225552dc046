"""DailyDialog without learning: what was replied in the most similar talk, with its names and facts exchanged.

Two talks are similar where their last utterances are, where these take up words that stood in the same surroundings
earlier ("on _ I", "at _ .").
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from grue.lookups.consensus import most_central
from grue.lookups.nearest import Lookup
from grue.lookups.retrieval import Index
from grue.records import Example
from grue.tasks import Task

TOKEN = re.compile(r"[\w'’-]+|[^\w\s]")
COMMON = 0.05  # a word in more than this share of the prompts is no fact of one talk
LAST, TAKEN_UP = 2, 6  # how often the features of a prompt count, next to its other words
LONGEST = 6  # words of a phrase that is exchanged as a whole
NEIGHBOURS = 10
Utterances = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Memory:
    """The training talks, ready to be searched."""

    talks: Sequence[Utterances]
    replies: Sequence[str]
    common: frozenset[str]
    index: Index


def nearest(task: Task, train: Sequence[Example], asked: Sequence[Example], seed: int) -> list[str]:
    """Return the reply of the most similar training talk, mended for the talk asked."""
    memory = _memory(train)
    return [_candidates(memory, utterances(example.prompt), 1)[0] for example in asked]


def mbr(task: Task, train: Sequence[Example], asked: Sequence[Example], seed: int) -> list[str]:
    """Return the one of the ten nearest mended replies that is most like the others."""
    memory = _memory(train)
    mended = [_candidates(memory, utterances(example.prompt), NEIGHBOURS) for example in asked]
    return [texts[most_central(texts)] for texts in mended]


LOOKUPS: Mapping[str, Lookup] = {"nearest": nearest, "mbr": mbr}


def utterances(prompt: str) -> Utterances:
    """Return the tokens of every utterance of a prompt."""
    return [TOKEN.findall(utterance) for utterance in prompt.split("<EOU>") if utterance.strip()] or [[]]


# --- similar talks ---------------------------------------------------------------------------------------------------


def _memory(train: Sequence[Example]) -> Memory:
    known = [example for example in train if example.references]
    talks = [utterances(example.prompt) for example in known]
    counts = Counter(word for talk in talks for word in {token.lower() for utterance in talk for token in utterance})
    common = frozenset(word for word, count in counts.items() if count > COMMON * len(talks))
    index = Index([list(_features(talk, common, 1, 1)) for talk in talks])
    replies = [example.references[0] for example in known]
    return Memory(talks, replies, common, index)


def _features(talk: Utterances, common: frozenset[str], last: int, taken_up: int) -> Iterator[str]:
    """Yield the features of a talk, those of each kind so many times."""
    *before, final = [[token.lower() for token in utterance] for utterance in talk]
    yield from (token for utterance in before for token in utterance)
    masked = [token if token in common else "_" for token in final]
    yield from (f"last {token}" for token in final for _ in range(last))
    yield from (f"last {pair}" for pair in _pairs(final) for _ in range(last))
    yield from (f"form {pair}" for pair in _pairs(masked) for _ in range(last))
    yield from (f"again {place}" for place in _taken_up(before, set(final) - common) for _ in range(taken_up))


def _pairs(tokens: Sequence[str]) -> Iterator[str]:
    yield from (f"{one} {two}" for one, two in zip(["^", *tokens], [*tokens, "$"], strict=True))


def _taken_up(before: Utterances, words: set[str]) -> Iterator[str]:
    """Yield where each of the words stood before, by its neighbours; "new" for those that did not."""
    new = set(words)
    for utterance in before:
        around = ["^", *utterance, "$"]
        for place, token in enumerate(utterance, start=1):
            if token in words:
                new.discard(token)
                yield f"{around[place - 1]} _"
                yield f"_ {around[place + 1]}"
    yield from ("new" for _ in new)


def _candidates(memory: Memory, talk: Utterances, count: int) -> list[str]:
    query = list(_features(talk, memory.common, LAST, TAKEN_UP))
    hits = memory.index.nearest(query, count)
    return [_mended(memory.replies[number], memory.talks[number], talk) for number, _ in hits]


# --- mending ---------------------------------------------------------------------------------------------------------


def _mended(reply: str, known: Utterances, asked: Utterances) -> str:
    """Exchange in a reply what the known talk has where the talk asked has something else."""
    exchanges = _exchanges(known, asked)
    here = {token.lower() for utterance in asked for token in utterance}
    tokens, place, mended = TOKEN.findall(reply), 0, list[str]()
    while place < len(tokens):
        for length in range(min(LONGEST, len(tokens) - place), 0, -1):
            phrase = tuple(token.lower() for token in tokens[place : place + length])
            if phrase in exchanges and not here.issuperset(phrase):
                mended += exchanges[phrase]
                place += length
                break
        else:
            mended.append(tokens[place])
            place += 1
    return _typeset(mended)


def _exchanges(known: Utterances, asked: Utterances) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return what stands in the talk asked where the known one has a phrase: for each, what does so most often."""
    votes: dict[tuple[str, ...], Counter[tuple[str, ...]]] = {}
    for utterance, other in zip(reversed(known), reversed(asked), strict=False):
        lower = [token.lower() for token in utterance]
        matcher = SequenceMatcher(None, lower, [token.lower() for token in other], autojunk=False)
        for kind, start, end, first, last in matcher.get_opcodes():
            if kind != "replace":
                continue
            votes.setdefault(tuple(lower[start:end]), Counter())[tuple(other[first:last])] += 1
            if end - start == last - first > 1:
                for token, replacement in zip(lower[start:end], other[first:last], strict=True):
                    votes.setdefault((token,), Counter())[(replacement,)] += 1
    return {phrase: replacements.most_common(1)[0][0] for phrase, replacements in votes.items()}


def _typeset(tokens: Sequence[str]) -> str:
    text = re.sub(r" (?=[.,;:?!])", "", " ".join(tokens))
    return re.sub(r"(?:^|(?<=[.?!] ))[a-z]", lambda match: match[0].upper(), text)
