"""Training the small models: batches of token ids, T5's span corruption, one loop, and the figures of the result.

A row is a list of token ids. torch is imported inside the functions, because this shelf is read without it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

Row = list[int]
Pair = tuple[Row, Row]
Batch = dict[str, "torch.Tensor"]
Log = Callable[[str], None]

IGNORED = -100  # the label that transformers' losses skip
WARMUP = 0.05


def buckets(lengths: Sequence[int], tokens: int, rng: random.Random) -> list[list[int]]:
    """Group indices of rows of like length, each group at most `tokens` when padded, the groups in random order."""
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    groups: list[list[int]] = [[]]
    for i in order:
        if groups[-1] and (len(groups[-1]) + 1) * lengths[i] > tokens:  # rows are sorted, so this one is the longest
            groups.append([])
        groups[-1].append(i)
    rng.shuffle(groups)
    return groups


def causal_rows(paragraphs: Sequence[Row], eos: int, longest: int, rng: random.Random) -> list[Row]:
    """End each paragraph with `eos`; one row in thirty goes on with others, so that late positions are trained."""
    rows: list[Row] = []
    extend = False
    for paragraph in paragraphs:
        row = [*paragraph, eos][:longest]
        if extend and len(rows[-1]) + len(row) <= longest:
            rows[-1] += row
        else:
            rows.append(row)
            extend = rng.random() < 1 / 30
    return rows


def spans(length: int, density: float, mean: float, most: int, rng: random.Random) -> list[tuple[int, int]]:
    """Draw the half-open spans to hide: T5's scheme, but a text may also begin inside a span.

    A share of `density` of the `length` tokens is hidden, in at most `most` spans of mean length `mean`.
    """
    hidden = min(max(round(length * density), 1), length - 1)
    count = min(max(round(hidden / mean), 1), most, length - hidden)
    pieces = zip(_segments(hidden, count, rng), _segments(length - hidden, count, rng), strict=True)
    hidden_first = rng.random() < 0.5
    found, position = [], 0
    for inside, outside in pieces:
        start = position if hidden_first else position + outside
        found.append((start, start + inside))
        position += inside + outside
    return found


def _segments(total: int, count: int, rng: random.Random) -> list[int]:
    """Cut `total` into `count` positive whole numbers, every way equally likely."""
    cuts = [0, *sorted(rng.sample(range(1, total), count - 1)), total]
    return [end - start for start, end in zip(cuts, cuts[1:], strict=False)]


def corrupt(row: Row, hidden: Sequence[tuple[int, int]], sentinels: Sequence[int]) -> Row:
    """Replace each hidden span by its sentinel."""
    source: Row = []
    position = 0
    for sentinel, (start, end) in zip(sentinels, hidden, strict=False):
        source += [*row[position:start], sentinel]
        position = end
    return [*source, *row[position:]]


def causal_batch(rows: Sequence[Row]) -> Batch:
    """Stack rows, padded on the right, where causal attention never looks back from: no mask is needed."""
    return {"input_ids": _stack(rows, 0), "labels": _stack(rows, IGNORED)}


def seq2seq_batch(pairs: Sequence[Pair]) -> Batch:
    """Stack sources and targets, padded on the right."""
    sources = [source for source, _ in pairs]
    return {
        "input_ids": _stack(sources, 0),
        "attention_mask": _stack([[1] * len(source) for source in sources], 0),
        "labels": _stack([target for _, target in pairs], IGNORED),
    }


def classifier_batch(rows: Sequence[Row], labels: Sequence[int]) -> Batch:
    """Stack rows, padded on the right, with one label each."""
    import torch

    mask = _stack([[1] * len(row) for row in rows], 0)
    return {"input_ids": _stack(rows, 0), "attention_mask": mask, "labels": torch.tensor(list(labels))}


def _stack(rows: Sequence[Row], filler: int) -> torch.Tensor:
    import torch

    width = max(map(len, rows))
    return torch.tensor([[*row, *[filler] * (width - len(row))] for row in rows])


def fit(model: PreTrainedModel, batches: Sequence[Batch], rate: float, boosts: Mapping[str, float], log: Log) -> None:
    """Train on each batch once: AdamW, linear warm-up to `rate`, cosine decay to zero, gradient norm clipped at 1.

    Parameters with a part of `boosts` in their name learn at that multiple of the rate, without weight decay.
    """
    import torch

    groups = [_group(name, parameter, boosts) for name, parameter in model.named_parameters()]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=True)
    model.train()
    recent = 0.0
    for step, (scale, batch) in enumerate(zip(_schedule(len(batches)), batches, strict=True), start=1):
        for group in optimizer.param_groups:
            group["lr"] = rate * scale * group["boost"]
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        recent += loss.item()
        if step % 500 == 0 or step == len(batches):
            log(f"step {step} of {len(batches)}, loss {recent / ((step - 1) % 500 + 1):.3f}")
            recent = 0.0
    model.train(False)


def _group(name: str, parameter: torch.Tensor, boosts: Mapping[str, float]) -> dict[str, Any]:
    boost = next((multiple for part, multiple in boosts.items() if part in name), 1.0)
    decay = 0.1 if parameter.dim() > 1 and boost == 1.0 else 0.0
    return {"params": [parameter], "weight_decay": decay, "boost": boost}


def _schedule(steps: int) -> Iterator[float]:
    warmup = max(round(WARMUP * steps), 1)
    for step in range(1, steps + 1):
        yield step / warmup if step <= warmup else 0.5 + 0.5 * math.cos(math.pi * (step - warmup) / (steps - warmup))


def round_to_half(model: torch.nn.Module) -> None:
    """Round the weights to float16, as they will be stored, and keep computing in float32."""
    model.half().float()


def token_figures(model: PreTrainedModel, batches: Sequence[Batch]) -> tuple[float, float]:
    """Return the perplexity of the labels and the share of them that the model ranks first, in one pass each batch."""
    import torch

    total, right, count = 0.0, 0, 0
    for batch in batches:
        with torch.no_grad():
            logits = model(**batch).logits.double()
        labels = batch["labels"]
        if not model.config.is_encoder_decoder:  # a decoder alone predicts the next token
            logits, labels = logits[:, :-1], labels[:, 1:]
        kept = labels != IGNORED
        total += float(torch.nn.functional.cross_entropy(logits[kept], labels[kept], reduction="sum"))
        right += int((logits[kept].argmax(-1) == labels[kept]).sum())
        count += int(kept.sum())
    return math.exp(total / count), right / count


def class_figures(model: PreTrainedModel, batches: Sequence[Batch]) -> tuple[float, float]:
    """Return the accuracy and the expected calibration error (ten bins of the probability of label 1), both 0–1."""
    import torch

    with torch.no_grad():
        probabilities = torch.cat([model(**batch).logits.double().softmax(-1)[:, 1] for batch in batches])
    labels = torch.cat([batch["labels"] for batch in batches])
    accuracy = float(((probabilities > 0.5) == labels.bool()).double().mean())
    bins = (probabilities * 10).long().clamp(max=9)
    gaps = [
        abs(float((probabilities[chosen] - labels[chosen]).sum())) for b in range(10) if (chosen := bins == b).any()
    ]
    return accuracy, sum(gaps) / len(labels)


def parameter_count(model: Any) -> int:
    """Return the number of trained numbers, tied ones counted once."""
    return sum(p.numel() for p in model.parameters())
