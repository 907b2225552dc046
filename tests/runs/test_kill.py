"""Runs that are killed at any moment at all: the same command goes on from what lies on the disk, to the same end.

What a kill leaves is what was written until then. So a run's folder is copied before every call that changes it, and
the run goes on from each copy; `tests/sweep/test_local.py` kills real processes.
"""

import os
import re
import shutil

import numpy as np
import pytest
from support.late import late

tiny, module = late("support.tiny"), late("grue.runs.train")
comparison, validation = late("grue.evaluation.comparison"), late("grue.runs.validate")

CLOCKS = re.compile(rb'"seconds": ?[0-9.e-]+|\| seconds \| `?[0-9.]+`? \|')


def everything(folder):
    """The content of all files below a run's folder, without clocks and what TensorBoard shows."""
    return {
        str(path.relative_to(folder)): CLOCKS.sub(b"", path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock" and "tensorboard" not in path.parts
    }


CALLS = ("replace", "fsync", "unlink", "rmdir", "mkdir", "truncate")
# β moves, so that its state counts.
TINY = {"updates": 3, "rollouts": 4, "minibatch_size": 4, "epochs": 1, "validate_every": 1, "keep_last": 1}
TINY |= {"kl_target": 0.05}
TEMPORARY = re.compile(r"(.*/)?\.[^/]*\.(new|previous)/.*|(.*/)?\.[^/]*\.(new|[0-9a-f]{16})")
NOTHING = re.compile("")


def better(run):
    """A validation that finds the policy better the longer it has learned, by three examples."""
    score = run.training["episodes"]
    found = comparison.Worth(score, np.array([0.0, score, 2 * score]))
    return validation.Validated({"reward": 0.0, "preference": score}, found)


def train(folder, monkeypatch):
    """Train as `grue train` does, but on a tiny model, and so that every validation finds the best policy so far."""
    run = tiny.run("causal", "reinforce", folder, task_=tiny.task("causal", max_new_tokens=3), **TINY)
    with monkeypatch.context() as patch:
        patch.setattr(module, "prepare", lambda *arguments: run)
        patch.setattr(module, "validate", lambda *given: better(run))
        module.train(run.plan, run.observer)
    return run


def watched(folder, copies, alike, monkeypatch):
    """Train, and copy the folder before each call that changes something; return the call that was next, by copy.

    Copies that differ in what is named `alike` only are one: all stages of a file that is filled under another name.
    """
    found, seen, copying = {}, set(), []

    def state():
        names = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*"))]
        kept = {name: content for name, content in everything(folder).items() if not alike.fullmatch(name)}
        return hash((tuple(kept.items()), tuple(name for name in names if name in kept or "/" not in name)))

    def before(name, original):
        def call(*arguments, **named):
            if not copying and (now := state()) not in seen:
                seen.add(now)
                copying.append(True)  # which makes such calls itself
                found[shutil.copytree(folder, copies / str(len(found)))] = name
                copying.clear()
            return original(*arguments, **named)

        return call

    folder.mkdir(parents=True)
    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, before(name, getattr(os, name)))
        run = train(folder, monkeypatch)
    return run, found


@pytest.mark.parametrize(
    ("alike", "least"), [(TEMPORARY, 25), pytest.param(NOTHING, 80, marks=pytest.mark.slow)], ids=["few", "thorough"]
)
def test_a_kill_before_any_call_that_changes_the_disk_changes_nothing_in_the_end(alike, least, tmp_path, monkeypatch):
    run, copies = watched(tmp_path / "whole", tmp_path / "copies", alike, monkeypatch)
    wanted = everything(tmp_path / "whole")
    assert [best for _, _, best in run.observer.validations] == [True] * 4
    assert len(copies) > least
    begins = set()
    for copy in copies:
        again = train(copy, monkeypatch)
        assert everything(copy) == wanted, copies[copy]
        begins.add(again.observer.begin[0] if hasattr(again.observer, "begin") else "finished")
    assert begins == {0, 1, 2, "finished"}
