"""Rejection sampling fine-tuning: learn the best of several samples by maximum likelihood, repeatedly.

RAFT (Dong et al. 2023, arXiv 2304.06767), expert iteration (Anthony et al. 2017, arXiv 1705.08439). An update is a
round: responses are drawn for each prompt, and the one with the highest score is learnt for `epochs` passes. The loss
is −log π of the best responses, a mean over tokens. `train_from = "start"` starts each round's training from the
initial policy, as ReST-EM does (Singh et al. 2023, arXiv 2312.06585).

`rewrite` makes a rewriter of the policy: sequence-to-sequence reward modelling (Zhou et al. 2024, arXiv 2409.00162),
whose reward is `rewriter:DIR`. The best response to a prompt is then learnt behind the prompt and each of its
responses: behind a worse one as a correction, behind itself as it is.

Differences from RAFT: the ranking ignores the KL divergence from the initial policy; a prompt whose responses all have
the same score is left out of a round (the paper takes the first response).
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from grue.algorithms.cards.rft import CARD, RFTConfig
from grue.lm.rewriting import with_responses
from grue.lm.sharding import load_whole
from grue.rl.groups import GroupBatch, Groups, collect_groups, improve, start
from grue.rl.trainer import Trainer, TrainState, implement


def update(trainer: Trainer, state: TrainState, config: RFTConfig, n: int) -> dict[str, float]:
    """Carry out update `n`; return its figures for the log."""
    groups, figures = collect_groups(trainer, state, config, n)
    best = groups.columns(groups.best().unsqueeze(1))
    if config.train_from == "start" and n:
        assert state.reference is not None
        load_whole(state.policy, state.reference.state_dict())
        state.optimizer.state.clear()
    counted = ~groups.flat
    if config.rewrite:
        best = corrections(trainer, groups, best)
        counted = (groups.counts & counted.unsqueeze(1)).flatten()
    counts = best.lengths[:, 0].float() * counted
    return {**figures, **improve(trainer, state, config, best, likelihood_loss, n, counts)}


def corrections(trainer: Trainer, groups: Groups, best: Groups) -> Groups:
    """Return the best response of each group [P, 1] behind its prompt and each of its responses, [P·K, 1]."""
    size = groups.scores.shape[1]
    targets = best.rows(torch.arange(len(groups.scores)).repeat_interleave(size))
    longest = trainer.task.rollout.max_new_tokens
    read = with_responses(trainer.policy, trainer.tokenizer, targets.prompts, groups.responses, longest)
    return replace(targets, prompts=read)


def likelihood_loss(batch: GroupBatch) -> tuple[Tensor, Mapping[str, Tensor]]:
    """Return −log π of the only response of each group, [b]."""
    return -batch.log_probs[:, 0], {}


ALGORITHM = implement(CARD, update, start=partial(start, reference=False))
