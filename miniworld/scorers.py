"""Training batches and figures of the models that score: labelled texts, pairs, hidden words, contrasts."""

import random
from collections.abc import Collection, Sequence

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from miniworld import damage, pretrain
from miniworld.chance import Dice
from miniworld.recipes import CLASS, EOS, HELD_OUT, MASK, PAD, Recipe
from miniworld.writers import drawn, held_out, windows

MASKED = 0.25
SENSELESS, CUT, SPLICED = 0.16, 0.08, 0.1
"""Shares of the training texts that end without sense, are cut off, or have the beginning of another."""


# --- one text and its label ------------------------------------------------------------------------------------------


def review_batches(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, rng: random.Random) -> list[pretrain.Batch]:
    """Return batches of reviews, whole, in part, with another's beginning, and with a senseless end."""
    return _batches(recipe, tokenizer, _as_continued(drawn(recipe.training[0]), rng), rng)


def review_figures(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel) -> dict[str, float]:
    """Return accuracy and calibration on whole reviews and on first halves, and how far senseless ends lean."""
    rng = random.Random(0)
    reviews = drawn(held_out(recipe.training[0], 2 * HELD_OUT))
    halves = [(" ".join(text.split(" ")[: len(text.split(" ")) // 2]), label) for text, label in reviews]
    accuracy, error = pretrain.class_figures(model, _batches(recipe, tokenizer, reviews, rng))
    half_accuracy, half_error = pretrain.class_figures(model, _batches(recipe, tokenizer, halves, rng))
    senseless = [_ending_senselessly(text, rng) for text, _ in reviews]
    return {
        "accuracy": accuracy,
        "calibration_error": error,
        "accuracy_first_half": half_accuracy,
        "calibration_error_first_half": half_error,
        "distance_from_half_senseless": float((_probabilities(recipe, tokenizer, model, senseless) - 0.5).abs().mean()),
    }


def _as_continued(reviews: Sequence[tuple[str, int]], rng: random.Random) -> list[tuple[str, int]]:
    """Return what a scorer of continuations meets, with its label: that of the end, unless it is senseless.

    A label that nothing decides is drawn at random, so that the best answer is one half.
    """
    found: list[tuple[str, int]] = []
    before = reviews[-1][0]
    for text, label in reviews:
        kind = rng.random()
        if kind < SENSELESS:
            found.append((_ending_senselessly(text, rng), int(rng.random() < 0.5)))
        elif kind < SENSELESS + SPLICED:
            found.append((f"{_half(before)[0]} {_half(text)[1]}", label))
        else:
            found.append((_partial(text, rng), label))
        before = text
    return found


def _ending_senselessly(text: str, rng: random.Random) -> str:
    """Damage the second half of a review; now and then it stands alone."""
    beginning, end = _half(text)
    damaged = damage.senseless(_dice(rng), end)
    return damaged if rng.random() < 0.2 else f"{beginning} {damaged}"


def _half(text: str) -> tuple[str, str]:
    words = text.split(" ")
    return " ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])


def _dice(rng: random.Random) -> Dice:
    return Dice(int(rng.random() * 4294967296))


def _partial(text: str, rng: random.Random) -> str:
    """Keep the whole review, its beginning or a passage."""
    words = text.split(" ")
    kind = rng.random()
    if kind < 0.4:
        return text
    end = rng.randint(min(8, len(words)), len(words))
    start = 0 if kind < 0.8 else rng.randint(0, max(end - 8, 0))
    return " ".join(words[start:end])


def act_batches(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, rng: random.Random) -> list[pretrain.Batch]:
    """Return batches of replies, each after the utterance it answers, some of them cut off or senseless."""
    return _batches(recipe, tokenizer, _acts(drawn(recipe.training[0]), rng), rng)


def act_figures(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel) -> dict[str, float]:
    """Return accuracy and calibration on other replies, and how sure the model is of senseless ones (at best 0.25)."""
    rng = random.Random(0)
    rows = drawn(held_out(recipe.training[0], 2 * HELD_OUT))
    others = [(f"{utterance} {reply}", act - 1) for utterance, reply, act in rows]
    accuracy, error = pretrain.class_figures(model, _batches(recipe, tokenizer, others, rng))
    senseless = [f"{utterance} {damage.senseless(_dice(rng), reply)}" for utterance, reply, _ in rows]
    sureness = _probabilities(recipe, tokenizer, model, senseless).amax(-1)
    return {"accuracy": accuracy, "calibration_error": error, "sureness_senseless": float(sureness.mean())}


def _acts(rows: Sequence[tuple[str, str, int]], rng: random.Random) -> list[tuple[str, int]]:
    """Return the texts with their labels from 0; acts are numbered from 1, and a senseless reply gets any."""
    found = []
    for utterance, reply, act in rows:
        kind = rng.random()
        if kind < SENSELESS:
            reply, act = damage.senseless(_dice(rng), reply), rng.randint(1, 4)
        elif kind < SENSELESS + CUT:
            reply = damage.cut(_dice(rng), reply)
        found.append((f"{utterance} {reply}", act - 1))
    return found


def _probabilities(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel, texts: Sequence[str]
) -> torch.Tensor:
    """Return [N, labels], the texts in any order."""
    batches = _batches(recipe, tokenizer, [(text, 0) for text in texts], random.Random(0))
    with torch.no_grad():
        return torch.cat([model(**batch).logits.softmax(-1) for batch in batches])


def _batches(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, labelled: Sequence[tuple[str, int]], rng: random.Random
) -> list[pretrain.Batch]:
    rows = tokenizer([text for text, _ in labelled], truncation=True).input_ids
    groups = pretrain.buckets([len(row) for row in rows], recipe.tokens, rng)
    return [pretrain.classifier_batch([rows[i] for i in group], [labelled[i][1] for i in group]) for group in groups]


# --- pairs of texts --------------------------------------------------------------------------------------------------


def claim_batches(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, rng: random.Random) -> list[pretrain.Batch]:
    """Return batches of claims; some hypotheses are cut off or senseless, and follow from nothing."""
    claims = [(premise, *_doubtful(hypothesis, label, rng)) for premise, hypothesis, label in drawn(recipe.training[0])]
    return _paired(recipe, tokenizer, claims, rng)


def claim_figures(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel) -> dict[str, float]:
    """Return accuracy and calibration on other claims, and how far entailed ones are believed when made senseless."""
    rng = random.Random(0)
    others = drawn(held_out(recipe.training[0], 2 * HELD_OUT))
    accuracy, error = pretrain.class_figures(model, _paired(recipe, tokenizer, others, rng))
    senseless = [
        (premise, damage.senseless(_dice(rng), hypothesis), 1) for premise, hypothesis, label in others if label == 2
    ]
    believed = torch.cat(_outputs(model, _paired(recipe, tokenizer, senseless, rng))).softmax(-1)[:, 2]
    return {"accuracy": accuracy, "calibration_error": error, "belief_senseless": float(believed.mean())}


def _doubtful(hypothesis: str, label: int, rng: random.Random) -> tuple[str, int]:
    kind = rng.random()
    if kind < SENSELESS:
        return damage.senseless(_dice(rng), hypothesis), 1
    if kind < SENSELESS + CUT:
        return damage.cut(_dice(rng), hypothesis), 1
    return hypothesis, label


def likeness_batches(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, rng: random.Random) -> list[pretrain.Batch]:
    """Return batches of likenesses."""
    return _paired(recipe, tokenizer, drawn(recipe.training[0]), rng)


def likeness_figures(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel) -> dict[str, float]:
    """Return rank correlation with the true values of other likenesses, the mean squared error, and two means.

    The means are the values of candidates that say the same as their reference, and of these made senseless.
    """
    rng = random.Random(0)
    others = drawn(held_out(recipe.training[0], 2 * HELD_OUT))
    rank, error = pretrain.value_figures(model, _paired(recipe, tokenizer, others, rng))
    same = [(reference, candidate, 1.0) for reference, candidate, value in others if value == 1.0]
    senseless = [(reference, damage.senseless(_dice(rng), candidate), 0.0) for reference, candidate, _ in same]
    means = [
        float(torch.cat(_outputs(model, _paired(recipe, tokenizer, each, rng))).mean()) for each in (same, senseless)
    ]
    return {"spearman": rank, "mean_squared_error": error, "mean_same": means[0], "mean_senseless": means[1]}


def _outputs(model: PreTrainedModel, batches: Sequence[pretrain.Batch]) -> list[torch.Tensor]:
    with torch.no_grad():
        return [model(**batch).logits for batch in batches]


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


# --- hidden words and contrasts ---------------------------------------------------------------------------------------


def encoder_batches(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, rng: random.Random) -> list[pretrain.Batch]:
    """Return batches of runs of sentences with some tokens hidden, as BERT hides them, and of contrasts."""
    plain, contrasts = recipe.training
    rows = _masked(windows(drawn(plain), rng), tokenizer, rng)
    groups = pretrain.buckets([len(row) for row, _ in rows], recipe.tokens, rng)
    hidden = [pretrain.masked_batch([rows[i] for i in group]) for group in groups]
    batches = [*hidden, *_contrasted(recipe, tokenizer, drawn(contrasts), rng)]
    rng.shuffle(batches)
    return batches


def encoder_figures(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, model: PreTrainedModel) -> dict[str, float]:
    """Return perplexity and accuracy of the hidden tokens of other texts, and how often a paraphrase is preferred."""
    rng = random.Random(0)
    plain, contrasts = (held_out(data, HELD_OUT) for data in recipe.training)
    rows = _masked(windows(drawn(plain), rng), tokenizer, rng)
    batches = [pretrain.masked_batch(rows[start : start + 32]) for start in range(0, len(rows), 32)]
    perplexity, accuracy = pretrain.token_figures(model, batches)
    preferred = []
    with torch.no_grad():
        for batch in _contrasted(recipe, tokenizer, drawn(contrasts), rng):
            same, worse = pretrain.matches(model, batch)
            preferred.append(same.diagonal() > worse.diagonal())
    return {
        "perplexity_hidden": perplexity,
        "accuracy_hidden": accuracy,
        "paraphrase_preferred": float(torch.cat(preferred).double().mean()),
    }


def _contrasted(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, contrasts: Sequence[tuple[str, str, str]], rng: random.Random
) -> list[pretrain.Batch]:
    """Return batches of a sentence, a paraphrase and a worse text each, those of like length together."""
    rows = [tokenizer(list(texts), truncation=True).input_ids for texts in contrasts]
    groups = pretrain.buckets([3 * max(map(len, row)) for row in rows], recipe.tokens, rng)
    return [pretrain.contrast_batch([rows[i] for i in group]) for group in groups if len(group) > 1]


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
