"""Gemma 3 270M of its package on a task of its own: prompts of real words, a reward that differs from text to text."""

import copy
import dataclasses
import resource
from functools import cache
from pathlib import Path

import pytest
from support import exactness, tiny

from grue.errors import Unavailable
from grue.evaluation.rewards import give_name, make_reward
from grue.lm.load import load_language_model
from grue.records import Example

SETS = (
    "field look stand", "kid room dance", "cat couch pet", "building climb side", "climb talk wall", "car drive snow",
    "phone talk wear", "field run team", "hang paint wall", "ball catch dog throw", "cut saw wood", "boat river row",
    "blow cake candle", "beach horse ride", "crowd guitar sing stage", "eat girl ice cream",
)  # fmt: skip


@cache
def loaded():
    """The model and its tokenizer, or a skipped test where the packages are not installed."""
    try:
        return load_language_model("causal", "small:gemma-3-270m")
    except Unavailable as missing:
        pytest.skip(str(missing))


def examples(count):
    return [
        Example(id=f"e{i}", prompt=f"Concepts: {words}\nSentence:", references=(f"A {words}.",), meta={})
        for i, words in enumerate(SETS[:count])
    ]


def run(algorithm, folder, *, prompts=4, tokens=6, top_k=0, **settings):
    """A run of `tiny.run` on a copy of Gemma."""
    model, tokenizer = loaded()
    task = tiny.task("causal", max_new_tokens=tokens, top_k=top_k)
    task = dataclasses.replace(task, prompt=dataclasses.replace(task.prompt, max_tokens=32))
    made = tiny.run("causal", algorithm, folder, task_=task, **settings)
    made.trainer.policy, made.trainer.tokenizer = copy.deepcopy(model), tokenizer
    made.trainer.examples = examples(prompts)
    made.trainer.reward = make_reward(give_name(exactness.letters), task, made.trainer.examples)
    return made


def forget_peak():
    """Let the peak of this process's memory begin anew, where the system can."""
    path = Path("/proc/self/clear_refs")
    if path.exists():
        path.write_text("5")


def peak():
    """The peak of this process's memory in GB."""
    path = Path("/proc/self/status")
    if path.exists():
        (line,) = (line for line in path.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
