"""Print which learning rate each method gets: `python experiments/mini_rates.py --runs runs/mini-rates`.

A cell is the gain over the start on validation, in points of preference, on each task of experiments/mini_rates.toml;
the chosen rate has the highest mean over them. It is printed for each update that was validated, since rates are
constant: a run's model at update 24 is that of a run of 24 updates.
"""

import argparse
import re
from pathlib import Path
from statistics import mean, stdev

from grue import files

TASKS = ("commongen", "narrativeqa")


def main() -> None:
    """Print a table for each validated update, and how far methods part there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/mini-rates"))
    runs = parser.parse_args().runs
    gains = read(runs / "mini")
    if not gains:
        raise SystemExit(f"{runs}: no runs; train them: grue sweep --config experiments/mini_rates.toml --runs {runs}")
    for update in sorted({update for _, _, update in next(iter(gains.values()))}):
        print(
            f"Update {update}\n\n| method | rate | {' | '.join(TASKS)} | mean |\n|---|---|" + "---|" * (len(TASKS) + 1)
        )
        chosen = {}
        for method, cells in gains.items():
            rates = sorted({rate for _, rate, _ in cells})
            rows = {rate: [cells[task, rate, update] for task in TASKS] for rate in rates}
            chosen[method] = max(rows.values(), key=mean)
            for rate, row in rows.items():
                figures = " | ".join(f"{gain:+.1f}" for gain in (*row, mean(row)))
                print(f"| {method} | {rate:g}{' chosen' if row is chosen[method] else ''} | {figures} |")
        spread = ", ".join(f"{task} {stdev(row[i] for row in chosen.values()):.2f}" for i, task in enumerate(TASKS))
        print(f"\nStandard deviation over methods at their rates: {spread}.\n")


def read(folder: Path) -> dict[str, dict[tuple[str, float, int], float]]:
    """Return method → (task, rate, update) → gain, of the finished runs."""
    gains: dict[str, dict[tuple[str, float, int], float]] = {}
    for log in sorted(folder.glob("*/supervised+*/seed-*/train.jsonl")):
        plan = files.read_toml(log.with_name("config.toml"))
        method = re.sub(r"(_learning_rate-|_)[0-9.e-]+$", "", log.parts[-3].removeprefix("supervised+"))
        for _, line in files.read_jsonl(log):
            if "validation/gain" in line:
                cell = (log.parts[-4], float(plan["config"]["learning_rate"]), int(line["update"]))
                gains.setdefault(method, {})[cell] = line["validation/gain"]
    return gains


if __name__ == "__main__":
    main()
