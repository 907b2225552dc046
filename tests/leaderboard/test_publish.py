"""`grue leaderboard`: what it reads, what it prints, what it publishes, and what it says when it cannot."""

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.factories import a_result

from grue import files
from grue.cli.main import main
from grue.data.load import load_examples
from grue.errors import DataError
from grue.leaderboard import published
from grue.leaderboard.rank import rank
from grue.records import Score
from grue.render import as_json
from grue.render.publish import stale, strays
from grue.submissions.entries import results
from grue.task_files import load_task, task_names
from grue.tasks import MetricSpec, Task

FILES = [f"{suite}.{ending}" for suite in ("grue", "mini") for ending in ("md", "json", "csv", "tex", "html")]
DESCRIPTION = """
name = "{name}"
authors = ["A. Author"]
licence = "CC0-1.0"
algorithm = "ppo"
backbone = "mini:causal"
seeds = [1, 2, 3, 4, 5]
training_data = "none"
budget = "an hour"
"""


def least(spec: MetricSpec) -> float:
    """Return the lowest value of a metric: 1 for a perplexity."""
    return float(spec.name.startswith("perplexity"))


def result(task: Task, system: str, seed: int, share: float) -> Any:
    """A result with every metric of the task at a share of its best."""
    scores = tuple(
        Score(spec.name, spec.axis, share + least(spec), 100 * share, 4, spec.direction, f"{spec.name}|v1")
        for spec in task.metrics
    )
    return a_result(task, system, seed, 100 * share, 100 * share, scores=scores)


def submit(folder: Path, system: str, share: float, suite: str = "mini") -> None:
    """Lay a submission of every task and five seeds into `folder`, as `grue submit pack` does, without its manifest."""
    place = folder / suite / system
    files.write_text(place / "submission.toml", DESCRIPTION.format(name=system))
    for task in (load_task(name, suite) for name in task_names(suite)):
        for seed in range(1, 6):
            files.write_json(
                place / task.name / f"seed-{seed}.result.json", result(task, system, seed, share + seed / 100)
            )
            (place / task.name / f"seed-{seed}.predictions.jsonl.gz").write_bytes(gzip.compress(b"", mtime=0))


def run_locally(folder: Path, system: str, share: float, tasks: list[str] | None = None) -> None:
    for task in map(load_task, tasks or task_names("mini")):
        for seed in range(1, 6):
            path = folder / f"mini/{task.name}/{system}/seed-{seed}/result.json"
            files.write_json(path, result(task, system, seed, share + seed / 100))


def grue(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["leaderboard", *map(str, arguments)], env={"COLUMNS": "200"})


def board(*arguments: object) -> dict[str, Any]:
    done = grue("--format", "json", *arguments)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rows(*arguments: object) -> list[tuple[str, str, int | None]]:
    return [(row["system"], row["status"], row["rank"]) for row in board(*arguments)["rows"]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a submission and a local system that is better, where grue ships no board."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(published, "board_folder", lambda: tmp_path / "package/_leaderboard")
    submit(Path("submissions"), "theirs", 0.4)
    run_locally(Path("runs"), "mine", 0.6)
    return tmp_path


# --- what is read ----------------------------------------------------------------------------------------------------


def test_submissions_and_local_runs_stand_beside_each_other(here: Path) -> None:
    assert rows() == [("mine", "local", 1), ("theirs", "rescored", 2)]
    assert rows("--no-local") == [("theirs", "rescored", 1)]
    assert rows("--suite", "grue") == []


def test_the_rows_that_ship_stand_beside_ones_own(here: Path) -> None:
    tasks = [load_task(name) for name in task_names("mini")]
    ships = rank(results(here / "submissions", "mini"), tasks)
    notes = ("imdb: theirs (seed 2) failed and counts as 0.", "imdb: not-theirs (seed 1) did what it did.")
    files.write_text(Path("package/_leaderboard/mini.json"), as_json.render(replace(ships, notes=notes)))
    assert rows("--no-local") == [("theirs", "rescored", 1)]
    assert board("--no-local")["notes"] == [notes[1]], "notes on a row that is replaced go with it"
    (here / "submissions").rename(here / "elsewhere")
    assert rows() == [("mine", "local", 1), ("theirs", "rescored", 2)]
    assert rows("--task", "imdb", "--no-local") == [("theirs", "rescored", 1)]
    assert rows("--submissions", "elsewhere") == [("mine", "local", 1), ("theirs", "rescored", 2)]
    submit(Path("submissions"), "own", 0.5)
    assert rows("--no-local") == [("own", "rescored", 1), ("theirs", "rescored", 2)]
    assert rows("--submissions", "submissions", "--no-local") == [("own", "rescored", 1)]


def test_in_a_clone_the_board_is_made_of_its_submissions_alone(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "board_folder", lambda: here / "leaderboard")
    files.write_text(Path("leaderboard/mini.json"), "<<<<<<< of a merge")
    assert rows("--no-local") == [("theirs", "rescored", 1)]


def test_figures_of_papers_ship_with_the_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert board("--suite", "grue", "--task", "commongen")["reported"]


def test_a_folder_of_submissions_that_was_named_must_be_there(here: Path) -> None:
    done = grue("--submissions", "submision")
    assert (done.exit_code, done.stderr) == (3, "Error: submision: there is no such folder of submissions.\n")


# --- what is asked for -----------------------------------------------------------------------------------------------


def test_intervals_and_scores_are_as_asked_for(here: Path) -> None:
    assert {key: board()[key] for key in ("scoring", "interval_kind")} == {"scoring": "grue-1", "interval_kind": "t"}
    assert board("--ci", "bootstrap")["interval_kind"] == "bootstrap"
    assert board("--ci", "bootstrap") == board("--ci", "bootstrap")
    assert rows("--ci", "none") == [("mine", "local", 1), ("theirs", "rescored", 2)]
    assert board("--compat", "paper", "--task", "dailydialog")["rows"][0]["preference"] == pytest.approx(63.0)
    assert [row["iqm"] for row in board()["rows"]] == [None, None]
    assert [row["iqm"] for row in board("--iqm")["rows"]] == pytest.approx([63.0, 43.0])


def test_rows_are_sorted_as_asked_for(here: Path) -> None:
    run_locally(Path("runs"), "quick", 0.1, tasks=["imdb"])
    by_perplexity = rows("--sort", "imdb.perplexity:bounded")
    assert [row[0] for row in by_perplexity] == ["quick", "theirs", "mine"]  # lower is better
    assert [row[0] for row in rows("--sort", "system")] == ["mine", "quick", "theirs"]
    assert [row[0] for row in rows("--sort", "sentiment", "--task", "imdb")] == ["mine", "theirs", "quick"]
    done = grue("--sort", "imbd")
    assert (done.exit_code, done.stderr) == (
        2,
        "Error: There is no column 'imbd' to sort by. Did you mean 'imdb'? Known: rank, system, preference, "
        "naturalness, every task, and what a task has, such as 'cnn_dailymail.summac'.\n",
    )


@pytest.mark.parametrize("form", ["rich", "markdown", "json", "csv", "latex", "html"])
def test_every_format_shows_the_same_systems(here: Path, form: str) -> None:
    done = grue("--format", form)
    assert done.exit_code == 0, done.output
    assert "mine" in done.stdout
    assert "theirs" in done.stdout
    assert str(here) not in done.stdout


def test_a_system_name_cannot_steer_the_terminal(here: Path) -> None:
    run_locally(Path("runs"), "x", 0.9)
    for path in Path("runs/mini").glob("*/x/*/result.json"):
        name = "[bold]evil[/bold]\x1b[2J"
        files.write_json(path, json.loads(path.read_text()) | {"system": {"name": name}})
    shown = grue("--format", "rich").stdout
    assert "[bold]evil[/bold]�[2J" in shown
    assert "\x1b[2J" not in shown


def test_a_papers_figures_are_printed_with_their_task_and_counted_otherwise(here: Path) -> None:
    column = {"name": "sentiment", "direction": "higher", "deviation": ""}
    line = {"algorithm": "PPO of old", "reward": "", "variant": "", "figures": {"sentiment": {"mean": 0.602}}}
    table = {"task": "imdb", "table": "Table 5", "split": "test", "seeds": 5, "note": "", "columns": [column]}
    source = {"key": "one2020", "authors": "O. Ne", "title": "T", "venue": "V", "year": 2020, "url": "https://example.org", "version": "v1"}  # fmt: skip
    files.write_json(here / "submissions/mini/one2020.reported.json", {"source": source, "tables": [{**table, "rows": [line]}]})  # fmt: skip
    assert "PPO of old" in grue("--format", "rich", "--task", "imdb").stdout
    overview = grue("--format", "rich").stdout
    assert "PPO of old" not in overview
    assert "· 1 table of papers' figures is shown with a single task: --task imdb." in overview
    assert board()["reported"][0]["source"]["key"] == "one2020"


def test_a_file_is_written_or_held_to_what_would_be_written(here: Path) -> None:
    arguments = ("--format", "csv", "--output", "out/board.csv")
    stale = "Error: out/board.csv does not match the results; run `make leaderboard` and commit it.\n"
    assert (grue(*arguments, "--check").exit_code, grue(*arguments, "--check").stderr) == (1, stale)
    assert not Path("out").exists()
    done = grue(*arguments)
    assert (done.exit_code, done.stdout) == (0, "out/board.csv\n")
    assert Path("out/board.csv").read_text() == grue("--format", "csv").stdout
    assert grue(*arguments, "--check").exit_code == 0
    assert grue("-o", "out/second.csv").exit_code == 0
    assert (here / "out/second.csv").read_text() == (here / "out/board.csv").read_text()  # the ending says the format
    assert grue("-o", "out/board").exit_code == 0 and (here / "out/board").read_text().startswith("# GRUE")
    assert grue("-o", "out/board.pdf").stderr == (
        "Error: out/board.pdf: its ending gives no format; take .md, .json, .csv, .tex and .html, or name one with "
        "--format.\n"
    )
    assert not (here / "out/board.pdf").exists()
    assert grue("--runs", "rnus").stderr == (
        "Error: rnus: there is no such folder; --runs names the folder of all runs.\n"
    )
    assert grue("--format", "rich", "--output", "board").stderr == (
        "Error: --format rich is for a terminal, not for a file; choose one of markdown, json, csv, latex and html.\n"
    )


# --- what is published -----------------------------------------------------------------------------------------------


def test_every_suite_is_published_in_every_format_without_local_rows(here: Path) -> None:
    done = grue("--publish", "leaderboard")
    assert done.exit_code == 0, done.output
    assert sorted(done.stdout.split()) == sorted(f"leaderboard/{name}" for name in FILES)
    assert sorted(path.name for path in Path("leaderboard").iterdir()) == sorted(FILES)
    for path in Path("leaderboard").glob("mini.*"):
        text = path.read_text(encoding="utf-8")
        assert "theirs" in text
        assert '"mine"' not in text and "| mine" not in text
        assert str(here) not in text
    assert Path("leaderboard/mini.json").read_text() == grue("--format", "json", "--no-local").stdout
    assert Path("leaderboard/mini.html").read_text() == grue("--format", "html", "--no-local").stdout


def test_published_files_are_the_same_bytes_wherever_and_whenever_they_are_made(here: Path) -> None:
    assert grue("--publish", "one").exit_code == 0
    (here / "submissions").rename(here / "moved")
    for path in sorted(Path("moved").rglob("*.result.json"), reverse=True):
        path.write_bytes(path.read_bytes())
    assert grue("--publish", "two", "--submissions", here / "moved").exit_code == 0
    assert {p.name: p.read_bytes() for p in Path("one").iterdir()} == {
        p.name: p.read_bytes() for p in Path("two").iterdir()
    }


def test_stale_files_are_named_and_left_alone(here: Path) -> None:
    assert grue("--publish", "leaderboard").exit_code == 0
    done = grue("--check")
    assert (done.exit_code, done.stderr) == (0, "The 10 files of leaderboard are current with submissions.\n")
    assert (
        grue("--publish", "leaderboard").stderr == "The 10 files of leaderboard are already current with submissions.\n"
    )
    Path("leaderboard/mini.csv").unlink()
    Path("leaderboard/grue.md").write_text("old")
    for arguments in (("--check",), ("--publish", "leaderboard", "--check")):
        done = grue(*arguments)
        assert (done.exit_code, done.stderr) == (
            1,
            "Error: leaderboard/grue.md and leaderboard/mini.csv are not current with submissions; run "
            "`grue leaderboard --publish leaderboard` and commit them.\n",
        )
    assert Path("leaderboard/grue.md").read_text() == "old"
    assert not Path("leaderboard/mini.csv").exists()
    done = grue("--publish", "leaderboard")
    assert (done.exit_code, done.stdout) == (0, "leaderboard/grue.md\nleaderboard/mini.csv\n")
    assert grue("--check").exit_code == 0


def test_a_new_submission_makes_its_suites_files_stale(here: Path) -> None:
    assert grue("--publish", "leaderboard").exit_code == 0
    run_locally(Path("runs"), "another", 0.7)
    assert grue("--check").exit_code == 0  # a local row is nobody else's
    submit(Path("submissions"), "new", 0.5)
    stale = grue("--check")
    assert stale.exit_code == 1
    assert re.findall(r"leaderboard/\S+\w", stale.stderr)[:5] == [
        f"leaderboard/mini.{ending}" for ending in ("md", "json", "csv", "tex", "html")
    ]


def write_predictions(system: str, task_name: str, text: str) -> None:
    """Lay the predictions of seed 1 beside its result."""
    task = load_task(task_name)
    lines = [
        json.dumps({"id": example.id, "text": f"{text} {i % 7}"})
        for i, example in enumerate(load_examples(task, task.data.evaluation).examples)
    ]
    place = Path("submissions/mini") / system / task_name / "seed-1.predictions.jsonl.gz"
    place.write_bytes(gzip.compress("\n".join(lines).encode()))


def test_examples_with_outputs_are_published_beside_the_page(here: Path) -> None:
    write_predictions("theirs", "imdb", "I liked it, part")
    assert grue("--publish", "leaderboard").exit_code == 0
    written = Path("leaderboard/examples/mini/imdb.js")
    assert [path.as_posix() for path in Path("leaderboard/examples").rglob("*.js")] == [written.as_posix()]
    assert "I liked it, part 3" in written.read_text() and 20_000 < written.stat().st_size < 100_000
    page = Path("leaderboard/mini.html").read_text()
    assert '"shown":["imdb"]' in page and '<a href="#examples&amp;task=imdb">' in page
    assert '"shown":[]' in grue("--format", "html", "--no-local").stdout, "a page of its own has no file beside it"
    assert grue("--check").stderr == "The 11 files of leaderboard are current with submissions.\n"
    before = written.read_bytes()
    written.write_text("grueExamples({})")
    assert grue("--check").stderr == (
        "Error: leaderboard/examples/mini/imdb.js is not current with submissions; run "
        "`grue leaderboard --publish leaderboard` and commit it.\n"
    )
    assert grue("--publish", "leaderboard").stdout == "leaderboard/examples/mini/imdb.js\n"
    assert written.read_bytes() == before
    (here / "submissions/mini/theirs/imdb/seed-1.predictions.jsonl.gz").write_bytes(gzip.compress(b"", mtime=0))
    assert grue("--check").exit_code == 1, "a file that nothing is behind any more is stale, too"
    assert "leaderboard/examples/mini/imdb.js (removed)" in grue("--publish", "leaderboard").stdout
    assert not written.exists()
    assert grue("--check").exit_code == 0
    files.write_text(written.with_name("renamed.js"), "grueExamples(of a task that is no more);")
    assert "leaderboard/examples/mini/renamed.js is not current" in grue("--check").stderr


def test_files_of_examples_stay_where_the_data_is_not_on_this_machine(here: Path) -> None:
    kept = Path("leaderboard/examples/grue/imdb.js")
    files.write_text(kept, "grueExamples(of another machine);\n")
    submit(Path("submissions"), "theirs", 0.4, "grue")
    assert grue("--publish", "leaderboard").exit_code == 0
    assert kept.read_text() == "grueExamples(of another machine);\n"
    assert '"shown":["imdb"]' in Path("leaderboard/grue.html").read_text()
    assert grue("--check").exit_code == 0


def test_a_page_does_not_depend_on_the_data_of_a_machine(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = grue("--suite", "grue", "--format", "html", "--no-local").stdout
    submitted = load_examples(load_task("imdb"), "test")
    monkeypatch.setattr("grue.render.publish.load_examples", lambda *_, **__: submitted)
    assert grue("--suite", "grue", "--format", "html", "--no-local").stdout == before


def test_damaged_data_of_mini_is_not_taken_for_missing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: object, **__: object) -> None:
        raise DataError("mini: test.parquet is damaged.")

    monkeypatch.setattr("grue.render.publish.load_examples", damaged)
    done = grue("--publish", "leaderboard")
    assert (done.exit_code, done.stderr) == (3, "Error: mini: test.parquet is damaged.\n")


def test_nothing_is_published_without_submissions(here: Path) -> None:
    (here / "submissions").rename(here / "elsewhere")
    done = grue("--publish", "leaderboard")
    assert (done.exit_code, done.stderr) == (3, "Error: submissions: there is no such folder of submissions.\n")
    assert not Path("leaderboard").exists()


def test_a_published_board_is_nobodys_choice_of_options(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = grue("--publish", "leaderboard", "--task", "imdb", "--ci", "none")
    assert (done.exit_code, done.stderr) == (
        2,
        "Error: Published boards are complete: all suites in every format, without local rows. Leave out --task and "
        "--ci, or name one file with --output.\n",
    )
    monkeypatch.setenv("GRUE_SUITE", "mini")  # of the surroundings, not of this command
    assert grue("--publish", "leaderboard").exit_code == 0


def test_a_system_that_is_added_changes_no_published_number_of_another(here: Path) -> None:
    before = {row["system"]: row for row in board("--no-local")["rows"]}
    submit(Path("submissions"), "better", 0.9)
    after = {row["system"]: row for row in board("--no-local")["rows"]}
    assert (before["theirs"].pop("rank"), after["theirs"].pop("rank")) == (1, 2)
    assert set(before["theirs"].pop("task_ranks").values()) == {1}
    assert set(after["theirs"].pop("task_ranks").values()) == {2}
    assert before["theirs"] == after["theirs"]


def test_results_without_predictions_have_no_rank(here: Path) -> None:
    for path in Path("submissions").rglob("*.predictions.jsonl.gz"):
        path.unlink()
    assert [(r["standing"], r["rank"]) for r in board("--no-local")["rows"]] == [("no predictions", None)]


def test_what_nobody_wrote_is_no_part_of_the_boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page with a script of its own, or a link to a file of the machine, would be served as the project's."""
    folder = tmp_path / "leaderboard"
    (folder / "examples/mini").mkdir(parents=True)
    texts: dict[Path, str | None] = {folder / "mini.md": "a board", folder / "examples/mini/gone.js": None}
    (folder / "mini.md").write_text("a board")
    (folder / "README.md").write_text("by hand")
    assert strays(folder, texts) == []
    for name in ("index.html", "examples/mini/imdb2.js", ".nojekyll"):
        (folder / name).write_text("<script>")
        assert strays(folder, texts) == [folder / name]
        (folder / name).unlink()
    for name in ("passwd", "mini.md", "README.md"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to("/etc/passwd")
        assert strays(folder, texts) == [folder / name]
        (folder / name).unlink()
    (folder / "examples/mini/gone.js").write_text("old")
    assert (strays(folder, texts), stale(texts)) == ([], [folder / "mini.md", folder / "examples/mini/gone.js"])
