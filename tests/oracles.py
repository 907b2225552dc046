"""Slow, obvious versions of the trainer's formulas: plain loops over floats, sharing no code with the product."""

import math


def softmax(logits):
    top = max(logits)
    weights = [math.exp(x - top) for x in logits]
    return [w / sum(weights) for w in weights]


def token_log_prob(logits, token, allowed=None):
    """log π(token) among the allowed tokens; all of them if `allowed` is None."""
    allowed = range(len(logits)) if allowed is None else allowed
    return logits[token] - math.log(sum(math.exp(logits[v]) for v in allowed))


def nucleus(logits, p):
    """The smallest set of likeliest tokens whose probability reaches p, found by adding one at a time."""
    probabilities = softmax(logits)
    kept, mass = set(), 0.0
    for v in sorted(range(len(logits)), key=lambda v: -probabilities[v]):
        if mass >= p:
            break
        kept.add(v)
        mass += probabilities[v]
    return kept


def gae(rewards, values, gamma, lam):
    """Advantages of one episode by the double sum of Schulman et al. (2016), Eq. 16; the value after the end is 0."""
    length = len(rewards)
    after = [*values[1:], 0.0]
    deltas = [rewards[t] + gamma * after[t] - values[t] for t in range(length)]
    return [sum((gamma * lam) ** (k - t) * deltas[k] for k in range(t, length)) for t in range(length)]


def entropy(probabilities):
    return -sum(p * math.log(p) for p in probabilities if p > 0)


def clipped_loss(new, old, advantage, clip):
    ratio = math.exp(new - old)
    return -min(ratio * advantage, max(1 - clip, min(1 + clip, ratio)) * advantage)
