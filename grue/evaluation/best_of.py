"""Best of n: draw several responses to every prompt and keep one, by its likelihood or by a reward.

Sample 0 is the one that decoding by sampling gives; the others draw from seeds of their own, so that no sample depends
on how many are drawn or on what else is in the batch. A reward that compares with references picks with knowledge that
no system has: it is an oracle, a bound on what picking could achieve, and is labelled so wherever it appears.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from transformers import PreTrainedModel

from grue.errors import ConfigError
from grue.evaluation.predict import Response, Spent, as_predictions, as_responses, reward_inputs
from grue.evaluation.rewards import REWARDS, make_reward, parse_reward
from grue.lm import distributions
from grue.lm.constraints import find_stops
from grue.lm.forward import encode, forward
from grue.lm.load import LoadedModel
from grue.lm.model import eos_id, is_seq2seq
from grue.lm.sampling import Guide, Rollout, sample_responses
from grue.lm.seeds import example_uniforms, sample_seed
from grue.lm.tokens import Tokens, encode_prompts
from grue.lookups.consensus import most_central
from grue.metrics.card import CARDS, MODEL
from grue.metrics.registry import METRICS, is_metric
from grue.records import CONSENSUS, LIKELIHOOD, Example, Prediction
from grue.tasks import Generation, Task

OF_THE_REFERENCE = ("intent", "emotion", "label", "facts")  # keys of examples' meta that describe the reference

Judge = Callable[[Rollout, Sequence[Example], Sequence[Response]], Sequence[float]]
"""A rollout, its examples and its responses → a value for each response; the highest is kept."""
Worth = Callable[[Sequence[Example], Sequence[Response]], list[float]]
"""Examples and a response to each → their values; −inf where the reward does not apply."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What is answered at once.

    Attributes:
        prompts: [B, P].
        encoded: [B, P, H], the encoder's states of the guided model; None if it has no encoder.
        number: Which of several responses to each prompt is drawn.
    """

    examples: Sequence[Example]
    prompts: Tokens
    encoded: Tensor | None
    number: int


Guides = Callable[[Batch], Guide]


@dataclass(frozen=True, slots=True)
class BestOf:
    """How many responses are drawn to each prompt, and how one is picked.

    Attributes:
        n: Responses drawn.
        pick_by: "likelihood", the mean log-likelihood of a token under the sampler's distribution; "consensus", the
            agreement with the other responses (minimum Bayes risk); or a reward.
        oracle: Whether that reward reads references or descriptions of them.
        name: Suffix of a system's name: "best-of-8", "best-of-8-oracle".
    """

    n: int
    pick_by: str
    oracle: bool
    name: str


def choose_best_of(task: Task, n: int, pick_by: str | None = None) -> BestOf:
    """Return how to pick the best of n on a task: by the task's reward unless it is an oracle, else by likelihood."""
    if n < 2:
        raise ConfigError(f"Best of {n}: there is nothing to pick from; draw at least 2 samples.")
    default = LIKELIHOOD if is_oracle(task.reward) else task.reward
    chosen = default if pick_by is None else pick_by
    oracle = is_oracle(chosen)
    name = f"best-of-{n}{'-oracle' if oracle else ''}"
    if chosen not in (default, task.reward):
        name += "-by-" + re.sub(r"[^A-Za-z0-9_.]+", "-", chosen).strip("-")
    return BestOf(n, chosen, oracle, name)


def is_oracle(pick_by: str) -> bool:
    """Whether a rule reads references or descriptions of them, which a user's functions do not get.

    A metric's card states it; one without a card is assumed to.
    """
    return pick_by not in (LIKELIHOOD, CONSENSUS) and any(_hidden(name) for _, name in parse_reward(pick_by))


def reads_descriptions(reward: str, examples: Sequence[Example]) -> bool:
    """Whether a reward reads what some examples' meta says of the reference, which other references do not change."""
    read = set[str]().union(*(_hidden(name) for _, name in parse_reward(reward)))
    return any(f"meta.{key}" in read for example in examples for key in example.meta)


def _hidden(name: str) -> set[str]:
    """Return what a term reads that systems do not see: "references", "meta.intent"."""
    hidden = {"references", *(f"meta.{key}" for key in OF_THE_REFERENCE)}
    name = "model" if name.startswith(MODEL) else name
    if name in CARDS:
        return hidden.intersection(CARDS[name].terms)
    if name not in REWARDS and not is_metric(name) and ":" not in name:
        METRICS[name]  # raises UnknownName
    return hidden if is_metric(name) else set()


def without_references(example: Example) -> Example:
    """Return an example as the system that answers it may see it, without references and descriptions of them."""
    meta = {key: value for key, value in example.meta.items() if key not in OF_THE_REFERENCE}
    return replace(example, references=(), meta=meta)


def sampling(task: Task) -> Generation:
    """Return the settings that samples are drawn with: the task's decoding if it samples, else those of rollouts."""
    return replace(task.decoding, samples=1) if task.decoding.do_sample else task.rollout


def make_judge(
    best_of: BestOf, task: Task, model: PreTrainedModel, examples: Sequence[Example], spent: Spent | None = None
) -> Judge | None:
    """Return the function that values responses; None for consensus, where they are judged by each other.

    A response that the reward does not apply to is kept only if it applies to none.

    Args:
        examples: Those to be answered; metrics are prepared on them, without references unless it is an oracle.
    """
    if best_of.pick_by == CONSENSUS:
        return None
    if best_of.pick_by == LIKELIHOOD:
        return lambda rollout, examples, responses: likelihoods(model, rollout, sampling(task).temperature)
    worth = make_worth(best_of.pick_by, best_of.oracle, task, examples, spent)
    return lambda rollout, examples, responses: worth(examples, responses)


def make_worth(reward: str, oracle: bool, task: Task, examples: Sequence[Example], spent: Spent | None = None) -> Worth:
    """Return the function that values responses by a reward; arguments as in `make_judge`."""
    see: Callable[[Example], Example] = (lambda example: example) if oracle else without_references
    function = make_reward(reward, task, list(map(see, examples)))

    def worth(examples: Sequence[Example], responses: Sequence[Response]) -> list[float]:
        if spent is not None:
            spent.reward_calls += len(responses)
        values = function(list(map(see, examples)), **reward_inputs(responses))
        return [-math.inf if value is None else value for value in values]

    return worth


@torch.no_grad()
def likelihoods(model: PreTrainedModel, rollout: Rollout, temperature: float) -> list[float]:
    """Return the mean log-likelihood of each response's tokens and end, in nats over the sampler's support."""
    responses = rollout.responses
    logits, _ = forward(model, rollout.prompts, responses, encoded=rollout.encoded)
    support = rollout.open_vocabulary(torch.arange(len(responses.ids)), responses.ids.shape[1], logits.shape[-1])
    log_probs = distributions.log_probs(logits.float() / temperature, responses.ids, support)
    means = log_probs.masked_fill(~responses.mask, 0.0).sum(1) / responses.mask.sum(1)
    values: list[float] = means.tolist()
    return values


@torch.no_grad()
def predict_best_of(
    loaded: LoadedModel,
    task: Task,
    examples: Sequence[Example],
    seed: int,
    n: int,
    judge: Judge | None,
    spent: Spent | None = None,
) -> list[Prediction]:
    """Answer a batch of examples with the best of n samples each; among equals, the first."""
    drawn: list[list[Prediction]] = []
    worth: list[Sequence[float]] = []
    for rollout, responses in draws(loaded, task, examples, sampling(task), seed, n):
        drawn.append(as_predictions(examples, responses))
        if judge is not None:
            worth.append(judge(rollout, examples, responses))
        if spent is not None:
            spent.tokens += int(rollout.responses.mask.sum())
    if spent is not None:
        spent.answers += len(examples)
    of_each = list(zip(*drawn, strict=True))
    if judge is None:
        return [responses[most_central([response.text for response in responses])] for responses in of_each]
    values = list(zip(*worth, strict=True))
    return [responses[row.index(max(row))] for responses, row in zip(of_each, values, strict=True)]


@torch.no_grad()
def draws(
    loaded: LoadedModel,
    task: Task,
    examples: Sequence[Example],
    settings: Generation,
    seed: int,
    n: int,
    guides: Guides | None = None,
) -> Iterator[tuple[Rollout, list[Response]]]:
    """Yield n samples of a batch: its rollout, and the response to each of its prompts.

    A response depends only on seed, example id and number, not on its batch or on how many are drawn.
    """
    model, tokenizer = loaded
    eos, stops = eos_id(model, tokenizer), find_stops(tokenizer, settings.stop)
    prompts = encode_prompts(model, tokenizer, [example.prompt for example in examples], task.prompt)
    encoded = encode(model, prompts) if is_seq2seq(model) else None
    for number in range(n):
        uniforms = example_uniforms(sample_seed(seed, number), examples, settings.max_new_tokens)
        guide = None if guides is None else guides(Batch(examples, prompts, encoded, number))
        rollout = sample_responses(model, prompts, settings, uniforms, eos, encoded=encoded, stops=stops, guide=guide)
        yield rollout, as_responses(tokenizer, rollout.responses, rollout.truncated, settings.stop)
