"""Which code made a result: grue's own version and commit, and the packages that its numbers depend on."""

import os
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grue

PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "sacrebleu", "rouge-score", "nltk")
CODE = ("grue", "tasks", "pyproject.toml")
"""What can change a result; a user's own files beside it cannot."""


def code_version() -> dict[str, Any]:
    """Return version, commit and whether the code was changed since; commit is empty outside a checkout."""
    root = Path(grue.__file__).parent.parent
    if not (root / ".git").exists():
        return {"version": grue.__version__, "commit": "", "dirty": False}
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, env=environment)
        return done.stdout.strip()

    return {
        "version": grue.__version__,
        "commit": git("rev-parse", "HEAD"),
        "dirty": bool(git("status", "--porcelain", "--", *CODE)),
    }


def package_versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Return the versions of packages, by default of those that can change a score, and of Python."""
    return {name: version(name) for name in packages} | {"python": platform.python_version()}
