"""Print what longer supervised training brings on validation: `python experiments/supervised.py`.

It reads the runs of experiments/supervised.toml, and prints for each task what each doubling adds.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from grue import files
from grue.task_files import task_names

AXES = ("preference", "naturalness")


def main() -> None:
    """Print the table of the finished runs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/search"))
    options = parser.parse_args()
    print("| task | learning rate | epochs | minutes | preference | naturalness | added |", "|" + "---|" * 7, sep="\n")
    for task in task_names("mini"):
        before: dict[float, float] = {}
        for rate, epochs, minutes, preference, naturalness in sorted(finished(options.runs / "mini" / task)):
            added = f"{preference - before[rate]:+.1f}" if rate in before else ""
            before[rate] = preference
            row = (task, f"{rate:g}", epochs, f"{minutes:.1f}", f"{preference:.1f}", f"{naturalness:.1f}", added)
            print(f"| {' | '.join(map(str, row))} |")


def finished(folder: Path) -> Iterator[tuple[float, int, float, float, float]]:
    """Yield learning rate, epochs, minutes of training and the two axes after the last epoch of each finished run."""
    for log in sorted(folder.glob("*/seed-1/train.jsonl")):
        lines = [line for _, line in files.read_jsonl(log)]
        if not lines[-1].get("finished"):
            continue
        config = files.read_toml(log.with_name("config.toml"))["config"]
        last = [line for line in lines if "validation/preference" in line][-1]
        minutes = lines[-1]["training"]["seconds"] / 60
        axes = (last[f"validation/{axis}"] for axis in AXES)
        yield config["learning_rate"], config["epochs"], minutes, *axes


if __name__ == "__main__":
    main()
