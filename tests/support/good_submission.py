"""A submission without fault, small enough to be checked in a moment, and the means to spoil it."""

import gzip
import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.factories import a_result

from grue import files
from grue.errors import DataError
from grue.evaluation.scoring import score_predictions
from grue.records import Example, Prediction
from grue.submissions.checks import check as checks
from grue.submissions.checks import rescoring, structure
from grue.submissions.checks.check import check
from grue.task_files import load_task

TASK = load_task("commongen")
PEOPLE = ("man", "woman", "girl", "boy", "dog", "cat", "child", "horse")
EXAMPLES = [
    Example(f"id-{who}", f"generate a sentence with: {who} run.", (f"A {who} runs.", f"The {who} runs fast."))
    for who in PEOPLE
]
EXAMPLES = [replace(example, meta={"concepts": [who, "run"]}) for example, who in zip(EXAMPLES, PEOPLE, strict=True)]
TRAINING = [Example("id-goat", "generate a sentence with: goat run.", ("A goat runs up the hill.",))]
RESULT = "commongen/seed-1.result.json"
PREDICTIONS = "commongen/seed-1.predictions.jsonl.gz"
PLACES = {
    1: "street past two parked cars",
    2: "park before anybody is awake",
    3: "house, up and down its stairs",
    4: "garden, chased by angry wasps",
    5: "kitchen and knocks over a jug",
}
SEEDS = tuple(PLACES)
OTHER_WAY = "Whoever looks out of a window sees that some {0} is running, slowly but on and on: into the {1}."
"""How another system writes."""
TOML = {
    "name": "ours",
    "authors": ["A. Author"],
    "licence": "CC-BY-4.0",
    "algorithm": "ppo",
    "backbone": "mini:seq2seq",
    "seeds": list(SEEDS),
    "training_data": "none",
    "budget": "1 GPU hour",
}

Texts = Mapping[str, str]


def texts_of(seed: int, how: str = "The {} runs in the {}.") -> dict[str, str]:
    return {example.id: how.format(who, PLACES[seed]) for example, who in zip(EXAMPLES, PEOPLE, strict=True)}


def use_few_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the suite have one task with eight examples."""
    monkeypatch.setattr(rescoring, "load_examples", few_examples)
    for module in (checks, structure):
        monkeypatch.setattr(module, "task_names", lambda suite: ["commongen"] if suite == "mini" else [])


def few_examples(task: Any, split: str, offline: bool = False) -> Any:
    """Stand for `load_examples`: eight examples of the test split, and one of the training split."""
    return SimpleNamespace(examples=EXAMPLES if split == "test" else TRAINING)


def no_examples(task: Any, split: str, offline: bool = False) -> Any:
    """Stand for `load_examples` on a machine that lacks the data."""
    raise DataError("no network")


@cache
def _result(seed: int, name: str, texts: tuple[tuple[str, str], ...], truncated: bool) -> str:
    """Return the content of the result that follows from the texts."""
    made = [Prediction(key, text, truncated) for key, text in texts]
    scored = score_predictions(TASK, "test", EXAMPLES, made)
    axes = {"preference": scored.preference, "naturalness": scored.naturalness}
    result = replace(a_result(TASK, name, seed, None, None), scores=scored.scores, **axes)
    return files.indented_json(replace(result, hashes=scored.hashes, counts=scored.counts))


def packed(texts: Texts, truncated: bool = False) -> bytes:
    lines = [{"id": key, "text": text} | ({"truncated": True} if truncated else {}) for key, text in texts.items()]
    return gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode(), mtime=0)


def hand_in(system: Path, seed: int, texts: Texts, truncated: bool = False) -> None:
    """Write predictions of a seed, and the result that follows from them."""
    result = _result(seed, system.name, tuple(texts.items()), truncated)
    (system / "commongen").mkdir(parents=True, exist_ok=True)
    (system / f"commongen/seed-{seed}.result.json").write_text(result, encoding="utf-8")
    (system / f"commongen/seed-{seed}.predictions.jsonl.gz").write_bytes(packed(texts, truncated))


def write_good(system: Path, how: str = "The {} runs in the {}.", **said: Any) -> Path:
    files.write_toml(system / "submission.toml", TOML | {"name": system.name} | said)
    for seed in SEEDS:
        hand_in(system, seed, texts_of(seed, how))
    seal(system)
    return system


def seal(system: Path) -> None:
    """Write the manifest of what is there now."""
    names = sorted(path.relative_to(system).as_posix() for path in system.rglob("*") if path.is_file())
    lines = [f"{hashlib.sha256((system / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    lines = [line for line in lines if not line.endswith("  MANIFEST.sha256\n")]
    (system / "MANIFEST.sha256").write_text("".join(lines), encoding="utf-8")


def edit(system: Path, change: Callable[[dict[str, Any]], object], seed: int = 1) -> None:
    """Change a result."""
    path = system / f"commongen/seed-{seed}.result.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")


def say(system: Path, **said: Any) -> None:
    """Change submission.toml."""
    files.write_toml(system / "submission.toml", TOML | {"name": system.name} | said)


def told(system: Path) -> list[tuple[str, str, str]]:
    """Check, and return (id, path below the system, message) of every problem."""
    return [(p.id, Path(p.path).relative_to(system).as_posix(), p.message) for p in check(system)]


STAGE = {
    "suite": "mini",
    "task": "commongen",
    "task_hash": TASK.hash,
    "algorithm": "supervised",
    "reward": "meteor",
    "backbone": "mini:seq2seq",
    "backbone_weights": "0" * 64,
    "data_sha256": "",
    "config": {"epochs": 1, "train_share": None},
}


def configure(system: Path, agreeing: bool = True, **changes: Any) -> None:
    """Write a configuration, changed; let the results and submission.toml agree with it."""
    stage = {**STAGE, **changes}
    (system / "commongen/config.json").write_text(json.dumps({"schema": 1, "stages": [stage]}), encoding="utf-8")
    if agreeing:
        said = tomllib.loads((system / "submission.toml").read_text(encoding="utf-8"))
        files.write_toml(system / "submission.toml", said | {key: stage[key] for key in ("algorithm", "backbone")})
    for seed in SEEDS if agreeing else ():
        record = {**stage, "seed": seed, "data_dir": "", "init_sha256": ""}
        text = json.dumps(record, sort_keys=True, separators=(",", ":"))
        known = {key: stage[key] for key in ("algorithm", "backbone")}
        known["config_sha256"] = hashlib.sha256(text.encode()).hexdigest()
        edit(system, lambda data, known=known: data["system"].update(known), seed)  # type: ignore[misc]


OF_A_RUN = (
    *("status", "suite", "task", "task_version", "task_hash", "split", "seed", "limited"),
    *("system", "data", "generation", "determinism"),
)
"""What a result says of a run, beside what follows from its predictions and how they were scored."""


def basis_by_hand(system: Path, task: str, seed: int) -> tuple[str, str, str]:
    """Return the sha256 of predictions, statement and configuration of a run, as a record of trust names them."""

    def canonical(value: Any) -> bytes:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    folder = system / task
    result = json.loads((folder / f"seed-{seed}.result.json").read_text(encoding="utf-8"))
    submission = tomllib.loads((system / "submission.toml").read_text(encoding="utf-8"))
    said = [
        {key: result[key] for key in OF_A_RUN},
        {key: submission[key] for key in ("algorithm", "backbone", "training_data")},
    ]
    lines = gzip.decompress((folder / f"seed-{seed}.predictions.jsonl.gz").read_bytes()).decode().splitlines()
    predictions = [{"truncated": False, **json.loads(line)} for line in lines]
    config = folder / "config.json"
    return (
        hashlib.sha256(canonical(sorted(predictions, key=lambda one: str(one["id"])))).hexdigest(),
        hashlib.sha256(canonical(said)).hexdigest(),
        hashlib.sha256(config.read_bytes()).hexdigest() if config.is_file() else "",
    )


def reproduced(system: Path, **other: str) -> None:
    """Write the record of a maintainer who drew every seed again; `other` is what was seen in place of what is there."""
    parts = ("predictions", "statement", "configuration")
    scores = {"preference": 50.0, "naturalness": None}
    seen = [
        {
            **{"rung": "reproduced", "task": "commongen", "seed": seed, "verdict": "equal texts"},
            **{"by": "A. Maintainer", "date": "2026-01-31", "grue": {}, "machine": "", "packages": {}},
            **{"equal_texts": 1.0, "then": scores, "now": scores},
            "of": {**dict(zip(parts, basis_by_hand(system, "commongen", seed), strict=True)), **other},
        }
        for seed in SEEDS
    ]
    text = json.dumps({"schema": 3, "seen": seen})
    system.with_name(f"{system.name}.trust.json").write_text(text, encoding="utf-8")
