"""When a run that was made again is the row's: texts, intervals, and what a record lifts a row to."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from support.good_submission import SEEDS, use_few_examples, write_good

from grue import files
from grue.errors import DataError
from grue.records import Prediction
from grue.stats.intervals import prediction_interval
from grue.submissions.checks.check import check
from grue.submissions.entries import results
from grue.submissions.trust.agreement import equal_share, judge_reproduced, judge_retrained
from grue.submissions.trust.ladder import Scores, Seen, read_seen, record, rung_of

SEEN = Seen(
    rung="reproduced",
    task="commongen",
    seed=1,
    verdict="equal texts",
    by="A. Maintainer",
    date="2026-01-31",
    grue={"version": "0", "commit": "0"},
    machine="a machine",
    packages={},
    predictions="",
    equal_texts=1.0,
    then=Scores(50.0, None),
    now=Scores(50.0, None),
)


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A submission of five seeds without fault."""
    use_few_examples(monkeypatch)
    return write_good(tmp_path / "submissions/mini/ours")


def digest(system: Path, seed: int = 1) -> str:
    """The sha256 of a seed's predictions, as the manifest has it."""
    lines = (system / "MANIFEST.sha256").read_text().splitlines()
    return next(line[:64] for line in lines if line.endswith(f"commongen/seed-{seed}.predictions.jsonl.gz"))


def test_the_interval_of_a_further_seed() -> None:
    """By hand, with t of a table: 2.776 of 4 degrees of freedom, 12.706 of one."""
    found = prediction_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert found is not None
    half = 2.7764451 * math.sqrt(2.5) * math.sqrt(1.2)
    assert (found.low, found.high) == pytest.approx((3 - half, 3 + half), abs=1e-6)
    pair = prediction_interval([1.0, 3.0])
    assert pair is not None and pair.half_width == pytest.approx(12.7062047 * math.sqrt(2) * math.sqrt(1.5), abs=1e-5)
    assert prediction_interval([7.0]) is None
    same = prediction_interval([2.0, 2.0, 2.0])
    assert same is not None and (same.low, same.high) == (2.0, 2.0)


def test_texts_decide_what_is_reproduced() -> None:
    then = [Prediction(str(n), "a text") for n in range(200)]
    assert equal_share(then, then) == 1
    assert equal_share(then, [replace(then[0], text="another"), *then[1:]]) == 0.995
    assert equal_share(then, [replace(then[0], truncated=True), *then[1:]]) == 0.995
    judged = [judge_reproduced(share) for share in (1.0, 0.995, 0.99, 0.9899, 0.0)]
    assert judged == ["equal texts", "nearly equal texts", "nearly equal texts", "different", "different"]


def test_other_seeds_decide_what_is_retrained() -> None:
    """With two axes each has 97.5 %: t of 3 degrees of freedom is 4.177, so 50 to 53 expects 44.5 to 58.5."""
    others = [Scores(value, 10.0) for value in (50.0, 51.0, 52.0, 53.0)]
    half = 4.1765 * math.sqrt(5 / 3) * math.sqrt(1.25)
    for preference, verdict in ((51.5 + half - 0.01, "inside"), (51.5 + half + 0.01, "outside"), (40.0, "outside")):
        judged = judge_retrained(False, 0.5, Scores(preference, 10.0), others)
        assert judged.verdict == verdict
        assert judged.intervals["preference"].high == pytest.approx(51.5 + half, abs=1e-3)
    assert judge_retrained(False, 0.5, Scores(51.5, 10.1), others).verdict == "outside"  # naturalness counts, too
    assert judge_retrained(True, 1.0, Scores(0.0, 0.0), []).verdict == "equal weights"
    assert judge_retrained(False, 1.0, Scores(0.0, 0.0), []).verdict == "equal texts"
    assert judge_retrained(False, 0.5, Scores(51.0, 10.0), others[:1]).verdict == "undecided"
    assert judge_retrained(False, 0.5, Scores(None, None), others).verdict == "undecided"
    one_axis = judge_retrained(False, 0.5, Scores(51.0, None), others)
    assert (one_axis.verdict, list(one_axis.intervals)) == ("inside", ["preference"])


def test_a_record_lifts_the_row_whose_predictions_it_names(ours: Path) -> None:
    home = ours.parent.parent
    assert {entry.status for entry in results(home)} == {"rescored"}
    path = record(ours, replace(SEEN, predictions=digest(ours)))
    assert path == ours.parent / "ours.trust.json"
    for folder in (home, ours.parent, ours):
        assert {(e.status, e.about.log) for e in results(folder)} == {
            ("reproduced", "submissions/mini/ours.trust.json")
        }
    record(ours, replace(SEEN, rung="retrained", verdict="inside", seed=2, predictions=digest(ours, 2)))
    assert {entry.status for entry in results(home)} == {"retrained"}
    assert check(home) == []  # the record is no part of the submission
    write_good(ours, "A {} was seen in the {}.")  # replaced
    assert {(entry.status, entry.about.log) for entry in results(home)} == {("rescored", "")}


def test_a_failure_keeps_a_task_off_its_rung(ours: Path) -> None:
    good = replace(SEEN, rung="retrained", verdict="inside", predictions=digest(ours))
    record(ours, good)
    record(ours, replace(good, seed=2, verdict="outside", predictions=digest(ours, 2)))
    assert rung_of(ours, ["commongen"]) is None
    record(ours, replace(good, seed=2, verdict="equal texts", predictions=digest(ours, 2)))  # seen again
    assert [one.seed for one in read_seen(ours)] == [1, 2]
    assert rung_of(ours, ["commongen"]) == "retrained"
    for verdict in ("different", "undecided"):
        record(ours, replace(SEEN, verdict=verdict, predictions=digest(ours)))
        assert rung_of(ours, ["commongen"]) == "retrained"  # who trained again has more than the checkpoint
    assert rung_of(ours, ["commongen", "imdb"]) is None  # every task of a row holds its rung
    assert rung_of(ours, []) is None


def test_what_was_seen_of_replaced_predictions_is_dropped(ours: Path) -> None:
    record(ours, replace(SEEN, predictions="0" * 64))
    assert rung_of(ours, ["commongen"]) is None
    for seed in SEEDS[:2]:
        record(ours, replace(SEEN, seed=seed, predictions=digest(ours, seed)))
    assert [one.seed for one in read_seen(ours)] == [1, 2]
    record(ours, replace(SEEN, task="../../mini/ours/commongen", predictions=digest(ours)))
    assert rung_of(ours, ["../../mini/ours/commongen"]) is None


def test_a_record_is_read_strictly(ours: Path) -> None:
    path = ours.parent / "ours.trust.json"
    for text, told in (
        ("{}", "the key 'schema' is missing"),
        ('{"schema": 2, "seen": []}', "this version of grue reads 1, found 2"),
        ('{"schema": 1, "seen": [], "status": "retrained"}', "unknown key 'status'"),
        (json.dumps({"schema": 1, "seen": [files.plain(SEEN) | {"rung": "certified"}]}), "not one of reproduced"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=told):
            results(ours.parent.parent)
    path.unlink()
    path.symlink_to("/etc/passwd")
    with pytest.raises(DataError, match="is a link"):
        results(ours.parent.parent)
