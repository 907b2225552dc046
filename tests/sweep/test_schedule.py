"""The loop of a sweep, over an executor without processes: what waits, what is tried again, what stops what."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.sweeps import FakeExecutor, Watcher, a_job, finish

from grue.errors import DataError
from grue.sweep.record import Record
from grue.sweep.schedule import Sweep


def warm(seed=1):
    return a_job("supervised", seed, evaluate=False)


def follower(system, seed=1):
    return a_job(f"supervised+{system}", seed, after=warm(seed).id)


def run(tmp_path, jobs, outcomes=None, retries=1, room=2, stop=lambda: False):
    record = Record(tmp_path)
    executor, watcher = FakeExecutor(record, outcomes, room), Watcher()
    ends = Sweep(jobs, record, executor, watcher, retries).run(stop)
    assert executor.closed
    assert executor.most <= room
    return ends, executor, watcher


def test_jobs_start_in_their_order_as_there_is_room_and_wait_for_what_they_start_from(tmp_path):
    jobs = [warm(1), warm(2), follower("ppo", 1), follower("nlpo", 1), follower("ppo", 2), a_job("zero-shot")]
    ends, executor, watcher = run(tmp_path / "6", jobs, room=6)
    assert executor.started[:3] == [warm(1).id, warm(2).id, a_job("zero-shot").id]
    assert set(ends.values()) == {"finished"}
    heard = [(job, state) for job, state, _ in watcher.heard]
    for job in jobs[2:5]:
        assert heard.index((job.after, "finished")) < heard.index((job.id, "running"))
    jobs = [a_job(seed=seed) for seed in (5, 3, 4, 1, 2)]
    _, executor, _ = run(tmp_path / "2", jobs, room=2)
    assert (executor.started, executor.most) == ([job.id for job in jobs], 2)


def test_a_failed_warm_start_blocks_what_starts_from_it_and_nothing_else(tmp_path):
    jobs = [warm(1), warm(2), follower("ppo", 1), follower("nlpo", 1), follower("ppo", 2), a_job("ppo")]
    ends, executor, watcher = run(tmp_path, jobs, {warm(1).id: ["failed"]}, retries=5)
    assert [ends[job.id] for job in jobs] == ["failed", "finished", "blocked", "blocked", "finished", "finished"]
    assert follower("ppo", 1).id not in executor.started
    assert executor.started.count(warm(1).id) == 1  # a failure that explained itself is not tried again
    assert (follower("ppo", 1).id, "blocked", f"{warm(1).id}, its warm start, failed") in watcher.heard
    assert (warm(1).id, "failed", "it failed") in watcher.heard
    again, _, _ = run(tmp_path, jobs, {warm(1).id: ["stopped"]})  # what somebody stopped leaves the others waiting
    assert [again[job.id] for job in jobs[:4]] == ["stopped", "finished", "waiting", "waiting"]


@pytest.mark.parametrize("retries", [0, 3])
def test_a_crash_is_tried_again_as_often_as_told_and_counted_anew_for_every_command(tmp_path, retries):
    job, other = a_job(seed=1), a_job(seed=2)
    ends, executor, _ = run(tmp_path, [job, other], {job.id: ["crashed"] * 9}, retries=retries)
    assert ends == {job.id: "failed", other.id: "finished"}
    assert executor.started.count(job.id) == 1 + retries
    told = [(event.state, event.attempt, event.message) for event in Record(tmp_path).events[job.id]]
    tries = range(1, retries + 2)
    said = ["it crashed; it is started again"] * retries + ["it crashed"]
    assert told == [
        one for n, why in zip(tries, said, strict=True) for one in (("running", n, None), ("failed", n, why))
    ]
    again, executor, _ = run(tmp_path, [job, other], {job.id: ["crashed"] * retries}, retries=retries)
    assert set(again.values()) == {"finished"} and executor.started == [job.id] * (1 + retries)
    attempts = [event.attempt for event in Record(tmp_path).events[job.id]]
    assert attempts == [n for n in range(1, 2 * (1 + retries) + 1) for _ in range(2)]


def test_a_stop_starts_nothing_more_waits_for_what_runs_and_the_next_command_goes_on(tmp_path):
    jobs = [a_job(seed=seed) for seed in range(1, 6)]
    asked = iter([False, True, True, True, True])
    ends, executor, _ = run(tmp_path, jobs, stop=lambda: next(asked))
    assert executor.stopping
    # Two started, one of which ended before the stop was asked for; nothing took its place.
    assert executor.started == [jobs[0].id, jobs[1].id]
    assert list(ends.values()) == ["finished", "stopped", "waiting", "waiting", "waiting"]
    assert Record(tmp_path).last(jobs[1]).state == "stopped"
    ends, executor, _ = run(tmp_path, jobs)
    assert executor.started == [job.id for job in jobs[1:]]
    assert set(ends.values()) == {"finished"}


def test_a_record_that_cannot_be_written_ends_the_sweep_and_leaves_no_worker(tmp_path, monkeypatch):
    record, jobs = Record(tmp_path), [a_job(seed=seed) for seed in (1, 2)]
    executor = FakeExecutor(record)
    wrote = []

    def full(job, state, **about):
        wrote.append(state)
        if len(wrote) == 3:
            raise DataError("events.jsonl: cannot be written: No space left on device.")
        return Record.add(record, job, state, **about)

    monkeypatch.setattr(record, "add", full)
    with pytest.raises(DataError, match="No space left"):
        Sweep(jobs, record, executor, Watcher()).run()
    assert executor.closed
    assert [event.state for events in Record(tmp_path).events.values() for event in events] == ["running", "running"]
    again, started, _ = run(tmp_path, jobs)
    assert set(again.values()) == {"finished"}
    assert len(started.started) == 2


OUTCOMES = st.lists(st.sampled_from(["finished", "failed", "crashed", "stopped"]), max_size=4)


@st.composite
def sweeps(draw):
    """Jobs of which some start from others, what becomes of each try, and what was finished before."""
    seeds = range(1, draw(st.integers(1, 4)) + 1)
    starts = [warm(seed) for seed in seeds if draw(st.booleans())]
    jobs = [*starts, *(follower(name, job.seed) for job in starts for name in ("ppo", "nlpo") if draw(st.booleans()))]
    jobs += [a_job("ppo", seed) for seed in seeds if draw(st.booleans())]
    outcomes = {job.id: draw(OUTCOMES) for job in jobs}
    finished = [job for job in jobs if draw(st.integers(0, 3)) == 0]
    return jobs, outcomes, finished, draw(st.integers(0, 3)), draw(st.integers(1, 4)), draw(st.integers(0, 12))


@settings(max_examples=50, deadline=None)
@given(sweeps())
def test_every_job_ends_in_a_state_and_nothing_starts_before_what_it_needs(drawn):
    jobs, outcomes, finished, retries, room, stop_after = drawn
    with tempfile.TemporaryDirectory() as folder:
        record = Record(Path(folder))
        for job in finished:
            finish(record, job)
        asked = []

        def stop():
            asked.append(True)
            return len(asked) > stop_after

        given_outcomes = {key: list(said) for key, said in outcomes.items()}
        ends, executor, watcher = run(Path(folder), jobs, given_outcomes, retries, room, stop)
        assert set(ends) == {job.id for job in jobs}
        assert set(ends.values()) <= {"finished", "failed", "blocked", "stopped", "waiting"}
        assert not {job.id for job in finished} & set(executor.started)
        by_id, done = {job.id: job for job in jobs}, {job.id for job in finished}
        for name, state, _ in watcher.heard:
            if state == "running":
                assert by_id[name].after is None or by_id[name].after in done
            done |= {name} if state == "finished" else set()
        assert done == {name for name, state in ends.items() if state == "finished"}
        for job in jobs:
            assert executor.started.count(job.id) <= 1 + retries
            # With all the time in the world, only what somebody stopped, or what needs it, is left waiting.
            if ends[job.id] == "waiting" and not executor.stopping:
                assert ends[job.after] == "stopped"
            if ends[job.id] == "blocked":
                assert ends[job.after] == "failed"
        again = Record(Path(folder))
        assert {job.id for job in jobs if again.finished(job)} == done
        assert all(again.last(by_id[name]).state == ends[name] for name in executor.started if ends[name] != "waiting")
