r"""Does reinforcement learning on CommonGen gain from prompts that supervised training has not seen?

    python experiments/fresh_prompts.py --out fresh
    grue train --task fresh/test-rules.toml --algo ppo --backbone runs/mini/commongen/supervised/seed-1/checkpoint \
        --system ppo-fresh --set updates=32 --set rollouts=256 --set minibatch_size=128
    grue evaluate --checkpoint runs/own/test-rules/ppo-fresh/seed-1 --task fresh/test-rules.toml

It writes two tasks: mini's CommonGen, but with 4,000 fresh rows in place of the training split, which follow the rules
of training (`training-rules.toml`) or those of test (`test-rules.toml`). docs/background/mini.md, "More reward calls,
and other prompts".
"""

import argparse
from pathlib import Path

from grue import files
from grue.task_files import task_folder
from miniworld import commongen
from miniworld.world import REVISION

SEED, COUNT = 555, 4000
RULES = {"training-rules": commongen.more_training, "test-rules": commongen.held_back}


def main() -> None:
    """Write the rows and the task files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    out = parser.parse_args().out
    for split in ("validation", "test"):
        files.write_jsonl(out / f"{split}.jsonl", commongen.rows(REVISION)[split])
    for name, draw in RULES.items():
        files.write_jsonl(out / f"{name}.jsonl", draw(REVISION, SEED, COUNT))
        table = files.read_toml(task_folder() / "mini" / "commongen.toml")
        splits = {"train": f"{name}.jsonl", "validation": "validation.jsonl", "test": "test.jsonl"}
        table |= {"suite": "own", "name": name}
        table["data"]["sources"] = [{"kind": "local", "files": splits}]
        del table["data"]["splits"]
        files.write_toml(out / f"{name}.toml", table)
        print(out / f"{name}.toml")


if __name__ == "__main__":
    main()
