"""States to go on from: the last few are kept, a damaged one is never taken for a whole one, a full disk harms nothing."""

import errno
import os
import re
import shutil
import subprocess
import sys

import pytest
import torch
from support import tiny
from support.commands import contents

from grue.errors import DataError
from grue.runs import states
from grue.runs.train import Interrupted


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def refuse(message):
    raise AssertionError(f"a warning that nobody asked for: {message}")


OWNER = {"task": "mini/imdb", "system": "ppo", "seed": 1, "configuration": "a" * 64, "run id": "b" * 32}


def save(folder, *updates, keep_last=2, owner=OWNER):
    for update in updates:
        states.save_state(folder, update, {"weights": torch.arange(update), "done": update}, keep_last, owner)


def newest(folder, warn=refuse):
    return states.newest_state(folder, OWNER, warn)


# --- saving and finding ----------------------------------------------------------------------------------------------


def test_what_is_saved_comes_back(tmp_path):
    state = {
        "tensor": torch.randn(3, generator=torch.Generator().manual_seed(1)),
        "best": None,
        "seen": {"a": [1, 2.5]},
    }
    states.save_state(tmp_path, 7, state, 2, OWNER)
    update, found = newest(tmp_path)
    assert update == 7
    assert torch.equal(found.pop("tensor"), state["tensor"])
    assert found == {"best": None, "seen": {"a": [1, 2.5]}}


@pytest.mark.parametrize("keep_last", [1, 2, 3])
def test_the_last_states_are_kept(keep_last, tmp_path):
    save(tmp_path, 10, 20, 30, 1_000_000, keep_last=keep_last)
    kept = ["state-000010.pt", "state-000020.pt", "state-000030.pt", "state-1000000.pt"][-keep_last:]
    assert names(tmp_path) == sorted(kept)
    assert newest(tmp_path)[0] == 1_000_000


def test_where_nothing_was_saved_there_is_none(tmp_path):
    assert newest(tmp_path / "nowhere") is None
    (tmp_path / ".state-000001.pt.new").write_bytes(b"half of a state that was never named")
    assert newest(tmp_path) is None


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
    update, state = newest(tmp_path, told.append)
    assert (update, state["done"]) == (10, 10)
    path = tmp_path / "state-000020.pt"
    assert told == [f"{path}: damaged, and set aside as state-000020.pt.damaged; going on from update 10 instead."]
    assert names(tmp_path) == ["state-000010.pt", "state-000020.pt.damaged"]
    assert newest(tmp_path)[0] == 10
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
            newest(folder)
        assert str(caught.value) == (
            f"{folder}: no saved state is whole (state-000020.pt, state-000010.pt), so the run cannot resume. "
            f"Restore a copy of one, or remove {tmp_path / 'run'} to start the run again."
        )


def test_every_byte_counts(tmp_path):
    """Also those of the seal."""
    states.save_state(tmp_path, 1, {"done": 1}, 2, OWNER)
    path = tmp_path / "state-000001.pt"
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        with pytest.raises(DataError, match="no saved state is whole"):
            newest(tmp_path)


def test_a_whole_state_that_torch_cannot_read_is_no_damaged_one(tmp_path, monkeypatch):
    save(tmp_path, 10, 20)

    def newer(*arguments, **named):
        raise RuntimeError("version 11 of the format is not supported")

    monkeypatch.setattr(torch, "load", newer)
    with pytest.raises(
        DataError, match=r"state-000020.pt: whole, but torch .* cannot read it: version 11 .* not supported"
    ):
        newest(tmp_path)
    assert names(tmp_path) == ["state-000010.pt", "state-000020.pt"]


def test_a_state_runs_no_code(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.abort, ()

    states.save_state(tmp_path, 1, {"learner": Bomb()}, 2, OWNER)
    with pytest.raises(DataError, match="whole, but torch"):
        newest(tmp_path)


# --- whose it is -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("task", "mini/commongen"),
        ("system", "ppo-2"),
        ("seed", 2),
        ("configuration", "c" * 64),
        ("run id", "d" * 32),
        ("run id", ""),
    ],
)
def test_the_state_of_another_run_is_refused(key, value, tmp_path):
    folder = tmp_path / "run" / "states"
    save(folder, 3, owner={**OWNER, key: value})
    with pytest.raises(DataError) as caught:
        newest(folder)
    assert str(caught.value) == (
        f"{folder / 'state-000003.pt'}: the state of another run: its {key} is {value!r}, not {OWNER[key]!r}. "
        "Remove it: the same command then resumes from the states that this run saved itself."
    )
    assert names(folder) == ["state-000003.pt"]


def test_a_state_under_another_ones_name_is_refused(tmp_path):
    save(tmp_path, 3)
    (tmp_path / "state-000003.pt").rename(tmp_path / "state-000009.pt")
    with pytest.raises(DataError, match=r"state-000009.pt: the state of another run: its update is 3, not 9\."):
        newest(tmp_path)


@pytest.mark.parametrize("saved", [{"learner": {}, "best": None, "training": {}}, [1, 2]])
def test_a_state_that_does_not_say_whose_it_is_is_refused(saved, tmp_path, monkeypatch):
    """As older versions saved them."""
    save(tmp_path, 3)
    monkeypatch.setattr(torch, "load", lambda *arguments, **named: saved)
    with pytest.raises(DataError) as caught:
        newest(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path / 'state-000003.pt'}: does not say which run saved it, as states of older versions of grue do not. "
        f"Go on with the version that saved it, or remove {tmp_path.parent} to start the run again."
    )


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
    assert newest(tmp_path)[0] == 1


WRITER = """
import resource, sys, torch
from pathlib import Path
from grue.errors import DataError
from grue.runs import states
folder, limits = Path(sys.argv[1]), [int(limit) for limit in sys.argv[2:]]
states.save_state(folder, 1, {"weights": torch.zeros(10)}, 2, {})
for limit in limits or [resource.RLIM_INFINITY]:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        states.save_state(folder, 2, {"weights": torch.zeros(1_000_000)}, 2, {})
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
    assert states.newest_state(tmp_path, {}, refuse)[0] == 1


@pytest.mark.slow
def test_a_disk_that_is_really_full(tmp_path):
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs the right to mount a small disk")
    try:
        told = write_in_a_process(tmp_path / "states")
        assert "state-000002.pt: cannot be written: No space left on device." in told[0]
        assert names(tmp_path / "states") == ["state-000001.pt"]
        assert states.newest_state(tmp_path / "states", {}, refuse)[0] == 1
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


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


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"seed": 2}, "its seed is 2, not 1"),
        ({"learning_rate": 0.1}, "its configuration is '"),
        ({}, "its run id is '"),
    ],
)
def test_a_run_does_not_go_on_from_the_states_of_another(other, told, tmp_path):
    """Of another seed, of another configuration, and of the same configuration: all are whole."""
    stopped(tmp_path / "here", 1)
    stopped(tmp_path / "other", 2, **other)
    shutil.copy(tmp_path / "other/states/state-000002.pt", tmp_path / "here/states")
    before = contents(tmp_path / "here")
    with pytest.raises(DataError) as caught:
        tiny.train(tiny.run("causal", "ppo", tmp_path / "here"))
    assert told in str(caught.value) and "state-000002.pt: the state of another run" in str(caught.value)
    assert contents(tmp_path / "here") == before
    (tmp_path / "here/states/state-000002.pt").unlink()
    again = tiny.train(tiny.run("causal", "ppo", tmp_path / "here"))
    assert again.observer.begin == (1, 4)


def test_a_run_whose_id_is_gone_does_not_go_on(tmp_path):
    stopped(tmp_path, 2)
    (tmp_path / "run_id").unlink()
    with pytest.raises(DataError, match=r"state-000002.pt: the state of another run: its run id is '\w{32}', not ''\."):
        tiny.train(tiny.run("causal", "ppo", tmp_path))


def test_a_folder_that_was_moved_goes_on(tmp_path):
    stopped(tmp_path / "here", 2)
    (tmp_path / "here").rename(tmp_path / "there")
    assert tiny.train(tiny.run("causal", "ppo", tmp_path / "there")).observer.begin == (2, 4)


def swap(lines):
    lines[1], lines[2] = lines[2], lines[1]


def change(lines):
    lines[1] = lines[1].replace('"objective/reward":', '"objective/reward":1')


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda lines: lines.pop(2), r"does not reach update 3, where the saved state resumes\."),
        (lambda lines: lines.insert(2, lines[1]), r"line 3: update 1 follows update 1\..*resumes at update 3\."),
        (swap, r"line 2: update 2 follows update 0\."),
        (change, r"not what was logged up to update 3, where the saved state resumes\."),
        (lambda lines: lines.insert(2, "{broken}\n"), r"line 3: not valid JSON.*resumes at update 3\."),
    ],
)
def test_a_log_that_is_not_what_was_logged_is_not_gone_on_with(damage, told, tmp_path):
    """A line is missing in the middle, is there twice, out of order, edited, broken."""
    stopped(tmp_path, 3)
    path = tmp_path / "train.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    damage(lines)
    path.write_text("".join(lines))
    with pytest.raises(DataError) as caught:
        tiny.train(tiny.run("causal", "ppo", tmp_path))
    assert re.search(told, str(caught.value)), caught.value
    assert str(caught.value).startswith(str(path))
    assert str(caught.value).endswith(f"Restore the file, or remove {tmp_path} to start the run again.")
    assert path.read_text() == "".join(lines)


@pytest.mark.parametrize(
    "more", [b'{"update":4,"sec', b'{"update":4,"seconds":1.0}\n', b'{"update":1,"seconds":1.0}\n\xff']
)
def test_what_stands_behind_the_state_in_the_log_goes(more, tmp_path):
    """A torn line, an update that is made again, lines of another run."""
    stopped(tmp_path / "here", 3)
    with (tmp_path / "here/train.jsonl").open("ab") as file:
        file.write(more)
    tiny.train(tiny.run("causal", "ppo", tmp_path / "here"))
    tiny.train(tiny.run("causal", "ppo", tmp_path / "whole"))
    assert tiny.logged(tmp_path / "here") == tiny.logged(tmp_path / "whole")
