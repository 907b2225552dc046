"""Suites of installed packages: an entry point in the group `grue.tasks` names a package with task files.

The packages are not imported: their folders are read as data.
"""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from grue.errors import ConfigError, escaped
from grue.registry import installed

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "grue.tasks"
RESERVED = ("mini", "small", "grue", "own")
"""Names that suites of packages cannot have."""
NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")


def installed_suites() -> list[str]:
    """Return the names of the suites of installed packages, sorted.

    Raises:
        ConfigError: A suite has an invalid name, or two packages have suites of the same name.
    """
    return sorted(_entries())


def installed_folder(suite: str) -> Path | None:
    """Return the folder of an installed package's suite, or None if there is none.

    Raises:
        ConfigError: Its package has no such folder; or as `installed_suites`.
    """
    entry = _entries().get(suite)
    if entry is None:
        return None
    top, *inner = parts = entry.value.strip().split(".")
    spec = find_spec(top) if all(part.isidentifier() for part in parts) else None
    for place in (spec and spec.submodule_search_locations) or ():
        folder = Path(place, *inner)
        if folder.is_dir():
            return folder
    raise ConfigError(
        f"The suite {entry.name!r} should be in the package {escaped(entry.value)}, which is missing or not a folder: "
        f'in the group {GROUP}, write {entry.name} = "the package that holds its task files", and install it again.'
    )


def _entries() -> "dict[str, EntryPoint]":
    entries = installed(GROUP, "suite")
    for name, entry in entries.items():
        if name in RESERVED or not NAME.fullmatch(name):
            reason = "is one of grue's own" if name in RESERVED else "is not a folder name in lower case"
            raise ConfigError(
                f"The installed package {escaped(entry.value)} offers a suite {name!a}, which {reason}: rename the "
                f"entry point in its group {GROUP}, or uninstall it."
            )
    return entries
