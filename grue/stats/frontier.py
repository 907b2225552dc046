"""The frontier: what a policy could gain at a KL from its start, estimated from samples of the start.

The policy with the highest mean of reward − β·KL is the start, reweighted: π(y) ∝ π₀(y)·exp(r(y)/β) (Korbak et al., "RL
with KL penalties is better viewed as Bayesian inference", 2022). From n samples of π₀ to a prompt its reward and KL are
those of the self-normalised weights. No weights over n samples have a KL above log n, so the
curve is reliable up to about log n − 1. Picking the best of k samples is another policy, of KL at most
log k − (k − 1)/k (Beirami et al., "Theoretical guarantees on the best-of-n alignment policy", 2024).

P = prompts, n = samples of each.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from grue.errors import DataError
from grue.stats.intervals import FloatArray

FEWEST = 8  # samples per prompt
STEPS = 60
"""Values of β, from one that hardly reweights to one that takes the best sample."""


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """A policy that can be made from the start.

    Attributes:
        kl: From the start, nats a response.
        reward: Mean over prompts.
    """

    kl: float
    reward: float


def tilted(rewards: FloatArray, judged: FloatArray | None = None) -> list[FrontierPoint]:
    """Return the frontier: the start first, then by KL, as far as it is reliable.

    Args:
        rewards: [P, n], by which samples are weighted.
        judged: [P, n] rewards that are averaged, if they differ: those of another part of the references.

    Raises:
        DataError: There are fewer than `FEWEST` samples a prompt, or a value is not finite.
    """
    prompts, samples = rewards.shape
    if samples < FEWEST:
        raise DataError(f"{samples} samples a prompt: the curve ends at log n − 1 nats; draw {FEWEST} at least.")
    judged = rewards if judged is None else judged
    if not (np.isfinite(rewards).all() and np.isfinite(judged).all()):
        raise DataError("A reward is not a finite number.")
    points = [FrontierPoint(0.0, float(judged.mean()))]
    spread = float(rewards.std(axis=1).mean())
    if not spread:
        return [*points, FrontierPoint(math.log(samples) - 1, points[0].reward)]
    for beta in np.geomspace(50 * spread, spread / 50, STEPS):
        exponents = (rewards - rewards.max(axis=1, keepdims=True)) / beta
        weights = np.exp(exponents)
        weights /= weights.sum(axis=1, keepdims=True)
        kl = float((weights * np.log(np.maximum(weights * samples, 1e-300))).sum() / prompts)
        if kl > math.log(samples) - 1:
            return points
        points.append(FrontierPoint(kl, float((weights * judged).sum() / prompts)))
    return [*points, FrontierPoint(math.log(samples) - 1, points[-1].reward)]  # the best samples have all the weight


def best_of(rewards: FloatArray, judged: FloatArray | None = None) -> dict[int, FrontierPoint]:
    """Return k → the policy that keeps the best of k samples, for k = 2, 4, 8, … up to n; its KL is a bound.

    The reward is the mean over all ways of drawing k of the n samples.

    Args:
        rewards: [P, n], by which the best is picked; among equals the later one.
        judged: [P, n] rewards that are averaged, if they differ: a gold reward, while a proxy picks.
    """
    samples = rewards.shape[1]
    order = np.argsort(rewards, axis=1, kind="stable")
    ranked = np.take_along_axis(rewards if judged is None else judged, order, axis=1).mean(axis=0)
    points = {}
    k = 2
    while k <= samples:
        ways = np.array([math.comb(place, k - 1) / math.comb(samples, k) for place in range(samples)])
        points[k] = FrontierPoint(math.log(k) - (k - 1) / k, float(ranked @ ways))
        k *= 2
    return points


def reward_at(points: Sequence[FrontierPoint], kl: float) -> float | None:
    """Return the frontier's reward at a KL, interpolated; None beyond its end."""
    if kl > points[-1].kl:
        return None
    return float(np.interp(max(kl, 0.0), [point.kl for point in points], [point.reward for point in points]))


def share_of_gain(points: Sequence[FrontierPoint], kl: float, gain: float) -> float | None:
    """Return a policy's gain as a share of the frontier's gain at its KL; None beyond the frontier or without a gain.

    Args:
        gain: The policy's reward less that of the start, by the same judge.
    """
    best = reward_at(points, kl)
    start = points[0].reward
    return None if best is None or best <= start else gain / (best - start)
