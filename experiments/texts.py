"""What systems wrote, side by side, as a Markdown table: `python experiments/texts.py SYSTEM,… --task TASK`.

The same prompts for every system, drawn with a seed, so that no one chooses the nicest. The prompt is printed only with
`--data-dir` or where the task's data is here; some data sets may not be passed on. With `--counts`: how long the texts
of all seeds are, and how many say three words twice.
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, stdev

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
    parser.add_argument("--references", action="store_true", help="print the first reference, too")
    parser.add_argument("--counts", action="store_true", help="instead: lengths and repetitions of all texts")
    asked = parser.parse_args()
    task = load_task(asked.task, asked.suite)
    print(*(counts if asked.counts else table)(task, asked), sep="\n")


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
        if asked.references:
            yield f"| reference | {cell(example.references[0])} |"
        yield from (f"| {system} | {cell(of[example.id])} |" for system, of in texts.items())


def counts(task: Task, asked: argparse.Namespace) -> Iterator[str]:
    """Yield the lines: for each system, mean and standard deviation over its seeds."""
    yield f"| {task.name} | words | say three words twice, % | words by seed |"
    yield "|---|---|---|---|"
    for system in asked.systems.split(","):
        folder = asked.submissions / task.suite / system / task.name
        words, twice = [], []
        for path in sorted(folder.glob("seed-*.predictions.jsonl.gz")):
            texts = [prediction.text.lower().split() for prediction in read_predictions(path)]
            words.append(mean(map(len, texts)))
            twice.append(100 * mean(map(repeats, texts)))
        by_seed = " ".join(f"{value:.1f}" for value in words)
        yield f"| {system} | {spread(words)} | {spread(twice)} | {by_seed} |"


def repeats(words: list[str]) -> bool:
    """Return whether some three words in a row, without the full stops of sentences, occur twice."""
    bare = [word.rstrip(".") for word in words]
    triples = list(zip(bare, bare[1:], bare[2:], strict=False))
    return len(set(triples)) < len(triples)


def spread(values: list[float]) -> str:
    """Return mean ± standard deviation; a mean alone if there is one value."""
    return f"{mean(values):.1f} ± {stdev(values):.1f}" if len(values) > 1 else f"{mean(values):.1f}"


def cell(text: str) -> str:
    """Return a text on one line, with nothing that ends a cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    main()
