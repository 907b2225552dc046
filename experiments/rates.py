"""Print what trial runs of reinforcement learning reached on validation: `python experiments/rates.py`.

It reads the runs of experiments/rates.toml, or any others below `--runs`, and prints a line for each finished one.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from grue import files
from grue.task_files import task_names

COLUMNS = ("task", "algorithm", "schedule", "rate", "rollouts", "examples", "preference", "naturalness", "min")


def main() -> None:
    """Print the table of the finished runs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/rates"))
    options = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS), sep="\n")
    for task in task_names("mini"):
        for row in sorted(finished(options.runs / "mini" / task)):
            print(f"| {task} | {' | '.join(row)} |")


def finished(folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each finished run of reinforcement learning, from the algorithm on."""
    for log in sorted(folder.glob("*/seed-*/train.jsonl")):
        lines = [line for _, line in files.read_jsonl(log)]
        plan = files.read_toml(log.with_name("config.toml"))
        config = plan["config"]
        if not lines[-1].get("finished") or "rollouts" not in config:
            continue
        axes = [
            " → ".join(f"{line[name]:.1f}" for line in lines if name in line)
            for name in ("validation/preference", "validation/naturalness")
        ]
        budget = f"{config['updates']} × {config['rollouts']}"
        minutes = sum(line.get("seconds", 0.0) for line in lines) / 60
        settings = (plan["algorithm"], config["schedule"], f"{config['learning_rate']:g}", budget)
        yield (*settings, str(config["validation_examples"]), *axes, f"{minutes:.1f}")


if __name__ == "__main__":
    main()
