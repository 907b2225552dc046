"""Do two trainers learn the same? One start, one data set, one reward, one budget.

grue's trainer stands beside TRL's, set as far as it can be to what grue does. Their first steps are compared exactly,
on the batch that the other has drawn (`grue.rl.first_step`), and so is a loss of one's own. Learning curves, also of
any trainer whose figures `grue.callbacks` wrote, are compared over seeds, measured on the same examples.
"""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from grue import files
from grue.data.load import load_examples
from grue.errors import ConfigError, DataError, Unavailable
from grue.exchange.curves import Curve, CurvesCompared, compare_curves, read_curves
from grue.stats.paired import holm
from grue.tasks import Generation, Task

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedTokenizerBase, Trainer

    from grue.rl.first_step import StepCompared
    from grue.rl.fixed_batch import FixedBatch

OF_TRL = {"grpo": "GRPO", "rloo": "RLOO", "dpo": "DPO", "supervised": "SFT"}
"""Method → TRL's name for it."""
WITH_CURVES = ("grpo", "rloo")
"""Methods whose learning curves are compared; grue's DPO draws its pairs, TRL's reads them."""
STATE = "trainer_state.json"
SAME = 1e-3
"""Relative difference of one model's figures in two trainers, by rounding."""
CURVES = ("preference", "kl")
"""What is compared: "kl" from the start in nats a response, since equal scores can be reached by different ways."""


@dataclass(frozen=True, slots=True)
class Stated:
    """What both trainers are set to; both have AdamW without decay, a constant rate, and gradients clipped to 1.

    Attributes:
        updates: Optimiser steps, each on `batch` fresh responses, once.
        group: Responses to a prompt.
        penalty: β: of the KL penalty, in the loss by the k3 estimate (GRPO) or on the reward (RLOO), or of DPO.
        every: Updates between measurements, on `examples` validation prompts.
    """

    method: str
    updates: int = 16
    batch: int = 64
    group: int = 8
    learning_rate: float = 3e-4
    penalty: float = 0.04
    every: int = 4
    examples: int = 200


def plain_task(task: Task) -> Task:
    """Return a task with plain samples as rollouts and greedy answers, which every trainer can do."""
    tokens, temperature = task.rollout.max_new_tokens, task.rollout.temperature
    samples = Generation(tokens, do_sample=True, temperature=temperature)
    return replace(task, rollout=samples, decoding=Generation(tokens), search=None)


def _checked(task: Task, stated: Stated, methods: Iterable[str], what: str) -> Task:
    """Return the task as it is compared; a ConfigError if it cannot be."""
    if stated.method not in methods:
        raise ConfigError(f"{stated.method}: {what} are compared for {', '.join(methods)}.")
    if stated.batch % stated.group:
        raise ConfigError(f"A batch of {stated.batch} responses is not of whole groups of {stated.group}.")
    if task.backbone.family != "causal":
        raise ConfigError(
            f"{task.suite}/{task.name} has an encoder-decoder, which TRL does not train; take a causal task."
        )
    return plain_task(task)


# --- the first step ---------------------------------------------------------------------------------------------------


def conform_step(task: Task, stated: Stated, seed: int = 1, loss: str = "") -> "StepCompared":
    """Compare TRL's first step with grue's on TRL's batch, or a loss with grue's on a batch that grue draws.

    Args:
        task: A task with a causal backbone. Rollouts are plain samples at the task's temperature.
        loss: "module:function" of (model, batch), a `grue.rl.fixed_batch.FixedBatch`, that returns a scalar tensor.
    """
    from grue.algorithms.cards.grpo import GRPOConfig
    from grue.metrics.own import attribute_of, import_from
    from grue.rl.first_step import compare_step
    from grue.rl.fixed_batch import METHODS
    from grue.runs.captured_step import draw_batch, step_of_loss, trainer_of

    task, rows = _checked(task, stated, OF_TRL, "first steps"), None
    if loss or stated.method not in WITH_CURVES:
        function: Any = attribute_of(import_from(loss, "loss"), loss, "loss") if loss else None
        ours, config = trainer_of(task, seed), GRPOConfig(**settings_of_grue(stated))
        batch = draw_batch(ours, stated.method, config)
        if function is not None:
            step = step_of_loss(loss, function, ours.policy, batch)
            return compare_step(step, METHODS[stated.method], ours.policy, None, config)
        rows = _rows(ours.tokenizer, batch)
    with tempfile.TemporaryDirectory() as folder:
        return compare_first_step(make_trl(task, stated, seed, Path(folder), rows), task, stated, seed)


def compare_first_step(trainer: "Trainer", task: Task, stated: Stated, seed: int = 1) -> "StepCompared":
    """Let a trainer of TRL, or one of one's own that extends it, take its first step, and compare it with grue's.

    Args:
        trainer: A GRPO, RLOO, DPO or SFT trainer of the task's backbone that has not yet trained.
        stated: Its method and, as grue has them: `penalty` and `learning_rate`.

    Raises:
        ConfigError: The trainer has no hook to watch, or does not take its first step on one whole batch in float32
            from the task's backbone.
    """
    from grue.algorithms.cards.grpo import GRPOConfig
    from grue.lm.load import load_language_model
    from grue.lm.model import freeze
    from grue.lm.quiet import quiet
    from grue.rl.first_step import compare_step
    from grue.rl.fixed_batch import METHODS
    from grue.runs.captured_step import step_of_trainer

    model, tokenizer = load_language_model("causal", task.backbone.model, task.backbone.revision)
    reference = freeze(model)
    with quiet():
        step = step_of_trainer(trainer, reference, tokenizer, seed, stated.penalty, task.rollout.max_new_tokens)
    config = GRPOConfig(**settings_of_grue(stated))
    return compare_step(step, METHODS[stated.method], model, reference, config)


# --- learning curves --------------------------------------------------------------------------------------------------


def conform_curves(
    task: Task, stated: Stated, seeds: Sequence[int], folder: Path, theirs: Path | None = None
) -> tuple[CurvesCompared, ...]:
    """Train with both, and compare; what is finished in the folder is only read.

    Args:
        task: As for `conform_step`; answers are greedy.
        theirs: Figures of another trainer, one log a seed, as `grue.callbacks` writes them. [default: TRL trains]

    Returns:
        The curves of `CURVES`, theirs as "new", ours as "old".
    """
    from grue.api.train import train

    task = _checked(task, stated, WITH_CURVES, "learning curves")
    if len(set(seeds)) < 2:
        raise ConfigError("One seed: whether trainers differ shows over seeds. Give two at least, better five.")
    if stated.updates % stated.every:
        raise ConfigError(f"{stated.updates} updates, measured every {stated.every}: the last must be measured, too.")
    if theirs is not None:
        for figure in CURVES:
            read_curves(theirs, figure)  # before anything is trained
    _claim(folder, task, stated)
    settings = settings_of_grue(stated)
    ours = [train(task, stated.method, seed=seed, runs=folder / "grue", **settings).folder for seed in seeds]
    if theirs is not None:
        return compared(str(theirs), ours, theirs)
    return compared("TRL", ours, [run_trl(task, stated, seed, folder / f"trl/seed-{seed}") for seed in seeds])


def compared(name: str, ours: Sequence[Path], theirs: Sequence[Path] | Path) -> tuple[CurvesCompared, ...]:
    """Compare runs of grue with those of a trainer, all p values corrected together.

    Args:
        theirs: Its runs, of grue or TRL, or the folder of its figures; errors as in `conform_curves`.
    """
    curves_of = partial(read_curves, theirs) if isinstance(theirs, Path) else partial(_curves, theirs)
    pairs = [(figure, _curves(ours, figure), curves_of(figure)) for figure in CURVES]
    curves = [compare_curves(old, new, figure, lower=figure == "kl") for figure, old, new in pairs]
    for curve in curves:
        before, after = (of_side[0] for of_side in curve.means)
        if curve.steps[0] == 0 and abs(before - after) > SAME * max(1.0, abs(before)):
            raise DataError(
                f"At step 0 grue has a {curve.figure} of {before:.4g} and {name} {after:.4g}: they did not begin from "
                "the same weights, or were not measured on the same examples."
            )
    p = iter(holm([test.p for curve in curves for test in curve.tests]))
    return tuple(replace(curve, tests=tuple(replace(test, p_holm=next(p)) for test in curve.tests)) for curve in curves)


def _claim(folder: Path, task: Task, stated: Stated) -> None:
    """Keep what is compared in the folder, and refuse one of other settings."""
    path = folder / "conform.json"
    content = {"task": f"{task.suite}/{task.name}", "hash": task.hash, **files.plain(stated)}
    held = files.read_json(path) if path.exists() else content
    if odd := [f"{key} {held.get(key)}, not {value}" for key, value in content.items() if held.get(key) != value]:
        raise DataError(f"{folder}: holds another comparison ({'; '.join(odd)}); give another folder, or remove it.")
    files.write_json(path, content)


def settings_of_grue(stated: Stated) -> dict[str, Any]:
    """Return the settings of grue's run."""
    return {
        "learning_rate": stated.learning_rate,
        "schedule": "constant",
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "updates": stated.updates,
        "rollouts": stated.batch,
        "minibatch_size": stated.batch,
        "epochs": 1,
        "samples_per_prompt": stated.group,
        "kl_coefficient": stated.penalty,
        "validation_examples": stated.examples,
        "validate_every": stated.every,
        "validate_on": "decoding",
        "keep": "last",
    }


def settings_of_trl(task: Task, stated: Stated) -> dict[str, Any]:
    """Return the arguments of TRL's configuration that make it do the same."""
    common = {
        "learning_rate": stated.learning_rate,
        "lr_scheduler_type": "constant",
        "warmup_steps": 0,
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "max_steps": stated.updates,
        "per_device_train_batch_size": stated.batch,
        "bf16": False,
        "gradient_checkpointing": False,
    }
    if stated.method == "supervised":
        return common
    common |= {"beta": stated.penalty}
    if stated.method == "dpo":
        return common
    if stated.method == "grpo":
        common |= {"loss_type": "grpo", "scale_rewards": "group", "use_bias_correction_kl": False}
    return common | {
        "steps_per_generation": 1,
        "num_iterations": 1,
        "num_generations": stated.group,
        "temperature": task.rollout.temperature,
        "max_completion_length": task.rollout.max_new_tokens,
    }


def make_trl(
    task: Task,
    stated: Stated,
    seed: int,
    folder: Path,
    rows: Sequence[Mapping[str, str]] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> "Trainer":
    """Return TRL's trainer of a task's backbone; an Unavailable without TRL.

    Args:
        folder: Gets what it writes.
        rows: What DPO and SFT learn from, all at once. [default: the task's prompts]
        settings: Arguments of TRL's configuration in place of `settings_of_trl`.
    """
    try:
        import trl
    except ImportError as error:
        raise Unavailable("TRL is not installed: pip install 'grue[trl]', or give --theirs or --loss.") from error
    import torch
    from datasets import Dataset, disable_progress_bars
    from transformers import PrinterCallback

    from grue import rewards
    from grue.evaluation.evaluate import text_cut
    from grue.lm.folder import locate_model
    from grue.lm.model import dropout_rates
    from grue.lm.quiet import quiet

    split, cut, name = task.data.reward_split, text_cut(task), OF_TRL[stated.method]
    more: dict[str, Any] = {}
    if rows is None:
        rows = [{"id": one.id, "prompt": cut(one.prompt)} for one in load_examples(task, split).examples]
        more = {"reward_funcs": rewards.for_trl(task=task, split=split)}
    shown = {"logging_steps": 1, "save_strategy": "no", "report_to": "none", "disable_tqdm": True}
    arguments = {**settings_of_trl(task, stated), **shown, "use_cpu": not torch.cuda.is_available(), "seed": seed}
    if not more:
        arguments["per_device_train_batch_size"] = len(rows)
    arguments |= settings or {}
    disable_progress_bars()
    with quiet():
        made: Trainer = getattr(trl, f"{name}Trainer")(
            model=str(locate_model(task.backbone.model)),
            args=getattr(trl, f"{name}Config")(str(folder), **arguments),
            train_dataset=Dataset.from_list([dict(row) for row in rows]),
            **more,
        )
    made.remove_callback(PrinterCallback)
    for module in cast("nn.Module", made.model).modules():
        for rate in dropout_rates(module):
            setattr(module, rate, 0.0)
    return made


def run_trl(task: Task, stated: Stated, seed: int, folder: Path) -> Path:
    """Train with TRL, and return the folder of its figures; a finished run is only read."""
    if (folder / STATE).exists():
        return folder
    from grue import callbacks
    from grue.lm.quiet import quiet

    made = make_trl(task, stated, seed, folder / "trl")
    with quiet():
        callbacks.for_trl(
            made,
            task,
            every=stated.every,
            best="",
            folder=folder,
            examples=stated.examples,
            seed=seed,
            warn=lambda message: None,  # what a single run does is no matter here
        )
        made.train()
    made.state.save_to_json(str(folder / STATE))
    return folder


def _rows(tokenizer: "PreTrainedTokenizerBase", batch: "FixedBatch") -> list[dict[str, str]]:
    """Return a batch as texts: pairs for DPO, prompts and their completions for SFT."""
    learned = batch.response_mask
    read = batch.attention_mask.bool() & ~learned

    def texts(mask: "Tensor") -> list[str]:
        rows = [ids[kept].tolist() for ids, kept in zip(batch.ids, mask, strict=True)]
        return [str(text) for text in tokenizer.batch_decode(rows, skip_special_tokens=True)]

    prompts, responses = texts(read), texts(learned)
    if batch.group_size == 1:
        return [{"prompt": a, "completion": b} for a, b in zip(prompts, responses, strict=True)]
    pairs = zip(prompts[::2], responses[::2], responses[1::2], strict=True)
    return [{"prompt": prompt, "chosen": better, "rejected": worse} for prompt, better, worse in pairs]


# --- what runs logged ------------------------------------------------------------------------------------------------


def _curves(runs: Iterable[Path], figure: str) -> dict[str, Curve]:
    curves: dict[str, Curve] = {}
    for run in runs:
        is_ours = not (run / STATE).exists()
        log, name = ("train.jsonl", f"validation/{figure}") if is_ours else ("figures.jsonl", figure)
        curves |= read_curves(run / log, name)
    return curves
