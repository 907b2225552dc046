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


def of_those_that_end(examples, texts, token_ids, truncated):
    """One a token, and nothing for a text that never ended."""
    return [None if cut else [1.0] * len(ids) for ids, cut in zip(token_ids, truncated, strict=True)]


def by_step(examples, texts, step):
    """The same for all texts of an update."""
    return [float(step)] * len(texts)
