"""tools/algorithms_page.py: a page for every algorithm there is, with what was written by hand kept."""

import json
import sys
from types import ModuleType

import pytest
from support.late import late
from support.paths import ROOT

algorithms_page, algorithms = late("algorithms_page"), late("grue.runs.algorithms")

DOCSTRING = """A method of tomorrow: its objective is x_1 − y_2.

What differs from the paper: nothing.

B = responses of an update, T = response time.
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty docs/reference, where pages are written of PPO alone."""
    (tmp_path / "algorithms.md").write_text(algorithms_page.BLANK.format(name="Algorithms"))
    monkeypatch.setattr(algorithms_page, "INDEX", tmp_path / "algorithms.md")
    monkeypatch.setattr(algorithms_page, "PAGES", tmp_path / "algorithms")
    monkeypatch.setattr(algorithms_page, "BUILT_IN", ("ppo",))
    return tmp_path


def write(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["algorithms_page.py", *arguments])
    algorithms_page.main()


def test_a_new_algorithm_gets_a_page_and_a_row(folder, monkeypatch):
    from grue.algorithms import reinforce

    write(monkeypatch)
    module = ModuleType("grue.algorithms.tomorrow", DOCSTRING)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(algorithms.ALGORITHMS._things, "tomorrow", reinforce.ALGORITHM)
    monkeypatch.setattr(algorithms_page, "BUILT_IN", ("ppo", "tomorrow"))
    write(monkeypatch)
    page = (folder / "algorithms/tomorrow.md").read_text()
    assert page.startswith("# tomorrow\n")
    assert "its objective is x_1 − y_2.\n\nWhat differs from the paper: nothing.\n\nCode: " in page
    assert "T = response time" not in page
    assert "\ngrue train --task commongen --algo supervised+tomorrow\n" in page and "data=FILE" not in page
    assert "The board has no row yet" in page
    assert "| [`tomorrow`](algorithms/tomorrow.md) |" in (folder / "algorithms.md").read_text()


def test_a_check_tells_what_is_stale_missing_or_of_no_algorithm_and_what_was_written_by_hand_stays(folder, monkeypatch):
    def refused(message):
        with pytest.raises(SystemExit, match=message):
            write(monkeypatch, "--check")

    write(monkeypatch)
    write(monkeypatch, "--check")
    page, other = folder / "algorithms/ppo.md", folder / "algorithms/pop.md"
    by_hand = "\n## Details\n\n- By hand.\n"
    whole = page.read_text()
    page.write_text(whole.replace("clip", "snip") + by_hand)
    refused(r"ppo.md is stale; run `python tools/algorithms_page.py`")
    assert "snip" in page.read_text()  # a check writes nothing
    page.rename(other)
    refused(r"ppo.md is missing; run")
    assert not page.exists()
    page.write_text(whole)
    refused(r"pop.md is of no algorithm; remove it")
    page.write_text(other.read_text())
    other.unlink()
    write(monkeypatch)
    assert page.read_text() == whole + by_hand


def test_a_page_has_the_means_of_the_board_and_every_figure(folder, monkeypatch):
    from logged_figures import figures_of

    names = ("supervised", "ppo", "grpo", "rloo", "dpo", "pro", "alol")
    monkeypatch.setattr(algorithms_page, "BUILT_IN", names)
    write(monkeypatch)
    board = json.loads((ROOT / "leaderboard/mini.json").read_text())
    (row,) = [row for row in board["rows"] if row["system"] == "supervised+grpo"]
    page = (folder / "algorithms/grpo.md").read_text()
    assert f": preference {row['preference']:.1f} ± " in page and f", naturalness {row['naturalness']:.1f} ± " in page
    claimed = {"rows": [row | {"standing": standing} for standing in ("ranked", "unverified")], "level": board["level"]}
    means = next(algorithms_page.results("grpo", claimed))
    assert "\n- `supervised+grpo`: " in means and "\n- `supervised+grpo` (unverified): " in means
    index = (folder / "algorithms.md").read_text()
    assert [name for name in figures_of("grpo") if f"| `{name}` | " not in page + index] == []
    rows = [line.removesuffix(" |").split(" | ") for line in index.splitlines() if "](algorithms/" in line]
    needs = {row[0].split("`")[1]: row[2:7] for row in rows}
    assert needs["supervised"] == ["–", "–", "–", "–", "–"]
    assert needs["ppo"] == ["yes", "yes", "yes", "any", "–"]
    assert needs["rloo"] == ["yes", "–", "yes", "2 or more", "–"]
    assert needs["dpo"] == ["yes", "–", "yes", "2 or more", "yes"]
    assert needs["pro"] == ["yes", "–", "–", "2 or more", "yes"]
    assert needs["alol"] == ["yes", "–", "yes", "any", "yes"]
