"""The longest common subsequence against rouge-score's table of all cells."""

import random
import tracemalloc

import pytest
from support.late import late

from grue.metrics import lcs

rouge_scorer = late("rouge_score.rouge_scorer")


def bits(positions):
    return sum(1 << position for position in positions)


@pytest.mark.parametrize(
    ("count", "rows", "columns", "letters"),
    [
        *(
            (*sizes, letters)
            for sizes in ((60, 13, 13), (40, 41, 41))
            for letters in ("ab", "abcde", "abcdefghijklmnopqr")
        ),
        (12, 3 * lcs.SHORT, 3 * lcs.SHORT, "abcde"),
        (1, lcs.SHORT**2 + 500, 60, "abcdef"),  # a block is longer than SHORT
    ],
)
def test_positions_are_rouge_scores(count, rows, columns, letters):
    """Of equally long subsequences the same one is chosen, in texts of several blocks too."""
    generator = random.Random(2)
    for _ in range(count):
        fewest = 0 if count > 1 else rows
        x, y = (generator.choices(letters, k=generator.randint(min(fewest, k), k)) for k in (rows, columns))
        expected = rouge_scorer.lcs_ind(x, y)
        assert lcs.common_positions(x, lcs.read(y)) == bits(expected)


@pytest.mark.parametrize("size", [lcs.SHORT - 1, lcs.SHORT, lcs.SHORT + 1, 2 * lcs.SHORT, 2 * lcs.SHORT + 1])
def test_the_seams_of_blocks(size):
    rows = [str(number) for number in range(size)]
    assert lcs.common_positions(rows, lcs.read(rows)) == (1 << size) - 1
    assert lcs.common_positions(rows, lcs.read(rows[::-1])).bit_count() == 1
    assert lcs.common_positions(rows, lcs.read(rows[1:])) == (1 << size) - 2


def test_long_texts_take_little_memory():
    """Two texts of 6,000 tokens: a table of them would have 36 million cells."""
    words = [f"w{number}" for number in range(1500)]
    rows, other = (random.Random(seed).choices(words, k=6000) for seed in range(2))
    columns = lcs.read(other)
    tracemalloc.start()
    lcs.common_positions(rows, columns)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.5 * 2**20
