"""Text to tokens and back, as batches of ids with a mask.

A mask says which tokens count, by position; this is never recovered from the ids, since the pad token may be the
end-of-text token. L = length.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from grue.lm.constraints import end_ids
from grue.lm.model import eos_id, is_seq2seq
from grue.records import legible
from grue.tasks import Prompt, before_stop


@dataclass(frozen=True, slots=True)
class Tokens:
    """A batch of sequences: ids [B, L] and mask [B, L], True where a token counts."""

    ids: Tensor
    mask: Tensor

    def rows(self, index: Tensor) -> "Tokens":
        """Return some rows, without outer columns in which none of their tokens counts."""
        ids, mask = self.ids[index], self.mask[index]
        used = mask.any(0).nonzero()
        if len(used) == 0:
            return Tokens(ids[:, :0], mask[:, :0])
        columns = slice(int(used[0]), int(used[-1]) + 1)
        return Tokens(ids[:, columns], mask[:, columns])

    def lists(self) -> list[list[int]]:
        """Return the ids that count, one list per row."""
        return [ids[mask].tolist() for ids, mask in zip(self.ids, self.mask, strict=True)]


def encode_prompts(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], prompt: Prompt
) -> Tokens:
    """Tokenise prompts, truncated as the task says; padded on the left for causal models, else on the right.

    The tokenizer needs no pad token, since the mask excludes padding. An empty prompt becomes one start or end token,
    because a causal model needs a first token.
    """
    tokenizer.truncation_side = prompt.truncation
    rows = tokenizer(list(texts), truncation=True, max_length=prompt.max_tokens)["input_ids"]
    eos = eos_id(model, tokenizer)
    nothing = eos if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    filler = eos if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    return padded([row or [nothing] for row in rows], filler, model.device, left=not is_seq2seq(model))


def encode_responses(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    max_tokens: int,
    truncated: Sequence[bool] | None = None,
    token_ids: Sequence[Sequence[int] | None] | None = None,
    stop: Sequence[str] = (),
) -> Tokens:
    """Tokenise target responses, each with the end token if it fits into `max_tokens`; arguments of `target_ids`."""
    eos = eos_id(model, tokenizer)
    rows = target_ids(tokenizer, end_ids(model, eos), is_seq2seq(model), texts, truncated, token_ids, stop)
    return padded([row[:max_tokens] for row in rows], eos, model.device)


def target_ids(
    tokenizer: PreTrainedTokenizerBase,
    ends: Sequence[int],
    seq2seq: bool,
    texts: Sequence[str],
    truncated: Sequence[bool] | None = None,
    token_ids: Sequence[Sequence[int] | None] | None = None,
    stop: Sequence[str] = (),
) -> list[list[int]]:
    """Return the ids of target responses, whole, each with its end token.

    For a causal model, the response follows the prompt after a space. For an encoder-decoder, it includes the special
    tokens that the tokenizer puts around a text (BART's <s>).

    Args:
        ends: The ids that may end a response; a text gets the first.
        truncated: Whether each was cut before its end, and so has no end token; None if none was.
        token_ids: The result of `ids_beside_text`. Ids that do not spell the text, such as another tokenizer's, are
            ignored.
        stop: The stop strings that may have ended a response in place of an end token.
    """
    encode = _encode_alone if seq2seq else _encode_behind
    cuts = [False] * len(texts) if truncated is None else truncated
    rows = []
    for text, cut, ids in zip(texts, cuts, token_ids or [None] * len(texts), strict=True):
        if ids and _spell(tokenizer, ids, text, () if cut else ends, stop):
            rows.append(list(ids))
        else:
            rows.append([*encode(tokenizer, text.strip(), ends[0]), *([] if cut else ends[:1])])
    return rows


def _spell(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], text: str, ends: Sequence[int], stop: Sequence[str]
) -> bool:
    """Whether ids spell a text in this tokenizer, and, if there are any `ends`, end in one or in a stop string."""
    if min(ids) < 0 or max(ids) >= len(tokenizer):
        return False
    if ends and ids[-1] not in ends and before_stop(_decoded(tokenizer, ids), stop) is None:
        return False
    return _answer(tokenizer, ids, not ends, stop) == text


def ids_beside_text(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    truncated: Sequence[bool],
    token_ids: Sequence[Sequence[int]],
) -> list[tuple[int, ...] | None]:
    """Return the ids of drawn responses, or None if encoding the text gives the same: a text has many spellings."""
    ends = end_ids(model, eos_id(model, tokenizer))
    from_text = target_ids(tokenizer, ends, is_seq2seq(model), texts, truncated)
    return [None if list(ids) == row else tuple(ids) for ids, row in zip(token_ids, from_text, strict=True)]


def _encode_alone(tokenizer: PreTrainedTokenizerBase, text: str, eos: int) -> list[int]:
    ids = list(tokenizer(text_target=text)["input_ids"])
    return ids[:-1] if ids and ids[-1] == eos else ids


def _encode_behind(tokenizer: PreTrainedTokenizerBase, text: str, eos: int) -> list[int]:
    """Return the ids of a text after a word and a space; some tokenizers (Llama 2's) prepend a space to every text."""
    if not text:
        return []
    before, whole = (tokenizer(part, add_special_tokens=False)["input_ids"] for part in (".", f". {text}"))
    if whole[: len(before)] == before:
        return list(whole[len(before) :])
    return list(tokenizer(f" {text}", add_special_tokens=False)["input_ids"])


def padded(rows: Sequence[Sequence[int]], filler: int, device: torch.device, left: bool = False) -> Tokens:
    """Return rows of ids as a batch, padded on the right or left; a tokenizer's own `pad` is several times slower."""
    width = max((len(row) for row in rows), default=0)
    ids = torch.full((len(rows), width), filler)
    mask = torch.zeros_like(ids, dtype=torch.bool)
    for i, row in enumerate(rows):
        place = slice(width - len(row), width) if left else slice(0, len(row))
        ids[i, place] = torch.tensor(row, dtype=ids.dtype)
        mask[i, place] = True
    return Tokens(ids.to(device), mask.to(device))


def decode_responses(
    tokenizer: PreTrainedTokenizerBase, responses: Tokens, truncated: Tensor, stop: Sequence[str] = ()
) -> list[str]:
    """Return the text of the tokens that count, up to the first stop string.

    Special tokens, end tokens, unknown ids, surrounding white space and invisible characters are left out.

    Args:
        truncated: [B], whether a response has no end. The last token of any other is an end token, special or not, or
            completes a stop string, and may then begin with a part of the answer.
    """
    rows = zip(responses.lists(), truncated.tolist(), strict=True)
    return [_answer(tokenizer, ids, cut, stop) for ids, cut in rows]


def _answer(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], cut: bool, stop: Sequence[str]) -> str:
    text = before_stop(_decoded(tokenizer, ids), stop) if stop else None
    return legible(_decoded(tokenizer, ids if cut else ids[:-1]) if text is None else text).strip()


def _decoded(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> str:
    return str(tokenizer.decode(list(ids), skip_special_tokens=True))


def length_batches(mask: Tensor, rows: Tensor, size: int) -> list[Tensor]:
    """Split rows into batches of at most `size`, grouped by length to save padding."""
    if len(rows) <= size:
        return [rows]
    lengths = mask[rows.to(mask.device)].sum(1).cpu()
    return list(rows[lengths.argsort(stable=True)].split(size))
