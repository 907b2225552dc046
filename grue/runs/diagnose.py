"""Whether there is a signal to learn from, measured before a run: the gradient of updates, and how far one moves.

Everything is measured with the algorithm's own `update`, called as a run would call it. At a learning rate of 0 and
with one step on all its rollouts, an update computes the gradient of a batch, which hooks on the policy's parameters
keep; the state is restored after each, since TRPO's step ignores the learning rate. Each batch has new prompts and
samples, so that batches are independent. A critic that starts from a regression is first fitted to other rollouts. One
more update is made as the settings say, and undone once it is measured.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from math import ceil, isnan
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grue.algorithms import BUILT_IN
from grue.errors import ConfigError, TrainingError
from grue.lm.distributed import DistributedContext
from grue.rl.settings import ActorCriticConfig, RolloutConfig
from grue.rl.trainer import Algorithm, Trainer, TrainState, set_learning_rate
from grue.runs.algorithms import find_algorithm, split_algorithm
from grue.runs.captured_step import gradients
from grue.runs.observers import Observers
from grue.runs.plan import Plan
from grue.runs.select import choose, narrowed
from grue.runs.train import prepare
from grue.stats.intervals import FloatArray
from grue.stats.signal import FEWEST, GradientSignal, RewardSpread, gradient_signal, reward_spread

BATCHES = 16
SAMPLES = 8
"""Samples to each prompt whose rewards are compared, where the settings say one; GRPO's default."""
PROMPTS = 32
"""Least number of prompts whose samples are compared, where the settings say one sample a prompt."""
REPEATED = ("epochs", "critic_epochs", "cg_steps", "line_search_steps")
"""Settings that repeat work without changing the gradient that an update begins with."""
CHUNK = 2**20
"""How many weights are multiplied at once."""


@dataclass(frozen=True, slots=True)
class UpdateMove:
    """What one update does to the policy at the full learning rate.

    Attributes:
        kl_token: KL (k3) of the updated policy from the one before, nats a token, over what the settings penalise.
        kl_response: The same, nats a response.
        clipped: Share of the ratios outside the clip range, mean over the steps; None where nothing is clipped.
        steps: Optimiser steps on the policy, fewer than planned where `stop_kl` ended the update; None where the
            algorithm counts none.
        planned: Steps without an early end.
    """

    kl_token: float
    kl_response: float
    clipped: float | None
    steps: int | None
    planned: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The signal that a run would learn from, and how far its updates would move.

    Attributes:
        start: Checkpoint or backbone.
        reward: The expression that was rewarded.
        gradient: Of the loss over the policy, with penalty and entropy, without the critic's.
        rewards: The reward function's values.
        explained_variance: Share of the returns' variance over tokens that the critic explains on rollouts that it has
            not been fitted to; None without a critic, or where all returns are equal.
        length: Mean of the responses, tokens.
        ended: Share of the responses that ended before the length limit, 0–1.
        fixed_length: Whether the task's rollouts all have the same length, so that none ends early.
        entropy: Of the sampler, nats a token.
    """

    suite: str
    task: str
    algorithm: str
    start: str
    reward: str
    seed: int
    settings: RolloutConfig
    gradient: GradientSignal
    rewards: RewardSpread
    explained_variance: float | None
    move: UpdateMove
    length: float
    ended: float
    fixed_length: bool
    entropy: float

    @property
    def seconds(self) -> float:
        """What the run's updates take, without validation."""
        return self.settings.updates * self.move.seconds


Progress = Callable[[int, int], None]


def diagnose(plan: Plan, batches: int, progress: Progress, distributed: DistributedContext) -> Diagnosis:
    """Load what a run needs and measure its signal; nothing is written.

    Raises:
        ConfigError: The algorithm follows no gradient of its rollouts' reward, there are too few batches, or several
            processes were started.
        DataError: Data, the model or the checkpoint to start from cannot be used.
        TrainingError: An update cannot be made: the reward gives no number, say.
    """
    check(plan, batches)
    if distributed.size > 1:
        raise ConfigError(f"{distributed.size} processes were started; grue diagnose runs in one.")
    trainer = prepare(plan, Observers([]), lambda: False, distributed).trainer
    if isinstance(plan.config, RolloutConfig) and plan.config.select is not None:
        trainer = narrowed(trainer, choose(plan, trainer))
    return measure(plan, trainer, batches, progress)


def check(plan: Plan, batches: int) -> None:
    """Refuse what cannot be diagnosed, before anything is loaded.

    Raises:
        ConfigError: The algorithm follows no gradient of its rollouts' reward, or there are too few batches.
    """
    if not isinstance(plan.config, RolloutConfig):
        learners = [name for name in BUILT_IN if issubclass(find_algorithm(name).settings, RolloutConfig)]
        raise ConfigError(
            f"{plan.algorithm} follows no gradient of its own rollouts' reward, whose signal this measures. "
            f"Name an algorithm that does: {', '.join(learners)}."
        )
    if batches < FEWEST:
        raise ConfigError(f"{batches} batches: telling signal from noise takes {FEWEST} at least.")


def measure(plan: Plan, trainer: Trainer, batches: int, progress: Progress = lambda done, total: None) -> Diagnosis:
    """Diagnose a run of this plan; the policy is left as it was. Errors are those of `diagnose`."""
    settings: Any = plan.config
    # A step size that falls is that of the first update, whichever is made.
    config = replace(settings, anneal=False) if hasattr(settings, "anneal") else settings
    algorithm = find_algorithm(split_algorithm(plan.algorithm)[-1])
    groups, several = grouped(config)
    ticks = iter(range(1, batches + groups + 4))

    def tick() -> None:
        progress(next(ticks), batches + groups + 3)

    bench = set_up(trainer, algorithm, config)
    tick()
    lines, measured, rewards = [], [], []
    for k in range(batches):
        figures, gradient, of_batch = bench.still(config, "gradient", k)
        lines.append(figures)
        measured.append(gradient)
        rewards += of_batch
        tick()
    if groups:
        rewards = []
    for k in range(groups):
        rewards += bench.still(several, "rewards", k)[2]
        tick()
    move = bench.move(config, tick)
    rollout, critic = trainer.task.rollout, "critic/explained_variance"
    explained = [line[critic] for line in lines if critic in line]
    return Diagnosis(
        suite=plan.task.suite,
        task=plan.task.name,
        algorithm=plan.algorithm,
        start=str(plan.init or plan.start.model),
        reward=plan.reward,
        seed=plan.seed,
        settings=settings,
        gradient=gradient_signal(inner_products(measured), config.rollouts),
        rewards=reward_spread(np.array(rewards, dtype=np.float64).reshape(-1, several.samples_per_prompt)),
        explained_variance=fmean(explained) if explained else None,
        move=move,
        length=mean_of(lines, "objective/length"),
        ended=mean_of(lines, "objective/ended"),
        fixed_length=rollout.min_new_tokens == rollout.max_new_tokens,
        entropy=mean_of(lines, "objective/entropy"),
    )


def grouped(config: RolloutConfig) -> tuple[int, RolloutConfig]:
    """Return how many batches are drawn to compare samples to the same prompt, and their settings.

    Settings with several samples a prompt need no further batches.
    """
    if config.samples_per_prompt > 1:
        return 0, config
    prompts = max(1, config.rollouts // SAMPLES)
    return ceil(PROMPTS / prompts), replace(config, rollouts=prompts * SAMPLES, samples_per_prompt=SAMPLES)


@dataclass(frozen=True, slots=True)
class Bench:
    """An algorithm before its first update; its updates are undone.

    Attributes:
        began: The state that each update begins from.
    """

    trainer: Trainer
    algorithm: Algorithm[Any]
    state: TrainState
    began: Mapping[str, Any]

    def still(self, config: RolloutConfig, *purpose: str | int) -> tuple[Mapping[str, float], Tensor, list[float]]:
        """Make an update that leaves the policy as it is.

        Returns:
            Its figures, the gradient of the policy's loss over all its rollouts [N], and their rewards, with the
            samples to one prompt side by side.
        """
        values: list[float] = []  # of all the update's responses; NaN where the reward does not apply
        trainer = self.trainer.apart("diagnose", *purpose)
        trainer.graded = lambda examples, rewards: values.extend(rewards)
        self.state.load_state_dict(self.began)
        figures, gradient = still_update(trainer, self.algorithm, self.state, config, 1)
        self.state.load_state_dict(self.began)
        rewards = [value for value in values if not isnan(value)]
        if len(rewards) < config.rollouts:
            without = config.rollouts - len(rewards)
            raise TrainingError(
                f"The reward gave no value for {without} of {config.rollouts} responses, whose spread is compared; "
                "leave out the terms that do not always apply."
            )
        return figures, gradient, rewards

    def move(self, config: RolloutConfig, tick: Callable[[], None]) -> UpdateMove:
        """Make one update as a run does, measure how far it moved the policy, and undo it.

        The reference is the policy before the update, whatever the loss compares with, so that new rollouts of the
        updated policy measure the KL.
        """
        self.state.load_state_dict(self.began)
        set_learning_rate(self.state.optimizer, replace(config, warmup=0.0), 0, 1)  # its peak
        begin = time.perf_counter()
        figures = self.algorithm.update(self.trainer.apart("diagnose", "move"), self.state, config, 1)
        seconds = time.perf_counter() - begin
        tick()
        anchor, self.state.anchor = self.state.anchor, None
        after, _ = still_update(self.trainer.apart("diagnose", "moved"), self.algorithm, self.state, config, 1)
        self.state.anchor = anchor
        self.state.load_state_dict(self.began)
        tick()
        steps, single = figures.get("policy/steps"), "epochs" in self.algorithm.without_effect
        return UpdateMove(
            kl_token=mean_of([after], "objective/kl_k3"),
            kl_response=mean_of([after], "objective/kl_k3") * mean_of([after], "objective/length"),
            clipped=figures.get("policy/clip_fraction"),
            steps=None if steps is None else round(steps),
            planned=1 if single else config.epochs * ceil(config.rollouts / config.minibatch_size),
            seconds=seconds,
        )


def set_up(trainer: Trainer, algorithm: Algorithm[Any], config: RolloutConfig) -> Bench:
    """Return an algorithm before its first update; a critic that starts from the first rollouts is fitted."""
    state = algorithm.start(trainer, config)
    began = deepcopy(state.state_dict())
    still_update(trainer, algorithm, state, config, 0)
    began["critic"] = deepcopy(state.state_dict()["critic"])
    return Bench(trainer, algorithm, state, began)


def still_update(
    trainer: Trainer, algorithm: Algorithm[Any], state: TrainState, config: RolloutConfig, n: int
) -> tuple[Mapping[str, float], Tensor]:
    """Make an update of one step at a learning rate of 0, on all the rollouts it draws first and without a critic.

    Returns:
        Its figures, and the policy's gradient [N].

    Raises:
        TrainingError: The update computes no gradient of the policy.
    """
    once: dict[str, Any] = {name: 1 for name in REPEATED if hasattr(config, name)}
    once |= {"value_coefficient": 0.0} if isinstance(config, ActorCriticConfig) else {}
    whole = replace(config, **once, redraws=0, minibatch_size=config.rollouts, stop_kl=None)
    for group in state.optimizer.param_groups:
        group["lr"] = 0.0
    with gradients(state.policy) as found:
        figures = algorithm.update(trainer, state, whole, n)
    if not found:
        raise TrainingError("The algorithm's update computes no gradient of the policy, so that none can be measured.")
    learning = [(name, p) for name, p in state.policy.named_parameters() if p.requires_grad]
    return figures, torch.cat([found.get(name, torch.zeros_like(p, device="cpu")).flatten() for name, p in learning])


def inner_products(vectors: Sequence[Tensor]) -> FloatArray:
    """Return the inner products of K vectors [N] with one another, [K, K]; summed in double precision."""
    total = torch.zeros(len(vectors), len(vectors), dtype=torch.float64)
    for begin in range(0, len(vectors[0]), CHUNK):
        part = torch.stack([vector[begin : begin + CHUNK] for vector in vectors]).double()
        total += part @ part.T
    products: FloatArray = total.numpy()
    return products


def mean_of(lines: Sequence[Mapping[str, float]], name: str) -> float:
    """Return the mean of a figure; a TrainingError if the algorithm does not log it."""
    if any(name not in line for line in lines):
        raise TrainingError(
            f"The algorithm's update logs no {name}; let it return what grue.rl.experience.describe does."
        )
    return sum(line[name] for line in lines) / len(lines)
