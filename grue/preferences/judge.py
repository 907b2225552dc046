"""Evaluate how a reward model orders pairs: accuracy, log-loss and calibration."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from grue import files
from grue.errors import DataError
from grue.lm.reward_folder import SEEN, Judgement, check_reward_task
from grue.lm.reward_model import load_reward_model, seen_prompt
from grue.metrics.neural.reward_model import logits, token_ids
from grue.preferences.read import PreferencePair, read_pairs
from grue.records import Example
from grue.stats.calibration import expected_calibration_error, log_losses, reliability, rights, share_interval
from grue.stats.intervals import FloatArray
from grue.tasks import Task

Chosen = Literal["train", "validation", "test", "all"]
BATCH = 64  # texts


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The evaluation of a reward model on pairs.

    Attributes:
        part: Of the file, or "all".
        seen: How many of its prompts were used to train or select the reward model.
        judge: Who judged these pairs; as in `RewardManifest`.
    """

    pairs_sha256: str
    part: Chosen
    seen: int
    judge: str
    found: Judgement


def evaluate_reward_model(
    folder: Path,
    path: Path,
    task: Task,
    examples: Sequence[Example],
    part: Chosen | None = None,
    *,
    split: str,
) -> Evaluation:
    """Evaluate a reward model on the pairs of a file, whose prompts are the `examples` of a split.

    Args:
        part: Of the file. [default: test if it was trained on the file or the file names parts, else all]
    """
    model, tokenizer, manifest = load_reward_model(folder)
    check_reward_task(manifest, folder, task)
    pairs = read_pairs(path, task, examples, int(manifest.config["seed"]), split=split)
    divided = pairs.named_parts or pairs.sha256 == manifest.pairs_sha256
    chosen_part: Chosen = part or ("test" if divided else "all")
    if chosen_part != "all" and not divided:
        raise DataError(f"{path}: names no parts, and the reward model was not trained on it; leave --part out.")
    chosen = [pair for pair in pairs.pairs if chosen_part in ("all", pair.part)]
    if not chosen:
        raise DataError(f"{path}: its part {chosen_part!r} holds no pairs; choose another with --part.")
    prompts = [pair.prompt for pair in chosen]
    sides = ([pair.first for pair in chosen], [pair.second for pair in chosen])
    first, second = (
        logits(model, tokenizer, token_ids(tokenizer, manifest.pooling, manifest.max_tokens, prompts, side), BATCH)
        for side in sides
    )
    seen_hashes = set(files.read_json(folder / SEEN))
    seen_count = len({prompt for prompt in prompts if seen_prompt(prompt) in seen_hashes})
    judge = pairs.header.judge if pairs.header else ""
    result = judgement(chosen, first - second, manifest.temperature)
    return Evaluation(pairs.sha256, chosen_part, seen_count, judge, result)


def judgement(pairs: Sequence[PreferencePair], margins: FloatArray, temperature: float) -> Judgement:
    """Return how well differences of logits, `first` − `second`, order pairs."""
    targets, scaled = np.array([pair.target for pair in pairs]), margins / temperature
    decided = [pair.prompt for pair in pairs if pair.target != 0.5]
    right = rights(margins, targets)
    interval = share_interval(right, decided)
    bins = reliability(scaled, targets)
    return Judgement(
        pairs=len(pairs),
        prompts=len({pair.prompt for pair in pairs}),
        ties=len(pairs) - len(decided),
        accuracy=float(right.mean()) if len(right) else None,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        log_loss=float(log_losses(scaled, targets).mean()),
        ece=expected_calibration_error(bins),
        bins=tuple((bin.low, bin.high, bin.count, bin.confidence, bin.right) for bin in bins),
    )
