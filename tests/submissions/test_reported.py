"""The paper's figures as they ship: complete, true to the print, and clear about what is not standard in them."""

import json
import math

import pytest
from click.testing import CliRunner
from support.paths import ROOT

from grue.cli.main import main
from grue.errors import DataError
from grue.metrics.card import CARDS
from grue.render.figure_2 import PAPER, paper_scores
from grue.submissions.reported import Publication, Reported, read_reported

FILE = ROOT / "submissions" / "grue" / f"{PAPER}.reported.json"

SHAPES = {  # (task, table) → rows, columns
    (task, table): shape
    for task, tables in {
        "imdb": {"Table 5": (14, 9), "Table 6": (7, 9), "Table 7": (13, 9), "Table 8": (9, 9), "Table 9": (9, 5)},
        "commongen": {"Table 12": (26, 8), "Table 13": (26, 9), "Table 13, diversity": (26, 8), "Table 14": (6, 5)},
        "cnn_dailymail": {
            **{"Table 17": (15, 8), "Table 17, diversity": (15, 8), "Table 18": (12, 7), "Table 19": (36, 7)},
            **{"Table 20": (7, 5)},
        },
        "totto": {"Table 23": (22, 9), "Table 24": (22, 12), "Table 24, diversity": (22, 8), "Table 25": (6, 5)},
        "narrativeqa": {"Table 28": (10, 8), "Table 28, diversity": (10, 8)},
        "wmt16": {"Table 30": (18, 10), "Table 31": (18, 8)},
        "dailydialog": {"Table 33": (6, 8), "Table 33, diversity": (6, 8), "Table 34": (6, 5)},
    }.items()
    for table, shape in (tables | {"Figure 2": (5, 2)}).items()
}

PRINTED = [  # read in the paper: task, table, algorithm, reward, variant, column, mean, ±
    ("imdb", "Table 5", "Zero-Shot", "", "", "perplexity", 32.171, 0.137),
    ("imdb", "Table 5", "PPO", "sentiment", "target KL 0.1", "sentiment", 0.602, 0.012),
    ("imdb", "Table 5", "PPO", "sentiment", "target KL ∞", "perplexity", 41.897, 1.806),
    ("imdb", "Table 5", "NLPO", "sentiment", "target KL 0.1", "sentiment", 0.611, 0.023),
    ("imdb", "Table 5", "Supervised + PPO", "sentiment", "target KL 0.1", "sentiment", 0.626, 0.014),
    ("imdb", "Table 5", "Supervised + NLPO", "sentiment", "target KL 0.1", "sentiment", 0.62, 0.014),
    ("imdb", "Table 5", "Supervised + NLPO", "sentiment", "target KL ∞", "unique2", 43342, 6828),
    ("imdb", "Table 6", "NLPO", "sentiment", "gamma 1.0", "perplexity", 43.72, 2.475),
    ("imdb", "Table 7", "Supervised", "", "data fraction 0.1 (1k)", "sentiment", 0.531, 0.005),
    ("imdb", "Table 7", "PPO", "sentiment", "data fraction 0.5 (10k)", "entropy2", 13.432, 1.173),
    ("imdb", "Table 8", "NLPO", "sentiment", "mu 10", "sentiment", 0.622, 0.014),
    ("imdb", "Table 8", "NLPO", "sentiment", "top-p 0.1", "perplexity", 32.451, 0.243),
    ("imdb", "Table 9", "NLPO", "", "without KL", "human_sentiment", 4.41, None),
    ("imdb", "Table 9", "Human", "", "", "human_coherence_alpha", 0.159, None),
    ("commongen", "Table 12", "Zero-Shot", "", "", "coverage", 91.07, None),
    ("commongen", "Table 12", "Supervised", "", "", "cider", 16.385, 0.046),
    ("commongen", "Table 12", "Supervised + PPO", "METEOR", "", "meteor", 0.327, 0.001),
    ("commongen", "Table 12", "NLPO", "SPIDEr", "", "coverage", 49.23, 10.468),
    ("commongen", "Table 13", "Supervised + PPO", "SPIDEr", "", "cider", 1.374, 0.018),
    ("commongen", "Table 13, diversity", "NLPO", "CIDEr", "", "mean_length", 7.13, 0.223),
    ("commongen", "Table 14", "Supervised", "", "", "human_commonsense", 4.21, None),
    ("cnn_dailymail", "Table 17", "Lead-3", "", "", "summac", 0.993, None),
    ("cnn_dailymail", "Table 17", "Supervised + NLPO", "METEOR", "", "rouge1", 0.429, None),
    ("cnn_dailymail", "Table 17, diversity", "Lead-3", "", "", "distinct1", 0.0482, None),
    ("cnn_dailymail", "Table 18", "Supervised + PPO", "METEOR", "rollout top-k 100", "bleu4", 0.131, None),
    ("cnn_dailymail", "Table 19", "NLPO", "ROUGE-Avg", "rollout top-k 50, mu 20", "rouge1", 0.349, None),
    ("cnn_dailymail", "Table 20", "Human", "", "", "human_quality", 3.77, None),
    ("totto", "Table 23", "Zero-Shot", "", "", "bleurt", -1.392, None),
    ("totto", "Table 23", "Supervised + NLPO", "PARENT", "", "parent", 0.596, None),
    ("totto", "Table 23", "PPO", "METEOR + PARENT", "", "sacrebleu_nonoverlap", 0.152, None),
    ("totto", "Table 24", "Supervised + NLPO", "METEOR", "", "parent_overlap", 0.649, None),
    ("totto", "Table 24, diversity", "PPO", "PARENT", "", "mean_length", 13.035, None),
    ("totto", "Table 25", "PPO", "", "", "human_correctness", 3.23, None),
    ("narrativeqa", "Table 28", "Supervised + NLPO", "ROUGE-Combined", "", "bertscore", 0.971, None),
    ("narrativeqa", "Table 28", "Supervised", "", "", "rougeLmax", 0.581, None),
    ("wmt16", "Table 30", "Supervised + NLPO", "TER", "", "ter", 0.531, None),
    ("wmt16", "Table 30", "NLPO", "BERTScore", "", "chrf", 0.591, None),
    ("wmt16", "Table 31", "Supervised + NLPO", "BERTScore", "", "mean_length", 12.63, None),
    ("dailydialog", "Table 33", "NLPO", "METEOR + intent", "", "intent", 0.49, None),
    ("dailydialog", "Table 33", "PPO", "METEOR + intent", "", "meteor", 0.221, None),
    ("dailydialog", "Table 34", "Supervised", "", "", "human_quality", 3.59, None),
    ("totto", "Figure 2", "NLPO", "", "", "preference", 0.264, None),
]

ROUGES = {"rouge1", "rouge2", "rougeL", "rougeLsum"}
PARENTS = {"parent", "parent_overlap", "parent_nonoverlap"}
SACREBLEUS = {"sacrebleu", "sacrebleu_overlap", "sacrebleu_nonoverlap"}
DIVERSITY = {"msttr", "distinct1", "distinct2", "entropy1", "entropy2", "unique1", "unique2", "mean_length"}
DEVIATING = {  # the columns that are not our metric of that name
    **{("imdb", f"Table {number}"): {"perplexity"} for number in (5, 6, 7, 8)},
    ("commongen", "Table 12"): {"rouge2", "rougeL", "bleu3", "bleu4", "meteor", "cider", "coverage"},
    ("commongen", "Table 13"): {*ROUGES, "meteor", "bleu4", "bertscore", "cider", "spice"},
    ("cnn_dailymail", "Table 17"): {"meteor", "summac"},
    **{("cnn_dailymail", f"Table {number}"): {"meteor"} for number in (18, 19)},
    ("totto", "Table 23"): SACREBLEUS | PARENTS,
    ("totto", "Table 24"): {*ROUGES, "meteor"} | SACREBLEUS | PARENTS,
    ("narrativeqa", "Table 28"): {*ROUGES, "rougeLmax", "meteor"},
    ("wmt16", "Table 30"): {"meteor", "sacrebleu", "chrf", "ter"},
    ("dailydialog", "Table 33"): {*ROUGES, "meteor", "sacrebleu", "bertscore", "intent"},
    ("dailydialog", "Table 33, diversity"): DIVERSITY,
}
ALGORITHMS = {"Zero-Shot", "Supervised", "PPO", "NLPO", "Supervised + PPO", "Supervised + NLPO", "Lead-3", "Human"}
REWARDS = {
    "imdb": {"sentiment"},
    "commongen": {"ROUGE-1", "ROUGE-Avg", "METEOR", "SPICE", "CIDEr", "SPIDEr"},
    "cnn_dailymail": {"ROUGE-1", "ROUGE-Avg", "METEOR"},
    "totto": {"BLEU", "SacreBLEU", "METEOR", "PARENT", "METEOR + PARENT"},
    "narrativeqa": {"ROUGE-Combined", "ROUGE-L-Max"},
    "wmt16": {"SacreBLEU", "chrF", "TER", "BERTScore"},
    "dailydialog": {"METEOR + intent"},
}
JUDGED = {"human_coherence", "human_sentiment", "human_commonsense", "human_quality", "human_correctness"}
NO_METRIC = {*JUDGED, *(f"{name}_alpha" for name in JUDGED), "raters", "bleurt_overlap", "bleurt_nonoverlap"}


@pytest.fixture(scope="module")
def paper():
    (reported,) = read_reported(ROOT / "submissions", "grue")
    return reported


@pytest.fixture(scope="module")
def tables(paper):
    return {(table.task, table.table): table for table in paper.tables}


def test_every_table_is_there_whole_and_true_to_the_print(tables):
    assert {key: (len(table.rows), len(table.columns)) for key, table in tables.items()} == SHAPES
    for table in tables.values():
        names = [column.name for column in table.columns]
        assert all(list(row.figures) == names for row in table.rows), table.table
    for task, table, *which, column, mean, sd in PRINTED:
        (row,) = [row for row in tables[task, table].rows if [row.algorithm, row.reward, row.variant] == which]
        assert (row.figures[column].mean, row.figures[column].sd) == (mean, sd), (task, table, *which, column)


def test_every_figure_is_a_number_that_can_be_and_counts_as_it_should(tables):
    shares = {*ROUGES, "meteor", "bleu3", "bleu4", "bertscore", "spice", "sentiment", "intent", "summac", "rougeLmax"}
    shares |= {*SACREBLEUS, *PARENTS, "msttr", "distinct1", "distinct2", "preference", "naturalness", "chrf", "ter"}
    directions = {"perplexity": "lower", "ter": "lower", "mean_length": "none", "raters": "none"}
    for table in tables.values():
        for column, figure in ((column, figure) for row in table.rows for column, figure in row.figures.items()):
            assert math.isfinite(figure.mean) and (figure.sd is None or figure.sd >= 0)
            assert column not in shares or 0 <= figure.mean <= 1, (table.table, column)
            assert column not in JUDGED or 1 <= figure.mean <= 5
        for column in table.columns:
            alpha = column.name.endswith("_alpha")
            assert column.direction == directions.get(column.name, "none" if alpha else "higher"), column.name


def test_one_spelling_for_algorithms_and_rewards(tables):
    found = {}
    for table in tables.values():
        assert {row.algorithm for row in table.rows} <= ALGORITHMS
        found.setdefault(table.task, set()).update(row.reward for row in table.rows)
        if "human_coherence" not in table.rows[0].figures and table.table != "Figure 2":
            assert all((row.reward != "") == ("PO" in row.algorithm) for row in table.rows), table.table
    assert {task: rewards - {""} for task, rewards in found.items()} == REWARDS


def test_a_column_is_a_metric_of_ours_or_says_how_it_differs(tables):
    for key, table in tables.items():
        names = {column.name for column in table.columns}
        drawn = {"preference", "naturalness"} if key[1] == "Figure 2" else None
        assert names <= NO_METRIC | set(CARDS) if drawn is None else names == drawn
        deviating = {column.name for column in table.columns if column.deviation}
        assert deviating == (drawn or DEVIATING.get(key, set())), key
        for column in table.columns:
            if column.name == "meteor" and key != ("commongen", "Table 12"):
                assert "printed as" in column.deviation and "Python list" in column.deviation
            if key == ("dailydialog", "Table 33") and column.name != "intent":
                assert "<EOU>" in column.deviation
    (cider,) = [column for column in tables["commongen", "Table 12"].columns if column.name == "cider"]
    assert "ten times" in cider.deviation


def test_splits_and_seeds_are_those_that_are_stated(tables):
    validation = {f"Table {name}" for name in (5, 13, "13, diversity", 18, 19, 24, "24, diversity")}
    for (task, name), table in tables.items():
        unknown = name in ("Table 6", "Table 7", "Table 8")
        assert table.split == ("not stated" if unknown else "validation" if name in validation else "test")
        assert table.seeds == (5 if task == "imdb" and name != "Table 9" else None)
        assert "older configuration" in table.note if unknown else table.note
        has_sd = any(figure.sd is not None for row in table.rows for figure in row.figures.values())
        assert has_sd == (name in {f"Table {number}" for number in (5, 6, 7, 8, 12, 13, "13, diversity")})


def test_the_file_is_small_and_has_one_row_a_line():
    text = FILE.read_text(encoding="utf-8")
    assert len(text.encode()) < 200_000
    assert [line.count('"figures"') for line in text.splitlines()].count(1) == sum(rows for rows, _ in SHAPES.values())
    assert "arXiv version 3" in text and "iwslt2017" not in text


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
    scores = {(score.task, score.algorithm): score for score in paper_scores(paper)}
    translated = (0.635 + 0.411 + 0.59 + 0.59 + 0.482 + 0.294 + 0.35 + 0.617 + (1 - 0.54)) / 9
    assert scores["wmt16", "Supervised"].score == pytest.approx(translated)
    best = scores["totto", "Supervised + NLPO"]
    assert (best.reward, best.score) == ("PARENT", pytest.approx((0.474 + 0.596) / 2))
    told = (0.16385 + 0.215 + 0.438 + 0.444 + 0.329 + 0.321 + 0.94476) / 7
    assert scores["commongen", "Supervised"].score == pytest.approx(told)
    ppo = scores["imdb", "PPO"]
    assert (ppo.variant, ppo.score) == ("target KL 0.1", 0.602)
    assert scores["cnn_dailymail", "Lead-3"].drawn is None
    assert len(scores) == 7 * 6 + 1
    assert paper_scores(Reported(ME, paper.tables)) == (), "another source has no Figure 2"


def test_figure_two_comes_out_where_its_mix_is_known_and_elsewhere_says_so(paper):
    algorithms = ("Supervised", "PPO", "NLPO", "Supervised + PPO", "Supervised + NLPO")
    bars = {
        "totto": (0.520, 0.250, 0.264, 0.529, 0.535),
        "wmt16": (0.493, 0.495, 0.494, 0.496, 0.497),
        "dailydialog": (0.310, 0.347, 0.355, 0.325, 0.328),
    }
    drawn = {task: dict(zip(algorithms, heights, strict=True)) for task, heights in bars.items()}
    scores = [score for score in paper_scores(paper) if score.drawn is not None]
    assert {score.task for score in scores if not score.doubt} == set(drawn)
    for score in (score for score in scores if score.task in drawn):
        assert score.drawn == drawn[score.task][score.algorithm]
        assert score.score == pytest.approx(score.drawn, abs=0.005 + 1e-9), (score.task, score.algorithm)
    doubts = {score.task: score.doubt for score in paper_scores(paper) if score.doubt}
    assert set(doubts) == {"imdb", "commongen", "cnn_dailymail", "narrativeqa"}
    assert "not identified" in doubts["commongen"] and "not identified" in doubts["cnn_dailymail"]
    assert "in part" in doubts["narrativeqa"] and "in no table" in doubts["imdb"]


def test_the_board_of_a_task_shows_its_tables(tmp_path):
    """What is printed beside a ±, with a variant, by people, and how a column differs."""
    places = ["--submissions", str(FILE.parents[1]), "--runs", str(tmp_path), "--format", "markdown"]
    shown = CliRunner().invoke(main, ["leaderboard", "--suite", "grue", "--task", "imdb", *places])
    assert shown.exit_code == 0, shown.output
    headings = [line for line in shown.stdout.splitlines() if line.startswith("#") and "reported in" in line]
    names = [name for task, name in SHAPES if task == "imdb"]
    assert len(headings) == len(names) and all(any(line.endswith(name) for line in headings) for name in names)
    for text in ("PPO, target KL ∞", "41.897 ± 1.806", "5 seeds", "older configuration", "NLPO, without KL"):
        assert text in shown.stdout
