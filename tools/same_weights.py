"""Show that a change of the code changed no weight: `python tools/same_weights.py BEFORE [ALGORITHM…] [--set K=V]`.

Every algorithm makes two updates on a causal and on an encoder-decoder model, by the command line, in the checkout
BEFORE and in this one. The weights that each run keeps, best and last, are compared bit for bit, and its log line by
line without the seconds. The command prints a table, and exits with 1 if anything differs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

HERE = Path(__file__).resolve().parent.parent
ALGORITHMS = ("supervised", "ppo", "nlpo", "a2c", "trpo", "reinforce", "rloo", "grpo")
TASKS = {"imdb": "mini:causal", "commongen": "mini:seq2seq"}
"""A task of each family of models, and its backbone."""
SMALL = {"validation_examples": "8", "validate_every": "1"}
EPOCHS = SMALL | {"epochs": "2", "train_share": "0.02"}
UPDATES = SMALL | {"updates": "2", "rollouts": "16", "minibatch_size": "8"}


def main() -> None:
    """Train on both sides, compare, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before", type=Path, help="a checkout of the code before the change")
    parser.add_argument("algorithms", nargs="*", default=ALGORITHMS, help="[default: all eight]")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE", help="for all runs")
    options = parser.parse_args()
    sides = (options.before.resolve(), HERE)
    for checkout in sides:
        check_import(checkout)
    differences = []
    print("| algorithm | model | tensors | differ | lines of the log | differ |", "|---|---|---|---|---|---|", sep="\n")
    with tempfile.TemporaryDirectory() as temporary:
        for algorithm in options.algorithms:
            for task, model in TASKS.items():
                runs = [
                    train(checkout, Path(temporary) / side, algorithm, task, options.settings)
                    for checkout, side in zip(sides, ("before", "after"), strict=True)
                ]
                tensors, lines = [weights(run) for run in runs], [log(run) for run in runs]
                moved, told = list(differing(*tensors)), list(differing(*lines))
                counts = (len(tensors[0]), len(moved), len(lines[0]), len(told))
                print(f"| {algorithm} | {model} | {' | '.join(map(str, counts))} |", flush=True)
                differences += [f"{algorithm} on {task}: {found}" for found in (*moved[:1], *told[:1])]
    print("", *(differences or ["Nothing differs."]), sep="\n")
    sys.exit(1 if differences else 0)


def train(checkout: Path, folder: Path, algorithm: str, task: str, settings: Sequence[str]) -> Path:
    """Make a small run with the code of a checkout, and return its folder."""
    values = EPOCHS if algorithm == "supervised" else UPDATES
    values = {
        key: value for key, value in values.items() if (algorithm, key) != ("a2c", "minibatch_size")
    }  # all rollouts
    pairs = (*(f"{key}={value}" for key, value in values.items()), *settings)
    command = f"-m grue train --task {task} --algo {algorithm} --system small --threads 1 --tracker none --runs".split()
    python(checkout, [*command, str(folder / algorithm), *(part for pair in pairs for part in ("--set", pair))])
    return folder / algorithm / "mini" / task / "small" / "seed-1"


def python(checkout: Path, arguments: Sequence[str]) -> str:
    """Run Python with the code of a checkout, and return what it prints."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GRUE_")}
    environment |= {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tempfile.gettempdir(), env=environment, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{checkout}: {' '.join(arguments)} fails:\n{done.stderr}")
    return done.stdout


def check_import(checkout: Path) -> None:
    """Refuse a checkout whose package Python does not import: an installed one would be compared with itself."""
    found = Path(python(checkout, ["-c", "import grue; print(grue.__file__)"]).strip())
    if not found.is_relative_to(checkout):
        sys.exit(f"{checkout}: Python imports {found} instead; name a folder that holds the package grue.")


def weights(run: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of the weights that a run keeps, the best and the last, or the last alone."""
    folders = [folder for folder in ("checkpoint", "final") if (run / folder).exists()]
    return {f"{f}/{name}": value for f in folders for name, value in load_file(run / f / "model.safetensors").items()}


def log(run: Path) -> dict[str, Any]:
    """Return number → line of a run's log, without the seconds."""
    text = (run / "train.jsonl").read_text(encoding="utf-8")
    return {f"line {n}": without_seconds(json.loads(line)) for n, line in enumerate(text.splitlines(), 1)}


def without_seconds(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line of the log with no time in it."""
    return {
        key: without_seconds(value) if isinstance(value, dict) else value
        for key, value in line.items()
        if key != "seconds"
    }


def differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Yield what differs between two sides, by name."""
    for name in {**before, **after}:
        if name not in before or name not in after:
            yield f"{name} is only {'before' if name in before else 'after'}"
        elif isinstance(before[name], dict):
            if found := list(differing(before[name], after[name])):
                yield f"{name}: {'; '.join(found)}"
        elif isinstance(before[name], torch.Tensor):
            if not same_bits(before[name], after[name]):
                yield f"{name}: other values"
        elif before[name] != after[name]:
            yield f"{name}: {before[name]} before, {after[name]} after"


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors are the same, bit for bit."""
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.view(torch.uint8), b.view(torch.uint8))


if __name__ == "__main__":
    main()
