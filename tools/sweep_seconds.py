"""Write grue/sweep/seconds.toml, by which `grue sweep --dry-run` knows how long a mini run takes on one core.

    grue sweep --algos zero-shot,supervised,supervised+ppo,supervised+nlpo --seeds 1-5 --runs runs
    python tools/sweep_seconds.py runs

It takes the fastest seed, since a busy machine only adds, evaluation included, and keeps the figures of systems that
the sweep does not have. `--stages` prints how long each stage of the sweep took instead.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import tomli_w

from grue import files
from grue.sweep.record import Record, SweepEvent
from grue.task_files import load_task

TABLE = Path(__file__).parent.parent / "grue" / "sweep" / "seconds.toml"
HEAD = "# Seconds of a run on one core with so many updates, evaluation included; made by tools/sweep_seconds.py.\n"


def finished(runs: Path) -> list[SweepEvent]:
    """Return the last event of every finished run."""
    last = {event.job: event for event in Record(runs).ended() if event.state == "finished"}
    return list(last.values())


def measured(runs: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Return suite → task → system → seconds of the fastest run."""
    seconds: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for event in finished(runs):
        suite, task, system, _ = event.job.split("/")
        seconds[suite, task, system].append(sum((event.seconds or {}).values()))
    table: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for (suite, task, system), values in seconds.items():
        table[suite][task][system] = round(min(values), 1)
    return table


def stages(runs: Path) -> str:
    """Return a Markdown table: system, runs, minutes of training and of evaluation, on one core."""
    spent: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for event in finished(runs):
        for stage, value in (event.seconds or {}).items():
            spent[event.job.split("/")[2]][stage].append(value)
    rows = ["| system | runs | training, min | evaluation, min |", "|---|---|---|---|"]
    total: dict[str, float] = defaultdict(float)
    for system, parts in spent.items():
        count = max(map(len, parts.values()))
        minutes = {stage: sum(values) / 60 for stage, values in parts.items()}
        rows.append(f"| {system} | {count} | {minutes.get('train', 0):.1f} | {minutes.get('evaluate', 0):.1f} |")
        for name, value in (("runs", count), *minutes.items()):
            total[name] += value
    return "\n".join([*rows, f"| all | {total['runs']:.0f} | {total['train']:.1f} | {total['evaluate']:.1f} |"])


def main() -> None:
    """Write the table, or print the stages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, help="folder of the sweep's runs")
    parser.add_argument("--stages", action="store_true", help="print how long each part took, and write nothing")
    options = parser.parse_args()
    if options.stages:
        print(stages(options.runs))
        return
    known = files.read_toml(TABLE)
    for suite, tasks in measured(options.runs).items():
        for task, systems in tasks.items():
            updates = load_task(task, suite).recipes["rl"]["updates"]
            known.setdefault(suite, {}).setdefault(task, {}).update({"updates": updates, **systems})
    files.write_text(TABLE, HEAD + tomli_w.dumps(known))


if __name__ == "__main__":
    main()
