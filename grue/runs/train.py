"""A training run: its folder, what it logs, when it validates, what it keeps, and how it goes on after a stop.

The folder holds `config.toml`, `train.jsonl` (one line an update), `checkpoint/` (the best on validation), `final/`
(the last, once the run is finished) and `states/` (while it is not). The same command continues such a run and does
nothing to a finished one; another configuration in the same folder is refused.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from grue import files
from grue.data.load import load_examples
from grue.errors import ConfigError, GrueError
from grue.evaluation.predict import predict
from grue.evaluation.scoring import score_predictions
from grue.lm import checkpoint
from grue.lm.adapters import adapt, merged
from grue.lm.checks import check_lengths, check_model
from grue.lm.distributed import DistributedContext
from grue.lm.load import load_language_model, locate_model
from grue.lm.sharding import Split, check_sharding, gathered, model_of, shard, whole
from grue.metrics.rewards import Reward, make_reward
from grue.records import Example
from grue.rl.rollout import some_examples
from grue.rl.settings import Common, RolloutConfig
from grue.runs import states
from grue.runs.alarms import alarms
from grue.runs.card import card, training_versions
from grue.runs.observers import Observer
from grue.runs.plan import Plan, claim_folder, finished, sole_owner
from grue.runs.recipes import ALGORITHMS, split_algorithm
from grue.tasks import Task

STATES, FINAL = "states", "final"


class Interrupted(GrueError):
    """The run was asked to stop, and saved where it was."""

    exit_code = 130


class Stateful(Protocol):
    """Whatever an algorithm changes while it runs."""

    optimizer: torch.optim.Optimizer

    def trained(self) -> Sequence[nn.Module]:
        """Return the modules that the optimiser trains."""

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to a saved state."""


@dataclass
class Run:
    """A run under way: what an algorithm needs, and what it tells: where it goes on, and the end of each update.

    Attributes:
        stop: Asked after every update; True saves the state and ends the run.
        training: Tokens, episodes and seconds so far, those of the checkpoint it started from included.
        world: The processes that train together; only the first of them writes and talks.
        split: Holds the weights that learn where they are split over the processes.
        best: What the best checkpoint so far is compared by.
        figures: Of the last validation.
        lines: What was logged of every update so far; alarms are read off it.
    """

    plan: Plan
    policy: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    examples: Sequence[Example]
    validation: Sequence[Example]
    reward: Reward
    observer: Observer
    stop: Callable[[], bool]
    training: dict[str, float]
    world: DistributedContext = field(default_factory=DistributedContext)
    split: Split | None = None
    best: float | None = None
    figures: dict[str, float] = field(default_factory=dict)
    lines: list[Mapping[str, float]] = field(default_factory=list)
    clock: float = field(default_factory=time.monotonic)

    @property
    def task(self) -> Task:
        """The task that is trained on."""
        return self.plan.task

    @property
    def seed(self) -> int:
        """The seed of every draw."""
        return self.plan.seed

    @property
    def states_folder(self) -> Path:
        """Where the states to go on from lie while the run is not finished."""
        return self.plan.folder / STATES

    @property
    def log_path(self) -> Path:
        """One line an update."""
        return self.plan.folder / "train.jsonl"

    def autocast(self) -> torch.autocast:
        """Return the context of a forward pass in the configuration's precision.

        It is entered anew for every pass: the casts of the weights that it caches are of one step only.
        """
        half = self.plan.config.precision == "bfloat16"
        return torch.autocast(self.policy.device.type, torch.bfloat16, enabled=half)

    def resume(self, learner: Stateful, total: int) -> int:
        """Go back to the newest whole state, if any was saved; return the number of updates that are done.

        Here the weights are split over the processes, where they are: copies of them have to be made before.
        Before the first update the initial policy is validated: training must beat it to replace it.

        Raises:
            DataError: States were saved and none is whole, or the log or the best checkpoint does not agree with it.
        """
        if self.plan.config.sharded and self.world.size > 1:
            self.split = shard(learner.trained(), learner.optimizer, self.world)
        warnings: list[str] = []
        found = self._newest_state(warnings.append)
        done = 0
        if found is not None:
            done, state = found
            learner.load_state_dict(state["learner"])
            self.best, self.training = state["best"], state["training"]
        if self.world.is_main and found is not None:
            states.rewind_log(self.log_path, done)
            checkpoint.check_best(self.plan.checkpoint)
            self.lines = [line for _, line in files.read_jsonl(self.log_path) if "seconds" in line]
        elif self.world.is_main:
            self.log_path.unlink(missing_ok=True)
        self.observer.started(self.plan, done, total)
        for message in warnings:
            self.observer.warned(done, message)
        if found is None:
            self._validate(0)
        return done

    def _newest_state(self, warn: Callable[[str], None]) -> tuple[int, dict[str, Any]] | None:
        """Read the newest whole state: first the main process alone, which sets damaged ones aside."""
        found = states.newest_state(self.states_folder, warn) if self.world.is_main else None
        self.world.barrier()
        return found if self.world.is_main else states.newest_state(self.states_folder, warn)

    def end_update(self, done: int, total: int, line: Mapping[str, float], learner: Stateful) -> None:
        """Log an update; validate, keep the best and the last, save the state and stop, each where it is due.

        Raises:
            Interrupted: A stop was asked for; the state is saved.
        """
        now = time.monotonic()
        seconds, self.clock = now - self.clock, now
        self.training["tokens"] += line.get("tokens", 0.0)
        self.training["episodes"] += line.get("episodes", 0.0)
        self.training["seconds"] += seconds
        record = {"update": done, "seconds": seconds, **line}
        self._log(record)
        self.observer.updated(done, total, record)
        config = self.plan.config
        self.lines.append(record)
        if self.world.is_main:
            for alarm in alarms(self.lines[0], self.lines, config):
                self.observer.warned(done, alarm.message)
        if done % config.validate_every == 0 or done == total:
            self._validate(done)
        if done == total:
            self._keep(self.plan.folder / FINAL, done, "final")
        stopping = self.world.any(self.stop()) and done < total
        if done < total and (stopping or done % config.save_every == 0):
            self._save(done, learner)
        if stopping:
            self.world.barrier()  # the others must not end the launcher's patience while the state is written
            raise Interrupted(
                f"{self.plan.folder}: stopped after update {done} of {total}; the same command goes on from there."
            )
        self.clock = time.monotonic()  # validating and saving are not training

    def _save(self, done: int, learner: Stateful) -> None:
        state = {"learner": learner.state_dict(), "best": self.best, "training": self.training}
        state = whole(state, keep=self.world.is_main)
        if self.world.is_main:
            states.settle_log(self.log_path)
            states.save_state(self.states_folder, done, state, self.plan.config.keep_last)

    def _log(self, record: Mapping[str, Any]) -> None:
        if self.world.is_main:
            files.append_jsonl(self.log_path, [dict(record)])

    def _validate(self, done: int) -> None:
        """Measure the policy on validation examples, and keep it as the checkpoint if it is the best so far."""
        figures = self.figures = validate(self)
        value = figures.get("preference", figures["reward"])
        best = self.best is None or value > self.best
        self._log({"update": done, **{f"validation/{k}": v for k, v in figures.items()}})
        self.observer.validated(done, figures, best)
        if best:
            self.best = value
            self._keep(self.plan.checkpoint, done, "best")

    def _keep(self, folder: Path, done: int, kept: Literal["best", "final"]) -> None:
        weights = None if self.split is None else whole(self.policy.state_dict(), keep=self.world.is_main)
        if not self.world.is_main:
            return
        plan = self.plan
        manifest = checkpoint.Manifest(
            suite=plan.task.suite,
            task=plan.task.name,
            task_hash=plan.task.hash,
            system=plan.system,
            algorithm=plan.algorithm,
            backbone=plan.start.model,
            seed=plan.seed,
            update=done,
            config_sha256=files.sha256_json(plan.record()),
            validation=dict(self.figures),
            training=dict(self.training),
            kept=kept,
        )
        base = plan.start.model
        on_hub = "" if Path(locate_model(base)).is_dir() else base
        versions = {**training_versions(), "threads": str(torch.get_num_threads())}  # other sums, other bits
        readme = card(plan.task, manifest, plan.reward, files.plain(plan.config), versions, on_hub)
        model = merged(self.policy) if weights is None else model_of(self.policy, weights)
        checkpoint.save_checkpoint(folder, model, self.tokenizer, manifest, plan.task.decoding, readme)


def validate(run: Run) -> dict[str, float]:
    """Return the task's preference, naturalness and mean reward of the policy on the validation examples."""
    size = run.plan.config.micro_batch_size
    mine = run.validation[run.world.share(len(run.validation))]
    with gathered(run.split), run.autocast():
        answered = [
            prediction
            for start in range(0, len(mine), size)
            for prediction in predict(
                run.policy, run.tokenizer, run.task, mine[start : start + size], run.task.decoding, run.seed
            )
        ]
    predictions = run.world.gather(answered)
    scored = score_predictions(run.task, "validation", run.validation, predictions)
    rewards = run.reward(run.validation, [prediction.text for prediction in predictions])
    figures = {
        "reward": sum(rewards) / len(rewards),
        "preference": scored.preference,
        "naturalness": scored.naturalness,
    }
    return {name: value for name, value in figures.items() if value is not None}


def train(
    plan: Plan, observer: Observer, stop: Callable[[], bool] = lambda: False, world: DistributedContext | None = None
) -> Path:
    """Carry out one stage and return its checkpoint folder; a finished one is left as it is.

    Raises:
        ConfigError: The folder holds a run of another configuration.
        DataError: Data, the model or the checkpoint to start from cannot be used.
        Interrupted: `stop` asked for it.
    """
    world = DistributedContext() if world is None else world
    if world.is_main:
        for folder in (plan.checkpoint, plan.folder / FINAL):
            checkpoint.restore_interrupted(folder)
    world.barrier()
    if finished(plan):
        world.barrier()
        if world.is_main:
            states.discard_states(plan.folder / STATES)  # a kill between the last line and their removal leaves them
        return plan.checkpoint
    run = _prepare(plan, observer, stop, world)
    with sole_owner(plan.folder) if world.is_main else nullcontext():
        if world.is_main:
            states.clear_leavings(plan.folder)
            claim_folder(plan)
        world.barrier()
        ALGORITHMS[split_algorithm(plan.algorithm)[-1]](run, plan.config)
        world.barrier()
        if world.is_main:
            files.append_jsonl(run.log_path, [{"finished": True, "training": run.training}])
            states.discard_states(plan.folder / STATES)
        world.barrier()
    return plan.checkpoint


def _prepare(plan: Plan, observer: Observer, stop: Callable[[], bool], world: DistributedContext) -> Run:
    """Load everything a run needs; the folder is claimed only once all of that is there."""
    training = {"tokens": 0.0, "episodes": 0.0, "seconds": 0.0}
    if plan.init is not None:
        manifest = checkpoint.read_manifest(plan.init)
        checkpoint.check_task(manifest, plan.init, plan.task)
        checkpoint.check_start(manifest, plan.init, plan.start)
        training |= manifest.training
    examples = load_examples(plan.task, "train", plan.data_dir, plan.offline).examples
    if plan.config.train_share is not None:
        examples = some_examples(examples, plan.config.train_share, plan.seed)
    validation = load_examples(plan.task, "validation", plan.data_dir, plan.offline).examples
    reward = make_reward(plan.reward, plan.task, examples)
    policy, tokenizer = _load_policy(plan)
    policy.to(world.device)  # type: ignore[arg-type]  # a decorated method that the checker cannot read
    check_model(policy, tokenizer)
    check_lengths(policy, plan.task)
    adapt(policy, plan.config, plan.seed)
    _check_ranks(plan.config, world)
    check_sharding(plan.config, world)
    return Run(
        plan=plan,
        policy=policy,
        tokenizer=tokenizer,
        examples=examples,
        validation=validation[: plan.config.validation_examples],
        reward=reward,
        observer=observer,
        stop=stop,
        training=training,
        world=world,
    )


def _check_ranks(config: Common, world: DistributedContext) -> None:
    """Refuse more processes than there are rollouts to sample.

    Raises:
        ConfigError: A process would have nothing to do.
    """
    if isinstance(config, RolloutConfig) and config.rollouts < world.size:
        raise ConfigError(f"{world.size} processes share {config.rollouts} rollouts; raise rollouts, or start fewer.")


def _load_policy(plan: Plan) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    start = plan.start
    if plan.init is None:
        return load_language_model(start.family, start.model, start.revision)
    return load_language_model(start.family, str(plan.init))
