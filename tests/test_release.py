"""What must agree before a release, and what `make install` and the Dockerfile install, and from where."""

import json
import re
import subprocess

import pytest
from release import problems, section
from support.paths import ROOT

CHANGELOG = "# Changelog\n\n## Unreleased\n\n{unreleased}\n## 1.2.0\n\n- Better.\n\n## 1.1.0\n\n- Good.\n"
CPU = "https://download.pytorch.org/whl/cpu"


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "grue").mkdir()
    (tmp_path / "grue" / "__init__.py").write_text('"""GRUE."""\n\n__version__ = "1.2.0"\n')
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 1.2.0\n")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG.format(unreleased=""))
    return tmp_path


def test_files_that_agree_may_go_out(checkout):
    assert problems(ROOT, None) == problems(checkout, None) == problems(checkout, "v1.2.0") == []
    assert section((checkout / "CHANGELOG.md").read_text(), "1.2.0") == "- Better."


def test_files_that_disagree_are_refused(checkout, refused):
    for name, text in (
        ("grue/__init__.py", '__version__ = "1.1.0"\n'),
        ("CITATION.cff", "version: 1.1.0\n"),
        ("CHANGELOG.md", "## 1.1.0\n\n- Good.\n\n## 1.2.0\n\n- Better.\n"),
        ("CHANGELOG.md", CHANGELOG.format(unreleased="- Best.\n")),
        ("CHANGELOG.md", "## 1.2.0\n\n## 1.1.0\n\n- Good.\n"),
    ):
        before = (checkout / name).read_text()
        (checkout / name).write_text(text)
        (problem,) = problems(checkout, "v1.2.0")
        refused.message(problem)
        (checkout / name).write_text(before)
    for tag in ("1.2.0", "v1.3.0"):
        refused.message("\n".join(problems(checkout, tag)))


def installs(*variables):
    """Return the calls of pip that `make install` would make in a new checkout."""
    command = ["make", "--dry-run", "--what-if", "pyproject.toml", "install", *variables]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in shown.stdout.splitlines() if " pip install " in line]


def test_torch_alone_comes_from_the_index_that_is_named():
    plain, chosen = installs(), installs(f"TORCH_INDEX={CPU}", "EXTRAS=plot")
    assert not any("index" in call for call in plain)
    assert plain[-1].endswith("--editable '.[dev]'")
    assert [f"--extra-index-url '{CPU}'" in call for call in chosen] == [False, True, False]
    assert chosen[1].endswith(" torch") and chosen[-1].endswith("--editable '.[plot]'")
    assert all("--constraint constraints.txt" in call for call in (*plain, *chosen))


def lines(path):
    return (ROOT / path).read_text(encoding="utf-8").splitlines()


def test_images_install_by_make_and_constraints_pin_one_version_of_each():
    steps = re.sub(r"\\\n", " ", "\n".join(lines("Dockerfile")))
    assert re.search(r'^RUN make install EXTRAS="\$EXTRAS" TORCH_INDEX="\$TORCH_INDEX"', steps, re.MULTILINE)
    assert steps.index("USER grue") < steps.index("RUN make install")  # no root
    assert 'CMD ["make", "demo"]' in steps and f"ARG TORCH_INDEX={CPU}" in steps
    assert {".git", ".venv", "runs"} <= set(lines(".dockerignore"))
    container = "\n".join(line for line in lines(".devcontainer/devcontainer.json") if not line.startswith("//"))
    assert json.loads(container)["postCreateCommand"] == f"make install TORCH_INDEX={CPU}"
    pinned = [line.split("==")[0].lower().replace("_", "-") for line in lines("constraints.txt") if "==" in line]
    assert "torch" in pinned and "zensical" in pinned and len(pinned) == len(set(pinned))


def test_a_checkout_of_git_for_windows_has_the_line_ends_that_were_hashed():
    """Its default, `core.autocrlf`, changed them: no row was verified, and every submission seemed tampered with."""
    assert lines(".gitattributes")[-1] == "* -text"
