"""Supervised fine-tuning: the likelihood of the references, given their prompts.

The loss is over the response only, never over the prompt; every reference of an example is a training pair; examples
without a reference (an IMDB review that ends badly, say) are left out.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from grue.errors import TrainingError
from grue.lm import distributions
from grue.lm.adapters import recomputing
from grue.lm.forward import forward
from grue.lm.model import assert_no_dropout
from grue.lm.seeds import generator
from grue.lm.sharding import load_whole
from grue.lm.tokens import Tokens, encode_prompts, encode_responses
from grue.rl.optimisation import make_optimizer, minibatch_gradient, set_learning_rate, step
from grue.rl.settings import SupervisedConfig
from grue.runs.recipes import ALGORITHMS
from grue.runs.train import Run


@dataclass
class Learner:
    """The policy and its optimiser."""

    policy: PreTrainedModel
    optimizer: torch.optim.Optimizer

    def trained(self) -> list[nn.Module]:
        """Return the modules that the optimiser trains."""
        return [self.policy]

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on."""
        return {"policy": self.policy.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to a saved state."""
        load_whole(self.policy, state["policy"])
        load_whole(self.optimizer, state["optimizer"])


@ALGORITHMS.register("supervised")
def train(run: Run, config: SupervisedConfig) -> None:
    """Train `run.policy` in place; an update is an epoch."""
    assert_no_dropout(run.policy)
    learner = Learner(run.policy, make_optimizer([run.policy], config))
    pairs = training_pairs(run)
    steps = math.ceil(len(pairs) / config.batch_size)
    for epoch in range(run.resume(learner, config.epochs), config.epochs):
        order = torch.randperm(len(pairs), generator=generator(run.seed, "pairs", epoch))
        losses, norms, tokens = [], [], 0
        for index, rows in enumerate(order.split(config.batch_size)):
            set_learning_rate(learner.optimizer, config, epoch * steps + index, config.epochs * steps)
            prompts, responses = encode_pairs(run, pairs[rows])
            tokens += int(responses.mask.sum())
            everyone = torch.arange(len(rows))
            weights = responses.mask.float()
            losses_of = partial(pair_losses, run, prompts, responses)
            with recomputing(run.policy):
                measured = minibatch_gradient(
                    everyone, weights, losses_of, config.micro_batch_size, run.world, run.split
                )
            losses.append(measured["loss/total"])
            if run.split is None:
                run.world.sum_gradients(run.policy.parameters())
            norms.append(step(learner.optimizer, config, f"epoch {epoch}"))
        line = {
            "loss/total": float(torch.stack(losses).mean()),
            "policy/grad_norm": float(torch.stack(norms).mean()),
            "tokens": float(tokens),
            "episodes": float(len(order)),
        }
        run.end_update(epoch + 1, config.epochs, line, learner)


def training_pairs(run: Run) -> Tensor:
    """Return the pairs to learn from [N, 2], by the positions of the example and of one of its references.

    Positions, because texts are tokenised step by step: WMT16's 4.5 million pairs would not fit into memory.

    Raises:
        TrainingError: No example has a reference.
    """
    counts = torch.tensor([len(example.references) for example in run.examples])
    if not counts.sum():
        raise TrainingError(f"{run.task.suite}/{run.task.name}: no training example has a reference to learn from.")
    first = counts.cumsum(0) - counts
    examples = torch.arange(len(counts)).repeat_interleave(counts)
    return torch.stack([examples, torch.arange(len(examples)) - first[examples]], 1)


def encode_pairs(run: Run, pairs: Tensor) -> tuple[Tokens, Tokens]:
    """Return prompts and references of some pairs [N, 2], tokenised."""
    found = [(run.examples[example], reference) for example, reference in pairs.tolist()]
    prompts = encode_prompts(run.policy, run.tokenizer, [example.prompt for example, _ in found], run.task.prompt)
    texts = [example.references[reference] for example, reference in found]
    return prompts, encode_responses(run.policy, run.tokenizer, texts, run.task.rollout.max_new_tokens)


def pair_losses(run: Run, prompts: Tokens, responses: Tokens, rows: Tensor) -> dict[str, Tensor]:
    """Return the sum over the tokens of some pairs of the negative log-likelihood."""
    targets = responses.rows(rows)
    with run.autocast():
        logits, _ = forward(run.policy, prompts.rows(rows), targets)
    return {"loss": -(distributions.log_probs(logits, targets.ids) * targets.mask).sum()}
