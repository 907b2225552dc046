"""Where does a policy over-optimise a learned reward? Gao et al. (2022, arXiv 2210.10760) on mini, in one command.

    python experiments/overoptimisation.py --task imdb --start runs/mini/imdb/supervised

For each seed and number of pairs of experiments/overoptimisation.toml: samples of the start, pairs of them judged by
the gold reward with noise, a reward model, a policy trained on it alone, and best-of-n by it. The points of finished
seeds (gold and proxy over KL, held-out accuracy, seconds of each part) go into `--points`; then a table is printed, and
a picture drawn beside the points. The same command goes on after an interruption; seeds whose points are there are not
run again, and need no start. Gold never trains: it has the weight 0 in the policy's reward, so that it is logged.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

import grue
from grue import files
from grue.api.preferences import pairs_from_samples, train_reward
from grue.data.scored import read_scored
from grue.errors import ConfigError, GrueError
from grue.lm.reward_folder import RewardManifest
from grue.metrics.registry import make_metric
from grue.plots.drawing import COLOURS, GREY, canvas, coloured_line, write_legend
from grue.runs.request import canonical
from grue.shapes import from_dict
from grue.stats.frontier import best_of
from grue.stats.intervals import satterthwaite_interval
from grue.task_files import load_task
from grue.tasks import Task

HERE = Path(__file__).parent
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What is run; see overoptimisation.toml."""

    gold: dict[str, str]
    pairs: tuple[int, ...]
    seeds: tuple[int, ...]
    noise: str
    samples: int
    prompts: int
    best_of: int
    held_out: int
    algorithm: str
    policy: dict[str, Any] = field(default_factory=dict)
    reward: dict[str, Any] = field(default_factory=dict)


@dataclass
class Work:
    """Where it is run, and what the parts of a seed took.

    Attributes:
        gold: What judges the pairs, and what is gained.
        start: Folder of the supervised seeds.
        seconds: Part → seconds by the clock and of the processor, of the seed that is run.
    """

    study: Study
    task: Task
    gold: str
    start: Path
    output: Path
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def timings(self, seed: int) -> Path:
        """Where what the parts of a seed took is kept: a part that is done is not timed again."""
        return self.output / f"seconds-{seed}.json"

    def timed(self, seed: int, part: str, is_done: bool, do: Callable[[], T]) -> T:
        """Carry out a part, and keep what it took, in addition to what it took before an interruption."""
        began = time.monotonic(), time.process_time()
        try:
            return do()
        finally:
            if not is_done:
                took = time.monotonic() - began[0], time.process_time() - began[1]
                before = self.seconds.get(part, [0.0, 0.0])
                self.seconds[part] = [round(old + new, 1) for old, new in zip(before, took, strict=True)]
                files.write_json(self.timings(seed), self.seconds)
                print(
                    "seed {}, {}: {:.0f} s, {:.0f} s of the processor".format(seed, part, *self.seconds[part]),
                    file=sys.stderr,
                )


@dataclass(frozen=True, slots=True)
class ProxyPoint:
    """A policy that was optimised for a reward model.

    Attributes:
        how: "policy", a policy that was trained; "best-of-n", the best of n samples by the reward model.
        pairs: That the reward model was made from.
        kl: From the start, nats a response; of best-of-n a bound.
        gold: Mean of the reward that judged the pairs.
        proxy: Mean of the reward model's score, in standard deviations of its training texts.
        at: Updates behind the policy, or n.
        naturalness: Of a policy's answers to validation prompts, 0–100; None of best-of-n.
    """

    how: Literal["policy", "best-of-n"]
    pairs: int
    seed: int
    kl: float
    gold: float
    proxy: float
    at: int
    naturalness: float | None = None


@dataclass(frozen=True, slots=True)
class ProxyCurve:
    """The points of one way of optimising, of one number of pairs and one seed, by their distance."""

    how: Literal["policy", "best-of-n"]
    pairs: int
    seed: int
    points: tuple[ProxyPoint, ...]


@dataclass(frozen=True, slots=True)
class SeedPoints:
    """What one seed gave.

    Attributes:
        reward_models: Number of pairs → accuracy on held-out pairs, their number, and the step that was kept.
        seconds: As in `Work`.
    """

    reward_models: dict[str, dict[str, float]]
    seconds: dict[str, tuple[float, ...]]
    points: tuple[ProxyPoint, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The points of all seeds; what was asked for is the same for all."""

    task: str
    asked: dict[str, Any]
    seeds: dict[str, SeedPoints] = field(default_factory=dict)

    @property
    def points(self) -> list[ProxyPoint]:
        """All points."""
        return [point for seed in self.seeds.values() for point in seed.points]


def main() -> None:
    """Carry out what is left of the study; write its points and its picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", default="imdb", help="one of the file's [gold]")
    parser.add_argument("--start", type=Path, help="folder of the supervised runs [default: runs/mini/TASK/supervised]")
    parser.add_argument("--output", type=Path, help="for all that is made [default: runs/overoptimisation/TASK]")
    parser.add_argument("--points", type=Path, help="[default: points.json there]")
    parser.add_argument("--config", type=Path, default=HERE / "overoptimisation.toml")
    parser.add_argument("--pairs", type=int, nargs="+", help="instead of the file's")
    parser.add_argument("--seeds", type=int, nargs="+", help="instead of the file's")
    options = parser.parse_args()
    try:
        study = files.load_toml(options.config, Study)
        study = replace(study, pairs=tuple(options.pairs or study.pairs), seeds=tuple(options.seeds or study.seeds))
        if options.task not in study.gold:
            raise ConfigError(
                f"{options.config}: [gold] says nothing of {options.task}, only of {', '.join(study.gold)}."
            )
        output = options.output or Path("runs/overoptimisation") / options.task
        start = options.start or Path("runs/mini") / options.task / "supervised"
        work = Work(study, load_task(options.task, "mini"), study.gold[options.task], start, output)
        found = carry_out(work, options.points or output / "points.json")
        print(f"{options.task}, {work.gold}, seeds {', '.join(sorted(found.seeds))}\n\n{table(found)}")
    except GrueError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


def carry_out(work: Work, path: Path) -> Found:
    """Run the seeds whose points are not there; write points and picture after each.

    Raises:
        ConfigError: The points that are there are of another study.
    """
    asked = {key: value for key, value in files.plain(work.study).items() if key not in ("seeds", "gold")}
    found = Found(work.task.name, asked | {"gold": work.gold})
    if path.exists():
        there = from_dict(Found, files.read_json(path), str(path))
        if (there.task, there.asked) != (found.task, found.asked):
            raise ConfigError(f"{path}: holds points of another study; give another file with --points.")
        found = there
    for seed in work.study.seeds:
        if str(seed) in found.seeds:
            continue
        found.seeds[str(seed)] = points_of(work, seed)
        files.write_json(path, replace(found, seeds=dict(sorted(found.seeds.items()))))
    draw_proxies(curves_of(found.points), f"{work.task.name}: {work.gold}", path.with_suffix(".png"))
    return found


def curves_of(points: Sequence[ProxyPoint]) -> list[ProxyCurve]:
    """Return points as curves: trained policies first, by pairs and seed; points in the order of training or of n."""
    keys = sorted({(point.how != "policy", point.how, point.pairs, point.seed) for point in points})
    found = []
    for _, how, pairs, seed in keys:
        own = [point for point in points if (point.how, point.pairs, point.seed) == (how, pairs, seed)]
        found.append(ProxyCurve(how, pairs, seed, tuple(sorted(own, key=lambda point: point.at))))
    return found


def draw_proxies(curves: Sequence[ProxyCurve], title: str, path: Path) -> None:
    """Draw gold and proxy over the distance from the start, a colour for each number of pairs.

    A seed is a thin line; the mean of the seeds, which have the same points, a bold one. Distances are square roots
    of the KL, by which Gao et al. (2022, arXiv 2210.10760) fit gold rewards.

    Raises:
        ConfigError, Unavailable, DataError: As for `draw_frontier`.
    """
    counts = sorted({curve.pairs for curve in curves})
    colours = {count: COLOURS[number % len(COLOURS)] for number, count in enumerate(counts)}
    dashes: Mapping[str, Literal["-", ":"]] = {"policy": "-", "best-of-n": ":"}
    with canvas(path, title, 4.2) as figure:
        for number, (key, label) in enumerate({"gold": "gold reward", "proxy": "reward model (sd)"}.items()):
            axes = figure.add_subplot(1, 2, number + 1)
            axes.set_xlabel("√KL from the start (nats a response)")
            axes.set_ylabel(label)
            groups: dict[tuple[str, int], list[list[tuple[float, float]]]] = {}
            for curve in curves:
                points = [(math.sqrt(max(point.kl, 0.0)), getattr(point, key)) for point in curve.points]
                groups.setdefault((curve.how, curve.pairs), []).append(points)
            for (how, pairs), seeds in groups.items():
                style: dict[str, Any] = {"linestyle": dashes[how], "color": colours[pairs]}
                for points in seeds if len(seeds) > 1 else ():
                    axes.plot(*zip(*points, strict=True), **style, linewidth=0.6, alpha=0.35)
                means = [np.mean(at, axis=0) for at in zip(*seeds, strict=True)]
                axes.plot(*zip(*means, strict=True), **style, linewidth=1.6, marker=".")
            axes.set_xlim(left=0)
        marks = {f"{count:,} pairs": coloured_line(colour, "-") for count, colour in colours.items()}
        marks |= {
            how: coloured_line(GREY, dash) for how, dash in dashes.items() if any(one.how == how for one in curves)
        }
        count = len({curve.seed for curve in curves})
        of = "" if count == 1 else f" (means of {count} seeds; thin lines: each)"
        write_legend(figure, f"Dots: validations of a policy, or n = 1, 2, 4, …{of}", marks)


def points_of(work: Work, seed: int) -> SeedPoints:
    """Run what is left of a seed, and return its points."""
    timings = work.timings(seed)
    work.seconds = files.read_json(timings) if timings.exists() else {}
    points: list[ProxyPoint] = []
    models: dict[str, dict[str, float]] = {}
    drawn, held = samples_of(work, seed)
    for count in work.study.pairs:
        folder, manifest = reward_of(work, drawn, count, seed)
        judged = manifest.held_out
        if judged is None:
            raise ConfigError(f"{count} pairs are too few: none of them is held out to judge the reward model by.")
        models[str(count)] = {"accuracy": judged.accuracy, "held_out_pairs": judged.pairs, "kept": manifest.step}
        points += picked(work, held, folder, count, seed)
        points += trained(work, folder, count, seed)
    return SeedPoints(models, {part: tuple(took) for part, took in work.seconds.items()}, tuple(points))


def table(found: Found) -> str:
    """Return the study's table: a line for each number of pairs, means over seeds ± half of the 95 % t interval."""
    rows = [
        "pairs",
        "accuracy",
        "gold: start",
        "best",
        "last",
        "last − best",
        "KL of the last",
        "naturalness",
        "best of n",
    ]
    lines = [f"| {' | '.join(rows)} |", "|" + "---|" * len(rows)]
    for count in found.asked["pairs"]:
        policy = [point for point in found.points if (point.how, point.pairs) == ("policy", count)]
        picked = [point for point in found.points if (point.how, point.pairs) == ("best-of-n", count)]
        gold, of_n = by_seed(policy), by_seed(picked)
        best, best_n = (max(of, key=lambda at, of=of: sum(of[at].values())) for of in (gold, of_n))  # type: ignore[misc]
        first, last, most = min(gold), max(gold), max(of_n)
        lost = {seed: value - gold[best][seed] for seed, value in gold[last].items()}
        cells = [
            shown({seed: one.reward_models[str(count)]["accuracy"] for seed, one in found.seeds.items()}, 2),
            shown(gold[0]),
            f"{shown(gold[best])} after {best}",
            shown(gold[last]),
            "–" if best == last else shown(lost),
            shown({str(point.seed): point.kl for point in policy if point.at == last}, 1),
            " → ".join(
                shown({str(point.seed): point.naturalness or 0.0 for point in policy if point.at == at}, 1)
                for at in (first, last)
            ),
            ", ".join(f"{shown(of_n[n])} (n = {n})" for n in dict.fromkeys((best_n, most))),
        ]
        lines.append(f"| {count:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def by_seed(points: Sequence[ProxyPoint]) -> dict[int, dict[str, float]]:
    """Return updates, or n → seed → gold."""
    found: dict[int, dict[str, float]] = {}
    for point in points:
        found.setdefault(point.at, {})[str(point.seed)] = point.gold
    return found


def shown(values: Mapping[str, float], digits: int = 3) -> str:
    """Return a mean over seeds with half of its interval; the mean alone where there is one seed."""
    interval = satterthwaite_interval({"": list(values.values())})
    middle = sum(values.values()) / len(values)
    return f"{middle:.{digits}f}" + ("" if interval is None else f" ± {interval.half_width:.{digits}f}")


def samples_of(work: Work, seed: int) -> tuple[Path, Path]:
    """Draw and score the start's samples: to training prompts, for pairs, and to held-out ones, to pick from."""
    study, start = work.study, work.start / f"seed-{seed}"
    paths = []
    for split, samples, limit in (
        ("train", study.samples, study.prompts),
        ("validation", study.best_of, study.held_out),
    ):
        path = work.output / f"samples-{split}-{seed}.jsonl"
        work.timed(
            seed,
            f"samples of {split}",
            path.exists(),
            lambda path=path, split=split, samples=samples, limit=limit: grue.generate(  # type: ignore[misc]
                start, path, samples=samples, reward=work.gold, temperature=1.0, split=split, limit=limit
            ),
        )
        paths.append(path)
    return paths[0], paths[1]


def reward_of(work: Work, drawn: Path, count: int, seed: int) -> tuple[Path, RewardManifest]:
    """Make pairs and train a reward model on them."""
    pairs = work.output / f"pairs-{count}-{seed}.jsonl"
    pairs_from_samples(drawn, pairs, pairs=count, noise=work.study.noise, seed=seed)
    folder = work.output / f"reward-{count}-{seed}"
    made = work.timed(
        seed,
        f"reward model of {count} pairs",
        folder.exists(),
        lambda: train_reward(pairs, folder, **{"seed": seed, **work.study.reward}),
    )
    return folder, made


def picked(work: Work, held: Path, folder: Path, count: int, seed: int) -> list[ProxyPoint]:
    """Return what keeping the best of n by the reward model gives, for n = 1, 2, 4 and so on."""
    path = work.output / f"best-of-{count}-{seed}.json"

    def judge() -> list[list[float]]:
        examples = grue.examples(work.task, "validation")
        groups = read_scored(held, work.task, examples).groups
        metric = make_metric(f"model:{folder}")
        rows = [(group.example, text) for group in groups for text in group.texts]
        texts = [text for _, text in rows]
        values = metric.per_example(metric.statistics([example for example, _ in rows], texts)).tolist()
        sizes = [len(group.texts) for group in groups]
        ends = np.cumsum(sizes).tolist()
        proxies = [values[end - size : end] for size, end in zip(sizes, ends, strict=True)]
        files.write_json(path, {"gold": [list(group.scores) for group in groups], "proxy": proxies})
        return proxies

    if not path.exists():
        work.timed(seed, f"best of n by {count} pairs", False, judge)
    found = files.read_json(path)
    gold, proxy = np.array(found["gold"]), np.array(found["proxy"])
    by_gold, by_proxy = best_of(proxy, gold), best_of(proxy)
    start = ProxyPoint("best-of-n", count, seed, 0.0, float(gold.mean()), float(proxy.mean()), 1)
    more = [
        ProxyPoint("best-of-n", count, seed, point.kl, point.reward, by_proxy[n].reward, n)
        for n, point in by_gold.items()
    ]
    return [start, *more]


def trained(work: Work, folder: Path, count: int, seed: int) -> Iterator[ProxyPoint]:
    """Train a policy on the reward model alone, and yield its validations."""
    study = work.study
    term = f"model:{folder}"
    runs, system = work.output / "runs", f"{canonical(study.algorithm)}-{count}"
    log = runs / work.task.suite / work.task.name / system / f"seed-{seed}"
    done = (log / "final").exists()
    made = work.timed(
        seed,
        f"policy on {count} pairs",
        done,
        lambda: grue.train(
            work.task,
            study.algorithm,
            reward=f"{term} + 0*{work.gold}",
            init=work.start / f"seed-{seed}",
            seed=seed,
            runs=runs,
            system=system,
            **study.policy,
        ),
    )
    for _, line in files.read_jsonl(made.folder / "train.jsonl"):
        if "validation/kl" in line:
            gold, proxy = (line[f"validation/sampled_reward/{name}"] for name in (work.gold, term))
            kl, natural = line["validation/kl"], line["validation/naturalness"]
            yield ProxyPoint("policy", count, seed, kl, gold, proxy, line["update"], natural)


if __name__ == "__main__":
    main()
