"""Arguments of the Python API that cannot be: refused before anything is written."""

import numpy as np
import pytest

import grue
from grue.errors import ConfigError, GrueError
from grue.records import check_seed


@pytest.mark.parametrize("seed", [1.5, True, "1", -1, None])
def test_what_cannot_be_a_seed_is_refused_before_anything_is_written(tmp_path, seed):
    for call in (
        lambda: grue.train("commongen", "ppo", seed=seed, runs=tmp_path),
        lambda: grue.evaluate("null", "commongen", seed=seed, runs=tmp_path),
    ):
        with pytest.raises(ConfigError, match="choose a whole number from 0 to"):
            call()
    assert not list(tmp_path.iterdir())


def test_integers_of_numpy_are_seeds():
    assert type(check_seed(np.int64(3))) is int and check_seed(np.int64(3)) == 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda out: grue.evaluate("null", "commongen", limit=-3, runs=out), "limit -3: give a whole number, 1 at"),
        (lambda out: grue.evaluate("null", "commongen", batch_size=0, runs=out), "batch_size 0: give a whole"),
        (lambda out: grue.evaluate("zero-shot", "commongen", best_of=2.5, runs=out), "best_of 2.5: give a whole"),
        (lambda out: grue.generate("zero-shot", out / "x.jsonl", "commongen", limit=0), "limit 0: give a whole"),
        (lambda out: grue.generate("zero-shot", out / "x.jsonl", "commongen", samples=2.0), "samples 2.0: give a"),
        (lambda out: grue.train("commongen", trackers="wandb", runs=out), r"trackers='wandb': give a list of names"),
        (lambda out: grue.train("commongen", trackers=["tb"], runs=out), "There is no tracker 'tb'; there are tensorb"),
        (lambda out: grue.train("commongen", reward=5, runs=out), "reward=5: give a name, a weighted sum or a func"),
        (lambda out: grue.export([], "model-index", out / "x.json"), "No results are given: name a result.json"),
        (lambda out: grue.compare("a", "b", draws=0), "draws 0: give a whole number, 1 at least"),
    ],
)
def test_arguments_that_cannot_be_are_refused_before_anything_is_written(tmp_path, call, message):
    with pytest.raises(GrueError, match=message):
        call(tmp_path)
    assert not list(tmp_path.iterdir())
