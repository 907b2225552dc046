"""IMDB without learning: how positive reviews continued after the same words.

The sentiment scorer, which is the task's reward, picks the best of several endings.
"""

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from grue.errors import ConfigError
from grue.lookups.nearest import Lookup, nearest
from grue.metrics.registry import make_metric
from grue.records import Example
from grue.tasks import Task

LONGEST = 4
"""Words at the end of a prompt that are looked for in other reviews."""
MOST = 300
"""Most places that are kept for the same words."""
TRIED = 12
"""Endings that are scored for a prompt."""
LENGTHS = (0.6, 1.5)
"""Bounds of an ending's number of words, as shares of the prompt's."""
LONG = re.compile(r"\w{5,}")
NAME = re.compile(r"(?<=[a-z,] )[A-Z][\w'-]+")

Places = Mapping[tuple[str, ...], Sequence[tuple[int, int]]]
"""Words → their places in training reviews: the review, and the word after them."""


def best_of_n(task: Task, train: Sequence[Example], examples: Sequence[Example], seed: int) -> list[str]:
    """Return, among endings that continue the prompt's last words, the one that the task's scorer rates highest.

    Among those that are equal to a hundredth, this is the one with the most words of the prompt. If no ending has a
    fitting length, the text is empty.

    Raises:
        ConfigError: The task has no metric of preference.
    """
    metrics = [spec for spec in task.metrics if spec.axis == "preference"]
    if not metrics:
        raise ConfigError(
            f"{task.suite}/{task.name} has no metric of preference, by which best-of-n picks; take another baseline."
        )
    reviews = [[*example.prompt.split(), *example.references[0].split()] for example in train if example.references]
    prompts = [example.prompt.split() for example in examples]
    places = _places(reviews, prompts)
    rng = random.Random(seed)
    tried = [_endings(prompt, reviews, places, rng) for prompt in prompts]
    scorer = make_metric(metrics[0].name, **metrics[0].options)
    asked = [example for example, texts in zip(examples, tried, strict=True) for _ in texts]
    liked = scorer.statistics(asked, [text for texts in tried for text in texts])
    values = iter([float(value) for value in scorer.per_example(liked)])

    def best(example: Example, texts: Sequence[str]) -> str:
        long = {*LONG.findall(example.prompt)}
        return max([(round(next(values), 2), len({*LONG.findall(text)} & long), text) for text in texts])[2]

    return [best(example, texts) if texts else "" for example, texts in zip(examples, tried, strict=True)]


LOOKUPS: Mapping[str, Lookup] = {"nearest": nearest, "best-of-n": best_of_n}


def _places(reviews: Sequence[Sequence[str]], prompts: Iterable[Sequence[str]]) -> Places:
    """Return the places of the prompts' last words in reviews."""
    ends = {tuple(prompt[-size:]) for prompt in prompts for size in range(1, LONGEST + 1) if len(prompt) >= size}
    places: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for number, review in enumerate(reviews):
        for stop in range(1, len(review)):
            for size in range(1, min(LONGEST, stop) + 1):
                words = tuple(review[stop - size : stop])
                if words in ends and len(places[words]) < MOST:
                    places[words].append((number, stop))
    return places


def _endings(prompt: Sequence[str], reviews: Sequence[Sequence[str]], places: Places, rng: random.Random) -> list[str]:
    """Return some endings of fitting length, first those after the longest run of the prompt's words.

    An ending with a name that the prompt lacks is returned only if there is no other.
    """
    low, high = (share * len(prompt) for share in LENGTHS)
    known = {"I", *(word.strip(".,;:!?") for word in prompt)}
    with_new_names: list[str] = []
    fitting: list[str] = []
    for size in range(min(LONGEST, len(prompt)), -1, -1):
        spots = list(places.get(tuple(prompt[len(prompt) - size :]), ())) if size else _halves(reviews, rng)
        rng.shuffle(spots)
        for number, stop in spots:
            ending = reviews[number][stop:]
            if low <= len(ending) <= high:
                text = " ".join(ending)
                endings = fitting if known.issuperset(NAME.findall(text)) else with_new_names
                if text not in endings:
                    endings.append(text)
            if len(fitting) >= TRIED:
                return fitting
    return (fitting or with_new_names)[:TRIED]


def _halves(reviews: Sequence[Sequence[str]], rng: random.Random) -> list[tuple[int, int]]:
    """Return the middles of some reviews."""
    numbers = rng.sample(range(len(reviews)), min(MOST, len(reviews)))
    return [(number, len(reviews[number]) // 2) for number in numbers]
