"""Text to tokens and back, as batches of ids with a mask.

What counts is always carried as a mask by position and never read off the ids, since a model's pad token may be its
end-of-text token. L = length.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from grue.lm.model import eos_id, is_seq2seq
from grue.tasks import Prompt


@dataclass(frozen=True, slots=True)
class Tokens:
    """A batch of sequences: ids [B, L] and mask [B, L], True where a token counts."""

    ids: Tensor
    mask: Tensor

    def rows(self, index: Tensor) -> "Tokens":
        """Return some rows, without the columns in which none of them has a token that counts."""
        ids, mask = self.ids[index], self.mask[index]
        used = mask.any(0).nonzero()
        if len(used) == 0:
            return Tokens(ids[:, :0], mask[:, :0])
        columns = slice(int(used[0]), int(used[-1]) + 1)
        return Tokens(ids[:, columns], mask[:, columns])


# --- text and tokens -------------------------------------------------------------------------------------------------


def encode_prompts(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], prompt: Prompt
) -> Tokens:
    """Tokenise prompts, cut to the task's length on its side; padded left for causal models, right for others.

    Needs no pad token: what fills a row counts nowhere. A prompt without any token becomes one start or end token,
    since a causal model must have something to go on from.
    """
    tokenizer.truncation_side = prompt.truncation
    rows = tokenizer(list(texts), truncation=True, max_length=prompt.max_tokens)["input_ids"]
    eos = eos_id(model, tokenizer)
    nothing = eos if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    filler = eos if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    return _padded(model, [row or [nothing] for row in rows], filler, left=not is_seq2seq(model))


def encode_responses(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_tokens: int
) -> Tokens:
    """Tokenise what a model should write, with the end token where the text fits into `max_tokens`.

    A causal model reads the response right behind the prompt, so the seam gets the space that parts two words. A
    decoder of its own writes the special tokens that its tokenizer puts around a text (BART's <s>).
    """
    eos = eos_id(model, tokenizer)
    encode = _encode_alone if is_seq2seq(model) else _encode_behind
    rows = [[*encode(tokenizer, text.strip(), eos), eos][:max_tokens] for text in texts]
    return _padded(model, rows, eos, left=False)


def _encode_alone(tokenizer: PreTrainedTokenizerBase, text: str, eos: int) -> list[int]:
    ids = list(tokenizer(text)["input_ids"])
    return ids[:-1] if ids and ids[-1] == eos else ids


def _encode_behind(tokenizer: PreTrainedTokenizerBase, text: str, eos: int) -> list[int]:
    """Return the ids of a text behind a word and a space; some tokenizers (Llama 2's) add a space to every start."""
    if not text:
        return []
    before, whole = (tokenizer(part, add_special_tokens=False)["input_ids"] for part in (".", f". {text}"))
    if whole[: len(before)] == before:
        return list(whole[len(before) :])
    return list(tokenizer(f" {text}", add_special_tokens=False)["input_ids"])


def _padded(model: PreTrainedModel, rows: Sequence[Sequence[int]], filler: int, left: bool) -> Tokens:
    width = max((len(row) for row in rows), default=0)
    ids = torch.full((len(rows), width), filler)
    mask = torch.zeros_like(ids, dtype=torch.bool)
    for i, row in enumerate(rows):
        place = slice(width - len(row), width) if left else slice(0, len(row))
        ids[i, place] = torch.tensor(row, dtype=ids.dtype)
        mask[i, place] = True
    return Tokens(ids.to(model.device), mask.to(model.device))


def decode_responses(tokenizer: PreTrainedTokenizerBase, responses: Tokens) -> list[str]:
    """Return the text of the tokens that count, without special tokens, unknown ids and outer white space."""
    rows = [ids[mask].tolist() for ids, mask in zip(responses.ids, responses.mask, strict=True)]
    return [str(text).strip() for text in tokenizer.batch_decode(rows, skip_special_tokens=True)]


def length_batches(mask: Tensor, rows: Tensor, size: int) -> list[Tensor]:
    """Split rows into batches of at most `size`, similar lengths together, so that little padding is computed."""
    if len(rows) <= size:
        return [rows]
    lengths = mask[rows.to(mask.device)].sum(1).cpu()
    return list(rows[lengths.argsort(stable=True)].split(size))
