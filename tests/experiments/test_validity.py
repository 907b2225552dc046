"""The tables of experiments/validity.py, as docs/background/validity.md shows them."""

import json
import math

import pytest
from support.late import late
from support.paths import ROOT

from grue.stats.paired import Contrast

validity, stats = late("validity"), late("scipy.stats")


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("seeds", [5, 10])
def test_the_smallest_difference_is_seen_four_times_in_five(paired, seeds):
    a, b = (50.0, 51.5, 49.0, 50.5, 52.0), (48.0, 48.5, 48.0, 49.5, 49.0)
    found = validity.smallest_difference([Contrast(a, b, paired=paired)], seeds)
    if paired:
        spread = stats.tstd([x - y for x, y in zip(a, b, strict=True)])
        error, degrees = spread / math.sqrt(seeds), seeds - 1
    else:
        spreads = [stats.tvar(a) / seeds, stats.tvar(b) / seeds]
        error = math.sqrt(sum(spreads))
        degrees = sum(spreads) ** 2 / sum(spread**2 / (seeds - 1) for spread in spreads)
    power = 1 - stats.nct.cdf(stats.t.ppf(0.975, degrees), degrees, found / error)
    assert power == pytest.approx(0.8, abs=0.02)


def test_the_mean_of_tasks_that_are_equally_noisy_needs_less():
    one = Contrast((50.0, 51.5, 49.0, 50.5, 52.0), (48.0, 48.5, 48.0, 49.5, 49.0), paired=True)
    quantiles = [sum(stats.t.ppf((0.975, 0.8), degrees)) for degrees in (4, 16)]
    ratio = validity.smallest_difference([one] * 4, 5) / validity.smallest_difference([one], 5)
    assert ratio == pytest.approx(quantiles[1] / quantiles[0] / 2)


def test_the_page_shows_the_tables_of_the_board_that_ships():
    page = (ROOT / "docs/background/validity.md").read_text(encoding="utf-8")
    board = validity.read_board(ROOT / "leaderboard/mini.json")
    for table in (validity.told_apart(board), validity.signs(board)):
        assert "\n".join(table) in page, "python experiments/validity.py prints them"


def test_what_was_held_out_is_compared_with_where_the_row_began():
    lines = list(validity.parted(validity.read_board(ROOT / "leaderboard/mini.json")))
    rows = {row["system"]: row for row in json.loads((ROOT / "leaderboard/mini.json").read_text())["rows"]}
    for name, start, paired in (("supervised+grpo", "supervised", True), ("ppo", "zero-shot", False)):
        line = next(line for line in lines if line.startswith(f"| cnn_dailymail | `{name}` − `{start}` |"))
        for text, axis in zip(line.split("|")[3:6], ("preference", "held_out", "naturalness"), strict=True):
            a, b = (list(rows[one]["cells"]["cnn_dailymail"][axis]["by_seed"].values()) for one in (name, start))
            found = stats.ttest_rel(a, b) if paired else stats.ttest_ind(a, b, equal_var=False)
            low, high = found.confidence_interval(0.95)
            expected = f"{(low + high) / 2:+.2f} ± {(high - low) / 2:.2f}"
            assert text.strip() == (f"**{expected}**" if low > 0 or high < 0 else expected)
    assert {line.split(" | ")[0] for line in lines[2:]} == {"| cnn_dailymail", "| commongen"}


def test_ranks_by_two_seeds_are_compared_with_those_by_the_others():
    board = validity.read_board(ROOT / "leaderboard/mini.json")
    rows = json.loads((ROOT / "leaderboard/mini.json").read_text())["rows"]
    ranked = [row for row in rows if row["standing"] == "ranked"]
    expected = []
    for chosen in ("12", "13", "14", "15", "23", "24", "25", "34", "35", "45"):
        halves = [
            [
                sum(cell["preference"]["by_seed"][seed] for cell in row["cells"].values() for seed in seeds)
                / len(seeds)
                for row in ranked
            ]
            for seeds in (chosen, [seed for seed in "12345" if seed not in chosen])
        ]
        expected.append(stats.kendalltau(*halves).statistic)
    found = validity.agreements([row for row in board.rows if row.standing == "ranked"])
    assert found == pytest.approx(expected)
    assert validity.halves(board) in (ROOT / "docs/background/validity.md").read_text(encoding="utf-8").replace(
        "\n", " "
    )


def test_signs_are_those_of_the_papers_tables():
    """Table 33: Supervised .186 METEOR and .437 intent accuracy, Supervised + PPO .198 and .455."""
    board = validity.read_board(ROOT / "leaderboard/mini.json")
    line = next(line for line in validity.signs(board) if line.startswith("| `supervised+ppo` − `supervised` |"))
    column = [task.name for task in board.tasks].index("dailydialog")
    assert line.strip("| ").split(" | ")[1 + column].startswith("+1.5, ")


def test_a_question_is_answered_by_seeds_as_pairs():
    rows = json.loads((ROOT / "leaderboard/mini.json").read_text())["rows"]

    def seeds(system):
        by_seed = next(row["cells"]["imdb"]["preference"]["by_seed"] for row in rows if row["system"] == system)
        return [by_seed[seed] for seed in "12345"]

    above, below = seeds("supervised+ppo"), seeds("supervised")
    test = stats.ttest_rel(above, below)
    half = (test.confidence_interval().high - test.confidence_interval().low) / 2
    board = validity.read_board(ROOT / "leaderboard/mini.json")
    head, _, *lines = [line.strip("| ").split(" | ") for line in validity.questions(board)]
    cell = next(line for line in lines if line[0] == "imdb")[head.index("Sup+RL > Sup?")]
    assert test.pvalue < 0.05
    assert cell == f"yes, {sum(above) / 5 - sum(below) / 5:+.1f} ± {half:.1f}; paper ✓"


def test_the_papers_marks_are_in_its_order_of_tasks():
    assert set(validity.TASKS) == {task.name for task in validity.read_board(ROOT / "leaderboard/mini.json").tasks}
    assert {len(marks) for *_, marks in validity.QUESTIONS.values()} == {len(validity.TASKS)}
    assert {*"".join(marks for *_, marks in validity.QUESTIONS.values())} == {*"✓✗"}
