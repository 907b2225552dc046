"""Compare sentences by their frames, and put the answer to one sentence into the words of another."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from math import log

WORD = re.compile(r"'s\b|\$?\w[\w,-]*\w|\w|[^\w\s]", re.ASCII)
GAP = "_"
RARE = 0.004  # share of the texts below which a word is specific to a text
Terms = tuple[str, ...]
Match = SequenceMatcher[str]


@lru_cache(maxsize=1 << 18)
def terms(text: str) -> Terms:
    """Return the words and punctuation marks of a text; "'s" is a word."""
    return tuple(WORD.findall(text))


def plain(words: Sequence[str]) -> str:
    """Return words and marks as a text."""
    return re.sub(r" (?='s\b|[.,;:?!])", "", " ".join(words))


class Frames:
    """Turns sentences into frames: in lower case, with a gap for every rare word.

    Args:
        texts: The words of each text of a collection.
    """

    def __init__(self, texts: Iterable[Iterable[str]]) -> None:
        counts: Counter[str] = Counter()
        total = 0
        for text in texts:
            counts.update({word.lower() for word in text})
            total += 1
        self.common = frozenset(word for word, count in counts.items() if count >= max(RARE * total, 2.0))
        self.counts = counts
        self.of = lru_cache(maxsize=1 << 18)(self._of)

    def rarity(self, word: str) -> float:
        """Return the weight of a word, about 0.1 to 1, higher for words of fewer texts."""
        return 1 / log(2 + self.counts[word.lower()])

    def _of(self, words: Terms) -> Terms:
        return tuple(word.lower() if word.lower() in self.common else GAP for word in words)


def matched(first: Terms, second: Terms) -> Match:
    """Return the alignment of two frames."""
    return SequenceMatcher(None, first, second, autojunk=False)


def moved(answer: Terms, source: Terms, goal: Terms, match: Match) -> list[str]:
    """Return an answer with the source's words replaced by those of the goal, run by run."""
    starts, ends = _mapped(match, len(source), len(goal))
    words: list[str] = []
    position = 0
    while position < len(answer):
        start, length = _longest_run(answer, position, source)
        if length:
            words += goal[starts[start] : ends[start + length - 1]]
        else:
            words.append(answer[position])
        position += max(length, 1)
    return words


def _mapped(match: Match, source: int, goal: int) -> tuple[list[int], list[int]]:
    """Return where in the goal each word of the source begins and ends."""
    starts, ends = [0] * source, [goal] * source
    for kind, a, b, c, d in match.get_opcodes():
        for position in range(a, b):
            alone = kind == "equal" or b - a == d - c
            starts[position] = c + position - a if alone else c
            ends[position] = c + position - a + 1 if alone else d
    return starts, ends


def _longest_run(answer: Terms, position: int, source: Terms) -> tuple[int, int]:
    """Return the start and length of the longest run of the source that the answer has from a position on."""
    best = (0, 0)
    for start in range(len(source)):
        length = 0
        for word, source_word in zip(answer[position:], source[start:], strict=False):
            if word != source_word:
                break
            length += 1
        if length > best[1]:
            best = (start, length)
    return best
