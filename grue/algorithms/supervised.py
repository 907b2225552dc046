"""Supervised fine-tuning: the likelihood of the references, given their prompts.

The loss covers only the response, not the prompt; every reference of an example is a training pair; examples without a
reference (negative reviews of the real IMDB) are left out. An update is `STEPS` optimiser steps of an epoch, so that a
run can log, save and stop within it.
"""

import math
from functools import partial

import torch

from grue.algorithms.cards.supervised import CARD, SupervisedConfig
from grue.lm.adapters import recomputing
from grue.lm.model import assert_no_dropout
from grue.lm.seeds import generator
from grue.rl.optimize import encode_pairs, minibatch_gradient, pair_losses, step
from grue.rl.trainer import Trainer, TrainState, implement, make_optimizer, set_learning_rate

STEPS = 25


def start(trainer: Trainer, config: SupervisedConfig) -> TrainState:
    """Return the unchanged policy with a fresh optimiser."""
    assert_no_dropout(trainer.policy)
    return TrainState(policy=trainer.policy, optimizer=make_optimizer([trainer.policy], config))


def update(trainer: Trainer, state: TrainState, config: SupervisedConfig, n: int) -> dict[str, float]:
    """Learn from part of an epoch's pairs, which every epoch reorders; the schedule counts optimiser steps."""
    epoch, part = divmod(n, parts(trainer, config))
    order = torch.randperm(len(trainer.pairs), generator=generator(trainer.seed, "pairs", epoch))
    batches = order.split(config.batch_size)
    done = epoch * len(batches)
    losses, norms, tokens, episodes = [], [], 0, 0
    for index in range(part * STEPS, min(len(batches), (part + 1) * STEPS)):
        set_learning_rate(state.optimizer, config, done + index, config.epochs * len(batches))
        rows = batches[index]
        prompts, responses = encode_pairs(trainer, trainer.pairs[rows])
        tokens, episodes = tokens + int(responses.mask.sum()), episodes + len(rows)
        all_rows, weights = torch.arange(len(rows)), responses.mask.float()
        losses_of = partial(pair_losses, trainer, prompts, responses, chunk=config.log_prob_chunk)
        with recomputing(state.policy):
            measured = minibatch_gradient(trainer, all_rows, weights, losses_of, config.micro_batch_size)
        losses.append(measured["loss/total"])
        norms.append(step(trainer, state.optimizer, config, f"epoch {epoch + 1}, step {index + 1}"))
    return {
        "loss/total": float(torch.stack(losses).mean()),
        "policy/grad_norm": float(torch.stack(norms).mean()),
        "tokens": float(tokens),
        "episodes": float(episodes),
        "prompts": float(episodes),
        "generated_tokens": 0.0,
        "reward_calls": 0.0,
        "steps": float(len(losses)),
    }


def parts(trainer: Trainer, config: SupervisedConfig) -> int:
    """Return the number of updates in an epoch."""
    return math.ceil(math.ceil(len(trainer.pairs) / config.batch_size) / STEPS)


ALGORITHM = implement(CARD, update, start=start, parts=parts)
