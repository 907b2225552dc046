"""What a task's limits cut of prompts and responses, and which special tokens the texts quote."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from grue.data.scored_lines import ScoredResponse
from grue.lm.plain_text import special_names
from grue.lm.tokens import target_ids
from grue.records import Example
from grue.tasks import Task

BATCH = 1000  # prompts that are tokenised at once
NAMED = 3  # examples that are named per finding


@dataclass(frozen=True, slots=True)
class Lengths:
    """How many texts are longer than their limit; `longest` counts special tokens and the end, too."""

    limit: int
    texts: int
    cut: int
    longest: int


@dataclass(frozen=True, slots=True)
class Cuts:
    """The findings of `find_cuts`.

    Attributes:
        backbone: The model of the tokenizer.
        responses: Cut responses have no end token to learn.
        truncated: Responses without an end token because they were cut when they were drawn.
        equal: Lines with two responses of different scores that are identical once they are cut.
        special_tokens: Special token → texts that quote it; it is read as text.
        equal_in, special_in: The ids of the first few examples.
    """

    backbone: str
    prompts: Lengths
    responses: Lengths
    truncated: int
    equal: int
    equal_in: tuple[str, ...]
    special_tokens: Mapping[str, int]
    special_in: tuple[str, ...]


def find_cuts(
    tokenizer: PreTrainedTokenizerBase, task: Task, lines: Iterable[tuple[Example, Sequence[ScoredResponse]]]
) -> Cuts:
    """Return the findings for examples and the responses to learn from."""
    lines = list(lines)
    prompts = {example.id: example.prompt for example, _ in lines}
    prompt_lengths = token_counts(tokenizer, list(prompts.values()))
    limit, lengths, equal = task.rollout.max_new_tokens, list[int](), list[str]()
    names, quoted, quoting = special_names(tokenizer), Counter[str](), dict[str, None]()
    pattern = re.compile("|".join(map(re.escape, names)) or r"(?!)")
    for example, targets in lines:
        rows = target_ids(
            tokenizer,
            [int(tokenizer.eos_token_id)],
            task.backbone.family == "seq2seq",
            [target.text for target in targets],
            [target.truncated for target in targets],
            [target.token_ids for target in targets],
            task.rollout.stop,
        )
        lengths += map(len, rows)
        same: dict[tuple[int, ...], set[float]] = {}
        for row, target in zip(rows, targets, strict=True):
            same.setdefault(tuple(row[:limit]), set()).add(target.reward)
        if any(len(scores) > 1 for scores in same.values()):
            equal.append(example.id)
    texts = [*prompts.items(), *((example.id, target.text) for example, targets in lines for target in targets)]
    for identity, text in texts:
        if names_here := set(pattern.findall(text)):
            quoted.update(names_here)
            quoting[identity] = None
    return Cuts(
        backbone=task.backbone.model,
        prompts=_lengths(prompt_lengths, task.prompt.max_tokens),
        responses=_lengths(lengths, limit),
        truncated=sum(target.truncated for _, targets in lines for target in targets),
        equal=len(equal),
        equal_in=tuple(dict.fromkeys(equal))[:NAMED],
        special_tokens=dict(sorted(quoted.items())),
        special_in=tuple(quoting)[:NAMED],
    )


def token_counts(tokenizer: PreTrainedTokenizerBase, prompts: Sequence[str]) -> list[int]:
    """Return the number of tokens of each prompt, special tokens included; one batch is in memory at a time."""
    batches = (list(prompts[start : start + BATCH]) for start in range(0, len(prompts), BATCH))
    return [len(ids) for batch in batches for ids in tokenizer(batch, verbose=False)["input_ids"]]


def _lengths(tokens: Sequence[int], limit: int) -> Lengths:
    return Lengths(limit, len(tokens), sum(length > limit for length in tokens), max(tokens, default=0))
