"""The paper's figures as they ship: complete, true to the print, and clear about what is not standard in them."""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.paths import ROOT

from grue.cli.main import main
from grue.errors import DataError
from grue.metrics.registry import CARDS
from grue.submissions.reported import PAPER, Publication, Reported, ReportedTable, paper_scores, read_reported

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
    ("imdb", "Table 5"): {"perplexity"},
    ("imdb", "Table 6"): {"perplexity"},
    ("imdb", "Table 7"): {"perplexity"},
    ("imdb", "Table 8"): {"perplexity"},
    ("commongen", "Table 12"): {"rouge2", "rougeL", "bleu3", "bleu4", "meteor", "cider", "coverage"},
    ("commongen", "Table 13"): {*ROUGES, "meteor", "bleu4", "bertscore", "cider", "spice"},
    ("cnn_dailymail", "Table 17"): {"meteor", "summac"},
    ("cnn_dailymail", "Table 18"): {"meteor"},
    ("cnn_dailymail", "Table 19"): {"meteor"},
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
def paper() -> Reported:
    (reported,) = read_reported(ROOT / "submissions", "grue")
    return reported


@pytest.fixture(scope="module")
def tables(paper: Reported) -> Mapping[tuple[str, str], ReportedTable]:
    return {(table.task, table.table): table for table in paper.tables}


def test_every_table_is_there_whole(tables: Mapping[tuple[str, str], ReportedTable]) -> None:
    assert {key: (len(table.rows), len(table.columns)) for key, table in tables.items()} == SHAPES
    for table in tables.values():
        names = [column.name for column in table.columns]
        assert all(list(row.figures) == names for row in table.rows), table.table


@pytest.mark.parametrize("line", PRINTED, ids=lambda line: " ".join(map(str, line[:6])))
def test_a_figure_is_the_printed_one(
    tables: Mapping[tuple[str, str], ReportedTable],
    line: tuple[str, str, str, str, str, str, float, float | None],
) -> None:
    task, table, algorithm, reward, variant, column, mean, sd = line
    (row,) = [r for r in tables[task, table].rows if (r.algorithm, r.reward, r.variant) == (algorithm, reward, variant)]
    assert (row.figures[column].mean, row.figures[column].sd) == (mean, sd)


def test_every_figure_is_a_number_that_can_be(tables: Mapping[tuple[str, str], ReportedTable]) -> None:
    shares = {*ROUGES, "meteor", "bleu3", "bleu4", "bertscore", "spice", "sentiment", "intent", "summac", "rougeLmax"}
    shares |= {*SACREBLEUS, *PARENTS, "msttr", "distinct1", "distinct2", "preference", "naturalness", "chrf", "ter"}
    for table in tables.values():
        for row in table.rows:
            for column, figure in row.figures.items():
                assert math.isfinite(figure.mean) and (figure.sd is None or figure.sd >= 0)
                assert column not in shares or 0 <= figure.mean <= 1, (table.table, column)
                assert column not in JUDGED or 1 <= figure.mean <= 5


def test_one_spelling_for_algorithms_and_rewards(tables: Mapping[tuple[str, str], ReportedTable]) -> None:
    found: dict[str, set[str]] = {}
    for table in tables.values():
        assert {row.algorithm for row in table.rows} <= ALGORITHMS
        found.setdefault(table.task, set()).update(row.reward for row in table.rows)
        learned = [row for row in table.rows if "PO" in row.algorithm]
        if "human_coherence" not in table.rows[0].figures and table.table != "Figure 2":
            assert all((row.reward != "") == (row in learned) for row in table.rows), table.table
    assert {task: rewards - {""} for task, rewards in found.items()} == REWARDS


def test_directions(tables: Mapping[tuple[str, str], ReportedTable]) -> None:
    wanted = {"perplexity": "lower", "ter": "lower", "mean_length": "none", "raters": "none"}
    for table in tables.values():
        for column in table.columns:
            alpha = column.name.endswith("_alpha")
            assert column.direction == wanted.get(column.name, "none" if alpha else "higher"), column.name


def test_a_column_is_a_metric_of_ours_or_known_to_be_none(tables: Mapping[tuple[str, str], ReportedTable]) -> None:
    for key, table in tables.items():
        names = {column.name for column in table.columns}
        if key[1] == "Figure 2":
            assert names == {"preference", "naturalness"}
        else:
            assert names <= NO_METRIC | set(CARDS)


def test_what_is_not_standard_says_so(tables: Mapping[tuple[str, str], ReportedTable]) -> None:
    for key, table in tables.items():
        deviating = {column.name for column in table.columns if column.deviation}
        expected = {"preference", "naturalness"} if key[1] == "Figure 2" else DEVIATING.get(key, set())
        assert deviating == expected, key
        for column in table.columns:
            if column.name == "meteor" and key != ("commongen", "Table 12"):
                assert "printed as" in column.deviation and "Python list" in column.deviation
            if key == ("dailydialog", "Table 33") and column.name != "intent":
                assert "<EOU>" in column.deviation
    (cider,) = [column for column in tables["commongen", "Table 12"].columns if column.name == "cider"]
    assert "ten times" in cider.deviation


def test_splits_and_seeds_are_those_that_are_stated(tables: Mapping[tuple[str, str], ReportedTable]) -> None:
    validation = {
        "Table 5",
        "Table 13",
        "Table 13, diversity",
        "Table 18",
        "Table 19",
        "Table 24",
        "Table 24, diversity",
    }
    for (task, name), table in tables.items():
        unknown = name in ("Table 6", "Table 7", "Table 8")
        assert table.split == ("not stated" if unknown else "validation" if name in validation else "test")
        assert table.seeds == (5 if task == "imdb" and name != "Table 9" else None)
        assert table.note
    for name in ("Table 6", "Table 7", "Table 8"):
        assert "older configuration" in tables["imdb", name].note
    for table in tables.values():
        has_sd = any(figure.sd is not None for row in table.rows for figure in row.figures.values())
        assert has_sd == (table.table in {f"Table {n}" for n in (5, 6, 7, 8, 12, 13)} | {"Table 13, diversity"})


def test_the_file_is_small_and_has_one_row_a_line() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert len(text.encode()) < 200_000
    lines = text.splitlines()
    assert sum('"figures"' in line for line in lines) == sum(rows for rows, _ in SHAPES.values())
    assert all(line.count('"figures"') <= 1 for line in lines)
    assert "arXiv version 3" in text and "iwslt2017" not in text


# --- what a file must not say ----------------------------------------------------------------------------------------


def a_file(**changes: Any) -> dict[str, Any]:
    table = {
        "task": "imdb",
        "table": "Table 1",
        "split": "test",
        "seeds": None,
        "note": "",
        "columns": [{"name": "sentiment", "direction": "higher"}],
        "rows": [{"algorithm": "PPO", "reward": "sentiment", "variant": "", "figures": {"sentiment": {"mean": 0.5}}}],
    }
    source = {"key": "me2026", "authors": "Me", "title": "T", "venue": "V", "year": 2026, "url": "u", "version": "1"}
    return {"source": source, "tables": [table | changes]}


def written(folder: Path, content: dict[str, Any], name: str = "me2026.reported.json") -> Path:
    path = folder / "mini" / name
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_a_folder_without_figures_has_none(tmp_path: Path) -> None:
    assert read_reported(tmp_path, "mini") == ()


def test_a_file_is_read(tmp_path: Path) -> None:
    written(tmp_path, a_file())
    (reported,) = read_reported(tmp_path, "mini")
    assert reported.source == Publication("me2026", "Me", "T", "V", 2026, "u", "1")
    assert reported.tables[0].rows[0].figures["sentiment"].mean == 0.5


ROW = a_file()["tables"][0]["rows"][0]
COLUMN = a_file()["tables"][0]["columns"][0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (a_file(task="imbd"), "Table 1 of imbd: there is no such task. Did you mean 'imdb'? Known: "),
        (a_file(columns=[COLUMN, COLUMN]), "Table 1 of imdb: the column 'sentiment' is there twice."),
        (
            a_file(rows=[ROW, ROW]),
            "Table 1 of imdb: the row PPO, sentiment is there twice; distinguish the two by `variant`.",
        ),
        (
            a_file(rows=[ROW | {"figures": {"bleu": {"mean": 1.0}}}]),
            "Table 1 of imdb: PPO has a figure for 'bleu', which is no column of the table.",
        ),
        (
            a_file() | {"tables": a_file()["tables"] * 2},
            "Table 1 of imdb is there twice; give each table of a task its own name",
        ),
        (a_file(columns=[COLUMN | {"direction": "up"}]), "direction: str 'up' is not one of higher, lower"),
        (a_file(rows=[ROW | {"figures": {"sentiment": {"mean": "0.5"}}}]), "expected a number, found str '0.5'"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(tmp_path: Path, content: dict[str, Any], message: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(DataError) as caught:
        read_reported(tmp_path, "mini")
    assert str(caught.value).startswith(str(path)) and message in str(caught.value)


def test_a_file_has_its_sources_key_for_a_name(tmp_path: Path) -> None:
    path = written(tmp_path, a_file(), name="you2026.reported.json")
    with pytest.raises(DataError, match="source.key is 'me2026'; name the file me2026.reported.json"):
        read_reported(path.parents[1], "mini")


# --- Figure 2 --------------------------------------------------------------------------------------------------------


def test_a_plain_mean_by_hand(paper: Reported) -> None:
    scores = {(score.task, score.algorithm): score for score in paper_scores(paper)}
    supervised = scores["wmt16", "Supervised"]
    assert supervised.score == pytest.approx(
        (0.635 + 0.411 + 0.59 + 0.59 + 0.482 + 0.294 + 0.35 + 0.617 + (1 - 0.54)) / 9
    )
    best = scores["totto", "Supervised + NLPO"]
    assert (best.reward, best.score) == ("PARENT", pytest.approx((0.474 + 0.596) / 2))
    supervised = scores["commongen", "Supervised"]
    assert supervised.score == pytest.approx((0.16385 + 0.215 + 0.438 + 0.444 + 0.329 + 0.321 + 0.94476) / 7)
    ppo = scores["imdb", "PPO"]
    assert (ppo.variant, ppo.score) == ("target KL 0.1", 0.602)
    assert scores["cnn_dailymail", "Lead-3"].drawn is None and scores["cnn_dailymail", "Lead-3"].difference is None
    assert len(scores) == 7 * 6 + 1


def test_figure_two_comes_out_where_its_mix_is_known(paper: Reported) -> None:
    algorithms = ("Supervised", "PPO", "NLPO", "Supervised + PPO", "Supervised + NLPO")
    bars = {
        "totto": (0.520, 0.250, 0.264, 0.529, 0.535),
        "wmt16": (0.493, 0.495, 0.494, 0.496, 0.497),
        "dailydialog": (0.310, 0.347, 0.355, 0.325, 0.328),
    }
    drawn = {task: dict(zip(algorithms, heights, strict=True)) for task, heights in bars.items()}
    scores = [score for score in paper_scores(paper) if score.drawn is not None]
    assert {score.task for score in scores if not score.doubt} == set(drawn)
    for score in scores:
        if score.task in drawn:
            assert score.drawn == drawn[score.task][score.algorithm]
            assert score.score == pytest.approx(score.drawn, abs=0.005 + 1e-9), (score.task, score.algorithm)
            assert score.difference == score.score - score.drawn


def test_what_could_not_be_identified_says_so(paper: Reported) -> None:
    doubts = {score.task: score.doubt for score in paper_scores(paper) if score.doubt}
    assert set(doubts) == {"imdb", "commongen", "cnn_dailymail", "narrativeqa"}
    assert "not identified" in doubts["commongen"] and "not identified" in doubts["cnn_dailymail"]
    assert "in part" in doubts["narrativeqa"] and "in no table" in doubts["imdb"]


def test_another_source_has_no_figure_two(paper: Reported) -> None:
    assert paper_scores(Reported(Publication("me2026", "Me", "T", "V", 2026, "u", "1"), paper.tables)) == ()


def test_the_page_of_the_documentation_shows_the_same_table(paper: Reported) -> None:
    lines = (ROOT / "docs" / "reference" / "reported.md").read_text(encoding="utf-8").splitlines()
    rows = [
        re.split(r" *\| *", line.strip("| ")) for line in lines if re.match(r"\| \w+ \| [^|]+ \| [^|]* \| 0\.\d", line)
    ]
    assert rows == [
        [
            score.task,
            score.algorithm,
            ", ".join(filter(None, (score.reward, score.variant))) or "–",
            f"{score.score:.4f}",
            f"{score.drawn:.3f}",
            f"{score.difference:+z.4f}".replace("-", "−"),
        ]
        for score in paper_scores(paper)
        if score.drawn is not None and score.difference is not None
    ]


# --- on the board ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "texts"),
    [
        ("totto", ("0.475", "0.596", "-1.392", "goes to 100", "filled up to three", "digit by digit")),
        ("commongen", ("16.385 ± 0.046", "91.07", "ten times too large", "METEOR 1.5", "SPIDEr")),
        ("imdb", ("PPO, target KL ∞", "41.897 ± 1.806", "5 seeds", "older configuration", "NLPO, without KL")),
        ("dailydialog", ("METEOR + intent", "0.221", "printed as a Python list", "18.685")),
    ],
)
def test_the_board_of_a_task_shows_its_tables(tmp_path: Path, task: str, texts: tuple[str, ...]) -> None:
    places = ["--submissions", str(FILE.parents[1]), "--runs", str(tmp_path)]
    shown = CliRunner().invoke(
        main, ["leaderboard", "--suite", "grue", "--task", task, "--format", "markdown", *places]
    )
    assert shown.exit_code == 0, shown.output
    headings = [line for line in shown.stdout.splitlines() if line.startswith("#") and "reported in" in line]
    assert len(headings) == sum(name == task for name, _ in SHAPES)
    assert all(any(heading.endswith(name) for heading in headings) for other, name in SHAPES if other == task)
    for text in texts:
        assert text in shown.stdout
