"""Arguments of the Python API that cannot be: refused before anything is written."""

import pytest

import grue
from grue.errors import ConfigError, UnknownName


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ConfigError, lambda out: grue.evaluate("null", "commongen", limit=-3, runs=out)),
        (ConfigError, lambda out: grue.evaluate("null", "commongen", batch_size=0, runs=out)),
        (ConfigError, lambda out: grue.evaluate("zero-shot", "commongen", best_of=2.5, runs=out)),
        (ConfigError, lambda out: grue.generate("zero-shot", out / "x.jsonl", "commongen", limit=0)),
        (ConfigError, lambda out: grue.generate("zero-shot", out / "x.jsonl", "commongen", samples=2.0)),
        (ConfigError, lambda out: grue.train("commongen", trackers="wandb", runs=out)),
        (UnknownName, lambda out: grue.train("commongen", trackers=["tb"], runs=out)),
        (ConfigError, lambda out: grue.train("commongen", reward=5, runs=out)),
        (ConfigError, lambda out: grue.export([], "model-index", out / "x.json")),
        (ConfigError, lambda out: grue.compare("a", "b", draws=0)),
    ],
)
def test_arguments_that_cannot_be_are_refused_before_anything_is_written(tmp_path, error, call, refused):
    with refused(error):
        call(tmp_path)
    assert not list(tmp_path.iterdir())
