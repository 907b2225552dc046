"""docs/how-to/submitting.md: its commands work as written, and the workflows keep their promises."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from support.paths import ROOT

from grue.cli.main import main
from grue.records import BASELINES
from grue.task_files import task_names

PAGE = (ROOT / "docs/how-to/submitting.md").read_text(encoding="utf-8")


def test_the_page_names_no_option_that_is_not_there() -> None:
    commands = ["train", "evaluate", "leaderboard", "data export", "compare"]
    commands += [f"submit {verb}" for verb in ("pack", "check", "verify", "retrain")]
    shown = "".join(CliRunner().invoke(main, [*command.split(), "--help"]).output for command in commands)
    known = set(re.findall(r"--[a-z][a-z-]+", shown))
    of_others = {"--check"}  # sha256sum's
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) - of_others <= known


# --- workflows -------------------------------------------------------------------------------------------------------

WORKFLOWS = {path.stem: path for path in sorted((ROOT / ".github/workflows").glob("*.yml"))}
TEXTS = {name: path.read_text(encoding="utf-8") for name, path in WORKFLOWS.items()}
PARSED = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
ON = True  # YAML takes the word "on" for a truth value
# Which may write, or publish the site, and which no stranger can start.
WRITERS = ("boards", "pages")


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in PARSED[name]["jobs"].values() for step in job["steps"]]


def checkouts(name: str) -> list[dict[str, Any]]:
    return [step["with"] for step in steps(name) if "actions/checkout" in step.get("uses", "")]


def test_there_are_five_workflows_which_end_in_time() -> None:
    assert list(PARSED) == ["boards", "ci", "pages", "release", "submissions"]
    minutes = {name: job["timeout-minutes"] for workflow in PARSED.values() for name, job in workflow["jobs"].items()}
    assert minutes.pop("verify") <= 300 and max(minutes.values()) <= 120  # all runs of a row may be trained again
    assert ".ci/run" in [step.get("run") for step in steps("ci")]


def test_boards_and_site_are_written_from_main_alone() -> None:
    """What makes boards and site may only read; what publishes them runs no code of the repository or a package."""
    boards, pages = (PARSED[name] for name in WRITERS)
    assert list(boards[ON]) == ["push"] and boards[ON]["push"]["branches"] == ["main"]
    merged = {"workflows": [boards["name"]], "types": ["completed"], "branches": ["main"]}
    assert pages[ON] == {"push": {"branches": ["main"]}, "workflow_run": merged}
    assert boards["permissions"] == pages["permissions"] == {"contents": "read"}
    assert not any("secrets." in TEXTS[name] for name in WRITERS) and "${{" not in TEXTS["pages"]
    assert re.findall(r"\$\{\{\s*(.*?)\s*\}\}", TEXTS["boards"]) == ["runner.temp"]
    assert checkouts("boards") == [{"ref": "main", "persist-credentials": False}, {"ref": "main"}]
    assert "permissions" not in boards["jobs"]["make"] and "make " not in steps("boards")[-1]["run"]
    assert boards["jobs"]["publish"]["permissions"] == {"contents": "write"}
    build, publish = pages["jobs"]["build"], pages["jobs"]["publish"]
    assert "permissions" not in build and any(step.get("run", "").startswith("make site") for step in build["steps"])
    assert publish["permissions"] == {"pages": "write", "id-token": "write"}
    assert [list(step) for step in publish["steps"]] == [["uses"]]


def test_boards_alone_are_pushed_onto_what_was_merged_while_they_were_made(tmp_path: Path) -> None:
    first, second, origin = tmp_path / "first", tmp_path / "second", tmp_path / "origin.git"
    (first / "docs/reference").mkdir(parents=True)
    (first / "docs/reference/page.md").write_text("a page")
    git(first, "init", "-qb", "main")
    git(first, "add", "-A")
    git(first, "commit", "-qm", "the base")
    git(tmp_path, "clone", "-q", "--bare", "first", "origin.git")
    git(tmp_path, "clone", "-q", "--depth", "1", origin.as_uri(), "second")
    (second / "leaderboard").mkdir()
    for name in ("leaderboard/mini.md", "docs/reference/page.md", "Makefile"):
        (second / name).write_text(f"new {name}")
    git(second, "add", "-A")
    patch = subprocess.run(["git", "diff", "--cached", "--binary"], cwd=second, check=True, capture_output=True).stdout
    (tmp_path / "boards.patch").write_bytes(patch)
    git(second, "reset", "-q", "--hard")
    (first / "code.py").write_text("1")
    git(first, "add", "-A")
    git(first, "commit", "-qm", "meanwhile")
    git(first, "push", "-q", str(origin), "main")
    publish = ["bash", "-e", "-c", steps("boards")[-1]["run"]]
    subprocess.run(
        publish, cwd=second, env=os.environ | {"RUNNER_TEMP": str(tmp_path)}, check=True, capture_output=True
    )
    git(first, "pull", "-q", str(origin), "main")
    assert (first / "leaderboard/mini.md").read_text() == "new leaderboard/mini.md"
    assert (first / "docs/reference/page.md").read_text() == "new docs/reference/page.md"
    assert (first / "code.py").is_file() and not (first / "Makefile").exists()


@pytest.mark.parametrize("name", sorted({*PARSED} - {*WRITERS}))
def test_other_workflows_only_read_and_their_scripts_hold_no_expressions(name: str) -> None:
    """No secret, no right to write, no event that runs a stranger's code with the project's rights; values reach
    scripts as environment variables, because GitHub would paste an expression as it is.
    """
    assert set(PARSED[name][ON]) <= {"push", "pull_request", "schedule"}
    assert PARSED[name]["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in PARSED[name]["jobs"].values())
    assert "secrets." not in TEXTS[name] and "github.token" not in TEXTS[name]
    allowed = {f"github.event.pull_request.{side}.sha" for side in ("base", "head")} | {"github.ref", "runner.temp"}
    allowed |= {"github.event_name"}  # what started it
    allowed |= {"github.event.pull_request.author_association"}  # GitHub's word for what somebody may write
    allowed |= {f"matrix.{name}" for name in ("python", "kind", "row", "task", "resolution")}  # of the workflow itself
    assert {*re.findall(r"\$\{\{\s*(.*?)\s*\}\}", TEXTS[name])} - allowed <= {"!cancelled()"}
    assert not any("${{" in step.get("run", "") for step in steps(name))
    assert all(checkout["persist-credentials"] is False for checkout in checkouts(name))


@pytest.mark.parametrize("job", ["check", "verify"])
def test_the_submissions_of_a_pull_request_are_data(job: str) -> None:
    its_steps = PARSED["submissions"]["jobs"][job]["steps"]
    base, submitted = [step["with"] for step in its_steps if "actions/checkout" in step.get("uses", "")]
    assert (base["path"], base["ref"]) == ("base", "${{ github.event.pull_request.base.sha }}")
    assert (submitted["path"], submitted["ref"]) == ("submitted", "${{ github.event.pull_request.head.sha }}")
    assert submitted["sparse-checkout"].split() == ["/submissions/", "/leaderboard/"]
    assert submitted["sparse-checkout-cone-mode"] is False
    install, run = [step for step in its_steps if "run" in step]
    models = " EXTRAS=small" if job == "check" else ""  # a row of small could not be scored without
    assert (install["working-directory"], install["run"]) == ("base", f"make install{models}")
    assert (run["working-directory"], run["env"]["PYTHONSAFEPATH"]) == ("submitted", "1")
    program = "../base/.venv/bin/grue submit"  # there, only the base branch's programs are called
    assert program in run["run"]
    assert not re.search(r"(^|\s)(make|pip|python3?|source|\./|submitted)\b", run["run"], re.MULTILINE)
    stop, start = run["run"].index("::stop-commands::$token"), run["run"].index('echo "::$token::"')
    assert stop < run["run"].index(program) < start
    wanted = {"check": 'check --against "$BASE" --report github', "verify": '--salt "$GITHUB_RUN_ID" --record'}
    assert wanted[job] in run["run"]


def test_names_of_rows_that_a_pull_request_changes_are_taken_as_names_alone(tmp_path: Path) -> None:
    """The workflow's own filter, on names that would be words or options of a shell."""
    (run,) = [
        step["run"] for step in PARSED["submissions"]["jobs"]["verify"]["steps"] if "verify" in step.get("run", "")
    ]
    (pattern,) = re.findall(r"grep -oE '([^']*)'", run)
    names = ("ours", "ours+nlpo-1.2", "-x", "$(id)", "a b", "`id`", "..", ".hidden", "a;b")
    told = "".join(f"submissions/mini/{name}/submission.toml\n" for name in names) + '"submissions/mini/a\\nb/x"\n'
    done = subprocess.run(["grep", "-oE", pattern], input=told, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == ["submissions/mini/ours/", "submissions/mini/ours+nlpo-1.2/"]


@pytest.fixture
def pull_request(tmp_path: Path) -> Path:
    """The base branch in `base`, with a row and its record; in `submitted` a row, and records of itself and the other."""
    submitted, rows = tmp_path / "submitted", Path("submissions/mini")
    (submitted / rows / "theirs").mkdir(parents=True)
    (submitted / rows / "theirs/submission.toml").write_text("")
    record = submitted / rows / "theirs.trust.json"
    record.write_text((ROOT / rows / "supervised+ppo.trust.json").read_text())
    git(submitted, "init", "-qb", "main")
    git(submitted, "add", "-A")
    git(submitted, "commit", "-qm", "the base")
    shutil.copytree(submitted, tmp_path / "base")
    git(submitted, "checkout", "-qb", "branch")
    lower = re.sub(r'"fresh": ([0-9.]+)', lambda found: f'"fresh": {float(found[1]) / 2}', record.read_text())
    assert lower != record.read_text()
    record.write_text(lower)
    for name in ("no-model", "ours"):
        (submitted / rows / name).mkdir()
        (submitted / rows / name / "submission.toml").write_text("")
        (submitted / rows / f"{name}.trust.json").write_text(lower)
    git(submitted, "add", "-A")
    git(submitted, "commit", "-qm", "what is handed in")
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True)


def run_job(job: str, home: Path, program: str, **values: str) -> subprocess.CompletedProcess[str]:
    """Run the script of a job on a pull request, with a shell script as grue."""
    place = home / "base/.venv/bin/grue"
    place.parent.mkdir(parents=True)
    place.write_text(f"#!/bin/sh\n{program}\n")
    place.chmod(0o755)
    step = PARSED["submissions"]["jobs"][job]["steps"][-1 if job == "check" else -2]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRUE_")}
    environment |= {"BASE": "main", "RUNNER_TEMP": str(home), "PYTHONPATH": str(ROOT), **values}
    command = ["bash", "-e", "-c", step["run"]]
    return subprocess.run(command, cwd=home / "submitted", env=environment, capture_output=True, text=True)


def test_a_pull_request_that_changes_the_record_of_another_row_is_refused(pull_request: Path) -> None:
    """Lower fresh scores of others would make its own lead smaller."""
    submitted = pull_request / "submitted"
    git(submitted, "rm", "-rq", "submissions/mini/ours", "submissions/mini/no-model")
    git(submitted, "rm", "-q", "submissions/mini/ours.trust.json", "submissions/mini/no-model.trust.json")
    git(submitted, "commit", "-qm", "the record alone")
    done = run_job("check", pull_request, f'exec "{sys.executable}" -m grue "$@"', ASSOCIATION="CONTRIBUTOR")
    (said,) = [line for line in done.stdout.splitlines() if "GRUE-S040" in line]
    assert done.returncode == 1 and said.startswith("::error file=submissions/mini/theirs.trust.json")


def test_what_verifies_a_row_reads_the_base_branch_s_records_and_keeps_its_own_alone(pull_request: Path) -> None:
    program = """
echo "$*" >> "$RUNNER_TEMP/called"
[ ! -e "${3%/}.trust.json" ] || exit 9 # what the pull request says of the row
[ "${3%/}" = submissions/mini/ours ] || exit 3
echo seen > "${3%/}.trust.json"
"""
    done = run_job("verify", pull_request, program, GITHUB_RUN_ID="7")
    assert done.returncode == 1 and "submissions/mini/no-model/ is not verified" in done.stdout, done.stderr
    called = (pull_request / "called").read_text().splitlines()
    rest = "--beside ../base/submissions --salt 7 --record --by run 7"
    assert called == [f"submit verify submissions/mini/{name}/ {rest}" for name in ("no-model", "ours")]
    kept = {path.name: path.read_text() for path in (pull_request / "records").iterdir()}
    assert kept == {"ours.trust.json": "seen\n"}


def test_what_verifies_fails_where_git_cannot_tell_what_changed(pull_request: Path) -> None:
    assert run_job("verify", pull_request, "exit 0", GITHUB_RUN_ID="7", BASE="no-such-commit").returncode != 0


def test_a_push_does_not_stop_the_weekly_run() -> None:
    assert "github.event_name" in PARSED["ci"]["concurrency"]["group"]


def test_a_tag_that_disagrees_stops_the_release(tmp_path: Path) -> None:
    """GitHub's shell for a step is `bash -e`: the end of a pipe would hide that its beginning failed."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/release.py").write_text("raise SystemExit('CITATION.cff states another version.')")
    (run,) = [step["run"] for step in steps("release") if "tools/release.py" in step.get("run", "")]
    environment = os.environ | {"GITHUB_REF_NAME": "v9", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-e", "-c", run], cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode == 1


def test_every_trained_row_of_all_tasks_is_trained_again_by_the_week_and_one_by_every_push() -> None:
    matrix = PARSED["ci"]["jobs"]["retrain"]["strategy"]["matrix"]
    tasks = {
        path.name: {config.parent.name for config in path.glob("*/config.json")}
        for path in (ROOT / "submissions/mini").iterdir()
        if path.is_dir() and path.name not in BASELINES
    }
    assert sorted(matrix["row"]) == sorted(name for name, found in tasks.items() if found == {*matrix["task"]})
    assert {*task_names("mini")} == {*matrix["task"]}
    assert "\nmake retrain" in (ROOT / ".ci/run").read_text()


# --- the action for other repositories --------------------------------------------------------------------------------

ACTION = yaml.safe_load((ROOT / ".github/actions/grue-check/action.yml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("given", "status", "printed"),
    [
        ({"files": "seed-*.json", "at-least": "preference=60\nasked_sentiment=1"}, 1, "FAIL asked_sentiment"),
        ({"files": "seed-1.json", "baseline": "seed-2.json:seed-1.json", "tolerance": "9"}, 0, "seeds: 2"),
        ({"files": "seed-1.json", "at-least": "preference=60", "junit": "grue/check.xml"}, 0, "1 file"),
        ({"files": "--help"}, 2, "Nothing to check"),  # a name is no option
        (
            {"files": "$(touch run) `touch run`; touch run", "at-least": "preference=1"},
            2,
            "need --task",
        ),  # nor a command
    ],
)
def test_the_action_checks_what_it_is_given(given: dict[str, str], status: int, printed: str, tmp_path: Path) -> None:
    for n in (1, 2):
        shutil.copy(ROOT / f"submissions/mini/supervised/imdb/seed-{n}.result.json", tmp_path / f"seed-{n}.json")
    (tmp_path / "grue/bin").mkdir(parents=True)
    program = tmp_path / "grue/bin/grue"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m grue "$@"\n')
    program.chmod(0o755)
    inputs = {name: given.get(name, about.get("default", "")) for name, about in ACTION["inputs"].items()}
    step = ACTION["runs"]["steps"][-1]
    values = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: inputs[m[1]], v) for name, v in step["env"].items()
    }
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRUE_")}
    environment |= values | {"RUNNER_TEMP": str(tmp_path), "PYTHONPATH": str(ROOT)}
    before = sorted(tmp_path.iterdir())
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert printed in done.stdout + done.stderr
    begin, *_, end = done.stdout.splitlines()
    assert end == f"::{begin.removeprefix('::stop-commands::')}::"
    assert sorted(tmp_path.iterdir()) == before and (tmp_path / "grue/check.xml").is_file() == ("junit" in given)
    assert not any("${{" in step["run"] for step in ACTION["runs"]["steps"])
