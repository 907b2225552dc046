"""A callback of transformers' Trainer, and so of TRL's trainers, that watches the model on a task."""

import copy
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from grue import files
from grue.errors import ConfigError, GrueError, did_you_mean, of_the_system
from grue.evaluation.predictions import read_predictions, write_predictions
from grue.evaluation.watch import Measurement, Watch, start_of
from grue.metrics.registry import DIVERSITY

FIGURES, ANSWERS, BEST = "figures.jsonl", "answers-{step}.jsonl", "best"
LOGGED = "grue/"
"""What the names of figures begin with in the trainer's log."""
UNLOGGED = frozenset(DIVERSITY) - {"distinct2", "mean_length"}
"""Figures that are only kept: of the diversity set, two tell enough at a glance."""


class TrainerWatch(TrainerCallback):
    """Measures a model before training, every so many steps and at the end, and keeps the best.

    Figures are logged as "grue/NAME". `folder` gets them as figures.jsonl, the answers as answers-STEP.jsonl, and the
    best model.

    Attributes:
        trainer: Its model is the start when this is made. A copy of what is trained is kept for the KL.
        every: Steps between measurements.
        best: The figure by which the best model is kept in `folder`/best; "" keeps none.
    """

    def __init__(self, trainer: Trainer, watch: Watch, *, every: int, best: str, folder: Path, kl: bool) -> None:
        """Take the trainer's model as the start.

        Raises:
            ConfigError: The model's weights are spread over processes, it learns prompts, or there is no tokenizer.
        """
        if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
            raise ConfigError(
                "The model's weights may be spread over processes (FSDP, DeepSpeed), and then no process can answer "
                "alone. Evaluate saved checkpoints: `grue evaluate --model FOLDER`, or grue.callbacks.watch."
            )
        if not isinstance(trainer.processing_class, PreTrainedTokenizerBase):
            raise ConfigError("The trainer has no tokenizer: give it one with processing_class=….")
        self.trainer, self.watch, self.every, self.best, self.folder, self.kl = trainer, watch, every, best, folder, kl
        self.tokenizer = copy.deepcopy(trainer.processing_class)  # encoding sets where it cuts
        model = self._unwrapped()
        adapted = getattr(model, "peft_config", None) is not None
        if adapted and any(config.is_prompt_learning for config in model.peft_config.values()):
            raise ConfigError(
                "The model is trained by prompts in front of its input (peft), without which it would be measured. "
                "Evaluate saved checkpoints, or train LoRA."
            )
        self._start_model = start_of(self._policy()) if kl and not adapted else None
        self._start_tensors = learned_tensors(self._policy()) if kl and adapted else None
        self._values: list[float] = []
        self._last = -1

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure the start. Where training is resumed, the earlier figures are kept, and it is not logged again.

        Raises:
            ConfigError: `best` is none of the figures.
        """
        if self.trainer.is_world_process_zero():
            self._begin(state.global_step)
        if state.global_step == 0:
            self._measure(0)
        elif self.trainer.is_world_process_zero():  # later gains are over the start
            if (first := self.folder / ANSWERS.format(step=0)).exists():
                self.watch.score(read_predictions(first), 0)
            elif self.kl:
                with self._start() as model:
                    self.watch.measure((model, self.tokenizer), 0)

    def _begin(self, step: int) -> None:
        """Keep what was measured before a step, and the best model; at the first, remove what another run left."""
        kept = self.folder / FIGURES
        lines = [line for _, line in files.read_growing_jsonl(kept)[0]] if kept.exists() and step else []
        self._values = [line[self.best] for line in lines if self.best in line]
        lines = [line for line in lines if line["step"] <= step]
        files.write_jsonl(kept, lines)
        steps = {line["step"] for line in lines}
        for path in self.folder.glob(ANSWERS.format(step="*")):
            if path.stem.rpartition("-")[2] not in map(str, steps):
                path.unlink()
        if not step and (self.folder / BEST).is_dir():
            shutil.rmtree(self.folder / BEST)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Measure the model if it is time."""
        if state.global_step % self.every == 0:
            self._measure(state.global_step)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure the model if it was not measured after its last step."""
        if self._last != state.global_step:
            self._measure(state.global_step)

    def _measure(self, step: int) -> None:
        """Measure, log and keep the model, in the main process; the others wait.

        What fails after the start, as on a full disk, is a warning: it must not end hours of training.
        """
        self._last = step
        if self.trainer.is_world_process_zero():
            at_start = not self.watch.history
            try:
                self._measure_here(step)
            except Exception as error:
                known = error if isinstance(error, GrueError) else of_the_system(error)
                if at_start or known is None:
                    raise
                self.watch.warn(f"step {step} could not be measured, and training goes on: {known}")
        self.trainer.accelerator.wait_for_everyone()

    def _measure_here(self, step: int) -> None:
        measured = self.watch.measure((self._policy(), self.tokenizer), step, self._start if self.kl else None)
        self._record(measured)
        if measured.alarm:
            self.watch.warn(measured.alarm)
        control = self.trainer.control
        due = control.should_log  # logging clears it, and TRL's own `log` would end the interval of its figures
        figures = {f"{LOGGED}{name}": value for name, value in measured.figures.items() if name not in UNLOGGED}
        Trainer.log(self.trainer, figures)
        control.should_log = due

    def _record(self, measured: Measurement) -> None:
        """Write figures and answers, and keep the model if it is the best so far."""
        if self.best and self.best not in measured.figures:
            raise ConfigError(
                f"best={self.best!r} is none of the figures.{did_you_mean(self.best, measured.figures)} They are: "
                f"{', '.join(measured.figures)}."
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        write_predictions(self.folder / ANSWERS.format(step=measured.step), measured.predictions)
        files.append_jsonl(self.folder / FIGURES, [{"step": measured.step, **measured.figures}])
        if not self.best:
            return
        sign, value = -1 if self.best in measured.lower else 1, measured.figures[self.best]
        if all(sign * value > sign * earlier for earlier in self._values):
            with files.replacing_folder(self.folder / BEST) as folder:
                self.trainer.save_model(str(folder), _internal_call=True)  # without a push to the hub
        self._values.append(value)

    def _unwrapped(self) -> PreTrainedModel:
        model: PreTrainedModel = self.trainer.accelerator.unwrap_model(self.trainer.model, keep_torch_compile=False)
        return model

    def _policy(self) -> PreTrainedModel:
        """Return the model in training; one that peft wraps is what it wraps, with the adapters inside."""
        model = self._unwrapped()
        inner: Any = getattr(model, "get_base_model", None)
        policy: PreTrainedModel = model if inner is None else inner()
        return policy

    @contextmanager
    def _start(self) -> Iterator[PreTrainedModel]:
        if self._start_model is not None:
            yield self._start_model
            return
        assert self._start_tensors is not None, "there is no start without a KL"
        model = self._policy()
        now = learned_tensors(model)
        put(model, self._start_tensors)
        try:
            yield model
        finally:
            put(model, now)


def learned_tensors(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """Return a copy of the weights that are trained: adapters, and what is trained beside them."""
    return {name: value.detach().clone() for name, value in model.named_parameters() if value.requires_grad}


@torch.no_grad()
def put(model: PreTrainedModel, tensors: Mapping[str, torch.Tensor]) -> None:
    """Set weights of a model."""
    for name, value in model.named_parameters():
        if name in tensors:
            value.copy_(tensors[name])
