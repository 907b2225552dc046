"""Which tests of what is frozen must run: `python tools/frozen.py` lists them, `--passed` records that all have passed.

The folders below hold tests of files that change rarely. `make test` and `make test-slow` leave a folder out while what
it reads has the hash at which its tests last passed, kept in `tests/frozen.json`. `make test-frozen` runs them always.
The package is not among what they read: its own tests guard it, and the schedule of CI runs these, too.
"""

import argparse
import hashlib
import json
from pathlib import Path

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "tests" / "frozen.json"
READ = {
    "miniworld": ("miniworld", "grue/mini", "tasks/mini"),
    "experiments": (
        "experiments",
        "benchmarks/*.py",
        "docs/background",
        "docs/reference",
        "leaderboard/*.json",
        "submissions/mini",
        "tasks",
    ),
    "walkthroughs": (
        "docs/how-to",
        "docs/notebooks",
        "docs/reference",
        "submissions/README.md",
        "tools/papers.py",
        "tools/run_notebooks.py",
    ),
}
"""Folder of tests → what they read beside themselves and `SHARED`: files and folders, by glob."""
SHARED = ("tests/conftest.py", "tests/support")


def digest(name: str) -> str:
    """Return the sha256 of the paths and contents of a folder of tests and of what they read."""
    found = {
        file
        for pattern in (f"tests/{name}", *SHARED, *READ[name])
        for path in ROOT.glob(pattern)
        for file in (path.rglob("*") if path.is_dir() else (path,))
        if file.is_file() and "__pycache__" not in file.parts and ".ipynb_checkpoints" not in file.parts
    }
    whole = hashlib.sha256()
    for file in sorted(found):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        whole.update(f"{content} {file.relative_to(ROOT).as_posix()}\n".encode())
    return whole.hexdigest()


def unchanged() -> list[str]:
    """Return the folders of which nothing changed since their tests passed."""
    record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    return [name for name in READ if record.get(name) == digest(name)]


def main() -> None:
    """Print what is unchanged, or record what has passed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--passed", action="store_true", help="record the hashes of now")
    if parser.parse_args().passed:
        record = {name: digest(name) for name in READ}
        RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    same = unchanged()
    for name in READ:
        print(f"tests/{name}: {'unchanged' if name in same else 'changed, to be run'}")


if __name__ == "__main__":
    main()
