"""Validation: what a policy is worth on held-out examples, and how far it has moved from its start."""

from collections.abc import Sequence

import torch

from grue.errors import TrainingError
from grue.evaluation.predict import Response, as_predictions, as_responses, plain_sampling, respond, told
from grue.evaluation.rewards import Reward, mean
from grue.evaluation.scoring import score_predictions
from grue.lm.divergence import kl_divergence
from grue.lm.model import eos_id
from grue.lm.sampling import sample_responses
from grue.lm.seeds import example_uniforms
from grue.lm.sharding import gathered
from grue.lm.stops import find_stops
from grue.lm.tokens import encode_prompts
from grue.records import Example
from grue.rl.settings import Common, RewardedConfig
from grue.rl.trainer import Trainer, TrainState


def validate(
    trainer: Trainer, state: TrainState, config: Common, examples: Sequence[Example], done: int
) -> dict[str, float]:
    """Return the figures of a policy on validation examples, after `done` updates.

    Returns:
        "preference", "naturalness" (0 to 100, where the task has the axis) and "reward" (mean, in the reward's unit) of
        its answers, decoded as in evaluation. From reinforcement learning also those of plain samples, which mean the
        same for every algorithm: "sampled_reward", and "kl" from the start in nats a response. Of a reward of several
        terms also the mean of each, "reward/NAME" and "sampled_reward/NAME". A reward's mean is over the texts that it
        applies to, and missing where it applies to none.

    Raises:
        TrainingError: The reward applies to no answer, and there is no preference either.
    """
    mine = examples[trainer.distributed.share(len(examples))]
    batches = [mine[start : start + config.micro_batch_size] for start in range(0, len(mine), config.micro_batch_size)]
    policy, tokenizer, task, reward = state.policy, trainer.tokenizer, trainer.task, trainer.reward
    with gathered(trainer.sharded), trainer.autocast():
        answered = [
            response
            for batch in batches
            for response in respond(policy, tokenizer, task, batch, task.decoding, trainer.seed)
        ]
        learns = isinstance(config, RewardedConfig)
        drawn = [pair for batch in batches for pair in sampled(trainer, state, batch)] if learns else []
    answered = trainer.distributed.gather(answered)
    scored = score_predictions(task, "validation", examples, as_predictions(examples, answered))
    figures = {
        **rewarded("reward", reward, examples, answered, done),
        "preference": scored.preference,
        "naturalness": scored.naturalness,
    }
    if figures["reward"] is None and scored.preference is None:
        raise TrainingError(
            "The reward applies to no text of the validation split (None for all of them), and the task has no metric "
            "of preference to compare checkpoints by. Add a term that applies, or raise validation_examples."
        )
    if drawn := trainer.distributed.gather(drawn):
        figures |= rewarded("sampled_reward", reward, examples, [one for one, _ in drawn], done)
        figures["kl"] = sum(kl for _, kl in drawn) / len(drawn)
    return {name: value for name, value in figures.items() if value is not None}


def rewarded(
    name: str, reward: Reward, examples: Sequence[Example], responses: Sequence[Response], done: int
) -> dict[str, float | None]:
    """Return the mean reward of responses as figure `name`, and of a sum that of each term; None where none applies."""
    parts = reward.parts(examples, **told(responses), step=done)
    found = {name: mean(reward.sums(parts))}
    if len(reward.terms) > 1:
        found |= {f"{name}/{term.name}": mean(part) for term, part in zip(reward.terms, parts, strict=True)}
    return found


@torch.no_grad()
def sampled(trainer: Trainer, state: TrainState, examples: Sequence[Example]) -> list[tuple[Response, float]]:
    """Return a plain sample to each example, and the KL from the start along it in nats.

    The draws are those of every validation of a run, so that differences between two of them vary less.
    """
    policy, tokenizer, settings = state.policy, trainer.tokenizer, plain_sampling(trainer.task)
    prompts = encode_prompts(policy, tokenizer, [example.prompt for example in examples], trainer.task.prompt)
    uniforms = example_uniforms(trainer.seed, examples, settings.max_new_tokens)
    stops = find_stops(tokenizer, settings.stop)
    rollout = sample_responses(policy, prompts, settings, uniforms, eos_id(policy, tokenizer), stops=stops)
    kl = kl_divergence(policy, state.initial_policy(), prompts, rollout.responses)
    return list(
        zip(as_responses(tokenizer, rollout.responses, rollout.truncated, settings.stop), kl.tolist(), strict=True)
    )
