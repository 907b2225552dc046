"""The memory-mapped sequence of examples: it behaves like a tuple, and its file is written atomically."""

import errno
import multiprocessing
import os
import pickle
import tracemalloc

import pyarrow as pa
import pytest

from grue.data.examples import BATCH, ExampleFile, ScoredExamples, write_examples
from grue.data.load import few_of
from grue.errors import DataError
from grue.records import Example

META = {"concepts": ["dog", "Straße"], "label": 1, "nested": {"none": None, "true": True}}
FEW = tuple(
    Example(f"e{i}", f"prompt {i}\n\t“”😀", tuple(f"r{j}" for j in range(i % 3)), META if i % 2 else {})
    for i in range(7)
)
ENDS = (None, 0, 2, 5, 6, 7, 100, -1, -3)
SLICES = [slice(first, last, step) for first in ENDS for last in ENDS for step in (None, 2, -1)]


@pytest.fixture
def few(tmp_path):
    write_examples(tmp_path / "few.arrow", FEW)
    return ExampleFile(tmp_path / "few.arrow")


def test_few_examples_of_a_source_that_is_sorted_are_a_fair_draw():
    """IMDB's negative reviews come first: a validation on the first 150 saw no other."""
    reviews = [Example(f"imdb-{i}", f"prompt {i}", (), {"label": int(i >= 500)}) for i in range(1000)]
    few = few_of(reviews, 200)
    assert len(few) == 200 and 70 <= sum(review.meta["label"] for review in few) <= 130
    assert list(few) == [review for review in reviews if review in few]
    assert set(map(id, few)) < set(map(id, few_of(reviews, 300)))
    assert few_of(reviews, 1000) is reviews


def test_it_is_a_tuple(tmp_path, few):
    assert tuple(few) == FEW and tuple(reversed(few)) == FEW[::-1]
    assert (len(few), few.index(FEW[3]), FEW[5] in few) == (7, 3, True)
    assert [few[i] for i in range(-7, 7)] == [*FEW, *FEW]
    for part in SLICES:
        assert tuple(few[part]) == FEW[part] and len(few[part]) == len(FEW[part])
        for again in (slice(1, None), slice(None, -1), slice(None, None, -1)):
            assert tuple(few[part][again]) == FEW[part][again]
    for index in (7, -8, 100):
        with pytest.raises(IndexError):
            few[index]
    for index in ("id", [0, 1], None, 1.0, (0, 1)):
        with pytest.raises(TypeError, match="object cannot be interpreted as an integer"):
            few[index]
    stretch = few[2:5]
    assert (stretch[0], stretch[-1]) == (FEW[2], FEW[4])
    with pytest.raises(IndexError):
        stretch[3]
    assert stretch.column("id").to_pylist() == ["e2", "e3", "e4"]
    write_examples(tmp_path / "none.arrow", [])
    none = ExampleFile(tmp_path / "none.arrow")
    assert len(none) == 0 and not none


def test_examples_as_they_are_scored(few):
    given = [("", "a\u2028dog\u200b", "می\u200cروم"), ("", " "), ("a",), (), ("\u200b", "b")]
    read = [("a dog", "می\u200cروم"), ("", " "), ("a",), (), ("b",)]
    found = ScoredExamples([Example(str(n), "p\u200b", texts) for n, texts in enumerate(given)])
    assert [one.references for one in found] == read and found[1:][-1].references == read[-1] and len(found[1:3]) == 2
    assert found[0].references == read[0] and found[0].prompt == "p\u200b"
    assert tuple(ScoredExamples(few)) == FEW and tuple(ScoredExamples(few)[2:4]) == FEW[2:4]


def test_it_is_shown_in_a_line(tmp_path, few):
    assert repr(few) == r"<7 examples, the first 'e0': 'prompt 0\n\t“”😀'>"
    assert repr(few[2:5]).startswith("<3 examples, the first 'e2': ")
    assert repr(few[:0]) == "<no examples>"
    write_examples(tmp_path / "long.arrow", [Example("e", "p" * 1000, ())])
    assert repr(ExampleFile(tmp_path / "long.arrow")) == f"<1 examples, the first 'e': '{'p' * 78}…>"


def test_iteration_crosses_batches(tmp_path):
    many = [Example(str(i), "p", ()) for i in range(2 * BATCH + 3)]
    write_examples(tmp_path / "many.arrow", iter(many))
    found = ExampleFile(tmp_path / "many.arrow")
    assert [example.id for example in found] == [str(i) for i in range(2 * BATCH + 3)]
    for index in (0, BATCH - 1, BATCH, 2 * BATCH - 1, 2 * BATCH, 2 * BATCH + 2, -1):
        assert found[index] == many[index]
    assert list(found[BATCH - 1 : BATCH + 1]) == many[BATCH - 1 : BATCH + 1]


def test_it_can_be_pickled_and_forked(few):
    assert tuple(pickle.loads(pickle.dumps(few[2:6]))) == FEW[2:6]
    assert len(pickle.dumps(few)) < 1000
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.map(len, [few]) == [7]


def test_damage_a_failure_and_a_full_disk(tmp_path, monkeypatch, few):
    def failing():
        yield FEW[0]
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        write_examples(few.path, failing())
    assert tuple(ExampleFile(few.path)) == FEW
    for number in (errno.ENOSPC, errno.EDQUOT):
        monkeypatch.setattr(os, "fsync", lambda _, number=number: fail(number))
        with pytest.raises(DataError, match=r"full.arrow: the disk is full \(.* free\). Make room, or choose another"):
            write_examples(tmp_path / "full.arrow", FEW)
    assert list(tmp_path.iterdir()) == [few.path]
    damaged = tmp_path / "damaged.arrow"
    damaged.write_bytes(few.path.read_bytes()[:-100])
    for path in (damaged, tmp_path / "missing.arrow"):
        with pytest.raises(DataError, match=f"{path}: cannot be read: .* Delete it; it will be rebuilt"):
            ExampleFile(path)


def fail(number):
    raise OSError(number, os.strerror(number))


def test_writing_takes_constant_memory(tmp_path):
    def peak(count):
        tracemalloc.start()
        write_examples(tmp_path / "many.arrow", (Example(str(i), "x" * 500, ("y" * 500,)) for i in range(count)))
        found = tracemalloc.get_traced_memory()[1] + pa.default_memory_pool().max_memory()
        tracemalloc.stop()
        return found

    peak(BATCH)
    assert peak(12 * BATCH) < 1.3 * peak(3 * BATCH), "both are more than a batch"
