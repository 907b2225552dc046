"""Pull requests in real repositories: what may change beside a submission, and rows that got worse."""

import gzip
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from support.factories import a_result
from support.good_submission import few_examples as few_of_the_suite
from support.good_submission import hand_in, say, seal, texts_of, use_few_examples, write_good

from grue import files
from grue.cli.main import main
from grue.errors import ConfigError, DataError
from grue.records import Example, Prediction
from grue.submissions.checks import against
from grue.submissions.checks import check as checking
from grue.submissions.checks.against import changes_since, check_changes, check_regression, reviewed_at, rows_at
from grue.submissions.checks.rescoring import Findings
from grue.submissions.packing.collect import PackedRun, failed_run
from grue.submissions.packing.describe import describe
from grue.submissions.packing.pack import pack
from grue.task_files import load_task

TASK = load_task("commongen")
WORDS = ["dog", "cat", "man", "tree", "car", "boat", "bird", "fish", "house", "road", "star", "hill"]
EXAMPLES = [Example(w, f"say: {w}.", (f"the {w} is here now",), {"concepts": [w]}) for w in WORDS]
GOOD = {word: f"the {word} is here now" for word in WORDS}
SYSTEM = {"name": "ours", "algorithm": "ppo", "backbone": "b"}
GIVEN = {"authors": ["A"], "licence": "CC0", "training_data": "none", "budget": "none"}
MADE: dict[str, Any] = {"grue": {}, "packages": {}}


def git(folder: Path, *arguments: str) -> str:
    settings = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(folder), *settings, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(folder: Path) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "x")
    return git(folder, "rev-parse", "HEAD")


def texts(seed: int, wrong: int = 0) -> list[Prediction]:
    """Predictions that differ by seed, and of which `wrong` have nothing to do with their input."""
    found = GOOD | {WORDS[-seed]: f"the {WORDS[-seed]} is there"}
    return [Prediction(w, f"no {seed}" if i < wrong else text) for i, (w, text) in enumerate(found.items())]


def submit(submissions: Path, runs: dict[int, Sequence[Prediction] | None], name: str = "ours", **given: Any) -> Path:
    """Pack a system: seed → its predictions, None for a failed run."""
    packed = [
        failed_run(TASK, seed, SYSTEM, MADE)
        if answers is None
        else PackedRun(a_run(seed), tuple(answers), f"seed {seed}")
        for seed, answers in runs.items()
    ]
    return pack(
        packed,
        describe(packed, GIVEN | {"name": name, "algorithm": "a", "backbone": "b"} | given),
        submissions,
        force=True,
    )


def a_run(seed: int) -> Any:
    return a_result(TASK, "ours", seed, 50.0)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone whose main has two systems, on a branch of its own."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    repository = tmp_path / "repository"
    submit(repository / "submissions", {seed: texts(seed) for seed in (1, 2, 3)})
    submit(repository / "submissions", {seed: texts(seed, 3) for seed in (1, 2, 3)}, "theirs")
    for name in (
        "grue/code.py",
        "tasks/mini/imdb.toml",
        ".github/workflows/ci.yml",
        "leaderboard/mini.md",
        "submissions/README.md",
    ):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text("x\n")
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(repository))
    commit(repository)
    git(repository, "checkout", "--quiet", "-b", "branch")
    return repository


def told(home: Path, ref: str = "main", maintainer: bool = False) -> list[tuple[str, str, str]]:
    """Return (id, path from the repository's top, message) of what a branch changes."""
    problems = check_changes(changes_since(home / "submissions", ref), maintainer)
    assert {problem.severity for problem in problems if problem.id not in ("GRUE-S083", "GRUE-S084")} <= {"error"}
    paths = [Path(p.path).relative_to(home).as_posix() if Path(p.path).is_absolute() else p.path for p in problems]
    return [(p.id, path, p.message) for p, path in zip(problems, paths, strict=True)]


def touch(path: Path, text: str = "changed\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("committed", [True, False])
def test_a_new_submission_is_fine(home: Path, committed: bool) -> None:
    submit(home / "submissions", {1: texts(1)}, "new")
    touch(home / "answers/1.jsonl") if not committed else None  # git does not know it, so it is in no pull request
    if committed:
        commit(home)
    assert told(home) == []
    assert changes_since(home / "submissions", "main").systems() == ["mini/new"]


def test_boards_are_not_handed_in(home: Path) -> None:
    """They are written after merging; a page with a script of its own, or a link, would be shown as the project's."""
    submit(home / "submissions", {1: texts(1)}, "new")
    touch(home / "leaderboard/mini.md")
    touch(home / "leaderboard/index.html", "<script>")
    (home / "leaderboard/passwd").symlink_to("/etc/passwd")
    (home / "leaderboard/examples").mkdir()
    (home / "leaderboard/examples/mini.js").write_text("alert(1)")
    commit(home)
    said = told(home)
    assert {name for name, _, _ in said} == {"GRUE-S053"}
    assert [path for _, path, _ in said] == [
        f"leaderboard/{name}" for name in ("examples/mini.js", "index.html", "mini.md", "passwd")
    ]


def test_a_submission_reviews_itself_in_vain(home: Path) -> None:
    """The reviews are those of the base, not those of the branch, and writing them is no part of a submission."""
    review = '["mini/new".GRUE-S034]\nmanifest = "x"\nby = "A"\ndate = "2026-01-31"\nwhy = "{}"\n'
    git(home, "checkout", "--quiet", "main")
    touch(home / "submissions/reviewed.toml", review.format("read"))
    commit(home)
    git(home, "checkout", "--quiet", "-b", "other")
    submit(home / "submissions", {1: texts(1)}, "new")
    touch(home / "submissions/reviewed.toml", review.format("mine"))
    commit(home)
    assert [(name, path) for name, path, _ in told(home)] == [("GRUE-S040", "submissions/reviewed.toml")]
    (known,) = reviewed_at(home / "submissions", "main").values()
    assert known.why == "read"
    assert reviewed_at(home / "submissions", "branch") == {}
    for text, said in (
        ("x = 1", "must be a table"),
        ("[a.GRUE-S001]", "is not a check that asks"),
        ("[", "not valid TOML"),
    ):
        touch(home / "submissions/reviewed.toml", text)
        with pytest.raises(ConfigError, match=said):
            reviewed_at(home / "submissions", commit(home))


def test_two_submissions_that_are_open_at_once_do_not_collide(home: Path) -> None:
    """Both pass, both merge, in either order, and the boards that follow have both."""
    for name in ("one", "two"):
        git(home, "checkout", "--quiet", "-b", name, "main")
        submit(home / "submissions", {1: texts(1), 2: texts(2)}, name)
        commit(home)
        assert told(home) == []
    git(home, "checkout", "--quiet", "main")
    git(home, "merge", "--quiet", "--no-edit", "one")
    git(home, "merge", "--quiet", "--no-edit", "two")
    assert told(home, "two") == []
    assert {path.name for path in (home / "submissions/mini").iterdir()} == {"one", "ours", "theirs", "two"}


def test_work_on_code_is_no_submission(home: Path) -> None:
    touch(home / "grue/code.py")
    commit(home)
    assert told(home) == []


def test_what_maintainers_write_is_theirs(home: Path) -> None:
    """A record that says "retrained", a review of what is to come, a figure of a paper: none has a row to check."""
    written = ["grue/paper2023.reported.json", "mini/our+own.trust.json", "reviewed.toml"]
    for name in written:
        touch(home / "submissions" / name)
    commit(home)
    assert told(home) == [("GRUE-S083", f"submissions/{name}", "is added.") for name in written]
    touch(home / "grue/code.py")
    assert ("GRUE-S043", "grue/code.py", "is changed, and is not part of a submission.") in told(home)
    assert told(home, maintainer=True) == []
    done = CliRunner().invoke(main, ["submit", "check", str(home / "submissions"), "--against", "main", "--maintainer"])
    assert "GRUE-S083" not in done.output


def test_a_standing_row_is_not_told_anew(home: Path) -> None:
    path = home / "submissions/mini/ours/commongen/seed-2.result.json"
    result = files.read_json(path)
    files.write_json(path, result | {"system": result["system"] | {"algorithm": "zero-shot"}})
    where = path.relative_to(home).as_posix()
    assert told(home) == [("GRUE-S084", where, "says something else of a run whose texts are the same.")]
    files.write_json(path, result | {"preference": 99.0})
    assert told(home) == []  # whether scores follow from the texts is asked of all
    described = home / "submissions/mini/ours/submission.toml"
    described.write_text(described.read_text().replace('training_data = "none"', 'training_data = "the test set"'))
    assert told(home) == [("GRUE-S084", "submissions/mini/ours/submission.toml", "says something else: training_data.")]
    described.write_text(described.read_text().replace('training_data = "the test set"', 'training_data = "none"'))
    files.write_text(described, re.sub('budget = ".*"', 'budget = "a second"', described.read_text()))
    (found,) = told(home)
    assert found == ("GRUE-S084", "submissions/mini/ours/submission.toml", "says something else: budget.")


AGAIN: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "packed otherwise": lambda lines: lines,
    "in another order": lambda lines: lines[::-1],
    "with other signs": lambda lines: [line.replace(b' now"', b'  now."') for line in lines],
    "cut off": lambda lines: [line.replace(b"}", b',"truncated":true}') for line in lines],
    "one text of twelve": lambda lines: [lines[0].replace(b" now", b" and gone"), *lines[1:]],
}


@pytest.mark.parametrize("how", AGAIN)
def test_a_row_packed_again_is_not_told_anew(home: Path, how: str) -> None:
    """Other bytes, or texts that a reader takes for the same, are no other run."""
    row = home / "submissions/mini/ours"
    for path in row.glob("*/*.gz"):
        lines = AGAIN[how](gzip.decompress(path.read_bytes()).splitlines(keepends=True))
        path.write_bytes(gzip.compress(b"".join(lines), compresslevel=1, mtime=7))
    assert told(home) == []
    for path in row.glob("*/*.result.json"):
        result = files.read_json(path)
        files.write_json(path, result | {"determinism": {"threads": 7}})
    described = row / "submission.toml"
    described.write_text(described.read_text().replace('"A"', '"B"'))
    found = {Path(path).name: message for name, path, message in told(home) if name == "GRUE-S084"}
    texts = "are the same" if how in ("packed otherwise", "in another order") else "are nearly the same"
    said = f"says something else of a run whose texts {texts}."
    results = {f"seed-{seed}.result.json": said for seed in (1, 2, 3)}
    assert found == results | {"submission.toml": "says something else: authors."}


def test_a_bomb_is_not_unpacked_to_see_whether_texts_are_the_same(home: Path) -> None:
    path = home / "submissions/mini/ours/commongen/seed-3.predictions.jsonl.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()) + b"\n" * 10_000_000))
    ((name, _, message),) = told(home)
    assert name == "GRUE-S041" and message.startswith("replaces commongen seed-3 and keeps commongen seed-1")


def test_no_link_is_followed_to_see_what_a_row_says(home: Path) -> None:
    """It may lead to what has no end."""
    path = home / "submissions/mini/ours/commongen/seed-3.result.json"
    path.symlink_to(path.rename(home.parent / "moved.json"))
    where = path.relative_to(home).as_posix()
    assert told(home) == [("GRUE-S084", where, "says something else of a run whose texts are the same.")]


def test_a_failed_run_is_not_told_anew(home: Path) -> None:
    submit(home / "submissions", {1: texts(1), 2: texts(2), 3: None})
    commit(home)
    git(home, "branch", "--force", "main")
    path = home / "submissions/mini/ours/commongen/seed-3.result.json"
    result = files.read_json(path)
    path.write_text(json.dumps(result))
    assert told(home) == []
    files.write_json(path, result | {"system": result["system"] | {"algorithm": "nlpo"}})
    where = path.relative_to(home).as_posix()
    assert told(home) == [("GRUE-S084", where, "says something else of a run that failed.")]
    submit(home / "submissions", {1: texts(6), 2: texts(7), 3: None})  # a new version, of which one failed again
    files.write_json(path, result | {"system": result["system"] | {"algorithm": "nlpo"}})
    assert told(home) == []


@pytest.mark.usefixtures("few_examples")
def test_rows_that_came_after_a_branch_began_stand_beside_it(home: Path) -> None:
    with rows_at(home / "submissions", "main") as standing:
        assert standing is None
    git(home, "checkout", "--quiet", "main")
    submit(home / "submissions", {1: texts(7), 2: texts(8)}, "newer")
    commit(home)
    git(home, "checkout", "--quiet", "branch")
    with rows_at(home / "submissions", "main") as standing:
        assert standing is not None
        assert {path.name for path in (standing / "mini").iterdir()} == {"newer", "ours", "theirs"}
        assert (standing / "mini/newer/commongen/seed-2.result.json").is_file()
    assert not standing.exists()
    submit(home / "submissions", {1: texts(7), 2: texts(8)}, "copied")  # what the branch does not have yet
    commit(home)
    done = CliRunner().invoke(main, ["submit", "check", str(home / "submissions"), "--against", "main"])
    assert "has the same texts as newer, seed-1.predictions.jsonl.gz." in done.output


def test_a_submission_brings_no_record_of_trust(home: Path) -> None:
    submit(home / "submissions", {1: texts(1)}, "new")
    touch(home / "submissions/mini/new.trust.json")
    assert told(home) == [
        ("GRUE-S040", "submissions/mini/new.trust.json", "is added, and is in no submission's folder.")
    ]


def test_what_lies_in_no_submission_is_told(home: Path) -> None:
    touch(home / "submissions/mini/.hidden/commongen/seed-1.result.json")
    touch(home / "submissions/stray.toml")
    assert [(name, path) for name, path, _ in told(home)] == [
        ("GRUE-S040", "submissions/mini/.hidden/commongen/seed-1.result.json"),
        ("GRUE-S040", "submissions/stray.toml"),
    ]
    touch(home / "submissions/README.md")
    (home / "submissions/stray.toml").unlink()
    submit(home / "submissions", {1: texts(1)}, "new")
    assert told(home)[0] == ("GRUE-S040", "submissions/README.md", "is changed, and is in no submission's folder.")


def test_code_does_not_come_with_a_submission(home: Path) -> None:
    submit(home / "submissions", {1: texts(1)}, "new")
    touch(home / "grue/code.py")
    (home / "tasks/mini/imdb.toml").unlink()
    touch(home / ".github/workflows/ci.yml")
    touch(home / "docs/new.md")
    commit(home)
    said = "and is not part of a submission."
    assert told(home) == [
        ("GRUE-S043", ".github/workflows/ci.yml", f"is changed, {said}"),
        ("GRUE-S043", "docs/new.md", f"is added, {said}"),
        ("GRUE-S043", "grue/code.py", f"is changed, {said}"),
        ("GRUE-S043", "tasks/mini/imdb.toml", f"is removed, {said}"),
    ]


def remove(home: Path) -> None:
    subprocess.run(["rm", "-r", str(home / "submissions/mini/theirs")], check=True)


def remove_in_passing(home: Path) -> None:
    remove(home)
    submit(home / "submissions", {1: texts(1)}, "new")


def edit_in_passing(home: Path) -> None:
    touch(home / "submissions/mini/theirs/submission.toml")
    submit(home / "submissions", {1: texts(1)}, "new")


def rename(home: Path) -> None:
    (home / "submissions/mini/theirs").rename(home / "submissions/mini/mine")


def pick_seeds(home: Path) -> None:
    submit(home / "submissions", {1: texts(1), 2: texts(2), 3: texts(5)}, "theirs")


def drop_a_seed(home: Path) -> None:
    submit(home / "submissions", {1: texts(1, 3), 2: texts(2, 3)}, "theirs")


def drop_a_task(home: Path) -> None:
    for path in (home / "submissions/mini/theirs/commongen").iterdir():
        path.unlink()


PICKED = "all runs are replaced or none, so that no seed is selected."


@pytest.mark.parametrize(
    ("change", "problems"),
    [
        (remove, [("", "is on the board and is removed.")]),
        (remove_in_passing, [("", "is on the board and is removed.")]),
        (rename, [("", "is on the board and is removed.")]),
        (edit_in_passing, [("", "is on the board and is changed together with mini/new.")]),
        (drop_a_seed, [("", f"replaces commongen seed-3 and keeps commongen seed-1, commongen seed-2; {PICKED}")]),
        (drop_a_task, [("/commongen", "is on the board and is removed.")]),
    ],
)
def test_nothing_on_the_board_is_changed_or_removed(
    home: Path, change: Callable[[Path], None], problems: list[tuple[str, str]]
) -> None:
    change(home)
    expected = [("GRUE-S041", f"submissions/mini/theirs{below}", message) for below, message in problems]
    assert told(home) == expected
    commit(home)
    assert told(home) == expected


def test_seeds_are_not_picked(home: Path) -> None:
    submit(home / "submissions", {1: texts(1), 2: texts(2), 3: texts(5)})
    message = f"replaces commongen seed-3 and keeps commongen seed-1, commongen seed-2; {PICKED}"
    assert told(home) == [("GRUE-S041", "submissions/mini/ours", message)]


def replace_others(home: Path, changed: int, **said: Any) -> list[tuple[str, str, str]]:
    """Hand in new texts of one seed, and the same of the others, where all results say something before and after."""
    runs = {seed: texts(seed) for seed in (1, 2, 3)}
    folder = submit(home / "submissions", runs)
    for path in folder.glob("*/*.result.json"):
        result = files.read_json(path)
        files.write_json(path, result | {"system": result["system"] | said})
    commit(home)
    git(home, "branch", "--force", "main")
    for path in folder.glob(f"*/seed-{changed}.predictions.jsonl.gz"):
        path.write_bytes(b"other texts")
    return told(home)


def test_a_run_that_keeps_its_start_again_is_not_a_seed_that_was_kept(home: Path) -> None:
    """Its texts are those of the start, whoever trains it again."""
    assert replace_others(home, 3, update=0, weights="1" * 64) == []


def test_runs_that_learned_are_all_replaced(home: Path) -> None:
    ((name, _, message),) = replace_others(home, 3, update=8, weights="1" * 64)
    assert name == "GRUE-S041" and message.startswith("replaces commongen seed-3 and keeps commongen seed-1")


def test_a_row_without_seeds_may_change_one_task(home: Path) -> None:
    folder = home / "submissions/mini/ours"
    (folder / "submission.toml").write_text((folder / "submission.toml").read_text() + "deterministic = true\n")
    assert replace_others(home, 3)[0][0] == "GRUE-S041", "the base says what it is, not the branch"
    (folder / "submission.toml").write_text((folder / "submission.toml").read_text() + "deterministic = true\n")
    commit(home)
    git(home, "branch", "--force", "main")
    (folder / "commongen/seed-1.predictions.jsonl.gz").write_bytes(b"other texts")
    assert told(home) == []


def test_what_this_machine_lacks_hides_no_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a change that is not allowed, it is a warning."""
    submit(home / "submissions", {1: texts(1)}, "new")
    monkeypatch.setattr(checking, "_check_tasks", lambda *_: [Findings(missing=("no scorer",))])
    monkeypatch.chdir(home)
    command = ["submit", "check", "--against", "main", "--report", "json"]
    alone = CliRunner().invoke(main, command)
    assert alone.exit_code == 3 and "no scorer" in alone.stderr
    touch(home / "grue/code.py")
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 1
    assert {"GRUE-S039", "GRUE-S043"} <= {problem["id"] for problem in json.loads(done.stdout)["problems"]}


def test_a_failed_run_is_not_tried_again_by_itself(home: Path) -> None:
    submit(home / "submissions", {1: texts(1), 2: texts(2), 3: None})
    commit(home)
    git(home, "branch", "--force", "main")
    submit(home / "submissions", {1: texts(1), 2: texts(2), 3: texts(3)})
    ((name, _, message),) = told(home)
    assert (name, message) == (
        "GRUE-S041",
        f"replaces commongen seed-3 and keeps commongen seed-1, commongen seed-2; {PICKED}",
    )


def test_a_system_may_be_extended_or_replaced_as_a_whole(home: Path) -> None:
    submit(home / "submissions", {seed: texts(seed) for seed in (1, 2, 3, 4, 5)})
    assert told(home) == []
    submit(home / "submissions", {seed: texts(seed) for seed in (6, 7, 8)})
    assert told(home) == []
    submit(home / "submissions", {1: texts(6), 2: texts(7), 3: None})
    assert told(home) == []


def test_only_the_branch_counts_not_what_main_did_meanwhile(home: Path) -> None:
    submit(home / "submissions", {1: texts(1)}, "new")
    commit(home)
    git(home, "checkout", "--quiet", "main")
    submit(home / "submissions", {1: texts(1)}, "another")
    touch(home / "grue/code.py")
    commit(home)
    git(home, "checkout", "--quiet", "branch")
    assert told(home) == []


def test_names_of_files_are_read_whatever_they_hold(home: Path) -> None:
    submit(home / "submissions", {1: texts(1)}, "new")
    name = 'grue/a\nb\t"c" ::error::,%0A\u202ed.py'
    touch(home / name)
    commit(home)
    assert list(changes_since(home / "submissions", "main").beyond) == [name]
    ((identity, path, _),) = told(home)
    assert identity == "GRUE-S043"
    assert path.isprintable()


def test_a_tree_runs_nothing(home: Path, tmp_path: Path) -> None:
    """Hooks, external diffs, pagers and monitors of the checkout are there, and are not called."""
    mark = tmp_path / "called"
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho "$0 $@" >> {mark}\nexit 1\n')
    program.chmod(0o755)
    touch(home / ".gitattributes", "* diff=evil\n")
    for hook in ("post-checkout", "pre-commit", "post-index-change", "fsmonitor-watchman"):
        touch(home / ".git/hooks" / hook, program.read_text())
        (home / ".git/hooks" / hook).chmod(0o755)
    git(home, "config", "diff.evil.command", str(program))
    git(home, "config", "diff.evil.textconv", str(program))
    git(home, "config", "diff.external", str(program))
    git(home, "config", "core.pager", str(program))
    git(home, "config", "core.fsmonitor", str(program))
    submit(home / "submissions", {seed: texts(seed) for seed in (6, 7, 8)})
    touch(home / "grue/code.py")
    assert [(name, path) for name, path, _ in told(home)] == [("GRUE-S043", "grue/code.py")]
    assert not mark.exists(), mark.read_text()


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ("nothing", "--against: nothing: git rev-parse in "),
        ("--output=evil", "--against: --output=evil: git rev-parse in "),
        ("main:submissions", "--against: main:submissions: git rev-parse in "),
        ("orphan", "--against: no common ancestor of HEAD and orphan; a shallow clone lacks it (fetch-depth: 0)"),
    ],
)  # fmt: skip
def test_a_commit_that_is_none_is_told(home: Path, ref: str, message: str) -> None:
    git(home, "checkout", "--quiet", "--orphan", "orphan")
    touch(home / "grue/code.py", "another root\n")
    commit(home)
    git(home, "checkout", "--quiet", "branch")
    with pytest.raises(ConfigError) as caught:
        changes_since(home / "submissions", ref)
    assert str(caught.value).startswith(message)
    assert not (home / "evil").exists()


def test_a_folder_without_repository_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(ConfigError, match="git rev-parse in .* failed"):
        changes_since(tmp_path, "main")
    with pytest.raises(DataError, match="none: there is no such folder of submissions"):
        changes_since(tmp_path / "none", "main")


# --- rows that got worse ---------------------------------------------------------------------------------------------


@pytest.fixture
def few_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(against, "load_examples", lambda task, split: SimpleNamespace(examples=EXAMPLES))


def worse(home: Path) -> list[tuple[str, str, str]]:
    changes = changes_since(home / "submissions", "main")
    problems = check_regression(changes, "mini/ours", np.random.default_rng(0), draws=2000)
    return [(p.id, Path(p.path).relative_to(home).as_posix(), p.message) for p in problems]


@pytest.mark.usefixtures("few_examples")
def test_a_version_that_is_worse_is_told(home: Path) -> None:
    submit(home / "submissions", {seed: texts(seed, 9) for seed in (1, 2, 3)})
    ((name, path, message),) = worse(home)
    assert (name, path) == ("GRUE-S042", "submissions/mini/ours/commongen")
    assert message.startswith("preference ")
    assert message.endswith(" (Holm over 1 tasks).")
    assert worse(home) == [(name, path, message)]  # equal files, equal report


@pytest.mark.usefixtures("few_examples")
def test_failed_seeds_that_are_added_make_a_row_worse(home: Path) -> None:
    runs: dict[int, Any] = {seed: texts(seed) for seed in (1, 2, 3)}
    submit(home / "submissions", runs | dict.fromkeys(range(4, 11)))
    assert [name for name, _, _ in worse(home)] == ["GRUE-S042"]
    submit(home / "submissions", runs | {4: None})  # one alone may be chance
    where = "submissions/mini/ours/commongen/seed-4.result.json"
    assert worse(home) == [] and told(home) == [("GRUE-S084", where, "is a failed run, which the row did not have.")]


@pytest.mark.usefixtures("few_examples")
def test_a_version_that_fails_is_worse(home: Path) -> None:
    submit(home / "submissions", dict.fromkeys((1, 2, 3)))
    assert [name for name, _, _ in worse(home)] == ["GRUE-S042"]


@pytest.mark.usefixtures("few_examples")
@pytest.mark.parametrize(
    "runs",
    [
        {seed: texts(seed + 3) for seed in (1, 2, 3)},
        {1: texts(1), 2: texts(2), 3: texts(3), 4: texts(4, 12), 5: texts(5, 12)},
    ],
    ids=["as good", "only added to"],
)
def test_a_version_that_is_not_worse_is_fine(home: Path, runs: dict[int, Any]) -> None:
    submit(home / "submissions", runs)
    assert worse(home) == []


@pytest.mark.usefixtures("few_examples")
def test_one_seed_gets_no_verdict_and_a_reader(home: Path) -> None:
    """As in `grue compare`: what another seed would have got is unknown. Fewer seeds are no way around the check."""
    submit(home / "submissions", {1: texts(1, 9)})
    assert [name for name, _, _ in worse(home)] == ["GRUE-S056"]
    submit(home / "submissions", {1: texts(1)}, "ours")
    commit(home)
    git(home, "branch", "--force", "main")
    submit(home / "submissions", {1: texts(1, 9)}, "ours")
    assert [name for name, _, _ in worse(home)] == ["GRUE-S056"]
    submit(home / "submissions", {1: texts(1)}, "ours", deterministic=True)
    commit(home)
    git(home, "branch", "--force", "main")
    submit(home / "submissions", {1: texts(1, 9)}, "ours", deterministic=True)
    assert [name for name, _, _ in worse(home)] == ["GRUE-S042"]


@pytest.mark.usefixtures("few_examples")
def test_a_version_that_says_why_it_is_worse_is_for_a_person_to_read(home: Path) -> None:
    why = "The old one had seen the test set."
    submit(home / "submissions", {seed: texts(seed, 9) for seed in (1, 2, 3)}, regression=why)
    assert worse(home) == [("GRUE-S044", "submissions/mini/ours/submission.toml", f"regression: {why}")]


@pytest.mark.usefixtures("few_examples")
def test_runs_of_another_version_of_the_task_are_not_compared(home: Path) -> None:
    (home / "submissions/mini/ours/commongen").joinpath("seed-9.result.json").unlink(missing_ok=True)
    for path in (home / "submissions/mini/ours/commongen").glob("*.result.json"):
        path.write_text(path.read_text().replace(TASK.hash, "0" * 64))
    commit(home)
    git(home, "branch", "--force", "main")
    submit(home / "submissions", {seed: texts(seed, 9) for seed in (1, 2, 3)})
    assert worse(home) == []


@pytest.mark.usefixtures("few_examples")
def test_the_row_is_read_from_the_merge_base_alone(home: Path) -> None:
    """Old predictions that the branch spoils, by a commit in between, are not what it is compared with."""
    submit(home / "submissions", {seed: texts(seed, 12) for seed in (1, 2, 3)})
    commit(home)
    submit(home / "submissions", {seed: texts(seed + 6, 9) for seed in (1, 2, 3)})
    assert [name for name, _, _ in worse(home)] == ["GRUE-S042"]


def test_a_huge_file_of_the_merge_base_is_not_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(against, "_MAX_BYTES", 100)
    submit(home / "submissions", {seed: texts(seed + 6) for seed in (1, 2, 3)})
    with pytest.raises(
        DataError, match=r"seed-1\.result\.json: [\d,]+ bytes at the merge base; expected 100 at most\."
    ):
        worse(home)


# --- what a maintainer accepts, and where one stands -----------------------------------------------------------------


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone whose main has a row that passes the check, on a branch of its own."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    use_few_examples(monkeypatch)
    monkeypatch.setattr(against, "load_examples", few_of_the_suite)
    repository = tmp_path / "repository"
    write_good(repository / "submissions/mini/ours")
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(repository))
    commit(repository)
    git(repository, "checkout", "--quiet", "-b", "branch")
    return repository


def reported(*arguments: object) -> dict[str, list[tuple[str, str]]]:
    """Check against main; return id → (severity, message) of its problems."""
    done = CliRunner().invoke(main, ["submit", "check", *map(str, arguments), "--against", "main", "--report", "json"])
    found: dict[str, list[tuple[str, str]]] = {}
    for problem in json.loads(done.stdout)["problems"]:
        found.setdefault(problem["id"], []).append((problem["severity"], problem["message"]))
    return found


def tell_anew(row: Path) -> None:
    say(row, budget="a second")


def declare_worse(row: Path) -> None:
    write_good(row, "Nobody knows what a {} does in the {}.", regression="The old one had seen the test set.")


def get_worse_by_one_seed(row: Path) -> None:
    say(row, seeds=[1])
    for path in row.glob("commongen/seed-[2-5].*"):
        path.unlink()
    hand_in(row, 1, {key: f"nothing {key[-3:]}" for key in texts_of(1)})


@pytest.mark.parametrize(
    ("identity", "change"),
    [("GRUE-S084", tell_anew), ("GRUE-S044", declare_worse), ("GRUE-S056", get_worse_by_one_seed)],
)
def test_a_maintainer_accepts_what_a_pull_request_changes(
    checked: Path, identity: str, change: Callable[[Path], None]
) -> None:
    row = checked / "submissions/mini/ours"
    change(row)
    seal(row)
    commit(checked)
    seen = hashlib.sha256((row / "MANIFEST.sha256").read_bytes()).hexdigest()
    for manifest, severity, end in (
        ("", "review", ""),
        ("0" * 64, "review", ""),
        (seen, "warning", " Accepted by A, 2026-01-31: read"),
    ):
        git(checked, "checkout", "--quiet", "main")
        review = f'["mini/ours".{identity}]\nmanifest = "{manifest}"\nby = "A"\ndate = "2026-01-31"\nwhy = "read"\n'
        touch(checked / "submissions/reviewed.toml", review if manifest else "")
        commit(checked)
        git(checked, "checkout", "--quiet", "branch")
        ((found, message),) = reported(checked / "submissions")[identity]
        assert found == severity and message.endswith(end)


def test_a_row_is_checked_from_wherever_one_stands(checked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = checked / "submissions/mini/ours"
    tell_anew(row)
    seal(row)
    for place, path in (
        (checked, "submissions"),
        (checked, "submissions/mini/ours"),
        (row.parent.parent, "."),
        (row.parent.parent, "mini/ours"),
        (row.parent, "."),
        (row.parent, "ours"),
        (row, "."),
        (row / "commongen", ".."),
    ):
        monkeypatch.chdir(place)
        assert reported(path).keys() == {"GRUE-S084"}, (place, path)
        done = CliRunner().invoke(main, ["submit", "check", path])
        assert (done.exit_code, done.exception) == (0, None), (place, path)
