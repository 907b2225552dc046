"""spice_lite: whether a text says who does what, where and with what, as its references do.

Our own rules after the idea of SPICE (Anderson et al. 2016), without a parser. It is not SPICE: never compare the two.
"""

from collections.abc import Iterable, Iterator, Sequence

from grue.metrics import wordnet
from grue.metrics.clauses import Tuple, read
from grue.metrics.metric import Average, Prepared, references_of
from grue.records import Example


class Graph:
    """The tuples of one or more texts, without synonymous repetitions.

    Two tuples are the same if they are equally long and their words are, one by one, equal or synonyms. Tuples are
    indexed by their first and last words, which are single words.
    """

    def __init__(self, tuples: Iterable[Tuple]) -> None:
        self.tuples: list[Tuple] = []
        self._by_ends: dict[tuple[int, str], dict[str, list[Tuple]]] = {}
        for each in tuples:
            if each not in self:
                self.tuples.append(each)
                self._by_ends.setdefault((len(each), each[0]), {}).setdefault(each[-1], []).append(each)

    def __contains__(self, item: Tuple) -> bool:
        return any(all(map(are_synonyms, item[1:-1], candidate[1:-1])) for candidate in self._with_ends_of(item))

    def _with_ends_of(self, item: Tuple) -> Iterator[Tuple]:
        """Yield the tuples that are as long and whose ends are those of `item`, or synonyms."""
        ends = wordnet.synonyms(item[-1])
        for start in wordnet.synonyms(item[0]):
            if by_end := self._by_ends.get((len(item), start)):
                for end in min(by_end, ends, key=len):
                    if end in ends:
                        yield from by_end.get(end, ())


def are_synonyms(first: str, second: str) -> bool:
    """Whether two words, or two relations word by word, are equal or share a synset: take to, carry to."""
    if first == second:
        return True
    left, right = first.split(" "), second.split(" ")
    return len(left) == len(right) and all(b in wordnet.synonyms(a) for a, b in zip(left, right, strict=True))


def f1(reference: Graph, candidate: Graph) -> float:
    """Return the harmonic mean of the shares of tuples that match, 0 if none does."""
    hits = sum(each in reference for each in candidate.tuples)
    if not hits:
        return 0.0
    precision, recall = hits / len(candidate.tuples), min(1.0, hits / len(reference.tuples))
    return 2 * precision * recall / (precision + recall)


def spice_lite() -> Average:
    """Return the F1 of a text's tuples and those of all its references together, 0–1."""
    graph_of = Prepared(
        lambda example: Graph(each for text in references_of(example, "spice_lite") for each in read(text))
    )

    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        return [f1(graph_of(example), Graph(read(text))) for example, text in zip(examples, texts, strict=True)]

    signature = f"spice_lite|rules:1|case:lower|tok:words|tags:{wordnet.DATA}|synonyms:{wordnet.DATA}|refs:merged"
    return Average(signature, values, graph_of.prepare)


METRICS = {"spice_lite": spice_lite}
