"""Write the tables of the paper's questions, asked of the mini suite.

    grue sweep --config experiments/findings/kl.toml --runs runs    # likewise the others; `make findings` runs all
    python experiments/findings.py --runs runs                      # read the runs, write figures and tables
    python experiments/findings.py --runs runs --partial            # print the tables of the runs that exist

It writes the figures of every run to experiments/results/findings.json, and the tables to findings.md beside it. A
value is the mean over seeds ± half of its 95 % t interval; a difference has Welch's interval, and is bold if that
excludes 0.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from measured import GRIDS, Figures, read_run, wanted

from grue import files
from grue.errors import DataError, GrueError
from grue.plots.curves import panels_of, read_logs
from grue.plots.drawing import draw_curves
from grue.runs.recipes import make_config
from grue.stats.intervals import Interval, mean, mean_over_tasks, satterthwaite_interval
from grue.sweep.grid import read_grid
from grue.sweep.jobs import Job, plan_jobs
from grue.task_files import load_task

HERE = Path(__file__).parent
RESULTS = HERE / "results"

# --- numbers as text -------------------------------------------------------------------------------------------------


def spread(values: Sequence[float], form: str) -> str:
    """Return the mean ± half of its 95 % t interval; a single seed has none."""
    if not values:
        return "–"
    interval = satterthwaite_interval({"": values})
    return f"{mean(values):{form}}" + (f" ± {interval.half_width:{form}}" if interval else "")


def contrast(weights: Mapping[str, float], values: Mapping[str, Sequence[float]]) -> tuple[float, Interval] | None:
    """Return the weighted sum of systems' means and its 95 % interval, Welch's for a difference of two.

    Returns:
        None if a system has fewer than two seeds.
    """
    # The mean over K systems of values times K·weight is the weighted sum, with its variance.
    scaled = {name: [len(weights) * weight * value for value in values[name]] for name, weight in weights.items()}
    if not scaled or not all(scaled.values()):
        return None
    interval = satterthwaite_interval(scaled)
    return None if interval is None else (mean_over_tasks(scaled), interval)


def difference(found: tuple[float, Interval] | None, form: str) -> str:
    """Return a difference ± half its interval, in bold if that excludes 0."""
    if found is None:
        return "–"
    value, interval = found
    text = f"{value:+{form}} ± {interval.half_width:{form}}"
    return f"**{text}**" if interval.low > 0 or interval.high < 0 else text


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a Markdown table; the first is its head."""
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])


# --- a table for every grid ------------------------------------------------------------------------------------------

# Figure → head of its column, and its format.
COLUMNS = {
    "sentiment": ("sentiment ↑", ".3f"),
    "perplexity": ("perplexity ↓", ".2f"),
    "preference": ("preference ↑", ".1f"),
    "naturalness": ("naturalness ↑", ".1f"),
    "meteor": ("METEOR ↑", ".3f"),
    "rougeL": ("ROUGE-L ↑", ".3f"),
    "cider": ("CIDEr ↑", ".2f"),
    "coverage": ("coverage ↑", ".3f"),
    "spice_lite": ("spice_lite ↑", ".3f"),
    "kl": ("KL", ".2f"),
    "kl_vocabulary": ("KL, vocabulary", ".2f"),
    "steps": ("steps an update", ".2f"),
    "clipped": ("ratios clipped", ".3f"),
    "mask_size": ("vocabulary open", ".4f"),
    "disagreement": ("likeliest outside", ".4f"),
    "distinct2": ("distinct-2 ↑", ".3f"),
}
IMDB = ("sentiment", "perplexity", "kl")
COMMONGEN = ("preference", "meteor", "cider", "coverage", "spice_lite", "kl")
MASK = ("mask_size", "disagreement")
LEARNING = ("objective/reward", "objective/kl_sequence")
MASKED = (*LEARNING, "mask/size")
# Settings whose default is the task's own value → that value.
OF_THE_TASK: Mapping[str, Callable[[Any], Any]] = {
    "train_share": lambda task: 1.0,
    "dropout": lambda task: 0.0,
    "rollout_temperature": lambda task: task.rollout.temperature,
    "rollout_top_k": lambda task: task.rollout.top_k,
}


@dataclass(frozen=True, slots=True)
class Table:
    """The table of a grid on a task.

    Attributes:
        columns: Figures; the first also has a column with the difference to the base.
        against: System → its base, if that is not its own algorithm's recipe.
        curves: Logged figures, one panel each in the table's picture.
    """

    grid: str
    task: str
    columns: tuple[str, ...]
    against: Mapping[str, str] = field(default_factory=dict)
    curves: tuple[str, ...] = LEARNING

    def render(self, figures: Figures) -> str:
        """Return the table, one row per system."""
        jobs = jobs_of(self.grid, self.task)
        shown, (main, form) = [COLUMNS[name] for name in self.columns], COLUMNS[self.columns[0]]
        rows = [["system", "what is set", "seeds", main, "difference", *(head for head, _ in shown[1:])]]
        for job in jobs:
            values = {name: figures.seeds(self.task, job.system, name) for name in self.columns}
            first, *others = (spread(values[name], COLUMNS[name][1]) for name in self.columns)
            base, compared = self.against.get(job.system, job.algorithm), "base"
            if base != job.system:
                both = {name: figures.seeds(self.task, name, self.columns[0]) for name in (job.system, base)}
                compared = difference(contrast({job.system: 1.0, base: -1.0}, both), form)
            count = str(len(values[self.columns[0]]))
            rows.append([f"`{job.system}`", settings(job, jobs), count, first, compared, *others])
        return markdown(rows)

    def draw(self, runs: Path, path: Path) -> None:
        """Draw the learning curves of the systems trained by reinforcement."""
        jobs = jobs_of(self.grid, self.task)
        systems = [job.system for job in jobs if job.trains and job.algorithm != "supervised"]
        logs, notes = read_logs(runs / "mini" / self.task, systems)
        panels, gaps = panels_of(logs, self.curves)
        draw_curves(panels, systems, f"{load_task(self.task, 'mini').title}: {path.stem}", path)
        print("\n".join([*notes, *gaps, str(path)]), file=sys.stderr)


@cache
def jobs_of(grid: str, task: str) -> list[Job]:
    """Return one job for every system of a grid on a task, grouped by algorithm."""
    planned = plan_jobs(read_grid(GRIDS / f"{grid}.toml"))
    jobs = list({job.system: job for job in planned if job.task == task and job.evaluate}.values())
    algorithms = [job.algorithm for job in jobs]
    return sorted(jobs, key=lambda job: algorithms.index(job.algorithm))


def settings(job: Job, jobs: Sequence[Job]) -> str:
    """Return a system's settings; for an unchanged recipe, its values of the keys that its variants set."""
    about = ({"reward": job.reward} if job.reward else {}) | dict(job.set)
    if about or not job.trains:
        return spelled(about)
    variants = [one for one in jobs if one.algorithm == job.algorithm]
    varied = dict.fromkeys(key for one in variants for key in (("reward",) if one.reward else ()) + tuple(one.set))
    task = load_task(job.source, job.suite)
    config = {"reward": task.reward} | files.plain(make_config(task, job.algorithm, {}))
    own = {key: OF_THE_TASK[key](task) if config[key] is None and key in OF_THE_TASK else config[key] for key in varied}
    return f"recipe{': ' if own else ''}{spelled(own)}"


def spelled(values: Mapping[str, Any]) -> str:
    """Return settings as text."""
    return ", ".join(f"{key} = {'none' if value is None else value}" for key, value in values.items())


# --- the questions of the paper's Table 2 ----------------------------------------------------------------------------

TASKS = ("imdb", "commongen", "cnn_dailymail", "totto", "wmt16", "narrativeqa", "dailydialog")
RL, WARM = {"ppo": 0.5, "nlpo": 0.5}, {"supervised+ppo": 0.5, "supervised+nlpo": 0.5}
# Question → the contrast in preference that decides it, and the paper's marks.
QUESTIONS: Mapping[str, tuple[Mapping[str, float], str]] = {
    "needs a warm start": ({"supervised": 1.0, "ppo": -0.5, "nlpo": -0.5}, "✗✓✗✓✗✓✗"),
    "RL > Sup": ({**RL, "supervised": -1.0}, "✓✗✗✗✗✗✓"),
    "Sup+RL > Sup": ({**WARM, "supervised": -1.0}, "✓✓✓✓✓✓✗"),
    "Sup+NLPO > Sup+PPO": ({"supervised+nlpo": 1.0, "supervised+ppo": -1.0}, "✓✓✓✓✓✓✓"),
}
HACKED_MARKS = "✓✓✗✗✗✗✗"
# Task → the contrast of systems without a KL penalty and systems with one.
HACKED = {
    task: {name + penalty: weight for name in systems for penalty, weight in {"": -0.5, "_no-kl": 0.5}.items()}
    for task, systems in {"imdb": RL, "commongen": WARM}.items()
}
SYSTEMS = ("zero-shot", "supervised", "ppo", "nlpo", "supervised+ppo", "supervised+nlpo")
STARTED = tuple(f"supervised+{name}" for name in ("ppo", "nlpo", "a2c", "trpo", "rloo", "grpo"))


def questions(figures: Figures) -> str:
    """Return the answers, one row per task: yes or no if the interval of the difference excludes 0."""
    rows = [["task", "easily hacked?", *(f"{question}?" for question in QUESTIONS)]]
    for place, task in enumerate(TASKS):
        cells = [task, f"{hacked(figures, task)}; paper {HACKED_MARKS[place]}"]
        for weights, marks in QUESTIONS.values():
            found = contrast(weights, {name: figures.seeds(task, name, "preference") for name in weights})
            cells.append(f"{verdict(found)}; paper {marks[place]}")
        rows.append(cells)
    return markdown(rows)


def verdict(found: tuple[float, Interval] | None) -> str:
    """Return yes, no or undecided, with the difference that decides it."""
    if found is None:
        return "not run"
    _, interval = found
    word = "yes" if interval.low > 0 else "no" if interval.high < 0 else "undecided"
    return f"{word}, {difference(found, '.1f')}"


def hacked(figures: Figures, task: str) -> str:
    """Return whether a task is easily hacked: without the penalty preference rises and naturalness falls."""
    weights = HACKED.get(task, {})
    up, down = (
        contrast(weights, {name: figures.seeds(task, name, axis) for name in weights})
        for axis in ("preference", "naturalness")
    )
    if up is None or down is None:
        return "not run"
    rises, falls = up[1].low > 0, down[1].high < 0
    word = "yes" if rises and falls else "no" if up[1].high < 0 or down[1].low > 0 else "undecided"
    return f"{word}, {difference(up, '.1f')} and {difference(down, '.1f')}"


def scores(axis: str, figures: Figures) -> str:
    """Return the table of an axis: a row per task, a column per system."""
    rows = [[task, *(spread(figures.seeds(task, name, axis), ".1f") for name in SYSTEMS)] for task in TASKS]
    return markdown([["task", *(f"`{name}`" for name in SYSTEMS)], *rows])


def beyond_supervised(figures: Figures) -> str:
    """Return what every algorithm adds to the supervised model's preference: a row per task, and their mean."""
    values = {
        f"{task}/{name}": figures.seeds(task, name, "preference") for task in TASKS for name in ("supervised", *STARTED)
    }
    rows = [["task", "`supervised`", *(f"`{name}`" for name in STARTED)]]
    for title, tasks in {**{task: (task,) for task in TASKS}, "**mean**": TASKS}.items():
        base = {task: values[f"{task}/supervised"] for task in tasks}
        interval = satterthwaite_interval(base) if all(base.values()) else None
        cells = [title, f"{mean_over_tasks(base):.1f} ± {interval.half_width:.1f}" if interval else "–"]
        for name in STARTED:
            share = 1.0 / len(tasks)
            weights = {f"{task}/{one}": way for task in tasks for one, way in ((name, share), ("supervised", -share))}
            cells.append(difference(contrast(weights, {key: values[key] for key in weights}), ".1f"))
        rows.append(cells)
    return markdown(rows)


# --- the page --------------------------------------------------------------------------------------------------------

ABLATIONS: Mapping[str, Table] = {
    "kl": Table("kl", "imdb", (*IMDB, "distinct2")),
    "hacking": Table("hacking", "commongen", ("preference", "naturalness", *COMMONGEN[1:])),
    "gamma": Table("gamma", "imdb", IMDB),
    "mask_p": Table("mask_p", "imdb", (*IMDB, "kl_vocabulary", *MASK, "distinct2"), {"ppo": "nlpo"}, MASKED),
    "mask_mu": Table("mask_mu", "imdb", (*IMDB, *MASK), curves=MASKED),
    "mask_source-imdb": Table("mask_source", "imdb", (*IMDB, *MASK), {"ppo": "nlpo"}, MASKED),
    "mask_source-commongen": Table(
        "mask_source",
        "commongen",
        ("preference", "meteor", "spice_lite", "kl", *MASK),
        {"supervised+ppo": "supervised+nlpo"},
        MASKED,
    ),
    "reward": Table(
        "reward",
        "commongen",
        (*COMMONGEN[:2], "rougeL", *COMMONGEN[2:]),
        {"supervised": "supervised+ppo"},
        ("validation/preference", "objective/kl_sequence"),  # their rewards differ
    ),
    "data_budget": Table("data_budget", "imdb", IMDB),
    "dropout": Table("dropout", "imdb", (*IMDB, "steps", "clipped"), {"ppo_no-stop_dropout-0.1": "ppo_no-stop"}),
    "sampling": Table("sampling", "commongen", COMMONGEN, {"supervised": "supervised+ppo"}),
}


TABLES: Mapping[str, Callable[[Figures], str]] = {
    "questions": questions,
    "preference": partial(scores, "preference"),
    "naturalness": partial(scores, "naturalness"),
    "algorithms": beyond_supervised,
    **{name: table.render for name, table in ABLATIONS.items()},
}


def page(figures: Figures) -> str:
    """Return all tables as a page."""
    return "\n\n".join(["# Tables", *(f"## {name}\n\n{render(figures)}" for name, render in TABLES.items())]) + "\n"


def gather(runs: Path, partial: bool) -> Figures:
    """Read all runs of all grids.

    Raises:
        DataError: Runs are missing, and `partial` is not set.
    """
    jobs = wanted()
    missing = [job.id for job in jobs if not (runs / job.id / "result.json").exists()]
    if missing and not partial:
        raise DataError(
            f"{runs}: {len(missing)} of {len(jobs)} runs are missing, {missing[0]} first; `make findings` runs them."
        )
    if missing:
        print(f"{len(missing)} of {len(jobs)} runs are missing.", file=sys.stderr)
    found = [read_run(runs / job.id, job) for job in jobs if job.id not in set(missing)]
    return Figures(tasks={name: load_task(name, "mini").hash for name in TASKS}, runs=tuple(found))


def written(figures: Figures) -> str:
    """Return the figures as JSON, one run per line, so that differences are readable."""
    runs = ",\n".join(
        files.canonical_json(run) for run in sorted(figures.runs, key=lambda r: (r.task, r.system, r.seed))
    )
    return f'{{"tasks":{files.canonical_json(figures.tasks)},\n"runs":[\n{runs}\n]}}\n'


def main() -> None:
    """Write figures and tables, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of all runs")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of findings.json and findings.md")
    parser.add_argument("--draw", type=Path, metavar="FOLDER", help="also draw the tables' learning curves there")
    parser.add_argument(
        "--partial", action="store_true", help="print the tables of the existing runs, and write nothing"
    )
    options = parser.parse_args()
    try:
        figures = gather(options.runs, options.partial)
        if options.partial:
            print(page(figures))
            return
        for name, table in ABLATIONS.items() if options.draw else ():
            table.draw(options.runs, options.draw / f"{name}.png")
        files.write_text(options.output / "findings.json", written(figures))
        files.write_text(options.output / "findings.md", page(figures))
    except GrueError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
