"""What systems wrote, side by side, as a Markdown table: `python experiments/texts.py SYSTEM,… --task TASK`.

The same prompts for every system, drawn with a seed, so that no one chooses the nicest. The prompt is printed only with
`--data-dir` or where the task's data is here; some data sets may not be passed on.
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

from grue.data.load import load_examples
from grue.evaluation.predictions import read_predictions
from grue.task_files import load_task
from grue.tasks import Task

ROOT = Path(__file__).parent.parent


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("systems", help="comma-separated, as in the folder of submissions")
    parser.add_argument("--suite", default="small")
    parser.add_argument("--task", default="commongen")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--submissions", type=Path, default=ROOT / "submissions")
    parser.add_argument("--run", type=int, default=1, help="the runs' seed")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of the draw of prompts")
    asked = parser.parse_args()
    task = load_task(asked.task, asked.suite)
    print(*table(task, asked), sep="\n")


def table(task: Task, asked: argparse.Namespace) -> Iterator[str]:
    """Yield the lines: a prompt, then each system's first text."""
    examples = load_examples(task, task.data.evaluation, asked.data_dir).examples
    chosen = random.Random(asked.seed).sample(range(len(examples)), asked.count)
    texts = {}
    for system in asked.systems.split(","):
        path = asked.submissions / task.suite / system / task.name / f"seed-{asked.run}.predictions.jsonl.gz"
        texts[system] = {prediction.id: prediction.text for prediction in read_predictions(path)}
    yield "| | |"
    yield "|---|---|"
    for index in sorted(chosen):
        example = examples[index]
        yield f"| **{cell(example.prompt)}** | |"
        yield from (f"| {system} | {cell(of[example.id])} |" for system, of in texts.items())


def cell(text: str) -> str:
    """Return a text on one line, with nothing that ends a cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    main()
