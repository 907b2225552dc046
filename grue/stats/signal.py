"""How much of a policy gradient is signal, and where rewards vary: numbers from batches of rollouts.

A batch's gradient is the true gradient G plus noise, whose covariance Σ/B falls with the batch's size B. The gradients
of independent batches have products of mean |G|² and squares of mean |G|² + tr(Σ)/B. From both follows the gradient
noise scale tr(Σ)/|G|² ("B_simple" of McCandlish et al., "An empirical model of large-batch training", 2018): the size
of batch at which the noise is as large as the signal.

K = batches, P = prompts, n = samples of each.
"""

from dataclasses import dataclass

import numpy as np

from grue.errors import DataError
from grue.stats.intervals import FloatArray, student_t_quantile

FEWEST = 4
"""Batches from which anything can be said: without one of them, two have to be left, and one of these to vary."""


@dataclass(frozen=True, slots=True)
class GradientSignal:
    """What part of the gradient of a batch of rollouts is signal.

    Attributes:
        batch: Rollouts of a batch.
        batches: Independent batches that were compared.
        norm: Root mean square of a batch's gradient norm.
        ratio: |G|²·B/tr(Σ), the signal-to-noise ratio of one batch; below 0 by chance only. None where the gradients
            are all alike, or all 0.
        low: Lower end of its 95 % interval, by the jackknife over batches.
        high: Upper end.
        noise_scale: Rollouts of a batch whose ratio is 1; None where the interval of the ratio is not above 0, so that
            the signal cannot be told from noise.
        fewest: Lower end of the noise scale's interval; None where no ratio above 0 is in that of the ratio.
        most: Upper end; None where it may be any number.
    """

    batch: int
    batches: int
    norm: float
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    noise_scale: float | None = None
    fewest: float | None = None
    most: float | None = None


def gradient_signal(products: FloatArray, batch: int) -> GradientSignal:
    """Return how much of a batch's gradient is signal.

    Args:
        products: [K, K] inner products of the gradients of K independent batches.
        batch: Rollouts of each of them.

    Raises:
        DataError: There are fewer than 4 batches, or a product is not finite.
    """
    batches = len(products)
    if batches < FEWEST:
        raise DataError(f"{batches} batches of rollouts: telling signal from noise takes {FEWEST} at least.")
    if not np.isfinite(products).all():
        raise DataError("A gradient is not finite: the loss or a reward is not, or the weights are damaged.")
    squares = float(np.trace(products))
    sums = products.sum(axis=1)
    norm = float(np.sqrt(squares / batches))
    ratio = _ratio(float(sums.sum()), squares, batches)
    # Leave out each batch: its row and its column, but its square only once.
    without = [
        _ratio(float(products.sum() - 2 * total + own), squares - float(own), batches - 1)
        for total, own in zip(sums, np.diagonal(products), strict=True)
    ]
    ratios = np.array([value for value in without if value is not None])
    if ratio is None or len(ratios) < batches:
        return GradientSignal(batch, batches, norm)
    error = float(np.sqrt((batches - 1) / batches * np.square(ratios - ratios.mean()).sum()))
    half = student_t_quantile(0.975, batches - 1) * error
    low, high = ratio - half, ratio + half
    return GradientSignal(
        batch=batch,
        batches=batches,
        norm=norm,
        ratio=ratio,
        low=low,
        high=high,
        noise_scale=batch / ratio if low > 0 else None,
        fewest=batch / high if high > 0 else None,
        most=batch / low if low > 0 else None,
    )


def _ratio(total: float, squares: float, batches: int) -> float | None:
    """Return |G|² over the noise of one batch, by the sums of all products and of the squares; None without noise."""
    signal = (total - squares) / (batches * (batches - 1))
    noise = squares / batches - signal
    return signal / noise if noise > 1e-9 * squares / batches else None


@dataclass(frozen=True, slots=True)
class RewardSpread:
    """Where rewards vary.

    Attributes:
        mean: Over all samples.
        sd: Standard deviation over all samples.
        prompts: How many prompts.
        samples: To each of them.
        within: Share of the variance that is between samples to the same prompt, 0–1, the rest being between prompts;
            None where all rewards are equal.
        flat: Share of the prompts all of whose samples have the same reward.
    """

    mean: float
    sd: float
    prompts: int
    samples: int
    within: float | None
    flat: float


def reward_spread(rewards: FloatArray) -> RewardSpread:
    """Return where rewards [P, n] vary: components of variance, with prompts as a random effect (Searle et al. 1992).

    Raises:
        DataError: There are fewer than two prompts, or fewer than two samples of each.
    """
    prompts, samples = rewards.shape
    if prompts < 2 or samples < 2:
        raise DataError(f"{prompts} prompts with {samples} samples each: the spread of rewards needs two of both.")
    flat = (rewards == rewards[:, :1]).all(axis=1)
    within = float(np.where(flat, 0.0, rewards.var(axis=1, ddof=1)).mean())
    same = bool((rewards == rewards[0, 0]).all())
    between = 0.0 if same else max(0.0, float(rewards.mean(axis=1).var(ddof=1)) - within / samples)
    return RewardSpread(
        mean=float(rewards.mean()),
        sd=0.0 if same else float(rewards.std()),
        prompts=prompts,
        samples=samples,
        within=None if same else within / (within + between) if within + between else 0.0,
        flat=float(flat.mean()),
    )
