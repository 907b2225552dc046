"""The code behind a result: grue's version and commit, and the packages that its numbers depend on."""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import grue

PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "sacrebleu", "rouge-score", "nltk")
CODE = ("grue", "tasks", "pyproject.toml")
"""Paths that can change a result; a user's own files cannot."""


def code_version() -> dict[str, Any]:
    """Return version, commit and whether the code has changed since; no commit outside a checkout or without git."""
    root = Path(grue.__file__).parent.parent
    if not (root / ".git").exists() or shutil.which("git") is None:
        return {"version": grue.__version__, "commit": "", "dirty": False}
    return {
        "version": grue.__version__,
        "commit": _git(root, "rev-parse", "HEAD"),
        "dirty": bool(_git(root, "status", "--porcelain", "--", *CODE)),
    }


def _git(root: Path, *arguments: str) -> str:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, env=environment)
    return done.stdout.decode("utf-8", "replace").strip()


def code_is_changed() -> bool:
    """Whether code that can change a result differs from the checkout's commit; False outside a checkout."""
    return bool(code_version()["dirty"])


def machine(device: str, threads: int) -> str:
    """Return the kind of this machine in words: system, processor, device and threads."""
    kind = platform.processor() or platform.machine()
    cpus = Path("/proc/cpuinfo")
    if cpus.is_file():
        named = re.search(r"^model name\s*: (.+)$", cpus.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
        kind = named[1] if named else kind
    if device.startswith("cuda"):
        import torch

        device = f"{torch.cuda.get_device_name(device)} ({device})"
    return f"{platform.system()} {platform.machine()}, {kind}, {device}, {threads} thread{'s' if threads > 1 else ''}"


def package_versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Return the versions of packages, by default those that can change a score, and of Python."""
    return {name: version(name) for name in packages} | {"python": platform.python_version()}
