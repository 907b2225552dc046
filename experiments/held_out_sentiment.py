"""What another judge says of IMDB's texts on small: did a reward teach praise, or find a hole in its judge?

    pip install scikit-learn
    python experiments/held_out_sentiment.py FOLDER_OF_IMDB supervised,supervised+ppo [--submissions FOLDER]

The judge is logistic regression on words and pairs of words, fitted to the training split's reviews as the task reads
them: a first half and the next 48 words. It has rewarded no policy. Printed for each system: the mean probability
of a positive review, 0–1, by the task's own judge and by this one, which also reads the answers without their prompts.
"""

from pathlib import Path

import click
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline

from grue import files
from grue.data.load import load_examples
from grue.data.sets.imdb import read_folder, words_of
from grue.evaluation.predictions import read_predictions
from grue.stats.intervals import mean
from grue.task_files import load_task

ROOT = Path(__file__).parent.parent
WORDS = 48


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True))
@click.argument("systems")
@click.option("--submissions", type=click.Path(path_type=Path), default=ROOT / "submissions/small", show_default=True)
def main(folder: Path, systems: str, submissions: Path) -> None:
    """Print a table of SYSTEMS, comma-separated names in the folder of submissions."""
    judge = fitted(folder)
    prompts = {one.id: one.prompt for one in load_examples(load_task("imdb", "small"), "test", folder).examples}
    click.echo("| | the task's judge, by seed | held-out judge | it, of the answers alone |\n|---|---|---|---|")
    for system in systems.split(","):
        paths = sorted((submissions / system / "imdb").glob("seed-*.predictions.jsonl.gz"))
        if not paths:
            raise click.ClickException(f"{submissions / system}: holds no predictions for imdb.")
        columns: list[list[float]] = [[], [], []]
        for path in paths:
            result = files.read_json(path.with_name(path.name.replace("predictions.jsonl.gz", "result.json")))
            own = next(score["value"] for score in result["scores"] if score["metric"] == "sentiment")
            drawn = [(prompts[each.id], draw.text) for each in read_predictions(path) for draw in each.draws]
            read = judge.predict_proba([f"{prompt} {text}" for prompt, text in drawn])[:, 1]
            alone = judge.predict_proba([text for _, text in drawn])[:, 1]
            for column, value in zip(columns, (own, read.mean(), alone.mean()), strict=True):
                column.append(float(value))
        click.echo(f"| {system} | {' | '.join(', '.join(f'{value:.3f}' for value in column) for column in columns)} |")


def fitted(folder: Path) -> Pipeline:
    """Return the judge; its accuracy on the test split's reviews, read as the training split's, is printed."""
    judge = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), min_df=5, sublinear_tf=True), LogisticRegression(C=10, max_iter=1000)
    )
    (texts, labels), (unseen, truth) = as_read(folder, "train"), as_read(folder, "test")
    judge.fit(texts, labels)
    right = mean([float(said == label) for said, label in zip(judge.predict(unseen), truth, strict=True)])
    click.echo(f"Held-out judge: accuracy {right:.3f} on {len(unseen):,} reviews of the test split.\n")
    return judge


def as_read(folder: Path, split: str) -> tuple[list[str], list[int]]:
    """Return a split's reviews, each its first half and the next 48 words, and their labels."""
    rows = [(words_of(row["text"]), row["label"]) for row in read_folder(folder, split)]
    return [" ".join(words[: len(words) // 2 + WORDS]) for words, _ in rows], [label for _, label in rows]


if __name__ == "__main__":
    main()
