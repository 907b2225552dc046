"""Perplexity of texts under a language model, averaged over tokens or texts, and the perplexity that RL4LMs reports.

RL4LMs' does not read the texts.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from grue.errors import ConfigError
from grue.metrics.metric import FloatArray, Metric, Summed
from grue.records import Example

BOUNDED = "perplexity:bounded"
LEAST, MOST = 2.0, 10.0
"""How many times below and above the typical perplexity a text of the bounded metric may be."""


def perplexity(model: str, revision: str = "", batch_size: int = 32, context: int = 0) -> Metric:
    """Return the perplexity of the texts, given their prompts, under a language model that is not the policy, 1 to ∞.

    The corpus value is exp(total negative log-likelihood / total tokens). An empty text counts as one token, the
    model's end of text. A token that the tokenizer puts before every text comes before the prompt.

    Args:
        model: Hub id, local folder or `mini:<asset>` of a causal language model.
        revision: Commit or tag of a hub model.
        batch_size: Windows at a time; does not change the values.
        context: How many of a prompt's last tokens are read; 0 reads all.

    Raises:
        ConfigError: `context` is negative.
    """
    from grue.lm.scorers import model_signature
    from grue.metrics.neural.perplexity import TextLosses, perplexity_of

    losses = TextLosses("perplexity", model, revision, batch_size, context)
    signature = f"perplexity|{model_signature(model, revision)}|of:text given prompt|empty:end of text{losses.details}"
    return Summed(signature, losses.statistics, perplexity_of, direction="lower")


def bounded(model: str, typical: float, revision: str = "", batch_size: int = 32, context: int = 0) -> Metric:
    """Return a perplexity that is robust to outliers and repetition: the geometric mean over texts, each bounded.

    Plain perplexity weights all tokens alike, so a few long or odd texts decide its corpus value, and it rewards
    repetition, which is easily predicted. Here a text of less than half the typical perplexity is a loop rather than
    fluent: at 1/k of the typical perplexity it counts as k times. A text of more than ten times the typical perplexity
    counts as ten times. So a share s of the texts moves the logarithm of the corpus value by s·log 20 at most.

    Args:
        typical: Perplexity of human text under that model, given its prompts.

    Other arguments and errors as for `perplexity`; `typical` must be a perplexity.
    """
    from grue.lm.scorers import model_signature
    from grue.metrics.neural.perplexity import TextLosses, perplexity_of

    if not (math.isfinite(typical) and typical >= 1):
        raise ConfigError(f"The metric {BOUNDED!r}: typical must be a perplexity, 1 or more, found {typical!r}.")
    losses = TextLosses(BOUNDED, model, revision, batch_size, context)

    def statistics(examples: Sequence[Example], texts: Sequence[str]) -> FloatArray:
        """Return [N, 2]: the bounded logarithm of each text's perplexity, and 1."""
        loss, count = losses.statistics(examples, texts).T
        above = loss / count - math.log(typical)
        above = np.where(above < -math.log(LEAST), -above, above)
        return np.stack([math.log(typical) + np.minimum(above, math.log(MOST)), np.ones(len(texts))], axis=1)

    details = f"typical:{typical:.15g}|of:text given prompt|mean:texts{losses.details}"
    signature = f"{BOUNDED}|{model_signature(model, revision)}|{details}"
    return Summed(signature, statistics, perplexity_of, direction="lower")


def policy_on_references(
    model: str,
    revision: str = "",
    stride: int = 512,
    batch_size: int = 4,
    of: Literal["whole", "reference"] = "whole",
) -> Metric:
    """Return the perplexity of the references under the policy itself: what RL4LMs reports as perplexity.

    Texts are not read: a policy that models human texts well gets a good value, whatever it would write.

    Args:
        model: Local folder or hub id of the policy, a causal language model.
        revision: Commit or tag of a hub model.
        stride: Tokens by which the window moves: 512 for IMDB, 128 for DailyDialog.
        batch_size: Windows at a time; does not change the values.
        of: "whole" joins prompt and reference, which makes IMDB's whole review; "reference" leaves the prompts out, as
            RL4LMs' data set for DailyDialog does.

    Raises:
        ConfigError: The stride does not fit the model's window.
    """
    from grue.lm.scorers import model_signature
    from grue.metrics.neural.perplexity import POLICY, ReferenceLosses, perplexity_of, refused

    losses = ReferenceLosses(model, revision, stride, batch_size, of)
    details = f"of:{of}|stride:{stride}|window:{losses.longest}|mean:rl4lms"
    signature = f"{POLICY}|{model_signature(model, revision)}|{details}"
    return Summed(signature, losses.statistics, perplexity_of, single=refused, direction="lower")


METRICS = {
    "perplexity": perplexity,
    BOUNDED: bounded,
    "perplexity:policy_on_references": policy_on_references,
}
