"""Scored samples: several responses to each prompt of a split, drawn from a system and rewarded, to learn from."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grue import claims, files
from grue.data.load import local_data_id
from grue.data.scored import read_header, read_scored
from grue.data.scored_lines import KIND, SCHEMA_VERSION, RewardedLine, ScoredHeader, ScoredResponse, as_records
from grue.errors import ConfigError, DataError
from grue.evaluation.best_of import draws
from grue.evaluation.generated import WHAT, check_output, claim_of
from grue.evaluation.predict import batches_left, told
from grue.evaluation.reward_models import recorded
from grue.evaluation.rewards import Reward, make_reward
from grue.evaluation.systems import System
from grue.lm.checks import check_lengths
from grue.lm.tokens import ids_beside_text
from grue.records import Example
from grue.shapes import from_dict
from grue.tasks import Generation, Task

RESPONSES = "responses.jsonl"
COUNTED = ("responses", "generated_tokens", "reward_calls", "seconds")
"""What a header says of the work done."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Drawn:
    """The responses to one prompt, and what they took: a line of unfinished work.

    Attributes:
        rewards: One for each text; None where the reward does not apply.
        truncated, token_ids: Of each text; see `ScoredResponse`.
        seconds: The prompt's share of its batch's.
    """

    id: str
    texts: tuple[str, ...]
    rewards: tuple[float | None, ...]
    truncated: tuple[bool, ...]
    token_ids: tuple[tuple[int, ...] | None, ...]
    tokens: int
    seconds: float


def as_rollouts(task: Task, temperature: float | None = None) -> Generation:
    """Return how samples are drawn: as the task's rollouts, at that temperature if one is given.

    Raises:
        ConfigError: It is not above 0.
    """
    chosen = task.rollout.temperature if temperature is None else temperature
    if not 0 < chosen < math.inf:
        raise ConfigError(f"temperature {chosen}: choose a number above 0.")
    return replace(task.rollout, do_sample=True, num_beams=1, temperature=chosen)


def write_samples(
    task: Task,
    system: System,
    examples: Sequence[Example],
    path: Path,
    *,
    split: str,
    file: str | None = None,
    data_dir: Path | None = None,
    samples: int,
    train: Sequence[Example],
    reward: str | None = None,
    temperature: float | None = None,
    batch_size: int = 64,
    progress: Progress = lambda done, total: None,
) -> ScoredHeader:
    """Draw responses to all examples, score them, and write them as a file; return its header.

    An interrupted call is gone on with, a finished file only read. Responses to which the reward does not apply are
    left out.

    Args:
        examples: Those of `split` that are answered.
        file: sha256 of the file of rows that `split` names; None where it is a split of the task.
        data_dir: Where the rows were read instead of the task's sources.
        train: The training examples, which the reward is prepared on, as in training.
        reward: As for training. [default: the task's]
        temperature: Of the sampler. [default: that of the task's rollouts]

    Raises:
        ConfigError: An argument is invalid, the file holds something else, or another process writes
            it.
        DataError: The reward applies to no response, or something cannot be read or written.
        TrainingError: The reward gave no number.
    """
    if samples < 1:
        raise ConfigError(f"samples {samples}: draw at least one to each prompt.")
    check_output(path)
    wanted = ScoredHeader(
        grue=KIND,
        schema=SCHEMA_VERSION,
        **claim_of(task, system, examples, split, file, data_dir),
        reward=reward or task.reward,
        samples=samples,
        generation=as_rollouts(task, temperature),
        responses=0,
        generated_tokens=0,
        reward_calls=0,
        seconds=0.0,
        reward_models={one["name"]: one["sha256"] for one in recorded(reward or task.reward, task)},
        data_sha256=local_data_id(task, data_dir, split, "train"),
    )
    if system.model is None:
        raise ConfigError(f"{system.name} has no model to draw samples from; name a checkpoint or a model.")
    check_lengths(system.model, task)

    def write(partial: Path) -> ScoredHeader:
        function = make_reward(wanted.reward, task, train)
        return _write(path, wanted, _draw_all(task, system, examples, partial, wanted, function, batch_size, progress))

    return claims.carry_out(
        path, _claim(wanted), WHAT, RESPONSES, lambda: _finished(path, wanted, task, examples), write
    )


def _claim(header: ScoredHeader) -> dict[str, Any]:
    """Return what a header says of which work it is of; all else it says of the work done."""
    return {key: value for key, value in files.plain(header).items() if key not in COUNTED}


def _draw_all(
    task: Task,
    system: System,
    examples: Sequence[Example],
    partial: Path,
    wanted: ScoredHeader,
    reward: Reward,
    batch_size: int,
    progress: Progress,
) -> list[Drawn]:
    """Draw what is not there yet, batch by batch."""
    done = _resumed(partial, wanted, examples)
    progress(len(done), len(examples))
    for batch in batches_left(examples, done, batch_size):
        new = [one for one in _draw(task, system, batch, wanted, reward) if one.id not in done]
        files.append_jsonl(partial / RESPONSES, new)
        done |= {one.id: one for one in new}
        progress(len(done), len(examples))
    return [done[example.id] for example in examples]


def _draw(task: Task, system: System, batch: Sequence[Example], wanted: ScoredHeader, reward: Reward) -> list[Drawn]:
    assert system.model is not None and system.tokenizer is not None
    began = time.monotonic()
    texts: list[list[str]] = []
    rewards: list[list[float | None]] = []
    truncated: list[list[bool]] = []
    token_ids: list[list[tuple[int, ...] | None]] = []
    tokens = [0] * len(batch)
    sampled = draws(system.model, system.tokenizer, task, batch, wanted.generation, system.seed, wanted.samples)
    for _, responses in sampled:
        known = told(responses)
        texts.append(known["texts"])
        rewards.append(reward(batch, **known))
        truncated.append(known["truncated"])
        token_ids.append(ids_beside_text(system.model, system.tokenizer, **known, stop=wanted.generation.stop))
        tokens = [count + len(one.token_ids) for count, one in zip(tokens, responses, strict=True)]
    seconds = (time.monotonic() - began) / len(batch)
    of_each = (zip(*column, strict=True) for column in (texts, rewards, truncated, token_ids))
    rows: Any = zip(batch, *of_each, tokens, strict=True)
    return [
        Drawn(example.id, said, worth, cut, drawn, count, seconds) for example, said, worth, cut, drawn, count in rows
    ]


def _write(path: Path, wanted: ScoredHeader, drawn: Sequence[Drawn]) -> ScoredHeader:
    lines = [line for one in drawn if (line := _line(one)).responses]
    made = replace(
        wanted,
        responses=sum(len(line.responses) for line in lines),
        generated_tokens=sum(one.tokens for one in drawn),
        reward_calls=sum(len(one.texts) for one in drawn),
        seconds=math.fsum(one.seconds for one in drawn),
    )
    if not lines:
        raise DataError(
            f"{path}: not written: the reward {made.reward!r} applies to none of the {made.reward_calls:,} responses. "
            "Choose another with --reward."
        )
    files.write_jsonl(path, as_records(made, lines))
    return made


def _line(drawn: Drawn) -> RewardedLine:
    columns = zip(drawn.texts, drawn.rewards, drawn.truncated, drawn.token_ids, strict=True)
    given = (ScoredResponse(text, worth, cut, ids) for text, worth, cut, ids in columns if worth is not None)
    return RewardedLine(tuple(given), drawn.id)


# --- what is there already -------------------------------------------------------------------------------------------


def _finished(path: Path, wanted: ScoredHeader, task: Task, examples: Sequence[Example]) -> ScoredHeader:
    """Return the header of the file that was asked for, once it is known to be whole."""
    try:
        found = read_header(path)
    except DataError as error:
        raise ConfigError(f"{error} It is there already: write elsewhere with --output, or remove it.") from error
    if not isinstance(found, ScoredHeader):
        raise ConfigError(f"{path}: holds something else; write elsewhere with --output, or remove it.")
    claims.refuse_other(path, WHAT, _claim(found), _claim(wanted), claims.CURE)
    read_scored(path, task, examples)
    return found


def _resumed(partial: Path, wanted: ScoredHeader, examples: Sequence[Example]) -> dict[str, Drawn]:
    """Return what an interrupted call drew."""
    lines = partial / RESPONSES
    if not lines.exists():
        return {}
    files.drop_torn_line(lines)
    done: dict[str, Drawn] = {}
    known = {example.id for example in examples}
    for number, record in files.read_jsonl(lines):
        where, cure = f"{lines}, line {number}", f"Remove {partial} to start again."
        try:
            one = from_dict(Drawn, record, where)
        except ConfigError as error:
            raise DataError(f"{error} {cure}") from error
        if one.id not in known or {*map(len, (one.texts, one.rewards, one.truncated, one.token_ids))} != {
            wanted.samples
        }:
            raise DataError(f"{where}: not of this call's prompts and samples. {cure}")
        done[one.id] = one
    return done
