"""README.md: its table is that of the board and of the findings."""

import json
import re

from support.paths import ROOT

from grue.records import BASELINES

README = (ROOT / "README.md").read_text(encoding="utf-8")
FINDINGS = (ROOT / "docs/background/findings.md").read_text(encoding="utf-8")
BOARD = json.loads((ROOT / "leaderboard/mini.json").read_text(encoding="utf-8"))
UNLEARNED = {*BASELINES} - {"zero-shot", "oracle"}
TRAINED = ("supervised+ppo", "supervised+nlpo", "supervised+grpo")


def test_the_table_is_the_board_s() -> None:
    cells = {row["system"]: row["cells"] for row in BOARD["rows"]}
    rows = [re.findall(r"[^|`*() ]+(?: [^|`*() ]+)*", line) for line in README.splitlines() if line.startswith("| `")]
    shown = {row[0]: row[1:] for row in rows if len(row) == 8}
    assert sorted(shown) == sorted(task["name"] for task in BOARD["tasks"])
    for task, (highest, unlearned, *others) in shown.items():
        means = {system: f"{of[task]['preference']['mean']:.1f}" for system, of in cells.items() if task in of}
        assert means[unlearned] == highest
        assert float(highest) == max(float(means[name]) for name in {*means} & {*UNLEARNED})
        assert others == [means[system] for system in ("zero-shot", "supervised", *TRAINED)]


def test_bold_are_the_gains_of_the_findings() -> None:
    gains = re.findall(r"^\| (\w+) \| `(supervised\+\w+)` \| [^|]+ \| [^|]+ \| (\*\*)?\+", FINDINGS, re.MULTILINE)
    bold = {(task, system) for task, system, sure in gains[:21] if sure}
    for line in README.splitlines():
        if line.startswith("| `") and line.count("|") == 8:
            task, *_, ppo, nlpo, grpo = (cell.strip() for cell in line.strip("|").split("|"))
            for system, cell in zip(TRAINED, (ppo, nlpo, grpo), strict=True):
                assert cell.startswith("**") == ((task.strip("`"), system) in bold), (task, system)
