"""The answer of the most similar training prompt, as it is: the lookup for any data set."""

import re
from collections.abc import Callable, Sequence

from grue.lookups.retrieval import Index
from grue.records import Example
from grue.tasks import Task

Lookup = Callable[[Task, Sequence[Example], Sequence[Example], int], list[str]]
"""The task, its training split, the examples asked (without what tells their references) and a seed → one text each."""

TERM = re.compile(r"\w+|[^\w\s]")


def terms(text: str) -> list[str]:
    """Return a text's words and punctuation marks in lower case."""
    return TERM.findall(text.lower())


def nearest(task: Task, train: Sequence[Example], asked: Sequence[Example], seed: int) -> list[str]:
    """Return the first reference of the training example whose prompt is the most similar, by BM25 over words."""
    known = [example for example in train if example.references]
    index = Index([terms(example.prompt) for example in known])
    return [known[index.nearest(terms(example.prompt), 1)[0][0]].references[0] for example in asked]
