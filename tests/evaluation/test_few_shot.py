"""Few-shot: the backbone as it is, shown examples of the training split before each prompt."""

import json

from support.commands import grue
from support.own_task import OWN_TASK

from grue import files

TRAIN = [{"id": f"t{n}", "prompt": f"say {n}", "references": [f"{n} is\n said ", "other"]} for n in range(4)]
ASKED = [{"id": f"e{n}", "prompt": f"please say the word {word}"} for n, word in enumerate(("dog", "film", "rain"))]
SHOTS = '[prompt.chat]\nversion = 1\nsystem = "Be brief."\nuser = "Say: {{prompt}}"\nshots = 2\nseed = 5\n'


def write(folder, asked, shots="", tokens=8):
    (folder / "task").mkdir(parents=True)
    files.write_jsonl(folder / "task/rows.jsonl", [{"references": ["x"], **row} for row in asked])
    files.write_jsonl(folder / "task/train.jsonl", TRAIN)
    text = OWN_TASK.replace('train = "rows.jsonl"', 'train = "train.jsonl"').replace("[rollout]", f"{shots}[rollout]")
    text = text.replace("max_tokens = 8\n", f"max_tokens = {tokens}\n", 1)
    files.write_text(folder / "task/own.toml", text.format(metric="rougeL"))
    return folder / "task/own.toml"


def answers(folder, task, baseline):
    grue("evaluate", "--task", task, "--baseline", baseline, "--runs", folder / "runs", "--seed", 3)
    run = folder / f"runs/own/own/{baseline}/seed-3"
    return files.read_json(run / "result.json"), [*map(json.loads, (run / "predictions.jsonl").open())]


def test_what_is_shown_stands_before_the_prompt_and_only_the_prompt_is_cut(tmp_path):
    """Few-shot answers as zero-shot does where the prompts hold the examples, written out by hand, themselves."""
    task = write(tmp_path, ASKED, SHOTS, tokens=3)
    result, few = answers(tmp_path, task, "few-shot")
    asked = result["generation"]["prompting"]
    assert asked["kind"] == "shots" and len(asked["shots"]) == 2 and result["system"]["name"] == "few-shot"
    shown = "".join(f"say {name[-1]} {name[-1]} is said\n\n" for name in asked["shots"])
    by_hand = [{**row, "prompt": f"{shown}the word {row['prompt'].split()[-1]}"} for row in ASKED]
    plain, zero = answers(tmp_path, write(tmp_path / "by-hand", by_hand, tokens=200), "zero-shot")
    assert few == zero and "prompting" not in plain["generation"]
    assert few != answers(tmp_path / "plain", write(tmp_path / "plain", ASKED, tokens=200), "zero-shot")[1]


def test_what_cannot_be_shown_or_drawn_after_examples_is_refused(tmp_path, refused):
    options = ("--baseline", "few-shot", "--runs", tmp_path / "runs")
    refused.command("evaluate", "--task", write(tmp_path / "none", ASKED), *options, code=2)
    task = write(tmp_path / "seen", [*ASKED, {"id": "t1", "prompt": "say 1"}], SHOTS.replace("= 2", "= 4"))
    refused.command("evaluate", "--task", task, *options, code=2)
    task = write(tmp_path / "many", ASKED, SHOTS.replace("= 2", "= 5"))
    refused.command("evaluate", "--task", task, *options, code=3)
    task = write(tmp_path / "best", ASKED, SHOTS)
    refused.command("evaluate", "--task", task, *options, "--best-of", 2, code=2)
    refused.command("tools", "frontier", "--checkpoint", "few-shot", "--task", task, "--samples", 32, code=2)
    refused.command("generate", "--checkpoint", "few-shot", "--task", task, "--output", tmp_path / "out.jsonl", code=2)
