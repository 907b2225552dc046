"""Do two trainers learn the same? One start, one data set, one reward, one budget, several seeds.

grue's trainer stands beside TRL's, set as far as it can be to what grue does, or beside any trainer whose figures
`grue.callbacks` wrote. The same function measures both, on the same examples. Sampling is never the same in two
trainers, so it is seeds that are compared, by their learning curves and by their first update.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from grue import files
from grue.data.load import load_examples
from grue.errors import ConfigError, DataError, Unavailable
from grue.exchange.curves import Curve, CurvesCompared, compare_curves, read_curves
from grue.runs.log import is_update
from grue.stats.intervals import mean
from grue.stats.paired import LEVEL, Contrast, holm, judge_seeds
from grue.tasks import Generation, Task

METHODS = ("grpo", "rloo")
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
        penalty: Weight of the KL penalty: in the loss by the k3 estimate (GRPO), or on the reward (RLOO).
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


@dataclass(frozen=True, slots=True)
class FirstUpdate:
    """A figure of the first update, over seeds; what each side does there does not yet depend on what it has learned.

    Attributes:
        p: Of Welch's test; `p_holm` is corrected for all tests of the comparison.
        ratio: Theirs over ours.
    """

    name: str
    ours: float
    theirs: float
    ratio: float | None
    p: float
    p_holm: float


@dataclass(frozen=True, slots=True)
class Conformance:
    """What two trainers' runs say.

    Attributes:
        curves: Theirs as "new", ours as "old", for each of `CURVES`.
        first: Empty where the other trainer's logs have no first update.
        causes: What may explain a difference in the first update.
    """

    stated: Stated
    theirs: str
    curves: tuple[CurvesCompared, ...]
    first: tuple[FirstUpdate, ...]
    causes: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether a curve or a figure of the first update differs beyond what seeds explain."""
        of_curves = any(test.is_decided for curve in self.curves for test in curve.tests)
        return of_curves or any(figure.p_holm < 1 - LEVEL for figure in self.first)


FIGURES: Mapping[str, tuple[str, Callable[[Mapping[str, float]], float | None]]] = {
    "reward": ("objective/reward", lambda line: line.get("reward")),
    "tokens of a response": ("objective/length", lambda line: line.get("completions/mean_length")),
    "share that ended": (
        "objective/ended",
        lambda line: None if (cut := line.get("completions/clipped_ratio")) is None else 1 - cut,
    ),
    "entropy, nats a token": ("objective/entropy", lambda line: line.get("entropy")),
    "gradient's norm": ("policy/grad_norm", lambda line: line.get("grad_norm")),
}
"""A figure of the first update → its name in grue's log, and how TRL's log has it."""
CAUSES = {
    "reward": "the responses are drawn from another distribution, or the reward is another",
    "tokens of a response": "another length limit, or the end token is counted by one side alone",
    "share that ended": "one side treats the end token as padding, or cannot end by it",
    "entropy, nats a token": "another temperature or truncation of sampling, or dropout during training",
    "gradient's norm": "the loss is scaled otherwise (a sum for a mean, tokens for responses); Adam hides a constant "
    "factor, except where gradients are clipped",
}


def conform(task: Task, stated: Stated, seeds: Sequence[int], folder: Path, theirs: Path | None = None) -> Conformance:
    """Train with both, and compare; what is finished in the folder is only read.

    Args:
        task: A task with a causal backbone. Rollouts are plain samples, and answers are greedy.
        theirs: Figures of another trainer, one log a seed, as `grue.callbacks` writes them. [default: TRL trains]

    Raises:
        ConfigError: The method, the seeds or the task cannot be compared.
        DataError: The folder has runs of other settings, or the logs do not fit.
        Unavailable: TRL is not installed.
    """
    if stated.method not in METHODS:
        raise ConfigError(f"{stated.method}: trainers are compared on {', '.join(METHODS)}.")
    if len(set(seeds)) < 2:
        raise ConfigError("One seed: whether trainers differ shows over seeds. Give two at least, better five.")
    if stated.updates % stated.every:
        raise ConfigError(f"{stated.updates} updates, measured every {stated.every}: the last must be measured, too.")
    if stated.batch % stated.group:
        raise ConfigError(f"A batch of {stated.batch} responses is not of whole groups of {stated.group}.")
    if task.backbone.family != "causal":
        raise ConfigError(
            f"{task.suite}/{task.name} has an encoder-decoder, which TRL does not train; take a causal task."
        )
    task = plain_task(task)
    if theirs is not None:
        for figure in CURVES:
            read_curves(theirs, figure)  # before anything is trained
    _claim(folder, task, stated)
    ours = {seed: run_grue(task, stated, seed, folder / "grue") for seed in seeds}
    if theirs is not None:
        return compared(stated, str(theirs), ours, theirs)
    return compared(
        stated, "TRL", ours, {seed: run_trl(task, stated, seed, folder / f"trl/seed-{seed}") for seed in seeds}
    )


def plain_task(task: Task) -> Task:
    """Return a task with plain samples as rollouts and greedy answers, which every trainer can do."""
    tokens = task.rollout.max_new_tokens
    return replace(task, rollout=Generation(tokens, do_sample=True), decoding=Generation(tokens), search=None)


def compared(stated: Stated, name: str, ours: Mapping[int, Path], theirs: Mapping[int, Path] | Path) -> Conformance:
    """Compare runs of grue with those of a trainer.

    Args:
        theirs: Its runs, of grue or TRL, or the folder of its figures; errors as in `conform`.
    """
    if isinstance(theirs, Path):
        curves_of = partial(read_curves, theirs)
        first: list[FirstUpdate] = []
    else:
        curves_of = partial(_curves, theirs.values())
        first = _first(ours.values(), theirs.values())
    pairs = [(figure, _curves(ours.values(), figure), curves_of(figure)) for figure in CURVES]
    curves = [compare_curves(old, new, figure, lower=figure == "kl") for figure, old, new in pairs]
    for curve in curves:
        before, after = (of_side[0] for of_side in curve.means)
        if curve.steps[0] == 0 and abs(before - after) > SAME * max(1.0, abs(before)):
            raise DataError(
                f"At step 0 grue has a {curve.figure} of {before:.4g} and {name} {after:.4g}: they did not begin from "
                "the same weights, or were not measured on the same examples."
            )
    curves, first = _corrected(curves, first)
    causes = tuple(f"{one.name}: {CAUSES[one.name]}." for one in first if one.p_holm < 1 - LEVEL)
    return Conformance(stated, name, tuple(curves), tuple(first), causes)


def _corrected(
    curves: Sequence[CurvesCompared], first: Sequence[FirstUpdate]
) -> tuple[list[CurvesCompared], list[FirstUpdate]]:
    """Correct all p values for the number of all tests, so that equal trainers are called different in 5 % at most."""
    p = iter(holm([test.p for curve in curves for test in curve.tests] + [one.p for one in first]))
    corrected = [replace(curve, tests=tuple(replace(test, p_holm=next(p)) for test in curve.tests)) for curve in curves]
    return corrected, [replace(one, p_holm=next(p)) for one in first]


def _claim(folder: Path, task: Task, stated: Stated) -> None:
    """Keep what is compared in the folder, and refuse one of other settings."""
    path = folder / "conform.json"
    content = {"task": f"{task.suite}/{task.name}", "hash": task.hash, **files.plain(stated)}
    held = files.read_json(path) if path.exists() else content
    if odd := [f"{key} {held.get(key)}, not {value}" for key, value in content.items() if held.get(key) != value]:
        raise DataError(f"{folder}: holds another comparison ({'; '.join(odd)}); give another folder, or remove it.")
    files.write_json(path, content)


# --- grue ------------------------------------------------------------------------------------------------------------


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
        "rollout_temperature": 1.0,
        "validation_examples": stated.examples,
        "validate_every": stated.every,
        "validate_on": "decoding",
        "keep": "last",
    }


def run_grue(task: Task, stated: Stated, seed: int, runs: Path) -> Path:
    """Train with grue, and return the run's folder; a finished run is only read."""
    from grue.api.train import train

    return train(task, stated.method, seed=seed, runs=runs, **settings_of_grue(stated)).folder


# --- TRL -------------------------------------------------------------------------------------------------------------


def settings_of_trl(task: Task, stated: Stated) -> dict[str, Any]:
    """Return the arguments of TRL's configuration that make it do the same."""
    grouped = {"loss_type": "grpo", "scale_rewards": "group"} if stated.method == "grpo" else {}
    return {
        "learning_rate": stated.learning_rate,
        "lr_scheduler_type": "constant",
        "warmup_steps": 0,
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "max_steps": stated.updates,
        "per_device_train_batch_size": stated.batch,
        "steps_per_generation": 1,
        "num_iterations": 1,
        "num_generations": stated.group,
        "beta": stated.penalty,
        "temperature": 1.0,
        "max_completion_length": task.rollout.max_new_tokens,
        "disable_dropout": True,
        "bf16": False,
        "gradient_checkpointing": False,
        **grouped,
    }


def run_trl(task: Task, stated: Stated, seed: int, folder: Path) -> Path:
    """Train with TRL, and return the folder of its figures; a finished run is only read."""
    if (folder / STATE).exists():
        return folder
    try:
        import trl
    except ImportError as error:
        raise Unavailable("TRL is not installed: pip install 'grue[trl]', or give --theirs.") from error
    import torch
    from datasets import Dataset
    from transformers import PrinterCallback

    from grue import callbacks, rewards
    from grue.evaluation.evaluate import text_cut
    from grue.lm.folder import locate_model
    from grue.lm.quiet import quiet

    split, cut = task.data.reward_split, text_cut(task)
    rows = [{"id": one.id, "prompt": cut(one.prompt)} for one in load_examples(task, split).examples]
    shown = {"logging_steps": 1, "save_strategy": "no", "report_to": "none", "disable_tqdm": True}
    arguments = {**settings_of_trl(task, stated), **shown, "use_cpu": not torch.cuda.is_available(), "seed": seed}
    configuration, trainer = (
        getattr(trl, f"{stated.method.upper()}Config"),
        getattr(trl, f"{stated.method.upper()}Trainer"),
    )
    with quiet():
        made = trainer(
            model=str(locate_model(task.backbone.model)),
            args=configuration(str(folder / "trl"), **arguments),
            reward_funcs=rewards.for_trl(task=task, split=split),
            train_dataset=Dataset.from_list(rows),
        )
        made.remove_callback(PrinterCallback)
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


# --- what runs logged ------------------------------------------------------------------------------------------------


def _curves(runs: Iterable[Path], figure: str) -> dict[str, Curve]:
    """Return run → its curve of a figure."""
    curves: dict[str, Curve] = {}
    for run in runs:
        is_ours = not (run / STATE).exists()
        log, name = ("train.jsonl", f"validation/{figure}") if is_ours else ("figures.jsonl", figure)
        curves |= read_curves(run / log, name)
    return curves


def _first(ours: Iterable[Path], theirs: Iterable[Path]) -> list[FirstUpdate]:
    """Compare the figures of the first update that both sides have."""
    lines = [[_first_line(run) for run in runs] for runs in (ours, theirs)]
    found = []
    for name in FIGURES:
        a, b = (tuple(line[name] for line in side if name in line) for side in lines)
        if min(len(a), len(b)) > 1:
            p = judge_seeds([Contrast(b, a)]).p
            found.append(FirstUpdate(name, mean(a), mean(b), mean(b) / mean(a) if mean(a) else None, p, 1.0))
    return found


def _first_line(run: Path) -> Mapping[str, float]:
    """Return the figures of a run's first update."""
    if not (run / STATE).exists():
        line = next(line for _, line in files.read_jsonl(run / "train.jsonl") if is_update(line))
        return {name: line[key] for name, (key, _) in FIGURES.items() if key in line}
    history = files.read_json(run / STATE)["log_history"]
    line = next(line for line in history if line["step"] == 1 and "loss" in line)
    return {name: value for name, (_, from_trl) in FIGURES.items() if (value := from_trl(line)) is not None}
