"""What a sweep writes down: what counts as finished, what a kill leaves, who may work in a folder, what status shows."""

import errno
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from unittest.mock import Mock

import pytest
from support.paths import ROOT
from support.sweeps import EVALUATED, a_job, a_manifest, finish, leave_results

from grue.cli.sweep_view import status_text
from grue.errors import ConfigError, DataError
from grue.files import read_jsonl, write_json, write_jsonl
from grue.records import BASELINES
from grue.runs.recipes import split_algorithm
from grue.sweep.estimate import Duration, TimeEstimate, _measured, durations_of, estimate, unknown_because
from grue.sweep.local import BASE, expected
from grue.sweep.record import Record
from grue.sweep.status import rows_of, state_of
from grue.task_files import task_names

JOB = a_job()


@pytest.fixture
def record(tmp_path):
    return Record(tmp_path)


@pytest.fixture
def finished(record):
    """The folder of a finished run."""
    finish(record, JOB)
    return record.runs / JOB.id


# --- finished --------------------------------------------------------------------------------------------------------


def test_finished_is_what_was_written_down_as_such_and_still_lies_there(record, tmp_path):
    leave_results(record, JOB)
    assert not record.finished(JOB)
    record.add(JOB, "running")
    assert not record.finished(JOB)
    record.add(JOB, "finished")
    assert record.finished(JOB) and Record(tmp_path).finished(JOB)
    (tmp_path / JOB.id / "result.json").unlink()
    assert not Record(tmp_path).finished(JOB)
    leave_results(record, JOB)
    shutil.rmtree(tmp_path / JOB.id / "checkpoint")
    assert not Record(tmp_path).finished(JOB)
    leave_results(record, JOB)
    record.add(JOB, "failed", message="no")
    assert not record.finished(JOB)


@pytest.mark.parametrize("text", ["", "[]", '{"preference": 50.0}'])
def test_a_run_whose_result_cannot_be_read_is_not_finished_and_stops_no_other(record, finished, text):
    other = a_job(seed=2)
    finish(record, other)
    (finished / "result.json").write_text(text)
    assert (record.finished(JOB), record.finished(other)) == (False, True)
    broken, whole = rows_of(record, [JOB, other])
    assert (broken.state, broken.preference, whole.state, whole.preference) == ("waiting", None, "finished", 50.0)
    assert broken.message.startswith(f"it was finished, but {finished / 'result.json'}: ")
    assert whole.message is None
    rows_of(record, [JOB, other], {JOB.id: "finished", other.id: "finished"})  # as at the end of a sweep


def test_what_was_changed_after_a_run_was_finished_is_told(record, finished):
    assert record.finished(JOB)
    for name, text in EVALUATED.items():
        (finished / name).write_text(text.replace("a", "c"))
        assert record.fault(JOB) == f"{finished / name}: was changed after the evaluation."
        (finished / name).write_text(text)
    assert record.finished(JOB)
    write_json(finished / "checkpoint/grue.json", replace(a_manifest(JOB), files={"model.safetensors": "0"}))
    assert record.fault(JOB) == f"{finished / 'result.json'}: of other weights than those of the checkpoint now."


def test_a_run_that_is_only_started_from_needs_no_result_and_a_baseline_no_checkpoint(record, tmp_path):
    for job in (a_job("supervised", evaluate=False), a_job("zero-shot")):
        finish(record, job)
        assert record.finished(job)
    assert not (tmp_path / "mini/imdb/supervised/seed-1/result.json").exists()
    assert not (tmp_path / "mini/imdb/zero-shot/seed-1/checkpoint").exists()


@pytest.mark.parametrize(
    "other", [{"set": {"gamma": 0.5}}, {"reward": "meteor"}, {"evaluate": False}, {"backbone": "mini:causal"}], ids=str
)
@pytest.mark.usefixtures("finished")
def test_a_job_of_another_identity_is_not_done_by_what_this_one_left(record, other):
    job = a_job(**other)
    assert job.id == JOB.id and not record.finished(job)
    assert (record.attempts(job), record.last(job), state_of(record, job)) == (0, None, "waiting")


@pytest.mark.usefixtures("finished")
def test_a_result_that_changed_code_wrote_since_is_not_that_of_the_code_before(record):
    changed = replace(JOB, task_sha256="0" * 64)
    finish(record, changed)
    assert (record.finished(changed), record.finished(JOB)) == (True, False)
    assert "was written since by another grid, task file or code of a metric" in (record.fault(JOB) or "")
    finish(record, JOB)
    assert (record.finished(changed), record.finished(JOB)) == (False, True)


# --- events ----------------------------------------------------------------------------------------------------------


def test_events_are_read_again_as_they_were_written(record, tmp_path):
    before = time.gmtime()
    first = record.add(JOB, "running", attempt=2)
    assert first.time.endswith("+00:00") and first.time[:10] == time.strftime("%Y-%m-%d", before)
    written = record.add(JOB, "failed", attempt=2, seconds={"train": 1.5}, peak_memory=7, message="ü\n“no”")
    again = Record(tmp_path)
    assert (again.events, again.last(JOB), again.ended()) == (record.events, written, [written])
    _, line = next(iter(read_jsonl(record.events_path)))
    assert sorted(line) == ["attempt", "identity", "job", "state", "time"]


@pytest.mark.parametrize("cut", [1, 40])
def test_a_last_line_that_a_kill_tore_off_is_no_event_and_the_next_one_is_not_glued_to_it(record, tmp_path, cut):
    finish(record, JOB)
    record.add(a_job(seed=2), "running")
    os.truncate(record.events_path, record.events_path.stat().st_size - cut)
    torn = Record(tmp_path)
    assert torn.finished(JOB)
    assert torn.last(a_job(seed=2)) is None
    with torn.sole_owner():
        torn.add(a_job(seed=3), "running")
    again = Record(tmp_path)
    assert [event.job for events in again.events.values() for event in events] == [JOB.id, JOB.id, a_job(seed=3).id]


@pytest.mark.parametrize(
    "line", [b'{"job":"a"}', b"{", b"[]", b"\xff", b'{"job":"a","identity":"b","state":"gone","time":"c"}'], ids=str
)
def test_a_line_in_the_middle_that_is_no_event_is_an_error_that_names_it(record, tmp_path, line, refused):
    record.add(JOB, "running")
    with record.events_path.open("ab") as file:
        file.write(line + b"\n")
    record.add(JOB, "running")
    with refused(DataError):
        Record(tmp_path)


HOLDER = """
import sys
from pathlib import Path
from grue.sweep.record import Record
with Record(Path(sys.argv[1])).sole_owner():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_folder_is_refused_to_a_second_sweep_until_the_first_one_is_gone(record, tmp_path, refused):
    """A process that is killed lets go of it, and what ran in it shows as stopped."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, env=environment, stdin=-1, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        assert record.held()
        with refused(ConfigError), record.sole_owner():
            pytest.fail("it was let in")
        record.add(JOB, "running")
        assert state_of(record, JOB) == "running"
        holder.kill()
    assert not record.held()
    assert state_of(record, JOB) == "stopped"
    with record.sole_owner():
        assert record.held()


def test_a_folder_that_cannot_be_written_or_locked_is_said(record, tmp_path, monkeypatch, refused):
    with record.sole_owner():
        record.add(JOB, "running")
    monkeypatch.setattr("fcntl.flock", Mock(side_effect=OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))))
    with refused(DataError), record.sole_owner():
        pytest.fail("it was let in")
    with refused(DataError):
        state_of(record, JOB)
    (tmp_path / "file").mkdir()
    (tmp_path / "file/sweep").write_text("a file in the folder's place")
    with refused(DataError), Record(tmp_path / "file").sole_owner():
        pytest.fail("it was let in")
    assert not Record(tmp_path / "runs").held()
    assert not (tmp_path / "runs").exists()  # looking makes no folder


# --- status ----------------------------------------------------------------------------------------------------------


def logged(record, job, *lines):
    record.add(job, "running")
    path = record.runs / job.id / "train.jsonl"
    write_jsonl(path, lines)
    return path


def update(number, seconds=2.0, reward=0.5, kl=1.25, of=10):
    line = {"seconds": seconds, "objective/reward": reward, "objective/kl_sequence": kl}
    return {"update": number, "of": of, **line}


def test_a_row_shows_how_far_a_run_is_and_what_is_left_at_its_pace(record):
    path = logged(record, JOB, {"update": 0, "validation/reward": 0.1}, update(1, 1.0), update(2, 3.0, 0.75, 0.5))
    (row,) = rows_of(record, [JOB], {JOB.id: "running"})
    assert (row.update, row.updates, row.reward, row.kl, row.seconds_left) == (2, 10, 0.75, 0.5, 16.0)
    with path.open("a") as file:
        file.write('{"update":3,"sec')  # which is just being written
    assert rows_of(record, [JOB], {JOB.id: "running"}) == [row]
    logged(record, JOB, update(1, of=2), update(2, of=2), {"finished": True, "training": {"seconds": 4.0}})
    (row,) = rows_of(record, [JOB], {JOB.id: "running"})
    assert (row.update, row.updates, row.seconds_left) == (2, 2, None)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([update(1), update(2), update(5)], "update 5 follows update 2"),
        ([update(1), [], update(2)], "line 2: expected an object"),
    ],
)
def test_a_log_that_cannot_be_one_runs_is_told_and_stops_no_other(record, lines, told):
    other = a_job(seed=2)
    path = logged(record, JOB, *lines)
    logged(record, other, update(1))
    for states in (None, {JOB.id: "running", other.id: "running"}):
        broken, whole = rows_of(record, [JOB, other], states)
        assert (broken.update, whole.update, whole.message) == (None, 1, None)
        assert str(path) in broken.message and told in broken.message
    assert told in status_text([broken, whole])


# --- estimates -------------------------------------------------------------------------------------------------------


@pytest.fixture
def measured(monkeypatch):
    """What ships: 20 updates of ppo and a baseline on imdb."""

    def ship(table):
        monkeypatch.setattr("grue.sweep.estimate._measured", lambda: {"mini": {"imdb": table}})

    ship({"updates": 20, "ppo": 40.0, "zero-shot": 3.0})
    return ship


def test_an_estimate_is_the_median_of_its_like_spread_over_the_workers(record, measured):
    for seed, seconds in ((1, 9.0), (2, 29.0), (3, 11.0)):
        finish(record, a_job("ppo", seed), seconds={"train": seconds, "evaluate": 1.0})
    record.add(a_job("nlpo", 1), "failed", seconds={"train": 1.0})
    jobs, past = [a_job("ppo", seed) for seed in (4, 5, 6)], record.ended()
    assert estimate(jobs, 1, past) == TimeEstimate(work=36.0, wall=36.0, unknown=0)
    assert estimate(jobs, 2, past) == TimeEstimate(work=36.0, wall=24.0, unknown=0)
    assert estimate(jobs, 9, past).wall == 12.0
    # A run under way has less left, and what nothing is known of is counted and not guessed.
    assert estimate(jobs, 1, past, {jobs[0].id: 4.0}).work == 32.0
    assert estimate(jobs, 1, past, {jobs[0].id: 40.0}).work == 24.0
    unknown = [a_job("nlpo", 1), a_job("ppo", task="totto", set={"updates": 1})]
    assert estimate([*jobs, *unknown], 1, past) == TimeEstimate(work=36.0, wall=36.0, unknown=2)


@pytest.mark.parametrize(
    "other",
    [{"backbone": "mini:causal-m"}, {"reward": "meteor"}, {"preset": "paper"}, {"set": {"rollouts": 512}}],
    ids=str,
)
def test_another_backbone_is_not_estimated_by_the_recipes(other, record, measured):
    finish(record, a_job("ppo", 1), seconds={"train": 10.0})
    assert estimate([a_job("ppo", 2, **other)], 1, record.ended()) == TimeEstimate(work=0.0, wall=0.0, unknown=1)
    record.add(a_job("ppo", 1, **other), "finished", seconds={"train": 99.0}, peak_memory=7)
    assert estimate([a_job("ppo", 2, **other)], 1, record.ended()).work == 99.0
    assert estimate([a_job("ppo", 2)], 1, record.ended()).work == 10.0
    assert expected(a_job("ppo", 2, **other), 10, record.ended()) == 7
    assert expected(a_job("ppo", 2), 10, record.ended()) == BASE + 160


def test_without_such_a_run_the_measured_seconds_count_in_proportion_to_the_updates(record, measured):
    first, second = (a_job("supervised+ppo", n, after=f"mini/imdb/supervised/seed-{n}") for n in (1, 12))
    record.add(first, "finished", seconds={"train": 5.0})
    assert estimate([second], 1, record.ended()).work == 5.0, "a warm start of another seed is the same run"
    assert estimate([a_job("ppo")], 1, ()).work == 40.0
    assert estimate([a_job("ppo", set={"updates": 5})], 1, ()).work == 10.0
    assert estimate([a_job("zero-shot")], 1, ()).work == 3.0


def _relatives():
    """The controls of a comparison, and a method of one's own."""
    start = {"algorithm": "supervised", "after": "mini/imdb/supervised/seed-1"}
    return [
        a_job("supervised_x2", algorithm="supervised", set={"epochs": 20}),
        a_job("supervised+best-of-4", best_of=4, **start),
        a_job("supervised+my_file", algorithm="supervised+my_file:MINE", set={"updates": 10}),
    ]


def test_what_was_not_measured_is_judged_by_its_nearest_relative(measured, record):
    table = {"updates": 20, "supervised": 60.0, "zero-shot": 3.0, "supervised+trpo": 40.0, "supervised+grpo": 20.0}
    measured({**table, "ppo": 90.0})
    twice, picked, own = _relatives()
    assert durations_of([twice, picked, own, a_job("supervised")], ()) == [
        Duration(120.0, "twice supervised"),
        Duration(12.0, "4 evaluations"),
        Duration(20.0, "as supervised+trpo, the slowest"),
        Duration(60.0),
    ]
    finish(record, a_job("supervised", 2), seconds={"train": 10.0, "evaluate": 5.0})
    assert [each.seconds for each in durations_of([twice, picked], record.ended())] == [30.0, 20.0]


def test_a_time_that_is_unknown_has_a_reason(measured):
    other = [replace(job, entry=replace(job.entry, backbone="mini:causal-m")) for job in _relatives()]
    settings, task = a_job("ppo", set={"rollouts": 512}), a_job("ppo", task="totto")
    assert durations_of([*other, settings, task], ()) == [None] * 5
    assert {unknown_because(job) for job in other} == {"with another model than the task's, by whose size it differs"}
    assert unknown_because(settings).startswith("of an algorithm, a reward or an amount of work")
    assert unknown_because(task) == "on a task that ships without measurements"


def test_the_shipped_seconds_are_of_tasks_and_systems_that_there_are():
    for suite, tasks in _measured().items():
        assert set(tasks) <= set(task_names(suite))
        for table in tasks.values():
            assert table["updates"] > 0
            for name, seconds in table.items():
                assert seconds > 0
                assert name == "updates" or name in BASELINES or split_algorithm(name)
