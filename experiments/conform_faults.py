"""Which faults of a trainer `grue tools conform` would find: `python experiments/conform_faults.py [--runs FOLDER]`.

GRPO of grue with seeds 1 to 5 beside itself with seeds 6 to 10, and beside copies with one fault each. What is found
should be the faults, and nothing beside an equal trainer. Resumable; a run takes about 20 seconds on a core.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from grue.algorithms import grpo
from grue.conform import FIGURES, Stated, compared, plain_task, run_grue
from grue.rl import functional
from grue.task_files import load_task

STATED = Stated("grpo")
Patch = tuple[Any, str, Callable[..., Any]]


def over_the_batch(scores: Tensor, scored: Tensor, config: Any) -> Tensor:
    """Standardise scores over the batch instead of the group."""
    return (scores - scores.mean()) / (scores.std() + 1e-4)


def without_ends(mask: Tensor, config: Any, longest: int) -> Tensor:
    """Leave the last token of each response out of the loss, as if the end token were padding."""
    last = mask.long().cumsum(1) == mask.sum(1, keepdim=True)
    kept = mask & ~(last & mask)
    return kept / kept.sum(1, keepdim=True).clamp(min=1)


def pushed_away(*arguments: Any) -> Tensor:
    """Reward the distance from the reference."""
    return -PENALTY(*arguments)


def token_mean(mask: Tensor, config: Any, longest: int) -> Tensor:
    """Weigh all tokens of the batch alike, so that long responses count more."""
    return mask.float()


PENALTY = functional.kl_loss
FAULTS: dict[str, tuple[Stated, tuple[Patch, ...]]] = {
    "an equal trainer": (STATED, ()),
    "learning rate × 2": (replace(STATED, learning_rate=2 * STATED.learning_rate), ()),
    "advantages over the batch, not the group": (STATED, ((grpo, "group_advantages", over_the_batch),)),
    "the end token left out of the loss": (STATED, ((grpo, "token_weights", without_ends),)),
    "the sign of the KL penalty": (STATED, ((functional, "kl_loss", pushed_away),)),
    "a mean over tokens, not responses": (STATED, ((grpo, "token_weights", token_mean),)),
}


@contextmanager
def patched(patches: tuple[Patch, ...]) -> Iterator[None]:
    """Put the fault into the trainer."""
    before = [(module, name, getattr(module, name)) for module, name, _ in patches]
    for module, name, value in patches:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def main() -> None:
    """Train what is not there yet, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/conform-faults"))
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    task, seeds = plain_task(load_task("imdb", "mini")), range(1, arguments.seeds + 1)
    ours = {seed: run_grue(task, STATED, seed, arguments.runs / "right") for seed in seeds}
    print("| fault | found | whole curve | KL, whole curve | " + " | ".join(FIGURES) + " |")
    print("|---|---|---|---|" + "---|" * len(FIGURES))
    for name, (stated, patches) in FAULTS.items():
        place = arguments.runs / name.replace(" ", "-").replace("×", "x").replace(",", "")
        with patched(patches):
            theirs = {seed: run_grue(task, stated, seed + arguments.seeds, place) for seed in seeds}
        found = compared(STATED, name, ours, theirs)
        of_curves = [(curve.tests[0].value, min(test.p_holm for test in curve.tests)) for curve in found.curves]
        cells = [f"{value:+.3g}{_mark(p)}" for value, p in of_curves]  # marked if the curve or its end is decided
        cells += [f"× {one.ratio:.2f}{_mark(one.p_holm)}" for one in found.first]
        print(f"| {name} | {'yes' if found.differs else 'no'} | {' | '.join(cells)} |", flush=True)


def _mark(p: float) -> str:
    return " *" if p < 0.05 else ""


if __name__ == "__main__":
    main()
