"""Two boards written out by hand, for the tests of what is shown: of a suite, and of one of its tasks."""

from dataclasses import replace

from grue.leaderboard.board import Board, BoardTask, Cell, Column, Estimate, Row
from grue.records import BOARD_SCHEMA, About
from grue.stats.intervals import Interval
from grue.submissions.reported import Figure, Publication, Reported, ReportedColumn, ReportedRow, ReportedTable

FIVE = (1, 2, 3, 4, 5)
LIKED = Column("liked", "preference", "higher", (0.0, 1.0))
EDITS = Column("edits", "preference", "lower", (100.0, 0.0))
FLUENT = Column("fluent", "naturalness", "lower", None, 20.0)
JOKES = BoardTask("jokes", "Jokes", 1, "ab" * 32, (LIKED,))
STORIES = BoardTask("stories", "Stories", 2, "cd" * 32, (LIKED, EDITS, FLUENT, Column("words", "diversity", "higher")))


def of(mean: float, step: float = 1.0, sd: float = 1.5811) -> Estimate:
    """What five seeds reached, `step` apart."""
    return Estimate(mean, sd, {seed: round(mean + step * (seed - 3), 6) for seed in FIVE})


def alone(value: float) -> Estimate:
    """What a single seed reached."""
    return Estimate(value, None, {1: value})


def ones(**values: float) -> dict[str, Estimate]:
    """What a single seed reached by metric."""
    return {name: alone(value) for name, value in values.items()}


NO_ROW = Row(
    **{"system": "", "status": "local", "standing": "partial", "about": About(), "rank": None, "task_ranks": {}},
    **dict.fromkeys(("preference", "interval", "naturalness", "naturalness_interval", "iqm")),
    cells={},
)
NLPO = replace(
    NO_ROW,
    system="nlpo",
    status="reproduced",
    standing="ranked",
    about=About(algorithm="nlpo", backbone="mini:seq2seq", parameters=1_500_000, authors=("Ada",), licence="MIT"),
    rank=1,
    task_ranks={"jokes": 1, "stories": 1},
    preference=52.0,
    interval=Interval(50.75, 53.25),
    naturalness=80.0,
    naturalness_interval=Interval(78.0, 82.0),
    iqm=51.5,
    cells={
        "jokes": Cell(FIVE, (), of(42.0), Interval(40.04, 43.96), None, {"liked": of(0.42, 0.01, 0.015811)}),
        "stories": Cell(
            *(FIVE, (), of(62.0), Interval(60.04, 63.96), of(80.0)),
            {
                "liked": of(0.64, 0.01, 0.015811),
                "edits": of(40.0),
                "fluent": of(25.0, 0.3125, 0.5),
                "words": of(12.5, 0.3, 0.5),
            },
        ),
    },
)
PPO = replace(
    NLPO,
    system="ppo",
    status="rescored",
    about=About(algorithm="ppo"),
    task_ranks={"jokes": 2, "stories": 1},
    preference=50.0,
    interval=Interval(48.75, 51.25),
    naturalness=60.0,
    naturalness_interval=Interval(58.0, 62.0),
    iqm=50.5,
    cells={
        "jokes": Cell(
            *(FIVE, (5,), Estimate(36.0, 20.0, dict.fromkeys(FIVE, 45.0) | {5: 0.0}), Interval(11.0, 40.0), None),
            {"liked": Estimate(0.45, 0.0, dict.fromkeys(FIVE[:4], 0.45))},
        ),
        "stories": Cell(
            *(FIVE, (), of(64.0), Interval(62.04, 65.96), of(60.0)),
            {
                "liked": of(0.68, 0.01, 0.015811),
                "edits": of(40.5),
                "fluent": of(33.333, 0.5, 0.8),
                "words": of(9.5, 0.3, 0.5),
            },
        ),
    },
)
MINE = replace(
    NO_ROW,
    system="mine",
    cells={
        "stories": Cell((1,), (), alone(70.0), None, alone(9.0), ones(liked=0.72, edits=32.0, fluent=222.2, words=3.0))
    },
)
NULL = replace(
    NO_ROW,
    system="null",
    status="rescored",
    standing="reference",
    about=About(algorithm="null", deterministic=True),
    preference=4.0,
    naturalness=100.0,
    iqm=4.0,
    cells={
        "jokes": Cell((1,), (), alone(3.0), None, None, ones(liked=0.03)),
        "stories": Cell((1,), (), alone(5.0), None, alone(100.0), ones(liked=0.1, edits=100.0, fluent=20.0, words=0.0)),
    },
)
OF_STORIES = ReportedTable(
    *("stories", "Table 3", "test", 5, "Printed, not checked."),
    columns=(
        ReportedColumn("liked", "higher"),
        ReportedColumn("edits", "lower", "Counted by hand."),
        ReportedColumn("mean_length", "none"),
    ),
    rows=(
        ReportedRow("Zero-Shot", "", "", {"liked": Figure(0.5), "edits": Figure(51)}),
        ReportedRow(
            *("PPO", "liked", "target KL 0.1"),
            {"liked": Figure(0.625, 0.01), "edits": Figure(40.5, 1.25), "mean_length": Figure(12.0)},
        ),
    ),
)
PAPER = Reported(
    Publication("doe2020", "Jane Doe, René Roe", "Stories, told", "ACL", 2020, "https://example.org/doe2020", ""),
    (
        OF_STORIES,
        replace(
            OF_STORIES,
            table="Table 4",
            split="not stated",
            seeds=None,
            note="",
            columns=(ReportedColumn("words", "higher"),),
            rows=(ReportedRow("PPO", "", "", {"words": Figure(7)}),),
        ),
    ),
)
SUITE = Board(
    schema=BOARD_SCHEMA,
    suite="mini",
    scoring="grue-1",
    interval_kind="t",
    level=0.95,
    tasks=(JOKES, STORIES),
    rows=(NLPO, PPO, MINE, NULL),
    notes=("jokes: ppo (seed 5) failed and counts as 0.",),
    reported=(PAPER,),
)


def on_stories(row: Row) -> Row:
    """The row on the board of that task alone, where it needs no other."""
    cell = row.cells["stories"]
    assert cell.preference is not None
    assert cell.naturalness is not None
    return replace(
        row,
        standing="too few seeds" if row.standing == "partial" else row.standing,
        rank=row.task_ranks.get("stories"),
        task_ranks={name: rank for name, rank in row.task_ranks.items() if name == "stories"},
        preference=cell.preference.mean,
        interval=cell.interval,
        naturalness=cell.naturalness.mean,
        naturalness_interval=None,
        iqm=None,
        cells={"stories": cell},
    )


TASK = replace(SUITE, tasks=(STORIES,), rows=tuple(map(on_stories, (PPO, NLPO, MINE, NULL))), notes=())
EMPTY = replace(SUITE, rows=(), notes=())
