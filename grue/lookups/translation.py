"""Translation by counting: a phrase table, a trigram model of the target, and a beam search.

Source: Koehn et al. 2003, "Statistical Phrase-Based Translation". The weights below were set by hand, not learnt.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest

from grue.lookups.word_links import Links, link

LONGEST = 5
"""Words of a source phrase."""
CHOICES = 6
"""Translations of a phrase that are tried."""
BEAM = 16
JUMP = 6
"""Most words that the search may skip for later."""
FORWARD, BACKWARD, FLUENCY = 0.6, 0.6, 0.4
JUMPED, PHRASE, WORD = -0.15, -0.6, 0.5
"""Log weights of a skipped word, a phrase, and a word of the translation."""
DISCOUNT = 0.7
START, END = "<s>", "</s>"
NOWHERE = ("", "")
"""Two words that no sentence has: the context of a phrase whose place is unknown."""

Phrase = tuple[str, ...]
Option = tuple[Phrase, float]
Options = Mapping[tuple[int, int], tuple[Option, ...]]
"""Span of the sentence → its translations."""
Table = Mapping[Phrase, tuple[Option, ...]]
"""Source phrase → its translations with their log scores, best first."""


def phrase_table(source: Sequence[Sequence[str]], target: Sequence[Sequence[str]]) -> Table:
    """Count the phrases of aligned sentences; words that never form a phrase alone are counted by their links."""
    together: Counter[tuple[Phrase, Phrase]] = Counter()
    single: Counter[tuple[Phrase, Phrase]] = Counter()
    for s, t, links in zip(source, target, link(source, target), strict=True):
        together.update(_phrases(s, t, links))
        single.update(((s[i],), (t[j],)) for i, j in links)
    alone = {s for s, _ in together if len(s) == 1}
    together.update({pair: times for pair, times in single.items() if pair[0] not in alone})
    sources: Counter[Phrase] = Counter()
    targets: Counter[Phrase] = Counter()
    for (s, t), times in together.items():
        sources[s] += times
        targets[t] += times
    options: dict[Phrase, list[Option]] = defaultdict(list)
    for (s, t), times in together.items():
        likely = FORWARD * math.log(times / sources[s]) + BACKWARD * math.log(times / targets[t])
        options[s].append((t, likely + PHRASE + WORD * len(t)))
    return {
        s: tuple(sorted(choices, key=lambda option: (-option[1], option[0]))[:CHOICES])
        for s, choices in options.items()
    }


def _phrases(source: Sequence[str], target: Sequence[str], links: Links) -> list[tuple[Phrase, Phrase]]:
    """Return the pairs of phrases whose words are linked to no word outside them."""
    places: dict[int, list[int]] = defaultdict(list)
    origins: dict[int, list[int]] = defaultdict(list)
    for s, t in links:
        places[s].append(t)
        origins[t].append(s)
    pairs = []
    for start in range(len(source)):
        for stop in range(start + 1, min(len(source), start + LONGEST) + 1):
            reached = [t for s in range(start, stop) for t in places.get(s, ())]
            if not reached:
                continue
            low, high = min(reached), max(reached)
            back = [s for t in range(low, high + 1) for s in origins.get(t, ())]
            if high - low > 2 * LONGEST or min(back) < start or max(back) >= stop:
                continue
            first = low
            while True:  # words without a counterpart may belong to a phrase
                last = high
                while True:
                    pairs.append((tuple(source[start:stop]), tuple(target[first : last + 1])))
                    last += 1
                    if last >= len(target) or last in origins:
                        break
                first -= 1
                if first < 0 or first in origins:
                    break
    return pairs


class Fluency:
    """A trigram model with absolute discounting, interpolated with shorter contexts."""

    def __init__(self, sentences: Sequence[Sequence[str]]) -> None:
        self._counts: dict[Phrase, Counter[str]] = defaultdict(Counter)
        for sentence in sentences:
            words = (START, START, *sentence, END)
            for place in range(2, len(words)):
                for context in (words[place - 2 : place], words[place - 1 : place], ()):
                    self._counts[tuple(context)][words[place]] += 1
        self._totals = {context: sum(counts.values()) for context, counts in self._counts.items()}
        self._known: dict[tuple[Phrase, Phrase], float] = {}

    def __call__(self, before: Phrase, words: Phrase) -> float:
        """Return the log-probability of words after the two words before them."""
        key = (before, words)
        if key not in self._known:
            text = (*before, *words)
            self._known[key] = sum(
                math.log(self._chance(text[place - 2 : place], text[place])) for place in range(2, len(text))
            )
        return self._known[key]

    def _chance(self, context: Phrase, word: str) -> float:
        counts = self._counts.get(context)
        shorter = self._chance(context[1:], word) if context else 1e-5
        if not counts:
            return shorter
        total = self._totals[context]
        return max(counts[word] - DISCOUNT, 0) / total + DISCOUNT * len(counts) / total * shorter


@dataclass(slots=True)
class Partial:
    """A partial translation; `last` is the end of the phrase that was translated last, `words` its last two words."""

    score: float
    covered: int
    last: int
    words: Phrase
    translated: Phrase


def decode(words: Sequence[str], table: Table, fluency: Fluency, unknown: Callable[[str], str]) -> list[str]:
    """Return the best translation found; a word that the table lacks becomes `unknown(word)`."""
    count = len(words)
    options = _options(words, table, unknown)
    outlook = _outlook(count, options, fluency)
    stacks: list[dict[tuple[int, int, Phrase], Partial]] = [{} for _ in range(count + 1)]
    stacks[0][0, 0, (START, START)] = Partial(0.0, 0, 0, (START, START), ())
    for done, stack in enumerate(stacks[:-1]):
        for partial in nlargest(
            BEAM, stack.values(), lambda partial: partial.score + _left(partial.covered, count, outlook)
        ):
            gap = next(place for place in range(count) if not partial.covered >> place & 1)
            for start in range(gap, min(count, gap + JUMP + 1)):
                for stop in range(start + 1, min(count, start + LONGEST) + 1):
                    if partial.covered >> (stop - 1) & 1:
                        break
                    size = done + stop - start
                    for option in options.get((start, stop), ()):
                        _extend(partial, start, stop, option, fluency, stacks[size], size == count)
    return list(max(stacks[count].values(), key=lambda partial: partial.score).translated)


def _extend(
    partial: Partial, start: int, stop: int, option: Option, fluency: Fluency,
    stack: dict[tuple[int, int, Phrase], Partial], whole: bool,
) -> None:  # fmt: skip
    """Put a translation that is one phrase longer on its stack, if it is the best in its state."""
    text, score = option
    ended = (*text, END) if whole else text
    total = partial.score + score + JUMPED * abs(start - partial.last) + FLUENCY * fluency(partial.words, ended)
    words = (*partial.words, *text)[-2:]
    covered = partial.covered | ((1 << (stop - start)) - 1) << start
    key = (covered, stop, words)
    if key not in stack or stack[key].score < total:
        stack[key] = Partial(total, covered, stop, words, (*partial.translated, *text))


def _options(words: Sequence[str], table: Table, unknown: Callable[[str], str]) -> Options:
    choices: dict[tuple[int, int], tuple[Option, ...]] = {}
    for start in range(len(words)):
        for stop in range(start + 1, min(len(words), start + LONGEST) + 1):
            choices_here = table.get(tuple(words[start:stop]))
            if choices_here:
                choices[start, stop] = choices_here
        if (start, start + 1) not in choices:
            choices[start, start + 1] = (((unknown(words[start]),), 0.0),)
    return choices


def _outlook(count: int, options: Options, fluency: Fluency) -> list[list[float]]:
    """Return an optimistic score of each span, with its first words without context."""
    best = [[-math.inf] * (count + 1) for _ in range(count + 1)]
    for (start, stop), choices in options.items():
        best[start][stop] = max(score + FLUENCY * fluency(NOWHERE, text) for text, score in choices)
    for size in range(2, count + 1):
        for start in range(count - size + 1):
            stop = start + size
            split = max(best[start][middle] + best[middle][stop] for middle in range(start + 1, stop))
            best[start][stop] = max(best[start][stop], split)
    return best


def _left(covered: int, count: int, outlook: list[list[float]]) -> float:
    """Return the optimistic score of the words that are not translated yet."""
    total, start = 0.0, None
    for place in range(count + 1):
        free = place < count and not covered >> place & 1
        if free and start is None:
            start = place
        elif not free and start is not None:
            total, start = total + outlook[start][place], None
    return total
