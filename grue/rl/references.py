"""References as what is learnt: their negative log-likelihood, given their prompts.

The loss is over the response only, never over the prompt, and a mean over tokens.
"""

from functools import partial

import torch
from torch import Tensor

from grue.lm import distributions
from grue.lm.adapters import recomputing
from grue.lm.forward import forward
from grue.lm.seeds import generator
from grue.lm.tokens import Tokens, encode_prompts, encode_responses
from grue.rl.gradient import minibatch_gradient
from grue.rl.settings import RewardedConfig
from grue.rl.trainer import Trainer, TrainState


def encode_pairs(trainer: Trainer, pairs: Tensor) -> tuple[Tokens, Tokens]:
    """Return prompts and references of some pairs [N, 2], tokenised; see `Trainer.pairs`."""
    policy, tokenizer, task = trainer.policy, trainer.tokenizer, trainer.task
    found = [(trainer.examples[example], reference) for example, reference in pairs.tolist()]
    prompts = encode_prompts(policy, tokenizer, [example.prompt for example, _ in found], task.prompt)
    texts = [example.references[reference] for example, reference in found]
    return prompts, encode_responses(policy, tokenizer, texts, task.rollout.max_new_tokens)


def pair_losses(
    trainer: Trainer, prompts: Tokens, responses: Tokens, rows: Tensor, weight: float = 1.0
) -> dict[str, Tensor]:
    """Return the sum over the tokens of some pairs of the negative log-likelihood, times `weight`."""
    targets = responses.rows(rows)
    with trainer.autocast():
        logits, _ = forward(trainer.policy, prompts.rows(rows), targets)
    log_probs = distributions.log_probs(logits, targets.ids).masked_fill(~targets.mask, 0.0)
    return {"loss": -weight * log_probs.sum()}


def supervised_gradient(
    trainer: Trainer, state: TrainState, config: RewardedConfig, n: int, step: int, count: int
) -> Tensor:
    """Add the gradient of the weighted negative log-likelihood of `count` references that chance draws; return it.

    Args:
        step: Optimiser step of update `n`.

    Raises:
        TrainingError: No example has a reference.
    """
    chance = generator(trainer.seed, "references", n, step)
    pairs = trainer.pairs[torch.randint(len(trainer.pairs), (count,), generator=chance)]
    prompts, responses = encode_pairs(trainer, pairs)
    losses_of = partial(pair_losses, trainer, prompts, responses, weight=config.supervised_coefficient)
    everyone, weights = torch.arange(count), responses.mask.float()
    with recomputing(state.policy):
        return minibatch_gradient(trainer, everyone, weights, losses_of, config.micro_batch_size)["loss/total"]
