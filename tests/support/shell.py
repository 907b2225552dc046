"""Scripts of bash, as a person would run them."""

import os
import subprocess
import sys
from pathlib import Path

from support.paths import ROOT

PERSON = {"NAME": "A. Author", "EMAIL": "author@example.org"}


def bash(folder: Path, script: str) -> str:
    """Run a script of bash as a person would, with grue on the path; every command must end well."""
    person = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in PERSON.items()}
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GRUE_", "GIT_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment | person | {"PATH": path, "GIT_CONFIG_GLOBAL": os.devnull, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
