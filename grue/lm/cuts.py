"""What training cuts of prompts and responses by a task's limits, and what else its tokenizer makes of their texts."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from grue.lm.plain_text import special_names
from grue.lm.tokens import target_ids
from grue.tasks import Task

BATCH = 1000  # prompts that are tokenised at once
NAMED = 3  # places that are named of what was found


@dataclass(frozen=True, slots=True)
class LearnedText:
    """A text that is learnt, or compared with the others of its line.

    Attributes:
        score: None for a reference.
        truncated, token_ids: As for `target_ids`.
    """

    text: str
    score: float | None = None
    truncated: bool = False
    token_ids: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Lengths:
    """How many texts are longer than their limit.

    Attributes:
        longest: Tokens of the longest one, special tokens and the end included.
    """

    limit: int
    texts: int
    cut: int
    longest: int


@dataclass(frozen=True, slots=True)
class Cuts:
    """What training makes of some texts.

    Attributes:
        backbone: Whose tokenizer it was.
        responses: Of those that are cut, none has an end to learn.
        truncated: Responses that never had an end: they were cut when they were drawn.
        equal: Lines with two responses that are worth a different number, and the same once they are cut.
        special_tokens: Name → texts that quote it, which is read as text.
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
    tokenizer: PreTrainedTokenizerBase, task: Task, lines: Iterable[tuple[str, str, Sequence[LearnedText]]]
) -> Cuts:
    """Return what training makes of lines, each the id and the prompt of an example with what is learnt of it."""
    found = list(lines)
    prompts = {identity: prompt for identity, prompt, _ in found}
    asked = token_counts(tokenizer, list(prompts.values()))
    limit, lengths, equal = task.rollout.max_new_tokens, list[int](), list[str]()
    names, quoted, quoting = special_names(tokenizer), Counter[str](), dict[str, None]()
    pattern = re.compile("|".join(map(re.escape, names)) or r"(?!)")
    for identity, _, targets in found:
        rows = target_ids(
            tokenizer,
            [int(tokenizer.eos_token_id)],
            task.backbone.family == "seq2seq",
            [one.text for one in targets],
            [one.truncated for one in targets],
            [one.token_ids for one in targets],
            task.rollout.stop,
        )
        lengths += map(len, rows)
        same: dict[tuple[int, ...], set[float | None]] = {}
        for row, one in zip(rows, targets, strict=True):
            same.setdefault(tuple(row[:limit]), set()).add(one.score)
        if any(len(scores) > 1 for scores in same.values()):
            equal.append(identity)
    texts = [*prompts.items(), *((identity, one.text) for identity, _, targets in found for one in targets)]
    for identity, text in texts:
        if here := set(pattern.findall(text)):
            quoted.update(here)
            quoting[identity] = None
    return Cuts(
        backbone=task.backbone.model,
        prompts=_lengths(asked, task.prompt.max_tokens),
        responses=_lengths(lengths, limit),
        truncated=sum(one.truncated for _, _, targets in found for one in targets),
        equal=len(equal),
        equal_in=tuple(dict.fromkeys(equal))[:NAMED],
        special_tokens=dict(sorted(quoted.items())),
        special_in=tuple(quoting)[:NAMED],
    )


def token_counts(tokenizer: PreTrainedTokenizerBase, prompts: Sequence[str]) -> list[int]:
    """Return how many tokens prompts have, special tokens included; a batch of them is in memory at a time."""
    batches = (list(prompts[start : start + BATCH]) for start in range(0, len(prompts), BATCH))
    return [len(ids) for batch in batches for ids in tokenizer(batch, verbose=False)["input_ids"]]


def _lengths(tokens: Sequence[int], limit: int) -> Lengths:
    return Lengths(limit, len(tokens), sum(length > limit for length in tokens), max(tokens, default=0))
