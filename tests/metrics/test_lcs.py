"""Where the longest common subsequence lies, against rouge-score's table of all cells."""

import random

import pytest
from support.late import late

from grue.metrics import lcs

rouge_scorer = late("rouge_score.rouge_scorer")


@pytest.mark.parametrize(("count", "rows", "columns"), [(60, 13, 13), (40, 41, 41), (12, 192, 192), (1, 2000, 60)])
def test_positions_are_rouge_scores(count, rows, columns):
    """Of equally long subsequences the same one is chosen."""
    generator = random.Random(2)
    for letters in ("ab", "abcde", "abcdefghijklmnopqr"):
        for _ in range(count):
            x, y = (generator.choices(letters, k=generator.randint(0 if k < 100 else k, k)) for k in (rows, columns))
            expected = rouge_scorer.lcs_ind(x, y)
            assert lcs.common_positions(x, lcs.read(y)) == sum(1 << position for position in expected)
