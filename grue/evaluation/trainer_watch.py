"""A callback of transformers' Trainer, and so of TRL's trainers, that watches the model on a task."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
from grue.errors import ConfigError, did_you_mean
from grue.evaluation.predictions import write_predictions
from grue.evaluation.watch import Measurement, Watch, start_of
from grue.lm.adapters import adapter_off, is_adapted
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
        trainer: Its model is the start when this is made. A copy is kept for the KL, unless it has adapters, which can
            be switched off.
        every: Steps between measurements.
        best: The figure by which the best model is kept in `folder`/best; "" keeps none.
    """

    def __init__(self, trainer: Trainer, watch: Watch, *, every: int, best: str, folder: Path, kl: bool) -> None:
        """Take the trainer's model as the start.

        Raises:
            ConfigError: The model's weights are spread over processes, or the trainer has no tokenizer.
        """
        if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
            raise ConfigError(
                "The model's weights may be spread over processes (FSDP, DeepSpeed), and then no process can answer "
                "alone. Evaluate saved checkpoints: `grue evaluate --model FOLDER`, or grue.callbacks.watch."
            )
        if not isinstance(trainer.processing_class, PreTrainedTokenizerBase):
            raise ConfigError("The trainer has no tokenizer: give it one with processing_class=….")
        self.tokenizer = trainer.processing_class
        self.trainer, self.watch, self.every, self.best, self.folder, self.kl = trainer, watch, every, best, folder, kl
        model = self._policy()
        self._copy = None if is_adapted(model) or not kl else start_of(model)
        self._values: list[float] = []

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure the model; where training is resumed, it is what later gains are over.

        Raises:
            ConfigError: `best` is none of the figures.
        """
        kept = self.folder / FIGURES
        earlier = [line for _, line in files.read_jsonl(kept)] if kept.exists() else []
        earlier = [line for line in earlier if line["step"] < state.global_step]
        files.write_jsonl(kept, earlier)
        self._values = [line[self.best] for line in earlier if self.best in line]
        self._measure(state.global_step)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Measure the model if it is time."""
        if state.global_step % self.every == 0:
            self._measure(state.global_step)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Measure the model if it was not measured after its last step."""
        if not self.watch.history or self.watch.history[-1].step != state.global_step:
            self._measure(state.global_step)

    def _measure(self, step: int) -> None:
        """Measure, log and keep the model, in the main process; the others wait."""
        if self.trainer.is_world_process_zero():
            measured = self.watch.measure((self._policy(), self.tokenizer), step, self._start if self.kl else None)
            self._record(measured)
            if measured.alarm:
                self.watch.warn(measured.alarm)
            self._log({f"{LOGGED}{name}": value for name, value in measured.figures.items() if name not in UNLOGGED})
        self.trainer.accelerator.wait_for_everyone()

    def _log(self, figures: dict[str, float]) -> None:
        """Log figures beside the trainer's own, which stay to be logged: TRL's `log` would end their interval."""
        control = self.trainer.control
        due = control.should_log
        Trainer.log(self.trainer, figures)
        control.should_log = due  # logging clears it

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
                self.trainer.save_model(str(folder))
        self._values.append(value)

    def _policy(self) -> PreTrainedModel:
        """Return the model in training; one that peft wraps is what it wraps, with the adapters inside."""
        model = self.trainer.accelerator.unwrap_model(self.trainer.model, keep_torch_compile=False)
        policy: PreTrainedModel = model.get_base_model() if hasattr(model, "get_base_model") else model
        return policy

    @contextmanager
    def _start(self) -> Iterator[PreTrainedModel]:
        """Yield the model that training began from."""
        if self._copy is not None:
            yield self._copy
        else:
            model = self._policy()
            with adapter_off(model):
                yield model
