"""The frontier of a start on a task: samples to its training prompts, rewarded, and what could be made of them.

A reward that reads no reference can be reached by a policy, so that its frontier is a bound on what training can do at
a KL. A reward that compares with references cannot: no policy sees the references of a prompt, and weights that do are
an oracle's. Two curves are then given besides. With several references to an example, weights follow from one half of
them and are judged by the other (cross-fitted); with one, from the agreement with other samples (minimum Bayes risk),
judged by the reference. What a policy can reach is near those.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from grue.errors import ConfigError, DataError
from grue.evaluation.best_of import is_oracle, sample_seed, shown
from grue.evaluation.evaluate import System
from grue.evaluation.rewards import Reward, make_reward
from grue.lm.forward import encode
from grue.lm.model import eos_id, is_seq2seq
from grue.lm.sampling import sample_responses
from grue.lm.seeds import example_uniforms
from grue.lm.tokens import decode_responses, encode_prompts
from grue.records import Example
from grue.stats.frontier import FloatArray, FrontierPoint, best_of, tilted
from grue.tasks import Task

BATCH = 64
AS_REFERENCES = 8
"""Samples that stand in for references where there is one reference only; they are not among those weighted."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """What a start could be made on a task, at each KL.

    Attributes:
        reward: The expression that was rewarded.
        samples: Drawn for each of `prompts` prompts of `split`.
        temperature: Of the sampler; what the KL is measured from is the start at it.
        error: Standard error of the start's mean reward, over prompts; None from a single one.
        optimal: The best policy at a KL, by the reward itself.
        oracle: Whether the reward reads references: `optimal` is then beyond every policy.
        attainable: The same, weighted by what a policy could know; None where `optimal` can be reached.
        how: "cross-fitted" or "minimum Bayes risk", of `attainable`.
        best_of: k → keeping the best of k samples by the reward.
    """

    suite: str
    task: str
    start: str
    split: str
    reward: str
    prompts: int
    samples: int
    temperature: float
    error: float | None
    optimal: tuple[FrontierPoint, ...]
    oracle: bool
    attainable: tuple[FrontierPoint, ...] | None
    how: str | None
    best_of: dict[int, FrontierPoint]


def measure(
    task: Task,
    system: System,
    examples: Sequence[Example],
    split: str,
    *,
    reward: str,
    samples: int,
    temperature: float,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Frontier:
    """Draw samples of a start and return its frontier.

    Args:
        examples: Prompts of `split`.
        reward: As for training; a function sees examples without references, as in best-of-n.
        samples: To each prompt; 8 at least, and as many more where some stand in for references.
        temperature: Of the sampler; other settings are those of the task's rollouts.

    Raises:
        ConfigError: The start has no model, or the reward cannot be read.
        DataError: There are no examples, too few samples, or a reward is not finite.
    """
    if not examples:
        raise DataError(f"The split {split!r} of {task.name} has no examples to sample for.")
    function = make_reward(reward, task, examples)
    drawn = draw(task, system, examples, samples, temperature, progress)
    oracle = is_oracle(reward)
    values = rewarded(function, examples if oracle else list(map(shown, examples)), drawn)
    several = all(len(example.references) > 1 for example in examples)
    attainable = None
    if oracle:
        attainable = cross_fitted(function, examples, drawn) if several else by_consensus(function, examples, drawn)
    return Frontier(
        suite=task.suite,
        task=task.name,
        start=system.weights,
        split=split,
        reward=reward,
        prompts=len(examples),
        samples=samples,
        temperature=temperature,
        error=float(values.mean(axis=1).std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None,
        optimal=tuple(tilted(values)),
        oracle=oracle,
        attainable=None if attainable is None else tuple(attainable),
        how=None if attainable is None else "cross-fitted" if several else "minimum Bayes risk",
        best_of=best_of(values),
    )


@dataclass(frozen=True, slots=True)
class Drawn:
    """A sampled response: its text, the ids it was drawn as, and whether it never ended."""

    text: str
    token_ids: tuple[int, ...]
    truncated: bool


@torch.no_grad()
def draw(
    task: Task,
    system: System,
    examples: Sequence[Example],
    samples: int,
    temperature: float,
    progress: Callable[[int, int], None],
) -> list[list[Drawn]]:
    """Return so many sampled responses to each prompt, as training would sample them."""
    model, tokenizer = system.model, system.tokenizer
    if model is None or tokenizer is None:
        raise ConfigError(f"{system.name} has no model to draw samples from; give a checkpoint or zero-shot.")
    settings, eos = replace(task.rollout, temperature=temperature), eos_id(model, tokenizer)
    found: list[list[Drawn]] = [[] for _ in examples]
    for begin in range(0, len(examples), BATCH):
        batch = examples[begin : begin + BATCH]
        prompts = encode_prompts(model, tokenizer, [example.prompt for example in batch], task.prompt)
        encoded = encode(model, prompts) if is_seq2seq(model) else None
        for number in range(samples):
            uniforms = example_uniforms(sample_seed(system.seed, number), batch, settings.max_new_tokens)
            rollout = sample_responses(model, prompts, settings, uniforms, eos, encoded=encoded)
            texts, ids = decode_responses(tokenizer, rollout.responses), map(tuple, rollout.responses.lists())
            for place, drawn in enumerate(zip(texts, ids, rollout.truncated.tolist(), strict=True)):
                found[begin + place].append(Drawn(*drawn))
            progress(begin * samples + (number + 1) * len(batch), len(examples) * samples)
    return found


def rewarded(function: Reward, examples: Sequence[Example], drawn: Sequence[Sequence[Drawn]]) -> FloatArray:
    """Return the reward of each example's responses, [P, n].

    Raises:
        DataError: It does not apply to one of them.
    """
    pairs = [(example, one) for example, some in zip(examples, drawn, strict=True) for one in some]
    values = function(
        [example for example, _ in pairs],
        [one.text for _, one in pairs],
        token_ids=[one.token_ids for _, one in pairs],
        truncated=[one.truncated for _, one in pairs],
        step=0,
    )
    for (example, one), value in zip(pairs, values, strict=True):
        if value is None:
            raise DataError(
                f"The reward does not apply (None) to a response to the example {example.id!r}, and a frontier needs a "
                f"number for each. The text was {one.text[:80]!r}."
            )
    return np.array(values, dtype=np.float64).reshape(len(examples), -1)


def cross_fitted(
    function: Reward, examples: Sequence[Example], drawn: Sequence[Sequence[Drawn]]
) -> list[FrontierPoint]:
    """Return the frontier whose weights know one half of the references and whose rewards the other, both ways."""
    halves = [
        rewarded(function, [replace(example, references=example.references[side::2]) for example in examples], drawn)
        for side in (0, 1)
    ]
    ways = [tilted(halves[0], halves[1]), tilted(halves[1], halves[0])]
    return [FrontierPoint((a.kl + b.kl) / 2, (a.reward + b.reward) / 2) for a, b in zip(*ways, strict=False)]


def by_consensus(
    function: Reward, examples: Sequence[Example], drawn: Sequence[Sequence[Drawn]]
) -> list[FrontierPoint]:
    """Return the frontier whose weights know other samples in place of references, and whose rewards the references."""
    instead = [
        replace(example, references=tuple(one.text for one in some[:AS_REFERENCES]))
        for example, some in zip(examples, drawn, strict=True)
    ]
    weighted = [some[AS_REFERENCES:] for some in drawn]
    return tilted(rewarded(function, instead, weighted), rewarded(function, examples, weighted))
