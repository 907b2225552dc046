"""The interface of an algorithm: `Algorithm`, what it reads (`Trainer`) and what it changes (`TrainState`).

An algorithm knows nothing of the run around it: `runs/train.py` calls `start` once and `update` for each update, and
resumes, validates, logs and saves in between.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from grue.errors import TrainingError
from grue.lm.adapters import adapter_off
from grue.lm.critic import Critic
from grue.lm.distributed import DistributedContext
from grue.lm.model import assert_no_dropout, freeze
from grue.lm.seeds import derived_seed
from grue.lm.sharding import ShardedWeights, load_whole
from grue.records import Example
from grue.rl.settings import ActorCriticConfig, AlgorithmCard, Common, RewardedConfig, RolloutConfig
from grue.tasks import Task

if TYPE_CHECKING:
    from grue.data.scored import ScoredData
    from grue.evaluation.rewards import Reward

C = TypeVar("C", bound=Common)

# Called with an example, a response and its reward, NaN if the reward does not apply.
Shown = Callable[[Example, str, float], None]

# Called on all ranks with examples and the rewards of their responses, NaN where the reward does not apply.
Graded = Callable[[Sequence[Example], Sequence[float]], None]


def _unseen(*values: object) -> None:
    """Let nobody see an event."""


@dataclass
class Trainer:
    """What an algorithm may use of its run; it must not change any of it.

    Attributes:
        policy: The model that learns, as loaded; on the device of this process.
        examples: The training examples.
        seed: The run's; every draw derives a generator of its own from it (`lm.seeds`).
        distributed: The processes that train together.
        sharded: Holds the trained weights where they are sharded over the processes.
        precision: Of forward passes.
        shown: Called with a few of an update's samples.
        graded: Called with the rewards of all of an update's samples.
        anchor: The model that the setting `reference` names; None if that is the initial policy.
        data: The content of the file of scored responses that the settings name, if it has been read.
    """

    task: Task
    policy: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    examples: Sequence[Example]
    reward: "Reward"
    seed: int
    distributed: DistributedContext = field(default_factory=DistributedContext)
    sharded: ShardedWeights | None = None
    precision: Literal["float32", "bfloat16"] = "float32"
    shown: Shown = _unseen
    graded: Graded = _unseen
    anchor: PreTrainedModel | None = None
    data: "ScoredData | None" = None

    @cached_property
    def pairs(self) -> Tensor:
        """The pairs to learn from [N, 2], by the positions of the example and of one of its references.

        Positions, because texts are tokenised step by step: WMT16's 4.5 million pairs would not fit into memory.
        Without any reference it is a TrainingError.
        """
        counts = torch.tensor([len(example.references) for example in self.examples])
        if not counts.sum():
            task = f"{self.task.suite}/{self.task.name}"
            raise TrainingError(f"{task}: no training example has a reference to learn from.")
        first = counts.cumsum(0) - counts
        examples = torch.arange(len(counts)).repeat_interleave(counts)
        return torch.stack([examples, torch.arange(len(examples)) - first[examples]], 1)

    def apart(self, *purpose: str | int) -> Self:
        """Return the trainer for draws beside an update's: with a seed of their own, and seen by nobody."""
        return replace(self, seed=derived_seed(self.seed, *purpose), shown=_unseen, graded=_unseen)

    def autocast(self) -> torch.autocast:
        """Return the context of a forward pass in the run's precision.

        Enter it anew for every pass: the casts of the weights that it caches are valid for one step only.
        """
        half = self.precision == "bfloat16"
        return torch.autocast(self.policy.device.type, torch.bfloat16, enabled=half)


@dataclass
class Moments:
    """Count, mean and sum of squared deviations of all scores so far (Welford's recurrence, batch by batch)."""

    count: float = 0.0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, values: Tensor) -> None:
        """Add a batch of scores [B]."""
        count, mean = float(len(values)), float(values.double().mean())
        squares = float((values.double() - mean).square().sum())
        total, gap = self.count + count, mean - self.mean
        self.squares += squares + gap * gap * self.count * count / total
        self.mean += gap * count / total
        self.count = total

    @property
    def deviation(self) -> float:
        """The standard deviation, or 1 where it is 0 up to rounding."""
        deviation = math.sqrt(self.squares / self.count) if self.count else 0.0
        return deviation if deviation > 1e-8 else 1.0


@dataclass
class TrainState:
    """What changes while an algorithm runs, and the reference, which does not.

    Attributes:
        critic: None for algorithms without one.
        reference: The initial policy; None if nothing is compared with it, or if it is the policy with its adapter
            switched off.
        anchor: What the loss compares the policy with in place of the initial policy; None if that is the same.
        kl_coefficient: β.
        moments: Of the scores, for `reward_scale = "running"`.
        mask_model: The masking policy of a learned mask, if it has one of its own.
        mask_age: Updates since the masking policy was last equal to the policy.
        memory: Further tensors that an algorithm keeps, by name.
        fixed: Responses of a file to learn from (`rl.groups.FixedGroups`); reread when a run resumes.
    """

    policy: PreTrainedModel
    optimizer: torch.optim.Optimizer
    critic: Critic | None = None
    reference: PreTrainedModel | None = None
    anchor: PreTrainedModel | None = None
    kl_coefficient: float = 0.0
    moments: Moments = field(default_factory=Moments)
    mask_model: PreTrainedModel | None = None
    mask_age: int = 0
    memory: dict[str, Tensor] = field(default_factory=dict)
    fixed: Any = None

    def trained(self) -> list[nn.Module]:
        """Return the modules that the optimiser trains."""
        return [self.policy] if self.critic is None else [self.policy, self.critic]

    @contextmanager
    def initial_policy(self) -> Iterator[PreTrainedModel]:
        """Yield the model that the run started from."""
        if self.reference is not None:
            yield self.reference
        else:
            with adapter_off(self.policy):
                yield self.policy

    @contextmanager
    def reference_policy(self) -> Iterator[PreTrainedModel]:
        """Yield the model that is π₀ in KL penalties and losses."""
        if self.anchor is not None:
            yield self.anchor
        else:
            with self.initial_policy() as policy:
                yield policy

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume, except the reference and the anchor, which never change."""
        return {
            "policy": self.policy.state_dict(),
            "critic": None if self.critic is None else self.critic.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "kl_coefficient": self.kl_coefficient,
            "moments": [self.moments.count, self.moments.mean, self.moments.squares],
            "mask_model": None if self.mask_model is None else self.mask_model.state_dict(),
            "mask_age": self.mask_age,
            "memory": dict(self.memory),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Return to a saved state."""
        load_whole(self.policy, state["policy"])
        if self.critic is not None:
            load_whole(self.critic, state["critic"])
        load_whole(self.optimizer, state["optimizer"])
        self.kl_coefficient, self.mask_age = state["kl_coefficient"], state["mask_age"]
        self.moments = Moments(*state["moments"])
        self.memory = {name: value.to(self.policy.device) for name, value in state["memory"].items()}
        if self.mask_model is not None:
            self.mask_model.load_state_dict(state["mask_model"])


def make_optimizer(modules: Iterable[nn.Module], config: Common) -> torch.optim.Optimizer:
    """Return AdamW over every trainable parameter, without weight decay on biases and norms (vectors).

    A group's "multiple" is its learning rate as a multiple of `learning_rate`: a critic may have its own.
    """
    value_rate = config.value_learning_rate if isinstance(config, ActorCriticConfig) else None
    critics = 1.0 if value_rate is None else value_rate / config.learning_rate
    # Keyed by identity: tied weights, and a critic's unused copy of a head, are listed once.
    parameters = {
        id(p): (p, critics if isinstance(module, Critic) else 1.0)
        for module in modules
        for p in module.parameters()
        if p.requires_grad
    }.values()
    groups = [
        {
            "params": [p for p, times in parameters if times == multiple and (p.ndim > 1) == matrices],
            "weight_decay": config.weight_decay if matrices else 0.0,
            "multiple": multiple,
        }
        for multiple in dict.fromkeys((1.0, critics))
        for matrices in (True, False)
    ]
    if config.optimizer == "rmsprop":
        return torch.optim.RMSprop(groups, lr=config.learning_rate, eps=config.adam_epsilon, alpha=0.99)
    return torch.optim.AdamW(groups, lr=config.learning_rate, eps=config.adam_epsilon, fused=True)


def set_learning_rate(optimizer: torch.optim.Optimizer, config: Common, step: int, total: int) -> float:
    """Set and return the learning rate of step `step` of `total`; it depends on nothing else, so resuming is exact."""
    warmup = config.warmup * total
    if step < warmup:
        factor = (step + 1) / (warmup + 1)
    else:
        done = (step - warmup) / max(1.0, total - warmup)
        factors = {"constant": 1.0, "linear": 1.0 - done, "cosine": 0.5 * (1.0 + math.cos(math.pi * done))}
        factor = factors[config.schedule]
    rate = config.learning_rate * factor
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("multiple", 1.0)
    return rate


def start(trainer: Trainer, config: RewardedConfig) -> TrainState:
    """Return the state before the first update: reference, critic and masking policy are copies of the policy."""
    policy = trainer.policy
    assert_no_dropout(policy)
    critic = Critic(policy, shared=config.value_model == "shared") if isinstance(config, ActorCriticConfig) else None
    reference = None if config.lora_rank else freeze(policy)
    mask_model = None
    if config.mask in ("learned_top_p", "learned_top_k"):
        # A frozen mask is the initial policy, of which the reference, if any, is already a copy.
        frozen = config.mask_source == "frozen" and reference is not None
        mask_model = reference if frozen else freeze(policy)
    return TrainState(
        policy=policy,
        critic=critic,
        reference=reference,
        anchor=trainer.anchor,
        optimizer=make_optimizer([policy] if critic is None else [policy, critic], config),
        kl_coefficient=config.kl_coefficient if isinstance(config, RolloutConfig) else 0.0,
        mask_model=mask_model,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm(Generic[C]):
    """An algorithm: `ALGORITHM` of a module of `grue/algorithms`, or named by an entry point of `grue.algorithms`.

    Attributes:
        settings: Class of its settings, whose `length` is the length of a run.
        update: (trainer, state, settings, n) → figures of the update, by their names in the log. It changes the state
            in place; n counts from 0. Figures named in `grue.records.COSTS` are added up over the run; those that an
            update does not return stay unknown.
        start: (trainer, settings) → the state before the first update. Copies of the policy are made here.
        parts: (trainer, settings) → updates per unit of `length`; more than 1 if the unit is an epoch.
        presets: Named values of settings, for `--preset`.
        without_effect: Inherited settings that it does not read; setting one is an error.
    """

    settings: type[C]
    update: Callable[[Trainer, TrainState, C, int], Mapping[str, float]]
    start: Callable[[Trainer, C], TrainState] = start  # type: ignore[assignment]  # C of most is a RewardedConfig
    parts: Callable[[Trainer, C], int] = lambda trainer, config: 1
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    without_effect: frozenset[str] = frozenset()


def implement(
    card: AlgorithmCard[C], update: Callable[[Trainer, TrainState, C, int], Mapping[str, float]], **more: Any
) -> Algorithm[C]:
    """Return the algorithm of a card with its `update`, and its own `start` or `parts`, if any."""
    return Algorithm(
        settings=card.settings, presets=card.presets, without_effect=card.without_effect, update=update, **more
    )
