"""Boards for the tests of the page: small ones spelt out, and crowded ones drawn from a seed."""

import random
from dataclasses import replace
from functools import cache
from pathlib import Path

from support.factories import FLUENT, LIKED, a_result, a_score, a_task, entries

from grue.leaderboard.board import Board
from grue.leaderboard.rank import rank
from grue.records import About, Entry, Result, Score
from grue.submissions.reported import Figure, Publication, Reported, ReportedColumn, ReportedRow, ReportedTable
from grue.task_files import load_task, task_names
from grue.tasks import Chat, MetricSpec, Prompt, Task

STORIES, REVIEWS = a_task("stories"), a_task("reviews")
DIVERSITY = "distinct1 distinct2 entropy1 entropy2 mean_length msttr unique1 unique2 vocabulary".split()
HOSTILE = "</script><script>alert('x')</script>\u202egnp.\"&amp;"


def small_board() -> Board:
    """Three ranked systems of which two share a rank, a preliminary one, a partial one, a reference, and a paper."""
    found: list[Entry] = []
    for task, shift in ((STORIES, 0.0), (REVIEWS, 4.0)):
        for name, at, natural in (("ppo", 60.5, 30.0), ("nlpo", 61.0, 45.0), ("supervised", 40.0, 55.0)):
            values = {seed: at + shift + step for seed, step in enumerate((-1.0, -0.5, 0.0, 0.5, 1.0), start=1)}
            about = About(algorithm=name, backbone="mini:causal", parameters=1_417_600, authors=("Ada Lovelace",))
            found += [
                replace(entry, about=about) for entry in entries(task, name, values, "rescored", naturalness=natural)
            ]
        found += entries(task, "young", {1: 50.0, 2: 52.0, 3: 51.0}, naturalness=40.0)
        found += [replace(entry, about=About(deterministic=True)) for entry in entries(task, "oracle", {0: 95.0})]
    found += entries(STORIES, "partial", {seed: 30.0 + seed for seed in range(1, 6)})
    return replace(rank(found, [STORIES, REVIEWS]), reported=(a_paper(),))


def trained_board() -> Board:
    """A supervised system, two that were trained from it on stories, one of them hacking its reward, and references.

    The one that hacks states what its whole runs took.
    """
    found: list[Entry] = []
    calls = {"supervised": 0.0, "supervised+ppo": 2048.0, "nlpo": 4096.0}
    for name, at, natural in (("supervised", 40.0, 60.0), ("supervised+ppo", 50.0, 61.0), ("nlpo", 48.0, 40.0)):
        values = {seed: at + seed / 10 for seed in range(1, 6)}
        about = About(
            name, "mini:causal", None, ("Ada",), "MIT", "none", "an hour", "https://example.org/x", log="docs/log.md"
        )
        for entry in entries(STORIES, name, values, "verified", naturalness=natural):
            seed = entry.result.seed
            whole = {"tokens": 2000.0 * seed, "reward_calls": 4096.0, "seconds": 180.0}
            system = {
                **{"name": name, "algorithm": name, "weights": f"{name}{seed}", "parameters": 1_417_600},
                **({"start": f"supervised{seed}"} if "+" in name else {}),
                "training": {"tokens": 1000.0 * seed, "reward_calls": calls[name], "seconds": 90.0},
                "update": 0 if name == "nlpo" and seed > 3 else 16,
                **({} if name == "supervised" else {"reward": "liked"}),
                **({"last": {"update": 16, "training": whole}} if name == "nlpo" else {}),
            }
            code = {"version": "0.1.0", "commit": "09d6de52ad0c3c98", "dirty": False}
            found.append(replace(entry, result=replace(entry.result, system=system, grue=code), about=about))
    for name, at in (("null", 5.0), ("copy", 6.0), ("oracle", 99.0)):
        about = About(deterministic=True)
        found += [replace(entry, about=about) for entry in entries(STORIES, name, {0: at}, "rescored", naturalness=at)]
    return rank(found, [STORIES])


def marked_board() -> Board:
    """Rows with all that can be marked: a reward, a chat prompt, an endpoint, a preset, another backbone."""
    liked = [MetricSpec(name, "preference", range=(0.0, 1.0)) for name in ("meteor", "rougeL", "coverage")]
    chat = Prompt(8, "left", Chat(1, "{prompt}"))
    task = a_task("texts", (*liked, FLUENT), reward="meteor", families=(("meteor", "rougeL"),), prompt=chat)
    asked = {"generation": {"prompting": {"kind": "chat", "version": 1, "hash": task.chat_hash, "shots": []}}}
    learned = {"algorithm": "ppo", "reward": "meteor", "backbone": "mini:causal"}
    served = {"algorithm": "endpoint", "endpoint": {"url": "http://localhost/v1"}}
    found: list[Entry] = []
    for number, (name, said, preset, changes) in enumerate(
        [
            ("ppo", learned, "", {}),
            ("ppo", learned, "", asked),  # of the same name
            ("nlpo", learned, "stable", {}),
            ("big", {**learned, "backbone": "org/large"}, "", {}),
            ("supervised", {"algorithm": "supervised", "reward": ""}, "", {}),
            ("served", served, "", asked),
            ("done", served, "", {}),
        ]
    ):
        for seed in range(1, 6):
            values = {"meteor": 0.6, "rougeL": 0.5, "coverage": 0.2}
            scores = tuple(a_score(name, value + seed / 100 - number / 50) for name, value in values.items())
            made = replace(
                a_result(task, name, seed, 50.0 - number, scores=scores, **changes), system={"name": name, **said}
            )
            found.append(Entry(made, Path(f"runs/{number}/{name}/seed-{seed}/result.json"), "local", preset=preset))
    return rank(found, [task])


def another_reward(board: Board) -> Board:
    """`marked_board` whose last row is held out by other metrics."""
    *rows, last = board.rows
    cell = replace(last.cells["texts"], held_out_metrics=("meteor", "rougeL"))
    return replace(board, rows=(*rows, replace(last, cells={"texts": cell})))


def a_paper() -> Reported:
    source = Publication("doe2020", "Jane Doe", "On <writing>", "ACL", 2020, "https://example.org/doe", "version 1")
    columns = (ReportedColumn("liked", "higher", "Counted on <another> set."), ReportedColumn("length", "none"))
    rows = (
        ReportedRow("PPO", "liked", "", {"liked": Figure(0.5, 0.01)}),
        ReportedRow("Lead", "", "", {"length": Figure(12.0)}),
    )
    return Reported(source, (ReportedTable("stories", "Table 1", "test", None, "Read with care.", columns, rows),))


def empty_board() -> Board:
    return rank([], [STORIES, REVIEWS])


def hostile_board(name: str = HOSTILE) -> Board:
    """One system whose name, and all that is said about it, tries to leave its place."""
    about = About(algorithm=name, backbone=name, authors=(name,), training_data=name, link="javascript:alert(1)")
    values = {seed: 40.0 + seed for seed in range(1, 6)}
    found = [replace(entry, about=about) for task in (STORIES, REVIEWS) for entry in entries(task, name, values)]
    return replace(rank(found, [STORIES, REVIEWS]), notes=(f"Seen: {name}",))


def unnatural_board() -> Board:
    """Tasks without naturalness, and a system of one seed."""
    task = a_task("stories", metrics=(LIKED,))
    return rank(entries(task, "lonely", {1: 40.0}, naturalness=None), [task])


@cache
def crowded_board(systems: int, seeds: int = 5) -> Board:
    """Systems on the seven tasks of the mini suite with all their metrics; names as long as people give them."""
    generator = random.Random(4)
    tasks = [load_task(name, "mini") for name in task_names("mini")]
    found: list[Entry] = []
    for i in range(systems):
        name = f"supervised+{('ppo', 'nlpo', 'grpo')[i % 3]}-kl-{i}"
        about = About("ppo", "mini:seq2seq", 1_417_600, ("Ada Lovelace", "Kurt Gödel"), "Apache-2.0", "none", "2 hours")
        skill = generator.uniform(0.25, 0.5)
        for task in tasks:
            shift = generator.uniform(-0.05, 0.05)
            for seed in range(1, seeds + 1):
                result = _drawn(task, name, seed, skill + shift, generator)
                found.append(Entry(result, Path(f"{task.name}/{name}/{seed}"), "rescored", about))
    return rank(found, tasks)


def _drawn(task: Task, system: str, seed: int, quality: float, generator: random.Random) -> Result:
    scores: list[Score] = []
    for spec in task.metrics:
        share = min(0.97, max(0.03, quality + generator.gauss(0, 0.012)))
        value = spec.reference / share if spec.reference else spec.range[0] + share * (spec.range[1] - spec.range[0])
        scores.append(replace(a_score(spec.name, value, spec.axis, spec.direction), scaled=spec.scale(value)))
    means = {
        axis: [score.scaled for score in scores if score.axis == axis and score.scaled is not None]
        for axis in ("preference", "naturalness")
    }
    preference, naturalness = (sum(values) / len(values) for values in means.values())
    scores += [a_score(name, generator.uniform(0.2, 900), "diversity") for name in DIVERSITY]
    training = {"tokens": generator.uniform(1e5, 1e6), "episodes": 8000.0 + seed, "seconds": generator.uniform(60, 900)}
    made = {"training": training, "update": generator.choice((0, 8, 16)), "parameters": 1_417_600}
    changes = {"scores": tuple(scores), "split": task.data.evaluation}
    result = a_result(task, system, seed, preference, naturalness, **changes)
    return replace(result, system={**result.system, **made})
