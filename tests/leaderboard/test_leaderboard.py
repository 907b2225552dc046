"""The board: who is ranked, how ties are shared, what is left out, and what never changes."""

import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.factories import LIKED, a_result, a_score, a_task, entries

from grue import files
from grue.errors import ConfigError, DataError
from grue.leaderboard.board import Board, Row
from grue.leaderboard.entries import find_results, incomplete
from grue.leaderboard.rank import rank
from grue.records import Entry, Result
from grue.tasks import Split, Task

STORIES = a_task("stories")
JOKES = a_task("jokes", metrics=(LIKED,))
T_975_4 = 2.776445105197793  # Student's t, 95 %, 4 degrees of freedom


def five(centre: float, step: float = 1.0) -> dict[int, float]:
    return {seed: centre + step * (seed - 3) for seed in range(1, 6)}


def both(system: str, centre: float, **changes: Any) -> list[Entry]:
    return [
        *entries(STORIES, system, five(centre), **changes),
        *entries(JOKES, system, five(centre), naturalness=None, **changes),
    ]


def entry(result: Result) -> Entry:
    place = Path(f"runs/mini/{result.task}/{result.system['name']}/seed-{result.seed}/result.json")
    return Entry(result, place, "local")


def row(board: Board, system: str) -> Row:
    (found,) = [row for row in board.rows if row.system == system]
    return found


def ranks(board: Board) -> dict[str, int | None]:
    return {row.system: row.rank for row in board.rows}


def test_one_task_by_hand() -> None:
    board = rank(entries(STORIES, "ppo", {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0, 5: 5.0}, naturalness=40.0), [STORIES])
    (ppo,) = board.rows
    assert (ppo.rank, ppo.standing, ppo.status, ppo.preference, ppo.naturalness) == (1, "ranked", "local", 3.0, 40.0)
    assert ppo.interval is not None
    assert ppo.interval.half_width == pytest.approx(T_975_4 * (2.5 / 5) ** 0.5)
    cell = ppo.cells["stories"]
    assert cell.seeds == (1, 2, 3, 4, 5)
    assert cell.preference is not None
    assert cell.preference.by_seed == {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0, 5: 5.0}
    assert cell.metrics["liked"].mean == pytest.approx(0.03)
    assert cell.metrics["liked"].sd == pytest.approx(2.5**0.5 / 100)
    assert cell.metrics["fluent"].mean == 50.0


def test_the_headline_is_the_mean_over_tasks_and_naturalness_stays_beside_it() -> None:
    results = entries(STORIES, "ppo", five(30.0), naturalness=80.0) + entries(
        JOKES, "ppo", five(50.0), naturalness=None
    )
    (ppo,) = rank(results, [STORIES, JOKES]).rows
    assert ppo.preference == 40.0
    assert ppo.naturalness == 80.0  # jokes has no metric of it
    assert ppo.cells["jokes"].naturalness is None


def test_systems_that_cannot_be_told_apart_share_a_rank() -> None:
    # A difference of two means over two tasks has the standard error 0.71 and 16 degrees of freedom: 1.2 has p = 0.11,
    # 2.4 has p = 0.004, times three after Holm.
    board = rank(
        both("first", 50.0) + both("second", 48.8) + both("third", 47.6) + both("last", 20.0), [STORIES, JOKES]
    )
    assert ranks(board) == {"first": 1, "second": 1, "third": 2, "last": 4}
    assert [row.system for row in board.rows] == ["first", "second", "third", "last"]


def test_a_wide_interval_brings_nobody_past_a_higher_mean() -> None:
    wide = entries(STORIES, "wide", five(45.0, step=10.0))
    board = rank(wide + entries(STORIES, "sure", five(50.0)) + entries(STORIES, "top", five(55.0)), [STORIES])
    assert [(row.system, row.rank) for row in board.rows] == [("top", 1), ("sure", 2), ("wide", 2)]


def test_equal_scores_without_spread_share_a_rank() -> None:
    same = dict.fromkeys(range(5), 5.0)
    board = rank(entries(STORIES, "null", same) + entries(STORIES, "copy", same), [STORIES])
    assert ranks(board) == {"copy": 1, "null": 1}


def test_a_new_system_changes_no_other_score_or_interval() -> None:
    before = rank(both("ppo", 40.0), [STORIES, JOKES])
    after = rank(both("ppo", 40.0) + both("better", 90.0), [STORIES, JOKES])
    old, new = row(before, "ppo"), row(after, "ppo")
    assert (new.preference, new.interval, new.naturalness, new.cells) == (
        old.preference,
        old.interval,
        old.naturalness,
        old.cells,
    )
    assert (old.rank, new.rank) == (1, 2)


@pytest.mark.parametrize(
    ("seeds", "standing"), [(1, "too few seeds"), (2, "too few seeds"), (3, "preliminary"), (4, "preliminary")]
)
def test_too_few_seeds_are_shown_but_neither_ranked_nor_in_anyone_elses_rank(seeds: int, standing: str) -> None:
    quick = entries(STORIES, "quick", {seed: 90.0 + seed for seed in range(seeds)})
    board = rank(quick + entries(STORIES, "ppo", five(40.0)), [STORIES])
    assert (row(board, "quick").standing, row(board, "quick").rank) == (standing, None)
    assert row(board, "quick").preference == pytest.approx(90 + (seeds - 1) / 2)
    assert (row(board, "quick").interval is None) == (seeds == 1)
    assert row(board, "ppo").rank == 1
    assert [row.system for row in board.rows] == ["ppo", "quick"]


def test_the_task_with_the_fewest_seeds_decides() -> None:
    results = entries(STORIES, "ppo", five(40.0)) + entries(JOKES, "ppo", {1: 40.0, 2: 41.0, 3: 42.0}, naturalness=None)
    assert rank(results, [STORIES, JOKES]).rows[0].standing == "preliminary"


def test_a_partial_system_has_cells_but_no_headline() -> None:
    board = rank(entries(STORIES, "ppo", five(40.0)), [STORIES, JOKES])
    (ppo,) = board.rows
    assert (ppo.standing, ppo.rank, ppo.preference, ppo.interval, ppo.naturalness) == (
        "partial",
        None,
        None,
        None,
        None,
    )
    assert list(ppo.cells) == ["stories"]
    assert rank(entries(STORIES, "ppo", five(40.0)), [STORIES]).rows[0].rank == 1  # in the task's own view it is whole


def test_limited_results_stay_apart() -> None:
    limited = entries(STORIES, "ppo", five(99.0), limited=True)
    board = rank(entries(STORIES, "ppo", five(40.0)) + limited, [STORIES])
    assert [(row.standing, row.rank, row.preference) for row in board.rows] == [
        ("ranked", 1, 40.0),
        ("limited", None, 99.0),
    ]


def test_rows_of_another_status_stay_apart() -> None:
    board = rank(both("ppo", 40.0) + both("ppo", 50.0, status="rescored"), [STORIES, JOKES])
    assert [(row.status, row.preference, row.rank) for row in board.rows] == [("rescored", 50.0, 1), ("local", 40.0, 2)]


def test_a_failed_run_counts_as_the_floor() -> None:
    failed = {"status": "failed", "scores": ()}
    results = [
        *entries(STORIES, "ppo", {1: 40.0, 2: 40.0, 3: 40.0, 4: 40.0}, naturalness=50.0),
        Entry(a_result(STORIES, "ppo", 5, None, None, **failed), Path("runs/5"), "local"),
    ]
    board = rank(results, [STORIES])
    (ppo,) = board.rows
    assert (ppo.preference, ppo.naturalness, ppo.standing) == (32.0, 40.0, "ranked")
    assert ppo.cells["stories"].failed == (5,)
    assert ppo.cells["stories"].metrics["liked"].by_seed == {1: 0.4, 2: 0.4, 3: 0.4, 4: 0.4}
    assert board.notes == ("stories: ppo (seed 5) failed and counts as 0.",)


def test_what_training_did_not_move_is_told() -> None:
    results = [
        replace(entry, result=replace(entry.result, system={"name": "ppo", "update": update}))
        for entry, update in zip(entries(STORIES, "ppo", {1: 41.0, 2: 42.0, 3: 43.0}), (0, 7, 0), strict=True)
    ]
    board = rank(results, [STORIES])
    assert board.notes == ("stories: ppo (seeds 1, 3) did not beat the start on validation: update 0 was kept.",)


def test_a_failed_run_cannot_bring_its_own_score() -> None:
    claimed = entries(STORIES, "ppo", five(99.0), status="reported")
    forged = [Entry(a_result(STORIES, "ppo", e.result.seed, 99.0, status="failed"), e.path, e.status) for e in claimed]
    (ppo,) = rank(forged, [STORIES]).rows
    assert ppo.preference == 0.0
    assert ppo.cells["stories"].metrics == {}


def test_the_same_run_twice_names_both_files() -> None:
    twins = [Entry(a_result(STORIES, "ppo", 1, 40.0), Path(f"runs/seed-{n}/result.json"), "local") for n in (1, 2)]
    message = (
        "Two results claim to be ppo on stories with seed 1: "
        "runs/seed-1/result.json and runs/seed-2/result.json; remove one."
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        rank(reversed(twins), [STORIES])


def test_results_of_another_version_are_left_out_with_a_note() -> None:
    old = entries(STORIES, "ppo", {2: 90.0, 1: 90.0}, task_hash="0" * 64) + entries(
        STORIES, "old", {7: 1.0}, task_hash="1"
    )
    board = rank(entries(STORIES, "ppo", five(40.0)) + old, [STORIES])
    assert [(row.system, row.preference) for row in board.rows] == [("ppo", 40.0)]
    assert board.notes == (
        "stories: old (seed 7); ppo (seeds 1, 2) left out, made for another version of the task; "
        "evaluate again with `grue evaluate --force`.",
    )


def test_results_of_a_run_in_progress_are_left_out_with_a_note() -> None:
    (early,) = entries(STORIES, "early", {1: 90.0})
    early = replace(early, result=replace(early.result, system={**early.result.system, "unfinished": True}))
    board = rank([*entries(STORIES, "ppo", five(40.0)), early], [STORIES])
    assert [row.system for row in board.rows] == ["ppo"]
    assert board.notes == (
        "stories: early (seed 1) left out, made while the run was not finished; "
        "evaluate again with `grue evaluate --force`.",
    )


def test_results_of_another_split_or_of_other_examples_are_left_out_with_a_note() -> None:
    frozen = Split("test", examples=4, ids_sha256="a" * 64)
    task = a_task("stories", data=replace(STORIES.data, splits={"test": frozen}))
    results = [
        *entries(task, "tuned", {1: 90.0}, split="validation"),
        *entries(task, "other", {1: 90.0}, data={"ids_sha256": "b" * 64}),
        *entries(task, "part", {1: 90.0}, data={"examples": 3}),
        *entries(task, "ppo", {1: 40.0}, data={"ids_sha256": "a" * 64, "examples": 4}),
    ]
    board = rank(results, [task])
    assert list(ranks(board)) == ["ppo"]
    assert board.notes == (
        "stories: other (seed 1); part (seed 1) left out, made on other examples than the task's; "
        "evaluate again with `grue evaluate --force`.",
        "stories: tuned (seed 1) left out, made on the split 'validation' instead of 'test'; "
        "evaluate again with `grue evaluate --force`.",
    )


def test_results_of_other_suites_and_tasks_are_none_of_this_board() -> None:
    elsewhere = entries(a_task("stories", suite="grue"), "ppo", five(90.0)) + entries(JOKES, "nlpo", five(90.0))
    board = rank(entries(STORIES, "ppo", five(40.0)) + elsewhere, [STORIES])
    assert [(row.system, row.preference) for row in board.rows] == [("ppo", 40.0)]
    assert board.notes == ()


def test_values_computed_in_two_ways_are_noted() -> None:
    scores = (replace(a_score("liked", 0.4), signature="liked|v2"),)
    newer = [Entry(a_result(STORIES, "new", 1, 40.0, scores=scores), Path("runs/new"), "local")]
    board = rank(entries(STORIES, "ppo", five(40.0)) + newer, [STORIES])
    assert board.notes == ("stories: liked was computed in 2 ways, liked|v1 and liked|v2; score the runs again.",)


def test_what_could_not_be_scored_is_noted_once_and_leaves_no_naturalness() -> None:
    task = a_task()
    reasons = ("fluent: fluent cannot run here:\n- There is no program '/home/me/java'.",)
    whole = entries(task, "ppo", dict.fromkeys((1, 2, 3), 50.0))
    lacking = entries(task, "nlpo", dict.fromkeys((1, 2, 3), 60.0), naturalness=None, errors=reasons)
    board = rank([*whole, *lacking], [task])
    assert {row.system: row.naturalness for row in board.rows} == {"ppo": 50.0, "nlpo": None}
    assert [row.system for row in board.rows] == ["nlpo", "ppo"]
    assert board.notes == (
        "stories: fluent could not be computed for nlpo (seeds 1, 2, 3); each result.json says why.",
    )


def test_columns_are_the_task_files_metrics_then_what_else_was_measured() -> None:
    scores = (a_score("words", 9.0, "diversity"), a_score("bigrams", 5.0, "diversity"), a_score("liked", 0.4))
    board = rank([Entry(a_result(STORIES, "ppo", 1, 40.0, scores=scores), Path("r"), "local")], [STORIES])
    (task,) = board.tasks
    assert [(c.metric, c.axis, c.direction, c.range, c.reference) for c in task.columns] == [
        ("liked", "preference", "higher", (0.0, 1.0), None),
        ("fluent", "naturalness", "lower", None, 20.0),
        ("bigrams", "diversity", "higher", None, None),
        ("words", "diversity", "higher", None, None),
    ]


def test_a_result_without_a_score_that_its_task_has_is_an_error() -> None:
    result = Entry(a_result(STORIES, "ppo", 1, 40.0, naturalness=None), Path("runs/result.json"), "local")
    message = "runs/result.json: naturalness is missing, although the task scores it; score the run again."
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        rank([result], [STORIES])


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([], "A board shows the tasks of one suite, not of 0: none."),
        ([STORIES, a_task(suite="grue")], "A board shows the tasks of one suite, not of 2: grue, mini."),
    ],
)
def test_a_board_shows_one_suite(tasks: list[Task], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        rank([], tasks)


def test_no_order_matters() -> None:
    results = both("ppo", 40.0) + both("nlpo", 41.0) + both("ppo", 30.0, status="rescored")
    results += entries(STORIES, "half", five(3.0)) + entries(STORIES, "old", five(3.0), task_hash="0")
    board = rank(results, [STORIES, JOKES])
    generator = random.Random(0)
    for _ in range(20):
        generator.shuffle(results)
        assert rank(results, [JOKES, STORIES]) == board


def test_results_are_found_where_runs_put_them(tmp_path: Path) -> None:
    assert find_results(tmp_path / "runs") == ([], [])
    for seed in (1, 10, 2):
        result = a_result(STORIES, "ppo", seed, 40.0 + seed)
        files.write_json(tmp_path / f"runs/mini/stories/ppo/seed-{seed}/result.json", result)
    (tmp_path / "runs/mini/stories/ppo/seed-3").mkdir()
    found, out = find_results(tmp_path / "runs")
    assert out == []
    assert sorted(entry.result.seed for entry in found) == [1, 2, 10]
    assert {entry.status for entry in found} == {"local"}
    assert found[0].result == a_result(STORIES, "ppo", found[0].result.seed, 40.0 + found[0].result.seed)


def test_a_damaged_result_names_its_file_and_stops_no_other(tmp_path: Path) -> None:
    files.write_json(tmp_path / "mini/stories/ppo/seed-2/result.json", a_result(STORIES, "ppo", 2, 40.0))
    path = tmp_path / "mini/stories/ppo/seed-1/result.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"schema": 1, "seed": NaN}')
    found, out = find_results(tmp_path)
    assert [entry.result.seed for entry in found] == [2]
    assert [one.path for one in out] == [path]
    assert out[0].note == (
        f"Left out: {path}: not valid JSON: NaN is not a JSON number. Evaluate the run again with "
        "`grue evaluate --force`, or remove the file."
    )


def test_a_copy_of_a_run_beside_it_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "mini/stories/ppo"
    for name in ("seed-1", "seed-1.bak", "seed-2"):
        files.write_json(folder / name / "result.json", a_result(STORIES, "ppo", 1, 40.0))
    found, out = find_results(tmp_path)
    assert [entry.path for entry in found] == [folder / "seed-1/result.json"]
    assert [one.why for one in out] == [
        f"{folder / name / 'result.json'}: claims to be ppo on stories with seed 1, as {folder / 'seed-1/result.json'} does."
        for name in ("seed-1.bak", "seed-2")
    ]


def test_of_two_copies_away_from_home_neither_is_taken(tmp_path: Path) -> None:
    paths = [tmp_path / f"mini/stories/{name}/seed-1/result.json" for name in ("mine", "yours")]
    for path in paths:
        files.write_json(path, a_result(STORIES, "ppo", 1, 40.0))
    found, out = find_results(tmp_path)
    assert (found, [one.path for one in out]) == ([], paths)
    paths[1].unlink()
    assert [entry.path for entry in find_results(tmp_path)[0]] == paths[:1]  # a run's folder may have another name


def test_a_local_result_without_a_score_of_its_task_is_incomplete() -> None:
    lacking = replace(a_result(STORIES, "ppo", 1, None), errors=("liked: no model",))
    found = [entry(lacking), entry(a_result(STORIES, "ppo", 2, 40.0)), entry(a_result(STORIES, "ppo", 3, 40.0, None))]
    out = incomplete(found, [STORIES])
    assert [one.why for one in out] == [
        f"{found[0].path}: preference is missing, although the task scores it; score the run again. It was not scored "
        "by liked: no model",
        f"{found[2].path}: naturalness is missing, although the task scores it; score the run again.",
    ]
    unmeasured = entry(replace(found[2].result, errors=("fluent: no model",)))  # the board says that of naturalness
    other = entry(replace(lacking, task_hash="0"))  # left out anyhow, as a misfit
    failed = entry(replace(lacking, status="failed"))
    assert incomplete([unmeasured, other, failed], [STORIES]) == []
    with pytest.raises(DataError, match="preference is missing"):
        rank([found[0]], [STORIES])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "not a result of schema 1, which this version of grue reads: 2."),
        ({"seed": "1"}, "seed: expected a whole number, found str '1'."),
        ({"system": {}}, "system: the key 'name' is missing."),
        ({"system": {"name": "ppo", "parameters": "9"}}, "system: parameters: expected a whole number, found str '9'."),
        ({"colour": 1}, "unknown key 'colour'. Known: schema, status, "),
    ],
)
def test_a_file_that_is_no_result_says_why(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = tmp_path / "mini/stories/ppo/seed-1/result.json"
    files.write_json(path, files.plain(a_result(STORIES, "ppo", 1, 40.0)) | change)
    found, out = find_results(tmp_path)
    assert found == [] and out[0].why.startswith(f"{path}: {message}")
