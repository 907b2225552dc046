"""The paper's figures as they ship: complete, true to the print, and clear about what is not standard in them."""

import hashlib
import json

import pytest
from support.commands import grue
from support.paths import ROOT

from grue.errors import DataError
from grue.metrics.card import CARDS
from grue.render.figure_2 import DOUBTS, PAPER, paper_scores
from grue.submissions.reported import Publication, Reported, read_reported

FILE = ROOT / "submissions" / "grue" / f"{PAPER}.reported.json"

SHA256 = "db1746a8a00e7934da391b57310c65bebe762fedd50d131fe2ef8c99f514e064"
"""Of the file as it was held against the paper; after a change it is to be held against it again."""

TASKS = {"imdb": 6, "commongen": 5, "cnn_dailymail": 6, "totto": 5, "narrativeqa": 3, "wmt16": 3, "dailydialog": 4}
"""Task → its tables, the part of Figure 2 included."""

PRINTED = [  # read in the paper: task, table, algorithm, reward, variant, column, mean, ±
    ("imdb", "Table 5", "Zero-Shot", "", "", "perplexity", 32.171, 0.137),
    ("imdb", "Table 5", "Supervised + NLPO", "sentiment", "target KL ∞", "unique2", 43342, 6828),
    ("imdb", "Table 9", "Human", "", "", "human_coherence_alpha", 0.159, None),
    ("commongen", "Table 12", "Supervised", "", "", "cider", 16.385, 0.046),
    ("cnn_dailymail", "Table 18", "Supervised + PPO", "METEOR", "rollout top-k 100", "bleu4", 0.131, None),
    ("cnn_dailymail", "Table 19", "NLPO", "ROUGE-Avg", "rollout top-k 50, mu 20", "rouge1", 0.349, None),
    ("totto", "Table 23", "PPO", "METEOR + PARENT", "", "sacrebleu_nonoverlap", 0.152, None),
    ("narrativeqa", "Table 28", "Supervised", "", "", "rougeLmax", 0.581, None),
    ("wmt16", "Table 30", "Supervised + NLPO", "TER", "", "ter", 0.531, None),
    ("dailydialog", "Table 33", "NLPO", "METEOR + intent", "", "intent", 0.49, None),
    ("totto", "Figure 2", "NLPO", "", "", "preference", 0.264, None),
]

JUDGED = {"human_coherence", "human_sentiment", "human_commonsense", "human_quality", "human_correctness"}
NO_METRIC = {*JUDGED, *(f"{name}_alpha" for name in JUDGED), "raters", "bleurt_overlap", "bleurt_nonoverlap"}


@pytest.fixture(scope="module")
def paper():
    (reported,) = read_reported(ROOT / "submissions", "grue")
    return reported


@pytest.fixture(scope="module")
def tables(paper):
    return {(table.task, table.table): table for table in paper.tables}


def test_every_table_is_there_and_true_to_the_print(tables):
    assert hashlib.sha256(FILE.read_bytes()).hexdigest() == SHA256
    assert {task: sum(of == task for of, _ in tables) for task in TASKS} == TASKS
    for task, table, *which, column, mean, sd in PRINTED:
        (row,) = [row for row in tables[task, table].rows if [row.algorithm, row.reward, row.variant] == which]
        assert (row.figures[column].mean, row.figures[column].sd) == (mean, sd), (task, table, *which, column)


def test_every_figure_has_a_column_of_a_known_metric_and_a_direction(tables):
    directions = {"perplexity": "lower", "ter": "lower", "mean_length": "none", "raters": "none"}
    for (_, name), table in tables.items():
        names = [column.name for column in table.columns]
        drawn = {"preference", "naturalness"} if name == "Figure 2" else set()
        assert set(names) <= NO_METRIC | set(CARDS) | drawn and all(list(row.figures) == names for row in table.rows)
        for column in table.columns:
            alpha = column.name.endswith("_alpha")
            assert column.direction == directions.get(column.name, "none" if alpha else "higher"), column.name


def a_file(**changes):
    table = {
        **{"task": "imdb", "table": "Table 1", "split": "test", "seeds": None, "note": ""},
        "columns": [{"name": "sentiment", "direction": "higher"}],
        "rows": [{"algorithm": "PPO", "reward": "sentiment", "variant": "", "figures": {"sentiment": {"mean": 0.5}}}],
    }
    source = {"key": "me2026", "authors": "Me", "title": "T", "venue": "V", "year": 2026, "url": "u", "version": "1"}
    return {"source": source, "tables": [table | changes]}


ME = Publication("me2026", "Me", "T", "V", 2026, "u", "1")
ROW, COLUMN = a_file()["tables"][0]["rows"][0], a_file()["tables"][0]["columns"][0]


def test_a_file_is_read_and_one_that_contradicts_itself_is_refused(tmp_path, refused):
    assert read_reported(tmp_path, "mini") == ()
    (tmp_path / "mini").mkdir()
    path = tmp_path / "mini/me2026.reported.json"
    path.write_text(json.dumps(a_file()))
    (reported,) = read_reported(tmp_path, "mini")
    assert (reported.source, reported.tables[0].rows[0].figures["sentiment"].mean) == (ME, 0.5)
    for content in (
        a_file(task="imbd"),
        a_file(columns=[COLUMN, COLUMN]),
        a_file(rows=[ROW, ROW]),
        a_file(rows=[ROW | {"figures": {"bleu": {"mean": 1.0}}}]),
        a_file() | {"tables": a_file()["tables"] * 2},
        a_file(columns=[COLUMN | {"direction": "up"}]),
        a_file(rows=[ROW | {"figures": {"sentiment": {"mean": "0.5"}}}]),
    ):
        path.write_text(json.dumps(content))
        with refused(DataError):
            read_reported(tmp_path, "mini")
    path.write_text(json.dumps(a_file()))
    path.rename(path.with_name("you2026.reported.json"))
    with refused(DataError):
        read_reported(tmp_path, "mini")


def test_a_plain_mean_by_hand(paper):
    scores = paper_scores(paper)
    translated = (0.635 + 0.411 + 0.59 + 0.59 + 0.482 + 0.294 + 0.35 + 0.617 + (1 - 0.54)) / 9
    assert scores["Supervised"]["wmt16"] == pytest.approx(translated)
    assert scores["Supervised + NLPO"]["totto"] == pytest.approx((0.474 + 0.596) / 2), "rewarded by PARENT"
    told = (0.16385 + 0.215 + 0.438 + 0.444 + 0.329 + 0.321 + 0.94476) / 7
    assert scores["Supervised"]["commongen"] == pytest.approx(told)
    assert scores["PPO"]["imdb"] == 0.602, "the target KL is 0.1"
    assert sum(map(len, scores.values())) == 7 * 6 + 1
    assert paper_scores(Reported(ME, paper.tables)) == {}, "another source has no Figure 2"


def test_figure_two_comes_out_where_its_mix_is_known_and_elsewhere_says_so(paper):
    algorithms = ("Supervised", "PPO", "NLPO", "Supervised + PPO", "Supervised + NLPO")
    bars = {
        "totto": (0.520, 0.250, 0.264, 0.529, 0.535),
        "wmt16": (0.493, 0.495, 0.494, 0.496, 0.497),
        "dailydialog": (0.310, 0.347, 0.355, 0.325, 0.328),
    }
    drawn = {
        (table.task, row.algorithm): row.figures["preference"].mean
        for table in paper.tables
        for row in table.rows
        if table.table == "Figure 2"
    }
    scores = paper_scores(paper)
    for task, heights in bars.items():
        for algorithm, height in zip(algorithms, heights, strict=True):
            assert drawn[task, algorithm] == height
            assert scores[algorithm][task] == pytest.approx(height, abs=0.005 + 1e-9), (task, algorithm)
    assert {task for task, _ in drawn} - set(DOUBTS) == set(bars)
    assert set(DOUBTS) == {"imdb", "commongen", "cnn_dailymail", "narrativeqa"}
    assert "not identified" in DOUBTS["commongen"] and "not identified" in DOUBTS["cnn_dailymail"]
    assert "in part" in DOUBTS["narrativeqa"] and "in no table" in DOUBTS["imdb"]


def test_the_board_of_a_task_shows_its_tables(tmp_path):
    """What is printed beside a ±, with a variant, by people, and how a column differs."""
    places = ["--submissions", str(FILE.parents[1]), "--runs", str(tmp_path), "--format", "markdown"]
    shown = grue("leaderboard", "--suite", "grue", "--task", "imdb", *places).stdout
    headings = [line for line in shown.splitlines() if line.startswith("#") and "reported in" in line]
    assert len(headings) == TASKS["imdb"]
    for text in ("PPO, target KL ∞", "41.897 ± 1.806", "5 seeds", "older configuration", "NLPO, without KL"):
        assert text in shown
