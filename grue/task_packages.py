"""Suites that installed packages ship: an entry point in the group `grue.tasks` names a package that holds task files.

Looking for them imports no package: what lies in its folder is data.
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
"""The suites that are no package's."""
NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")


def installed_suites() -> list[str]:
    """Return the names of the suites that installed packages ship, sorted.

    Raises:
        ConfigError: A suite has a name that it cannot have, or two packages ship one of the same name.
    """
    return sorted(_entries())


def installed_folder(suite: str) -> Path | None:
    """Return the folder of a suite that an installed package ships, None where none does.

    Raises:
        ConfigError: Its package has no such folder; or as `installed_suites`.
    """
    entry = _entries().get(suite)
    return None if entry is None else _folder(entry)


def _entries() -> "dict[str, EntryPoint]":
    found = installed(GROUP, "suite")
    for name, entry in found.items():
        if name in RESERVED or not NAME.fullmatch(name):
            why = "is one of grue's own" if name in RESERVED else "is no folder's name in lower case"
            raise ConfigError(
                f"The installed package {escaped(entry.value)} offers a suite {name!a}, which {why}: rename the "
                f"entry point in its group {GROUP}, or uninstall it."
            )
    return found


def _folder(entry: "EntryPoint") -> Path:
    top, *inner = parts = entry.value.strip().split(".")
    spec = find_spec(top) if all(part.isidentifier() for part in parts) else None
    for place in (spec and spec.submodule_search_locations) or ():
        folder = Path(place, *inner)
        if folder.is_dir():
            return folder
    raise ConfigError(
        f"The suite {entry.name!r} should lie in the package {escaped(entry.value)}, which is not there or no folder: "
        f'in the group {GROUP}, write {entry.name} = "the package that holds its task files", and install it again.'
    )
