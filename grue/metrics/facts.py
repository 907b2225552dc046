"""The facts that a text states, of those that its prompt determines; references are not read.

An example's `meta["facts"]` is a table:

- `expected`: facts that a text should state, each a list of its wordings;
- `wrong`: wordings that contradict them, such as the other cells of a table (may be missing);
- `closed`: whether every name and number must come from the prompt (false if missing).
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from grue.errors import DataError
from grue.metrics.metric import Average, Prepared
from grue.metrics.tokens import CachedByWord, stem
from grue.records import Example

KEYS = ("expected", "wrong", "closed")
WRONG = -1
TWICE = 2  # people repeat a fact: "Ann Moss won. Moss is 40."
ARTICLES = frozenset(("a", "an", "the"))
CARDINALS = "two three four five six seven eight nine ten eleven twelve".split()
ORDINALS = "second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth".split()
DIGITS = {word: str(number) for words in (CARDINALS, ORDINALS) for number, word in enumerate(words, start=2)}
"""Number words that equal digits; "one" and "first" are left out, since they are often not numbers."""
NUMBERS = frozenset(
    "thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty "
    "ninety hundred thousand million".split()
)
WORD = re.compile(r"\w+(?:[-.,:'’]\w+)*")
SENTENCE_END = re.compile(r"[.!?:\n]")
Stems = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadFacts:
    """The facts of an example as stems.

    Attributes:
        expected: Number of expected facts.
        wordings: Stems of a wording → the number of its fact, or `WRONG`.
        longest: Number of words of the longest wording.
        allowed: Stems of the prompt and the expected wordings, if names and numbers must be among them; else None.
    """

    expected: int
    wordings: Mapping[Stems, int]
    longest: int
    allowed: frozenset[str] | None


def facts() -> Average:
    """Return the F1 of the facts that a text states, 0–1.

    A fact is stated where the words of one of its wordings occur in a row, compared by Porter stems without articles
    and punctuation, with two and second as 2; the longest wording wins, and one that is both expected and wrong is
    expected. Recall is the share of expected facts that are stated. Precision is their number over itself plus every
    wrong wording, every statement of a fact beyond the second and, if the facts are closed, every number, and every
    capitalised word inside a sentence, that the prompt lacks. So a text that lists every value, or repeats one, scores
    lower. If nothing is expected, the value is 1 / (1 + wrong).
    """
    facts_of = Prepared(read)

    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        return [stated(facts_of(example), text) for example, text in zip(examples, texts, strict=True)]

    return Average("facts|f1|stem:porter", values, facts_of.prepare)


def read(example: Example) -> ReadFacts:
    """Return the facts of an example; a DataError if it has none, or they are not of the form above."""
    table = example.meta.get("facts")
    where = f"The example {example.id!r}"
    if not isinstance(table, Mapping) or "expected" not in table:
        raise DataError(
            f"{where} has no facts in its meta, which the metric facts needs: a table whose 'expected' lists facts, "
            "each a list of its wordings. Add it to the data, or use another metric."
        )
    if unknown := [key for key in table if key not in KEYS]:
        raise DataError(f"{where}: meta.facts has an unknown key {unknown[0]!r}. Known: {', '.join(KEYS)}.")
    expected, wrong, closed = table["expected"], table.get("wrong", ()), table.get("closed", False)
    if not isinstance(expected, list | tuple) or not all(_is_wordings(fact) and fact for fact in expected):
        raise DataError(f"{where}: meta.facts.expected must be a list of lists of wordings, found {expected!r:.80}.")
    if not _is_wordings(wrong) or not isinstance(closed, bool):
        raise DataError(f"{where}: meta.facts needs a list of wordings as wrong, and true or false as closed.")
    wordings = dict.fromkeys(map(_stems, wrong), WRONG)
    for number, fact in enumerate(expected):
        wordings |= dict.fromkeys(map(_stems, fact), number)
    wordings.pop((), None)
    longest = max(map(len, wordings), default=0)
    allowed = frozenset(_stems(" ".join([example.prompt, *chain(*expected)]))) if closed else None
    return ReadFacts(len(expected), wordings, longest, allowed)


def _is_wordings(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(wording, str) for wording in value)


@CachedByWord
def _stem(word: str) -> str:
    """Return the stem of a word, without 's, small numbers as digits; empty for an article."""
    lower = word.lower().replace("’", "'").removesuffix("'s")
    return "" if lower in ARTICLES else DIGITS.get(lower) or stem(lower)


def _stems(text: str) -> Stems:
    return tuple(filter(None, _stem.each(WORD.findall(text))))


def stated(facts: ReadFacts, text: str) -> float:
    """Return the F1 of the facts that `text` states, 0–1."""
    times = Counter(_facts_in(_stems(text), facts))
    wrong = times.pop(WRONG, 0) + sum(max(count - TWICE, 0) for count in times.values())
    if facts.allowed is not None:
        wrong += len(_names_and_numbers(text) - facts.allowed)
    if not facts.expected:
        return 1 / (1 + wrong)
    return 2 * len(times) / (facts.expected + len(times) + wrong)


def _facts_in(stems: Stems, facts: ReadFacts) -> Iterator[int]:
    """Yield the number of each fact that the stems state, in order; longer wordings win."""
    start = 0
    while start < len(stems):
        for end in range(min(start + facts.longest, len(stems)), start, -1):
            if (number := facts.wordings.get(stems[start:end])) is not None:
                yield number
                start = end
                break
        else:
            start += 1


def _names_and_numbers(text: str) -> set[str]:
    """Return the stems of a text's numbers and of its capitalised words, except those that open a sentence."""
    stems = set()
    end = 0
    for match in WORD.finditer(text):
        word = match[0]
        is_name = word[0].isupper() and end and not SENTENCE_END.search(text, end, match.start())
        if is_name or word in DIGITS or word in NUMBERS or word[0].isdigit():
            stems.add(_stem(word))
        end = match.end()
    return stems - {""}


METRICS = {"facts": facts}
