"""Results on different examples stand on no board, in no mean, in no verdict and in no submission together."""

from pathlib import Path

import pytest
from support.factories import a_result, a_score, a_task, entries
from support.paths import ROOT

from grue.errors import ConfigError, DataError
from grue.evaluation.scoring import example_hashes
from grue.exchange.measured import measured_of
from grue.leaderboard import bars
from grue.leaderboard.around import where_it_stands
from grue.leaderboard.board import Board
from grue.leaderboard.rank import rank
from grue.records import Entry, Example, Status, other_examples
from grue.submissions.by_reference.system import recomputed
from grue.submissions.packing.collect import PackedRun
from grue.submissions.packing.refusals import refusals

STORIES = a_task("stories")
SUBMISSIONS = ROOT / "submissions"
OURS, THEIRS = {"references": "a" * 64, "examples": "b" * 64}, {"references": "c" * 64, "examples": "d" * 64}
OLD = {"examples": OURS["examples"]}  # a result of before `references` was stated
SHUFFLED = {"references": OURS["references"], "examples": "e" * 64}
SAID = "hashes.references cccccccccccc…, not aaaaaaaaaaaa…"


def some(
    system: str, values: dict[int, float], hashes: dict[str, str], status: Status = "local", limited: bool = False
) -> list[Entry]:
    return entries(STORIES, system, values, status, hashes=hashes, limited=limited)


def means(board: Board) -> dict[str, float]:
    return {row.system: cell.preference.mean for row in board.rows if (cell := row.cells["stories"]).preference}


def test_other_data_is_told_by_the_references_and_by_the_whole_examples() -> None:
    one, other = Example("1", "say it", ("yes",)), Example("2", "say no", ("no", "nay"))
    whole = example_hashes([one, other])
    assert other_examples(whole, whole) is None
    assert other_examples(whole, {}) is None  # a result by hand, or a failed one, states none
    backwards = other_examples(example_hashes([other, one]), whole)
    assert backwards is not None and backwards.startswith("hashes.examples ")
    changed = other_examples(example_hashes([one, Example("2", "say no", ("no",))]), whole)
    assert changed is not None and changed.startswith("hashes.references ")


def test_a_local_row_on_other_data_does_not_stand_beside_submissions() -> None:
    submitted = some("theirs", {1: 60.0}, OLD, "rescored")
    strange = some("mine", {1: 99.0, 2: 98.0, 3: 97.0}, THEIRS)  # more, but they do not decide
    fine = some("fine", {1: 50.0}, OURS)
    board = rank([*submitted, *strange, *fine], [STORIES])
    assert means(board) == {"theirs": 60.0, "fine": 50.0}
    assert board.tasks[0].data == OURS
    (note,) = board.notes
    assert note == (
        f"stories: mine (seeds 1, 2, 3) left out, made on other examples than the others ({SAID}; `data` in each result "
        "says from where; one version of the data is to be used for all); evaluate again with `grue evaluate --force`."
    )


def test_seeds_on_other_data_are_not_averaged() -> None:
    board = rank([*some("mine", {1: 40.0, 2: 42.0}, OURS), *some("mine", {3: 90.0}, THEIRS)], [STORIES])
    assert means(board) == {"mine": 41.0}
    assert board.notes[0].startswith(f"stories: mine (seed 3) left out, made on other examples than the others ({SAID}")


def test_parts_of_a_split_stand_beside_others_but_are_not_averaged() -> None:
    whole = some("whole", {1: 50.0}, OURS)
    part = [*some("part", {1: 10.0, 2: 20.0}, THEIRS, limited=True), *some("part", {3: 90.0}, SHUFFLED, limited=True)]
    board = rank([*whole, *part, *some("other", {1: 5.0}, SHUFFLED, limited=True)], [STORIES])
    assert means(board) == {"whole": 50.0, "part": 15.0, "other": 5.0}
    assert board.tasks[0].data == OURS


def test_rows_that_ship_decide_what_the_data_is() -> None:
    shipped = rank(some("theirs", {1: 60.0}, OURS, "rescored"), [STORIES])
    board = rank([*some("mine", {1: 9.0}, THEIRS), *some("fine", {1: 50.0}, OLD)], [STORIES], shipped=shipped)
    assert means(board) == {"theirs": 60.0, "fine": 50.0}


def test_figures_by_reference_state_the_references_alone() -> None:
    stated = {entry.result.task: entry.result.hashes for entry in recomputed(SUBMISSIONS, "grue")}
    assert {name: list(hashes) for name, hashes in stated.items()} == {
        "commongen": ["references"],
        "wmt16": ["references"],
    }
    published = some("bergamot", {0: 40.0}, {"references": OURS["references"]}, "rescored")
    local = [*some("mine", {1: 50.0}, OURS), *some("other order", {1: 51.0}, SHUFFLED), *some("else", {1: 1.0}, THEIRS)]
    assert means(rank([*published, *local], [STORIES])) == {"bergamot": 40.0, "mine": 50.0}


def test_a_score_on_other_data_is_placed_nowhere() -> None:
    board = rank(some("null", {1: 7.0}, OURS), [STORIES])
    assert where_it_stands(board, STORIES, "preference", 5.0, OURS) == "below all, next null 7.0"
    assert (
        where_it_stands(board, STORIES, "preference", 5.0, THEIRS)
        == f"on other examples than the board's rows ({SAID})"
    )


def test_seeds_on_other_data_are_not_exported_as_one() -> None:
    found = [(entry.result, entry.path) for entry in some("mine", {1: 40.0}, OURS) + some("mine", {2: 90.0}, THEIRS)]
    with pytest.raises(ConfigError) as caught:
        measured_of(found)
    assert str(caught.value).startswith(f"{found[1][1]}: was scored on other examples than {found[0][1]} ({SAID})")


def test_no_verdict_mixes_data() -> None:
    def figures(name: str, hashes: dict[str, str]) -> bars.FileFigures:
        return bars.measured(Path(name), [a_score("liked", 0.5)], 50.0, None, hashes)

    bar = [bars.parse_bar("preference=40", "at least")]
    board = rank(some("theirs", {1: 60.0}, OURS, "rescored"), [STORIES])
    assert [verdict.passed for verdict in bars.check([figures("1", OURS), figures("2", OLD)], bar, STORIES, board)] == [
        True
    ]
    with pytest.raises(DataError, match=r"^2: was scored on other examples than 1 \(hashes.references"):
        list(bars.check([figures("1", OURS), figures("2", THEIRS)], bar, STORIES, None))
    with pytest.raises(DataError, match=r"^1: was scored on other examples than the rows of the board \("):
        list(bars.check([figures("1", THEIRS)], bar, STORIES, board))


def test_runs_on_other_data_are_no_submission() -> None:
    runs = [
        PackedRun(a_result(STORIES, "mine", seed, 50.0, hashes=hashes), None, f"run-{seed}")
        for seed, hashes in ((1, OURS), (2, THEIRS))
    ]
    assert any(line.startswith(f"run-2: was scored on other examples than run-1 ({SAID})") for line in refusals(runs))
