"""Where does a learned reward part from its judge: one model, the mean of four, the lowest, one that rewrites?

    python experiments/ensembles.py RUNS --output experiments/ensembles.json

For each seed's supervised start (RUNS/mini/TASK/supervised/seed-N): 4 samples to each of 400 prompts of `rl`, judged by
the task's facts, make pairs, from which four reward models of seeds 1 to 4 learn, and with `--rewriter` a rewriter. Of
64 samples to each of 200 validation prompts, the best of the first n by each of these is kept, and judged by the facts.
The same command resumes.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

import grue
from grue.api import preferences
from grue.api.evaluate import generate
from grue.data.load import load_examples
from grue.evaluation.rewards import make_reward
from grue.files import read_jsonl
from grue.task_files import load_task

MEMBERS, SAMPLES, PAIRS, PROMPTS = 4, 64, "100,300", 200
SIZES = (1, 2, 4, 8, 16, 32, 64)


def judged(name: str, task, examples, texts) -> np.ndarray:
    """Return the rewards of texts, [prompts, samples]."""
    reward = make_reward(name, task, examples)
    of_each = [example for example in examples for _ in range(SAMPLES)]
    flat = [text for row in texts for text in row]
    values = [reward(of_each[i : i + 512], flat[i : i + 512]) for i in range(0, len(flat), 512)]
    return np.array([value for part in values for value in part], dtype=float).reshape(len(examples), SAMPLES)


def best_of(proxy: np.ndarray, gold: np.ndarray) -> dict[str, list[float]]:
    """Return the proxy's and the gold value of the best of the first n by the proxy, for each n."""
    rows = np.arange(len(proxy))
    picked = [proxy[:, :n].argmax(1) for n in SIZES]
    return {name: [float(v[rows, p].mean()) for p in picked] for name, v in (("proxy", proxy), ("gold", gold))}


def measure(arguments: argparse.Namespace, name: str, seed: int) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return pairs → way to combine → proxy and gold at each n."""
    runs = arguments.runs
    start, place = runs / "mini" / name / "supervised" / f"seed-{seed}", runs / "ensembles" / name / f"seed-{seed}"
    place.mkdir(parents=True, exist_ok=True)
    learn, asked = place / "samples.jsonl", place / "asked.jsonl"
    task = load_task(name)
    generate(start, learn, samples=4, temperature=1.0, limit=400)
    generate(start, asked, samples=SAMPLES, temperature=1.0, limit=arguments.prompts, split="validation")
    lines = [line for _, line in read_jsonl(asked) if "id" in line]
    texts = {line["id"]: [response["text"] for response in line["responses"]] for line in lines}
    examples = [example for example in load_examples(task, "validation").examples if example.id in texts]
    drawn = [texts[example.id] for example in examples]
    gold, found = judged("facts", task, examples, drawn), {}
    for count in map(int, arguments.pairs.split(",")):
        pairs = place / f"pairs-{count}.jsonl"
        preferences.pairs_from_samples(learn, pairs, pairs=count)
        models = [place / f"reward-{count}-{member}" for member in range(1, arguments.members + 1)]
        for member, folder in enumerate(models, 1):
            preferences.train_reward(pairs, folder, seed=member)
        each = [judged(f"model:{folder}", task, examples, drawn) for folder in models]
        ways = {"one": each[0], "mean": np.mean(each, 0), "lowest": np.min(each, 0)}
        ways["half"] = (ways["mean"] + ways["lowest"]) / 2
        if arguments.rewriter:
            made = {"data": str(pairs), "rewrite": True, "keep": "last", "runs": place, "init": start}
            made |= {"updates": 2 * count // 16, "learning_rate": 1e-3}
            run = grue.train(name, "rft", system=f"rewriter-{count}", validate_every=999, **made)
            ways["rewriter"] = judged(f"rewriter:{run.folder}", task, examples, drawn)
        found[str(count)] = {way: best_of(proxy, gold) for way, proxy in ways.items()}
    found["oracle"] = {"facts": best_of(gold, gold)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--output", type=Path, default=Path("experiments/ensembles.json"))
    parser.add_argument("--tasks", default="narrativeqa,totto")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--pairs", default=PAIRS)
    parser.add_argument("--prompts", type=int, default=PROMPTS)
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--rewriter", action="store_true", help="Train a rewriter on each number of pairs, too.")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, Any] = json.loads(arguments.output.read_text()) if arguments.output.exists() else {"sizes": SIZES}
    for name in arguments.tasks.split(","):
        for seed in range(1, arguments.seeds + 1):
            found.setdefault(name, {})[str(seed)] = measure(arguments, name, seed)
            arguments.output.write_text(json.dumps(found, indent=1) + "\n")
            print(
                name,
                seed,
                {
                    k: {w: [round(x, 3) for x in v["gold"]] for w, v in ways.items()}
                    for k, ways in found[name][str(seed)].items()
                },
                flush=True,
            )


if __name__ == "__main__":
    main()
