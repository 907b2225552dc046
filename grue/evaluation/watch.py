"""What a model in training is worth, step by step: a task's scores on some examples, and how far it has moved."""

import copy
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import PreTrainedModel

from grue.errors import Unavailable
from grue.evaluation.by_endpoint import answer_all, predictions_of, settings_for, stops_of
from grue.evaluation.chat import chatting, unbounded
from grue.evaluation.client import Client
from grue.evaluation.comparison import Worth, worth_of, worth_of_mean
from grue.evaluation.endpoint import Endpoint, checked
from grue.evaluation.evaluate import text_cut
from grue.evaluation.folder import ANSWERS
from grue.evaluation.predict import batches_left, continuations, plain_sampling, predict
from grue.evaluation.predictions import match
from grue.evaluation.prompting import Asking, by_chat
from grue.evaluation.reward_models import named_in, recorded
from grue.evaluation.rewards import Reward, mean
from grue.evaluation.scoring import Prepare, Scored, prepared_once, score_predictions
from grue.lm.checks import check_lengths
from grue.lm.forward import kl_divergence
from grue.lm.load import LoadedModel
from grue.lm.model import eos_id
from grue.lm.tokens import encode_prompts
from grue.metrics.metric import FloatArray, Metric
from grue.records import Axis, Example, Prediction, legible
from grue.tasks import MetricSpec, Task, with_relatives

Start = Callable[[], AbstractContextManager[PreTrainedModel]]
"""Returns a context that yields the model that training began from."""

OfMetric = tuple[MetricSpec, Metric, Sequence[FloatArray]]
"""A metric with its statistics of the examples, [N, K] for each draw."""

AXES: tuple[Axis, ...] = ("preference", "naturalness")
HELD_OUT = "held_out"
REWARD = "reward"
LOWER = frozenset({"empty", "truncated", "kl", "seconds"})
SURE = 2
"""Standard errors beyond which a change is not put down to the choice of examples."""


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """A model at one step.

    Attributes:
        figures: "preference", "naturalness" and "held_out" (0 to 100), "reward", each metric under its name and on its
            own scale, "kl" from the start in nats a response, the shares "empty" and "truncated", and "seconds". What
            has a standard error has also its "…_gain" over the first measurement, and "…_gain_error", paired by
            example.
        predictions: What it answered.
        worths: What each example is worth to the axes, the held-out preference and the reward.
        lower: The figures of which less is better.
        alarm: Why the reward may no longer mean what it should; "" if nothing speaks against it.
    """

    step: int
    figures: Mapping[str, float]
    predictions: Sequence[Prediction] = field(repr=False)
    worths: Mapping[str, Worth] = field(repr=False)
    lower: frozenset[str] = field(repr=False)
    alarm: str = ""


@dataclass(eq=False)
class Watch:
    """A task's scores of a model in training, always on the same examples and with the same random numbers.

    Attributes:
        train: The training examples, which a chat prompt may show.
        reward: What is trained on; None if unknown.
        optimised: The metrics that the reward raises: its terms with their relatives.
        chat: Whether the model gets the task's chat prompt.
        history: What was measured, in order.
    """

    task: Task
    examples: Sequence[Example]
    train: Sequence[Example]
    reward: Reward | None = None
    optimised: frozenset[str] = frozenset()
    seed: int = 1
    batch_size: int = 32
    chat: bool = False
    warn: Callable[[str], None] = warnings.warn
    history: list[Measurement] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Metrics are prepared once, since the examples stay the same."""
        self._prepare = prepared_once(self.task.folder)

    @torch.no_grad()
    def measure(self, loaded: LoadedModel, step: int, start: Start | None = None) -> Measurement:
        """Let a model answer, and score its answers; it stays in its mode of training or evaluation.

        Args:
            loaded: The model, on its device, and its tokenizer.
            step: The trainer's, for the record.
            start: Of what the KL is measured from.

        Raises:
            ConfigError: The tokenizer has no end token, or no chat template though `chat` is set; prompts and answers
                do not fit into the model's positions.
            TrainingError: The model's logits are not finite, or the reward gives no usable number.
        """
        began, (model, tokenizer), task = time.monotonic(), loaded, self.task
        talk = chatting("the model", model, tokenizer, task, self._asking, self.seed) if self.chat else None
        if talk:
            talk.count_tokens(self.examples)  # refuses conversations that do not fit
        else:
            check_lengths(model, task)
        answered: dict[str, Prediction] = {}
        nats: list[float] = []
        plain = plain_sampling(task)
        sampling, end = (unbounded(plain), talk.template.end) if talk else (plain, eos_id(model, tokenizer))
        with evaluating(model):
            for batch in batches_left(self.examples, (), self.batch_size):
                found = talk.answer(batch) if talk else predict(loaded, task, batch, task.decoding, self.seed)
                answered |= {prediction.id: prediction for prediction in found}
                if start is None:
                    continue
                texts = [example.prompt for example in batch]
                prompts = talk.prompts(batch) if talk else encode_prompts(model, tokenizer, texts, task.prompt)
                drawn, _ = continuations(loaded, prompts, batch, sampling, self.seed, end)
                nats += kl_divergence(model, start(), prompts, drawn).tolist()
        more = {"kl": sum(nats) / len(nats)} if nats else {}
        return self.score([answered[example.id] for example in self.examples], step, began, more)

    def ask(self, endpoint: Endpoint, step: int) -> Measurement:
        """Let a model answer behind an OpenAI-compatible address, and score its answers.

        Raises:
            ConfigError: The endpoint is invalid.
            DataError: The server refuses.
            Unavailable: It fails repeatedly.
        """
        began, settings = time.monotonic(), settings_for(self.task, self.seed, self.chat)
        client = Client(checked(replace(endpoint, completions=not self.chat)), settings, self.warn)
        questions = {example.id: self._asking.question(example.prompt) for example in self.examples}
        with TemporaryDirectory() as folder:
            replies = answer_all(client, questions, Path(folder) / ANSWERS)
        stops = stops_of(self.task, self.chat)
        return self.score(predictions_of(replies, self._asking, self.examples, stops), step, began)

    def score(
        self,
        predictions: Sequence[Prediction],
        step: int,
        began: float | None = None,
        more: Mapping[str, float] | None = None,
    ) -> Measurement:
        """Score an answer to each example, and add them to the history.

        Args:
            began: When answering began, by `time.monotonic`. [default: now]
            more: Further figures.

        Raises:
            SubmissionError: An example has no answer or two, or an answer no example.
            TrainingError: The reward gives no usable number.
        """
        began = time.monotonic() if began is None else began
        predictions = match(self.examples, predictions)
        optimised = None if self.reward is None else self.optimised
        scored, worths = worths_of(self.task, self.examples, predictions, optimised, self._prepare)
        figures: dict[str, float] = {axis: value for axis in AXES if (value := getattr(scored, axis)) is not None}
        figures |= {name: worth.score for name, worth in worths.items()}
        if self.reward is not None:
            by_draw = []
            for draw in zip(*(prediction.draws for prediction in predictions), strict=True):
                texts = [legible(text.text).strip() for text in draw]
                truncated = [text.truncated for text in draw]
                by_draw.append(self.reward(self.examples, texts, truncated=truncated, step=step))
            values = [mean(each) for each in zip(*by_draw, strict=True)]
            if (value := mean(values)) is not None:
                figures[REWARD], worths[REWARD] = value, worth_of_mean(values)
        for name, worth in worths.items() if self.history else ():
            if (first := self.history[0].worths.get(name)) is not None:
                figures[f"{name}_gain"], error = worth.gain_on(first)
                figures |= {} if error is None else {f"{name}_gain_error": error}
        figures |= dict(more or {}) | {score.metric: score.value for score in scored.scores}
        answers = len(self.examples) * scored.counts.get("samples", 1)
        figures |= {name: scored.counts[name] / answers for name in ("empty", "truncated")}
        figures["seconds"] = time.monotonic() - began
        lower = LOWER.union(score.metric for score in scored.scores if score.direction == "lower")
        self.history.append(Measurement(step, figures, tuple(predictions), worths, lower, alarm(step, figures)))
        return self.history[-1]

    @cached_property
    def _asking(self) -> Asking:
        cut = text_cut(self.task)
        return by_chat(self.task, self.examples, self.train, cut) if self.chat else Asking(cut)


def worths_of(
    task: Task,
    examples: Sequence[Example],
    predictions: Sequence[Prediction],
    optimised: frozenset[str] | None,
    prepare: Prepare,
) -> tuple[Scored, dict[str, Worth]]:
    """Score answers to validation examples, and return what each example is worth to the axes that have a score.

    Args:
        optimised: The metrics that a reward raises; preference by the others is then the held-out one. None leaves
            that out.
        prepare: Returns a prepared metric.
    """
    found: list[OfMetric] = []
    scored = score_predictions(
        task, "validation", examples, predictions, prepare=prepare, measured=lambda *metric: found.append(metric)
    )
    measured: dict[str, Sequence[OfMetric]] = {
        axis: [metric for metric in found if metric[0].axis == axis]
        for axis in AXES
        if getattr(scored, axis) is not None
    }
    if optimised is not None:
        measured[HELD_OUT] = [m for m in measured.get("preference", ()) if m[0].name not in optimised]
    worths: dict[str, Worth] = {}
    for name, metrics in measured.items():
        with suppress(Unavailable):  # a metric that cannot be computed without one of the examples
            if metrics and len(examples) > 1:
                worths[name] = worth_of(metrics)
    return scored, worths


def optimised_by(reward: str, task: Task) -> frozenset[str]:
    """Return the metrics that a reward raises: its terms, what its reward models learnt from, and their families."""
    judges = (model["judge"] for model in (recorded(reward, task) if reward else ()))
    return with_relatives((name for each in (reward, *judges) for name in named_in(each, "")), task.families)


def alarm(step: int, figures: Mapping[str, float]) -> str:
    """Return a warning if the reward rose while something that it does not contain fell, each beyond its noise."""
    changes = {name: _sure_change(figures, name) for name in (REWARD, *_FALLING)}
    fallen = [name for name in _FALLING if changes[name] < 0]
    if changes[REWARD] <= 0 or not fallen:
        return ""
    lost = " and ".join(f"{_FALLING[name]} by {_in_words(figures, name, '.1f')}" for name in fallen)
    return (
        f"step {step}: the reward changed by {_in_words(figures, REWARD, '.3g')} since the start, and {lost}. The "
        "policy may be learning what the reward overlooks: read its answers, keep an earlier checkpoint, or hold it "
        "nearer to its start (a higher KL penalty, a lower learning rate)."
    )


_FALLING = {HELD_OUT: "the held-out preference", "naturalness": "naturalness"}


def _sure_change(figures: Mapping[str, float], name: str) -> float:
    """Return a figure's change; 0 if other examples would explain it, or if it is not known."""
    gain, error = figures.get(f"{name}_gain", 0.0), figures.get(f"{name}_gain_error", float("inf"))
    return gain if abs(gain) > SURE * error else 0.0


def _in_words(figures: Mapping[str, float], name: str, form: str) -> str:
    return f"{figures[f'{name}_gain']:+{form}} ± {figures[f'{name}_gain_error']:{form}}"


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """As the model will be once it is saved: without dropout, and without what a trainer wraps around its `forward`.

    accelerate wraps it in mixed precision, TRL in other ways of computing the loss. Then every part is as it was.
    """
    training = [part for part in model.modules() if part.training]
    model.eval()
    wrapped = unwrapped_forward(model)
    try:
        yield
    finally:
        for part, forward in wrapped:
            part.forward = forward
        for part in training:
            part.training = True


def start_of(model: PreTrainedModel) -> PreTrainedModel:
    """Return a copy of a model that stays as it is; what wraps `forward` would call the model instead of the copy."""
    start: PreTrainedModel = copy.deepcopy(model).requires_grad_(False).eval()
    unwrapped_forward(start)
    return start


def unwrapped_forward(model: torch.nn.Module) -> list[tuple[torch.nn.Module, Any]]:
    """Give parts the `forward` of their class, but what accelerate moves between devices; return what they had."""
    moved = [part for part in model.modules() if "forward" in vars(part) and not hasattr(part, "_hf_hook")]
    return [(part, vars(part).pop("forward")) for part in moved]
