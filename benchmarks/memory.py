"""Measure what training takes: peak memory and seconds of an update, of each algorithm on a task's own model and data.

Each row is one run of `grue train` in a process and a folder of its own, validation and saving included. Seconds are
the median over the updates after the first, whose policy is its reference. Linux only: memory is what /proc tells.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

WEIGHTS = {"full": [], "adapters": ["lora_rank=8"]}


class Watch:
    """An observer of a run: the clocks and the peak of resident memory since the event before, at each event."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.last = (time.process_time(), 0.0, time.monotonic())

    def note(self, event: str) -> None:
        """Note an event, and begin to look for the next peak."""
        now = (time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_stime, time.monotonic())
        spent = dict(zip(("cpu", "system", "wall"), (b - a for a, b in zip(self.last, now, strict=True)), strict=True))
        told = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        memory = {name: int(told[key].split()[0]) / 1e6 for name, key in (("peak", "VmHWM"), ("rest", "VmRSS"))}
        self.events.append({"event": event} | spent | memory)
        Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts anew
        self.last = now

    def started(self, *_: Any) -> None:
        """Everything is loaded, and copied."""
        self.note("started")

    def updated(self, *_: Any) -> None:
        """An update is done."""
        self.note("updated")

    def validated(self, *_: Any) -> None:
        """A validation is done; the checkpoint is not yet saved."""
        self.note("validated")

    def finished(self, *_: Any) -> None:
        """The last checkpoint is saved."""
        self.note("finished")

    def ignore(self, *_: Any) -> None:
        """Nothing to measure."""

    planned = sampled = warned = ignore


def measure(options: argparse.Namespace, algorithm: str, settings: list[str]) -> None:
    """Carry out a run in this process, and print its events as JSON."""
    watch = Watch()

    import torch

    import grue

    torch.set_num_threads(options.threads)
    values: dict[str, Any] = {"updates": options.updates, "validate_every": options.updates}
    if algorithm == "supervised":  # an update is 25 steps of an epoch
        values = {"epochs": 1, "train_share": options.train_share, "validate_every": 1}
    values |= {"validation_examples": 48} | tomllib.loads("\n".join(map(quoted, settings)))
    with tempfile.TemporaryDirectory() as folder:
        grue.train(
            options.task, algorithm, suite=options.suite, backbone=options.backbone, data_dir=options.data_dir,
            runs=folder, offline=True, observer=watch, **values,
        )  # fmt: skip
    print(json.dumps(watch.events))


def quoted(setting: str) -> str:
    """Return KEY=VALUE as TOML has it: a word in quotation marks."""
    key, value = setting.split("=", 1)
    return f"{key} = {json.dumps(value)}" if value.isalnum() and not value.isdigit() else setting


def line(name: str, events: list[dict[str, Any]]) -> str:
    """Return a row of the table."""
    updates = [event for event in events if event["event"] == "updated"]
    cpu, system, wall = (
        statistics.median(one[key] for one in updates[1:] or updates) for key in ("cpu", "system", "wall")
    )
    others = max(event["peak"] for event in events if event["event"] != "updated")
    peak = max(one["peak"] for one in updates)
    return f"| {name} | {cpu:.1f} | {system:.1f} | {wall:.1f} | {peak:.1f} | {others:.1f} | {updates[-1]['rest']:.1f} |"


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", default="commongen", help="name of a task, or a task file")
    parser.add_argument("--suite", default="small")
    parser.add_argument("--backbone", help="in place of the task's")
    parser.add_argument("--data-dir")
    parser.add_argument(
        "--algos", nargs="+", default=["supervised", "ppo", "nlpo", "grpo", "rloo", "dpo", "reinforce_plus_plus"]
    )
    parser.add_argument("--precisions", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--weights", nargs="+", choices=WEIGHTS, default=list(WEIGHTS))
    parser.add_argument("--updates", type=int, default=2)
    parser.add_argument("--train-share", type=float, default=0.01, help="of the pairs that supervised training sees")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--row", nargs="+", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure each row in a process, and print the table."""
    options = parse()
    if options.row:
        measure(options, options.row[0], options.row[1:])
        return
    print("| | CPU s | of it system | wall s | peak GB, updates | peak GB, else | GB at rest |")
    print("|---" * 7 + "|")
    environment = os.environ | {"OMP_NUM_THREADS": str(options.threads), "TOKENIZERS_PARALLELISM": "false"}
    for algorithm, precision, weights in product(options.algos, options.precisions, options.weights):
        row = [algorithm, f"precision={precision}", *WEIGHTS[weights], *options.settings]
        command = [sys.executable, "-W", "ignore", __file__, *sys.argv[1:], "--row", *row]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        print(line(f"{algorithm}, {precision}, {weights}", json.loads(done.stdout.splitlines()[-1])), flush=True)


if __name__ == "__main__":
    main()
