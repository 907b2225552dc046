"""Scored samples for training: several responses to each prompt of a split, drawn from a system and rewarded."""

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
from grue.evaluation.generated import CONTENT, check_output, claim_of
from grue.evaluation.predict import batches_left, reward_inputs
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
"""Keys of a header that describe the work done."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Drawn:
    """The responses to one prompt and their cost: a line of an unfinished file.

    Attributes:
        responses: Those that the reward applies to.
        tokens: Of all responses.
        seconds: The prompt's share of its batch's.
    """

    id: str
    responses: tuple[ScoredResponse, ...]
    tokens: int
    seconds: float


def as_rollouts(task: Task, temperature: float | None = None) -> Generation:
    """Return how samples are drawn: as the task's rollouts, by default at their temperature."""
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

    An interrupted call is resumed, a finished file only read. Responses to which the reward does not apply are
    left out.

    Args:
        examples: Those of `split` to answer; `file` and `data_dir` as for `claim_of`.
        train: The training examples, on which the reward is prepared, as in training.
        reward: As for training. [default: the task's]
        temperature: Of the sampler. [default: that of the task's rollouts]

    Raises:
        ConfigError: An argument is invalid, the file holds something else, or another process writes it.
        DataError: The reward applies to no response, or a file cannot be read or written.
        TrainingError: The reward gave no number.
    """
    if samples < 1:
        raise ConfigError(f"samples {samples}: draw at least one to each prompt.")
    check_output(path)
    header = ScoredHeader(
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
        reward_models={model["name"]: model["sha256"] for model in recorded(reward or task.reward, task)},
        data_sha256=local_data_id(task, data_dir, split, task.data.reward_split),
    )
    if system.model is None:
        raise ConfigError(f"{system.name} has no model to draw samples from; name a checkpoint or a model.")
    check_lengths(system.model, task)

    def write(partial: Path) -> ScoredHeader:
        function, kept = make_reward(header.reward, task, train), partial / RESPONSES
        done = _resumed(kept, header, examples)
        progress(len(done), len(examples))
        for batch in batches_left(examples, done, batch_size):
            new = [drawn for drawn in _draw(task, system, batch, header, function) if drawn.id not in done]
            files.append_jsonl(kept, new)
            done |= {drawn.id: drawn for drawn in new}
            progress(len(done), len(examples))
        return _write(path, header, [done[example.id] for example in examples])

    return claims.carry_out(
        path, _claim(header), CONTENT, RESPONSES, lambda: _finished(path, header, task, examples), write
    )


def _claim(header: ScoredHeader) -> dict[str, Any]:
    """Return the part of a header that identifies the work, without what describes the work done."""
    return {key: value for key, value in files.plain(header).items() if key not in COUNTED}


def _draw(task: Task, system: System, batch: Sequence[Example], header: ScoredHeader, reward: Reward) -> list[Drawn]:
    began = time.monotonic()
    kept: list[list[ScoredResponse]] = [[] for _ in batch]
    tokens = [0 for _ in batch]
    for _, responses in draws(system.loaded, task, batch, header.generation, system.seed, header.samples):
        inputs = reward_inputs(responses)
        beside = ids_beside_text(*system.loaded, **inputs)
        for place, (one, worth, ids) in enumerate(zip(responses, reward(batch, **inputs), beside, strict=True)):
            tokens[place] += len(one.token_ids)
            if worth is not None:
                kept[place].append(ScoredResponse(one.text, worth, one.truncated, ids))
    seconds = (time.monotonic() - began) / len(batch)
    of_each = zip(batch, kept, tokens, strict=True)
    return [Drawn(example.id, tuple(responses), count, seconds) for example, responses, count in of_each]


def _write(path: Path, header: ScoredHeader, drawn: Sequence[Drawn]) -> ScoredHeader:
    lines = [RewardedLine(prompt.responses, prompt.id) for prompt in drawn if prompt.responses]
    result = replace(
        header,
        responses=sum(len(line.responses) for line in lines),
        generated_tokens=sum(prompt.tokens for prompt in drawn),
        reward_calls=len(drawn) * header.samples,
        seconds=math.fsum(prompt.seconds for prompt in drawn),
    )
    if not lines:
        raise DataError(
            f"{path}: not written: the reward {result.reward!r} applies to none of the {result.reward_calls:,} "
            "responses. Choose another with --reward."
        )
    files.write_jsonl(path, as_records(result, lines))
    return result


# --- reading what was written ----------------------------------------------------------------------------------------


def _finished(path: Path, header: ScoredHeader, task: Task, examples: Sequence[Example]) -> ScoredHeader:
    """Return the header of the finished file, after checking that it is whole and the requested one."""
    try:
        written = read_header(path)
    except DataError as error:
        raise ConfigError(f"{error} It is there already: write elsewhere with --output, or remove it.") from error
    if not isinstance(written, ScoredHeader):
        raise ConfigError(f"{path}: holds something else; write elsewhere with --output, or remove it.")
    claims.refuse_other(path, CONTENT, _claim(written), _claim(header), claims.CURE)
    read_scored(path, task, examples, header.split)
    return written


def _resumed(lines: Path, header: ScoredHeader, examples: Sequence[Example]) -> dict[str, Drawn]:
    if not lines.exists():
        return {}
    files.drop_torn_line(lines)
    done: dict[str, Drawn] = {}
    ids = {example.id for example in examples}
    for number, record in files.read_jsonl(lines):
        where, cure = f"{lines}, line {number}", f"Remove {lines.parent} to start again."
        try:
            drawn = from_dict(Drawn, record, where, DataError)
        except DataError as error:
            raise DataError(f"{error} {cure}") from error
        if drawn.id not in ids or len(drawn.responses) > header.samples:
            raise DataError(f"{where}: not of this call's prompts and samples. {cure}")
        done[drawn.id] = drawn
    return done
