"""Training batches and figures of the models that write: plain text and translations."""

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from grue.mini.manifest import TrainingData
from miniworld import pretrain, reading, text
from miniworld.recipes import HELD_OUT, HELD_OUT_SEED, LONGEST, PROMPT, SENTINELS, Recipe

NOISE = ((0.3, 3.0), (0.7, 2.0), (0.7, 4.0))
"""(share of tokens hidden, mean length of a span)"""
TEXTS_AT_ONCE = 16
SHORT = 0.93
"""Share of the runs of a few sentences; the others continue to the paragraph's end."""


def drawn(data: TrainingData) -> list[Any]:
    """Draw the text that a recipe names."""
    found: list[Any] = getattr(text, data.text)(data.count, data.seed, data.revision)
    return found


def part(recipe: Recipe, number: int) -> Recipe:
    """Return a recipe with the text of one of its chapters, and the seed of its own."""
    training = tuple(
        replace(data, seed=1000 * data.seed + number, count=data.count // recipe.chapters) for data in recipe.training
    )
    return replace(recipe, training=training, seed=1000 * recipe.seed + number)


def held_out(data: TrainingData, count: int) -> TrainingData:
    """Return the same kind of text of another seed, on which no model is trained."""
    return replace(data, seed=HELD_OUT_SEED, count=count)


def token_ids(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> list[pretrain.TokenRow]:
    """Return each text as token ids without special ones."""
    return [list(row) for row in tokenizer(list(texts), add_special_tokens=False).input_ids]


# --- continuing a text -----------------------------------------------------------------------------------------------


def continuations(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, rng: random.Random) -> list[pretrain.Batch]:
    """Return batches of texts to continue, one text a row and sometimes several."""
    texts = token_ids(tokenizer, [each for data in recipe.training for each in drawn(data)])
    rows = pretrain.causal_rows(texts, tokenizer.eos_token_id, LONGEST, rng)
    return reading.causal_batches(rows, recipe.tokens, rng)


def continuation_figures(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel
) -> dict[str, float]:
    """Return perplexity and accuracy of the next token on other texts."""
    texts = token_ids(tokenizer, drawn(held_out(recipe.training[0], HELD_OUT)))
    rows = [[*row, tokenizer.eos_token_id][:LONGEST] for row in texts]
    groups = pretrain.buckets([len(row) for row in rows], recipe.tokens, random.Random(0))
    perplexity, accuracy = pretrain.token_figures(
        model, [pretrain.causal_batch([rows[i] for i in group]) for group in groups], ahead=1
    )
    return {"perplexity": perplexity, "next_token_accuracy": accuracy}


# --- restoring a text from parts, and translating --------------------------------------------------------------------


def restorations(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, rng: random.Random) -> list[pretrain.Batch]:
    """Return batches of texts to restore, and of sentences to translate if the recipe has some."""
    pairs = [pair for data in recipe.training for pair in _pairs(tokenizer, data, NOISE, rng)]
    return reading.seq2seq_batches(pairs, recipe.tokens, rng)


def restoration_figures(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel) -> dict[str, float]:
    """Return perplexity and accuracy of the next token on other texts, by how much is hidden, and on translations."""
    figures = {}
    for data in recipe.training:
        for noise in NOISE[:2] if data.text != "translations" else ((0.0, 0.0),):
            pairs = _pairs(tokenizer, held_out(data, HELD_OUT), [noise], random.Random(0))
            starts = range(0, len(pairs), TEXTS_AT_ONCE)
            batches = [pretrain.seq2seq_batch(pairs[start : start + TEXTS_AT_ONCE]) for start in starts]
            perplexity, accuracy = pretrain.token_figures(model, batches)
            where = "" if len(recipe.training) == 1 else f"_{data.text}"
            where += f"_hidden_{noise[0]:.0%}" if noise[0] else ""
            figures[f"perplexity{where}"] = perplexity
            figures[f"next_token_accuracy{where}"] = accuracy
    return figures


def _pairs(
    tokenizer: PreTrainedTokenizerFast, data: TrainingData, noise: Sequence[tuple[float, float]], rng: random.Random
) -> list[pretrain.Pair]:
    """Return (source, target) rows: each translation, and each window of a text, damaged and whole."""
    eos = tokenizer.eos_token_id
    if data.text == "translations":
        pairs = drawn(data)
        sources = token_ids(tokenizer, [PROMPT + english for english, _ in pairs])
        targets = token_ids(tokenizer, [german for _, german in pairs])
        return [([*source, eos], [*target, eos]) for source, target in zip(sources, targets, strict=True)]
    vocabulary = tokenizer.get_vocab()
    sentinels = [vocabulary[sentinel] for sentinel in SENTINELS]
    rows = token_ids(tokenizer, windows(drawn(data), rng))
    return [([*_damaged(row, sentinels, noise, rng), eos], [*row, eos]) for row in rows if len(row) > 1]


def _damaged(
    row: pretrain.TokenRow, sentinels: Sequence[int], noise: Sequence[tuple[float, float]], rng: random.Random
) -> pretrain.TokenRow:
    """Replace spans of a row by T5's sentinels.

    The target is the whole text and not only the hidden part, because a model this small would otherwise hardly learn
    to write sentences or to copy words of its input.
    """
    density, mean = noise[int(rng.random() * len(noise))]
    hidden = pretrain.spans(len(row), density, mean, len(SENTINELS), rng)
    return pretrain.corrupt(row, hidden, sentinels)


def windows(texts: Sequence[str], rng: random.Random) -> list[str]:
    """Cut paragraphs into runs of one to three sentences, so that a model learns where sentences begin and end.

    Some stay whole, so that it also learns to read long texts.
    """
    found: list[str] = []
    for paragraph in texts:
        sentences = re.split(r"(?<=[.!?]) ", paragraph)
        while sentences:
            taken = rng.randint(1, 3) if rng.random() < SHORT else len(sentences)
            found.append(" ".join(sentences[:taken]))
            sentences = sentences[taken:]
    return found
