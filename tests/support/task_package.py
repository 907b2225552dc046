"""A package that ships a suite: a task file with its data, a reward, a metric and a data format of its own."""

import json
import tomllib
from pathlib import Path

from support.late import late

tiny = late("support.tiny")
TASK = """
suite = "acme"
title = "Two words"
reward = "acme_brief"
metrics = [
    { name = "rouge1", axis = "preference", range = [0, 1] },
    { name = "acme_short", axis = "naturalness", range = [0, 1] },
]
[data]
format = "acme_pairs"
sources = [{ kind = "local", files = { train = "rows.jsonl", validation = "rows.jsonl", test = "rows.jsonl" } }]
[prompt]
max_tokens = 10
[rollout]
max_new_tokens = 6
[backbone]
family = "causal"
"""
CODE = """
from grue.metrics.metric import Average
from grue.records import Example


def brief(examples, texts):
    return [1 / (1 + len(text.split())) for text in texts]


def make_short():
    return Average("acme_short|v1", brief)


def pairs(rows):
    for number, row in enumerate(rows):
        yield Example(f"pair-{number}", row["question"], (row["answer"],))
"""
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "acme-words"
version = "1"
[project.entry-points]
"grue.tasks" = { acme = "acme_words.suite" }
"grue.rewards" = { acme_brief = "acme_words.code:brief" }
"grue.metrics" = { acme_short = "acme_words.code:make_short" }
"grue.data.formats" = { acme_pairs = "acme_words.code:pairs" }
[tool.hatch.build.targets.wheel]
include = ["/acme_words"]
"""
ENTRY_POINTS = "".join(
    f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
    for group, entries in tomllib.loads(PROJECT)["project"]["entry-points"].items()
)


def write_package(folder: Path) -> Path:
    """Write the package's folder `acme_words` and the model that its task starts from; return the model's folder."""
    suite = folder / "acme_words" / "suite"
    suite.mkdir(parents=True)
    (folder / "acme_words" / "__init__.py").write_text("")
    (folder / "acme_words" / "code.py").write_text(CODE)
    model = folder / "model"
    tiny.model("causal").save_pretrained(model)
    tiny.tokenizer("causal").save_pretrained(model)
    rows = [{"question": f"the {word} sees", "answer": f"the {word} sees a ball"} for word in tiny.WORDS[:8]]
    (suite / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (suite / "words.toml").write_text(f"{TASK}model = {json.dumps(str(model))}\n")
    return model


def install(folder: Path, entry_points: str = ENTRY_POINTS, name: str = "acme_words") -> Path:
    """Say that a package is installed, as pip would, in a folder that is on the path; return where that stands."""
    about = folder / f"{name}-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (about / "entry_points.txt").write_text(entry_points)
    return about
