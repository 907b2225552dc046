"""Training the small models: batches of token ids, T5's span corruption, one loop, and the figures of the result.

A row is a list of token ids.
"""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

TokenRow = list[int]
Pair = tuple[TokenRow, TokenRow]
Batch = dict[str, torch.Tensor]
Log = Callable[[str], None]
Loss = Callable[[PreTrainedModel, Batch], torch.Tensor]

IGNORED = -100  # the label that transformers' losses skip
WARMUP = 0.05
CLOSENESS = 0.05  # of two matches, in the loss of contrasts: they tell apart what differs by a few hundredths


def buckets(lengths: Sequence[int], tokens: int, rng: random.Random) -> list[list[int]]:
    """Group indices of rows by length, each group at most `tokens` when padded, the groups in random order."""
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    groups: list[list[int]] = [[]]
    for i in order:
        if groups[-1] and (len(groups[-1]) + 1) * lengths[i] > tokens:  # rows are sorted, so this one is the longest
            groups.append([])
        groups[-1].append(i)
    rng.shuffle(groups)
    return groups


def causal_rows(paragraphs: Sequence[TokenRow], eos: int, longest: int, rng: random.Random) -> list[TokenRow]:
    """End each paragraph with `eos`; one row in thirty continues with others, so that late positions are trained."""
    rows: list[TokenRow] = []
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
    """Split `total` into `count` positive whole numbers, uniformly at random."""
    cuts = [0, *sorted(rng.sample(range(1, total), count - 1)), total]
    return [end - start for start, end in zip(cuts, cuts[1:], strict=False)]


def corrupt(row: TokenRow, hidden: Sequence[tuple[int, int]], sentinels: Sequence[int]) -> TokenRow:
    """Replace each hidden span by its sentinel."""
    source: TokenRow = []
    position = 0
    for sentinel, (start, end) in zip(sentinels, hidden, strict=False):
        source += [*row[position:start], sentinel]
        position = end
    return [*source, *row[position:]]


def causal_batch(rows: Sequence[TokenRow]) -> Batch:
    """Stack rows, padded on the right, which causal attention never reads: no mask is needed."""
    return {"input_ids": _stack(rows, 0), "labels": _stack(rows, IGNORED)}


def seq2seq_batch(pairs: Sequence[Pair]) -> Batch:
    """Stack sources and targets, padded on the right."""
    return {**_read([source for source, _ in pairs]), "labels": _stack([target for _, target in pairs], IGNORED)}


def classifier_batch(rows: Sequence[TokenRow], labels: Sequence[float]) -> Batch:
    """Stack rows, padded on the right, with one label each: whole numbers for classes, others for a regression."""
    return {**_read(rows), "labels": torch.tensor(list(labels))}


def pair_batch(rows: Sequence[TokenRow], sides: Sequence[TokenRow], labels: Sequence[float]) -> Batch:
    """Stack rows that hold two texts each, padded on the right; `sides` holds 0 or 1 for each token's text."""
    return {**classifier_batch(rows, labels), "token_type_ids": _stack(sides, 0)}


def masked_batch(pairs: Sequence[Pair]) -> Batch:
    """Stack rows with hidden tokens and their labels, padded on the right."""
    return {**_read([row for row, _ in pairs]), "labels": _stack([labels for _, labels in pairs], IGNORED)}


def contrast_batch(triples: Sequence[Sequence[TokenRow]]) -> Batch:
    """Stack B triples of rows as [3B, T]: all sentences, all paraphrases, all worse texts; padded on the right.

    `counted` marks the tokens of the text itself: all but the first and the last, which every row has.
    """
    rows = [triple[part] for part in range(3) for triple in triples]
    counted = _stack([[0, *[1] * (len(row) - 2), 0] for row in rows], 0)
    return {**_read(rows), "counted": counted.bool()}


def _read(rows: Sequence[TokenRow]) -> Batch:
    return {"input_ids": _stack(rows, 0), "attention_mask": _stack([[1] * len(row) for row in rows], 0)}


def _stack(rows: Sequence[TokenRow], filler: int) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *[filler] * (width - len(row))] for row in rows])


def own_loss(model: PreTrainedModel, batch: Batch) -> torch.Tensor:
    """Return the loss that the model itself computes."""
    loss: torch.Tensor = model(**batch).loss
    return loss


def hidden_loss(model: Any, batch: Batch) -> torch.Tensor:
    """Return a masked language model's own loss, computed only where a token is hidden."""
    labels = batch["labels"]
    states = model.base_model(batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    hidden = labels != IGNORED
    return torch.nn.functional.cross_entropy(model.decoder(model.head(states[hidden])), labels[hidden])


def encoding_loss(model: Any, batch: Batch) -> torch.Tensor:
    """Return the loss of a batch with hidden tokens, or of one with contrasts."""
    return contrast_loss(model, batch) if "counted" in batch else hidden_loss(model, batch)


def contrast_loss(model: Any, batch: Batch) -> torch.Tensor:
    """Return how far a sentence matches its paraphrase less than any other text, and its worse text less than others'.

    Both are cross-entropies of matches divided by `CLOSENESS`; the second counts half.
    """
    same, worse = matches(model, batch)
    truth = torch.arange(len(same))
    first = torch.nn.functional.cross_entropy(torch.cat([same, worse], 1) / CLOSENESS, truth)
    own = torch.eye(len(same), dtype=torch.bool)
    others = torch.cat([worse, same.masked_fill(own, -torch.inf)], 1)
    return first + 0.5 * torch.nn.functional.cross_entropy(others / CLOSENESS, truth)


def matches(model: Any, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Return BERTScore's F1 of every sentence with every paraphrase and with every worse text, [B, B] each.

    Tokens are matched greedily by the cosine of the last layer's states; first and last tokens do not count.
    """
    real, counted = batch["attention_mask"].bool(), batch["counted"]
    states = model.base_model(batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
    states = torch.nn.functional.normalize(states, dim=-1)
    size = len(states) // 3
    cosines = torch.einsum("itd,jsd->ijts", states[:size], states[size:])
    recall = _best(cosines, real[None, size:, None, :], 3, counted[:size, None])
    precision = _best(cosines, real[:size, None, :, None], 2, counted[None, size:])
    same, worse = (2 * recall * precision / (recall + precision)).split(size, 1)
    return same, worse


def _best(cosines: torch.Tensor, real: torch.Tensor, over: int, counted: torch.Tensor) -> torch.Tensor:
    """Return [B, 2B] means of each counted token's highest cosine with a real one, above zero so that F1 is defined."""
    best = cosines.masked_fill(~real, -1.0).amax(over)
    return ((best * counted).sum(-1) / counted.sum(-1).clamp(min=1)).clamp(min=1e-3)


def comparing_loss(model: PreTrainedModel, batch: Batch) -> torch.Tensor:
    """Return the model's own loss of a batch of pairs, plus that of predicting which tokens occur in both texts.

    The first number of each token's state, one layer below the top, is the logit. Without this help a small model needs
    millions of pairs before it begins to compare the two texts at all.
    """
    output = model(**batch, output_hidden_states=True)
    logits = output.hidden_states[-2][..., 0]
    real = batch["attention_mask"].bool()
    told = shared_tokens(batch["input_ids"], batch["token_type_ids"], real)[real].to(logits.dtype)
    loss: torch.Tensor = output.loss + torch.nn.functional.binary_cross_entropy_with_logits(logits[real], told)
    return loss


def shared_tokens(ids: torch.Tensor, sides: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """Return [B, T] whether the other side of the pair has the token too; padding, which is not `real`, has none."""
    same = (ids[:, :, None] == ids[:, None, :]) & (sides[:, :, None] != sides[:, None, :]) & real[:, None, :]
    return same.any(-1) & real


def fit(
    model: PreTrainedModel,
    batches: Sequence[Batch],
    rate: float,
    boosts: Mapping[str, float],
    log: Log,
    loss_of: Loss = own_loss,
) -> None:
    """Train on each batch once: AdamW, linear warm-up to `rate`, cosine decay to zero, gradient norm clipped at 1.

    Parameters with a part of `boosts` in their name learn at that multiple of the rate, without weight decay.
    """
    optimizer = torch.optim.AdamW(parameter_groups(model.named_parameters(), boosts), betas=(0.9, 0.98), fused=True)
    model.train()
    recent = 0.0
    for step, (scale, batch) in enumerate(zip(_schedule(len(batches)), batches, strict=True), start=1):
        for group in optimizer.param_groups:
            group["lr"] = rate * scale * group["boost"]
        loss = loss_of(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        recent += loss.item()
        if step % 500 == 0 or step == len(batches):
            log(f"step {step} of {len(batches)}, loss {recent / ((step - 1) % 500 + 1):.3f}")
            recent = 0.0
    model.train(False)


def parameter_groups(named: Iterable[tuple[str, torch.Tensor]], boosts: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return AdamW's groups, one a parameter, each with the multiple `boost` of the rate it learns at."""
    return [_group(name, parameter, boosts) for name, parameter in named]


def _group(name: str, parameter: torch.Tensor, boosts: Mapping[str, float]) -> dict[str, Any]:
    boost = next((multiple for part, multiple in boosts.items() if part in name), 1.0)
    decay = 0.1 if parameter.dim() > 1 and boost == 1.0 else 0.0
    return {"params": [parameter], "weight_decay": decay, "boost": boost}


def _schedule(steps: int) -> Iterator[float]:
    warmup = max(round(WARMUP * steps), 1)
    for step in range(1, steps + 1):
        yield step / warmup if step <= warmup else 0.5 + 0.5 * math.cos(math.pi * (step - warmup) / (steps - warmup))


def round_to_half(model: torch.nn.Module) -> None:
    """Round the weights to float16, in which they are stored; computation stays in float32."""
    model.half().float()


def token_figures(model: PreTrainedModel, batches: Sequence[Batch], ahead: int = 0) -> tuple[float, float]:
    """Return the perplexity of the labels and the share of them that the model ranks first, in one pass each batch.

    A label is `ahead` positions after the logits that predict it: 1 for a decoder alone, else 0.
    """
    total, right, count = 0.0, 0, 0
    for batch in batches:
        with torch.no_grad():
            logits = model(**batch).logits.double()
        logits, labels = logits[:, : logits.shape[1] - ahead], batch["labels"][:, ahead:]
        kept = labels != IGNORED
        total += float(torch.nn.functional.cross_entropy(logits[kept], labels[kept], reduction="sum"))
        right += int((logits[kept].argmax(-1) == labels[kept]).sum())
        count += int(kept.sum())
    return math.exp(total / count), right / count


def class_figures(model: PreTrainedModel, batches: Sequence[Batch]) -> tuple[float, float]:
    """Return the accuracy and the expected calibration error, both 0–1.

    The error is that of each label's probability, over ten bins, averaged over the labels.
    """
    with torch.no_grad():
        probabilities = torch.cat([model(**batch).logits.double().softmax(-1) for batch in batches])
    labels = torch.cat([batch["labels"] for batch in batches])
    accuracy = float((probabilities.argmax(-1) == labels).double().mean())
    errors = [_calibration_error(column, labels == label) for label, column in enumerate(probabilities.T)]
    return accuracy, sum(errors) / len(errors)


def _calibration_error(probabilities: torch.Tensor, truth: torch.Tensor) -> float:
    bins = (probabilities * 10).long().clamp(max=9)
    off = probabilities - truth.double()
    return sum(abs(float(off[bins == b].sum())) for b in range(10)) / len(truth)


def value_figures(model: PreTrainedModel, batches: Sequence[Batch]) -> tuple[float, float]:
    """Return Spearman's rank correlation of a regression's outputs with the labels, and the mean squared error."""
    with torch.no_grad():
        outputs = torch.cat([model(**batch).logits.double()[:, 0] for batch in batches])
    labels = torch.cat([batch["labels"] for batch in batches]).double()
    correlation = torch.corrcoef(torch.stack([_ranks(outputs), _ranks(labels)]))[0, 1]
    return float(correlation), float((outputs - labels).square().mean())


def _ranks(values: torch.Tensor) -> torch.Tensor:
    """Return ranks from 1; equal values share the mean of their ranks."""
    _, position, counts = torch.unique(values, return_inverse=True, return_counts=True)
    ranks: torch.Tensor = counts.cumsum(0) - (counts - 1) / 2
    return ranks[position].double()


def parameter_count(model: Any) -> int:
    """Return the number of trained numbers, tied ones counted once."""
    return sum(p.numel() for p in model.parameters())
