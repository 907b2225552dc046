"""Metrics that ask a model: the probability of a label, and perplexity under a language model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grue.errors import ConfigError
from grue.metrics.base import METRICS, Average, FloatArray
from grue.models import load_classifier, load_scoring_model
from grue.records import Direction, Example


def seam(prompt: str, text: str) -> tuple[str, str]:
    """Split prompt + text so that white space opens the text, which is how byte-level tokenizers cut words.

    One space stands between the two unless the prompt ends or the text starts with white space, or either is empty.
    """
    context = prompt.rstrip()
    if not context or not text or text[0].isspace():
        return context, text
    return context, (prompt[len(context) :] or " ") + text


# --- sentiment -------------------------------------------------------------------------------------------------------


@METRICS.register("sentiment")
def sentiment(model: str, label: int, revision: str = "", batch_size: int = 32) -> Average:
    """Return the probability that a classifier gives to `label` for prompt and text together, 0–1.

    What is too long for the classifier is cut on the left, so that the text stays.

    Args:
        model: Hub id, local folder or `mini:<asset>`.
        label: Index of the label whose probability counts.
        revision: Commit or tag of a hub model.
        batch_size: Inputs at a time; does not change the values.

    Raises:
        ConfigError: The classifier has no such label.
    """
    classifier, tokenizer = load_classifier(model, revision)
    labels = classifier.config.num_labels or 0
    if not 0 <= label < labels:
        raise ConfigError(f"The metric 'sentiment': {model} has the labels 0 to {labels - 1}, not {label}.")
    longest = window(classifier, tokenizer)

    @torch.inference_mode()
    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        inputs = ["".join(seam(example.prompt, text)) for example, text in zip(examples, texts, strict=True)]
        encoded = tokenizer(inputs, truncation=longest is not None, max_length=longest)["input_ids"]
        found = np.zeros(len(inputs))
        for batch in batches([len(ids) for ids in encoded], batch_size):
            padded = tokenizer.pad({"input_ids": [encoded[index] for index in batch]}, return_tensors="pt")
            logits = classifier(**padded.to(classifier.device)).logits
            found[batch] = logits.double().softmax(dim=-1)[:, label].cpu().numpy()
        return found.tolist()

    return Average(f"sentiment|model:{model}|revision:{revision}|label:{label}|cut:left", values)


# --- perplexity ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of one example's tokens, of which the last `scored` count."""

    example: int
    ids: list[int]
    scored: int


@METRICS.register("perplexity")
class Perplexity:
    """Perplexity of the texts, given their prompts, under a language model that is not the policy; 1 is the best.

    The corpus value is exp(total negative log-likelihood / total tokens). An empty text counts as one token, the
    model's end of text. A text longer than the model's window is scored piece by piece, each token with at least half
    a window before it.

    Args:
        model: Hub id, local folder or `mini:<asset>` of a causal language model.
        revision: Commit or tag of a hub model.
        batch_size: Windows at a time; does not change the values.
    """

    direction: Direction = "lower"

    def __init__(self, model: str, revision: str = "", batch_size: int = 32) -> None:
        self._model, self._tokenizer = load_scoring_model("causal", model, revision)
        self._batch_size = batch_size
        self.signature = f"perplexity|model:{model}|revision:{revision}|of:text given prompt|empty:end of text"

    def prepare(self, examples: Sequence[Example]) -> None:
        """Do nothing: only prompts and texts count."""

    @torch.inference_mode()
    def statistics(self, examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        """Return [N, 2]: negative log-likelihood of the text in nats, and its number of tokens."""
        found = np.zeros((len(texts), 2))
        windows = [
            piece
            for index, (example, text) in enumerate(zip(examples, texts, strict=True))
            for piece in self._windows(index, example.prompt, text)
        ]
        for batch in batches([len(piece.ids) for piece in windows], self._batch_size):
            chosen = [windows[index] for index in batch]
            for piece, loss in zip(chosen, self._losses(chosen), strict=True):
                found[piece.example] += loss, piece.scored
        return found

    def per_example(self, statistics: FloatArray) -> FloatArray:
        """Return [N] perplexities of the single texts."""
        return np.exp(statistics[:, 0] / statistics[:, 1])

    def corpus(self, statistics: FloatArray) -> float:
        """Return the perplexity of all texts, each token weighing the same."""
        loss, count = statistics.sum(axis=0)
        return float(np.exp(loss / count))

    def _windows(self, example: int, prompt: str, text: str) -> Iterator[Window]:
        context, continuation = seam(prompt, text)
        end = self._tokenizer.eos_token_id
        start = end if self._tokenizer.bos_token_id is None else self._tokenizer.bos_token_id
        before = self._ids(context) or [start]
        after = self._ids(continuation) if text.strip() else []
        ids = before + (after or [end])
        longest = window(self._model, self._tokenizer) or len(ids)
        step = max(1, longest // 2)
        for first in range(len(before), len(ids), step):
            stop = min(len(ids), first + step)
            yield Window(example, ids[max(0, stop - longest) : stop], stop - first)

    def _ids(self, text: str) -> list[int]:
        found: list[int] = self._tokenizer(text, add_special_tokens=False)["input_ids"]
        return found

    def _losses(self, batch: list[Window]) -> list[float]:
        """Return the summed negative log-likelihood of each window's scored tokens, in nats.

        Padding is on the left, so that the scored tokens of all rows stand in the last columns and only their logits
        are made; positions count from each row's first real token.
        """
        length, scored = max(len(piece.ids) for piece in batch), max(piece.scored for piece in batch)
        ids = torch.tensor([[0] * (length - len(piece.ids)) + piece.ids for piece in batch])
        mask = torch.tensor([[0] * (length - len(piece.ids)) + [1] * len(piece.ids) for piece in batch])
        counts = torch.tensor([[0] * (scored - piece.scored) + [1] * piece.scored for piece in batch])  # [B, scored]
        ids, mask, counts = (tensor.to(self._model.device) for tensor in (ids, mask, counts))
        logits = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0),
            logits_to_keep=scored + 1,
        ).logits[:, :-1]
        losses: Tensor = -logits.float().log_softmax(dim=-1).gather(-1, ids[:, -scored:, None])[..., 0]
        return [float(loss) for loss in losses.double().mul(counts).sum(dim=1)]


# --- both ------------------------------------------------------------------------------------------------------------


def window(model: Any, tokenizer: Any) -> int | None:
    """Return how many tokens the model reads at most, or None if it has no limit."""
    limits = [tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", None)]
    found = [int(limit) for limit in limits if limit is not None and limit < 1_000_000]  # transformers' "none" is 1e30
    return min(found, default=None)


def batches(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Yield the indices of inputs in batches of similar length, longest first."""
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    for start in range(0, len(order), size):
        yield order[start : start + size]
