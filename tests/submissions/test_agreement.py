"""When a run that was made again is the row's: texts, intervals, and what a record lifts a row to."""

import gzip
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from support.good_submission import (
    STAGE,
    basis_by_hand,
    configure,
    hand_in,
    result_says,
    say,
    seal,
    system_says,
    texts_of,
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
RETRAINED = {"rung": "retrained", "verdict": "inside"}


def saw(ours, seed=1, **what):
    """Record an observation of a run as it is."""
    return record(ours, replace(SEEN, **{"seed": seed, "of": Basis(*basis_by_hand(ours, "commongen", seed)), **what}))


def rung(ours):
    return rung_of(ours, ["commongen"])


def seen_of(ours):
    return [one.seed for one in read_seen(ours)]


def shown(folder):
    return {(entry.status, entry.about.log) for entry in results(folder)}


def test_the_interval_of_a_further_seed():
    """By hand, with t of a table: 2.776 of 4 degrees of freedom, 12.706 of one."""
    found = prediction_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    half = 2.7764451 * math.sqrt(2.5) * math.sqrt(1.2)
    assert (found.low, found.high) == pytest.approx((3 - half, 3 + half), abs=1e-6)
    half = 12.7062047 * math.sqrt(2) * math.sqrt(1.5)
    assert prediction_interval([1.0, 3.0]).half_width == pytest.approx(half, abs=1e-5)
    assert prediction_interval([7.0]) is None
    same = prediction_interval([2.0, 2.0, 2.0])
    assert (same.low, same.high) == (2.0, 2.0)


def test_texts_decide_what_is_reproduced():
    then = [Prediction(str(n), "a text") for n in range(200)]
    assert equal_share(then, then) == 1
    for change in ({"text": "another"}, {"truncated": True}):
        assert equal_share(then, [replace(then[0], **change), *then[1:]]) == 0.995
    judged = [judge_reproduced(share) for share in (1.0, 0.995, 0.99, 0.9899, 0.0)]
    assert judged == ["equal texts", "nearly equal texts", "nearly equal texts", "different", "different"]


def test_other_seeds_decide_what_is_retrained():
    """With two axes each has 97.5 %: t of 3 degrees of freedom is 4.177, so 50 to 53 expects 44.5 to 58.5."""
    others = [Scores(value, 10.0) for value in (50.0, 51.0, 52.0, 53.0)]
    half = 4.1765 * math.sqrt(5 / 3) * math.sqrt(1.25)

    def verdict(preference, naturalness, share=0.5, others=others, same_weights=False):
        return judge_retrained(same_weights, share, Scores(preference, naturalness), others).verdict

    for preference, expected in ((51.5 + half - 0.01, "inside"), (51.5 + half + 0.01, "outside"), (40.0, "outside")):
        assert verdict(preference, 10.0) == expected
    judged = judge_retrained(False, 0.5, Scores(51.5, 10.0), others)
    assert judged.intervals["preference"].high == pytest.approx(51.5 + half, abs=1e-3)
    assert verdict(51.5, 10.1) == "outside"  # naturalness counts, too
    assert verdict(0.0, 0.0, 1.0, [], same_weights=True) == "equal weights"
    assert verdict(0.0, 0.0, 1.0, []) == "equal texts"
    assert verdict(51.0, 10.0, others=others[:1]) == verdict(None, None) == "undecided"
    one_axis = judge_retrained(False, 0.5, Scores(51.0, None), others)
    assert (one_axis.verdict, list(one_axis.intervals)) == ("inside", ["preference"])


def test_a_record_lifts_the_row_whose_predictions_it_names(ours):
    home = ours.parent.parent
    assert shown(home) == {("rescored", "")}
    assert saw(ours) == ours.parent / "ours.trust.json"
    for folder in (home, ours.parent, ours):
        assert shown(folder) == {("reproduced", "submissions/mini/ours.trust.json")}
    saw(ours, 2, **RETRAINED)
    assert shown(home) == {("retrained", "submissions/mini/ours.trust.json")}
    assert check(home) == []  # the record is no part of the submission
    write_good(ours, "A {} was seen in the {}.")  # replaced
    assert shown(home) == {("rescored", "")}


def test_a_failure_keeps_a_task_off_its_rung(ours):
    saw(ours, **RETRAINED)
    saw(ours, 2, rung="retrained", verdict="outside")
    assert rung(ours) is None
    saw(ours, 2, rung="retrained")  # seen again
    assert (seen_of(ours), rung(ours)) == ([1, 2], "retrained")
    saw(ours, verdict="undecided")
    assert rung(ours) == "retrained"  # who trained again has more than the checkpoint
    saw(ours, 2, rung="retrained", verdict="undecided")
    assert rung(ours) == "retrained"  # it says nothing, and takes nothing away
    assert rung_of(ours, ["commongen", "imdb"]) is None  # every task of a row holds its rung
    assert rung_of(ours, []) is None


def test_a_failure_holds_down_what_is_above_it(ours):
    """A run that its checkpoint did not write is none of the row's, whatever training another seed again gives."""
    saw(ours, verdict="different")
    saw(ours, 2, **RETRAINED)
    assert rung(ours) is None
    saw(ours)
    saw(ours, 3, rung="retrained", verdict="outside")
    assert rung(ours) == "reproduced"  # the checkpoint wrote it, however it came about


def test_what_was_seen_of_replaced_predictions_is_dropped(ours):
    saw(ours, of=replace(Basis(*basis_by_hand(ours, "commongen", 1)), predictions="0" * 64))
    assert rung(ours) is None
    saw(ours)
    saw(ours, 2)
    assert seen_of(ours) == [1, 2]
    saw(ours, task="../../mini/ours/commongen")
    assert rung_of(ours, ["../../mini/ours/commongen"]) is None


REWRITTEN = {
    **{
        f"the system's {key}": lambda ours, said={key: value}: system_says(ours, 1, **said)
        for key, value in (
            *(("algorithm", "nlpo"), ("backbone", "mini:causal"), ("weights", "0" * 64), ("start", "0" * 64)),
            *(("reward", "cider"), ("training", {"tokens": 1.0}), ("endpoint", {"model": "one that was not there"})),
        )
    },
    "the decoding": lambda ours: result_says(ours, 1, within="generation", num_beams=8),
    "the batches": lambda ours: result_says(ours, 1, within="determinism", batch_size=7),
    "the task's version": lambda ours: result_says(ours, 1, task_version=9),
    "the row's algorithm": lambda ours: say(ours, algorithm="nlpo"),
    "the row's backbone": lambda ours: say(ours, backbone="mini:causal"),
    "the row's training data": lambda ours: say(ours, training_data="the whole web"),
    "the configuration": lambda ours: configure(ours, agreeing=False, reward="cider"),
    "no configuration": lambda ours: (ours / "commongen/config.json").unlink(),
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_a_rung_is_of_all_that_was_seen(ours, name):
    configure(ours)
    saw(ours)
    saw(ours, rung="retrained")
    assert rung(ours) == "retrained"
    REWRITTEN[name](ours)
    assert rung(ours) is None
    saw(ours, 2)
    assert seen_of(ours) == [2]


def test_what_is_not_of_a_run_may_change(ours):
    """A maintainer who scores the row again changes its scores; its authors may move, and write another licence."""
    configure(ours)
    saw(ours)
    vouched_for = {key: STAGE[key] for key in ("algorithm", "backbone")}
    moved = {"authors": ["B. Author"], "licence": "CC0", "link": "https://example.org", "contact": "a@b.org"}
    say(ours, **vouched_for, **moved, budget="2 GPU hours")
    again = {"preference": 1.0, "naturalness": 1.0, "scores": [], "timing": {"scoring_seconds": 9.0}}
    result_says(ours, 1, **again, grue={"version": "9"}, packages={"numpy": "9"}, errors=["meteor: none"])
    path = ours / "commongen/seed-1.result.json"
    path.write_text(json.dumps(json.loads(path.read_text()), indent=7, sort_keys=True))
    assert rung(ours) == "reproduced"


def test_a_run_that_was_reproduced_may_gain_a_configuration_and_one_that_was_retrained_may_not(ours):
    for one, then in (("reproduced", "reproduced"), ("retrained", None)):
        (ours / "commongen/config.json").unlink(missing_ok=True)
        (ours.parent / "ours.trust.json").unlink(missing_ok=True)
        saw(ours, rung=one)
        configure(ours, agreeing=False)
        assert rung(ours) == then


def test_no_statement_undoes_a_failure(ours):
    """Else its authors would lift a row by changing what it says of the run that failed."""
    saw(ours)
    saw(ours, 2, verdict="different")
    system_says(ours, 2, reward="cider")
    assert rung(ours) is None
    saw(ours, 3)
    assert [(one.seed, one.passed) for one in read_seen(ours)] == [(1, True), (2, False), (3, True)]


def test_predictions_are_the_same_however_they_are_packed(ours, refused, monkeypatch):
    """Else its authors would undo a failure by packing the run again."""
    saw(ours)
    for verdict, then in (("equal texts", "reproduced"), ("different", None)):
        saw(ours, 2, verdict=verdict)
        for path in ours.glob("*/*.gz"):
            lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
            path.write_bytes(gzip.compress(b"".join(lines[::-1]), compresslevel=1, mtime=7))
        assert rung(ours) == then
    (ours / "commongen/seed-1.predictions.jsonl.gz").write_bytes(gzip.compress(b"\n" * 10_000_001, 1))
    with refused(DataError):
        basis_of(ours, "commongen", 1)

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(gzip, "open", refuse)
    with refused(DataError):
        basis_of(ours, "commongen", 1)


def test_the_check_says_what_no_longer_counts(ours):
    def told():
        return [(int(problem.id[-2:]), Path(problem.path).name, problem.message) for problem in check(seal(ours))]

    saw(ours)
    saw(ours, 2, verdict="different")
    assert told() == []
    say(ours, algorithm="nlpo")
    said = "was reproduced on 2026-01-31; since then what the row says of it changed."
    assert told() == [(55, "seed-1.result.json", said)]
    hand_in(ours, 2, texts_of(2, "A {} was seen in the {}."))
    of_two = "was not reproduced (different) on 2026-01-31; since then its predictions changed."
    assert [message for number, _, message in told() if number == 55] == [said, of_two]
    (ours / "commongen/seed-2.predictions.jsonl.gz").write_bytes(b"no gzip")
    assert [number for number, _, _ in told()] == [55, 7]  # the second for what cannot be read
    (ours / "submission.toml").write_text("name = ")
    assert 55 not in {number for number, _, _ in told()}
    (ours.parent / "ours.trust.json").write_text("{}")
    (message,) = [message for number, _, message in told() if number == 55]
    assert message.startswith("the key 'schema' is missing")


def test_a_record_is_read_strictly(ours, refused):
    path, home = ours.parent / "ours.trust.json", ours.parent.parent
    for text in (
        *("{}", "[]", '{"schema": 1, "seen": [{"predictions": "0"}]}'),
        '{"schema": 3, "seen": [], "status": "retrained"}',
        json.dumps({"schema": 3, "seen": [files.plain(SEEN) | {"rung": "certified"}]}),
    ):
        path.write_text(text)
        with refused(DataError):
            results(home)
    path.unlink()
    path.symlink_to("/etc/passwd")
    with refused(DataError):
        results(home)
