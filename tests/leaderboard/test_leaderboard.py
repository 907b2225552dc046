"""The board: who is ranked, what stands beside the ranks, what is left out, and what never changes."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from support.boards import JOKES, STORIES, five, ranks, references, row, with_result, with_system
from support.factories import a_result, a_score, a_task, entries

from grue import files
from grue.errors import ConfigError, DataError
from grue.leaderboard.entries import find_results, incomplete
from grue.leaderboard.rank import rank
from grue.records import Entry
from grue.tasks import Split

T_975_4 = 2.776445105197793  # Student's t, 95 %, 4 degrees of freedom
PPO = entries(STORIES, "ppo", five(40.0))


def both(system, centre, **changes):
    jokes = entries(JOKES, system, five(centre), naturalness=None, **changes)
    return [*entries(STORIES, system, five(centre), **changes), *jokes]


def entry(result):
    place = Path(f"runs/mini/{result.task}/{result.system['name']}/seed-{result.seed}/result.json")
    return Entry(result, place, "local")


def test_one_task_by_hand():
    board = rank(entries(STORIES, "ppo", {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0, 5: 5.0}, naturalness=40.0), [STORIES])
    (ppo,) = board.rows
    assert (ppo.rank, ppo.standing, ppo.status, ppo.preference, ppo.naturalness) == (1, "ranked", "local", 3.0, 40.0)
    assert ppo.interval.half_width == pytest.approx(T_975_4 * (2.5 / 5) ** 0.5)
    cell = ppo.cells["stories"]
    assert cell.seeds == (1, 2, 3, 4, 5) and cell.preference.by_seed == {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0, 5: 5.0}
    assert cell.metrics["liked"].mean == pytest.approx(0.03) and cell.metrics["fluent"].mean == 50.0
    assert cell.metrics["liked"].sd == pytest.approx(2.5**0.5 / 100)


def test_the_headline_is_the_mean_over_tasks_and_naturalness_stays_beside_it():
    found = entries(STORIES, "ppo", five(30.0), naturalness=80.0) + entries(JOKES, "ppo", five(50.0), naturalness=None)
    (ppo,) = rank(found, [STORIES, JOKES]).rows
    assert (ppo.preference, ppo.naturalness) == (40.0, 80.0)  # jokes has no metric of it
    assert ppo.cells["jokes"].naturalness is None


@pytest.mark.parametrize(
    ("seeds", "standing"), [(1, "too few seeds"), (2, "too few seeds"), (3, "preliminary"), (4, "preliminary")]
)
def test_too_few_seeds_are_shown_but_neither_ranked_nor_in_anyone_elses_rank(seeds, standing):
    board = rank(entries(STORIES, "quick", {seed: 90.0 + seed for seed in range(seeds)}) + PPO, [STORIES])
    quick = row(board, "quick")
    assert (quick.standing, quick.preference) == (standing, pytest.approx(90 + (seeds - 1) / 2))
    assert (quick.interval is None, quick.task_ranks) == (seeds == 1, {})
    assert list(ranks(board).items()) == [("ppo", 1), ("quick", None)]
    fewer = [*both("ppo", 40.0)[:5], *entries(JOKES, "ppo", dict.fromkeys(range(seeds), 40.0), naturalness=None)]
    assert rank(fewer, [STORIES, JOKES]).rows[0].standing == standing, "the task with the fewest seeds decides"


def test_limited_results_and_those_of_another_status_stay_apart():
    found = [*entries(STORIES, "ppo", five(99.0), limited=True), *PPO, *entries(STORIES, "ppo", five(50.0), "rescored")]
    board = rank(found, [STORIES])
    assert [(row.status, row.standing, row.rank, row.preference) for row in board.rows] == [
        ("rescored", "ranked", 1, 50.0),
        ("local", "ranked", 2, 40.0),
        ("local", "limited", None, 99.0),
    ]


def test_a_failed_run_counts_as_the_floor_and_cannot_bring_its_own_score():
    failed = entry(a_result(STORIES, "ppo", 5, 99.0, 99.0, status="failed"))
    board = rank([*entries(STORIES, "ppo", dict.fromkeys((1, 2, 3, 4), 40.0), naturalness=50.0), failed], [STORIES])
    (ppo,) = board.rows
    assert (ppo.preference, ppo.naturalness, ppo.standing) == (32.0, 40.0, "ranked")
    assert ppo.cells["stories"].failed == (5,)
    assert ppo.cells["stories"].metrics["liked"].by_seed == dict.fromkeys((1, 2, 3, 4), 0.4)
    assert board.notes == ("stories: ppo (seed 5) failed and counts as 0.",)


def test_what_training_did_not_move_is_told():
    found = zip(entries(STORIES, "ppo", {1: 41.0, 2: 42.0, 3: 43.0}), (0, 7, 0), strict=True)
    board = rank([with_system(entry, update=update) for entry, update in found], [STORIES])
    assert board.notes == ("stories: ppo (seeds 1, 3) did not beat the start on validation: update 0 was kept.",)


def test_a_renamed_folder_of_a_run_is_told(refused):
    mine = [replace(one, path=Path(f"runs/mini/stories/mine/seed-{one.result.seed}/result.json")) for one in PPO]
    (said,) = rank(mine, [STORIES]).notes
    refused.message(said)
    assert rank(PPO, [STORIES]).notes == ()


def test_the_same_run_twice_names_both_files(refused):
    twins = [Entry(a_result(STORIES, "ppo", 1, 40.0), Path(f"runs/seed-{n}/result.json"), "local") for n in (1, 2)]
    with refused(DataError):
        rank(reversed(twins), [STORIES])


FROZEN = a_task("stories", data=replace(STORIES.data, splits={"test": Split("test", examples=4, ids_sha256="a" * 64)}))
MADE = {"data": {"ids_sha256": "a" * 64, "examples": 4}}
AGAIN = "evaluate again with `grue evaluate --force`."


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (
            [
                *entries(FROZEN, "ppo", {2: 90.0, 1: 90.0}, task_hash="0" * 64),
                *entries(FROZEN, "old", {7: 1.0}, task_hash="1"),
            ],
            [f"old (seed 7); ppo (seeds 1, 2) left out, made for another version of the task; {AGAIN}"],
        ),
        (
            [with_system(*entries(FROZEN, "early", {1: 90.0}, **MADE), unfinished=True)],
            [f"early (seed 1) left out, made while the run was not finished; {AGAIN}"],
        ),
        (
            [
                *entries(FROZEN, "tuned", {1: 90.0}, split="validation"),
                *entries(FROZEN, "other", {1: 90.0}, data={"ids_sha256": "b" * 64}),
                *entries(FROZEN, "part", {1: 90.0}, data={"examples": 3}),
            ],
            [
                f"other (seed 1); part (seed 1) left out, made on other examples than the task's; {AGAIN}",
                f"tuned (seed 1) left out, made on the split 'validation' instead of 'test'; {AGAIN}",
            ],
        ),
        ([*entries(a_task("stories", suite="grue"), "ppo", five(90.0)), *entries(JOKES, "nlpo", five(90.0))], []),
    ],
    ids=["version", "unfinished", "examples", "suite"],
)
def test_what_is_none_of_this_board_is_left_out_with_a_note(others, said):
    board = rank([*entries(FROZEN, "ppo", five(40.0), **MADE), *others], [FROZEN])
    assert [(row.system, row.preference) for row in board.rows] == [("ppo", 40.0)]
    assert board.notes == tuple(f"stories: {note}" for note in said)


def test_values_computed_in_two_ways_are_noted():
    scores = (replace(a_score("liked", 0.4), signature="liked|v2"),)
    board = rank([*PPO, entry(a_result(STORIES, "new", 1, 40.0, scores=scores))], [STORIES])
    assert board.notes == ("stories: liked was computed in 2 ways, liked|v1 and liked|v2; score the runs again.",)


def test_what_could_not_be_scored_is_noted_once_and_leaves_no_naturalness():
    reasons = ("fluent: fluent cannot run here:\n- There is no program '/home/me/java'.",)
    whole = entries(STORIES, "ppo", dict.fromkeys((1, 2, 3), 50.0))
    lacking = entries(STORIES, "nlpo", dict.fromkeys((1, 2, 3), 60.0), naturalness=None, errors=reasons)
    board = rank([*whole, *lacking], [STORIES])
    assert [(row.system, row.naturalness) for row in board.rows] == [("nlpo", None), ("ppo", 50.0)]
    assert board.notes == (
        "stories: fluent could not be computed for nlpo (seeds 1, 2, 3); each result.json says why.",
    )


def test_columns_are_the_task_files_metrics_then_what_else_was_measured():
    scores = (a_score("words", 9.0, "diversity"), a_score("bigrams", 5.0, "diversity"), a_score("liked", 0.4))
    (task,) = rank([entry(a_result(STORIES, "ppo", 1, 40.0, scores=scores))], [STORIES]).tasks
    assert [(c.metric, c.axis, c.direction, c.range, c.reference) for c in task.columns] == [
        ("liked", "preference", "higher", (0.0, 1.0), None),
        ("fluent", "naturalness", "lower", None, 20.0),
        ("bigrams", "diversity", "higher", None, None),
        ("words", "diversity", "higher", None, None),
    ]


@pytest.mark.parametrize("tasks", [[], [STORIES, a_task(suite="grue")]], ids=["none", "two"])
def test_a_board_shows_one_suite(refused, tasks):
    with refused(ConfigError):
        rank([], tasks)


def test_no_order_matters():
    found = both("ppo", 40.0) + both("nlpo", 41.0) + both("ppo", 30.0, status="rescored")
    found += entries(STORIES, "half", five(3.0)) + entries(STORIES, "old", five(3.0), task_hash="0")
    board = rank(found, [STORIES, JOKES])
    generator = random.Random(0)
    for _ in range(5):
        generator.shuffle(found)
        assert rank(found, [JOKES, STORIES]) == board


def test_a_new_system_changes_no_number_but_ranks():
    def board(found):
        made = rank(found, [STORIES, JOKES], iqm=True)
        rows = {(r.system, r.status, r.standing): replace(r, rank=None, task_ranks={}) for r in made.rows}
        return rows, [r.rank for r in made.rows if r.system == "nlpo"]

    old = both("ppo", 40.0) + both("nlpo", 42.0) + both("ppo", 41.0, status="rescored")
    old += entries(STORIES, "half", {1: 3.0, 2: 4.0}) + entries(STORIES, "whole", {1: 3.0}, limited=True)
    before, first = board(old)
    for new in (both("a first", 90.0), both("zz last", 1.0), entries(JOKES, "x", {1: 5.0}, naturalness=None)):
        assert before.items() <= board(old + new)[0].items()
    assert board(old + both("best", 99.0))[1] != first


def test_the_iqm_is_there_when_asked_for_and_only_of_whole_systems():
    found = entries(STORIES, "ppo", {1: 0.0, 2: 40.0, 3: 42.0, 4: 90.0})
    found += entries(JOKES, "ppo", {1: 10.0, 2: 50.0, 3: 52.0, 4: 100.0}, naturalness=None)
    found += entries(STORIES, "half", {1: 50.0})
    board = rank(found, [STORIES, JOKES], iqm=True)
    assert row(board, "ppo").iqm == pytest.approx((40 + 42 + 50 + 52) / 4)  # the middle four of eight
    assert row(board, "half").iqm is None
    assert [r.iqm for r in rank(found, [STORIES, JOKES]).rows] == [None, None]


def test_what_has_no_predictions_is_never_ranked_and_in_nobodys_rank():
    board = rank(both("claimed", 99.0, status="reported") + both("ppo", 40.0), [STORIES, JOKES])
    assert [(r.system, r.status, r.standing, r.rank, r.task_ranks) for r in board.rows] == [
        ("ppo", "local", "ranked", 1, {"jokes": 1, "stories": 1}),
        ("claimed", "reported", "no predictions", None, {}),
    ]


def test_a_reference_is_never_ranked_and_stands_in_the_order_of_references():
    """So does what saw the references with one of its seeds, and what looks answers up, whatever its seeds."""
    seeing = [
        with_result(e, generation={"best_of": {"n": 8, "oracle": e.result.seed == 5}}) for e in both("best-of-8", 80.0)
    ]
    lookups = [
        with_result(e, system={"name": name, "algorithm": name})
        for name in ("best-of-n", "nearest")
        for e in both(name, 20.0)
    ]
    fixed = references([e for name in ("oracle", "ours", "copy", "null") for e in both(name, 98.0)])
    limited = references(entries(STORIES, "part", {1: 99.0}, limited=True))
    board = rank([*seeing, *lookups, *fixed, *limited, *both("ppo", 40.0)], [STORIES, JOKES])
    assert [(r.system, r.standing, r.rank) for r in board.rows] == [
        ("ppo", "ranked", 1),
        ("part", "limited", None),
        *(
            (name, "reference", None)
            for name in ("null", "copy", "nearest", "best-of-n", "ours", "best-of-8", "oracle")
        ),
    ]
    assert row(board, "ppo").task_ranks == {"jokes": 1, "stories": 1}
    assert row(board, "best-of-n").cells["jokes"].seeds == (1, 2, 3, 4, 5)


def write(path, seed=1, preference=40.0, changes=None):
    result = files.plain(a_result(STORIES, "ppo", seed, preference))
    files.write_json(path / "result.json", result | (changes or {}))
    return path / "result.json"


def test_results_are_found_where_runs_put_them(tmp_path):
    assert find_results(tmp_path) == ([], [])
    folder = tmp_path / "mini/stories/ppo"
    for seed in (1, 10, 2):
        write(folder / f"seed-{seed}", seed, 40.0 + seed)
    (folder / "seed-3").mkdir()
    found, out = find_results(tmp_path)
    assert {one.result.seed: (one.result, one.status) for one in found} == {
        seed: (a_result(STORIES, "ppo", seed, 40.0 + seed), "local") for seed in (1, 2, 10)
    }
    assert out == []


def test_a_copy_of_a_run_beside_it_is_left_out(tmp_path):
    folder = tmp_path / "mini/stories/ppo"
    home, *copies = (write(folder / name) for name in ("seed-1", "seed-1.bak", "seed-2"))
    found, out = find_results(tmp_path)
    assert [entry.path for entry in found] == [home]
    assert [one.why for one in out] == [
        f"{copy}: claims to be ppo on stories with seed 1, as {home} does." for copy in copies
    ]


def test_of_two_copies_away_from_home_neither_is_taken(tmp_path):
    paths = [write(tmp_path / f"mini/stories/{name}/seed-1") for name in ("mine", "yours")]
    found, out = find_results(tmp_path)
    assert (found, [one.path for one in out]) == ([], paths)
    paths[1].unlink()
    assert [entry.path for entry in find_results(tmp_path)[0]] == paths[:1]  # a run's folder may have another name


def test_a_result_without_a_score_that_its_task_has_is_incomplete(refused):
    lacking = replace(a_result(STORIES, "ppo", 1, None), errors=("liked: no model",))
    found = [entry(lacking), entry(a_result(STORIES, "ppo", 2, 40.0)), entry(a_result(STORIES, "ppo", 3, 40.0, None))]
    out = incomplete(found, [STORIES])
    assert [one.path for one in out] == [found[0].path, found[2].path]
    for one in out:
        refused.message(one.why)
    unmeasured = entry(replace(found[2].result, errors=("fluent: no model",)))  # the board says that of naturalness
    other = entry(replace(lacking, task_hash="0"))  # left out anyhow, as a misfit
    failed = entry(replace(lacking, status="failed"))
    assert incomplete([unmeasured, other, failed], [STORIES]) == []
    for one in (found[0], found[2]):
        with refused(DataError):
            rank([one], [STORIES])


SCORE = {"axis": "none", "scaled": None, "n": 1000, "direction": "higher", "signature": ""}


@pytest.mark.parametrize(
    "change",
    [
        '{"schema": 1, "seed": NaN}',
        "",
        {"schema": 2},
        {"seed": "1"},
        {"system": {}},
        {"system": {"name": "ppo", "parameters": "9"}},
        {"colour": 1},
        *({"preference": value} for value in (-5.0, 100.5, 1e300)),
        *(
            {"scores": [{"metric": metric, "value": value, **SCORE}]}
            for metric, value in (("sentiment", 1e308), ("sentiment", 1.5), ("rouge1", -0.5), ("perplexity", 1e308))
        ),
    ],
)
def test_a_file_that_is_no_result_says_why_and_stops_no_other(tmp_path, refused, change):
    whole, path = (write(tmp_path / f"mini/stories/ppo/seed-{seed}", seed) for seed in (1, 2))
    if isinstance(change, str):
        path.write_text(change)
    else:
        write(path.parent, 2, changes=change)
    found, out = find_results(tmp_path)
    assert ([one.path for one in found], [one.path for one in out]) == ([whole], [path])
    refused.message(out[0].note)
