"""The commands that pages show can be typed: their names, options and choices are there."""

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from support.paths import ROOT

from grue.cli.main import main

BLOCK = re.compile(r"^```(?:bash|console|)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CLUSTER = ROOT / "docs/how-to/cluster.md"


def commands(text: str) -> list[list[str]]:
    """Return the words of every call of grue in the blocks of a page, without what is only the shell's."""
    lines = "\n".join(BLOCK.findall(text)).replace("\\\n", " ").splitlines()
    found = []
    for line in lines:
        if re.match(r"\s*(?:srun [^#]*?|wait [^#]*?&& )?grue (?!-)", line) and "…" not in line:
            words = shlex.split(re.sub(r"\$\w+", "1", line[line.index("grue ") :]), comments=True)
            ends = [words.index(sign) for sign in ("|", "||", "&", "&&", ">") if sign in words]
            found.append(words[1 : min(ends, default=len(words))])
    return found


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], str | None]:
    """Why a command cannot be typed; None if it can. Nothing is carried out."""
    monkeypatch.setattr(click.Command, "invoke", lambda command, context: None)

    def of(words: list[str]) -> str | None:
        done = CliRunner().invoke(main, words)
        return None if done.exit_code == 0 else done.output

    return of


def test_every_command_of_the_pages_can_be_typed(fault: Callable[[list[str]], str | None]) -> None:
    wrong = {
        f"{page.relative_to(ROOT)}: grue {shlex.join(words)}": why
        for page in PAGES
        for words in commands(page.read_text(encoding="utf-8"))
        if (why := fault(words)) is not None
    }
    assert wrong == {}


def test_a_command_that_cannot_be_typed_is_noticed(fault: Callable[[list[str]], str | None]) -> None:
    page = "```bash\ngrue trian --task imdb\ngrue train --algo ppo # no task\nsrun x grue sweep --sedes 1\ngrue plot\n```\n"
    assert [fault(words) is None for words in commands(page)] == [False] * 4
    assert len(commands(CLUSTER.read_text(encoding="utf-8"))) >= 10


def test_the_job_of_slurm_saves_and_queues_itself_again(tmp_path: Path) -> None:
    """Slurm's SIGTERM reaches the run, the job waits for its end and is queued again; nothing is evaluated."""
    script = next(block for block in BLOCK.findall(CLUSTER.read_text(encoding="utf-8")) if "#SBATCH" in block)
    log = tmp_path / "log"
    _program(
        tmp_path / "grue",
        'trap "sleep 0.2; echo saved >> log; exit 0" TERM; sleep 0.3; echo "$1" >> log; sleep 600 & wait',
    )
    _program(tmp_path / "scontrol", 'echo "$@" >> log')
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/activate").touch()
    slurm = {"SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": "2", "GRUE_RUNS": "runs"}
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    job = subprocess.Popen(["bash", "-c", script], env=os.environ | slurm | {"PATH": path}, cwd=tmp_path)
    limit = time.monotonic() + 120
    while not log.exists() and time.monotonic() < limit:
        time.sleep(0.02)
    job.send_signal(signal.SIGTERM)
    job.wait(timeout=120)
    assert log.read_text().split("\n") == ["train", "saved", "requeue 77", ""]


@pytest.mark.parametrize("option", ["--array", "--requeue", "--signal=B:TERM@"])
def test_the_job_asks_slurm_for_what_the_page_says(option: str) -> None:
    assert option in CLUSTER.read_text(encoding="utf-8")


def _program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)
