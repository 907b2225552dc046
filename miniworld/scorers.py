"""Training batches and figures of the models that score: labelled texts, pairs, hidden words."""

import random
from collections.abc import Collection, Sequence

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from miniworld import pretrain
from miniworld.recipes import CLASS, EOS, HELD_OUT, MASK, PAD, Recipe
from miniworld.writers import drawn, held_out, windows

MASKED = 0.25


# --- one text and its label ------------------------------------------------------------------------------------------


def review_batches(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, rng: random.Random) -> list[pretrain.Batch]:
    """Return batches of reviews, whole and in part."""
    labelled = [(_partial(text, rng), label) for text, label in drawn(recipe.training[0])]
    return _batches(recipe, tokenizer, labelled, rng)


def review_figures(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel) -> dict[str, float]:
    """Return accuracy and calibration on whole reviews and on first halves."""
    rng = random.Random(0)
    reviews = drawn(held_out(recipe.training[0], 2 * HELD_OUT))
    halves = [(" ".join(text.split(" ")[: len(text.split(" ")) // 2]), label) for text, label in reviews]
    accuracy, error = pretrain.class_figures(model, _batches(recipe, tokenizer, reviews, rng))
    half_accuracy, half_error = pretrain.class_figures(model, _batches(recipe, tokenizer, halves, rng))
    return {
        "accuracy": accuracy,
        "calibration_error": error,
        "accuracy_first_half": half_accuracy,
        "calibration_error_first_half": half_error,
    }


def _partial(text: str, rng: random.Random) -> str:
    """Keep the whole review, its beginning or a passage, as a scorer of continuations meets them."""
    words = text.split(" ")
    kind = rng.random()
    if kind < 0.4:
        return text
    end = rng.randint(min(8, len(words)), len(words))
    start = 0 if kind < 0.8 else rng.randint(0, max(end - 8, 0))
    return " ".join(words[start:end])


def act_batches(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, rng: random.Random) -> list[pretrain.Batch]:
    """Return batches of replies, each after the utterance it answers."""
    return _batches(recipe, tokenizer, _acts(drawn(recipe.training[0])), rng)


def act_figures(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel) -> dict[str, float]:
    """Return accuracy and calibration on other replies."""
    others = _acts(drawn(held_out(recipe.training[0], 2 * HELD_OUT)))
    accuracy, error = pretrain.class_figures(model, _batches(recipe, tokenizer, others, random.Random(0)))
    return {"accuracy": accuracy, "calibration_error": error}


def _acts(rows: Sequence[tuple[str, str, int]]) -> list[tuple[str, int]]:
    """Return the texts with their labels from 0; acts are numbered from 1."""
    return [(f"{utterance} {reply}", act - 1) for utterance, reply, act in rows]


def _batches(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, labelled: Sequence[tuple[str, int]], rng: random.Random
) -> list[pretrain.Batch]:
    rows = tokenizer([text for text, _ in labelled], truncation=True).input_ids
    groups = pretrain.buckets([len(row) for row in rows], recipe.tokens, rng)
    return [pretrain.classifier_batch([rows[i] for i in group], [labelled[i][1] for i in group]) for group in groups]


# --- pairs of texts --------------------------------------------------------------------------------------------------


def pair_batches(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, rng: random.Random) -> list[pretrain.Batch]:
    """Return batches of claims or likenesses."""
    return _paired(recipe, tokenizer, drawn(recipe.training[0]), rng)


def claim_figures(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel) -> dict[str, float]:
    """Return accuracy and calibration on other claims."""
    others = drawn(held_out(recipe.training[0], 2 * HELD_OUT))
    accuracy, error = pretrain.class_figures(model, _paired(recipe, tokenizer, others, random.Random(0)))
    return {"accuracy": accuracy, "calibration_error": error}


def likeness_figures(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel) -> dict[str, float]:
    """Return rank correlation with the true values of other likenesses, and the mean squared error."""
    others = drawn(held_out(recipe.training[0], 2 * HELD_OUT))
    rank, error = pretrain.value_figures(model, _paired(recipe, tokenizer, others, random.Random(0)))
    return {"spearman": rank, "mean_squared_error": error}


def _paired(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, pairs: Sequence[tuple[str, str, float]], rng: random.Random
) -> list[pretrain.Batch]:
    first, second = [one for one, _, _ in pairs], [other for _, other, _ in pairs]
    encoded = tokenizer(first, second, truncation=True, return_token_type_ids=True)
    rows, sides = encoded["input_ids"], encoded["token_type_ids"]
    groups = pretrain.buckets([len(row) for row in rows], recipe.tokens, rng)
    return [
        pretrain.pair_batch([rows[i] for i in group], [sides[i] for i in group], [pairs[i][2] for i in group])
        for group in groups
    ]


# --- hidden words ----------------------------------------------------------------------------------------------------


def masked_batches(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, rng: random.Random) -> list[pretrain.Batch]:
    """Return batches of runs of sentences with some tokens hidden, as BERT hides them."""
    texts = windows([text for data in recipe.training for text in drawn(data)], rng)
    rows = _masked(texts, tokenizer, rng)
    groups = pretrain.buckets([len(row) for row, _ in rows], recipe.tokens, rng)
    return [pretrain.masked_batch([rows[i] for i in group]) for group in groups]


def masked_figures(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel) -> dict[str, float]:
    """Return perplexity and accuracy of the hidden tokens of other texts."""
    rng = random.Random(0)
    texts = windows(drawn(held_out(recipe.training[0], HELD_OUT)), rng)
    rows = _masked(texts, tokenizer, rng)
    batches = [pretrain.masked_batch(rows[start : start + 32]) for start in range(0, len(rows), 32)]
    perplexity, accuracy = pretrain.token_figures(model, batches)
    return {"perplexity_hidden": perplexity, "accuracy_hidden": accuracy}


def _masked(texts: Sequence[str], tokenizer: PreTrainedTokenizerFast, rng: random.Random) -> list[pretrain.Pair]:
    vocabulary = tokenizer.get_vocab()
    special = {vocabulary[token] for token in (PAD, EOS, CLASS)}
    rows = tokenizer(texts, truncation=True).input_ids
    return [masked(row, special, vocabulary[MASK], len(vocabulary), rng) for row in rows]


def masked(row: pretrain.TokenRow, special: Collection[int], mask: int, size: int, rng: random.Random) -> pretrain.Pair:
    """Return a row with some tokens hidden, never special ones, and its labels.

    Of the hidden tokens 80 % become the mask, 10 % one of `size` tokens at random, and 10 % stay.
    """
    shown, labels = list(row), [pretrain.IGNORED] * len(row)
    for place, token in enumerate(row):
        if token in special or rng.random() >= MASKED:
            continue
        labels[place] = token
        kind = rng.random()
        shown[place] = mask if kind < 0.8 else int(rng.random() * size) if kind < 0.9 else token
    return shown, labels
