"""Held-out figures of `small:sentiment`, on reviews of IMDB's test split.

    python experiments/sentiment.py FOLDER_OF_IMDB

Read are whole reviews, passages of 48 words, and first halves of reviews with the next 48 words, which is what the task
imdb scores. Accuracy; ECE, the expected calibration error over ten bins of confidence (0–1); and the share of texts of
which the classifier is surer than 99 %.
"""

import random
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from grue.data.sets.imdb import read_folder, words_of
from grue.metrics.classify import sentiment
from grue.records import Example

WORDS = 48


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.option("--model", default="small:sentiment", show_default=True, help="The classifier.")
@click.option("--count", type=int, default=1000, show_default=True, help="How many reviews are read.")
def main(folder: Path, model: str, count: int) -> None:
    """Print a line for each kind of text."""
    dice = random.Random(1)
    reviews = [(words_of(row["text"]), row["label"]) for row in dice.sample([*read_folder(folder, "test")], count)]
    labels = np.array([label for _, label in reviews])
    kinds: dict[str, list[Sequence[str]]] = {
        "whole reviews": [words for words, _ in reviews],
        f"{WORDS} words": [passage(words, dice) for words, _ in reviews],
        f"first half and {WORDS} words": [words[: len(words) // 2 + WORDS] for words, _ in reviews],
    }
    metric = sentiment(model, 1)
    for name, texts in kinds.items():
        asked = [Example(str(number), "", ()) for number in range(count)]
        positive = metric.per_example(metric.statistics(asked, [" ".join(words) for words in texts]))
        right, sure = (positive > 0.5) == labels, np.maximum(positive, 1 - positive)
        error = 1.96 * right.std() / np.sqrt(count)
        means = " and ".join(f"{positive[labels == label].mean():.2f}" for label in (0, 1))
        click.echo(
            f"{name}: accuracy {right.mean():.3f} ± {error:.3f}, ECE {calibration(right, sure):.3f}, surer than 99 %: "
            f"{(sure > 0.99).mean():.2f}; mean of negative and positive {means}"
        )


def passage(words: Sequence[str], dice: random.Random) -> Sequence[str]:
    """Return a passage of a review."""
    start = dice.randint(0, max(0, len(words) - WORDS))
    return words[start : start + WORDS]


def calibration(right: "np.ndarray", sure: "np.ndarray") -> float:
    """Return the mean distance of accuracy and confidence, over bins of confidence."""
    bins = np.minimum((sure * 10).astype(int), 9)
    return float(sum(abs((right - sure)[bins == one].sum()) for one in range(10)) / len(sure))


if __name__ == "__main__":
    main()
