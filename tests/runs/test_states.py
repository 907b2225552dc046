"""States to go on from: the last few are kept, a damaged one is never taken for a whole one, a full disk harms nothing."""

import errno
import os
import re
import resource
import shutil

import pytest
from support.late import late

from grue.errors import DataError
from grue.lm.checkpoint import read_manifest

torch, tiny, states, training = late("torch"), late("support.tiny"), late("grue.runs.states"), late("grue.runs.train")
commands, validation = late("support.commands"), late("grue.runs.validate")


def refuse(message):
    raise AssertionError(f"a warning that nobody asked for: {message}")


OWNER = {"task": "mini/imdb", "system": "ppo", "seed": 1, "configuration": "a" * 64, "run id": "b" * 32}


def save(folder, *updates, keep_last=2, owner=OWNER, size=0):
    for update in updates:
        states.save_state(folder, update, {"weights": torch.arange(update + size), "done": update}, keep_last, owner)


def newest(folder, warn=refuse):
    return states.newest_state(folder, OWNER, warn)


def test_what_is_saved_comes_back_and_leavings_of_a_killed_writer_are_cleared_away(tmp_path):
    assert newest(tmp_path / "nowhere") is None
    (tmp_path / ".state-000001.pt.new").write_bytes(b"half of a state that was never named")
    assert newest(tmp_path) is None
    drawn = torch.randn(3, generator=torch.Generator().manual_seed(1))
    states.save_state(tmp_path, 7, {"tensor": drawn, "best": None, "seen": {"a": [1, 2.5]}}, 2, OWNER)
    assert commands.names(tmp_path) == ["state-000007.pt"]
    update, found = newest(tmp_path)
    assert update == 7 and torch.equal(found.pop("tensor"), drawn)
    assert found == {"best": None, "seen": {"a": [1, 2.5]}}


@pytest.mark.parametrize("keep_last", [1, 2, 3])
def test_the_last_states_are_kept(keep_last, tmp_path):
    save(tmp_path, 10, 20, 30, 1_000_000, keep_last=keep_last)
    kept = ["state-000010.pt", "state-000020.pt", "state-000030.pt", "state-1000000.pt"][-keep_last:]
    assert commands.names(tmp_path) == sorted(kept)
    assert newest(tmp_path)[0] == 1_000_000


def test_content_reaches_the_disk_before_its_name_and_the_old_goes_last(tmp_path, monkeypatch):
    save(tmp_path, 1, keep_last=1)
    done, replace, unlink = [], os.replace, os.unlink

    def shown(descriptor):
        return os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(os, "fsync", lambda fd: done.append(f"flush {shown(fd)}"))
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append(f"{a.name} becomes {b.name}"), replace(a, b))[1])
    monkeypatch.setattr(os, "unlink", lambda p: (done.append(f"remove {os.path.basename(p)}"), unlink(p))[1])
    save(tmp_path, 2, keep_last=1)
    assert done == [
        "flush .state-000002.pt.new",
        ".state-000002.pt.new becomes state-000002.pt",
        f"flush {tmp_path.name}",
        "remove state-000001.pt",
    ]


def flip(path, place=None):
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if place is None else place] ^= 1
    path.write_bytes(content)


DAMAGES = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),  # name before content, at a power cut
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_state_is_set_aside_and_without_a_whole_one_nothing_starts_again_by_itself(damage, tmp_path, refused):
    folder, told = tmp_path / "run" / "states", []
    save(folder, 10, 20)
    damage(folder / "state-000020.pt")
    update, state = newest(folder, told.append)
    assert (update, state["done"]) == (10, 10)
    path = folder / "state-000020.pt"
    assert told == [f"{path}: damaged, and set aside as state-000020.pt.damaged; going on from update 10 instead."]
    assert commands.names(folder) == ["state-000010.pt", "state-000020.pt.damaged"]
    assert newest(folder)[0] == 10
    save(folder, 20)
    assert commands.names(folder) == ["state-000010.pt", "state-000020.pt", "state-000020.pt.damaged"]
    for name in ("state-000010.pt", "state-000020.pt"):
        damage(folder / name)
    for _ in range(2):  # the second attempt must meet the same error
        with refused(DataError):
            newest(folder)


def test_every_byte_counts_also_those_of_the_seal(tmp_path):
    save(tmp_path, 1)
    path = tmp_path / "state-000001.pt"
    for place in range(0, path.stat().st_size, 23):
        flip(path, place)
        with pytest.raises(DataError, match="no saved state is whole"):
            newest(tmp_path)
        flip(path, place)


def test_a_whole_state_that_torch_cannot_read_is_no_damaged_one_and_none_runs_code(tmp_path, monkeypatch):
    class Bomb:
        def __reduce__(self):
            return os.abort, ()

    def newer(*arguments, **named):
        raise RuntimeError("version 11 of the format is not supported")

    states.save_state(tmp_path / "bomb", 1, {"learner": Bomb()}, 2, OWNER)
    with pytest.raises(DataError, match="whole, but torch"):
        newest(tmp_path / "bomb")
    save(tmp_path / "newer", 10, 20)
    monkeypatch.setattr(torch, "load", newer)
    with pytest.raises(DataError, match=r"20.pt: whole, but torch .* cannot read it: version 11 .* not supported"):
        newest(tmp_path / "newer")
    assert commands.names(tmp_path / "newer") == ["state-000010.pt", "state-000020.pt"]


def test_the_state_of_another_run_is_refused(tmp_path, refused):
    folder = tmp_path / "run" / "states"
    for key, value in (
        *(("task", "mini/commongen"), ("system", "ppo-2"), ("seed", 2), ("configuration", "c" * 64)),
        *(("run id", "d" * 32), ("run id", "")),
    ):
        save(folder, 3, owner={**OWNER, key: value})
        with refused(DataError):
            newest(folder)
        assert commands.names(folder) == ["state-000003.pt"]
    save(folder, 3)
    (folder / "state-000003.pt").rename(folder / "state-000009.pt")  # of another update
    with refused(DataError):
        newest(folder)


def untouched(folder):
    assert commands.names(folder) == ["state-000001.pt"]
    assert newest(folder)[0] == 1


def test_what_is_not_there_is_not_removed_since_a_read_only_disk_refuses_that(tmp_path, monkeypatch):
    """As a finished run's id; that is all that a second call would write."""
    (tmp_path / "there").touch()
    unlinked = []
    monkeypatch.setattr("pathlib.Path.unlink", lambda path, missing_ok=False: unlinked.append(path.name))
    states.remove(tmp_path / "there", tmp_path / "run_id")
    assert unlinked == ["there"]


def test_a_full_disk_leaves_the_states_before(tmp_path, monkeypatch, refused):
    """Also by a real refusal of the system, early, late and at the very end: torch hides it behind its own error."""

    def full(*arguments, **named):
        raise OSError(errno.ENOSPC, "No space left on device")

    save(tmp_path, 1)
    for what, name in ((torch, "save"), (os, "fsync"), (os, "replace")):
        with monkeypatch.context() as patch, refused(DataError):
            patch.setattr(what, name, full)
            save(tmp_path, 2)
        untouched(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (5_000, 100_000, 8_000_100):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        try:
            with refused(DataError):
                save(tmp_path, 2, size=1_000_000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        untouched(tmp_path)


def run(folder, **changes):
    return tiny.run("causal", "ppo", folder, **{"kl_target": 0.05, "keep_last": 3, **changes})


def train(run_):
    """Train so that the policy after the second update is the best."""
    preference = {0: 1.0, 2: 3.0, 4: 2.0}

    def found(value):
        return validation.Validated({"reward": 0.0, "preference": value}, None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "validate", lambda *given: found(preference[given[4]]))
        return tiny.train(run_)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """The folder of a run of four updates as a stop after the third leaves it."""
    begun = run(tmp_path_factory.mktemp("stopped") / "run")
    begun.stop = lambda: len(begun.observer.lines) >= 3
    with pytest.raises(training.Interrupted):
        train(begun)
    return begun.plan.folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nobody stopped."""
    return train(run(tmp_path_factory.mktemp("whole") / "run"))


@pytest.fixture
def here(stopped, tmp_path):
    """A copy of the stopped run's folder: one that was moved goes on."""
    return shutil.copytree(stopped, tmp_path / "run")


def test_a_run_keeps_its_last_states_and_goes_on_from_an_older_one(here, whole):
    """The log and the best checkpoint, which is of a later update than the state, end as if nothing had happened."""
    assert commands.names(here / "states") == ["state-000001.pt", "state-000002.pt", "state-000003.pt"]
    assert read_manifest(here / "checkpoint").update == 2
    for update in (2, 3):
        flip(here / "states" / f"state-{update:06d}.pt")
    second = train(run(here))
    assert second.observer.begin == (1, 4)
    damaged = [message.split(": ")[0][-15:] for _, message in second.observer.warnings]
    assert damaged == ["state-000003.pt", "state-000002.pt"]
    assert torch.equal(tiny.weights(second.trainer.policy), tiny.weights(whole.trainer.policy))
    assert tiny.logged(here) == tiny.logged(whole.plan.folder)
    for name in ("checkpoint", "final"):
        mine, theirs = here / name, whole.plan.folder / name
        assert commands.names(mine) == commands.names(theirs)
        for file in {*commands.names(mine)} - {"grue.json", "README.md"}:
            assert (mine / file).read_bytes() == (theirs / file).read_bytes()


@pytest.mark.parametrize(
    ("changes", "told"),
    [({"learning_rate": 0.1}, r"its configuration is '"), ({}, r"its run id is '\w{32}', not ''\.")],
)
def test_a_run_does_not_go_on_from_the_states_of_another(changes, told, here):
    """Of another configuration, and of the same configuration: all are whole."""
    if not changes:
        (here / "run_id").unlink()
    before = commands.contents(here)
    with pytest.raises(DataError, match=r"state-000003.pt: the state of another run: " + told):
        train(run(here, **changes))
    assert commands.contents(here) == before


def change(lines):
    lines[1] = lines[1].replace('"objective/reward":', '"objective/reward":1')


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda lines: lines.pop(2), r"does not reach update 3, where the saved state resumes\."),
        (lambda lines: lines.insert(2, lines[1]), r"line 3: update 1 follows update 1\..*resumes at update 3\."),
        (change, r"not what was logged up to update 3, where the saved state resumes\."),
    ],
)
def test_a_log_that_is_not_what_was_logged_is_not_gone_on_with(damage, told, here):
    """A line is missing in the middle, is there twice, edited."""
    path = here / "train.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    damage(lines)
    path.write_text("".join(lines))
    with pytest.raises(DataError) as caught:
        train(run(here))
    assert re.search(told, str(caught.value)), caught.value
    assert str(caught.value).startswith(str(path))
    assert str(caught.value).endswith(f"Restore the file, or remove {here} to start the run again.")
    assert path.read_text() == "".join(lines)


def test_a_run_whose_best_checkpoint_is_gone_is_not_gone_on_with(here):
    (here / "checkpoint" / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"missing.* Restore the run.s checkpoint, or remove "):
        train(run(here))


@pytest.mark.parametrize("more", [b'{"update":4,"seconds":1.0}\n', b'{"update":1,"seconds":1.0}\n\xff'])
def test_what_stands_behind_the_state_in_the_log_goes(more, here, whole):
    """An update that is made again, lines of another run and a torn one."""
    with (here / "train.jsonl").open("ab") as file:
        file.write(more)
    train(run(here))
    assert tiny.logged(here) == tiny.logged(whole.plan.folder)
    assert read_manifest(here / "checkpoint").update == 2
