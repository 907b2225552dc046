"""Check that a release states one version, and print its notes: `python tools/release.py [TAG]`.

The tag `v1.2.3`, `grue.__version__`, CITATION.cff and the newest released section of CHANGELOG.md must agree, and
nothing may be left under "Unreleased". Without TAG the files are compared with one another, whatever is unreleased.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def stated_versions(root: Path) -> dict[str, str]:
    """Return file → the version that it states.

    Raises:
        ValueError: A file states none.
    """
    patterns = {
        "grue/__init__.py": r'^__version__ = "(.+)"$',
        "CITATION.cff": r"^version: (.+)$",
        "CHANGELOG.md": r"^## (\d.*)$",
    }
    found = {}
    for name, pattern in patterns.items():
        match = re.search(pattern, (root / name).read_text(encoding="utf-8"), re.MULTILINE)
        if match is None:
            raise ValueError(f"{root / name} states no version.")
        found[name] = match[1]
    return found


def section(changelog: str, title: str) -> str:
    """Return the text of a section of the changelog; "" if it is empty or absent."""
    match = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return "" if match is None else match[1].strip()


def problems(root: Path, tag: str | None) -> list[str]:
    """Return what is in the way of a release with that tag."""
    versions = stated_versions(root)
    version = versions["grue/__init__.py"] if tag is None else tag.removeprefix("v")
    found = [
        f"{name} states version {stated}, not {version}." for name, stated in versions.items() if stated != version
    ]
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if tag is not None and not tag.startswith("v"):
        found.append(f"The tag {tag} must be v{tag}.")
    if tag is not None and section(changelog, "Unreleased"):
        found.append(f"CHANGELOG.md has lines under Unreleased; move them under {version}.")
    if not section(changelog, version):
        found.append(f"CHANGELOG.md says nothing under {version}.")
    return found


def main() -> None:
    """Print the notes of the release, or what is in its way."""
    tag = sys.argv[1] if len(sys.argv) > 1 else None
    if found := problems(ROOT, tag):
        sys.exit("\n".join(found))
    print(section((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), stated_versions(ROOT)["CHANGELOG.md"]))


if __name__ == "__main__":
    main()
