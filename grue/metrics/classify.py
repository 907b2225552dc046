"""Metrics that use a text classifier: the probability of a label, and whether a text has the requested dialogue act."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from grue.errors import ConfigError, DataError
from grue.metrics.metric import Average, FloatArray
from grue.metrics.tokens import unless_blank
from grue.records import Example


def sentiment(model: str, label: int, revision: str = "", batch_size: int = 32) -> Average:
    """Return the probability that a classifier gives to `label` for prompt and text together, 0–1.

    Inputs too long for the classifier are cut on the left, so that the text stays. With an empty or blank text, only
    the prompt is read.

    Args:
        model: Hub id, local folder or `mini:<asset>`.
        label: Index of the label whose probability counts.
        revision: Commit or tag of a hub model.
        batch_size: Inputs at a time; does not change the values.

    Raises:
        ConfigError: The classifier has no such label.
    """
    from grue.lm.scorers import load_classifier, signed
    from grue.metrics.neural.batching import logits, require_finite, seam

    classifier, tokenizer = load_classifier(model, revision)
    require_label("sentiment", model, classifier, label)

    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        pairs = zip(examples, map(unless_blank, texts), strict=True)
        inputs = [("".join(seam(example.prompt, text)),) for example, text in pairs]
        scores = require_finite("sentiment", model, examples, logits(classifier, tokenizer, inputs, batch_size))
        return list(softmax(scores)[:, label])

    return Average(f"sentiment|{signed(model, revision)}|label:{label}|cut:left", values)


def intent(model: str, revision: str = "", batch_size: int = 32) -> Average:
    """Return 1 where a text has the dialogue act that its example requests, else 0.

    The act is the classifier's most probable label for the last utterance and the text together; the requested one is
    `meta["intent"]`, the index of a label. An empty text has no act and scores 0. Inputs too long for the
    classifier are cut on the left, so that the text stays.

    Args:
        model: Hub id, local folder or `mini:<asset>`.
        revision: Commit or tag of a hub model.
        batch_size: Inputs at a time; does not change the values.

    Source: Ramamurthy et al. 2023, RL4LMs' intent_accuracy, which joins the utterance and the text without a separator.
    """
    from grue.lm.scorers import load_classifier, signed
    from grue.metrics.neural.batching import logits, require_finite, seam

    classifier, tokenizer = load_classifier(model, revision)

    def prepare(examples: Sequence[Example]) -> None:
        for example in examples:
            last_utterance_of(example)
            require_label("intent", model, classifier, intent_of(example))

    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        prepare(examples)
        inputs = [
            ("".join(seam(last_utterance_of(example), text)),) for example, text in zip(examples, texts, strict=True)
        ]
        scores = require_finite("intent", model, examples, logits(classifier, tokenizer, inputs, batch_size))
        return [
            float(text.strip() != "" and act == intent_of(example))
            for example, text, act in zip(examples, texts, scores.argmax(axis=1), strict=True)
        ]

    return Average(f"intent|{signed(model, revision)}|of:last utterance and text|cut:left|empty:0", values, prepare)


def intent_of(example: Example) -> int:
    """Return the label of the act that an example requests.

    Raises:
        DataError: It has none, or something that is not a whole number.
    """
    label = example.meta.get("intent")
    if type(label) is not int:
        raise DataError(
            f"The example {example.id!r} needs the index of a label as intent in its meta, found {label!r}; "
            "fix its data format, or use a metric other than intent."
        )
    return label


def last_utterance_of(example: Example) -> str:
    """Return the utterance before the text.

    Raises:
        DataError: The example does not have it.
    """
    utterance = example.meta.get("last_utterance")
    if not isinstance(utterance, str):
        raise DataError(
            f"The example {example.id!r} needs a text as last_utterance in its meta, found {utterance!r}; "
            "fix its data format, or use a metric other than intent."
        )
    return utterance


def require_label(metric: str, model: str, classifier: Any, label: int) -> None:
    """Check that a classifier has a label; `model` is its name for the error.

    Raises:
        ConfigError: It does not.
    """
    labels = classifier.config.num_labels
    if not 0 <= label < labels:
        raise ConfigError(f"The metric {metric!r}: {model} has the labels 0 to {labels - 1}, not {label}.")


def softmax(scores: FloatArray) -> FloatArray:
    """Return probabilities [N, labels] of logits."""
    powers: FloatArray = np.exp(scores - scores.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return powers


METRICS = {"sentiment": sentiment, "intent": intent}
