"""The frontier of a start on a task: samples to its prompts, rewarded, and what could be made of them.

A reward that reads no reference can be reached by a policy, so that its frontier is a bound on what training can do at
a KL. A reward that compares with references cannot: no policy sees the references of a prompt, and weights that do are
an oracle's. Two curves are then given besides. With several references to an example, weights follow from one half of
them and are judged by the other (cross-fitted); with one, from the agreement with other samples (minimum Bayes risk),
judged by the reference. What a policy can reach is near those.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from grue import files
from grue.errors import ConfigError, DataError
from grue.evaluation.best_of import OF_THE_REFERENCE, draws, is_oracle, shown
from grue.evaluation.predict import Response, plain_sampling, told
from grue.evaluation.rewards import Reward, make_reward
from grue.evaluation.systems import System, require_plain
from grue.lm.checkpoint import find_checkpoint, read_manifest
from grue.records import Example
from grue.stats.frontier import FEWEST, FloatArray, FrontierPoint, best_of, share_of_gain, tilted
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
        attainable: The same, weighted by what a policy could know; None where `optimal` can be reached, and where what
            is known of the reference (DailyDialog's act) stands in the examples and would be known to the weights.
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
    """Where a run stands.

    Attributes:
        run: Its folder.
        update: Of the checkpoint that stands there.
        kl: From the start, nats a response.
        gain: Of the mean reward since the start. Both are of plain samples to the run's validation prompts.
        share: Of what could be gained at that KL; None beyond the curve, and where nothing could be.
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
        train: The training examples, which the reward is prepared on, as in training.
        reward: As for training; a function sees examples without references, as in best-of-n.
        samples: To each prompt; 8 at least, and 8 more where some stand in for references.
        temperature: Of the sampler, which cuts nothing off.

    Raises:
        ConfigError: The start has no model, or the reward cannot be read.
        DataError: There are no examples, too few samples, or a reward is not finite.
    """
    if not examples:
        raise DataError(f"The split {split!r} of {task.name} has no examples to sample for.")
    function = make_reward(reward, task, train)
    oracle = is_oracle(reward)
    several = all(len(example.references) > 1 for example in examples)
    told = any(key in example.meta for example in examples for key in OF_THE_REFERENCE)
    needed = FEWEST + (AS_REFERENCES if oracle and not told and not several else 0)
    if samples < needed:
        apart = f", of which {AS_REFERENCES} stand in for references" if needed > FEWEST else ""
        raise DataError(f"{samples} samples a prompt are too few for a curve; draw {needed} at least{apart}.")
    drawn = draw(task, system, examples, samples, temperature, progress)
    values = rewarded(function, examples if oracle else list(map(shown, examples)), drawn)
    attainable = None
    if oracle and not told:
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
        best_of={str(k): point for k, point in best_of(values).items()},
    )


def check_places_runs(split: str, temperature: float) -> None:
    """Refuse to place runs on a frontier of other samples than those of their validations.

    Raises:
        DataError: It is of another split, or of another temperature.
    """
    if (split, temperature) != ("validation", 1.0):
        raise DataError(
            f"A frontier of the split {split} at temperature {temperature:g} places no run: runs log their KL and "
            "reward on validation prompts at temperature 1."
        )


def place(found: Frontier, run: Path, update: int | None = None) -> Placed:
    """Return where a run from the frontier's start stands, by what it logged at its validations.

    Args:
        run: Its folder, or one of its checkpoints.
        update: After which it stands there. [default: that of the checkpoint]

    Raises:
        DataError: It is no finished run of reinforcement learning, or not one from this start with this reward, or
            there was no validation after that update; or the frontier is not of what a validation measures.
    """
    check_places_runs(found.split, found.temperature)
    folder = find_checkpoint(run)
    kept, home = read_manifest(folder), folder.absolute().parent
    plan = files.read_toml(home / "config.toml")
    began = kept.start or plan["backbone_weights"]
    if (kept.suite, kept.task, began) != (found.suite, found.task, found.start):
        raise DataError(f"{run}: not trained on {found.suite}/{found.task} from the start of the frontier.")
    if plan["reward"] != found.reward:
        raise DataError(f"{run}: trained with the reward {plan['reward']}; the frontier is of {found.reward}.")
    lines = {line["update"]: line for _, line in files.read_jsonl(home / "train.jsonl") if "validation/kl" in line}
    at = kept.update if update is None else update
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
    share = share_of_gain(found.curve, kl, gain)
    return Placed(str(run), at, kl, gain, share, tuple(path.values()))


def with_frontier(system: System, path: Path, run: Path) -> System:
    """Return the system of a checkpoint whose record says which share of a frontier it gained.

    Args:
        path: What `grue frontier -o` wrote.
        run: The folder of the checkpoint's run.

    Raises:
        ConfigError: The system is no checkpoint of a run, or picks the best of several samples.
        DataError: The file is no frontier, or not one of the run's start.
    """
    if system.best_of is not None or "update" not in system.record:
        raise ConfigError(f"{system.name}: a frontier places checkpoints of runs as they are; leave --frontier out.")
    found = files.load_json(path, Frontier)
    placed = place(found, run, system.record["update"])
    record: dict[str, Any] = {"kl": placed.kl, "gain": placed.gain, "share": placed.share}
    record |= {"prompts": found.prompts, "samples": found.samples, "how": found.how or "reachable"}
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
    """Return so many plain samples to each prompt."""
    model, tokenizer = system.model, system.tokenizer
    require_plain(system)
    if model is None or tokenizer is None:
        raise ConfigError(f"{system.name} has no model to draw samples from; give a checkpoint or zero-shot.")
    settings = plain_sampling(task, temperature)
    found: list[list[Response]] = [[] for _ in examples]
    for begin in range(0, len(examples), BATCH):
        batch = examples[begin : begin + BATCH]
        for number, (_, responses) in enumerate(draws(model, tokenizer, task, batch, settings, system.seed, samples)):
            for place, one in enumerate(responses):
                found[begin + place].append(one)
            progress(begin * samples + (number + 1) * len(batch), len(examples) * samples)
    return found


def rewarded(function: Reward, examples: Sequence[Example], drawn: Sequence[Sequence[Response]]) -> FloatArray:
    """Return the reward of each example's responses, [P, n].

    Raises:
        DataError: It does not apply to one of them.
    """
    pairs = [(example, one) for example, some in zip(examples, drawn, strict=True) for one in some]
    values = function([example for example, _ in pairs], **told([one for _, one in pairs]), step=0)
    for (example, one), value in zip(pairs, values, strict=True):
        if value is None:
            raise DataError(
                f"The reward does not apply (None) to a response to the example {example.id!r}, and a frontier needs a "
                f"number for each. The text was {one.text[:80]!r}."
            )
    return np.array(values, dtype=np.float64).reshape(len(examples), -1)


def cross_fitted(
    function: Reward, examples: Sequence[Example], drawn: Sequence[Sequence[Response]]
) -> list[FrontierPoint]:
    """Return the frontier whose weights know one half of the references and whose rewards the other, both ways."""
    halves = [
        rewarded(function, [replace(example, references=example.references[side::2]) for example in examples], drawn)
        for side in (0, 1)
    ]
    ways = [tilted(halves[0], halves[1]), tilted(halves[1], halves[0])]
    return [FrontierPoint((a.kl + b.kl) / 2, (a.reward + b.reward) / 2) for a, b in zip(*ways, strict=False)]


def by_consensus(
    function: Reward, examples: Sequence[Example], drawn: Sequence[Sequence[Response]]
) -> list[FrontierPoint]:
    """Return the frontier whose weights know other samples in place of references, and whose rewards the references."""
    instead = [
        replace(example, references=tuple(one.text for one in some[:AS_REFERENCES]))
        for example, some in zip(examples, drawn, strict=True)
    ]
    weighted = [some[AS_REFERENCES:] for some in drawn]
    return tilted(rewarded(function, instead, weighted), rewarded(function, examples, weighted))
