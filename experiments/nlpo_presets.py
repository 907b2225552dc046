"""Train NLPO's presets and PPO, print the tables and draw the plots of docs/background/nlpo.md.

Every preset, and PPO beside it, on mini CommonGen (encoder-decoder, after supervised training) and mini IMDB (causal,
from the backbone), five seeds each. Runs that are finished are kept, so that the command goes on where it stopped.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from grue.plots.curves import panels_of, read_logs
from grue.plots.drawing import draw_curves

SYSTEMS = {"ppo": [], "nlpo-paper": ["paper"], "nlpo-rl4lms": ["rl4lms"], "nlpo-stable": ["stable"]}
STARTS = {"commongen": "supervised+", "imdb": ""}
FIGURES = (
    "objective/reward",
    "mask/mass",
    "mask/size",
    "mask/disagreement",
    "objective/kl",
    "objective/kl_vocabulary",
)


def train(task: str, system: str, seed: int, runs: Path) -> None:
    preset = SYSTEMS[system]
    algorithm = STARTS[task] + ("nlpo" if preset else "ppo")
    command = [sys.executable, "-m", "grue", "train", "--task", task, "--algo", algorithm, "--system", system]
    command += ["--seed", str(seed), "--runs", str(runs), "--threads", "1", "--tracker", "none"]
    command += [part for name in preset for part in ("--preset", name)]
    subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)


def lines_of(task: str, system: str, seed: int, runs: Path) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """Return what was logged of the updates, and of the validations."""
    path = runs / "mini" / task / system / f"seed-{seed}" / "train.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    updates = [line for line in lines if "seconds" in line]
    return updates, [line for line in lines if "validation/reward" in line]


def spread(values: Sequence[float], form: str) -> str:
    """Return mean ± standard deviation over the seeds."""
    return f"{statistics.mean(values):{form}} ± {statistics.stdev(values):{form}}"


def print_table(task: str, seeds: Sequence[int], runs: Path) -> None:
    heads = [
        "best preference",
        "last preference",
        "reward",
        "mass (lowest)",
        "size",
        "disagreement",
        "KL",
        "KL, vocabulary",
    ]
    print(f"\n**{task}**\n\n| system | {' | '.join(heads)} |\n|{'---|' * (len(heads) + 1)}")
    for system in SYSTEMS:
        logs = [lines_of(task, system, seed, runs) for seed in seeds]
        last = [updates[-1] for updates, _ in logs]
        masked = "mask/disagreement" in last[0]
        cells = [
            spread([max(one["validation/preference"] for one in checks) for _, checks in logs], ".1f"),
            spread([checks[-1]["validation/preference"] for _, checks in logs], ".1f"),
            spread([one["objective/reward"] for one in last], ".3f"),
            spread([min(one["mask/mass"] for one in updates) for updates, _ in logs], ".3f") if masked else "–",
            spread([one["mask/size"] for one in last], ".4f") if masked else "–",
            spread([one["mask/disagreement"] for one in last], ".4f") if masked else "–",
            spread([one["objective/kl"] for one in last], ".3f"),
            spread([one["objective/kl_vocabulary"] for one in last], ".3f"),
        ]
        print(f"| {system} | {' | '.join(cells)} |")


def draw(task: str, seeds: Sequence[int], runs: Path, path: Path) -> None:
    """Draw each figure over the updates: the mean over the seeds, and from the lowest to the highest seed."""
    logs, _ = read_logs(runs / "mini" / task, list(SYSTEMS))
    panels, _ = panels_of([log for log in logs if log.seed in seeds], FIGURES)
    draw_curves(panels, list(SYSTEMS), task, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/nlpo-presets"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tasks", nargs="*", default=list(STARTS), choices=list(STARTS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--images", type=Path, default=Path("docs/images"))
    options = parser.parse_args()
    seeds = list(range(1, options.seeds + 1))
    for task in options.tasks:
        with ThreadPoolExecutor(options.jobs) as pool:
            # PPO first: it makes the supervised run that the others of its seed start from.
            list(pool.map(lambda seed, task=task: train(task, "ppo", seed, options.runs), seeds))
            rest = [(system, seed) for system in SYSTEMS if system != "ppo" for seed in seeds]
            list(pool.map(lambda one, task=task: train(task, *one, options.runs), rest))
        print_table(task, seeds, options.runs)
        draw(task, seeds, options.runs, options.images / f"nlpo-{task}.png")


if __name__ == "__main__":
    main()
