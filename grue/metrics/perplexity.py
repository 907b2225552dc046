"""Perplexity of texts under a language model, what of it is typical of human text, and the perplexity of RL4LMs.

The last does not read the texts.
"""

from collections.abc import Sequence
from math import inf, isfinite, log

import numpy as np

from grue.errors import ConfigError
from grue.metrics.card import Card
from grue.metrics.metric import Average, Metric
from grue.records import Example


def perplexity(model: str, revision: str = "", batch_size: int = 32) -> Metric:
    """Return the perplexity of the texts, given their prompts, under a language model that is not the policy.

    Args:
        model: Hub id, local folder or `mini:<asset>` of a causal language model.
        revision: Commit or tag of a hub model.
        batch_size: Windows at a time; does not change the values.
    """
    from grue.metrics.neural.perplexity import Perplexity

    return Perplexity(model, revision, batch_size)


def typicality(model: str, typical: float, revision: str = "", batch_size: int = 32) -> Average:
    """Return how typical of human text the texts' perplexities are: 0–1, the mean of min(p/typical, typical/p).

    Perplexity alone calls a loop natural, since a loop is easily predicted, and a few long or strange texts decide its
    corpus value. Here too low counts as much as too high, and no text weighs more than another. Human texts vary, so
    they do not get 1 either; a task's range ends where its references are.

    Args:
        model: Hub id, local folder or `mini:<asset>` of a causal language model.
        typical: Perplexity of human text under that model, given its prompts.
        revision: Commit or tag of a hub model.
        batch_size: Windows at a time; does not change the values.

    Raises:
        ConfigError: `typical` is no perplexity.
    """
    from grue.lm.scorers import signed
    from grue.metrics.neural.perplexity import Perplexity

    if not (isfinite(typical) and typical >= 1):
        raise ConfigError(f"The metric 'typicality': typical must be a perplexity, 1 or more, found {typical!r}.")
    perplexities = Perplexity(model, revision, batch_size, "typicality")

    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        loss, count = perplexities.statistics(examples, texts).T
        return list(np.exp(-np.abs(loss / count - log(typical))))

    return Average(
        f"typicality|{signed(model, revision)}|typical:{typical:g}|of:text given prompt|empty:end of text", values
    )


def policy_on_references(
    model: str, revision: str = "", stride: int = 512, batch_size: int = 4, of: str = "whole"
) -> Metric:
    """Return the perplexity of the references under the policy itself: what RL4LMs reports as perplexity.

    Args:
        model: Local folder or hub id of the policy, a causal language model.
        revision: Commit or tag of a hub model.
        stride: Tokens by which the window moves: 512 for IMDB, 128 for DailyDialog.
        batch_size: Windows at a time; does not change the values.
        of: "whole" joins prompt and reference, which makes IMDB's whole review; "reference" leaves the prompts out, as
            RL4LMs' data set for DailyDialog does.

    Raises:
        ConfigError: The stride does not fit the model's window, or `of` is neither.
    """
    from grue.metrics.neural.perplexity import PolicyOnReferences

    return PolicyOnReferences(model, revision, stride, batch_size, of)


CARDS = {
    "perplexity": Card(
        perplexity,
        family="models",
        range=(1, inf),
        definition="exp of the mean negative log-likelihood of the texts' tokens, given their prompts, under a "
        "language model that is not the policy.",
        source="Jelinek et al. 1977",
        needs="",
        direction="lower",
    ),
    "typicality": Card(
        typicality,
        family="models",
        range=(0, 1),
        definition="Mean over texts of min(p/t, t/p): p is the text's perplexity, given its prompt, under a language "
        "model that is not the policy, t that of human text (the option typical).",
        source="after Meister et al. 2023, locally typical sampling",
        needs="",
    ),
    "perplexity:policy_on_references": Card(
        policy_on_references,
        family="rl4lms",
        range=(1, inf),
        definition="Perplexity of the prompts and references (or the references alone), joined to one long text, under "
        "the policy itself; the texts are not read.",
        source="RL4LMs' causal_perplexity",
        direction="lower",
    ),
}
