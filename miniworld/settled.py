"""What a prompt settles of an answer, as the metric `facts` reads it: values that are expected, and others."""

import re
from collections.abc import Iterable
from typing import Any

Settled = dict[str, Any]


def settled(expected: Iterable[Iterable[str]], wrong: Iterable[str], closed: bool) -> Settled:
    """Return the facts of a row: each wording once, and nothing wrong that is expected.

    Args:
        expected: Facts, each a list of its wordings.
        wrong: Wordings of what is not the answer.
        closed: Whether every name and number must come from the prompt.
    """
    facts = list(dict.fromkeys(tuple(dict.fromkeys(wordings)) for wordings in expected))
    right = {wording for wordings in facts for wording in wordings}
    return {
        "expected": [list(wordings) for wordings in facts],
        "wrong": [wording for wording in dict.fromkeys(wrong) if wording not in right],
        "closed": closed,
    }


def mentioned(text: str, values: Iterable[str]) -> set[str]:
    """Return the values, in lower case, that a text has; "six" is none of "six dollars" where both are values."""
    by_length = "|".join(re.escape(value.lower()) for value in sorted(values, key=len, reverse=True))
    return set(re.findall(rf"(?<![\w-])(?:{by_length})(?![\w-]|,\d)", text.lower())) if by_length else set()
