"""docs/how-to/submitting.md: its commands work as written, and the workflows keep their promises."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.paths import ROOT

from grue.records import BASELINES

PAGE = (ROOT / "docs/how-to/submitting.md").read_text(encoding="utf-8")
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
BOARDS = ROOT / ".github/workflows/boards.yml"  # the one that may write, and that no stranger can start
PAGES = ROOT / ".github/workflows/pages.yml"  # the one that may publish the site, and that no stranger can start
READERS = [path for path in WORKFLOWS if path not in (BOARDS, PAGES)]


def blocks(heading: str) -> list[str]:
    """Return the commands that stand under a heading of the page."""
    section = PAGE.split(f"\n## {heading}")[1].split("\n## ")[0]
    return re.findall(r"^```bash\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of a repository that has a folder of submissions, and an origin that can be pushed to."""
    origin, repository = tmp_path / "origin.git", tmp_path / "clone"
    run(tmp_path, f"git init --quiet --bare --initial-branch=main {origin}")
    run(tmp_path, f"git clone --quiet {origin} {repository} 2>/dev/null")
    (repository / "submissions").mkdir()
    shutil.copy(ROOT / "submissions/README.md", repository / "submissions")
    shutil.copy(ROOT / ".gitignore", repository)
    run(repository, "git checkout --quiet -b main && git add . && git commit --quiet -m start")
    run(repository, "git push --quiet origin main && git fetch --quiet")
    return repository


def run(folder: Path, script: str) -> str:
    """Run a script of bash as a person would, with grue on the path; every command must end well."""
    person = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in PERSON.items()}
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GRUE_", "GIT_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment | person | {"PATH": path, "GIT_CONFIG_GLOBAL": os.devnull, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


PERSON = {"NAME": "A. Author", "EMAIL": "author@example.org"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("road", "system", "task"), [("A. From", "my-ppo", "imdb"), ("B. From", "shuffler", "commongen")]
)
def test_the_road_is_walked_as_written(clone: Path, road: str, system: str, task: str) -> None:
    (block,) = blocks(road)
    printed = run(clone, block)
    assert "1 submission checked: " in printed
    assert "0 errors" not in printed and " error" not in printed.split("1 submission checked: ")[-1]
    assert "GRUE-S036" not in printed  # answers and prompts in the folder change no code
    pushed = run(clone, f"git ls-tree -r --name-only origin/{system} -- submissions").split()
    runs = [f"submissions/mini/{system}/{task}/seed-{n}" for n in (1, 2, 3)]
    expected = {f"{one}.{kind}" for one in runs for kind in ("result.json", "predictions.jsonl.gz")}
    expected |= {f"submissions/mini/{system}/{name}" for name in ("submission.toml", "MANIFEST.sha256")}
    expected |= (
        {f"submissions/mini/{system}/{task}/config.json"} if road.startswith("A") else set()
    )  # B trained nothing
    assert expected == {name for name in pushed if name.startswith("submissions/mini/")}
    assert run(clone, "git status --porcelain -- submissions leaderboard") == ""
    run(clone, f"git checkout --quiet main && git merge --quiet {system} && grue leaderboard --publish leaderboard")
    board = json.loads((clone / "leaderboard/mini.json").read_text(encoding="utf-8"))
    rows = board["rows"] if "rows" in board else board["board"]["rows"]
    assert [(row["system"], row["status"], row["rank"]) for row in rows] == [(system, "rescored", None)]


def test_the_page_names_no_option_that_is_not_there() -> None:
    known = set()
    commands = ["train", "evaluate", "leaderboard", "data export", "compare"]
    for command in (*commands, *(f"submit {verb}" for verb in ("pack", "check", "refer", "reproduce", "retrain"))):
        known |= set(re.findall(r"--[a-z][a-z-]+", run(ROOT, f"grue {command} --help")))
    of_others = {"--check"}  # sha256sum's
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) - of_others <= known


# --- workflows -------------------------------------------------------------------------------------------------------


def parsed(path: Path) -> dict[Any, Any]:
    return dict(yaml.safe_load(path.read_text(encoding="utf-8")))


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in parsed(path)["jobs"].values() for step in job["steps"]]


def test_there_are_five_workflows_which_end_in_time() -> None:
    names = [path.name for path in WORKFLOWS]
    assert names == ["boards.yml", "ci.yml", "pages.yml", "release.yml", "submissions.yml"]
    for path in WORKFLOWS:
        assert all(job["timeout-minutes"] <= 120 for job in parsed(path)["jobs"].values())


def test_the_boards_are_written_on_main_alone() -> None:
    workflow, text = parsed(BOARDS), BOARDS.read_text(encoding="utf-8")
    assert list(workflow[True]) == ["push"]
    assert workflow[True]["push"]["branches"] == ["main"]
    assert workflow["permissions"] == {"contents": "write"}
    assert "${{" not in text
    assert [step["with"] for step in steps(BOARDS) if "actions/checkout" in step.get("uses", "")] == [{"ref": "main"}]
    assert "git add leaderboard docs/reference\n" in text


def test_the_site_is_published_from_main_alone() -> None:
    """What builds the site may only read; what publishes it runs no code of the repository."""
    workflow, text = parsed(PAGES), PAGES.read_text(encoding="utf-8")
    assert workflow[True] == {"push": {"branches": ["main"]}}
    assert workflow["permissions"] == {"contents": "read"}
    assert "${{" not in text and "secrets." not in text
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    assert "permissions" not in build
    assert publish["permissions"] == {"pages": "write", "id-token": "write"}
    assert [list(step) for step in publish["steps"]] == [["uses"]]
    assert any(step.get("run", "").startswith("make site") for step in build["steps"])


@pytest.mark.parametrize("path", READERS, ids=lambda path: path.name)
def test_a_workflow_can_only_read(path: Path) -> None:
    """No secret, no right to write, no event that runs a stranger's code with the project's rights."""
    workflow, text = parsed(path), path.read_text(encoding="utf-8")
    triggers = workflow[True]  # YAML takes the word "on" for a truth value
    assert set(triggers) <= {"push", "pull_request", "schedule"}
    assert workflow["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in workflow["jobs"].values())
    assert "secrets." not in text and "github.token" not in text


@pytest.mark.parametrize("path", READERS, ids=lambda path: path.name)
def test_a_workflow_puts_nothing_of_a_stranger_into_a_script(path: Path) -> None:
    """What an event says reaches scripts as environment variables; GitHub would paste an expression as it is."""
    allowed = {f"github.event.pull_request.{side}.sha" for side in ("base", "head")} | {"github.ref", "runner.temp"}
    allowed |= {"github.event.pull_request.author_association"}  # GitHub's word for what somebody may write
    allowed |= {"matrix.python", "matrix.kind", "matrix.row", "matrix.task"}  # of the workflow itself
    for step in steps(path):
        assert "${{" not in step.get("run", "")
        if "actions/checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False
    used = re.findall(r"\$\{\{\s*(.*?)\s*\}\}", path.read_text(encoding="utf-8"))
    assert set(used) - allowed <= {"!cancelled()"}


def test_the_submissions_of_a_pull_request_are_data() -> None:
    path = ROOT / ".github/workflows/submissions.yml"
    base, submitted = [step["with"] for step in steps(path) if "actions/checkout" in step.get("uses", "")]
    assert (base["path"], base["ref"]) == ("base", "${{ github.event.pull_request.base.sha }}")
    assert (submitted["path"], submitted["ref"]) == ("submitted", "${{ github.event.pull_request.head.sha }}")
    assert submitted["sparse-checkout"].split() == ["/submissions/", "/leaderboard/"]
    assert submitted["sparse-checkout-cone-mode"] is False
    scripts = [step for step in steps(path) if "run" in step]
    for step in scripts:
        if step["working-directory"] == "submitted":  # there, only the base branch's programs are called
            assert "../base/.venv/bin/grue" in step["run"]
            assert not re.search(r"(^|\s)(make|pip|python3?|source|\./|submitted)\b", step["run"], re.MULTILINE)
            assert step["env"]["PYTHONSAFEPATH"] == "1"
        else:
            assert (step["working-directory"], step["run"]) == ("base", "make install")
    (check,) = [step["run"] for step in scripts if "submit check" in step["run"]]
    assert 'submit check --against "$BASE" --time-limit 2400 --report github' in check
    stop, start = check.index("::stop-commands::$token"), check.index('echo "::$token::"')
    assert stop < check.index("submit check") < start < check.index("cat ")


def test_ci_runs_what_guards_main() -> None:
    assert ".ci/run" in [step.get("run") for step in steps(ROOT / ".github/workflows/ci.yml")]


def test_every_trained_row_is_trained_again_by_the_week_and_one_by_every_push() -> None:
    """`make retrain` is in .ci/run; the schedule has every committed row that was trained, with every task."""
    rows = [path for path in (ROOT / "submissions/mini").iterdir() if path.is_dir() and path.name not in BASELINES]
    matrix = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["retrain"]["strategy"]["matrix"]
    assert sorted(matrix["row"]) == sorted(path.name for path in rows)
    for row in matrix["row"]:
        tasks = {path.parent.name for path in (ROOT / "submissions/mini" / row).glob("*/seed-1.result.json")}
        assert tasks == set(matrix["task"])
    assert "\nmake retrain" in (ROOT / ".ci/run").read_text()


# --- the action for other repositories --------------------------------------------------------------------------------

ACTION = yaml.safe_load((ROOT / ".github/actions/grue-check/action.yml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("given", "status", "printed"),
    [
        ({"files": "seed-*.json", "at-least": "preference=60 naturalness=60"}, 0, "2 files"),
        ({"files": "seed-*.json", "at-least": "preference=60\nsentiment=2"}, 1, "FAIL sentiment"),
        ({"files": "seed-1.json", "at-least": "preference=supervised+ppo", "tolerance": "20"}, 0, "tolerance 20"),
        ({"files": "seed-1.json"}, 2, "Nothing to check"),
        ({"files": "--help"}, 2, "Nothing to check"),  # a name is no option
        (
            {"files": "$(touch run) `touch run`; touch run", "at-least": "preference=1"},
            2,
            "need --task",
        ),  # nor a command
        ({"files": "seed-none.json", "at-least": "preference=$(touch run)"}, 2, "write FIGURE=VALUE"),
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
    assert sorted(tmp_path.iterdir()) == before


def test_no_script_of_the_action_holds_an_expression() -> None:
    assert not any("${{" in step["run"] for step in ACTION["runs"]["steps"])
