"""The metrics of `grue.metrics.perplexity`: losses of tokens under a language model, window by window."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grue.errors import ConfigError, DataError
from grue.lm.model import vocabulary_size
from grue.lm.quiet import quiet
from grue.lm.scorers import load_scoring_model
from grue.lm.tokens import padded
from grue.metrics.metric import FloatArray, OfCorpusOnly, references_of
from grue.metrics.neural.batching import batches, require_finite, seam, window
from grue.metrics.tokens import without_surrogates
from grue.records import Example

POLICY = "perplexity:policy_on_references"
LOGITS = 2**28
"""Logits computed at once, 1 GiB in float32: of 1,024 tokens with Gemma's vocabulary. One window may have more."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of tokens, of which the last `scored` count; `key` identifies it for the caller."""

    key: int
    ids: list[int]
    scored: int


class TextLosses:
    """What a language model loses on texts, given their prompts.

    A text longer than the model's window is scored piece by piece, each token with at least half a window before it.
    """

    def __init__(self, metric: str, model: str, revision: str, batch_size: int, context: int) -> None:
        if context < 0:
            raise ConfigError(f"The metric {metric!r}: context must be 0 or more, found {context}.")
        self._metric, self._name, self._batch_size, self._context = metric, model, batch_size, context
        self._model, self._tokenizer = load_scoring_model("causal", model, revision)
        self._opening = _opening(self._tokenizer)
        self.details = f"{'|opened:bos' if self._opening else ''}{f'|context:{context}' if context else ''}"

    def statistics(self, examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        """Return [N, 2]: negative log-likelihood of the text in nats, and its number of tokens."""
        totals = np.zeros((len(texts), 2))
        windows = [
            piece
            for index, (example, text) in enumerate(zip(examples, texts, strict=True))
            for piece in self._windows(index, example.prompt, text)
        ]
        for piece, losses in scored_windows(self._model, windows, self._batch_size):
            totals[piece.key] += losses.sum(), piece.scored
        return require_finite(self._metric, self._name, examples, totals)

    def _windows(self, example: int, prompt: str, text: str) -> Iterator[Window]:
        context, continuation = seam(prompt, text)
        end = self._tokenizer.eos_token_id
        start = end if self._tokenizer.bos_token_id is None else self._tokenizer.bos_token_id
        before = [*self._opening, *self._ids(context)[-self._context :]] or [start]
        after = self._ids(continuation) if text.strip() else []
        ids = before + (after or [end])
        longest = window(self._model, self._tokenizer) or len(ids)
        step = max(1, longest // 2)
        for first in range(len(before), len(ids), step):
            stop = min(len(ids), first + step)
            yield Window(example, ids[max(0, stop - longest) : stop], stop - first)

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(without_surrogates(text), add_special_tokens=False, verbose=False)["input_ids"]
        return ids


def _opening(tokenizer: Any) -> list[int]:
    """Return the token that opens every text of a model, if its tokenizer writes one: Gemma fails without it."""
    ids: list[int] = tokenizer("a", verbose=False)["input_ids"]
    return [tokenizer.bos_token_id] if tokenizer.bos_token_id is not None and ids[0] == tokenizer.bos_token_id else []


def refused(row: FloatArray) -> float:
    """Raise OfCorpusOnly: the policy has no value for a single text."""
    raise OfCorpusOnly(POLICY)


class ReferenceLosses:
    """What a policy loses on the references, as RL4LMs counts it.

    All references, joined by empty lines, make one long text, over which a window slides; each token is scored once,
    given the tokens before it in its window. As in RL4LMs, the mean of a window's losses is multiplied by the number of
    its tokens that are new, although the first window predicts one fewer. An example without references adds nothing.
    """

    def __init__(self, model: str, revision: str, stride: int, batch_size: int, of: str) -> None:
        self._name = model
        self._model, self._tokenizer = load_scoring_model("causal", model, revision)
        self.longest = window(self._model, self._tokenizer)
        self._batch_size = batch_size
        self._stride = stride
        self._of = of
        if stride < 2 or stride >= (self.longest or stride + 1):
            raise ConfigError(
                f"The metric {POLICY!r}: the stride must be at least 2 and less than the {self.longest} tokens that "
                f"{model} reads, found {stride}."
            )

    def statistics(self, examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        """Return [N, 2]: RL4LMs' negative log-likelihood of an example's references in nats, and their tokens.

        It raises a DataError if no example has a reference, or there is only one token.
        """
        parts = [
            (index, without_surrogates("".join(seam(example.prompt, reference)) if self._of == "whole" else reference))
            for index, example in enumerate(examples)
            for reference in example.references
        ]
        if not parts and examples:
            references_of(examples[0], POLICY)
        ids, owners = self._tokens(parts)
        totals = np.zeros((len(examples), 2))
        np.add.at(totals[:, 1], owners, 1)
        for piece, losses in scored_windows(self._model, list(self._windows(ids)), self._batch_size):
            new = piece.scored + (piece.key == 1)  # the very first token is new, but not predicted
            stretch = slice(piece.key, piece.key + piece.scored)
            np.add.at(totals[:, 0], owners[stretch], losses * (new / piece.scored))
        return require_finite(POLICY, self._name, examples, totals)

    def _tokens(self, parts: Sequence[tuple[int, str]]) -> tuple[list[int], Any]:
        """Return the ids of the long text, and as [tokens] the example in which each begins."""
        if not self._tokenizer.is_fast:
            raise ConfigError(
                f"The metric {POLICY!r}: {self._name} needs a fast tokenizer, which knows where tokens are."
            )
        with quiet():  # a text longer than the model's window is intended
            encoded = self._tokenizer("\n\n".join(text for _, text in parts), return_offsets_mapping=True)
        ids: list[int] = encoded["input_ids"]
        if len(ids) < 2:
            raise DataError(f"The metric {POLICY!r} needs references of two tokens at least, found {len(ids)}.")
        starts = np.cumsum([0, *(len(text) + 2 for _, text in parts[:-1])]).tolist()
        owners = [parts[bisect_right(starts, start) - 1][0] for start, _ in encoded["offset_mapping"]]
        return ids, np.array(owners)

    def _windows(self, ids: list[int]) -> Iterator[Window]:
        """Yield the windows; the key is the place of the first scored token."""
        for first in range(0, len(ids), self._stride):
            begin = max(first + self._stride - self.longest, 0) if self.longest else 0
            stop = min(first + self._stride, len(ids))
            scored = stop - max(first, 1)  # nothing precedes the very first token
            yield Window(stop - scored, ids[begin:stop], scored)


def perplexity_of(row: FloatArray) -> float:
    """Return exp(losses / tokens) of these two sums."""
    loss, count = row
    return float(np.exp(loss / count))


@torch.inference_mode()
def scored_windows(model: Any, windows: Sequence[Window], size: int) -> Iterator[tuple[Window, FloatArray]]:
    """Yield each window with the negative log-likelihoods of its scored tokens in nats, in any order."""
    for batch in batches([len(piece.ids) for piece in windows], size):
        tokens = max(windows[index].scored for index in batch)
        most = max(1, LOGITS // (tokens * vocabulary_size(model)))
        for start in range(0, len(batch), most):
            chosen = [windows[index] for index in batch[start : start + most]]
            for piece, losses in zip(chosen, window_losses(model, chosen).double().cpu().numpy(), strict=True):
                yield piece, losses[len(losses) - piece.scored :]


def window_losses(model: Any, batch: Sequence[Window]) -> Tensor:
    """Return [B, S] negative log-likelihoods in nats of the last S tokens of each window, S = the most scored of any.

    Padding is on the left, so that the scored tokens of all rows are in the last columns and only their logits are
    computed; positions count from each row's first real token.
    """
    tokens = padded([piece.ids for piece in batch], 0, model.device, left=True)
    ids, mask, length = tokens.ids, tokens.mask.long(), tokens.ids.shape[1]
    scored = max(piece.scored for piece in batch)
    logits = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0),
        logits_to_keep=torch.arange(
            length - scored - 1, length - 1, device=ids.device
        ),  # 2.5 times faster than a slice
    ).logits
    losses: Tensor = -logits.float().log_softmax(dim=-1).gather(-1, ids[:, -scored:, None])[..., 0]
    return losses
