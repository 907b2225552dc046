"""Which examples of a task are shown, with which outputs, and what is not read."""

import gzip
import json
import os
import random
from dataclasses import replace

import pytest
from support.boards import references
from support.factories import LIKED, a_result, a_task

from grue.errors import DataError
from grue.leaderboard.examples import CHOSEN, DRAWN, disagreement, illustration, task_examples
from grue.leaderboard.rank import rank
from grue.records import Entry, Example
from grue.tasks import MetricSpec

TASK = a_task("stories", metrics=(LIKED, MetricSpec("rougeL", "preference", (0.0, 1.0))))
EXAMPLES = [Example(f"stories-{i}", f"prompt {i}", (f"answer {i}",)) for i in range(300)]


def submitted(folder, system, seed=1, text="answer x", but=None, **changes):
    """A result with predictions: a text for each example, or others."""
    texts = {example.id: text for example in EXAMPLES} if isinstance(text, str) else text
    lines = [{"id": i, "text": t, "truncated": t.endswith("…")} for i, t in (texts | (but or {})).items()]
    place = folder / system / "stories"
    place.mkdir(parents=True, exist_ok=True)
    packed = gzip.compress("\n".join(map(json.dumps, lines)).encode())
    (place / f"seed-{seed}.predictions.jsonl.gz").write_bytes(packed)
    (place / f"seed-{seed}.result.json").write_text("{}")
    result = replace(a_result(TASK, system, seed, 40.0), **changes)
    return Entry(result, place / f"seed-{seed}.result.json", "rescored")


def shown(entries):
    return task_examples(TASK, rank(entries, [TASK]), entries, EXAMPLES)


def test_half_of_the_examples_are_drawn_and_half_are_where_the_systems_differ_most(tmp_path):
    different = {f"stories-{i}": "nothing alike" for i in range(100, 150)}
    entries = [submitted(tmp_path, "a"), submitted(tmp_path, "b", but=different)]
    found = shown(entries)
    assert {one.drawn for one in shown([entries[0]]).examples} == {True}, "without differences"
    entries += references([submitted(tmp_path, "oracle", text="far away")])
    assert len(found.examples) == CHOSEN
    differing = {one.example.id for one in found.examples if not one.drawn}
    assert len(differing) == CHOSEN - DRAWN and differing <= set(different)
    assert {one.difference for one in found.examples if not one.drawn} == {1.0}
    assert [one.drawn for one in found.examples[:4]] == [False, True, False, True]
    beside = shown(entries)
    assert [(one.example, one.difference) for one in beside.examples] == [
        (one.example, one.difference) for one in found.examples
    ], "a reference's distance counts for nothing"
    random.Random(3).shuffle(entries)
    assert shown(entries) == beside


def test_outputs_are_those_of_the_lowest_seed_with_their_scores_and_gaps(tmp_path):
    some = {example.id: "answer 7…" for example in EXAMPLES[:200]}
    found = shown([submitted(tmp_path, "a", 3, "late"), submitted(tmp_path, "a", 2, some)])
    assert (found.systems, found.metrics, found.of) == ((("a", 2),), ("rougeL",), 300)
    by_id = {one.example.id: one.outputs[0] for one in found.examples}
    assert {name for name, output in by_id.items() if output is None} == by_id.keys() - some.keys() != set()
    known = next(output for output in by_id.values() if output is not None)
    assert (known.text, known.truncated) == ("answer 7…", True)
    assert known.scores == pytest.approx((0.5,))  # one of two words in common


def test_what_the_checks_refuse_to_read_is_not_read(tmp_path, refused):
    good, empty, linked, heavy, damaged = (submitted(tmp_path, name) for name in ("good", "e", "l", "h", "d"))
    path = "stories/seed-1.predictions.jsonl.gz"
    (tmp_path / "e" / path).write_bytes(b"")
    (tmp_path / "l" / path).unlink()
    os.symlink(tmp_path / "good" / path, tmp_path / "l" / path)
    (tmp_path / "h" / path).write_bytes(gzip.compress(b" " * 11_000_000))
    assert shown([good, empty, linked, heavy]).systems == (("good", 1),)
    (tmp_path / "d" / path).write_bytes(gzip.compress(b'{"id": 1}\n'))
    with refused(DataError):
        shown([good, damaged])
    other = submitted(tmp_path, "old", task_hash="another")
    assert shown([other, submitted(tmp_path, "failed", status="failed")]) is None


def test_texts_differ_by_the_words_that_others_do_not_have():
    assert disagreement(["a b", "a b"]) == disagreement(["A  b", "b a"]) == disagreement(["a"]) == 0.0
    assert disagreement(["a b", "c d"]) == disagreement(["", "a"]) == 1.0
    # of a b: b is new to the second and a in both of the others
    assert disagreement(["a b", "a", "a b"]) == pytest.approx((0.25 + 0.0 + 0.25) / 3)


def test_a_task_is_explained_by_its_first_short_example_with_a_reference():
    long, bare = Example("1", "x" * 500, ("y",)), Example("2", "x", ())
    assert illustration([long, bare, *EXAMPLES]) == EXAMPLES[0]
    assert illustration([bare, long]) == long
    assert illustration([bare]) is None
