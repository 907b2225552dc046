"""The longest common subsequence against tables of all cells."""

import random
import tracemalloc

import pytest
from rouge_score import rouge_scorer
from support import oracles

from grue.metrics import lcs


def draw(generator, longest, letters):
    return [generator.choice(letters) for _ in range(generator.randrange(longest + 1))]


def bits(positions):
    return sum(1 << position for position in positions)


def slow_positions(rows, columns):
    """The walk back through the whole table: a match first, left only where that is strictly better, else up."""
    lengths = [[0] * (len(columns) + 1) for _ in range(len(rows) + 1)]
    for i, row in enumerate(rows, start=1):
        for j, column in enumerate(columns, start=1):
            lengths[i][j] = lengths[i - 1][j - 1] + 1 if row == column else max(lengths[i - 1][j], lengths[i][j - 1])
    found, i, j = [], len(rows), len(columns)
    while i and j:
        if rows[i - 1] == columns[j - 1]:
            i, j = i - 1, j - 1
            found.append(i)
        elif lengths[i][j - 1] > lengths[i - 1][j]:
            j -= 1
        else:
            i -= 1
    return found[::-1]


def test_by_hand():
    assert lcs.length(lcs.read("a b c d".split()), "b d a".split()) == 2
    assert lcs.length(lcs.read([]), ["a"]) == 0
    assert lcs.length(lcs.read(["a"]), []) == 0
    assert lcs.length(lcs.read(["a", "a"]), ["a"]) == 1
    assert lcs.common_positions("a b c".split(), lcs.read("c a b".split())) == 0b011
    assert lcs.common_positions("x y".split(), lcs.read("a b".split())) == 0
    assert lcs.common_positions([], lcs.read(["a"])) == lcs.common_positions(["a"], lcs.read([])) == 0
    assert lcs.read("a b a".split()).positions == {"a": 0b101, "b": 0b010}


@pytest.mark.parametrize("letters", ["ab", "abcde", "abcdefghijklmnopqrst"])
def test_length_is_the_tables(letters):
    generator = random.Random(1)
    for _ in range(60):
        x, y = draw(generator, 40, letters), draw(generator, 40, letters)
        assert lcs.length(lcs.read(x), y) == oracles.longest_common_subsequence(x, y)


@pytest.mark.parametrize(("longest", "count"), [(12, 200), (40, 100), (3 * lcs.SHORT, 40)])
@pytest.mark.parametrize("letters", ["ab", "abcde", "abcdefghijklmnopqrst"])
def test_positions_are_rouge_scores(longest, count, letters):
    """Of equally long subsequences the same one is chosen, in texts of several blocks too."""
    generator = random.Random(2)
    for _ in range(count):
        rows, columns = draw(generator, longest, letters), draw(generator, longest, letters)
        expected = rouge_scorer.lcs_ind(rows, columns)
        assert lcs.common_positions(rows, lcs.read(columns)) == bits(expected)
        assert slow_positions(rows, columns) == expected


def test_positions_across_many_blocks():
    """More rows than SHORT², where a block is longer than SHORT."""
    generator = random.Random(3)
    rows = [generator.choice("abcdef") for _ in range(lcs.SHORT**2 + 500)]
    columns = [generator.choice("abcxyz") for _ in range(90)]
    found = lcs.common_positions(rows, lcs.read(columns))
    assert found == bits(slow_positions(rows, columns))
    assert found.bit_count() == lcs.length(lcs.read(columns), rows)


def test_rows_without_a_match_are_left_out():
    rows = "a x x b x c x".split()
    assert lcs.common_positions(rows, lcs.read("a b c".split())) == bits([0, 3, 5])


@pytest.mark.parametrize("size", [lcs.SHORT - 1, lcs.SHORT, lcs.SHORT + 1, 2 * lcs.SHORT, 2 * lcs.SHORT + 1])
def test_the_seams_of_blocks(size):
    rows = [str(number) for number in range(size)]
    assert lcs.common_positions(rows, lcs.read(rows)) == (1 << size) - 1
    assert lcs.common_positions(rows, lcs.read(rows[::-1])).bit_count() == 1
    assert lcs.common_positions(rows, lcs.read(rows[1:])) == (1 << size) - 2


@pytest.mark.parametrize("step", [lcs.length, lambda columns, rows: lcs.common_positions(rows, columns)])
def test_long_texts_take_little_memory(step):
    """Two texts of 20,000 tokens: a table of them would have 400 million cells."""
    generator = random.Random(4)
    words = [f"w{number}" for number in range(5000)]
    rows, other = ([generator.choice(words) for _ in range(20_000)] for _ in range(2))
    columns = lcs.read(other)
    tracemalloc.start()
    step(columns, rows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * 2**20
