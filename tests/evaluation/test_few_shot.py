"""Few-shot: the backbone as it is, shown examples of the training split before each prompt."""

import json

import pytest
from support.commands import grue

from grue import files

TRAIN = [{"id": f"t{n}", "prompt": f"say {n}", "references": [f"{n} is\n said ", "other"]} for n in range(4)]
ASKED = [{"id": f"e{n}", "prompt": f"please say the word {word}"} for n, word in enumerate(("dog", "film", "rain"))]
SHOTS = {"version": 1, "system": "Be brief.", "user": "Say: {prompt}", "shots": 2, "seed": 5}


@pytest.fixture
def task(own):
    """Writes a task that asks some prompts."""

    def write(asked, tokens=8, **chat):
        test = [{"references": ["x"], **row} for row in asked]
        prompt = {"max_tokens": tokens, "truncation": "left"} | ({"chat": chat} if chat else {})
        return own({"train": TRAIN, "validation": test, "test": test}, prompt=prompt, rollout={"max_new_tokens": 8})

    return write


def answers(folder, task, baseline):
    grue("evaluate", "--task", task, "--baseline", baseline, "--output", folder, "--seed", 3)
    return files.read_json(folder / "result.json"), [*map(json.loads, (folder / "predictions.jsonl").open())]


def test_what_is_shown_stands_before_the_prompt_and_only_the_prompt_is_cut(task, tmp_path):
    """Few-shot answers as zero-shot does where the prompts hold the examples, written out by hand, themselves."""
    result, few = answers(tmp_path / "few", task(ASKED, tokens=3, **SHOTS), "few-shot")
    asked = result["generation"]["prompting"]
    assert asked["kind"] == "shots" and len(asked["shots"]) == 2 and result["system"]["name"] == "few-shot"
    shown = "".join(f"say {name[-1]} {name[-1]} is said\n\n" for name in asked["shots"])
    by_hand = [{**row, "prompt": f"{shown}the word {row['prompt'].split()[-1]}"} for row in ASKED]
    plain, zero = answers(tmp_path / "zero", task(by_hand, tokens=200), "zero-shot")
    assert few == zero and "prompting" not in plain["generation"]
    assert few != answers(tmp_path / "plain", task(ASKED, tokens=200), "zero-shot")[1]


def test_what_cannot_be_shown_or_drawn_after_examples_is_refused(task, refused):
    evaluate = ("evaluate", "--baseline", "few-shot", "--task")
    refused.command(*evaluate, task(ASKED), code=2)
    refused.command(*evaluate, task([*ASKED, {"id": "t1", "prompt": "say 1"}], **SHOTS | {"shots": 4}), code=2)
    refused.command(*evaluate, task(ASKED, **SHOTS | {"shots": 5}), code=3)
    path = task(ASKED, **SHOTS)
    refused.command(*evaluate, path, "--best-of", 2, code=2)
    refused.command("tools", "frontier", "--checkpoint", "few-shot", "--task", path, "--samples", 32, code=2)
    refused.command("generate", "--checkpoint", "few-shot", "--task", path, "--output", "out.jsonl", code=2)
