"""The measures of experiments/acceptance.py, recomputed from the board's JSON."""

import json
from itertools import combinations

import pytest
from support.late import late
from support.paths import ROOT

acceptance, stats = late("acceptance"), late("scipy.stats")


@pytest.fixture(scope="module")
def board():
    return acceptance.read_board(ROOT / "leaderboard/mini.json")


@pytest.fixture(scope="module")
def rows():
    """System → task → seed → preference, of the rows that are ranked."""
    read = json.loads((ROOT / "leaderboard/mini.json").read_text())["rows"]
    return {
        row["system"]: {
            task: {int(seed): score for seed, score in cell["preference"]["by_seed"].items()}
            for task, cell in row["cells"].items()
        }
        for row in read
        if row["standing"] == "ranked"
    }


def methods(board, rows):
    return [row for row in board.rows if row.system in rows]


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def test_a_task_s_share_of_a_gain_is_that_of_the_means(board, rows):
    tasks = list(rows["supervised"])
    lines = list(acceptance.shares(methods(board, rows), tasks))
    assert len(lines) == 2 + len({*rows} - {"supervised"})
    gains = {
        task: mean(rows["supervised+grpo"][task].values()) - mean(rows["supervised"][task].values()) for task in tasks
    }
    shares = [gains[task] / sum(gains.values()) for task in tasks]
    line = next(line for line in lines if line.startswith("| supervised+grpo |"))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[2:-1] == [f"{share:.0%}" for share in shares] and cells[-1].startswith(f"{max(shares):.0%}")
    assert cells[-1].endswith("above 40 %") == (max(shares) > 0.4)


def test_a_pair_is_decided_after_holm_over_the_pairs_of_its_task(board, rows):
    names = [name for name in rows if name.startswith("supervised+")]
    found = acceptance.signs(board, [row for row in board.rows if row.system in names], ["wmt16"])
    pairs = list(combinations([row.system for row in board.rows if row.system in names], 2))
    scores = {name: [score for _, score in sorted(rows[name]["wmt16"].items())] for name in names}
    tests = [stats.ttest_rel(scores[a], scores[b]) for a, b in pairs]
    order = sorted(range(len(pairs)), key=lambda i: tests[i].pvalue)
    expected, is_open = dict.fromkeys(pairs, 0), True
    for step, i in enumerate(order):
        is_open = is_open and tests[i].pvalue * (len(pairs) - step) < 0.05
        if is_open:
            expected[pairs[i]] = 1 if tests[i].statistic > 0 else -1
    assert found == expected and any(found.values())


def test_halves_of_the_seeds_rank_alike_as_kendall_says(board, rows):
    chosen = [row.system for row in methods(board, rows)]
    seeds = sorted(rows[chosen[0]]["imdb"])
    tasks = [task for task in rows["supervised"] if task != "imdb"]
    taus = []
    for half in combinations(seeds, len(seeds) // 2):
        rest = [seed for seed in seeds if seed not in half]
        first, second = (
            [mean(rows[name][task][seed] for task in tasks for seed in part) for name in chosen]
            for part in (half, rest)
        )
        taus.append(stats.kendalltau(first, second).statistic)
    line = list(acceptance.halves(methods(board, rows), [*tasks, "imdb"]))[1]
    assert line.startswith("M4, without imdb:") and f"{mean(taus):.2f} on average, {min(taus):.2f} at least" in line


def test_a_control_above_every_method_is_named(board, rows):
    *_, last = acceptance.controls(board, methods(board, rows), ["imdb", "wmt16"])
    null = next(row for row in board.rows if row.system == "null").cells["imdb"].preference.mean
    best = max(mean(scores["imdb"].values()) for scores in rows.values())
    assert ("imdb" in last) == (null > best)
