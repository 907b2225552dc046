"""IMDB without learning: how positive reviews went on after the same words.

The sentiment scorer is the task's reward, and may be asked: of several endings the one that it likes most is taken.
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
"""Places that are remembered for the same words."""
TRIED = 12
"""Endings that are scored for a prompt."""
LENGTHS = (0.6, 1.5)
"""Words of an ending, as parts of the prompt's."""
LONG = re.compile(r"\w{5,}")
NAME = re.compile(r"(?<=[a-z,] )[A-Z][\w'-]+")

Places = Mapping[tuple[str, ...], Sequence[tuple[int, int]]]
"""Words → where they stand in training reviews: the review, and the word after them."""


def best_of_n(task: Task, train: Sequence[Example], asked: Sequence[Example], seed: int) -> list[str]:
    """Return, of the endings that went on from the prompt's last words, the one that the task's scorer likes best.

    Of those that are equal to a hundredth, the one with the most words of the prompt. Where no ending is of a fitting
    length, the text is empty.

    Raises:
        ConfigError: The task has no metric of preference.
    """
    metrics = [spec for spec in task.metrics if spec.axis == "preference"]
    if not metrics:
        raise ConfigError(
            f"{task.suite}/{task.name} has no metric of preference, by which best-of-n picks; take another baseline."
        )
    reviews = [[*example.prompt.split(), *example.references[0].split()] for example in train if example.references]
    prompts = [example.prompt.split() for example in asked]
    places = _places(reviews, prompts)
    rng = random.Random(seed)
    tried = [_endings(prompt, reviews, places, rng) for prompt in prompts]
    scorer = make_metric(metrics[0].name, **metrics[0].options)
    pairs = [(example, text) for example, texts in zip(asked, tried, strict=True) for text in texts]
    liked = scorer.statistics([example for example, _ in pairs], [text for _, text in pairs])
    values = iter([float(value) for value in scorer.per_example(liked)])
    scored = [
        [(round(next(values), 2), _shared(text, example.prompt), text) for text in texts]
        for example, texts in zip(asked, tried, strict=True)
    ]
    return [max(endings)[2] if endings else "" for endings in scored]


LOOKUPS: Mapping[str, Lookup] = {"nearest": nearest, "best-of-n": best_of_n}


def _shared(text: str, prompt: str) -> int:
    """Return how many different words of five letters and more a text has from the prompt."""
    return len({*LONG.findall(text)} & {*LONG.findall(prompt)})


def _places(reviews: Sequence[Sequence[str]], prompts: Iterable[Sequence[str]]) -> Places:
    """Return where the last words of the prompts stand in reviews."""
    wanted = {tuple(prompt[-size:]) for prompt in prompts for size in range(1, LONGEST + 1) if len(prompt) >= size}
    places: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for number, review in enumerate(reviews):
        for stop in range(1, len(review)):
            for size in range(1, min(LONGEST, stop) + 1):
                words = tuple(review[stop - size : stop])
                if words in wanted and len(places[words]) < MOST:
                    places[words].append((number, stop))
    return places


def _endings(prompt: Sequence[str], reviews: Sequence[Sequence[str]], places: Places, rng: random.Random) -> list[str]:
    """Return some endings of fitting length, first those behind the longest run of the prompt's words.

    An ending with a name that the prompt lacks comes only where there is no other.
    """
    low, high = (share * len(prompt) for share in LENGTHS)
    others: list[str] = []
    fitting: list[str] = []
    for size in range(min(LONGEST, len(prompt)), -1, -1):
        spots = list(places.get(tuple(prompt[len(prompt) - size :]), ())) if size else _halves(reviews, rng)
        rng.shuffle(spots)
        for number, stop in spots:
            ending = reviews[number][stop:]
            if low <= len(ending) <= high:
                text = " ".join(ending)
                kept = others if _foreign(text, prompt) else fitting
                if text not in kept:
                    kept.append(text)
            if len(fitting) >= TRIED:
                return fitting
    return (fitting or others)[:TRIED]


def _halves(reviews: Sequence[Sequence[str]], rng: random.Random) -> list[tuple[int, int]]:
    """Return the middles of some reviews."""
    numbers = rng.sample(range(len(reviews)), min(MOST, len(reviews)))
    return [(number, len(reviews[number]) // 2) for number in numbers]


def _foreign(text: str, prompt: Sequence[str]) -> bool:
    """Return whether a text has a name that the prompt lacks."""
    known = {word.strip(".,;:!?") for word in prompt}
    return any(name not in known and name != "I" for name in NAME.findall(text))
