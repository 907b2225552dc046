"""What ends a response: a model's end tokens and a task's stop strings; and which tokens never occur or come first.

`own_decoding` keeps a model's own constraints in `model.generation_config`, so that sampling, search, copies and saved
checkpoints share them. All other decoding settings are the task's. V = vocabulary.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from grue.errors import DataError
from grue.lm.model import is_seq2seq, start_id, vocabulary_size
from grue.tasks import before_stop

KEPT = ("suppress_tokens", "begin_suppress_tokens", "forced_bos_token_id")
NEUTRAL = {
    **dict.fromkeys(("no_repeat_ngram_size", "encoder_no_repeat_ngram_size"), 0),
    **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty", "guidance_scale"), 1.0),
    **dict.fromkeys(("sequence_bias", "exponential_decay_length_penalty", "forced_decoder_ids", "stop_strings")),
}
"""Settings of a model that are not applied, and that tasks do not have, with the values that change nothing."""


def own_decoding(name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> GenerationConfig:
    """Return the decoding settings that a freshly loaded model keeps, and warn of those that it loses.

    The end tokens are the tokenizer's and all that the model lists. A single one counts only if it is a special token,
    since configurations often keep the default of their class. It is a DataError if the model forces a first token that
    it does not have, or that ends the response.
    """
    original, size, eos = model.generation_config, vocabulary_size(model), int(tokenizer.eos_token_id)
    listed = original.eos_token_id
    if isinstance(listed, int):
        listed = [listed] if listed in _special_ids(tokenizer) else []
    ends = list(dict.fromkeys([eos, *(end for end in listed or () if 0 <= end < size)]))
    words = [list(word) for word in original.bad_words_ids or ()]
    banned = {word[0] for word in words if len(word) == 1 and word[0] not in ends}  # as transformers bans words
    first = original.forced_bos_token_id if is_seq2seq(model) else None
    if first is not None and (first in ends or not 0 <= first < size):
        raise DataError(
            f"{name}: its generation settings force {first} as first token (forced_bos_token_id), which "
            f"{'ends the response' if first in ends else 'the model does not have'}; correct generation_config.json."
        )
    _warn_of_lost(name, original, any(len(word) > 1 for word in words))
    return GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=ends if len(ends) > 1 else eos,
        pad_token_id=tokenizer.pad_token_id,
        decoder_start_token_id=start_id(model) if is_seq2seq(model) else None,
        suppress_tokens=_in_vocabulary({*banned, *(original.suppress_tokens or ())}, size),
        begin_suppress_tokens=_in_vocabulary(original.begin_suppress_tokens or (), size),
        forced_bos_token_id=first,
    )


def _special_ids(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    added = tokenizer.added_tokens_decoder.items()
    return {*tokenizer.all_special_ids, *(i for i, token in added if token.special)}


def _in_vocabulary(ids: Any, size: int) -> list[int] | None:
    return sorted({int(i) for i in ids if 0 <= i < size}) or None


def _warn_of_lost(name: str, original: GenerationConfig, phrases: bool) -> None:
    lost = [key for key, neutral in NEUTRAL.items() if getattr(original, key, None) not in (None, neutral)]
    lost += ["bad_words_ids of several tokens"] * phrases
    if lost:
        warnings.warn(
            f"{name}: its generation settings are not applied: {', '.join(lost)}. Tasks have no such "
            "settings, so the model may write what its makers ruled out.",
            stacklevel=4,
        )


def kept_settings(model: PreTrainedModel) -> dict[str, Any]:
    """Return the model's own constraints on decoding, by setting."""
    return {key: value for key in KEPT if (value := getattr(model.generation_config, key, None)) is not None}


def end_ids(model: PreTrainedModel, eos: int) -> list[int]:
    """Return all ids that end a response: `eos`, and those that the model lists."""
    own = model.generation_config.eos_token_id
    listed = [own] if isinstance(own, int) else own or ()
    return [eos, *(end for end in listed if end != eos and 0 <= end < vocabulary_size(model))]


def openings(model: PreTrainedModel, ends: list[int], min_new_tokens: int, size: int) -> Callable[[int], Tensor | None]:
    """Return a function of the position in a response: which tokens may be there, [V] bool, or None if all may.

    `ends` are closed before `min_new_tokens`; `size` is V.
    """
    settings = kept_settings(model)
    never, at_first, first = (settings.get(key) for key in KEPT)
    begin = 0 if first is None else 1  # as in transformers: the beginning is after a forced token

    @cache
    def marked(ids: frozenset[int], value: bool) -> Tensor:
        marks = torch.full((size,), not value)
        marks[list(ids)] = value
        return marks.to(model.device)

    def at(t: int) -> Tensor | None:
        if first is not None and t == 0:
            return marked(frozenset([first]), True)
        closed = {*(never or ()), *((at_first or ()) if t == begin else ()), *(ends if t < min_new_tokens else ())}
        return marked(frozenset(closed), False) if closed else None

    return at


# --- stop strings -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stops:
    """The stop strings of a task, for one tokenizer: a response ends with the first token that completes one.

    Like the end-of-text token, that token is part of the response, so that the policy can learn to stop; the text
    before it is the answer. References are learnt with the end-of-text token; either ends a response.

    Attributes:
        ids: The tokens whose text contains one, so that they end a response wherever they are.
        spread: Whether one may also be spelled by several tokens, which only a response's whole text shows.
    """

    texts: tuple[str, ...]
    ids: tuple[int, ...]
    spread: bool
    tokenizer: PreTrainedTokenizerBase

    def spelled(self, ids: Tensor) -> Tensor:
        """Return which responses, [B, T] without prompts, contain a stop string: [B]."""
        if not self.spread:
            return torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
        return torch.tensor([self._holds(row) for row in ids.tolist()], device=ids.device)

    def completed(self, ids: Tensor) -> Tensor:
        """Return which tokens of responses [B, T] contain a stop string or are the first to complete one: [B, T]."""
        ends = torch.isin(ids, torch.tensor(self.ids, device=ids.device, dtype=ids.dtype))
        if self.spread:
            for row, row_ends in zip(ids.tolist(), ends, strict=True):
                if self._holds(row):
                    row_ends[next(t for t in range(len(row)) if self._holds(row[: t + 1]))] = True
        return ends

    def _holds(self, ids: list[int]) -> bool:
        return before_stop(str(self.tokenizer.decode(ids, skip_special_tokens=True)), self.texts) is not None


@lru_cache(maxsize=8)
def find_stops(tokenizer: PreTrainedTokenizerBase, texts: tuple[str, ...]) -> Stops | None:
    """Return stop strings for a tokenizer; None without any. The whole vocabulary is read once."""
    if not texts:
        return None
    alone = tokenizer.batch_decode([[i] for i in range(len(tokenizer))], skip_special_tokens=True)
    ids = tuple(i for i, text in enumerate(alone) if before_stop(str(text), texts) is not None)
    # A single ASCII character lies within one token; a blank may be lost when a token is decoded alone.
    spread = not all(len(text) == 1 and text.isascii() and text != " " for text in texts)
    return Stops(texts, ids, spread, tokenizer)
