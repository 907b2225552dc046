"""docs/how-to/your-own.md does what it says: its blocks are run as they stand, in a folder of their own."""

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass

import pytest
from support.paths import ROOT

PAGE = ROOT / "docs" / "how-to" / "your-own.md"
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    section: str
    language: str
    text: str

    @property
    def file(self):
        """The file that the block is the content of, if its first line names one."""
        named = re.match(r"# ([\w-]+\.(?:py|toml))\n", self.text)
        return named[1] if named else None


def blocks():
    found, section = [], ""
    for part in re.split(r"^(?=## )", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE):
        section = part.split("\n", 1)[0].removeprefix("## ")
        found += [Block(section, match["language"], match["text"]) for match in BLOCK.finditer(part)]
    return found


def test_every_block_is_run_or_a_file():
    assert {block.language for block in blocks()} == {"python", "toml", "console"}
    assert all(block.file for block in blocks() if block.language == "toml")


def command(line, site):
    """Return what a line of a console block means here: pip installs beside, not into the tests' environment."""
    program, *rest = shlex.split(line)
    if program == "pip":
        return [sys.executable, "-m", "pip", *rest, "--quiet", "--target", str(site)]
    if program == "grue":
        # As the console script: without the working directory on the path, which `python -m` would put there.
        return [sys.executable, "-P", "-c", "from grue.cli.main import main; main(prog_name='grue')", *rest]
    assert program == "python"
    return [sys.executable, *rest]


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """The folder in which the page was followed, and what each command and script printed."""
    folder, site = tmp_path_factory.mktemp("user"), tmp_path_factory.mktemp("site")
    path = f"{ROOT}{os.pathsep}{site}"
    environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    printed = {}

    def run(name, arguments):
        done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"{name}\n{done.stdout}\n{done.stderr}"
        printed[name] = done.stdout

    for block in blocks():
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            (folder / "script.py").write_text(block.text, encoding="utf-8")
            run(block.section, [sys.executable, "script.py"])
        else:
            for line in block.text.splitlines():
                run(line, command(line, site))
    return folder, printed


def log_of(folder, system):
    return [
        json.loads(line)
        for line in (folder / "runs/own/scenes" / system / "seed-1/train.jsonl").read_text().split("\n")
        if line
    ]


@pytest.mark.slow
def test_the_page_works(said):
    folder, printed = said
    assert "scenes.toml: fine (own/scenes, version 1, hash " in printed["grue tasks validate scenes.toml"]
    assert "9 examples of 9 rows, from test.jsonl" in printed["grue tasks show scenes.toml --examples 1"]
    board = printed["grue leaderboard --task scenes.toml"]
    (learned,) = re.findall(r"\| +– \| supervised\+ppo +\| local, too few seeds \| +1 \| +([\d.]+)", board)
    (start,) = re.findall(r"## References\n\n.+\n.+\n\| zero-shot +\| +([\d.]+)", board)
    assert float(learned) > 40 > 20 > float(start)  # 78 and 10 when this was written
    (scored,) = [text for line, text in printed.items() if line.startswith("grue score ")]
    assert "\n  my_metrics:politeness ↑       0.0000\n" in scored
    assert "  → local  " in printed["grue data where shares.toml"]
    exported = [json.loads(line) for line in (folder / "test-prompts.jsonl").read_text().splitlines()]
    assert len(exported) == 2 and all(one["id"].startswith("example-") for one in exported)


@pytest.mark.slow
def test_each_run_did_what_was_asked(said):
    folder, _ = said
    for system, updates in (("supervised+ppo", 2), ("reinforce", 2), ("grpo", 1), ("ppo-again", 2), ("plain", 1)):
        log = log_of(folder, system)
        assert sum("objective/reward" in line for line in log) == updates, system
        assert log[-1]["finished"] is True
    for line in log_of(folder, "supervised+ppo"):
        assert 0.0 < line.get("objective/reward", 0.5) <= 1.0  # that of `short`
    assert (folder / "runs/own/scenes/reinforce/seed-1/result.json").is_file()
    config = (folder / "runs/own/scenes/grpo/seed-1/config.toml").read_text()
    assert re.search(r'^reward = "__main__:polite \(sha256 [0-9a-f]{16}\)"$', config, re.MULTILINE)
    assert "baseline = 0.2" in (folder / "runs/own/scenes/plain/seed-1/config.toml").read_text()
