"""Design a study: items are drawn once for all systems, orders are balanced, names are random."""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from grue import __version__, files
from grue.errors import DataError
from grue.records import Example
from grue.study.key import SCHEMA, Annotator, Item, Key, Screen, StudySystem, signed
from grue.study.outputs import Outputs
from grue.study.template import Template
from grue.tasks import Task


def draw_items(examples: int, items: int, seed: int) -> list[int]:
    """Return the places of the items; they do not depend on the systems, and fewer items are the first of more."""
    if items > examples:
        raise DataError(f"There are {examples} examples to ask about, not {items}; lower --items.")
    places: list[int] = np.random.default_rng(seed).permutation(examples)[:items].tolist()
    return places


def design(
    task: Task, items: Sequence[Example], systems: Sequence[Outputs], template: Template, annotators: int, seed: int
) -> Key:
    """Return a study; the same arguments give the same study.

    Each item shows one of a system's seeds, in turn. Everybody judges everything: the texts to an
    item one after the other, items in each annotator's own order.

    Args:
        items: The examples that the systems' texts answer.
    """
    # Knowing this code and guessing the seed must not reveal the systems.
    secret = int(files.sha256_json([[run.sha256 for run in system.runs] for system in systems]), 16)
    generator = np.random.default_rng([seed, secret])
    common = set.intersection(*(set(run.directions) for system in systems for run in system.runs))
    metrics = {name: way for name, way in systems[0].runs[0].directions.items() if name in common}
    turns = [generator.permutation(np.arange(len(items)) % len(system.runs)).tolist() for system in systems]
    shown_items = []
    for number, example in enumerate(items):
        runs = [system.runs[turn[number]] for system, turn in zip(systems, turns, strict=True)]
        shown_items.append(
            Item(
                id=example.id,
                prompt=example.prompt,
                texts=tuple(run.texts[number] for run in runs),
                seeds=tuple(run.seed for run in runs),
                scores={name: tuple(float(run.scores[name][number]) for run in runs) for name in metrics},
            )
        )
    used: set[str] = set()

    def new_name() -> str:
        while (name := generator.bytes(5).hex()) in used:
            pass
        used.add(name)
        return name

    def screens(turn: int) -> Iterator[Screen]:
        for item in generator.permutation(len(items)).tolist():
            for shown in shown_together(template.kind == "pairs", len(systems), item + turn):
                texts = [shown_items[item].texts[system] for system in shown]
                if len(set(texts)) == len(texts):
                    yield Screen(new_name(), item, shown)

    people = tuple(Annotator(f"annotator-{number + 1}", tuple(screens(number))) for number in range(annotators))
    if not people[0].screens:
        raise DataError("The systems wrote the same texts to all items: there is nothing to compare.")
    return signed(
        Key(
            schema=SCHEMA,
            study="",
            grue=__version__,
            suite=task.suite,
            task=task.name,
            task_hash=task.hash,
            split=task.data.evaluation,
            seed=seed,
            template=template,
            metrics=metrics,
            systems=tuple(StudySystem(s.name, s.origin, {run.seed: run.sha256 for run in s.runs}) for s in systems),
            items=tuple(shown_items),
            annotators=people,
        )
    )


def shown_together(pairs: bool, systems: int, turn: int) -> list[tuple[int, ...]]:
    """Return the screens of an item, in order: one system each, or two in the order of their texts.

    Args:
        turn: Successive values go through a balanced set of orders; in pairs, the texts change sides after each.
    """
    units: list[tuple[int, ...]] = list(combinations(range(systems), 2)) if pairs else [(s,) for s in range(systems)]
    square = orders(len(units))
    cycle, row = divmod(turn, len(square))
    return [units[place][:: -1 if (cycle + row + place) % 2 else 1] for place in square[row]]


def orders(count: int) -> list[list[int]]:
    """Return orders of 0 … count - 1 in which each number is equally often at each place, and after each other number.

    A Latin square, balanced for what came before; for an odd count two of them (Williams, "Experimental designs
    balanced for the estimation of residual effects of treatments", 1949).
    """
    first = [(-(place // 2) if place % 2 == 0 else place // 2 + 1) % count for place in range(count)]
    square = [[(place + row) % count for place in first] for row in range(count)]
    return square + [row[::-1] for row in square] if count % 2 and count > 1 else square
