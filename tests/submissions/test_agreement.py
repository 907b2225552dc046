"""When a run that was made again is the row's: texts, intervals, and what a record lifts a row to."""

import gzip
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.good_submission import (
    SEEDS,
    STAGE,
    basis_by_hand,
    configure,
    edit,
    hand_in,
    say,
    seal,
    texts_of,
    use_few_examples,
    write_good,
)

from grue import files
from grue.errors import DataError
from grue.records import Prediction
from grue.stats.intervals import prediction_interval
from grue.submissions.checks.check import check
from grue.submissions.entries import results
from grue.submissions.trust.agreement import equal_share, judge_reproduced, judge_retrained
from grue.submissions.trust.ladder import Basis, Scores, Seen, basis_of, read_seen, record, rung_of

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
    of=Basis("", "", ""),
    equal_texts=1.0,
    then=Scores(50.0, None),
    now=Scores(50.0, None),
)


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A submission of five seeds without fault."""
    use_few_examples(monkeypatch)
    return write_good(tmp_path / "submissions/mini/ours")


def basis(system: Path, seed: int = 1) -> Basis:
    return Basis(*basis_by_hand(system, "commongen", seed))


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
    path = record(ours, replace(SEEN, of=basis(ours)))
    assert path == ours.parent / "ours.trust.json"
    for folder in (home, ours.parent, ours):
        assert {(e.status, e.about.log) for e in results(folder)} == {
            ("reproduced", "submissions/mini/ours.trust.json")
        }
    record(ours, replace(SEEN, rung="retrained", verdict="inside", seed=2, of=basis(ours, 2)))
    assert {entry.status for entry in results(home)} == {"retrained"}
    assert check(home) == []  # the record is no part of the submission
    write_good(ours, "A {} was seen in the {}.")  # replaced
    assert {(entry.status, entry.about.log) for entry in results(home)} == {("rescored", "")}


def test_a_failure_keeps_a_task_off_its_rung(ours: Path) -> None:
    good = replace(SEEN, rung="retrained", verdict="inside", of=basis(ours))
    record(ours, good)
    record(ours, replace(good, seed=2, verdict="outside", of=basis(ours, 2)))
    assert rung_of(ours, ["commongen"]) is None
    record(ours, replace(good, seed=2, verdict="equal texts", of=basis(ours, 2)))  # seen again
    assert [one.seed for one in read_seen(ours)] == [1, 2]
    assert rung_of(ours, ["commongen"]) == "retrained"
    record(ours, replace(SEEN, verdict="undecided", of=basis(ours)))
    assert rung_of(ours, ["commongen"]) == "retrained"  # who trained again has more than the checkpoint
    record(ours, replace(good, seed=2, verdict="undecided", of=basis(ours, 2)))
    assert rung_of(ours, ["commongen"]) == "retrained"  # it says nothing, and takes nothing away
    assert rung_of(ours, ["commongen", "imdb"]) is None  # every task of a row holds its rung
    assert rung_of(ours, []) is None


def test_a_failure_holds_down_what_is_above_it(ours: Path) -> None:
    """A run that its checkpoint did not write is none of the row's, whatever training another seed again gives."""
    record(ours, replace(SEEN, verdict="different", of=basis(ours)))
    record(ours, replace(SEEN, rung="retrained", seed=2, verdict="inside", of=basis(ours, 2)))
    assert rung_of(ours, ["commongen"]) is None
    record(ours, replace(SEEN, of=basis(ours)))
    record(ours, replace(SEEN, rung="retrained", seed=3, verdict="outside", of=basis(ours, 3)))
    assert rung_of(ours, ["commongen"]) == "reproduced"  # the checkpoint wrote it, however it came about


def test_what_was_seen_of_replaced_predictions_is_dropped(ours: Path) -> None:
    record(ours, replace(SEEN, of=replace(basis(ours), predictions="0" * 64)))
    assert rung_of(ours, ["commongen"]) is None
    for seed in SEEDS[:2]:
        record(ours, replace(SEEN, seed=seed, of=basis(ours, seed)))
    assert [one.seed for one in read_seen(ours)] == [1, 2]
    record(ours, replace(SEEN, task="../../mini/ours/commongen", of=basis(ours)))
    assert rung_of(ours, ["../../mini/ours/commongen"]) is None


def system_says(key: str, value: Any) -> Callable[[Path], object]:
    return lambda ours: edit(ours, lambda data: data["system"].update({key: value}))


REWRITTEN: dict[str, Callable[[Path], object]] = {
    "the algorithm": system_says("algorithm", "nlpo"),
    "the backbone": system_says("backbone", "mini:causal"),
    "the weights": system_says("weights", "0" * 64),
    "the start": system_says("start", "0" * 64),
    "the reward": system_says("reward", "cider"),
    "what training took": system_says("training", {"tokens": 1.0}),
    "a key that was not there": system_says("endpoint", {"model": "another"}),
    "the decoding": lambda ours: edit(ours, lambda data: data["generation"].update(num_beams=8)),
    "the batches": lambda ours: edit(ours, lambda data: data["determinism"].update(batch_size=7)),
    "the task's version": lambda ours: edit(ours, lambda data: data.update(task_version=9)),
    "the row's algorithm": lambda ours: say(ours, algorithm="nlpo"),
    "the row's backbone": lambda ours: say(ours, backbone="mini:causal"),
    "the row's training data": lambda ours: say(ours, training_data="the whole web"),
    "the configuration": lambda ours: configure(ours, agreeing=False, reward="cider"),
    "no configuration": lambda ours: (ours / "commongen/config.json").unlink(),
}


@pytest.mark.parametrize("rung", ["reproduced", "retrained"])
@pytest.mark.parametrize("name", REWRITTEN)
def test_a_rung_is_of_all_that_was_seen(ours: Path, name: str, rung: Any) -> None:
    configure(ours)
    record(ours, replace(SEEN, rung=rung, of=basis(ours)))
    assert rung_of(ours, ["commongen"]) == rung
    REWRITTEN[name](ours)
    assert rung_of(ours, ["commongen"]) is None
    record(ours, replace(SEEN, seed=2, of=basis(ours, 2)))
    assert [one.seed for one in read_seen(ours)] == [2]


def test_what_is_not_of_a_run_may_change(ours: Path) -> None:
    """A maintainer who scores the row again changes its scores; its authors may move, and write another licence."""
    configure(ours)
    record(ours, replace(SEEN, of=basis(ours)))
    vouched_for = {key: STAGE[key] for key in ("algorithm", "backbone")}
    moved = {"authors": ["B. Author"], "licence": "CC0", "link": "https://example.org", "contact": "a@b.org"}
    say(ours, **vouched_for, **moved, budget="2 GPU hours")
    again = {"preference": 1.0, "naturalness": 1.0, "scores": [], "timing": {"scoring_seconds": 9.0}}
    of_code = {"grue": {"version": "9"}, "packages": {"numpy": "9"}, "errors": ["meteor: none"]}
    edit(ours, lambda data: data.update(again | of_code))
    path = ours / "commongen/seed-1.result.json"
    path.write_text(json.dumps(json.loads(path.read_text()), indent=7, sort_keys=True))
    assert rung_of(ours, ["commongen"]) == "reproduced"


def test_a_run_that_was_reproduced_may_gain_a_configuration_and_one_that_was_retrained_may_not(ours: Path) -> None:
    for rung, then in (("reproduced", "reproduced"), ("retrained", None)):
        (ours / "commongen/config.json").unlink(missing_ok=True)
        (ours.parent / "ours.trust.json").unlink(missing_ok=True)
        record(ours, replace(SEEN, rung=rung, of=basis(ours)))  # type: ignore[arg-type]
        configure(ours, agreeing=False)
        assert rung_of(ours, ["commongen"]) == then


def test_no_statement_undoes_a_failure(ours: Path) -> None:
    """Else its authors would lift a row by changing what it says of the run that failed."""
    record(ours, replace(SEEN, of=basis(ours)))
    record(ours, replace(SEEN, seed=2, verdict="different", of=basis(ours, 2)))
    edit(ours, lambda data: data["system"].update(reward="cider"), seed=2)
    assert rung_of(ours, ["commongen"]) is None
    record(ours, replace(SEEN, seed=3, of=basis(ours, 3)))
    assert [(one.seed, one.passed) for one in read_seen(ours)] == [(1, True), (2, False), (3, True)]


def test_predictions_are_the_same_however_they_are_packed(ours: Path) -> None:
    """Else its authors would undo a failure by packing the run again."""
    record(ours, replace(SEEN, of=basis(ours)))
    for verdict, rung in (("equal texts", "reproduced"), ("different", None)):
        record(ours, replace(SEEN, seed=2, verdict=verdict, of=basis(ours, 2)))  # type: ignore[arg-type]
        for path in ours.glob("*/*.gz"):
            lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
            path.write_bytes(gzip.compress(b"".join(lines[::-1]), compresslevel=1, mtime=7))
        assert rung_of(ours, ["commongen"]) == rung
    (ours / "commongen/seed-1.predictions.jsonl.gz").write_bytes(gzip.compress(b"\n" * 10_000_001))
    with pytest.raises(DataError, match="unpacks to more than 10,000,000 bytes; it is not read"):
        basis_of(ours, "commongen", 1)


def test_predictions_that_may_not_be_read_are_told(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(gzip, "open", refuse)
    with pytest.raises(DataError, match=r"seed-1\.predictions\.jsonl\.gz: cannot be read: Permission denied\."):
        basis_of(ours, "commongen", 1)


def test_the_check_says_what_no_longer_counts(ours: Path) -> None:
    record(ours, replace(SEEN, of=basis(ours)))
    record(ours, replace(SEEN, seed=2, verdict="different", of=basis(ours, 2)))
    assert check(ours) == []
    say(ours, algorithm="nlpo")
    seal(ours)
    (problem,) = check(ours)
    assert (problem.id, problem.severity, Path(problem.path).name) == ("GRUE-S055", "warning", "seed-1.result.json")
    assert problem.message == "was reproduced on 2026-01-31; since then what the row says of it changed."
    hand_in(ours, 2, texts_of(2, "A {} was seen in the {}."))
    seal(ours)
    assert [problem.message for problem in check(ours) if problem.id == "GRUE-S055"] == [
        problem.message,
        "was not reproduced (different) on 2026-01-31; since then its predictions changed.",
    ]
    (ours / "commongen/seed-2.predictions.jsonl.gz").write_bytes(b"no gzip")
    seal(ours)
    assert [problem.id for problem in check(ours)] == ["GRUE-S055", "GRUE-S007"]  # the second for what cannot be read
    (ours / "submission.toml").write_text("name = ")
    assert "GRUE-S055" not in {problem.id for problem in check(ours)}
    (ours.parent / "ours.trust.json").write_text("{}")
    (told,) = [problem.message for problem in check(ours) if problem.id == "GRUE-S055"]
    assert told.startswith("the key 'schema' is missing")


def test_a_record_is_read_strictly(ours: Path) -> None:
    path = ours.parent / "ours.trust.json"
    for text, told in (
        ("{}", "the key 'schema' is missing"),
        ("[]", "expected a table, found "),
        ('{"schema": 1, "seen": [{"predictions": "0"}]}', "reads 3, found 1. Remove the file, and make the runs again"),
        ('{"schema": 3, "seen": [], "status": "retrained"}', "unknown key 'status'"),
        (json.dumps({"schema": 3, "seen": [files.plain(SEEN) | {"rung": "certified"}]}), "not one of reproduced"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=told):
            results(ours.parent.parent)
    path.unlink()
    path.symlink_to("/etc/passwd")
    with pytest.raises(DataError, match="is a link"):
        results(ours.parent.parent)
