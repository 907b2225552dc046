"""What a result says of the reward models behind it: each is named by its sha256, and which prompts it has seen.

A reward model is a folder of the machine that trained; its name alone says nothing of what was rewarded.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from grue.evaluation.reward_models import named_in
from grue.records import Result
from grue.submissions.folder import SHA256

TRAIN = "train"
"""The split of a task whose prompts may be learned from."""


def models_of(result: Result) -> list[Mapping[str, Any]]:
    """Return what a result records of reward models, as far as it has the shape of that."""
    found = result.system.get("reward_models")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list | tuple) else []


def unnamed_models(result: Result) -> Iterator[str]:
    """Yield the reward models that a result names, to train on or to pick by, and does not identify."""
    best_of = result.generation.get("best_of")
    picked = best_of.get("pick_by") if isinstance(best_of, Mapping) else None
    said = [one for one in (result.system.get("reward"), picked) if isinstance(one, str)]
    known = {str(one.get("name")): one for one in models_of(result)}
    for name in dict.fromkeys(name for expression in said for name in named_in(expression)):
        stated = known.get(name, {})
        if not SHA256.fullmatch(str(stated.get("sha256", ""))):
            yield f"reward {name!r}: reward_models states no sha256 of it."
        elif not all(isinstance(stated.get(key), str) for key in ("judge", "split")):
            yield f"reward {name!r}: reward_models does not state the judge and the split of its pairs."


def leaking_models(result: Result, evaluation: str) -> Iterator[str]:
    """Yield the reward models that have seen prompts of other splits than the training split.

    A file of rows may hold any prompts, and other splits may share some with the evaluation split.
    """
    for one in models_of(result):
        split = one.get("split")
        if split != TRAIN:
            which = ", on which it is evaluated" if split == evaluation else f", not of {TRAIN!r}"
            yield f"reward {one.get('name')!r}: its pairs answer prompts of the split {split!r}{which}."
