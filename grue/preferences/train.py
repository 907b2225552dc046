"""Train a reward model on pairs, with the loss of Bradley and Terry (1952), as Ouyang et al. (2022) do.

A pair costs −t·log σ(d) − (1 − t)·log σ(−d), where d is the difference of its two logits and t is 1, or ½ for a tie.
The weights with the best log-loss on the part "validation" are kept. A temperature that divides differences is then
fitted there, so that σ is calibrated; the part "test" is evaluated once, in the end.

Unlike in the paper, each pair is an example, not all pairs of a prompt together; there are several epochs, and the
best weights are kept; and scores are standardised, instead of setting those of references to 0.

Until the folder is written, `DIR.partial` holds the states: an interrupted training resumes bit for bit.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from grue import claims, files
from grue.data.pairs import PARTS
from grue.errors import ConfigError, TrainingError
from grue.lm.device import scoring_device
from grue.lm.load import weights_id
from grue.lm.model import choose_attention
from grue.lm.reward_folder import KIND, REWARD, SCHEMA_VERSION, RewardManifest, examples_of, read_reward_manifest
from grue.lm.reward_model import RewardModel, load_backbone, pooling_of, save_reward_model, seen_prompt
from grue.lm.seeds import generator
from grue.lm.tokens import padded
from grue.metrics.neural.reward_model import logits, room, text_lengths, token_ids
from grue.preferences.card import reward_card
from grue.preferences.judge import judgement
from grue.preferences.read import PairsFile, PreferencePair, read_pairs, require_parts
from grue.preferences.settings import RewardModelConfig
from grue.records import Example
from grue.runs.states import newest_state, save_state
from grue.runs.train import Interrupted
from grue.stats.calibration import best_temperature, log_losses, rights
from grue.tasks import Task

STATES, CONTENT = "states", "a reward model"
SMALLEST = 1e-8
"""Standard deviation of the logits below which a reward model scores all texts alike."""

Rows = list[list[int]]
Progress = Callable[[int, int, str], None]


@dataclass
class Learner:
    """A training under way.

    Attributes:
        weights: The trained weights, by name.
        pairs: The pairs of the part "train".
        rows: Tokens of the two texts of each.
        validation: The pairs of the part "validation", and their tokens.
        step: Optimiser steps that are done.
        best: Step, figures and weights of the best so far; nothing before the first validation.
        history: Step → figures of each validation.
    """

    model: RewardModel
    weights: Mapping[str, torch.nn.Parameter]
    optimizer: torch.optim.Optimizer
    config: RewardModelConfig
    pad: int
    pairs: Sequence[PreferencePair]
    rows: tuple[Rows, Rows]
    validation: Sequence[PreferencePair]
    validation_rows: tuple[Rows, Rows]
    step: int = 0
    best: dict[str, Any] = field(default_factory=dict)
    history: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def steps_an_epoch(self) -> int:
        """Optimiser steps of a pass over the pairs."""
        return math.ceil(len(self.pairs) / self.config.batch_size)

    @property
    def total(self) -> int:
        """Number of all optimiser steps."""
        return self.steps_an_epoch * self.config.epochs

    def state(self) -> dict[str, Any]:
        """Return everything that resuming needs."""
        return {
            "weights": {name: weight.detach() for name, weight in self.weights.items()},
            "optimizer": self.optimizer.state_dict(),
            "best": self.best,
            "history": self.history,
        }

    def load(self, step: int, state: Mapping[str, Any]) -> None:
        """Load a state."""
        self.put(state["weights"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.best, self.history = step, state["best"], state["history"]

    def put(self, weights: Mapping[str, Tensor]) -> None:
        """Set the trained weights."""
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(weights[name])

    def margins(self, rows: tuple[Rows, Rows], tokenizer: Any) -> np.ndarray:
        """Return the differences of logits of pairs, by their tokens."""
        size = 2 * self.config.micro_batch_size
        return logits(self.model, tokenizer, rows[0], size) - logits(self.model, tokenizer, rows[1], size)


def pair_losses(gaps: Tensor, targets: Tensor) -> Tensor:
    """Return −t·log σ(d) − (1 − t)·log σ(−d) of each pair, [B], by its difference of logits and its target."""
    return targets * softplus(-gaps) + (1.0 - targets) * softplus(gaps)


def train_reward_model(
    path: Path,
    task: Task,
    examples: Sequence[Example],
    folder: Path,
    config: RewardModelConfig,
    *,
    backbone: str,
    revision: str = "",
    split: str,
    progress: Progress = lambda done, total, figures: None,
    stop: Callable[[], bool] = lambda: False,
) -> RewardManifest:
    """Train a reward model on the pairs of a file, write its folder and return its manifest.

    An interrupted call is resumed, a finished folder only read. Progress, stop and errors are as for
    `grue.api.preferences.train_reward`.

    Args:
        examples: Those of the split of the prompts.
        split: Its name, or the path of a file of rows; the folder states it.
    """
    claim = _claim(path, task, config, backbone, revision, split)
    folder = folder.absolute()
    if not folder.name:
        raise ConfigError(f"{folder}: is no folder for a reward model; name a new one with --output.")

    def write(partial: Path) -> RewardManifest:
        pairs = read_pairs(path, task, examples, config.seed, split=split)
        require_parts(pairs, path)
        begun = claims.as_held(files.read_json(partial / claims.CLAIM), claim)
        return _train(pairs, partial, folder, begun, task, config, backbone, revision, progress, stop)

    return claims.carry_out(folder, claim, CONTENT, STATES, lambda: _finished(folder, claim), write)


def _claim(
    path: Path, task: Task, config: RewardModelConfig, backbone: str, revision: str, split: str
) -> dict[str, Any]:
    """Return everything that decides the result."""
    return {
        "suite": task.suite,
        "task": task.name,
        "task_hash": task.hash,
        "examples": examples_of(task),
        "split": Path(split).name,
        "pairs_sha256": files.sha256_file(path),
        "backbone": backbone,
        "backbone_weights": weights_id(backbone, revision),
        "config": {key: value for key, value in files.plain(config).items() if key != "save_every"},
    }


def _finished(folder: Path, claim: Mapping[str, Any]) -> RewardManifest:
    if not (folder / REWARD).is_file():
        raise ConfigError(f"{folder}: holds something else; choose another folder with --output.")
    manifest = read_reward_manifest(folder)
    saved = {key: getattr(manifest, key) for key in claim}
    claims.refuse_other(folder, CONTENT, saved, claim, claims.CURE)
    return manifest


# --- training --------------------------------------------------------------------------------------------------------


def _train(
    pairs: PairsFile,
    partial: Path,
    folder: Path,
    claim: Mapping[str, Any],
    task: Task,
    config: RewardModelConfig,
    backbone: str,
    revision: str,
    progress: Progress,
    stop: Callable[[], bool],
) -> RewardManifest:
    trunk, tokenizer = load_backbone(backbone, revision)
    model = RewardModel(trunk, pooling_of(trunk, len(tokenizer)), config.seed).to(scoring_device())
    choose_attention(trunk)
    most = room(model, tokenizer, config.max_tokens)

    def rows_of(pairs: Sequence[PreferencePair]) -> tuple[Rows, Rows]:
        prompts = [pair.prompt for pair in pairs]
        sides = ([pair.first for pair in pairs], [pair.second for pair in pairs])
        first, second = (token_ids(tokenizer, model.pooling, most, prompts, side) for side in sides)
        return first, second

    train, validation, test = (pairs.of(part) for part in PARTS)
    _refuse_short(model, tokenizer, most, config, [text for pair in train for text in (pair.first, pair.second)])
    learner = _learner(model, tokenizer, config, (train, rows_of(train)), (validation, rows_of(validation)))
    owner = {"claim": files.sha256_json(claim)}
    saved = newest_state(partial / STATES, owner, lambda message: progress(learner.step, learner.total, message))
    if saved is not None:
        learner.load(*saved)
    while learner.step < learner.total:
        _step(learner)
        figures = _validate(learner, tokenizer) if learner.step in _validations(learner) else ""
        progress(learner.step, learner.total, figures)
        stops = learner.step < learner.total and stop()
        if stops or learner.step % config.save_every == 0:
            save_state(partial / STATES, learner.step, learner.state(), 2, owner)
        if stops:
            raise Interrupted(
                f"{folder}: stopped after step {learner.step} of {learner.total}; the same command resumes."
            )
    learner.put(learner.best["weights"])
    temperature = best_temperature(learner.margins(learner.validation_rows, tokenizer), _targets(validation))
    scores = np.concatenate([logits(model, tokenizer, side, 2 * config.micro_batch_size) for side in learner.rows])
    if not float(scores.std()) > SMALLEST:
        raise TrainingError(f"{folder}: not written: it scores all texts alike; raise learning_rate or epochs.")
    header = pairs.header
    manifest = RewardManifest(
        **{key: value for key, value in claim.items() if key != "config"},
        grue=KIND,
        schema=SCHEMA_VERSION,
        judge=header.judge if header else "",
        noise=header.noise if header else "",
        pairs={part: len(pairs.of(part)) for part in PARTS},
        contradictions=pairs.contradictions,
        pooling=model.pooling,
        max_tokens=most,
        temperature=temperature,
        centre=float(scores.mean()),
        spread=float(scores.std()),
        config=claim["config"],
        step=learner.best["step"],
        validation=learner.history,
        held_out=judgement(test, learner.margins(rows_of(test), tokenizer), temperature) if test else None,
    )
    seen_prompts = [seen_prompt(pair.prompt) for pair in (*train, *validation)]
    return save_reward_model(folder, model, tokenizer, manifest, seen_prompts, reward_card(manifest, task))


def _refuse_short(model: RewardModel, tokenizer: Any, most: int, config: RewardModelConfig, texts: list[str]) -> None:
    """Refuse a limit of tokens that leaves no room for the prompt beside most of the texts."""
    lengths = text_lengths(tokenizer, model.pooling, texts)
    long = sum(length >= most for length in lengths)
    if 2 * long > len(lengths):
        cure = (
            f"give more with --set max_tokens={RewardModelConfig().max_tokens}"
            if most == config.max_tokens
            else "the backbone reads no more; choose another with --backbone"
        )
        raise ConfigError(
            f"max_tokens {most}: {long:,} of the {len(lengths):,} texts to learn from have that many tokens or more, "
            f"up to {max(lengths):,}, so that nothing of their prompts is read: {cure}."
        )


def _learner(
    model: RewardModel,
    tokenizer: Any,
    config: RewardModelConfig,
    train: tuple[Sequence[PreferencePair], tuple[Rows, Rows]],
    validation: tuple[Sequence[PreferencePair], tuple[Rows, Rows]],
) -> Learner:
    model.requires_grad_(False)
    weights = model.trained()
    for weight in weights.values():
        weight.requires_grad_(True)
    optimizer = torch.optim.AdamW(weights.values(), lr=config.learning_rate, weight_decay=config.weight_decay)
    return Learner(model, weights, optimizer, config, tokenizer.pad_token_id, *train, *validation)


def _step(learner: Learner) -> None:
    """Take the next optimiser step."""
    config, n = learner.config, learner.step
    epoch, place = divmod(n, learner.steps_an_epoch)
    begin = place * config.batch_size
    batch = epoch_order(len(learner.pairs), config.seed, epoch)[begin : begin + config.batch_size]
    for group in learner.optimizer.param_groups:
        group["lr"] = config.learning_rate * _schedule(n, learner.total, config.warmup)
    learner.optimizer.zero_grad(set_to_none=True)
    for start in range(0, len(batch), config.micro_batch_size):
        part = batch[start : start + config.micro_batch_size]
        loss = batch_loss(learner, part) / len(batch)
        if not torch.isfinite(loss):
            raise TrainingError(f"The loss of step {n + 1} is not a number; lower learning_rate.")
        loss.backward()
    torch.nn.utils.clip_grad_norm_(learner.weights.values(), config.max_grad_norm)
    learner.optimizer.step()
    learner.step += 1


@lru_cache(maxsize=2)  # whole epochs, of which each step takes a part
def epoch_order(total: int, seed: int, epoch: int) -> tuple[int, ...]:
    """Return the order of the pairs in an epoch."""
    return tuple(torch.randperm(total, generator=generator(seed, "pairs", epoch)).tolist())


def batch_loss(learner: Learner, places: Sequence[int]) -> Tensor:
    """Return the sum of the losses of some pairs."""
    device = learner.model.head.weight.device
    rows = [side[at] for side in learner.rows for at in places]
    tokens = padded(rows, learner.pad, device)
    first, second = learner.model(tokens.ids, tokens.mask).chunk(2)
    targets = torch.tensor([learner.pairs[at].target for at in places], device=device)
    return pair_losses(first - second, targets).sum()


def _schedule(n: int, total: int, warmup: float) -> float:
    """Return the share of the learning rate in step `n`: it rises linearly, then falls linearly to nearly 0."""
    rising = math.ceil(warmup * total)
    return (n + 1) / rising if n < rising else (total - n) / max(1, total - rising)


def _validations(learner: Learner) -> set[int]:
    """Return the steps after which the model is validated: the ends of equal parts of each epoch."""
    steps, parts = learner.steps_an_epoch, learner.config.validations
    ends = [math.ceil(steps * part / parts) for part in range(1, parts + 1)]
    return {epoch * steps + end for epoch in range(learner.config.epochs) for end in ends}


def _targets(pairs: Sequence[PreferencePair]) -> np.ndarray:
    return np.array([pair.target for pair in pairs])


def _validate(learner: Learner, tokenizer: Any) -> str:
    """Evaluate the part "validation", keep the weights if they are the best, and return the figures in words."""
    margins, targets = learner.margins(learner.validation_rows, tokenizer), _targets(learner.validation)
    if not np.isfinite(margins).all():
        raise TrainingError(f"A score after step {learner.step} is not a number; lower learning_rate.")
    figures = {
        "log_loss": float(log_losses(margins, targets).mean()),
        "accuracy": float(rights(margins, targets).mean()),
    }
    learner.history[str(learner.step)] = figures
    if not learner.best or figures["log_loss"] < learner.best["log_loss"]:
        weights = {name: weight.detach().clone() for name, weight in learner.weights.items()}
        learner.best = {"step": learner.step, "log_loss": figures["log_loss"], "weights": weights}
    return f"validation: accuracy {figures['accuracy']:.1%}, log-loss {figures['log_loss']:.3f}"
