"""The answer of the most similar training prompt, unchanged: the lookup for any data set."""

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from grue.lookups.retrieval import Index
from grue.records import Example
from grue.tasks import Task

Lookup = Callable[[Task, Sequence[Example], Sequence[Example], int], list[str]]
"""The task, its training split, the examples to answer (without their references) and a seed → one text each."""

Memory = TypeVar("Memory")

TERM = re.compile(r"\w+|[^\w\s]")


def terms(text: str) -> list[str]:
    """Return a text's words and punctuation marks in lower case."""
    return TERM.findall(text.lower())


def counted(count: Callable[[Sequence[Example]], Memory], answer: Callable[[Memory, Example], str]) -> Lookup:
    """Return the lookup that counts over the training split once, and answers each example from that alone."""

    def lookup(task: Task, train: Sequence[Example], examples: Sequence[Example], seed: int) -> list[str]:
        memory = count(train)
        return [answer(memory, example) for example in examples]

    return lookup


def nearest(task: Task, train: Sequence[Example], examples: Sequence[Example], seed: int) -> list[str]:
    """Return the first reference of the training example whose prompt is the most similar, by BM25 over words."""
    answered = [example for example in train if example.references]
    index = Index([terms(example.prompt) for example in answered])
    return [answered[index.nearest(terms(example.prompt), 1)[0][0]].references[0] for example in examples]
