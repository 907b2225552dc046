"""Supervised fine-tuning: the likelihood of the references, given their prompts.

The loss is over the response only, never over the prompt; every reference of an example is a training pair; examples
without a reference (an IMDB review that ends badly, say) are left out. An update is an epoch.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import torch
from torch import Tensor

from grue.bounds import POSITIVE
from grue.errors import TrainingError
from grue.lm import distributions
from grue.lm.adapters import recomputing
from grue.lm.forward import forward
from grue.lm.model import assert_no_dropout
from grue.lm.seeds import generator
from grue.lm.tokens import Tokens, encode_prompts, encode_responses
from grue.rl.optimize import minibatch_gradient, step
from grue.rl.settings import Common
from grue.rl.trainer import Algorithm, Trainer, TrainState, make_optimizer, set_learning_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisedConfig(Common):
    """Maximum likelihood of the references, over the response only.

    Attributes:
        epochs: Passes over the training pairs.
        batch_size: Pairs of one optimiser step.
    """

    learning_rate: Annotated[float, POSITIVE] = 1e-5
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    epochs: Annotated[int, POSITIVE] = 4
    batch_size: Annotated[int, POSITIVE] = 32
    max_grad_norm: Annotated[float, POSITIVE] = 1.0
    validate_every: Annotated[int, POSITIVE] = 1
    save_every: Annotated[int, POSITIVE] = 1

    @property
    def total_updates(self) -> int:
        """How many updates a run has: an update is an epoch."""
        return self.epochs


def start(trainer: Trainer, config: SupervisedConfig) -> TrainState:
    """Return the policy as it comes, with a fresh optimiser."""
    assert_no_dropout(trainer.policy)
    return TrainState(policy=trainer.policy, optimizer=make_optimizer([trainer.policy], config))


def update(trainer: Trainer, state: TrainState, config: SupervisedConfig, n: int) -> dict[str, float]:
    """Learn from every pair once, in an order of the epoch's own; the schedule goes by optimiser steps."""
    pairs = training_pairs(trainer)
    steps = math.ceil(len(pairs) / config.batch_size)
    order = torch.randperm(len(pairs), generator=generator(trainer.seed, "pairs", n))
    losses, norms, tokens = [], [], 0
    for index, rows in enumerate(order.split(config.batch_size)):
        set_learning_rate(state.optimizer, config, n * steps + index, config.epochs * steps)
        prompts, responses = encode_pairs(trainer, pairs[rows])
        tokens += int(responses.mask.sum())
        everyone, weights = torch.arange(len(rows)), responses.mask.float()
        losses_of = partial(pair_losses, trainer, prompts, responses)
        with recomputing(state.policy):
            measured = minibatch_gradient(trainer, everyone, weights, losses_of, config.micro_batch_size)
        losses.append(measured["loss/total"])
        norms.append(step(trainer, state.optimizer, config, f"epoch {n}"))
    return {
        "loss/total": float(torch.stack(losses).mean()),
        "policy/grad_norm": float(torch.stack(norms).mean()),
        "tokens": float(tokens),
        "episodes": float(len(order)),
    }


def training_pairs(trainer: Trainer) -> Tensor:
    """Return the pairs to learn from [N, 2], by the positions of the example and of one of its references.

    Positions, because texts are tokenised step by step: WMT16's 4.5 million pairs would not fit into memory.

    Raises:
        TrainingError: No example has a reference.
    """
    counts = torch.tensor([len(example.references) for example in trainer.examples])
    if not counts.sum():
        task = f"{trainer.task.suite}/{trainer.task.name}"
        raise TrainingError(f"{task}: no training example has a reference to learn from.")
    first = counts.cumsum(0) - counts
    examples = torch.arange(len(counts)).repeat_interleave(counts)
    return torch.stack([examples, torch.arange(len(examples)) - first[examples]], 1)


def encode_pairs(trainer: Trainer, pairs: Tensor) -> tuple[Tokens, Tokens]:
    """Return prompts and references of some pairs [N, 2], tokenised."""
    policy, tokenizer, task = trainer.policy, trainer.tokenizer, trainer.task
    found = [(trainer.examples[example], reference) for example, reference in pairs.tolist()]
    prompts = encode_prompts(policy, tokenizer, [example.prompt for example, _ in found], task.prompt)
    texts = [example.references[reference] for example, reference in found]
    return prompts, encode_responses(policy, tokenizer, texts, task.rollout.max_new_tokens)


def pair_losses(trainer: Trainer, prompts: Tokens, responses: Tokens, rows: Tensor) -> dict[str, Tensor]:
    """Return the sum over the tokens of some pairs of the negative log-likelihood."""
    targets = responses.rows(rows)
    with trainer.autocast():
        logits, _ = forward(trainer.policy, prompts.rows(rows), targets)
    return {"loss": -(distributions.log_probs(logits, targets.ids) * targets.mask).sum()}


ALGORITHM = Algorithm(settings=SupervisedConfig, update=update, start=start)
