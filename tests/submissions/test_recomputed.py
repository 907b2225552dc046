"""Systems whose outputs are published elsewhere: what their files hold, and how the board shows them."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.commands import grue
from support.factories import LIKED, a_task, entries
from support.paths import REAL, ROOT

from grue import files
from grue.data.formats import FORMATS
from grue.data.load import load_examples, obtain
from grue.errors import DataError
from grue.evaluation.scoring import chosen_metrics, references_hash, score_predictions
from grue.leaderboard.published import read_board
from grue.leaderboard.rank import rank
from grue.records import Prediction
from grue.render import as_json
from grue.render.as_reported import reported_tables
from grue.submissions.entries import recomputed
from grue.task_files import load_task

COMMITTED = ROOT / "submissions" / "grue"
STORIES, JOKES = a_task("stories"), a_task("jokes", metrics=(LIKED,))


@pytest.fixture
def row(tmp_path, monkeypatch):
    """UniLM's row, in a working directory of its own."""
    (tmp_path / "submissions/grue").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copy(COMMITTED / "unilm.recomputed.json", "submissions/grue"))


def edit(path, change):
    content = files.read_json(path)
    change(content["results"][0])
    files.write_json(path, content)


def test_a_row_holds_address_hash_data_and_figures(row):
    (entry,) = recomputed(row.parent.parent, "grue")
    assert (entry.status, entry.about.log) == ("recomputed", "submissions/grue/unilm.recomputed.json")
    assert entry.about.authors[0] == "Bill Yuchen Lin" and entry.result.data["outputs"].startswith("https://")
    assert recomputed(row.parent.parent, "mini") == []


@pytest.mark.parametrize(
    "change",
    [
        lambda result: result.update(suite="mini"),
        lambda result: result["system"].update(name="theirs"),
        lambda result: result["data"].pop("outputs_sha256"),
        lambda result: result.pop("seed"),
        lambda result: result["scores"][0].update(value="high"),
    ],
    ids=["another suite", "another name", "no hash", "no seed", "no number"],
)
def test_a_file_that_contradicts_itself_is_refused(row, change, refused):
    edit(row, change)
    with refused(DataError):
        recomputed(row.parent.parent, "grue")


def test_the_board_says_what_a_row_was_computed_from_in_every_format(row):
    edit(row, lambda result: result["data"].update(source="<script>alert(1)</script>\x1b[2J"))
    for form in ("markdown", "csv", "latex", "html"):
        command = ("--submissions", "submissions", "--suite", "grue", "--task", "commongen", "--no-local")
        shown = grue("leaderboard", *command, "--format", form).stdout
        assert all(said in shown for said in ("unilm", "recomputed")) and "\x1b" not in shown, form
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown


def of_system(name, centre, status):
    scores = {seed: centre + seed / 10 for seed in range(1, 6)}
    found = entries(STORIES, name, scores) + entries(JOKES, name, scores, naturalness=None)
    data = {"source": "a page", "source_split": "dev", "examples": 9, "outputs": "https://x.org", "outputs_sha256": "0"}
    if status == "recomputed":
        year = {"year": 2020}
        found = [replace(e, result=replace(e.result, data=data, system=e.result.system | year)) for e in found]
    return [replace(entry, status=status) for entry in found]


def test_a_row_by_reference_is_never_ranked_and_changes_no_rank(tmp_path):
    """Not even one that claims five seeds of every task, and the highest scores."""
    ours, both = of_system("good", 50.0, "rescored") + of_system("bad", 20.0, "rescored"), [STORIES, JOKES]
    before = {row.system: row for row in rank(ours, both).rows}
    board = rank([*ours, *of_system("theirs", 90.0, "recomputed")], both)
    rows = {row.system: row for row in board.rows}
    theirs = rows.pop("theirs")
    assert rows == before
    assert [row.system for row in board.rows] == ["good", "bad", "theirs"], "below what is ranked"
    assert (theirs.status, theirs.standing, theirs.rank, dict(theirs.task_ranks)) == ("recomputed", "partial", None, {})
    assert (theirs.preference, theirs.interval, theirs.naturalness, theirs.learned, theirs.iqm) == (None,) * 5
    (tmp_path / "board.json").write_text(as_json.render(board))
    (again,) = [r for r in rank(ours, both, shipped=read_board(tmp_path / "board.json")).rows if r.system == "theirs"]
    (alone,) = rank(of_system("theirs", 90.0, "recomputed"), [JOKES]).rows
    for row in (again, alone):
        assert (row.standing, row.rank, dict(row.task_ranks)) == ("partial", None, {})
    assert again.preference is None
    beside = rank([*ours, *of_system("good", 90.0, "recomputed")], both)
    assert [(row.system, row.status) for row in beside.rows][-1] == ("good", "recomputed"), "a row of its own"


COPIES = {"unilm": ("commongen", "commongen/system_outputs/UniLM.dev.txt")}
PUBLISHED = {"ef690b3": 39.3, "ce0a251": 39.4}
"""As the .bleu files beside the outputs state it, from sacrebleu."""
for _commit in PUBLISHED:
    _file = f"wmt16/system_outputs/newstest2016.bergamot-base-memory.{_commit}.de"
    COPIES[f"bergamot-base-memory-{_commit}"] = ("wmt16", _file)


def test_the_rows_of_the_repository_are_sound_and_current():
    """Their means follow from their figures, and their data is that of the task as it is now."""
    found = {entry.result.system["name"]: entry.result for entry in recomputed(ROOT / "submissions", "grue")}
    assert found.keys() == COPIES.keys()
    for result in found.values():
        task = load_task(result.task, "grue")
        split = task.data.splits[task.data.evaluation]
        assert (result.task_version, result.task_hash, result.split) == (task.version, task.hash, task.data.evaluation)
        assert result.data["examples"] == split.examples
        assert split.ids_sha256 in ("", result.data["ids_sha256"])
        assert len(result.data["outputs"].split("/")[5]) == 40, "the address names a commit, whose file cannot change"
        by_metric = {score.metric: score for score in result.scores}
        for axis in ("preference", "naturalness"):
            scaled = [by_metric[one.name].scaled for one in task.metrics if one.axis == axis and one.name in by_metric]
            complete = len(scaled) == sum(one.axis == axis for one in task.metrics)
            mean = sum(scaled) / len(scaled) if complete else None
            assert getattr(result, axis) == (None if mean is None else pytest.approx(mean, abs=1e-9))
    for commit, published in PUBLISHED.items():
        (bleu,) = [s for s in found[f"bergamot-base-memory-{commit}"].scores if s.metric == "sacrebleu"]
        assert round(bleu.value, 1) == published


def test_the_rows_of_the_repository_stand_above_the_papers_tables():
    text = (ROOT / "leaderboard" / "grue.md").read_text(encoding="utf-8")
    assert 0 < text.index("| unilm") < text.index("### commongen, as reported in Table 12")
    board = read_board(ROOT / "leaderboard" / "grue.json")
    assert {row.status for row in board.rows} == {"recomputed"}
    assert len(reported_tables(board)) == 7
    ours = replace(board.rows[0], status="rescored")
    assert reported_tables(replace(board, rows=(ours, *board.rows))) == ()


@pytest.mark.slow
@pytest.mark.skipif(not REAL.is_dir(), reason=f"the slices of real data are not here: no folder {REAL}")
@pytest.mark.parametrize("name", COPIES)
def test_the_rows_of_the_repository_follow_from_the_published_files(name):
    """WMT16's have a line an example; UniLM's one for each reference of every row, and those of an example are alike."""
    (stated,) = [e.result for e in recomputed(ROOT / "submissions", "grue") if e.result.system["name"] == name]
    task_name, place = COPIES[name]
    task, path = load_task(task_name, "grue"), REAL / place
    assert files.sha256_file(path) == stated.data["outputs_sha256"]
    examples = load_examples(task, "test", REAL / task_name).examples
    assert references_hash(examples) == stated.hashes["references"]
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    ids = [example.id for example in examples]
    if task_name == "commongen":
        rows = obtain(task, "test", REAL / task_name, False).rows()
        ids = [one.id for row in rows for one in FORMATS[task.data.format]([row]) for _ in one.references]
    assert len(set(zip(ids, lines, strict=True))) == len(set(ids)) == len(examples)
    predictions = [Prediction(*pair) for pair in dict(zip(ids, lines, strict=True)).items()]
    wanted = {score.metric: score.value for score in stated.scores}
    specs = [spec for spec in chosen_metrics(task) if spec.name in wanted]
    scored = score_predictions(task, "test", examples, predictions, specs, skip_unavailable=True)
    assert {score.metric: score.value for score in scored.scores} == pytest.approx(wanted, rel=1e-6)
