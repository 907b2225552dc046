"""docs/how-to/submitting.md: its commands work as written, from a run to a row of the board."""

import json
import re
import shutil
from pathlib import Path

import pytest
from support.paths import ROOT
from support.shell import bash as run

PAGE = (ROOT / "docs/how-to/submitting.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.slow


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
