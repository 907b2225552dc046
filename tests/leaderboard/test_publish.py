"""`grue leaderboard`: what it reads, what it prints, what it publishes, and what it says when it cannot."""

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.factories import a_result

from grue import files
from grue.cli.main import main
from grue.data.load import load_examples
from grue.errors import DataError
from grue.leaderboard import published as boards
from grue.leaderboard.rank import rank
from grue.records import Score
from grue.render import as_json
from grue.render.publish import published, stale, strays
from grue.submissions.entries import results
from grue.submissions.folder import Submission
from grue.task_files import load_task, task_names

ENDINGS = ("md", "json", "csv", "tex", "html")
SHOWN = Path("leaderboard/examples/mini/imdb.js")


def result(task, system, seed, share):
    """A result with every metric of the task at a share of its best; the least perplexity is 1."""
    scores = tuple(
        Score(s.name, s.axis, share + s.name.startswith("perplexity"), 100 * share, 4, s.direction, f"{s.name}|v1")
        for s in task.metrics
    )
    return a_result(task, system, seed, 100 * share, 100 * share, scores=scores)


def submit(folder, system, share, suite="mini"):
    """Lay a submission of every task and five seeds into `folder`, as `grue submit pack` does, without its manifest."""
    place = folder / suite / system
    about = Submission(system, ("A. Author",), "CC0-1.0", "ppo", "mini:causal", (1, 2, 3, 4, 5), "none", "an hour")
    files.write_toml(place / "submission.toml", files.plain(about))
    for task in (load_task(name, suite) for name in task_names(suite)):
        for seed in range(1, 6):
            path = place / task.name / f"seed-{seed}.result.json"
            files.write_json(path, result(task, system, seed, share + seed / 100))
            path.with_name(f"seed-{seed}.predictions.jsonl.gz").write_bytes(gzip.compress(b"", mtime=0))


def run_locally(folder, system, share, tasks=None):
    for task in map(load_task, tasks or task_names("mini")):
        for seed in range(1, 6):
            path = folder / f"mini/{task.name}/{system}/seed-{seed}/result.json"
            files.write_json(path, result(task, system, seed, share + seed / 100))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A submission, of which one seed has texts, and a local system that is better."""
    folder = tmp_path_factory.mktemp("made")
    submit(folder / "submissions", "theirs", 0.4)
    run_locally(folder / "runs", "mine", 0.6)
    examples = load_examples(load_task("imdb"), "test").examples
    lines = [json.dumps({"id": one.id, "text": f"I liked it, part {i % 7}"}) for i, one in enumerate(examples)]
    packed = gzip.compress("\n".join(lines).encode())
    (folder / "submissions/mini/theirs/imdb/seed-1.predictions.jsonl.gz").write_bytes(packed)
    return folder


@pytest.fixture
def here(made, tmp_path, monkeypatch):
    """A copy of that, where grue ships no board."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(boards, "board_folder", lambda: tmp_path / "package/_leaderboard")
    return tmp_path


@pytest.fixture(scope="module")
def texts(made):
    """What is published of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        return published(Path("leaderboard"), Path("submissions"))


def grue(*arguments):
    return CliRunner().invoke(main, ["leaderboard", *map(str, arguments)], env={"COLUMNS": "200"})


def board(*arguments):
    done = grue("--format", "json", *arguments)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def rows(*arguments):
    return [(row["system"], row["status"], row["rank"]) for row in board(*arguments)["rows"]]


MINE, THEIRS = ("mine", "local", 1), ("theirs", "rescored", None)
ALONE, IMDB = [("theirs", "rescored", None)], ("--task", "imdb")


def test_submissions_and_local_runs_stand_beside_each_other(here, monkeypatch, refused):
    assert rows() == [MINE, THEIRS]
    assert rows("--no-local") == ALONE
    assert rows("--suite", "grue") == []
    usual, asked = board(*IMDB)["rows"], board("--iqm", *IMDB)["rows"]
    assert [row["iqm"] for row in asked] == pytest.approx([63.0, 43.0]) and usual[0]["iqm"] is None
    refused.command("leaderboard", "--submissions", "submision", code=3)
    refused.command("leaderboard", "--runs", "rnus", code=2)
    monkeypatch.setattr(boards, "board_folder", lambda: here / "leaderboard")
    files.write_text(Path("leaderboard/mini.json"), "<<<<<<< of a merge")
    assert rows("--no-local", *IMDB) == ALONE, "in a clone the board is made of its submissions alone"


def test_the_rows_that_ship_stand_beside_ones_own(here):
    ships = rank(results(here / "submissions", "mini"), [load_task(name) for name in task_names("mini")])
    notes = ("imdb: theirs (seed 2) failed and counts as 0.", "imdb: not-theirs (seed 1) did what it did.")
    files.write_text(Path("package/_leaderboard/mini.json"), as_json.render(replace(ships, notes=notes)))
    assert rows("--no-local", *IMDB) == ALONE
    assert board("--no-local", *IMDB)["notes"] == [notes[1]], "notes on a row that is replaced go with it"
    (here / "submissions").rename(here / "elsewhere")
    assert rows() == [MINE, THEIRS]
    assert rows("--submissions", "elsewhere", *IMDB) == [MINE, THEIRS]
    submit(Path("submissions"), "own", 0.5)
    assert rows("--no-local", *IMDB) == [("own", "rescored", None), THEIRS]
    assert rows("--submissions", "submissions", "--no-local", *IMDB) == [("own", "rescored", None)]


def test_figures_of_papers_ship_with_the_board(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert board("--suite", "grue", "--task", "commongen")["reported"]


def test_every_format_shows_the_same_systems_and_a_name_steers_no_terminal(here):
    for path in Path("runs/mini/imdb").glob("mine/*/result.json"):
        files.write_json(path, json.loads(path.read_text()) | {"system": {"name": "[bold]evil[/bold]\x1b[2J"}})
    for form in ("rich", "markdown", "json", "csv", "latex", "html"):
        done = grue("--format", form, *IMDB)
        assert done.exit_code == 0, done.output
        assert "evil" in done.stdout and "theirs" in done.stdout
        assert str(here) not in done.stdout and "\x1b[2J" not in done.stdout
        assert form != "rich" or "[bold]evil[/bold]�[2J" in done.stdout


def test_a_file_is_written_or_held_to_what_would_be_written(here, refused):
    arguments = ("leaderboard", *IMDB, "--format", "csv", "--output", "out/board.csv")
    refused.command(*arguments, "--check", code=1)
    assert not Path("out").exists()
    done = grue(*arguments[1:])
    assert (done.exit_code, done.stdout) == (0, "out/board.csv\n")
    assert Path("out/board.csv").read_text() == grue("--format", "csv", *IMDB).stdout
    assert grue(*arguments[1:], "--check").exit_code == 0
    assert grue("-o", "out/second.csv", *IMDB).exit_code == 0, "the ending says the format"
    assert Path("out/second.csv").read_text() == Path("out/board.csv").read_text()
    assert grue("-o", "out/board", *IMDB).exit_code == 0 and Path("out/board").read_text().startswith("# GRUE")
    refused.command("leaderboard", "-o", "out/board.pdf", *IMDB, code=2)
    assert not Path("out/board.pdf").exists()
    refused.command("leaderboard", "--format", "rich", "--output", "board", *IMDB, code=2)


def test_every_suite_is_published_in_every_format_without_local_rows(texts, here):
    boards_of_all = {Path(f"leaderboard/{suite}.{ending}") for suite in ("grue", "mini", "small") for ending in ENDINGS}
    assert {path for path, text in texts.items() if text is not None} == {*boards_of_all, SHOWN}
    for path in (Path(f"leaderboard/mini.{ending}") for ending in ENDINGS):
        assert "theirs" in texts[path] and str(here) not in texts[path]
        assert '"mine"' not in texts[path] and "| mine" not in texts[path]
    assert texts[Path("leaderboard/mini.json")] == grue("--format", "json", "--no-local").stdout
    page, plain = texts[Path("leaderboard/mini.html")], grue("--format", "html", "--no-local").stdout
    assert '"shown":["imdb"]' in page and '<a href="#examples&amp;task=imdb">' in page
    assert '"shown":[]' in plain, "a page of its own has no file beside it"
    assert "I liked it, part 3" in texts[SHOWN] and 20_000 < len(texts[SHOWN].encode()) < 100_000


def test_published_texts_are_the_same_wherever_and_whenever_they_are_made(texts, here):
    """And the examples of a task whose data is not on this machine stay what they are."""
    kept, gone = SHOWN.with_name("renamed.js"), Path("leaderboard/examples/grue/imdb.js")
    files.write_text(kept, "grueExamples(of a task that is no more);")
    files.write_text(gone, "grueExamples(of another machine);\n")
    submit(here / "submissions", "theirs", 0.4, "grue")
    (here / "submissions").rename(here / "moved")
    for path in sorted(Path("moved/mini").rglob("*.result.json"), reverse=True):
        path.write_bytes(path.read_bytes())
    again = published(Path("leaderboard"), here / "moved")
    mini = {path: text for path, text in texts.items() if "mini" in path.as_posix()}
    assert mini.items() <= again.items() and again[kept] is None
    assert again[gone] == gone.read_text() and '"shown":["imdb"]' in again[Path("leaderboard/grue.html")]


def test_files_are_written_removed_or_named_and_left_alone(tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    folder = Path("leaderboard")
    made = {folder / "a.md": "a", folder / "b.csv": "b", folder / "c.js": None}
    monkeypatch.setattr("grue.render.publish.published", lambda *places: made)
    assert grue("--publish", "leaderboard").stdout == "leaderboard/a.md\nleaderboard/b.csv\n"
    assert (
        grue("--publish", "leaderboard").stderr == "The 2 files of leaderboard are already current with submissions.\n"
    )
    assert grue("--check").stderr == "The 2 files of leaderboard are current with submissions.\n"
    (folder / "b.csv").unlink()
    (folder / "a.md").write_text("old")
    for check in (("--check",), ("--publish", "leaderboard", "--check")):
        refused.command("leaderboard", *check, code=1)
    assert (folder / "a.md").read_text() == "old" and not (folder / "b.csv").exists()
    assert grue("--publish", "leaderboard").stdout == "leaderboard/a.md\nleaderboard/b.csv\n"
    (folder / "c.js").write_text("grueExamples()")  # nothing is behind it any more
    refused.command("leaderboard", "--check", code=1)
    assert grue("--publish", "leaderboard").stdout == "leaderboard/c.js (removed)\n" and not (folder / "c.js").exists()
    (folder / "index.html").write_text("<script>")
    refused.command("leaderboard", "--check", code=1)


def test_what_nobody_wrote_is_no_part_of_the_boards(tmp_path):
    """A page with a script of its own, or a link to a file of the machine, would be served as the project's."""
    page, gone = tmp_path / "mini.md", tmp_path / "examples/mini/gone.js"
    texts = {page: "a board", gone: None}
    files.write_text(page, "a board")
    (tmp_path / "README.md").write_text("by hand")
    assert (strays(tmp_path, texts), stale(texts)) == ([], [])
    for name in ("index.html", "examples/mini/imdb2.js", ".nojekyll"):
        files.write_text(tmp_path / name, "<script>")
        assert strays(tmp_path, texts) == [tmp_path / name]
        (tmp_path / name).unlink()
    for name in ("passwd", "mini.md", "README.md"):
        (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / name).symlink_to("/etc/passwd")
        assert strays(tmp_path, texts) == [tmp_path / name]
        (tmp_path / name).unlink()
    files.write_text(gone, "old")
    assert (strays(tmp_path, texts), stale(texts)) == ([], [page, gone])


def test_a_page_does_not_depend_on_the_data_of_a_machine_but_damaged_data_is_told(here, monkeypatch, refused):
    before = grue("--suite", "grue", *IMDB, "--format", "html", "--no-local").stdout
    found = load_examples(load_task("imdb"), "test")
    monkeypatch.setattr("grue.render.publish.load_examples", lambda *_, **__: found)
    assert grue("--suite", "grue", *IMDB, "--format", "html", "--no-local").stdout == before

    def damaged(*_, **__):
        raise DataError("mini: test.parquet is damaged.")

    monkeypatch.setattr("grue.render.publish.load_examples", damaged)
    refused.command("leaderboard", "--publish", "leaderboard", code=3)


def test_a_published_board_is_nobodys_choice_and_needs_submissions(here, monkeypatch, refused):
    refused.command("leaderboard", "--publish", "leaderboard", *IMDB, "--iqm", code=2)
    (here / "submissions").rename(here / "elsewhere")
    refused.command("leaderboard", "--publish", "leaderboard", code=3)
    assert not Path("leaderboard").exists()
    monkeypatch.setattr("grue.render.publish.published", lambda *places: {})
    monkeypatch.setenv("GRUE_SUITE", "mini")  # of the surroundings, not of this command
    assert grue("--publish", "leaderboard").exit_code == 0
