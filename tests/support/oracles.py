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


def parent(text, references, table, highlighted, smoothing=1e-5):
    """(precision, recall, F1) of PARENT as ToTTo's script defines it (Dhingra et al. 2019, §3), from tokens, by loops.

    `table` and `highlighted` are lists of values, each a list of tokens; the weight of the table's recall is automatic.
    """

    def ngrams(tokens, n):
        return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]

    def entailed(ngram):
        words = {token for value in table for token in value}  # the script, too, reads the table for each n-gram
        return sum(token in words for token in ngram) / len(ngram)

    def mentioned(tokens):
        return sum(longest_common_subsequence(value, tokens) / len(value) for value in highlighted) / len(highlighted)

    def geometric(shares):
        if shares[0] == 0:
            return 0.0
        return math.prod((share or smoothing) ** 0.25 for share in shares)

    best = None
    for reference in references:
        precisions, recalls = [], []
        for n in range(1, 5):
            ours, theirs = ngrams(text, n), ngrams(reference, n)
            backed = total = 0.0
            for ngram in set(ours):
                in_reference = min(1.0, theirs.count(ngram) / ours.count(ngram))
                backed += ours.count(ngram) * (in_reference + (1 - in_reference) * entailed(ngram))
                total += ours.count(ngram)
            precisions.append(backed / total if total else 0.0)
            said = total = 0.0
            for ngram in set(theirs):
                in_text = min(1.0, ours.count(ngram) / theirs.count(ngram))
                said += theirs.count(ngram) * entailed(ngram) * in_text
                total += theirs.count(ngram) * entailed(ngram)
            recalls.append(said / total if total else 1.0)
        weight = 1 - mentioned(reference)
        precision = geometric(precisions)
        recall = (geometric(recalls) or smoothing) ** (1 - weight) * (mentioned(text) or smoothing) ** weight
        f1 = 2 * precision * recall / (precision + recall + 1e-8)
        if best is None or f1 > best[2]:
            best = precision, recall, f1
    return best


def longest_common_subsequence(x, y):
    """Length of the longest common subsequence, by the table of all prefixes."""
    table = {}
    for i in range(len(x) + 1):
        for j in range(len(y) + 1):
            if i == 0 or j == 0:
                table[i, j] = 0
            elif x[i - 1] == y[j - 1]:
                table[i, j] = table[i - 1, j - 1] + 1
            else:
                table[i, j] = max(table[i - 1, j], table[i, j - 1])
    return table[len(x), len(y)]
