"""Validation: what a policy is worth on held-out examples, and how far it has moved from its start."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import torch

from grue.errors import TrainingError, Unavailable
from grue.evaluation.comparison import Worth, worth_of, worth_of_mean
from grue.evaluation.predict import Response, as_predictions, as_responses, plain_sampling, respond, reward_inputs
from grue.evaluation.rewards import Reward, mean
from grue.evaluation.scoring import Prepare, score_predictions
from grue.lm.forward import kl_divergence
from grue.lm.model import cast_once
from grue.lm.seeds import example_uniforms
from grue.lm.sharding import gathered
from grue.metrics.metric import FloatArray, Metric
from grue.records import Example
from grue.rl.responses import draw_responses
from grue.rl.settings import Common, RewardedConfig, rollout_settings
from grue.rl.trainer import Trainer, TrainState
from grue.tasks import Generation, MetricSpec, Task


@dataclass(frozen=True, slots=True, eq=False)
class Validated:
    """The result of a validation.

    Attributes:
        figures: "preference", "naturalness" (0 to 100, if the task has the axis) and "reward" (mean, in the reward's
            unit) of the answers, drawn as `validate_on` says. In reinforcement learning also figures of plain samples,
            which mean the same for every algorithm: "sampled_reward", and "kl" from the start in nats a response. Of a
            reward of several terms also the mean of each, "reward/NAME" and "sampled_reward/NAME". A reward's mean is
            over the texts that it applies to, and missing if it applies to none.
        worth: What policies are compared by, and each example's share in it: the preference, or without one the
            reward. None if there is a single example, or if a metric cannot be computed without one of them.
    """

    figures: dict[str, float]
    worth: Worth | None

    @property
    def value(self) -> float:
        """What policies are compared by."""
        return self.figures["preference"] if "preference" in self.figures else self.figures["reward"]


def validate(
    trainer: Trainer,
    state: TrainState,
    config: Common,
    examples: Sequence[Example],
    done: int,
    prepare: Prepare | None = None,
) -> Validated:
    """Measure a policy on validation examples, after `done` updates.

    Raises:
        TrainingError: The reward applies to no answer, and there is no preference either.
    """
    mine = examples[trainer.distributed.share(len(examples))]
    batches = [mine[start : start + config.micro_batch_size] for start in range(0, len(mine), config.micro_batch_size)]
    policy, task, reward = state.policy, trainer.task, trainer.reward
    settings = answering(task, config)
    learns = isinstance(config, RewardedConfig)
    with gathered(trainer.sharded), trainer.autocast(), torch.no_grad(), cast_once(policy):
        drawn = [pair for batch in batches for pair in sample(trainer, state, batch)] if learns else []
        if learns and settings == plain_sampling(task):  # then these are the same draws
            answered = [response for response, _ in drawn]
        else:
            answered = [
                response
                for batch in batches
                for response in respond((policy, trainer.tokenizer), task, batch, settings, trainer.seed)
            ]
    answered = trainer.distributed.gather(answered)
    measured: list[tuple[MetricSpec, Metric, Sequence[FloatArray]]] = []
    scored = score_predictions(
        task,
        "validation",
        examples,
        as_predictions(examples, answered),
        prepare=prepare,
        measured=lambda *metric: measured.append(metric),
    )
    rewards, of_reward = reward_means("reward", reward, examples, answered, done)
    figures = {**of_reward, "preference": scored.preference, "naturalness": scored.naturalness}
    if figures["reward"] is None and scored.preference is None:
        raise TrainingError(
            "The reward applies to no text of the validation split (None for all of them), and the task has no metric "
            "of preference to compare checkpoints by. Add a term that applies, or raise validation_examples."
        )
    if drawn := trainer.distributed.gather(drawn):
        samples = [response for response, _ in drawn]
        figures |= reward_means("sampled_reward", reward, examples, samples, done)[1]
        figures["kl"] = sum(kl for _, kl in drawn) / len(drawn)
    worth = None
    if scored.preference is None:
        worth = worth_of_mean(rewards)
    elif len(examples) > 1:
        with suppress(Unavailable):  # say, a metric that counts only some of the examples, and there is one such
            worth = worth_of([metric for metric in measured if metric[0].axis == "preference"])
    return Validated({name: value for name, value in figures.items() if value is not None}, worth)


def errors(now: Worth | None, start: Worth | None) -> dict[str, float]:
    """Return the standard errors of a validation.

    Returns:
        "error", the standard error over examples of what policies are compared by; "gain" over the start, and
        "gain_error", its standard error, paired by example. Unknown ones are missing.
    """
    if now is None:
        return {}
    figures = {"error": now.error}
    if start is not None:
        figures["gain"], figures["gain_error"] = now.gain_on(start)
    return {name: value for name, value in figures.items() if value is not None}


def answering(task: Task, config: Common) -> Generation:
    """Return how validation examples are answered: as in evaluation, or as rollouts are drawn, without any mask."""
    if config.validate_on == "decoding":
        return replace(task.decoding, samples=1)
    return rollout_settings(task, config) if isinstance(config, RewardedConfig) else task.rollout


def reward_means(
    name: str, reward: Reward, examples: Sequence[Example], responses: Sequence[Response], done: int
) -> tuple[list[float | None], dict[str, float | None]]:
    """Return the reward of each response, and the mean as figure `name`; for a sum, also the mean of each term.

    None is where the reward does not apply.
    """
    parts = reward.parts(examples, **reward_inputs(responses), step=done)
    sums = reward.sums(parts)
    figures = {name: mean(sums)}
    if len(reward.terms) > 1:
        figures |= {f"{name}/{term.name}": mean(part) for term, part in zip(reward.terms, parts, strict=True)}
    return sums, figures


def sample(trainer: Trainer, state: TrainState, examples: Sequence[Example]) -> list[tuple[Response, float]]:
    """Return a plain sample for each example, and the KL from the start along it in nats.

    All validations of a run use the same random numbers, so that differences between two of them vary less.
    """
    settings = plain_sampling(trainer.task)
    uniforms = example_uniforms(trainer.seed, examples, settings.max_new_tokens)
    rollout = draw_responses(trainer, state.policy, settings, examples, uniforms)
    kl = kl_divergence(state.policy, state.initial_policy(), rollout.prompts, rollout.responses)
    answers = as_responses(trainer.tokenizer, rollout.responses, rollout.truncated, settings.stop)
    return list(zip(answers, kl.tolist(), strict=True))
