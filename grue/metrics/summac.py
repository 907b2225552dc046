"""SummaC-ZS: whether each sentence of a summary follows from some sentence of its document."""

from collections.abc import Sequence
from itertools import product
from typing import Literal

import numpy as np

from grue.metrics.classify import require_label, softmax
from grue.metrics.metric import Average, meta_of
from grue.metrics.tokens import sentences
from grue.records import Example

SHORTEST = 11  # characters of a sentence that counts
MOST = 100  # sentences of a document that are read
LONGEST = 500  # tokens of a pair


def summac(
    model: str,
    entailment: int,
    contradiction: int = -1,
    revision: str = "",
    batch_size: int = 32,
    use_con: bool = False,
    source: Literal["document", "prompt"] = "document",
) -> Average:
    """Return SummaC-ZS of texts as summaries: 0–1, or −1 to 1 with `use_con`.

    For each sentence of the text it takes the highest probability, over the first 100 sentences of the document, that
    a natural-language-inference model gives to "the document's sentence entails the text's"; the value is the mean over
    the text's sentences. Sentences of ten characters or fewer are left out, unless there is no other. An empty text or
    document gives 0.

    Args:
        model: Hub id or local folder of a classifier that reads (premise, hypothesis).
        entailment: Index of its label for entailment, 2 for roberta-large-mnli.
        contradiction: Index of its label for contradiction, 0 for roberta-large-mnli; only `use_con` needs it.
        revision: Commit or tag of a hub model.
        batch_size: Pairs of sentences at a time; does not change the values.
        use_con: Subtract the highest probability of contradiction, as SummaC's own default does and RL4LMs does not.
        source: "document" takes an example's `meta["document"]`, the article without the instruction, and the prompt
            where there is none; "prompt" always takes the prompt, as RL4LMs does.

    Raises:
        ConfigError: The model has no such label.

    Source: Laban et al. 2022, "SummaC: Re-Visiting NLI-based Models for Inconsistency Detection in Summarization".
    """
    from grue.lm.scorers import load_classifier, model_signature
    from grue.metrics.neural.batching import logits, require_finite

    classifier, tokenizer = load_classifier(model, revision, cut="right")
    require_label("summac", model, classifier, entailment)
    if use_con:
        require_label("summac", model, classifier, contradiction)

    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        pairs = [
            (informative(document_of(example) if source == "document" else example.prompt)[:MOST], informative(text))
            for example, text in zip(examples, texts, strict=True)
        ]
        crossed = ((premise, hypothesis) for sides in pairs for premise, hypothesis in product(*sides))
        rows = softmax(logits(classifier, tokenizer, crossed, batch_size, LONGEST))
        scores, start = np.zeros(len(pairs)), 0
        for index, (premises, hypotheses) in enumerate(pairs):
            if count := len(premises) * len(hypotheses):
                block = rows[start : start + count].reshape(len(premises), len(hypotheses), -1)
                best = block.max(axis=0)  # [hypotheses, labels]
                scores[index] = (best[:, entailment] - (best[:, contradiction] if use_con else 0.0)).mean()
                start += count
        return list(require_finite("summac", model, examples, scores))

    against = f"|contradiction:{contradiction}" if use_con else ""
    return Average(
        f"summac|version:zs|{model_signature(model, revision)}|entailment:{entailment}{against}|of:{source}"
        f"|split:sentences|shortest:{SHORTEST}|most:{MOST}|cut:{LONGEST}",
        values,
    )


def document_of(example: Example) -> str:
    """Return the document of an example, or its prompt; a DataError if it is not a text."""
    document: str = meta_of(example, "document", "summac", str, default=example.prompt)
    return document


def informative(text: str) -> list[str]:
    """Return the sentences of more than ten characters, or all if there are none."""
    parts = sentences(text)
    return [sentence for sentence in parts if len(sentence) >= SHORTEST] or parts


METRICS = {"summac": summac}
