"""Rewards of one's own, to be named as `support.rewards:count_the`."""

SEEN = []
"""Every example that `count_the` was shown."""


def count_the(examples, texts):
    """How often a text has the word `the`."""
    SEEN.extend(examples)
    return [float(text.split().count("the")) for text in texts]


def nothing(examples, texts):
    """All texts are equally good."""
    return [0.0] * len(texts)
