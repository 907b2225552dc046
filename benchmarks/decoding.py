"""Guided decoding against plain sampling: processor seconds of the same prompts, in turns.

    python benchmarks/decoding.py RUNS

RUNS has `mini/TASK/supervised/seed-1` and `supervised+ppo` (`grue sweep --config experiments/mini.toml`).
"""

import argparse
import time
from pathlib import Path
from statistics import median

import torch

from grue.api.evaluate import subject
from grue.data.load import load_examples
from grue.evaluation.decoding import choose_guided, make_guides
from grue.evaluation.guided import Place, guiding, predict_guided
from grue.evaluation.predict import Spent, predict
from grue.task_files import load_task

PROMPTS, BATCH, TURNS = 256, 64, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--tasks", default="commongen,imdb")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.tasks.split(","):
        task, place = load_task(name), arguments.runs / "mini" / name
        start, trained = place / "supervised/seed-1", place / "supervised+ppo/seed-1"
        system = subject(start).system
        examples = load_examples(task, "test").examples[:PROMPTS]
        at = Place(system.loaded, task, examples, guiding(task), 1, Spent())
        ways = {"plain": lambda batch, task=task, system=system: predict(system.loaded, task, batch, guiding(task), 1)}
        for text in (f"genarm:model={trained}", f"rast:trained={trained},start={start}"):
            guides = make_guides(choose_guided(task, text), at)
            ways[text.partition(":")[0]] = lambda batch, at=at, guides=guides: predict_guided(at, guides, batch)
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(TURNS):
            for way, answer in ways.items():
                began = time.process_time()
                for i in range(0, len(examples), BATCH):
                    answer(examples[i : i + BATCH])
                seconds[way].append(time.process_time() - began)
        plain = median(seconds["plain"])
        print(name, {way: f"{median(each) / plain:.2f} x" for way, each in seconds.items()})


if __name__ == "__main__":
    main()
