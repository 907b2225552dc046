"""Print what trial runs of the methods reached on validation: `python experiments/methods.py`.

It reads the runs of experiments/methods.toml below `--runs`, and prints for each task and method a line a trial: the
axes, the reward of plain samples and their KL from the start, each at the start, at the kept checkpoint and at the
last. Bold is the best trial: by the mean of the two axes at the kept checkpoint, and of trials that did not beat their
start, at the last.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from grue import files
from grue.task_files import task_names

COLUMNS = ("task", "trial", "kept", "preference", "naturalness", "sampled reward", "KL")


@dataclass(frozen=True, slots=True)
class Trial:
    """A finished trial: its name, and its validations, the first of the start."""

    name: str
    validations: Sequence[Mapping[str, Any]]

    @property
    def method(self) -> str:
        """What was tried: the name up to the first value."""
        words = self.name.split("_")
        return "_".join(words[: next(i for i, word in enumerate(words) if word[:1].isdigit())])

    @property
    def kept(self) -> Mapping[str, Any]:
        """The validation of the kept checkpoint: the first of those with the highest preference."""
        return max(self.validations, key=lambda line: line["validation/preference"])

    @property
    def worth(self) -> tuple[float, float]:
        """What trials are compared by: the mean of the axes of the kept checkpoint, then of the last."""
        return axes(self.kept), axes(self.validations[-1])


def main() -> None:
    """Print the table of the finished trials."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, nargs="+", default=[Path("runs/methods")])
    options = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS), sep="\n")
    for task in task_names("mini"):
        trials = sorted((one for runs in options.runs for one in finished(runs / "mini" / task)), key=lambda t: t.name)
        for _, group in groupby(trials, key=lambda trial: trial.method):
            several = list(group)
            best = max(several, key=lambda trial: trial.worth)
            for trial in several:
                print(f"| {task} | {' | '.join(cells(trial, trial is best))} |")


def finished(folder: Path) -> Iterator[Trial]:
    """Yield the finished trials of a task."""
    for log in folder.glob("*_*/seed-*/train.jsonl"):
        lines = [line for _, line in files.read_jsonl(log)]
        if lines[-1].get("finished"):
            yield Trial(log.parent.parent.name, [line for line in lines if "validation/kl" in line])


def axes(line: Mapping[str, Any]) -> float:
    """Return the mean of the two axes of a validation."""
    return float(line["validation/preference"] + line["validation/naturalness"]) / 2


def cells(trial: Trial, best: bool) -> list[str]:
    """Return a trial's cells: of its start, its kept checkpoint and its last."""
    points = (trial.validations[0], trial.kept, trial.validations[-1])
    figures = [
        " · ".join(f"{point[f'validation/{name}']:.{digits}f}" for point in points)
        for name, digits in (("preference", 1), ("naturalness", 1), ("sampled_reward", 3), ("kl", 2))
    ]
    name = trial.name.replace("_", " ", 1) if trial.method.count("_") == 0 else trial.name
    return [f"**{name}**" if best else name, str(trial.kept["update"]), *figures]


if __name__ == "__main__":
    main()
