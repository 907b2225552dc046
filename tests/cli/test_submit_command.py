"""`grue submit`: what is printed in each format, with which exit code, and that nothing hostile gets through."""

import json
import re
from pathlib import Path

import pytest
from support.commands import grue
from support.factories import a_result

from grue import files
from grue.render.problems import as_github, as_json, as_text, summary
from grue.submissions.problems import CHECKS, Problem
from grue.task_files import load_task

IDS = {"error": "GRUE-S009", "warning": "GRUE-S030"}
HOME = Path("submissions/mini/ours")
OTHER = Path("submissions/mini/theirs")
HOSTILE = "a\n::warning file=x::y\r\n\x1b[2J%0A::set-output name=a::b,\u202e]]><script>&\"'\x00\udcff##[error]"


def a_problem(severity="error", path=f"{HOME}/imdb/seed-1.result.json", message="is wrong."):
    return Problem(IDS[severity], severity, path, message, CHECKS[IDS[severity]].cure)


def test_reports_say_every_problem_by_submission_errors_first(refused):
    """As text, as annotations of GitHub's, and as JSON."""
    problems = [
        a_problem("warning", str(HOME), "lacks five tasks."),
        a_problem(message=HOSTILE),
        a_problem(path="grue/code.py", message="is changed, too: 50% off: a, b"),
        a_problem(path=f"{HOME}2/imdb/seed-2.result.json"),  # whose name begins another
    ]
    checked = [OTHER, HOME, Path(f"{HOME}2")]
    refused.message(as_text(problems, checked))
    refused.message(as_github(problems, checked))
    found = as_json(problems, checked)
    assert found.isascii() and found == as_json(problems, list(checked))
    found = json.loads(found)
    assert (found["checked"], found["errors"], found["warnings"]) == ([str(path) for path in checked], 3, 1)
    assert [(one["path"], one["message"]) for one in found["problems"]] == [(p.path, p.message) for p in problems]
    assert {key: found["problems"][1][key] for key in ("id", "severity", "cure")} == {
        **{"id": "GRUE-S009", "severity": "error"},
        "cure": CHECKS["GRUE-S009"].cure,
    }
    warning = "1 submission checked: 1 warning. Nothing keeps them off the board."
    assert [summary([], []), summary(problems[:1], [HOME])] == ["0 submissions checked: fine.", warning]


def parsed(line):
    """Read a workflow command as GitHub's runner does: to the next `::` are its properties, then its message."""
    command, _, message = line.removeprefix("::").partition("::")
    name, _, rest = command.partition(" ")
    properties = dict(part.partition("=")[::2] for part in rest.split(",") if part)
    back = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}

    def unescaped(text):
        return re.sub("|".join(back), lambda sign: back[sign[0]], text)

    return name, {key: unescaped(value) for key, value in properties.items()}, unescaped(message)


def test_nothing_hostile_gets_through_a_report():
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
    as_json(problems, checked).encode("ascii")


@pytest.fixture
def found(monkeypatch, tmp_path):
    """What the checks find, to be filled by a test; submissions/mini/ours is there."""
    problems = []
    monkeypatch.setattr("grue.cli.submit.check", lambda folder, **options: list(problems))
    monkeypatch.chdir(tmp_path)
    files.write_toml(HOME / "submission.toml", {})
    return problems


def test_the_report_goes_to_stdout_and_the_verdict_is_the_exit_code(found):
    fine = grue("submit", "check")
    assert (fine.stdout, fine.stderr) == ("submissions/mini/ours: fine\n\n1 submission checked: fine.\n", "")
    found.append(a_problem("warning"))
    grue("submit", "check", HOME)
    found.append(a_problem())
    bad = grue("submit", "check", HOME, "submissions", "--report", "json", code=1)
    assert bad.stderr == "Error: 1 error to fix before this can be merged.\n"
    report = json.loads(bad.stdout)
    assert (report["checked"], report["errors"], report["warnings"]) == ([str(HOME)], 1, 1)  # twice named, once told
    done = grue(*"submit check --report github --output out/notes.txt".split(), code=1)
    assert done.stdout == ""
    assert done.stderr.splitlines()[0] == "1 submission checked: 1 error, 1 warning. → out/notes.txt"
    assert "\n::error file=submissions/mini/ours/imdb" in Path("out/notes.txt").read_text()


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        (3, "check nowhere"),
        (2, "pack"),
        (2, "pack a --system b"),
        (3, "pack a"),
        (3, "pack --system ppo"),
        (2, "pack --predictions a"),
    ],
)
@pytest.mark.usefixtures("found")
def test_an_error_is_one_message(code, asked, refused):
    refused.command("submit", *asked.split(), code=code)


SAID = ("--authors", "A. Author, B. Bauer", "--licence", "CC0", "--training-data", "none", "--budget", "1 hour")
PACK = ("submit", "pack", "--system", "ppo")
PACKED = Path("submissions/mini/ppo")
RUNS = Path("runs/mini/commongen/ppo")


@pytest.fixture
def runs(found):
    """Two seeds of a system."""
    for seed in (1, 2):
        system = {"name": "ppo", "algorithm": "ppo", "backbone": "mini:seq2seq"}
        result = files.plain(a_result(load_task("commongen"), "ppo", seed, 50.0)) | {"system": system}
        files.write_json(RUNS / f"seed-{seed}/result.json", result)
        files.write_jsonl(RUNS / f"seed-{seed}/predictions.jsonl", [{"id": "a", "text": f"x{seed}"}])


def test_pack_writes_a_submission_and_ends_with_its_check(runs, found, refused):
    refused.command(*PACK, "--authors", "A", code=2)  # what the results do not know is asked for
    assert not PACKED.exists()
    done = grue(*PACK, *SAID)
    said = r"submissions/mini/ppo: 2 runs, 1 task, \d kB\nsubmissions/mini/ppo: fine\n\n1 submission checked: fine\.\n"
    assert done.stderr == "" and re.fullmatch(said, done.stdout)
    assert files.read_toml(PACKED / "submission.toml")["authors"] == ["A. Author", "B. Bauer"]
    refused.command(*PACK, *SAID, code=2)
    found.append(a_problem())
    grue("submit", "pack", RUNS, *SAID, "--force", code=1)
    grue("submit", "pack", RUNS, *SAID, "--force", "--no-check")


def test_a_failed_run_is_packed_as_a_failure(runs, refused):
    (RUNS / "seed-2/result.json").unlink()
    refused.command(*PACK, *SAID, code=3)
    grue(*PACK, *SAID, "--failed", "commongen:2")
    result = files.read_json(PACKED / "commongen/seed-2.result.json")
    assert (result["status"], result["scores"], result["system"]["algorithm"]) == ("failed", [], "ppo")
    assert result["grue"]["version"]
    both = (*PACK, *SAID, "--failed", "commongen:1", "--failed", "commongen:2", "--force")
    refused.command(*both, code=1)
    (RUNS / "seed-1/result.json").unlink()
    refused.command(*both, code=2)
