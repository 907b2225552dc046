"""Which examples of a task are shown, with which outputs, and what is not read."""

import gzip
import json
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
from support.factories import LIKED, a_result, a_task

from grue.errors import DataError
from grue.leaderboard.examples import CHOSEN, DRAWN, TaskExamples, disagreement, illustration, task_examples
from grue.leaderboard.rank import rank
from grue.records import About, Entry, Example
from grue.tasks import MetricSpec

TASK = a_task("stories", metrics=(LIKED, MetricSpec("rougeL", "preference", (0.0, 1.0))))
EXAMPLES = [Example(f"stories-{i}", f"prompt {i}", (f"answer {i}",)) for i in range(300)]


def submitted(folder: Path, system: str, seed: int, texts: dict[str, str], **changes: object) -> Entry:
    place = folder / system / "stories"
    place.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"id": name, "text": text, "truncated": text.endswith("…")}) for name, text in texts.items()]
    (place / f"seed-{seed}.predictions.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    (place / f"seed-{seed}.result.json").write_text("{}")
    return Entry(replace(a_result(TASK, system, seed, 40.0), **changes), place / f"seed-{seed}.result.json", "rescored")  # type: ignore[arg-type]


def board_of(entries: list[Entry]) -> TaskExamples | None:
    return task_examples(TASK, rank(entries, [TASK]), entries, EXAMPLES)


def found(entries: list[Entry]) -> TaskExamples:
    shown = board_of(entries)
    assert shown is not None
    return shown


def answers(ending: str, *, but: dict[str, str] | None = None) -> dict[str, str]:
    return {example.id: f"answer {ending}" for example in EXAMPLES} | (but or {})


def test_half_of_the_examples_are_drawn_and_half_are_where_the_systems_differ_most(tmp_path: Path) -> None:
    different = {f"stories-{i}": "nothing alike" for i in range(100, 150)}
    entries = [
        submitted(tmp_path, "a", 1, answers("x")),
        submitted(tmp_path, "b", 1, answers("x", but=different)),
        replace(submitted(tmp_path, "oracle", 1, answers("far away")), about=About(deterministic=True)),
    ]
    shown = found(entries)
    assert len(shown.examples) == CHOSEN
    differing = {one.example.id for one in shown.examples if not one.drawn}
    assert len(differing) == CHOSEN - DRAWN and differing <= set(different), "a reference's distance counts for nothing"
    assert [one.drawn for one in shown.examples[:4]] == [False, True, False, True]
    assert {one.difference for one in shown.examples if not one.drawn} == {1.0}
    random.Random(3).shuffle(entries)
    assert found(entries) == shown


def test_without_differences_the_hash_chooses_all(tmp_path: Path) -> None:
    shown = found([submitted(tmp_path, name, 1, answers("x")) for name in "ab"])
    assert len(shown.examples) == CHOSEN and all(one.drawn for one in shown.examples)


def test_outputs_are_those_of_the_lowest_seed_with_their_scores_and_gaps(tmp_path: Path) -> None:
    some = {example.id: "answer 7…" for example in EXAMPLES[:200]}
    entries = [submitted(tmp_path, "a", 3, answers("late")), submitted(tmp_path, "a", 2, some)]
    shown = found(entries)
    assert (shown.systems, shown.metrics, shown.of) == ((("a", 2),), ("rougeL",), 300)
    by_id = {one.example.id: one.outputs[0] for one in shown.examples}
    missing = [name for name in by_id if int(name.partition("-")[2]) >= 200]
    assert missing and all(by_id[name] is None for name in missing)
    known = next(output for output in by_id.values() if output is not None)
    assert (known.text, known.truncated) == ("answer 7…", True)
    assert known.scores == pytest.approx((0.5,))  # one of two words in common


def test_what_the_checks_refuse_to_read_is_not_read(tmp_path: Path) -> None:
    good = submitted(tmp_path, "good", 1, answers("x"))
    empty, linked, heavy, damaged = (submitted(tmp_path, name, 1, answers("x")) for name in ("e", "l", "h", "d"))
    path = "stories/seed-1.predictions.jsonl.gz"
    (tmp_path / "e" / path).write_bytes(b"")
    (tmp_path / "l" / path).unlink()
    os.symlink(tmp_path / "good" / path, tmp_path / "l" / path)
    (tmp_path / "h" / path).write_bytes(gzip.compress(b" " * 11_000_000))
    assert found([good, empty, linked, heavy]).systems == (("good", 1),)
    (tmp_path / "d" / path).write_bytes(gzip.compress(b'{"id": 1}\n'))
    with pytest.raises(DataError, match=r"d/stories/seed-1.predictions.jsonl.gz, line 1: "):
        board_of([good, damaged])
    other = submitted(tmp_path, "old", 1, answers("x"), task_hash="another")
    failed = submitted(tmp_path, "failed", 1, answers("x"), status="failed")
    assert board_of([other, failed]) is None


def test_texts_differ_by_the_words_that_others_do_not_have() -> None:
    assert disagreement(["a b", "a b"]) == disagreement(["A  b", "b a"]) == disagreement(["a"]) == 0.0
    assert disagreement(["a b", "c d"]) == disagreement(["", "a"]) == 1.0
    # of a b: b is new to the second and a in both of the others
    assert disagreement(["a b", "a", "a b"]) == pytest.approx((0.25 + 0.0 + 0.25) / 3)


def test_a_task_is_explained_by_its_first_short_example_with_a_reference() -> None:
    long, bare = Example("1", "x" * 500, ("y",)), Example("2", "x", ())
    assert illustration([long, bare, *EXAMPLES]) == EXAMPLES[0]
    assert illustration([bare, long]) == long
    assert illustration([bare]) is None
