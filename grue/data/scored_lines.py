"""The lines of a file of scored responses: a header, and lines of scored responses to a prompt.

The first line may be a header, which says how the responses were made and their cost; `grue generate --score` and
`grue tools pairs` write one. Every other line judges responses to one prompt, all lines of a file in the same form.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from grue import files
from grue.data import pairs
from grue.data.pairs import PairsHeader, Part
from grue.errors import DataError
from grue.records import unseen
from grue.shapes import json_schema
from grue.tasks import Generation

KIND: Final = "scored responses"
SCHEMA_VERSION: Final = 1
LARGEST_REWARD = 1e18  # its square fits into single precision, in which rewards are standardised
LEFT_OUT = ("reward_models", "file", "data_dir", "data_sha256")
"""Keys that are left out of a header if they are empty."""


@dataclass(frozen=True, slots=True)
class ScoredHeader:
    """The first line of a file: which system drew the responses, how, and the cost.

    Attributes:
        reward: The expression that gave the rewards, as for training.
        checkpoint: sha256 of the weights that were drawn from, or a model's hub id and revision.
        seed: Of the draws.
        generation: How they were drawn: temperature, top-k, lengths.
        prompts: Number of answered prompts; those to whose responses the reward does not apply have no line.
        generated_tokens: Of all responses, including end tokens and responses that are not in the file.
        reward_calls: Number of responses that the reward scored.
        seconds: For drawing and scoring, without loading the model and preparing the reward.
        reward_models: Name and sha256 of each reward model in `reward`; left out if there are none.
        file: sha256 of the file of rows that `split` names; left out for a split of the task.
        data_dir: The folder that was read instead of the task's sources; left out if there is none.
        data_sha256: Of the task's local files, or of the files read of `data_dir`; left out without either.
    """

    grue: Literal["scored responses"]
    schema: Literal[1]
    suite: str
    task: str
    task_hash: str
    split: str
    reward: str
    checkpoint: str
    system: str
    seed: int
    samples: int
    generation: Generation
    prompts: int
    responses: int
    generated_tokens: int
    reward_calls: int
    seconds: float
    reward_models: Mapping[str, str] = field(default_factory=dict)
    file: str | None = None
    data_dir: str | None = None
    data_sha256: str = ""


@dataclass(frozen=True, slots=True)
class ScoredResponse:
    """A response and its reward; higher is better.

    Attributes:
        truncated: Whether it was cut at the length limit, so that it has no end to learn.
        token_ids: The drawn ids, the end token last unless it was cut; None if encoding the text gives them.
    """

    text: str
    reward: float
    truncated: bool = False
    token_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class RewardedLine:
    """Responses with rewards to a training example, which is named by its id, its prompt or both."""

    responses: tuple[ScoredResponse, ...]
    id: str | None = None
    prompt: str | None = None

    def judged(self) -> list[ScoredResponse]:
        """Return the responses with their scores."""
        return list(self.responses)


@dataclass(frozen=True, slots=True)
class PairLine:
    """Two responses to a training example, of which one is better.

    Attributes:
        tie: Whether neither is better; then chosen and rejected are interchangeable.
        part: The prompt's part; all but "train" are held out and never learned from.
        chosen_truncated, rejected_truncated, chosen_token_ids, rejected_token_ids: See `ScoredResponse`.
    """

    chosen: str
    rejected: str
    id: str | None = None
    prompt: str | None = None
    tie: bool = False
    part: Part | None = None
    chosen_truncated: bool = False
    rejected_truncated: bool = False
    chosen_token_ids: tuple[int, ...] | None = None
    rejected_token_ids: tuple[int, ...] | None = None

    def judged(self) -> list[ScoredResponse]:
        """Return the responses with scores of which only the order is meaningful."""
        return [
            ScoredResponse(self.chosen, 1.0, self.chosen_truncated, self.chosen_token_ids),
            ScoredResponse(self.rejected, float(self.tie), self.rejected_truncated, self.rejected_token_ids),
        ]


@dataclass(frozen=True, slots=True)
class RankingLine:
    """Responses to a training example, best first."""

    ranking: tuple[str, ...]
    id: str | None = None
    prompt: str | None = None

    def judged(self) -> list[ScoredResponse]:
        """Return the responses with scores of which only the order is meaningful."""
        places = range(len(self.ranking) - 1, -1, -1)
        return [ScoredResponse(text, float(place)) for text, place in zip(self.ranking, places, strict=True)]


Line = RewardedLine | PairLine | RankingLine
Header = ScoredHeader | PairsHeader
FORMS: Mapping[str, type[Line]] = {
    "responses": RewardedLine,
    "chosen": PairLine,
    "rejected": PairLine,
    "ranking": RankingLine,
}
"""Key by which a line is recognised → its class."""
WRITTEN = {
    RewardedLine: '{"id": …, "responses": [{"text": …, "reward": 0.3}, …]}',
    PairLine: '{"id": …, "chosen": …, "rejected": …}',
    RankingLine: '{"id": …, "ranking": [best, …, worst]}',
}
HEADERS: Mapping[str, type[Header]] = {KIND: ScoredHeader, pairs.KIND: PairsHeader}


def as_records(made: Header, lines: Iterable[RewardedLine | PairLine]) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file, one per line: the header, then the lines, all with ids."""
    header = files.plain(made)
    yield {key: value for key, value in header.items() if key not in LEFT_OUT or value}
    for line in lines:
        if isinstance(line, RewardedLine):
            yield {"id": line.id, "responses": [_stated(response, ("text", "reward")) for response in line.responses]}
        else:
            yield _stated(line)


def _stated(part: Line | ScoredResponse, always: Sequence[str] = ()) -> dict[str, Any]:
    """Return an object of a file without its empty keys."""
    return {key: value for key, value in files.plain(part).items() if key in always or value not in (None, False)}


def scored_schema() -> dict[str, Any]:
    """Return the JSON Schema of a line of a file of scored responses."""
    parts = [json_schema(cls) for cls in (ScoredHeader, PairsHeader, *WRITTEN)]
    dialect = [part.pop("$schema") for part in parts]
    return {"$schema": dialect[0], "title": "A line of scored responses", "anyOf": parts}


def check_text(text: str, where: str) -> None:
    """Refuse a text with invisible characters, which must not be in a file of scored responses."""
    if hidden := unseen(text):
        named = ", ".join(f"U+{ord(sign):04X}" for sign in sorted(hidden)[:3])
        raise DataError(f"{where}: a text has invisible characters ({named}); remove them.")
