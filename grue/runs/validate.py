"""Validation: what a policy is worth on held-out examples, and how far it has moved from its start."""

from collections.abc import Sequence

import torch

from grue.evaluation.predict import plain_sampling, predict
from grue.evaluation.scoring import score_predictions
from grue.lm.divergence import kl_divergence
from grue.lm.model import eos_id
from grue.lm.sampling import sample_responses
from grue.lm.seeds import example_uniforms
from grue.lm.sharding import gathered
from grue.lm.tokens import decode_responses, encode_prompts
from grue.records import Example
from grue.rl.settings import Common, RolloutConfig
from grue.rl.trainer import Trainer, TrainState


def validate(trainer: Trainer, state: TrainState, config: Common, examples: Sequence[Example]) -> dict[str, float]:
    """Return the figures of a policy on validation examples.

    Returns:
        "preference", "naturalness" (0 to 100, where the task has the axis) and "reward" (mean, in the reward's unit) of
        its answers, decoded as in evaluation. From reinforcement learning also those of plain samples, which mean the
        same for every algorithm: "sampled_reward", and "kl" from the start in nats a response.
    """
    mine = examples[trainer.distributed.share(len(examples))]
    batches = [mine[start : start + config.micro_batch_size] for start in range(0, len(mine), config.micro_batch_size)]
    policy, tokenizer, task = state.policy, trainer.tokenizer, trainer.task
    with gathered(trainer.sharded), trainer.autocast():
        answered = [
            prediction
            for batch in batches
            for prediction in predict(policy, tokenizer, task, batch, task.decoding, trainer.seed)
        ]
        learns = isinstance(config, RolloutConfig)
        drawn = [pair for batch in batches for pair in sampled(trainer, state, batch)] if learns else []
    predictions = trainer.distributed.gather(answered)
    scored = score_predictions(task, "validation", examples, predictions)
    rewards = trainer.reward(examples, [prediction.text for prediction in predictions])
    figures = {
        "reward": sum(rewards) / len(rewards),
        "preference": scored.preference,
        "naturalness": scored.naturalness,
    }
    if drawn := trainer.distributed.gather(drawn):
        rewards = trainer.reward(examples, [text for text, _ in drawn])
        figures["sampled_reward"] = sum(rewards) / len(rewards)
        figures["kl"] = sum(kl for _, kl in drawn) / len(drawn)
    return {name: value for name, value in figures.items() if value is not None}


@torch.no_grad()
def sampled(trainer: Trainer, state: TrainState, examples: Sequence[Example]) -> list[tuple[str, float]]:
    """Return a plain sample to each example, and the KL from the start along it in nats.

    The draws are those of every validation of a run, so that differences between two of them vary less.
    """
    policy, tokenizer, settings = state.policy, trainer.tokenizer, plain_sampling(trainer.task)
    prompts = encode_prompts(policy, tokenizer, [example.prompt for example in examples], trainer.task.prompt)
    uniforms = example_uniforms(trainer.seed, examples, settings.max_new_tokens)
    responses = sample_responses(policy, prompts, settings, uniforms, eos_id(policy, tokenizer)).responses
    kl = kl_divergence(policy, state.initial_policy(), prompts, responses)
    return list(zip(decode_responses(tokenizer, responses), kl.tolist(), strict=True))
