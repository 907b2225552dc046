"""What is measured for a task's card: outputs without learning, the start, the best of its samples, signal and cost.

All answers are to the same validation examples, so that differences are paired by example. Samples are drawn once,
plainly and at the temperature of the rollouts. Best-of-n picks by the reward from disjoint groups of n of them, so that
all samples count for every n.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np

from grue.api.evaluate import subject
from grue.data.load import few_of, load_examples
from grue.errors import ConfigError, DataError
from grue.evaluation import frontier
from grue.evaluation.best_of import is_oracle
from grue.evaluation.comparison import Worth, worth_of_mean
from grue.evaluation.evaluate import READING, answer_without_model
from grue.evaluation.predict import Response, as_predictions, batches_left, respond, reward_inputs
from grue.evaluation.rewards import Reward, make_reward, parse_reward
from grue.evaluation.scoring import Prepare, check_examples, prepared_once, unavailable
from grue.evaluation.systems import System, baseline_system
from grue.evaluation.watch import AXES, HELD_OUT, REWARD, optimised_by, worths_of
from grue.lm.checks import check_lengths
from grue.lm.constraints import end_ids
from grue.lm.distributed import join_processes
from grue.lm.model import eos_id, is_seq2seq
from grue.lm.tokens import target_ids
from grue.lookups.find import lookups_of
from grue.metrics.registry import is_metric
from grue.records import Example, Prediction
from grue.runs.diagnose import BATCHES, Diagnosis, diagnose
from grue.runs.plan import stages_of
from grue.runs.request import RunRequest
from grue.stats.intervals import FloatArray, Interval, student_t_quantile
from grue.stats.signal import FEWEST
from grue.tasks import Generation, Task

FIGURES = (REWARD, "preference", HELD_OUT, "naturalness")
PICKED = (2, 4, 8, 16)
LATE = 4
"""From here to the end of `PICKED` it is judged whether something turns: chosen before anything is seen."""
EMPTY, GREEDY, SAMPLED, BEST, ORACLE = "empty", "greedy", "sampled", "best of {}", "oracle"

Answered = tuple[Sequence[Prediction], Sequence[float | None]]
"""An answer to each example, or several, and their mean rewards."""
Moved = Callable[[int, int], None]
Stage = Callable[[str], AbstractContextManager[Moved]]
"""The title of a piece of work → a context that yields its progress, a function of (done, total)."""


@dataclass(frozen=True, slots=True)
class AnswerScores:
    """What some answers get; both mappings have those of `FIGURES` that the task has.

    Attributes:
        scores: The mean reward, and the others from 0 to 100.
        gains: 95 % intervals of the gain over the start, paired by example: of the best of n over its samples, of what
            needs no learning over its likeliest answers.
    """

    scores: Mapping[str, float]
    gains: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class TaskCard:
    """What was measured for a task; `seconds` and `signal.move.seconds` are of the machine as it was.

    Attributes:
        trained: Whether the start is more than the backbone.
        splits: Split → its number of examples; 0 if that is not known.
        lengths: "prompt" and "reference" → their mean tokens, the task's limit, and the share beyond it.
        metrics: Those of `FIGURES` → their metrics.
        lazy: Names of the answers that need no learning, the oracle left out.
        answers: Name → scores: `lazy`, "greedy", "sampled", "best of 2" to "best of 16", "oracle".
        late: Gains of the best of 16 over the best of 4.
        signal: Of GRPO with the task's recipe.
        seconds: Of an "answer" and its "reward".
        missing: Metrics that could not be computed, and why.
    """

    title: str
    task_sha256: str
    trained: bool
    splits: Mapping[str, int]
    lengths: Mapping[str, tuple[float, int, float]]
    metrics: Mapping[str, tuple[str, ...]]
    lazy: tuple[str, ...]
    answers: Mapping[str, AnswerScores]
    late: Mapping[str, Interval]
    frontier: frontier.Frontier
    signal: Diagnosis
    seconds: Mapping[str, float]
    missing: tuple[str, ...]


def measure(
    task: Task,
    *,
    examples: int = 100,
    samples: int = 32,
    stage: Stage = lambda title: nullcontext(lambda done, total: None),
    **arguments: Any,
) -> TaskCard:
    """Measure a task from a start; the same arguments give the same figures.

    Args:
        examples: Of the validation split, drawn by the hashes of their ids; at least 2.
        samples: To each of them, at least 16.
        arguments: Of `RunRequest`: init, backbone, reward, seed, data_dir, offline.
    """
    if samples < max(PICKED) or examples < 2:
        raise ConfigError(
            f"{samples} samples to each of {examples} examples: take {max(PICKED)} to each of 2 at least."
        )
    plan = stages_of(RunRequest(task=task, algorithm="grpo", **arguments))[-1]
    data = {
        name: load_examples(task, name, plan.data_dir, plan.offline).examples
        for name in dict.fromkeys(("train", "validation", plan.split))
    }
    shown = few_of(data["validation"], examples)
    if len(shown) < 2:
        raise DataError(f"The split 'validation' of {task.name} has {len(shown)} examples; a card takes 2 at least.")
    check_examples(task, shown)
    begun = plan.init or (plan.start.model if plan.backbone else "zero-shot")
    system = replace(subject(begun, task).system, seed=plan.seed)
    check_lengths(system.loaded[0], task)
    function, optimised = make_reward(plan.reward, task, data[plan.split]), optimised_by(plan.reward, task)
    # A function may read references. If it does not, the oracle's curve and the attainable one agree.
    own = any(not is_metric(name) for _, name in parse_reward(plan.reward))
    oracle = is_oracle(plan.reward) or (own and all(example.references for example in shown))
    frontier.check_samples(plan.reward, shown, samples, oracle)
    on = _On(task, system, shown, function, optimised, prepared_once(task.folder))

    with stage("outputs without learning") as moved:
        greedy = on.worths(on.greedy())
        lazy = {name: on.worths(answered) for name, answered in on.lazy(data["train"], moved)}
    temperature, clock = task.rollout.temperature, [time.perf_counter()]
    with stage("samples of the start") as moved:
        drawn = frontier.draw(task, system, shown, samples, temperature, moved)
        clock.append(time.perf_counter())
    with stage("the best of the samples"):
        values = frontier.rewards_of(function, shown, drawn)
        clock.append(time.perf_counter())
        best = {n: on.worths(on.picked(drawn, values, n)) for n in (1, *PICKED)}
        of_curve = task, system, shown, "validation", drawn, values, function, plan.reward, temperature, oracle
        curve = frontier.of_samples(*of_curve)
    with stage("the gradient of GRPO") as moved:
        config: Any = plan.config
        batches = min(max(values.size // config.rollouts, FEWEST), BATCHES)
        signal = diagnose(plan, batches, moved, join_processes())

    metrics: dict[str, tuple[str, ...]] = {
        axis: tuple(spec.name for spec in task.metrics if spec.axis == axis) for axis in AXES
    }
    reference = lazy.pop(ORACLE, None)
    answers = {name: _scores(worths, greedy) for name, worths in lazy.items()}
    answers |= {GREEDY: _scores(greedy), SAMPLED: _scores(best[1])}
    answers |= {BEST.format(n): _scores(best[n], best[1]) for n in PICKED}
    return TaskCard(
        title=task.title,
        task_sha256=task.hash,
        trained=plan.init is not None,
        splits={name: len(data.get(name, ())) or split.examples for name, split in task.data.splits.items()},
        lengths=on.lengths(),
        metrics=metrics | {HELD_OUT: tuple(name for name in metrics["preference"] if name not in optimised)},
        lazy=tuple(lazy),
        answers=answers | ({} if reference is None else {ORACLE: _scores(reference, greedy)}),
        late=_scores(best[PICKED[-1]], best[LATE]).gains,
        frontier=curve,
        signal=signal,
        seconds={"answer": (clock[1] - clock[0]) / values.size, "reward": (clock[2] - clock[1]) / values.size},
        missing=tuple(unavailable(task)),
    )


def _scores(worths: Mapping[str, Worth], start: Mapping[str, Worth] | None = None) -> AnswerScores:
    """Return what answers get, and their gains over the start's with Student's interval over examples."""
    gains = {}
    for name in FIGURES:
        if start is not None and name in worths and name in start:
            gain, error = worths[name].gain_on(start[name])
            half = student_t_quantile(0.975, len(worths[name].values) - 1) * (error or 0.0)
            gains[name] = Interval(gain - half, gain + half)
    return AnswerScores({name: worths[name].score for name in FIGURES if name in worths}, gains)


@dataclass(frozen=True, slots=True)
class _On:
    """The examples, and what answers to them are scored by."""

    task: Task
    system: System
    examples: Sequence[Example]
    reward: Reward
    optimised: frozenset[str]
    prepare: Prepare

    def worths(self, answered: Answered) -> dict[str, Worth]:
        """Return what each example is worth to those of `FIGURES` that can be computed."""
        predictions, rewards = answered
        _, worths = worths_of(self.task, self.examples, predictions, self.optimised, self.prepare)
        known = any(value is not None for value in rewards)
        return worths | ({REWARD: worth_of_mean(rewards)} if known else {})

    def greedy(self) -> Answered:
        """Return the start's likeliest answers."""
        decoding = self.task.decoding
        settings = Generation(decoding.max_new_tokens, decoding.min_new_tokens, stop=decoding.stop)
        found: dict[str, Response] = {}
        for batch in batches_left(self.examples, (), frontier.BATCH):
            responses = respond(self.system.loaded, self.task, batch, settings, self.system.seed)
            found |= {example.id: response for example, response in zip(batch, responses, strict=True)}
        responses = [found[example.id] for example in self.examples]
        return as_predictions(self.examples, responses), self.reward(self.examples, **reward_inputs(responses), step=0)

    def lazy(self, train: Sequence[Example], moved: Moved) -> Iterator[tuple[str, Answered]]:
        """Yield what needs no learning, and the oracle, by name; equal answers once."""
        names = [EMPTY, "null", "copy", "lead", *lookups_of(self.task), ORACLE]
        if not any(example.references for example in train):
            names = [name for name in names if name not in READING]
        if not all(example.references for example in self.examples):
            names.remove(ORACLE)
        seen: list[list[str]] = []
        for done, name in enumerate(names, start=1):
            texts = [""] * len(self.examples)
            if name != EMPTY:
                system = baseline_system(self.task, name, self.system.seed)
                texts = [one.text for one in answer_without_model(self.task, system, self.examples, train)]
            if texts not in seen:
                seen.append(texts)
                inputs = {"token_ids": self.ids(texts), "truncated": [False] * len(texts), "step": 0}
                predictions = [Prediction(example.id, text) for example, text in zip(self.examples, texts, strict=True)]
                yield name, (predictions, self.reward(self.examples, texts, **inputs))
            moved(done, len(names))

    def picked(self, drawn: Sequence[Sequence[Response]], values: FloatArray, n: int) -> Answered:
        """Return the best of n of the samples, one for each group of n."""
        groups = values.shape[1] // n
        grouped = values[:, : groups * n].reshape(len(values), groups, n)
        places = grouped.argmax(axis=2) + n * np.arange(groups)  # [P, groups]
        draws = [[of_one[place] for of_one, place in zip(drawn, column, strict=True)] for column in places.T]
        return as_predictions(self.examples, *draws), grouped.max(axis=2).mean(axis=1).tolist()

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return texts as the start would have written them, with the end token."""
        model, tokenizer = self.system.loaded
        return target_ids(tokenizer, end_ids(model, eos_id(model, tokenizer)), is_seq2seq(model), texts)

    def lengths(self) -> dict[str, tuple[float, int, float]]:
        """Return `TaskCard.lengths`."""
        prompts = self.system.loaded[1]([example.prompt for example in self.examples], verbose=False)["input_ids"]
        references = self.ids([text for example in self.examples for text in example.references])
        limits = {"prompt": self.task.prompt.max_tokens, "reference": self.task.rollout.max_new_tokens}
        counts = {"prompt": [*map(len, prompts)], "reference": [*map(len, references)]}
        return {
            kind: (fmean(each), limits[kind], fmean(count > limits[kind] for count in each))
            for kind, each in counts.items()
            if each
        }
