"""States to go on from: the last few are kept, a damaged one is never taken for a whole one, a full disk harms nothing."""

import errno
import os
import subprocess
import sys

import pytest
import torch
from support import tiny

from grue.errors import DataError
from grue.runs import states
from grue.runs.train import Interrupted


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def refuse(message):
    raise AssertionError(f"a warning that nobody asked for: {message}")


def save(folder, *updates, keep_last=2):
    for update in updates:
        states.save_state(folder, update, {"weights": torch.arange(update), "done": update}, keep_last)


# --- saving and finding ----------------------------------------------------------------------------------------------


def test_what_is_saved_comes_back(tmp_path):
    state = {
        "tensor": torch.randn(3, generator=torch.Generator().manual_seed(1)),
        "best": None,
        "seen": {"a": [1, 2.5]},
    }
    states.save_state(tmp_path, 7, state, keep_last=2)
    update, found = states.newest_state(tmp_path, refuse)
    assert update == 7
    assert torch.equal(found.pop("tensor"), state["tensor"])
    assert found == {"best": None, "seen": {"a": [1, 2.5]}}


@pytest.mark.parametrize("keep_last", [1, 2, 3])
def test_the_last_states_are_kept(keep_last, tmp_path):
    save(tmp_path, 10, 20, 30, 1_000_000, keep_last=keep_last)
    kept = ["state-000010.pt", "state-000020.pt", "state-000030.pt", "state-1000000.pt"][-keep_last:]
    assert names(tmp_path) == sorted(kept)
    assert states.newest_state(tmp_path, refuse)[0] == 1_000_000


def test_where_nothing_was_saved_there_is_none(tmp_path):
    assert states.newest_state(tmp_path / "nowhere", refuse) is None
    (tmp_path / ".state-000001.pt.new").write_bytes(b"half of a state that was never named")
    assert states.newest_state(tmp_path, refuse) is None


def test_leavings_of_a_killed_writer_are_cleared_away(tmp_path):
    (tmp_path / ".state-000001.pt.new").write_bytes(b"half")
    save(tmp_path, 2)
    assert names(tmp_path) == ["state-000002.pt"]


def test_content_reaches_the_disk_before_its_name_and_the_old_goes_last(tmp_path, monkeypatch):
    save(tmp_path, 1, keep_last=1)
    done = []
    fsync, replace, unlink = os.fsync, os.replace, os.unlink

    def shown(descriptor):
        return os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(os, "fsync", lambda fd: (done.append(f"flush {shown(fd)}"), fsync(fd))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append(f"{a.name} becomes {b.name}"), replace(a, b))[1])
    monkeypatch.setattr(os, "unlink", lambda p: (done.append(f"remove {os.path.basename(p)}"), unlink(p))[1])
    save(tmp_path, 2, keep_last=1)
    assert done == [
        "flush .state-000002.pt.new",
        ".state-000002.pt.new becomes state-000002.pt",
        f"flush {tmp_path.name}",
        "remove state-000001.pt",
    ]


# --- damage ----------------------------------------------------------------------------------------------------------


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def empty(path):
    path.write_bytes(b"")


def fill_with_zeros(path):
    """What a power cut makes of a file whose name reached the disk before its content."""
    path.write_bytes(bytes(path.stat().st_size))


DAMAGES = [cut, flip, empty, fill_with_zeros]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_is_set_aside_and_the_one_before_is_used(damage, tmp_path):
    save(tmp_path, 10, 20)
    damage(tmp_path / "state-000020.pt")
    told = []
    update, state = states.newest_state(tmp_path, told.append)
    assert (update, state["done"]) == (10, 10)
    path = tmp_path / "state-000020.pt"
    assert told == [f"{path}: damaged, and set aside as state-000020.pt.damaged; going on from update 10 instead."]
    assert names(tmp_path) == ["state-000010.pt", "state-000020.pt.damaged"]
    assert states.newest_state(tmp_path, refuse)[0] == 10
    save(tmp_path, 20)
    assert names(tmp_path) == ["state-000010.pt", "state-000020.pt", "state-000020.pt.damaged"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_without_a_whole_state_nothing_starts_again_by_itself(damage, tmp_path):
    folder = tmp_path / "run" / "states"
    save(folder, 10, 20)
    for name in names(folder):
        damage(folder / name)
    for _ in range(2):  # the second attempt must meet the same error
        with pytest.raises(DataError) as caught:
            states.newest_state(folder, refuse)
        assert str(caught.value) == (
            f"{folder}: no saved state is whole (state-000020.pt, state-000010.pt), so the run cannot resume. "
            f"Restore a copy of one, or remove {tmp_path / 'run'} to start the run again."
        )


def test_every_byte_counts(tmp_path):
    """Also those of the seal."""
    states.save_state(tmp_path, 1, {"done": 1}, keep_last=2)
    path = tmp_path / "state-000001.pt"
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        with pytest.raises(DataError, match="no saved state is whole"):
            states.newest_state(tmp_path, refuse)


def test_a_whole_state_that_torch_cannot_read_is_no_damaged_one(tmp_path, monkeypatch):
    save(tmp_path, 10, 20)

    def newer(*arguments, **named):
        raise RuntimeError("version 11 of the format is not supported")

    monkeypatch.setattr(torch, "load", newer)
    with pytest.raises(
        DataError, match=r"state-000020.pt: whole, but torch .* cannot read it: version 11 .* not supported"
    ):
        states.newest_state(tmp_path, refuse)
    assert names(tmp_path) == ["state-000010.pt", "state-000020.pt"]


def test_a_state_runs_no_code(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.abort, ()

    states.save_state(tmp_path, 1, {"learner": Bomb()}, keep_last=2)
    with pytest.raises(DataError, match="whole, but torch"):
        states.newest_state(tmp_path, refuse)


# --- a full disk -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failing", ["save", "fsync", "replace"])
def test_a_full_disk_leaves_the_states_before(failing, tmp_path, monkeypatch):
    save(tmp_path, 1)

    def full(*arguments, **named):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(torch if failing == "save" else os, failing, full)
        with pytest.raises(DataError) as caught:
            save(tmp_path, 2)
    assert str(caught.value) == (
        f"{tmp_path / 'state-000002.pt'}: cannot be written: No space left on device. The states before are untouched: "
        "once there is room, the same command resumes from the last of them."
    )
    assert names(tmp_path) == ["state-000001.pt"]
    assert states.newest_state(tmp_path, refuse)[0] == 1


WRITER = """
import resource, sys, torch
from pathlib import Path
from grue.errors import DataError
from grue.runs import states
folder, limits = Path(sys.argv[1]), [int(limit) for limit in sys.argv[2:]]
states.save_state(folder, 1, {"weights": torch.zeros(10)}, 2)
for limit in limits or [resource.RLIM_INFINITY]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        states.save_state(folder, 2, {"weights": torch.zeros(1_000_000)}, 2)
    except DataError as error:
        print(error)
"""


def write_in_a_process(folder, *limits):
    command = [sys.executable, "-c", WRITER, str(folder), *map(str, limits)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_file_that_may_not_grow_is_told_of_plainly(tmp_path):
    """A real refusal of the system, early, late and at the very end: torch hides it behind an error of its own."""
    told = write_in_a_process(tmp_path, 5_000, 100_000, 4_000_100)
    path = tmp_path / "state-000002.pt"
    expected = f"{path}: cannot be written: File too large. The states before are untouched: once there is room, "
    assert told == [expected + "the same command resumes from the last of them."] * 3
    assert names(tmp_path) == ["state-000001.pt"]
    assert states.newest_state(tmp_path, refuse)[0] == 1


@pytest.mark.slow
def test_a_disk_that_is_really_full(tmp_path):
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs the right to mount a small disk")
    try:
        told = write_in_a_process(tmp_path / "states")
        assert "state-000002.pt: cannot be written: No space left on device." in told[0]
        assert names(tmp_path / "states") == ["state-000001.pt"]
        assert states.newest_state(tmp_path / "states", refuse)[0] == 1
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


# --- the log ---------------------------------------------------------------------------------------------------------


def test_the_log_goes_back_with_the_state(tmp_path):
    log = tmp_path / "train.jsonl"
    kept = b'{"update":0,"x":1}\n{"update":1}\n{"update":2}\n{"update":2,"v":3}\n'
    log.write_bytes(kept + b'{"update":3}\n{"update":4,"torn')
    states.rewind_log(log, 2)
    assert log.read_bytes() == kept


@pytest.mark.parametrize("content", [None, b"", b'{"update":1}\n', b'{"update":1}\n{"update":2,"tor'])
def test_a_log_that_lost_updates_is_refused(content, tmp_path):
    log = tmp_path / "train.jsonl"
    if content is not None:
        log.write_bytes(content)
    with pytest.raises(DataError) as caught:
        states.rewind_log(log, 2)
    assert str(caught.value) == (
        f"{log}: does not reach update 2, where the saved state resumes. Restore the file, or remove {tmp_path} "
        "to start the run again."
    )


# --- whole runs ------------------------------------------------------------------------------------------------------


def stopped(folder, after, **settings):
    """Train until `after` updates are done, and leave the folder as a stop leaves it."""
    run = tiny.run("causal", "ppo", folder, **settings)
    run.stop = lambda: len(run.observer.lines) >= after
    with pytest.raises(Interrupted):
        tiny.train(run)


def test_a_run_keeps_its_last_states_and_goes_on_from_an_older_one(tmp_path):
    """The log and the best checkpoint, which is of a later update than the state, end as if nothing had happened."""
    settings = {"updates": 6, "kl_target": 0.05, "keep_last": 3, "learning_rate": 3e-3}
    whole = tiny.train(tiny.run("causal", "ppo", tmp_path / "whole", **settings))
    folder = tmp_path / "stopped"
    stopped(folder, 4, **settings)
    assert names(folder / "states") == ["state-000002.pt", "state-000003.pt", "state-000004.pt"]
    for update in (3, 4):
        flip(folder / "states" / f"state-{update:06d}.pt")
    second = tiny.train(tiny.run("causal", "ppo", folder, **settings))
    assert second.observer.begin == (2, 6)
    assert [message.split(": ")[0][-15:] for _, message in second.observer.warnings] == [
        "state-000004.pt",
        "state-000003.pt",
    ]
    assert torch.equal(tiny.weights(second.trainer.policy), tiny.weights(whole.trainer.policy))
    assert tiny.logged(folder) == tiny.logged(tmp_path / "whole")
    for name in ("checkpoint", "final"):
        here, there = tmp_path / "whole" / name, folder / name
        assert names(here) == names(there)
        assert [(here / file).read_bytes() for file in names(here) if file not in ("grue.json", "README.md")] == [
            (there / file).read_bytes() for file in names(there) if file not in ("grue.json", "README.md")
        ]


def test_a_run_whose_best_checkpoint_is_gone_is_not_gone_on_with(tmp_path):
    stopped(tmp_path, 2)
    (tmp_path / "checkpoint" / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"cannot resume without its best checkpoint. Restore it, or remove .*missing"):
        tiny.train(tiny.run("causal", "ppo", tmp_path))


def test_a_run_whose_log_is_gone_is_not_gone_on_with(tmp_path):
    stopped(tmp_path, 2)
    (tmp_path / "train.jsonl").unlink()
    with pytest.raises(DataError, match="train.jsonl: does not reach update 2"):
        tiny.train(tiny.run("causal", "ppo", tmp_path))
