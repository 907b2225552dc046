"""What `make install` and the Dockerfile install, and from where."""

import json
import re
import subprocess

from support.paths import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
CPU = "https://download.pytorch.org/whl/cpu"


def installs(*variables: str) -> list[str]:
    """Return the calls of pip that `make install` would make in a new checkout."""
    shown = subprocess.run(
        ["make", "--dry-run", "--what-if", "pyproject.toml", "install", *variables],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in shown.stdout.splitlines() if " pip install " in line]


def test_torch_alone_comes_from_the_index_that_is_named():
    plain, chosen = installs(), installs(f"TORCH_INDEX={CPU}", "EXTRAS=plot")
    assert not any("index" in call for call in plain)
    assert plain[-1].endswith("--editable '.[dev]'")
    assert [f"--extra-index-url '{CPU}'" in call for call in chosen] == [False, True, False]
    assert chosen[1].endswith(" torch") and chosen[-1].endswith("--editable '.[plot]'")
    assert all("--constraint constraints.txt" in call for call in (*plain, *chosen))


def test_constraints_pin_one_version_of_each():
    pinned = [line.split("==")[0].lower().replace("_", "-") for line in _lines("constraints.txt") if "==" in line]
    assert "torch" in pinned and "zensical" in pinned and len(pinned) == len(set(pinned))


def test_the_image_runs_the_road_of_the_demo_as_no_root():
    steps = re.sub(r"\\\n", " ", DOCKERFILE)
    assert re.search(r'^RUN make install EXTRAS="\$EXTRAS" TORCH_INDEX="\$TORCH_INDEX"', steps, re.MULTILINE)
    assert steps.index("USER grue") < steps.index("RUN make install")
    assert 'CMD ["make", "demo"]' in steps
    assert f"ARG TORCH_INDEX={CPU}" in steps
    assert {".git", ".venv", "runs"} <= set(_lines(".dockerignore"))


def test_the_dev_container_installs_by_make():
    text = "\n".join(line for line in _lines(".devcontainer/devcontainer.json") if not line.startswith("//"))
    assert json.loads(text)["postCreateCommand"] == f"make install TORCH_INDEX={CPU}"


def _lines(path: str) -> list[str]:
    return (ROOT / path).read_text(encoding="utf-8").splitlines()
