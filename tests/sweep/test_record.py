"""What a sweep writes down: what counts as finished, what a kill leaves, who may work in a folder, what status shows."""

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from support.factories import a_result, a_task
from support.paths import ROOT
from support.sweeps import a_job, a_manifest, finish, leave_results

from grue.cli.sweep_view import status_text
from grue.errors import ConfigError, DataError
from grue.evaluation.folder import seal
from grue.files import write_json
from grue.lm.checkpoint import CheckpointManifest
from grue.sweep.estimate import TimeEstimate, estimate
from grue.sweep.grid import SweepGrid
from grue.sweep.memory import BASE, expected
from grue.sweep.record import Record
from grue.sweep.status import rows_of, state_of

# --- finished --------------------------------------------------------------------------------------------------------


def test_finished_is_what_was_written_down_as_such_and_still_lies_there(tmp_path):
    record, job = Record(tmp_path), a_job()
    assert not record.finished(job)
    finish(record, job)
    assert Record(tmp_path).finished(job)
    (tmp_path / job.id / "result.json").unlink()
    assert not Record(tmp_path).finished(job)
    leave_results(record, job)
    shutil.rmtree(tmp_path / job.id / "checkpoint")
    assert not Record(tmp_path).finished(job)


@pytest.mark.parametrize("text", ["", '{"schema": 1', "[]", "{}", '{"preference": 50.0}'])
def test_a_run_whose_result_cannot_be_read_is_not_finished_and_stops_no_other(tmp_path, text):
    record, job, other = Record(tmp_path), a_job(), a_job(seed=2)
    finish(record, job)
    finish(record, other)
    (tmp_path / job.id / "result.json").write_text(text)
    assert (record.finished(job), record.finished(other)) == (False, True)
    broken, whole = rows_of(record, [job, other])
    assert (broken.state, broken.preference, whole.state, whole.preference) == ("waiting", None, "finished", 50.0)
    assert broken.message.startswith(f"it was finished, but {tmp_path / job.id / 'result.json'}: ")
    assert whole.message is None
    rows_of(record, [job, other], {job.id: "finished", other.id: "finished"})  # as at the end of a sweep


def test_a_folder_that_is_half_a_checkpoint_is_none(tmp_path):
    record, job = Record(tmp_path), a_job()
    finish(record, job)
    manifest = tmp_path / job.id / "checkpoint" / "grue.json"
    whole = manifest.read_text()
    for broken in (whole[:50], "", "{}"):
        manifest.write_text(broken)
        assert not record.finished(job)
    manifest.unlink()
    (manifest.parent / "model.safetensors").write_bytes(b"half")
    assert not record.finished(job)
    manifest.write_text(whole)
    assert record.finished(job)


def test_what_was_changed_after_a_run_was_finished_is_told(tmp_path):
    record, job = Record(tmp_path), a_job()
    finish(record, job)
    folder = tmp_path / job.id
    weights = CheckpointManifest(**json.loads((folder / "checkpoint/grue.json").read_text())).weights
    (folder / "predictions.jsonl").write_text('{"id":"a","text":"b"}\n')
    (folder / "scores.jsonl").write_text('{"id":"a"}\n')
    seal(folder, {"weights": weights}, a_result(a_task(job.task), job.system, job.seed, 50.0))
    assert record.finished(job)
    (folder / "scores.jsonl").write_text("")
    assert record.fault(job) == f"{folder / 'scores.jsonl'}: was changed after the evaluation."
    (folder / "scores.jsonl").write_text('{"id":"a"}\n')
    (folder / "predictions.jsonl").write_text('{"id":"a","text":"c"}\n')
    assert record.fault(job) == f"{folder / 'predictions.jsonl'}: was changed after the evaluation."
    (folder / "predictions.jsonl").write_text('{"id":"a","text":"b"}\n')
    assert record.finished(job)
    write_json(folder / "checkpoint/grue.json", replace(a_manifest(job), files={"model.safetensors": "0"}))
    assert record.fault(job) == f"{folder / 'result.json'}: of other weights than those of the checkpoint now."


def test_what_lies_there_without_an_event_is_not_finished(tmp_path):
    record, job = Record(tmp_path), a_job()
    leave_results(record, job)
    assert not record.finished(job)
    record.add(job, "running")
    assert not record.finished(job)


def test_a_run_that_is_only_started_from_needs_no_result_and_a_baseline_no_checkpoint(tmp_path):
    record = Record(tmp_path)
    for job in (a_job("supervised", evaluate=False), a_job("zero-shot")):
        finish(record, job)
        assert record.finished(job)
    assert not (tmp_path / "mini/imdb/supervised/seed-1/result.json").exists()
    assert not (tmp_path / "mini/imdb/zero-shot/seed-1/checkpoint").exists()


def test_a_failure_after_it_was_finished_counts(tmp_path):
    record, job = Record(tmp_path), a_job()
    finish(record, job)
    record.add(job, "failed", message="no")
    assert not record.finished(job)


@pytest.mark.parametrize(
    "other", [a_job(set={"gamma": 0.5}), a_job(reward="meteor"), a_job(evaluate=False), a_job(backbone="mini:causal")]
)
def test_a_job_of_another_identity_is_not_done_by_what_this_one_left(tmp_path, other):
    record, job = Record(tmp_path), a_job()
    finish(record, job)
    assert other.id == job.id
    assert not record.finished(other)
    assert record.attempts(other) == 0
    assert record.last(other) is None
    assert state_of(record, other) == "waiting"


# --- events ----------------------------------------------------------------------------------------------------------


def test_events_are_read_again_as_they_were_written(tmp_path):
    record, job = Record(tmp_path), a_job()
    record.add(job, "running", attempt=2)
    written = record.add(job, "failed", attempt=2, seconds={"train": 1.5}, peak_memory=7, message="ü\n“no”")
    again = Record(tmp_path)
    assert again.events == record.events
    assert again.last(job) == written
    assert again.ended() == [written]
    first = json.loads(record.events_path.read_text().splitlines()[0])
    assert sorted(first) == ["attempt", "identity", "job", "state", "time"]


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_last_line_that_a_kill_tore_off_is_no_event_and_the_next_one_is_not_glued_to_it(tmp_path, cut):
    record, job = Record(tmp_path), a_job()
    finish(record, job)
    record.add(a_job(seed=2), "running")
    os.truncate(record.events_path, record.events_path.stat().st_size - cut)
    torn = Record(tmp_path)
    assert torn.finished(job)
    assert torn.last(a_job(seed=2)) is None
    with torn.sole_owner():
        torn.add(a_job(seed=3), "running")
    again = Record(tmp_path)
    assert [event.job for events in again.events.values() for event in events] == [job.id, job.id, a_job(seed=3).id]


@pytest.mark.parametrize(
    "line", [b'{"job":"a"}', b"{", b"[]", b"\xff", b'{"job":"a","identity":"b","state":"gone","time":"c"}']
)
def test_a_line_in_the_middle_that_is_no_event_is_an_error_that_names_it(tmp_path, line):
    record = Record(tmp_path)
    record.add(a_job(), "running")
    with record.events_path.open("ab") as file:
        file.write(line + b"\n")
    record.add(a_job(), "running")
    with pytest.raises(DataError) as refused:
        Record(tmp_path)
    begins, _, why = str(refused.value).partition(" them again. ")
    assert begins == (
        f"{tmp_path}/sweep/events.jsonl: is damaged. Remove it: a sweep recognises finished runs by their own files, "
        "and does not run"
    )
    assert why.startswith(f"{tmp_path}/sweep/events.jsonl, line 2")
    assert "\n" not in why


def test_an_event_that_cannot_be_written_leaves_the_record_as_it_was(tmp_path):
    record, job = Record(tmp_path), a_job()
    finish(record, job)
    before = record.events_path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, limits[1]))  # room for a part of the line
        with pytest.raises(DataError, match=r"events\.jsonl: cannot be written: File too large; what was saved"):
            record.add(a_job(seed=2), "running")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert record.events_path.read_bytes() == before
    assert Record(tmp_path).finished(job)


def test_no_sweep_in_a_folder_is_said(tmp_path):
    with pytest.raises(DataError, match="no sweep has run here"):
        Record(tmp_path).jobs()


# --- one sweep at a time ---------------------------------------------------------------------------------------------

HOLDER = """
import sys
from pathlib import Path
from grue.sweep.record import Record
with Record(Path(sys.argv[1])).sole_owner():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_folder_in_which_a_sweep_works_is_refused_to_a_second_one(tmp_path, holder):
    record = Record(tmp_path)
    assert record.held()
    with pytest.raises(ConfigError) as refused, record.sole_owner():
        pytest.fail("it was let in")
    assert "another sweep is running here" in str(refused.value)
    assert f"grue sweep status {tmp_path}" in str(refused.value)


def test_a_process_that_is_killed_lets_go_of_the_folder_and_what_ran_in_it_shows_as_stopped(tmp_path, holder):
    record, job = Record(tmp_path), a_job()
    record.add(job, "running")
    assert state_of(record, job) == "running"
    holder.kill()
    holder.wait()
    assert not record.held()
    assert state_of(record, job) == "stopped"
    with record.sole_owner():
        assert record.held()


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "sweep").write_text("a file in the folder's place")
    with pytest.raises(DataError, match=r"\.lock: cannot be written: "), Record(tmp_path).sole_owner():
        pytest.fail("it was let in")


def test_looking_does_not_make_a_folder(tmp_path):
    assert not Record(tmp_path / "runs").held()
    assert not (tmp_path / "runs").exists()


# --- status ----------------------------------------------------------------------------------------------------------


def logged(record, job, *lines):
    path = record.runs / job.id / "train.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def update(number, seconds=2.0, reward=0.5, kl=1.25, of=10):
    line = {"seconds": seconds, "objective/reward": reward, "objective/kl_sequence": kl}
    return {"update": number, "of": of, **line}


def test_a_row_shows_how_far_a_run_is_and_what_is_left_at_its_pace(tmp_path):
    record, job = Record(tmp_path), a_job(set={"updates": 10})
    record.add(job, "running")
    path = logged(record, job, {"update": 0, "validation/reward": 0.1}, update(1, 1.0), update(2, 3.0, 0.75, 0.5))
    (row,) = rows_of(record, [job], {job.id: "running"})
    assert (row.update, row.updates, row.reward, row.kl, row.seconds_left) == (2, 10, 0.75, 0.5, 16.0)
    with path.open("a") as file:
        file.write('{"update":3,"sec')  # which is just being written
    assert rows_of(record, [job], {job.id: "running"}) == [row]


def test_a_long_log_is_read_from_its_end(tmp_path):
    record, job = Record(tmp_path), a_job(set={"updates": 2000})
    record.add(job, "running")
    logged(record, job, *(update(number, of=2000) for number in range(1, 1001)))
    (row,) = rows_of(record, [job], {job.id: "running"})
    assert (row.update, row.seconds_left) == (1000, 2000.0)


def test_a_run_that_is_trained_has_no_time_left_to_show(tmp_path):
    record, job = Record(tmp_path), a_job(set={"updates": 2})
    record.add(job, "running")
    logged(record, job, update(1, of=2), update(2, of=2), {"finished": True, "training": {"seconds": 4.0}})
    (row,) = rows_of(record, [job], {job.id: "running"})
    assert (row.update, row.updates, row.seconds_left) == (2, 2, None)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([update(1), update(2), update(5)], "update 5 follows update 2"),
        ([update(1), update(2), update(2)], "update 2 follows update 2"),
        ([update(1), update(2, of=90)], "is of a run of 90 updates, after lines of one of 10"),
        ([update(1), [], update(2)], "one of its last lines is damaged"),
    ],
)
def test_a_log_that_cannot_be_one_runs_is_told_and_stops_no_other(tmp_path, lines, told):
    record, job, other = Record(tmp_path), a_job(), a_job(seed=2)
    for one in (job, other):
        record.add(one, "running")
    path = logged(record, job, *lines)
    logged(record, other, update(1))
    for states in (None, {job.id: "running", other.id: "running"}):
        broken, whole = rows_of(record, [job, other], states)
        assert (broken.update, whole.update, whole.message) == (None, 1, None)
        assert str(path) in broken.message and told in broken.message
    assert told in status_text([broken, whole])


def test_a_file_system_without_locks_is_told(tmp_path, monkeypatch):
    record, job = Record(tmp_path), a_job()
    with record.sole_owner():
        record.add(job, "running")

    def flock(handle, kind):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(DataError, match=r"\.lock: cannot be locked: No locks available\."), record.sole_owner():
        pytest.fail("it was let in")
    with pytest.raises(DataError, match=r"\.lock: cannot be locked: No locks available\."):
        state_of(record, job)


def test_rows_of_what_ended_show_the_result_or_why_there_is_none(tmp_path):
    record = Record(tmp_path)
    good, bad, blocked, never = (a_job(seed=seed) for seed in (1, 2, 3, 4))
    finish(record, good)
    leave_results(record, good, preference=61.5)
    record.add(bad, "running")
    record.add(bad, "failed", message="it diverged")
    record.add(blocked, "blocked", message="its start failed")
    rows = rows_of(record, [good, bad, blocked, never])
    assert [(row.state, row.preference, row.message) for row in rows] == [
        ("finished", 61.5, None),
        ("failed", None, "it diverged"),
        ("blocked", None, "its start failed"),
        ("waiting", None, None),
    ]


# --- estimates -------------------------------------------------------------------------------------------------------


def done(record, system, seed, **seconds):
    return finish(record, a_job(system, seed), seconds=seconds)


def test_an_estimate_is_the_median_of_its_like_spread_over_the_workers(tmp_path):
    record = Record(tmp_path)
    for seed, seconds in ((1, 10.0), (2, 30.0), (3, 12.0)):
        done(record, "ppo", seed, train=seconds - 1, evaluate=1.0)
    jobs = [a_job("ppo", seed) for seed in (4, 5, 6)]
    assert estimate(jobs, 1, record.ended()) == TimeEstimate(work=36.0, wall=36.0, unknown=0)
    assert estimate(jobs, 2, record.ended()) == TimeEstimate(work=36.0, wall=24.0, unknown=0)
    assert estimate(jobs, 9, record.ended()).wall == 12.0


def test_what_nothing_is_known_of_is_counted_and_not_guessed(tmp_path, monkeypatch):
    monkeypatch.setattr("grue.sweep.estimate._measured", dict)
    record = Record(tmp_path)
    done(record, "ppo", 1, train=10.0)
    record.add(a_job("nlpo", 1), "failed", seconds={"train": 1.0})
    found = estimate([a_job("ppo", 2), a_job("nlpo", 2, task="totto", set={"updates": 1})], 1, record.ended())
    assert found.work == 10.0
    assert found.unknown == 1


@pytest.mark.parametrize(
    "other", [{"backbone": "mini:causal-m"}, {"reward": "meteor"}, {"preset": "paper"}, {"set": {"rollouts": 512}}]
)
def test_another_backbone_is_not_estimated_by_the_recipes(other, tmp_path, monkeypatch):
    monkeypatch.setattr("grue.sweep.estimate._measured", lambda: {"mini": {"imdb": {"updates": 20, "ppo": 40.0}}})
    record = Record(tmp_path)
    done(record, "ppo", 1, train=10.0)
    assert estimate([a_job("ppo", 2, **other)], 1, record.ended()) == TimeEstimate(work=0.0, wall=0.0, unknown=1)
    record.add(a_job("ppo", 1, **other), "finished", seconds={"train": 99.0}, peak_memory=7)
    assert estimate([a_job("ppo", 2, **other)], 1, record.ended()).work == 99.0
    assert estimate([a_job("ppo", 2)], 1, record.ended()).work == 10.0
    assert expected(a_job("ppo", 2, **other), 10, record.ended()) == 7
    assert expected(a_job("ppo", 2), 10, record.ended()) == BASE + 160


def test_a_warm_start_of_another_seed_is_the_same_run(tmp_path):
    record = Record(tmp_path)
    first, second = (a_job("supervised+ppo", n, after=f"mini/imdb/supervised/seed-{n}") for n in (1, 12))
    record.add(first, "finished", seconds={"train": 5.0})
    assert estimate([second], 1, record.ended()).work == 5.0


def test_a_run_under_way_has_less_left(tmp_path):
    record = Record(tmp_path)
    done(record, "ppo", 1, train=10.0)
    jobs = [a_job("ppo", 2), a_job("ppo", 3)]
    assert estimate(jobs, 1, record.ended(), {jobs[0].id: 4.0}).work == 16.0
    assert estimate(jobs, 1, record.ended(), {jobs[0].id: 40.0}).work == 10.0


def test_without_such_a_run_the_measured_seconds_count_in_proportion_to_the_updates(monkeypatch):
    measured = {"mini": {"imdb": {"updates": 20, "ppo": 40.0, "zero-shot": 3.0}}}
    monkeypatch.setattr("grue.sweep.estimate._measured", lambda: measured)
    assert estimate([a_job("ppo")], 1, ()).work == 40.0
    assert estimate([a_job("ppo", set={"updates": 5})], 1, ()).work == 10.0
    assert estimate([a_job("zero-shot")], 1, ()).work == 3.0
    assert estimate([a_job("nlpo"), a_job("ppo", task="totto")], 1, ()).unknown == 2


def test_the_shipped_seconds_are_of_tasks_and_systems_that_there_are():
    from grue.records import BASELINES
    from grue.runs.recipes import split_algorithm
    from grue.sweep.estimate import _measured
    from grue.task_files import task_names

    for suite, tasks in _measured().items():
        assert set(tasks) <= set(task_names(suite))
        for table in tasks.values():
            assert table["updates"] > 0
            for name, seconds in table.items():
                assert seconds > 0
                assert name == "updates" or name in BASELINES or split_algorithm(name)


def test_times_are_utc_and_in_order(tmp_path):
    record = Record(tmp_path)
    before = time.gmtime()
    event = record.add(a_job(), "running")
    assert event.time.endswith("+00:00")
    assert event.time[:10] == time.strftime("%Y-%m-%d", before)


def test_a_grid_is_kept_for_status_and_pack(tmp_path):
    record = Record(tmp_path)
    record.write_grid(SweepGrid(tasks=("imdb",), algorithms=("copy",)))
    assert [job.id for job in Record(tmp_path).jobs()] == ["mini/imdb/copy/seed-1"]
