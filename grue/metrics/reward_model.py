"""A reward model that `grue tools reward train` made, as a metric: `model:DIR`, or `model` with the option `dir`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

from grue.lm.reward_folder import LOWEST, members
from grue.metrics.metric import Average
from grue.records import Example


def reward_model(dir: str, batch_size: int = 32) -> Average:
    """Return the score of a reward model for prompt and text, in standard deviations of the texts it was trained on.

    It is (logit − mean) / sd, with mean and sd over the texts of the training pairs: 0 is their average, and a weight
    in a sum of rewards means the same for every reward model.

    Of an ensemble it is the mean of these, or after "min;" the lowest. Yan et al. (2024, arXiv 2409.15360) mix lowest
    and mean: `0.5*model:A;B + 0.5*model:min;A;B`.

    Args:
        dir: Folder that `grue tools reward train` wrote; of an ensemble several, "A;B;C" or "min;A;B;C".
        batch_size: Inputs at a time; does not change the values.

    Raises:
        ConfigError: An ensemble has fewer than two members.
        DataError: It is not a reward model's folder, or is damaged.
    """
    signatures, scores = zip(*(_member(folder, batch_size) for folder in members(dir)), strict=True)
    if len(signatures) == 1:
        return Average(signatures[0], scores[0])
    pool = min if dir.startswith(f"{LOWEST};") else fmean

    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        return [pool(of_text) for of_text in zip(*(score(examples, texts) for score in scores), strict=True)]

    return Average(f"{'lowest' if pool is min else 'mean'} of {' and '.join(signatures)}", values)


def _member(folder: Path, batch_size: int) -> tuple[str, Callable[[Sequence[Example], Sequence[str]], list[float]]]:
    """Return a reward model's signature, and its scores of texts."""
    from grue.lm.reward_model import load_reward_model
    from grue.metrics.neural.batching import require_batch_size, require_finite
    from grue.metrics.neural.reward_model import logits, token_ids

    require_batch_size(batch_size)
    model, tokenizer, manifest = load_reward_model(folder)

    def values(examples: Sequence[Example], texts: Sequence[str]) -> list[float]:
        prompts = [example.prompt for example in examples]
        rows = token_ids(tokenizer, manifest.pooling, manifest.max_tokens, prompts, texts)
        scores = require_finite("model", str(folder), examples, logits(model, tokenizer, rows, batch_size))
        return [float(value) for value in (scores - manifest.centre) / manifest.spread]

    return f"model|sha256:{manifest.sha256[:16]}|unit:sd of training texts|cut:left", values


METRICS = {"model": reward_model}
