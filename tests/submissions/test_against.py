"""Pull requests: what may change beside a submission, and rows that got worse; most in real repositories."""

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from support.factories import a_result
from support.good_submission import (
    few_examples,
    hand_in,
    remove_seeds,
    say,
    seal,
    texts_of,
    use_few_examples,
    write_good,
)

from grue import files
from grue.cli.main import main
from grue.errors import ConfigError, DataError
from grue.records import Example, Prediction
from grue.submissions.checks import against
from grue.submissions.checks import check as checking
from grue.submissions.checks.against import (
    Changes,
    changes_since,
    check_changes,
    check_regression,
    reviewed_at,
    rows_at,
)
from grue.submissions.checks.rescoring import Findings
from grue.submissions.packing.collect import PackedRun, failed_run
from grue.submissions.packing.describe import describe
from grue.submissions.packing.pack import pack
from grue.task_files import load_task

TASK = load_task("commongen")
WORDS = ["dog", "cat", "man", "tree", "car", "boat", "bird", "fish", "house", "road", "star", "hill"]
EXAMPLES = [Example(w, f"say: {w}.", (f"the {w} is here now",), {"concepts": [w]}) for w in WORDS]
SYSTEM = {"name": "ours", "algorithm": "ppo", "backbone": "b"}
GIVEN = {"authors": ["A"], "licence": "CC0", "training_data": "none", "budget": "none"}
MADE = {"grue": {}, "packages": {}}
FILES = (
    "grue/code.py",
    "tasks/mini/imdb.toml",
    ".github/workflows/ci.yml",
    "leaderboard/mini.md",
    "submissions/README.md",
)
REVIEW = '["mini/{}".{}]\nmanifest = "{}"\nby = "A"\ndate = "2026-01-31"\nwhy = "{}"\n'
PICKED = "all runs are replaced or none, so that no seed is selected."
ONE_REPLACED = f"replaces commongen seed-3 and keeps commongen seed-1, commongen seed-2; {PICKED}"
SAME = "says something else of a run whose texts are the same."


def git(folder, *arguments):
    settings = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(folder), *settings, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(folder, onto=""):
    """Commit everything, and let another branch be at that commit, too."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "x")
    if onto:
        git(folder, "branch", "--force", onto)
    return "HEAD"


def begin(repository):
    """Make a repository of a folder, on a branch of its own."""
    git(repository.parent, "init", "--quiet", "--template=", "--initial-branch=main", str(repository))
    commit(repository)
    git(repository, "checkout", "--quiet", "-b", "branch")
    return repository


def texts(seed, wrong=0):
    """Predictions that differ by seed, and of which `wrong` have nothing to do with their input."""
    found = {word: f"the {word} is here now" for word in WORDS} | {WORDS[-seed]: f"the {WORDS[-seed]} is there"}
    return [Prediction(w, f"no {seed}" if i < wrong else text) for i, (w, text) in enumerate(found.items())]


def submit(home, runs, name="ours", **given):
    """Pack a system: seed → its predictions, None for a failed run."""
    packed = [
        failed_run(TASK, seed, SYSTEM, MADE)
        if answers is None
        else PackedRun(a_result(TASK, "ours", seed, 50.0), tuple(answers), f"seed {seed}")
        for seed, answers in runs.items()
    ]
    described = describe(packed, GIVEN | {"name": name, "algorithm": "a", "backbone": "b"} | given)
    return pack(packed, described, home / "submissions", force=True)


def seeds(*numbers, wrong=0):
    return {seed: texts(seed, wrong) for seed in numbers}


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    repository = tmp_path_factory.mktemp("template") / "repository"
    submit(repository, seeds(1, 2, 3))
    submit(repository, seeds(1, 2, 3, wrong=3), "theirs")
    for name in FILES:
        touch(repository / name, "x\n")
    return begin(repository)


@pytest.fixture
def home(template, tmp_path, monkeypatch):
    """A clone whose main has two systems, on a branch of its own."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(against, "load_examples", lambda task, split: SimpleNamespace(examples=EXAMPLES))
    return Path(shutil.copytree(template, tmp_path / "repository"))


def problems_of(changes, maintainer=False):
    """Return (id, path from the repository's top, message) of what changes."""
    problems, top = check_changes(changes, maintainer), changes.folder.parent
    assert {problem.severity for problem in problems if problem.id not in ("GRUE-S083", "GRUE-S084")} <= {"error"}
    paths = [Path(p.path).relative_to(top).as_posix() if Path(p.path).is_absolute() else p.path for p in problems]
    return [(p.id, path, p.message) for p, path in zip(problems, paths, strict=True)]


def told(home, ref="main"):
    return problems_of(changes_since(home / "submissions", ref))


def touch(path, text="changed\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


NEW = {"mini/new/submission.toml": "added"}


def changed(within=(), beyond=(), **options):
    return problems_of(Changes("", Path("/x/submissions"), dict(within), dict(beyond), {}), **options)


def test_code_and_boards_do_not_come_with_a_submission(refused):
    """A board with a script of its own, or a link, would be shown as the project's; work on code alone is none."""
    code = {".github/workflows/ci.yml": "changed", "docs/new.md": "added", "tasks/mini/imdb.toml": "removed"}
    boards = {"leaderboard/mini.md": "changed", "leaderboard/examples/mini.js": "added"}
    found = changed(NEW, code | boards)
    assert [(name, path) for name, path, _ in found] == [
        ("GRUE-S053" if path in boards else "GRUE-S043", path) for path in sorted(code | boards)
    ]
    refused.message("\n".join(message for _, _, message in found))
    assert changed((), code | boards) == []


def test_what_maintainers_write_is_theirs():
    """A record that says "retrained", a review of what is to come, a figure of a paper: none has a row to check."""
    written = ["grue/paper2023.reported.json", "mini/our+own.trust.json", "reviewed.toml"]
    within = dict.fromkeys(written, "added")
    assert changed(within) == [("GRUE-S083", f"submissions/{name}", "is added.") for name in written]
    stray = "is changed, and is not part of a submission."
    assert ("GRUE-S043", "grue/code.py", stray) in changed(within, {"grue/code.py": "changed"})
    assert changed(within, {"grue/code.py": "changed"}, maintainer=True) == []
    in_none = "is added, and is in no submission's folder."
    for maintainer in (False, True):
        found = changed(NEW | within, maintainer=maintainer)
        assert found == [("GRUE-S040", f"submissions/{name}", in_none) for name in written]


def test_what_lies_in_no_submission_is_told():
    strays = ["mini/.hidden/commongen/seed-1.result.json", "stray.toml"]
    for more in ({}, NEW):
        found = changed(dict.fromkeys(strays, "added") | more)
        assert [(name, path) for name, path, _ in found] == [("GRUE-S040", f"submissions/{name}") for name in strays]
    readme = ("GRUE-S040", "submissions/README.md", "is changed, and is in no submission's folder.")
    assert changed(NEW | {"README.md": "changed"}) == [readme]


def test_a_new_submission_is_fine_and_only_the_branch_counts(home):
    submit(home, seeds(1), "new")
    touch(home / "answers/1.jsonl")  # git does not know it, so it is in no pull request
    assert told(home) == []
    shutil.rmtree(home / "answers")
    commit(home)
    git(home, "checkout", "--quiet", "main")
    submit(home, seeds(1), "another")
    touch(home / "grue/code.py")
    commit(home)
    git(home, "checkout", "--quiet", "branch")
    assert told(home) == []
    assert changes_since(home / "submissions", "main").systems() == ["mini/new"]


def test_names_of_files_are_read_whatever_they_hold(home):
    submit(home, seeds(1), "new")
    name = 'grue/a\nb\t"c" ::error::,%0A\u202ed.py'
    touch(home / name)
    (home / "leaderboard/passwd").symlink_to("/etc/passwd")
    (home / "tasks/mini/imdb.toml").unlink()
    commit(home)
    changes = {name: "added", "leaderboard/passwd": "added", "tasks/mini/imdb.toml": "removed"}
    assert changes_since(home / "submissions", "main").beyond == changes
    found = told(home)
    assert [name for name, _, _ in found] == ["GRUE-S043", "GRUE-S053", "GRUE-S043"]
    assert all(path.isprintable() for _, path, _ in found)


def test_a_tree_runs_nothing(home, tmp_path):
    """Hooks, external diffs, pagers and monitors of the checkout are there, and are not called."""
    mark, program = tmp_path / "called", tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho "$0 $@" >> {mark}\nexit 1\n')
    program.chmod(0o755)
    touch(home / ".gitattributes", "* diff=evil\n")
    for hook in ("post-checkout", "pre-commit", "post-index-change", "fsmonitor-watchman"):
        touch(home / ".git/hooks" / hook, program.read_text())
        (home / ".git/hooks" / hook).chmod(0o755)
    for key in ("diff.evil.command", "diff.evil.textconv", "diff.external", "core.pager", "core.fsmonitor"):
        git(home, "config", key, str(program))
    submit(home, seeds(6, 7, 8))
    touch(home / "grue/code.py")
    assert [(name, path) for name, path, _ in told(home)] == [("GRUE-S043", "grue/code.py")]
    assert not mark.exists(), mark.read_text()


def test_a_commit_or_a_repository_that_is_none_is_told(home, tmp_path, monkeypatch, refused):
    git(home, "checkout", "--quiet", "--orphan", "orphan")
    touch(home / "grue/code.py", "another root\n")
    commit(home)
    git(home, "checkout", "--quiet", "branch")
    for ref in ("nothing", "--output=evil", "main:submissions"):
        with pytest.raises(ConfigError, match=f"^--against: {ref}: git rev-parse in "):
            changes_since(home / "submissions", ref)
    with refused(ConfigError):
        changes_since(home / "submissions", "orphan")
    assert not (home / "evil").exists()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "outside").mkdir()
    with pytest.raises(ConfigError, match="git rev-parse in .* failed"):
        changes_since(tmp_path / "outside", "main")
    with refused(DataError):
        changes_since(tmp_path / "none", "main")


def test_a_submission_reviews_itself_in_vain(home):
    """The reviews are those of the base, not those of the branch, and writing them is no part of a submission."""
    reviewed = home / "submissions/reviewed.toml"
    touch(reviewed, REVIEW.format("new", "GRUE-S034", "x", "read"))
    commit(home, onto="main")
    submit(home, seeds(1), "new")
    touch(reviewed, REVIEW.format("new", "GRUE-S034", "x", "mine"))
    assert [(name, path) for name, path, _ in told(home)] == [("GRUE-S040", "submissions/reviewed.toml")]
    commit(home)
    (known,) = reviewed_at(home / "submissions", "main").values()
    assert known.why == "read"
    assert reviewed_at(home / "submissions", "main~1") == {}
    for text, said in (
        *(("x = 1", "x: must be a table"), ("[a.GRUE-S001]", "GRUE-S001 is not a check that asks")),
        ("[", "not valid TOML"),
    ):
        touch(reviewed, text)
        with pytest.raises(ConfigError, match=f"^submissions/reviewed.toml at HEAD: .*{said}"):
            reviewed_at(home / "submissions", commit(home))


def test_rows_that_came_after_a_branch_began_stand_beside_it(home):
    with rows_at(home / "submissions", "main") as standing:
        assert standing is None
    git(home, "checkout", "--quiet", "main")
    submit(home, seeds(7, 8), "newer")
    commit(home)
    git(home, "checkout", "--quiet", "branch")
    with rows_at(home / "submissions", "main") as standing:
        assert {path.name for path in (standing / "mini").iterdir()} == {"newer", "ours", "theirs"}
        assert (standing / "mini/newer/commongen/seed-8.result.json").is_file()
    assert not standing.exists()
    submit(home, seeds(7, 8), "copied")  # what the branch does not have yet
    done = CliRunner().invoke(main, ["submit", "check", str(home / "submissions"), "--against", "main"])
    assert "has the same texts as newer, seed-7.predictions.jsonl.gz." in done.output


def remove_in_passing(home):
    shutil.rmtree(home / "submissions/mini/theirs")
    submit(home, seeds(1), "new")


def edit_in_passing(home):
    touch(home / "submissions/mini/theirs/submission.toml")
    submit(home, seeds(1), "new")


def drop_a_task(home):
    shutil.rmtree(home / "submissions/mini/theirs/commongen")


REMOVED = "is on the board and is removed."


@pytest.mark.parametrize(
    ("change", "below", "message"),
    [
        (lambda home: shutil.rmtree(home / "submissions/mini/theirs"), "", REMOVED),
        (remove_in_passing, "", REMOVED),
        (lambda home: os.rename(home / "submissions/mini/theirs", home / "submissions/mini/mine"), "", REMOVED),
        (edit_in_passing, "", "is on the board and is changed together with mini/new."),
        (lambda home: submit(home, seeds(1, 2, wrong=3), "theirs"), "", ONE_REPLACED),
        (drop_a_task, "/commongen", REMOVED),
    ],
)
def test_nothing_on_the_board_is_changed_or_removed(home, change, below, message):
    change(home)
    expected = [("GRUE-S041", f"submissions/mini/theirs{below}", message)]
    assert told(home) == expected
    commit(home)
    assert told(home) == expected


def test_seeds_are_not_picked_and_a_failed_one_is_not_tried_again(home):
    submit(home, seeds(1, 2) | {3: texts(5)})
    assert told(home) == [("GRUE-S041", "submissions/mini/ours", ONE_REPLACED)]
    submit(home, seeds(1, 2) | {3: None})
    commit(home, onto="main")
    submit(home, seeds(1, 2, 3))
    assert told(home) == [("GRUE-S041", "submissions/mini/ours", ONE_REPLACED)]


def test_a_system_may_be_extended_or_replaced_as_a_whole(home):
    for runs in (seeds(1, 2, 3, 4, 5), seeds(6, 7, 8), {1: texts(6), 2: texts(7), 3: None}):
        submit(home, runs)
        assert told(home) == []


def replace_others(home, **said):
    """Hand in new texts of one seed, and the same of the others, where all results say something before and after."""
    folder = submit(home, seeds(1, 2, 3))
    for path in folder.glob("*/*.result.json"):
        result = files.read_json(path)
        files.write_json(path, result | {"system": result["system"] | said})
    commit(home, onto="main")
    (folder / "commongen/seed-3.predictions.jsonl.gz").write_bytes(b"other texts")
    return told(home)


def test_runs_that_learned_are_all_replaced_and_one_that_keeps_its_start_again_is_not_kept(home):
    """Its texts are those of the start, whoever trains it again."""
    assert replace_others(home, update=0, weights="1" * 64) == []
    ((name, _, message),) = replace_others(home, update=8, weights="1" * 64)
    assert name == "GRUE-S041" and message.startswith("replaces commongen seed-3 and keeps commongen seed-1")


def test_a_row_without_seeds_may_change_one_task(home):
    described = home / "submissions/mini/ours/submission.toml"

    def declare():
        described.write_text(described.read_text() + "deterministic = true\n")

    declare()
    assert replace_others(home)[0][0] == "GRUE-S041", "the base says what it is, not the branch"
    declare()
    commit(home, onto="main")
    (described.parent / "commongen/seed-1.predictions.jsonl.gz").write_bytes(b"other texts")
    assert told(home) == []


def test_a_standing_row_is_not_told_anew(home):
    path = home / "submissions/mini/ours/commongen/seed-2.result.json"
    result, where = files.read_json(path), path.relative_to(home).as_posix()
    files.write_json(path, result | {"system": result["system"] | {"algorithm": "zero-shot"}})
    assert told(home) == [("GRUE-S084", where, SAME)]
    files.write_json(path, result | {"preference": 99.0})
    assert told(home) == []  # whether scores follow from the texts is asked of all
    described = home / "submissions/mini/ours/submission.toml"
    good = described.read_text()
    for key, value in (("training_data", "the test set"), ("budget", "a second")):
        described.write_text(re.sub(f'{key} = ".*"', f'{key} = "{value}"', good))
        assert told(home) == [("GRUE-S084", "submissions/mini/ours/submission.toml", f"says something else: {key}.")]
    described.write_text(good)
    path.symlink_to(path.rename(home.parent / "moved.json"))  # a link may lead to what has no end
    assert told(home) == [("GRUE-S084", where, SAME)]


AGAIN = {
    "packed otherwise": lambda lines: lines,
    "in another order": lambda lines: lines[::-1],
    "with other signs": lambda lines: [line.replace(b' now"', b'  now."') for line in lines],
    "cut off": lambda lines: [line.replace(b"}", b',"truncated":true}') for line in lines],
    "one text of twelve": lambda lines: [lines[0].replace(b" now", b" and gone"), *lines[1:]],
}


def test_a_row_packed_again_is_not_told_anew(home):
    """Other bytes, or texts that a reader takes for the same, are no other run; what unpacks to too much is one."""
    row = home / "submissions/mini/ours"
    good = {path: path.read_bytes() for path in row.glob("*/*.gz")}

    def pack_again(change):
        for path, content in good.items():
            lines = change(gzip.decompress(content).splitlines(keepends=True))
            path.write_bytes(gzip.compress(b"".join(lines), compresslevel=1, mtime=7))

    for how, change in AGAIN.items():
        pack_again(change)
        assert told(home) == [], how
    for path in row.glob("*/*.result.json"):
        files.write_json(path, files.read_json(path) | {"determinism": {"threads": 7}})
    described = row / "submission.toml"
    described.write_text(described.read_text().replace('"A"', '"B"'))
    for how, change in AGAIN.items():
        pack_again(change)
        found = {Path(path).name: message for name, path, message in told(home) if name == "GRUE-S084"}
        said = SAME if how in ("packed otherwise", "in another order") else SAME.replace("the same", "nearly the same")
        results = {f"seed-{seed}.result.json": said for seed in (1, 2, 3)}
        assert found == results | {"submission.toml": "says something else: authors."}, how
    pack_again(lambda lines: lines)
    path = row / "commongen/seed-3.predictions.jsonl.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()) + b"\n" * 10_000_000, 1))
    (message,) = [message for name, _, message in told(home) if name == "GRUE-S041"]
    assert message.startswith("replaces commongen seed-3 and keeps commongen seed-1")


def test_a_failed_run_is_not_told_anew(home):
    submit(home, seeds(1, 2) | {3: None})
    commit(home, onto="main")
    path = home / "submissions/mini/ours/commongen/seed-3.result.json"
    result, where = files.read_json(path), path.relative_to(home).as_posix()
    path.write_text(json.dumps(result))
    assert told(home) == []
    other = result | {"system": result["system"] | {"algorithm": "nlpo"}}
    files.write_json(path, other)
    assert told(home) == [("GRUE-S084", where, "says something else of a run that failed.")]
    submit(home, {1: texts(6), 2: texts(7), 3: None})  # a new version, of which one failed again
    files.write_json(path, other)
    assert told(home) == []


def test_what_this_machine_lacks_hides_no_error(home, monkeypatch, refused):
    """Beside a change that is not allowed, it is a warning."""
    submit(home, seeds(1), "new")
    monkeypatch.setattr(checking, "_check_tasks", lambda *_: [Findings(missing=("no scorer",))])
    monkeypatch.chdir(home)
    refused.command("submit", "check", "--against", "main", "--report", "json", code=3)
    touch(home / "grue/code.py")
    assert {"GRUE-S039", "GRUE-S043"} <= reported("submissions").keys()


def worse(home):
    changes = changes_since(home / "submissions", "main")
    problems = check_regression(changes, "mini/ours", np.random.default_rng(0), draws=1000)
    return [(p.id, Path(p.path).relative_to(home).as_posix(), p.message) for p in problems]


def test_a_version_that_is_worse_is_told_unless_it_says_why(home):
    submit(home, seeds(1, 2, 3, wrong=9))
    ((name, path, message),) = worse(home)
    assert (name, path) == ("GRUE-S042", "submissions/mini/ours/commongen")
    assert re.fullmatch(r"preference .* \(Holm over 1 tasks\)\.", message)
    assert worse(home) == [(name, path, message)]  # equal files, equal report
    why = "The old one had seen the test set."
    submit(home, seeds(1, 2, 3, wrong=9), regression=why)
    assert worse(home) == [("GRUE-S044", "submissions/mini/ours/submission.toml", f"regression: {why}")]


def test_failed_seeds_make_a_row_worse(home):
    for failed, ids in (((1, 2, 3), ["GRUE-S042"]), (range(4, 11), ["GRUE-S042"]), ((4,), [])):  # one may be chance
        submit(home, seeds(1, 2, 3) | dict.fromkeys(failed))
        assert [name for name, _, _ in worse(home)] == ids
    where = "submissions/mini/ours/commongen/seed-4.result.json"
    assert told(home) == [("GRUE-S084", where, "is a failed run, which the row did not have.")]


def test_a_version_that_is_as_good_or_only_added_to_is_fine(home):
    for runs in ({seed: texts(seed + 3) for seed in (1, 2, 3)}, seeds(1, 2, 3) | seeds(4, 5, wrong=12)):
        submit(home, runs)
        assert worse(home) == []


def test_one_seed_gets_no_verdict_and_a_reader(home):
    """As in `grue compare`: what another seed would have got is unknown. Fewer seeds are no way around the check."""
    submit(home, seeds(1, wrong=9))
    assert [name for name, _, _ in worse(home)] == ["GRUE-S056"]
    for options, name in (({}, "GRUE-S056"), ({"deterministic": True}, "GRUE-S042")):
        submit(home, seeds(1), **options)
        commit(home, onto="main")
        submit(home, seeds(1, wrong=9), **options)
        assert [found for found, _, _ in worse(home)] == [name]


def test_runs_of_another_version_of_the_task_are_not_compared(home):
    for path in (home / "submissions/mini/ours/commongen").glob("*.result.json"):
        path.write_text(path.read_text().replace(TASK.hash, "0" * 64))
    commit(home, onto="main")
    submit(home, seeds(1, 2, 3, wrong=9))
    assert worse(home) == []


def test_the_row_is_read_from_the_merge_base_alone_and_within_limits(home, monkeypatch, refused):
    """Old predictions that the branch spoils, by a commit in between, are not what it is compared with."""
    submit(home, seeds(1, 2, 3, wrong=12))
    commit(home)
    submit(home, seeds(7, 8, 9, wrong=9))
    assert [name for name, _, _ in worse(home)] == ["GRUE-S042"]
    monkeypatch.setattr(against, "_MAX_BYTES", 100)
    with pytest.raises(DataError, match=r"seed-1\.result\.json: [\d,]+ bytes at the merge base; expected 100 at most"):
        worse(home)


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """A clone whose main has a row that passes the check, on a branch of its own."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    use_few_examples(monkeypatch)
    monkeypatch.setattr(against, "load_examples", few_examples)
    write_good(tmp_path / "repository/submissions/mini/ours")
    return begin(tmp_path / "repository")


def reported(*arguments):
    """Check against main; return id → (severity, message) of its problems."""
    done = CliRunner().invoke(main, ["submit", "check", *map(str, arguments), "--against", "main", "--report", "json"])
    found = {}
    for problem in json.loads(done.stdout)["problems"]:
        found.setdefault(problem["id"], []).append((problem["severity"], problem["message"]))
    return found


def get_worse_by_one_seed(row):
    say(row, seeds=[1])
    remove_seeds(row, 2, 3, 4, 5)
    hand_in(row, 1, {key: f"nothing {key[-3:]}" for key in texts_of(1)})


@pytest.mark.parametrize(
    ("identity", "change"),
    [
        ("GRUE-S084", lambda row: say(row, budget="a second")),
        ("GRUE-S044", lambda row: write_good(row, "Nobody knows what a {} does in the {}.", regression="It had it.")),
        ("GRUE-S056", get_worse_by_one_seed),
    ],
)
def test_a_maintainer_accepts_what_a_pull_request_changes(checked, identity, change):
    row, reviewed = checked / "submissions/mini/ours", checked / "submissions/reviewed.toml"
    change(row)
    seal(row)
    commit(checked)
    seen = hashlib.sha256((row / "MANIFEST.sha256").read_bytes()).hexdigest()
    accepted = " Accepted by A, 2026-01-31: read"
    for manifest, severity, end in (("0" * 64, "review", ""), (seen, "warning", accepted)):
        git(checked, "checkout", "--quiet", "main")
        touch(reviewed, REVIEW.format("ours", identity, manifest, "read"))
        commit(checked)
        git(checked, "checkout", "--quiet", "branch")
        ((found, message),) = reported(checked / "submissions")[identity]
        assert found == severity and message.endswith(end)


def test_a_row_is_checked_from_wherever_one_stands(checked, monkeypatch):
    row = checked / "submissions/mini/ours"
    say(row, budget="a second")
    seal(row)
    for place, path in (
        *((checked, "submissions"), (checked, "submissions/mini/ours"), (row.parent.parent, ".")),
        *(
            (row.parent.parent, "mini/ours"),
            (row.parent, "."),
            (row.parent, "ours"),
            (row, "."),
            (row / "commongen", ".."),
        ),
    ):
        monkeypatch.chdir(place)
        assert reported(path).keys() == {"GRUE-S084"}, (place, path)
        done = CliRunner().invoke(main, ["submit", "check", path])
        assert (done.exit_code, done.exception) == (0, None), (place, path)
    touch(checked / "submissions/mini/ours.trust.json", '{"schema": 3, "seen": []}')
    touch(checked / "submissions/reviewed.toml", "")
    monkeypatch.chdir(checked)
    git(checked, "checkout", "--quiet", "--", "submissions/mini/ours")
    assert reported().keys() == {"GRUE-S083"}
    assert reported("--maintainer").keys() == set()
