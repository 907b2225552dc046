"""Write the tables of the paper's ablations, asked of the mini suite.

    python experiments/findings.py                       # the tables, from the figures that are kept
    grue sweep --config experiments/findings/kl.toml --runs runs
    python experiments/findings.py --runs runs kl        # read a grid's runs, and keep their figures: kl.json
    python experiments/findings.py --runs runs --partial # print the tables of the runs that exist, and keep nothing
    python experiments/findings.py kl --contrast nlpo ppo naturalness  # a difference, and its interval
    python experiments/findings.py methods --pairs preference          # all pairs that differ after Holm's correction

A value is the mean over seeds ± half of its 95 % t interval. A difference has the interval of Welch's test, or of the
paired t test where seeds share a supervised start, and is bold if that excludes 0; in the tables of the methods, if
Holm's correction for their number leaves p below .05.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from measured import GRIDS, Figures, Run, read_run, runs_of

from grue import files
from grue.errors import DataError, GrueError
from grue.evaluation.predictions import read_predictions
from grue.runs.recipes import make_config
from grue.stats.intervals import mean, satterthwaite_interval
from grue.stats.paired import LEVEL, Contrast, MeanDifference, holm, judge_seeds
from grue.sweep.jobs import Job
from grue.task_files import load_task

# --- numbers as text -------------------------------------------------------------------------------------------------


def spread(values: Sequence[float], form: str) -> str:
    """Return the mean ± half of its 95 % t interval; a single seed has none."""
    if not values:
        return "–"
    interval = satterthwaite_interval({"": values})
    return f"{mean(values):{form}}" + (f" ± {interval.half_width:{form}}" if interval else "")


def contrast(a: Sequence[float], b: Sequence[float], paired: bool = False) -> MeanDifference | None:
    """Return the difference of two means with its 95 % interval, over seeds that may be pairs.

    Returns:
        None if one of them has fewer than two seeds.
    """
    if min(len(a), len(b)) < 2:
        return None
    return judge_seeds([Contrast(tuple(a), tuple(b), paired=paired and len(a) == len(b))])


def difference(found: MeanDifference | None, form: str, told: bool | None = None) -> str:
    """Return a difference ± half its interval, in bold if it is told from 0: if not said, by its interval."""
    if found is None:
        return "–"
    text = f"{found.value:+{form}} ± {found.interval.half_width:{form}}"
    if told is None:
        told = found.interval.low > 0 or found.interval.high < 0
    return f"**{text}**" if told else text


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
    "steps": ("steps an update", ".2f"),
    "clipped": ("ratios clipped", ".3f"),
    "mask_size": ("vocabulary open", ".4f"),
    "disagreement": ("likeliest outside", ".4f"),
    "distinct2": ("distinct-2 ↑", ".3f"),
    "phrase": ("with one phrase ↓", ".2f"),
}
IMDB = ("sentiment", "perplexity", "naturalness", "kl")
COMMONGEN = ("preference", "meteor", "cider", "coverage", "spice_lite", "kl")
MASK = ("mask_size", "disagreement")
VARIETY = ("distinct2", "phrase")
# Settings whose default is the task's own value → that value.
OF_THE_TASK = {
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
        penalties: Systems with a KL penalty → the same without one: is the task easily hacked?
        corrected: Whether bold differences are those that Holm's correction over the table leaves.
    """

    task: str
    columns: tuple[str, ...]
    against: Mapping[str, str] = field(default_factory=dict)
    penalties: Mapping[str, str] = field(default_factory=dict)
    corrected: bool = False

    def render(self, jobs: Sequence[Job], figures: Figures) -> str:
        """Return the table, one row per system, and whether the task is easily hacked where that is asked."""
        shown, (main, form) = [COLUMNS[name] for name in self.columns], COLUMNS[self.columns[0]]
        rows = [["system", "what is set", "seeds", main, "difference", *(head for head, _ in shown[1:])]]
        found = {job.system: self._from_base(job, figures) for job in jobs if self._base(job) != job.system}
        told: dict[str, bool] = {}
        if self.corrected:
            tested = {name: one.p for name, one in found.items() if one is not None}
            told = {name: p < 1 - LEVEL for name, p in zip(tested, holm([*tested.values()]), strict=True)}
        for job in jobs:
            values = {name: figures.seeds(self.task, job.system, name) for name in self.columns}
            first, *others = (spread(values[name], COLUMNS[name][1]) for name in self.columns)
            compared = "base"
            if job.system in found:
                compared = difference(found[job.system], form, told.get(job.system))
            count = str(len(values[self.columns[0]]))
            rows.append([f"`{job.system}`", settings(job, jobs), count, first, compared, *others])
        return markdown(rows) + (f"\n\nEasily hacked? {self._hacked(figures)}." if self.penalties else "")

    def _base(self, job: Job) -> str:
        return self.against.get(job.system, job.algorithm)

    def _from_base(self, job: Job, figures: Figures) -> MeanDifference | None:
        """Return the difference of a system to its base in the first figure."""
        base = self._base(job)
        ours, theirs = (figures.seeds(self.task, system, self.columns[0]) for system in (job.system, base))
        return contrast(ours, theirs, share_starts(job.system, base))

    def _hacked(self, figures: Figures) -> str:
        """Return whether preference rises and naturalness falls where nothing holds the policy back."""

        def seeds(system: str, axis: str) -> tuple[float, ...]:
            return tuple(figures.seeds(self.task, system, axis))

        def change(axis: str) -> MeanDifference | None:
            compared = [Contrast(seeds(free, axis), seeds(held, axis)) for held, free in self.penalties.items()]
            if any(min(len(one.scores_a), len(one.scores_b)) < 2 for one in compared):
                return None
            if all(warm(name) for name in self.penalties):  # seed k of all began from one model: not independent
                free, held = ([one.scores_a for one in compared], [one.scores_b for one in compared])
                compared = [Contrast(seed_means(free), seed_means(held), paired=True)]
            return judge_seeds(compared)

        up, down = change("preference"), change("naturalness")
        if up is None or down is None:
            return "Not run"
        rises, falls = up.interval.low > 0, down.interval.high < 0
        word = "Cannot be told"
        if rises and falls:
            word = "Yes"
        elif up.interval.high < 0 or down.interval.low > 0:
            word = "No"
        return f"{word}: preference {difference(up, '.1f')}, naturalness {difference(down, '.1f')} without the penalty"


def seed_means(systems: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return the mean over systems, seed by seed."""
    return tuple(mean(seed) for seed in zip(*systems, strict=True))


def warm(system: str) -> bool:
    """Whether a system is, or began from, a supervised model, of which each seed has its own."""
    return system.startswith("supervised")


def share_starts(a: str, b: str) -> bool:
    """Whether runs of two systems with the same seed go back to one supervised model; two supervised models do not."""
    return warm(a) and warm(b) and ("+" in a or "+" in b)


def jobs_of(grid: str, task: str) -> list[Job]:
    """Return one job for every system of a grid on a task, grouped by algorithm."""
    jobs = list({job.system: job for job in runs_of(grid) if job.task == task}.values())
    algorithms = [job.algorithm for job in jobs]
    return sorted(jobs, key=lambda job: algorithms.index(job.algorithm))


def settings(job: Job, jobs: Sequence[Job]) -> str:
    """Return a system's settings; for an unchanged recipe, its values of the keys that its variants set."""
    named = {"preset": job.entry.preset, "reward": job.entry.reward}
    about = {key: value for key, value in named.items() if value} | dict(job.entry.set)
    if about or not job.trains:
        return spelled(about)
    variants = [one for one in jobs if one.algorithm == job.algorithm]
    varied = dict.fromkeys(
        key for one in variants for key in (("reward",) if one.entry.reward else ()) + tuple(one.entry.set)
    )
    task = load_task(job.source, job.suite)
    config = {"reward": task.reward} | files.plain(make_config(task, job.algorithm, {}))
    own = {key: OF_THE_TASK[key](task) if config[key] is None and key in OF_THE_TASK else config[key] for key in varied}
    return f"recipe{': ' if own else ''}{spelled(own)}"


def spelled(values: Mapping[str, Any]) -> str:
    """Return settings as text."""
    return ", ".join(f"{key} = {'none' if value is None else value}" for key, value in values.items())


BESIDE_PPO = {job.system: "supervised+ppo" for job in runs_of("methods")}
TABLES: Mapping[str, tuple[Table, ...]] = {
    "kl": (
        Table(
            "imdb",
            ("sentiment", "naturalness", "kl", *VARIETY),
            penalties={"ppo": "ppo_no-kl", "nlpo": "nlpo_no-kl"},
        ),
    ),
    "hacking": (
        Table(
            "commongen",
            ("preference", "naturalness", *COMMONGEN[1:]),
            penalties={name: f"{name}_no-kl" for name in ("supervised+ppo", "supervised+nlpo")},
        ),
    ),
    "gamma": (Table("imdb", IMDB),),
    "mask_p": (Table("imdb", ("sentiment", "naturalness", "kl", "phrase"), {"ppo": "nlpo"}),),
    "mask_mu": (Table("imdb", (*IMDB, *MASK)),),
    "mass": (
        Table(
            "imdb",
            (*IMDB, *VARIETY),
            {"ppo_no-kl": "nlpo_no-kl", "nlpo_no-kl_no-mass": "nlpo_no-kl", "ppo": "nlpo"},
        ),
    ),
    "presets": (Table("imdb", ("sentiment", "naturalness", "kl", "distinct2"), {"ppo": "nlpo"}),),
    "mask_source": (
        Table("imdb", (*IMDB, *MASK), {"ppo": "nlpo"}),
        Table(
            "commongen",
            ("preference", "meteor", "spice_lite", "kl", *MASK),
            {"supervised+ppo": "supervised+nlpo"},
        ),
    ),
    "reward": (Table("commongen", (*COMMONGEN[:2], "rougeL", *COMMONGEN[2:]), {"supervised": "supervised+ppo"}),),
    "data_budget": (Table("imdb", IMDB),),
    "dropout": (Table("imdb", (*IMDB, "steps", "clipped"), {"ppo_no-stop_dropout-0.1": "ppo_no-stop"}),),
    "sampling": (Table("commongen", COMMONGEN, {"supervised": "supervised+ppo"}),),
    "methods": tuple(
        Table(task, ("preference", "naturalness", "kl", "phrase"), BESIDE_PPO, corrected=True)
        for task in ("imdb", "commongen")
    ),
}
"""Grid → its tables, a task each."""


def tables(grid: str, figures: Figures) -> str:
    """Return the tables of a grid."""
    return "\n\n".join(table.render(jobs_of(grid, table.task), figures) for table in TABLES[grid])


def contrasts(grid: str, figures: Figures, a: str, b: str, figure: str) -> str:
    """Return the difference of two systems in a figure on each task of a grid, a line each."""
    lines = []
    for table in TABLES[grid]:
        ours, theirs = (figures.seeds(table.task, system, figure) for system in (a, b))
        found = contrast(ours, theirs, share_starts(a, b))
        lines.append(f"{table.task}, {a} - {b}, {figure}: {difference(found, COLUMNS[figure][1])}")
    return "\n".join(lines)


def pairs(grid: str, figures: Figures, figure: str, of: Sequence[str] = ()) -> str:
    """Return, for each task of a grid, the pairs of systems that differ after Holm's correction over all pairs.

    Args:
        of: The systems; if none are given, all that were trained by reinforcement learning.
    """
    lines = []
    for table in TABLES[grid]:
        systems = of or [job.system for job in jobs_of(grid, table.task) if job.system != "supervised"]
        values = {system: figures.seeds(table.task, system, figure) for system in systems}
        every = [
            (a, b, difference_of)
            for a, b in combinations(systems, 2)
            if (difference_of := contrast(values[a], values[b], share_starts(a, b))) is not None
        ]
        corrected = holm([tested.p for _, _, tested in every])
        differing = [(*pair, p) for pair, p in zip(every, corrected, strict=True) if p < 1 - LEVEL]
        lines.append(f"{table.task}, {figure}: {len(differing)} of {len(every)} pairs of {len(systems)} differ")
        for a, b, tested, p in differing:
            lines.append(f"  {a} - {b}: {difference(tested, COLUMNS[figure][1], False)}, corrected p = {p:.2g}")
    return "\n".join(lines)


# --- figures ---------------------------------------------------------------------------------------------------------


def kept(grid: str) -> Path:
    """Return the file with the figures of a grid's runs; it is there once all of them have been made."""
    return GRIDS / f"{grid}.json"


def gather(grid: str, runs: Path, partial: bool) -> Figures:
    """Read all runs of a grid.

    Raises:
        DataError: Runs are missing, and `partial` is not set.
    """
    jobs = runs_of(grid)
    missing = [job.id for job in jobs if not (runs / job.id / "result.json").exists()]
    if missing and not partial:
        raise DataError(
            f"{runs}: {len(missing)} of {len(jobs)} runs of {grid} are missing, {missing[0]} first; "
            f"`grue sweep --config experiments/findings/{grid}.toml --runs {runs}` makes them."
        )
    if missing:
        print(f"{grid}: {len(missing)} of {len(jobs)} runs are missing.", file=sys.stderr)
    found = [read_with_phrase(runs / job.id, job) for job in jobs if job.id not in set(missing)]
    hashes = {name: load_task(name, "mini").hash for name in sorted({job.task for job in jobs})}
    return Figures(tasks=hashes, runs=tuple(found))


def read_with_phrase(folder: Path, job: Job) -> Run:
    """Read a run, with the share of its texts that have the run of four words that most of them have."""
    run = read_run(folder, job)
    having: Counter[tuple[str, ...]] = Counter()
    predictions = read_predictions(folder / "predictions.jsonl")
    for prediction in predictions:
        words = prediction.text.split()
        having.update(set(zip(words, words[1:], words[2:], words[3:], strict=False)))
    return replace(run, figures={**run.figures, "phrase": max(having.values(), default=0) / len(predictions)})


def written(figures: Figures) -> str:
    """Return the figures as JSON, one run per line, so that differences are readable."""
    ordered = sorted(figures.runs, key=lambda run: (run.task, run.system, run.seed))
    runs = ",\n".join(files.canonical_json(run) for run in ordered)
    return f'{{"tasks":{files.canonical_json(figures.tasks)},\n"runs":[\n{runs}\n]}}\n'


def main() -> None:
    """Print the tables, of the figures that are kept or of runs; keep the figures of runs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("grids", nargs="*", metavar="GRID", help=f"of {', '.join(TABLES)} [default: all]")
    parser.add_argument("--runs", type=Path, help="folder of all runs: read them, and keep their figures")
    parser.add_argument("--partial", action="store_true", help="with --runs: those that exist, and keep nothing")
    parser.add_argument("--contrast", nargs=3, metavar=("A", "B", "FIGURE"), help="of one grid, instead of its table")
    parser.add_argument("--pairs", metavar="FIGURE", help="of a grid: all pairs that differ, instead of its table")
    parser.add_argument("--of", nargs="+", default=(), metavar="SYSTEM", help="with --pairs: between these alone")
    options = parser.parse_args()
    if wrong := sorted({*options.grids} - {*TABLES}):
        parser.error(f"there is no grid {wrong[0]}; there are {', '.join(TABLES)}")
    if options.partial and options.runs is None:
        parser.error("--partial is of --runs")
    figure = options.contrast[2] if options.contrast else options.pairs
    if figure and figure not in COLUMNS:
        parser.error(f"there is no figure {figure}; there are {', '.join(COLUMNS)}")
    if options.of and not options.pairs:
        parser.error("--of belongs to --pairs")
    try:
        for grid in options.grids or TABLES:
            if options.runs is not None:
                figures = gather(grid, options.runs, options.partial)
                if not options.partial:
                    files.write_text(kept(grid), written(figures))
            elif kept(grid).exists():
                figures = files.load_json(kept(grid), Figures)
            else:
                print(f"{grid}: not run yet.", file=sys.stderr)
                continue
            if options.contrast:
                print(contrasts(grid, figures, *options.contrast))
            elif options.pairs:
                print(pairs(grid, figures, options.pairs, options.of))
            else:
                print(f"## {grid}\n\n{tables(grid, figures)}\n")
    except GrueError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
