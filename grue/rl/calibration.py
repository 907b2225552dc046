"""Calibrated rewards: what a response is worth among samples of the initial policy to its prompt.

InfAlign (Balashankar et al. 2024, arXiv 2412.19792), Eq. 9 and §4: a reward that prompts disagree on the scale of
becomes a share, and a transformation of it prepares the policy for how it is decoded (best of n, say).
"""

import torch
from torch import Tensor

from grue.lm.model import eos_id
from grue.lm.sampling import sample_responses
from grue.lm.seeds import generator
from grue.lm.stops import find_stops
from grue.lm.tokens import encode_prompts
from grue.records import Example
from grue.rl import functional as rl
from grue.rl.scores import reward_responses
from grue.rl.settings import RewardedConfig, rollout_settings
from grue.rl.trainer import Trainer, TrainState


def calibrated(
    trainer: Trainer, state: TrainState, config: RewardedConfig, examples: list[Example], sums: Tensor, n: int
) -> tuple[Tensor, Tensor]:
    """Return what rewards are worth among those of the initial policy, [B], NaN where there is none; and what it took.

    The samples to a prompt depend on the run's seed and the example alone.

    Args:
        examples: Of each response; those to the same prompt stand side by side.
        sums: [B], the rewards.
    """
    count, settings = config.calibration_samples, rollout_settings(trainer.task, config)
    prompted = examples[:: config.samples_per_prompt]
    eos, rewards, tokens = eos_id(trainer.policy, trainer.tokenizer), [], 0.0
    stops = find_stops(trainer.tokenizer, settings.stop)
    together = max(1, config.rollouts // count)  # prompts, so that no more is drawn at once than in an update
    with state.initial_policy() as policy, torch.no_grad():
        for start in range(0, len(prompted), together):
            part = prompted[start : start + together]
            asked = [example for example in part for _ in range(count)]
            chances = [generator(trainer.seed, "calibration", example.id) for example in part]
            draws = [torch.rand(count, settings.max_new_tokens, generator=chance) for chance in chances]
            prompts = encode_prompts(policy, trainer.tokenizer, [one.prompt for one in asked], trainer.task.prompt)
            with trainer.autocast():
                rollout = sample_responses(policy, prompts, settings, torch.cat(draws), eos, stops=stops)
            rewards.append(reward_responses(trainer, asked, rollout, n).sums.view(-1, count))
            tokens += float(rollout.responses.mask.sum())
    among = torch.cat(rewards).repeat_interleave(config.samples_per_prompt, 0)
    worth = rl.tilted(rl.share_below(sums, among), config.calibration_tilt)
    return worth, torch.tensor([0.0, tokens, float(among.numel() / config.samples_per_prompt)], dtype=torch.float64)
