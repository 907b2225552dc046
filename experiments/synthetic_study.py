"""Answers to a study by programs: a gold metric and noise, to try the whole road before people are asked.

    python experiments/synthetic_study.py STUDY --metric meteor --noise 1.0

writes STUDY/answers/NAME.json for each annotator of `grue study make -o STUDY`. The files say that they are synthetic,
and so does everything that `grue study analyse` makes of them: they are no opinions of people.

Each annotator sees the metric's rank of a text among all texts of the study, as a standard normal quantile, with a bias
of their own and noise; on a scale that is cut at equal shares, and of two texts the better one is chosen, or neither if
they are nearly equal.
"""

import argparse
from pathlib import Path
from statistics import NormalDist

import numpy as np

from grue import files
from grue.errors import ConfigError, did_you_mean
from grue.study.answers import FOLDER, SCHEMA, Answer, AnswerFile
from grue.study.key import Key, read_key

BIAS = 0.3  # standard deviation between annotators, in that of the texts
NEARLY_EQUAL = 0.25


def answer(key: Key, metric: str, noise: float, seed: int, share: float = 1.0) -> list[AnswerFile]:
    """Return what each annotator saves.

    Args:
        metric: One whose values the key has.
        noise: Standard deviation of an answer, in that of the texts.
        share: How much of it they answer.
    """
    if metric not in key.metrics:
        known = ", ".join(key.metrics)
        raise ConfigError(f"The study has no values of {metric!r}.{did_you_mean(metric, key.metrics)} Known: {known}.")
    generator = np.random.default_rng(seed)
    liked = quantiles(np.array([item.scores[metric] for item in key.items]))
    if key.metrics[metric] == "lower":
        liked = -liked
    return [
        AnswerFile(SCHEMA, key.study, annotator.name, tuple(answers), synthetic=True)
        for annotator in key.annotators
        for answers in [list(_answers(key, annotator.screens, liked, noise, share, generator))]
    ]


def quantiles(values: np.ndarray) -> np.ndarray:
    """Return the standard normal quantiles of the values' middle ranks."""
    flat = values.ravel()
    ranks = (flat[:, None] > flat).sum(axis=1) + ((flat[:, None] == flat).sum(axis=1) - 1) / 2
    normal = NormalDist()
    return np.array([normal.inv_cdf((rank + 0.5) / len(flat)) for rank in ranks]).reshape(values.shape)


def _answers(key, screens, liked, noise, share, generator):
    bias = BIAS * generator.standard_normal()
    for screen in screens[: round(share * len(screens))]:
        values = {}
        for question in key.template.questions:
            seen = [liked[screen.item, system] + noise * generator.standard_normal() for system in screen.systems]
            if key.template.kind == "pairs":
                gap = seen[0] - seen[1]
                values[question.name] = "tie" if abs(gap) < NEARLY_EQUAL else "a" if gap > 0 else "b"
            else:
                place = NormalDist(0, (1 + noise**2) ** 0.5).cdf(seen[0] + bias)
                values[question.name] = min(int(place * len(question.anchors)), len(question.anchors) - 1) + 1
        yield Answer(screen.id, values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    parser.add_argument("--metric", required=True)
    parser.add_argument("--noise", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="how much of it they answer")
    arguments = parser.parse_args()
    key = read_key(arguments.study)
    for found in answer(key, arguments.metric, arguments.noise, arguments.seed, arguments.share):
        path = arguments.study / FOLDER / f"{found.annotator}.json"
        files.write_json(path, found)
        print(path)


if __name__ == "__main__":
    main()
