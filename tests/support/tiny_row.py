"""A row of the board that was trained in seconds: three seeds of supervised+ppo on a few examples of IMDB."""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.good_submission import seal

import grue
from grue import files
from grue.data import load
from grue.evaluation import evaluate
from grue.mini.assets import read_rows
from grue.runs import train
from grue.submissions.checks import rescoring
from grue.submissions.folder import Submission
from grue.submissions.packing.collect import find_runs, read_run
from grue.submissions.packing.pack import pack
from grue.submissions.trust import models as trusted
from grue.submissions.trust import verify
from miniworld import imdb, ship

SEEDS = (1, 2, 3)
FEW = 8
SETTINGS: dict[str, Any] = {
    "learning_rate": 1e-3,
    "updates": 2,
    "rollouts": 8,
    "minibatch_size": 8,
    "epochs": 1,
    "validation_examples": 4,
    "validate_every": 2,
    "keep": "best",  # so that the last policy lies beside it
    "value_model": "shared",
}
SAID = Submission("ours", ("A. Author",), "CC0", "supervised+ppo", "mini:causal", SEEDS, "none", "seconds")


@contextmanager
def few_examples() -> Iterator[None]:
    """Let every split have its first examples only."""

    def few(*arguments: Any, **named: Any) -> load.Loaded:
        loaded = load.load_examples(*arguments, **named)
        return replace(loaded, examples=loaded.examples[:FEW])

    with pytest.MonkeyPatch.context() as patch:
        for module in (evaluate, train, trusted, verify, rescoring):
            patch.setattr(module, "load_examples", few)
        patch.setattr(verify, "EXAMPLES", FEW)  # of a fresh draw, which is drawn once
        patch.setattr(ship, "held_back", cache(ship.held_back))
        patch.setattr(imdb, "rows", shipped_rows)  # beside which it is drawn
        yield


def shipped_rows(revision: str) -> dict[str, tuple[imdb.Row, ...]]:
    """Return the rows of IMDB as they ship, which are those that miniworld draws (tests/miniworld/test_rows.py)."""
    return {split: tuple(read_rows("imdb", split, revision)) for split in imdb.SPLITS}


def make_row(home: Path) -> Path:
    """Train, evaluate and pack; the runs stay in `home/runs`."""
    for seed in SEEDS:
        made = grue.train("imdb", "supervised+ppo", seed=seed, runs=home / "runs", system="ours", **SETTINGS)
        grue.evaluate(made)
    runs = [read_run(folder) for folder in find_runs([home / "runs/mini/imdb/ours"])]
    return pack(runs, SAID, home / "submissions")


def configure(row: Path, change: Callable[[dict[str, Any]], object], stage: int = -1) -> None:
    """Change a stage of the configuration as an author could: the results agree with it, and the manifest."""
    path = row / "imdb/config.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data["stages"][stage])
    path.write_text(json.dumps(data), encoding="utf-8")
    last = data["stages"][-1]
    for result in row.glob("imdb/seed-*.result.json"):
        said = json.loads(result.read_text(encoding="utf-8"))
        system = said["system"]
        record = {**last, "seed": said["seed"], "data_dir": "", "init_sha256": system["start"]}
        text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        system["config_sha256"] = hashlib.sha256(text.encode()).hexdigest()
        system |= {key: last[key] for key in ("algorithm", "backbone", "reward")}
        result.write_text(json.dumps(said), encoding="utf-8")
    stated = files.read_toml(row / "submission.toml")
    files.write_toml(row / "submission.toml", stated | {key: last[key] for key in ("algorithm", "backbone")})
    seal(row)
