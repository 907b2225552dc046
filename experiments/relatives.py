"""Which preference metrics move together: rank correlations over examples, on the predictions that ship.

    python experiments/relatives.py [--task wmt16]

For every two preference metrics of a task, and for the task's reward: Spearman's ρ over the test examples within one
system, averaged over the systems (the first seed of each). Within a system, because between systems everything good
goes together. Left out are systems whose values hardly differ: the one that answers everything alike (null) and the
references themselves (oracle). A correlation of 0.6 makes two metrics relatives: more than a third of the variance of
the ranks of one is then in the other, so that a reward of one pays for the other too. Metrics that are linked so,
directly or through others, are a family; the task files list them (`families`).
"""

import argparse
import math
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from grue.data.load import load_examples
from grue.evaluation.predictions import read_predictions
from grue.evaluation.rewards import parse_reward
from grue.evaluation.scoring import chosen_metrics, prepared_once, score_examples
from grue.task_files import load_task, task_names
from grue.tasks import Task

THRESHOLD = 0.6
LEFT_OUT = ("null", "oracle")
REWARD = "(reward)"
Matrix = NDArray[np.float64]


def correlations(task: Task, submissions: Path) -> tuple[list[str], list[str], Matrix]:
    """Return the systems, the reward and the preference metrics, and [metrics, metrics] mean correlations."""
    examples = load_examples(task, task.data.evaluation, None, offline=True).examples
    preference = [spec.name for spec in task.metrics if spec.axis == "preference"]
    terms = parse_reward(task.reward)
    specs = chosen_metrics(task, [*preference, *(name for _, name in terms)])
    prepare = prepared_once()
    systems, found = [], []
    for folder in sorted((submissions / task.suite).iterdir()):
        paths = sorted((folder / task.name).glob("seed-*.predictions.jsonl.gz"))
        if not paths or folder.name in LEFT_OUT:
            continue
        scored = score_examples(specs, examples, read_predictions(paths[0]), prepare=prepare)
        signs = {score.metric: 1.0 if score.direction == "higher" else -1.0 for score in scored.scores}
        values = {name: signs[name] * np.array(scored.per_example[name]) for name in signs}
        reward = np.sum([weight * values[name] for weight, name in terms], axis=0)
        columns = [reward, *(values[name] for name in preference)]
        if all(np.ptp(column) > 0 for column in columns):
            found.append([[float(spearmanr(a, b).statistic) for a in columns] for b in columns])
            systems.append(folder.name)
    return systems, [REWARD, *preference], np.mean(found, axis=0)


def families(names: Sequence[str], rho: Matrix) -> list[list[str]]:
    """Return the metrics that are linked by correlations of at least `THRESHOLD`; not those that stand alone.

    Args:
        names: The metrics.
        rho: [metrics, metrics].
    """
    family = {name: {name} for name in names}
    for (i, one), (j, other) in combinations(enumerate(names), 2):
        if rho[i, j] >= THRESHOLD and family[one] is not family[other]:
            joined = family[one] | family[other]
            family |= dict.fromkeys(joined, joined)
    distinct = {id(members): members for members in family.values()}.values()
    return [[name for name in names if name in members] for members in distinct if len(members) > 1]


def main() -> None:
    """Print, for each task, the correlations of every two metrics and the families that follow."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--suite", default="mini")
    parser.add_argument("--task", help="[default: every task]")
    parser.add_argument("--submissions", type=Path, default=Path("submissions"))
    chosen = parser.parse_args()
    for name in [chosen.task] if chosen.task else task_names(chosen.suite):
        task = load_task(name, chosen.suite)
        systems, metrics, rho = correlations(task, chosen.submissions)
        width = max(map(len, metrics))
        print(f"{task.name}: reward {task.reward}; systems {', '.join(systems)}")
        print(" " * width, *(f"{metric[:8]:>8}" for metric in metrics))
        for metric, row in zip(metrics, rho, strict=True):
            print(f"{metric:<{width}}", *(f"{value:8.2f}" if math.isfinite(value) else f"{'–':>8}" for value in row))
        print(f"families = {families(metrics[1:], rho[1:, 1:])}\n".replace("'", '"'), flush=True)  # without the reward


if __name__ == "__main__":
    main()
