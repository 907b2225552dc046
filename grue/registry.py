"""Registries: names that users type, mapped to code."""

import os
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Generic, TypeVar

from grue.errors import ConfigError, UnknownName, instead

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

T = TypeVar("T")


class Registry(Generic[T]):
    """Things of one kind by name: passed in, loaded on demand, or offered by plug-ins.

    Args:
        noun: What the things are, for messages: "metric".
        things: Name → thing, for those that need no loading.
        modules: Name → "package.module:ATTRIBUTE", or "package.module:ATTRIBUTE[key]" of a dictionary there,
            imported when the name is looked up.
        entry_points: Group of installed entry points that offer more things: "grue.metrics".
        listed_by: The command that lists them, for messages.
        functions: Whether they are functions; what a plug-in offers that is none is refused.
    """

    def __init__(
        self,
        noun: str,
        things: Mapping[str, T] | None = None,
        modules: Mapping[str, str] | None = None,
        entry_points: str | None = None,
        listed_by: str = "",
        functions: bool = False,
    ) -> None:
        self.noun = noun
        self.listed_by, self.functions = listed_by, functions
        self._things = dict(things or {})
        self._modules = dict(modules or {})
        self._entry_points = entry_points

    def names(self) -> list[str]:
        """Return every known name, sorted, plug-ins included."""
        return sorted({*self._things, *self._modules, *self._plugins()})

    def built_in(self) -> list[str]:
        """Return the known names that no plug-in offers, sorted; loads nothing."""
        return sorted({*self._things, *self._modules} - self._plugins().keys())

    def __contains__(self, name: str) -> bool:
        """Whether the name is registered; loads nothing."""
        return name in self._things or name in self._modules or name in self._plugins()

    def __getitem__(self, name: str) -> T:
        """Return the thing called `name`.

        Raises:
            UnknownName: There is none; the message has the nearest.
            ConfigError: Two installed packages offer a thing of that name, or one offers what cannot be loaded.
        """
        if name in self._things:
            return self._things[name]
        if name in self._modules:
            module, _, attribute = self._modules[name].partition(":")
            attribute, _, key = attribute.removesuffix("]").partition("[")
            imported = import_module(module)
            if not hasattr(imported, attribute):
                raise UnknownName(f"There is no {self.noun} {name!r}: {module} does not define {attribute!r}.")
            thing = getattr(imported, attribute)
            self._things[name] = thing[key] if key else thing
            return self._things[name]
        plugins = self._plugins()
        if name not in plugins:
            raise UnknownName(f"There is no {self.noun} {name!r}.{instead(name, self.names(), self.listed_by)}")
        offer = f"The {self.noun} {name!r} is {plugins[name].value} of an installed package, which"
        try:
            thing = plugins[name].load()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise ConfigError(f"{offer} cannot be loaded: {reason}. Mend or uninstall the package.") from error
        if self.functions and not callable(thing):
            raise ConfigError(f"{offer} is a {type(thing).__name__} and no function. Mend or uninstall the package.")
        self._things[name] = thing
        return self._things[name]

    def _plugins(self) -> "dict[str, EntryPoint]":
        return installed(self._entry_points, self.noun) if self._entry_points else {}


def installed(group: str, noun: str) -> "dict[str, EntryPoint]":
    """Return the entry points of installed packages in a group, by name; loads nothing."""
    offered: dict[str, EntryPoint] = {}
    for entry in _offered(group, _places()):
        if offered.setdefault(entry.name, entry).value != entry.value:
            raise ConfigError(
                f"Two installed packages offer a {noun} {entry.name!r}: {offered[entry.name].value} and "
                f"{entry.value}; uninstall one of them."
            )
    return offered


@lru_cache
def _offered(group: str, places: tuple[tuple[str, int], ...]) -> "EntryPoints":
    from importlib.metadata import entry_points

    # Reading the metadata of all distributions takes tens of milliseconds, and a sweep looks names up for each cell.
    return entry_points(group=group)


def _places() -> tuple[tuple[str, int], ...]:
    """Return the folders of installed packages, and when each was last changed, in ns."""
    return tuple((place, os.stat(place).st_mtime_ns) for place in sys.path if os.path.exists(place))
