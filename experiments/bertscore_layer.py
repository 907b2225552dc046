"""Which layer of MiniLM BERTScore reads in the suite small, and what unrelated texts get: the lower end of its range.

    python experiments/bertscore_layer.py FOLDER [--task commongen]

FOLDER holds the task's data in the original layout. Each text is compared with one reference: another reference of the
same example (what people wrote), that with its words in random order, and a reference of another example. A layer is
good if it tells them apart: shown are the mean F1 of each, and how often people's text gets the higher value (AUC).
"""

import random
from pathlib import Path

import click
import numpy as np
from numpy.typing import ArrayLike

from grue.data.load import load_examples
from grue.metrics.bertscore import bertscore
from grue.records import Example
from grue.task_files import load_task

LAYERS, COUNT = range(1, 7), 500


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.option("--task", default="commongen", show_default=True, help="Task with several references an example.")
@click.option("--split", default="test", show_default=True, help="Its split.")
@click.option("--model", default="small:minilm", show_default=True, help="The encoder.")
def main(folder: Path, task: str, split: str, model: str) -> None:
    """Print a line a layer."""
    found = [one for one in load_examples(load_task(task, "small"), split, folder).examples if len(one.references) > 1]
    dice = random.Random(1)
    chosen = dice.sample(found, min(COUNT, len(found)))
    asked = [Example(one.id, one.prompt, one.references[:1], one.meta) for one in chosen]
    people = [one.references[1] for one in chosen]
    texts = {
        "people": people,
        "words in random order": [" ".join(dice.sample(text.split(), len(text.split()))) for text in people],
        "of another example": people[1:] + people[:1],
    }
    click.echo(f"{len(chosen)} examples of {task}; mean F1, and how often people's text is above (AUC)")
    for layer in LAYERS:
        metric = bertscore(model, layer)
        metric.prepare(asked)
        values = {name: metric.per_example(metric.statistics(asked, of)) for name, of in texts.items()}
        shown = [f"{name} {value.mean():.4f} ({above(values['people'], value):.3f})" for name, value in values.items()]
        click.echo(f"layer {layer}: " + ", ".join(shown))


def above(a: ArrayLike, b: ArrayLike) -> float:
    """Return how often a value of `a` is above one of `b`; ties count half."""
    differences = np.subtract.outer(np.asarray(a), np.asarray(b))
    return float((differences > 0).mean() + (differences == 0).mean() / 2)


if __name__ == "__main__":
    main()
