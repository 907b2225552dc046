"""What must agree before a release."""

from pathlib import Path

import pytest
from release import problems, section

CHANGELOG = "# Changelog\n\n## Unreleased\n\n{unreleased}\n## 1.2.0\n\n- Better.\n\n## 1.1.0\n\n- Good.\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "grue").mkdir()
    (tmp_path / "grue" / "__init__.py").write_text('"""GRUE."""\n\n__version__ = "1.2.0"\n')
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 1.2.0\n")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG.format(unreleased=""))
    return tmp_path


def test_the_files_of_this_checkout_state_one_version() -> None:
    assert problems(Path(__file__).parent.parent, None) == []


def test_a_release_whose_files_agree_may_go_out(checkout: Path) -> None:
    assert problems(checkout, "v1.2.0") == []
    assert section((checkout / "CHANGELOG.md").read_text(), "1.2.0") == "- Better."


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("grue/__init__.py", '__version__ = "1.1.0"\n', "grue/__init__.py states version 1.1.0, not 1.2.0."),
        ("CITATION.cff", "version: 1.1.0\n", "CITATION.cff states version 1.1.0, not 1.2.0."),
        (
            "CHANGELOG.md",
            "## 1.1.0\n\n- Good.\n\n## 1.2.0\n\n- Better.\n",
            "CHANGELOG.md states version 1.1.0, not 1.2.0.",
        ),
        (
            "CHANGELOG.md",
            CHANGELOG.format(unreleased="- Best.\n"),
            "CHANGELOG.md has lines under Unreleased; move them under 1.2.0.",
        ),
        ("CHANGELOG.md", "## 1.2.0\n\n## 1.1.0\n\n- Good.\n", "CHANGELOG.md says nothing under 1.2.0."),
    ],
)
def test_a_release_whose_files_disagree_is_refused(checkout: Path, name: str, text: str, problem: str) -> None:
    (checkout / name).write_text(text)
    assert problems(checkout, "v1.2.0") == [problem]


def test_a_tag_begins_with_v_and_is_the_version(checkout: Path) -> None:
    assert problems(checkout, "1.2.0") == ["The tag 1.2.0 must be v1.2.0."]
    assert problems(checkout, "v1.3.0") == [
        "grue/__init__.py states version 1.2.0, not 1.3.0.",
        "CITATION.cff states version 1.2.0, not 1.3.0.",
        "CHANGELOG.md states version 1.2.0, not 1.3.0.",
        "CHANGELOG.md says nothing under 1.3.0.",
    ]
    assert problems(checkout, None) == []
