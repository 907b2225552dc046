"""Carry out a run: the one loop over updates, which resumes, validates, logs, saves and stops.

A run's folder holds `config.toml`, `train.jsonl` and `rewards.jsonl` (a line per update each), `checkpoint/` (the best
on validation, or the last if `keep` says so), `final/` (the last, besides the best, once the run is finished) and
`states/` (while it is not). The same command resumes an interrupted run and does nothing to a finished one; another
configuration in the same folder is refused.
"""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from grue import claims, files
from grue.data.load import few_of, load_examples, obtain
from grue.errors import ConfigError, GrueError
from grue.evaluation.comparison import Worth
from grue.evaluation.rewards import make_reward
from grue.evaluation.scoring import Prepare, prepared_once
from grue.lm import checkpoint
from grue.lm.adapters import adapt, merged
from grue.lm.checks import check_lengths, check_model, check_precision
from grue.lm.distributed import DistributedContext
from grue.lm.folder import locate_model
from grue.lm.load import LoadedModel, is_here, load_language_model, weights_id
from grue.lm.model import choose_attention
from grue.lm.seeds import generator
from grue.lm.sharding import model_of, shard, whole
from grue.lm.soup import soup
from grue.provenance import machine
from grue.records import COSTS, Example
from grue.rl.groups import read_data
from grue.rl.responses import shares_groups
from grue.rl.scored_settings import ScoredConfig
from grue.rl.settings import Common, RewardedConfig
from grue.rl.trainer import Algorithm, Trainer, TrainState, set_learning_rate
from grue.runs import learned, log, rewarded, states
from grue.runs.alarms import alarms
from grue.runs.algorithms import find_algorithm, split_algorithm
from grue.runs.card import card, training_versions
from grue.runs.folder import begin, claim_folder, finished, owner_of
from grue.runs.memory import check_memory, short_of_memory
from grue.runs.observers import Observer
from grue.runs.plan import Plan, check_backbone
from grue.runs.select import check_selection, narrowed, selection
from grue.runs.validate import errors, validate

STATES = "states"


class Interrupted(GrueError):
    """The run was asked to stop, and saved its state."""

    exit_code = 130


@dataclass
class Run:
    """A run under way: everything around an algorithm's updates.

    Attributes:
        stop: Called after every update; True saves the state and ends the run.
        training: The cost of training so far, of `COSTS`, with that of the checkpoint it started from; what is
            unknown of an update or of the start is missing.
        start: `weights` of the checkpoint that it started from; empty if there was none.
        best: What the kept checkpoint is compared by.
        began_at: The policy's worth on validation before the first update; None if it has none.
        lines: The logged lines of the updates so far; alarms are computed from them.
        rewards: Rewards of the current update's responses, by example id.
        parts: Updates between two validations, if `validate_every` is 1.
        owner: What its states record as their owner.
    """

    plan: Plan
    trainer: Trainer
    validation: Sequence[Example]
    observer: Observer
    stop: Callable[[], bool]
    training: dict[str, float]
    start: str = ""
    best: float | None = None
    began_at: Worth | None = None
    figures: dict[str, float] = field(default_factory=dict)
    lines: list[Mapping[str, float]] = field(default_factory=list)
    rewards: dict[str, list[float]] = field(default_factory=dict)
    clock: float = field(default_factory=time.monotonic)
    parts: int = 1
    owner: states.Owner = field(default_factory=dict)

    @cached_property
    def record(self) -> dict[str, Any]:
        """`Plan.record`, computed once: files may change while the run goes on."""
        return self.plan.record()

    @cached_property
    def prepare(self) -> Prepare:
        """Prepares the task's metrics for the validation examples, each once."""
        return prepared_once(self.plan.task.folder)

    @property
    def configuration(self) -> str:
        """Hash of the record: the identity of the configuration."""
        return files.sha256_json(self.record)

    @property
    def is_main(self) -> bool:
        """Whether this process is the one that writes and reports."""
        return self.trainer.distributed.is_main

    @property
    def log_path(self) -> Path:
        """One line per update."""
        return self.plan.folder / log.NAME

    @property
    def rewards_path(self) -> Path:
        """The rewards of each prompt, one line per update."""
        return self.plan.folder / rewarded.NAME

    def carry_out(self, algorithm: Algorithm[Any]) -> None:
        """Make every update that is left.

        Raises:
            ConfigError: The settings need something that the training examples or the algorithm do not have.
            Interrupted: A stop was asked for; the state is saved.
        """
        config: Any = self.plan.config
        self._select()
        self.trainer.graded = self._graded
        state = algorithm.start(self.trainer, config)
        if state.fixed is not None:
            self.training = with_cost(self.training, dict.fromkeys(COSTS, 0.0) | dataclasses.asdict(state.fixed.budget))
        if self.trainer.anchor is not None and state.anchor is None:
            raise ConfigError(
                f"reference: the state that {self.plan.algorithm} starts from has no anchor, so that it would change "
                "nothing; let its start begin with that of grue.rl.trainer, or leave reference out."
            )
        self.parts = algorithm.parts(self.trainer, config)
        total = config.length * self.parts
        done = self.resume(state, total)
        self.clock = time.monotonic()  # what came before is not part of the first update
        for n in range(done, total):
            set_learning_rate(state.optimizer, config, n, total)
            with short_of_memory(config, algorithm.without_effect, f"update {n}"):
                figures = algorithm.update(self.trainer, state, config, n)
            self.end_update(n + 1, total, figures, state)

    def _select(self) -> None:
        """Keep the training examples that the settings choose; the choice counts as training."""
        chosen = selection(self.plan, self.trainer, self.configuration)
        if chosen is not None:
            self.trainer = narrowed(self.trainer, chosen)
            self.training = with_cost(self.training, chosen.training)
            self.clock = time.monotonic()

    def _graded(self, examples: Sequence[Example], rewards: Sequence[float]) -> None:
        """Collect rewards of an update's responses for its line."""
        for example, reward in zip(examples, rewards, strict=True):
            self.rewards.setdefault(example.id, []).append(reward)

    def resume(self, state: TrainState, total: int) -> int:
        """Load the newest whole state, if any was saved; return the number of updates that are done.

        This also shards the weights over the processes, if they are sharded: copies have to be made before.
        Before the first update the initial policy is validated: training must beat it to replace it.

        Raises:
            DataError: States were saved but none is whole, or the log or the best checkpoint does not match it.
        """
        trainer = self.trainer
        if self.plan.config.sharded and trainer.distributed.size > 1:
            trainer.sharded = shard(state.trained(), state.optimizer, trainer.distributed)
        warnings: list[str] = []
        done, saved = self._newest_state(warnings.append) or (0, None)
        if saved is not None:
            state.load_state_dict(saved["learner"])
            self.best, self.training = saved["best"], saved["training"]
            if (began_at := saved["began_at"]) is not None:
                self.began_at = Worth(began_at["score"], np.array(began_at["values"]))
        if self.is_main and saved is not None:
            log.rewind(self.log_path, saved["log"], done)
            rewarded.rewind(self.rewards_path, done)
            checkpoint.check_kept(self.plan.checkpoint)
            self.lines = [line for _, line in log.read_log(self.log_path)[0] if log.is_update(line)]
        elif self.is_main:
            self.log_path.unlink(missing_ok=True)
            self.rewards_path.unlink(missing_ok=True)
            begin(self.plan)
            self.owner = owner_of(self.plan, self.configuration)
        self.observer.started(self.plan, done, total)
        for message in warnings:
            self.observer.warned(done, message)
        if saved is None:
            self._validate(0, state)
        return done

    def _newest_state(self, warn: Callable[[str], None]) -> tuple[int, dict[str, Any]] | None:
        """Read the newest whole state, first in the main process alone, which sets damaged ones aside."""
        self.owner, folder = owner_of(self.plan, self.configuration), self.plan.folder / STATES
        state = states.newest_state(folder, self.owner, warn) if self.is_main else None
        self.trainer.distributed.barrier()
        return state if self.is_main else states.newest_state(folder, self.owner, warn)

    def end_update(self, done: int, total: int, figures: Mapping[str, float], state: TrainState) -> None:
        """Log an update; validate, keep the best and the last, save the state and stop, each when due.

        Raises:
            Interrupted: A stop was asked for; the state is saved.
        """
        now = time.monotonic()
        seconds, self.clock = now - self.clock, now
        self.training = with_cost(self.training, {**figures, "seconds": seconds})
        rate = state.optimizer.param_groups[0]["lr"]
        line = {"update": done, "of": total, "seconds": seconds, **figures, "policy/learning_rate": rate}
        self._log(line)
        self._log_rewards(done)
        self.observer.updated(done, total, line)
        config = self.plan.config
        self.lines.append(line)
        if self.is_main:
            for alarm in alarms(self.lines[0], self.lines, config):
                self.observer.warned(done, alarm.message)
        if done % (config.validate_every * self.parts) == 0 or done == total:
            self._validate(done, state)
        if done == total and config.keep == "best":
            self._keep(self.plan.folder / checkpoint.FINAL, done, "final")
        stopping = self.trainer.distributed.any(self.stop()) and done < total
        if done < total and (stopping or done % config.save_every == 0):
            self._save(done, state)
        if stopping:
            self.trainer.distributed.barrier()  # no process may end while the state is being written
            raise Interrupted(f"{self.plan.folder}: stopped after update {done} of {total}; the same command resumes.")
        self.clock = time.monotonic()  # validating and saving are not training

    def _save(self, done: int, state: TrainState) -> None:
        began = self.began_at and {"score": self.began_at.score, "values": self.began_at.values.tolist()}
        saved = {"learner": state.state_dict(), "best": self.best, "training": self.training, "began_at": began}
        saved = whole(saved, keep=self.is_main)
        if self.is_main:
            saved["log"] = log.flushed_digest(self.log_path)
            if self.rewards_path.exists():
                files.flush_to_disk(self.rewards_path)
            states.save_state(self.plan.folder / STATES, done, saved, self.plan.config.keep_last, self.owner)

    def _log(self, line: Mapping[str, Any]) -> None:
        if self.is_main:
            files.append_jsonl(self.log_path, [dict(line)])

    def _log_rewards(self, done: int) -> None:
        """Write the rewards of the update's prompts, if there are any."""
        means, self.rewards = rewarded.means(self.rewards), {}
        if self.is_main and means:
            line = rewarded.PromptRewards(done, len(self.trainer.examples), means)
            files.append_jsonl(self.rewards_path, [line])

    def _validate(self, done: int, state: TrainState) -> None:
        """Measure the policy on validation examples, and save it if it is the checkpoint to keep so far."""
        config = self.plan.config
        result = validate(self.trainer, state, config, self.validation, done, self.prepare)
        if done == 0:
            self.began_at = result.worth
        figures = self.figures = {**result.figures, **errors(result.worth, self.began_at if done else None)}
        keeps = config.keep == "last" or self.best is None or result.value > self.best
        self._log({"update": done, **{f"validation/{k}": v for k, v in figures.items()}})
        self.observer.validated(done, figures, keeps)
        if keeps:
            self.best = result.value
            self._keep(self.plan.checkpoint, done, config.keep)

    def _keep(self, folder: Path, done: int, kind: checkpoint.Kept) -> None:
        plan, trainer = self.plan, self.trainer
        weights = None if trainer.sharded is None else whole(trainer.policy.state_dict(), keep=self.is_main)
        if not self.is_main:
            return
        manifest = checkpoint.CheckpointManifest(
            suite=plan.task.suite,
            task=plan.task.name,
            task_hash=plan.task.hash,
            system=plan.system,
            algorithm=plan.algorithm,
            backbone=self.record["backbone"],
            seed=plan.seed,
            update=done,
            config_sha256=self.configuration,
            validation=dict(self.figures),
            training=dict(self.training),
            start=self.start,
            kept=kind,
            machine=machine(str(trainer.policy.device), torch.get_num_threads()),
        )
        base = plan.start.model
        on_hub = "" if Path(locate_model(base)).is_dir() else base
        versions = {**training_versions(), "threads": str(torch.get_num_threads())}  # threads change sums' last bits
        readme = card(
            replace(plan.task, backbone=plan.start),
            manifest,
            learned.reward_label(self.record["reward"]),
            files.plain(plan.config),
            versions,
            on_hub,
        )
        model = merged(trainer.policy) if weights is None else model_of(trainer.policy, weights)
        checkpoint.save_checkpoint(folder, model, trainer.tokenizer, manifest, plan.task.decoding, readme)


def train(
    plan: Plan,
    observer: Observer,
    stop: Callable[[], bool] = lambda: False,
    distributed: DistributedContext | None = None,
) -> Path:
    """Carry out one stage and return its checkpoint folder; a finished stage is left as it is.

    Raises:
        ConfigError: The folder holds a run of another configuration.
        DataError: Data, the model or the checkpoint to start from cannot be used.
        Interrupted: `stop` returned True.
    """
    distributed = DistributedContext() if distributed is None else distributed
    observer.planned(plan)
    if distributed.is_main:
        for folder in (plan.checkpoint, plan.folder / checkpoint.FINAL):
            files.restore_folder(folder)
    distributed.barrier()
    if not finished(plan):
        _carry_out(plan, observer, stop, distributed)
    elif distributed.is_main:
        checkpoint.check_kept(plan.checkpoint)
    distributed.barrier()
    if distributed.is_main:
        states.discard_states(plan.folder / STATES)  # left behind if killed after the log's last line
        states.remove(plan.folder / checkpoint.RUN_ID)
    distributed.barrier()
    observer.finished(plan)
    return plan.checkpoint


def _carry_out(plan: Plan, observer: Observer, stop: Callable[[], bool], distributed: DistributedContext) -> None:
    run = prepare(plan, observer, stop, distributed)
    refusal = f"{plan.folder}: another process is training here; wait for it, or choose --system NAME."
    with claims.sole_owner(plan.folder, refusal) if distributed.is_main else nullcontext():
        if distributed.is_main:
            states.clear_leavings(plan.folder)
            claim_folder(plan, run.record)
        distributed.barrier()
        run.carry_out(find_algorithm(split_algorithm(plan.algorithm)[-1]))
        distributed.barrier()
        if distributed.is_main:
            files.append_jsonl(run.log_path, [{"finished": True, "training": run.training}])


def check(plan: Plan) -> None:
    """Refuse what `prepare` would refuse, as far as it is known before anything is loaded or fetched.

    Raises:
        ConfigError, DataError: The run could not start.
    """
    check_selection(plan)
    for folder in plan.anchors if plan.init is None else (plan.init, *plan.anchors):
        _checked_manifest(plan, folder)
    if plan.init is None and (plan.offline or is_here(plan.start.model, plan.start.revision)):
        check_backbone(plan)
    fetched = {source.kind for source in plan.task.data.sources} - {"mini", "local"}
    for split in (plan.split, "validation") if plan.data_dir is not None or plan.offline or not fetched else ():
        next(iter(obtain(plan.task, split, plan.data_dir, offline=True).rows()), None)


def _checked_manifest(plan: Plan, folder: Path) -> checkpoint.CheckpointManifest:
    """Return the manifest of a checkpoint that a run starts from or has as its reference."""
    manifest = checkpoint.read_manifest(folder)
    checkpoint.check_task(manifest, folder, plan.task)
    start = plan.start
    weights = "" if manifest.backbone == start.model else weights_id(start.model, start.revision)
    checkpoint.check_start(manifest, folder, start, weights)
    return manifest


def prepare(plan: Plan, observer: Observer, stop: Callable[[], bool], distributed: DistributedContext) -> Run:
    """Load everything a run needs; its folder is claimed only afterwards."""
    check_selection(plan)
    training: dict[str, float] = dict.fromkeys(COSTS, 0.0)
    began = ""
    if plan.init is not None:
        manifest = _checked_manifest(plan, plan.init)
        training, began = dict(manifest.training), manifest.weights
    precision = plan.config.precision
    assert precision != "auto", "a plan has settled it"
    check_precision(precision, distributed.device)
    examples: Sequence[Example] = load_examples(plan.task, plan.split, plan.data_dir, plan.offline).examples
    if plan.config.train_share is not None:
        examples = some_examples(examples, plan.config.train_share, plan.seed)
    data = None
    if isinstance(plan.config, ScoredConfig) and plan.config.data is not None:
        data = read_data(plan.config, plan.task, examples)
    validation = load_examples(plan.task, "validation", plan.data_dir, plan.offline).examples
    reward = make_reward(plan.reward, plan.task, examples)
    policy, tokenizer = _load_policy(plan)
    policy.to(distributed.device)  # type: ignore[arg-type]  # a decorated method that the checker cannot read
    choose_attention(policy)
    check_model(policy, tokenizer)
    check_lengths(policy, plan.task)
    anchor = load_anchor(plan, (policy, tokenizer), distributed)
    adapt(policy, plan.config, plan.seed)
    if distributed.size == 1:
        check_memory(policy, plan.config)
    check_processes(plan.config, distributed)
    trainer = Trainer(
        task=plan.task,
        policy=policy,
        tokenizer=tokenizer,
        examples=examples,
        reward=reward,
        seed=plan.seed,
        distributed=distributed,
        precision=precision,
        shown=observer.sampled,
        anchor=anchor,
        data=data,
    )
    few = few_of(validation, plan.config.validation_examples)
    return Run(plan=plan, trainer=trainer, validation=few, observer=observer, stop=stop, training=training, start=began)


def with_cost(training: Mapping[str, float], spent: Mapping[str, float | None]) -> dict[str, float]:
    """Return the cost of training and of something else; what is unknown of either is left out."""
    return {cost: before + more for cost, before in training.items() if (more := spent.get(cost)) is not None}


def some_examples(examples: Sequence[Example], share: float, seed: int) -> list[Example]:
    """Return a share of the examples, drawn with the seed, in their original order.

    The order of the draw does not depend on the share: the tenth is part of the half.

    Raises:
        ConfigError: No example is left.
    """
    count = round(share * len(examples))
    if not count:
        raise ConfigError(f"train_share = {share:g} leaves none of {len(examples)} training examples; raise it.")
    drawn = torch.randperm(len(examples), generator=generator(seed, "train_share"))[:count]
    return [examples[index] for index in sorted(drawn.tolist())]


def check_processes(config: Common, distributed: DistributedContext) -> None:
    """Refuse, with a ConfigError, processes that share a GPU if the weights are sharded, or have nothing to do.

    They are at most as many as rollouts, or as prompts if the rollouts to a prompt must stay together.
    """
    if config.sharded and distributed.device.type != distributed.wire.type:
        raise ConfigError(
            "sharded: every process needs its own GPU, but GRUE_DEVICE puts several on one; unset GRUE_DEVICE."
        )
    if not isinstance(config, RewardedConfig):
        return
    grouped, count = shares_groups(config), distributed.size
    shared = config.prompts if grouped else config.rollouts
    if shared < count:
        unit = "prompts (rollouts / samples_per_prompt)" if grouped else "rollouts"
        raise ConfigError(f"{count} processes share {shared} {unit}; raise rollouts, or start fewer.")


def load_anchor(plan: Plan, start: LoadedModel, distributed: DistributedContext) -> PreTrainedModel | None:
    """Return the model that `reference` names; None if it names none.

    Raises:
        DataError: A checkpoint is damaged, of another task or backbone, or its weights do not match the others'.
    """
    if not plan.anchors:
        return None
    for folder in plan.anchors:
        _checked_manifest(plan, folder)
    anchor = soup(plan.start.family, plan.anchors, start)
    anchor.to(distributed.device)  # type: ignore[arg-type]  # a decorated method that the checker cannot read
    choose_attention(anchor)
    return anchor


def _load_policy(plan: Plan) -> LoadedModel:
    start, init = plan.start, plan.init
    model, revision = (start.model, start.revision) if init is None else (str(init), "")
    return load_language_model(start.family, model, revision)
