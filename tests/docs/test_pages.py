"""What pages name is there: links, files, functions, tests, commands, pictures; what they quote is what is kept elsewhere."""

import ast
import functools
import json
import os
import pkgutil
import re
import shlex
import signal
import subprocess
import time

import click
from click.testing import CliRunner
from shoot_images import IMAGES, MADE_FROM, RECORD, state
from support.late import late
from support.paths import ROOT, TESTS

from grue.leaderboard.published import read_board

acceptance = late("acceptance")
LOOKUPS = {"nearest", "template", "lexicon", "extract", "mbr"}

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md")])
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^()\s]+)\)")


@functools.cache
def text(path):
    return (ROOT / path).read_text(encoding="utf-8")


# --- links and names -------------------------------------------------------------------------------------------------


def anchors(page):
    """Return the anchors that GitHub gives a page's headings: lower case, blanks as hyphens, no other punctuation."""
    headings = re.findall(r"^#+ +(.+?) *$", FENCE.sub("", text(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page):
    for link in LINK.findall(FENCE.sub("", text(page))):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if re.match(r"\w+:", link):
            continue
        if not target.exists():
            yield f"{link}: no such file"
        elif anchor and (target.suffix != ".md" or anchor not in anchors(target)):
            yield f"{link}: no such heading"


def linked(page):
    return {(page.parent / link).resolve() for link in LINK.findall(text(page))}


def test_links_lead_to_files_and_headings(tmp_path):
    assert {page: found for page in PAGES if (found := list(broken_links(page)))} == {}
    (tmp_path / "other.md").write_text("# A `code` heading, twice?\n```\n# no heading\n```\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[a](other.md) [b](other.md#a-code-heading-twice) [c](#here) [d](https://example.org)\n"
        "[e](gone.md) [f](other.md#no-heading)\n[g](#there)\n```\n[h](gone.md)\n```\n"
    )
    broken = ["gone.md: no such file", "other.md#no-heading: no such heading", "#there: no such heading"]
    assert list(broken_links(page)) == broken


def test_indexes_list_every_page():
    pages = {*ROOT.glob("docs/*/*.md"), *ROOT.glob("docs/*/*.ipynb"), ROOT / "docs/architecture.md"}
    assert linked(ROOT / "docs/README.md") == pages
    algorithms = set(ROOT.glob("docs/reference/algorithms/*.md"))
    assert linked(ROOT / "docs/reference/algorithms.md") >= algorithms == set(ROOT.glob("docs/*/*/*.md"))


def test_pages_that_the_code_names_are_there():
    folders = ("grue", "benchmarks", "experiments", "tools", "tasks", "leaderboard", "submissions")
    files = [path for folder in folders for end in ("py", "toml", "md") for path in ROOT.glob(f"{folder}/**/*.{end}")]
    whole = "\n".join(text(path) for path in [*files, *ROOT.glob("*.md"), ROOT / "Makefile"])
    named = set(re.findall(r"\bdocs/[\w/-]+\.md\b", whole))
    assert named and {name for name in named if not (ROOT / name).is_file()} == set()


def test_files_that_pages_name_are_there():
    pattern = r"`((?:grue|tests|benchmarks|experiments|tools|tasks)/[\w/.-]+?)/?`"
    pages = {page: re.findall(pattern, FENCE.sub("", text(page))) for page in PAGES if page.name != "CHANGELOG.md"}
    assert any(pages.values())
    assert [(page, name) for page, names in pages.items() for name in names if not (ROOT / name).exists()] == []


def test_rooms_and_functions_of_the_architecture_are_there():
    page = text("docs/architecture.md")
    named = re.findall(r"`([\w/]+)\.py:([\w.]+)`", page)
    assert named
    for module, name in named:
        pkgutil.resolve_name(f"grue.{module.replace('/', '.')}:{name}")
    listed = re.findall(r"`(\w+)/?`", "\n".join(line.split("|")[1] for line in page.splitlines() if line[:3] == "| `"))
    rooms = {path.stem for path in (ROOT / "grue").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__", "__main__"} == {*listed}


@functools.cache
def functions_of(path):
    return {node.name for node in ast.walk(ast.parse(text(path))) if isinstance(node, ast.FunctionDef)}


def test_every_detail_of_exactness_has_a_place_and_a_proof_that_are_there():
    page = text("docs/reference/exactness.md")
    rows = re.findall(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \|$", page, flags=re.MULTILINE)
    assert [int(number) for number, *_ in rows] == list(range(1, 1 + len(rows))) != []
    for number, detail, place, proof in rows:
        assert detail.endswith(".") and re.search(r"`[\w.]+`", place), number
        assert re.search(r"`[\w/]*test_\w+\.py::test_\w+`", proof) or "at run time" in proof, number
    named = re.findall(r"`([\w/]*test_\w+\.py)::(test_\w+)`", page)
    assert [(file, name) for file, name in named if name not in functions_of(TESTS / file)] == []
    for name in {*re.findall(r"`([a-z]\w*(?:\.\w+)+)`", page)} - {"config.toml"}:
        pkgutil.resolve_name(f"grue.{name}")


def test_every_attack_that_trust_names_is_a_test_that_is_there():
    named = {*re.findall(r"`(test_\w+)`", text("docs/reference/trust.md"))}
    assert named and named <= {
        name
        for path in (TESTS / "submissions", TESTS / "docs")
        for file in path.glob("test_*.py")
        for name in functions_of(file)
    }


# --- commands --------------------------------------------------------------------------------------------------------

BLOCK = re.compile(r"^```(?:bash|console|)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CLUSTER = text("docs/how-to/cluster.md")


def commands(page):
    """Return the words of every call of grue in the blocks of a page, without what is only the shell's."""
    for line in "\n".join(BLOCK.findall(page)).replace("\\\n", " ").splitlines():
        if re.match(r"\s*(?:srun [^#]*?|wait [^#]*?&& )?grue (?!-)", line) and "…" not in line:
            words = shlex.split(re.sub(r"\$\w+", "1", line[line.index("grue ") :]), comments=True)
            ends = [words.index(sign) for sign in ("|", "||", "&", "&&", ">") if sign in words]
            yield words[1 : min(ends, default=len(words))]


def test_every_command_of_the_pages_can_be_typed(monkeypatch):
    """Names, options and choices are there; nothing is carried out."""
    from grue.cli.main import main

    monkeypatch.setattr(click.Command, "invoke", lambda command, context: None)

    def faults(page):
        return [(words, done.output) for words in commands(page) if (done := CliRunner().invoke(main, words)).exit_code]

    shown = [page for page in PAGES if page.name == "README.md" or page.is_relative_to(ROOT / "docs")]
    assert {page: found for page in shown if (found := faults(text(page)))} == {}
    assert len(list(commands(CLUSTER))) >= 10
    wrong = "```bash\ngrue trian --task imdb\ngrue train --algo ppo # no task\nsrun x grue sweep --sedes 1\ngrue plot\n```\n"
    assert len(faults(wrong)) == 4


def test_the_job_of_slurm_saves_and_queues_itself_again(tmp_path):
    """Slurm's SIGTERM reaches the run, the job waits for its end and is queued again; nothing is evaluated."""
    script = next(block for block in BLOCK.findall(CLUSTER) if "#SBATCH" in block)
    assert all(option in script for option in ("--array", "--requeue", "--signal=B:TERM@"))
    waits = 'trap "sleep 0.2; echo saved >> log; exit 0" TERM; sleep 0.3; echo "$1" >> log; sleep 600 & wait'
    for name, body in (("grue", waits), ("scontrol", 'echo "$@" >> log')):
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/activate").touch()
    slurm = {"SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": "2", "GRUE_RUNS": "runs"}
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    job = subprocess.Popen(["bash", "-c", script], env=os.environ | slurm | {"PATH": path}, cwd=tmp_path)
    log, limit = tmp_path / "log", time.monotonic() + 120
    while not log.exists() and time.monotonic() < limit:
        time.sleep(0.02)
    job.send_signal(signal.SIGTERM)
    job.wait(timeout=120)
    assert log.read_text().split("\n") == ["train", "saved", "requeue 77", ""]


# --- what is quoted --------------------------------------------------------------------------------------------------


def test_pictures_are_of_the_files_of_today():
    cure = "run `python tools/shoot_images.py`, look at docs/images, and commit them"
    assert json.loads(text(RECORD)) == {name: state(name) for name in MADE_FROM}, cure
    assert {path.name for path in IMAGES.glob("leaderboard*.png")} <= {*MADE_FROM}
    assert all((IMAGES / name).is_file() for name in MADE_FROM)


def test_the_table_of_the_findings_is_the_boards_with_the_decided_gains_in_bold():
    board = read_board(ROOT / "leaderboard/mini.json")
    rows, tasks = {row.system: row for row in board.rows}, [task.name for task in board.tasks]
    lines = [line.strip("| ").split(" | ") for line in text("docs/background/findings.md").splitlines()]
    (columns,) = [line[1:] for line in lines if line[0] == "preference"]
    assert columns == ["mean", *(f"`{task}`" for task in tasks)]
    (unlearned,) = [line[2:] for line in lines if line[0] == "best lookup"]
    shown = {
        line[0].strip("`"): line[1:] for line in lines if line[0].startswith("`") and len(line) == len(columns) + 1
    }
    ranked = [row for row in board.rows if row.standing == "ranked"]
    assert {*shown} == {row.system for row in ranked} | {"zero-shot"} | {name for name in rows if "best-of" in name}
    assert {system: cells[0] for system, cells in shown.items()} == {
        system: f"{rows[system].preference:.1f}" for system in shown
    }
    for column, task in enumerate(tasks):
        mean = {system: f"{row.cells[task].preference.mean:.1f}" for system, row in rows.items() if task in row.cells}
        highest, name = re.fullmatch(r"([\d.]+) \(`(.+)`\)", unlearned[column]).groups()
        assert mean[name] == highest == max((mean[one] for one in {*mean} & LOOKUPS), key=float)
        gains = {b if a == "supervised" else a: -sign if a == "supervised" else sign
                 for (a, b), sign in acceptance.signs(board, ranked, [task]).items() if "supervised" in (a, b)}  # fmt: skip
        for system, cells in shown.items():
            is_above = gains.get(system, 0) == 1
            assert cells[1 + column] == (f"**{mean[system]}**" if is_above else mean[system]), (system, task)
