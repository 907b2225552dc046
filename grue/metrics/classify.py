"""Metrics that use a text classifier: the probability of a label, and whether a text has the requested dialogue act."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from grue.errors import ConfigError, DataError
from grue.metrics.metric import Average, FloatArray, Prepared, meta_of
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
    return _sentiment(
        "sentiment", model, revision, batch_size, [label], f"label:{label}|", lambda example: (example.prompt, label)
    )


def asked_sentiment(model: str, revision: str = "", batch_size: int = 32) -> Average:
    """Return the probability that a classifier gives to the label that the example asks for, 0–1.

    The label is `meta["asked"]`, 0 or 1; what is read before the text is `meta["text"]`, so that the words that ask are
    not. Everything else is as for `sentiment`.
    """
    return _sentiment("asked_sentiment", model, revision, batch_size, [0, 1], "label:asked|", _asked)


def _sentiment(
    name: str,
    model: str,
    revision: str,
    batch_size: int,
    labels: Sequence[int],
    details: str,
    read: Callable[[Example], tuple[str, int]],
) -> Average:
    """Return the probability of the label that `read` returns with what stands before the text."""
    from grue.lm.scorers import load_classifier, model_signature
    from grue.metrics.neural.batching import logits, require_finite, seam

    classifier, tokenizer = load_classifier(model, revision)
    for label in labels:
        require_label(name, model, classifier, label)

    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        starts = [read(example) for example in examples]
        pairs = zip(starts, map(unless_blank, texts), strict=True)
        inputs = [("".join(seam(start, text)),) for (start, _), text in pairs]
        scores = require_finite(name, model, examples, logits(classifier, tokenizer, inputs, batch_size))
        return list(softmax(scores)[np.arange(len(starts)), np.array([label for _, label in starts], dtype=int)])

    return Average(f"{name}|{model_signature(model, revision)}|{details}cut:left", values)


def _asked(example: Example) -> tuple[str, int]:
    """Return the text before and the label that an example asks for; a DataError if it lacks one of them."""
    text, label = example.meta.get("text"), example.meta.get("asked")
    if not isinstance(text, str) or label not in (0, 1):
        raise DataError(
            f"The example {example.id!r} needs text and asked (0 or 1) in its meta, found {text!r:.40} and {label!r}. "
            "Fix its data format, or use a metric other than asked_sentiment."
        )
    return text, int(label)


def intent(model: str, revision: str = "", batch_size: int = 32) -> Average:
    """Return 1 where a text has the dialogue act that its example requests, else 0; arguments as for `sentiment`.

    The act is the classifier's most probable label for the last utterance and the text together; the requested one is
    `meta["intent"]`, the index of a label. An empty text has no act and scores 0. Inputs too long for the
    classifier are cut on the left, so that the text stays.

    Source: Ramamurthy et al. 2023, RL4LMs' intent_accuracy, which joins the utterance and the text without a separator.
    """
    from grue.lm.scorers import load_classifier, model_signature
    from grue.metrics.neural.batching import logits, require_finite, seam

    classifier, tokenizer = load_classifier(model, revision)

    def read(example: Example) -> tuple[str, int]:
        """Return the utterance before the text, and the requested act."""
        act: int = meta_of(example, "intent", "intent", int)
        require_label("intent", model, classifier, act)
        return meta_of(example, "last_utterance", "intent", str), act

    prepared = Prepared(read)

    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        asked = list(map(prepared, examples))
        inputs = [("".join(seam(utterance, text)),) for (utterance, _), text in zip(asked, texts, strict=True)]
        scores = require_finite("intent", model, examples, logits(classifier, tokenizer, inputs, batch_size))
        acts = scores.argmax(axis=1)
        return [
            float(text.strip() != "" and act == wanted)
            for (_, wanted), text, act in zip(asked, texts, acts, strict=True)
        ]

    signature = f"intent|{model_signature(model, revision)}|of:last utterance and text|cut:left|empty:0"
    return Average(signature, values, prepared.prepare)


def require_label(metric: str, model: str, classifier: Any, label: int) -> None:
    """Raise a ConfigError if a classifier does not have a label; `model` is its name for the message."""
    labels = classifier.config.num_labels
    if not 0 <= label < labels:
        raise ConfigError(f"The metric {metric!r}: {model} has the labels 0 to {labels - 1}, not {label}.")


def softmax(scores: FloatArray) -> FloatArray:
    """Return probabilities [N, labels] of logits."""
    powers: FloatArray = np.exp(scores - scores.max(axis=1, keepdims=True))
    powers /= powers.sum(axis=1, keepdims=True)
    return powers


METRICS = {"sentiment": sentiment, "asked_sentiment": asked_sentiment, "intent": intent}
