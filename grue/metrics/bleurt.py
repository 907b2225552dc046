"""BLEURT: a regression model's score of a text given its reference."""

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from grue.errors import ConfigError
from grue.metrics.metric import Average, references_of, require_references
from grue.metrics.tokens import unless_blank
from grue.records import Example


def bleurt(model: str, revision: str = "", batch_size: int = 32, multi_ref: Literal["mean", "max"] = "mean") -> Average:
    """Return BLEURT, mostly between 0 and 1 but unbounded; every checkpoint is a metric of its own.

    The model reads reference and text, in this order, and a pair that is too long loses the end of whichever is
    longer. An empty text is scored by the model like any other, and a blank one as empty. Empty references count
    only where an example has no other.

    Args:
        model: Hub id or local folder of a BERT-type checkpoint, converted for transformers: one output, no labels.
        revision: Commit or tag of a hub model.
        batch_size: Pairs at a time; does not change the values.
        multi_ref: "mean" over an example's references, as ToTTo's evaluation has it, or "max".

    Raises:
        ConfigError: The model has several outputs.

    Source: Sellam et al. 2020, "BLEURT: Learning Robust Metrics for Text Generation".
    """
    from grue.lm.scorers import load_classifier, model_signature
    from grue.metrics.neural.batching import logits, require_finite

    combine = fmean if multi_ref == "mean" else max
    regression, tokenizer = load_classifier(model, revision, cut="right")
    if regression.config.num_labels != 1:
        raise ConfigError(
            f"The metric 'bleurt': {model} has {regression.config.num_labels} outputs, not one; "
            "give a BLEURT checkpoint, converted with one label."
        )

    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        given = [references_of(example, "bleurt") for example in examples]
        references = [[each for each in group if each.strip()] or group for group in given]
        pairs = [(each, unless_blank(text)) for group, text in zip(references, texts, strict=True) for each in group]
        scores = iter(logits(regression, tokenizer, pairs, batch_size)[:, 0])
        combined = [combine([next(scores) for _ in group]) for group in references]
        return list(require_finite("bleurt", model, examples, combined))

    signature = f"bleurt|{model_signature(model, revision)}|cut:longest first|refs:{multi_ref}"
    return Average(signature, values, lambda examples: require_references(examples, "bleurt"))


METRICS = {"bleurt": bleurt}
