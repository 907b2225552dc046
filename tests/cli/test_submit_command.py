"""`grue submit`: what is printed in each format, with which exit code, and that nothing hostile gets through."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from support.factories import a_result

from grue import files
from grue.cli.main import main
from grue.render.problems import as_github, as_json, as_junit, as_text, summary
from grue.submissions.checks import check as checks
from grue.submissions.problems import CHECKS, Problem
from grue.task_files import load_task

IDS = {"error": "GRUE-S009", "warning": "GRUE-S031"}
HOME = Path("submissions/mini/ours")
OTHER = Path("submissions/mini/theirs")
HOSTILE = "a\n::warning file=x::y\r\n\x1b[2J%0A::set-output name=a::b,\u202e]]><script>&\"'\x00\udcff##[error]"


def a_problem(
    severity: Any = "error", path: str = f"{HOME}/imdb/seed-1.result.json", message: str = "is wrong."
) -> Problem:
    return Problem(IDS[severity], severity, path, message, CHECKS[IDS[severity]].cure)


def grue(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


# --- reports ---------------------------------------------------------------------------------------------------------


def test_the_text_report_is_grouped_by_submission_errors_first() -> None:
    problems = [
        a_problem("warning", str(HOME), "lacks five tasks."),
        a_problem(),
        a_problem(path="grue/code.py", message="is changed, too."),
        a_problem(path=f"{HOME}/imdb/seed-2.result.json"),
    ]
    cure, other = CHECKS["GRUE-S009"].cure, CHECKS["GRUE-S031"].cure
    assert as_text(problems, [OTHER, HOME]) == (
        "submissions/mini/theirs: fine\n"
        "\n"
        "submissions/mini/ours: 2 errors, 1 warning\n"
        "  error    GRUE-S009  imdb/seed-1.result.json: is wrong.\n"
        "  error    GRUE-S009  imdb/seed-2.result.json: is wrong.\n"
        f"                    → {cure}\n"
        "  warning  GRUE-S031  lacks five tasks.\n"
        f"                    → {other}\n"
        "\n"
        "outside the submissions: 1 error\n"
        "  error    GRUE-S009  grue/code.py: is changed, too.\n"
        f"                    → {cure}\n"
        "\n"
        "2 submissions checked: 3 errors, 1 warning.\n"
    )


@pytest.mark.parametrize(
    ("problems", "checked", "said"),
    [
        ([], [], "0 submissions checked: fine."),
        ([], [HOME], "1 submission checked: fine."),
        ([a_problem("warning")], [HOME], "1 submission checked: 1 warning. Nothing keeps them off the board."),
        ([a_problem(), a_problem()], [HOME, OTHER], "2 submissions checked: 2 errors."),
    ],
)
def test_the_summary_counts(problems: list[Problem], checked: list[Path], said: str) -> None:
    assert summary(problems, checked) == said


def test_a_submission_whose_name_begins_another_is_not_taken_for_it() -> None:
    text = as_text([a_problem(path="submissions/mini/ours2/x")], [HOME, Path("submissions/mini/ours2")])
    assert text.startswith("submissions/mini/ours: fine\n\nsubmissions/mini/ours2: 1 error\n")


def test_the_json_report_says_everything() -> None:
    problem = a_problem(message=HOSTILE)
    assert json.loads(as_json([problem], [HOME])) == {
        "schema": 2,
        "checked": ["submissions/mini/ours"],
        "errors": 1,
        "reviews": 0,
        "warnings": 0,
        "problems": [
            {
                "id": "GRUE-S009",
                "severity": "error",
                "path": "submissions/mini/ours/imdb/seed-1.result.json",
                "message": HOSTILE,
                "cure": CHECKS["GRUE-S009"].cure,
            }
        ],
    }
    assert as_json([problem], [HOME]).isascii()


def test_the_junit_report_has_a_case_for_each_check() -> None:
    problems = [a_problem(), a_problem(message="is wrong, too."), a_problem("warning", str(HOME), "lacks tasks.")]
    root = ElementTree.fromstring(as_junit(problems, [HOME, OTHER]))
    assert root.attrib == {"name": "grue submit check", "tests": str(2 * len(CHECKS)), "failures": "1"}
    ours, theirs = root.findall("testsuite")
    assert (ours.get("name"), ours.get("tests"), ours.get("failures")) == (str(HOME), str(len(CHECKS)), "1")
    assert (theirs.get("name"), theirs.get("failures")) == (str(OTHER), "0")
    cases = {str(case.get("name"))[:9]: case for case in ours}
    assert list(cases) == list(CHECKS)
    (failure,) = cases["GRUE-S009"]
    assert failure.tag == "failure"
    assert failure.get("message") == f"{HOME}/imdb/seed-1.result.json: is wrong."
    assert str(failure.text).splitlines()[1] == f"{HOME}/imdb/seed-1.result.json: is wrong, too."
    (told,) = cases["GRUE-S031"]
    assert (told.tag, str(told.text).splitlines()[0]) == ("system-out", f"{HOME}: lacks tasks.")
    assert not list(cases["GRUE-S001"])


def test_the_github_report_annotates_the_file() -> None:
    title, cure = CHECKS["GRUE-S009"].title, CHECKS["GRUE-S009"].cure
    assert as_github([a_problem(message="50% off: a, b")], [HOME]).splitlines() == [
        f"::error file=submissions/mini/ours/imdb/seed-1.result.json,title=GRUE-S009%3A {title}::50%25 off: a, b {cure}",
        "::notice title=Submissions::1 submission checked: 1 error.",
    ]


def parsed(line: str) -> tuple[str, dict[str, str], str]:
    """Read a workflow command as GitHub's runner does: to the next `::` are its properties, then its message."""
    command, _, message = line.removeprefix("::").partition("::")
    name, _, rest = command.partition(" ")
    properties = dict(part.partition("=")[::2] for part in rest.split(",") if part)
    back = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}

    def unescaped(text: str) -> str:
        return re.sub("|".join(back), lambda sign: back[sign[0]], text)

    return name, {key: unescaped(value) for key, value in properties.items()}, unescaped(message)


def test_nothing_hostile_gets_through_a_report() -> None:
    """Names and messages of strangers begin no line, no tag and no command, and turn no terminal's colours."""
    problems = [a_problem(severity, f"{HOME}/{HOSTILE}", HOSTILE) for severity in IDS]
    checked = [HOME, Path(f"submissions/mini/{HOSTILE}".replace("\x00", ""))]
    shown = r"a\n::warning file=x::y\r\n\x1b[2J%0A::set-output name=a::b,\u202e]]><script>&\"'\x00\udcff##[error]"
    shown = shown.replace('\\"', '"')
    lines = as_github(problems, checked).splitlines()
    assert [parsed(line)[0] for line in lines] == ["error", "warning", "notice"]
    for line in lines[:2]:
        _, properties, message = parsed(line)
        assert set(properties) == {"file", "title"}
        assert properties["file"] == f"{HOME}/{shown}"
        assert message.startswith(shown)
    text = as_text(problems, checked)
    assert all(sign == "\n" or sign.isprintable() for sign in text)
    assert len(text.splitlines()) == len(as_text([a_problem(), a_problem("warning")], [HOME, OTHER]).splitlines())
    junit = as_junit(problems, checked)
    junit.encode("utf-8")
    root = ElementTree.fromstring(junit)
    assert {element.tag for element in root.iter()} == {"testsuites", "testsuite", "testcase", "failure", "system-out"}
    (failure,) = root.iter("failure")
    assert failure.get("message") == f"{HOME}/{shown}: {shown}"
    as_json(problems, checked).encode("ascii")


def test_equal_problems_give_equal_bytes() -> None:
    problems = [a_problem(), a_problem("warning")]
    for report in (as_text, as_json, as_junit, as_github):
        assert report(problems, [HOME]) == report(list(problems), [HOME])


# --- check -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Problem]:
    """What the checks find, to be filled by a test; submissions/mini/ours is there."""
    problems: list[Problem] = []
    monkeypatch.setattr(checks, "check", lambda folder, **options: list(problems))
    monkeypatch.chdir(tmp_path)
    files.write_toml(HOME / "submission.toml", {})
    return problems


def test_the_report_goes_to_stdout_and_the_verdict_is_the_exit_code(found: list[Problem]) -> None:
    fine = grue("submit", "check")
    assert (fine.exit_code, fine.stderr) == (0, "")
    assert fine.stdout == "submissions/mini/ours: fine\n\n1 submission checked: fine.\n"
    found.append(a_problem("warning"))
    assert grue("submit", "check", HOME).exit_code == 0
    found.append(a_problem())
    bad = grue("submit", "check", HOME, "submissions", "--report", "json")
    assert bad.exit_code == 1
    assert bad.stderr == "Error: 1 error to fix before this can be merged.\n"
    report = json.loads(bad.stdout)
    assert (report["checked"], report["errors"], report["warnings"]) == ([str(HOME)], 1, 1)  # twice named, once told


def test_reports_go_to_files(found: list[Problem], tmp_path: Path) -> None:
    found.append(a_problem())
    done = grue("submit", "check", "--report", "github", "--output", "out/notes.txt", "--junit", "out/junit.xml")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0] == "1 submission checked: 1 error. → out/notes.txt"
    assert (tmp_path / "out/notes.txt").read_text().startswith("::error file=submissions/mini/ours/imdb")
    assert ElementTree.parse(tmp_path / "out/junit.xml").getroot().get("failures") == "1"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["check", "nowhere"], 3, "nowhere: there is no such folder of submissions."),
        (["check", "--against", "main", "nowhere"], 3, "nowhere: there is no such folder of submissions."),
        (["pack"], 2, "Choose what to pack: one of RUN..., --system NAME, --predictions FOLDER or --sweep RUNS."),
        (
            ["pack", "a", "--system", "b"],
            2,
            "Choose what to pack: one of RUN..., --system NAME, --predictions FOLDER or --sweep RUNS.",
        ),
        (["pack", "a"], 3, "a: is neither a run nor a system's folder of runs, such as runs/mini/commongen/ppo."),
        (
            ["pack", "--system", "ppo"],
            3,
            "runs/mini: has no run of a system 'ppo'; `grue leaderboard` lists the systems.",
        ),
        (
            ["pack", "--predictions", "a"],
            2,
            "--predictions: name the system that wrote them: --name, --algorithm, --backbone.",
        ),
    ],
)
def test_an_error_is_one_message(found: list[Problem], arguments: list[str], code: int, message: str) -> None:
    done = grue("submit", *arguments)
    assert (done.exit_code, done.stdout, done.stderr) == (code, "", f"Error: {message}\n")


def test_an_unknown_report_is_a_matter_of_usage(found: list[Problem]) -> None:
    assert grue("submit", "check", "--report", "html").exit_code == 2


# --- pack ------------------------------------------------------------------------------------------------------------


def a_folder_of_runs(folder: Path, seeds: tuple[int, ...] = (1, 2)) -> None:
    for seed in seeds:
        run = folder / f"mini/commongen/ppo/seed-{seed}"
        system = {"name": "ppo", "algorithm": "ppo", "backbone": "mini:seq2seq"}
        result = files.plain(a_result(load_task("commongen"), "ppo", seed, 50.0)) | {"system": system}
        files.write_json(run / "result.json", result)
        files.write_jsonl(run / "predictions.jsonl", [{"id": "a", "text": f"x{seed}"}])


SAID = ("--authors", "A. Author, B. Bauer", "--licence", "CC0", "--training-data", "none", "--budget", "1 hour")


def test_pack_writes_a_submission_and_ends_with_its_check(found: list[Problem]) -> None:
    a_folder_of_runs(Path("runs"))
    done = grue("submit", "pack", "--system", "ppo", *SAID)
    assert (done.exit_code, done.stderr) == (0, "")
    assert re.fullmatch(
        r"submissions/mini/ppo: 2 runs, 1 task, \d kB\nsubmissions/mini/ppo: fine\n\n1 submission checked: fine\.\n",
        done.stdout,
    )
    assert files.read_toml(Path("submissions/mini/ppo/submission.toml"))["authors"] == ["A. Author", "B. Bauer"]
    again = grue("submit", "pack", "--system", "ppo", *SAID)
    assert (again.exit_code, again.stderr) == (
        2,
        "Error: submissions/mini/ppo: exists; replace it with --force, or choose another --name.\n",
    )
    found.append(a_problem())
    assert grue("submit", "pack", "runs/mini/commongen/ppo", *SAID, "--force").exit_code == 1
    assert grue("submit", "pack", "runs/mini/commongen/ppo", *SAID, "--force", "--no-check").exit_code == 0


def test_pack_asks_for_what_the_results_do_not_know(found: list[Problem]) -> None:
    a_folder_of_runs(Path("runs"))
    done = grue("submit", "pack", "--system", "ppo", "--authors", "A")
    said = "The results do not record everything; add --licence, --training-data, --budget."
    assert (done.exit_code, done.stderr) == (2, f"Error: {said}\n")
    assert not Path("submissions/mini/ppo").exists()


def test_a_failed_run_is_packed_as_a_failure(found: list[Problem]) -> None:
    a_folder_of_runs(Path("runs"), (1,))
    Path("runs/mini/commongen/ppo/seed-2").mkdir()
    refused = grue("submit", "pack", "--system", "ppo", *SAID)
    folder = "runs/mini/commongen/ppo/seed-2"
    said = f"{folder}: has no result.json. Evaluate the run; if it failed, declare it: --failed commongen:2."
    assert (refused.exit_code, refused.stderr) == (3, f"Error: {said}\n")
    done = grue("submit", "pack", "--system", "ppo", *SAID, "--failed", "commongen:2")
    assert done.exit_code == 0, done.output
    result = files.read_json(Path("submissions/mini/ppo/commongen/seed-2.result.json"))
    assert (result["status"], result["scores"], result["system"]["algorithm"]) == ("failed", [], "ppo")
    assert result["grue"]["version"]
    twice = grue(
        "submit", "pack", "--system", "ppo", *SAID, "--failed", "commongen:1", "--failed", "commongen:2", "--force"
    )
    assert "--failed commongen:1 and runs/mini/commongen/ppo/seed-1 are both commongen with seed 1" in twice.stderr
    Path("runs/mini/commongen/ppo/seed-1/result.json").unlink()
    none = grue(
        "submit", "pack", "--system", "ppo", *SAID, "--failed", "commongen:1", "--failed", "commongen:2", "--force"
    )
    assert (none.exit_code, none.stderr) == (2, "Error: Every run failed: there is no result to submit.\n")
