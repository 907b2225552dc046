"""A submission without fault, small enough to be checked in a moment, and the means to spoil it."""

import gzip
import hashlib
import json
import tomllib
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from support.factories import a_result

from grue import files
from grue.errors import DataError
from grue.evaluation.scoring import prepared_once, score_predictions
from grue.records import Example, Prediction
from grue.submissions.checks import check as checks
from grue.submissions.checks import rescoring, structure
from grue.submissions.checks.check import check
from grue.submissions.trust.record import Standing
from grue.task_files import load_task
from grue.tasks import Task

TASK = load_task("commongen")
PEOPLE = ("man", "woman", "girl", "boy", "dog", "cat", "child", "horse")
ASKED = "generate a sentence with: {} run."
EXAMPLES = [
    Example(f"id-{who}", ASKED.format(who), (f"A {who} runs.", f"The {who} runs fast."), {"concepts": [who, "run"]})
    for who in PEOPLE
]
IDS = [example.id for example in EXAMPLES]
TRAINING = [Example("id-goat", ASKED.format("goat"), ("A goat runs up the hill.",))]
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
    **{"name": "ours", "authors": ["A. Author"], "licence": "CC-BY-4.0", "algorithm": "ppo"},
    **{"backbone": "mini:seq2seq", "seeds": list(SEEDS), "training_data": "none", "budget": "1 GPU hour"},
}
FAILED = {"status": "failed", "scores": [], "preference": None, "naturalness": None}
"""What the result of a failed run says."""


@cache
def known_task(name, suite="mini"):
    """Return a task that is read once, and whose hashes are computed once."""
    task = load_task(name, suite)
    known = type("KnownTask", (Task,), {"__slots__": (), "hash": task.hash, "chat_hash": task.chat_hash})
    return known(**{field.name: getattr(task, field.name) for field in fields(task)})


def texts_of(seed, how="The {} runs in the {}."):
    return {example.id: how.format(who, PLACES[seed]) for example, who in zip(EXAMPLES, PEOPLE, strict=True)}


def use_few_examples(monkeypatch):
    """Let the suite have one task with eight examples; a task is read once, and the same texts are scored once."""
    monkeypatch.setattr(rescoring, "load_examples", few_examples)
    monkeypatch.setattr(rescoring, "score_predictions", score_once)
    monkeypatch.setattr(structure, "load_task", known_task)
    monkeypatch.setattr(structure, "standing_of", lambda *given: Standing(None, "", False))  # else all have a warning
    have_tasks(monkeypatch, "commongen")


def have_tasks(monkeypatch, *names):
    for module in (checks, structure):
        monkeypatch.setattr(module, "task_names", lambda suite: list(names) if suite == "mini" else [])


def few_examples(task, split, offline=False):
    """Stand for `load_examples`: eight examples of the test split, and one of the training split."""
    return SimpleNamespace(examples=EXAMPLES if split == "test" else TRAINING)


def no_examples(task, split, offline=False):
    """Stand for `load_examples` on a machine that lacks the data."""
    raise DataError("no network")


def score_once(task, split, examples, predictions, prepare=None):
    """Stand for `score_predictions`."""
    return _scored(task.name, tuple(predictions))


@cache
def _scored(task, predictions):
    return score_predictions(known_task(task), "test", EXAMPLES, predictions, prepare=_prepare(task))


@cache
def _prepare(task):
    return prepared_once(known_task(task).folder)


@cache
def _result(seed, name, texts, truncated):
    """Return the content of the result that follows from the texts."""
    scored = _scored("commongen", tuple(Prediction(key, text, truncated) for key, text in texts))
    axes = {"preference": scored.preference, "naturalness": scored.naturalness}
    result = replace(a_result(TASK, name, seed, None, None), scores=scored.scores, **axes)
    return files.indented_json(replace(result, hashes=scored.hashes, counts=scored.counts))


def packed(texts, truncated=False):
    lines = [{"id": key, "text": text} | ({"truncated": True} if truncated else {}) for key, text in texts.items()]
    return gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode(), mtime=0)


def hand_in(system, seed, texts, truncated=False):
    """Write predictions of a seed, and the result that follows from them."""
    result = _result(seed, system.name, tuple(texts.items()), truncated)
    (system / "commongen").mkdir(parents=True, exist_ok=True)
    (system / f"commongen/seed-{seed}.result.json").write_text(result, encoding="utf-8")
    (system / f"commongen/seed-{seed}.predictions.jsonl.gz").write_bytes(packed(texts, truncated))


def write_good(system, how="The {} runs in the {}.", **said):
    files.write_toml(system / "submission.toml", TOML | {"name": system.name} | said)
    for seed in SEEDS:
        hand_in(system, seed, texts_of(seed, how))
    return seal(system)


def seal(system):
    """Write the manifest of what is there now; return the system's folder."""
    names = sorted(path.relative_to(system).as_posix() for path in system.rglob("*") if path.is_file())
    lines = [f"{hashlib.sha256((system / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    lines = [line for line in lines if not line.endswith("  MANIFEST.sha256\n")]
    (system / "MANIFEST.sha256").write_text("".join(lines), encoding="utf-8")
    return system


def remove_seeds(system, *seeds):
    for seed in seeds:
        for path in system.glob(f"commongen/seed-{seed}.*"):
            path.unlink()


def edit(system, change, seed=1):
    """Change a result."""
    path = system / f"commongen/seed-{seed}.result.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")


def result_says(system, /, *seeds, within=None, **changes):
    """Change what the results of some seeds say, or else of all, or what one of their tables says."""
    for seed in seeds or SEEDS:
        edit(system, lambda data: (data[within] if within else data).update(changes), seed)


def system_says(system, /, *seeds, **changes):
    result_says(system, *seeds, within="system", **changes)


def say(system, /, **said):
    """Change submission.toml."""
    files.write_toml(system / "submission.toml", TOML | {"name": system.name} | said)


def codes(problems, *severities):
    """Return the numbers of the checks that failed, of all or some severities."""
    return {int(problem.id[-3:]) for problem in problems if not severities or problem.severity in severities}


def told(system):
    """Check, and return (id, path below the system, message) of every problem."""
    return [(p.id, Path(p.path).relative_to(system).as_posix(), p.message) for p in check(system)]


STAGE = {
    **{"suite": "mini", "task": "commongen", "task_hash": TASK.hash, "algorithm": "supervised", "reward": "meteor"},
    **{"backbone": "mini:seq2seq", "backbone_weights": "0" * 64, "data_sha256": ""},
    "config": {"epochs": 1, "train_share": None},
}


def configure(system, agreeing=True, **changes):
    """Write a configuration, changed; let the results and submission.toml agree with it."""
    stage = {**STAGE, **changes}
    (system / "commongen/config.json").write_text(json.dumps({"schema": 1, "stages": [stage]}), encoding="utf-8")
    if agreeing:
        said = tomllib.loads((system / "submission.toml").read_text(encoding="utf-8"))
        known = {key: stage[key] for key in ("algorithm", "backbone")}
        files.write_toml(system / "submission.toml", said | known)
        known["reward"] = "" if stage["algorithm"] == "supervised" else stage["reward"]
        for seed in SEEDS:
            record = {**stage, "seed": seed, "data_dir": "", "init_sha256": ""}
            text = json.dumps(record, sort_keys=True, separators=(",", ":"))
            system_says(system, seed, config_sha256=hashlib.sha256(text.encode()).hexdigest(), **known)
