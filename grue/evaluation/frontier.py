"""The frontier of a start on a task: the best mean reward at each KL, estimated from rewarded samples.

For a reward that reads no reference, the frontier bounds what training can reach at a KL. For a reward that compares
with references, no policy can reach it: weights that see the references of a prompt are an oracle's. A second curve is
then given, close to what a policy can reach. With several references to an example, the weights follow from one half of
them and are judged by the other (cross-fitted); with one, they follow from the agreement with other samples (minimum
Bayes risk) and are judged by the reference.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from grue import files
from grue.errors import ConfigError, DataError
from grue.evaluation.best_of import draws, is_oracle, reads_descriptions, without_references
from grue.evaluation.comparison import standard_error
from grue.evaluation.predict import Response, plain_sampling, reward_inputs
from grue.evaluation.rewards import Reward, make_reward
from grue.evaluation.systems import System, require_plain
from grue.lm.checkpoint import find_checkpoint, read_manifest
from grue.records import Example
from grue.stats.frontier import FEWEST, FrontierPoint, best_of, share_of_gain, tilted
from grue.stats.intervals import FloatArray
from grue.tasks import Task

BATCH = 64
AS_REFERENCES = 8
"""Samples that stand in for references if there is only one reference; they are not weighted."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """What training could make of a start on a task, at each KL.

    Attributes:
        reward: The expression that was rewarded.
        samples: Number drawn for each of `prompts` prompts of `split`.
        temperature: Of the sampler; the KL is measured from the start at this temperature.
        error: Standard error of the start's mean reward, over prompts; None from a single one.
        optimal: The best policy at a KL, by the reward itself.
        oracle: Whether the reward reads references: no policy then reaches `optimal`.
        attainable: The same, weighted by what a policy could know; None if `optimal` can be reached, and if the reward
            reads what the examples' meta says of the reference (DailyDialog's act), which the weights would then know.
        how: "cross-fitted" or "minimum Bayes risk", of `attainable`.
        best_of: k → keeping the best of k samples by the reward; k is a string, as JSON has it.
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
    best_of: Mapping[str, FrontierPoint]

    @property
    def curve(self) -> tuple[FrontierPoint, ...]:
        """The curve that runs are compared with."""
        return self.attainable or self.optimal


@dataclass(frozen=True, slots=True)
class Placed:
    """A run on a frontier.

    Attributes:
        update: The update that is placed.
        kl: From the start, nats a response.
        gain: Gain in mean reward over the start. Both are of plain samples to the run's validation prompts.
        share: Share of what could be gained at that KL; None beyond the curve, or if nothing can be gained.
        path: (KL, gain) after each validation, the start's first.
    """

    run: str
    update: int
    kl: float
    gain: float
    share: float | None
    path: tuple[FrontierPoint, ...]


def measure(
    task: Task,
    system: System,
    examples: Sequence[Example],
    split: str,
    *,
    train: Sequence[Example],
    reward: str,
    samples: int,
    temperature: float,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Frontier:
    """Draw samples of a start and return its frontier.

    Args:
        examples: Prompts of `split`.
        train: The training examples, on which the reward is prepared, as in training.
        reward: As for training; a function sees examples without references, as in best-of-n.
        samples: For each prompt; at least 8, and 8 more if some stand in for references.
        temperature: Of the sampler, which truncates nothing.
    """
    if not examples:
        raise DataError(f"The split {split!r} of {task.name} has no examples to sample for.")
    function = make_reward(reward, task, train)
    oracle = is_oracle(reward)
    check_samples(reward, examples, samples, oracle)
    drawn = draw(task, system, examples, samples, temperature, progress)
    values = rewards_of(function, examples if oracle else list(map(without_references, examples)), drawn)
    return of_samples(task, system, examples, split, drawn, values, function, reward, temperature, oracle)


def check_samples(reward: str, examples: Sequence[Example], samples: int, oracle: bool) -> None:
    """Refuse too few samples a prompt; some may have to stand in for references."""
    stand_in = oracle and not reads_descriptions(reward, examples) and not _several(examples)
    needed = FEWEST + (AS_REFERENCES if stand_in else 0)
    if samples < needed:
        apart = f", of which {AS_REFERENCES} stand in for references" if needed > FEWEST else ""
        raise DataError(f"{samples} samples a prompt are too few for a curve; draw {needed} at least{apart}.")


def of_samples(
    task: Task,
    system: System,
    examples: Sequence[Example],
    split: str,
    drawn: Sequence[Sequence[Response]],
    values: FloatArray,
    function: Reward,
    reward: str,
    temperature: float,
    oracle: bool,
) -> Frontier:
    """Return the frontier of samples that are drawn and rewarded already.

    Args:
        drawn: The responses to each example.
        values: Their rewards, [P, n].
        function: The reward, which the attainable curve asks again with other references.
        oracle: Whether it reads references.
    """
    attainable = None
    if oracle and not reads_descriptions(reward, examples):
        attainable = (cross_fitted if _several(examples) else by_consensus)(function, examples, drawn)
    return Frontier(
        suite=task.suite,
        task=task.name,
        start=system.weights,
        split=split,
        reward=reward,
        prompts=len(examples),
        samples=values.shape[1],
        temperature=temperature,
        error=standard_error(values.mean(axis=1)),
        optimal=tuple(tilted(values)),
        oracle=oracle,
        attainable=None if attainable is None else tuple(attainable),
        how=None if attainable is None else "cross-fitted" if _several(examples) else "minimum Bayes risk",
        best_of={str(k): point for k, point in best_of(values).items()},
    )


def _several(examples: Sequence[Example]) -> bool:
    return all(len(example.references) > 1 for example in examples)


def check_places_runs(split: str, temperature: float) -> None:
    """Refuse to place runs on a frontier whose samples differ from those of their validations."""
    if (split, temperature) != ("validation", 1.0):
        raise DataError(
            f"A frontier of the split {split} at temperature {temperature:g} places no run: runs log their KL and "
            "reward on validation prompts at temperature 1."
        )


def place(frontier: Frontier, run: Path, update: int | None = None) -> Placed:
    """Place a run from the frontier's start on it, by the log of its validations.

    Args:
        run: Its folder, or one of its checkpoints.
        update: The update to place. [default: the checkpoint's]
    """
    check_places_runs(frontier.split, frontier.temperature)
    folder = find_checkpoint(run)
    manifest, home = read_manifest(folder), folder.absolute().parent
    plan = files.read_toml(home / "config.toml")
    began = manifest.start or plan["backbone_weights"]
    if (manifest.suite, manifest.task, began) != (frontier.suite, frontier.task, frontier.start):
        raise DataError(f"{run}: not trained on {frontier.suite}/{frontier.task} from the start of the frontier.")
    if plan["reward"] != frontier.reward:
        raise DataError(f"{run}: trained with the reward {plan['reward']}; the frontier is of {frontier.reward}.")
    lines = {line["update"]: line for _, line in files.read_jsonl(home / "train.jsonl") if "validation/kl" in line}
    at = manifest.update if update is None else update
    if 0 not in lines:
        raise DataError(f"{run}: its validations have no KL; train it again with this version of grue.")
    if at not in lines:
        raise DataError(f"{run}: there was no validation after update {at}, so where it stands is not known.")
    path = {
        n: FrontierPoint(
            line["validation/kl"], line["validation/sampled_reward"] - lines[0]["validation/sampled_reward"]
        )
        for n, line in sorted(lines.items())
    }
    kl, gain = path[at].kl, path[at].reward
    share = share_of_gain(frontier.curve, kl, gain)
    return Placed(str(run), at, kl, gain, share, tuple(path.values()))


def with_frontier(system: System, path: Path, run: Path) -> System:
    """Return the system of a run's checkpoint with its share of a frontier, which `grue tools frontier -o` wrote."""
    if system.best_of or system.guided or "update" not in system.record:
        raise ConfigError(f"{system.name}: a frontier places checkpoints of runs as they are; leave --frontier out.")
    frontier = files.load_json(path, Frontier)
    placed = place(frontier, run, system.record["update"])
    record: dict[str, Any] = {"kl": placed.kl, "gain": placed.gain, "share": placed.share}
    record |= {"prompts": frontier.prompts, "samples": frontier.samples, "how": frontier.how or "reachable"}
    return replace(system, record={**system.record, "frontier": record})


@torch.no_grad()
def draw(
    task: Task,
    system: System,
    examples: Sequence[Example],
    samples: int,
    temperature: float,
    progress: Callable[[int, int], None],
) -> list[list[Response]]:
    """Return `samples` plain samples for each prompt."""
    require_plain(system)
    if system.model is None:
        raise ConfigError(f"{system.name} has no model to draw samples from; give a checkpoint or zero-shot.")
    settings = plain_sampling(task, temperature)
    drawn: list[list[Response]] = [[] for _ in examples]
    for begin in range(0, len(examples), BATCH):
        batch = examples[begin : begin + BATCH]
        for number, (_, responses) in enumerate(draws(system.loaded, task, batch, settings, system.seed, samples)):
            for place, response in enumerate(responses):
                drawn[begin + place].append(response)
            progress(begin * samples + (number + 1) * len(batch), len(examples) * samples)
    return drawn


def rewards_of(function: Reward, examples: Sequence[Example], drawn: Sequence[Sequence[Response]]) -> FloatArray:
    """Return the reward of each example's responses, [P, n]."""
    pairs = [(example, response) for example, responses in zip(examples, drawn, strict=True) for response in responses]
    values = function([example for example, _ in pairs], **reward_inputs([response for _, response in pairs]), step=0)
    for (example, response), value in zip(pairs, values, strict=True):
        if value is None:
            raise DataError(
                f"The reward does not apply (None) to a response to the example {example.id!r}, and a frontier needs a "
                f"number for each. The text was {response.text[:80]!r}."
            )
    return np.array(values, dtype=np.float64).reshape(len(examples), -1)


def cross_fitted(
    function: Reward, examples: Sequence[Example], drawn: Sequence[Sequence[Response]]
) -> list[FrontierPoint]:
    """Return the frontier with weights from half of the references and rewards from the other, both ways averaged."""
    halves = [
        rewards_of(function, [replace(example, references=example.references[side::2]) for example in examples], drawn)
        for side in (0, 1)
    ]
    ways = [tilted(halves[0], halves[1]), tilted(halves[1], halves[0])]
    return [FrontierPoint((a.kl + b.kl) / 2, (a.reward + b.reward) / 2) for a, b in zip(*ways, strict=False)]


def by_consensus(
    function: Reward, examples: Sequence[Example], drawn: Sequence[Sequence[Response]]
) -> list[FrontierPoint]:
    """Return the frontier with weights from samples that stand in for references, and rewards from the references."""
    instead = [
        replace(example, references=tuple(response.text for response in responses[:AS_REFERENCES]))
        for example, responses in zip(examples, drawn, strict=True)
    ]
    weighted = [responses[AS_REFERENCES:] for responses in drawn]
    return tilted(rewards_of(function, instead, weighted), rewards_of(function, examples, weighted))
