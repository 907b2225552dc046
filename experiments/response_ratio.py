"""How soon clipped ratios stop an update of RLOO, by token and by response: `python experiments/response_ratio.py`.

It makes three optimiser steps of mini's recipe on one batch of rollouts and prints, before each, the shares of tokens
and of responses whose ratio to the sampled policy is outside of the clip range.
"""

import argparse
from pathlib import Path

import torch

from grue.algorithms import reinforce, rloo
from grue.algorithms.cards.rloo import RLOOConfig
from grue.lm.distributed import DistributedContext
from grue.rl import functional as rl
from grue.rl.experience import collect, score_minibatch
from grue.rl.optimize import minibatch_gradient, step
from grue.runs.observers import Observers
from grue.runs.plan import stages_of
from grue.runs.request import RunRequest
from grue.runs.train import prepare
from grue.task_files import load_task

STEPS = 3


def main() -> None:
    """Print the shares for each task."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=["commongen", "cnn_dailymail"])
    parser.add_argument("--init", type=Path, help="a run to start from [default: the backbone]")
    options = parser.parse_args()
    print("| task | steps taken | tokens outside | responses outside |", "|---|---|---|---|", sep="\n")
    for name in options.tasks:
        request = RunRequest(task=load_task(name), algorithm="rloo", init=options.init)
        for taken, (tokens, responses) in enumerate(shares(request)):
            print(f"| {name} | {taken} | {tokens:.0%} | {responses:.0%} |")


def shares(request: RunRequest) -> list[tuple[float, float]]:
    """Return the shares of tokens and of responses outside of the clip range, before each step."""
    (plan,) = stages_of(request)
    trainer = prepare(plan, Observers([]), lambda: False, DistributedContext()).trainer
    config = plan.config
    assert isinstance(config, RLOOConfig)
    state = rloo.ALGORITHM.start(trainer, config)
    experience = collect(trainer, state, config, 0)
    advantages = reinforce.response_advantages(experience, config, rl.leave_one_out, config.samples_per_prompt)
    everyone, found = torch.arange(len(advantages)), []

    def losses_of(rows: torch.Tensor) -> dict[str, torch.Tensor]:
        batch = score_minibatch(trainer, state, config, experience, rows)
        return dict(reinforce.token_losses(batch, config, advantages))

    minibatches = everyone.split(config.minibatch_size)
    for number in range(STEPS):
        with torch.no_grad():
            batch = score_minibatch(trainer, state, config, experience, everyone)
        log_ratio = (batch.new - batch.old) * batch.mask
        tokens = ((log_ratio.exp() - 1).abs() > config.clip)[batch.mask].float().mean()
        responses = ((log_ratio.sum(1).exp() - 1).abs() > config.clip).float().mean()
        found.append((float(tokens), float(responses)))
        rows = minibatches[number % len(minibatches)]
        minibatch_gradient(trainer, rows, experience.mask.float(), losses_of, config.micro_batch_size)
        step(trainer, state.optimizer, config, f"step {number}")
    return found


if __name__ == "__main__":
    main()
