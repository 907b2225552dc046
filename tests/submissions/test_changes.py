"""A branch against the one that it goes into: real repositories with a few small files, and the statistics apart."""

import json
import shutil
import subprocess

import numpy as np
import pytest
from support.commands import grue
from support.good_submission import (
    EXAMPLES,
    FAILED,
    OTHER_WAY,
    PLACES,
    SEEDS,
    codes,
    few_examples,
    hand_in,
    known_task,
    no_examples,
    remove_seeds,
    result_says,
    say,
    seal,
    system_says,
    texts_of,
    use_few_examples,
    write_good,
)

from grue.errors import ConfigError, DataError, Unavailable
from grue.submissions.checks import changes, rescoring
from grue.submissions.checks.changes import changed_since, check_paths, check_regression, rows_at, systems_in

OURS, THEIRS = "submissions/mini/ours", "submissions/mini/theirs"


def git(folder, *arguments):
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True)


def commit(home):
    git(home, "add", "-A")
    git(home, "commit", "-qm", "a change")


@pytest.fixture(autouse=True)
def few(monkeypatch):
    use_few_examples(monkeypatch)
    monkeypatch.setattr(changes, "load_examples", few_examples)
    monkeypatch.setattr(changes, "load_task", known_task)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A repository with the row `theirs`, on a branch of its own; ours is not there yet."""
    write_good(tmp_path / THEIRS, OTHER_WAY)
    (tmp_path / "code.py").write_text("1\n")
    git(tmp_path, "init", "-qb", "main")
    commit(tmp_path)
    git(tmp_path, "checkout", "-qb", "branch")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def reported(*arguments, code=1):
    done = grue("submit", "check", "--against", "main", "--report", "json", *arguments, code=code)
    return [(int(p["id"][-3:]), p["path"].removeprefix("submissions/")) for p in json.loads(done.stdout)["problems"]]


def test_a_new_submission_is_fine_and_only_what_the_branch_changes_is_checked(home):
    (home / THEIRS / "notes.txt").write_text("a fault of the board's own row")
    git(home, "checkout", "-q", "main")
    commit(home)
    git(home, "checkout", "-q", "-B", "branch")
    write_good(home / OURS)
    commit(home)
    assert reported(code=0) == []
    assert reported("submissions/mini/theirs") != []


def test_code_boards_and_records_do_not_come_with_a_submission_but_from_a_maintainer(home):
    write_good(home / OURS)
    places = ("code.py", "leaderboard/mini.md", ".github/workflows/x.yml", "submissions/mini/ours.trust.json")
    strange = ("submissions/mini/notes.toml", "submissions/x\ny", "submissions/.git_/a/b")
    for place in (*places, *strange):
        (home / place).parent.mkdir(parents=True, exist_ok=True)
        (home / place).write_text("{}\n")
    commit(home)
    changed = changed_since(home / "submissions", "main")
    assert systems_in(changed) == ["mini/ours"]
    expected = {"../code.py", "../leaderboard/mini.md", "../.github/workflows/x.yml", "mini/ours.trust.json"}
    expected |= {"mini/notes.toml", "x\ny", ".git_/a/b"}
    told = check_paths(home / "submissions", changed)
    assert codes(told) == {40} and len(told) == len(expected)
    (home / OURS).with_name("ours.trust.json").unlink()
    (home / OURS).with_name("notes.toml").unlink()
    commit(home)
    assert {number for number, _ in reported()} == {40}
    assert reported("--maintainer", code=0) == []


def test_a_row_that_was_merged_meanwhile_has_its_name_in_capitals_too(home):
    git(home, "checkout", "-q", "main")
    write_good(home / "submissions/mini/Ours", "Some say that one {} was near its {} once.")
    commit(home)
    git(home, "checkout", "-q", "branch")
    write_good(home / OURS)
    commit(home)
    assert reported() == [(1, "mini/ours")]


def test_a_row_is_not_removed(home):
    shutil.rmtree(home / THEIRS)
    commit(home)
    assert reported() == [(40, "mini/theirs")]


def test_a_row_stays_its_authors_unless_a_maintainer_says_so(home):
    say(home / THEIRS, authors=["A. Author", "B. Author"])
    seal(home / THEIRS)
    commit(home)
    assert reported(code=0) == []
    say(home / THEIRS, authors=["B. Author"])
    seal(home / THEIRS)
    commit(home)
    assert reported() == [(40, "mini/theirs/submission.toml")]
    assert reported("--maintainer", code=0) == []


def test_baselines_are_handed_in_by_maintainers(home):
    """A row of references under the name of one said that learning is worth nothing."""
    write_good(home / "submissions/mini/best-of-n", "{} runs in the {}.", algorithm="best-of-n", backbone="none")
    for seed in SEEDS:
        system_says(home / "submissions/mini/best-of-n", seed, algorithm="best-of-n", backbone="")
    seal(home / "submissions/mini/best-of-n")
    commit(home)
    assert reported() == [(40, "mini/best-of-n")]
    assert reported("--maintainer", code=0) == []


def test_copies_of_a_row_that_came_after_the_branch_began_are_seen(home):
    git(home, "checkout", "-q", "main")
    write_good(home / "submissions/mini/later", "Look, the {0} runs in a {1}!")
    commit(home)
    git(home, "checkout", "-q", "branch")
    write_good(home / OURS, "Look, the {0} runs in a {1}!")
    commit(home)
    assert {number for number, _ in reported()} == {18}


def test_a_row_that_got_worse_is_told_by_the_command(home):
    get_worse(home / THEIRS)
    seal(home / THEIRS)
    commit(home)
    assert reported() == [(42, "mini/theirs/commongen")]


def test_without_the_data_the_report_says_what_was_not_compared(home, monkeypatch):
    for module in (changes, rescoring):
        monkeypatch.setattr(module, "load_examples", no_examples)
    get_worse(home / THEIRS)
    seal(home / THEIRS)
    commit(home)
    assert reported(code=Unavailable.exit_code) == [(39, "mini/theirs"), (39, "mini/theirs/commongen")]


def test_what_is_no_repository_or_commit_is_told(home, tmp_path_factory, refused):
    with refused(DataError):
        changed_since(home / "nowhere", "main")
    for folder, ref in ((home / "submissions", "no-such-commit"), (tmp_path_factory.mktemp("bare"), "main")):
        with pytest.raises(ConfigError, match="--against: git rev-parse in|--against: git diff in"):
            changed_since(folder, ref)
        with pytest.raises(ConfigError, match="--against: git archive in"), rows_at(folder, ref):
            pass


# --- whether a row got worse, of folders alone ----------------------------------------------------------------------


@pytest.fixture
def versions(tmp_path):
    """The row as it stands, and a new version of it with the same texts."""
    return write_good(tmp_path / "old/mini/ours"), write_good(tmp_path / "new/mini/ours")


def told(versions):
    old, new = versions
    return [(int(p.id[-3:]), p.message) for p in check_regression(new, old, np.random.default_rng(0))]


def get_worse(row, *seeds):
    for seed in seeds or SEEDS:
        hand_in(row, seed, {example.id: f"Nothing: {PLACES[seed]}." for example in EXAMPLES})


def test_equal_better_and_slightly_other_versions_are_fine(versions):
    old, new = versions
    assert told(versions) == []
    get_worse(old)
    assert told(versions) == []
    for seed in SEEDS:
        hand_in(old, seed, texts_of(seed))
        hand_in(new, seed, texts_of(seed) | {"id-man": "The man walks."})
    assert told(versions) == []


def test_a_worse_version_is_an_error_unless_it_says_why(versions):
    _, new = versions
    get_worse(new)
    ((number, message),) = told(versions)
    assert number == 42 and "95 % interval" in message and "(Holm over 1 tasks)" in message
    say(new, regression="the old version saw the test split")
    ((number, message),) = told(versions)
    assert number == 44 and message.endswith("its reason: the old version saw the test split")


def test_failed_seeds_make_a_row_worse(versions):
    """One may be chance."""
    _, new = versions
    result_says(new, 1, **FAILED)
    assert told(versions) == []
    result_says(new, **FAILED)
    assert [number for number, _ in told(versions)] == [42]


def test_one_seed_gets_no_verdict_but_a_deterministic_one_does(versions):
    get_worse(versions[1])
    for row in versions:
        remove_seeds(row, *SEEDS[1:])
    assert [number for number, _ in told(versions)] == [44]
    for row in versions:
        say(row, seeds=[1], deterministic=True)
    assert [number for number, _ in told(versions)] == [42]


def test_runs_of_another_version_of_the_task_are_not_compared(versions):
    old, new = versions
    get_worse(new)
    result_says(old, task_hash="0" * 64)
    assert told(versions) == []
