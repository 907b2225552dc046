"""Guided decoding beside training and best-of-n, at several costs of an answer.

    python experiments/decoding.py RUNS --seeds 1-3 --output experiments/decoding.json

RUNS has `mini/TASK/supervised/seed-N`, `supervised+grpo` and `supervised+ppo` (`grue sweep --config
experiments/mini.toml`). What else is needed is trained beside them: a reward model and an autoregressive one from the
same pairs, GRPO on the reward that guides, a larger supervised model. The same command resumes.

Decoders see no reference: on IMDB the reward is the task's, on CommonGen the share of concepts, on NarrativeQA a reward
model of the run's own. Weights were chosen on 100 validation prompts of seed 1 (`--choose`).
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch

import grue
from grue.api import preferences
from grue.api.evaluate import evaluate, generate
from grue.runs.request import seeds_of

PROMPTS, COSTS, PAIRS = 300, (2, 4, 8), {"imdb": 1000, "commongen": 1000, "narrativeqa": None}
REWARDS = {"imdb": "asked_sentiment", "commongen": "coverage", "narrativeqa": ""}
WEIGHTS = {"deal": (5, 20, 80), "transfer_q": (0.2, 0.05, 0.0125), "genarm": (0.5, 1, 2)}
SETTING = {"deal": "weight", "transfer_q": "alpha", "genarm": "weight"}


class Cell:
    """A task and a seed: its models, and its evaluations."""

    def __init__(self, runs: Path, task: str, seed: int) -> None:
        self.runs, self.task, self.seed = runs, task, seed
        self.extra = runs / "decoding" / task / f"seed-{seed}"
        self.start = self.run("supervised")

    def run(self, system: str, own: bool = False) -> Path:
        """Return the folder of a run, or of one that was trained for this."""
        return (self.extra if own else self.runs) / "mini" / self.task / system / f"seed-{self.seed}"

    def prepare(self) -> None:
        """Train what guides."""
        samples, pairs, model = self.extra / "samples.jsonl", self.extra / "pairs.jsonl", self.extra / "reward"
        self.extra.mkdir(parents=True, exist_ok=True)
        gold = REWARDS[self.task] or None
        generate(self.start, samples, samples=4, reward=gold, temperature=1.0, limit=400)
        preferences.pairs_from_samples(samples, pairs, pairs=PAIRS[self.task])
        self.reward = REWARDS[self.task]
        if not self.reward:
            preferences.train_reward(pairs, model)
            self.reward = f"model:{model}"
        trained: dict[str, Any] = {"runs": self.extra, "init": self.start, "seed": self.seed}
        grue.train(
            self.task, "dpo", system="autoregressive_reward", data=str(pairs), reference_free=True, epochs=4, **trained
        )
        if self.task == "imdb":
            self.grpo = self.run("supervised+grpo")
        else:
            name = "grpo_by_the_same"
            grue.train(self.task, "grpo", system=name, reward=self.reward, **trained)
            self.grpo = self.run(name, own=True)

    def decode(self, name: str, split: str = "test", limit: int = PROMPTS, **how: Any) -> dict[str, float]:
        """Return the figures of an evaluation."""
        what = how.pop("what", self.start)
        result = evaluate(what, output=self.extra / split / name, split=split, limit=limit, search=False, **how)
        scores = {score.metric: score for score in result.scores}
        preferred = [s.scaled for s in result.scores if s.axis == "preference" and s.metric != self.reward]
        return {
            "preference": result.preference,
            "held_out": sum(preferred) / len(preferred) if preferred else None,
            "naturalness": result.naturalness,
            "reward": scores[self.reward].value if self.reward in scores else None,
            "seconds": result.timing["generation_seconds"] / limit,
            **{key: result.timing.get(f"{key}_per_answer") for key in ("reward_calls", "tokens")},
        }

    def guide(self, name: str, weight: float, **more: object) -> str:
        """Return what --decode is given."""
        settings = {SETTING[name]: weight, **more}
        if name == "genarm":
            settings["model"] = self.run("autoregressive_reward", own=True)
        else:
            settings["reward"] = self.reward
        if name == "transfer_q":
            settings["policy"] = self.grpo
        return f"{name}:" + ",".join(f"{key}={value}" for key, value in settings.items())


def choose(runs: Path, task: str) -> dict[str, float]:
    """Return the weight of each decoder with the best preference on validation; equal trials for each."""
    cell = Cell(runs, task, 1)
    cell.prepare()
    found = {}
    for name, weights in WEIGHTS.items():
        reached = {
            w: cell.decode(f"{name}-{w}", "validation", 100, decode=cell.guide(name, w))["preference"] for w in weights
        }
        found[name] = max(reached, key=reached.__getitem__)
        print(task, name, reached, flush=True)
    return found


def measure(cell: Cell, weights: dict[str, float]) -> dict[str, dict[str, float]]:
    """Return system → its figures."""
    cell.prepare()
    rows = {"supervised": cell.decode("supervised")}
    trained = {"ppo": cell.run("supervised+ppo"), "grpo": cell.run("supervised+grpo"), "grpo, same reward": cell.grpo}
    rows |= {name: cell.decode(name.replace(", ", "-"), what=run) for name, run in trained.items()}
    for n in (4, 16, 64):
        rows[f"best-of-{n}"] = cell.decode(f"best-of-{n}", best_of=n, pick_by=cell.reward)
    for name in ("deal", "transfer_q"):
        for k in COSTS:
            guide = cell.guide(name, weights[name], top_k=k)
            rows[f"{name}, {k} candidates"] = cell.decode(f"{name}-{k}", decode=guide)
    for weight in WEIGHTS["genarm"]:
        rows[f"genarm, weight {weight:g}"] = cell.decode(f"genarm-{weight:g}", decode=cell.guide("genarm", weight))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--seeds", default="1-3")
    parser.add_argument("--tasks", default=",".join(REWARDS))
    parser.add_argument("--output", type=Path, default=Path("experiments/decoding.json"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
    for task in arguments.tasks.split(","):
        weights = choose(arguments.runs, task)
        for seed in seeds_of([arguments.seeds]):
            rows = measure(Cell(arguments.runs, task, seed), weights)
            found.setdefault(task, {"weights": weights, "prompts": PROMPTS, "seeds": {}})["seeds"][str(seed)] = rows
            arguments.output.write_text(json.dumps(found, indent=1) + "\n")
            print(task, seed, {name: round(row["preference"], 1) for name, row in rows.items()}, flush=True)


if __name__ == "__main__":
    main()
