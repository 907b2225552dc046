"""Gold and proxy reward over the distance from the start: where a policy over-optimises a learned reward."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ProxyPoint:
    """A policy that was optimised for a reward model.

    Attributes:
        how: "policy", a policy that was trained; "best-of-n", the best of n samples by the reward model.
        pairs: That the reward model was made from.
        kl: From the start, nats a response; of best-of-n a bound.
        gold: Mean of the reward that judged the pairs.
        proxy: Mean of the reward model's score, in standard deviations of its training texts.
        at: Updates behind the policy, or n.
        naturalness: Of a policy's answers to validation prompts, 0–100; None of best-of-n.
    """

    how: Literal["policy", "best-of-n"]
    pairs: int
    seed: int
    kl: float
    gold: float
    proxy: float
    at: int
    naturalness: float | None = None


@dataclass(frozen=True, slots=True)
class ProxyCurve:
    """The points of one way of optimising, of one number of pairs and one seed, by their distance."""

    how: Literal["policy", "best-of-n"]
    pairs: int
    seed: int
    points: tuple[ProxyPoint, ...]


def curves_of(points: Sequence[ProxyPoint]) -> list[ProxyCurve]:
    """Return points as curves: trained policies first, by pairs and seed; points in the order of training or of n."""
    keys = sorted({(point.how != "policy", point.how, point.pairs, point.seed) for point in points})
    found = []
    for _, how, pairs, seed in keys:
        own = [point for point in points if (point.how, point.pairs, point.seed) == (how, pairs, seed)]
        found.append(ProxyCurve(how, pairs, seed, tuple(sorted(own, key=lambda point: point.at))))
    return found
