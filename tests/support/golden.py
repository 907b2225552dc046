"""Golden traces: tiny runs that are trained once, by whichever test of whichever process first asks for one.

A trace is kept in pytest's cache by the hash of all that decides it: the package, `tests/support`, torch and
transformers. Tests read it and change nothing of it.
"""

import hashlib
import json
import os
import random
import shutil
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy
import torch
import transformers
from filelock import FileLock
from support import scored, tiny
from support.paths import ROOT, TESTS

from grue.lm.adapters import adapt
from grue.runs.train import Interrupted

REWARDS = {"the": tiny.share_of_the, "fine": scored.fine, "coarse": scored.coarse, "flat": scored.flat}
HOME = "GRUE_GOLDEN_TRACES"
"""The variable by which `conftest.py` names pytest's cache."""


@dataclass(frozen=True)
class Trace:
    """What a run leaves.

    Attributes:
        folder: Of the run, with its log, states and checkpoint; read only.
        begin: (update that it began after, updates in all).
        lines: What the observer saw of each update, the clock's figures included; of a run that was stopped, those after.
        logged: The file's log without the clock.
        samples, validations, warnings: What else the observer saw.
        weights: Of the policy, in one vector of float32.
    """

    folder: Path
    begin: tuple[int, int]
    lines: list[dict]
    logged: list[dict]
    samples: list
    validations: list
    warnings: list
    weights: torch.Tensor


def trace(family, algorithm, *, stop_after=None, seed=1, reward="the", file=False, rollout=None, **settings):
    """Return the trace of a run of `tiny.run`, trained if it was not yet.

    Args:
        stop_after: An update after which the run is stopped, to be resumed by another in its place.
        reward: A name in `REWARDS`.
        file: Whether the algorithm learns from `scored.FILE`.
        rollout: What the task draws with that is not as in `tiny.task`.
    """
    spec = {"family": family, "algorithm": algorithm, "stop_after": stop_after, "seed": seed, "reward": reward,
            "file": file, "rollout": rollout or {}, **settings}  # fmt: skip
    return _trace(json.dumps(spec, sort_keys=True))


@cache
def _trace(spec):
    folder = _home() / hashlib.sha256(spec.encode()).hexdigest()[:16]
    with FileLock(f"{folder}.lock"):
        if not (folder / "trace.pt").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            torch.save(_train(folder, **json.loads(spec)), folder / ".trace.pt")
            (folder / ".trace.pt").rename(folder / "trace.pt")
    return torch.load(folder / "trace.pt", weights_only=False)


def _train(folder, family, algorithm, stop_after, seed, reward, file, rollout, **settings):
    if file:
        settings["data"] = scored.write_file(folder / "data.jsonl")

    def make():
        task = tiny.task(family, **rollout)
        run = tiny.run(family, algorithm, folder / "run", seed=seed, reward=REWARDS[reward], task_=task, **settings)
        adapt(run.trainer.policy, run.plan.config)
        return run

    if stop_after is not None:
        first = make()
        first.stop = lambda: len(first.observer.lines) >= stop_after
        with suppress(Interrupted), global_generators(98):
            tiny.train(first)
            raise AssertionError(f"a run of {algorithm} was to stop after update {stop_after}, and did not")
    run = make()
    with global_generators(99 if stop_after is None else 97):
        tiny.train(run)
    seen = run.observer
    return Trace(
        folder=folder / "run",
        begin=seen.begin,
        lines=seen.lines,
        logged=tiny.logged(folder / "run"),
        samples=seen.samples,
        validations=seen.validations,
        warnings=seen.warnings,
        weights=tiny.weights(run.trainer.policy),
    )


@contextmanager
def global_generators(seed):
    """Seed them, and see that nobody draws from them or seeds them again: a run has generators of its own.

    A run that is resumed meets other seeds than one that is not, and must end with the same weights.
    """

    def states():
        _, keys, position, *_ = numpy.random.get_state()
        return torch.get_rng_state().tolist(), random.getstate(), keys.tolist(), position

    import_module("rich.style")  # draws when it is imported, which scikit-learn does, if it is installed
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)
    before = states()
    try:
        yield
    finally:
        assert states() == before, "training has drawn from a global generator, or seeded one"


@cache
def _home():
    """A folder for just this code; those of other code are removed."""
    files = sorted([*(ROOT / "grue").rglob("*.py"), *(TESTS / "support").glob("*.py")])
    digest = hashlib.sha256(f"{torch.__version__} {transformers.__version__}".encode())
    for file in files:
        digest.update(file.relative_to(ROOT).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    root = Path(os.environ.get(HOME) or tempfile.mkdtemp(prefix="golden-"))
    home = root / digest.hexdigest()[:16]
    home.mkdir(parents=True, exist_ok=True)
    for other in root.iterdir():
        if other != home:
            shutil.rmtree(other, ignore_errors=True)
    return home
