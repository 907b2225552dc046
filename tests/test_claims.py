"""Claimed work: one process at a time, resumed only by the same claim, nothing left of what produced nothing."""

import contextlib
import errno
import os

import pytest

from grue import claims, files
from grue.errors import ConfigError, DataError


def test_a_lock_that_cannot_be_given_or_opened_is_no_other_process(tmp_path, monkeypatch, refused):
    (tmp_path / ".lock").touch()
    for number in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EIO):

        def failing(*_, number=number):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr("fcntl.flock", failing)
        for look in (lambda: claims.is_held(tmp_path), lambda: claims.sole_owner(tmp_path, "another").__enter__()):
            with refused(DataError):
                look()
    monkeypatch.undo()
    (tmp_path / "other/.lock").mkdir(parents=True)
    with refused(DataError):
        claims.is_held(tmp_path / "other")


def test_a_folder_is_held_by_one_and_let_go_of(tmp_path):
    assert not claims.is_held(tmp_path)
    with claims.sole_owner(tmp_path, "it is taken"):
        assert claims.is_held(tmp_path)
        with pytest.raises(ConfigError, match="^it is taken$"), claims.sole_owner(tmp_path, "it is taken"):
            pytest.fail("it was let in")
        assert claims.is_held(tmp_path)
    assert not claims.is_held(tmp_path)


def resumable(target, claim, lines, stop_at=None):
    """Write the lines one by one into `target`, stopping before one of them; return how many were written now."""
    written = []

    def write(partial):
        kept = partial / "lines"
        there = kept.read_text().splitlines() if kept.exists() else []
        for line in lines[len(there) :]:
            if line == stop_at:
                raise KeyboardInterrupt
            with kept.open("a") as handle:
                handle.write(f"{line}\n")
            written.append(line)
        files.write_text(target, kept.read_text())

    with contextlib.suppress(KeyboardInterrupt):
        claims.carry_out(target, claim, "lines", "lines", lambda: None, write)
    return written


def test_work_is_resumed_by_its_claim_alone_and_abandoned_where_nothing_was_produced(tmp_path, refused):
    target, partial, claim = tmp_path / "out", tmp_path / "out.partial", {"seed": 1, "config": {"a": 1, "b": (2,)}}
    assert resumable(target, claim, "abc", stop_at="a") == [] and not list(tmp_path.iterdir())
    assert resumable(target, claim, "abc", stop_at="c") == ["a", "b"] and not target.exists()
    for other in ({"seed": 2}, {"config": {"a": 1, "b": [3]}}, {"config": {"a": 1}}, {"task_hash": "new", "seed": 3}):
        with refused(ConfigError):
            resumable(target, claim | other, "abc")
    (partial / "states").mkdir()
    with refused(ConfigError):
        resumable(target, claim, "abc")
    (partial / "states").rmdir()
    assert resumable(target, claim, "abc") == ["c"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"] and target.read_text() == "a\nb\nc\n"
    partial.mkdir()  # as a kill between the last write and the end leaves
    assert resumable(target, claim, "abc") == [] and not partial.exists()
