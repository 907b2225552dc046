"""Two boards written out by hand, for the tests of what is shown: of a suite, and of one of its tasks."""

from dataclasses import replace

from grue.leaderboard.board import Board, BoardTask, Cell, Column, Estimate, Row
from grue.records import BOARD_SCHEMA, About
from grue.stats.intervals import Interval
from grue.submissions.reported import Figure, Publication, Reported, ReportedColumn, ReportedRow, ReportedTable

FIVE = (1, 2, 3, 4, 5)
JOKES = BoardTask("jokes", "Jokes", 1, "ab" * 32, (Column("liked", "preference", "higher", (0.0, 1.0)),))
STORIES = BoardTask(
    "stories",
    "Stories",
    2,
    "cd" * 32,
    (
        Column("liked", "preference", "higher", (0.0, 1.0)),
        Column("edits", "preference", "lower", (100.0, 0.0)),
        Column("fluent", "naturalness", "lower", None, 20.0),
        Column("words", "diversity", "higher"),
    ),
)


def of(mean: float, sd: float, *values: float) -> Estimate:
    """What five seeds reached."""
    return Estimate(mean, sd, dict(zip(FIVE, values, strict=True)))


def alone(value: float) -> Estimate:
    """What a single seed reached."""
    return Estimate(value, None, {1: value})


NLPO = Row(
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
        "jokes": Cell(
            seeds=FIVE,
            failed=(),
            preference=of(42.0, 1.5811, 40.0, 41.0, 42.0, 43.0, 44.0),
            interval=Interval(40.04, 43.96),
            naturalness=None,
            metrics={"liked": of(0.42, 0.015811, 0.40, 0.41, 0.42, 0.43, 0.44)},
        ),
        "stories": Cell(
            seeds=FIVE,
            failed=(),
            preference=of(62.0, 1.5811, 60.0, 61.0, 62.0, 63.0, 64.0),
            interval=Interval(60.04, 63.96),
            naturalness=of(80.0, 1.5811, 78.0, 79.0, 80.0, 81.0, 82.0),
            metrics={
                "liked": of(0.64, 0.015811, 0.62, 0.63, 0.64, 0.65, 0.66),
                "edits": of(40.0, 1.5811, 38.0, 39.0, 40.0, 41.0, 42.0),
                "fluent": of(25.0, 0.5, 24.375, 24.6875, 25.0, 25.3125, 25.625),
                "words": of(12.5, 0.5, 11.9, 12.2, 12.5, 12.8, 13.1),
            },
        ),
    },
)
PPO = Row(
    system="ppo",
    status="rescored",
    standing="ranked",
    about=About(algorithm="ppo"),
    rank=1,
    task_ranks={"jokes": 2, "stories": 1},
    preference=50.0,
    interval=Interval(48.75, 51.25),
    naturalness=60.0,
    naturalness_interval=Interval(58.0, 62.0),
    iqm=50.5,
    cells={
        "jokes": Cell(
            seeds=FIVE,
            failed=(5,),
            preference=of(36.0, 20.0, 45.0, 45.0, 45.0, 45.0, 0.0),
            interval=Interval(11.0, 40.0),
            naturalness=None,
            metrics={"liked": Estimate(0.45, 0.0, {1: 0.45, 2: 0.45, 3: 0.45, 4: 0.45})},
        ),
        "stories": Cell(
            seeds=FIVE,
            failed=(),
            preference=of(64.0, 1.5811, 62.0, 63.0, 64.0, 65.0, 66.0),
            interval=Interval(62.04, 65.96),
            naturalness=of(60.0, 1.5811, 58.0, 59.0, 60.0, 61.0, 62.0),
            metrics={
                "liked": of(0.68, 0.015811, 0.66, 0.67, 0.68, 0.69, 0.70),
                "edits": of(40.5, 1.5811, 38.5, 39.5, 40.5, 41.5, 42.5),
                "fluent": of(33.333, 0.8, 32.333, 32.833, 33.333, 33.833, 34.333),
                "words": of(9.5, 0.5, 8.9, 9.2, 9.5, 9.8, 10.1),
            },
        ),
    },
)
MINE = Row(
    system="mine",
    status="local",
    standing="partial",
    about=About(),
    rank=None,
    task_ranks={},
    preference=None,
    interval=None,
    naturalness=None,
    naturalness_interval=None,
    iqm=None,
    cells={
        "stories": Cell(
            seeds=(1,),
            failed=(),
            preference=alone(70.0),
            interval=None,
            naturalness=alone(9.0),
            metrics={"liked": alone(0.72), "edits": alone(32.0), "fluent": alone(222.2), "words": alone(3.0)},
        )
    },
)
NULL = Row(
    system="null",
    status="rescored",
    standing="reference",
    about=About(algorithm="null", deterministic=True),
    rank=None,
    task_ranks={},
    preference=4.0,
    interval=None,
    naturalness=100.0,
    naturalness_interval=None,
    iqm=4.0,
    cells={
        "jokes": Cell((1,), (), alone(3.0), None, None, {"liked": alone(0.03)}),
        "stories": Cell(
            seeds=(1,),
            failed=(),
            preference=alone(5.0),
            interval=None,
            naturalness=alone(100.0),
            metrics={"liked": alone(0.1), "edits": alone(100.0), "fluent": alone(20.0), "words": alone(0.0)},
        ),
    },
)
PAPER = Reported(
    source=Publication(
        key="doe2020",
        authors="Jane Doe, René Roe",
        title="Stories, told",
        venue="ACL",
        year=2020,
        url="https://example.org/doe2020",
        version="",
    ),
    tables=(
        ReportedTable(
            task="stories",
            table="Table 3",
            split="test",
            seeds=5,
            note="Printed, not checked.",
            columns=(
                ReportedColumn("liked", "higher"),
                ReportedColumn("edits", "lower", "Counted by hand."),
                ReportedColumn("mean_length", "none"),
            ),
            rows=(
                ReportedRow("Zero-Shot", "", "", {"liked": Figure(0.5), "edits": Figure(51)}),
                ReportedRow(
                    algorithm="PPO",
                    reward="liked",
                    variant="target KL 0.1",
                    figures={
                        "liked": Figure(0.625, 0.01),
                        "edits": Figure(40.5, 1.25),
                        "mean_length": Figure(12.0),
                    },
                ),
            ),
        ),
        ReportedTable(
            task="stories",
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
