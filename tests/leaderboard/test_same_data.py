"""Results on different examples stand on no board, in no mean, in no verdict and in no submission together."""

from pathlib import Path

from support.boards import STORIES
from support.factories import entries
from support.paths import ROOT

from grue.errors import ConfigError, DataError
from grue.evaluation.scoring import example_hashes
from grue.exchange.measured import measured_of
from grue.leaderboard import bars
from grue.leaderboard.neighbours import neighbours
from grue.leaderboard.rank import rank
from grue.records import Example, other_examples
from grue.submissions.entries import recomputed

OURS, THEIRS = {"references": "a" * 64, "examples": "b" * 64}, {"references": "c" * 64, "examples": "d" * 64}
OLD = {"examples": OURS["examples"]}  # a result of before `references` was stated
SHUFFLED = {"references": OURS["references"], "examples": "e" * 64}


def some(system, values, hashes, status="local", limited=False):
    return entries(STORIES, system, values, status, hashes=hashes, limited=limited)


def ranked(*found, **options):
    """The means of the rows, and the board."""
    board = rank([entry for one in found for entry in one], [STORIES], **options)
    return {row.system: cell.preference.mean for row in board.rows if (cell := row.cells["stories"]).preference}, board


def test_other_data_is_told_by_the_references_and_by_the_whole_examples():
    one, other = Example("1", "say it", ("yes",)), Example("2", "say no", ("no", "nay"))
    whole = example_hashes([one, other])
    assert other_examples(whole, whole) is None
    assert other_examples(whole, {}) is None  # a result by hand, or a failed one, states none
    assert other_examples(example_hashes([other, one]), whole).startswith("hashes.examples ")
    changed = example_hashes([one, Example("2", "say no", ("no",))])
    assert other_examples(changed, whole).startswith("hashes.references ")


def test_a_local_row_on_other_data_does_not_stand_beside_submissions(refused):
    strange = some("mine", {1: 99.0, 2: 98.0, 3: 97.0}, THEIRS)  # more, but they do not decide
    means, board = ranked(some("theirs", {1: 60.0}, OLD, "rescored"), strange, some("fine", {1: 50.0}, OURS))
    assert means == {"theirs": 60.0, "fine": 50.0}
    assert board.tasks[0].data == OURS
    (note,) = board.notes
    refused.message(note)


def test_seeds_on_other_data_are_not_averaged():
    means, board = ranked(some("mine", {1: 40.0, 2: 42.0}, OURS), some("mine", {3: 90.0}, THEIRS))
    assert means == {"mine": 41.0} and board.notes[0].startswith("stories: mine (seed 3) left out")


def test_parts_of_a_split_stand_beside_others_but_are_not_averaged():
    part = some("part", {1: 10.0, 2: 20.0}, THEIRS, limited=True) + some("part", {3: 90.0}, SHUFFLED, limited=True)
    other = some("other", {1: 5.0}, SHUFFLED, limited=True)
    means, board = ranked(some("whole", {1: 50.0}, OURS), part, other)
    assert means == {"whole": 50.0, "part": 15.0, "other": 5.0}
    assert board.tasks[0].data == OURS


def test_rows_that_ship_decide_what_the_data_is():
    _, shipped = ranked(some("theirs", {1: 60.0}, OURS, "rescored"))
    means, _ = ranked(some("mine", {1: 9.0}, THEIRS), some("fine", {1: 50.0}, OLD), shipped=shipped)
    assert means == {"theirs": 60.0, "fine": 50.0}


def test_figures_by_reference_state_the_references_alone():
    stated = {entry.result.task: list(entry.result.hashes) for entry in recomputed(ROOT / "submissions", "grue")}
    assert stated == {"commongen": ["references"], "wmt16": ["references"]}
    published = some("bergamot", {0: 40.0}, {"references": OURS["references"]}, "rescored")
    local = some("mine", {1: 50.0}, OURS), some("other order", {1: 51.0}, SHUFFLED), some("else", {1: 1.0}, THEIRS)
    assert ranked(published, *local)[0] == {"bergamot": 40.0, "mine": 50.0}


def test_a_score_on_other_data_is_placed_nowhere():
    _, board = ranked(some("null", {1: 7.0}, OURS))
    assert neighbours(board, STORIES, "preference", 5.0, OURS) == "below all, next null 7.0"
    said = "on other examples than the board's rows (hashes.references cccccccccccc…, not aaaaaaaaaaaa…)"
    assert neighbours(board, STORIES, "preference", 5.0, THEIRS) == said


def test_seeds_on_other_data_are_neither_exported_nor_judged_as_one(refused):
    with refused(ConfigError):
        measured_of([(one.result, one.path) for one in some("mine", {1: 40.0}, OURS) + some("mine", {2: 90.0}, THEIRS)])

    def verdicts(*hashes, board=None):
        made = [some("mine", {1: 50.0}, one)[0].result for one in hashes]
        found = [bars.measured(Path(f"{n}"), result, ()) for n, result in enumerate(made, 1)]
        bars.refuse_other_examples(found, STORIES, board)
        limits = [bars.Limit(bars.parse_bar("preference=40", "at least"), 40.0)]
        return [one.passed for one in bars.check(found, limits, STORIES)]

    _, board = ranked(some("theirs", {1: 60.0}, OURS, "rescored"))
    assert verdicts(OURS, OLD, board=board) == [True]
    with refused(DataError):
        verdicts(OURS, THEIRS)
    with refused(DataError):
        verdicts(THEIRS, board=board)
