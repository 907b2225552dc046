"""Time the board of two hundred systems: `python benchmarks/board.py` writes their results and prints a table.

It writes the results of `--systems` systems on the seven mini tasks, with five seeds each, into a temporary folder, and
measures reading them, ranking them by each kind of interval, and every renderer. Each size has its own process, for its
peak memory; a quarter of the systems shows how time and memory grow. The run fails if torch is imported.
"""

import argparse
import json
import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from grue.files import indented_json, sha256_text
from grue.leaderboard.entries import find_results
from grue.leaderboard.rank import rank
from grue.metrics.card import CARDS
from grue.metrics.registry import DIVERSITY
from grue.records import Result, Score
from grue.task_files import load_task, task_names
from grue.tasks import MetricSpec, Task

T = TypeVar("T")
SUITE = "mini"
SEEDS = range(1, 6)
RENDERERS = ("markdown", "as_json", "as_csv", "latex", "html")


# --- results ---------------------------------------------------------------------------------------------------------


def write_results(runs: Path, systems: int) -> None:
    """Write `systems` systems that differ in strength, the seeds of each by some points."""
    for task in map(load_task, task_names(SUITE)):
        template = _result(task)
        for system in range(systems):
            generator = random.Random(f"{task.name} {system}")
            strength = 0.1 + 0.8 * system / systems
            for seed in SEEDS:
                share = min(1.0, max(0.0, generator.gauss(strength, 0.02)))
                folder = runs / SUITE / task.name / f"system-{system:04}" / f"seed-{seed}"
                folder.mkdir(parents=True)
                (folder / "result.json").write_text(indented_json(_varied(template, system, seed, share)))


def _result(task: Task) -> Result:
    names = ("examples", "prompts", "predictions", "config")
    diversity = [MetricSpec(name, "diversity") for name in DIVERSITY]
    split = task.data.splits[task.data.evaluation]
    return Result(
        schema=1,
        status="complete",
        grue={"version": "0.1.0", "commit": sha256_text("commit")[:40], "dirty": False},
        suite=task.suite,
        task=task.name,
        task_version=task.version,
        task_hash=task.hash,
        split=task.data.evaluation,
        seed=1,
        system={"name": "", "algorithm": "ppo", "backbone": task.backbone.model, "parameters": 1_500_000},
        data={"source": "mini", "revision": "1", "examples": split.examples, "ids_sha256": split.ids_sha256},
        generation={"max_new_tokens": 24, "do_sample": True, "temperature": 1.0, "top_k": 50, "top_p": 1.0},
        determinism={"batch_size": 64, "dtype": "float32", "device": "cpu", "threads": 1},
        scores=tuple(_score(spec) for spec in (*task.metrics, *diversity)),
        preference=0.0,
        naturalness=0.0,
        hashes={name: sha256_text(name) for name in names},
        counts={"expected": 400, "scored": 400, "empty": 0, "truncated": 12},
        timing={"generation": 12.5, "scoring": 3.25},
        packages=dict.fromkeys(("grue", "numpy", "torch", "transformers", "sacrebleu", "rouge-score"), "1.2.3"),
        limited=False,
    )


def _score(spec: MetricSpec) -> Score:
    signature = f"{spec.name}|case:lower|tok:treebank|sentences:rules|punct:yes"
    return Score(spec.name, spec.axis, 0.0, None, 400, spec.direction, signature)


def _varied(result: Result, system: int, seed: int, share: float) -> Result:
    """Return the result with all its scores at a share of their best."""
    scaled = 100 * share
    return replace(
        result,
        seed=seed,
        system={**result.system, "name": f"system-{system:04}"},
        scores=tuple(
            replace(s, value=max(share, CARDS[s.metric].range[0]), scaled=None if s.axis == "diversity" else scaled)
            for s in result.scores
        ),
        preference=scaled,
        naturalness=scaled,
    )


# --- measurements ----------------------------------------------------------------------------------------------------


def measured(runs: Path) -> Iterator[tuple[str, float]]:
    """Yield what was done and the seconds of processor that it took, the peak of memory in MiB at last."""
    tasks = [load_task(name, SUITE) for name in task_names(SUITE)]
    seconds, (entries, _) = _timed(lambda: find_results(runs, SUITE))
    yield f"read {len(entries)} results, s", seconds
    seconds, board = _timed(lambda: rank(entries, tasks))
    yield "rank, s", seconds
    for name in RENDERERS:
        render = import_module(f"grue.render.{name}").render
        seconds, text = _timed(lambda render=render: render(board))
        yield f"{name.removeprefix('as_')}, s", seconds
        yield f"{name.removeprefix('as_')}, MB", len(text.encode()) / 1e6
    yield "peak memory, MiB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if "torch" in sys.modules:
        raise SystemExit("torch was loaded to show a board")


def _timed(action: Callable[[], T]) -> tuple[float, T]:
    started = time.process_time()
    done = action()
    return time.process_time() - started, done


def in_a_process(systems: int) -> dict[str, float]:
    """Return the measurements of a board of so many systems."""
    with tempfile.TemporaryDirectory() as folder:
        write_results(Path(folder), systems)
        command = [sys.executable, __file__, "--measure", folder]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", type=int, default=200)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(dict(measured(chosen.measure))))
        return
    sizes = (math.ceil(chosen.systems / 4), chosen.systems)
    quarter, whole = (list(in_a_process(size).items()) for size in sizes)
    print(f"| {'':32} | {sizes[0]:>8} systems | {sizes[1]:>8} systems |")
    print(f"| {'-' * 32} | {'-' * 15}: | {'-' * 15}: |")
    for (_, few), (what, many) in zip(quarter, whole, strict=True):
        print(f"| {what:32} | {few:16.2f} | {many:16.2f} |")


if __name__ == "__main__":
    main()
