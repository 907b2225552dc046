"""The fresh draw: what it follows from, what passes it, what grinding gains, and what its record lifts a row to."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.factories import a_result
from support.good_submission import SEEDS, TASK, seal, system_says, write_good
from support.paths import ROOT

from grue import files
from grue.errors import DataError, SubmissionError
from grue.evaluation.comparison import Worth, standard_error
from grue.submissions.checks import structure
from grue.submissions.checks.check import check
from grue.submissions.entries import results
from grue.submissions.folder import read_result
from grue.submissions.trust.draw import Gap, draw, most_inflation, over_tasks, too_high
from grue.submissions.trust.record import Fresh, Rerun, Standing, Trust, standing_of
from grue.submissions.trust.verify import lead

WEIGHTS = {seed: hashlib.sha256(str(seed).encode()).hexdigest() for seed in SEEDS}


def a_row(task="commongen", **weights):
    named = [replace(a_result(TASK, "ours", seed, 50.0, None), task=task) for seed in SEEDS]
    return [replace(one, system={**one.system, "weights": WEIGHTS[one.seed], **weights}) for one in named]


# --- the draw --------------------------------------------------------------------------------------------------------


def test_another_checkpoint_task_version_or_salt_has_another_draw():
    row = a_row()
    first = draw(row)
    assert draw(row[::-1]) == first and set(first) == {"commongen"} and first["commongen"].seed in SEEDS
    trained_on_it = [replace(row[0], system={**row[0].system, "weights": "0" * 64}), *row[1:]]
    new_version = [replace(one, task_hash="f" * 64) for one in row]
    others = [draw(trained_on_it), draw(new_version), draw(row, "run 7"), draw(row[1:])]
    assert len({one["commongen"].rows_seed for one in (first, *others)}) == 5
    assert all(0 <= one["commongen"].rows_seed < 2**63 for one in others)


def test_a_change_in_one_task_draws_every_task_anew():
    """Or a submitter could try checkpoints of each task by itself, until that one is lucky."""
    row, beside = a_row(), a_row("imdb")
    changed = [replace(beside[0], system={**beside[0].system, "weights": "0" * 64}), *beside[1:]]
    assert draw([*row, *beside])["commongen"] != draw([*row, *changed])["commongen"]


def test_every_seed_is_drawn_about_as_often():
    row = a_row()
    drawn = [draw(row, str(salt))["commongen"].seed for salt in range(1000)]
    assert set(drawn) == set(SEEDS) and max(map(drawn.count, SEEDS)) < 260  # 200 expected, and 12.6 of deviation


@pytest.mark.parametrize("weights", ["", "me/model@main", "A" * 64, None])
def test_a_checkpoint_is_named_by_its_sha256(weights, refused):
    with refused(SubmissionError):
        draw(a_row(weights=weights))


# --- the test --------------------------------------------------------------------------------------------------------


def test_honest_rows_pass_and_inflated_ones_hardly_within_the_bound():
    """Rows are drawn at random: seven tasks, 1,000 examples in each split, 25 points of deviation an example."""
    generator, error, failed, passed, n = np.random.default_rng(1), 25 / np.sqrt(1000), 0, 0, 4000
    equal = Gap(50.0, 50.0, error, error)
    for tries, trials in ((1, n), (100, 40)):
        bound = most_inflation(over_tasks([equal] * 7), 8, tries)
        passed = 0
        for _ in range(trials):
            public = 50 + generator.normal(0, error, 7)
            fresh = 50 + generator.normal(0, error, (tries, 7))
            if tries == 1:
                failed += bool(too_high(_gaps(public, fresh[0], error)))
            # each task inflated by the bound, the public split's own luck left out
            passed += any(not too_high(_gaps(np.full(7, 50 + bound), one, error)) for one in fresh)
        assert passed / trials < 0.05 + 3 * np.sqrt(0.05 / trials)
    assert 0 < failed / n < 0.01 + 3 * np.sqrt(0.01 / n)


def _gaps(public, fresh, error):
    return {
        str(task): {"preference": Gap(a, b, error, error)}
        for task, (a, b) in enumerate(zip(public, fresh, strict=True))
    }


def test_more_tries_gain_more_and_a_lower_public_score_is_no_fault():
    gap = Gap(50.0, 50.0, 0.8, 0.8)
    bounds = [most_inflation(gap, 8, tries) for tries in (1, 100, 10_000)]
    assert bounds == sorted(bounds) and 4 < bounds[0] < bounds[2] < 8
    assert too_high({"a": {"preference": Gap(0.0, 100.0, 0.1, 0.1)}}) == {}
    assert list(too_high({"a": {"naturalness": Gap(100.0, 0.0, 0.1, 0.1)}})) == ["a: naturalness"]
    assert too_high({}) == {}


def test_a_lucky_public_test_fails_no_honest_row_by_its_lead():
    """A public test of easy examples: a fifth of honest rows fail by their scores, 1 % by their leads."""
    generator, n, rows, trials = np.random.default_rng(3), 1000, 5, 400
    ease = generator.normal(50, 20, n)
    ease += 50 + 2.2 * 25 / np.sqrt(n) - ease.mean()  # luck of some two standard errors

    def a_run(inflation=0.0):
        public = ease + generator.normal(0, 15, n)
        fresh = 50 + generator.normal(0, 25, n)
        gap = Gap(public.mean() + inflation, fresh.mean(), standard_error(public), standard_error(fresh))
        return Worth(gap.public, public + inflation), gap

    by_score = by_lead = caught = 0
    for _ in range(trials):
        others, gaps = zip(*(a_run() for _ in range(rows)), strict=True)
        run, gap = a_run()
        led = lead(run, others, gap, gaps)
        by_score += bool(too_high({"a": {"preference": gap}}))
        by_lead += bool(too_high({"a": {"preference": led}}))
        inflated, gap = a_run(most_inflation(led, 1, 1))
        caught += bool(too_high({"a": {"preference": lead(inflated, others, gap, gaps)}}))
    assert by_score / trials > 0.1 and by_lead / trials < 0.01 + 3 * np.sqrt(0.01 / trials)
    assert caught / trials > 0.85  # the bound leaves the public examples' luck out


def test_a_lead_is_paired_on_the_public_test_alone():
    """Against plain sums over three examples."""
    run, others = (
        Worth(4.0, np.array([1.0, 4.0, 7.0])),
        [Worth(2.0, np.array([1.0, 2.0, 3.0])), Worth(0.0, np.zeros(3))],
    )
    led = lead(run, others, Gap(4.0, 5.0, 9.0, 0.6), [Gap(2.0, 3.0, 9.0, 0.8), Gap(0.0, 2.0, 9.0, 0.6)])
    differences = [0.5, 3.0, 5.5]
    error = (sum((d - 3.0) ** 2 for d in differences) / 2 / 3) ** 0.5
    assert (led.public, led.fresh) == (3.0, 2.5) and led.public_error == pytest.approx(error)
    assert led.fresh_error == pytest.approx((0.6**2 + (0.8**2 + 0.6**2) / 4) ** 0.5)


def test_small_inflations_of_every_task_add_up():
    """Half of what one task alone would have to show: only the mean tells."""
    gaps = {str(task): {"preference": Gap(51.8, 50.0, 0.8, 0.8)} for task in range(7)}
    assert list(too_high(gaps)) == ["mean over tasks: preference"]


# --- the record ------------------------------------------------------------------------------------------------------


@pytest.fixture
def row(ours):
    """A row of five seeds, each of which names a checkpoint."""
    for seed in SEEDS:
        system_says(ours, seed, weights=WEIGHTS[seed])
    return seal(ours)


def results_of(system):
    return [read_result(path) for path in sorted(system.glob("*/*.result.json"))]


def vouch(system, **changes):
    """Write the record of a row that was verified; `changes` are of its one run."""
    drawn = draw(results_of(system), "salt")["commongen"]
    fresh = Fresh(drawn.rows_seed, "0" * 64, 1000, {"preference": Gap(50.0, 49.5, 0.7, 0.7)})
    run = replace(Rerun("commongen", drawn.seed, WEIGHTS[drawn.seed], 1.0, fresh), **changes)
    sha256 = hashlib.sha256((system / "MANIFEST.sha256").read_bytes()).hexdigest()
    trust = Trust(4, sha256, "salt", "A. M.", "2026-01-31", {"version": "0", "commit": "0"}, "a machine", {}, (run,))
    files.write_json(system.with_name(f"{system.name}.trust.json"), trust)
    return trust


def test_a_verified_row_is_shown_as_such_and_may_have_a_rank(row):
    assert {(one.status, one.unverified) for one in results(row)} == {("rescored", True)}
    vouch(row)
    log = "submissions/mini/ours.trust.json"
    assert {(one.status, one.unverified, one.about.log) for one in results(row)} == {("verified", False, log)}
    vouch(row, fresh=None)  # without a draw it is no more than reproduced
    assert {(one.status, one.unverified) for one in results(row)} == {("reproduced", True)}


VOID = {
    "a seed that was not drawn": lambda run: {"seed": run.seed % 5 + 1},
    "rows that were not drawn": lambda run: {"fresh": replace(run.fresh, seed=run.fresh.seed + 1)},
    "other texts": lambda run: {"equal_texts": 0.98},
    "a public score that is too high": lambda run: {
        "fresh": replace(run.fresh, gaps={"preference": Gap(60.0, 50.0, 0.7, 0.7)})
    },
    "another task": lambda run: {"task": "imdb"},
}


@pytest.mark.parametrize("name", VOID)
def test_a_record_of_anything_else_lifts_no_row(row, name, monkeypatch):
    (run,) = vouch(row).reruns
    vouch(row, **VOID[name](run))
    assert standing_of(row, "mini", results_of(row)).rung is None
    monkeypatch.setattr(structure, "standing_of", standing_of)
    (problem,) = check(row)
    assert (problem.id, problem.message.startswith("ours.trust.json is ")) == ("GRUE-S096", True)


def test_a_record_is_of_the_very_files_that_were_verified(row):
    (run,) = vouch(row).reruns
    drawn = frozenset({("commongen", run.seed)})
    assert standing_of(row, "mini", results_of(row)) == Standing("verified", "", False, drawn)
    assert {(one.result.seed, one.is_rerun) for one in results(row)} >= {(run.seed, True)}
    write_good(row, "A {} was seen in the {}.")
    why = standing_of(row, "mini", results_of(row)).why
    assert why == "ours.trust.json is of other files: MANIFEST.sha256 has changed since 2026-01-31"
    assert {one.status for one in results(row)} == {"rescored"}


def test_a_record_lifts_no_row_whose_files_are_not_those_of_the_manifest(row):
    result, predictions = (row / "commongen" / f"seed-1.{kind}" for kind in ("result.json", "predictions.jsonl.gz"))
    changes = {
        result: lambda: files.write_json(result, {**files.read_json(result), "preference": 99.0}),
        predictions: lambda: predictions.write_bytes(predictions.read_bytes() + b" "),
        row / "MANIFEST.sha256": lambda: files.write_text(row / "MANIFEST.sha256", listed.partition("\n")[2]),
    }
    listed = files.read_text(row / "MANIFEST.sha256")
    for path, change in changes.items():
        before = path.read_bytes()
        change()
        vouch(row)  # of this manifest
        assert {(one.status, one.unverified) for one in results(row)} == {("rescored", True)}, path.name
        path.write_bytes(before)


def test_a_record_is_read_strictly(row, refused):
    path = row.with_name("ours.trust.json")
    for text in ("{}", "[]", json.dumps({"schema": 4, "rung": "verified"})):
        path.write_text(text)
        with refused(DataError):
            results(row)
    path.unlink()
    path.symlink_to("/etc/passwd")
    with refused(DataError):
        results(row)


def test_the_trained_rows_of_mini_that_ship_are_verified():
    mini = Path(ROOT / "submissions/mini")
    status = {one.result.system["name"]: one.status for one in results(mini) if one.result.system.get("config_sha256")}
    picked = {"supervised+best-of-2", "supervised+best-of-4"}
    assert len(status) >= 5 and {name for name, held in status.items() if held != "rescored"} == {*status} - picked
    assert {one.result.system["name"] for one in results(mini) if one.unverified} & status.keys() == picked
