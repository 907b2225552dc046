"""DailyDialog without learning: the reply in the most similar talk, with its names and facts replaced.

Two talks are similar if their last utterances are, and if these repeat words that had the same neighbours earlier
("on _ I", "at _ .").
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from grue.lookups.consensus import central
from grue.lookups.nearest import Lookup, counted
from grue.lookups.retrieval import Index
from grue.records import Example

TOKEN = re.compile(r"[\w'’-]+|[^\w\s]")
COMMON = 0.05  # a word in more than this share of the prompts is not specific to one talk
LAST, TAKEN_UP = 2, 6  # weights of the last utterance's features and of repeated words
LONGEST = 6  # words of a phrase that is replaced as a whole
NEIGHBOURS = 10
Utterances = Sequence[Sequence[str]]


def utterances(prompt: str) -> Utterances:
    """Return the tokens of every utterance of a prompt."""
    return [TOKEN.findall(utterance) for utterance in prompt.split("<EOU>") if utterance.strip()] or [[]]


# --- similar talks ---------------------------------------------------------------------------------------------------


class Memory:
    """The training talks, ready to be searched."""

    def __init__(self, train: Sequence[Example]) -> None:
        answered = [example for example in train if example.references]
        self.replies = [example.references[0] for example in answered]
        self.talks = [utterances(example.prompt) for example in answered]
        counts = Counter(word for talk in self.talks for word in {each.lower() for said in talk for each in said})
        self.common = {word for word, count in counts.items() if count > COMMON * len(self.talks)}
        self.index = Index([list(_features(talk, self.common, 1, 1)) for talk in self.talks])


def _features(talk: Utterances, common: set[str], last: int, taken_up: int) -> Iterator[str]:
    """Yield the features of a talk, each as often as its kind's weight."""
    *before, final = [[token.lower() for token in utterance] for utterance in talk]
    yield from (token for utterance in before for token in utterance)
    masked = [token if token in common else "_" for token in final]
    yield from (f"last {token}" for token in final for _ in range(last))
    yield from (f"last {pair}" for pair in _pairs(final) for _ in range(last))
    yield from (f"form {pair}" for pair in _pairs(masked) for _ in range(last))
    yield from (f"again {place}" for place in _taken_up(before, set(final) - common) for _ in range(taken_up))


def _pairs(tokens: Sequence[str]) -> Iterator[str]:
    yield from (f"{first} {second}" for first, second in zip(["^", *tokens], [*tokens, "$"], strict=True))


def _taken_up(before: Utterances, words: set[str]) -> Iterator[str]:
    """Yield the earlier neighbours of each of the words; "new" for those that did not occur before."""
    new = set(words)
    for utterance in before:
        around = ["^", *utterance, "$"]
        for place, token in enumerate(utterance, start=1):
            if token in words:
                new.discard(token)
                yield f"{around[place - 1]} _"
                yield f"_ {around[place + 1]}"
    yield from ("new" for _ in new)


def _candidates(memory: Memory, example: Example, count: int) -> list[str]:
    """Return the replies of the most similar talks, adapted to this one."""
    talk = utterances(example.prompt)
    query = list(_features(talk, memory.common, LAST, TAKEN_UP))
    hits = memory.index.nearest(query, count)
    return [_mended(memory.replies[number], memory.talks[number], talk) for number, _ in hits]


# --- mending ---------------------------------------------------------------------------------------------------------


def _mended(reply: str, source: Utterances, goal: Utterances) -> str:
    """Replace in a reply what the source talk has where the goal talk has something else."""
    exchanges = _exchanges(source, goal)
    goal_words = {token.lower() for utterance in goal for token in utterance}
    tokens, place, mended = TOKEN.findall(reply), 0, list[str]()
    while place < len(tokens):
        for length in range(min(LONGEST, len(tokens) - place), 0, -1):
            phrase = tuple(token.lower() for token in tokens[place : place + length])
            if phrase in exchanges and not goal_words.issuperset(phrase):
                mended += exchanges[phrase]
                place += length
                break
        else:
            mended.append(tokens[place])
            place += 1
    text = re.sub(r" (?=[.,;:?!])", "", " ".join(mended))
    return re.sub(r"(?:^|(?<=[.?!] ))[a-z]", lambda match: match[0].upper(), text)


def _exchanges(source: Utterances, goal: Utterances) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return phrase of the source talk → what the goal talk most often has in its place."""
    votes: dict[tuple[str, ...], Counter[tuple[str, ...]]] = {}
    for utterance, goal_utterance in zip(reversed(source), reversed(goal), strict=False):
        lower = [token.lower() for token in utterance]
        matcher = SequenceMatcher(None, lower, [token.lower() for token in goal_utterance], autojunk=False)
        for kind, start, end, first, last in matcher.get_opcodes():
            if kind != "replace":
                continue
            votes.setdefault(tuple(lower[start:end]), Counter())[tuple(goal_utterance[first:last])] += 1
            if end - start == last - first > 1:
                for token, replacement in zip(lower[start:end], goal_utterance[first:last], strict=True):
                    votes.setdefault((token,), Counter())[(replacement,)] += 1
    return {phrase: replacements.most_common(1)[0][0] for phrase, replacements in votes.items()}


LOOKUPS: Mapping[str, Lookup] = {
    "nearest": counted(Memory, lambda memory, example: _candidates(memory, example, 1)[0]),
    "mbr": counted(Memory, lambda memory, example: central(_candidates(memory, example, NEIGHBOURS))),
}
