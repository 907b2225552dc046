"""A training run: its folder, what it logs, when it validates, what it keeps, and how it goes on after a stop.

The folder holds `config.toml`, `train.jsonl` (one line an update), `checkpoint/` (the best on validation), and, while
the run is not finished, `state.pt`. The same command continues such a run and does nothing to a finished one; another
configuration in the same folder is refused.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from grue import files
from grue.data.load import load_examples
from grue.errors import GrueError
from grue.metrics.rewards import Reward, make_reward
from grue.models import load_language_model
from grue.records import Example
from grue.registry import Registry
from grue.scoring import score_predictions
from grue.tasks import Task
from grue.training import checkpoint
from grue.training.config import split_algorithm
from grue.training.plan import Plan, claim_folder, finished, sole_owner
from grue.training.policy import check_lengths
from grue.training.predict import predict
from grue.training.tracking import Observer

# An algorithm trains `run.policy` in place; the config is of the class that `config.CONFIGS` names.
ALGORITHMS: Registry[Callable[["Run", Any], None]] = Registry(
    "algorithm",
    modules={name: f"grue.training.{name}" for name in ("supervised", "ppo", "nlpo")},
    entry_points="grue.algorithms",
)


class Interrupted(GrueError):
    """The run was asked to stop, and saved where it was."""

    exit_code = 130


class Stateful(Protocol):
    """Whatever an algorithm changes while it runs."""

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to a saved state."""


@dataclass
class Run:
    """A run under way: what an algorithm needs, and the four things it tells.

    Attributes:
        stop: Asked after every update; True saves the state and ends the run.
        training: Tokens, episodes and seconds so far, those of the checkpoint it started from included.
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
    best: float | None = None
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
    def state_path(self) -> Path:
        """Where the state to go on from lies while the run is not finished."""
        return self.plan.folder / "state.pt"

    @property
    def log_path(self) -> Path:
        """One line an update."""
        return self.plan.folder / "train.jsonl"

    def resume(self, learner: Stateful, total: int) -> int:
        """Go back to the saved state, if there is one; return the number of updates that are done.

        Before the first update the initial policy is validated: training must beat it to replace it.
        """
        if not self.state_path.exists():
            self.log_path.unlink(missing_ok=True)
            self.observer.started(self.plan, 0, total)
            self._validate(0)
            return 0
        state = checkpoint.load_state(self.state_path)
        learner.load_state_dict(state["learner"])
        self.best, self.training, done = state["best"], state["training"], int(state["done"])
        files.drop_torn_line(self.log_path)
        files.write_jsonl(
            self.log_path, [line for _, line in files.read_jsonl(self.log_path) if line["update"] <= done]
        )
        self.observer.started(self.plan, done, total)
        return done

    def end_update(self, done: int, total: int, line: Mapping[str, float], learner: Stateful) -> None:
        """Log an update; validate, keep the best, save the state and stop, each where it is due.

        Raises:
            Interrupted: A stop was asked for; the state is saved.
        """
        now = time.monotonic()
        seconds, self.clock = now - self.clock, now
        self.training["tokens"] += line.get("tokens", 0.0)
        self.training["episodes"] += line.get("episodes", 0.0)
        self.training["seconds"] += seconds
        record = {"update": done, "seconds": seconds, **line}
        files.append_jsonl(self.log_path, [record])
        self.observer.updated(done, total, record)
        config = self.plan.config
        if done % config.validate_every == 0 or done == total:
            self._validate(done)
        stopping = self.stop() and done < total
        if done < total and (stopping or done % config.save_every == 0):
            state = {"learner": learner.state_dict(), "best": self.best, "training": self.training, "done": done}
            checkpoint.save_state(self.state_path, state)
        if stopping:
            raise Interrupted(
                f"{self.plan.folder}: stopped after update {done} of {total}; the same command goes on from there."
            )
        self.clock = time.monotonic()  # validating and saving are not training

    def _validate(self, done: int) -> None:
        """Measure the policy on validation examples, and keep it as the checkpoint if it is the best so far."""
        figures = validate(self)
        value = figures.get("preference", figures["reward"])
        best = self.best is None or value > self.best
        files.append_jsonl(self.log_path, [{"update": done, **{f"validation/{k}": v for k, v in figures.items()}}])
        self.observer.validated(done, figures, best)
        if best:
            self.best = value
            checkpoint.save_checkpoint(self.plan.checkpoint, self.policy, self.tokenizer, self._manifest(done, figures))

    def _manifest(self, done: int, figures: Mapping[str, float]) -> dict[str, Any]:
        plan = self.plan
        return {
            "suite": plan.task.suite,
            "task": plan.task.name,
            "task_hash": plan.task.hash,
            "system": plan.system,
            "algorithm": plan.algorithm,
            "backbone": plan.start.model,
            "seed": plan.seed,
            "update": done,
            "config_sha256": files.sha256_json(plan.record()),
            "validation": dict(figures),
            "training": dict(self.training),
        }


def validate(run: Run) -> dict[str, float]:
    """Return the task's preference, naturalness and mean reward of the policy on the validation examples."""
    size = run.plan.config.micro_batch_size
    predictions = [
        prediction
        for start in range(0, len(run.validation), size)
        for prediction in predict(
            run.policy, run.tokenizer, run.task, run.validation[start : start + size], run.task.decoding, run.seed
        )
    ]
    scored = score_predictions(run.task, "validation", run.validation, predictions)
    rewards = run.reward(run.validation, [prediction.text for prediction in predictions])
    figures = {
        "reward": sum(rewards) / len(rewards),
        "preference": scored.preference,
        "naturalness": scored.naturalness,
    }
    return {name: value for name, value in figures.items() if value is not None}


def train(plan: Plan, observer: Observer, stop: Callable[[], bool] = lambda: False) -> Path:
    """Carry out one stage and return its checkpoint folder; a finished one is left as it is.

    Raises:
        ConfigError: The folder holds a run of another configuration.
        DataError: Data, the model or the checkpoint to start from cannot be used.
        Interrupted: `stop` asked for it.
    """
    checkpoint.restore_interrupted(plan.checkpoint)
    if finished(plan):
        (plan.folder / "state.pt").unlink(missing_ok=True)  # a kill between the last line and its removal leaves it
        return plan.checkpoint
    run = _prepare(plan, observer, stop)
    with sole_owner(plan.folder):
        claim_folder(plan)
        ALGORITHMS[split_algorithm(plan.algorithm)[-1]](run, plan.config)
        files.append_jsonl(run.log_path, [{"finished": True, "training": run.training}])
        run.state_path.unlink(missing_ok=True)
    return plan.checkpoint


def _prepare(plan: Plan, observer: Observer, stop: Callable[[], bool]) -> Run:
    """Load everything a run needs; the folder is claimed only once all of that is there."""
    training = {"tokens": 0.0, "episodes": 0.0, "seconds": 0.0}
    if plan.init is not None:
        manifest = checkpoint.read_manifest(plan.init)
        checkpoint.check_task(manifest, plan.init, plan.task)
        training |= manifest.training
    examples = load_examples(plan.task, "train", plan.data_dir, plan.offline).examples
    validation = load_examples(plan.task, "validation", plan.data_dir, plan.offline).examples
    reward = make_reward(plan.reward, plan.task, examples)
    policy, tokenizer = _load_policy(plan)
    check_lengths(policy, plan.task)
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
    )


def _load_policy(plan: Plan) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    start = plan.start
    if plan.init is None:
        return load_language_model(start.family, start.model, start.revision)
    return load_language_model(start.family, str(plan.init))
