"""Tiny pairs, tiny backbones in folders, and a reward model of them: what the tests of learned preferences share."""

import random
from dataclasses import replace

from support import tiny, tiny_bert

from grue import files
from grue.preferences.settings import reward_settings
from grue.preferences.train import train_reward_model

TASK = tiny.task("causal")
EXAMPLES = [replace(one, id=f"x{place}") for place, one in enumerate(tiny.examples(12))]
SETTINGS = {"epochs": 2, "batch_size": 4, "learning_rate": 1e-2, "save_every": 1, "max_tokens": 32}
PARTS = ["train"] * 8 + ["validation"] * 2 + ["test"] * 2


def backbone(folder, family="causal"):
    """A language model, or an encoder, in a folder; returns its path."""
    if family == "bert":
        return tiny_bert.encoder(folder)[0]
    tiny.model(family, seed=3).save_pretrained(folder)
    tiny.tokenizer(family).save_pretrained(folder)
    return str(folder)


def pairs(path, ties=True, parts=True, count=3, seed=0):
    """A file of pairs: what has more of `the` is better; one in five is a tie. Returns its path."""
    chance = random.Random(seed)
    lines = []
    for place, example in enumerate(EXAMPLES):
        for _ in range(count):
            few, more = (" ".join([*chance.choices(tiny.WORDS[1:], k=3), *["the"] * n]) for n in (0, 2))
            tie = {"tie": True} if ties and chance.random() < 0.2 else {}
            part = {"part": PARTS[place]} if parts else {}
            lines.append({"id": example.id, "chosen": more, "rejected": few, **tie, **part})
    files.write_jsonl(path, lines)
    return path


def train(tmp_path, name="rm", task=TASK, split="train", stop=lambda: False, progress=lambda *said: None, **settings):
    """Train a reward model below a folder; return its own folder and what it says of itself."""
    place, path = tmp_path / "backbone", tmp_path / "pairs.jsonl"
    asked = (path if path.exists() else pairs(path), task, EXAMPLES, tmp_path / name)
    made = train_reward_model(
        *asked,
        reward_settings({**SETTINGS, **settings}),
        backbone=str(place) if place.exists() else backbone(place),
        split=split,
        stop=stop,
        progress=progress,
    )
    return tmp_path / name, made
