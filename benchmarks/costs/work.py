"""The work of a run, counted from its task file and its configuration: which passes, how many, how large.

It follows `grue.rl`: `rollout` samples all rollouts of an update at once, `experience` scores them in
micro-batches, `improve` steps through minibatches, `run` validates, `evaluate` answers the split that is compared.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from costs.flops import (
    FISHER,
    TRAIN,
    Architecture,
    architecture,
    cache_bytes,
    forward_flops,
    layers_flops,
    prefill_flops,
    step_flops,
)
from costs.lengths import Lengths, drawn, longest, mean

from grue.rl.settings import (
    A2CConfig,
    ActorCriticConfig,
    Common,
    NLPOConfig,
    RolloutConfig,
    SupervisedConfig,
    TRPOConfig,
)
from grue.runs.recipes import make_config
from grue.tasks import Generation, Task

EVALUATION_BATCH = 64  # of `grue evaluate`
METRIC_BATCH = 32  # of every metric that asks a model
FLOAT, HALF = 4, 2  # bytes; weights are float32 also where bfloat16 multiplies, what is computed from them is not
OPTIMISER = (
    32 // FLOAT
)  # floats a weight: AdamW reads weight, gradient and two moments, writes three; clipping reads one
SECOND_TRIES = 2  # line searches of TRPO that are expected

# Pairs of prompt and reference of the training splits, where they are not the split's rows times its share. IMDB learns
# from good reviews only; NarrativeQA has two answers a question, some of them alike; DailyDialog's rows are dialogues.
PAIRS = {"imdb": 10_000, "narrativeqa": 60_000, "dailydialog": 35_000}


@dataclass(frozen=True, slots=True)
class Pass:
    """Passes that are alike.

    Attributes:
        phase: What they are for: "generation", "scoring", "update", "reward", "validation", "metrics", "evaluation".
        kind: What the host does for one, by which its seconds are known; empty for nothing.
        count: How many.
        flops: Of one.
        bytes: Of one: weights, caches and moments that it reads and writes.
        half: Whether it runs in the configuration's precision; evaluation and metrics are float32.
        seconds: Of one core, for what no model does.
    """

    phase: str
    kind: str
    count: float
    flops: float = 0.0
    bytes: float = 0.0
    half: bool = True
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Run:
    """A job of the sweep with all that decides its cost."""

    task: Task
    algorithm: str
    lengths: Lengths

    @property
    def model(self) -> Architecture:
        """The backbone's shape."""
        return architecture(self.task.backbone.model)

    @property
    def config(self) -> Common:
        """The configuration of its last stage; that of a warm start is another job's."""
        return make_config(self.task, self.algorithm, {})

    @property
    def trains(self) -> bool:
        """Whether it is more than an evaluation."""
        return self.algorithm != "zero-shot"


def work_of(run: Run) -> list[Pass]:
    """Return the passes of training, if there is any, and of the evaluation behind it."""
    passes: list[Pass] = []
    if run.trains:
        learn = supervised if isinstance(run.config, SupervisedConfig) else reinforced
        passes += [*learn(run), *validations(run)]
    examples = run.task.data.splits[run.task.data.evaluation].examples
    passes += answers(run, "evaluation", examples, EVALUATION_BATCH, half=False)
    return [*passes, *metrics(run, examples, 1)]


# --- training --------------------------------------------------------------------------------------------------------


def training_pairs(task: Task) -> int:
    """Return how many pairs of prompt and reference there are to learn from."""
    split = task.data.splits["train"]
    return PAIRS.get(task.name) or round(split.rows * (split.end - split.begin))


def supervised(run: Run) -> Iterator[Pass]:
    """Yield the steps of maximum likelihood, a padded batch each."""
    config, model, lengths = run.config, run.model, run.lengths
    assert isinstance(config, SupervisedConfig)
    steps = config.epochs * ceil(training_pairs(run.task) / config.batch_size)
    rows = min(config.batch_size, config.micro_batch_size)
    flops = forward_flops(model, longest(lengths.prompt, rows), longest(lengths.response, rows))
    yield learning(model, steps * ceil(config.batch_size / rows), rows * flops, "train")
    yield optimising(model, steps)


def reinforced(run: Run) -> Iterator[Pass]:
    """Yield an algorithm's passes: sampling, rewarding, scoring, learning."""
    config = run.config
    assert isinstance(config, RolloutConfig)
    yield from sampling(run, config)
    yield from rewards(run, config.updates * config.rollouts)
    models = scored_models(config)
    rows = min(config.rollouts, config.micro_batch_size)
    passes = config.updates * ceil(config.rollouts / rows)
    for head in models:
        # Micro-batches hold similar lengths, so that nearly nothing is padding where there are several.
        flops = rows * sequence_flops(run, rows if passes == config.updates else 1, head)
        yield Pass("scoring", f"{run.model.kind} forward", passes, flops, run.model.parameters * FLOAT)
    yield from trust_region(run, config) if isinstance(config, TRPOConfig) else clipped(run, config)


def sequence_flops(run: Run, padded_to: float, head: bool = True) -> float:
    """Return the FLOPs of one sequence of a batch padded to the longest of some."""
    response = longest(drawn(run.task, run.lengths), padded_to)
    return forward_flops(run.model, longest(run.lengths.prompt, padded_to), response, head)


def scored_models(config: RolloutConfig) -> list[bool]:
    """Return, for every model that scores a rollout, whether it runs its head: policy, reference, critic."""
    separate = isinstance(config, ActorCriticConfig) and config.value_model == "separate"
    return [True, True, *([False] if separate else [])]


def sampling(run: Run, config: RolloutConfig) -> Iterator[Pass]:
    """Yield reading the prompts, and drawing up to the limit, which one of many responses nearly always meets."""
    models = 1.0
    if isinstance(config, NLPOConfig) and config.mask != "top_k":
        # A masking policy that was just refreshed is the policy, and does not run beside it.
        refreshed = 1 / config.mask_updates if config.mask_source == "periodic" else 1 / config.updates
        models += 1.0 - refreshed
    yield from decoding(run, "generation", config.updates * models, config.rollouts, run.task.rollout, half=True)


def clipped(run: Run, config: RolloutConfig) -> Iterator[Pass]:
    """Yield epochs of minibatches, in which policy and critic learn; A2C takes one step on everything."""
    whole = isinstance(config, A2CConfig)
    size = config.rollouts if whole else config.minibatch_size
    steps = config.updates * (1 if whole else config.epochs * ceil(config.rollouts / size))
    rows = min(size, config.micro_batch_size)
    for head in scored_models(config)[1:]:  # all but the reference learn
        flops = rows * sequence_flops(run, rows, head)
        yield learning(run.model, steps * ceil(size / rows), flops, "train")
        yield optimising(run.model, steps)


def trust_region(run: Run, config: TRPOConfig) -> Iterator[Pass]:
    """Yield TRPO's gradient, its products with the Fisher matrix, its line search, and the critic's epochs."""
    rows = min(config.rollouts, config.micro_batch_size)
    parts = config.updates * ceil(config.rollouts / rows)
    flops = rows * sequence_flops(run, rows)
    yield learning(run.model, parts, flops, "train")
    product = replace(learning(run.model, parts * config.cg_steps, flops, "train"), flops=FISHER * flops)
    yield product
    tries = 2 * parts * SECOND_TRIES  # the policy before and after, each time
    yield Pass("update", f"{run.model.kind} forward", tries, flops, run.model.parameters * FLOAT)
    steps = config.updates * config.critic_epochs * ceil(config.rollouts / config.minibatch_size)
    rows = min(config.minibatch_size, config.micro_batch_size)
    yield learning(run.model, steps, rows * sequence_flops(run, rows, head=False), "train")
    yield optimising(run.model, steps)


def learning(model: Architecture, count: float, flops: float, kind: str) -> Pass:
    """Return forward and backward passes: weights are read three times, gradients written."""
    return Pass("update", f"{model.kind} {kind}", count, TRAIN * flops, 4 * model.parameters * FLOAT)


def optimising(model: Architecture, steps: float) -> Pass:
    """Return the optimiser's steps on one model; the host's part of them is in the pass that learns."""
    return Pass("update", "", steps, bytes=OPTIMISER * model.parameters * FLOAT)


# --- answering and scoring -------------------------------------------------------------------------------------------


def validations(run: Run) -> Iterator[Pass]:
    """Yield the answers to the validation examples, before the first update and every few after, and their scores."""
    config = run.config
    total = config.updates if isinstance(config, RolloutConfig) else config.epochs  # type: ignore[attr-defined]
    times = 1 + ceil(total / config.validate_every)
    examples = config.validation_examples
    for one in answers(run, "validation", examples, config.micro_batch_size, half=True):
        yield replace(one, count=times * one.count)
    yield from (replace(one, phase="validation metrics") for one in metrics(run, examples, times))
    yield from (replace(one, phase="validation metrics") for one in rewards(run, examples * times))


def answers(run: Run, phase: str, examples: int, batch: int, half: bool) -> Iterator[Pass]:
    """Yield the decoding of some examples in batches."""
    rows = min(examples, batch)
    yield from decoding(run, phase, ceil(examples / rows), rows, run.task.decoding, half)


def decoding(run: Run, phase: str, batches: float, rows: int, settings: Generation, half: bool) -> Iterator[Pass]:
    """Yield the passes of batches that are decoded to the limit: over the prompts, then token by token."""
    model, prompt, steps = run.model, longest(run.lengths.prompt, rows), settings.max_new_tokens
    yield Pass(phase, f"{model.kind} forward", batches, rows * prefill_flops(model, prompt), half=half)
    beams = settings.num_beams
    # A sampler copies the response's cache where it grows; a beam search copies all of it where beams change places.
    copied = 3 * (prompt + steps / 2) if beams > 1 else prompt + 3 * steps / 2
    yield Pass(
        phase,
        f"{model.kind} {'beam' if beams > 1 else 'decode'}",
        batches * steps,
        rows * beams * step_flops(model, prompt, steps / 2),
        model.stepped * FLOAT + rows * beams * cache_bytes(model, copied, HALF if half else FLOAT),
        half,
    )


def rewards(run: Run, texts: int) -> Iterator[Pass]:
    """Yield what a reward takes: the model that it asks, and one core for the rest."""
    for metric in run.task.metrics:
        if metric.name in run.task.reward and "model" in metric.options:
            yield from asked(run, metric.name, str(metric.options["model"]), metric.options, texts, "reward", 1)
    yield Pass("reward", "", texts, seconds=run.lengths.reward)


def metrics(run: Run, examples: int, times: int) -> Iterator[Pass]:
    """Yield what the task's metrics take."""
    for metric in run.task.metrics:
        if "model" in metric.options:
            model = str(metric.options["model"])
            yield from asked(run, metric.name, model, metric.options, examples * times, "metrics", times)
    yield Pass("metrics", "", examples * times, seconds=run.lengths.words)


def asked(
    run: Run, metric: str, name: str, options: Mapping[str, object], texts: int, phase: str, times: int
) -> Iterator[Pass]:
    """Yield the passes of a model over what a metric shows it, in batches."""
    model = architecture(name)
    model = replace(model, layers=int(str(options.get("layer", model.layers))))
    inputs, tokens = shown(run, metric)
    if metric == "bertscore":  # references are embedded once, texts every time
        inputs = 1.0 + run.lengths.references / times
    batches = ceil(texts * inputs / METRIC_BATCH)
    flops = METRIC_BATCH * layers_flops(model, tokens)
    yield Pass(phase, f"layers {model.layers}", batches, flops, model.parameters * FLOAT, half=False)


def shown(run: Run, metric: str) -> tuple[float, float]:
    """Return how many inputs a metric makes of a text, and their tokens."""
    prompt, response = mean(run.lengths.prompt), mean(drawn(run.task, run.lengths))
    if metric == "summac":
        return run.lengths.pairs, run.lengths.pair
    if metric == "bleurt":
        return run.lengths.references, 2 * response
    if metric == "bertscore":
        return 1.0, response
    return 1.0, prompt + response  # sentiment, perplexity; of intent an upper bound: it reads the last utterance


# --- memory ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that a run has on its device.

    Attributes:
        training: Weights, gradients, moments, frozen copies, scorers, and the activations of a micro-batch.
        sampling: The same weights, and the caches of all rollouts.
        evaluation: Weights, scorers, and the caches of a batch with its beams.
    """

    training: float
    sampling: float
    evaluation: float


def memory_of(run: Run, evaluation_batch: int = EVALUATION_BATCH, half: bool = True) -> Memory:
    """Return what a run needs, at the limits of its task; kernels and fragments come on top."""
    model, task = run.model, run.task
    prompt, response = task.prompt.max_tokens, task.rollout.max_new_tokens
    scorers = sum(FLOAT * architecture(name).parameters for name in scorer_names(task))
    decoding = evaluation_batch * task.decoding.num_beams
    cached = cache_bytes(model, prompt + response, FLOAT)
    evaluation = FLOAT * model.parameters + scorers + decoding * (cached + 3 * FLOAT * model.vocabulary)
    if not run.trains:
        return Memory(0.0, 0.0, evaluation)
    config = run.config
    learn = scored_models(config)[1:] if isinstance(config, RolloutConfig) else [True]
    size = config.minibatch_size if isinstance(config, RolloutConfig) else config.batch_size  # type: ignore[attr-defined]
    rows = min(size, config.micro_batch_size)
    held = 4 * FLOAT * len(learn) * model.parameters + scorers  # weights, gradients and two moments
    frozen = 0
    if isinstance(config, RolloutConfig):
        frozen = 2 if isinstance(config, NLPOConfig) else 1
    held += frozen * FLOAT * model.parameters
    training = held + rows * sum(activations(model, prompt, response, head, half) for head in learn)
    if not isinstance(config, RolloutConfig):
        return Memory(training, 0.0, evaluation)
    together = 1 + (frozen == 2)
    logits = 6 * FLOAT * model.vocabulary  # the sampler sorts them
    return Memory(training, held + config.rollouts * together * (cached / (2 if half else 1) + logits), evaluation)


def scorer_names(task: Task) -> Sequence[str]:
    """Return the models that a task's metrics ask."""
    return sorted({str(metric.options["model"]) for metric in task.metrics if "model" in metric.options})


def activations(model: Architecture, prompt: int, response: int, head: bool, half: bool = True) -> float:
    """Return the bytes that one sequence keeps for its backward pass.

    34 bytes a token, layer and unit of width in 16 bits without attention's scores, twice that in 32 (Korthikanti et
    al. 2022, §4); of a decoder with cross-attention half as much again. Logits and their gradients are float32.
    """
    tokens = prompt + (response if model.kind == "causal" else 1.5 * response)
    logits = 3 * FLOAT * response * model.vocabulary if head else 0.0
    return tokens * model.layers * model.width * (34 if half else 68) + logits


def learning_bytes(model: Architecture, prompt: int, response: int, rows: int) -> float:
    """Return the bytes of PPO's update with a critic of its own and float32: what was measured beside it is a check."""
    held = 9 * FLOAT * model.parameters  # twice weights, gradients and two moments, and the reference
    return held + rows * sum(activations(model, prompt, response, head, half=False) for head in (True, False))
