"""Which faults of a trainer `grue tools conform` finds and names: `python experiments/conform_faults.py`.

The first step of grue's GRPO trainer itself, and of copies with one or two faults each, beside what is recomputed from
their batches. Takes a few minutes on a core.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from grue.algorithms import grpo
from grue.algorithms.cards.grpo import GRPOConfig
from grue.conform import Stated, plain_task, settings_of_grue
from grue.lm.constraints import end_ids
from grue.lm.model import eos_id
from grue.lm.tokens import Tokens
from grue.rl import functional
from grue.rl.experience import Experience, collect
from grue.rl.first_step import FirstStep, StepCompared, compare_step, push_off
from grue.rl.fixed_batch import METHODS, fixed_batch
from grue.rl.trainer import start
from grue.runs.captured_step import gradients, trainer_of, weights
from grue.task_files import load_task
from grue.tasks import Task

STATED = Stated("grpo")
KL_LOSS, ADVANTAGES = functional.kl_loss, grpo.group_advantages


def over_the_batch(scores: Tensor, scored: Tensor, config: Any) -> Tensor:
    """Standardise scores over the batch instead of the group."""
    return (scores - scores.mean()) / (scores.std() + 1e-4)


def without_ends(*arguments: Any) -> Experience:
    """Take the end token for padding."""
    experience = collect(*arguments)
    responses = experience.rollout.responses
    last = responses.mask & (responses.mask.cumsum(1) == responses.mask.sum(1, keepdim=True))
    kept = Tokens(responses.ids, responses.mask & ~(last & ~experience.rollout.truncated.unsqueeze(1)))
    rollout = replace(experience.rollout, responses=kept)
    return replace(experience, responses=replace(experience.responses, rollout=rollout))


def pushed_away(*arguments: Any) -> Tensor:
    """Reward the distance from the reference."""
    return -KL_LOSS(*arguments)


def token_mean(mask: Tensor, config: Any, longest: int) -> Tensor:
    """Weigh all tokens of the batch alike, so that long responses count more."""
    return mask.float()


Patch = tuple[Any, str, Callable[..., Any]]
BATCH: Patch = (grpo, "group_advantages", over_the_batch)
ENDS: Patch = (grpo, "collect", without_ends)
SIGN: Patch = (functional, "kl_loss", pushed_away)
TOKENS: Patch = (grpo, "token_weights", token_mean)
FAULTS: Mapping[str, tuple[float, tuple[Patch, ...]]] = {
    "none: grue's trainer itself": (1, ()),
    "learning rate × 2": (2, ()),
    "advantages over the batch, not the group": (1, (BATCH,)),
    "the end token left out of the loss": (1, (ENDS,)),
    "the sign of the KL penalty": (1, (SIGN,)),
    "a mean over tokens, not responses": (1, (TOKENS,)),
    "advantages over the batch, and the sign of the KL penalty": (1, (BATCH, SIGN)),
    "a mean over tokens, no end token, learning rate × 2": (2, (TOKENS, ENDS)),
}


@contextmanager
def patched(patches: tuple[Patch, ...]) -> Iterator[None]:
    """Replace functions of the trainer."""
    before = [(module, name, getattr(module, name)) for module, name, _ in patches]
    for module, name, value in patches:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in reversed(before):
            setattr(module, name, value)


def first_step(task: Task, rate: float, faults: tuple[Patch, ...], stated: Stated = STATED) -> StepCompared:
    """Let grue's trainer take its first step, with faults, and compare it."""
    trainer, config = trainer_of(task, 1), GRPOConfig(**settings_of_grue(stated))
    faulty = replace(config, learning_rate=rate * config.learning_rate)
    state = start(trainer, faulty)
    assert state.reference is not None
    policy, seen = trainer.policy, {}
    push_off(policy, 1)
    before = weights(policy)

    def watched(module: Any, name: str) -> Patch:
        function = getattr(module, name)

        def watch(*arguments: Any) -> Any:
            seen[name] = function(*arguments)
            return seen[name]

        return module, name, watch

    with patched(faults), ExitStack() as watching:
        watching.enter_context(patched((watched(grpo, "collect"), watched(grpo, "group_advantages"))))
        gradient = watching.enter_context(gradients(policy))
        figures = grpo.update(trainer, state, faulty, 0)
    experience: Experience = seen["collect"]
    batch = fixed_batch(
        experience.rollout.prompts,
        experience.rollout.responses,
        experience.scores,
        end_ids(policy, eos_id(policy, trainer.tokenizer)),
        state.reference,
        temperature=task.rollout.temperature,
        group_size=stated.group,
        penalty=stated.penalty,
        max_new_tokens=task.rollout.max_new_tokens,
    )
    theirs = FirstStep(
        batch=batch,
        start=before,
        loss=figures["loss/total"],
        gradient=gradient,
        learned=experience.mask,
        advantages=seen["group_advantages"],
        kl=figures["objective/kl_k3"],
        change={name: value - before[name] for name, value in weights(policy).items()},
    )
    return compare_step(theirs, METHODS["grpo"], policy, state.reference, config)


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    task = plain_task(load_task("imdb", "mini"))
    print("| fault | verdict | named | gradient, cosine | ratio | first step, ratio |")
    print("|---|---|---|---|---|---|")
    for name, (rate, faults) in FAULTS.items():
        found = first_step(task, rate, faults)
        gradient, step = found.stages[-2:]
        verdict = "differs" if found.differs else "the same"
        named = "; ".join(" or ".join(stage.causes) for stage in (gradient, step) if stage.causes)
        cells = (f"{gradient.cosine:.6f}", f"{gradient.ratio:.4f}", f"{step.ratio:.4f}")
        print(f"| {name} | {verdict} | {named or '–'} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
